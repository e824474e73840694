//! Snapshots of etcd in Azure, clusters that begin from one, and members that lose their disks.

use crate::kit::{DEADLINE, Kit, STATEFUL_SET, is_true};
use crate::place::{Place, Reached};
use crate::tools::{CLAIM, condition, disk, grant, me, put, says, until};
use azure::blob::{Access, PutOptions};
use azure::ops::StorageAccounts;
use hypershift::kinds;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use reconcile::Kind;
use serde_json::{Value, json};
use world::Flavour;
use world::sample::{NAMESPACE, Sample};

const WRITER: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
const BACKUP: Kind = Kind::new("hypershift.openshift.io", "v1beta1", "HCPEtcdBackup", "hcpetcdbackups");

fn account<P: Place>(kit: &Kit<P>) -> String {
    format!("zaffrebackups{}", kit.world.mark())
}

/// A container of blobs, and an application that may write to it.
async fn storage<P: Place>(kit: &Kit<P>) -> (azure::blob::Container, Value) {
    let cloud = kit.cloud();
    let id = cloud.client.arm::<StorageAccounts>().id(&kit.landing.layout.main, &account(kit)).unwrap();
    let body = json!({"location": world::landing::LOCATION, "kind": "StorageV2", "sku": {"name": "Standard_LRS"},
        "properties": {"allowBlobPublicAccess": true, "minimumTlsVersion": "TLS1_2", "supportsHttpsTrafficOnly": true}});
    put::<StorageAccounts>(kit, &id, body).await;
    grant(kit, &me(kit).await, WRITER, &id).await;
    let container = cloud.client.blobs(&account(kit)).unwrap().container("etcd").unwrap();
    // Whoever knows a name may read, in place of a signature.
    container.create(Access::Blob).await.unwrap();
    let (client, object) = cloud.sim.world().add_app("etcd-backup", "a secret of the backup", Vec::new());
    grant(kit, &object, WRITER, &id).await;
    let login = json!({"AZURE_TENANT_ID": kit.landing.tenant, "AZURE_CLIENT_ID": client,
        "AZURE_CLIENT_SECRET": "a secret of the backup"});
    (container, login)
}

async fn create<P: Place>(kit: &Kit<P>, kind: &Kind, namespace: &str, object: Value) {
    let object = serde_json::from_value(object).unwrap();
    kit.api(kind, namespace).create(&PostParams::default(), &object).await.unwrap();
}

async fn back_up<P: Place>(kit: &Kit<P>, cluster: &Sample, name: &str) -> DynamicObject {
    let plane = cluster.plane();
    let storage = json!({"storageType": "AzureBlob", "azureBlob": {"storageAccount": account(kit), "container": "etcd",
        "keyPrefix": "west", "credentials": {"name": "backup-login"}}});
    let object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HCPEtcdBackup",
        "metadata": {"name": name, "namespace": plane}, "spec": {"storage": storage}});
    create(kit, &BACKUP, &plane, object).await;
    let over = |o: &DynamicObject| {
        let c = condition(&o.data["status"], "BackupCompleted");
        c["reason"] == "BackupSucceeded" || c["reason"] == "BackupFailed"
    };
    until(kit, &cluster.name, "a backup", kit.api(&BACKUP, &plane), name, over).await
}

async fn namespace<P: Place>(kit: &Kit<P>, cluster: &str, name: &str) -> Namespace {
    let spaces: Api<Namespace> = Api::all(kit.admin(cluster).await);
    let space = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    spaces.create(&PostParams::default(), &space).await.unwrap()
}

