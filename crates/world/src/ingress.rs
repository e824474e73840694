//! Names that Routes publish: one socket for all, and whoever asks for a name is led to the Service behind it.
//!
//! In Azure a name is a DNS record that leads to a router; here it is looked up among the Routes of the management
//! cluster. TLS is passed on unopened.

use crate::cluster;
use crate::health::Dial;
use ek_engine::ClusterId;
use ek_guest::{Router, RouterError};
use ek_node::Nodes;
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::{Mutex, RwLock};
use reconcile::{Kind, Runtime, View, Watch};
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// A host that is published.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Published {
    host: String,
    namespace: String,
    service: String,
    /// What it says of its port, if it does.
    port: Value,
}

fn published(o: &DynamicObject) -> Option<Published> {
    let spec = &o.data["spec"];
    Some(Published {
        host: spec["host"].as_str()?.to_ascii_lowercase(),
        namespace: o.metadata.namespace.clone()?,
        service: spec["to"]["name"].as_str()?.to_owned(),
        port: spec["port"]["targetPort"].clone(),
    })
}

/// All Routes behind one address; cheap to clone.
#[derive(Clone)]
pub struct Ingress(Arc<Inner>);

struct Inner {
    routes: Arc<View<Published>>,
    nodes: Nodes,
    address: SocketAddr,
    router: Mutex<Option<Router>>,
}

fn find(routes: &View<Published>, nodes: &Nodes, host: &str) -> Option<SocketAddr> {
    let host = host.to_ascii_lowercase();
    let there = routes.all().into_iter().find(|p| p.host == host)?;
    nodes.routed(&ClusterId::new(cluster::NAME), &there.namespace, &there.service, &there.port)
}

impl Ingress {
    pub(crate) async fn start(
        runtime: &mut Runtime,
        client: &Client,
        nodes: Nodes,
    ) -> Result<Ingress, RouterError> {
        let kind = Kind::new("route.openshift.io", "v1", "Route", "routes");
        let routes = View::new(published);
        runtime.watch(Watch::whole(client, &kind).into_sink(routes.clone()));
        let (known, on) = (routes.clone(), nodes.clone());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let router = Router::listen(any, move |name: &str| find(&known, &on, name)).await?;
        let address = router.address;
        Ok(Ingress(Arc::new(Inner { routes, nodes, address, router: Mutex::new(Some(router)) })))
    }

    /// Where all published names are.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Whether a name is published, and by somebody who answers.
    pub fn knows(&self, host: &str) -> bool {
        find(&self.0.routes, &self.0.nodes, host).is_some()
    }

    pub(crate) fn close(&self) {
        self.0.router.lock().take();
    }
}

/// Domain of Routes that ask for no name.
const APPS: &str = "apps.zaffre.test";

/// Gives a name to each Route that has none, as OpenShift does.
pub(crate) async fn name_routes(client: Client, stop: CancellationToken) {
    let kind = Kind::new("route.openshift.io", "v1", "Route", "routes");
    let stream =
        watcher(kind.api(&client, ""), watcher::Config::default()).default_backoff().applied_objects();
    let mut stream = Box::pin(stream);
    loop {
        let next = tokio::select! {
            next = stream.next() => next,
            () = stop.cancelled() => return,
        };
        let Some(route) = next else { return };
        let Ok(route) = route else { continue };
        if route.data["spec"]["host"].as_str().is_some_and(|h| !h.is_empty()) {
            continue;
        }
        let (Some(namespace), Some(name)) = (route.metadata.namespace, route.metadata.name) else { continue };
        let host = json!({"spec": {"host": format!("{name}-{namespace}.{APPS}")}});
        let params = PatchParams { field_manager: Some("openshift-router".into()), ..PatchParams::default() };
        if let Err(e) = kind.api(&client, &namespace).patch(&name, &params, &Patch::Merge(host)).await {
            tracing::warn!(namespace, name, error = %e, "a route has no name");
        }
    }
}

impl Dial for Ingress {
    /// An address is dialled as it is; a name leads to the router.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let address = match host.parse::<std::net::IpAddr>() {
                Ok(ip) => SocketAddr::from((ip, port)),
                Err(_) => self.0.address,
            };
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            Ok(tcp)
        })
    }
}

/// The ingresses of all management clusters of one Azure. A machine belongs to none of them by itself: the name that it was
/// told leads it to the one that publishes it.
#[derive(Clone, Default)]
pub(crate) struct Ingresses(Arc<RwLock<Vec<Ingress>>>);

impl Ingresses {
    pub(crate) fn add(&self, ingress: Ingress) {
        self.0.write().push(ingress);
    }

    pub(crate) fn remove(&self, ingress: &Ingress) {
        self.0.write().retain(|i| !Arc::ptr_eq(&i.0, &ingress.0));
    }

    fn of(&self, host: &str) -> Option<Ingress> {
        let all = self.0.read();
        all.iter().find(|i| i.knows(host)).or_else(|| all.first()).cloned()
    }
}

impl Dial for Ingresses {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>> {
        let ingress = self.of(host);
        Box::pin(async move {
            match ingress {
                Some(ingress) => ingress.dial(host, port).await,
                None => {
                    Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("nobody publishes {host}")))
                }
            }
        })
    }
}
