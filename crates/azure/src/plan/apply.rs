//! Looking before, and doing after: the two sides of a plan that talk to Azure.

use super::{Action, Goal, Observed, Plan, Step, version};
use crate::lro::{Lro, Operation};
use crate::pipeline::{Call, Client, Error, Service};
use arm::ResourceId;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered};
use http::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between looks at a resource that somebody else is provisioning.
const AWAIT: Duration = Duration::from_secs(5);

/// Fetches everything that a goal mentions. All failures are returned, not only the first.
pub async fn observe(
    client: &Client,
    goal: &Goal,
    parallel: usize,
) -> std::result::Result<Observed, Vec<(ResourceId, Error)>> {
    let asked = goal.targets().map(|(id, v)| {
        let (client, id, v) = (client.clone(), id.clone(), version(id, v).ok());
        async move {
            let Some(v) = v else { return (id, Ok(None)) };
            let found = match client.send(Call::get(format!("{id}?api-version={v}"))).await {
                Ok(answer) => Ok(answer.json()),
                Err(e) if crate::ops::absent(&e) => Ok(None),
                Err(e) => Err(e),
            };
            (id, found)
        }
    });
    let asked: Vec<_> = asked.collect();
    let all: Vec<_> = stream::iter(asked).buffer_unordered(parallel.max(1)).collect().await;
    let (mut observed, mut failed) = (Observed::new(), Vec::new());
    for (id, found) in all {
        match found {
            Ok(Some(body)) => drop(observed.insert(id, body)),
            Ok(None) => {}
            Err(e) => failed.push((id, e)),
        }
    }
    if failed.is_empty() { Ok(observed) } else { Err(failed) }
}

/// Who does one step. The client does; tests of the order have hands of their own.
pub trait Hands: Sync {
    /// What the resource is afterwards, if it still is.
    fn perform<'a>(
        &'a self,
        step: &'a Step,
        body: Option<Value>,
    ) -> BoxFuture<'a, std::result::Result<Option<Value>, Error>>;
}

impl Hands for Client {
    fn perform<'a>(
        &'a self,
        step: &'a Step,
        body: Option<Value>,
    ) -> BoxFuture<'a, std::result::Result<Option<Value>, Error>> {
        Box::pin(async move {
            let target = format!("{}?api-version={}", step.id, step.api_version);
            let call = match (&step.action, body) {
                (Action::Keep, _) => return Ok(None),
                (Action::Await, _) => {
                    let url = self.resolve(&Service::Arm, &target)?;
                    return self
                        .resume::<Value>(Lro::watch(url.as_str(), AWAIT.min(self.poll_default())))
                        .wait_raw()
                        .await;
                }
                (Action::Delete, _) => Call::new(Method::DELETE, target),
                (Action::Change { etag: Some(etag), .. }, Some(body)) => {
                    Call::new(Method::PUT, target).body(body).header("if-match", etag)
                }
                (_, body) => Call::new(Method::PUT, target).body(body.unwrap_or_default()),
            };
            let deletes = step.action == Action::Delete;
            let begun: std::result::Result<Operation<Value>, Error> = self.begin(call).await;
            match begun {
                Ok(mut operation) => operation.wait_raw().await.map(|v| v.filter(|_| !deletes)),
                Err(e) if deletes && crate::ops::absent(&e) => Ok(None),
                Err(e) => Err(e),
            }
        })
    }
}

/// How a step went.
#[derive(Debug)]
pub enum Result {
    Created,
    Kept,
    Changed,
    Deleted,
    Failed(Error),
    /// Something that it waits for did not succeed.
    Skipped {
        because: ResourceId,
    },
}

impl Result {
    pub fn is_good(&self) -> bool {
        !matches!(self, Result::Failed(_) | Result::Skipped { .. })
    }
}

/// How it all went, in the order of the plan, and what was written looks like now.
#[derive(Debug, Default)]
pub struct Report {
    pub results: Vec<(ResourceId, Result)>,
    pub resources: BTreeMap<ResourceId, Value>,
}

impl Report {
    pub fn is_good(&self) -> bool {
        self.results.iter().all(|(_, r)| r.is_good())
    }

    pub fn failures(&self) -> impl Iterator<Item = (&ResourceId, &Error)> {
        self.results.iter().filter_map(|(id, r)| match r {
            Result::Failed(e) => Some((id, e)),
            _ => None,
        })
    }

    /// A value of a resource as it is after the plan.
    pub fn value(&self, id: &ResourceId, at: &str) -> Option<&Value> {
        self.resources.get(id)?.pointer(at)
    }
}

