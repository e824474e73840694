//! The preflight against an Azure: what `create iam` and `create infra` make is good, and what is then broken is named.

use arm::ResourceId;
use azure::ops::{ResourceGroups, RoleAssignments, SecurityGroups, VirtualNetworks};
use azure::{Client, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config, Profile};
use hypershift::preflight::azure::Arm;
use hypershift::preflight::{Asked, Preflight};
use landing_zone::Cluster;
use landing_zone::iam::Iam;
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::roles::Assign;
use landing_zone::run::{Options, create_iam, create_infra};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

fn quiet(_: landing_zone::run::Progress<'_>) {}

async fn zone(client: &Client, subscription: &ResourceId) -> Asked {
    let cluster = Cluster::new("demo", "demo-x7k2p").unwrap();
    let iam = Iam {
        cluster: cluster.clone(),
        subscription: subscription.clone(),
        group: "demo-identities".into(),
        location: "westus2".into(),
        issuer: "https://issuer.example.test/demo".into(),
        kms: false,
        adopt: false,
    };
    let ids = create_iam(client, &iam, Options::default(), &quiet).await.unwrap().1.unwrap();
    let infra = Infra {
        cluster,
        subscription: subscription.clone(),
        location: "westus2".into(),
        base_domain: "example.zaffre.test".into(),
        group: None,
        tags: BTreeMap::new(),
        vnet: None,
        subnet: None,
        security_group: None,
        identities: Identities::Workload(ids.clone()),
        assign: Some(Assign { custom: false, dns_group: "zaffre-dns".into(), image_registry: true }),
        nat_subnet: None,
        adopt: false,
    };
    assert!(create_infra(client, &infra, Options::default(), &quiet).await.unwrap().0.is_good());
    let at = infra.layout().unwrap();
    let identities = [
        ("cloud-provider", ids.cloud_provider.client_id),
        ("ingress", ids.ingress.client_id),
        ("azure-file", ids.file.client_id),
        ("azure-disk", ids.disk.client_id),
        ("cncc", ids.network.client_id),
        ("ciro", ids.image_registry.client_id),
        ("capz", ids.node_pool_management.client_id),
    ];
    Asked {
        cloud: "AzurePublicCloud".into(),
        subscription: subscription.subscription().unwrap().into(),
        tenant: "t".into(),
        location: "westus2".into(),
        resource_group: at.main.name().into(),
        subnet: format!("{}/subnets/default", at.vnet),
        vnet: at.vnet.to_string(),
        security_group: at.security_group.to_string(),
        identities: identities.into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_made_for_a_cluster_is_good_and_what_is_broken_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::local(7);
    (config.profile, config.ca_file) = (Profile::Instant, Some(dir.path().join("ca.pem")));
    let sim = AzureSim::start(config).await.unwrap();
    let options = ClientOptions { poll_default: Duration::from_millis(10), ..ClientOptions::default() };
    let connected = connect(&Env::parse(&sim.env()), options).await.unwrap();
    let client = connected.client;
    let subscription = ResourceId::subscription_scope(&connected.subscription.unwrap()).unwrap();
    let asked = zone(&client, &subscription).await;
    let azure = Arm::new(client.clone());
    let verdict = azure.ask(&asked).await;
    assert!(verdict.good(), "{verdict:#?}");
    assert!(!azure.group_gone(&asked).await);

    let said = async |asked: &Asked| {
        let v = azure.ask(asked).await;
        assert!(v.unknown.is_empty(), "{v:?}");
        [v.places, v.identities].concat().join("\n")
    };
    let mut other = asked.clone();
    other.location = "eastus".into();
    let text = said(&other).await;
    assert!(
        text.contains("spec.platform.azure.vnetID is in westus2")
            && text.contains("securityGroupID is in westus2"),
        "{text}"
    );
    let mut other = asked.clone();
    other.subnet = other.subnet.replace("/default", "/nowhere");
    let text = said(&other).await;
    assert!(
        text.contains("spec.platform.azure.subnetID") && text.contains("does not exist: create the subnet"),
        "{text}"
    );
    let mut other = asked.clone();
    other.identities.insert("azure-disk", "99999999-0000-0000-0000-000000000000".into());
    let text = said(&other).await;
    assert!(
        text.contains("the identity disk has client id 99999999") && text.contains("no such principal"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");

    // A foreign network: the identities have no roles there.
    let group = ResourceId::group_scope(subscription.subscription().unwrap(), "foreign").unwrap();
    client
        .arm::<ResourceGroups>()
        .put(&group, &serde_json::from_value(json!({"location": "westus2"})).unwrap())
        .await
        .unwrap();
    let vnet = group.provider("Microsoft.Network", "virtualNetworks", "v").unwrap();
    let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.9.0.0/16"]},
        "subnets": [{"name": "default", "properties": {"addressPrefix": "10.9.0.0/24"}}]}});
    client.arm::<VirtualNetworks>().put(&vnet, &serde_json::from_value(body).unwrap()).await.unwrap();
    let mut other = asked.clone();
    (other.vnet, other.subnet) = (vnet.to_string(), format!("{vnet}/subnets/default"));
    let text = said(&other).await;
    for who in ["cloudProvider", "file", "network", "nodePoolManagement"] {
        assert!(text.contains(&format!("the identity {who} (client id")), "{who}: {text}");
    }
    assert!(
        text.contains("may not do Microsoft.Network/virtualNetworks/subnets/join/action at /subscriptions/"),
        "{text}"
    );

    // A role is taken away.
    let main = ResourceId::group_scope(&asked.subscription, &asked.resource_group).unwrap();
    let disk =
        client.graph().service_principal_of(&asked.identities["azure-disk"]).await.unwrap().unwrap().id;
    for a in client.arm::<RoleAssignments>().list_all(&main).await.unwrap() {
        if a.properties.as_ref().and_then(|p| p.principal_id.as_deref()) == Some(disk.as_str()) {
            client.arm::<RoleAssignments>().delete(&a.id.unwrap()).await.unwrap();
        }
    }
    let text = said(&asked).await;
    assert!(
        text.contains("the identity disk (client id") && text.contains("Microsoft.Compute/disks/write"),
        "{text}"
    );

    // The security group, then the whole group, is gone.
    let nsg = ResourceId::parse(&asked.security_group).unwrap();
    let mut other = asked.clone();
    other.security_group = nsg.to_string().replace("-nsg", "-none");
    assert!(client.arm::<SecurityGroups>().find(&nsg).await.unwrap().is_some());
    assert!(said(&other).await.contains("spec.platform.azure.securityGroupID"));
    client.arm::<ResourceGroups>().delete(&main).await.unwrap();
    assert!(azure.group_gone(&asked).await);
    assert!(said(&asked).await.contains("az group create -n demo-demo-x7k2p -l westus2"));
    sim.stop();

    // Azure is away: nothing is known, and nothing is claimed.
    let verdict = azure.ask(&asked).await;
    assert!(
        verdict.places.is_empty() && verdict.identities.is_empty() && !verdict.unknown.is_empty(),
        "{verdict:?}"
    );
    assert!(!azure.group_gone(&asked).await, "not knowing is not knowing that it is gone");
}
