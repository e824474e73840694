//! A HostedControlPlane is held while it has endpoints: what removes them needs its API to sign in to Azure.

use crate::kinds;
use apis::names::finalizer;
use futures::future::BoxFuture;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use reconcile::{Applier, Controller, Failure, Outcome, Tenants, View, Waiting, split};
use std::sync::Arc;

pub(super) struct Planes {
    pub planes: Arc<View<DynamicObject>>,
    pub links: Arc<View<DynamicObject>>,
    pub applier: Applier,
    pub clock: clock::SharedClock,
    pub tenants: Arc<Tenants>,
}

/// What is kept of a control plane: whether it goes, and who holds it.
pub(super) fn slim(o: &DynamicObject) -> Option<DynamicObject> {
    let mut metadata = o.metadata.clone();
    metadata.managed_fields = None;
    metadata.annotations = None;
    Some(DynamicObject { types: o.types.clone(), metadata, data: serde_json::Value::Null })
}

fn held(o: &DynamicObject, by: &str) -> bool {
    o.metadata.finalizers.iter().flatten().any(|f| f == by)
}

impl Controller for Planes {
    fn name(&self) -> &'static str {
        "private-endpoint-cleanup"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

impl Planes {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let plane = self.planes.get(ns, n).filter(|p| p.metadata.deletion_timestamp.is_some());
        let Some(plane) = plane.filter(|_| self.tenants.serves(ns)) else { return Ok(Outcome::Done) };
        if !held(&plane, finalizer::PRIVATE_ENDPOINT_CLEANUP) {
            return Ok(Outcome::Done);
        }
        let mut open = Vec::new();
        for link in self.links.within(ns) {
            let name = link.metadata.name.clone().unwrap_or_default();
            if link.metadata.deletion_timestamp.is_none() {
                let api = kinds::LINK.api(self.applier.client(), ns);
                match api.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(s)) if s.code == 404 => continue,
                    Err(e) => return Err(e.into()),
                }
                open.push(name);
            } else if held(&link, finalizer::PRIVATE_ENDPOINT) {
                open.push(name);
            }
        }
        if open.is_empty() {
            let at = kinds::PLANE.at(ns, n);
            self.applier.remove_finalizer(&at, &plane, finalizer::PRIVATE_ENDPOINT_CLEANUP).await?;
            return Ok(Outcome::Done);
        }
        let on = format!("private endpoints of {} to be removed", open.join(", "));
        let on = Waiting::new(on, "their conditions say what is in the way", self.clock.now());
        Ok(Outcome::Waiting { on: vec![on], again: None })
    }
}
