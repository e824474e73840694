//! Copies of what users gave, for the control plane to mount.

use super::{CLUSTER_OF, belong};
use crate::inputs::{Data, Found, Given, Input, Purpose, Sort};
use crate::{naming, signing};
use apis::hypershift::HostedCluster;
use apis::names::annotation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane::monitoring;
use serde_json::{Map, Value, json};

/// Marks copies, so that those nobody names any more are found.
pub const COPY: &str = "hypershift.openshift.io/copy";

fn secret(hc: &HostedCluster, name: &str, type_: &str, data: &Data) -> Value {
    let data: Map<String, Value> = data.iter().map(|(k, v)| (k.clone(), json!(STANDARD.encode(v)))).collect();
    belong(
        hc,
        json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "metadata": {"name": name}, "data": data}),
    )
}

fn config_map(hc: &HostedCluster, name: &str, data: &Data) -> Value {
    let data: Map<String, Value> =
        data.iter().map(|(k, v)| (k.clone(), json!(String::from_utf8_lossy(v)))).collect();
    belong(hc, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}))
}

/// The key that signs tokens, as the API server mounts it. Keys of before stay trusted.
fn signing_key(hc: &HostedCluster, given: &Given) -> Option<Value> {
    let private = given.data.get("key")?;
    let mut public = signing::public_of(private).ok()?.into_bytes();
    public.extend(given.data.get("old-key.pub").into_iter().flatten());
    let data =
        [("service-account.key".to_owned(), private.clone()), ("service-account.pub".to_owned(), public)];
    Some(secret(hc, "sa-signing-key", "Opaque", &data.into()))
}

fn only(data: &Data, keys: &[&str]) -> Data {
    data.iter().filter(|(k, _)| keys.contains(&k.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The copy of one input; nothing if it cannot be made, which validation has said by then.
fn copy(hc: &HostedCluster, input: &Input, given: &Given) -> Option<Value> {
    Some(match (input.purpose, input.sort) {
        (Purpose::SigningKey, _) => signing_key(hc, given)?,
        (Purpose::PullSecret, _) => {
            let data = only(&given.data, input.keys);
            secret(hc, &input.target, "kubernetes.io/dockerconfigjson", &data)
        }
        (Purpose::SshKey, _) => secret(hc, &input.target, "Opaque", &only(&given.data, input.keys)),
        (_, Sort::Secret) => {
            let mut copy = secret(hc, &input.target, &given.type_, &given.data);
            if given.placeholder {
                copy["metadata"]["annotations"][annotation::HOSTED_CLUSTER_SOURCED] = json!("true");
            }
            copy
        }
        (_, Sort::ConfigMap) => config_map(hc, &input.target, &given.data),
    })
}

/// All copies that can be made.
pub fn objects(hc: &HostedCluster, inputs: &[Input], found: &Found) -> Vec<Value> {
    let complete = |i: &&Input| {
        found.get(i).is_some_and(|g| g.placeholder || i.keys.iter().all(|k| g.data.contains_key(*k)))
    };
    let copies = inputs.iter().filter(complete).filter_map(|i| copy(hc, i, found.get(i)?));
    copies
        .map(|mut o| {
            o["metadata"]["labels"][COPY] = json!("true");
            o
        })
        .collect()
}

/// Authorities that the management cluster trusts; OpenShift fills a ConfigMap of this name with them.
pub const TRUSTED: &str = "openshift-config-managed-trusted-ca-bundle";

/// The copy of what the operator's own namespace has of them.
pub fn trusted(hc: &HostedCluster, given: &Given) -> Option<Value> {
    let mut copy = config_map(hc, TRUSTED, &only(&given.data, &["ca-bundle.crt"]));
    copy["metadata"]["labels"][COPY] = json!("true");
    given.data.contains_key("ca-bundle.crt").then_some(copy)
}

/// The copy of the set of metrics that the people who run the place wrote, and what is wrong with it.
pub fn metrics(hc: &HostedCluster, given: Option<&Given>) -> (Option<Value>, Option<String>) {
    let wrong = match given {
        None => Some("it is not there".to_owned()),
        Some(g) => monitoring::own_set(&g.data).err(),
    };
    let wrong = wrong.map(|why| {
        format!(
            "metrics of set SRE are those of Telemetry: ConfigMap {} beside the operator: {why}; its key config holds relabelings by component",
            monitoring::OWN_SET
        )
    });
    let copy = given.map(|g| {
        let mut copy = config_map(hc, monitoring::OWN_SET, &g.data);
        copy["metadata"]["labels"][COPY] = json!("true");
        copy
    });
    (copy, wrong)
}

/// What goes back to the user: the copy in the HostedCluster's namespace, owned by it.
pub fn back(hc: &HostedCluster, name: &str, key: &str, data: &Data) -> Option<Value> {
    let value = data.get(key)?;
    Some(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": naming::home(hc),
            "annotations": {CLUSTER_OF: naming::key(hc)}},
        "data": {key: STANDARD.encode(value)},
    }))
}
