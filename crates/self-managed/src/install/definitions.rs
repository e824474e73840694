//! Definitions of the kinds.

use super::args::Args;
use serde_json::{Value, json};

/// Groups that others own where they are installed: applied only if they are absent.
const OF_OTHERS: [&str; 2] = ["route.openshift.io", "secrets-store.csi.x-k8s.io"];
/// Of our own groups, the one kind that only Azure has.
const PRIVATE_LINKS: &str = "azureprivatelinkservices.hypershift.openshift.io";

/// Whether a definition is for clusters that lack what OpenShift or a driver brings; never taken over from them.
pub fn only_if_absent(definition: &Value) -> bool {
    definition["spec"]["group"].as_str().is_some_and(|g| OF_OTHERS.contains(&g))
}

/// Whether a definition is Cluster API's or its provider's. Ours have what our own controllers need of them and no more.
pub fn is_of_machines(definition: &Value) -> bool {
    definition["spec"]["group"].as_str().is_some_and(|g| g.ends_with("cluster.x-k8s.io"))
}

impl Args {
    /// Definitions that are installed, and those that somebody else must have installed.
    pub(super) fn definitions(&self) -> (Vec<Value>, Vec<Value>) {
        let theirs = self.machines == "external";
        self.all_definitions().into_iter().partition(|d| !(theirs && is_of_machines(d)))
    }

    fn all_definitions(&self) -> Vec<Value> {
        let with_azure = self.limit_crd_install.is_empty()
            || self.limit_crd_install.iter().any(|p| p.eq_ignore_ascii_case("azure"));
        let all = apis::crds().into_iter().filter_map(|crd| serde_json::to_value(crd).ok());
        let ours = |group: &str| match group {
            "infrastructure.cluster.x-k8s.io" => with_azure,
            g => {
                !g.ends_with(".openshift.io")
                    || g.ends_with("hypershift.openshift.io")
                    || OF_OTHERS.contains(&g)
            }
        };
        let mut out: Vec<Value> = all
            .filter(|d| d["spec"]["group"].as_str().is_some_and(ours))
            .filter(|d| with_azure || d["metadata"]["name"] != PRIVATE_LINKS)
            .collect();
        for definition in &mut out {
            definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
            definition["kind"] = json!("CustomResourceDefinition");
            // Beside those that are there: by them the Cluster API knows which of its contracts a kind keeps.
            definition["metadata"]["labels"]["app.kubernetes.io/part-of"] = json!("zaffre");
        }
        out
    }
}
