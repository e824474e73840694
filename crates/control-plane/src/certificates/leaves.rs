//! Certificates and the Secrets they lie in.

use super::{FORWARDING, IGNITION};
use crate::scope::{Etcd, Scope};
use pki::Leaf;
use std::net::IpAddr;

/// A certificate: where it lies, who signs it, what it says.
#[derive(Clone, Debug)]
pub struct Entry {
    pub secret: String,
    pub authority: &'static str,
    /// Names of certificate and key in the Secret.
    pub keys: (&'static str, &'static str),
    pub leaf: Leaf,
}

const TLS: (&str, &str) = ("tls.crt", "tls.key");

fn entry(secret: &str, authority: &'static str, leaf: Leaf) -> Entry {
    Entry { secret: secret.to_owned(), authority, keys: TLS, leaf }
}

/// The names a Service goes by inside the management cluster.
fn service(scope: &Scope, name: &str) -> Vec<String> {
    let ns = &scope.namespace;
    vec![name.to_owned(), format!("{name}.{ns}.svc"), format!("{name}.{ns}.svc.cluster.local")]
}

fn serves(scope: &Scope, secret: &str, name: &str) -> Entry {
    entry(secret, "root-ca", Leaf::server(name, service(scope, name)).of("openshift"))
}

/// The first address of each range, which is where the guest's own API Service is. A range may be written with an address
/// in its midst.
fn first_addresses(ranges: &[String]) -> Vec<IpAddr> {
    let first = |range: &String| {
        let (address, bits) = range.split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        match address.parse().ok()? {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0);
                Some(IpAddr::V4((u32::from(a) & mask).wrapping_add(1).into()))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits)?).unwrap_or(0);
                Some(IpAddr::V6((u128::from(a) & mask).wrapping_add(1).into()))
            }
        }
    };
    ranges.iter().filter_map(first).collect()
}

/// The API server's own: every name and address it is called by.
fn api_server(scope: &Scope) -> Entry {
    let mut names: Vec<String> = vec!["localhost".into()];
    for base in ["kubernetes", "openshift"] {
        for tail in ["", ".default", ".default.svc", ".default.svc.cluster.local"] {
            names.push(format!("{base}{tail}"));
        }
    }
    names.extend(service(scope, "kube-apiserver"));
    let mut ips: Vec<IpAddr> = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])];
    ips.push(scope.network.advertise);
    ips.extend(first_addresses(&scope.network.service));
    match scope.endpoints.api.host.parse::<IpAddr>() {
        Ok(ip) => ips.push(ip),
        Err(_) if !scope.endpoints.api.host.is_empty() => names.push(scope.endpoints.api.host.clone()),
        Err(_) => {}
    }
    names.push(format!("api.{}.hypershift.local", scope.name));
    let custom = scope.endpoints.custom_api.iter();
    names.extend(custom.filter(|name| scope.named_certificate(name).is_none()).cloned());
    entry("kas-server-crt", "root-ca", Leaf::server("kubernetes", names).at(ips).of("kubernetes"))
}

