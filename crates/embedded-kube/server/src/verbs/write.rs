//! What create, update, patch and apply share: decoding an object, preparing it, admitting it, storing it.

use super::Call;
use crate::admission::{self, Operation};
use crate::cluster::{commit_status, tables};
use crate::registry::Resource;
use crate::wire::encode;
use crate::wire::params::WriteOptions;
use crate::{access, crd, meta_rules};
use ek_apply::fieldset::Set;
use ek_apply::managed::{Types, Writer};
use ek_meta::schema::Node;
use ek_meta::{FieldError, Status, object};
use ek_store::{Batch, Change, CommitError, Entry, Expect};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The types behind managed fields: every served version of one resource.
pub struct VersionTypes<'a> {
    call: &'a Call,
    siblings: Vec<Arc<Resource>>,
}

impl<'a> VersionTypes<'a> {
    pub fn new(call: &'a Call) -> VersionTypes<'a> {
        let registry = call.cluster.registry();
        let siblings = match registry.group(&call.res.group) {
            Some(g) if g.versions.len() > 1 => (g.versions.iter())
                .filter_map(|v| v.resources.iter().find(|r| r.plural == call.res.plural))
                .cloned()
                .collect(),
            _ => vec![call.res.clone()],
        };
        VersionTypes { call, siblings }
    }
}

impl Types for VersionTypes<'_> {
    fn node(&self, api_version: &str) -> Option<Node<'_>> {
        self.siblings.iter().find(|r| r.api_version == api_version)?.node()
    }

    fn convert(&self, obj: &Value, api_version: &str) -> Option<Value> {
        if obj["apiVersion"] == api_version {
            return Some(obj.clone());
        }
        self.siblings.iter().find(|r| r.api_version == api_version)?;
        let mut out = obj.clone();
        match &self.call.res.custom {
            None => ek_builtin::convert::convert(&mut out, api_version),
            Some(c) if c.conversion == crd::Conversion::None => out["apiVersion"] = api_version.into(),
            // A webhook cannot be asked in the middle of a merge; sets of other versions stay as they are.
            Some(_) => return None,
        }
        Some(out)
    }
}

/// Fields the endpoint does not write, so nobody owns them by writing here.
pub fn reset_fields(res: &Resource, subresource: &str) -> Set {
    match subresource {
        "status" => Set::of_fields(&[&["spec"]]),
        _ if res.has_status() => Set::of_fields(&[&["status"]]),
        _ => Set::default(),
    }
}

impl Call {
    /// The name under which fields are owned: as given, else what the client calls itself.
    pub fn manager(&self, options: &WriteOptions) -> String {
        if let Some(m) = &options.field_manager {
            return m.clone();
        }
        let agent =
            self.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let name = agent.split('/').next().unwrap_or_default();
        let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
        if name.is_empty() { "unknown".to_owned() } else { name }
    }

    /// Says who wrote what, for those who count.
    pub fn told(&self, options: &WriteOptions) {
        tracing::trace!(
            target: "census",
            what = "write",
            cluster = self.cluster.id.as_str(),
            table = %self.res.table,
            verb = self.info.verb,
            sub = %self.info.subresource,
            by = %self.manager(options),
            name = %self.info.name,
        );
    }

    /// Fills defaults of the kind: the object as its client could have written it in full.
    pub fn complete(&self, obj: &mut Value) {
        match &self.res.custom {
            Some(c) => {
                if let Some(v) = &c.validator {
                    ek_schema::default::default(obj, v.node());
                }
            }
            None => {
                ek_builtin::defaults::default(&self.res.group, &self.res.plural, obj);
                if self.res.table == *tables::CRDS {
                    crd::fill_defaults(obj);
                }
                self.normalize(obj);
            }
        }
    }

    /// Fills defaults of the kind, then reshapes what the server owns of it.
    pub fn prepare(&self, obj: &mut Value, old: Option<&Value>) {
        self.complete(obj);
        self.own(obj, old);
    }

    /// The second half of `prepare`.
    pub fn own(&self, obj: &mut Value, old: Option<&Value>) {
        if !self.res.is_custom() {
            ek_builtin::prepare::prepare(&self.res.group, &self.res.plural, obj, old);
            self.normalize(obj);
        }
    }

    /// What a typed server would have made of the document. Definitions of custom resources hold free-form JSON.
    pub fn normalize(&self, obj: &mut Value) {
        if !self.res.is_custom() && self.res.table != *tables::CRDS {
            ek_proto::zero::normalize(&self.res.api_version, &self.res.kind, obj);
        }
    }

    /// What a new object is compared with to see what its creator wrote: an empty one, which for built-in kinds
    /// has some fields already.
    pub fn blank(&self) -> Value {
        match self.res.is_custom() {
            true => Value::Object(Map::new()),
            false => ek_proto::zero::empty(&self.res.api_version, &self.res.kind),
        }
    }

