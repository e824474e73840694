//! Azure refuses, or is not there: what is refused is said in its words, and is over once it is put right.

use crate::kit::{Kit, POD, condition, is_true, says};
use arm::ResourceId;
use azure::Call;
use azure::ops::{FederatedCredentials, RoleAssignments, UserAssignedIdentities};
use futures::TryStreamExt;
use hypershift::kinds;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing};

const CLOUD: &str = "azure-cloud-controller-manager";

/// A component begins anew, and so asks Azure now and not in some minutes.
async fn anew(kit: &Kit, cluster: &Sample) {
    let pods = kit.api(&POD, &cluster.plane());
    let ours =
        ListParams::default().labels(&format!("hypershift.openshift.io/control-plane-component={CLOUD}"));
    for pod in pods.list_metadata(&ours).await.unwrap().items {
        let now = DeleteParams::default().grace_period(0);
        pods.delete(pod.metadata.name.as_deref().unwrap(), &now).await.unwrap();
    }
}

async fn degraded(kit: &Kit, cluster: &Sample, words: &[&str]) {
    anew(kit, cluster).await;
    let mut all = vec![CLOUD];
    all.extend(words);
    let so = |s: &Value| says(s, "Degraded", "True", &all);
    kit.until(&cluster.name, &format!("Degraded with {words:?}"), so).await;
}

async fn well(kit: &Kit, cluster: &Sample) {
    let so = |s: &Value| says(s, "Degraded", "False", &[]) && is_true(s, "Available");
    kit.until(&cluster.name, "well again", so).await;
}

fn id(v: &Value) -> ResourceId {
    ResourceId::parse(v["id"].as_str().unwrap()).unwrap()
}

async fn put(kit: &Kit, at: &ResourceId, version: &str, body: Value) {
    let mut call = Call::new(http::Method::PUT, format!("{at}?api-version={version}"));
    call.body = Some(body);
    kit.world.cloud().client.send(call).await.unwrap();
}

/// The identity of the cloud provider.
async fn identity(kit: &Kit) -> Value {
    let group = ResourceId::group_scope(&kit.landing.subscription, "land-identities").unwrap();
    let all: Vec<_> =
        kit.world.cloud().client.arm::<UserAssignedIdentities>().list(&group).try_collect().await.unwrap();
    let all = all.into_iter().map(|i| serde_json::to_value(i).unwrap());
    all.into_iter().find(|i| i["name"].as_str().unwrap().contains("cloud-provider")).unwrap()
}

/// A federated credential is taken away: Entra ID says which.
async fn without_federation(kit: &Kit, cluster: &Sample) {
    let arm = kit.world.cloud().client.arm::<FederatedCredentials>();
    let taken: Vec<_> = arm.list(&id(&identity(kit).await)).try_collect().await.unwrap();
    let taken: Vec<Value> = taken.into_iter().map(|c| serde_json::to_value(c).unwrap()).collect();
    assert!(!taken.is_empty());
    for credential in &taken {
        arm.delete(&id(credential)).await.unwrap();
    }
    degraded(kit, cluster, &["AADSTS7002"]).await;
    for credential in &taken {
        put(kit, &id(credential), "2023-01-31", json!({"properties": credential["properties"]})).await;
    }
    well(kit, cluster).await;
}

/// A role is taken away: Resource Manager says what is missing.
async fn without_a_role(kit: &Kit, cluster: &Sample) {
    let who = identity(kit).await["properties"]["principalId"].clone();
    let arm = kit.world.cloud().client.arm::<RoleAssignments>();
    let all: Vec<_> = arm.list(&kit.landing.layout.main).try_collect().await.unwrap();
    let all = all.into_iter().map(|r| serde_json::to_value(r).unwrap());
    let taken: Vec<Value> = all.filter(|r| r["properties"]["principalId"] == who).collect();
    assert!(!taken.is_empty());
    for role in &taken {
        arm.delete(&id(role)).await.unwrap();
    }
    degraded(kit, cluster, &["AuthorizationFailed"]).await;
    for role in &taken {
        let p = &role["properties"];
        let body = json!({"roleDefinitionId": p["roleDefinitionId"], "principalId": p["principalId"],
            "principalType": "ServicePrincipal"});
        put(kit, &id(role), "2022-04-01", json!({"properties": body})).await;
    }
    well(kit, cluster).await;
}

