//! `destroy cluster azure`: what holds a cluster is named, the same command goes on from there, and nothing is left.

use crate::azure::serve_azure;
use crate::road::{client, inputs};
use crate::{serve, zaffre};
use apis::names::{annotation, finalizer, label};
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{ResourceGroups, SecurityGroups};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::Server;

/// By somebody whom no command knows.
const HELD: &str = "example.com/held";

/// A management cluster with our definitions and no operator, so that nothing but finalizers holds a cluster; and Azure.
struct Place {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
    client: kube::Client,
    _servers: [Server; 2],
}

async fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    inputs(dir.path());
    let (kube, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let (azure, mut env) = serve_azure(dir.path(), &["--in-memory"]);
    let client = client(&kubeconfig).await;
    env.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
    let place = Place { dir, env, client, _servers: [kube, azure] };
    place.exits(0, "install --install-scope crds --wait-until-crds-established");
    place
}

impl Place {
    /// Results, and what was said beside them.
    fn exits(&self, code: i32, line: &str) -> (String, String) {
        let mut c = zaffre();
        c.current_dir(self.dir.path()).args(line.split_whitespace()).envs(self.env.iter().cloned());
        let out = c.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (result, said) = (text(out.stdout), text(out.stderr));
        assert_eq!(out.status.code(), Some(code), "{line}: {result}{said}");
        (result, said)
    }

    fn plan(&self, line: &str) -> Value {
        serde_json::from_str(&self.exits(2, &format!("{line} -o json")).0).unwrap()
    }

    fn make(&self, name: &str, flags: &str) {
        self.exits(
            0,
            &format!(
                "create iam azure --name {name} --infra-id {name}-x2b4c --resource-group-name {name}-identities \
                 --oidc-issuer-url https://oidc.example.test/{name} --output-file {name}.json --quiet"
            ),
        );
        self.exits(
            0,
            &format!(
                "create cluster azure --name {name} --infra-id {name}-x2b4c --base-domain example.zaffre.test \
                 --workload-identities-file {name}.json --pull-secret pull.json \
                 --release-image quay.example/release:4.20.1 {flags}"
            ),
        );
    }

    fn clusters(&self) -> Api<DynamicObject> {
        hypershift::kinds::CLUSTER.api(&self.client, "clusters")
    }

    async fn cluster(&self, name: &str) -> Option<Value> {
        self.clusters().get_opt(name).await.unwrap().map(|o| serde_json::to_value(o).unwrap())
    }

