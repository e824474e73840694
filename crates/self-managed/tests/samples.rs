//! Command lines and the files they name.

use clap::Parser;
use self_managed::infra::Infra;
use self_managed::nodepool::Owner;
use self_managed::{cluster, install, nodepool};
use serde_json::Value;

#[derive(Parser)]
struct Line<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

fn parse<A: clap::Args>(line: &str) -> A {
    let words = std::iter::once("zaffre").chain(line.split_whitespace());
    Line::<A>::try_parse_from(words).expect("a good line").args
}

pub fn cluster(line: &str) -> cluster::Args {
    parse(&format!(
        "--name demo --pull-secret p --release-image quay.example/release:4.19.3 --infra-json i {line}"
    ))
}

/// Without what a good line has.
pub fn bare_cluster(line: &str) -> cluster::Args {
    parse(&format!("--name demo --pull-secret p {line}"))
}

pub fn pool(line: &str) -> nodepool::Args {
    parse(line)
}

pub fn install(line: &str) -> install::Args {
    parse(line)
}

const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";

fn common() -> String {
    let group = |name: &str| format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}/providers");
    format!(
        "baseDomain: example.com\nbootImageID: \"\"\ninfraID: demo-x2b4c\nregion: westus2\nresourceGroupName: demo-x2b4c\n\
         privateZoneID: {main}/Microsoft.Network/privateDnsZones/demo.example.com\n\
         publicZoneID: {dns}/Microsoft.Network/dnszones/example.com\n\
         securityGroupID: {nsg}/Microsoft.Network/networkSecurityGroups/demo\n\
         vnetID: {vnet}/Microsoft.Network/virtualNetworks/demo\n\
         subnetID: {vnet}/Microsoft.Network/virtualNetworks/demo/subnets/default\n",
        main = group("demo-x2b4c"),
        dns = group("dns"),
        nsg = group("demo-nsg"),
        vnet = group("demo-vnet"),
    )
}

fn client(n: u8) -> String {
    format!("00000000-0000-0000-0000-0000000001{n:02}")
}

pub fn workload() -> String {
    let keys = [
        "imageRegistry",
        "ingress",
        "file",
        "disk",
        "nodePoolManagement",
        "cloudProvider",
        "network",
        "controlPlaneOperator",
    ];
    let lines: Vec<String> =
        (0..).zip(keys).map(|(n, k)| format!("  {k}:\n    clientID: {}\n", client(n))).collect();
    format!(
        "{}controlPlaneMIs: null\nkmsClientID: {}\nworkloadIdentities:\n{}",
        common(),
        client(9),
        lines.concat()
    )
}

pub fn managed() -> String {
    let keys = [
        "cloudProvider",
        "nodePoolManagement",
        "controlPlaneOperator",
        "ingress",
        "network",
        "disk",
        "file",
        "imageRegistry",
    ];
    let lines: Vec<String> = (20..)
        .zip(keys)
        .map(|(n, k)| {
            format!("    {k}:\n      clientID: {}\n      credentialsSecretName: {}\n      objectEncoding: base64\n", client(n), k.to_lowercase())
        })
        .collect();
    format!(
        "{}workloadIdentities: null\ndataPlaneIdentities:\n  imageRegistryMSIClientID: {}\n  diskMSIClientID: {}\n  fileMSIClientID: {}\n\
         controlPlaneMIs:\n  controlPlane:\n    managedIdentitiesKeyVault:\n      name: demo-vault\n      tenantID: {}\n{}",
        common(),
        client(30),
        client(31),
        client(32),
        client(33),
        lines.concat()
    )
}

pub fn inputs(infra: &str) -> cluster::Inputs {
    cluster::Inputs {
        infra: Infra::read(infra).expect("a good sample"),
        subscription: SUBSCRIPTION.into(),
        tenant: "00000000-0000-0000-0000-000000000002".into(),
        release_image: "quay.example/release:4.19.3".into(),
        pull_secret: br#"{"auths":{}}"#.to_vec(),
        ssh_key: None,
        ssh_private_key: None,
        trust_bundle: None,
        image_content_sources: None,
        signing_key: Some(b"-----BEGIN RSA PRIVATE KEY-----".to_vec()),
        encryption_key: [7; 32],
    }
}

/// Lines that are rendered, and the infrastructure they stand on.
pub fn lines() -> Vec<(&'static str, &'static str, String)> {
    let issuer = "--oidc-issuer-url https://oidc.example.com/demo";
    vec![
        ("self-managed-minimal", "", workload()),
        (
            "self-managed-full",
            "--node-pool-replicas 3 --availability-zones 1,2,3 --control-plane-availability-policy HighlyAvailable \
             --infra-availability-policy HighlyAvailable --external-dns-domain apps.example.net --fips \
             --annotations a=b --labels team=blue --pods-labels tier=gold --node-selector pool=control \
             --toleration key=dedicated,operator=Exists,effect=NoSchedule --etcd-storage-class fast --etcd-storage-size 16Gi \
             --feature-set TechPreviewNoUpgrade --disable-cluster-capabilities ImageRegistry,Insights --kas-dns-name kas.example.com \
             --olm-catalog-placement guest --olm-disable-default-sources --ovn-kubernetes-mtu 1400 --machine-cidr 10.0.0.0/16 \
             --node-drain-timeout 10m --node-volume-detach-timeout 5m --auto-repair --node-upgrade-type InPlace --arch arm64 \
             --root-disk-size 200 --disk-storage-account-type Standard_LRS --enable-ephemeral-disk --encryption-at-host Enabled \
             --diagnostics-storage-account-type UserManaged --diagnostics-storage-account-uri https://d.blob.core.windows.net/ \
             --image-generation Gen2 --marketplace-publisher redhat --marketplace-offer rhcos --marketplace-sku gen2 --marketplace-version 1.2.3 \
             --encryption-key-id https://v.vault.azure.net/keys/etcd/abc --control-plane-operator-image quay.example/cpo:1",
            workload(),
        ),
        ("private", "--endpoint-access Private --endpoint-access-private-nat-subnet-id /subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/r/providers/Microsoft.Network/virtualNetworks/vv/subnets/nat", workload()),
        (
            "public-and-private-oauth",
            "--endpoint-access PublicAndPrivate --oauth-publishing-strategy LoadBalancer \
             --endpoint-access-private-additional-allowed-subscriptions 00000000-0000-0000-0000-0000000000aa",
            workload(),
        ),
        ("paused", "--pausedUntil true --node-pool-replicas 2", workload()),
        ("aro-minimal", "", managed()),
        (
            "aro-full",
            "--node-pool-replicas 2 --control-plane-availability-policy HighlyAvailable --kms-credentials-secret-name kms \
             --encryption-key-id https://v.vault.azure.net/keys/etcd/abc --external-dns-domain apps.example.net",
            managed(),
        ),
    ]
    .into_iter()
    .map(|(name, line, infra)| (name, Box::leak(format!("{line} {issuer}").into_boxed_str()) as &str, infra))
    .collect()
}

/// One more pool of a cluster that is there.
pub fn extra_pool() -> (Owner, Value) {
    let owner = Owner {
        release: "quay.example/release:4.19.3".into(),
        subnet: "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/demo-vnet/providers/Microsoft.Network/virtualNetworks/demo/subnets/default".into(),
        payload_arch: "AMD64".into(),
        name: "demo".into(),
        platform: "Azure".into(),
        ..Owner::default()
    };
    let object = pool("--name extra --cluster-name demo").object(&owner).expect("a good pool");
    (owner, object)
}
