//! What clusters put into the shared ingress, and what no cluster can.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn front(plane: &str, made: i64, id: &str, allowed: &[String]) -> Front {
    Front {
        plane: plane.into(),
        made: Timestamp::from_second(made).unwrap(),
        cluster_id: id.into(),
        allowed: allowed.to_vec(),
        name: None,
    }
}

fn route(plane: &str, route: &str, host: &str, service: &str) -> Published {
    Published { plane: plane.into(), route: route.into(), host: host.into(), service: service.into() }
}

fn service(plane: &str, service: &str, address: &str, port: u16) -> Target {
    Target { plane: plane.into(), service: service.into(), address: address.parse().unwrap(), port }
}

/// Two clusters, one with an own name and ranges, one that has no addresses yet but for its API.
fn sample() -> Ways {
    let mut a = front(
        "clusters-a",
        1,
        "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11",
        &["203.0.113.0/24".into(), "2001:db8::/32".into()],
    );
    a.name = Some("api.a.corp.example.com".into());
    let b = front("clusters-b", 2, "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e", &[]);
    let routes = [
        route("clusters-a", "oauth", "oauth.a.example.com", "oauth-openshift"),
        route("clusters-a", "kube-apiserver", "api.a.example.com", "kube-apiserver"),
        route("clusters-a", "ignition-server", "ignition.a.example.com", "ignition-server-proxy"),
        route("clusters-a", "konnectivity-server", "konnectivity.a.example.com", "konnectivity-server"),
        // Claimed by somebody who came later.
        route("clusters-b", "kube-apiserver", "api.a.example.com", "kube-apiserver"),
        route("clusters-b", "oauth", "oauth.b.example.com", "oauth-openshift"),
    ];
    let targets = [
        service("clusters-a", "kube-apiserver", "10.96.0.10", 6443),
        service("clusters-a", "oauth-openshift", "10.96.0.11", 6443),
        service("clusters-a", "ignition-server-proxy", "10.96.0.12", 443),
        service("clusters-a", "konnectivity-server", "10.96.0.13", 8091),
        service("clusters-b", "kube-apiserver", "fd00::b", 6443),
    ];
    Ways::of(&[b, a], &routes, &targets)
}

#[test]
fn the_objects_of_two_clusters() {
    let objects = objects(&sample(), "quay.example/shared-ingress:1", &["10.0.0.1/32".into()]);
    let text: String =
        objects.iter().map(|o| format!("---\n{}", serde_saphyr::to_string(o).unwrap())).collect();
    testkit::golden::assert_text(env!("CARGO_MANIFEST_DIR"), "shared-ingress.yaml", &text);
}

/// Pods listen where a cluster wants its API; the Service does not, and it is the Service that the router dials.
#[test]
fn the_port_is_that_of_the_service_whatever_a_route_says() {
    for port in [json!(null), json!({"targetPort": 8443})] {
        let mut o = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route",
            "metadata": {"name": "kube-apiserver", "namespace": "clusters-a"},
            "spec": {"host": "api.a.example.com", "to": {"name": "kube-apiserver"}}});
        if !port.is_null() {
            o["spec"]["port"] = port;
        }
        let route = Published::of(&serde_json::from_value(o).unwrap()).unwrap();
        let to = service("clusters-a", "kube-apiserver", "10.96.0.10", 6443);
        let ways = Ways::of(&[front("clusters-a", 1, "5d9b2b0e", &[])], &[route], std::slice::from_ref(&to));
        assert_eq!(ways.names[0].to, (to.address, 6443));
        assert_eq!(ways.nodes[0].to, (to.address, 6443));
    }
}

