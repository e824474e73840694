//! TokenRequest: tokens for service accounts, bound to audiences and objects.

use super::Call;
use crate::cluster::tables;
use crate::wire::body;
use crate::wire::negotiate;
use crate::wire::respond::{self, Reply};
use ek_auth::token::{Claims, Private, Reference};
use ek_meta::{FieldError, FieldPath, Status, object, time};
use jiff::SignedDuration;
use serde_json::{Value, json};

const MIN_SECONDS: i64 = 600;
const DEFAULT_SECONDS: i64 = 3600;
const MAX_SECONDS: i64 = 1 << 32;

pub async fn create(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(false)?;
    let ty = negotiate::body_type(&call.headers, true)?;
    let mut request = if call.body.is_empty() { json!({}) } else { body::decode(&call.body, ty)?.value };
    let account: Value = serde_json::from_slice(&call.live()?.bytes()).map_err(Status::internal)?;
    let (ns, name) = (&call.info.namespace, &call.info.name);
    let named = ek_meta::object::name(&request);
    if !named.is_empty() && named != name {
        let path = FieldPath::new("metadata.name");
        let e = FieldError::invalid(&path, named, "must match the service account name if specified");
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", name, &[e]));
    }
    let spec = &request["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let path = FieldPath::new("spec.expirationSeconds");
    let bad = |detail: &str| {
        Err(Status::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            &[FieldError::invalid(&path, seconds, detail)],
        ))
    };
    if seconds < MIN_SECONDS {
        return bad("may not specify a duration less than 10 minutes");
    }
    if seconds > MAX_SECONDS {
        return bad("may not specify a duration larger than 2^32 seconds");
    }
    let mut audiences: Vec<String> = ek_meta::object::strings(&spec["audiences"]);
    if audiences.is_empty() {
        audiences = call.cluster.identity.audiences().to_vec();
    }
    let mut private = Private {
        namespace: ns.clone(),
        serviceaccount: Reference { name: name.clone(), uid: object::uid(&account).to_owned() },
        ..Private::default()
    };
    bind(call, &spec["boundObjectRef"], &mut private)?;
    let now = call.cluster.now();
    let expires = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let claims = {
        let issuer = call.cluster.identity.issuer.read();
        Claims {
            iss: issuer.url().to_owned(),
            sub: format!("system:serviceaccount:{ns}:{name}"),
            aud: audiences.clone(),
            exp: expires.as_second(),
            iat: now.as_second(),
            nbf: now.as_second(),
            jti: call.cluster.random.uuid(),
            kubernetes: private,
        }
    };
    let token = call.cluster.identity.issuer.read().sign(&claims).map_err(Status::internal)?;
    let mut meta = request["metadata"].take();
    if !meta.is_object() {
        meta = json!({});
    }
    meta["name"] = json!(name);
    meta["namespace"] = json!(ns);
    meta["creationTimestamp"] = json!(time::rfc3339(now));
    let bound = request["spec"]["boundObjectRef"].clone();
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": meta,
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
        "status": {"token": token, "expirationTimestamp": time::rfc3339(expires)},
    });
    Ok(respond::value(201, accepted.encoding, &answer))
}

/// Binds the token to an object that must exist now and be the one that is meant.
fn bind(call: &Call, r: &Value, private: &mut Private) -> Result<(), Status> {
    if r.is_null() {
        return Ok(());
    }
    let kind = r["kind"].as_str().unwrap_or_default();
    let name = r["name"].as_str().unwrap_or_default();
    let ns = call.info.namespace.as_str();
    let (table, plural, ns): (&ek_store::TableName, &str, &str) = match kind {
        "Pod" => (&tables::PODS, "pods", ns),
        "Secret" => (&tables::SECRETS, "secrets", ns),
        "Node" => (&tables::NODES, "nodes", ""),
        other => {
            let version = r["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={other}"
            )));
        }
    };
    let object = call.cluster.object(table, ns, name).ok_or_else(|| Status::not_found("", plural, name))?;
    let uid = object::uid(&object).to_owned();
    if let Some(want) = r["uid"].as_str().filter(|u| !u.is_empty() && *u != uid) {
        let why = format!(
            "the UID in the bound object reference ({want}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", plural, name, &why));
    }
    let reference = Some(Reference { name: name.to_owned(), uid });
    match kind {
        "Pod" => {
            if object["spec"]["serviceAccountName"].as_str().is_some_and(|s| s != call.info.name) {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.info.name
                )));
            }
            if let Some(node) = object["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
                let uid = call.cluster.uid_of(&tables::NODES, "", node).unwrap_or_default();
                private.node = Some(Reference { name: node.to_owned(), uid });
            }
            private.pod = reference;
        }
        "Secret" => private.secret = reference,
        _ => private.node = reference,
    }
    Ok(())
}
