//! `kubectl logs`.

use super::container;
use crate::pods::{Log, LogLine};
use crate::verbs::Call;
use crate::wire::respond::{self, Reply};
use bytes::Bytes;
use ek_meta::{FieldError, FieldPath, Status, object, time};
use futures::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

struct Options {
    tail: Option<usize>,
    since: Option<Timestamp>,
    timestamps: bool,
    limit: usize,
}

fn options(call: &Call) -> Result<Options, Status> {
    let p = &call.params;
    let mut errors = Vec::new();
    let mut at_least = |name: &str, least: i64| -> Result<Option<i64>, Status> {
        let value = p.int(name)?;
        if let Some(v) = value.filter(|v| *v < least) {
            let text = format!("must be greater than or equal to {least}");
            errors.push(FieldError::invalid(&FieldPath::new(name), v, &text));
        }
        Ok(value)
    };
    let tail = at_least("tailLines", 0)?;
    let limit = at_least("limitBytes", 1)?;
    let seconds = at_least("sinceSeconds", 1)?;
    let since_time = p.get("sinceTime");
    if seconds.is_some() && since_time.is_some() {
        let text = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&FieldPath::new(""), text));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", &call.info.name, &errors));
    }
    let ago = |s: i64| call.cluster.now().checked_sub(SignedDuration::from_secs(s)).ok();
    let size = |v: i64| usize::try_from(v).unwrap_or(usize::MAX);
    Ok(Options {
        tail: tail.map(size),
        since: seconds.and_then(ago).or_else(|| since_time.and_then(time::parse)),
        timestamps: p.flag("timestamps"),
        limit: limit.map_or(usize::MAX, size),
    })
}

pub(super) fn run(call: &Call, pod: Value) -> Result<Reply, Status> {
    let options = options(call)?;
    let at = container(call, pod)?;
    let (previous, follow) = (call.params.flag("previous"), call.params.flag("follow"));
    waiting(&at.pod, &at.container, previous)?;
    let log = call.cluster.pods.get().logs(&at, previous, follow)?;
    let stop = call.ending();
    let lines = limited(shown(log, &options), options.limit);
    Ok(respond::stream("text/plain", lines.take_until(stop)))
}

/// A container that has not run has no log.
fn waiting(pod: &Value, container: &str, previous: bool) -> Result<(), Status> {
    let name = object::name(pod);
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().filter_map(|l| pod["status"][l].as_array()).flatten();
    let status = all.find(|s| s["name"] == container);
    let last = status.is_some_and(|s| s["lastState"]["terminated"].is_object());
    if previous {
        if last {
            return Ok(());
        }
        let text = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(Status::bad_request(text));
    }
    let waits = status.is_none_or(|s| s["state"]["waiting"].is_object());
    if waits && !last {
        let reason = status.and_then(|s| s["state"]["waiting"]["reason"].as_str());
        let text = format!(
            "container {container:?} in pod {name:?} is waiting to start: {}",
            reason.unwrap_or("ContainerCreating")
        );
        return Err(Status::bad_request(text));
    }
    Ok(())
}

fn line(l: LogLine, timestamps: bool) -> Bytes {
    if !timestamps {
        return l.text;
    }
    // Nanoseconds, as a container runtime writes them.
    let nanos = l.at.subsec_nanosecond();
    let second = time::rfc3339(l.at);
    let mut text = format!("{}.{nanos:09}Z ", second.trim_end_matches('Z')).into_bytes();
    text.extend_from_slice(&l.text);
    text.into()
}

fn shown(log: Log, o: &Options) -> impl Stream<Item = Bytes> + Send + 'static {
    let mut lines = log.lines;
    if let Some(since) = o.since {
        lines.retain(|l| l.at >= since);
    }
    if let Some(tail) = o.tail {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let timestamps = o.timestamps;
    let more = log.more.unwrap_or_else(|| futures::stream::empty().boxed());
    futures::stream::iter(lines).chain(more).map(move |l| line(l, timestamps))
}

/// Stops after so many bytes, in the middle of a line if need be.
fn limited(
    lines: impl Stream<Item = Bytes> + Send + 'static,
    limit: usize,
) -> impl Stream<Item = Bytes> + Send {
    lines.scan(limit, |left, b| {
        let take = b.len().min(*left);
        *left -= take;
        std::future::ready((take > 0).then(|| b.slice(..take)))
    })
}