#[test]
fn the_older_cluster_has_a_name_that_two_claim() {
    let ways = sample();
    let api: Vec<&Way> = ways.names.iter().filter(|w| w.by == "api.a.example.com").collect();
    assert_eq!((api.len(), api[0].name.as_str()), (1, "clusters-a_name_kube-apiserver"));
    // What takes requests of the API is for those who may call it; nodes fetch their configuration from anywhere.
    assert_eq!(api[0].allowed.len(), 2);
    assert!(ways.names.iter().find(|w| w.by == "ignition.a.example.com").unwrap().allowed.is_empty());
    assert!(ways.names.iter().all(|w| w.by != "oauth.b.example.com"), "it has no address yet");
}

#[test]
fn an_endpoint_is_open_or_shut_when_all_of_the_router_is() {
    let deployment = |hash: &str, generation: i64, seen: i64, counts: [u64; 3]| -> DynamicObject {
        let [replicas, updated, available] = counts;
        serde_json::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": ROUTER, "namespace": NAMESPACE, "generation": generation},
            "spec": {"replicas": 2, "template": {"metadata": {"annotations": {HASH: hash}}}},
            "status": {"observedGeneration": seen, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available}}))
        .unwrap()
    };
    let rolled = |hash: &str, counts| Rolled::of(&deployment(hash, 3, 3, counts)).unwrap();
    let (done, rolling) = (rolled("new", [2, 2, 2]), rolled("new", [3, 2, 2]));
    assert!(done.complete && !rolling.complete);
    assert!(
        !Rolled::of(&deployment("new", 4, 3, [2, 2, 2])).unwrap().complete,
        "nobody has looked at it yet"
    );
    let typed =
        |o: DynamicObject| serde_json::from_value::<HostedCluster>(serde_json::to_value(o).unwrap()).unwrap();
    let of = |topology: &str| {
        typed(cluster(|o| {
            o["spec"]["platform"]["azure"]["topology"] = json!(topology);
            o["spec"]["platform"]["azure"]["private"] =
                json!({"type": "Swift", "swift": {"podNetworkInstance": "pni"}});
        }))
    };
    let (open, shut) = (of("PublicAndPrivate"), of("Private"));
    assert!(swift(&open) && swift(&shut) && !swift(&typed(cluster(|_| {}))));
    let led = |planes: &[&str]| ("new".to_owned(), planes.iter().map(|p| (*p).to_owned()).collect());
    let (with, without) = (led(&["clusters-a"]), led(&[]));
    for (hc, led, rolled, wanted) in [
        (&open, &with, Some(&done), Exposed::Open),
        (&open, &with, Some(&rolling), Exposed::Converging),
        (&open, &with, Some(&Rolled { hash: "old".into(), complete: true }), Exposed::Converging),
        (&open, &with, None, Exposed::Converging),
        (&open, &without, Some(&done), Exposed::Converging),
        (&shut, &without, Some(&done), Exposed::Shut),
        (&shut, &without, None, Exposed::Shut),
        (&shut, &without, Some(&rolling), Exposed::Converging),
        (&shut, &with, Some(&done), Exposed::Converging),
    ] {
        assert_eq!(Exposed::of(hc, led, rolled), wanted, "{led:?} {rolled:?}");
    }
    assert_eq!(led_to(&sample()), ["clusters-a".to_owned()].into());
}

fn cluster(change: impl FnOnce(&mut Value)) -> DynamicObject {
    let id = |n: &str| json!({"credentialsSecretName": n, "objectEncoding": "utf-8", "clientID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11"});
    let mut o = json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster",
        "metadata": {"name": "a", "namespace": "clusters", "creationTimestamp": "2026-03-01T00:00:00Z"},
        "spec": {"release": {"image": "x"}, "pullSecret": {"name": "p"}, "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11", "services": [],
            "networking": {"clusterNetwork": [{"cidr": "10.132.0.0/14"}], "apiServer": {"allowedCIDRBlocks": ["203.0.113.0/24"]}},
            "platform": {"type": "Azure", "azure": {"location": "l", "resourceGroup": "g", "subscriptionID": "s", "tenantID": "t",
                "vnetID": "v", "subnetID": "n", "securityGroupID": "g",
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": {
                    "controlPlane": {"managedIdentitiesKeyVault": {"name": "kv", "tenantID": "t"}, "cloudProvider": id("a"),
                        "nodePoolManagement": id("b"), "controlPlaneOperator": id("c"), "ingress": id("d"), "network": id("e"),
                        "disk": id("f"), "file": id("g"), "imageRegistry": id("h")},
                    "dataPlane": {"imageRegistryMSIClientID": "a", "diskMSIClientID": "b", "fileMSIClientID": "c"}}}}}},
    });
    change(&mut o);
    serde_json::from_value(o).unwrap()
}

