//! Addresses and ports of Services, given out when they are stored.
//!
//! What is taken is read off the Services themselves, so there is no second book to keep in step; the sum over
//! all of them is kept and follows their changes, so that a write costs the same with ten Services and ten thousand.

use crate::cluster::{Cluster, tables};
use crate::verbs::Call;
use ek_meta::{FieldError, FieldPath, Status, object};
use ek_store::{Cursor, Entry, EventKind, Next};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, hash_map};
use std::net::Ipv4Addr;
use std::sync::Arc;

const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PREFIX: u32 = 12;
const RANGE: &str = "10.96.0.0/12";
const PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// What Services hold.
#[derive(Default)]
pub struct Taken(Mutex<Holdings>);

impl Taken {
    /// The Service that has an address, as `namespace/name`.
    pub fn holder(&self, cluster: &Cluster, ip: &str) -> Option<Arc<str>> {
        let mut holdings = self.0.lock();
        holdings.refresh(cluster);
        holdings.ips.get(ip)?.first().cloned()
    }
}

#[derive(Default)]
struct Holdings {
    /// Up to where changes were read.
    place: Option<Cursor>,
    by_service: HashMap<Arc<str>, (u64, Vec<String>, Vec<u16>)>,
    ips: HashMap<String, Vec<Arc<str>>>,
    ports: HashMap<u16, usize>,
}

impl Holdings {
    fn refresh(&mut self, cluster: &Cluster) {
        loop {
            let place = self.place.as_mut().filter(|c| cluster.store.is_followed_by(&cluster.id, c));
            match place.map(|c| c.poll(usize::MAX)) {
                Some(None) => return,
                Some(Some(Next::Events(events))) => {
                    for e in events {
                        self.forget(&e.key);
                        if e.kind != EventKind::Deleted {
                            self.learn(&e.key, &e.entry);
                        }
                    }
                }
                Some(Some(Next::TooOld { .. } | Next::Closed)) | None => return self.read_all(cluster),
            }
        }
    }

    /// The first time, and when more has changed than history holds.
    fn read_all(&mut self, cluster: &Cluster) {
        let (view, place) = cluster.store.view_and_watch(&cluster.id, &tables::SERVICES, None);
        self.place = Some(place);
        let gone: Vec<Arc<str>> = (self.by_service.iter())
            .filter(|(k, (rev, ..))| view.objects.get(*k).is_none_or(|e| e.revision != *rev))
            .map(|(k, _)| k.clone())
            .collect();
        gone.iter().for_each(|key| self.forget(key));
        for (key, entry) in &view.objects {
            if !self.by_service.contains_key(key) {
                self.learn(key, entry);
            }
        }
    }

    fn learn(&mut self, key: &Arc<str>, entry: &Entry) {
        let service: Value = serde_json::from_slice(&entry.bytes()).unwrap_or_default();
        let (ips, ports) = held(&service);
        ips.iter().for_each(|ip| self.ips.entry(ip.clone()).or_default().push(key.clone()));
        ports.iter().for_each(|p| *self.ports.entry(*p).or_default() += 1);
        self.by_service.insert(key.clone(), (entry.revision, ips, ports));
    }

    fn forget(&mut self, key: &Arc<str>) {
        let Some((_, ips, ports)) = self.by_service.remove(key) else { return };
        for ip in ips {
            if let hash_map::Entry::Occupied(mut holders) = self.ips.entry(ip) {
                holders.get_mut().retain(|k| k != key);
                if holders.get().is_empty() {
                    holders.remove();
                }
            }
        }
        for port in ports {
            if let hash_map::Entry::Occupied(mut n) = self.ports.entry(port) {
                *n.get_mut() -= 1;
                if *n.get() == 0 {
                    n.remove();
                }
            }
        }
    }
}

fn held(service: &Value) -> (Vec<String>, Vec<u16>) {
    let spec = &service["spec"];
    let ips = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let ips = ips.filter(|ip| *ip != "None").map(str::to_owned).collect();
    let port = |v: &Value| v.as_u64().and_then(|p| u16::try_from(p).ok()).filter(|p| *p > 0);
    let mut ports: Vec<u16> =
        spec["ports"].as_array().into_iter().flatten().filter_map(|p| port(&p["nodePort"])).collect();
    ports.extend(port(&spec["healthCheckNodePort"]));
    ports.sort_unstable();
    ports.dedup();
    (ips, ports)
}

