//! A dump of a guest by the Service of its API server: for those who are where Services have names. A file of hosts that
//! only the program sees plays that place.

use crate::road::{client, hosted_cluster};
use crate::{serve, zaffre};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A program that finds hosts in this file first.
fn among(hosts: &Path, program: &Path) -> Command {
    let mut c = Command::new("unshare");
    c.args(["--map-root-user", "--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    c.arg(hosts).arg(program);
    c
}

async fn make<K>(api: Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_dumped_through_the_service_of_its_api() {
    let (dir, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost kube-apiserver.clusters-demo.svc\n").unwrap();
    if !among(&hosts, Path::new("true")).output().is_ok_and(|out| out.status.success()) {
        return testkit::tools::skipped("a dump through a Service: nobody may have hosts of their own here");
    }
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let (guest_server, guest_config) = serve(inside.path(), &["--in-memory"]);
    let (management, guest) = (client(&kubeconfig).await, client(&guest_config).await);
    let marked = json!({"metadata": {"name": "only-in-the-guest"}, "data": {"a": "b"}});
    make(Api::<ConfigMap>::namespaced(guest, "default"), marked).await;

    let mut install = zaffre();
    install.args(["install", "--install-scope", "crds", "--wait-until-crds-established"]);
    let out = install.env("KUBECONFIG", &kubeconfig).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for name in ["clusters", "clusters-demo"] {
        make(Api::<Namespace>::all(management.clone()), json!({"metadata": {"name": name}})).await;
    }
    // Its address of outside leads nowhere, and its certificate has other names: here it is the way that matters.
    let text = std::fs::read_to_string(&guest_config).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    let cluster = &mut config["clusters"][0]["cluster"];
    let port: u16 = cluster["server"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    *cluster = json!({"server": "https://nowhere.invalid:6443", "insecure-skip-tls-verify": true});
    let data = json!({"kubeconfig": config.to_string()});
    let secret = json!({"metadata": {"name": "demo-admin"}, "stringData": data});
    make(Api::<Secret>::namespaced(management.clone(), "clusters"), secret).await;
    let service = json!({"metadata": {"name": "kube-apiserver"}, "spec": {"ports": [{"port": port}]}});
    make(Api::<Service>::namespaced(management.clone(), "clusters-demo"), service).await;
    let clusters = hypershift::kinds::CLUSTER.api(&management, "clusters");
    make(clusters.clone(), hosted_cluster()).await;
    let status = Patch::Merge(json!({"status": {"kubeconfig": {"name": "demo-admin"}}}));
    clusters.patch_status("demo", &PatchParams::default(), &status).await.unwrap();

    let words = "dump cluster --name demo --artifact-dir d --dump-guest-cluster-through-kube-service";
    let mut dump = among(&hosts, Path::new(env!("CARGO_BIN_EXE_zaffre")));
    dump.current_dir(dir.path()).args(words.split_whitespace()).env("KUBECONFIG", &kubeconfig);
    let out = dump.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}");
    let maps = dir.path().join("d/hostedcluster-demo/all-namespaces/core/configmaps.yaml");
    let maps = std::fs::read_to_string(maps).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(maps.contains("only-in-the-guest"), "{maps}");
    for server in [server, guest_server] {
        assert!(server.stop().unwrap().success());
    }
}
