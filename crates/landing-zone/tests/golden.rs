//! Plans and output files of the usual configurations, as committed files.

use crate::support::{ISSUER, World, quiet, world};
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{ResourceGroups, SecurityGroups, Subnets, VirtualNetworks};
use azure::plan::plan;
use landing_zone::identities::{
    ControlPlaneIdentities, DataPlaneIdentities, Identities, IdentitiesVault, ManagedIdentity,
};
use landing_zone::infra::Infra;
use landing_zone::issuer::{self, Rotation};
use landing_zone::picture::Picture;
use landing_zone::run::Options;
use landing_zone::{MadeBy, managed, output, survey};
use serde_json::json;

/// The plan as it would be shown before anything is made; then it is made, and the output file.
async fn infra(w: &World, name: &str, infra: &Infra) {
    infra.check().unwrap();
    let (found, _) = survey::infra(&w.client, infra, &|_, _, _| {}).await.unwrap();
    let steps = plan(&found.goal, &found.observed).unwrap();
    let picture = Picture { title: name, plan: &steps, kept: &found.kept, extras: &found.extras };
    golden(&format!("{name}.plan.txt"), &picture.text());
    golden(&format!("{name}.plan.json"), &format!("{:#}", picture.json()));
    let (_, facts) = w.make_infra(infra).await;
    golden(&format!("{name}.infra.yaml"), &output::infra(infra, &facts).unwrap());
}

fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    testkit::golden::check(&path, text, testkit::Mode::from_env()).unwrap_or_else(|e| panic!("{e}"));
}

async fn workload(w: &World, cluster: &str) -> Identities {
    Identities::Workload(w.make_iam(&w.iam(cluster)).await)
}

#[tokio::test]
async fn self_managed_minimal() {
    let w = world().await;
    let iam = w.iam("min");
    let found = survey::iam(&w.client, &iam, &|_, _, _| {}).await.unwrap();
    let steps = plan(&found.goal, &found.observed).unwrap();
    golden(
        "iam.plan.txt",
        &Picture { title: "iam", plan: &steps, kept: &found.kept, extras: &found.extras }.text(),
    );
    let made = w.make_iam(&iam).await;
    let file = output::workload_identities(&made);
    assert!(!file.ends_with('\n'));
    golden("iam.workload-identities.json", &file);
    let mut input = w.infra("min", Identities::Workload(made));
    input.assign = None;
    infra(&w, "minimal", &input).await;
}

#[tokio::test]
async fn kms() {
    let w = world().await;
    let mut iam = w.iam("kms");
    iam.kms = true;
    let made = w.make_iam(&iam).await;
    golden("kms.workload-identities.json", &output::workload_identities(&made));
    infra(&w, "kms", &w.infra("kms", Identities::Workload(made))).await;
}

#[tokio::test]
async fn bring_your_own() {
    let w = world().await;
    let group = ResourceGroups::ROW.id(&w.subscription, "mine").unwrap();
    let net = ResourceGroups::ROW.id(&w.subscription, "mine-net").unwrap();
    for g in [&group, &net] {
        let body = serde_json::from_value(json!({"location": "westus2"})).unwrap();
        w.client.arm::<ResourceGroups>().put(g, &body).await.unwrap();
    }
    let nsg = SecurityGroups::ROW.id(&net, "nsg").unwrap();
    let body = serde_json::from_value(json!({"location": "westus2"})).unwrap();
    w.client.arm::<SecurityGroups>().put(&nsg, &body).await.unwrap();
    let vnet = VirtualNetworks::ROW.id(&net, "net").unwrap();
    let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.1.0.0/16"]},
        "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.1.0.0/24"}}]}});
    w.client.arm::<VirtualNetworks>().put(&vnet, &serde_json::from_value(body).unwrap()).await.unwrap();
    let mut input = w.infra("byo", workload(&w, "byo").await);
    input.group = Some("mine".to_owned());
    input.subnet = Some(vnet.child("subnets", "nodes").unwrap());
    input.vnet = Some(vnet);
    input.security_group = Some(nsg);
    infra(&w, "byo", &input).await;
}

#[tokio::test]
async fn one_group() {
    let w = world().await;
    let group = ResourceGroups::ROW.id(&w.subscription, "one").unwrap();
    let body = serde_json::from_value(json!({"location": "westus2"})).unwrap();
    w.client.arm::<ResourceGroups>().put(&group, &body).await.unwrap();
    let mut input = w.infra("one", workload(&w, "one").await);
    input.group = Some("one".to_owned());
    infra(&w, "one-group", &input).await;
}

#[tokio::test]
async fn managed_infra() {
    let w = world().await;
    let app = |name: &str| w.sim.world().add_app(name, "a secret of some length", Vec::new()).0;
    let identity = |name: &str| ManagedIdentity {
        client_id: app(name),
        credentials_secret_name: name.to_owned(),
        object_encoding: "utf-8".to_owned(),
    };
    let control_plane = ControlPlaneIdentities {
        managed_identities_key_vault: IdentitiesVault {
            name: "vault".to_owned(),
            tenant_id: w.sim.creds().tenant_id,
        },
        cloud_provider: identity("aro-cloud-provider"),
        node_pool_management: identity("aro-nodepool-mgmt"),
        control_plane_operator: identity("aro-cpo"),
        image_registry: Some(identity("aro-image-registry")),
        ingress: identity("aro-ingress"),
        network: identity("aro-network"),
        disk: identity("aro-disk"),
        file: identity("aro-file"),
    };
    let data_plane = DataPlaneIdentities {
        image_registry: app("dp-registry"),
        disk: app("dp-disk"),
        file: app("dp-file"),
    };
    infra(&w, "managed", &w.infra("aro", Identities::Managed { control_plane, data_plane })).await;
}

