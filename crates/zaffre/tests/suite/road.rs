//! The self-managed road as scripts walk it: what `install` writes and leaves, and how commands end that cannot go on.

use crate::azure::serve_azure;
use crate::{serve, zaffre};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Everything that flags can ask for outside of the operators' namespace.
const MOST: &str = "--managed-service ARO-HCP --enable-admin-rbac-generation --enable-defaulting-webhook \
    --enable-validating-webhook --external-dns-provider azure --external-dns-credentials dns.json \
    --external-dns-domain-filter example.com";

pub struct Desk<'a> {
    pub dir: &'a Path,
}

impl Desk<'_> {
    pub fn run(&self, line: &str) -> std::process::Output {
        let mut c = zaffre();
        c.current_dir(self.dir).args(line.split_whitespace()).env("KUBECONFIG", self.dir.join("kubeconfig"));
        c.output().unwrap()
    }

    /// What a program reads of it.
    fn object(&self, line: &str) -> Value {
        let out = self.run(line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        serde_saphyr::from_slice(&out.stdout).unwrap()
    }

    /// What was said, on both.
    pub fn exits(&self, code: i32, line: &str) -> String {
        let out = self.run(line);
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{line}: {said}");
        said
    }
}

pub async fn client(kubeconfig: &Path) -> kube::Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn names<K>(api: Api<K>) -> BTreeSet<String>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.list(&Default::default()).await.unwrap().items.iter().filter_map(|o| o.meta().name.clone()).collect()
}

/// What a cluster has where `install` writes outside of its namespace.
async fn around(client: &kube::Client) -> BTreeMap<&'static str, BTreeSet<String>> {
    let c = || client.clone();
    [
        ("namespaces", names(Api::<Namespace>::all(c())).await),
        ("roles", names(Api::<ClusterRole>::all(c())).await),
        ("bindings", names(Api::<ClusterRoleBinding>::all(c())).await),
        ("kube-system", names(Api::<RoleBinding>::namespaced(c(), "kube-system")).await),
        ("priorities", names(Api::<PriorityClass>::all(c())).await),
        ("mutating", names(Api::<MutatingWebhookConfiguration>::all(c())).await),
        ("validating", names(Api::<ValidatingWebhookConfiguration>::all(c())).await),
    ]
    .into()
}

pub fn hosted_cluster() -> Value {
    let golden = "../self-managed/tests/golden/cluster-self-managed-minimal.yaml";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).unwrap();
    let all = text.split("---\n").filter(|d| !d.trim().is_empty());
    let mut all = all.map(|d| serde_saphyr::from_str::<Value>(d).unwrap());
    all.find(|d| d["kind"] == "HostedCluster").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_takes_away_what_any_flags_brought() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("dns.json"), "{}").unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    let before = around(&client).await;
    let made = desk.object(&format!("install {MOST} -o json"));
    assert_eq!(made["namespace"], "hypershift");
    let operator = json!({"kind": "Deployment", "namespace": "hypershift", "name": "operator"});
    assert!(made["applied"].as_array().unwrap().contains(&operator), "{made}");
    let installed = around(&client).await;
    for (place, name) in [
        ("roles", "external-dns"),
        ("bindings", "hypershift-client"),
        ("bindings", "sharedingress-config-generator"),
        ("mutating", "hypershift.openshift.io"),
        ("validating", "hypershift.openshift.io"),
        ("namespaces", "hypershift-sharedingress"),
    ] {
        assert!(installed[place].contains(name), "{place}: {name}");
    }
    let said = desk.exits(0, "uninstall");
    assert!(said.contains("gone     namespace hypershift"), "{said}");
    assert_eq!(around(&client).await, before);
    let gone = desk.object("uninstall --crds -o yaml");
    let kinds = gone["deleted"].as_array().unwrap().iter().map(|o| o["kind"].as_str().unwrap());
    assert_eq!(kinds.collect::<BTreeSet<_>>(), ["CustomResourceDefinition"].into(), "{gone}");
    let said = desk.exits(0, "uninstall --crds");
    assert!(said.contains("deleted  0 objects"), "{said}");

    // A name that others use, too.
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let theirs = serde_json::from_value(json!({"metadata": {"name": "external-dns"}, "rules": []})).unwrap();
    roles.create(&PostParams::default(), &theirs).await.unwrap();
    let said = desk.exits(0, "uninstall");
    assert!(said.contains("kept     ClusterRole external-dns: `zaffre install` did not make it"), "{said}");
    assert!(roles.get_opt("external-dns").await.unwrap().is_some());

    // A namespace that cannot go is not waited for without end, and it is said what holds it.
    desk.exits(0, "install --install-scope resources");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "hypershift");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    maps.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
    let said = desk.exits(1, "uninstall --timeout 2s");
    for words in ["namespace hypershift is not gone after 2s (--timeout)", "example.com/held"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    desk.exits(0, "uninstall");
    assert!(!around(&client).await["namespaces"].contains("hypershift"));
    assert!(server.stop().unwrap().success());
}

