//! The scripts of containers, played on files of a made-up image. Programs of the image are functions of the shell.

use crate::world::{Names, managed};
use control_plane::{Scope, certificates, render};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn container(scope: &Scope, component: &str, name: &str) -> Value {
    let all = render(scope, &Names).unwrap();
    let workload = all.iter().find(|r| r.name == component).unwrap().objects.last().unwrap().clone();
    let pod = &workload["spec"]["template"]["spec"];
    let mut lists =
        ["initContainers", "containers"].iter().flat_map(|l| pod[l].as_array().into_iter().flatten());
    lists.find(|c| c["name"] == name).unwrap().clone()
}

/// Plays a container's script. Paths of the image that are `moved` lie in the directory instead.
fn play(dir: &Path, container: &Value, moved: &[(&str, &str)], prelude: &str) {
    let words = ["command", "args"].iter().flat_map(|k| container[k].as_array().into_iter().flatten());
    let mut script = words.filter_map(Value::as_str).next_back().unwrap().to_owned();
    for (path, here) in moved {
        assert!(script.contains(path), "{path} is not in:\n{script}");
        script = script.replace(path, here);
    }
    let mut bash = Command::new("bash");
    bash.current_dir(dir).env("D", dir).args(["-c", &format!("{prelude}\n{script}")]);
    for variable in container["env"].as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            bash.env(name, value);
        }
    }
    let out = bash.output().unwrap();
    assert!(out.status.success(), "{}\n{script}", String::from_utf8_lossy(&out.stderr));
}

fn names(dir: &Path) -> BTreeSet<String> {
    let all = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    all.collect()
}

/// With real images nobody else gives the config operator its rights.
#[test]
fn the_api_server_is_given_definitions_rights_and_features_in_this_order() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    let program = r#"render() {
        for word in "$@"; do case $word in --asset-output-dir=*) out=${word#*=} ;; esac; done
        mkdir -p "$out/manifests"
        echo definition > "$out/manifests/0000_10_config-operator_01_featuregates.crd.yaml"
    }"#;
    let init = container(&managed(), "kube-apiserver", "init-bootstrap-render");
    play(
        dir.path(),
        &init,
        &[("/usr/bin/render", "render"), ("/tmp/", "$D/"), ("/work/", "$D/work/")],
        program,
    );
    let work = dir.path().join("work");
    let files: Vec<String> = names(&work).into_iter().collect();
    let expected = [
        "0000_10_config-operator_01_featuregates.crd.yaml",
        "00_kas-bootstrap-container-rolebinding.yaml",
        "98_hcco-rolebinding.yaml",
        "99_feature-gate.yaml",
    ];
    assert_eq!(files, expected);
    let scope = managed();
    for (file, name, certificate) in [
        (expected[1], "kas-bootstrap-container-cluster-admin", "kas-bootstrap-container-client"),
        (expected[2], "hcco-cluster-admin", "hcco-client"),
    ] {
        let text = std::fs::read_to_string(work.join(file)).unwrap();
        let binding: Value = serde_saphyr::from_str(&text).unwrap();
        let leaves = certificates::leaves(&scope);
        let user = &leaves.iter().find(|l| l.secret == certificate).unwrap().leaf.common_name;
        assert_eq!(
            binding,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            })
        );
    }
}