/// Replaces references in a body by what `find` gives; `false` if one was not found.
pub(super) fn substitute(body: &mut Value, find: &mut dyn FnMut(&ResourceId, &str) -> Option<Value>) -> bool {
    if let Some(target) = body.get("$ref") {
        let id = target["id"].as_str().and_then(|i| ResourceId::parse(i).ok());
        let (Some(id), Some(at)) = (id, target["at"].as_str()) else { return false };
        return match find(&id, at) {
            Some(v) => {
                *body = v;
                true
            }
            None => false,
        };
    }
    match body {
        // All of them, also after one that was not found: what is missing is to be seen at once.
        Value::Array(l) => l.iter_mut().filter_map(|v| (!substitute(v, find)).then_some(())).count() == 0,
        Value::Object(m) => m.values_mut().filter_map(|v| (!substitute(v, find)).then_some(())).count() == 0,
        _ => true,
    }
}

/// What happens while a plan is applied.
#[derive(Debug)]
pub enum Event<'a> {
    Started(&'a Step),
    /// Also of steps that were skipped and so never started.
    Finished(&'a Step, &'a Result),
}

/// Does the steps of a plan, at most `parallel` at once. A failure stops what waits for it and nothing else.
pub async fn apply<H: Hands>(plan: &Plan, hands: &H, parallel: usize) -> Report {
    apply_watched(plan, hands, parallel, &|_| {}).await
}

/// The same, telling somebody what begins and ends.
pub async fn apply_watched<H: Hands>(
    plan: &Plan,
    hands: &H,
    parallel: usize,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Report {
    let n = plan.steps.len();
    let mut results: Vec<Option<Result>> = (0..n).map(|_| None).collect();
    let mut resources: BTreeMap<ResourceId, Value> = BTreeMap::new();
    let mut started = vec![false; n];
    let mut running = FuturesUnordered::new();
    loop {
        for i in 0..n {
            if started[i] || running.len() >= parallel.max(1) {
                continue;
            }
            let step = &plan.steps[i];
            // Steps wait only for earlier ones, so a plan that was tampered with cannot hang this loop.
            let waits = || step.after.iter().filter(|j| **j < i).copied();
            if let Some(j) = waits().find(|j| results[*j].as_ref().is_some_and(|r| !r.is_good())) {
                started[i] = true;
                let skipped = Result::Skipped { because: plan.steps[j].id.clone() };
                tell(Event::Finished(step, &skipped));
                results[i] = Some(skipped);
                continue;
            }
            if waits().any(|j| results[j].is_none()) {
                continue;
            }
            started[i] = true;
            tell(Event::Started(step));
            let mut body = match &step.action {
                Action::Create { body } | Action::Change { body, .. } => Some(body.clone()),
                Action::Keep | Action::Await | Action::Delete => None,
            };
            let known = |id: &ResourceId, at: &str| resources.get(id).and_then(|r| r.pointer(at)).cloned();
            if body.as_mut().is_some_and(|b| !substitute(b, &mut |id, at| known(id, at))) {
                let path = step.id.to_string();
                let detail = arm::ErrorDetail::new(
                    "UnresolvedReference",
                    "a value that it needs was not given by the step it comes from",
                );
                let failed = Result::Failed(Error::Operation { path, detail: Box::new(detail) });
                tell(Event::Finished(step, &failed));
                results[i] = Some(failed);
                continue;
            }
            running.push(async move { (i, hands.perform(step, body).await) });
        }
        match running.next().await {
            None if started.iter().all(|s| *s) => break,
            None => {}
            Some((i, done)) => {
                let result = finish(&plan.steps[i], done, &mut resources);
                tell(Event::Finished(&plan.steps[i], &result));
                results[i] = Some(result);
            }
        }
    }
    let ids = plan.steps.iter().map(|s| s.id.clone());
    let results = ids.zip(results).filter_map(|(id, r)| Some((id, r?))).collect();
    Report { results, resources }
}

fn finish(
    step: &Step,
    done: std::result::Result<Option<Value>, Error>,
    resources: &mut BTreeMap<ResourceId, Value>,
) -> Result {
    match done {
        Err(e) => {
            tracing::warn!(id = %step.id, error = %e, "a step failed");
            Result::Failed(e)
        }
        Ok(body) => {
            if let Some(body) = body {
                resources.insert(step.id.clone(), body);
            }
            match step.action {
                Action::Create { .. } => Result::Created,
                Action::Keep | Action::Await => Result::Kept,
                Action::Change { .. } => Result::Changed,
                Action::Delete => Result::Deleted,
            }
        }
    }
}