/// A definition that upstream would bring; all that matters here is that it is not ours.
fn theirs(ours: &Value) -> Value {
    let mut crd = ours.clone();
    crd["metadata"] = json!({"name": ours["metadata"]["name"]});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_others_need_their_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    let before = around(&client).await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    assert!(names(crds.clone()).await.is_empty());

    // As text nobody is asked.
    desk.exits(0, "install render --machines external --outputs crds --output-file crds.yaml");
    let text = std::fs::read_to_string(dir.path().join("crds.yaml")).unwrap();
    assert!(text.contains("nodepools.hypershift.openshift.io"));
    let rendered = documents(&text);
    assert!(!rendered.iter().any(|d| d["spec"]["group"].as_str().unwrap().ends_with("cluster.x-k8s.io")));

    // Without theirs: which are missing, and how they come.
    let said = desk.exits(1, "install --machines external");
    for words in [
        "not served: clusters.cluster.x-k8s.io, ",
        "azuremachines.infrastructure.cluster.x-k8s.io",
        "Nothing was changed",
        "kubectl apply --server-side",
        &format!("kubernetes-sigs/cluster-api/config/crd?ref={}", apis::capi::UPSTREAM),
        &format!("kubernetes-sigs/cluster-api-provider-azure/config/crd?ref={}", apis::capz::UPSTREAM),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(names(crds.clone()).await.is_empty());
    assert_eq!(around(&client).await, before);

    // Ours are no substitute.
    desk.exits(0, "install --install-scope crds --wait-until-crds-established");
    let said = desk.exits(1, "install --machines external");
    assert!(said.contains("served, but by our partial definitions: clusters.cluster.x-k8s.io, "), "{said}");
    assert!(!said.contains("not served"), "{said}");

    // Theirs, put over ours as the message says.
    let over = PatchParams::apply("kubectl").force();
    for ours in apis::machine_crds() {
        let mut ours = serde_json::to_value(ours).unwrap();
        ours["apiVersion"] = json!("apiextensions.k8s.io/v1");
        ours["kind"] = json!("CustomResourceDefinition");
        let name = ours["metadata"]["name"].as_str().unwrap().to_owned();
        crds.patch(&name, &over, &Patch::Apply(theirs(&ours))).await.unwrap();
    }
    desk.exits(0, "install --machines external");
    let schema = crds.get("machines.cluster.x-k8s.io").await.unwrap().spec.versions[0].schema.clone();
    assert_eq!(schema.unwrap().open_api_v3_schema.unwrap().x_kubernetes_preserve_unknown_fields, Some(true));

    // They stay when ours go, and so do the machines behind them.
    let said = desk.exits(0, "uninstall --crds");
    assert!(said.contains("kept     CustomResourceDefinition clusters.cluster.x-k8s.io"), "{said}");
    let left = names(crds).await;
    assert!(
        left.contains("machines.cluster.x-k8s.io") && !left.contains("nodepools.hypershift.openshift.io"),
        "{left:?}"
    );
    assert!(server.stop().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_leaves_clusters_what_they_need() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("dns.json"), "{}").unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    desk.exits(0, "install --install-scope crds --wait-until-crds-established");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let home = serde_json::from_value(json!({"metadata": {"name": "clusters"}})).unwrap();
    namespaces.create(&PostParams::default(), &home).await.unwrap();
    let clusters: Api<DynamicObject> = hypershift::kinds::CLUSTER.api(&client, "clusters");
    let cluster = serde_json::from_value(hosted_cluster()).unwrap();
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    desk.exits(0, &format!("install {MOST}"));
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "blue"}}}));
    let refused = clusters.patch("demo", &PatchParams::default(), &label).await;
    assert!(refused.is_err(), "nobody answers the webhook here, and so nobody may write");

    let said = desk.exits(1, "uninstall --crds");
    assert!(said.contains("clusters/demo") && said.contains("destroy cluster azure"), "{said}");
    let said = desk.exits(0, "uninstall");
    let kept = said.lines().find(|l| l.starts_with("kept")).unwrap();
    for words in ["Namespace hypershift-sharedingress", "PriorityClass hypershift-etcd", "clusters/demo"] {
        assert!(kept.contains(words), "{words}: {said}");
    }
    let now = around(&client).await;
    assert!(
        now["namespaces"].contains("hypershift-sharedingress") && !now["namespaces"].contains("hypershift")
    );
    assert!(
        now["roles"].contains("sharedingress-config-generator")
            && !now["roles"].contains("hypershift-operator")
    );
    assert!(now["mutating"].is_empty() && now["validating"].is_empty());
    clusters.patch("demo", &PatchParams::default(), &label).await.unwrap();

    // One that is not there is an error, with those that are.
    let said = desk.exits(1, "status nobody");
    assert!(said.contains("no hosted cluster nobody in any namespace: there are clusters/demo"), "{said}");
    let said = desk.exits(1, "status demo -n other -o json");
    assert!(said.contains("in namespace other: there is none at all"), "{said}");
    let said = desk.exits(0, "status demo");
    assert!(said.starts_with("NAME") && said.contains("clusters/demo") && said.contains("waiting"), "{said}");
    assert!(server.stop().unwrap().success());
}

