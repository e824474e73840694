//! The program behind the image `haproxy-router`: the part of HAProxy's configuration that a hosted control plane uses.
//!
//! Understood are `bind` of a `frontend` in TCP mode, with or without `accept-proxy`, `use_backend NAME if { req_ssl_sni -i
//! HOST }` (also `req.ssl_sni`) or `if ACL …`, `acl` of a name, of `var(sess.cluster_id)` (which is the field 0x20 of a PROXY
//! header) and of the address that a connection comes from, `default_backend`, and `server` of a `backend`, whose address is
//! the name or the address of a Service. Everything else is passed over, and said in the log once. The file is read again when
//! it changes; connections stay.

use crate::router::{By, Caller, Router, Routes};
use crate::tls;
use arc_swap::ArcSwap;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
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
    fronts: Vec<Front>,
    servers: HashMap<String, (String, u16)>,
    /// First words of lines that mean nothing here.
    ignored: BTreeSet<String>,
}

/// One socket, and where its connections go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Front {
    port: u16,
    /// It speaks HTTP: health is asked for there, and answered elsewhere.
    http: bool,
    /// Connections begin with a header of the PROXY protocol.
    headed: bool,
    /// Host names, in lower case, and the backends they lead to: the common case, found at once.
    names: HashMap<String, String>,
    /// Everything else, in order.
    rules: Vec<Rule>,
    default: Option<String>,
    /// What `acl` calls by a name; several of one name are either or.
    tests: HashMap<String, Vec<Test>>,
}

/// A backend, and all that must hold.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    backend: String,
    tests: Vec<String>,
}

/// What a connection can be asked.
#[derive(Debug, PartialEq, Eq)]
enum Test {
    /// One of these names, in lower case.
    Name(Vec<String>),
    /// This value of the field that tells clusters apart.
    Cluster(Vec<String>),
    /// From one of these networks.
    From(Vec<(IpAddr, u8)>),
}

/// The field of a PROXY header that holds a cluster's id.
const CLUSTER: u8 = 0x20;

fn lower(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| w.to_ascii_lowercase()).collect()
}

/// What an `acl` asks; nothing for what is not understood.
fn test(words: &[&str]) -> Option<Test> {
    match words {
        ["req_ssl_sni" | "req.ssl_sni", "-i", hosts @ ..] => Some(Test::Name(lower(hosts))),
        ["var(sess.cluster_id)", "-m", "str", ids @ ..] => {
            Some(Test::Cluster(ids.iter().map(|i| (*i).to_owned()).collect()))
        }
        ["src" | "fc_src", networks @ ..] => {
            let read = |n: &&str| {
                let (ip, length) = n.split_once('/')?;
                Some((ip.parse().ok()?, length.parse().ok()?))
            };
            networks.iter().map(read).collect::<Option<_>>().map(Test::From)
        }
        _ => None,
    }
}

