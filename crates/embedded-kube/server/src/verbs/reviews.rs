//! Questions posed as creations: token reviews, access reviews, who am I.

use super::Call;
use crate::registry::Resource;
use crate::wire::negotiate;
use crate::wire::respond::{self, Reply};
use ek_auth::User;
use ek_auth::rbac::{Attributes, Rule};
use ek_meta::{FieldError, FieldPath, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// As the Go type prints it.
fn go_attributes(n: &Value) -> Value {
    if n.is_object() { json!({"Path": n["path"], "Verb": n["verb"]}) } else { n.clone() }
}

pub fn is_review(res: &Resource) -> bool {
    matches!(res.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

pub async fn create(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(false)?;
    let ty = negotiate::body_type(&call.headers, true)?;
    let body = if call.body.is_empty() { json!({}) } else { call.decode_review(ty)? };
    let spec = body.get("spec").cloned().unwrap_or_else(|| json!({}));
    let status = match call.res.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": user_json(&call.user)}),
        "TokenReview" => token_review(call, &spec).await?,
        "SelfSubjectRulesReview" => {
            if spec["namespace"].as_str().is_none_or(str::is_empty) {
                return Err(Status::bad_request("no namespace on request"));
            }
            rules_review(call, &spec)
        }
        "SelfSubjectAccessReview" => access_review(call, &spec, &call.user)?,
        "LocalSubjectAccessReview" => {
            if spec["nonResourceAttributes"].is_object() {
                let path = FieldPath::new("spec.nonResourceAttributes");
                let shown = go_attributes(&spec["nonResourceAttributes"]);
                let e = FieldError::invalid(&path, shown, "disallowed on this kind of request");
                return Err(invalid(call, e));
            }
            let ns = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
            if ns != call.info.namespace {
                let path = FieldPath::new("spec.resourceAttributes.namespace");
                return Err(invalid(call, FieldError::invalid(&path, ns, "must match metadata.namespace")));
            }
            access_review(call, &spec, &user_from(call, &spec)?)?
        }
        _ => access_review(call, &spec, &user_from(call, &spec)?)?,
    };
    let mut meta = body.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if call.res.kind == "SelfSubjectReview" {
        meta["creationTimestamp"] = call.cluster.timestamp().into();
    }
    let mut answer = json!({"kind": call.res.kind, "apiVersion": call.res.api_version, "metadata": meta});
    match call.res.kind.as_str() {
        "SelfSubjectReview" => {}
        "SelfSubjectRulesReview" => answer["spec"] = json!({}),
        _ => answer["spec"] = spec,
    }
    answer["status"] = status;
    Ok(respond::value(201, accepted.encoding, &answer))
}

fn user_json(u: &User) -> Value {
    let mut v = json!({"username": u.name, "groups": u.groups});
    if !u.uid.is_empty() {
        v["uid"] = json!(u.uid);
    }
    if !u.extra.is_empty() {
        v["extra"] = json!(u.extra);
    }
    v
}

fn invalid(call: &Call, e: FieldError) -> Status {
    // Reviews have no kind in their errors.
    Status::invalid(&call.res.group, "", "", &[e])
}

fn user_from(call: &Call, spec: &Value) -> Result<User, Status> {
    use ek_meta::object::strings;
    let user = User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        extra: (spec["extra"].as_object().into_iter().flatten())
            .map(|(k, v)| (k.clone(), strings(v)))
            .collect::<BTreeMap<_, _>>(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let path = FieldPath::new("spec.user");
        return Err(invalid(
            call,
            FieldError::invalid(&path, "", "at least one of user or group must be specified"),
        ));
    }
    Ok(user)
}

fn access_review(call: &Call, spec: &Value, user: &User) -> Result<Value, Status> {
    let (r, n) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let refuse = |field: &str, why: &str| {
        let path = FieldPath::new("spec").child(field);
        Err(invalid(call, FieldError::invalid(&path, go_attributes(n), why)))
    };
    for kind in ["labelSelector", "fieldSelector"] {
        let raw = r[kind]["rawSelector"].as_str().filter(|s| !s.is_empty());
        let both = r[kind]["requirements"].as_array().is_some_and(|a| !a.is_empty());
        if let (Some(raw), true) = (raw, both) {
            let path = FieldPath::new("spec.resourceAttributes").child(kind).child("rawSelector");
            let why = "may not specified at the same time as requirements";
            return Err(invalid(call, FieldError::invalid(&path, raw, why)));
        }
    }
    match (r.is_object(), n.is_object()) {
        (true, true) => {
            return refuse(
                "nonResourceAttributes",
                "cannot be specified in combination with resourceAttributes",
            );
        }
        (false, false) => {
            return refuse(
                "resourceAttributes",
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            );
        }
        _ => {}
    }
    let text = |v: &'static str| r[v].as_str().unwrap_or_default();
    let a = if r.is_object() {
        Attributes {
            verb: text("verb"),
            namespace: text("namespace"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            name: text("name"),
            path: None,
        }
    } else {
        let t = |k: &str| n[k].as_str().unwrap_or_default();
        Attributes { verb: t("verb"), path: Some(t("path")), ..Attributes::default() }
    };
    let d = call.cluster.authorizer(a.namespace).authorize(user, &a);
    let mut out = json!({"allowed": d.allowed});
    if !d.reason.is_empty() {
        out["reason"] = json!(d.reason);
    }
    Ok(out)
}

fn rules_review(call: &Call, spec: &Value) -> Value {
    let ns = spec["namespace"].as_str().unwrap_or_default();
    let rules = call.cluster.authorizer(ns).rules_for(&call.user, ns);
    let (paths, resources): (Vec<Rule>, Vec<Rule>) =
        rules.into_iter().partition(|r| !r.non_resource_urls.is_empty());
    let resources: Vec<Value> = resources
        .iter()
        .map(|r| {
            let mut v = json!({"verbs": r.verbs, "apiGroups": r.api_groups, "resources": r.resources});
            if !r.resource_names.is_empty() {
                v["resourceNames"] = json!(r.resource_names);
            }
            v
        })
        .collect();
    let paths: Vec<Value> =
        paths.iter().map(|r| json!({"verbs": r.verbs, "nonResourceURLs": r.non_resource_urls})).collect();
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

async fn token_review(call: &Call, spec: &Value) -> Result<Value, Status> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let mut audiences: Vec<String> = ek_meta::object::strings(&spec["audiences"]);
    if audiences.is_empty() {
        audiences = call.cluster.identity.audiences().to_vec();
    }
    Ok(match call.cluster.user_of_token(token, &audiences).await {
        Ok((user, shared)) => {
            let shared = if shared.is_empty() { audiences } else { shared };
            json!({"authenticated": true, "user": user_json(&user), "audiences": shared})
        }
        Err(e) => json!({"user": {}, "error": format!("invalid bearer token, {e}")}),
    })
}