/// All certificates of a control plane.
pub fn leaves(scope: &Scope) -> Vec<Entry> {
    let client = |secret: &str, authority, user: &str, group: &str| {
        entry(secret, authority, Leaf::client(user, group))
    };
    let mut all = vec![
        api_server(scope),
        serves(scope, "openshift-apiserver-cert", "openshift-apiserver"),
        serves(scope, "openshift-controller-manager-cert", "openshift-controller-manager"),
        serves(scope, "openshift-route-controller-manager-cert", "openshift-route-controller-manager"),
        serves(scope, "cluster-policy-controller-cert", "cluster-policy-controller"),
        serves(scope, "kcm-server", "kube-controller-manager"),
        serves(scope, "scheduler-server", "kube-scheduler"),
        serves(scope, "cvo-server", "cluster-version-operator"),
        serves(scope, "packageserver-cert", "packageserver"),
        serves(scope, "olm-operator-serving-cert", "olm-operator-metrics"),
        serves(scope, "catalog-operator-serving-cert", "catalog-operator-metrics"),
        serves(scope, "node-tuning-operator-tls", "node-tuning-operator"),
        serves(scope, "cluster-storage-operator-serving-cert", "cluster-storage-operator-metrics"),
        serves(
            scope,
            "csi-snapshot-controller-operator-serving-cert",
            "csi-snapshot-controller-operator-metrics",
        ),
        serves(scope, "cluster-image-registry-operator", "cluster-image-registry-operator"),
        serves(scope, "multus-admission-controller-secret", "multus-admission-controller"),
        serves(scope, "network-node-identity-secret", "network-node-identity"),
        serves(scope, "ovn-control-plane-metrics-cert", "ovn-kubernetes-control-plane"),
        serves(scope, "mcs-crt", "machine-config-server"),
        Entry { authority: IGNITION, ..serves(scope, "ignition-server", "ignition-server") },
        client(
            "metrics-client",
            "cluster-signer-ca",
            "system:serviceaccount:openshift-monitoring:prometheus-k8s",
            "",
        ),
        client(
            "kas-bootstrap-client",
            "cluster-signer-ca",
            "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper",
            "system:serviceaccounts:openshift-machine-config-operator",
        ),
        client(
            "kas-aggregator-crt",
            "kas-aggregator-client-signer",
            "system:openshift-aggregator",
            "kubernetes",
        ),
        client("kube-scheduler-client", "kube-control-plane-signer", "system:kube-scheduler", "kubernetes"),
        client(
            "kube-controller-manager-client",
            "kube-control-plane-signer",
            "system:kube-controller-manager",
            "kubernetes",
        ),
        client(
            "kas-kubelet-client-crt",
            "kube-apiserver-to-kubelet-signer",
            "system:kube-apiserver",
            "kubernetes",
        ),
        client("system-admin-client", "system-admin-signer", "system:admin", "system:masters"),
        client("hcco-client", "hcco-signer", "system:hosted-cluster-config", "kubernetes"),
        client(
            "kas-bootstrap-container-client",
            "kas-bootstrap-container-signer",
            "system:kas-bootstrap-container",
            "kubernetes",
        ),
        entry(
            "azure-workload-identity-webhook-serving-cert",
            "root-ca",
            Leaf::server("azure-workload-identity-webhook", ["localhost"])
                .at([IpAddr::from([127, 0, 0, 1])])
                .of("openshift"),
        ),
    ];
    for (operator, ns) in
        [("ingress-operator", "openshift-ingress-operator"), ("dns-operator", "openshift-dns-operator")]
    {
        let user = format!("system:serviceaccount:{ns}:{operator}");
        let secret = format!("{operator}-service-account-client");
        all.push(client(&secret, "cluster-signer-ca", &user, &format!("system:serviceaccounts:{ns}")));
    }
    for kind in ["disk", "file"] {
        for (what, host) in
            [("operator-serving", "operator-metrics"), ("controller-metrics-serving", "controller-metrics")]
        {
            let secret = format!("azure-{kind}-csi-driver-{what}-cert");
            all.push(serves(scope, &secret, &format!("azure-{kind}-csi-driver-{host}")));
        }
    }
    if let Some(private) = &scope.endpoints.private_api {
        all.push(entry(
            "kas-server-private-crt",
            "root-ca",
            Leaf::server("kubernetes", [private.clone()]).of("kubernetes"),
        ));
    }
    if scope.oauth() {
        all.push(serves(scope, "openshift-oauth-apiserver-cert", "openshift-oauth-apiserver"));
        all.push(client(
            "openshift-authenticator-cert",
            "cluster-signer-ca",
            "system:openshift-authenticator",
            "kubernetes",
        ));
        let mut names = service(scope, "oauth-openshift");
        names.extend(Some(scope.endpoints.oauth.host.clone()).filter(|h| !h.is_empty()));
        all.push(entry(
            "oauth-server-crt",
            "root-ca",
            Leaf::server("oauth-openshift", names).of("openshift"),
        ));
    }
    if let Some(apps) = scope.configuration["ingress"]["domain"].as_str() {
        all.push(entry(
            "ingress-crt",
            "root-ca",
            Leaf::server(format!("*.{apps}"), [format!("*.{apps}")]).of("openshift"),
        ));
    }
    let mut names = service(scope, "ignition-server-proxy");
    names.extend(Some(scope.endpoints.ignition.host.clone()).filter(|h| !h.is_empty()));
    all.push(entry(
        "ignition-server-serving-cert",
        IGNITION,
        Leaf::server("ignition-server", names).of("openshift"),
    ));
    all.extend(konnectivity(scope));
    if matches!(scope.etcd, Etcd::Managed { .. }) {
        all.extend(etcd(scope));
    }
    if let Some(host) = crate::publish::metrics(scope) {
        let [resolver, proxy] = FORWARDING;
        let serving = serves(scope, "endpoint-resolver-serving-cert", "endpoint-resolver");
        all.push(Entry { authority: resolver.secret, ..serving });
        let mut serving = serves(scope, "metrics-proxy-serving-cert", "metrics-proxy");
        serving.leaf.dns.extend(Some(host).filter(|h| !h.is_empty()));
        all.push(Entry { authority: proxy.secret, ..serving });
    }
    all
}