    async fn finalizers(&self, name: &str, all: &[&str]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": all}}));
        self.clusters().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What was made for it in the management cluster and goes with it.
    async fn secrets(&self, name: &str) -> usize {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), "clusters");
        let its = ListParams::default().labels(&format!("{}={name}-x2b4c", label::AUTO_CREATED_FOR_INFRA));
        api.list(&its).await.unwrap().items.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_a_cluster_is_named_and_the_same_command_goes_on() {
    let place = place().await;
    place.make("demo", "");
    place.finalizers("demo", &[HELD]).await;
    let line = "destroy cluster azure --name demo";
    for planned in [format!("plan {line}"), format!("{line} --dry-run")] {
        let plan = place.plan(&planned);
        let first = json!({"action": "delete", "namespace": "clusters", "name": "demo"});
        assert_eq!(plan["hostedCluster"], first, "{planned}");
        assert!(plan["delete"].as_u64() > Some(0), "{plan}");
    }
    let (text, _) = place.exits(2, &format!("plan {line}"));
    assert!(text.starts_with("- HostedCluster clusters/demo\n"), "{text}");
    let hc = place.cluster("demo").await.unwrap();
    assert_eq!(hc["metadata"]["finalizers"], json!([HELD]), "a plan changes nothing");

    let (_, said) = place.exits(1, &format!("{line} --cluster-grace-period 1s"));
    for words in [
        "demo is not gone after 1s (--cluster-grace-period)",
        "held by example.com/held;",
        "`kubectl edit hostedcluster demo -n clusters`",
        "the same command goes on from there",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let hc = place.cluster("demo").await.unwrap();
    let meta = &hc["metadata"];
    assert!(meta["deletionTimestamp"].is_string(), "{meta}");
    assert_eq!(meta["finalizers"], json!([HELD, finalizer::DESTROY_CLUSTER]));
    assert_eq!(meta["annotations"][annotation::CLEANUP_CLOUD_RESOURCES], "true");
    assert!(place.secrets("demo").await > 0, "they go when Azure is clean");
    let infra = "plan destroy infra azure --name demo --infra-id demo-x2b4c";
    place.exits(2, infra);

    place.finalizers("demo", &[finalizer::DESTROY_CLUSTER]).await;
    let (_, said) = place.exits(0, line);
    assert!(said.contains("gone     demo (its identities stay: zaffre destroy iam azure)"), "{said}");
    assert!(place.cluster("demo").await.is_none());
    assert_eq!(place.secrets("demo").await, 0);
    place.exits(0, infra);

    // Once more: without the object, only the infra id says what there was.
    let (_, said) = place.exits(1, line);
    assert!(
        said.contains("there is no HostedCluster clusters/demo") && said.contains("--infra-id"),
        "{said}"
    );
    place.exits(0, &format!("{line} --infra-id demo-x2b4c"));
    let (plan, _) = place.exits(0, &format!("plan {line} --infra-id demo-x2b4c -o json"));
    assert!(serde_json::from_str::<Value>(&plan).unwrap()["hostedCluster"].is_null(), "{plan}");
    place.exits(0, "destroy iam azure --name demo --infra-id demo-x2b4c --quiet");
    place.exits(0, "azure leaks --fail-on-leaks");
}

/// In somebody's own group everything of the cluster's goes, by its mark or its infra id, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_group_of_a_cluster_is_known_without_a_flag() {
    let place = place().await;
    let (env, post) = (&place.env, PostParams::default());
    let azure = crate::azure::client(env).await;
    let subscription =
        ResourceId::subscription_scope(crate::azure::get(env, "AZURE_SUBSCRIPTION_ID")).unwrap();
    let (groups, security) = (azure.arm::<ResourceGroups>(), azure.arm::<SecurityGroups>());
    let mine = groups.id(&subscription, "mine").unwrap();
    groups.put(&mine, &serde_json::from_value(json!({"location": "eastus"})).unwrap()).await.unwrap();
    let [left, product, theirs] = ["own-x2b4c-workers", "own-x2b4c1", "somebody"]
        .map(|name| SecurityGroups::ROW.id(&mine, name).unwrap());
    for id in [&left, &product, &theirs] {
        security.put(id, &serde_json::from_value(json!({"location": "eastus"})).unwrap()).await.unwrap();
    }
    // An operator of our version: the check lets it through.
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let home = serde_json::from_value(json!({"metadata": {"name": "ops"}})).unwrap();
    namespaces.create(&post, &home).await.unwrap();
    let map = hypershift::supported::config_map("ops", env!("CARGO_PKG_VERSION"));
    let maps: Api<ConfigMap> = Api::namespaced(place.client.clone(), "ops");
    maps.create(&post, &serde_json::from_value(map).unwrap()).await.unwrap();
    place.make("own", "--resource-group-name mine --version-check");
    let hc = place.cluster("own").await.unwrap();
    assert_eq!(hc["spec"]["platform"]["azure"]["resourceGroup"], "mine");

    let line = "destroy cluster azure --name own";
    let (plan, other) = (place.plan(&format!("plan {line}")), "--resource-group-name other");
    assert_eq!(
        place.plan(&format!("plan {line} {other}"))["steps"],
        plan["steps"],
        "the object's word counts"
    );
    let (_, said) = place.exits(2, &format!("plan {line} {other}"));
    assert!(said.contains(&format!("ignored  {other}: the HostedCluster is in mine")), "{said}");
    let steps = plan["steps"].as_array().unwrap();
    let goes = |id: &ResourceId| steps.iter().any(|s| s["id"] == id.as_str());
    assert!(goes(&left) && !goes(&product) && !goes(&theirs) && !goes(&mine), "{plan}");
    assert!(plan["kept"].as_array().unwrap().iter().any(|k| k["id"] == mine.as_str()), "{plan}");

    // Force is for what is below the cluster; at the cluster itself, somebody else's word is theirs.
    place.finalizers("own", &[HELD]).await;
    place.exits(1, &format!("{line} --destroy-cloud-resources=false --cluster-grace-period 1s"));
    let hc = place.cluster("own").await.unwrap();
    assert_eq!(hc["metadata"]["annotations"][annotation::CLEANUP_CLOUD_RESOURCES], "false");
    let (_, said) = place.exits(1, &format!("{line} --force --cluster-grace-period 1s"));
    for words in ["forcing  finalizers", "own is not gone although it was forced: held by example.com/held;"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let hc = place.cluster("own").await.unwrap();
    assert_eq!(hc["metadata"]["annotations"][hypershift::delete::FORCE], "all");
    assert!(security.exists(&left).await.unwrap(), "Azure comes after the cluster");

    place.finalizers("own", &[finalizer::DESTROY_CLUSTER]).await;
    let (result, _) = place.exits(0, &format!("{line} --force"));
    assert!(result.contains("/resourceGroups/mine  (yours"), "{result}");
    assert!(place.cluster("own").await.is_none());
    assert!(groups.exists(&mine).await.unwrap() && !security.exists(&left).await.unwrap());
    for id in [&product, &theirs] {
        assert!(security.exists(id).await.unwrap(), "{id}");
        security.delete(id).await.unwrap();
    }
    groups.delete(&mine).await.unwrap();
    place.exits(0, "destroy iam azure --name own --infra-id own-x2b4c --quiet");
    place.exits(0, "azure leaks --fail-on-leaks");
}