/// While this is so, requests to a host go wrong.
fn fault(kit: &Kit, host: &str) -> String {
    let rule = json!({"name": format!("{host}-away"), "match": {"host": host},
        "then": {"answer": {"status": 503, "code": "ServiceUnavailable", "message": "The service is unavailable."}}});
    let rule = serde_json::from_value(rule).unwrap();
    kit.world.cloud().sim.world().add_faults(vec![rule]).unwrap().remove(0)
}

fn mended(kit: &Kit, name: &str) {
    assert!(kit.world.cloud().sim.world().remove_fault(name));
}

/// Somebody closes the storage account that the issuer's keys are in: Entra ID cannot read them any more.
async fn without_the_issuer(kit: &Kit, cluster: &Sample) {
    let group = ResourceId::group_scope(&kit.landing.subscription, "land-oidc").unwrap();
    let account = group.provider("Microsoft.Storage", "storageAccounts", "landoidc").unwrap();
    let open = async |open: bool| {
        let mut call = Call::new(http::Method::PATCH, format!("{account}?api-version=2023-05-01"));
        call.body = Some(json!({"properties": {"allowBlobPublicAccess": open}}));
        kit.world.cloud().client.send(call).await.unwrap();
    };
    open(false).await;
    degraded(kit, cluster, &["AADSTS50166"]).await;
    open(true).await;
    well(kit, cluster).await;
}

/// Entra ID is away: who has no token yet says so, what runs runs.
async fn without_entra(kit: &Kit, cluster: &Sample) {
    let rule = fault(kit, "login");
    degraded(kit, cluster, &["The service is unavailable"]).await;
    let now = kit.api(&kinds::CLUSTER, NAMESPACE).get(&cluster.name).await.unwrap();
    assert!(is_true(&now.data["status"], "Available"), "{}", condition(&now.data["status"], "Available"));
    mended(kit, &rule);
    well(kit, cluster).await;
}

/// All of Resource Manager is away: what runs runs, what is new waits and goes on by itself.
async fn without_azure(kit: &Kit, cluster: &Sample) {
    let rule = fault(kit, "arm");
    let late = kit.sample("late");
    late.create(&kit.world).await.unwrap();
    let words = ["AzureError", "Azure cannot be asked", "tried again"];
    kit.until("late", "Azure to be away", |s| says(s, "PlatformCredentialsFound", "Unknown", &words)).await;
    let there = kit.api(&kinds::PLANE, &late.plane()).get_opt("late").await.unwrap();
    assert!(there.is_none(), "nothing is made before Azure was asked");
    let other = kit.api(&kinds::CLUSTER, NAMESPACE).get(&cluster.name).await.unwrap();
    assert!(is_true(&other.data["status"], "Available"), "{}", condition(&other.data["status"], "Available"));
    mended(kit, &rule);
    kit.until_object(&kinds::PLANE, &late, "late", |_| true).await;
    kit.delete("late").await;
    kit.gone("late").await;
}

/// The vault of a managed cluster is away while a pod needs its certificate.
async fn without_the_vault(kit: &Kit, cluster: &Sample) {
    let rule = fault(kit, "vault");
    anew(kit, cluster).await;
    let so = |s: &Value| says(s, "Degraded", "True", &[CLOUD, "aro-vault"]) && is_true(s, "Available");
    kit.until(&cluster.name, "Degraded for want of the vault", so).await;
    mended(kit, &rule);
    well(kit, cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_azure_refuses_is_said_and_is_over_once_it_is_put_right() {
    let kit = Kit::start(Flavour::Workload).await;
    let managed = Landing::make(kit.world.cloud(), kit.world.dir(), "aro", Flavour::Managed).await.unwrap();
    let ours = kit.sample("ours");
    let aro = Sample::new(&kit.world, &managed, "aro", "4.19.3").unwrap();
    ours.create(&kit.world).await.unwrap();
    aro.create(&kit.world).await.unwrap();
    well(&kit, &ours).await;
    well(&kit, &aro).await;
    let begun = std::time::Instant::now();
    let done = |what: &str| eprintln!("{what}: {:?}", begun.elapsed());
    Box::pin(without_federation(&kit, &ours)).await;
    done("federation");
    Box::pin(without_a_role(&kit, &ours)).await;
    done("role");
    Box::pin(without_the_issuer(&kit, &ours)).await;
    done("issuer");
    Box::pin(without_entra(&kit, &ours)).await;
    done("Entra ID");
    Box::pin(without_azure(&kit, &ours)).await;
    done("Azure");
    Box::pin(without_the_vault(&kit, &aro)).await;
    done("vault");
    kit.world.stop().await;
}
