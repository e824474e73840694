//! What the operator would refuse, refused before it is stored. Pure.

use crate::review::Answer;
use apis::hypershift::HostedCluster;
use hypershift::Management;
use hypershift::validate::configuration::{self, Tenant};
use serde_json::Value;

/// Everything that an object alone shows to be wrong. One that cannot be read is the definition's to refuse.
fn problems(object: &Value, management: &Management) -> Vec<String> {
    let Ok(hc) = serde_json::from_value::<HostedCluster>(object.clone()) else { return Vec::new() };
    let mut out: Vec<String> = configuration::unsupported(&hc).into_iter().collect();
    // Who has the namespace is known to whoever sees all clusters: the operator says it in a condition.
    out.extend(configuration::problems(&hc, management, &Tenant::Free));
    out
}

/// A HostedCluster that is new, or in place of another. What was wrong before is not held against a change.
pub fn cluster(object: &Value, old: &Value, management: &Management) -> Answer {
    let going = object.pointer("/metadata/deletionTimestamp").is_some();
    if object.is_null() || going || (!old.is_null() && object["spec"] == old["spec"]) {
        return Answer::default();
    }
    let before = if old.is_null() { Vec::new() } else { problems(old, management) };
    let (known, new): (Vec<String>, Vec<String>) =
        problems(object, management).into_iter().partition(|p| before.contains(p));
    let refused = (!new.is_empty()).then(|| new.join("; "));
    Answer { warnings: known, refused, ..Answer::default() }
}

/// A NodePool. `found` says whether its cluster is there: both may come in any order, so that is a warning.
pub fn pool(object: &Value, old: &Value, namespace: &str, found: bool) -> Answer {
    let name = object.pointer("/spec/clusterName").and_then(Value::as_str).unwrap_or_default();
    let mut answer = Answer::default();
    if old.is_null() && !object.is_null() && !found && !name.is_empty() {
        answer.warnings.push(format!(
            "spec.clusterName: there is no HostedCluster {namespace}/{name}; nothing happens until there is"
        ));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HERE: Management = Management { openshift: false, minor: 34, routes: true };

    fn cluster_of(networking: Value) -> Value {
        let identity = json!({"clientID": "00000000-0000-0000-0000-000000000001"});
        let id = |what: &str| format!("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/{what}");
        let services = ["APIServer", "OAuthServer", "Konnectivity", "Ignition"]
            .map(|s| json!({"service": s, "servicePublishingStrategy": {"type": "Route"}}));
        json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster",
            "metadata": {"name": "demo", "namespace": "clusters"},
            "spec": {"release": {"image": "r:1"}, "pullSecret": {"name": "p"}, "networking": networking, "services": services,
                "dns": {"baseDomain": "example.net"}, "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume"}}},
                "platform": {"type": "Azure", "azure": {"location": "westus2", "resourceGroup": "g", "subscriptionID": "s", "tenantID": "t",
                    "vnetID": id("virtualNetworks/vn"), "subnetID": id("virtualNetworks/vn/subnets/default"),
                    "securityGroupID": id("networkSecurityGroups/n"),
                    "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                        "imageRegistry": identity, "ingress": identity, "file": identity, "disk": identity,
                        "nodePoolManagement": identity, "cloudProvider": identity, "network": identity}}}}}})
    }

    fn good() -> Value {
        cluster_of(json!({}))
    }

    fn overlapping() -> Value {
        cluster_of(
            json!({"clusterNetwork": [{"cidr": "10.0.0.0/8"}], "machineNetwork": [{"cidr": "10.1.0.0/16"}]}),
        )
    }

    #[test]
    fn the_operators_words_are_heard_at_once() {
        serde_json::from_value::<HostedCluster>(good()).expect("it can be read, or nothing is judged");
        assert_eq!(cluster(&good(), &Value::Null, &HERE), Answer::default());
        let said = cluster(&overlapping(), &Value::Null, &HERE).refused.unwrap();
        assert!(said.contains("overlaps") && said.contains("spec.networking"), "{said}");
        let elsewhere = Management { routes: false, ..HERE };
        assert!(cluster(&good(), &Value::Null, &elsewhere).refused.unwrap().contains("published by Route"));
    }

    #[test]
    fn what_was_wrong_before_may_stay_until_it_is_mended() {
        let old = overlapping();
        let mut labelled = old.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(cluster(&labelled, &old, &HERE), Answer::default());
        let mut changed = old.clone();
        changed["spec"]["channel"] = json!("stable-4.20");
        let answer = cluster(&changed, &old, &HERE);
        assert!(answer.refused.is_none() && answer.warnings[0].contains("overlaps"), "{answer:?}");
        changed["spec"]["clusterID"] = json!("five");
        let answer = cluster(&changed, &old, &HERE);
        assert!(answer.refused.unwrap().contains("no UUID"));
        changed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(cluster(&changed, &old, &HERE), Answer::default());
    }

    #[test]
    fn a_pool_may_come_before_its_cluster() {
        let object = json!({"spec": {"clusterName": "demo"}});
        let answer = pool(&object, &Value::Null, "clusters", false);
        assert!(answer.refused.is_none() && answer.warnings[0].contains("clusters/demo"), "{answer:?}");
        assert_eq!(pool(&object, &Value::Null, "clusters", true), Answer::default());
        assert_eq!(pool(&object, &object, "clusters", false), Answer::default());
    }
}
