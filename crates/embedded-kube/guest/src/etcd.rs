//! The program behind the image `etcd`: a member in the container `etcd`, small helpers in the others.

use crate::group::{Group, Membership};
use crate::tls::{self, Answer, ServerFiles, chain, text};
use crate::{Guests, etcdctl, stand_ins};
use ek_node::{ExecOutput, Program, ProgramContext};
use ek_store::{Directory, OpenError};
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PORT: u16 = 2379;
const DATA: &str = "/var/lib/data";

pub(crate) struct Etcd(pub(crate) Guests);

impl Program for Etcd {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let guests = self.0.clone();
        Box::pin(async move {
            match ctx.container() {
                "reset-member" => reset(&ctx).await,
                "etcd-init" => etcdctl::init(&guests, &ctx).await,
                "etcd-metrics" => stand_ins::metrics(ctx).await,
                _ if etcdctl::is_tool(ctx.command()) => etcdctl::run(&guests, &ctx).await,
                _ => member(guests, ctx).await,
            }
        })
    }

    fn exec(
        &self,
        ctx: ProgramContext,
        words: Vec<String>,
        _: Vec<u8>,
    ) -> BoxFuture<'static, Option<ExecOutput>> {
        let guests = self.0.clone();
        Box::pin(async move { etcdctl::exec(&guests, &ctx, &words).await })
    }
}

pub(crate) fn data_dir(ctx: &ProgramContext) -> Option<PathBuf> {
    ctx.path(ctx.env().get("ETCD_DATA_DIR").map_or(DATA, String::as_str))
}

/// Says for the member whether it begins or comes back. The real one also takes a lost member out of the cluster and
/// puts it in again; ours is let in by the others without that.
async fn reset(ctx: &ProgramContext) -> i32 {
    let (Some(state), Some(data)) = (ctx.path("/etc/etcd/clusterstate/state"), ctx.path(DATA)) else {
        ctx.log("no /etc/etcd/clusterstate or no /var/lib is mounted");
        return 1;
    };
    let word = tokio::task::spawn_blocking(move || {
        let there = std::fs::read_dir(data).is_ok_and(|mut d| d.next().is_some());
        let word = if there { "existing" } else { "new" };
        std::fs::write(state, word).map(|()| word)
    })
    .await;
    match word {
        Ok(Ok(word)) => {
            ctx.log(format!("cluster state: {word}"));
            0
        }
        Ok(Err(e)) => {
            ctx.log(format!("cannot write the cluster state: {e}"));
            1
        }
        Err(_) => 1,
    }
}

async fn member(guests: Guests, ctx: ProgramContext) -> i32 {
    let env = |name: &str, or: &str| ctx.env().get(name).cloned().unwrap_or_else(|| or.to_owned());
    let name = env("ETCD_NAME", ctx.pod());
    let size = env("ETCD_INITIAL_CLUSTER", "").split(',').filter(|m| m.contains('=')).count().max(1);
    let Some(data) = data_dir(&ctx) else {
        ctx.log("the data directory is under no mount: mount a volume at /var/lib");
        return 1;
    };
    let group = match guests.0.groups.group(&Guests::name(ctx.cluster(), ctx.namespace()), size) {
        Ok(g) => g,
        Err(e) => return failed(&ctx, &e),
    };
    let files = ServerFiles {
        cert: env("ETCD_CERT_FILE", "/etc/etcd/tls/server/server.crt"),
        key: env("ETCD_KEY_FILE", "/etc/etcd/tls/server/server.key"),
        client_ca: Some(env("ETCD_TRUSTED_CA_FILE", "/etc/etcd/tls/etcd-ca/ca.crt")),
    };
    let listener = match ctx.listener(PORT).await {
        Ok(l) => l,
        Err(e) => return failed(&ctx, &e),
    };
    let (answering, me) = (group.clone(), name.clone());
    let answer = move |req: http::Request<hyper::body::Incoming>| {
        let reply = answer(&answering, &me, req.uri().path());
        std::future::ready(reply)
    };
    let serving = tls::serve(ctx.clone(), listener, files, answer);
    let taking_part = take_part(&guests, &ctx, &group, &name, data);
    tokio::select! {
        r = serving => match r {
            Ok(()) => 0,
            Err(e) => failed(&ctx, &e),
        },
        r = taking_part => match r {
            Ok(()) => 0,
            Err(code) => code,
        },
    }
}

fn failed(ctx: &ProgramContext, e: &dyn std::error::Error) -> i32 {
    ctx.log(format!("etcd cannot start: {}", chain(e)));
    1
}

async fn take_part(
    guests: &Guests,
    ctx: &ProgramContext,
    group: &Arc<Group>,
    name: &str,
    data: PathBuf,
) -> Result<(), i32> {
    let dir = open(guests, ctx, name, data).await?;
    if dir.is_new() {
        ctx.log(format!("{name}: the data directory is empty"));
    }
    let told = ctx.clone();
    let membership: Membership = tokio::select! {
        () = ctx.stopping().cancelled() => return Ok(()),
        m = group.enter(dir, |why| told.log(format!("waiting: {why}"))) => m.map_err(|e| failed(ctx, &e))?,
    };
    ctx.stir();
    ctx.log(format!("{name}: ready to serve client requests, one of {}", group.size()));
    ctx.stopping().cancelled().await;
    ctx.log("stopping");
    drop(membership);
    Ok(())
}

/// Opens the directory; one that a predecessor still holds is waited for.
async fn open(guests: &Guests, ctx: &ProgramContext, name: &str, data: PathBuf) -> Result<Directory, i32> {
    const TRIES: u32 = 100;
    for attempt in 0.. {
        let options = guests.0.host.guest_options(&Guests::name(ctx.cluster(), ctx.namespace()));
        let (dir, name) = (data.clone(), name.to_owned());
        let opened = tokio::task::spawn_blocking(move || Directory::open(&name, &dir, &options)).await;
        match opened {
            Ok(Ok(dir)) => return Ok(dir),
            Ok(Err(OpenError::Locked { .. })) if attempt < TRIES => {
                tokio::select! {
                    () = ctx.stopping().cancelled() => return Err(0),
                    () = tokio::time::sleep(Duration::from_millis(20 + u64::from(attempt) * 5)) => {}
                }
            }
            Ok(Err(e)) => return Err(failed(ctx, &e)),
            Err(e) => return Err(failed(ctx, &e)),
        }
    }
    Err(1)
}

/// Whether a member answers, and whether the group accepts writes.
pub(crate) fn health(group: &Group) -> Result<(), String> {
    match group.store() {
        Some(store) if store.is_healthy() => Ok(()),
        Some(store) => {
            let (up, size) = store.members();
            Err(format!("{up} of {size} members are up: no leader"))
        }
        None => Err(group.seen().borrow().why.clone()),
    }
}

fn answer(group: &Group, member: &str, path: &str) -> Answer {
    match path {
        "/health" | "/readyz" => match health(group) {
            Ok(()) => text(200, r#"{"health":"true","reason":""}"#),
            Err(why) => {
                let body = serde_json::json!({"health": "false", "reason": why});
                text(503, body.to_string())
            }
        },
        "/livez" => text(200, "ok"),
        "/version" => text(200, r#"{"etcdserver":"3.5.18","etcdcluster":"3.5.0"}"#),
        // How an API server of this process learns whose data is behind the connection it has just proven itself on.
        "/zaffre/member" => {
            let id = group.store().and_then(|s| s.cluster_id().map(str::to_owned));
            text(200, serde_json::json!({"member": member, "cluster": id}).to_string())
        }
        _ => text(404, "404 page not found\n"),
    }
}
