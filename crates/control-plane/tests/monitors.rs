//! What monitors name is there: Services with their labels, ports of pods, certificates with their names, authorities.

use crate::world::{Names, managed, self_managed};
use control_plane::certificates::{BUNDLES, FORWARDING, leaves};
use control_plane::scope::*;
use control_plane::{publish, render};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// Whether an object with these labels is meant by a selector.
fn meant(selector: &Value, labels: &Value) -> bool {
    selector.as_object().is_some_and(|s| !s.is_empty() && s.iter().all(|(k, v)| labels[k] == *v))
}

/// The number of a port of some pods, by name or number; whatever it is, a container listens there.
fn port(pod: &Value, wanted: &Value) -> Option<u64> {
    let mut ports = list(&pod["spec"]["containers"]).flat_map(|c| list(&c["ports"]));
    let port = ports.find(|p| p["name"] == *wanted || p["containerPort"] == *wanted)?;
    port["containerPort"].as_u64()
}

fn clusters() -> [Scope; 4] {
    let elsewhere = Scope { network: Network { api_port: 8443, ..managed().network }, ..managed() };
    let public = Scope {
        reach: Reach::Public,
        endpoints: Endpoints { private_api: None, ..managed().endpoints },
        forwarded: Some(MetricsSet::Telemetry),
        ..managed()
    };
    [self_managed(), managed(), elsewhere, public]
}

/// What a monitor leads to: the name it expects there, by which authority, the key, and the port of the pods.
#[test]
fn monitors_meet_their_pods() {
    for scope in clusters() {
        let rendered = render(&scope, &Names).unwrap();
        let published = publish::objects(&scope);
        let services: Vec<&Value> = rendered
            .iter()
            .flat_map(|r| &r.objects)
            .chain(&published)
            .filter(|o| o["kind"] == "Service")
            .collect();
        let issued = leaves(&scope);
        let mut met = BTreeSet::new();
        for r in &rendered {
            let pod = r.objects.last().unwrap().pointer("/spec/template");
            let monitors = r.objects.iter().filter(|o| text(&o["kind"]).ends_with("Monitor"));
            for (monitor, pod) in monitors.filter_map(|m| Some((m, pod?))) {
                let selector = &monitor["spec"]["selector"]["matchLabels"];
                let endpoint = if monitor["kind"] == "PodMonitor" {
                    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
                    assert!(meant(selector, &pod["metadata"]["labels"]), "{}: {selector}", r.name);
                    assert!(port(pod, &endpoint["port"]).is_some(), "{}: {endpoint}", r.name);
                    endpoint
                } else {
                    let endpoint = &monitor["spec"]["endpoints"][0];
                    let chosen = services.iter().filter(|s| meant(selector, &s["metadata"]["labels"]));
                    let doors: Vec<(&Value, &Value)> = chosen
                        .flat_map(|s| list(&s["spec"]["ports"]).map(|p| (*s, p)))
                        .filter(|(_, p)| p["name"] == endpoint["port"])
                        .collect();
                    let [(service, door)] = doors[..] else {
                        panic!("{}: {} Services have port {}", r.name, doors.len(), endpoint["port"]);
                    };
                    assert!(meant(&service["spec"]["selector"], &pod["metadata"]["labels"]), "{}", r.name);
                    assert!(port(pod, &door["targetPort"]).is_some(), "{}: {door}", r.name);
                    endpoint
                };
                let tls = &endpoint["tlsConfig"];
                assert_eq!(endpoint["scheme"] == "https", tls.is_object(), "{}", r.name);
                met.insert(text(&monitor["metadata"]["name"]).to_owned());
                if tls.is_null() {
                    continue;
                }
                // Of what the pod serves with, something has this name and is of an authority that is trusted.
                let trusted =
                    BUNDLES.iter().find(|b| b.config_map == tls["ca"]["configMap"]["name"]).unwrap();
                assert_eq!(tls["ca"]["configMap"]["key"], trusted.key, "{}", r.name);
                let mounted: Vec<&str> =
                    list(&pod["spec"]["volumes"]).map(|v| text(&v["secret"]["secretName"])).collect();
                let serves = issued.iter().any(|l| {
                    mounted.contains(&l.secret.as_str())
                        && l.leaf.usage.server()
                        && l.leaf.dns.contains(text(&tls["serverName"]))
                        && trusted.authorities.contains(&l.authority)
                });
                assert!(
                    serves,
                    "{} has no certificate for {} by {}",
                    r.name, tls["serverName"], trusted.config_map
                );
                for (held, key) in [(&tls["cert"]["secret"], 0), (&tls["keySecret"], 1)] {
                    let Some(name) = held["name"].as_str() else { continue };
                    let leaf = issued.iter().find(|l| l.secret == name).unwrap();
                    let keys = [leaf.keys.0, leaf.keys.1];
                    assert!(leaf.leaf.usage.client() && held["key"] == keys[key], "{}: {held}", r.name);
                }
            }
        }
        assert_eq!(met.len(), 16, "{met:?}");
    }
}