/// An OpenShift that keeps definitions of the Cluster API by itself is told first which are ours, and waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_that_somebody_else_keeps_are_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "clusterapis.operator.openshift.io"}, "spec": {
        "group": "operator.openshift.io", "scope": "Cluster", "names": {"kind": "ClusterAPI", "plural": "clusterapis"},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": any, "status": any}}}}]}});
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("operator.openshift.io", "v1alpha1", "ClusterAPI");
    let kind = kube::core::ApiResource::from_gvk_with_plural(&kind, "clusterapis");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let told_last = api.clone();
    let kept = Api::<CustomResourceDefinition>::all(client);
    // Its operator: it acts by what it is told, and looks first whether anything was changed before.
    let operator = tokio::spawn(async move {
        let told = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["spec"].is_object());
        let o = kube::runtime::wait::await_condition(api.clone(), "cluster", told).await.unwrap().unwrap();
        let early = kept.get_opt("machines.cluster.x-k8s.io").await.unwrap().is_some();
        let status = json!({"status": {"observedRevisionGeneration": 1000, "currentRevision": "r", "desiredRevision": "r"}});
        api.patch("cluster", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        (early, o.data["spec"]["unmanagedCustomResourceDefinitions"].clone())
    });
    let said = tokio::task::block_in_place(|| {
        Desk { dir: dir.path() }.exits(0, "install --install-scope crds --wait-until-crds-established")
    });
    assert!(said.contains("definitions of the Cluster API are left to us"), "{said}");
    let (early, ours) = operator.await.unwrap();
    assert!(!early, "a definition was applied before it was handed over");
    let ours: BTreeSet<&str> = ours.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in ["machines.cluster.x-k8s.io", "azuremachines.infrastructure.cluster.x-k8s.io"] {
        assert!(ours.contains(name), "{ours:?}");
    }
    assert!(ours.iter().all(|n| n.ends_with(".cluster.x-k8s.io")), "{ours:?}");
    // What was said is taken back with the definitions.
    let said = tokio::task::block_in_place(|| Desk { dir: dir.path() }.exits(0, "uninstall --crds -o json"));
    assert!(said.contains("returned definitions of the Cluster API"), "{said}");
    let left = told_last.get("cluster").await.unwrap();
    assert!(left.data["spec"]["unmanagedCustomResourceDefinitions"].is_null(), "{}", left.data);
    assert!(server.stop().unwrap().success());
}

