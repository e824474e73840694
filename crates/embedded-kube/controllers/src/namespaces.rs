//! What every namespace has: the account its pods run as, and the certificate by which they know the API.

use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::Status;
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::{Value, json};

const ROOT_CA: &str = "kube-root-ca.crt";

pub struct NamespaceFurniture;

impl Controller for NamespaceFurniture {
    fn name(&self) -> &'static str {
        "namespace-furniture"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/namespaces", "/serviceaccounts", "/configmaps"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        let (namespace, name) = split(&delta.key);
        match &*delta.table {
            "/namespaces" if delta.previous.is_none() => keys.push(name),
            "/serviceaccounts" if delta.current.is_none() && name == "default" => keys.push(namespace),
            // Written by somebody else it is put right, too.
            "/configmaps" if name == ROOT_CA => keys.push(namespace),
            _ => {}
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            let there = access.entry(&tables::NAMESPACES, "", key).is_some_and(|n| !n.meta.deleting);
            if !there {
                return Ok(Outcome::Done);
            }
            if access.entry(&tables::SERVICE_ACCOUNTS, key, "default").is_none() {
                let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": key}});
                ignore_taken(access.create(&tables::SERVICE_ACCOUNTS, account).await)?;
            }
            let data = json!({"ca.crt": access.ca_pem()});
            match access.get(&tables::CONFIG_MAPS, key, ROOT_CA) {
                None => {
                    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": ROOT_CA, "namespace": key, "annotations": {
                            "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."}},
                        "data": data});
                    ignore_taken(access.create(&tables::CONFIG_MAPS, map).await)?;
                }
                Some(map) if map["data"] != data => {
                    let right = |m: &mut Value| {
                        m["data"] = data.clone();
                        true
                    };
                    access.update(&tables::CONFIG_MAPS, key, ROOT_CA, "", right).await?;
                }
                Some(_) => {}
            }
            Ok(Outcome::Done)
        })
    }
}

/// Somebody was faster, or the namespace is on its way out: both are fine.
fn ignore_taken(result: Result<Value, Status>) -> Result<(), Status> {
    match result {
        Err(e) if e.code != 409 && e.code != 403 => Err(e),
        _ => Ok(()),
    }
}
