//! The preflight against an Azure: what `create iam` and `create infra` make is good, and what is then broken is named.

use arm::ResourceId;
use azure::ops::{ResourceGroups, RoleAssignments, SecurityGroups, Vaults, VirtualNetworks};
use azure::{Client, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config, Profile};
use hypershift::preflight::azure::Arm;
use hypershift::preflight::{Asked, Issuer, Key, Preflight, Verdict};
use hypershift::signing;
use landing_zone::Cluster;
use landing_zone::iam::Iam;
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::issuer::{KeyDir, Keys, Rotation, SigningKey};
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
        kms: true,
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
        ("cpo", ids.control_plane_operator.unwrap().client_id),
    ];
    let zone = format!(
        "{subscription}/resourceGroups/zaffre-dns/providers/Microsoft.Network/dnsZones/example.zaffre.test"
    );
    Asked {
        cloud: "AzurePublicCloud".into(),
        subscription: subscription.subscription().unwrap().into(),
        tenant: "t".into(),
        location: "westus2".into(),
        resource_group: at.main.name().into(),
        subnet: format!("{}/subnets/default", at.vnet),
        vnet: at.vnet.to_string(),
        security_group: at.security_group.to_string(),
        zone: Some(zone),
        identities: identities.into(),
        // Its vault is nobody's that we could see.
        kms: Some(Key {
            vault: "elsewhere".into(),
            name: "etcd".into(),
            client_id: ids.kms_client_id.unwrap(),
        }),
        issuer: None,
    }
}

/// The key that data is encrypted with: by access policies, then by roles.
async fn keys(client: &Client, azure: &Arm, asked: &Asked, group: &ResourceId) {
    let vaults = client.arm::<Vaults>();
    let at = vaults.id(group, "demokms").unwrap();
    let tenant = client.graph().service_principal_of(&asked.identities["cpo"]).await.unwrap().unwrap();
    let user = &asked.kms.as_ref().unwrap().client_id;
    let user = client.graph().service_principal_of(user).await.unwrap().unwrap().id;
    let body = |roles: bool, policies: serde_json::Value| {
        let tenant = "11111111-1111-1111-1111-111111111111";
        serde_json::from_value(json!({"location": "westus2", "properties": {"tenantId": tenant,
            "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": roles, "accessPolicies": policies}}))
        .unwrap()
    };
    let policy = |who: &str, verbs: &[&str]| json!({"tenantId": "11111111-1111-1111-1111-111111111111", "objectId": who, "permissions": {"keys": verbs}});
    let mut asked = asked.clone();
    asked.kms.as_mut().unwrap().vault = "demokms".into();
    vaults
        .put(&at, &body(false, json!([policy(&tenant.id, &["all"]), policy(&user, &["Encrypt"])])))
        .await
        .unwrap();
    let found = azure.ask(&asked).await;
    let [text] = &found.identities[..] else { panic!("{found:?}") };
    assert!(text.contains("may not decrypt with key etcd of vault demokms"), "{text}");
    assert!(text.contains("az keyvault set-policy --name demokms --spn"), "{text}");
    vaults.put(&at, &body(false, json!([policy(&user, &["encrypt", "decrypt"])]))).await.unwrap();
    assert!(azure.ask(&asked).await.good());
    vaults.put(&at, &body(true, json!([]))).await.unwrap();
    let found = azure.ask(&asked).await;
    let [text] = &found.identities[..] else { panic!("{found:?}") };
    assert!(
        text.contains("may not encrypt and decrypt with key etcd") && text.contains("Crypto User"),
        "{text}"
    );
    // At the key alone is enough.
    let key = at.child("keys", "etcd").unwrap();
    let role = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/12338af0-0e69-4776-bea7-57ae8d297424",
        asked.subscription
    );
    let grants = client.arm::<RoleAssignments>();
    let grant = grants.id(&key, "7a3c4c1e-5f5b-4a43-9f6e-0a7c9d1c2b3d").unwrap();
    let body = json!({"properties": {"principalId": user, "roleDefinitionId": role, "principalType": "ServicePrincipal"}});
    grants.put(&grant, &serde_json::from_value(body).unwrap()).await.unwrap();
    let found = azure.ask(&asked).await;
    assert!(found.good(), "{found:?}");
}

