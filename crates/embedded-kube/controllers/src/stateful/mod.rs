//! Stateful sets: pods with names, an order and volumes of their own.

mod claims;
mod plan;

use crate::events::{self, Note};
use crate::objects::{is_deleting, put_status, text, until};
use crate::whom::{Owners, selector_of};
use crate::{MANAGER, pods, revisions, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion};
use futures::future::BoxFuture;
use plan::{Shape, Step};
use serde_json::Value;

const COMPONENT: &str = "statefulset-controller";

const OWNERS: Owners =
    Owners { kind: "StatefulSet", group: "apps", table: || &tables::STATEFUL_SETS, selector: selector_of };

pub struct StatefulSets;

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["apps/statefulsets", "/pods"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        OWNERS.of(access, delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }
}

async fn run(access: &Access, key: &str) -> Result<Outcome, Status> {
    let (namespace, name) = split(key);
    let Some(set) = access.get(&tables::STATEFUL_SETS, namespace, name) else { return Ok(Outcome::Done) };
    let Some(selector) = selector_of(&set) else { return Ok(Outcome::Done) };
    let shape = Shape::of(&set);
    let mut claim = pods::claim(access, namespace, object::uid(&set), &selector);
    // Only pods with its names can be its own.
    claim.adopt.retain(|p| plan::ordinal(name, &p.name).is_some());
    let deleting = is_deleting(&set);
    let mine = if deleting { claim.mine } else { pods::settle_claim(access, &set, claim).await? };
    let all = if deleting {
        let update = Value::Null;
        revisions::Revisions { all: Vec::new(), update }
    } else {
        revisions::sync(access, &set, "controller.kubernetes.io/hash").await?
    };
    let update = match object::name(&all.update) {
        "" => text(&set, "/status/updateRevision"),
        name => name,
    };
    // The first revision is both; one that was trimmed can no longer be gone back to.
    let current = all.all.iter().find(|r| object::name(r) == text(&set, "/status/currentRevision"));
    let current = current.unwrap_or(&all.update);
    let (now, mut next) = (access.now(), None);
    let mut failed = None;
    if !deleting {
        let plan = plan::plan(&shape, name, &mine, update, now);
        next = plan.at;
        claims::keep(access, &set, &shape, &mine).await?;
        for step in &plan.steps {
            let note = match step {
                Step::Create { ordinal, current: old } => {
                    let revision = if *old { current } else { &all.update };
                    create(access, &set, revision, *ordinal).await
                }
                Step::Delete { name } => delete(access, &set, &mine, name).await,
            };
            match note {
                Ok(note) => events::tell(access, COMPONENT, &set, &note).await,
                Err((note, e)) => {
                    events::tell(access, COMPONENT, &set, &note).await;
                    failed = failed.or(Some(e));
                }
            }
        }
        let live = |r: &Value| {
            let name = object::name(r);
            name == object::name(current)
                || mine.iter().any(|p| p.label("controller-revision-hash") == Some(name))
        };
        revisions::trim(access, &set, &all, live).await?;
    }
    let status = plan::status(&set, &shape, &mine, object::name(current), update, now);
    let write = |o: &mut Value| object::uid(o) == object::uid(&set) && put_status(o, &status);
    match access.update(&tables::STATEFUL_SETS, namespace, name, "status", write).await {
        Err(e) if e.code != 404 => return Err(e),
        _ => {}
    }
    match (failed, next) {
        (Some(e), _) => Err(e),
        (None, Some(at)) => Ok(Outcome::After(until(now, at))),
        (None, None) => Ok(Outcome::Done),
    }
}

type Told = Result<Note, (Note, Status)>;

async fn create(access: &Access, set: &Value, revision: &Value, ordinal: i64) -> Told {
    let name = object::name(set);
    let pod = plan::pod(set, &revisions::template(revision), object::name(revision), ordinal);
    let pod_name = object::name(&pod).to_owned();
    let told = |what: &str, e: &Status| {
        let text = format!("create {what} in StatefulSet {name} failed error: {}", e.message);
        Note::warning("FailedCreate", text)
    };
    for note in claims::create(access, set, ordinal)
        .await
        .map_err(|e| (told(&format!("Claim of Pod {pod_name}"), &e), e))?
    {
        events::tell(access, COMPONENT, set, &note).await;
    }
    match access.create(&tables::PODS, pod).await {
        Ok(_) => {
            let text = format!("create Pod {pod_name} in StatefulSet {name} successful");
            Ok(Note::normal("SuccessfulCreate", text))
        }
        Err(e) => Err((told(&format!("Pod {pod_name}"), &e), e)),
    }
}

async fn delete(access: &Access, set: &Value, pods: &[pods::Pod], pod: &str) -> Told {
    let name = object::name(set);
    let uid = pods.iter().find(|p| p.name == pod).map(|p| p.uid.as_str());
    let how = Deletion { uid, ..Deletion::default() };
    match access.delete(&tables::PODS, object::namespace(set), pod, how).await {
        Ok(()) => {
            let text = format!("delete Pod {pod} in StatefulSet {name} successful");
            Ok(Note::normal("SuccessfulDelete", text))
        }
        Err(e) => {
            let text = format!("delete Pod {pod} in StatefulSet {name} failed error: {}", e.message);
            Err((Note::warning("FailedDelete", text), e))
        }
    }
}
