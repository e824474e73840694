//! How pods and nodes of the guest find the API server, and how it finds them.

use super::{CHECKER, KONNECTIVITY, Mode, Plan, config_map, secret};
use crate::facts::Facts;
use serde_json::json;

pub fn plan(f: &Facts, p: &mut Plan) {
    endpoints(f, p);
    konnectivity(f, p);
    p.asset(f, &CHECKER, Mode::Keep);
}

/// `kubernetes.default` leads to an address that every node has on its loopback, where a proxy to the control plane
/// listens. The API server itself must not write these: it does not know that address.
fn endpoints(f: &Facts, p: &mut Plan) {
    let (address, port) = (f.scope.network.advertise, f.scope.network.api_port);
    p.keep(json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    }));
    p.keep(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }));
}

fn konnectivity(f: &Facts, p: &mut Plan) {
    let m = &f.material;
    let pair = (m.secret("konnectivity-agent", "tls.crt"), m.secret("konnectivity-agent", "tls.key"));
    let (Some(ca), (Some(cert), Some(key))) = (m.text("konnectivity-ca-bundle", "ca.crt"), pair) else {
        p.lack(
            "Secret konnectivity-agent and ConfigMap konnectivity-ca-bundle",
            "DaemonSet kube-system/konnectivity-agent",
        );
        return;
    };
    if f.scope.endpoints.konnectivity.host.is_empty() {
        p.lack("the address of Konnectivity", "DaemonSet kube-system/konnectivity-agent");
        return;
    }
    p.keep(secret(
        "kube-system",
        "konnectivity-agent",
        "kubernetes.io/tls",
        &[("tls.crt", cert), ("tls.key", key)],
    ));
    p.keep(config_map("kube-system", "konnectivity-ca-bundle", "ca.crt", ca));
    p.asset(f, &KONNECTIVITY, Mode::Keep);
}
