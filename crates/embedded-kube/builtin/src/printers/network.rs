//! Services, their endpoints, and what routes to them.

use super::cells::{self, NONE, UNSET};
use super::{AGE, NAME, SELECTOR, Table, text};
use crate::json::{int_of, list, str_of};
use ek_meta::object::{at, str_at};
use serde_json::{Value, json};

fn spec(obj: &Value) -> &Value {
    obj.get("spec").unwrap_or(&Value::Null)
}

pub(super) const SERVICES: Table = (
    &[
        NAME,
        text("Type", "How the service is exposed."),
        text("Cluster-IP", "Address inside the cluster."),
        text("External-IP", "Addresses outside the cluster."),
        text("Port(s)", "Ports the service listens on, with their node ports."),
        AGE,
        SELECTOR,
    ],
    |obj, now| {
        let s = spec(obj);
        let ip =
            list(s, "clusterIPs").first().and_then(Value::as_str).unwrap_or_else(|| str_of(s, "clusterIP"));
        let ports: Vec<String> = list(s, "ports").iter().map(service_port).collect();
        vec![
            cells::name(obj),
            cells::string(s, &["type"]),
            json!(if ip.is_empty() { NONE } else { ip }),
            json!(external(obj)),
            json!(if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }),
            cells::age(obj, now),
            json!(cells::labels(s.get("selector"))),
        ]
    },
);

fn service_port(p: &Value) -> String {
    let (port, protocol) = (int_of(p, "port").unwrap_or_default(), str_of(p, "protocol"));
    match int_of(p, "nodePort").unwrap_or_default() {
        0 => format!("{port}/{protocol}"),
        node => format!("{port}:{node}/{protocol}"),
    }
}

/// Where load balancers listen: addresses first, names where there is none.
fn ingress_points(obj: &Value) -> Vec<&str> {
    let points = at(obj, &["status", "loadBalancer"]).map_or(&[][..], |l| list(l, "ingress"));
    let mut out: Vec<&str> = points
        .iter()
        .map(|p| if str_of(p, "ip").is_empty() { str_of(p, "hostname") } else { str_of(p, "ip") })
        .filter(|s| !s.is_empty())
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn external(obj: &Value) -> String {
    let s = spec(obj);
    let own: Vec<&str> = list(s, "externalIPs").iter().filter_map(Value::as_str).collect();
    match str_of(s, "type") {
        "ExternalName" => str_of(s, "externalName").to_owned(),
        "LoadBalancer" => {
            let mut all = ingress_points(obj);
            all.extend(own);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ if own.is_empty() => NONE.to_owned(),
        _ => own.join(","),
    }
}

pub(super) const ENDPOINTS: Table =
    (&[NAME, text("Endpoints", "Addresses and ports that answer."), AGE], |obj, now| {
        let mut all = Vec::new();
        for subset in list(obj, "subsets") {
            let (addresses, ports) = (list(subset, "addresses"), list(subset, "ports"));
            if ports.is_empty() {
                all.extend(addresses.iter().map(|a| str_of(a, "ip").to_owned()));
            }
            for p in ports {
                let port = int_of(p, "port").unwrap_or_default();
                all.extend(addresses.iter().map(|a| host_port(str_of(a, "ip"), port)));
            }
        }
        vec![cells::name(obj), json!(cells::some_of(&all, NONE)), cells::age(obj, now)]
    });

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(super) const ENDPOINT_SLICES: Table = (
    &[
        NAME,
        text("AddressType", "Family of the addresses."),
        text("Ports", "Ports that answer."),
        text("Endpoints", "Addresses that answer."),
        AGE,
    ],
    |obj, now| {
        let ports: Vec<String> = list(obj, "ports")
            .iter()
            .map(|p| match int_of(p, "port") {
                Some(n) => n.to_string(),
                None => p.get("name").and_then(Value::as_str).unwrap_or("*").to_owned(),
            })
            .collect();
        let addresses: Vec<String> = list(obj, "endpoints")
            .iter()
            .flat_map(|e| list(e, "addresses"))
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        vec![
            cells::name(obj),
            cells::string(obj, &["addressType"]),
            json!(cells::some_of(&ports, UNSET)),
            json!(cells::some_of(&addresses, UNSET)),
            cells::age(obj, now),
        ]
    },
);

pub(super) const INGRESSES: Table = (
    &[
        NAME,
        text(
            "Class",
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
        text("Address", "Address is a list containing ingress points for the load-balancer"),
        text("Ports", "Ports of TLS configurations that open"),
        AGE,
    ],
    |obj, now| {
        let s = spec(obj);
        let class = str_at(obj, &["spec", "ingressClassName"]).or_else(|| {
            at(obj, &["metadata", "annotations"])
                .and_then(|a| a.get("kubernetes.io/ingress.class"))
                .and_then(Value::as_str)
        });
        let hosts: Vec<String> = list(s, "rules")
            .iter()
            .map(|r| str_of(r, "host"))
            .filter(|h| !h.is_empty())
            .map(str::to_owned)
            .collect();
        vec![
            cells::name(obj),
            json!(class.unwrap_or(NONE)),
            json!(cells::some_of(&hosts, "*")),
            json!(ingress_points(obj).join(",")),
            json!(if list(s, "tls").is_empty() { "80" } else { "80, 443" }),
            cells::age(obj, now),
        ]
    },
);

pub(super) const INGRESS_CLASSES: Table = (
    &[
        NAME,
        text("Controller", "Controller that is responsible for handling this class"),
        text("Parameters", "A reference to a resource with additional parameters"),
        AGE,
    ],
    |obj, now| {
        let parameters = at(obj, &["spec", "parameters"]).filter(|p| p.is_object()).map(|p| {
            let group = str_of(p, "apiGroup");
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", str_of(p, "kind"), str_of(p, "name"))
        });
        vec![
            cells::name(obj),
            cells::string(obj, &["spec", "controller"]),
            json!(parameters.as_deref().unwrap_or(NONE)),
            cells::age(obj, now),
        ]
    },
);

pub(super) const NETWORK_POLICIES: Table =
    (&[NAME, text("Pod-Selector", "Labels of the pods the policy is about."), AGE], |obj, now| {
        let selector = cells::selector(at(obj, &["spec", "podSelector"]));
        vec![cells::name(obj), json!(selector), cells::age(obj, now)]
    });

pub(super) const IP_ADDRESSES: Table =
    (&[NAME, text("ParentRef", "What the address belongs to.")], |obj, _| {
        let p = at(obj, &["spec", "parentRef"]).unwrap_or(&Value::Null);
        let parts = ["resource", "namespace", "name"].map(|k| str_of(p, k));
        let parts: Vec<&str> = parts.into_iter().filter(|s| !s.is_empty()).collect();
        vec![cells::name(obj), json!(parts.join("/"))]
    });

pub(super) const SERVICE_CIDRS: Table = (&[NAME, text("CIDRs", "Ranges of addresses."), AGE], |obj, now| {
    vec![cells::name(obj), json!(cells::join_strings(list(spec(obj), "cidrs"), ",")), cells::age(obj, now)]
});
