//! The scripts of containers, played on files of a made-up image. Programs of the image are functions of the shell.

use crate::world::{Names, managed, self_managed};
use control_plane::{Scope, certificates, render};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
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

fn write(dir: &Path, file: &str, text: &str) {
    let path = dir.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
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

/// Manifests of a release, and whether the guest's operator is shown them.
const PAYLOAD: [(&str, bool); 17] = [
    ("0000_03_marketplace-operator_02_operatorhub.cr.yaml", false),
    ("0000_50_cluster-authentication-operator_02_config.cr.yaml", false),
    ("0000_50_cluster-node-tuning-operator_40-rbac.yaml", true),
    ("0000_50_cluster-node-tuning-operator_50-operator-ibm-cloud-managed.yaml", false),
    ("0000_50_olm_00-namespace.yaml", true),
    ("0000_50_olm_00-pprof-rbac.yaml", false),
    ("0000_50_olm_02-services.yaml", false),
    ("0000_50_olm_06-psm-operator.deployment.ibm-cloud-managed.yaml", false),
    ("0000_50_olm_07-olm-operator.deployment.ibm-cloud-managed.yaml", false),
    ("0000_50_olm_08-catalog-operator.deployment.yaml", false),
    ("0000_50_olm_15-packageserver.clusterserviceversion.yaml", false),
    ("0000_50_operator-marketplace_02_clusterrole.yaml", true),
    ("0000_50_operator-marketplace_09_operator-ibm-cloud-managed.yaml", false),
    ("0000_50_operator-marketplace_10_clusteroperator.yaml", false),
    ("0000_80_machine-config_01_machineconfigs.crd.yaml", false),
    ("0000_90_dns-operator_01_servicemonitor.yaml", true),
    ("0000_90_olm_00-service-monitor.yaml", false),
];

/// A release image, and what is left of it.
fn prepared(scope: &Scope) -> (BTreeSet<String>, BTreeSet<String>) {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let of =
        |sets: &str| format!("metadata:\n  annotations:\n    release.openshift.io/feature-set: {sets}\n");
    for (file, text) in [
        ("cluster-version-operator_01_clusterversions-Default.crd.yaml", of("Default")),
        ("cluster-version-operator_01_clusterversions-Custom.crd.yaml", of("CustomNoUpgrade")),
        ("cluster-version-operator_01_clusterversions-Preview.crd.yaml", {
            of("\"DevPreviewNoUpgrade,TechPreviewNoUpgrade\"")
        }),
        ("cluster-version-operator_02_roles.yaml", "kind: ClusterRole\n".to_owned()),
        ("cluster-version-operator_03_deployment.yaml", "kind: Deployment\n".to_owned()),
        ("cluster-version-operator_04_servicemonitor.yaml", "kind: ServiceMonitor\n".to_owned()),
    ] {
        write(d, &format!("manifests/0000_00_{file}"), &text);
    }
    write(d, "release-manifests/image-references", "{}");
    PAYLOAD.iter().for_each(|(file, _)| write(d, &format!("release-manifests/{file}"), ""));
    std::fs::create_dir(d.join("payload")).unwrap();
    let moved =
        [("/var/payload", "$D/payload"), (" /manifests", " $D/manifests"), (" /release-", " $D/release-")];
    play(d, &container(scope, "cluster-version-operator", "prepare-payload"), &moved, "");
    (names(&d.join("payload/manifests")), names(&d.join("payload/release-manifests")))
}

#[test]
fn the_payload_is_without_what_runs_here() {
    let (own, release) = prepared(&self_managed());
    let own: Vec<&str> =
        own.iter().map(|n| n.trim_start_matches("0000_00_cluster-version-operator_")).collect();
    assert_eq!(own, ["01_clusterversions-Default.crd.yaml", "02_roles.yaml"]);
    for (file, shown) in PAYLOAD {
        assert_eq!(release.contains(file), shown, "{file}");
    }
    assert!(release.contains("image-references"));
    let mut preview = self_managed();
    preview.configuration["featureGate"] = json!({"featureSet": "TechPreviewNoUpgrade"});
    let own: Vec<String> = prepared(&preview).0.into_iter().filter(|n| n.contains("crd")).collect();
    assert_eq!(own, ["0000_00_cluster-version-operator_01_clusterversions-Preview.crd.yaml"]);
}

/// Namespaces come with the payload, kinds need a moment: the first try is never the last.
#[test]
fn manifests_of_the_payload_are_applied_until_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let oc = r#"tries=0
    sleep() { :; }
    oc() {
        echo "oc $*" >> "$D/log"
        case "$*" in
            apply*) (( ++tries > 2 )) ;;
            "get clusterversion version") return 1 ;;
            "create namespace openshift-config") return 1 ;;
        esac
    }"#;
    let bootstrap = container(&self_managed(), "cluster-version-operator", "bootstrap");
    play(dir.path(), &bootstrap, &[("cd /tmp", "cd $D")], oc);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log.matches("oc apply ").count(), 3, "{log}");
    assert!(log.contains("oc create namespace openshift-config-managed\n"), "{log}");
    assert!(log.ends_with("oc create -f -\n"), "{log}");
}

