//! Which size a cluster is to have now. Pure.

use super::{Size, Sizes};
use jiff::{SignedDuration, Timestamp};

/// What is known of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The size that its status says it has, and since when.
    pub size: Option<(&'a str, Timestamp)>,
    /// The size that its label says.
    pub label: Option<&'a str>,
    /// The other size that its status says it should have, and since when.
    pub wanted: Option<(&'a str, Timestamp)>,
    /// Nothing: it cannot be told at the moment.
    pub nodes: Option<u32>,
    /// The size that somebody wants it to have.
    pub forced: Option<&'a str>,
}

/// Why a change waits, and until when if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The number of nodes has not lasted.
    Delay { increase: bool, delay: SignedDuration, until: Timestamp },
    /// Too many clusters have changed.
    Limit { limit: usize, window: SignedDuration, until: Timestamp },
}

impl Why {
    pub fn until(&self) -> Timestamp {
        match self {
            Why::Delay { until, .. } | Why::Limit { until, .. } => *until,
        }
    }
}

/// What is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It has the size it should have. `unknown`: somebody wants another that there is not.
    Stays { size: String, unknown: Option<String> },
    /// It keeps its size for now.
    Waits { size: String, wanted: String, why: Why },
    /// It has this size from now on. `first`: it had none.
    Becomes { size: String, at: Timestamp, first: bool },
    /// There is nothing to go by, and nothing changes.
    Undecided,
}

/// The wish of a cluster before others are asked.
enum Wish<'a> {
    Done(Decision),
    Change { from: &'a str, to: &'a Size },
}

fn wish<'a>(observed: &Observed<'a>, sizes: &'a Sizes, now: Timestamp) -> Wish<'a> {
    let forced = observed.forced.filter(|f| !f.is_empty());
    let unknown = forced.filter(|f| sizes.get(f).is_none());
    let Some((has, _)) = observed.size else {
        // One that comes from elsewhere keeps what it had.
        let kept = observed.label.and_then(|l| sizes.get(l));
        let by_nodes = || sizes.of(observed.nodes.unwrap_or(0));
        let size = kept.or_else(|| forced.and_then(|f| sizes.get(f))).or_else(by_nodes);
        return Wish::Done(size.map_or(Decision::Undecided, |s| Decision::Becomes {
            size: s.name.clone(),
            at: now,
            first: true,
        }));
    };
    let stays = || Decision::Stays { size: has.to_owned(), unknown: unknown.map(str::to_owned) };
    let to = match (forced, unknown) {
        // A size that there is not any more cannot be kept, whoever wants what.
        (_, Some(_)) if sizes.get(has).is_some() => return Wish::Done(stays()),
        (Some(f), None) => sizes.get(f),
        _ => observed.nodes.and_then(|n| sizes.of(n)),
    };
    match to {
        None => Wish::Done(stays()),
        Some(to) if to.name == has => Wish::Done(stays()),
        Some(to) => Wish::Change { from: has, to },
    }
}

/// Decides. `recent` gives the times of changes of any cluster, this one included; it is asked only if it matters.
pub fn plan(
    observed: &Observed<'_>,
    sizes: &Sizes,
    recent: impl FnOnce() -> Vec<Timestamp>,
    now: Timestamp,
) -> Decision {
    let (from, to) = match wish(observed, sizes, now) {
        Wish::Done(decision) => return decision,
        Wish::Change { from, to } => (from, to),
    };
    let waits = |why| Decision::Waits { size: from.to_owned(), wanted: to.name.clone(), why };
    // A size that is not configured any more is left without delay: nobody knows what it meant.
    if let Some(before) = sizes.get(from) {
        let increase = before.criteria.from < to.criteria.from;
        let delay = if increase { sizes.increase } else { sizes.decrease };
        let since = observed.wanted.filter(|(size, _)| *size == to.name).map_or(now, |(_, since)| since);
        let until = since.saturating_add(delay).unwrap_or(Timestamp::MAX);
        if now < until {
            return waits(Why::Delay { increase, delay, until });
        }
    }
    let begin = now.saturating_sub(sizes.window).unwrap_or(Timestamp::MIN);
    let mut lately: Vec<Timestamp> = recent().into_iter().filter(|t| *t > begin).collect();
    lately.sort_unstable();
    // The change that has to leave the window so that there is room for one.
    if let Some(oldest) = lately.len().checked_sub(sizes.limit).and_then(|i| lately.get(i)) {
        let until = oldest.saturating_add(sizes.window).unwrap_or(Timestamp::MAX);
        return waits(Why::Limit { limit: sizes.limit, window: sizes.window, until });
    }
    Decision::Becomes { size: to.name.clone(), at: now, first: false }
}
