//! Addresses for Services of type LoadBalancer: each has one of its own below 127.0.0.0/8 and really listens there.
//!
//! A balancer accepts on the Service's ports and carries bytes to a ready pod behind it, taking turns. Linux gives the
//! whole range to the loopback interface, so nothing has to be set up and everything works from this machine: kubectl
//! with the cluster's own kubeconfig, and health checks.
//!
//! Which addresses are used is left to chance and to whether they can be bound, because several worlds may run beside
//! each other. A Service keeps its address over restarts: it stands in its status.

use crate::Intranet;
use crate::cluster;
use ek_controllers::LoadBalancers;
use ek_engine::ClusterId;
use ek_meta::{Status, object};
use ek_node::Nodes;
use ek_server::{Access, ServiceResolver};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How many addresses are tried before giving up.
const TRIES: u32 = 64;

pub struct Balancers {
    nodes: Nodes,
    random: clock::Random,
    open: Mutex<HashMap<String, Open>>,
    /// Where internal ones are told of.
    intranet: Option<Arc<Intranet>>,
    stop: CancellationToken,
}

/// Has a cloud provider make a balancer that only its own network reaches.
const INTERNAL: &str = "service.beta.kubernetes.io/azure-load-balancer-internal";

fn is_internal(service: &Value) -> bool {
    service["metadata"]["annotations"][INTERNAL] == "true"
}

fn told(e: &crate::intranet::Error) -> Status {
    Status::internal(reconcile::chain(e).to_string())
}

/// A balancer that listens.
struct Open {
    address: Ipv4Addr,
    /// Ports that are carried, and what stops each.
    ports: BTreeMap<u16, Result<CancellationToken, String>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.ports.values().flatten().for_each(CancellationToken::cancel);
    }
}

impl Open {
    fn ingress(&self) -> Value {
        let mut point = json!({"ip": self.address.to_string(), "ipMode": "VIP"});
        if self.ports.values().any(Result::is_err) {
            let port = |(p, r): (&u16, &Result<CancellationToken, String>)| match r {
                Ok(_) => json!({"port": p, "protocol": "TCP"}),
                Err(_) => json!({"port": p, "protocol": "TCP", "error": "CannotListen"}),
            };
            point["ports"] = self.ports.iter().map(port).collect();
        }
        point
    }
}

/// One connection after the other, to whoever is ready when it comes.
async fn carry(listener: TcpListener, nodes: Nodes, key: String, port: u16, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            a = listener.accept() => a,
        };
        let Ok((mut client, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let (namespace, name) = ek_engine::split(&key);
        // Nobody behind it: the client sees its connection closed, as with a cloud's balancer.
        let Some(to) = nodes.resolve(&ClusterId::new(cluster::NAME), namespace, name, port) else { continue };
        let stop = stop.clone();
        tokio::spawn(async move {
            let carried = async {
                let mut server = TcpStream::connect(to).await?;
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, 4 << 10, 16 << 10).await
            };
            tokio::select! {
                () = stop.cancelled() => {}
                _ = carried => {}
            }
        });
    }
}

fn wanted(service: &Value) -> Vec<u16> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let tcp = ports.filter(|p| p["protocol"].as_str().unwrap_or("TCP") == "TCP");
    tcp.filter_map(|p| p["port"].as_u64().and_then(|p| u16::try_from(p).ok())).collect()
}

impl Balancers {
    pub fn new(nodes: Nodes, random: clock::Random) -> Balancers {
        Balancers { nodes, random, open: Mutex::default(), intranet: None, stop: CancellationToken::new() }
    }

    /// Internal ones are load balancers of Azure as well, by whose address private links find them.
    pub fn with_intranet(mut self, intranet: Arc<Intranet>) -> Balancers {
        self.intranet = Some(intranet);
        self
    }

    async fn tell(&self, service: &Value, ingress: &Value) -> Result<(), Status> {
        let address = ingress["ip"].as_str().and_then(|ip| ip.parse().ok());
        match (&self.intranet, address) {
            (Some(i), Some(ip)) if is_internal(service) => {
                i.balance(ip, &wanted(service)).await.map_err(|e| told(&e))
            }
            _ => Ok(()),
        }
    }

