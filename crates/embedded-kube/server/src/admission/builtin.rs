//! Admission that every cluster has.

use super::{Attempt, Operation};
use crate::cluster::tables;
use crate::verbs::Call;
use ek_meta::Status;
use serde_json::{Value, json};

/// Objects are created only in namespaces that exist and are not on their way out.
pub fn namespace_lifecycle(call: &Call, name: &str) -> Result<(), Status> {
    let ns = &call.info.namespace;
    if ns.is_empty() || !call.res.namespaced {
        return Ok(());
    }
    let Some(entry) = call.cluster.entry(&tables::NAMESPACES, "", ns) else {
        return Err(Status::not_found("", "namespaces", ns));
    };
    if entry.meta.deleting {
        let why = format!("unable to create new content in namespace {ns} because it is being terminated");
        return Err(Status::forbidden(&call.res.group, &call.res.plural, name, &why).with_cause(
            "NamespaceTerminating",
            &format!("namespace {ns} is being terminated"),
            "metadata.namespace",
        ));
    }
    Ok(())
}

/// A CRD that is being deleted takes no new instances, or its deletion would never end.
pub fn custom_resource_lifecycle(call: &Call) -> Result<(), Status> {
    let Some(c) = &call.res.custom else { return Ok(()) };
    if call.cluster.entry(&tables::CRDS, "", &c.crd_name).is_some_and(|e| e.meta.deleting) {
        return Err(Status::failure(
            405,
            ek_meta::Reason::MethodNotAllowed,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    Ok(())
}

pub fn mutate(call: &Call, obj: &mut Value) -> Result<(), Status> {
    if call.res.table == *tables::PODS {
        service_account(call, obj)?;
        tolerations(obj);
        priority(call, obj)?;
        super::limits::default_pod(call, obj);
    }
    if call.res.table == *tables::CLAIMS {
        storage_class(call, obj);
        protect(obj, "kubernetes.io/pvc-protection");
    }
    if call.res.table == *tables::VOLUMES {
        protect(obj, "kubernetes.io/pv-protection");
    }
    if call.res.table == *tables::NODES {
        not_ready(obj);
    }
    if call.res.group == "certificates.k8s.io"
        && let Some(Value::Object(spec)) = obj.get_mut("spec")
    {
        // Who asks is what the server saw, never what the client wrote.
        spec.insert("username".into(), json!(call.user.name));
        spec.insert("groups".into(), json!(call.user.groups));
        spec.remove("uid");
        spec.remove("extra");
        if !call.user.uid.is_empty() {
            spec.insert("uid".into(), json!(call.user.uid));
        }
        if !call.user.extra.is_empty() {
            spec.insert("extra".into(), json!(call.user.extra));
        }
    }
    Ok(())
}

/// Held until nothing uses it; a controller lets go.
fn protect(obj: &mut Value, finalizer: &str) {
    let meta = ek_meta::object::metadata_mut(obj);
    match meta.get_mut("finalizers") {
        Some(Value::Array(a)) if a.iter().any(|f| f == finalizer) => {}
        Some(Value::Array(a)) => a.push(json!(finalizer)),
        _ => _ = meta.insert("finalizers".into(), json!([finalizer])),
    }
}

/// A new node takes no pods before it says that it is ready.
fn not_ready(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let Some(node) = node.as_object_mut() else { return };
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    let taint = json!({"key": KEY, "effect": "NoSchedule"});
    match spec.get_mut("taints") {
        Some(Value::Array(a)) if a.iter().any(|t| t["key"] == KEY && t["effect"] == "NoSchedule") => {}
        Some(Value::Array(a)) => a.push(taint),
        _ => spec["taints"] = json!([taint]),
    }
}

/// Pods run as somebody. Whether the account exists is checked only where something creates accounts.
fn service_account(call: &Call, pod: &mut Value) -> Result<(), Status> {
    let pod_name = ek_meta::object::name(pod).to_owned();
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return Ok(()) };
    let name = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = if name.is_empty() { "default".to_owned() } else { name };
    if name != "default"
        && call.cluster.entry(&tables::SERVICE_ACCOUNTS, &call.info.namespace, &name).is_none()
    {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount {name:?} not found",
            call.info.namespace
        );
        return Err(Status::forbidden("", "pods", &pod_name, &why));
    }
    spec.insert("serviceAccountName".into(), json!(name));
    spec.insert("serviceAccount".into(), json!(name));
    Ok(())
}

/// What an update may not take away.
pub fn mutate_update(call: &Call, obj: &mut Value) {
    if call.res.table == *tables::PODS && call.info.subresource.is_empty() {
        tolerations(obj);
    }
}

/// A pod outlives a short absence of its node, unless it says how long itself.
fn tolerations(pod: &mut Value) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    let mut missing = Vec::new();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = |t: &Value| {
            let text = |f: &str| t[f].as_str().unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "" | "NoExecute")
        };
        if !spec.get("tolerations").and_then(Value::as_array).is_some_and(|a| a.iter().any(tolerated)) {
            missing.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    if missing.is_empty() {
        return;
    }
    match spec.get_mut("tolerations") {
        Some(Value::Array(a)) => a.extend(missing),
        _ => _ = spec.insert("tolerations".into(), Value::Array(missing)),
    }
}

