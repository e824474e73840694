//! The kubelet: its unit, and its configuration under what the pool says.

use super::pool::Pool;
use super::{Document, path};
use crate::provider::{Ask, Refused};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

const UNIT: &str = "[Unit]
Description=Kubernetes Kubelet
Wants=rpc-statd.service network-online.target crio.service
After=network-online.target crio.service
[Service]
Type=notify
ExecStartPre=/bin/mkdir --parents /etc/kubernetes/manifests
ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf --bootstrap-kubeconfig=/etc/kubernetes/kubeconfig \\
  --kubeconfig=/var/lib/kubelet/kubeconfig --container-runtime-endpoint=/var/run/crio/crio.sock \\
  --node-labels=node-role.kubernetes.io/worker,node.openshift.io/os_id=rhel --cloud-provider=external \\
  --image-credential-provider-bin-dir=/usr/libexec/kubelet-image-credential-provider-plugins \\
  --image-credential-provider-config=/etc/kubernetes/credential-providers/acr-credential-provider.yaml
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
";

/// How images of ACR are pulled with the machine's identity.
const CREDENTIALS: &str = "/etc/kubernetes/credential-providers/acr-credential-provider.yaml";

/// The tenth address of a range: where DNS is.
fn tenth(cidr: &str) -> Option<String> {
    match cidr.split('/').next()?.parse().ok()? {
        IpAddr::V4(a) => Some(std::net::Ipv4Addr::from(u32::from(a).checked_add(10)?).to_string()),
        IpAddr::V6(a) => Some(std::net::Ipv6Addr::from(u128::from(a).checked_add(10)?).to_string()),
    }
}

pub fn files(d: &mut Document, ask: &Ask<'_>, pool: &Pool, gates: &[(String, bool)]) -> Result<(), Refused> {
    let networks = ask.inputs.plane["spec"]["networking"]["serviceNetwork"].as_array();
    let dns = networks.into_iter().flatten().filter_map(|n| tenth(n["cidr"].as_str()?)).next();
    let gates: Map<String, Value> = gates.iter().map(|(g, on)| (g.clone(), json!(on))).collect();
    let mut config = json!({
        "kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "authentication": {"x509": {"clientCAFile": path::KUBELET_CA}, "anonymous": {"enabled": false}},
        "cgroupDriver": "systemd", "cgroupRoot": "/", "clusterDNS": dns.into_iter().collect::<Vec<_>>(),
        "clusterDomain": "cluster.local", "containerLogMaxSize": "50Mi", "maxPods": 250, "kubeAPIQPS": 50,
        "kubeAPIBurst": 100, "podPidsLimit": 4096, "rotateCertificates": true, "serializeImagePulls": false,
        "serverTLSBootstrap": true, "staticPodPath": "/etc/kubernetes/manifests",
        "systemCgroups": "/system.slice", "systemReserved": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
        "featureGates": gates,
    });
    for (name, over) in &pool.kubelets {
        if !over.is_object() {
            return Err(Refused::invalid(format!("KubeletConfig {name}: spec.kubeletConfig is no object")));
        }
        merge(&mut config, over);
    }
    d.file(path::KUBELET, 0o644, config.to_string().as_bytes());
    d.unit("kubelet.service", UNIT);
    let credentials = json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
        "providers": [{"name": "acr-credential-provider", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "defaultCacheDuration": "10m", "args": [path::CLOUD],
            "matchImages": ["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"]}]});
    d.file(CREDENTIALS, 0o644, credentials.to_string().as_bytes());
    for (name, over) in &pool.runtimes {
        d.file(&format!("/etc/crio/crio.conf.d/01-ctrcfg-{}", safe(name)), 0o644, runtime(over).as_bytes());
    }
    Ok(())
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, over: &Value) {
    match (into.as_object_mut(), over.as_object()) {
        (Some(into), Some(over)) => {
            for (k, v) in over {
                merge(into.entry(k.clone()).or_insert(Value::Null), v);
            }
        }
        _ => *into = over.clone(),
    }
}

fn safe(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(200).collect()
}

/// CRI-O's file for what a ContainerRuntimeConfig can say.
fn runtime(over: &Value) -> String {
    let mut lines = vec!["[crio]".to_owned(), "[crio.runtime]".to_owned()];
    if let Some(level) = over["logLevel"].as_str() {
        lines.push(format!("log_level = {}", json!(level)));
    }
    if let Some(limit) = over["pidsLimit"].as_i64() {
        lines.push(format!("pids_limit = {limit}"));
    }
    if let Some(size) = over["logSizeMax"].as_i64() {
        lines.push(format!("log_size_max = {size}"));
    }
    if let Some(default) = over["defaultRuntime"].as_str() {
        lines.push(format!("default_runtime = {}", json!(default)));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_is_at_the_tenth_address() {
        assert_eq!(tenth("172.31.0.0/16").as_deref(), Some("172.31.0.10"));
        assert_eq!(tenth("fd02::/112").as_deref(), Some("fd02::a"));
        assert_eq!(tenth("x"), None);
    }

    #[test]
    fn a_pool_overrides_single_settings() {
        let mut config = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut config, &json!({"a": {"b": 9}, "d": [2], "e": true}));
        assert_eq!(config, json!({"a": {"b": 9, "c": 2}, "d": [2], "e": true}));
        assert!(runtime(&json!({"pidsLimit": 2048})).contains("pids_limit = 2048"));
    }
}
