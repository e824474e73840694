//! What is said, for what is there.

use cluster_version::Payload;
use cluster_version::look::Look;
use cluster_version::operators::PARTS;
use cluster_version::plan::{Observed, Plan, plan};
use jiff::Timestamp;
use reconcile::conditions::Conditions;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub fn payload(version: &str) -> Payload {
    let components = PARTS.iter().map(|p| p.component.to_owned()).collect();
    Payload { version: version.into(), image: format!("quay.example/ocp-release:{version}"), components }
}

/// A guest in memory: what was said is what is there next time.
struct Guest {
    spec: Value,
    status: Value,
    operators: BTreeMap<String, Look>,
    nodes: usize,
    now: Timestamp,
}

impl Guest {
    fn new(spec: Value) -> Guest {
        Guest {
            spec,
            status: json!({}),
            operators: BTreeMap::new(),
            nodes: 0,
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
        }
    }

    fn run(&mut self, version: &str) -> Plan {
        let object = json!({"spec": self.spec, "status": self.status});
        let payload = payload(version);
        let seen = Observed {
            payload: &payload,
            version: &object,
            generation: 1,
            operators: &self.operators,
            ready_nodes: self.nodes,
            now: self.now,
        };
        let p = plan(&seen);
        self.status = p.version.clone();
        for (name, status) in &p.operators {
            let look = self.operators.entry((*name).to_owned()).or_default();
            look.conditions =
                look.conditions.iter().cloned().chain(Conditions::of(status).iter().cloned()).collect();
            if !look.version_is_foreign {
                look.version = status["versions"][0]["version"].as_str().map(str::to_owned);
            }
        }
        self.now += jiff::SignedDuration::from_secs(60);
        p
    }

    fn condition(&self, kind: &str) -> Value {
        let all = self.status["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == kind).cloned().unwrap_or_default()
    }

    fn foreign(&mut self, name: &str, conditions: Value, version: Option<&str>) {
        let look = self.operators.entry(name.to_owned()).or_default();
        let theirs = Conditions::of(&json!({"conditions": conditions}));
        look.foreign = theirs.iter().map(|c| c.kind.clone()).collect();
        look.conditions = look.conditions.iter().cloned().chain(theirs.iter().cloned()).collect();
        if let Some(v) = version {
            (look.version, look.version_is_foreign) = (Some(v.to_owned()), true);
        }
    }
}

#[test]
fn a_release_is_complete_when_a_node_is_ready_and_not_before() {
    let mut g = Guest::new(json!({"clusterID": "x"}));
    let p = g.run("4.19.3");
    assert_eq!(g.status["history"][0]["state"], "Partial");
    assert_eq!(g.condition("Progressing")["status"], "True");
    let message = g.condition("Progressing")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("waiting on console, dns") && message.ends_with("no node is ready"),
        "{message}"
    );
    assert!(!p.waiting.contains(&"kube-apiserver".to_owned()) && p.waiting.contains(&"network".to_owned()));
    assert_eq!(g.condition("Failing")["status"], "False", "waiting is not failing");
    assert_eq!(g.condition("Available")["status"], "False");
    assert!(g.condition("Upgradeable").is_null());
    assert_eq!(g.condition("RetrievedUpdates")["reason"], "NoChannel");
    let before = g.status.clone();
    g.run("4.19.3");
    assert_eq!(g.status, before, "nothing happened, nothing is said");
    g.nodes = 1;
    let p = g.run("4.19.3");
    assert_eq!(p.waiting, Vec::<String>::new());
    assert_eq!(
        (&g.status["history"][0]["state"], &g.condition("Available")["status"]),
        (&json!("Completed"), &json!("True"))
    );
    assert_eq!(g.condition("Progressing")["message"], "Cluster version is 4.19.3");
}