    async fn untell(&self, service: &Value) -> Result<(), Status> {
        let open = self.open.lock().get(&key(service)).map(|o| o.address);
        let said = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        let address = open.or_else(|| said.and_then(|ip| ip.parse().ok()));
        match (&self.intranet, address) {
            (Some(i), Some(ip)) if is_internal(service) => i.unbalance(ip).await.map_err(|e| told(&e)),
            _ => Ok(()),
        }
    }

    pub(crate) fn close(&self) {
        self.stop.cancel();
        self.open.lock().clear();
    }

    /// An address below 127.64.0.0/10: away from what people use by hand.
    fn draw(&self) -> Ipv4Addr {
        let [a, b, c] = self.random.bytes::<3>();
        Ipv4Addr::new(127, 64 | (a & 0x3f), b, c.clamp(1, 254))
    }

    /// Listens on an address, with all ports or not at all. Ports that this user may not have are left out and said.
    async fn bind(&self, address: Ipv4Addr, ports: &[u16], key: &str) -> io::Result<Open> {
        let mut open = Open { address, ports: BTreeMap::new() };
        for port in ports {
            let made = match TcpListener::bind(SocketAddr::from((address, *port))).await {
                Ok(listener) => Ok(listener),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(format!(
                    "port {port} needs privileges: lower net.ipv4.ip_unprivileged_port_start, or publish another port"
                )),
                Err(e) => return Err(e),
            };
            let made = made.map(|listener| {
                let stop = self.stop.child_token();
                tokio::spawn(carry(listener, self.nodes.clone(), key.to_owned(), *port, stop.clone()));
                stop
            });
            open.ports.insert(*port, made);
        }
        Ok(open)
    }

    async fn place(&self, service: &Value, key: &str) -> Result<Value, Status> {
        let ports = wanted(service);
        let before = {
            let open = self.open.lock();
            let there = open.get(key);
            if let Some(o) = there.filter(|o| o.ports.keys().copied().eq(sorted(&ports))) {
                return Ok(o.ingress());
            }
            there.map(|o| o.address)
        };
        let said = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        let before = before.or_else(|| said.and_then(|ip| ip.parse().ok()));
        if before.is_some() {
            // Its own listeners must not be in the way of those it gets now.
            self.open.lock().remove(key);
        }
        let mut last = None;
        for address in before.into_iter().chain((0..TRIES).map(|_| self.draw())) {
            match self.bind(address, &ports, key).await {
                Ok(open) => {
                    let ingress = open.ingress();
                    self.open.lock().insert(key.to_owned(), open);
                    return Ok(ingress);
                }
                Err(e) => last = Some(e),
            }
        }
        let why = last.map(|e| e.to_string()).unwrap_or_default();
        Err(Status::internal(format!("no loopback address could be had for {key}: {why}")))
    }
}

fn sorted(ports: &[u16]) -> impl Iterator<Item = u16> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    ports.into_iter()
}

fn key(service: &Value) -> String {
    format!("{}/{}", object::namespace(service), object::name(service))
}

/// Only the management cluster has balancers: a guest's are its own cloud provider's business.
fn ours(access: &Access) -> bool {
    access.id().as_str() == cluster::NAME
}

impl LoadBalancers for Balancers {
    fn assign<'a>(
        &'a self,
        access: &'a Access,
        service: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            match ours(access) {
                true => {
                    let ingress = self.place(service, &key(service)).await?;
                    self.tell(service, &ingress).await?;
                    Ok(vec![ingress])
                }
                false => Ok(Vec::new()),
            }
        })
    }

    fn release<'a>(&'a self, access: &'a Access, service: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if ours(access) {
                self.untell(service).await?;
                self.open.lock().remove(&key(service));
            }
            Ok(())
        })
    }
}

impl std::fmt::Debug for Balancers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Balancers").field("open", &self.open.lock().len()).finish()
    }
}
