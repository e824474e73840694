//! Resource quotas: what is used of them. Refusing what does not fit is the API server's, when it admits.

mod plan;

use crate::objects::members;
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::quantity::Quantity;
use ek_meta::{Status, object};
use ek_server::registry::table_name;
use ek_server::{Access, parse};
use ek_store::{ClusterId, TableName};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use plan::Usage;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

#[derive(Default)]
pub struct Quotas {
    /// Where there are any, so that everything else passes by at no cost.
    known: Mutex<HashMap<ClusterId, BTreeSet<Arc<str>>>>,
}

impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota"
    }

    fn watches(&self) -> &'static [&'static str] {
        &[]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        let mut known = self.known.lock();
        if &*delta.table == "/resourcequotas" {
            let all = known.entry(delta.cluster.clone()).or_default();
            match delta.current {
                Some(_) => _ = all.insert(delta.key.clone()),
                None => _ = all.remove(&delta.key),
            }
        }
        let Some(all) = known.get(&delta.cluster).filter(|all| !all.is_empty()) else { return };
        let counted = delta.previous.is_none() || delta.current.is_none();
        let measured =
            matches!(&*delta.table, "/pods" | "/services" | "/persistentvolumeclaims" | "/resourcequotas");
        if !counted && !measured || &*delta.table == "/events" {
            return;
        }
        let prefix = format!("{}/", split(&delta.key).0);
        let here = all.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        for key in here.take_while(|k| k.starts_with(&prefix)) {
            keys.push(key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            run(&access.manager(MANAGER), key).await?;
            Ok(Outcome::Done)
        })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.known.lock().remove(cluster);
    }
}

async fn run(access: &Access, key: &str) -> Result<(), Status> {
    let (namespace, name) = split(key);
    let Some(quota) = access.get(&tables::QUOTAS, namespace, name) else { return Ok(()) };
    let used = plan::used(&quota, &usage(access, namespace, &quota));
    let status = json!({"hard": quota["spec"]["hard"], "used": used});
    let put = |q: &mut Value| {
        let changed = object::uid(q) == object::uid(&quota) && q["status"] != status;
        if changed {
            q["status"] = status.clone();
        }
        changed
    };
    match access.update(&tables::QUOTAS, namespace, name, "status", put).await {
        Err(e) if e.code != 404 => Err(e),
        _ => Ok(()),
    }
}

fn usage(access: &Access, namespace: &str, quota: &Value) -> Usage {
    let all = |table: &TableName| -> Vec<Value> {
        access.in_namespace(table, namespace).iter().filter_map(|(_, e)| parse(e)).collect()
    };
    let limits =
        |what: &str| members(quota, "/spec/hard").any(|(k, _)| k.starts_with(what) || k.contains(what));
    let mut parts = Vec::new();
    parts.extend(all(&tables::PODS).iter().filter(|p| plan::in_scope(quota, p)).map(plan::pod));
    if !plan::has_scopes(quota) {
        if limits("services") {
            parts.extend(all(&tables::SERVICES).iter().map(plan::service));
        }
        if limits("persistentvolumeclaims") || limits("storage") {
            parts.extend(all(&tables::CLAIMS).iter().map(plan::claim));
        }
        parts.push(counted(access, namespace, quota));
    }
    plan::total(parts)
}

/// Kinds that are only counted: the old names, and `count/<plural>.<group>` for anything.
fn counted(access: &Access, namespace: &str, quota: &Value) -> Usage {
    let mut out = Usage::new();
    for (name, _) in members(quota, "/spec/hard") {
        let table = match name.as_str() {
            "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => table_name("", name),
            other => match other.strip_prefix("count/") {
                Some(what) => {
                    let (plural, group) = what.split_once('.').unwrap_or((what, ""));
                    table_name(group, plural)
                }
                None => continue,
            },
        };
        let n = access.in_namespace(&table, namespace).len() as i64;
        out.insert(name.clone(), Quantity::from_int(n));
    }
    out
}
