//! What the metrics proxy scrapes for the guest: whatever the control plane's own monitors name.

use super::{config_map, yaml};
use crate::pod::Pod;
use crate::scope::Scope;
use crate::{Error, publish, render, table};
use serde_json::{Map, Value, json};

/// Where it finds what monitors authenticate with, each in a directory of its name.
const CERTS: &str = "/etc/metrics-proxy/certs";
/// By annotations `hypershift.openshift.io/metrics-…` a monitor says what its series are called in the guest.
const CALLED: [(&str, &str); 4] = [
    ("metrics-job", "metricsJob"),
    ("metrics-namespace", "metricsNamespace"),
    ("metrics-service", "metricsService"),
    ("metrics-endpoint", "metricsEndpoint"),
];

/// A monitor, and where it leads.
struct Target {
    name: String,
    /// Labels of the pods.
    pods: Value,
    port: u64,
    /// The monitor's endpoint.
    endpoint: Value,
    annotations: Value,
}

/// What all monitors of a control plane lead to, by name. Those that lead nowhere have nothing to be scraped.
fn targets(scope: &Scope) -> Result<Vec<Target>, Error> {
    let published = publish::objects(scope);
    let mut all = Vec::new();
    for component in table::all().iter().filter(|c| (c.when)(scope)) {
        let assets = render::assets(component)?;
        let containers = || list(&assets.workload["spec"]["template"]["spec"]["containers"]);
        let named = |name: &Value| {
            let port = containers().flat_map(|c| list(&c["ports"])).find(|p| p["name"] == *name)?;
            // The API server's is wherever the cluster wants it.
            let moved = component.name == "kube-apiserver" && *name == "client";
            if moved { Some(u64::from(scope.network.api_port)) } else { port["containerPort"].as_u64() }
        };
        for monitor in &assets.objects {
            let spec = &monitor["spec"];
            let pods = &spec["selector"]["matchLabels"];
            let (endpoint, port) = match monitor["kind"].as_str() {
                Some("ServiceMonitor") => {
                    let endpoint = &spec["endpoints"][0];
                    let services = assets.objects.iter().chain(&published);
                    let services =
                        services.filter(|o| o["kind"] == "Service" && o["spec"]["selector"] == *pods);
                    let mut ports = services.flat_map(|s| list(&s["spec"]["ports"]));
                    let port = ports.find(|p| p["name"] == endpoint["port"]).map(|p| &p["targetPort"]);
                    (endpoint, port.and_then(|p| p.as_u64().or_else(|| named(p))))
                }
                Some("PodMonitor") => {
                    let endpoint = &spec["podMetricsEndpoints"][0];
                    (endpoint, named(&endpoint["port"]))
                }
                _ => continue,
            };
            let Some(port) = port else { continue };
            let name = monitor["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let annotations = monitor["metadata"]["annotations"].clone();
            all.push(Target { name, pods: pods.clone(), port, endpoint: endpoint.clone(), annotations });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

impl Target {
    /// What it trusts, its certificate and its key: the kind of what holds each, its name, and the key in it.
    fn files(&self) -> impl Iterator<Item = (&'static str, &'static str, &str, &str)> {
        let tls = &self.endpoint["tlsConfig"];
        let all = [
            ("caFile", "configMap", &tls["ca"]["configMap"]),
            ("certFile", "secret", &tls["cert"]["secret"]),
            ("keyFile", "secret", &tls["keySecret"]),
        ];
        all.into_iter().filter_map(|(field, kind, from)| {
            Some((field, kind, from["name"].as_str()?, from["key"].as_str()?))
        })
    }

    fn said(&self) -> Value {
        let mut out = Map::new();
        out.insert("name".into(), json!(self.name));
        out.insert("selector".into(), self.pods.clone());
        out.insert("metricsPort".into(), json!(self.port));
        out.insert("metricsPath".into(), json!(self.endpoint["path"].as_str().unwrap_or("/metrics")));
        out.insert("metricsScheme".into(), json!(self.endpoint["scheme"].as_str().unwrap_or("http")));
        let server = self.endpoint["tlsConfig"]["serverName"].as_str().unwrap_or_default();
        out.insert("tlsServerName".into(), json!(server));
        for (field, _, name, key) in self.files() {
            out.insert(field.into(), json!(format!("{CERTS}/{name}/{key}")));
        }
        for (annotation, field) in CALLED {
            let said = &self.annotations[format!("hypershift.openshift.io/{annotation}")];
            if said.is_string() {
                out.insert(field.into(), said.clone());
            }
        }
        Value::Object(out)
    }
}

pub fn config(scope: &Scope) -> Result<Vec<Value>, Error> {
    let components: Vec<Value> = targets(scope)?.iter().map(Target::said).collect();
    let resolver = json!({
        "url": format!("https://endpoint-resolver.{}.svc", scope.namespace),
        "caFile": format!("{CERTS}/endpoint-resolver-ca/tls.crt"),
    });
    let document = json!({"endpointResolver": resolver, "components": components});
    Ok(vec![config_map("metrics-proxy-config", "config.yaml", yaml(&document))])
}

/// How much it hands on, and the files that its configuration names.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let targets = targets(scope)?;
    let mut held: Vec<_> =
        targets.iter().flat_map(Target::files).map(|(_, kind, name, _)| (kind, name)).collect();
    held.sort_unstable();
    held.dedup();
    for (kind, name) in &held {
        let field = if *kind == "secret" { "secretName" } else { "name" };
        pod.volume(json!({"name": name, *kind: {field: name}}));
    }
    if let Some(mut main) = pod.main() {
        main.args(scope.forwarded.iter().flat_map(|s| ["--metrics-set".to_owned(), s.to_string()]));
        for (_, name) in &held {
            main.mount(name, &format!("{CERTS}/{name}"));
        }
    }
    Ok(())
}