/// Gives a Service what its type has and it does not ask for by number; checks what it does.
pub fn service(call: &Call, obj: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if call.res.table != *tables::SERVICES || !call.info.subresource.is_empty() {
        return Ok(());
    }
    let (own_ips, own_ports) = old.map(held).unwrap_or_default();
    let name = object::name(obj).to_owned();
    let Some(Value::Object(spec)) = obj.get_mut("spec") else { return Ok(()) };
    let mut taken = call.cluster.services.0.lock();
    taken.refresh(&call.cluster);
    let mut errors = Vec::new();
    let ty = spec.get("type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
    if ty == "ExternalName" {
        return Ok(());
    }
    cluster_ip(call, spec, &taken, &own_ips, &mut errors);
    let allocates = spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    if ty == "NodePort" || (ty == "LoadBalancer" && allocates) {
        node_ports(call, spec, &taken, &own_ports, &mut errors);
    }
    let local = spec.get("externalTrafficPolicy").is_some_and(|p| p == "Local");
    if ty == "LoadBalancer" && local && zero(spec.get("healthCheckNodePort")) {
        let used = node_ports_of(spec);
        if let Some(p) = free_port(call, &taken, &used) {
            spec.insert("healthCheckNodePort".into(), json!(p));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", &name, &errors)) }
}

fn zero(v: Option<&Value>) -> bool {
    v.is_none_or(|v| v.is_null() || *v == 0 || *v == "")
}

fn cluster_ip(
    call: &Call,
    spec: &mut Map<String, Value>,
    taken: &Holdings,
    own: &[String],
    errors: &mut Vec<FieldError>,
) {
    if spec.get("ipFamilyPolicy").is_some_and(|p| p == "RequireDualStack")
        && spec.get("clusterIP").is_none_or(|ip| ip != "None")
    {
        let path = FieldPath::new("spec").child("ipFamilyPolicy");
        let text = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&path, "RequireDualStack", text));
        return;
    }
    if !zero(spec.get("clusterIP")) {
        let path = FieldPath::new("spec").child("clusterIPs");
        let asked = spec.get("clusterIPs").cloned().unwrap_or_default();
        for ip in asked.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if ip == "None" || own.iter().any(|o| o == ip) {
                continue;
            }
            let why = match ip.parse::<Ipv4Addr>() {
                // What is no address is validation's to say.
                Err(_) => continue,
                Ok(a) if !in_range(a) => format!(
                    "failed to allocate IP {ip}: the provided IP ({ip}) is not in the valid range. The range of valid IPs is {RANGE}"
                ),
                Ok(_) if taken.ips.contains_key(ip) => {
                    format!("failed to allocate IP {ip}: provided IP is already allocated")
                }
                Ok(_) => continue,
            };
            errors.push(FieldError::invalid(&path, asked.clone(), why));
        }
        return;
    }
    let Some(ip) = free_ip(call, taken) else {
        errors.push(FieldError::internal(&FieldPath::new("spec").child("clusterIPs"), "no address is left"));
        return;
    };
    spec.insert("clusterIP".into(), json!(ip));
    spec.insert("clusterIPs".into(), json!([ip]));
    if zero(spec.get("ipFamilyPolicy")) {
        spec.insert("ipFamilyPolicy".into(), json!("SingleStack"));
    }
    if spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("ipFamilies".into(), json!(["IPv4"]));
    }
}

fn in_range(ip: Ipv4Addr) -> bool {
    u32::from(ip) >> (32 - PREFIX) == u32::from(NETWORK) >> (32 - PREFIX)
}

/// At random first, so that an address is not soon another's; then in order.
fn free_ip(call: &Call, taken: &Holdings) -> Option<String> {
    let size = 1u32 << (32 - PREFIX);
    let at = |n: u32| Ipv4Addr::from(u32::from(NETWORK) + n).to_string();
    // The lowest are for whoever asks by number.
    let random = |_: u32| 256 + u32::try_from(call.cluster.random.below(size as usize - 257)).unwrap_or(0);
    (0..16).map(random).chain(2..size - 1).map(at).find(|ip| !taken.ips.contains_key(ip))
}

fn free_port(call: &Call, taken: &Holdings, also: &[u16]) -> Option<u16> {
    let free = |p: &u16| !taken.ports.contains_key(p) && !also.contains(p);
    let span = usize::from(PORTS.end() - PORTS.start()) + 1;
    let random = |_: u16| PORTS.start() + u16::try_from(call.cluster.random.below(span)).unwrap_or(0);
    (0u16..16).map(random).chain(PORTS).find(free)
}

fn node_ports_of(spec: &Map<String, Value>) -> Vec<u16> {
    let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
    ports
        .filter_map(|p| p["nodePort"].as_u64())
        .filter_map(|p| u16::try_from(p).ok())
        .filter(|p| *p > 0)
        .collect()
}

fn node_ports(
    call: &Call,
    spec: &mut Map<String, Value>,
    taken: &Holdings,
    own: &[u16],
    errors: &mut Vec<FieldError>,
) {
    let mut given = node_ports_of(spec);
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    // Two protocols on one port share its number.
    let mut by_port: HashMap<(u64, String), u16> = HashMap::new();
    for (i, p) in ports.iter_mut().enumerate() {
        let path = FieldPath::new("spec").child("ports").index(i).child("nodePort");
        let port = p["port"].as_u64().unwrap_or(0);
        let protocol = p["protocol"].as_str().unwrap_or("TCP").to_owned();
        let asked = p["nodePort"].as_u64().unwrap_or(0);
        let Ok(number) = u16::try_from(asked) else { continue };
        if number > 0 {
            if own.contains(&number) {
                // It was ours before.
            } else if !PORTS.contains(&number) {
                let text = format!(
                    "provided port is not in the valid range. The range of valid ports is {}-{}",
                    PORTS.start(),
                    PORTS.end()
                );
                errors.push(FieldError::invalid(&path, asked, text));
            } else if taken.ports.contains_key(&number) {
                errors.push(FieldError::invalid(&path, asked, "provided port is already allocated"));
            }
            by_port.insert((port, protocol), number);
            continue;
        }
        let shared = by_port.iter().find(|((n, other), _)| *n == port && *other != protocol).map(|(_, p)| *p);
        let Some(number) = shared.or_else(|| free_port(call, taken, &given)) else {
            errors.push(FieldError::internal(&path, "failed to allocate a nodePort: range is full"));
            continue;
        };
        given.push(number);
        by_port.insert((port, protocol), number);
        p["nodePort"] = json!(number);
    }
}
