//! The managed flavour: certificates in a vault, mounted by the secrets-store driver.

use crate::kit::is_ready;
use crate::stage::{NS, READER, Stage};
use crate::support::quiet;
use azure::vault::SetSecret;
use control_plane::scope::{Identity, Scope, VaultSecret, Who};
use landing_zone::Cluster;
use landing_zone::identities::{ControlPlaneIdentities, Identities};
use landing_zone::managed::{Encoding, Managed, create};
use landing_zone::run::Options;
use serde_json::Value;

pub fn managed(stage: &Stage) -> Managed {
    Managed {
        mark: Cluster::shared("aro").unwrap(),
        subscription: stage.azure.subscription.clone(),
        group: "aro-shared".to_owned(),
        location: "westus2".to_owned(),
        vault: "aro-vault".to_owned(),
        issuer: stage.hosted.issuer.clone(),
        encoding: Encoding::Base64,
        validity: 90,
        renew: None,
        adopt: false,
        make: landing_zone::managed::new_key,
    }
}

pub async fn identities(stage: &Stage, m: &Managed) -> (ControlPlaneIdentities, Identities) {
    let made = create(&stage.azure.client, m, Options::default(), &quiet).await.unwrap();
    assert!(made.outcome.is_good() && made.failed.is_empty());
    let (control_plane, data_plane) = made.files.unwrap();
    (control_plane.clone(), Identities::Managed { control_plane, data_plane })
}

pub async fn scope(stage: &Stage, m: &Managed) -> Scope {
    let (cp, ids) = identities(stage, m).await;
    let infra = stage.azure.infra("demo", ids);
    stage.azure.make_infra(&infra).await;
    let secrets = [
        (Who::CloudProvider, &cp.cloud_provider),
        (Who::Disk, &cp.disk),
        (Who::File, &cp.file),
        (Who::Network, &cp.network),
        (Who::Ingress, &cp.ingress),
        // The vault of the identities has none for KMS; this one has no other use here.
        (Who::Kms, &cp.control_plane_operator),
    ];
    let secrets = secrets.map(|(who, i)| {
        let (name, encoding) = (i.credentials_secret_name.clone(), i.object_encoding.clone());
        (who, VaultSecret { name, encoding, client_id: i.client_id.clone() })
    });
    let identity = Identity::Managed {
        vault: cp.managed_identities_key_vault.name.clone(),
        tenant: cp.managed_identities_key_vault.tenant_id.clone(),
        reader: READER.into(),
        secrets: secrets.into(),
    };
    stage.scope(identity, &infra.layout().unwrap())
}

/// The mounted credential as the container sees it.
async fn mounted(stage: &Stage, app: &str, container: &str, file: &str) -> Value {
    let pods = stage.pods(app);
    let pod = pods.iter().find(|p| is_ready(p)).expect("a pod that is ready");
    let name = pod["metadata"]["name"].as_str().unwrap();
    let words = vec!["cat".to_owned(), format!("/mnt/certs/{file}")];
    let out = stage.kit.nodes.exec("main", NS, name, container, words).await.unwrap();
    serde_json::from_slice(&out.stdout).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_mounted_used_and_renewed() {
    let stage = Stage::start().await;
    let mut m = managed(&stage);
    let scope = scope(&stage, &m).await;
    let guest = stage.guest().await;
    stage.furnish(&guest).await;
    stage.secret("cluster-storage-operator-serving-cert", &[("tls.crt", "x"), ("tls.key", "x")]).await;
    stage.deploy(&scope, "azure-cloud-controller-manager").await;
    stage.ready("azure-cloud-controller-manager").await;
    let (app, container) = ("azure-cloud-controller-manager", "cloud-controller-manager");
    let log = stage.log(app, container).await;
    assert!(log.contains("load balancers of"), "{log}");
    assert!(!log.contains("PRIVATE"), "nothing secret in the log");
    let first = mounted(&stage, app, container, "aro-cloud-provider").await;
    assert_eq!(first["client_id"], scope.identity.client_id(Who::CloudProvider).unwrap());

    // Renewed in the vault: the file follows, and the program uses the new one.
    m.renew = Some(91);
    identities(&stage, &m).await;
    let before = calls(&stage);
    // Two minutes are long for a test: the next pod mounts at once.
    stage.replace(app).await;
    stage.ready(app).await;
    let second = mounted(&stage, app, container, "aro-cloud-provider").await;
    assert_ne!(second["client_secret"], first["client_secret"]);
    assert!(calls(&stage) > before, "and asked Azure again");

    // What the storage operator brings mounts its own.
    let api = crate::kit::is_ready;
    stage.deploy(&scope, "cluster-storage-operator").await;
    stage.until("the disk driver", || stage.pods("azure-disk-csi-driver-controller").iter().any(api)).await;
    let log = stage.log("azure-disk-csi-driver-controller", "csi-driver").await;
    assert!(log.contains("created and deleted"), "{log}");
    stage.kit.stop().await;
}

fn calls(stage: &Stage) -> usize {
    stage.azure.calls().iter().filter(|c| c.path.contains("/loadBalancers")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_mounted_says_why_and_comes_when_it_can() {
    let stage = Stage::start().await;
    let m = managed(&stage);
    let mut scope = scope(&stage, &m).await;
    let _guest = stage.guest().await;
    let app = "azure-cloud-controller-manager";
    // A secret that the vault does not have.
    if let Identity::Managed { secrets, .. } = &mut scope.identity {
        secrets.get_mut(&Who::CloudProvider).unwrap().name = "late".into();
    }
    stage.deploy(&scope, app).await;
    stage.ended(app, "MountVolume.SetUp failed for volume \"cloud-provider-cert\"").await;
    let words = stage.last_words(app);
    for part in ["objectName:late", "vault aro-vault", READER, "SecretNotFound"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // It comes, and is junk: the program says so.
    let vault = stage.azure.client.vault("aro-vault").unwrap();
    let good = vault.secrets().get("aro-cloud-provider").await.unwrap().value.unwrap();
    vault.secrets().set("late", &SetSecret::new("anVuaw==")).await.unwrap();
    stage.ended(app, "is not an MSI credential").await;
    // Repaired: the next start mounts it.
    vault.secrets().set("late", &SetSecret::new(good.expose())).await.unwrap();
    stage.replace(app).await;
    stage.ready(app).await;

    // An identity that the nodes do not have, a class that is not there.
    if let Identity::Managed { reader, .. } = &mut scope.identity {
        *reader = "00000000-0000-0000-0000-0000000000ff".into();
    }
    stage.deploy(&scope, app).await;
    stage.replace(app).await;
    stage.ended(app, "the nodes have no identity \"00000000-0000-0000-0000-0000000000ff\"").await;
    stage
        .kit
        .delete("secrets-store.csi.x-k8s.io/secretproviderclasses", NS, "managed-azure-cloud-provider")
        .await;
    stage.replace(app).await;
    stage
        .ended(app, "secretproviderclass clusters-demo/managed-azure-cloud-provider, error: not found")
        .await;
    stage.kit.stop().await;
}
