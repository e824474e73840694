//! The resource table against the discovery documents of kube-apiserver 1.34 (`api/discovery` of its
//! repository, Apache-2.0), from which only GA versions were kept and storage hashes removed.

use ek_data::{GROUPS, RESOURCES};
use serde_json::{Value, json};

#[test]
fn resources_are_those_of_a_real_server() {
    let real: Vec<Value> = serde_json::from_str(include_str!("discovery-1.34.json")).unwrap();
    let mut ours = Vec::new();
    for group in GROUPS {
        for (version, _) in group.versions {
            let mut list = Vec::new();
            for r in RESOURCES.iter().filter(|r| r.group == group.name && r.version == *version) {
                let mut row = json!({"name": r.plural, "singularName": r.singular(), "namespaced": r.namespaced,
                                     "kind": r.kind, "verbs": r.verbs});
                if !r.short_names.is_empty() {
                    row["shortNames"] = json!(r.short_names);
                }
                if !r.categories.is_empty() {
                    row["categories"] = json!(r.categories);
                }
                list.push(row);
                for s in r.subresources {
                    let gvk = s.gvk(r);
                    let mut row = json!({"name": format!("{}/{}", r.plural, s.name), "singularName": "",
                                         "namespaced": r.namespaced, "kind": gvk.kind, "verbs": s.verbs});
                    if (gvk.group.as_str(), gvk.version.as_str()) != (r.group, r.version) {
                        row["group"] = json!(gvk.group);
                        row["version"] = json!(gvk.version);
                    }
                    list.push(row);
                }
            }
            let name = ek_meta::GroupVersion::new(group.name, *version).to_string();
            let mut document = json!({"kind": "APIResourceList", "groupVersion": name, "resources": list});
            if !group.name.is_empty() {
                document["apiVersion"] = json!("v1");
            }
            ours.push(document);
        }
    }
    assert_eq!(ours.len(), real.len());
    for (our, real) in ours.iter().zip(&real) {
        assert_eq!(our["groupVersion"], real["groupVersion"]);
        for (o, r) in our["resources"].as_array().unwrap().iter().zip(real["resources"].as_array().unwrap()) {
            assert_eq!(o, r);
        }
        assert_eq!(our["resources"].as_array().unwrap().len(), real["resources"].as_array().unwrap().len());
    }
}

#[test]
fn every_kind_has_a_definition() {
    for r in RESOURCES {
        assert!(ek_data::definition_name(&r.gvk()).is_some(), "{}", r.kind);
        for s in r.subresources.iter().filter(|s| !s.is_connect()) {
            assert!(ek_data::definition_name(&s.gvk(r)).is_some(), "{}/{}", r.plural, s.name);
        }
    }
}
