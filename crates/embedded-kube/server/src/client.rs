//! The server without a socket: a tower service, and a `kube::Client` over it.

use crate::cluster::Cluster;
use crate::pipeline::{self, Peer};
use crate::wire::respond::Body;
use ek_auth::User;
use futures::future::BoxFuture;
use http::{Request, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Answers requests in process, as a fixed user.
#[derive(Clone)]
pub struct LocalService {
    cluster: Arc<Cluster>,
    peer: Peer,
}

impl LocalService {
    pub(crate) fn new(cluster: Arc<Cluster>, user: User) -> LocalService {
        LocalService { cluster, peer: Peer { user: Some(user), ..Peer::default() } }
    }
}

impl<B> tower::Service<Request<B>> for LocalService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, req: Request<B>) -> Self::Future {
        let (cluster, peer) = (self.cluster.clone(), self.peer.clone());
        Box::pin(async move { Ok(pipeline::serve(&cluster, &peer, req).await) })
    }
}
