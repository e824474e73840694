//! What nodes have in common because they belong to one cluster.

use super::{Document, path};
use crate::names::input;
use crate::provider::{Ask, Inputs, Refused, Release};
use serde_json::json;

fn missing(what: &str) -> Refused {
    Refused::pending(format!("{what} is not there yet; the control-plane operator writes it"))
}

pub fn pull_secret(inputs: &Inputs) -> Result<&[u8], Refused> {
    inputs
        .secret(input::PULL_SECRET, ".dockerconfigjson")
        .ok_or_else(|| missing("key .dockerconfigjson of Secret pull-secret"))
}

pub fn files(d: &mut Document, ask: &Ask<'_>, release: &Release) -> Result<(), Refused> {
    let inputs = ask.inputs;
    let bootstrap = inputs.secret(input::BOOTSTRAP, "kubeconfig");
    d.file(
        path::KUBECONFIG,
        0o600,
        bootstrap.ok_or_else(|| missing("key kubeconfig of Secret bootstrap-kubeconfig"))?,
    );
    let ca = |name: &'static str| {
        let found = inputs.config_map(name, "ca.crt").or_else(|| inputs.config_map(name, "ca-bundle.crt"));
        found.ok_or_else(|| missing(&format!("ConfigMap {name}")))
    };
    d.file(path::CA, 0o644, ca(input::ROOT_CA)?.as_bytes());
    d.file(path::KUBELET_CA, 0o644, ca(input::KUBELET_CA)?.as_bytes());
    let cloud = inputs.config_map(input::CLOUD_CONFIG, "cloud.conf");
    d.file(path::CLOUD, 0o600, cloud.ok_or_else(|| missing("ConfigMap azure-cloud-config"))?.as_bytes());
    d.file(path::PULL_SECRET, 0o600, pull_secret(inputs)?);
    if let Some(bundle) = inputs.config_map(input::TRUST_BUNDLE, "ca-bundle.crt") {
        d.file(path::TRUST, 0o644, bundle.as_bytes());
    }
    if let Some(key) = inputs.secret(input::SSH_KEY, "id_rsa.pub") {
        d.key("core", String::from_utf8_lossy(key).trim());
    }
    let hash = ask.token.config_version();
    let annotations = json!({
        "machineconfiguration.openshift.io/currentConfig": hash,
        "machineconfiguration.openshift.io/desiredConfig": hash,
        "machineconfiguration.openshift.io/state": "Done",
    });
    d.file(path::ANNOTATIONS, 0o644, annotations.to_string().as_bytes());
    let os = release.images.get("rhel-coreos").or_else(|| release.images.get("machine-os-content"));
    let about = json!({"release": ask.token.release, "version": release.version,
        "kubernetes": release.kubernetes, "osImage": os, "osStream": ask.token.os_stream});
    d.file(path::RELEASE, 0o644, about.to_string().as_bytes());
    Ok(())
}

/// The way to the API, where no manifest of the pool brings one.
pub fn proxy(d: &mut Document, ask: &Ask<'_>, release: &Release) -> Result<(), Refused> {
    if d.has(path::PROXY_POD) {
        return Ok(());
    }
    let plane = &ask.inputs.plane;
    let endpoint = &plane["status"]["controlPlaneEndpoint"];
    let (Some(host), Some(port)) = (endpoint["host"].as_str(), endpoint["port"].as_u64()) else {
        return Err(missing("status.controlPlaneEndpoint of the HostedControlPlane"));
    };
    let api = &plane["spec"]["networking"]["apiServer"];
    let advertised = api["advertiseAddress"].as_str().unwrap_or("172.20.0.1");
    let own = api["port"].as_u64().unwrap_or(6443);
    let image = release.images.get("haproxy-router").map(String::as_str).unwrap_or("haproxy-router");
    let config = format!(
        "global\n  maxconn 7000\n  log stdout local0\ndefaults\n  mode tcp\n  timeout client 10m\n  timeout server 10m\n  timeout connect 10s\n  timeout check 5s\nfrontend local_apiserver\n  bind {advertised}:{own}\n  log global\n  default_backend remote_apiserver\nbackend remote_apiserver\n  option httpchk GET /version\n  default-server inter 10s fall 3 rise 3\n  server controlplane {host}:{port} check check-ssl verify none\n"
    );
    d.file(path::PROXY_CONFIG, 0o644, config.as_bytes());
    let address = format!("ip addr add {advertised}/32 dev lo || true");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "kube-apiserver-proxy", "namespace": "kube-system", "labels": {"k8s-app": "kube-apiserver-proxy"}},
        "spec": {"hostNetwork": true, "priorityClassName": "system-node-critical",
            "containers": [{"name": "haproxy", "image": image, "command": ["haproxy", "-f", "/usr/local/etc/haproxy"],
                "securityContext": {"runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}},
                "livenessProbe": {"initialDelaySeconds": 120, "periodSeconds": 120, "timeoutSeconds": 60, "failureThreshold": 3,
                    "httpGet": {"path": "/version", "scheme": "HTTPS", "host": advertised, "port": own}},
                "resources": {"requests": {"cpu": "13m", "memory": "16Mi"}},
                "ports": [{"name": "apiserver", "containerPort": own, "hostPort": own, "protocol": "TCP"}],
                "volumeMounts": [{"name": "config", "mountPath": "/usr/local/etc/haproxy"}]}],
            "volumes": [{"name": "config", "hostPath": {"path": "/etc/kubernetes/apiserver-proxy-config"}}]},
    });
    d.file(path::PROXY_POD, 0o644, pod.to_string().as_bytes());
    let unit = format!(
        "[Unit]\nDescription=Address at which this node reaches its API\nBefore=kubelet.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/bash -c '{address}'\n[Install]\nWantedBy=multi-user.target\n"
    );
    d.unit("apiserver-ip.service", &unit);
    Ok(())
}
