//! Load balancers: where their addresses come from is somebody else's business, behind a trait.

use crate::events::{self, Note};
use crate::objects::{has_finalizer, is_deleting, list, remove_finalizer, text};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

const COMPONENT: &str = "service-controller";
const CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Gives services of type LoadBalancer addresses that clients outside can reach.
pub trait LoadBalancers: Send + Sync + 'static {
    /// The ingress points of a service, as `status.loadBalancer.ingress` lists them. Called again whenever the
    /// service changes; must answer the same for the same service.
    fn assign<'a>(
        &'a self,
        access: &'a Access,
        service: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// The service is gone, or no longer wants one.
    fn release<'a>(&'a self, _access: &'a Access, _service: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }
}

pub struct Services(pub Arc<dyn LoadBalancers>);

impl Controller for Services {
    fn name(&self) -> &'static str {
        "service-load-balancer"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/services"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.current.is_some() {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            self.run(&access.manager(MANAGER), key).await?;
            Ok(Outcome::Done)
        })
    }
}

impl Services {
    async fn run(&self, access: &Access, key: &str) -> Result<(), Status> {
        let (namespace, name) = split(key);
        let Some(service) = access.get(&tables::SERVICES, namespace, name) else { return Ok(()) };
        // Another class is another's.
        let wants = text(&service, "/spec/type") == "LoadBalancer"
            && text(&service, "/spec/loadBalancerClass").is_empty()
            && !is_deleting(&service);
        if !wants {
            if has_finalizer(&service, CLEANUP) {
                self.0.release(access, &service).await?;
                set_ingress(access, &service, &[]).await?;
                let go = |s: &mut Value| remove_finalizer(s, CLEANUP);
                access.update(&tables::SERVICES, namespace, name, "", go).await?;
                events::tell(
                    access,
                    COMPONENT,
                    &service,
                    &Note::normal("DeletedLoadBalancer", "Deleted load balancer"),
                )
                .await;
            }
            return Ok(());
        }
        if !has_finalizer(&service, CLEANUP) {
            let hold = |s: &mut Value| {
                match s.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
                    Some(a) => a.push(json!(CLEANUP)),
                    None => s["metadata"]["finalizers"] = json!([CLEANUP]),
                }
                true
            };
            access.update(&tables::SERVICES, namespace, name, "", hold).await?;
            events::tell(
                access,
                COMPONENT,
                &service,
                &Note::normal("EnsuringLoadBalancer", "Ensuring load balancer"),
            )
            .await;
        }
        match self.0.assign(access, &service).await {
            Ok(ingress) => {
                if set_ingress(access, &service, &ingress).await? {
                    events::tell(
                        access,
                        COMPONENT,
                        &service,
                        &Note::normal("EnsuredLoadBalancer", "Ensured load balancer"),
                    )
                    .await;
                }
                Ok(())
            }
            Err(e) => {
                let note = Note::warning(
                    "SyncLoadBalancerFailed",
                    format!("Error syncing load balancer: {}", e.message),
                );
                events::tell(access, COMPONENT, &service, &note).await;
                Err(e)
            }
        }
    }
}

async fn set_ingress(access: &Access, service: &Value, ingress: &[Value]) -> Result<bool, Status> {
    let put = |s: &mut Value| {
        if list(s, "/status/loadBalancer/ingress") == ingress {
            return false;
        }
        s["status"]["loadBalancer"] =
            if ingress.is_empty() { json!({}) } else { json!({"ingress": ingress}) };
        true
    };
    let (ns, name) = (object::namespace(service), object::name(service));
    Ok(access.update(&tables::SERVICES, ns, name, "status", put).await?.is_some())
}
