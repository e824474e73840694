//! Services and what routes to and around them.

use super::path::{Errors, Path};
use super::{NOT_IP, is_ip, port_name, port_or_name, selector, spec};
use crate::json::{int_of, is_zero, list, str_of};
use ek_meta::names;
use serde_json::{Value, json};

pub(super) fn service(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let ty = str_of(s, "type");
    let headless = str_of(s, "clusterIP") == "None";
    let ports = list(s, "ports");
    if ports.is_empty() && !headless && ty != "ExternalName" {
        e.required(&p.child("ports"), "");
    }
    match ty {
        "" => e.required(&p.child("type"), ""),
        "ExternalName" => {
            for key in ["clusterIP", "clusterIPs"] {
                if s.get(key).is_some_and(|v| !is_zero(v)) {
                    e.forbidden(&p.child(key), "may not be set for ExternalName services");
                }
            }
            let name = str_of(s, "externalName").trim_end_matches('.');
            if name.is_empty() {
                e.required(&p.child("externalName"), "");
            } else {
                e.named(&p.child("externalName"), name, names::dns_subdomain);
            }
        }
        "LoadBalancer" | "NodePort" if headless => {
            e.invalid(
                &p.child("clusterIPs").index(0),
                "None",
                format!("may not be set to 'None' for {ty} services"),
            );
        }
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        other => e.not_supported(
            &p.child("type"),
            other,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ),
    }
    service_ports(e, &p.child("ports"), ports, ty);
    if let Some(Value::Object(sel)) = s.get("selector") {
        let p = p.child("selector");
        for (k, v) in sel {
            e.named(&p, k, names::qualified_name);
            e.named(&p, v.as_str().unwrap_or_default(), names::label_value);
        }
    }
    match str_of(s, "sessionAffinity") {
        "" => e.required(&p.child("sessionAffinity"), ""),
        "ClientIP" | "None" => {}
        other => e.not_supported(&p.child("sessionAffinity"), other, &["ClientIP", "None"]),
    }
    for key in ["externalTrafficPolicy", "internalTrafficPolicy"] {
        e.one_of(&p.child(key), s.get(key).filter(|v| !is_zero(v)), &["Cluster", "Local"]);
    }
    if !str_of(s, "externalTrafficPolicy").is_empty()
        && !matches!(ty, "NodePort" | "LoadBalancer")
        && list(s, "externalIPs").is_empty()
    {
        e.invalid(
            &p.child("externalTrafficPolicy"),
            str_of(s, "externalTrafficPolicy"),
            "may only be set for externally-accessible services",
        );
    }
    let ips = p.child("clusterIPs");
    for (i, ip) in list(s, "clusterIPs").iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if ip != "None" && !is_ip(ip) {
            e.invalid(&ips.index(i), ip, NOT_IP);
        }
    }
    let external = p.child("externalIPs");
    for (i, ip) in list(s, "externalIPs").iter().enumerate() {
        let ip = ip.as_str().unwrap_or_default();
        if !is_ip(ip) {
            e.invalid(&external.index(i), ip, NOT_IP);
        }
    }
    if let Some(old) = old {
        let o = spec(old);
        let before = str_of(o, "clusterIP");
        let kept = ty == "ExternalName" || str_of(o, "type") == "ExternalName" || before.is_empty();
        if !kept && before != str_of(s, "clusterIP") {
            let v = s.get("clusterIPs").cloned().unwrap_or_default();
            e.invalid(&ips.index(0), v, "may not change once set");
        }
    }
}