/// Documents of YAML.
pub fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|d| serde_saphyr::from_str(d).unwrap()).collect()
}

pub fn kinds(all: &[Value]) -> BTreeSet<&str> {
    all.iter().filter_map(|o| o["kind"].as_str()).collect()
}

#[test]
fn an_installation_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk { dir: dir.path() };
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let stream = json!({"kind": "ImageStream", "spec": {"tags": [
        {"name": "other", "from": {"name": "quay.example/other:1"}},
        {"name": "hypershift-operator", "from": {"name": "quay.example/operator:7"}}]}});
    std::fs::write(dir.path().join("refs.json"), stream.to_string()).unwrap();
    std::fs::write(dir.path().join("pull.json"), r#"{"auths":{}}"#).unwrap();
    let files = "--image-refs refs.json --pull-secret pull.json";

    // A template has parameters, whose values are what the flags say.
    desk.exits(
        0,
        &format!("install render --template --render-sensitive --namespace ops {files} --output-file t.yaml"),
    );
    let template: Value = serde_saphyr::from_str(&read("t.yaml")).unwrap();
    assert_eq!(
        (&template["kind"], &template["metadata"]["name"]),
        (&json!("Template"), &json!("hypershift-operator-template"))
    );
    let parameters = json!([{"name": "NAMESPACE", "value": "ops", "required": true},
        {"name": "OPERATOR_IMAGE", "value": "quay.example/operator:7", "required": true}]);
    assert_eq!(template["parameters"], parameters);
    let objects = template["objects"].as_array().unwrap();
    let deployment = objects.iter().find(|o| o["kind"] == "Deployment").unwrap();
    assert_eq!(deployment["metadata"]["namespace"], "${NAMESPACE}");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "${OPERATOR_IMAGE}");
    assert!(kinds(objects).is_superset(&["CustomResourceDefinition", "Secret"].into()));
    let said = desk.exits(2, "install render --template --render-sensitive --outputs crds");
    assert!(said.contains("--template cannot be used with --outputs"), "{said}");
    let said = desk.exits(2, "install render --template");
    assert!(said.contains("--template needs --render-sensitive"), "{said}");
    let said = desk.exits(2, "install render --image-refs refs.json --hypershift-image a");
    assert!(said.contains("--hypershift-image cannot be used with --image-refs"), "{said}");

    // Halves, and secrets only for those who ask.
    desk.exits(0, "install render --outputs crds --output-file crds.yaml");
    assert_eq!(kinds(&documents(&read("crds.yaml"))), ["CustomResourceDefinition"].into());
    desk.exits(0, &format!("install render --outputs resources {files} --output-file rest.yaml"));
    let rest = documents(&read("rest.yaml"));
    assert!(!kinds(&rest).contains("CustomResourceDefinition") && !kinds(&rest).contains("Secret"));
    desk.exits(0, &format!("install render --outputs resources {files} --render-sensitive --format json --output-file all.json"));
    let list: Value = serde_json::from_str(&read("all.json")).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), rest.len() + 1);
    assert!(kinds(items).contains("Secret"));
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("all.json"), mode("t.yaml")), (0o600, 0o600), "what is secret is its owner's");

    // A chart: its values are what the flags say, and what is secret is not in it.
    let said = desk.exits(0, &format!("install helm --output-dir chart {files}"));
    assert!(said.contains("left out Secret pull-secret"), "{said}");
    assert!(read("chart/values.yaml").contains("image: quay.example/operator:7\n"));
    assert!(read("chart/Chart.yaml").contains("name: hypershift-operator\n"));
    let templates = read("chart/templates/operator.yaml");
    assert!(templates.contains("{{ .Values.image }}") && templates.contains("{{ .Release.Namespace }}"));
    assert!(!templates.contains("kind: Secret") && !templates.contains("quay.example/operator:7"));
    let definitions = std::fs::read_dir(dir.path().join("chart/crds")).unwrap().count();
    assert_eq!(definitions, documents(&read("crds.yaml")).len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let desk = Desk { dir: dir.path() };
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(desk.exits(0, "version --commit-only"), format!("{own}\n"));
    assert_eq!(desk.exits(0, "version --client-only").lines().count(), 1);
    let said = desk.exits(0, "version");
    assert!(said.contains("no operator says its version in namespace hypershift (--namespace)"), "{said}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(
            &PostParams::default(),
            &serde_json::from_value(json!({"metadata": {"name": "ops"}})).unwrap(),
        )
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "ops");
    let map = serde_json::from_value(hypershift::supported::config_map("ops", "9.9.9")).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let said = desk.exits(0, "version --namespace ops");
    assert!(said.contains("\noperator 9.9.9\nsupports OpenShift 5.1, 5.0, 4.23,"), "{said}");
    let said: Value = serde_json::from_str(&desk.exits(0, "version --namespace ops -o json")).unwrap();
    assert_eq!((&said["version"], &said["server"]["version"]), (&json!(own), &json!("9.9.9")));
    assert_eq!(said["server"]["supportedVersions"][0], "5.1");
    let said = desk.exits(1, "version --kubeconfig missing");
    assert!(said.contains("missing (--kubeconfig)"), "{said}");
    assert!(server.stop().unwrap().success());
    let said = desk.exits(0, "version");
    assert!(said.contains("no server version") && said.contains("zaffre "), "{said}");
}

