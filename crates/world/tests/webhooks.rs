//! What the API server asks the operator before it stores something.

use crate::kit::{DEADLINE, Kit};
use hypershift::kinds;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use reconcile::Kind;
use serde_json::{Value, json};
use world::Flavour;
use world::sample::NAMESPACE;

const HOME: &str = "hypershift";
const MUTATING: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
)
.cluster_wide();

/// Installs as `zaffre install` does, by server-side apply, and waits for the operator's pods.
async fn install(kit: &Kit, words: &[&str]) {
    let known = reconcile::Kinds::builtin();
    let args = self_managed::install::Args::of(words).unwrap();
    let objects = args.objects(&Default::default()).unwrap().resources;
    // Prometheus' kinds are not served here, and the world has classes of its own.
    let other = |o: &&Value| {
        o["kind"] != "PriorityClass" && !o["apiVersion"].as_str().unwrap().starts_with("monitoring")
    };
    for object in objects.iter().filter(other) {
        let kind =
            known.find(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap();
        let at = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let params = PatchParams::apply("hypershift").force();
        let name = object["metadata"]["name"].as_str().unwrap();
        kit.api(kind, at).patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }
    let there = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["status"]["availableReplicas"] == 2);
    let deployments = kit.api(&kinds::DEPLOYMENT, HOME);
    let wait = kube::runtime::wait::await_condition(deployments, "operator", there);
    tokio::time::timeout(DEADLINE, wait).await.expect("the operator is available").unwrap();
}

async fn create(kit: &Kit, kind: &Kind, object: &Value) -> Result<DynamicObject, String> {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let made = kit.api(kind, NAMESPACE).create(&PostParams::default(), &object).await;
    made.map_err(|e| e.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_filled_in_and_mistakes_refused_before_anything_is_stored() {
    let kit = Kit::start(Flavour::Workload).await;
    install(&kit, &["--enable-defaulting-webhook", "--enable-validating-webhook"]).await;
    let good = kit.sample("demo").cluster;

    let mut bad = good.clone();
    bad["spec"]["networking"]["machineNetwork"] = json!([{"cidr": "10.132.0.0/16"}]);
    let said = create(&kit, &kinds::CLUSTER, &bad).await.unwrap_err();
    assert!(said.contains("overlaps") && said.contains("spec.networking.machineNetwork[0].cidr"), "{said}");

    let mut open = good.clone();
    open["spec"].as_object_mut().unwrap().remove("release");
    let made = create(&kit, &kinds::CLUSTER, &open).await.unwrap();
    let newest = kit.world.cloud().release("4.21.0").unwrap();
    assert_eq!(made.data["spec"]["release"]["image"], newest);
    assert_eq!(made.data["spec"]["networking"]["allocateNodeCIDRs"], "Disabled");

    let pool = |cluster: &str| {
        json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
            "metadata": {"name": format!("{cluster}-pool"), "namespace": NAMESPACE},
            "spec": {"clusterName": cluster, "replicas": 0, "management": {"upgradeType": "Replace"},
                "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "osDisk": {}, "image": {"type": "AzureMarketplace"},
                    "subnetID": good["spec"]["platform"]["azure"]["subnetID"]}}}})
    };
    let made = create(&kit, &kinds::POOL, &pool("demo")).await.unwrap();
    assert_eq!(made.data["spec"]["release"]["image"], newest);
    let said = create(&kit, &kinds::POOL, &pool("nobody")).await.unwrap_err();
    assert!(said.contains("spec.release.image") && said.contains("make the cluster first"), "{said}");

    // A change is judged too; what the operator writes itself goes through.
    let change = json!({"spec": {"configuration": {"network": {"serviceNodePortRange": "many"}}}});
    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    let said = clusters.patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap_err();
    assert!(said.to_string().contains("serviceNodePortRange"), "{said}");
    kit.until("demo", "looked at", |s| s["conditions"].as_array().is_some_and(|c| !c.is_empty())).await;

    // Installing again keeps the authority, and a certificate that is lost is made again and told.
    install(&kit, &["--enable-defaulting-webhook", "--enable-validating-webhook"]).await;
    let bundle = |o: &DynamicObject| {
        o.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
    };
    let configurations = kit.api(&MUTATING, "");
    let before = bundle(&configurations.get("hypershift.openshift.io").await.unwrap());
    assert!(!before.is_empty());
    kit.api(&kinds::SECRET, HOME).delete("manager-serving-cert", &Default::default()).await.unwrap();
    let other = |o: Option<&DynamicObject>| o.is_some_and(|o| bundle(o) != before);
    let wait = kube::runtime::wait::await_condition(configurations, "hypershift.openshift.io", other);
    tokio::time::timeout(DEADLINE, wait).await.expect("another authority").unwrap();
    let mut second = open.clone();
    second["metadata"]["name"] = json!("second");
    let serves = async {
        // Each replica hears of the certificate in its own time.
        while create(&kit, &kinds::CLUSTER, &second)
            .await
            .is_err_and(|e| e.contains("failed calling webhook"))
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, serves).await.expect("the new certificate is served");
    assert!(clusters.get_opt("second").await.unwrap().is_some());
    kit.world.stop().await;
}
