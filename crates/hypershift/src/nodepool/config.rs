//! What nodes are configured with: manifests of users, and those that follow from the HostedCluster.
//!
//! Documents are kept as JSON with sorted keys (which is YAML too), so that nobody's spaces roll nodes. What the user's
//! ConfigMaps hold is checked here, with the ConfigMap and the document named.

use super::detour;
use super::text::canonical;
use crate::inputs::Given;
use apis::hypershift::HostedCluster;
use apis::hypershift::services::{PublishingType, ServiceType};
use serde_json::{Value, json};

const MACHINE_CONFIG: &str = "machineconfiguration.openshift.io/v1";
/// Documents of one ConfigMap; more is a mistake.
const MOST: usize = 64;

/// Why a ConfigMap of a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("ConfigMap {0} is not there: create it beside the NodePool, or remove it from spec.{1}")]
    Absent(String, &'static str),
    #[error("ConfigMap {0} has no key {1}: put the manifest there")]
    NoKey(String, &'static str),
    #[error("ConfigMap {name}, document {index}: it cannot be read as YAML ({why})")]
    Unreadable { name: String, index: usize, why: String },
    #[error("ConfigMap {name}, document {index}: {kind} of {api:?} is not supported; use one of {allowed}")]
    Kind { name: String, index: usize, kind: String, api: String, allowed: &'static str },
    #[error("ConfigMap {name}, document {index}: {kind} has no metadata.name: give it one")]
    Unnamed { name: String, index: usize, kind: String },
    #[error("{kind} {object} is in ConfigMap {first} and in ConfigMap {second}: rename one of them")]
    Twice { kind: String, object: String, first: String, second: String },
    #[error("ConfigMap {0} has more than {MOST} documents: split it")]
    Many(String),
    #[error(
        "PerformanceProfile {second} of ConfigMap {name} is one too many beside {first}: a NodePool has one; remove one from spec.tuningConfig"
    )]
    Profiles { name: String, first: String, second: String },
    #[error("ConfigMap {name}, document {index}: {kind} {object} has no {field}: {fix}")]
    Lacks {
        name: String,
        index: usize,
        kind: &'static str,
        object: String,
        field: &'static str,
        fix: &'static str,
    },
    #[error("ConfigMap {name}, document {index}: {field} of {kind} {object} is no map: {fix}")]
    Shape { name: String, index: usize, kind: String, object: String, field: &'static str, fix: &'static str },
}

const ALLOWED: &[(&str, &str)] = &[
    (MACHINE_CONFIG, "MachineConfig"),
    (MACHINE_CONFIG, "KubeletConfig"),
    (MACHINE_CONFIG, "ContainerRuntimeConfig"),
    ("operator.openshift.io/v1alpha1", "ImageContentSourcePolicy"),
    ("config.openshift.io/v1", "ImageDigestMirrorSet"),
    ("config.openshift.io/v1", "ClusterImagePolicy"),
    ("config.openshift.io/v1alpha1", "ClusterImagePolicy"),
];
const ALLOWED_TEXT: &str = "MachineConfig, KubeletConfig, ContainerRuntimeConfig (machineconfiguration.openshift.io/v1), ImageContentSourcePolicy (operator.openshift.io/v1alpha1), ImageDigestMirrorSet, ClusterImagePolicy (config.openshift.io/v1)";
const PROFILE: &str = "PerformanceProfile";
const TUNING: &[(&str, &str)] =
    &[("tuned.openshift.io/v1", "Tuned"), ("performance.openshift.io/v2", "PerformanceProfile")];
const TUNING_TEXT: &str = "Tuned (tuned.openshift.io/v1), PerformanceProfile (performance.openshift.io/v2)";

/// What a ConfigMap must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `spec.config`.
    Config,
    /// `spec.tuningConfig`.
    Tuning,
}

impl Sort {
    fn field(self) -> &'static str {
        if self == Sort::Config { "config" } else { "tuningConfig" }
    }

    fn key(self) -> &'static str {
        if self == Sort::Config { "config" } else { "tuning" }
    }

    fn allowed(self) -> (&'static [(&'static str, &'static str)], &'static str) {
        match self {
            Sort::Config => (ALLOWED, ALLOWED_TEXT),
            Sort::Tuning => (TUNING, TUNING_TEXT),
        }
    }
}

