//! A pod of the node runtime as a place for programs.

use crate::rings::Rings;
use ek_node::ProgramContext;
use futures::future::BoxFuture;
use sidecars::Place;
use std::net::SocketAddr;
use std::path::PathBuf;

pub struct PodPlace {
    pub ctx: ProgramContext,
    pub rings: Option<Rings>,
}

impl PodPlace {
    pub fn new(ctx: &ProgramContext) -> PodPlace {
        PodPlace { ctx: ctx.clone(), rings: None }
    }
}

impl Place for PodPlace {
    fn path(&self, path: &str) -> Option<PathBuf> {
        self.ctx.path(path)
    }

    fn route(&self, host: &str, port: u16) -> Result<Option<SocketAddr>, String> {
        // There is no other network than that of the pod and the cluster's Services.
        let found = match host {
            "localhost" | "127.0.0.1" | "::1" => self.ctx.local(port),
            _ => self.ctx.resolve(host, port),
        };
        found.map(Some).ok_or_else(|| "no ready endpoint".to_owned())
    }

    fn here(&self) -> BoxFuture<'_, Result<kube::Client, String>> {
        let client = self.ctx.client();
        Box::pin(async move { Ok(client) })
    }

    fn say(&self, line: &str) {
        self.ctx.log(line);
    }

    fn moved(&self) -> BoxFuture<'static, ()> {
        let mut endpoints = self.ctx.endpoints();
        Box::pin(async move {
            if endpoints.changed().await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn replaced(&self, _: &str) {
        self.ctx.stir();
        if let Some(rings) = &self.rings {
            rings.ring(self.ctx.cluster(), self.ctx.namespace(), self.ctx.pod());
        }
    }
}
