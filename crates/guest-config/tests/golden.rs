//! Everything a guest gets, for both flavours.

use crate::world::{managed_plane, material, plane, told};
use apis::hypershift::HostedControlPlane;
use base64::Engine;
use guest_config::facts::{Facts, Kubeadmin, Material, Serving, facts};
use guest_config::plan::{Mode, Plan, plan as planned};
use serde_json::{Value, json};
use testkit::golden::Set;

fn all_material() -> Material {
    let mut m = Material::default();
    for o in material() {
        let name = o["metadata"]["name"].as_str().unwrap().to_owned();
        let field = if o["kind"] == "Secret" { "stringData" } else { "data" };
        let data =
            o[field].as_object().unwrap().iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
        match o["kind"] == "Secret" {
            true => drop(m.secrets.insert(name, data.map(|(k, v)| (k, v.into_bytes())).collect())),
            false => drop(m.config_maps.insert(name, data.collect())),
        }
    }
    m.config_maps.insert("proxy-ca".into(), [("ca-bundle.crt".to_owned(), "PROXY".to_owned())].into());
    m
}

fn known(plane: Value) -> Facts {
    let hcp: HostedControlPlane = serde_json::from_value(plane).unwrap();
    let mut f = facts(&hcp, &told(), all_material()).unwrap();
    f.serving = Serving::Definitions;
    f.kubeadmin = Some(Kubeadmin { hash: "$2a$10$hash".into(), source: "uid/1".into() });
    f.drawn = apis::common::Sensitive("drawn-at-random".into());
    f
}

fn yaml(p: &Plan) -> String {
    let mut out = String::new();
    for definition in &p.definitions {
        // Their content is golden in `apis`.
        out.push_str(&format!(
            "# definition, if absent: {}\n",
            definition["metadata"]["name"].as_str().unwrap()
        ));
    }
    for item in &p.items {
        let o = &item.object;
        out.push_str("---\n");
        if item.mode == Mode::Once {
            out.push_str("# made once\n");
        }
        out.push_str(&serde_saphyr::to_string(o).unwrap());
        if let Some(status) = &item.status {
            out.push_str(&format!(
                "# status, ours among others':\n{}",
                serde_saphyr::to_string(&json!({"status": status})).unwrap()
            ));
        }
    }
    out
}

#[test]
fn both_flavours() {
    let mut set = Set::new(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"),
        testkit::Mode::from_env(),
    );
    for (name, plane) in [("self-managed", plane()), ("managed", managed_plane())] {
        let p = planned(&known(plane));
        assert!(p.lacking.is_empty() && p.without.is_empty(), "{name}: {:?} {:?}", p.lacking, p.without);
        set.text(&format!("{name}.yaml"), &yaml(&p));
    }
    let mut aggregated = known(plane());
    aggregated.serving = Serving::Aggregated;
    aggregated.backends = ["openshift-apiserver", "openshift-oauth-apiserver"]
        .map(|s| (s.to_owned(), "10.0.0.9".to_owned()))
        .into();
    let p = planned(&aggregated);
    assert!(
        !p.definitions.iter().any(|d| d["metadata"]["name"] == "routes.route.openshift.io"),
        "an API and a definition of the same kind are in each other's way"
    );
    let only = |kinds: &[&str]| Plan {
        items: p
            .items
            .iter()
            .filter(|i| kinds.contains(&i.object["kind"].as_str().unwrap()))
            .cloned()
            .collect(),
        ..Plan::default()
    };
    set.text("aggregated.yaml", &yaml(&only(&["APIService", "Service", "Endpoints"])));
    set.assert();
}

#[test]
fn routers_are_reached_as_the_spec_or_an_annotation_says() {
    fn strategy(change: impl FnOnce(&mut Value)) -> Value {
        let mut plane = plane();
        change(&mut plane);
        let p = planned(&known(plane));
        let found = p.items.into_iter().find(|i| i.object["kind"] == "IngressController").unwrap();
        found.object["spec"]["endpointPublishingStrategy"].clone()
    }
    assert_eq!(strategy(|_| {})["loadBalancer"]["scope"], "External");
    let internal = "hypershift.openshift.io/ingress-controller-load-balancer-scope";
    let asked = strategy(|o| o["metadata"]["annotations"] = json!({internal: "Internal"}));
    assert_eq!(asked["loadBalancer"]["scope"], "Internal");
    let private = "hypershift.openshift.io/private-ingress-controller";
    assert_eq!(
        strategy(|o| o["metadata"]["annotations"] = json!({private: "true"})),
        json!({"type": "Private"})
    );
    let spec = strategy(|o| {
        o["metadata"]["annotations"] = json!({private: "true"});
        o["spec"]["operatorConfiguration"] =
            json!({"ingressOperator": {"endpointPublishingStrategy": {"type": "HostNetwork"}}});
    });
    assert_eq!(spec["type"], "HostNetwork", "whoever says it in the spec is heard");
}

#[test]
fn what_is_lacking_is_named_and_nothing_is_made_up() {
    let hcp: HostedControlPlane = serde_json::from_value(plane()).unwrap();
    let mut f = facts(&hcp, &Default::default(), Material::default()).unwrap();
    f.serving = Serving::Definitions;
    let p = planned(&f);
    let lacking = p.lacking.join("\n");
    for what in [
        "Secret pull-secret",
        "kubeadmin-password",
        "root-ca",
        "konnectivity-agent",
        "azure-cloud-config",
        "ingress-crt",
    ] {
        assert!(lacking.contains(what), "{what} is not named in\n{lacking}");
    }
    assert!(p.without.iter().any(|w| w.contains("azure-cloud-node-manager")));
    let has = |kind: &str, name: &str| {
        p.items.iter().any(|i| i.object["kind"] == kind && i.object["metadata"]["name"] == name)
    };
    assert!(
        !has("Secret", "pull-secret")
            && !has("DaemonSet", "konnectivity-agent")
            && !has("DaemonSet", "azure-cloud-node-manager")
    );
    assert!(has("Infrastructure", "cluster") && has("EndpointSlice", "kubernetes"));
}

#[test]
fn secrets_do_not_show_in_debug() {
    let f = known(plane());
    let text = format!("{f:?}");
    for secret in ["aaaaa-bbbbb", "$2a$10$hash", ".dockerconfigjson", "drawn-at-random"] {
        assert!(!text.contains(secret), "{secret}");
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode("aaaaa-bbbbb-ccccc-ddddd");
    assert!(!text.contains(&encoded));
}
