//! Nobody can give what they do not have: the operator's rights cover what it gives to others, and those of the operator
//! of a control plane what that gives to its components.

use crate::{objects, samples};
use ek_auth::rbac::{Rule, uncovered};
use hypershift::Machinery;
use self_managed::install;
use serde_json::Value;

/// The rules of one role.
fn rules(role: &Value) -> Vec<Rule> {
    role["rules"].as_array().unwrap().iter().map(|r| serde_json::from_value(r.clone()).unwrap()).collect()
}

fn roles(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects.iter().filter(|o| matches!(o["kind"].as_str(), Some("Role" | "ClusterRole")))
}

fn covered(owner: &str, owned: &[Rule], role: &Value) {
    let lacks = uncovered(owned, &rules(role));
    let name = &role["metadata"]["name"];
    assert!(lacks.is_empty(), "{owner} cannot give {name} what it does not have: {lacks:#?}");
}

#[test]
fn operators_have_the_rights_they_give() {
    let installed = install::Args::of(&[]).unwrap().objects(&install::Inputs::default()).unwrap().resources;
    let own = rules(roles(&installed).next().unwrap());
    for hc in [samples::self_managed(), samples::managed()] {
        for machinery in [Machinery::Builtin, Machinery::External] {
            for role in roles(&objects::with(hc.clone(), machinery)) {
                covered("the operator", &own, role);
            }
        }
    }
    let written = objects::all(samples::self_managed());
    let plane = rules(roles(&written).find(|r| r["metadata"]["name"] == "control-plane-operator").unwrap());
    let mut seen = 0;
    for component in control_plane::table::all() {
        for text in component.objects.into_iter().flat_map(|o| o.split("\n---\n")) {
            let object: Value = serde_saphyr::from_str(text).unwrap();
            if object["kind"] == "Role" {
                covered("the operator of the control plane", &plane, &object);
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "roles of components were looked at: {seen}");
}
