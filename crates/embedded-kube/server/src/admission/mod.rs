//! Admission: what may be stored is decided here, after the object is complete and before it is written.
//!
//! Order: namespace lifecycle, built-in mutation, mutating webhooks; then, on the final object, policies and
//! validating webhooks.

mod authorizer;
mod builtin;
mod conditions;
pub mod expressions;
mod limits;
mod matching;
pub(crate) mod policy;
pub(crate) mod quota;
mod webhook;

pub use matching::Configured;
pub use webhook::{NoServices, ServiceResolver, Webhooks};

use crate::verbs::Call;
use crate::wire::params::WriteOptions;
use ek_meta::Status;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }

    fn options_kind(self) -> &'static str {
        match self {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        }
    }
}

/// One object on its way in, as every admission step sees it.
pub struct Attempt<'a> {
    pub call: &'a Call,
    pub op: Operation,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    pub options: &'a WriteOptions,
}

impl Attempt<'_> {
    pub fn name(&self) -> &str {
        let n = self.object.or(self.old).map(ek_meta::object::name).unwrap_or_default();
        if n.is_empty() { &self.call.info.name } else { n }
    }

    /// The `request` of an AdmissionReview and of CEL expressions.
    pub fn request(&self, uid: &str) -> Value {
        let call = self.call;
        let res = &call.res;
        let kind = json!({"group": res.group, "version": res.version, "kind": res.kind});
        let resource = json!({"group": res.group, "version": res.version, "resource": res.plural});
        let mut options = json!({"kind": self.op.options_kind(), "apiVersion": "meta.k8s.io/v1"});
        if let Some(m) = &self.options.field_manager {
            options["fieldManager"] = json!(m);
        }
        let mut r = json!({
            "uid": uid, "kind": kind, "resource": resource,
            "requestKind": kind, "requestResource": resource,
            "name": self.name(), "operation": self.op.as_str(),
            "userInfo": user_info(&call.user),
            "object": self.object, "oldObject": self.old,
            "dryRun": self.options.dry_run, "options": options,
        });
        if !call.info.namespace.is_empty() {
            r["namespace"] = json!(call.info.namespace);
        } else if res.plural == "namespaces" && res.group.is_empty() {
            r["namespace"] = json!(self.name());
        }
        if !call.info.subresource.is_empty() {
            r["subResource"] = json!(call.info.subresource);
            r["requestSubResource"] = json!(call.info.subresource);
        }
        r
    }
}

fn user_info(u: &ek_auth::User) -> Value {
    let mut v = json!({"username": u.name, "groups": u.groups});
    if !u.uid.is_empty() {
        v["uid"] = json!(u.uid);
    }
    if !u.extra.is_empty() {
        v["extra"] = json!(u.extra);
    }
    v
}

/// Whether writes may meet a webhook or policy, whose answer need not be the same twice.
pub fn is_configured(call: &Call) -> bool {
    let hooks = call.cluster.webhook_configuration();
    !hooks.mutating.is_empty() || !hooks.validating.is_empty() || policy::is_configured(&call.cluster)
}

pub async fn mutate(
    call: &Call,
    op: Operation,
    mut obj: Value,
    old: Option<&Value>,
    options: &WriteOptions,
) -> Result<Value, Status> {
    if op == Operation::Create {
        builtin::namespace_lifecycle(call, ek_meta::object::name(&obj))?;
        builtin::custom_resource_lifecycle(call)?;
        builtin::mutate(call, &mut obj)?;
    } else {
        builtin::mutate_update(call, &mut obj);
    }
    webhook::mutate(call, op, obj, old, options).await
}

pub async fn validate(
    call: &Call,
    op: Operation,
    obj: Option<&Value>,
    old: Option<&Value>,
    options: &WriteOptions,
) -> Result<(), Status> {
    let attempt = Attempt { call, op, object: obj, old, options };
    if op == Operation::Delete {
        webhook::announce_deletion(&attempt).await?;
    }
    builtin::validate(&attempt)?;
    if let (Some(obj), Operation::Create, "") = (obj, op, call.info.subresource.as_str()) {
        limits::validate(call, obj)?;
    }
    policy::validate(&attempt)?;
    webhook::validate(&attempt).await
}