/// An API server that answers with each of these in turn, and then with the last.
pub fn answers(dir: &Path, list: Vec<(u16, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "c", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": at}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
    std::fs::write(dir.join("kubeconfig"), config.to_string()).unwrap();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 8192];
            let _ = stream.read(&mut head);
            let (code, body) = &list[n.min(list.len() - 1)];
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
}

pub fn status(code: u16) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "busy", "reason": if code == 404 { "NotFound" } else { "InternalError" }}),
    )
}

/// Files that `create cluster azure` reads.
pub fn inputs(dir: &Path) {
    let infra = json!({"infraID": "a", "baseDomain": "b.example", "region": "westus2", "resourceGroupName": "d", "vnetID": "e",
        "subnetID": "f", "securityGroupID": "g", "workloadIdentities": {}});
    std::fs::write(dir.join("infra.json"), infra.to_string()).unwrap();
    std::fs::write(dir.join("pull.json"), r#"{"auths":{}}"#).unwrap();
    let creds = json!({"subscriptionId": "00000000-0000-0000-0000-000000000001", "tenantId": "00000000-0000-0000-0000-000000000002",
        "clientId": "00000000-0000-0000-0000-000000000003", "clientSecret": "x"});
    std::fs::write(dir.join("creds.json"), creds.to_string()).unwrap();
}

/// Nobody looks for this release, unless they have to.
pub const CLUSTER: &str = "create cluster azure --name demo --infra-json infra.json --pull-secret pull.json --azure-creds creds.json \
    --release-image NOT/AN:IMAGE";

#[test]
fn an_api_server_that_is_busy_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    answers(dir.path(), vec![status(500), status(502), (200, hosted_cluster())]);
    let said = Desk { dir: dir.path() }.exits(1, CLUSTER);
    assert_eq!(said.matches("again    in ").count(), 2, "{said}");
    assert!(
        said.contains("HostedCluster clusters/demo is there already")
            && said.contains("--namespace clusters --name demo"),
        "{said}"
    );
}

