//! What commands say of hosted clusters: as text, as kubeconfigs, and when the operator is another.

use crate::road::{CLUSTER, Desk, client, documents, hosted_cluster, inputs, kinds};
use crate::serve;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// The pull secret of `inputs`, as a Secret has it.
const PULL: &str = "eyJhdXRocyI6e319";

#[test]
fn secrets_are_rendered_for_who_asks_and_files_are_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let desk = Desk { dir: dir.path() };
    let rendered = |flags: &str| {
        let out = desk.run(&format!("{CLUSTER} {flags}"));
        assert!(out.status.success(), "{flags}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let all = |text: &str| documents(text.strip_suffix("\n---\n").unwrap());
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;

    let plain = rendered("--render");
    let objects = all(&plain);
    assert!(kinds(&objects).is_superset(&["Namespace", "HostedCluster", "NodePool"].into()), "{plain}");
    assert!(!kinds(&objects).contains("Secret") && !plain.contains(PULL), "{plain}");
    let whole = rendered("--render --render-sensitive");
    let secrets = all(&whole).iter().filter(|o| o["kind"] == "Secret").count();
    assert!(secrets > 0 && whole.contains(PULL), "{whole}");
    assert_eq!(all(&whole).len(), objects.len() + secrets);

    // Into a file: the same, and nothing elsewhere. Whatever was there before, and whoever could read it.
    std::fs::write(dir.path().join("cluster.yaml"), "before").unwrap();
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(dir.path().join("cluster.yaml"), open).unwrap();
    assert_eq!(rendered("--render-into cluster.yaml"), "");
    assert_eq!((read("cluster.yaml"), mode("cluster.yaml")), (plain, 0o600));
    assert_eq!(rendered("--render --render-into cluster.json --render-sensitive -o json"), "");
    let list: Value = serde_json::from_str(&read("cluster.json")).unwrap();
    assert!(kinds(list["items"].as_array().unwrap()).contains("Secret"), "{list}");
    assert_eq!(mode("cluster.json"), 0o600);
    let said = desk.exits(1, &format!("{CLUSTER} --render-into no/such/dir/x"));
    assert!(said.contains("cannot write no/such/dir/x") && !said.contains("--output-file"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_another_version_is_refused_by_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    desk.exits(0, "install --install-scope crds --wait-until-crds-established");
    let line = format!("{CLUSTER} --version-check");
    let said = desk.exits(1, &line);
    assert!(said.contains("no operator says its version (--version-check)"), "{said}");

    // It is found wherever operators live.
    let home = serde_json::from_value(json!({"metadata": {"name": "ops"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &home).await.unwrap();
    let map = serde_json::from_value(hypershift::supported::config_map("ops", "9.9.9")).unwrap();
    Api::<ConfigMap>::namespaced(client, "ops").create(&PostParams::default(), &map).await.unwrap();
    let said = desk.exits(1, &line);
    let own = env!("CARGO_PKG_VERSION");
    let words = format!("the operator is of version 9.9.9, this command of {own} (--version-check)");
    assert!(said.contains(&words), "{said}");
    assert!(namespaces.get_opt("clusters").await.unwrap().is_none(), "nothing was made");
    assert!(server.stop().unwrap().success());
}

fn kubeconfig_of(name: &str) -> String {
    format!(
        "clusters:\n- name: cluster\n  cluster: {{server: \"https://api.{name}.example:6443\"}}\nusers:\n\
         - name: admin\n  user: {{token: of-{name}}}\n"
    )
}

/// One file for all clusters; one that cannot be read is said and left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    desk.exits(0, "install --install-scope crds --wait-until-crds-established");
    let home = serde_json::from_value(json!({"metadata": {"name": "clusters"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &home).await.unwrap();
    let clusters: Api<DynamicObject> = hypershift::kinds::CLUSTER.api(&client, "clusters");
    let secrets: Api<Secret> = Api::namespaced(client, "clusters");
    let config = |text: &str| Some(("kubeconfig", text.to_owned()));
    for (name, data) in [
        ("blue", config(&kubeconfig_of("blue"))),
        ("gone", None),
        ("green", config(&kubeconfig_of("green"))),
        ("odd", Some(("other", "x".to_owned()))),
        ("torn", config("users: [{token: hidden")),
        ("void", config("kind: Config")),
    ] {
        let mut cluster = hosted_cluster();
        cluster["metadata"]["name"] = json!(name);
        let cluster = serde_json::from_value(cluster).unwrap();
        clusters.create(&PostParams::default(), &cluster).await.unwrap();
        let secret = format!("{name}-admin-kubeconfig");
        let status = Patch::Merge(json!({"status": {"kubeconfig": {"name": secret}}}));
        clusters.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        let Some((key, text)) = data else { continue };
        let mut object = Secret::default();
        object.metadata.name = Some(secret);
        object.data = Some([(key.to_owned(), ByteString(text.into_bytes()))].into());
        secrets.create(&PostParams::default(), &object).await.unwrap();
    }
    let mut young = hosted_cluster();
    young["metadata"]["name"] = json!("young");
    clusters.create(&PostParams::default(), &serde_json::from_value(young).unwrap()).await.unwrap();

    let out = desk.run("create kubeconfig");
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    let merged: Value = serde_saphyr::from_slice(&out.stdout).unwrap();
    let part = |list: &str, key: &str, inner: Value| json!({"name": format!("clusters-{list}"), key: inner});
    let cluster = |n: &str| part(n, "cluster", json!({"server": format!("https://api.{n}.example:6443")}));
    assert_eq!(merged["clusters"], json!([cluster("blue"), cluster("green")]));
    let user = |n: &str| part(&format!("{n}-admin"), "user", json!({"token": format!("of-{n}")}));
    assert_eq!(merged["users"], json!([user("blue"), user("green")]));
    let context = |n: &str| {
        let inner = json!({"cluster": format!("clusters-{n}"), "user": format!("clusters-{n}-admin"), "namespace": "default"});
        part(n, "context", inner)
    };
    assert_eq!(merged["contexts"], json!([context("blue"), context("green")]));
    assert_eq!(merged["current-context"], "clusters-blue");
    let left: Vec<&str> = said.lines().filter(|l| l.starts_with("left out ")).collect();
    assert_eq!(left.len(), 4, "{said}");
    for (line, words) in left.iter().zip([
        "clusters-gone: cannot read Secret clusters/gone-admin-kubeconfig",
        "clusters-odd: Secret clusters/odd-admin-kubeconfig has no key kubeconfig",
        "clusters-torn: its kubeconfig is not YAML",
        "clusters-void: its kubeconfig names no cluster and user",
    ]) {
        assert!(line.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("hidden") && !said.contains("young"), "{said}");

    // One by name is given as it is, and what is wrong with it ends the command.
    assert_eq!(desk.exits(0, "create kubeconfig --name blue"), kubeconfig_of("blue"));
    let said = desk.exits(1, "create kubeconfig --name gone");
    assert!(said.contains("cannot read Secret clusters/gone-admin-kubeconfig"), "{said}");
    let said = desk.exits(1, "create kubeconfig --name young");
    assert!(said.contains("young has no kubeconfig yet"), "{said}");
    let said = desk.exits(1, "create kubeconfig --namespace other");
    assert!(said.contains("no cluster in namespace other has a kubeconfig yet"), "{said}");
    for name in ["blue", "green"] {
        secrets.delete(&format!("{name}-admin-kubeconfig"), &DeleteParams::default()).await.unwrap();
    }
    let said = desk.exits(1, "create kubeconfig");
    assert!(said.contains("no cluster in namespace clusters has a kubeconfig that can be read"), "{said}");
    assert!(server.stop().unwrap().success());
}
