//! Stored objects as a version serves them, and the way back.
//!
//! Most reads are stored bytes as they are. The slow path parses: another version is asked for, or the schema
//! has changed since the bytes were written, so defaults and pruning must be applied on read.

use crate::cluster::Cluster;
use crate::crd::Conversion;
use crate::registry::{Resource, reheaded};
use crate::wire::encode;
use bytes::Bytes;
use ek_meta::Status;
use ek_store::Entry;
use serde_json::Value;

/// Canonical bytes under the served version's head, resource version included.
pub fn served_bytes(res: &Resource, obj: &Value) -> Bytes {
    let rv = ek_meta::object::resource_version(obj);
    encode::preview(obj, &res.head, rv).into()
}

/// The stored bytes, when they are what this version serves.
pub fn unchanged<'a>(res: &Resource, entry: &'a Entry) -> Option<&'a Bytes> {
    let same = entry.meta.schema_stamp == res.stamp() && entry.bytes.starts_with(res.head.as_bytes());
    same.then_some(&entry.bytes)
}

impl Cluster {
    /// The bytes a client of `res` sees.
    pub async fn read_bytes(&self, res: &Resource, entry: &Entry) -> Result<Bytes, Status> {
        if let Some(b) = unchanged(res, entry) {
            return Ok(b.clone());
        }
        if !res.is_custom()
            && let Some(b) = same_shape(res, entry)
        {
            return Ok(b);
        }
        Ok(served_bytes(res, &self.read(res, entry).await?))
    }

    /// The object a client of `res` sees.
    pub async fn read(&self, res: &Resource, entry: &Entry) -> Result<Value, Status> {
        let obj: Value = serde_json::from_slice(&entry.bytes).map_err(Status::internal)?;
        if unchanged(res, entry).is_some() {
            return Ok(obj);
        }
        let mut all = self.to_version(res, &res.api_version, vec![obj]).await?;
        all.pop().ok_or_else(|| Status::internal("conversion returned no object"))
    }

    /// Many objects of one list, so that a conversion webhook is asked once.
    pub async fn read_all(
        &self,
        res: &Resource,
        entries: &[std::sync::Arc<Entry>],
    ) -> Result<Vec<Value>, Status> {
        let parsed: Result<Vec<Value>, _> =
            entries.iter().map(|e| serde_json::from_slice(&e.bytes)).collect();
        self.to_version(res, &res.api_version, parsed.map_err(Status::internal)?).await
    }

    /// Converts to `api_version` of the same resource; for custom resources the schema's pruning and defaults
    /// are applied when it is the version `res` serves.
    pub async fn to_version(
        &self,
        res: &Resource,
        api_version: &str,
        mut objs: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        let Some(custom) = &res.custom else {
            for o in &mut objs {
                ek_builtin::convert::convert(o, api_version);
                ek_proto::zero::normalize(api_version, &res.kind, o);
            }
            return Ok(objs);
        };
        if objs.iter().any(|o| o["apiVersion"] != api_version) {
            match &custom.conversion {
                Conversion::None => {
                    for o in &mut objs {
                        o["apiVersion"] = Value::from(api_version);
                    }
                }
                Conversion::Webhook(config) => {
                    objs = self.webhooks.convert(self, config, api_version, objs).await?;
                }
            }
        }
        if api_version == res.api_version
            && let Some(v) = &custom.validator
        {
            for o in &mut objs {
                ek_schema::prune::prune(o, v.node(), true);
                ek_schema::default::default(o, v.node());
            }
        }
        Ok(objs)
    }

    /// The object as it is stored.
    pub async fn to_storage(&self, res: &Resource, obj: Value) -> Result<Value, Status> {
        if obj["apiVersion"] == res.storage_api_version.as_str() {
            return Ok(obj);
        }
        let target = res.storage_api_version.clone();
        let mut all = self.to_version(res, &target, vec![obj]).await?;
        all.pop().ok_or_else(|| Status::internal("conversion returned no object"))
    }
}

/// Built-ins stored under another group with the same body only need another head.
fn same_shape(res: &Resource, entry: &Entry) -> Option<Bytes> {
    ek_builtin::convert::is_rename_only(&res.storage_api_version, &res.api_version)
        .then(|| reheaded(&entry.bytes, &res.storage_head, &res.head))
        .flatten()
}