/// What the guest is handed on is all that monitors name, at the ports of the pods, with files that are mounted.
#[test]
fn the_metrics_proxy_scrapes_what_monitors_name() {
    for scope in clusters().into_iter().filter(|s| s.forwarded.is_some()) {
        let rendered = render(&scope, &Names).unwrap();
        let of = |name: &str| rendered.iter().find(|r| r.name == name).unwrap();
        let proxy = of("metrics-proxy");
        let map = proxy.objects.iter().find(|o| o["metadata"]["name"] == "metrics-proxy-config").unwrap();
        let config: Value = serde_saphyr::from_str(text(&map["data"]["config.yaml"])).unwrap();
        let pod = &proxy.objects.last().unwrap()["spec"]["template"]["spec"];
        let main = &pod["containers"][0];
        let shown = |file: &Value| {
            let (directory, key) = text(file).rsplit_once('/').unwrap();
            let mount = list(&main["volumeMounts"]).find(|m| m["mountPath"] == directory);
            let volume =
                list(&pod["volumes"]).find(|v| Some(&v["name"]) == mount.map(|m| &m["name"])).unwrap();
            let bundle = BUNDLES.iter().any(|b| volume["configMap"]["name"] == b.config_map && b.key == key);
            let secret = text(&volume["secret"]["secretName"]);
            let leaf =
                leaves(&scope).into_iter().any(|l| l.secret == secret && [l.keys.0, l.keys.1].contains(&key));
            assert!(bundle || leaf || FORWARDING.iter().any(|c| c.secret == secret), "{file} is nowhere");
        };
        shown(&config["endpointResolver"]["caFile"]);
        assert_eq!(
            config["endpointResolver"]["url"],
            format!("https://endpoint-resolver.{}.svc", scope.namespace)
        );
        let names: Vec<&str> = list(&config["components"]).map(|c| text(&c["name"])).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!((names.len(), &names), (16, &sorted));
        for c in list(&config["components"]) {
            for file in ["caFile", "certFile", "keyFile"] {
                c.get(file).into_iter().for_each(shown);
            }
            let fits = |pod: &Value| meant(&c["selector"], &pod["metadata"]["labels"]);
            let mut pods = rendered.iter().filter_map(|r| r.objects.last()?.pointer("/spec/template"));
            let pod = pods.find(|p| fits(p)).unwrap();
            assert_eq!(port(pod, &c["metricsPort"]), c["metricsPort"].as_u64(), "{c}");
        }
        let kas = list(&config["components"]).find(|c| c["name"] == "kube-apiserver").unwrap();
        assert_eq!(kas["metricsPort"], scope.network.api_port);
        assert_eq!((text(&kas["metricsJob"]), text(&kas["metricsNamespace"])), ("apiserver", "default"));
        assert_eq!(kas["keyFile"], "/etc/metrics-proxy/certs/metrics-client/tls.key");
        let set = scope.forwarded.unwrap().to_string();
        assert!(
            text(&json!(main["args"].to_string())).contains(&format!("\"--metrics-set\",\"{set}\"")),
            "{main}"
        );
        // Whoever asks from the guest finds it by a name that it has a certificate for.
        let published = publish::objects(&scope);
        let route = published
            .iter()
            .find(|o| o["kind"] == "Route" && o["metadata"]["name"] == "metrics-proxy")
            .unwrap();
        let leaf = leaves(&scope).into_iter().find(|l| l.secret == "metrics-proxy-serving-cert").unwrap();
        let host = text(&route["spec"]["host"]);
        let wanted = if scope.reach.private() {
            "metrics-proxy.apps.demo.hypershift.local"
        } else {
            "metrics-proxy-demo.hc.example.com"
        };
        assert!(host == wanted && leaf.leaf.dns.contains(host), "{host}");
        assert_eq!((leaf.authority, &route["spec"]["port"]), ("metrics-proxy-ca-cert", &Value::Null));
    }
}
