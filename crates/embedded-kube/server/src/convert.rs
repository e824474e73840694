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
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Canonical bytes under the served version's head, resource version included.
pub fn served_bytes(res: &Resource, obj: &Value) -> Bytes {
    let rv = ek_meta::object::resource_version(obj);
    encode::preview(obj, &res.head, rv).into()
}

/// Whether the stored bytes are what this version serves.
pub fn is_unchanged(res: &Resource, entry: &Entry) -> bool {
    entry.meta.schema_stamp == res.stamp() && entry.starts_with(res.head.as_bytes())
}

/// The stored bytes, when they are what this version serves.
pub fn unchanged(res: &Resource, entry: &Entry) -> Option<Bytes> {
    is_unchanged(res, entry).then(|| entry.bytes())
}

/// Objects as conversion webhooks returned them: what is asked of a hook about one state of one object is always
/// the same question, and the answer must not depend on when it is asked.
#[derive(Clone, Default)]
pub struct Converted(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    objects: HashMap<State, Bytes>,
    size: usize,
}

/// One state of one object in one version, converted under one definition.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    uid: String,
    revision: u64,
    api_version: String,
    rules: u64,
}

/// Bytes of remembered objects. Beyond, all are forgotten: whoever is still read is back after one call.
const MAX_CONVERTED: usize = 16 << 20;

impl Converted {
    fn get(&self, state: &State) -> Option<Value> {
        let bytes = self.0.lock().objects.get(state).cloned()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn put(&self, state: State, object: &Value) {
        let bytes = Bytes::from(object.to_string());
        if bytes.len() > MAX_CONVERTED / 8 {
            return;
        }
        let mut known = self.0.lock();
        if known.size + bytes.len() > MAX_CONVERTED {
            *known = Known::default();
        }
        known.size += bytes.len();
        if let Some(before) = known.objects.insert(state, bytes) {
            known.size -= before.len();
        }
    }
}

/// The state an entry is remembered under; none where nothing is worth remembering.
fn state(res: &Resource, entry: &Entry, obj: &Value) -> Option<State> {
    let custom = res.custom.as_ref()?;
    let Conversion::Webhook(config) = &custom.conversion else { return None };
    // What a dry run shows was never stored.
    if entry.revision == 0 || obj["apiVersion"] == res.api_version.as_str() {
        return None;
    }
    Some(State {
        uid: ek_meta::object::uid(obj).to_owned(),
        revision: entry.revision,
        api_version: res.api_version.clone(),
        rules: res.stamp() ^ xxhash_rust::xxh3::xxh3_64(config.to_string().as_bytes()),
    })
}

impl Cluster {
    /// The bytes a client of `res` sees.
    pub async fn read_bytes(&self, res: &Resource, entry: &Entry) -> Result<Bytes, Status> {
        if let Some(b) = unchanged(res, entry) {
            return Ok(b);
        }
        if !res.is_custom()
            && let Some(b) = same_shape(res, entry)
        {
            return Ok(b);
        }
        Ok(served_bytes(res, &self.read(res, entry).await?))
    }

    /// The object a client of `res` sees, shared with others who look at it.
    pub async fn look(&self, res: &Resource, entry: &Arc<Entry>) -> Result<Arc<Value>, Status> {
        match is_unchanged(res, entry).then(|| crate::access::shared(entry)).flatten() {
            Some(shared) => Ok(shared),
            None => self.read(res, entry).await.map(Arc::new),
        }
    }

    /// The object a client of `res` sees.
    pub async fn read(&self, res: &Resource, entry: &Entry) -> Result<Value, Status> {
        let obj: Value = serde_json::from_slice(&entry.bytes()).map_err(Status::internal)?;
        if is_unchanged(res, entry) {
            return Ok(obj);
        }
        let state = state(res, entry, &obj);
        if let Some(known) = state.as_ref().and_then(|s| self.webhooks.converted.get(s)) {
            return Ok(known);
        }
        let mut all = self.to_version(res, &res.api_version, vec![obj]).await?;
        let object = all.pop().ok_or_else(|| Status::internal("conversion returned no object"))?;
        if let Some(s) = state {
            self.webhooks.converted.put(s, &object);
        }
        Ok(object)
    }

    /// Many objects of one list, so that a conversion webhook is asked once.
    pub async fn read_all(
        &self,
        res: &Resource,
        entries: &[std::sync::Arc<Entry>],
    ) -> Result<Vec<Value>, Status> {
        let parsed: Result<Vec<Value>, _> =
            entries.iter().map(|e| serde_json::from_slice(&e.bytes())).collect();
        let parsed = parsed.map_err(Status::internal)?;
        let states: Vec<Option<State>> =
            (entries.iter().zip(&parsed)).map(|(e, o)| state(res, e, o)).collect();
        if states.iter().all(Option::is_none) {
            return self.to_version(res, &res.api_version, parsed).await;
        }
        let known = &self.webhooks.converted;
        let mut out: Vec<Option<Value>> =
            states.iter().map(|s| s.as_ref().and_then(|s| known.get(s))).collect();
        let (places, asked): (Vec<usize>, Vec<Value>) =
            parsed.into_iter().enumerate().filter(|(i, _)| out[*i].is_none()).unzip();
        if !asked.is_empty() {
            let answers = self.to_version(res, &res.api_version, asked).await?;
            for (i, object) in places.into_iter().zip(answers) {
                if let Some(s) = &states[i] {
                    known.put(s.clone(), &object);
                }
                out[i] = Some(object);
            }
        }
        let whole: Option<Vec<Value>> = out.into_iter().collect();
        whole.ok_or_else(|| Status::internal("conversion returned too few objects"))
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
        .then(|| reheaded(&entry.bytes(), &res.storage_head, &res.head))
        .flatten()
}