/// Whether an address lies in a network.
fn within(ip: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    let same = |a: u128, b: u128, bits: u8| {
        let ignored = u32::from(bits.saturating_sub(length));
        a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
    };
    match (ip.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

impl Test {
    fn holds(&self, caller: &Caller) -> bool {
        match (self, &caller.by) {
            (Test::Name(names), By::Name(name)) => names.contains(name),
            (Test::Cluster(ids), By::Header(header)) => {
                header.field(CLUSTER).is_some_and(|v| ids.iter().any(|i| i.as_bytes() == v))
            }
            (Test::From(networks), _) => networks.iter().any(|n| within(caller.from.ip(), *n)),
            _ => false,
        }
    }
}

impl Front {
    /// The backend of a connection.
    fn backend(&self, caller: &Caller) -> Option<&String> {
        let named = match &caller.by {
            By::Name(name) => self.names.get(name),
            By::Header(_) => None,
        };
        let holds = |t: &String| self.tests.get(t).is_some_and(|all| all.iter().any(|t| t.holds(caller)));
        let ruled = || self.rules.iter().find(|r| r.tests.iter().all(holds)).map(|r| &r.backend);
        named.or_else(ruled).or(self.default.as_ref())
    }
}

fn parse(text: &str) -> Config {
    let mut c = Config::default();
    let (mut section, mut name) = (String::new(), String::new());
    let mut front = Front::default();
    let done = |front: &mut Front| {
        let front = std::mem::take(front);
        (front.port != 0 && !front.http).then_some(front)
    };
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [s @ ("global" | "defaults" | "frontend" | "backend" | "listen"), rest @ ..] => {
                c.fronts.extend(done(&mut front));
                section = (*s).to_owned();
                name = rest.first().copied().unwrap_or_default().to_owned();
            }
            ["bind", at, options @ ..] if section == "frontend" && front.port == 0 => {
                front.port = at.rsplit(':').next().and_then(|p| p.parse().ok()).unwrap_or(0);
                front.headed = options.contains(&"accept-proxy");
            }
            ["mode", "http"] if section == "frontend" => front.http = true,
            ["use_backend", backend, "if", "{", "req_ssl_sni" | "req.ssl_sni", "-i", hosts @ .., "}"] => {
                for h in lower(hosts) {
                    front.names.entry(h).or_insert_with(|| (*backend).to_owned());
                }
            }
            ["use_backend", backend, "if", tests @ ..] if !tests.is_empty() && !tests.contains(&"{") => {
                let tests = tests.iter().map(|t| (*t).to_owned()).collect();
                front.rules.push(Rule { backend: (*backend).to_owned(), tests });
            }
            ["acl", name, asked @ ..] if test(asked).is_some() => {
                front.tests.entry((*name).to_owned()).or_default().extend(test(asked));
            }
            ["default_backend", backend] => front.default = Some((*backend).to_owned()),
            ["server", _, at, ..] if section == "backend" => {
                if let Some((host, Ok(port))) = at.rsplit_once(':').map(|(h, p)| (h, p.parse())) {
                    let host = host.trim_matches(['[', ']']).to_owned();
                    c.servers.entry(name.clone()).or_insert_with(|| (host, port));
                }
            }
            [word, ..] => _ = c.ignored.insert(format!("{section}/{word}")),
        }
    }
    c.fronts.extend(done(&mut front));
    c
}

struct Table {
    ctx: ProgramContext,
    config: Arc<ArcSwap<Config>>,
    port: u16,
}

impl Routes for Table {
    fn find<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<SocketAddr>> {
        Box::pin(std::future::ready(None))
    }