#[test]
fn control_planes_run_on_the_nodes_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let node = json!({"metadata": {"name": "n"}, "status": {"nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": ""}}});
    let nodes = json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [node]});
    answers(dir.path(), vec![status(404), (200, nodes.clone())]);
    let desk = Desk { dir: dir.path() };
    let said = desk.exits(1, &format!("{CLUSTER} --arch arm64"));
    for words in ["nodes are amd64", "--arch is arm64", "multi-arch release, and NOT/AN:IMAGE cannot be read"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    answers(dir.path(), vec![status(404), (200, nodes), status(404), status(403)]);
    let said = desk.exits(1, CLUSTER);
    assert!(said.contains("cannot ask the cluster for its kinds"), "the release is not asked for: {said}");
}

#[test]
fn plans_end_with_two_and_flags_that_conflict_do() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let desk = Desk { dir: dir.path() };
    let said = desk.exits(2, &format!("plan {CLUSTER}"));
    assert!(said.contains("kind: HostedCluster"), "{said}");
    let said = desk.exits(0, &format!("{CLUSTER} --render"));
    assert!(said.contains("kind: HostedCluster"), "{said}");
    let list: Value = serde_json::from_str(&desk.exits(0, &format!("{CLUSTER} --render -o json"))).unwrap();
    assert!(kinds(list["items"].as_array().unwrap()).contains("HostedCluster"), "{list}");
    let list: Value = serde_json::from_str(&desk.exits(2, &format!("plan {CLUSTER} -o json"))).unwrap();
    assert_eq!(list["kind"], "List");
    let bare =
        CLUSTER.replace("--infra-json infra.json", "--base-domain b.example --workload-identities-file w");
    let said = desk.exits(2, &format!("plan {bare}"));
    assert!(said.contains("plan needs --infra-json") && !said.contains("--render"), "{said}");
    let streams = CLUSTER.replace("--release-image NOT/AN:IMAGE", "--release-stream a/b");
    let said = desk.exits(2, &streams);
    assert!(said.contains("--release-stream \"a/b\" is no stream"), "{said}");
    let said = desk.exits(2, &format!("{CLUSTER} --release-stream 4-stable"));
    assert!(said.contains("--release-image cannot be used with --release-stream"), "{said}");
    let said = desk.exits(
        2,
        "dump cluster --artifact-dir d --dump-guest-cluster --dump-guest-cluster-through-kube-service --agent-namespace a",
    );
    assert!(
        said.contains(
            "--dump-guest-cluster cannot be used with --dump-guest-cluster-through-kube-service: both dump the guest"
        ),
        "{said}"
    );

    // A pool for a cluster of another platform, and a plan of one.
    answers(dir.path(), vec![(200, hosted_cluster())]);
    let said = desk.exits(2, "plan create nodepool azure --cluster-name demo --name extra");
    assert!(said.contains("kind: NodePool"), "{said}");
    let said = desk.exits(0, "create nodepool azure --cluster-name demo --name extra --render -o json");
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["kind"], "NodePool");
    let mut elsewhere = hosted_cluster();
    elsewhere["spec"]["platform"] = json!({"type": "None"});
    answers(dir.path(), vec![(200, elsewhere)]);
    let said = desk.exits(2, "create nodepool azure --cluster-name demo --name extra");
    assert!(said.contains("--cluster-name \"demo\"") && said.contains("spec.platform.type"), "{said}");
}

