//! APIs that OpenShift's own API servers serve, where those run.
//!
//! An APIService whose backend does not answer breaks discovery for every client of the cluster (`kubectl` prints errors
//! for each command, namespaces cannot be deleted). So there are none until the backend was seen to serve a group of
//! its own; see [`crate::probe`].

use super::Plan;
use crate::facts::{Facts, Serving};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Services of the control plane, and the groups they serve.
pub const BACKENDS: [(&str, &[&str]); 2] = [
    (
        "openshift-apiserver",
        &["apps", "authorization", "build", "image", "project", "quota", "route", "security", "template"],
    ),
    ("openshift-oauth-apiserver", &["oauth", "user"]),
];

/// Whether a backend is part of this control plane at all.
pub fn expected(f: &Facts, service: &str) -> bool {
    service != "openshift-oauth-apiserver" || f.scope.oauth()
}

pub fn plan(f: &Facts, p: &mut Plan) {
    if f.serving != Serving::Aggregated {
        return;
    }
    let Some(ca) = f.material.text("root-ca", "ca.crt") else {
        p.lack("ConfigMap root-ca (ca.crt)", "aggregated APIs");
        return;
    };
    for (service, groups) in BACKENDS.into_iter().filter(|(s, _)| expected(f, s)) {
        let Some(address) = f.backends.get(service) else {
            p.lack(&format!("the address of Service {service}"), "its APIs");
            continue;
        };
        let meta = json!({"name": service, "namespace": "default"});
        // A Service without selector, and by hand where it leads: into the control plane, through the tunnel.
        p.keep(json!({"apiVersion": "v1", "kind": "Service", "metadata": meta,
            "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}], "type": "ClusterIP"}}));
        p.keep(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": meta,
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}]}));
        for group in groups {
            p.keep(json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("v1.{group}.openshift.io")},
                "spec": {"group": format!("{group}.openshift.io"), "version": "v1", "groupPriorityMinimum": 9900, "versionPriority": 15,
                    "caBundle": STANDARD.encode(ca), "service": {"name": service, "namespace": "default", "port": 443}},
            }));
        }
    }
}