    fn lead<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Option<SocketAddr>> {
        let config = self.config.load();
        let front = config.fronts.iter().find(|f| f.port == self.port);
        let found = front.and_then(|f| f.backend(caller)).and_then(|b| config.servers.get(b));
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
    if first.fronts.is_empty() {
        return Err(format!("{FILE}: no frontend has a bind with a port"));
    }
    if !first.ignored.is_empty() {
        ctx.log(format!("not understood here: {:?}", first.ignored));
    }
    let fronts: Vec<(u16, bool)> = first.fronts.iter().map(|f| (f.port, f.headed)).collect();
    let config = Arc::new(ArcSwap::from_pointee(first));
    let mut routers = Vec::new();
    for (port, headed) in fronts {
        let listener = ctx.listener(port).await.map_err(|e| format!("port {port}: {e}"))?;
        let table = Table { ctx: ctx.clone(), config: config.clone(), port };
        let router = match headed {
            true => Router::behind_proxies(listener, table),
            false => Router::on(listener, table),
        };
        routers.push(router.map_err(|e| e.to_string())?);
        ctx.log(format!("carrying connections of port {port}"));
    }
    let ready = ctx.listener(READY).await.map_err(|e| format!("port {READY}: {e}"))?;
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
    futures::future::join_all(routers.into_iter().map(|r| r.drain(DRAIN))).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Header;

    fn named(name: &str, from: &str) -> Caller {
        Caller { from: SocketAddr::new(from.parse().unwrap(), 1), by: By::Name(name.to_owned()) }
    }

    fn of_cluster(id: &str, from: &str) -> Caller {
        let header = Header { fields: vec![(CLUSTER, id.as_bytes().to_vec())], ..Header::default() };
        Caller { from: SocketAddr::new(from.parse().unwrap(), 1), by: By::Header(header) }
    }

    #[test]
    fn the_part_that_matters_is_read() {
        let c = parse(
            "global\n  maxconn 7000\ndefaults\n  mode tcp\nfrontend ready\n  mode http\n  bind :::9444 v4v6\n  monitor-uri /x\n\
             frontend main\n  bind :::8443 v4v6\n  tcp-request inspect-delay 5s\n\
             \x20 use_backend kube_api if { req_ssl_sni -i API.a.example.com alias.example.com } # the API\n\
             \x20 use_backend oauth if { req.ssl_sni -i oauth.example.com }\n  default_backend kube_api\n\
             backend kube_api\n  server kube_api kube-apiserver.clusters-a.svc:6443\nbackend oauth\n  server o 10.96.0.9:6443 check\n",
        );
        let front = c.fronts.iter().find(|f| f.port == 8443).unwrap();
        assert!(!front.headed);
        assert_eq!(front.names["api.a.example.com"], "kube_api");
        assert_eq!(front.names["alias.example.com"], "kube_api");
        assert_eq!(front.backend(&named("oauth.example.com", "127.0.0.1")).unwrap(), "oauth");
        assert_eq!(front.backend(&named("who.example.com", "127.0.0.1")).unwrap(), "kube_api");
        assert_eq!(c.servers["kube_api"], ("kube-apiserver.clusters-a.svc".into(), 6443));
        assert_eq!(c.servers["oauth"], ("10.96.0.9".into(), 6443));
        assert!(c.ignored.contains("global/maxconn"));
        assert_eq!(
            parse("\u{0}garbage { }\nserver x\nuse_backend"),
            Config {
                ignored: ["/\u{0}garbage", "/server", "/use_backend"].map(String::from).into(),
                ..Config::default()
            }
        );
    }

    /// As the operator of HostedClusters renders it.
    const SHARED: &str = include_str!("../../../hypershift/tests/golden/shared-ingress.yaml");

    #[test]
    fn the_shared_ingress_leads_by_cluster_and_by_name_and_keeps_others_out() {
        let c = parse(SHARED);
        let ports: Vec<(u16, bool)> = c.fronts.iter().map(|f| (f.port, f.headed)).collect();
        assert_eq!(ports, [(6443, true), (8443, false)]);
        let to = |front: usize, caller: Caller| c.servers.get(c.fronts[front].backend(&caller)?).cloned();
        let (a, b) = ("5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11", "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e");
        assert_eq!(to(0, of_cluster(a, "203.0.113.9")), Some(("10.96.0.10".into(), 6443)));
        assert_eq!(to(0, of_cluster(a, "2001:db8::1")), Some(("10.96.0.10".into(), 6443)));
        assert_eq!(to(0, of_cluster(a, "::ffff:203.0.113.9")), Some(("10.96.0.10".into(), 6443)));
        assert_eq!(to(0, of_cluster(a, "198.51.100.1")), None, "it may not call");
        assert_eq!(to(0, of_cluster(b, "198.51.100.1")), Some(("fd00::b".into(), 6443)));
        assert_eq!(to(0, of_cluster("5d9b2b0e", "203.0.113.9")), None);
        assert_eq!(to(0, named("api.a.example.com", "203.0.113.9")), None, "a name tells nothing there");
        assert_eq!(to(1, named("api.a.example.com", "203.0.113.9")), Some(("10.96.0.10".into(), 6443)));
        assert_eq!(to(1, named("api.a.example.com", "198.51.100.1")), None);
        assert_eq!(to(1, named("ignition.a.example.com", "198.51.100.1")), Some(("10.96.0.12".into(), 443)));
        assert_eq!(to(1, named("nobody.example.com", "203.0.113.9")), None);
        assert_eq!(to(1, of_cluster(a, "203.0.113.9")), None);
    }

    #[test]
    fn networks_hold_what_is_in_them() {
        let ip = |t: &str| t.parse::<IpAddr>().unwrap();
        for (address, network, length, inside) in [
            ("10.1.2.3", "10.0.0.0", 8, true),
            ("11.1.2.3", "10.0.0.0", 8, false),
            ("8.8.8.8", "0.0.0.0", 0, true),
            ("192.0.2.1", "192.0.2.1", 32, true),
            ("192.0.2.2", "192.0.2.1", 32, false),
            ("2001:db8::1", "2001:db8::", 32, true),
            ("2001:db9::1", "2001:db8::", 32, false),
            ("::1", "::", 0, true),
            ("10.1.2.3", "::", 0, false),
        ] {
            assert_eq!(within(ip(address), (ip(network), length)), inside, "{address} in {network}/{length}");
        }
    }
}
