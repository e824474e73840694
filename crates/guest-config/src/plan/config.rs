//! `config.openshift.io`: what the cluster is, as its parts read it. Decided by the HostedCluster; policies keep it so.

use super::Plan;
use crate::facts::Facts;
use control_plane::config::version::capabilities;
use serde_json::{Map, Value, json};

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A section of the HostedCluster's configuration, or nothing.
fn section(f: &Facts, name: &str) -> Value {
    match &f.scope.configuration[name] {
        Value::Object(o) => Value::Object(o.clone()),
        _ => json!({}),
    }
}

pub fn plan(f: &Facts, p: &mut Plan) {
    version(f, p);
    infrastructure(f, p);
    let mut dns = json!({"baseDomain": f.base_domain});
    for (zone, id) in [("publicZone", &f.zones.0), ("privateZone", &f.zones.1)] {
        if let Some(id) = id {
            dns[zone] = json!({"id": id});
        }
    }
    p.keep(object("DNS", "cluster", dns));
    let networks = network(f);
    p.keep_with_status(object("Network", "cluster", networks.0), networks.1);
    p.keep_with_status(
        object("Ingress", "cluster", section(f, "ingress")),
        json!({"defaultPlacement": "Workers"}),
    );
    proxy(f, p);
    let mut authentication = section(f, "authentication");
    authentication["serviceAccountIssuer"] = json!(f.scope.issuer);
    if authentication["type"].is_null() {
        authentication["type"] = json!("");
    }
    p.keep(object("Authentication", "cluster", authentication));
    let mut api = section(f, "apiServer");
    if api["audit"].is_null() {
        api["audit"] = json!({"profile": "Default"});
    }
    p.keep(object("APIServer", "cluster", api));
    for (kind, name) in [
        ("FeatureGate", "featureGate"),
        ("Image", "image"),
        ("OperatorHub", "operatorhub"),
        ("Scheduler", "scheduler"),
        ("Build", "build"),
        ("Project", "project"),
    ] {
        p.keep(object(kind, "cluster", section(f, name)));
    }
    if f.scope.oauth() {
        p.keep(object("OAuth", "cluster", section(f, "oauth")));
    }
    if !f.mirrors.is_empty() {
        p.keep(object("ImageDigestMirrorSet", "cluster", json!({"imageDigestMirrors": f.mirrors})));
    }
}

fn version(f: &Facts, p: &mut Plan) {
    let mut spec = Map::new();
    spec.insert("clusterID".into(), json!(f.scope.cluster_id));
    if let Some(channel) = &f.channel {
        spec.insert("channel".into(), json!(channel));
    }
    if let Some(upstream) = &f.update_service {
        spec.insert("upstream".into(), json!(upstream));
    }
    spec.insert("capabilities".into(), capabilities(&f.scope));
    p.keep(object("ClusterVersion", "version", Value::Object(spec)));
}

fn infrastructure(f: &Facts, p: &mut Plan) {
    let (s, a) = (&f.scope, &f.scope.azure);
    let spec = json!({
        "cloudConfig": {"name": "cloud-provider-config", "key": "config"},
        "platformSpec": {"type": "Azure", "azure": {}},
    });
    let api = &s.endpoints.api;
    let topology = if f.infrastructure_ha { "HighlyAvailable" } else { "SingleReplica" };
    let inside = format!("api.{}.hypershift.local", s.name);
    let status = json!({
        "infrastructureName": s.infra_id,
        "platform": "Azure",
        "platformStatus": {"type": "Azure", "azure": {
            "cloudName": a.cloud, "resourceGroupName": a.resource_group, "networkResourceGroupName": a.vnet.group}},
        "apiServerURL": format!("https://{}:{}", api.host, api.port),
        "apiServerInternalURI": format!("https://{}:443", s.endpoints.private_api.as_ref().unwrap_or(&inside)),
        "etcdDiscoveryDomain": f.base_domain,
        "controlPlaneTopology": "External",
        "infrastructureTopology": topology,
        "cpuPartitioning": "None",
    });
    if api.host.is_empty() {
        // A status that names no address would be believed.
        p.lack("status.controlPlaneEndpoint of the HostedControlPlane", "Infrastructure cluster");
        return;
    }
    p.keep_with_status(object("Infrastructure", "cluster", spec), status);
}

fn network(f: &Facts) -> (Value, Value) {
    let n = &f.scope.network;
    let prefix = |i: usize| f.host_prefixes.get(i).copied().unwrap_or(23);
    let ranges: Vec<Value> = n
        .cluster
        .iter()
        .enumerate()
        .map(|(i, cidr)| json!({"cidr": cidr, "hostPrefix": prefix(i)}))
        .collect();
    let mut spec = section(f, "network");
    spec["clusterNetwork"] = json!(ranges);
    spec["serviceNetwork"] = json!(n.service);
    spec["networkType"] = json!(n.kind);
    if spec["externalIP"].is_null() {
        // What upstream writes: no address from outside is taken by Services.
        spec["externalIP"] = json!({"policy": {}});
    }
    if let Some(range) = &f.node_port_range {
        spec["serviceNodePortRange"] = json!(range);
    }
    let status = json!({"clusterNetwork": ranges, "serviceNetwork": n.service, "networkType": n.kind});
    (spec, status)
}

/// The proxy, and what must never go through it.
fn proxy(f: &Facts, p: &mut Plan) {
    let spec = section(f, "proxy");
    let mut status = Map::new();
    if spec["httpProxy"].is_string() || spec["httpsProxy"].is_string() {
        let n = &f.scope.network;
        let mut direct: Vec<String> = [n.cluster.clone(), n.service.clone(), n.machine.clone()].concat();
        direct.extend(
            [
                "127.0.0.1",
                "localhost",
                ".svc",
                ".cluster.local",
                ".local",
                "168.63.129.16",
                "169.254.169.254",
            ]
            .map(String::from),
        );
        direct.push(n.advertise.to_string());
        direct.push(format!(".{}.hypershift.local", f.scope.name));
        direct.extend(
            spec["noProxy"].as_str().into_iter().flat_map(|t| t.split(',')).map(|t| t.trim().to_owned()),
        );
        direct.retain(|t| !t.is_empty());
        direct.sort();
        direct.dedup();
        for key in ["httpProxy", "httpsProxy"] {
            if spec[key].is_string() {
                status.insert(key.to_owned(), spec[key].clone());
            }
        }
        status.insert("noProxy".into(), json!(direct.join(",")));
    }
    let named = spec["trustedCA"]["name"].as_str().filter(|n| !n.is_empty()).map(str::to_owned);
    p.keep_with_status(object("Proxy", "cluster", spec), Value::Object(status));
    copies(f, p, named.as_deref(), "Proxy");
    let image = f.scope.configuration["image"]["additionalTrustedCA"]["name"].as_str();
    copies(f, p, image, "Image");
}

/// ConfigMaps that the configuration names are where its readers look for them.
fn copies(f: &Facts, p: &mut Plan, name: Option<&str>, whose: &str) {
    let Some(name) = name.filter(|n| *n != "user-ca-bundle") else { return };
    match f.material.config_maps.get(name) {
        Some(data) => p.keep(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "namespace": "openshift-config"}})),
        None => p.lack(&format!("ConfigMap {name}"), &format!("{whose} cluster")),
    }
}
