//! The self-managed flavour: minted tokens, exchanged by federation.

use crate::kit::is_ready;
use crate::stage::{Stage, apply, identity};
use arm::ResourceId;
use azure::ops::{Disks, FederatedCredentials, RoleAssignments};
use futures::TryStreamExt;
use serde_json::{Value, json};

/// What the config operator tells components about Azure.
async fn tell(guest: &kube::Client, stage: &Stage, group: &str, zone: &ResourceId) {
    let dns = json!({"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"},
        "spec": {"publicZone": {"id": zone.as_str()}}});
    apply(guest, dns).await;
    for (ns, name) in [
        ("openshift-ingress-operator", "cloud-credentials"),
        ("openshift-image-registry", "installer-cloud-credentials"),
    ] {
        let data = json!({"azure_subscription_id": stage.azure.subscription.subscription(),
            "azure_resourcegroup": group, "azure_region": "westus2"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": ns}, "stringData": data});
        apply(guest, secret).await;
    }
}

async fn credentials(stage: &Stage, suffix: &str) -> Vec<(ResourceId, Value)> {
    let group =
        ResourceId::group_scope(stage.azure.subscription.subscription().unwrap(), "demo-identities").unwrap();
    let all: Vec<_> = (stage.azure.client.arm::<azure::ops::UserAssignedIdentities>().list(&group))
        .try_collect()
        .await
        .unwrap();
    let mut found = Vec::new();
    for i in all {
        let i = serde_json::to_value(i).unwrap();
        if !i["name"].as_str().unwrap().contains(suffix) {
            continue;
        }
        let id = ResourceId::parse(i["id"].as_str().unwrap()).unwrap();
        let of: Vec<_> =
            stage.azure.client.arm::<FederatedCredentials>().list(&id).try_collect().await.unwrap();
        for c in of {
            let c = serde_json::to_value(c).unwrap();
            found.push((ResourceId::parse(c["id"].as_str().unwrap()).unwrap(), c));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minted_tokens_open_azure_and_what_is_refused_is_seen() {
    let stage = Stage::start().await;
    let (ids, at, zone) = stage.workload().await;
    let scope = stage.scope(identity(&ids), &at);
    let guest = stage.guest().await;
    stage.furnish(&guest).await;
    tell(&guest, &stage, at.main.name(), &zone).await;
    stage
        .secret(
            "cloud-network-config-controller-creds",
            &[
                ("azure_region", "westus2"),
                ("azure_resourcegroup", at.main.name()),
                ("azure_subscription_id", &scope.azure.subscription),
                ("azure_tenant_id", &scope.azure.tenant),
                ("azure_client_id", &ids.network.client_id),
                ("azure_federated_token_file", "/var/run/secrets/openshift/serviceaccount/token"),
            ],
        )
        .await;
    for name in ["cluster-image-registry-operator", "cluster-storage-operator-serving-cert"] {
        stage.secret(name, &[("tls.crt", "x"), ("tls.key", "x")]).await;
    }
    stage.deploy(&scope, "azure-cloud-controller-manager").await;
    stage.ready("azure-cloud-controller-manager").await;
    let log = stage.log("azure-cloud-controller-manager", "cloud-controller-manager").await;
    assert!(log.contains("load balancers of") && log.contains(at.main.as_str()), "{log}");
    // The token that was exchanged was really minted into the volume both share, before the program began.
    let pod = &stage.pods("azure-cloud-controller-manager")[0];
    let minter = &pod["status"]["initContainerStatuses"];
    let minter = minter.as_array().unwrap().iter().find(|c| c["name"] == "cloud-token-minter").unwrap();
    assert_eq!((&minter["started"], &minter["restartCount"]), (&json!(true), &json!(0)), "{minter}");

    for component in [
        "ingress-operator",
        "cluster-image-registry-operator",
        "cluster-storage-operator",
        "cluster-network-operator",
    ] {
        stage.deploy(&scope, component).await;
    }
    for (app, container, words) in [
        ("ingress-operator", "ingress-operator", "/A/zaffre-probe-clusters-demo"),
        ("cluster-image-registry-operator", "cluster-image-registry-operator", "storage accounts of"),
        ("azure-disk-csi-driver-controller", "csi-driver", "created and deleted"),
        ("azure-file-csi-driver-controller", "csi-driver", "storage accounts of"),
        ("cloud-network-config-controller", "controller", "network interfaces of"),
    ] {
        stage.ready(app).await;
        let log = stage.log(app, container).await;
        assert!(log.contains(words), "{app}: {log}");
    }
    stage.ready("cluster-storage-operator").await;
    stage.ready("cluster-network-operator").await;
    let group = ResourceId::group_scope(&scope.azure.subscription, at.main.name()).unwrap();
    let disks: Vec<_> = stage.azure.client.arm::<Disks>().list(&group).try_collect().await.unwrap();
    assert!(disks.is_empty(), "the disk is gone");

    // A federated credential is taken away: the next program is told by Entra ID, and tells us.
    let taken = credentials(&stage, "-cloud-provider").await;
    assert_eq!(taken.len(), 1);
    stage.azure.client.arm::<FederatedCredentials>().delete(&taken[0].0).await.unwrap();
    stage.replace("azure-cloud-controller-manager").await;
    stage.ended("azure-cloud-controller-manager", "AADSTS7002").await;
    let words = stage.last_words("azure-cloud-controller-manager");
    assert!(words.contains("cannot list load balancers") && words.contains("federated"), "{words}");
    assert!(!stage.pods("azure-cloud-controller-manager").iter().any(is_ready));
    // It comes back: the container is started again, and all is well.
    let mut body = taken[0].1.clone();
    body.as_object_mut().unwrap().retain(|k, _| k == "properties");
    stage.put::<FederatedCredentials>(&taken[0].0, body).await;
    stage.ready("azure-cloud-controller-manager").await;

    // A role is taken away: Resource Manager says what is missing, and the operator passes it on.
    let mut roles: Vec<Value> = Vec::new();
    let all: Vec<_> = stage.azure.client.arm::<RoleAssignments>().list(&group).try_collect().await.unwrap();
    for r in all {
        let r = serde_json::to_value(r).unwrap();
        if r["properties"]["roleDefinitionId"]
            .as_str()
            .unwrap()
            .ends_with("5b7237c5-45e1-49d6-bc18-a1f62f400748")
        {
            let id = ResourceId::parse(r["id"].as_str().unwrap()).unwrap();
            stage.azure.client.arm::<RoleAssignments>().delete(&id).await.unwrap();
            roles.push(r);
        }
    }
    assert_eq!(roles.len(), 1);
    stage.replace("azure-disk-csi-driver-controller").await;
    stage.ended("azure-disk-csi-driver-controller", "AuthorizationFailed").await;
    stage
        .until("the operator is not ready", || !stage.pods("cluster-storage-operator").iter().any(is_ready))
        .await;
    stage
        .until("the operator says why", || {
            let said = stage.events("Unhealthy");
            said.iter().any(|m| {
                m.contains("azure-disk-csi-driver-controller is not available")
                    && m.contains("AuthorizationFailed")
            })
        })
        .await;
    assert!(stage.pods("azure-file-csi-driver-controller").iter().any(is_ready), "others are as they were");
    stage.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_yet_is_waited_for() {
    let stage = Stage::start().await;
    let (ids, at, _) = stage.workload().await;
    let scope = stage.scope(identity(&ids), &at);
    let guest = stage.guest().await;
    stage.furnish(&guest).await;
    stage.deploy(&scope, "ingress-operator").await;
    // The guest has no credentials and no DNS: the program runs, is not ready, and says why.
    stage
        .until("it says what is missing", || {
            let said = stage.events("Unhealthy");
            said.iter().any(|m| {
                m.contains(
                    "Secret openshift-ingress-operator/cloud-credentials of the guest: it is not there yet",
                )
            })
        })
        .await;
    assert!(!stage.pods("ingress-operator").iter().any(is_ready));
    stage.kit.stop().await;
}