/// Without --infra-json: what is wrong is said before anything is made, standard output has the result and nothing else,
/// and a key that is there already stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_infrastructure_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let (_azure, env) = serve_azure(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    let run = |line: &str| {
        let mut c = zaffre();
        c.current_dir(dir.path()).args(line.split_whitespace()).envs(env.iter().cloned());
        let out = c.env("KUBECONFIG", &kubeconfig).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let good = |line: &str| {
        let (code, out, said) = run(line);
        assert_eq!(code, Some(0), "{line}: {said}");
        (out, said)
    };
    good("install --install-scope crds --wait-until-crds-established");
    good(
        "create iam azure --name demo --infra-id demo-x2b4c --resource-group-name demo-identities \
         --oidc-issuer-url https://oidc.example.test/demo --output-file identities.json",
    );
    let line = "create cluster azure --name demo --base-domain example.zaffre.test --infra-id demo-x2b4c \
        --workload-identities-file identities.json --pull-secret pull.json --release-image quay.example/release:4.20.1 -o json";
    std::fs::write(dir.path().join("id_rsa"), "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
    for (more, code, words) in [
        ("--ssh-key missing", 1, "cannot read missing (--ssh-key)"),
        ("--ssh-key id_rsa", 2, "give its public half"),
        ("--additional-trust-bundle pull.json", 1, "(--additional-trust-bundle) has no certificate"),
        ("--image-content-sources pull.json", 2, "--image-content-sources"),
        (
            "--sa-token-issuer-private-key-path missing --oidc-issuer-url https://o.example",
            1,
            "cannot read missing",
        ),
        ("--encryption-key-id https://v.vault.azure.net/keys/etcd/abc", 2, "create iam azure --enable-kms"),
        ("--subnet-id x", 2, "not a resource id"),
        (
            "--node-pool-replicas 1 --instance-type nonsense",
            1,
            "NodePool demo is refused; nothing was changed",
        ),
    ] {
        let (ends, out, said) = run(&format!("{line} {more}"));
        assert!(ends == Some(code) && said.contains(words), "{more}: {ends:?} {said}");
        assert!(out.is_empty() && !said.contains("infra id"), "{more}: {out}{said}");
    }

    let secrets: Api<Secret> = Api::namespaced(client.clone(), "clusters");
    let key = json!({"metadata": {"name": "demo-etcd-encryption-key"}, "data": {"key": "b2xk"}});
    let home = serde_json::from_value(json!({"metadata": {"name": "clusters"}})).unwrap();
    Api::<Namespace>::all(client).create(&PostParams::default(), &home).await.unwrap();
    secrets.create(&PostParams::default(), &serde_json::from_value(key).unwrap()).await.unwrap();
    let (out, said) = good(line);
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&made["name"], &made["infraID"]), (&json!("demo"), &json!("demo-x2b4c")), "{out}");
    assert!(said.contains("kept     Secret demo-etcd-encryption-key"), "{said}");
    let key = secrets.get("demo-etcd-encryption-key").await.unwrap().data.unwrap();
    assert_eq!(key["key"].0, b"old");
    // Again: all is there; a run that was broken off is gone on with; and elsewhere is another cluster.
    let (code, _, said) = run(line);
    assert!(code == Some(1) && said.contains("clusters/demo is there already, with all that"), "{said}");
    secrets.delete("demo-pull-secret", &Default::default()).await.unwrap();
    let (out, _) = good(line);
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        made["applied"],
        json!([{"kind": "Secret", "name": "demo-pull-secret", "namespace": "clusters"}]),
        "{out}"
    );
    let (code, _, said) = run(&line.replace("demo-x2b4c", "demo-y2b4c"));
    assert!(code == Some(1) && said.contains("already, on infrastructure demo-x2b4c"), "{said}");
    assert!(server.stop().unwrap().success());
}