/// Images keep their bundle from being written to, and a copy of it, too.
#[test]
fn authorities_of_users_join_those_of_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    write(d, "pem/tls-ca-bundle.pem", "image\n");
    std::fs::set_permissions(d.join("pem/tls-ca-bundle.pem"), PermissionsExt::from_mode(0o444)).unwrap();
    write(d, "run/extra-ca/additional/ca-bundle.crt", "user\n");
    std::fs::create_dir(d.join("run/ca-trust-generated")).unwrap();
    let scope = Scope { trust_bundle: Some("user-ca-bundle".into()), ..self_managed() };
    let init = container(&scope, "openshift-apiserver", "oas-trust-anchor-generator");
    let moved = [("/etc/pki/ca-trust/extracted/pem", "$D/pem"), ("/run/", "$D/run/")];
    // A container that is started again finds what it wrote before.
    for _ in 0..2 {
        play(d, &init, &moved, "");
        let bundle = d.join("run/ca-trust-generated/tls-ca-bundle.pem");
        assert_eq!(std::fs::read_to_string(&bundle).unwrap(), "image\n\nuser\n");
        // Who plays this may be root, who may write anything.
        assert_eq!(std::fs::metadata(bundle).unwrap().permissions().mode() & 0o200, 0o200);
    }
}

/// A client that asks its kubelet where the API is would ask the management cluster.
#[test]
fn the_registry_operator_asks_the_guest() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    write(d, "ca/ca.crt", "authority\n");
    write(d, "certs/ca-bundle.crt", "image\n");
    std::fs::create_dir_all(d.join("account")).unwrap();
    let prelude = r#"asked=0
    sleep() { echo token > "$D/account/token"; }
    curl() { [[ "$*" == *"Bearer token"*"https://kube-apiserver:6443/"* ]] && (( ++asked > 1 )); }
    operator() { echo "$asked $SSL_CERT_FILE $*" > "$D/log"; }"#;
    let moved = [
        ("/var/run/secrets/kubernetes.io/serviceaccount", "$D/account"),
        ("/etc/certificate/", "$D/"),
        ("/etc/pki/tls/", "$D/"),
        ("/tmp/ca-trust", "$D/trust"),
        ("exec /usr/bin/cluster-image-registry-operator", "operator"),
    ];
    let main =
        container(&self_managed(), "cluster-image-registry-operator", "cluster-image-registry-operator");
    play(d, &main, &moved, prelude);
    let read = |file: &str| std::fs::read_to_string(d.join(file)).unwrap();
    assert_eq!(read("account/namespace"), "openshift-image-registry");
    assert_eq!(read("account/ca.crt"), "authority\n");
    assert_eq!(read("trust/bundle.crt"), "image\nauthority\n");
    assert!(read("log").starts_with("2 "), "the API was asked until it answered: {}", read("log"));
}
