//! The program behind the image `haproxy-router`: the part of HAProxy's configuration that a hosted control plane uses.
//!
//! Understood are `bind` of a `frontend` in TCP mode, `use_backend NAME if { req_ssl_sni -i HOST }` (also `req.ssl_sni`),
//! `default_backend`, and `server` of a `backend`, whose address is the name or the address of a Service. Everything
//! else is passed over, and said in the log once. The file is read again when it changes; connections stay.

use crate::router::{Router, Routes};
use crate::tls;
use arc_swap::ArcSwap;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const FILE: &str = "/usr/local/etc/haproxy/haproxy.cfg";
const READY: u16 = 9444;
/// As long as a rolling update gives it.
const DRAIN: Duration = Duration::from_secs(20);

pub(crate) struct Haproxy;

impl Program for Haproxy {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            match serve(&ctx).await {
                Ok(()) => 0,
                Err(why) => {
                    ctx.log(why);
                    1
                }
            }
        })
    }
}

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Config {
    port: Option<u16>,
    /// Host names, in lower case, and the backends they lead to.
    names: HashMap<String, String>,
    default: Option<String>,
    servers: HashMap<String, (String, u16)>,
    /// First words of lines that mean nothing here.
    ignored: BTreeSet<String>,
}

fn parse(text: &str) -> Config {
    let mut c = Config::default();
    let (mut section, mut name) = (String::new(), String::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [s @ ("global" | "defaults" | "frontend" | "backend" | "listen"), rest @ ..] => {
                section = (*s).to_owned();
                name = rest.first().copied().unwrap_or_default().to_owned();
            }
            ["bind", at, ..] if section == "frontend" && c.port.is_none() => {
                c.port = at.rsplit(':').next().and_then(|p| p.parse().ok());
            }
            ["use_backend", backend, "if", "{", "req_ssl_sni" | "req.ssl_sni", "-i", hosts @ .., "}"] => {
                for h in hosts {
                    c.names.insert(h.to_ascii_lowercase(), (*backend).to_owned());
                }
            }
            ["default_backend", backend] => c.default = Some((*backend).to_owned()),
            ["server", _, at, ..] if section == "backend" => {
                if let Some((host, Ok(port))) = at.rsplit_once(':').map(|(h, p)| (h, p.parse())) {
                    c.servers.entry(name.clone()).or_insert_with(|| (host.to_owned(), port));
                }
            }
            [word, ..] => _ = c.ignored.insert(format!("{section}/{word}")),
        }
    }
    c
}

struct Table {
    ctx: ProgramContext,
    config: Arc<ArcSwap<Config>>,
}

impl Routes for Table {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SocketAddr>> {
        let config = self.config.load();
        let backend = config.names.get(name).or(config.default.as_ref());
        let found = backend.and_then(|b| config.servers.get(b));
        let address = found.and_then(|(host, port)| self.ctx.resolve(host, *port));
        Box::pin(std::future::ready(address))
    }
}

async fn load(ctx: &ProgramContext) -> Result<Config, String> {
    let c = ctx.clone();
    let text = tokio::task::spawn_blocking(move || tls::read(&c, FILE)).await.map_err(|e| e.to_string())?;
    Ok(parse(&text.map_err(|e| tls::chain(&e))?))
}

async fn serve(ctx: &ProgramContext) -> Result<(), String> {
    let first = load(ctx).await?;
    let port = first.port.ok_or_else(|| format!("{FILE}: no frontend has a bind with a port"))?;
    if !first.ignored.is_empty() {
        ctx.log(format!("not understood here: {:?}", first.ignored));
    }
    let config = Arc::new(ArcSwap::from_pointee(first));
    let listener = ctx.listener(port).await.map_err(|e| format!("port {port}: {e}"))?;
    let ready = ctx.listener(READY).await.map_err(|e| format!("port {READY}: {e}"))?;
    let table = Table { ctx: ctx.clone(), config: config.clone() };
    let router = Router::on(listener, table).map_err(|e| e.to_string())?;
    ctx.log(format!("carrying connections of port {port}"));
    let mut files = ctx.files();
    let follow = async {
        while files.changed().await.is_ok() {
            match load(ctx).await {
                Ok(new) => config.store(Arc::new(new)),
                Err(why) => ctx.log(format!("keeping the old configuration: {why}")),
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ctx.stopping().cancelled() => {}
        () = follow => {}
        _ = crate::stand_ins::healthy(ctx, ready) => {}
    }
    router.drain(DRAIN).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_matters_is_read() {
        let c = parse(
            "global\n  maxconn 7000\ndefaults\n  mode tcp\nfrontend main\n  bind :::8443 v4v6\n  tcp-request inspect-delay 5s\n\
             \x20 use_backend kube_api if { req_ssl_sni -i API.a.example.com alias.example.com } # the API\n\
             \x20 use_backend oauth if { req.ssl_sni -i oauth.example.com }\n  default_backend kube_api\n\
             backend kube_api\n  server kube_api kube-apiserver.clusters-a.svc:6443\nbackend oauth\n  server o 10.96.0.9:6443 check\n",
        );
        assert_eq!(c.port, Some(8443));
        assert_eq!(c.names["api.a.example.com"], "kube_api");
        assert_eq!(c.names["alias.example.com"], "kube_api");
        assert_eq!(c.servers["kube_api"], ("kube-apiserver.clusters-a.svc".into(), 6443));
        assert_eq!(c.servers["oauth"], ("10.96.0.9".into(), 6443));
        assert_eq!(c.default.as_deref(), Some("kube_api"));
        assert!(c.ignored.contains("global/maxconn"));
        assert_eq!(
            parse("\u{0}garbage { }\nserver x\nuse_backend"),
            Config {
                ignored: ["/\u{0}garbage", "/server", "/use_backend"].map(String::from).into(),
                ..Config::default()
            }
        );
    }
}