/// The number behind the class's name, or behind the default class.
fn priority(call: &Call, pod: &mut Value) -> Result<(), Status> {
    let pod_name = ek_meta::object::name(pod).to_owned();
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return Ok(()) };
    let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let classes = call.cluster.objects(&tables::PRIORITY_CLASSES);
    let class = match name.as_str() {
        // Of several defaults the least important counts.
        "" => classes.iter().filter(|c| c["globalDefault"] == true).min_by_key(|c| c["value"].as_i64()),
        _ => {
            let found = classes.iter().find(|c| ek_meta::object::name(c) == name);
            if found.is_none() {
                let why = format!("no PriorityClass with name {name} was found");
                return Err(Status::forbidden("", "pods", &pod_name, &why));
            }
            found
        }
    };
    let value = class.map_or_else(|| json!(0), |c| c["value"].clone());
    if spec.get("priority").is_some_and(|p| !p.is_null() && *p != value) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
            spec["priority"]
        );
        return Err(Status::forbidden("", "pods", &pod_name, &why));
    }
    spec.insert("priority".into(), value);
    if let Some(c) = class {
        spec.insert("priorityClassName".into(), c["metadata"]["name"].clone());
    }
    let policy = class.and_then(|c| c["preemptionPolicy"].as_str()).unwrap_or("PreemptLowerPriority");
    if spec.get("preemptionPolicy").is_none_or(Value::is_null) {
        spec.insert("preemptionPolicy".into(), json!(policy));
    }
    Ok(())
}

/// A claim that names no class gets the default one: the newest, where there are several.
fn storage_class(call: &Call, claim: &mut Value) {
    let Some(Value::Object(spec)) = claim.get_mut("spec") else { return };
    if spec.get("storageClassName").is_some_and(|c| !c.is_null()) {
        return;
    }
    let is_default = |c: &&Value| {
        let a = &c["metadata"]["annotations"];
        a["storageclass.kubernetes.io/is-default-class"] == "true"
            || a["storageclass.beta.kubernetes.io/is-default-class"] == "true"
    };
    let classes = call.cluster.objects(&tables::STORAGE_CLASSES);
    let newest = classes.iter().filter(is_default).max_by(|a, b| {
        let of = |c: &Value| c["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        of(a).cmp(&of(b)).then_with(|| ek_meta::object::name(b).cmp(ek_meta::object::name(a)))
    });
    if let Some(c) = newest {
        spec.insert("storageClassName".into(), c["metadata"]["name"].clone());
    }
}

pub fn validate(a: &Attempt<'_>) -> Result<(), Status> {
    let call = a.call;
    // Approving and signing certificates are permissions of their own, by signer.
    if call.res.group != "certificates.k8s.io" || a.op != Operation::Update {
        return Ok(());
    }
    let verb = match call.info.subresource.as_str() {
        "approval" => "approve",
        "status" => "sign",
        _ => return Ok(()),
    };
    let signer = a
        .old
        .and_then(|o| ek_meta::object::str_at(o, &["spec", "signerName"]))
        .unwrap_or_default()
        .to_owned();
    if verb == "sign"
        && a.object.map(|o| &o["status"]["certificate"]) == a.old.map(|o| &o["status"]["certificate"])
    {
        return Ok(());
    }
    let domain = signer.split('/').next().unwrap_or_default();
    let allowed = [signer.clone(), format!("{domain}/*")].iter().any(|name| {
        let attributes = ek_auth::rbac::Attributes {
            verb,
            namespace: "",
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            name,
            path: None,
        };
        call.cluster.authorizer("").authorize(&call.user, &attributes).allowed
    });
    if allowed {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(Status::forbidden(&call.res.group, &call.res.plural, &call.info.name, &why))
}
