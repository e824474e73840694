//! What a new cluster contains before its first client: namespaces, roles, priority levels.
//!
//! Written in one batch, as the server itself, on first start; a cluster that has its namespaces is left
//! alone, so what an operator removed stays removed.

use crate::cluster::{Cluster, tables};
use crate::wire::encode;
use ek_meta::gvk::GroupVersion;
use ek_meta::object::{self, metadata_mut};
use ek_store::{Batch, Change, CommitError, Expect, Op};
use serde_json::{Value, json};
use std::sync::Arc;

impl Cluster {
    pub(crate) async fn bootstrap(self: &Arc<Self>) -> Result<(), CommitError> {
        if self.entry(&tables::NAMESPACES, "", "default").is_some() {
            return Ok(());
        }
        let registry = self.registry();
        let mut ops = Vec::new();
        for mut obj in ek_builtin::bootstrap::objects().into_iter().chain(ek_auth::bootstrap::objects()) {
            let api_version = object::str_at(&obj, &["apiVersion"]).unwrap_or_default().to_owned();
            let kind = object::str_at(&obj, &["kind"]).unwrap_or_default().to_owned();
            let Some(gv) = GroupVersion::parse(&api_version) else { continue };
            let Some(res) = registry.by_kind(&gv.group, &gv.version, &kind) else { continue };
            let meta = metadata_mut(&mut obj);
            meta.insert("uid".into(), json!(self.random.uuid()));
            meta.insert("creationTimestamp".into(), json!(self.timestamp()));
            if ek_builtin::has_generation(&res.group, &res.plural) {
                meta.insert("generation".into(), json!(1));
            }
            ek_builtin::defaults::default(&res.group, &res.plural, &mut obj);
            ek_builtin::prepare::prepare(&res.group, &res.plural, &mut obj, None);
            let key = ek_store::object_key(object::namespace(&obj), object::name(&obj));
            let draft = encode::draft(&obj, &res.storage_head, res.stamp());
            ops.push(Op { table: res.table.clone(), key, expect: Expect::Any, change: Change::Put(draft) });
        }
        ops.push(self.authentication_config_map());
        self.store.commit(Batch { cluster: self.id.clone(), ops }).await.map(|_| ())
    }

    /// What extension servers need to trust us.
    fn authentication_config_map(&self) -> Op {
        let obj: Value = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
                "uid": self.random.uuid(), "creationTimestamp": self.timestamp()},
            "data": {"client-ca-file": self.identity.authority.cert_pem()}
        });
        let draft = encode::draft(&obj, &encode::head("ConfigMap", "v1"), 0);
        Op {
            table: crate::registry::table_name("", "configmaps"),
            key: "kube-system/extension-apiserver-authentication".into(),
            expect: Expect::Any,
            change: Change::Put(draft),
        }
    }
}
