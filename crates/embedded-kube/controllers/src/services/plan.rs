//! Which addresses stand behind a service.

use crate::objects::{flag, list, members, text};
use ek_store::Entry;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Most endpoints one slice holds.
const FULL: usize = 100;
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const SLICES_BY: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// What of a pod matters to those who want to reach it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Backend {
    metadata: BackendMeta,
    #[serde(default)]
    spec: BackendSpec,
    #[serde(default)]
    status: BackendStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackendMeta {
    name: String,
    namespace: String,
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackendSpec {
    #[serde(default)]
    node_name: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    subdomain: String,
    #[serde(default)]
    containers: Vec<BackendContainer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct BackendContainer {
    #[serde(default)]
    ports: Vec<BackendPort>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackendPort {
    #[serde(default)]
    name: String,
    #[serde(default)]
    container_port: i64,
    #[serde(default)]
    protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackendStatus {
    #[serde(default)]
    phase: String,
    #[serde(default, rename = "podIP")]
    pod_ip: String,
    #[serde(default, rename = "podIPs")]
    pod_ips: Vec<BackendIp>,
    #[serde(default)]
    conditions: Vec<BackendCondition>,
}

#[derive(Clone, Debug, Deserialize)]
struct BackendIp {
    #[serde(default)]
    ip: String,
}

#[derive(Clone, Debug, Deserialize)]
struct BackendCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Backend {
    pub(super) fn read(entry: &Entry) -> Option<Backend> {
        serde_json::from_slice(&entry.bytes()).ok()
    }

    fn ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn ready(&self) -> bool {
        self.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True")
    }

    fn terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn address(&self, family: &str) -> Option<&str> {
        let all = self.status.pod_ips.iter().map(|i| i.ip.as_str()).chain([self.status.pod_ip.as_str()]);
        all.into_iter().find(|ip| !ip.is_empty() && (family == "IPv6") == ip.contains(':'))
    }

    fn reference(&self) -> Value {
        json!({"kind": "Pod", "namespace": self.metadata.namespace, "name": self.metadata.name, "uid": self.metadata.uid})
    }

    pub(super) fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// The service's ports as this pod has them; one it does not have is left out.
    fn ports(&self, service: &Value) -> Vec<Value> {
        let mut out = Vec::new();
        for p in list(service, "/spec/ports") {
            let protocol = Some(text(p, "/protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP");
            let number = match p.get("targetPort") {
                Some(Value::Number(n)) => n.as_i64(),
                Some(Value::String(name)) => self.named(name, protocol),
                _ => p["port"].as_i64(),
            };
            let Some(number) = number else { continue };
            let mut port = json!({"name": text(p, "/name"), "port": number, "protocol": protocol});
            if let Some(app) = p.get("appProtocol").filter(|a| !a.is_null()) {
                port["appProtocol"] = app.clone();
            }
            out.push(port);
        }
        out
    }

    fn named(&self, name: &str, protocol: &str) -> Option<i64> {
        let ports = self.spec.containers.iter().flat_map(|c| &c.ports);
        let fits = |p: &&BackendPort| p.name == name && (p.protocol.is_empty() || p.protocol == protocol);
        ports.into_iter().find(fits).map(|p| p.container_port)
    }
}

pub(super) fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == "None"
}

/// The labels of a service as its endpoints carry them on.
fn labels(service: &Value) -> Map<String, Value> {
    let own = [SERVICE_NAME, MANAGED_BY, HEADLESS];
    let mut all: Map<String, Value> = members(service, "/metadata/labels")
        .filter(|(k, _)| !own.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if is_headless(service) {
        all.insert(HEADLESS.into(), json!(""));
    }
    all
}

/// The object of the older kind: labels and subsets.
pub(super) fn endpoints(service: &Value, pods: &[Backend]) -> (Map<String, Value>, Vec<Value>) {
    let publish = flag(service, "/spec/publishNotReadyAddresses");
    let family = list(service, "/spec/ipFamilies").first().and_then(Value::as_str).unwrap_or("IPv4");
    // Addresses with the same ports stand together.
    let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for p in pods.iter().filter(|p| !p.ended() && (publish || !p.terminating())) {
        let Some(ip) = p.address(family) else { continue };
        let ports = p.ports(service);
        if ports.is_empty() && !(is_headless(service) && list(service, "/spec/ports").is_empty()) {
            continue;
        }
        let mut address = json!({"ip": ip, "nodeName": p.spec.node_name, "targetRef": p.reference()});
        if !p.spec.hostname.is_empty() && p.spec.subdomain == text(service, "/metadata/name") {
            address["hostname"] = json!(p.spec.hostname);
        }
        let group = groups.entry(json!(ports).to_string()).or_insert_with(|| (ports, Vec::new(), Vec::new()));
        if publish || p.ready() { group.1.push(address) } else { group.2.push(address) }
    }
    let subsets = groups.into_values().map(|(ports, mut ready, mut waiting)| {
        let mut subset = Map::new();
        for (key, list) in [("addresses", &mut ready), ("notReadyAddresses", &mut waiting)] {
            if !list.is_empty() {
                list.sort_by_key(|a| a["ip"].as_str().map(str::to_owned));
                subset.insert(key.into(), json!(list));
            }
        }
        if !ports.is_empty() {
            let ports: Vec<Value> = ports.into_iter().map(unnamed).collect();
            subset.insert("ports".into(), json!(ports));
        }
        Value::Object(subset)
    });
    let mut labels = labels(service);
    labels.insert("endpoints.kubernetes.io/managed-by".into(), json!("endpoint-controller"));
    (labels, subsets.collect())
}

/// The older kind leaves an empty name out.
fn unnamed(mut port: Value) -> Value {
    if port["name"] == ""
        && let Some(m) = port.as_object_mut()
    {
        m.remove("name");
    }
    port
}

/// What a slice is to contain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) family: String,
    pub(super) ports: Vec<Value>,
    pub(super) endpoints: Vec<Value>,
}

/// All slices of a service. Without endpoints there is one empty slice: it says that somebody looked.
pub(super) fn slices(service: &Value, pods: &[Backend], zone: impl Fn(&str) -> Option<String>) -> Vec<Slice> {
    let publish = flag(service, "/spec/publishNotReadyAddresses");
    let mut families: Vec<&str> =
        list(service, "/spec/ipFamilies").iter().filter_map(Value::as_str).collect();
    if families.is_empty() {
        families.push("IPv4");
    }
    let mut out = Vec::new();
    for family in families {
        let mut groups: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
        for p in pods.iter().filter(|p| !p.ended()) {
            let Some(ip) = p.address(family) else { continue };
            let (serving, terminating) = (p.ready(), p.terminating());
            let ready = publish || (serving && !terminating);
            let mut e = json!({"addresses": [ip], "conditions": {"ready": ready, "serving": publish || serving, "terminating": terminating},
                "nodeName": p.spec.node_name, "targetRef": p.reference()});
            if let Some(zone) = zone(p.node()) {
                e["zone"] = json!(zone);
            }
            if !p.spec.hostname.is_empty() && p.spec.subdomain == text(service, "/metadata/name") {
                e["hostname"] = json!(p.spec.hostname);
            }
            let ports = p.ports(service);
            groups.entry(json!(ports).to_string()).or_insert_with(|| (ports, Vec::new())).1.push(e);
        }
        if groups.is_empty() {
            out.push(Slice { family: family.to_owned(), ports: Vec::new(), endpoints: Vec::new() });
        }
        for (ports, endpoints) in groups.into_values() {
            for some in endpoints.chunks(FULL) {
                out.push(Slice { family: family.to_owned(), ports: ports.clone(), endpoints: some.to_vec() });
            }
        }
    }
    out
}

pub(super) fn slice_labels(service: &Value) -> Map<String, Value> {
    let mut all = labels(service);
    all.insert(SERVICE_NAME.into(), json!(text(service, "/metadata/name")));
    all.insert(MANAGED_BY.into(), json!(SLICES_BY));
    all
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) create: Vec<Slice>,
    pub(super) update: Vec<(String, Slice)>,
    pub(super) delete: Vec<String>,
}

/// What turns the slices that are there into those that should be, with as few writes as there are differences.
pub(super) fn changes(there: &[Value], wanted: Vec<Slice>) -> Changes {
    let mut out = Changes::default();
    let mut free: Vec<&Value> = there.iter().collect();
    let ports_of = |s: &Value| list(s, "/ports").to_vec();
    let name = |s: &Value| text(s, "/metadata/name").to_owned();
    let mut rest = Vec::new();
    for w in wanted {
        // The same content needs no write at all.
        let same = free.iter().position(|s| {
            text(s, "/addressType") == w.family
                && ports_of(s) == w.ports
                && list(s, "/endpoints") == w.endpoints
        });
        match same {
            Some(i) => _ = free.remove(i),
            None => rest.push(w),
        }
    }
    for w in rest {
        let fits = free.iter().position(|s| text(s, "/addressType") == w.family);
        match fits {
            Some(i) => out.update.push((name(free.remove(i)), w)),
            None => out.create.push(w),
        }
    }
    out.delete = free.into_iter().map(name).collect();
    out
}