async fn note<P: Place>(kit: &Kit<P>, cluster: &str, name: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(kit.admin(cluster).await, "default");
    let map = json!({"metadata": {"name": name}, "data": {"a": name}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

async fn noted<P: Place>(kit: &Kit<P>, cluster: &str, name: &str) -> bool {
    let maps: Api<ConfigMap> = Api::namespaced(kit.admin(cluster).await, "default");
    maps.get_opt(name).await.unwrap().is_some_and(|m| m.data.unwrap()["a"] == name)
}

async fn gone<P: Place>(kit: &Kit<P>, name: &str) {
    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    clusters.delete(name, &DeleteParams::default()).await.unwrap();
    let wait = kube::runtime::wait::await_condition(clusters, name, |o: Option<&DynamicObject>| o.is_none());
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("it is never gone\n{}", kit.story(name).await);
    }
    let here: Api<Namespace> = Api::all(kit.client());
    let plane = format!("{NAMESPACE}-{name}");
    let wait = kube::runtime::wait::await_condition(here, &plane, |o: Option<&Namespace>| o.is_none());
    tokio::time::timeout(DEADLINE, wait).await.expect("its namespace is gone").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_back_from_a_snapshot() {
    let kit = Kit::start(Flavour::Workload).await;
    assert_eq!(comes_back(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn comes_back<P: Place>(kit: &Kit<P>) -> Reached {
    let (container, login) = storage(kit).await;
    let demo = kit.sample("demo");
    let name = demo.name.as_str();
    kit.create(&demo).await;
    if let Some(stuck) = kit.stuck(&demo).await {
        return stuck;
    }
    kit.available(name).await;
    if !kit.world.reaches_azure() {
        let why = "its pods would have to bring a snapshot to the Azure of this process";
        return kit.give_up(&demo, why.to_owned()).await;
    }
    let plane = demo.plane();
    let shop = namespace(kit, name, "shop").await;
    note(kit, name, "early").await;

    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "backup-login", "namespace": plane}});
    secret["stringData"] = json!({"AZURE_TENANT_ID": login["AZURE_TENANT_ID"], "AZURE_CLIENT_ID": login["AZURE_CLIENT_ID"],
        "AZURE_CLIENT_SECRET": "another"});
    create(kit, &kinds::SECRET, &plane, secret.clone()).await;
    // A login that Entra refuses: told with its words.
    let o = back_up(kit, &demo, "refused").await;
    assert!(says(&o.data["status"], "BackupCompleted", "False", "AADSTS"), "{}", o.data);
    let secrets = kit.api(&kinds::SECRET, &plane);
    secret["stringData"] = login;
    let change = kube::api::Patch::Merge(json!({"stringData": secret["stringData"]}));
    secrets.patch("backup-login", &Default::default(), &change).await.unwrap();
    let o = back_up(kit, &demo, "nightly").await;
    assert!(says(&o.data["status"], "BackupCompleted", "True", "the snapshot is at"), "{}", o.data);
    let url = o.data["status"]["snapshotURL"].as_str().unwrap().to_owned();
    let blob = url.split_once("/etcd/").unwrap().1.to_owned();
    assert!(container.head(&blob).await.unwrap().is_some_and(|b| b.size > 1000), "{url}");
    let told =
        |s: &Value| is_true(s, "EtcdBackupSucceeded") && s["lastSuccessfulEtcdBackupURL"] == url.as_str();
    kit.until(name, "the backup is told", told).await;
    note(kit, name, "late").await;

    // Clusters that are to begin from what is damaged, or not there, say so and begin from nothing else.
    let whole = container.get(&blob, 64 << 20).await.unwrap().content.to_vec();
    let mut broken = whole.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 0x55;
    container.put("broken.db", broken, &PutOptions::default()).await.unwrap();
    let at = |name: &str| format!("https://{}.blob.core.windows.net/etcd/{name}", account(kit));
    let causes = [("broken", at("broken.db"), "damaged"), ("missing", at("missing.db"), "404")];
    for (name, url, _) in &causes {
        kit.create(&kit.sample(name).restored_from(url)).await;
    }
    for (name, _, words) in causes {
        let bad = kit.sample(name);
        let o = kit.until(&bad.name, "the cause", |s| says(s, "EtcdAvailable", "False", words)).await;
        assert!(!is_true(&o.data["status"], "Available"));
        let Some(disk) = disk(kit, &bad.plane(), 0).await else { continue };
        let data = disk.join("data");
        assert!(!data.exists() || std::fs::read_dir(&data).unwrap().next().is_none(), "nothing is made up");
    }
    // A cluster that has data cannot be told to forget it.
    let patch =
        json!({"spec": {"etcd": {"managed": {"storage": {"restoreSnapshotURL": [at("broken.db")]}}}}});
    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    let refused = clusters.patch(name, &Default::default(), &kube::api::Patch::Merge(patch)).await;
    assert!(refused.unwrap_err().to_string().contains("restoreSnapshotURL"));
    assert!(noted(kit, name, "late").await);

    // Everything is lost, and made again from the snapshot.
    gone(kit, name).await;
    let mut again = demo.clone().restored_from(&url);
    // What it names outlived it.
    again.inputs.clear();
    again.cluster["metadata"]["annotations"]["hypershift.openshift.io/restored-from-backup"] = json!("");
    kit.create(&again).await;
    kit.available(name).await;
    let back = |s: &Value| says(s, "HostedClusterRestoredFromBackup", "True", "back from its backup");
    kit.until(name, "it has recovered", back).await;
    let unmarked =
        |o: &DynamicObject| !format!("{:?}", o.metadata.annotations).contains("restored-from-backup");
    until(kit, name, "the mark goes", kit.api(&kinds::CLUSTER, NAMESPACE), name, unmarked).await;
    let spaces: Api<Namespace> = Api::all(kit.admin(name).await);
    assert_eq!(spaces.get("shop").await.unwrap().metadata.uid, shop.metadata.uid, "the same objects");
    assert!(noted(kit, name, "early").await && !noted(kit, name, "late").await);
    let planes = kit.api(&kinds::PLANE, &plane);
    until(kit, name, "it is told", planes, name, |o| is_true(&o.data["status"], "EtcdSnapshotRestored"))
        .await;
    note(kit, name, "after").await;
    // It began from the snapshot once: whoever starts again goes on with what there is.
    crate::tools::replace(kit, name, "etcd").await;
    kit.available(name).await;
    assert!(noted(kit, name, "early").await && noted(kit, name, "after").await);
    Reached::End
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_lose_their_disks_are_given_the_data_by_the_others() {
    let kit = Kit::start(Flavour::Workload).await;
    assert_eq!(members_lost(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn members_lost<P: Place>(kit: &Kit<P>) -> Reached {
    let prod = kit.sample("prod").highly_available();
    let name = prod.name.as_str();
    kit.create(&prod).await;
    if let Some(stuck) = kit.stuck(&prod).await {
        return stuck;
    }
    kit.available(name).await;
    let plane = prod.plane();
    note(kit, name, "before").await;
    let (pods, claims) = (kit.api(&crate::kit::POD, &plane), kit.api(&CLAIM, &plane));
    let whole = async || {
        let set = kit.api(&STATEFUL_SET, &plane);
        until(kit, name, "three members", set, "etcd", |o| o.data["status"]["readyReplicas"] == 3).await;
    };
    // One after the other: at the end nobody has a disk of the beginning.
    for member in 0..3 {
        let (pod, claim) = (format!("etcd-{member}"), format!("data-etcd-{member}"));
        let was = claims.get(&claim).await.unwrap().metadata.uid;
        claims.delete(&claim, &DeleteParams::default()).await.unwrap();
        pods.delete(&pod, &DeleteParams::default()).await.unwrap();
        until(kit, name, "another disk", claims.clone(), &claim, |o| o.metadata.uid != was).await;
        // The others go on meanwhile.
        note(kit, name, &format!("without-{member}")).await;
        let back = |o: &DynamicObject| {
            o.metadata.deletion_timestamp.is_none() && is_true(&o.data["status"], "Ready")
        };
        until(kit, name, "it is back", pods.clone(), &pod, back).await;
        whole().await;
    }
    // A disk that cannot be read: three starts fail, then the operator gives it up.
    if let Some(damaged) = disk(kit, &plane, 1).await {
        let was = claims.get("data-etcd-1").await.unwrap().metadata.uid;
        for file in std::fs::read_dir(damaged.join("data")).unwrap().flatten() {
            if file.path().is_file() {
                std::fs::write(file.path(), b"this is no log of any store").unwrap();
            }
        }
        pods.delete("etcd-1", &DeleteParams::default()).await.unwrap();
        until(kit, name, "it is given up", claims.clone(), "data-etcd-1", |o| o.metadata.uid != was).await;
        whole().await;
    }
    kit.available(name).await;
    for note in ["before", "without-0", "without-1", "without-2"] {
        assert!(noted(kit, name, note).await, "{note}");
    }
    Reached::End
}