/// What an issuer publishes, read over https: the cluster's key is there, is not, or nobody can say.
async fn issuers(client: &Client, azure: &Arm, asked: &Asked, dir: &std::path::Path) {
    let subscription = ResourceId::subscription_scope(&asked.subscription).unwrap();
    let keys = Keys {
        dir: KeyDir::open(&dir.join("keys")).unwrap(),
        given: None,
        rotation: Rotation::Keep,
        make: SigningKey::generate,
    };
    let at = landing_zone::issuer::Issuer::new("demooidc", subscription, "demo-oidc", "westus2").unwrap();
    let (_, made) =
        landing_zone::issuer::create(client, &at, &keys, Options::default(), &quiet).await.unwrap();
    let url = made.unwrap().url;
    let private = std::fs::read(dir.join("keys/serviceaccount-signer.private")).unwrap();
    let kid = signing::kid(&signing::public_of(&private).unwrap()).unwrap();
    let mut asked = asked.clone();
    asked.issuer = Some(Issuer { url: url.clone(), kid: kid.clone() });
    assert_eq!(azure.ask(&asked).await, Verdict::default());

    asked.issuer = Some(Issuer { url: url.clone(), kid: "another".into() });
    let found = azure.ask(&asked).await;
    let [text] = &found.places[..] else { panic!("{found:?}") };
    assert!(text.contains("holds the key another") && text.contains(&format!("publishes {kid}:")), "{text}");

    for (url, why) in
        [(format!("{url}-none"), "404"), ("https://issuer.invalid/x".into(), "GET https://issuer.invalid")]
    {
        asked.issuer = Some(Issuer { url, kid: kid.clone() });
        let found = azure.ask(&asked).await;
        assert!(found.good(), "nobody is held: {found:?}");
        let text = found.unread.unwrap();
        assert!(
            text.contains("cannot be read from here, and it is tried again") && text.contains(why),
            "{text}"
        );
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
    let azure = Arm::new(client.clone()).reading_issuers(&Env::parse(&sim.env()));
    let verdict = azure.ask(&asked).await;
    assert_eq!(verdict, Verdict::default(), "{verdict:#?}");
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
    let verdict = azure.ask(&other).await;
    assert!(verdict.places.is_empty(), "a subnet without a security group can be used: {verdict:?}");
    assert!(
        verdict.notes.iter().any(|n| n.contains("has no security group") && n.contains("az network vnet subnet update --ids")),
        "{verdict:?}"
    );
    let text = said(&other).await;
    for who in ["cloudProvider", "file", "network", "nodePoolManagement", "ingress", "controlPlaneOperator"] {
        assert!(text.contains(&format!("the identity {who} (client id")), "{who}: {text}");
    }
    assert!(
        text.contains("may not do Microsoft.Network/virtualNetworks/subnets/join/action at /subscriptions/"),
        "{text}"
    );

    // A role at the subnet alone reaches it.
    let ingress = asked.identities["ingress"].clone();
    let who = client.graph().service_principal_of(&ingress).await.unwrap().unwrap().id;
    let subnet = ResourceId::parse(&other.subnet).unwrap();
    let role = format!(
        "{subscription}/providers/Microsoft.Authorization/roleDefinitions/0336e1d3-7a87-462b-b6db-342b63f7802c"
    );
    let grants = client.arm::<RoleAssignments>();
    let grant = grants.id(&subnet, "1b3c4c1e-5f5b-4a43-9f6e-0a7c9d1c2b3d").unwrap();
    let body = json!({"properties": {"principalId": who, "roleDefinitionId": role, "principalType": "ServicePrincipal"}});
    grants.put(&grant, &serde_json::from_value(body).unwrap()).await.unwrap();
    assert!(!said(&other).await.contains("the identity ingress"));

    // A foreign security group exists, and the subnet has another.
    let foreign = group.provider("Microsoft.Network", "networkSecurityGroups", "theirs").unwrap();
    let body = serde_json::from_value(json!({"location": "westus2", "properties": {}})).unwrap();
    client.arm::<SecurityGroups>().put(&foreign, &body).await.unwrap();
    let mut other = asked.clone();
    other.security_group = foreign.to_string();
    let text = said(&other).await;
    assert!(
        text.contains(&format!(
            "spec.platform.azure.securityGroupID is {foreign}, and the subnet {} has {}",
            asked.subnet, asked.security_group
        )),
        "{text}"
    );
    assert!(text.contains(&format!("--network-security-group {foreign}`")), "{text}");
    // Azure does not mind how ids are written.
    let mut other = asked.clone();
    other.security_group = asked.security_group.to_uppercase().replace("/SUBSCRIPTIONS/", "/subscriptions/");
    assert!(azure.ask(&other).await.places.is_empty());

    // Identities of nodes must exist; of public zones, rights are looked at where there is one.
    let mut other = asked.clone();
    other.identities.insert("azure-fileWI", "99999999-0000-0000-0000-000000000001".into());
    let text = said(&other).await;
    assert!(text.contains("the identity dataPlane.fileMSIClientID has client id 99999999"), "{text}");
    let mut other = asked.clone();
    other.zone = Some(group.provider("Microsoft.Network", "dnsZones", "their.example").unwrap().to_string());
    let text = said(&other).await;
    assert!(
        text.contains("the identity ingress") && text.contains("Microsoft.Network/dnsZones/A/write"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    keys(&client, &azure, &asked, &group).await;
    issuers(&client, &azure, &asked, dir.path()).await;

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
