//! Resource quotas: what is used of them. Refusing what does not fit is the API server's, when it admits.

use crate::objects::members;
use crate::{MANAGER, tables};
use ek_builtin::quota::{self, Usage};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::quantity::Quantity;
use ek_meta::{Status, object};
use ek_server::registry::table_name;
use ek_server::{Access, parse};
use ek_store::ClusterId;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
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
    let usage = usage(access, namespace, &quota);
    let zero = Quantity::from_int(0);
    let used: Map<String, Value> = members(&quota, "/spec/hard")
        .map(|(name, _)| (name.clone(), json!(usage.get(name).copied().unwrap_or(zero).to_string())))
        .collect();
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

/// What is used, by the sums that admission makes.
fn usage(access: &Access, namespace: &str, quota: &Value) -> Usage {
    let mut total = Usage::new();
    for (group, plural) in limited(quota) {
        for (_, entry) in access.in_namespace(&table_name(&group, &plural), namespace) {
            let Some(obj) = parse(&entry) else { continue };
            if !quota::in_scope(&quota["spec"], &group, &plural, &obj) {
                continue;
            }
            for (name, amount) in quota::usage(&group, &plural, &obj) {
                quota::add(&mut total, &name, amount);
            }
        }
    }
    total
}

/// The resources whose objects a quota's limits are about: group and plural.
fn limited(quota: &Value) -> BTreeSet<(String, String)> {
    let core = |plural: &str| (String::new(), plural.to_owned());
    members(quota, "/spec/hard")
        .map(|(name, _)| match name.strip_prefix("count/") {
            Some(what) => {
                let (plural, group) = what.split_once('.').unwrap_or((what, ""));
                (group.to_owned(), plural.to_owned())
            }
            None if matches!(
                name.as_str(),
                "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas"
            ) =>
            {
                core(name)
            }
            None if name.starts_with("services") => core("services"),
            None if name.ends_with("persistentvolumeclaims") || name.ends_with("requests.storage") => {
                core("persistentvolumeclaims")
            }
            None => core("pods"),
        })
        .collect()
}