fn service_ports(e: &mut Errors, p: &Path<'_>, all: &[Value], ty: &str) {
    for (i, port) in all.iter().enumerate() {
        let p = p.index(i);
        let (name, before) = (str_of(port, "name"), || all.iter().take(i));
        if !name.is_empty() {
            e.named(&p.child("name"), name, names::dns_label);
            if before().any(|o| str_of(o, "name") == name) {
                e.duplicate(&p.child("name"), name);
            }
        } else if all.len() > 1 {
            e.required(&p.child("name"), "");
        }
        e.port(&p.child("port"), int_of(port, "port").unwrap_or_default());
        match str_of(port, "protocol") {
            "" => e.required(&p.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => e.not_supported(&p.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
        port_or_name(e, &p.child("targetPort"), port.get("targetPort"));
        let twin = |o: &Value| {
            str_of(o, "protocol") == str_of(port, "protocol") && int_of(o, "port") == int_of(port, "port")
        };
        if before().any(twin) {
            // The port as the type has it that knows only what makes a twin.
            let twin = json!({"Name": "", "Protocol": str_of(port, "protocol"), "AppProtocol": null,
                "Port": int_of(port, "port"), "TargetPort": 0, "NodePort": 0});
            e.duplicate(&p, twin);
        }
        match int_of(port, "nodePort").unwrap_or_default() {
            0 => {}
            _ if ty == "ClusterIP" => {
                e.forbidden(&p.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
            }
            n if !(30000..=32767).contains(&n) => e.invalid(
                &p.child("nodePort"),
                n,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            ),
            _ => {}
        }
    }
}

pub(super) fn endpoints(e: &mut Errors, new: &Value) {
    let p = Path::ROOT.child("subsets");
    for (i, s) in list(new, "subsets").iter().enumerate() {
        let p = p.index(i);
        let (ready, not) = (list(s, "addresses"), list(s, "notReadyAddresses"));
        if ready.is_empty() && not.is_empty() {
            e.required(&p, "must specify `addresses` or `notReadyAddresses`");
        }
        for (key, all) in [("addresses", ready), ("notReadyAddresses", not)] {
            let p = p.child(key);
            for (i, a) in all.iter().enumerate() {
                if !is_ip(str_of(a, "ip")) {
                    e.invalid(&p.index(i).child("ip"), str_of(a, "ip"), NOT_IP);
                }
            }
        }
        let ports = list(s, "ports");
        let p = p.child("ports");
        for (i, port) in ports.iter().enumerate() {
            let p = p.index(i);
            let name = str_of(port, "name");
            if name.is_empty() && ports.len() > 1 {
                e.required(&p.child("name"), "");
            } else if !name.is_empty() {
                e.named(&p.child("name"), name, names::dns_label);
            }
            e.port(&p.child("port"), int_of(port, "port").unwrap_or_default());
            e.one_of(&p.child("protocol"), port.get("protocol"), &["SCTP", "TCP", "UDP"]);
        }
    }
}

pub(super) fn endpoint_slice(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let types = ["FQDN", "IPv4", "IPv6"];
    let ty = str_of(new, "addressType");
    if ty.is_empty() {
        e.required(&Path::ROOT.child("addressType"), "");
    } else {
        e.one_of(&Path::ROOT.child("addressType"), new.get("addressType"), &types);
    }
    if let Some(old) = old {
        e.fixed(&Path::ROOT, new, old, "addressType");
    }
    let (p, all) = (Path::ROOT.child("endpoints"), list(new, "endpoints"));
    if all.len() > 1000 {
        e.0.push(ek_meta::FieldError::too_many(&p.text(), all.len(), 1000));
        return;
    }
    for (i, x) in all.iter().enumerate() {
        let p = p.index(i);
        let ap = p.child("addresses");
        let addresses = list(x, "addresses");
        if addresses.is_empty() {
            e.required(&ap, "must contain at least 1 address");
        }
        for (i, a) in addresses.iter().enumerate() {
            let a = a.as_str().unwrap_or_default();
            let ok = match ty {
                "IPv4" => a.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => a.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => true,
            };
            if !ok {
                let text = if ty == "IPv4" {
                    "must be a valid IPv4 address"
                } else {
                    "must be a valid IPv6 address"
                };
                e.invalid(&ap.index(i), a, text);
            }
        }
    }
    let (p, ports) = (Path::ROOT.child("ports"), list(new, "ports"));
    for (i, port) in ports.iter().enumerate() {
        let p = p.index(i);
        let name = str_of(port, "name");
        if ports.iter().take(i).any(|o| str_of(o, "name") == name) {
            e.duplicate(&p.child("name"), name);
        } else if !name.is_empty() {
            e.named(&p.child("name"), name, names::dns_label);
        }
        e.one_of(&p.child("protocol"), port.get("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

pub(super) fn ingress(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let default = s.get("defaultBackend").filter(|b| b.is_object());
    let rules = list(s, "rules");
    if default.is_none() && rules.is_empty() {
        e.invalid(&p, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(b) = default {
        backend(e, &p.child("defaultBackend"), b);
    }
    let rp = p.child("rules");
    for (i, r) in rules.iter().enumerate() {
        let p = rp.index(i);
        let host = str_of(r, "host");
        if is_ip(host) {
            e.invalid(&p.child("host"), host, "must be a DNS name, not an IP address");
        } else if !host.is_empty() {
            e.named(&p.child("host"), host.strip_prefix("*.").unwrap_or(host), names::dns_subdomain);
        }
        let Some(http) = r.get("http").filter(|h| h.is_object()) else { continue };
        let hp = p.child("http");
        let p = hp.child("paths");
        if list(http, "paths").is_empty() {
            e.required(&p, "");
        }
        for (i, x) in list(http, "paths").iter().enumerate() {
            let p = p.index(i);
            let (ty, path) = (str_of(x, "pathType"), str_of(x, "path"));
            match ty {
                "" => {
                    e.required(&p.child("pathType"), "pathType must be specified");
                    continue;
                }
                "Exact" | "Prefix" if !path.starts_with('/') => {
                    e.invalid(&p.child("path"), path, "must be an absolute path");
                }
                "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
                    e.invalid(&p.child("path"), path, "must be an absolute path");
                }
                "Exact" | "Prefix" | "ImplementationSpecific" => {}
                other => e.not_supported(
                    &p.child("pathType"),
                    other,
                    &["Exact", "ImplementationSpecific", "Prefix"],
                ),
            }
            backend(e, &p.child("backend"), x.get("backend").unwrap_or(&Value::Null));
        }
    }
    if let Some(class) = s.get("ingressClassName").and_then(Value::as_str) {
        e.named(&p.child("ingressClassName"), class, names::dns_subdomain);
    }
}

fn backend(e: &mut Errors, p: &Path<'_>, b: &Value) {
    let has_resource = b.get("resource").is_some_and(Value::is_object);
    let Some(s) = b.get("service").filter(|s| s.is_object()) else {
        if !has_resource {
            e.invalid(p, "", "resource or service backend is required");
        }
        return;
    };
    if has_resource {
        e.invalid(p, "", "cannot set both resource and service backends");
        return;
    }
    let p = p.child("service");
    let name = str_of(s, "name");
    if name.is_empty() {
        e.required(&p.child("name"), "");
    } else {
        e.named(&p.child("name"), name, names::dns_1035_label);
    }
    let port = s.get("port").unwrap_or(&Value::Null);
    match (str_of(port, "name"), int_of(port, "number").unwrap_or_default()) {
        ("", 0) => e.required(&p, "port name or number is required"),
        ("", n) => {
            let p = p.child("port");
            e.port(&p.child("number"), n);
        }
        (n, 0) => {
            let p = p.child("port");
            e.named(&p.child("name"), n, port_name);
        }
        _ => e.invalid(&p, "", "cannot set both port name & port number"),
    }
}

pub(super) fn ingress_class(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let p = Path::ROOT.child("spec");
    let controller = str_of(spec(new), "controller");
    if controller.len() > 250 {
        e.too_long(&p.child("controller"), 250);
    }
    if let Some(old) = old {
        e.fixed(&p, spec(new), spec(old), "controller");
    }
}

pub(super) fn network_policy(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    if let Some(sel) = s.get("podSelector") {
        selector(e, &p.child("podSelector"), sel);
    }
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let p = p.child(rules);
        for (i, r) in list(s, rules).iter().enumerate() {
            let p = p.index(i);
            let pp = p.child("ports");
            for (i, port) in list(r, "ports").iter().enumerate() {
                let p = pp.index(i);
                e.one_of(&p.child("protocol"), port.get("protocol"), &["SCTP", "TCP", "UDP"]);
                if port.get("port").is_some_and(|v| !v.is_null()) {
                    port_or_name(e, &p.child("port"), port.get("port"));
                }
            }
            let pp = p.child(peers);
            for (i, peer) in list(r, peers).iter().enumerate() {
                policy_peer(e, &pp.index(i), peer);
            }
        }
    }
    let types = list(s, "policyTypes");
    let tp = p.child("policyTypes");
    if types.len() > 2 {
        e.invalid(
            &tp,
            s.get("policyTypes").cloned().unwrap_or_default(),
            "may not specify more than two policyTypes",
        );
    }
    for (i, t) in types.iter().enumerate() {
        e.one_of(&tp.index(i), Some(t), &["Ingress", "Egress"]);
    }
}

fn policy_peer(e: &mut Errors, p: &Path<'_>, peer: &Value) {
    let set =
        ["podSelector", "namespaceSelector", "ipBlock"].map(|k| peer.get(k).is_some_and(Value::is_object));
    match set {
        [false, false, false] => e.required(p, "must specify a peer"),
        [a, b, true] if a || b => e.forbidden(p, "may not specify both ipBlock and another peer"),
        [_, _, true] => {
            let p = p.child("ipBlock");
            let cidr = peer.get("ipBlock").map_or("", |b| str_of(b, "cidr"));
            let ok = cidr
                .split_once('/')
                .is_some_and(|(ip, n)| is_ip(ip) && n.parse::<u8>().is_ok_and(|n| n <= 128));
            if cidr.is_empty() {
                e.required(&p.child("cidr"), "");
            } else if !ok {
                e.invalid(
                    &p.child("cidr"),
                    cidr,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                );
            }
        }
        _ => {
            for key in ["podSelector", "namespaceSelector"] {
                if let Some(sel) = peer.get(key) {
                    selector(e, &p.child(key), sel);
                }
            }
        }
    }
}
