//! Jobs: pods that run to an end, counted exactly once each.

mod indexes;
mod plan;
mod policy;
mod status;

use crate::events;
use crate::objects::{condition_is_true, is_deleting, put_status, remove_finalizer, until};
use crate::pods::Pod;
use crate::whom::{Owners, selector_of};
use crate::{MANAGER, pods, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

const COMPONENT: &str = "job-controller";
/// Holds a pod until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

const OWNERS: Owners = Owners { kind: "Job", group: "batch", table: || &tables::JOBS, selector: selector_of };

pub struct Jobs;

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["batch/jobs", "/pods"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        OWNERS.of(access, delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }
}

pub fn is_finished(job: &Value) -> bool {
    condition_is_true(job, "Complete") || condition_is_true(job, "Failed")
}

async fn run(access: &Access, key: &str) -> Result<Outcome, Status> {
    let (namespace, name) = split(key);
    let Some(job) = access.get(&tables::JOBS, namespace, name) else {
        release_orphans(access, namespace, name, "").await?;
        return Ok(Outcome::Done);
    };
    // Somebody else looks after it.
    if job
        .pointer("/spec/managedBy")
        .and_then(Value::as_str)
        .is_some_and(|m| m != "kubernetes.io/job-controller")
    {
        return Ok(Outcome::Done);
    }
    let Some(selector) = selector_of(&job) else { return Ok(Outcome::Done) };
    release_orphans(access, namespace, name, object::uid(&job)).await?;
    let claim = pods::claim(access, namespace, object::uid(&job), &selector);
    let over = is_finished(&job) || is_deleting(&job);
    let mine = if over { claim.mine } else { pods::settle_claim(access, &job, claim).await? };
    if over {
        // Nothing is counted any more; nothing may be held either.
        let ended: Vec<&Pod> =
            mine.iter().filter(|p| p.entry.meta.has_finalizers && (p.ended() || p.deleting)).collect();
        release(access, namespace, &ended).await?;
        return Ok(Outcome::Done);
    }
    let read = |p: &Pod| parse(&p.entry).unwrap_or_default();
    let tally = plan::tally(&job, &mine, read);
    let now = access.now();
    let plan = plan::plan(&job, &mine, &tally, now);
    let (status, notes) = status::status(&job, &mine, &tally, &plan, now, &access.timestamp());
    let finished = notes.iter().any(|n| n.reason == "Completed" || n.kind == events::WARNING);
    let write = |o: &mut Value| object::uid(o) == object::uid(&job) && put_status(o, &status);
    match access.update(&tables::JOBS, namespace, name, "status", write).await {
        Err(e) if e.code == 404 => return Ok(Outcome::Done),
        Err(e) => return Err(e),
        Ok(_) => {}
    }
    let counted: Vec<&Pod> = mine.iter().filter(|p| tally.release.contains(&p.uid)).collect();
    release(access, namespace, &counted).await?;
    let going: Vec<&Pod> = mine.iter().filter(|p| plan.delete.contains(&p.name)).collect();
    if plan.end.is_none() {
        // Pods that go because the job sleeps or shrinks have not failed: without our hold they are not counted.
        release(access, namespace, &going).await?;
    }
    let (mut told, mut failed) = pods::delete(access, namespace, &going).await;
    if !plan.create.is_empty() {
        let wanted = plan.create.iter().map(|i| pod(&job, *i, &mine)).collect();
        let (_, made, error) = pods::create(access, wanted).await;
        told.extend(made);
        failed = failed.or(error);
    }
    told.extend(notes);
    events::tell_all(access, COMPONENT, &job, &told).await;
    match (failed, plan.at.filter(|_| !finished)) {
        (Some(e), _) => Err(e),
        (None, Some(at)) => Ok(Outcome::After(until(now, at))),
        (None, None) => Ok(Outcome::Done),
    }
}

/// A job that is gone counts no more: its pods must not be held by it, nor by another that has its name now.
async fn release_orphans(access: &Access, namespace: &str, job: &str, uid: &str) -> Result<(), Status> {
    let held: Vec<Pod> = (access.in_namespace(&tables::PODS, namespace).iter())
        .filter(|(_, e)| e.meta.has_finalizers && e.meta.label("batch.kubernetes.io/job-name") == Some(job))
        .filter(|(_, e)| e.meta.label("batch.kubernetes.io/controller-uid") != Some(uid))
        .filter(|(_, e)| !e.meta.owners.iter().any(|o| &*o.uid == uid))
        .filter_map(|(_, e)| Pod::read(e))
        .collect();
    release(access, namespace, &held.iter().collect::<Vec<_>>()).await
}

async fn release(access: &Access, namespace: &str, pods: &[&Pod]) -> Result<(), Status> {
    let mut work: Vec<BoxFuture<'_, Result<(), Status>>> = Vec::new();
    for pod in pods {
        work.push(Box::pin(async move {
            let go = |o: &mut Value| object::uid(o) == pod.uid && remove_finalizer(o, TRACKING);
            match access.update(&tables::PODS, namespace, &pod.name, "", go).await {
                Err(e) if e.code != 404 => Err(e),
                _ => Ok(()),
            }
        }));
    }
    let results: Vec<_> = futures::stream::iter(work).buffer_unordered(16).collect().await;
    results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
}

fn pod(job: &Value, index: Option<i64>, pods: &[Pod]) -> Value {
    let mut pod = pods::from_template(job, &job["spec"]["template"]);
    let meta = crate::objects::object_at(&mut pod, "metadata");
    match meta.get_mut("finalizers").and_then(Value::as_array_mut) {
        Some(a) => a.push(json!(TRACKING)),
        None => _ = meta.insert("finalizers".into(), json!([TRACKING])),
    }
    let Some(i) = index else { return pod };
    let name = object::name(job);
    meta.insert("generateName".into(), json!(format!("{name}-{i}-")));
    let labels = meta.entry("labels").or_insert_with(|| json!({}));
    labels[plan::INDEX] = json!(i.to_string());
    let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
    annotations[plan::INDEX] = json!(i.to_string());
    if job.pointer("/spec/backoffLimitPerIndex").is_some_and(|v| !v.is_null()) {
        let failures =
            pods.iter().filter(|p| plan::index_of(p) == Some(i) && (p.phase == "Failed" || p.deleting));
        annotations[plan::FAILURES] = json!(failures.count().to_string());
    }
    let spec = crate::objects::object_at(&mut pod, "spec");
    // A label of at most 63 characters.
    let end = format!("-{i}");
    let start = name.get(..63 - end.len()).unwrap_or(name).trim_end_matches(['-', '.']).replace('.', "-");
    spec.entry("hostname").or_insert_with(|| json!(format!("{start}{end}")));
    let path = format!("metadata.annotations['{}']", plan::INDEX);
    let env = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    for field in ["containers", "initContainers"] {
        for c in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            match c.get_mut("env").and_then(Value::as_array_mut) {
                Some(a) if a.iter().any(|e| e["name"] == "JOB_COMPLETION_INDEX") => {}
                Some(a) => a.push(env.clone()),
                None => c["env"] = json!([env]),
            }
        }
    }
    pod
}

