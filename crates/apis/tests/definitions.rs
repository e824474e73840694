//! The committed definitions are what the types say.

use crate::api::ALL;
use testkit::golden::{Mode, Set};

#[test]
fn the_committed_definitions_are_what_the_types_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    let mut set = Set::new(dir, Mode::from_env());
    for crd in ALL.iter() {
        let value = serde_json::to_value(crd).unwrap();
        let name = format!("{}.yaml", value["metadata"]["name"].as_str().unwrap());
        set.text(&name, &serde_saphyr::to_string(&value).unwrap());
    }
    set.assert();
}

#[test]
fn names_are_unique_and_every_kind_has_one_stored_version() {
    let mut seen = std::collections::BTreeSet::new();
    for crd in ALL.iter() {
        assert!(seen.insert(crd.metadata.name.clone()), "{:?} twice", crd.metadata.name);
        let versions = &crd.spec.versions;
        assert_eq!((versions.len(), versions[0].served, versions[0].storage), (1, true, true));
    }
}

#[test]
fn upstreams_versions_are_those_that_are_run() {
    let text = include_str!("../../../interop/go/capi/go.mod");
    for (module, version) in [
        ("sigs.k8s.io/cluster-api", apis::capi::UPSTREAM),
        ("sigs.k8s.io/cluster-api-provider-azure", apis::capz::UPSTREAM),
    ] {
        let is = |l: &str| l.split_whitespace().take(2).eq([module, version]);
        assert!(text.lines().any(is), "{module} {version}");
    }
}
