//! Cron jobs: jobs started by the clock.

mod plan;
mod schedule;

use crate::events::{self, Note};
use crate::objects::{controller_of, put_status, until};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion};
use futures::future::BoxFuture;
use serde_json::{Value, json};

const COMPONENT: &str = "cronjob-controller";

pub struct CronJobs;

impl Controller for CronJobs {
    fn name(&self) -> &'static str {
        "cronjob"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["batch/cronjobs", "batch/jobs"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if &*delta.table == "batch/cronjobs" {
            keys.push(delta.key.clone());
        } else if let Some(o) = delta.latest().and_then(|e| controller_of(e)).filter(|o| o.kind == "CronJob")
        {
            keys.object(split(&delta.key).0, &o.name);
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }
}

async fn run(access: &Access, key: &str) -> Result<Outcome, Status> {
    let (namespace, name) = split(key);
    let Some(cron) = access.get(&tables::CRON_JOBS, namespace, name) else { return Ok(Outcome::Done) };
    let jobs = access.owned(&tables::JOBS, namespace, object::uid(&cron));
    let now = access.now();
    let mut plan = plan::plan(&cron, &jobs, now);
    for job in &plan.delete {
        let how = Deletion { propagation: Some("Background"), ..Deletion::default() };
        access.delete(&tables::JOBS, namespace, job, how).await?;
        plan.notes.push(Note::normal("SuccessfulDelete", format!("Deleted job {job}")));
    }
    if let Some(job) = plan.create {
        let job_name = object::name(&job).to_owned();
        match access.create(&tables::JOBS, job).await {
            Ok(job) => {
                plan.notes.push(Note::normal("SuccessfulCreate", format!("Created job {job_name}")));
                let active = plan.status.entry("active").or_insert_with(|| json!([]));
                if let Value::Array(a) = active {
                    a.retain(|r| !plan.delete.iter().any(|d| r["name"] == d.as_str()));
                    a.push(plan::reference(&job));
                }
            }
            // This time was started already.
            Err(e) if e.code == 409 => {}
            Err(e) => {
                let note = Note::warning("FailedCreate", format!("Error creating job: {}", e.message));
                events::tell(access, COMPONENT, &cron, &note).await;
                return Err(e);
            }
        }
    }
    events::tell_all(access, COMPONENT, &cron, &plan.notes).await;
    // References carry versions that change with every status; that alone is not worth a write.
    let bare = |s: &Value| {
        let mut s = s.clone();
        for r in s["active"].as_array_mut().into_iter().flatten() {
            r["resourceVersion"] = Value::Null;
        }
        s
    };
    let wanted = Value::Object(plan.status.clone());
    let write = |o: &mut Value| {
        object::uid(o) == object::uid(&cron)
            && bare(&o["status"]) != bare(&wanted)
            && put_status(o, &plan.status)
    };
    match access.update(&tables::CRON_JOBS, namespace, name, "status", write).await {
        Err(e) if e.code != 404 => return Err(e),
        _ => {}
    }
    Ok(plan.at.map_or(Outcome::Done, |at| Outcome::After(until(now, at))))
}