/// Deletes finished jobs whose time to live is over.
pub struct FinishedJobs;

impl Controller for FinishedJobs {
    fn name(&self) -> &'static str {
        "ttl-after-finished"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["batch/jobs"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.current.as_ref().is_some_and(|e| !e.meta.deleting) {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let (namespace, name) = split(key);
            let Some(job) = access.get(&tables::JOBS, namespace, name) else { return Ok(Outcome::Done) };
            let Some(ttl) = crate::objects::int(&job, "/spec/ttlSecondsAfterFinished") else {
                return Ok(Outcome::Done);
            };
            let ended = ["Complete", "Failed"].iter().filter_map(|k| crate::objects::condition(&job, k));
            let ended = ended
                .filter(|c| c["status"] == "True")
                .filter_map(|c| crate::objects::when(c, "/lastTransitionTime"));
            let Some(at) = ended.min().map(|t| crate::objects::seconds_after(t, ttl)) else {
                return Ok(Outcome::Done);
            };
            if at > access.now() {
                return Ok(Outcome::After(until(access.now(), at)));
            }
            let how = Deletion {
                uid: Some(object::uid(&job)),
                propagation: Some("Foreground"),
                ..Deletion::default()
            };
            access.delete(&tables::JOBS, namespace, name, how).await?;
            Ok(Outcome::Done)
        })
    }
}

/// How a finished job ended, as cron jobs tell it.
pub fn ending(job: &Value) -> &'static str {
    if condition_is_true(job, "Complete") { "Complete" } else { "Failed" }
}
