//! The task beside each running program: it waits for its end, asks its probes, and stops it when it must.

use super::Runtime;
use super::probe::{Probe, Role, Verdict};
use crate::Inner;
use crate::pod::{Fact, Note};
use crate::program::{Program, ProgramContext};
use ek_engine::ClusterId;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How much of its log explains the end of a container that asks for it; a kubelet's numbers.
const LAST_LINES: usize = 80;
const LAST_BYTES: usize = 2048;

impl Runtime {
    #[allow(clippy::too_many_arguments, reason = "one call, and each of them is something else")]
    pub(super) fn supervise(
        &self,
        inner: &Arc<Inner>,
        uid: &str,
        container: &str,
        round: i64,
        spec: &Value,
        ctx: ProgramContext,
        program: Arc<dyn Program>,
        (stop, grace): (CancellationToken, Arc<Mutex<i64>>),
    ) {
        let probes: Vec<Probe> = [Role::Startup, Role::Readiness, Role::Liveness]
            .into_iter()
            .filter_map(|r| Probe::of(r, spec, &ctx, &program))
            .collect();
        let hook = |name: &str| Probe::hook(name, spec, &ctx, &program);
        let has = |r: Role| probes.iter().any(|p| p.role == r);
        let waits = has(Role::Readiness) || program.tells_when_ready();
        self.change(uid, container, round, |f| {
            if let Fact::Running { started, ready, .. } = f {
                (*started, *ready) = (!has(Role::Startup), !waits);
            }
        });
        let hurried = !inner.options.stages.probes;
        let from_log = spec["terminationMessagePolicy"] == "FallbackToLogsOnError";
        let (begin, before_end) = (hook("postStart"), hook("preStop"));
        let (weak, uid, container) = (Arc::downgrade(inner), uid.to_owned(), container.to_owned());
        tokio::spawn(async move {
            let mut running = tokio::spawn(program.run(ctx.clone()));
            let opinion = {
                let (weak, uid, container, stop) =
                    (weak.clone(), uid.clone(), container.clone(), stop.clone());
                move |role: Role, verdict: Verdict| {
                    let Some(inner) = weak.upgrade() else { return false };
                    inner.runtime.heard(&uid, &container, round, role, &verdict, &stop)
                }
            };
            let failed = stop.clone();
            let probing = async move {
                // A container that cannot begin as it should does not go on.
                if let Some(hook) = begin
                    && hook.look().await.is_err()
                {
                    failed.cancel();
                }
                // Until it has started, nobody asks whether it is ready or alive.
                let (first, rest): (Vec<_>, Vec<_>) =
                    probes.into_iter().partition(|p| p.role == Role::Startup);
                for p in first {
                    p.watch(hurried, &opinion).await;
                }
                futures::future::join_all(rest.into_iter().map(|p| p.watch(hurried, &opinion))).await;
                std::future::pending::<()>().await;
            };
            let ended = tokio::select! {
                r = &mut running => r,
                () = probing => return,
                () = stop.cancelled() => {
                    let seconds = u64::try_from(*grace.lock()).unwrap_or(0);
                    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds);
                    if let Some(hook) = &before_end {
                        let _ = tokio::time::timeout_at(deadline, hook.look()).await;
                    }
                    ctx.stopping().cancel();
                    match tokio::time::timeout_at(deadline, &mut running).await {
                        Ok(r) => r,
                        Err(_) => {
                            running.abort();
                            running.await
                        }
                    }
                }
            };
            let (code, reason, mut message) = match ended {
                Ok(0) => (0, "Completed", String::new()),
                Ok(code) => (i64::from(code), "Error", String::new()),
                Err(e) if e.is_panic() => {
                    (134, "Error", format!("the program panicked: {}", panic_text(e.into_panic())))
                }
                Err(_) => (137, "Error", "the program did not stop in time".to_owned()),
            };
            if !message.is_empty() {
                ctx.log(&message);
            }
            if code != 0 && from_log {
                message = ctx.0.log.tail(LAST_LINES, LAST_BYTES);
            }
            ctx.0.log.close();
            // Nobody listens any more.
            ctx.0.ports.lock().clear();
            if let Some(inner) = weak.upgrade() {
                inner.runtime.ended(&uid, &container, round, code, reason, &message);
            }
        });
    }

    fn change(
        &self,
        uid: &str,
        container: &str,
        round: i64,
        how: impl FnOnce(&mut Fact),
    ) -> Option<(ClusterId, Arc<str>)> {
        let mut runs = self.runs.lock();
        let pod = runs.pods.get_mut(uid)?;
        let c = pod.containers.get_mut(container).filter(|c| c.round == round)?;
        how(&mut c.fact);
        pod.news.send_modify(|n| *n += 1);
        Some((pod.cluster.clone(), pod.key.clone()))
    }

    fn ended(&self, uid: &str, container: &str, round: i64, code: i64, reason: &str, message: &str) {
        let now = self.clock.now();
        let told = self.change(uid, container, round, |fact| {
            if let Fact::Running { id, since, .. } = fact.clone() {
                let (reason, message) = (reason.to_owned(), message.to_owned());
                *fact = Fact::Exited { id, since, at: now, code, reason, message };
            }
        });
        if let Some((cluster, key)) = told {
            self.let_go(uid, container, round);
            self.poke(&cluster, &key);
        }
    }

    /// Nobody looks into a container that has ended; its log is kept elsewhere.
    fn let_go(&self, uid: &str, container: &str, round: i64) {
        let mut runs = self.runs.lock();
        let over = runs.pods.get_mut(uid).and_then(|p| p.containers.get_mut(container));
        let ctx = over.filter(|c| c.round == round).and_then(|c| c.ctx.take());
        drop(runs);
        drop(ctx);
    }

    /// A program's own opinion of its readiness, if nobody was asked to have another.
    pub(crate) fn told(&self, ctx: &ProgramContext, so: Result<(), String>) {
        let key = format!("{}/{}", ctx.namespace(), ctx.pod());
        let mut runs = self.runs.lock();
        let uid = runs.keys.get(ctx.cluster()).and_then(|k| k.get(key.as_str())).cloned();
        let Some(pod) = uid.and_then(|u| runs.pods.get_mut(&u)) else { return };
        let Some(c) = pod.containers.get_mut(ctx.container()) else { return };
        // One that has been replaced has nothing to say any more.
        let current = c.ctx.as_ref().is_some_and(|now| Arc::ptr_eq(&now.0, &ctx.0));
        let Fact::Running { ready, .. } = &mut c.fact else { return };
        if !current || !c.program.tells_when_ready() {
            return;
        }
        let changed = std::mem::replace(ready, so.is_ok()) != so.is_ok();
        let why = so.err();
        let news = std::mem::replace(&mut c.unready, why.clone()) != why;
        if let Some(why) = why.filter(|_| news) {
            let message = format!("Readiness probe failed: {why}");
            let field_path = Some(format!("spec.containers{{{}}}", ctx.container()));
            pod.notes.push(Note { warning: true, reason: "Unhealthy", message, field_path });
        }
        let (cluster, key) = (pod.cluster.clone(), pod.key.clone());
        pod.news.send_modify(|n| *n += 1);
        drop(runs);
        if changed || news {
            self.poke(&cluster, &key);
        }
    }

    /// A probe's opinion; returns whether it should go on looking.
    fn heard(
        &self,
        uid: &str,
        container: &str,
        round: i64,
        role: Role,
        verdict: &Verdict,
        stop: &CancellationToken,
    ) -> bool {
        let told = self.change(uid, container, round, |fact| {
            if let Fact::Running { started, ready, .. } = fact {
                match (role, verdict) {
                    (Role::Startup, Verdict::Success) => *started = true,
                    (Role::Readiness, v) => *ready = *v == Verdict::Success,
                    _ => {}
                }
            }
        });
        let Some((cluster, key)) = told else { return false };
        if let Verdict::Failure(why) = verdict {
            let mut runs = self.runs.lock();
            if let Some(pod) = runs.pods.get_mut(uid) {
                let field_path = Some(format!("spec.containers{{{container}}}"));
                let message = format!("{} probe failed: {why}", role.name());
                pod.notes.push(Note {
                    warning: true,
                    reason: "Unhealthy",
                    message,
                    field_path: field_path.clone(),
                });
                if role != Role::Readiness {
                    let message = format!(
                        "Container {container} failed {} probe, will be restarted",
                        role.name().to_lowercase()
                    );
                    pod.notes.push(Note { warning: false, reason: "Killing", message, field_path });
                }
            }
        }
        self.poke(&cluster, &key);
        match (role, verdict) {
            (Role::Startup, _) => {
                if *verdict != Verdict::Success {
                    stop.cancel();
                }
                false
            }
            (Role::Liveness, Verdict::Failure(_)) => {
                stop.cancel();
                false
            }
            _ => true,
        }
    }
}

fn panic_text(p: Box<dyn std::any::Any + Send>) -> String {
    match p.downcast::<String>() {
        Ok(s) => *s,
        Err(p) => p.downcast_ref::<&str>().map_or_else(|| "without a word".to_owned(), |s| (*s).to_owned()),
    }
}
