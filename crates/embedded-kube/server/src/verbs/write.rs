//! What create, update, patch and apply share: decoding an object, preparing it, admitting it, storing it.

use super::Call;
use crate::admission::{self, Operation};
use crate::cluster::{commit_status, tables};
use crate::registry::Resource;
use crate::wire::body::{self, Decoded};
use crate::wire::encode;
use crate::wire::negotiate;
use crate::wire::params::{FieldValidation, WriteOptions};
use crate::{crd, meta_rules};
use ek_apply::fieldset::Set;
use ek_apply::managed::{ApplyError, Types, Writer};
use ek_meta::schema::Node;
use ek_meta::{FieldError, Status, object};
use ek_store::{Batch, Change, CommitError, Entry, Expect};
use serde_json::{Map, Value, json};
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

    /// The body as an object of this resource's kind: decoded, its identity checked, unknown and duplicate
    /// fields treated as the client asked.
    pub fn decode_object(&self, options: &WriteOptions) -> Result<Value, Status> {
        let ty = negotiate::body_type(&self.headers, !self.res.is_custom())?;
        let decoded = body::decode(&self.body, ty)?;
        self.accept_object(decoded, options, &self.res.kind, &self.res.api_version)
    }

    /// Checks a decoded object against what the endpoint takes.
    pub fn accept_object(
        &self,
        decoded: Decoded,
        options: &WriteOptions,
        kind: &str,
        api_version: &str,
    ) -> Result<Value, Status> {
        let Decoded { mut value, duplicates } = decoded;
        if let (true, Value::Object(m)) = (self.res.is_custom(), &value) {
            check_custom_kind(m, kind, api_version)?;
        }
        identify(&mut value, kind, api_version)?;
        let unknown = self.drop_unknown(&mut value)?;
        self.report_fields(kind, &unknown, &duplicates, options.field_validation)?;
        Ok(value)
    }

    /// Checks an applied configuration. Whoever applies owns every field, so one that nobody knows is an error
    /// however lenient the client is about others.
    pub fn accept_applied(&self, decoded: Decoded, options: &WriteOptions) -> Result<Value, Status> {
        let Decoded { mut value, duplicates } = decoded;
        let res = &self.res;
        identify(&mut value, &res.kind, &res.api_version)?;
        let unknown = self.drop_unknown(&mut value)?;
        if !unknown.is_empty() {
            let errors = unknown.iter().map(|p| format!(".{p}: field not declared in schema")).collect();
            return Err(super::update::apply_status(ApplyError::Invalid {
                namespace: self.info.namespace.clone(),
                name: self.info.name.clone(),
                api_version: res.api_version.clone(),
                kind: res.kind.clone(),
                errors,
            }));
        }
        self.report_fields(&res.kind, &[], &duplicates, options.field_validation)?;
        Ok(value)
    }

    /// Values of built-in kinds must have their types; those of custom resources are validated later.
    fn check_types(&self, value: &Value) -> Result<(), Status> {
        let (Some(node), false) = (self.res.node(), self.res.is_custom()) else { return Ok(()) };
        ek_schema::check_types(value, node).map_err(|e| {
            Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {e}",
                self.res.kind, self.res.version, self.res.kind
            ))
        })
    }

    /// Removes what the schema does not know; the paths removed.
    fn drop_unknown(&self, value: &mut Value) -> Result<Vec<String>, Status> {
        let Some(node) = self.res.node() else { return Ok(Vec::new()) };
        if self.res.is_custom() {
            return Ok(ek_schema::prune::prune(value, node, true));
        }
        self.check_types(value)?;
        Ok(ek_schema::prune::prune(value, node, false))
    }

    pub fn report_fields(
        &self,
        kind: &str,
        unknown: &[String],
        duplicates: &[String],
        how: FieldValidation,
    ) -> Result<(), Status> {
        if how == FieldValidation::Ignore || (unknown.is_empty() && duplicates.is_empty()) {
            return Ok(());
        }
        let all: Vec<String> = (unknown.iter().map(|p| format!("unknown field {p:?}")))
            .chain(duplicates.iter().map(|p| format!("duplicate field {p:?}")))
            .collect();
        if how == FieldValidation::Warn {
            self.warn_all(all);
            return Ok(());
        }
        let list = all.join(", ");
        Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {list}",
            self.res.version
        )))
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
                    errors.extend(v.validate(obj, old));
                }
            }
            None if res.table == *tables::CRDS => {
                if subresource.is_empty() {
                    errors.extend(crd::validate(obj, old));
                }
            }
            None => {
                errors.extend(ek_builtin::validate::validate(&res.group, &res.plural, obj, old, subresource))
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&res.group, &res.kind, object::name(obj), &errors))
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
            return Ok(Ok(Arc::new(Entry { bytes, revision: 0, meta: draft.meta })));
        }
        let batch = Batch::one(&self.cluster.id, &res.table, key, expect, Change::Put(draft));
        match self.cluster.store.commit(batch).await {
            Ok(mut e) => e.pop().map(Ok).ok_or_else(|| Status::internal("commit returned nothing")),
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
            return Ok(Ok(Arc::new(Entry { bytes, revision, meta: draft.meta })));
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
        let others = self.cluster.objects(&tables::CRDS);
        let now = self.cluster.timestamp();
        match old {
            None => crd::prepare_create(obj, &others, &now),
            Some(_) => crd::prepare_update(obj, &others, &now),
        }
    }
}