fn documents(text: &str) -> impl Iterator<Item = &str> {
    // A line of dashes, whatever follows on it; saphyr reads one document at a time.
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text
            .match_indices("---")
            .find(|(i, _)| *i == 0 || text.as_bytes()[i - 1] == b'\n')
            .map(|(i, _)| i);
        match end {
            Some(i) => {
                rest = Some(text[i..].split_once('\n').map_or("", |(_, after)| after));
                Some(&text[..i])
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
    .filter(|d| d.lines().any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#')))
}

/// What [`for_workers`] writes into and cannot: the field, and what to write there.
fn misshapen(o: &Value) -> Option<(&'static str, &'static str)> {
    let (field, is, fix) = match o["kind"].as_str() {
        Some("MachineConfig") => {
            ("metadata.labels", &o["metadata"]["labels"], "write `key: value` lines, or leave it out")
        }
        Some("KubeletConfig" | "ContainerRuntimeConfig") => {
            ("spec", &o["spec"], "write the settings as `field: value` lines")
        }
        _ => return None,
    };
    (!is.is_null() && !is.is_object()).then_some((field, fix))
}

/// Pools have no names of their own in the guest's configuration: there everybody is a worker. Only for what is not
/// [`misshapen`].
fn for_workers(mut o: Value) -> Value {
    match o["kind"].as_str() {
        Some("MachineConfig") => {
            o["metadata"]["labels"]["machineconfiguration.openshift.io/role"] = json!("worker");
        }
        Some("KubeletConfig" | "ContainerRuntimeConfig") => {
            o["spec"]["machineConfigPoolSelector"] =
                json!({"matchLabels": {"machineconfiguration.openshift.io/mco-built-in": ""}});
        }
        _ => {}
    }
    o
}

/// Documents of the pool's ConfigMaps, and everything that is wrong with them.
pub fn of_user(sort: Sort, maps: &[(String, Option<Given>)]) -> (Vec<Value>, Vec<Error>) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let mut seen: Vec<(String, String, String)> = Vec::new();
    for (name, given) in maps {
        let Some(given) = given else {
            errors.push(Error::Absent(name.clone(), sort.field()));
            continue;
        };
        let Some(bytes) = given.data.get(sort.key()) else {
            errors.push(Error::NoKey(name.clone(), sort.key()));
            continue;
        };
        let text = String::from_utf8_lossy(bytes);
        if documents(&text).nth(MOST).is_some() {
            errors.push(Error::Many(name.clone()));
            continue;
        }
        for (index, document) in documents(&text).enumerate() {
            match one(sort, name, index, document) {
                Ok(o) => {
                    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
                    let (kind, object) = (text(&o["kind"]), text(&o["metadata"]["name"]));
                    match seen.iter().find(|(k, n, _)| *k == kind && *n == object) {
                        Some((_, _, first)) => errors.push(Error::Twice {
                            kind,
                            object,
                            first: first.clone(),
                            second: name.clone(),
                        }),
                        None if kind == PROFILE && seen.iter().any(|(k, ..)| k == PROFILE) => {
                            let first = seen.iter().find(|(k, ..)| k == PROFILE).map(|(_, n, _)| n.clone());
                            let first = first.unwrap_or_default();
                            errors.push(Error::Profiles { name: name.clone(), first, second: object });
                        }
                        None => {
                            seen.push((kind, object, name.clone()));
                            out.push(for_workers(o));
                        }
                    }
                }
                Err(e) => errors.push(e),
            }
        }
    }
    (out, errors)
}

fn one(sort: Sort, name: &str, index: usize, text: &str) -> Result<Value, Error> {
    let name = name.to_owned();
    let o: Value = serde_saphyr::from_str(text).map_err(|e| Error::Unreadable {
        name: name.clone(),
        index,
        why: super::text::bounded(&e.to_string(), 200),
    })?;
    let read = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (api, kind) = (read(&o["apiVersion"]), read(&o["kind"]));
    let (allowed, text) = sort.allowed();
    if !allowed.contains(&(api.as_str(), kind.as_str())) {
        return Err(Error::Kind { name, index, kind, api, allowed: text });
    }
    if read(&o["metadata"]["name"]).is_empty() {
        return Err(Error::Unnamed { name, index, kind });
    }
    let object = read(&o["metadata"]["name"]);
    if let Some((field, fix)) = misshapen(&o) {
        return Err(Error::Shape { name, index, kind, object, field, fix });
    }
    if sort == Sort::Tuning
        && let Some((kind, field, fix)) = lacking(&o)
    {
        return Err(Error::Lacks { name, index, kind, object, field, fix });
    }
    Ok(o)
}

/// What a manifest of tuning cannot do without: its kind, the field, and what to write there.
fn lacking(o: &Value) -> Option<(&'static str, &'static str, &'static str)> {
    let spec = &o["spec"];
    let text = |v: &Value| v.as_str().is_some_and(|t| !t.trim().is_empty());
    if o["kind"] == PROFILE {
        let cpus = "write sets of processors such as 2-7";
        let cpu = &spec["cpu"];
        let lacks = |field, there: bool| (!there).then_some((PROFILE, field, cpus));
        return lacks("spec.cpu.isolated", text(&cpu["isolated"]))
            .or_else(|| lacks("spec.cpu.reserved", text(&cpu["reserved"])));
    }
    let list = |v: &Value| v.as_array().is_some_and(|l| !l.is_empty());
    if !list(&spec["profile"]) {
        return Some(("Tuned", "spec.profile", "write at least one profile with name and data"));
    }
    let whole = |p: &Value| text(&p["name"]) && text(&p["data"]);
    if !spec["profile"].as_array().is_some_and(|l| l.iter().all(whole)) {
        return Some(("Tuned", "name or data in a spec.profile", "give each profile both"));
    }
    (!list(&spec["recommend"])).then_some((
        "Tuned",
        "spec.recommend",
        "say for which nodes a profile is, with profile and priority",
    ))
}

fn machine_config(name: &str, spec: Value) -> Value {
    json!({"apiVersion": MACHINE_CONFIG, "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}}, "spec": spec})
}

/// What follows from the HostedCluster: FIPS, the SSH key of `core`, and where images are also found.
pub fn of_cluster(hc: &HostedCluster, ssh_key: Option<&str>) -> Vec<Value> {
    let ignition = json!({"version": "3.2.0"});
    let mut users = json!([]);
    if let Some(key) = ssh_key.map(str::trim).filter(|k| !k.is_empty()) {
        let keys: Vec<&str> = key.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        users = json!([{"name": "core", "sshAuthorizedKeys": keys}]);
    }
    let mut out = vec![
        machine_config(
            "30-fips",
            json!({"config": {"ignition": ignition}, "fips": hc.spec.shared.fips.unwrap_or(false)}),
        ),
        machine_config(
            "99-worker-ssh",
            json!({"config": {"ignition": ignition, "passwd": {"users": users}}}),
        ),
    ];
    let mirrors: Vec<Value> = hc
        .spec
        .shared
        .image_content_sources
        .iter()
        .flatten()
        .map(|s| {
            let mirrors: Vec<&str> = s.mirrors.iter().flatten().map(|m| m.0.as_str()).collect();
            json!({"source": s.source, "mirrors": mirrors})
        })
        .collect();
    if !mirrors.is_empty() {
        out.push(json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet",
            "metadata": {"name": "cluster", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": {"imageDigestMirrors": mirrors}}));
    }
    out
}

/// Whether the API is published by a Route.
fn routed(hc: &HostedCluster) -> bool {
    let mut api = hc.spec.shared.services.iter().filter(|s| s.service == ServiceType::ApiServer);
    api.any(|s| s.service_publishing_strategy.type_ == PublishingType::Route)
}

/// Where nodes find the API server, and the images that we choose for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The address that nodes answer themselves, and its port.
    pub advertise: String,
    pub port: u16,
    /// Where it leads.
    pub host: String,
    pub to: u16,
    /// Tells the shared ingress whose connection it is (ARO, public).
    pub cluster_id: Option<String>,
    /// The cluster's proxy, if that is how one gets there: host and port.
    pub through: Option<String>,
}

impl Way {
    /// From the HostedCluster's status; nothing while the control plane has not said where it is. `shared` is whether
    /// there is a shared ingress: in front of APIs of the managed flavour that are published by Route.
    pub fn of(hc: &HostedCluster, status: &Value, shared: bool) -> Option<Way> {
        let at = &status["controlPlaneEndpoint"];
        let host = at["host"].as_str().filter(|h| !h.is_empty())?;
        let to = at["port"].as_u64().and_then(|p| u16::try_from(p).ok()).filter(|p| *p > 0)?;
        let networking = &hc.spec.networking;
        let api = networking.api_server.as_ref();
        let six = networking.cluster_network.first().is_some_and(|n| n.cidr.0.contains(':'));
        let advertise = api
            .and_then(|a| a.advertise_address.clone())
            .unwrap_or_else(|| if six { "fd00::1" } else { "172.20.0.1" }.to_owned());
        let port = api.and_then(|a| a.port).and_then(|p| u16::try_from(p).ok()).unwrap_or(6443);
        let azure = hc.spec.shared.platform.azure.as_ref()?;
        let public = azure.topology() == apis::hypershift::platform::Topology::Public;
        let (mut host, mut to, mut cluster_id) = (host.to_owned(), to, None);
        match (public, azure.azure_authentication_config.is_managed()) {
            (true, true) if shared && routed(hc) => (to, cluster_id) = (6443, hc.spec.cluster_id.clone()),
            (false, _) => {
                // Its private router, which tells clusters' APIs by their names.
                (host, to) = (format!("api.{}.hypershift.local", crate::naming::name(hc)), 443);
            }
            (true, _) => {}
        }
        // Private names are in the network already, and a proxy would not say whose connection it is.
        let direct = !public || cluster_id.is_some();
        let proxy = serde_json::to_value(&hc.spec.shared.configuration).unwrap_or_default()["proxy"].take();
        let networks = networking.service_network.iter().map(|n| n.cidr.0.as_str());
        let networks = networks.chain(networking.cluster_network.iter().map(|n| n.cidr.0.as_str()));
        let also: Vec<&str> = networks.chain([advertise.as_str(), "kubernetes"]).collect();
        let through = if direct { None } else { detour::through(&proxy, &host, &also) };
        Some(Way { advertise, port, host, to, cluster_id, through })
    }

    /// The key of the image that runs on nodes: what only forwards, or what asks a proxy to (`CONNECT`).
    pub fn image(&self) -> &'static str {
        if self.through.is_some() { "hypershift" } else { "haproxy-router" }
    }
}

/// The proxy on every node by which its pods reach the API server. `image` may be empty: then it is what rolls nodes,
/// and the image is not.
pub fn proxy(way: &Way, image: &str) -> Value {
    let Way { advertise, port, host, to, cluster_id, through } = way;
    let bracketed = if advertise.contains(':') { format!("[{advertise}]") } else { advertise.clone() };
    let tlv = cluster_id
        .as_ref()
        .map(|id| format!(" send-proxy-v2 proxy-v2-options unique-id set-proxy-v2-tlv-fmt(0x20) {id}"))
        .unwrap_or_default();
    let configuration = format!(
        "global\n  maxconn 7000\n\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 10m\n  timeout server 10m\n  timeout tunnel 1h\n\nfrontend local_apiserver\n  bind {bracketed}:{port}\n  default_backend remote_apiserver\n\nbackend remote_apiserver\n  server controlplane {host}:{to}{tlv}\n"
    );
    let device = if advertise.contains(':') { format!("{advertise}/128") } else { format!("{advertise}/32") };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "kube-apiserver-proxy", "namespace": "kube-system", "labels": {"k8s-app": "kube-apiserver-proxy"}},
        "spec": {"hostNetwork": true, "priorityClassName": "system-node-critical",
            "containers": [{"name": "haproxy", "image": image, "command": ["haproxy", "-f", "/usr/local/etc/haproxy"],
                "resources": {"requests": {"cpu": "13m", "memory": "16Mi"}},
                "ports": [{"name": "apiserver", "containerPort": port, "hostPort": port, "protocol": "TCP"}],
                "livenessProbe": {"httpGet": {"path": "/version", "scheme": "HTTPS", "host": advertise, "port": port},
                    "initialDelaySeconds": 120, "periodSeconds": 120, "timeoutSeconds": 10, "failureThreshold": 3},
                "volumeMounts": [{"name": "config", "mountPath": "/usr/local/etc/haproxy"}]}],
            "volumes": [{"name": "config", "hostPath": {"path": "/etc/kubernetes/apiserver-proxy-config"}}]}});
    if let Some(through) = through {
        let container = &mut pod["spec"]["containers"][0];
        container["name"] = json!("kubernetes-default-proxy");
        container["command"] = json!([
            "control-plane-operator",
            "kubernetes-default-proxy",
            format!("--listen-addr={bracketed}:{port}"),
            format!("--proxy-addr={through}"),
            format!("--apiserver-addr={host}:{to}"),
        ]);
        for (of, field) in [("/spec/containers/0", "volumeMounts"), ("/spec", "volumes")] {
            pod.pointer_mut(of).and_then(Value::as_object_mut).map(|o| o.remove(field));
        }
    }
    let file = |path: &str, text: &str, mode: u32| {
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": format!("data:text/plain;charset=utf-8;base64,{data}")}})
    };
    let unit = format!(
        "[Unit]\nDescription=Address of the API server on this node\nBefore=kubelet.service\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/sbin/ip addr replace {device} dev lo\nExecStop=/usr/sbin/ip addr del {device} dev lo\n\n[Install]\nWantedBy=multi-user.target\n"
    );
    let mut files =
        vec![file("/etc/kubernetes/manifests/kube-apiserver-proxy.yaml", &canonical(&pod), 0o644)];
    if through.is_none() {
        files.insert(0, file("/etc/kubernetes/apiserver-proxy-config/haproxy.cfg", &configuration, 0o644));
    }
    machine_config(
        "20-apiserver-haproxy",
        json!({"config": {"ignition": {"version": "3.2.0"},
            "storage": {"files": files},
            "systemd": {"units": [{"name": "apiserver-ip.service", "enabled": true, "contents": unit}]}}}),
    )
}

/// All documents as one text, in an order that does not depend on where they came from.
pub fn text(documents: &[Value]) -> String {
    let mut all: Vec<String> = documents.iter().map(canonical).collect();
    all.sort_unstable();
    all.join("\n---\n")
}
