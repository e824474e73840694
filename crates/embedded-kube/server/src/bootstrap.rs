//! What a new cluster contains before its first client: namespaces, roles, priority levels.
//!
//! Most of it is the same everywhere, so it is made once per process and every cluster is founded on it. Its
//! own are the namespaces (the uid of `kube-system` is what tools take for the identity of a cluster) and what
//! carries its keys. A cluster that has its namespaces is left alone: what an operator removed stays removed.

use crate::cluster::{Cluster, tables};
use crate::registry::Registry;
use crate::wire::encode;
use clock::Random;
use ek_meta::gvk::GroupVersion;
use ek_meta::object::{self, metadata_mut};
use ek_store::{Base, Batch, Change, CommitError, Draft, Expect, Op, TableName};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Gives an object what the server gives every object, and its place.
fn finish(
    registry: &Registry,
    mut obj: Value,
    now: Timestamp,
    random: &Random,
) -> Option<(TableName, String, Draft)> {
    let api_version = object::str_at(&obj, &["apiVersion"]).unwrap_or_default().to_owned();
    let kind = object::str_at(&obj, &["kind"]).unwrap_or_default().to_owned();
    let gv = GroupVersion::parse(&api_version)?;
    let res = registry.by_kind(&gv.group, &gv.version, &kind)?;
    let meta = metadata_mut(&mut obj);
    meta.insert("uid".into(), json!(random.uuid()));
    meta.insert("creationTimestamp".into(), json!(ek_meta::time::rfc3339(now)));
    if ek_builtin::has_generation(&res.group, &res.plural) {
        meta.insert("generation".into(), json!(1));
    }
    ek_builtin::defaults::default(&res.group, &res.plural, &mut obj);
    ek_builtin::prepare::prepare(&res.group, &res.plural, &mut obj, None);
    let key = ek_store::object_key(object::namespace(&obj), object::name(&obj));
    Some((res.table.clone(), key, encode::draft(&obj, &res.storage_head, res.stamp())))
}

fn is_own(obj: &Value) -> bool {
    obj["kind"] == "Namespace"
}

/// What all clusters share.
pub(crate) fn base(now: Timestamp, random: &Random) -> Base {
    let registry = Registry::new(Vec::new(), 0);
    let all = ek_builtin::bootstrap::objects().into_iter().chain(ek_auth::bootstrap::objects());
    Base::new(all.filter(|o| !is_own(o)).filter_map(|o| finish(&registry, o, now, random)).collect())
}

impl Cluster {
    pub(crate) async fn bootstrap(self: &Arc<Self>, base: &Arc<Base>) -> Result<(), CommitError> {
        if self.entry(&tables::NAMESPACES, "", "default").is_some() {
            return Ok(());
        }
        self.store.found(&self.id, base).await?;
        let registry = self.registry();
        let own = ek_builtin::bootstrap::objects().into_iter().filter(is_own);
        let drafts = own.filter_map(|o| finish(&registry, o, self.now(), &self.random));
        let ops: Vec<Op> = drafts
            .map(|(table, key, draft)| Op { table, key, expect: Expect::Any, change: Change::Put(draft) })
            .collect();
        self.store.commit(Batch { cluster: self.id.clone(), ops }).await.map(|_| ())
    }

    /// What others need to know of this server, where they look for it; what is there is left alone. ConfigMaps may be
    /// encrypted, so this waits for the keys.
    pub(crate) async fn publish_config(&self) -> Result<(), CommitError> {
        let absent = |name: &str| {
            self.entry(&crate::registry::table_name("", "configmaps"), "kube-system", name).is_none()
        };
        let mut ops = Vec::new();
        const AUTHENTICATION: &str = "extension-apiserver-authentication";
        if absent(AUTHENTICATION) {
            ops.push(self.config_map(AUTHENTICATION, json!({"client-ca-file": self.identity.ca_pem()})));
        }
        // Since when the use of token Secrets is followed; a kube-controller-manager asks before it cleans up.
        const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
        if absent(TRACKING) {
            let today = self.now().to_string();
            let since = today.split('T').next().unwrap_or_default();
            ops.push(self.config_map(TRACKING, json!({"since": since})));
        }
        if ops.is_empty() {
            return Ok(());
        }
        self.store.commit(Batch { cluster: self.id.clone(), ops }).await.map(|_| ())
    }

    fn config_map(&self, name: &str, data: Value) -> Op {
        let obj: Value = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "kube-system",
                "uid": self.random.uuid(), "creationTimestamp": self.timestamp()},
            "data": data
        });
        let draft = encode::draft(&obj, &encode::head("ConfigMap", "v1"), 0);
        Op {
            table: crate::registry::table_name("", "configmaps"),
            key: ek_store::object_key("kube-system", name),
            expect: Expect::Any,
            change: Change::Put(draft),
        }
    }
}