#[test]
fn an_upgrade_goes_level_by_level_and_waits_for_who_really_reports() {
    let mut g = Guest::new(json!({"clusterID": "x", "channel": "stable"}));
    g.nodes = 2;
    g.run("4.19.3");
    let ok = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-03-01T12:00:00Z"});
    g.foreign(
        "openshift-apiserver",
        json!([ok("Available", "True"), ok("Degraded", "False")]),
        Some("4.19.3"),
    );
    let p = g.run("4.20.0");
    assert!(
        p.waiting.contains(&"openshift-apiserver".to_owned()),
        "it has not said that it is at the new version"
    );
    assert!(!p.waiting.contains(&"kube-apiserver".to_owned()), "lower levels went ahead");
    assert!(p.waiting.contains(&"dns".to_owned()), "higher levels wait");
    assert_eq!(g.operators["dns"].version.as_deref(), Some("4.19.3"));
    assert_eq!(g.condition("Available")["message"], "Done applying 4.19.3");
    assert_eq!(g.status["history"].as_array().unwrap().len(), 2);
    assert!(
        p.operators["openshift-apiserver"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["type"] != "Available" && c["type"] != "Degraded")
    );
    g.foreign(
        "openshift-apiserver",
        json!([ok("Available", "True"), ok("Degraded", "False")]),
        Some("4.20.0"),
    );
    assert_eq!(g.run("4.20.0").waiting, Vec::<String>::new());
    assert_eq!(g.condition("Progressing")["message"], "Cluster version is 4.20.0");
    // Superseded before it was done.
    g.nodes = 0;
    g.run("4.20.1");
    g.run("4.20.2");
    let states: Vec<&Value> = g.status["history"].as_array().unwrap().iter().map(|e| &e["state"]).collect();
    assert_eq!(states, ["Partial", "Partial", "Completed", "Completed"]);
    assert!(
        g.status["history"][0]["completionTime"].is_null()
            && g.status["history"][1]["completionTime"].is_string()
    );
}

#[test]
fn complaints_fail_and_objections_block() {
    let mut g = Guest::new(json!({"clusterID": "x"}));
    g.nodes = 1;
    g.run("4.19.3");
    let c = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-03-01T12:00:00Z"});
    g.foreign(
        "storage",
        json!([c("Degraded", "True", "AzureDisk", "AADSTS700211: no matching federated identity")]),
        None,
    );
    g.run("4.19.3");
    assert_eq!(g.condition("Failing")["reason"], "ClusterOperatorDegraded");
    assert!(g.condition("Failing")["message"].as_str().unwrap().contains("storage degraded: AADSTS700211"));
    assert_eq!(g.condition("Available")["status"], "True", "what was done stays done");
    assert_eq!(g.status["history"][0]["state"], "Completed");
    g.foreign(
        "storage",
        json!([c("Degraded", "False", "", ""), c("Upgradeable", "False", "OldDriver", "in-tree volumes")]),
        None,
    );
    g.run("4.19.3");
    assert_eq!(
        (&g.condition("Failing")["status"], &g.condition("Upgradeable")["reason"]),
        (&json!("False"), &json!("OldDriver"))
    );
    g.foreign("storage", json!([c("Upgradeable", "True", "", "")]), None);
    g.spec["overrides"] = json!([{"kind": "ClusterOperator", "group": "config.openshift.io", "name": "console", "namespace": "", "unmanaged": true}]);
    let p = g.run("4.20.0");
    assert!(
        !p.operators.contains_key("console") && p.waiting.is_empty(),
        "what was taken over is neither touched nor waited for"
    );
    assert_eq!(g.operators["console"].version.as_deref(), Some("4.19.3"));
    assert_eq!(g.condition("Upgradeable")["reason"], "ClusterVersionOverridesSet");
    g.nodes = 0;
    g.run("4.20.0");
    assert_eq!(
        g.condition("Failing")["reason"],
        "ClusterOperatorNotAvailable",
        "nodes were there and are gone"
    );
}

#[test]
fn capabilities_and_wishes() {
    let mut g = Guest::new(json!({"clusterID": "x", "desiredUpdate": {"version": "4.21.0"},
        "capabilities": {"baselineCapabilitySet": "None", "additionalEnabledCapabilities": ["Ingress", "Storage"]}}));
    g.nodes = 1;
    let p = g.run("4.19.3");
    assert!(p.operators.contains_key("ingress") && !p.operators.contains_key("console"));
    assert_eq!(g.condition("ReleaseAccepted")["status"], "False");
    assert!(
        g.condition("ReleaseAccepted")["message"]
            .as_str()
            .unwrap()
            .contains("change spec.release of the HostedCluster")
    );
    g.spec["desiredUpdate"] = json!({"version": "4.19.3", "image": "quay.example/ocp-release:4.19.3"});
    g.run("4.19.3");
    assert_eq!(g.condition("ReleaseAccepted")["reason"], "PayloadLoaded");
    assert_eq!(g.status["capabilities"]["enabledCapabilities"], json!(["Ingress", "Storage"]));
    // All that this release knows, and no later ones.
    let known = |g: &Guest| g.status["capabilities"]["knownCapabilities"].as_array().unwrap().clone();
    assert!(known(&g).contains(&json!("marketplace")) && known(&g).contains(&json!("MachineAPI")));
    assert!(known(&g).contains(&json!("OperatorLifecycleManagerV1")));
    g.spec["capabilities"] = json!({});
    g.run("4.17.0");
    assert!(!known(&g).contains(&json!("OperatorLifecycleManagerV1")), "{:?}", known(&g));
    assert_eq!(
        g.status["capabilities"]["enabledCapabilities"],
        json!(known(&g)),
        "a release's own set is all"
    );
}
