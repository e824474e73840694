//! `cluster-etcd-operator readyz`: answers for the member beside it.
//!
//! `/healthz` says whether the member answers, `/readyz` whether the group accepts writes. The member is asked as the
//! real one asks it: over TLS, with the client certificate of its mount. That is done at the first question, after a
//! failure, when files have changed, and once a minute; in between its state is known in this process, and hundreds of
//! control planes that shake hands every few seconds would say nothing more.

use crate::tls::{self, Answer, ClientFiles, ServerFiles, chain, text};
use crate::{Guests, etcd};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const PROVEN: Duration = Duration::from_secs(60);

pub(crate) struct Readyz(pub(crate) Guests);

/// The value of `--name=value` or `--name value`.
pub(crate) fn flag(ctx: &ProgramContext, name: &str) -> Option<String> {
    let words: Vec<&String> = ctx.command().iter().chain(ctx.args()).collect();
    let at = words
        .iter()
        .position(|w| w.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('=')))?;
    match words[at].strip_prefix(name).and_then(|r| r.strip_prefix('=')) {
        Some(value) => Some(value.to_owned()),
        None => words.get(at + 1).map(|w| (*w).clone()),
    }
}

struct Checker {
    guests: Guests,
    ctx: ProgramContext,
    client: ClientFiles,
    /// When the member last answered, and which files were in place.
    proven: Mutex<Option<(Instant, u64)>>,
}

impl Checker {
    async fn alive(&self) -> Result<(), String> {
        let files = *self.ctx.files().borrow();
        let address =
            self.ctx.local(etcd::PORT).ok_or("dial tcp localhost:2379: connect: connection refused")?;
        if self.proven.lock().is_some_and(|(at, f)| f == files && at.elapsed() < PROVEN) {
            return Ok(());
        }
        let config = self.client.load(&self.ctx).map_err(|e| chain(&e))?;
        let asked = tls::get(config, address, "localhost", "/livez").await;
        *self.proven.lock() = asked.is_ok().then(|| (Instant::now(), files));
        asked.map(|_| ())
    }

    async fn answer(self: Arc<Self>, path: String) -> Answer {
        if !matches!(path.trim_matches('/'), "healthz" | "readyz" | "livez") {
            return text(404, "404 page not found\n");
        }
        let mut seen = self.alive().await;
        if seen.is_ok() && path.trim_matches('/') == "readyz" {
            let name = Guests::name(self.ctx.cluster(), self.ctx.namespace());
            let group = self.guests.0.groups.find(&name);
            seen = group.map_or_else(|| Err("no member is here".into()), |g| etcd::health(&g));
        }
        match seen {
            Ok(()) => text(200, "ok\n"),
            Err(why) => text(503, format!("{why}\n")),
        }
    }
}

impl Program for Readyz {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let guests = self.0.clone();
        Box::pin(async move {
            let port = flag(&ctx, "--listen-port").and_then(|p| p.parse().ok()).unwrap_or(9980);
            let file = |name: &str, or: &str| flag(&ctx, name).unwrap_or_else(|| or.to_owned());
            let serving = ServerFiles {
                cert: file("--serving-cert-file", "/etc/etcd/tls/server/server.crt"),
                key: file("--serving-key-file", "/etc/etcd/tls/server/server.key"),
                client_ca: None,
            };
            let client = ClientFiles {
                ca: file("--client-cacert-file", "/etc/etcd/tls/etcd-ca/ca.crt"),
                cert: file("--client-cert-file", "/etc/etcd/tls/client/etcd-client.crt"),
                key: file("--client-key-file", "/etc/etcd/tls/client/etcd-client.key"),
            };
            let listener = match ctx.listener(port).await {
                Ok(l) => l,
                Err(e) => {
                    ctx.log(format!("cannot listen on port {port}: {e}"));
                    return 1;
                }
            };
            let checker = Arc::new(Checker { guests, ctx: ctx.clone(), client, proven: Mutex::default() });
            let answer = move |req: http::Request<hyper::body::Incoming>| {
                checker.clone().answer(req.uri().path().to_owned())
            };
            match tls::serve(ctx.clone(), listener, serving, answer).await {
                Ok(()) => 0,
                Err(e) => {
                    ctx.log(chain(&e));
                    1
                }
            }
        })
    }
}
