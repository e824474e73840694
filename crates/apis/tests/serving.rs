//! An API server that has our definitions: accepts them, fills defaults in, prints columns.

use crate::api::{ALL, Api, collection, start};
use crate::samples;
use serde_json::{Value, json};

#[tokio::test]
async fn a_server_accepts_every_definition_and_a_good_object_of_each() {
    let api = start().await;
    let mut kinds = std::collections::BTreeSet::new();
    for sample in samples::all() {
        let stored = api.post(&collection(&sample), &sample).await;
        assert!(stored.code == 201, "{}: {}", sample["kind"], stored.message());
        for (field, value) in sample["spec"].as_object().into_iter().flatten() {
            assert!(
                !stored.body["spec"][field].is_null() || value.is_null(),
                "{}.spec.{field} was pruned",
                sample["kind"]
            );
        }
        kinds.insert((sample["apiVersion"].to_string(), sample["kind"].to_string()));
    }
    assert_eq!(kinds.len(), ALL.len(), "a kind has no sample");
}

#[tokio::test]
async fn defaults_are_filled_in() {
    let api = start().await;
    let hc = samples::hosted_cluster();
    let stored = api.post(&collection(&hc), &hc).await.ok();
    let mut bare = hc.clone();
    bare["spec"]["platform"]["azure"].as_object_mut().unwrap().remove("resourceGroup");
    bare["metadata"]["name"] = json!("bare");
    let bare = api.post(&collection(&hc), &bare).await.ok();
    assert_eq!(bare["spec"]["platform"]["azure"]["resourceGroup"], "default");
    let spec = &stored["spec"];
    for (pointer, wanted) in [
        (
            "/etcd",
            json!({"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}}),
        ),
        (
            "/networking",
            json!({"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}], "serviceNetwork": [{"cidr": "172.31.0.0/16"}]}),
        ),
        ("/controllerAvailabilityPolicy", json!("HighlyAvailable")),
        ("/infrastructureAvailabilityPolicy", json!("SingleReplica")),
        ("/issuerURL", json!("https://kubernetes.default.svc")),
        ("/olmCatalogPlacement", json!("management")),
        ("/capabilities", json!({})),
        ("/platform/azure/cloud", json!("AzurePublicCloud")),
    ] {
        assert_eq!(spec.pointer(pointer), Some(&wanted), "{pointer}");
    }
    let np = samples::node_pool();
    let stored = api.post(&collection(&np), &np).await.ok();
    let spec = &stored["spec"];
    assert_eq!(
        spec["management"],
        json!({"upgradeType": "Replace", "autoRepair": false, "replace": {"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})
    );
    assert_eq!(
        (&spec["arch"], &spec["platform"]["azure"]["encryptionAtHost"]),
        (&json!("amd64"), &json!("Enabled"))
    );
    // What the server stores is what the type's own defaults are.
    let typed: apis::hypershift::HostedCluster = serde_json::from_value(hc).unwrap();
    let typed = serde_json::to_value(&typed.spec.shared).unwrap();
    assert_eq!(typed["olmCatalogPlacement"], "management");
    assert_eq!(
        serde_json::to_value(apis::hypershift::etcd::Etcd::default()).unwrap(),
        api.get(&format!("{}/bare", HOSTED_CLUSTERS)).await.ok()["spec"]["etcd"]
    );
}

const HOSTED_CLUSTERS: &str = "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters";

async fn with_status(api: &Api, object: Value, status: Value) -> String {
    let mut stored = api.post(&collection(&object), &object).await.ok();
    stored["status"] = status;
    let one = format!("{}/{}", collection(&object), stored["metadata"]["name"].as_str().unwrap());
    api.put(&format!("{one}/status"), &stored).await.ok();
    one
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "AsExpected", "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z"})
}

#[tokio::test]
async fn kubectl_get_prints_the_columns_that_people_know() {
    let api = start().await;
    let release = json!({"version": "4.20.6", "image": "r:6"});
    let history = |state: &str, version: &str, done: Value| json!({"state": state, "version": version, "image": "r", "startedTime": "2026-01-02T03:04:05Z", "completionTime": done, "verified": false});
    let hc = with_status(&api, samples::hosted_cluster(), json!({
        "version": {"desired": release, "observedGeneration": 1, "availableUpdates": null, "history": [
            history("Partial", "4.20.6", Value::Null), history("Completed", "4.20.5", json!("2026-01-02T04:04:05Z"))]},
        "controlPlaneVersion": {"desired": release, "history": [{"state": "Completed", "version": "4.20.6", "image": "r:6", "startedTime": "2026-01-02T03:04:05Z"}]},
        "kubeconfig": {"name": "sample-admin-kubeconfig"},
        "conditions": [condition("Available", "True", "The hosted control plane is available"), condition("Progressing", "True", "")],
    })).await;
    let row = api.table(&hc).await;
    let expected = [
        ("Name", json!("sample")),
        ("Version", json!("4.20.5")),
        ("CP Version", json!("4.20.6")),
        ("KubeConfig", json!("sample-admin-kubeconfig")),
        ("Progress", json!("Partial")),
        ("Available", json!("True")),
        ("Progressing", json!("True")),
        ("Message", json!("The hosted control plane is available")),
        ("CP Progress", json!("Completed")),
        ("DP Progress", json!("Partial")),
    ];
    assert_eq!(row, expected.map(|(n, v)| (n.to_owned(), v)));

    let mut conditions = vec![condition("Ready", "False", "waiting for 1 machine")];
    for type_ in ["AutoscalingEnabled", "AutorepairEnabled", "UpdatingVersion", "UpdatingConfig"] {
        conditions.push(condition(type_, "False", ""));
    }
    let status = json!({"replicas": 1, "version": "4.20.5", "conditions": conditions});
    let np = with_status(&api, samples::node_pool(), status).await;
    let expected = [
        ("Name", json!("sample")),
        ("Cluster", json!("sample")),
        ("Desired Nodes", json!(2)),
        ("Current Nodes", json!(1)),
        ("Autoscaling", json!("False")),
        ("Autorepair", json!("False")),
        ("Version", json!("4.20.5")),
        ("UpdatingVersion", json!("False")),
        ("UpdatingConfig", json!("False")),
        ("Message", json!("waiting for 1 machine")),
    ];
    assert_eq!(api.table(&np).await, expected.map(|(n, v)| (n.to_owned(), v)));

    let pls = with_status(&api, samples::private_link(), json!({
        "privateLinkServiceAlias": "alias", "privateEndpointIP": "10.0.0.9", "conditions": [condition("AzurePrivateLinkServiceAvailable", "True", "")],
    })).await;
    let row = api.table(&pls).await;
    let names: Vec<&str> = row.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["Name", "PLS Alias", "Endpoint IP", "Available", "Age"]);
    assert_eq!((&row[1].1, &row[2].1, &row[3].1), (&json!("alias"), &json!("10.0.0.9"), &json!("True")));
}

#[tokio::test]
async fn a_node_pool_scales_by_its_subresource() {
    let api = start().await;
    let np = samples::node_pool();
    api.post(&collection(&np), &np).await.ok();
    let one = format!("{}/sample", collection(&np));
    let mut scale = api.get(&format!("{one}/scale")).await.ok();
    assert_eq!(scale["spec"]["replicas"], 2);
    scale["spec"]["replicas"] = json!(5);
    api.put(&format!("{one}/scale"), &scale).await.ok();
    assert_eq!(api.get(&one).await.ok()["spec"]["replicas"], 5);
}

#[tokio::test]
async fn kubectl_explain_has_a_word_on_every_field_of_the_azure_surface() {
    let api = start().await;
    let doc = api.get("/openapi/v3/apis/hypershift.openshift.io/v1beta1").await.ok();
    let schemas = doc["components"]["schemas"].as_object().unwrap();
    let mut silent = Vec::new();
    for kind in ["HostedCluster", "NodePool"] {
        let schema = schemas.iter().find(|(name, _)| name.ends_with(&format!(".{kind}"))).unwrap().1;
        fn walk(place: &str, node: &Value, silent: &mut Vec<String>) {
            for (name, child) in node["properties"].as_object().into_iter().flatten() {
                let at = format!("{place}.{name}");
                if child["description"].as_str().is_none_or(str::is_empty) {
                    silent.push(at.clone());
                }
                walk(&at, child, silent);
                walk(&at, &child["items"], silent);
            }
        }
        walk(
            kind,
            &schema["properties"]["spec"]["properties"]["platform"]["properties"]["azure"],
            &mut silent,
        );
    }
    assert!(silent.is_empty(), "nothing is said of:\n{}", silent.join("\n"));
}