#[test]
fn clusters_that_are_behind_it() {
    let found = Front::of(&cluster(|_| {})).unwrap();
    assert_eq!((found.plane.as_str(), found.allowed.len()), ("clusters-a", 1));
    let azure = |o: &mut Value, field: &str, value: Value| o["spec"]["platform"]["azure"][field] = value;
    let both = cluster(|o| azure(o, "topology", json!("PublicAndPrivate")));
    assert!(Front::of(&both).is_some());
    let private = cluster(|o| azure(o, "topology", json!("Private")));
    assert_eq!(Front::of(&private), None);
    let going = cluster(|o| o["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:00:00Z"));
    assert_eq!(Front::of(&going), None);
    // A range that is none closes the door; it does not open it to everybody.
    for bad in ["everybody", "10.0.0.0/33", "10.0.0.0/8\n  default_backend mine"] {
        let o = cluster(|o| o["spec"]["networking"]["apiServer"]["allowedCIDRBlocks"] = json!([bad]));
        assert_eq!(Front::of(&o), None, "{bad}");
    }
    let injected = cluster(|o| o["spec"]["clusterID"] = json!("x\nbackend y"));
    assert_eq!(Front::of(&injected), None);
    let named = cluster(|o| o["spec"]["kubeAPIServerDNSName"] = json!("a b"));
    assert_eq!(Front::of(&named), None);
}

proptest! {
    /// Whatever clusters say: lines that a router can read, each way to a backend that is there, every name once.
    #[test]
    fn a_configuration_is_always_one(
        clusters in prop::collection::vec(("[a-z]{1,8}", 0i64..5, "[0-9a-f-]{1,36}", 0usize..500), 0..6),
        hosts in prop::collection::vec((0usize..6, "[a-z]{1,3}", "(?s).{0,12}"), 0..12),
    ) {
        let mut fronts = Vec::new();
        for (plane, made, id, ranges) in &clusters {
            let ranges: Vec<String> = (0..*ranges).map(|i| format!("10.{}.{}.0/24", i / 250, i % 250)).collect();
            fronts.push(front(plane, *made, id, &ranges));
        }
        let routes: Vec<Published> = hosts.iter().filter_map(|(who, name, host)| {
            let (plane, ..) = clusters.get(*who)?;
            Published::of(&serde_json::from_value(json!({"apiVersion": "route.openshift.io/v1", "kind": "Route",
                "metadata": {"name": name, "namespace": plane},
                "spec": {"host": host, "to": {"name": "kube-apiserver"}}})).unwrap())
        }).collect();
        let targets: Vec<Target> =
            clusters.iter().map(|(plane, ..)| service(plane, "kube-apiserver", "10.96.0.1", 6443)).collect();
        let ways = Ways::of(&fronts, &routes, &targets);
        let text = configuration(&ways);
        let backends: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("backend ")).collect();
        for line in text.lines() {
            prop_assert!(line.len() < 2048 && line.split_whitespace().count() <= 64, "{}", line);
            if let Some(rest) = line.trim_start().strip_prefix("use_backend ") {
                let name = rest.split(' ').next().unwrap();
                prop_assert!(backends.contains(&name), "{}", name);
            }
        }
        let mut names: Vec<&str> = ways.names.iter().map(|w| w.by.as_str()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), all);
        prop_assert_eq!(text.matches("default_backend no-match").count(), 2);
    }
}