fn shown(name: &str, found: &survey::Survey) {
    let steps = plan(&found.goal, &found.observed).unwrap();
    let picture = Picture { title: name, plan: &steps, kept: &found.kept, extras: &found.extras };
    golden(&format!("{name}.plan.txt"), &picture.text());
    golden(&format!("{name}.plan.json"), &format!("{:#}", picture.json()));
}

/// What the managed flavour shares: before, when certificates are due, on the way back; and both files.
#[tokio::test]
async fn managed_identities() {
    let w = world().await;
    let mut m = crate::managed::managed(&w);
    shown("managed-identities", &managed::survey(&w.client, &m, &|_, _, _| {}).await.unwrap());
    let made = managed::create(&w.client, &m, Options::default(), &quiet).await.unwrap();
    let (control_plane, data_plane) = made.files.unwrap();
    // Applications are made side by side, so their ids come in any order.
    let mut text = serde_json::to_string_pretty(&control_plane).unwrap();
    let v = serde_json::to_value(&control_plane).unwrap();
    for (key, part) in v.as_object().unwrap() {
        if let Some(id) = part["clientID"].as_str() {
            text = text.replace(id, &format!("<client id of {key}>"));
        }
    }
    golden("managed-identities.control-plane.json", &text);
    golden("managed-identities.data-plane.json", &serde_json::to_string_pretty(&data_plane).unwrap());
    m.renew = Some(365);
    let due = managed::survey(&w.client, &m, &|_, _, _| {}).await.unwrap();
    let renewed =
        due.extras.iter().filter(|e| e.note.as_ref().is_some_and(|n| n.contains("it ends"))).count();
    assert_eq!(renewed, 8);
    let back = landing_zone::destroy::survey(&w.client, &w.shared("aro", MadeBy::ManagedIdentities)).await;
    shown("managed-identities-destroy", &back.unwrap());
}

#[tokio::test]
async fn oidc_issuer() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let look = async |rotation| {
        let keys = crate::oidc::keys(dir.path(), rotation);
        issuer::survey(&w.client, &crate::oidc::issuer(&w), &keys, &|_, _, _| {}).await.unwrap()
    };
    shown("oidc-issuer", &look(Rotation::Keep).await);
    crate::oidc::publish(&w, dir.path(), Rotation::Keep).await.unwrap();
    let kid = crate::oidc::kid_in(dir.path());
    let rotated = look(Rotation::Rotate).await;
    let lines: Vec<String> =
        rotated.extras.iter().map(|e| format!("{:?} {}", e.act, e.what.replace(&kid, "KID"))).collect();
    assert_eq!(
        lines,
        [
            "Change key KID",
            "Keep blob demooidc/.well-known/openid-configuration",
            "Change blob demooidc/openid/v1/jwks"
        ]
    );
    let back = landing_zone::destroy::survey(&w.client, &w.shared("demooidc", MadeBy::OidcIssuer)).await;
    shown("oidc-issuer-destroy", &back.unwrap());
}

#[tokio::test]
async fn a_subnet_for_private_links_is_told_on_and_nothing_is_made_for_it() {
    let w = world().await;
    let mut input = w.infra("prv", workload(&w, "prv").await);
    let group = ResourceGroups::ROW.id(&w.subscription, "management").unwrap();
    let network = VirtualNetworks::ROW.id(&group, "management").unwrap();
    let body = serde_json::from_value(serde_json::json!({"location": "westus2"})).unwrap();
    w.client.arm::<ResourceGroups>().put(&group, &body).await.unwrap();
    let body = serde_json::json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.224.0.0/16"]},
        "subnets": [{"name": "links", "properties": {"addressPrefix": "10.224.1.0/24", "privateLinkServiceNetworkPolicies": "Disabled"}}]}});
    let body = serde_json::from_value(body).unwrap();
    w.client.arm::<VirtualNetworks>().put(&network, &body).await.unwrap();
    input.nat_subnet = Some(Subnets::ROW.id(&network, "links").unwrap());
    infra(&w, "private", &input).await;
}

/// What a self-managed identity is told to accept; upstream's table, spelled out.
#[test]
fn subjects() {
    let cluster = landing_zone::Cluster::new("n", "i").unwrap();
    let subscription = ResourceId::subscription_scope("s").unwrap();
    let iam = landing_zone::iam::Iam {
        cluster,
        subscription,
        group: "g".to_owned(),
        location: "eastus".to_owned(),
        issuer: ISSUER.to_owned(),
        kms: true,
        adopt: false,
    };
    let goal = landing_zone::iam::wanted(&iam, true).unwrap();
    let lines: Vec<String> = goal
        .present
        .iter()
        .filter_map(|d| Some(format!("{} -> {}", d.id.name(), d.body["properties"]["subject"].as_str()?)))
        .collect();
    golden("subjects.txt", &lines.join("\n"));
}