fn konnectivity(scope: &Scope) -> Vec<Entry> {
    let signer = "konnectivity-signer";
    let mut outside = service(scope, "konnectivity-server");
    outside.extend(Some(scope.endpoints.konnectivity.host.clone()).filter(|h| !h.is_empty()));
    vec![
        entry(
            "konnectivity-server",
            signer,
            Leaf::server("konnectivity-server-local", service(scope, "konnectivity-server-local"))
                .of("kubernetes"),
        ),
        entry("konnectivity-cluster", signer, Leaf::server("konnectivity-server", outside).of("kubernetes")),
        entry("konnectivity-client", signer, Leaf::client("konnectivity-client", "kubernetes")),
        entry("konnectivity-agent", signer, Leaf::client("konnectivity-agent", "kubernetes")),
    ]
}

fn etcd(scope: &Scope) -> Vec<Entry> {
    let ns = &scope.namespace;
    let discovery =
        vec![format!("*.etcd-discovery.{ns}.svc"), format!("*.etcd-discovery.{ns}.svc.cluster.local")];
    let mut server = discovery.clone();
    server.extend(service(scope, "etcd-client"));
    server.push("localhost".into());
    let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1])];
    let mut peer = discovery;
    peer.push("localhost".into());
    vec![
        Entry {
            keys: ("server.crt", "server.key"),
            ..entry(
                "etcd-server-tls",
                "etcd-signer",
                Leaf::server("etcd-server", server).at(loopback).of("kubernetes").both(),
            )
        },
        Entry {
            keys: ("peer.crt", "peer.key"),
            ..entry(
                "etcd-peer-tls",
                "etcd-signer",
                Leaf::server("etcd-discovery", peer).at(loopback).of("kubernetes").both(),
            )
        },
        Entry {
            keys: ("etcd-client.crt", "etcd-client.key"),
            ..entry("etcd-client-tls", "etcd-signer", Leaf::client("etcd-client", "kubernetes"))
        },
        Entry {
            keys: ("etcd-client.crt", "etcd-client.key"),
            ..entry(
                "etcd-metrics-client-tls",
                "etcd-metrics-signer",
                Leaf::client("etcd-metrics-client", "kubernetes"),
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::first_addresses;

    #[test]
    fn the_first_address_is_that_of_the_range() {
        let first = |range: &str| {
            first_addresses(&[range.to_owned()]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(first("172.31.0.0/16"), ["172.31.0.1"]);
        assert_eq!(first("172.31.5.7/16"), ["172.31.0.1"]);
        assert_eq!(first("fd02::5:0/112"), ["fd02::5:1"]);
        assert_eq!(first("fd02::5:7/112"), ["fd02::5:1"]);
        assert!(first("172.31.0.0/40").is_empty() && first("x").is_empty());
    }
}