/// Completes and checks kind, version and the types of metadata.
fn identify(value: &mut Value, kind: &str, api_version: &str) -> Result<(), Status> {
    let Value::Object(m) = value else {
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: expected an object, got {}",
            type_name(value)
        )));
    };
    for (field, want) in [("apiVersion", api_version), ("kind", kind)] {
        match m.get(field).and_then(Value::as_str) {
            None | Some("") => {
                m.insert(field.into(), json!(want));
            }
            Some(got) if got == want => {}
            Some(got) if field == "apiVersion" => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({got}) does not match the expected API version ({want})"
                )));
            }
            Some(got) => {
                return Err(Status::bad_request(format!(
                    "{got} in version {:?} cannot be handled as a {want}: no kind {want:?} is registered for that body; send kind {want:?}",
                    api_version.rsplit('/').next().unwrap_or_default()
                )));
            }
        }
    }
    match m.get("metadata") {
        None | Some(Value::Null) => {
            m.insert("metadata".into(), Value::Object(Map::new()));
        }
        Some(Value::Object(_)) => {}
        Some(other) => {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {} into Go struct field {kind}.metadata of type v1.ObjectMeta",
                type_name(other)
            )));
        }
    }
    metadata_types(value, kind)
}

/// As etcd bounds a request.
const MAX_OBJECT: usize = 1536 << 10;

pub fn type_name(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A custom resource says its kind itself: there is no type to take it from.
fn check_custom_kind(m: &Map<String, Value>, kind: &str, api_version: &str) -> Result<(), Status> {
    let text = |f: &str| m.get(f).and_then(Value::as_str).unwrap_or_default();
    if text("kind").is_empty() {
        let body = Value::Object(m.clone()).to_string();
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}'"
        )));
    }
    if text("kind") != kind && text("apiVersion") == api_version {
        let path = ek_meta::FieldPath::new("kind");
        let e = FieldError::invalid(&path, text("kind"), format!("must be {kind}"));
        let group = api_version.split_once('/').map_or("", |(g, _)| g);
        let name = m.get("metadata").and_then(|m| m["name"].as_str()).unwrap_or_default();
        return Err(Status::invalid(group, text("kind"), name, &[e]));
    }
    Ok(())
}

/// Metadata of custom resources has no schema of its own; inner code relies on these types.
fn metadata_types(obj: &Value, kind: &str) -> Result<(), Status> {
    let meta = &obj["metadata"];
    let fail = |field: &str, v: &Value, want: &str| {
        Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {} into Go struct field ObjectMeta.metadata.{field} of type {want}",
            obj["apiVersion"].as_str().and_then(|v| v.rsplit('/').next()).unwrap_or_default(),
            type_name(v)
        )))
    };
    for f in ["name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"] {
        match &meta[f] {
            Value::Null | Value::String(_) => {}
            v => return fail(f, v, "string"),
        }
    }
    for f in ["labels", "annotations"] {
        match &meta[f] {
            Value::Null => {}
            Value::Object(m) => {
                if let Some((_, v)) = m.iter().find(|(_, v)| !v.is_string() && !v.is_null()) {
                    return fail(f, v, "string");
                }
            }
            v => return fail(f, v, "map[string]string"),
        }
    }
    match &meta["finalizers"] {
        Value::Null => {}
        Value::Array(a) if a.iter().all(Value::is_string) => {}
        v => return fail("finalizers", v, "[]string"),
    }
    for f in ["ownerReferences", "managedFields"] {
        match &meta[f] {
            Value::Null => {}
            Value::Array(a) if a.iter().all(Value::is_object) => {}
            v => return fail(f, v, "[]v1.OwnerReference"),
        }
    }
    Ok(())
}

/// Whether stored bytes already are what this resource would write: a no-op may then leave them.
pub fn is_current(res: &Resource, entry: &Entry) -> bool {
    entry.meta.schema_stamp == res.stamp() || entry.meta.schema_stamp == 0
}
