//! Which cluster a request on a socket means.
//!
//! The name in the TLS handshake decides, then the path: below `/clusters/<name>` of the main cluster lies every
//! other one, whole, with its own clients and rights. What is neither is the socket's own cluster's.

use crate::admin;
use crate::cluster::Cluster;
use crate::host::{Host, MAIN};
use crate::pipeline::{self, Peer};
use crate::serving::Presented;
use crate::wire::respond::{self, Reply};
use ek_meta::{Reason, Status};
use ek_store::ClusterId;
use http::Request;
use http::uri::{PathAndQuery, Uri};
use http_body::Body as HttpBody;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The path before a cluster's own, for what must say where it is.
#[derive(Clone, Debug, Default)]
pub struct Mounted(pub String);

/// One connection: who is at its other end, and which cluster it is about.
pub struct Connection {
    host: Host,
    cluster: Arc<Cluster>,
    /// What this socket is known as, for addresses we give out.
    address: SocketAddr,
    from: IpAddr,
    chain: Vec<CertificateDer<'static>>,
    /// Chains are verified once per cluster; a connection asks one, rarely two.
    verified: Mutex<Vec<(ClusterId, Arc<Peer>)>>,
}

impl Connection {
    pub fn new(
        host: Host,
        cluster: Arc<Cluster>,
        address: SocketAddr,
        from: IpAddr,
        chain: Vec<CertificateDer<'static>>,
    ) -> Connection {
        Connection { host, cluster, address, from, chain, verified: Mutex::default() }
    }

    fn peer(&self, cluster: &Cluster) -> Arc<Peer> {
        let mut verified = self.verified.lock();
        if let Some((_, peer)) = verified.iter().find(|(id, _)| *id == cluster.id) {
            return peer.clone();
        }
        let (user, untrusted) = match cluster.presented(&self.chain) {
            Presented::Nothing => (None, false),
            Presented::Trusted(user) => (Some(user), false),
            Presented::Untrusted => (None, true),
        };
        let peer = Arc::new(Peer { user, untrusted, address: Some(self.from), ..Peer::default() });
        // A client that walks through all clusters must not make us remember them all.
        verified.truncate(7);
        verified.insert(0, (cluster.id.clone(), peer.clone()));
        peer
    }

    pub async fn serve<B>(&self, mut req: Request<B>) -> Reply
    where
        B: HttpBody,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let below = match req.uri().path().strip_prefix("/clusters") {
            Some(rest) if self.cluster.id.as_str() == MAIN && (rest.is_empty() || rest.starts_with('/')) => {
                rest
            }
            _ => return pipeline::serve(&self.cluster, &self.peer(&self.cluster), req).await,
        };
        let (name, path) = match below.trim_start_matches('/').split_once('/') {
            Some((name, path)) => (name, path),
            None => {
                let url = format!("https://{}", self.address);
                return admin::serve(&self.host, &self.cluster, &self.peer(&self.cluster), &url, req).await;
            }
        };
        let Some(cluster) = self.host.find(&ClusterId::new(name)).filter(|c| !c.is_guest) else {
            let text = format!("there is no cluster {name:?} here; GET /clusters lists them");
            return respond::status(&Status::failure(404, Reason::NotFound, text));
        };
        let prefix = format!("/clusters/{name}");
        let rest = req.uri().query().map_or_else(|| format!("/{path}"), |q| format!("/{path}?{q}"));
        match PathAndQuery::try_from(rest) {
            Ok(rest) => *req.uri_mut() = Uri::from(rest),
            Err(e) => return respond::status(&Status::bad_request(e.to_string())),
        }
        req.extensions_mut().insert(Mounted(prefix));
        pipeline::serve(&cluster, &self.peer(&cluster), req).await
    }
}