    /// Everything wrong with the object.
    pub fn validate(&self, obj: &Value, old: Option<&Value>, subresource: &str) -> Result<(), Status> {
        let res = &self.res;
        let rule = match res.is_custom() {
            true => ek_meta::names::dns_subdomain,
            false => ek_builtin::name_rule(&res.group, &res.plural),
        };
        let mut errors: Vec<FieldError> = match old {
            None => meta_rules::validate(obj, res.namespaced, rule),
            Some(old) => {
                let mut e = meta_rules::validate(obj, res.namespaced, |_| Vec::new());
                e.extend(meta_rules::validate_update(obj, old));
                e
            }
        };
        if !res.is_custom()
            && !matches!(res.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io")
        {
            errors.extend(meta_rules::standard_finalizers(obj));
        }
        match &res.custom {
            Some(c) => {
                if let Some(v) = &c.validator {
                    let mut found = v.validate(obj, old);
                    if subresource == "status" {
                        // Looked at by itself: its fields are named from there, though found where they are.
                        for e in &mut found {
                            if let Some(own) = e.detail.strip_prefix("status.") {
                                e.detail = own.to_owned();
                            }
                        }
                    }
                    errors.extend(found);
                }
                if let Some(scale) = &c.scale {
                    errors
                        .extend(super::scale::validate(obj, [&scale.spec_replicas, &scale.status_replicas]));
                }
            }
            None if res.table == *tables::CRDS => {
                if subresource.is_empty() {
                    errors.extend(crd::validate(obj, old));
                }
            }
            None => {
                errors.extend(ek_builtin::validate::validate(&res.group, &res.plural, obj, old, subresource));
                if res.group == "admissionregistration.k8s.io" && subresource.is_empty() {
                    errors.extend(admission::expressions::validate(&res.plural, obj));
                }
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        // Events are reported under the group they first had.
        let group = if res.group == "events.k8s.io" { "" } else { &res.group };
        Err(Status::invalid(group, &res.kind, object::name(obj), &errors))
    }

    pub async fn admit_mutating(
        &self,
        op: Operation,
        obj: Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        admission::mutate(self, op, obj, old, options).await
    }

    pub async fn admit_validating(
        &self,
        op: Operation,
        obj: Option<&Value>,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        admission::validate(self, op, obj, old, options).await
    }

    pub fn writer<'a>(
        &self,
        manager: &'a str,
        subresource: &'a str,
        api_version: &'a str,
        now: &'a str,
    ) -> Writer<'a> {
        Writer { manager, subresource, api_version, now }
    }

    /// Stores a new state. `Ok(Err(current))` is a lost race.
    pub async fn store(
        &self,
        obj: Value,
        expect: Expect,
        dry_run: bool,
    ) -> Result<Result<Arc<Entry>, Option<Arc<Entry>>>, Status> {
        let res = &self.res;
        let key = ek_store::object_key(object::namespace(&obj), object::name(&obj));
        let name = object::name(&obj).to_owned();
        let stored = self.cluster.to_storage(res, obj).await?;
        let draft = encode::draft(&stored, &res.storage_head, res.stamp());
        if draft.bytes.len() > MAX_OBJECT {
            return Err(Status::too_large(format!(
                "{} {name:?} is {} bytes, and no object may be larger than {MAX_OBJECT}",
                res.plural,
                draft.bytes.len()
            )));
        }
        if dry_run {
            // What would be stored, at the revision it would replace.
            let revision = match expect {
                Expect::Revision(r) => r.to_string(),
                _ => String::new(),
            };
            let bytes = encode::preview(&stored, &res.storage_head, &revision).into();
            return Ok(Ok(Arc::new(Entry::new(bytes, 0, draft.meta))));
        }
        let batch = Batch::one(&self.cluster.id, &res.table, key, expect, Change::Put(draft));
        match self.cluster.store.commit(batch).await {
            Ok(mut e) => {
                let entry = e.pop().ok_or_else(|| Status::internal("commit returned nothing"))?;
                // Controllers look at what was written, most of them soon.
                if entry.locked().is_none() {
                    access::remember(&entry, Arc::new(encode::as_read(stored, entry.revision)));
                }
                Ok(Ok(entry))
            }
            Err(CommitError::Conflict { current, .. }) => Ok(Err(current)),
            Err(e) => Err(commit_status(res, &name, e)),
        }
    }

    /// Removes an object whose deletion is complete.
    pub async fn remove(
        &self,
        obj: &Value,
        revision: u64,
        dry_run: bool,
    ) -> Result<Result<Arc<Entry>, ()>, Status> {
        let res = &self.res;
        let stored = self.cluster.to_storage(res, obj.clone()).await?;
        let draft = encode::draft(&stored, &res.storage_head, res.stamp());
        if dry_run {
            let bytes = encode::preview(&stored, &res.storage_head, &revision.to_string()).into();
            return Ok(Ok(Arc::new(Entry::new(bytes, revision, draft.meta))));
        }
        let key = ek_store::object_key(object::namespace(obj), object::name(obj));
        let batch =
            Batch::one(&self.cluster.id, &res.table, key, Expect::Revision(revision), Change::Delete(draft));
        match self.cluster.store.commit(batch).await {
            Ok(mut e) => e.pop().map(Ok).ok_or_else(|| Status::internal("commit returned nothing")),
            Err(CommitError::Conflict { .. }) => Ok(Err(())),
            Err(e) => Err(commit_status(res, object::name(obj), e)),
        }
    }

    /// CRDs look at their siblings, so their status is computed here and not in a strategy of their own.
    pub fn prepare_crd(&self, obj: &mut Value, old: Option<&Value>) {
        if self.res.table != *tables::CRDS {
            return;
        }
        let view = self.cluster.store.view(&self.cluster.id, &tables::CRDS);
        let others: Vec<Value> = view.objects.values().filter_map(|e| crd::names_of(&e.bytes())).collect();
        let now = self.cluster.timestamp();
        match old {
            None => crd::prepare_create(obj, &others, &now),
            Some(_) => crd::prepare_update(obj, &others, &now),
        }
    }
}

/// As etcd bounds a request.
const MAX_OBJECT: usize = 1536 << 10;

impl Call {
    /// Whether stored bytes already are what would be written: a no-op may then leave them.
    pub fn is_current(&self, entry: &Entry) -> bool {
        let stamp = entry.meta.schema_stamp;
        (stamp == self.res.stamp() || stamp == 0) && self.cluster.store.is_current(&self.res.table, entry)
    }
}
