//! Clusters and what they name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::LazyLock;

const SUB: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups";

/// A signing key and its public half; making one takes a while.
pub static KEY: LazyLock<(String, String)> = LazyLock::new(|| hypershift::signing::generate().unwrap());

fn service(name: &str, strategy: Value) -> Value {
    json!({"service": name, "servicePublishingStrategy": strategy})
}

/// A self-managed cluster.
pub fn self_managed() -> Value {
    let id = |n: u8| json!({"clientID": format!("00000000-0000-0000-0000-00000000000{n}")});
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster",
        "metadata": {"name": "demo", "namespace": "clusters"},
        "spec": {
            "release": {"image": "quay.example/ocp-release:4.19.3"},
            "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11", "infraID": "demo-x7k2p",
            "issuerURL": "https://demooidc.blob.core.windows.net/demooidc",
            "serviceAccountSigningKey": {"name": "demo-sa-key"},
            "dns": {"baseDomain": "example.com"}, "sshKey": {"name": "demo-ssh-key"}, "pullSecret": {"name": "demo-pull-secret"},
            "controllerAvailabilityPolicy": "SingleReplica",
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}},
            "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
            "services": [
                service("APIServer", json!({"type": "LoadBalancer"})),
                service("OAuthServer", json!({"type": "Route", "route": {"hostname": "oauth-demo.hc.example.com"}})),
                service("Konnectivity", json!({"type": "Route", "route": {"hostname": "konnectivity-demo.hc.example.com"}})),
                service("Ignition", json!({"type": "Route", "route": {"hostname": "ignition-demo.hc.example.com"}})),
            ],
            "platform": {"type": "Azure", "azure": {
                "location": "eastus", "resourceGroup": "demo-demo-x7k2p", "tenantID": "11111111-1111-1111-1111-111111111111",
                "subscriptionID": "22222222-2222-2222-2222-222222222222",
                "vnetID": format!("{SUB}/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/demo-demo-x7k2p"),
                "subnetID": format!("{SUB}/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/demo-demo-x7k2p/subnets/default"),
                "securityGroupID": format!("{SUB}/demo-nsg-demo-x7k2p/providers/Microsoft.Network/networkSecurityGroups/demo-demo-x7k2p-nsg"),
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                    "cloudProvider": id(0), "nodePoolManagement": id(1), "controlPlaneOperator": id(2), "ingress": id(3),
                    "network": id(4), "disk": id(5), "file": id(6), "imageRegistry": id(7)}},
            }},
        },
    })
}

/// A cluster of the managed service, with a key in a vault.
pub fn managed() -> Value {
    let mut o = self_managed();
    let m = |n: &str, i: u8| {
        json!({"credentialsSecretName": format!("{n}-creds"), "objectEncoding": "utf-8",
        "clientID": format!("00000000-0000-0000-0000-00000000010{i}")})
    };
    let spec = &mut o["spec"];
    spec["controllerAvailabilityPolicy"] = json!("HighlyAvailable");
    spec["platform"]["azure"]["azureAuthenticationConfig"] = json!({
        "azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": {
            "controlPlane": {"managedIdentitiesKeyVault": {"name": "demo-kv", "tenantID": "11111111-1111-1111-1111-111111111111"},
                "cloudProvider": m("cloud-provider", 0), "nodePoolManagement": m("nodepool", 1), "controlPlaneOperator": m("cpo", 2),
                "ingress": m("ingress", 3), "network": m("network", 4), "disk": m("disk", 5), "file": m("file", 6),
                "imageRegistry": m("image-registry", 7)},
            "dataPlane": {"imageRegistryMSIClientID": "a", "diskMSIClientID": "b", "fileMSIClientID": "c"}}});
    spec["secretEncryption"] = json!({"type": "kms", "kms": {"provider": "Azure", "azure": {
        "activeKey": {"keyVaultName": "demo-kms", "keyName": "etcd", "keyVersion": "1"}, "kms": m("kms", 8)}}});
    spec["services"][0]["servicePublishingStrategy"] =
        json!({"type": "Route", "route": {"hostname": "api-demo.hc.example.com"}});
    o["metadata"]["annotations"] = json!({
        "azure.microsoft.com/hcp-cluster-azure-resource-id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/demo"});
    o["metadata"]["labels"] = json!({"api.openshift.com/id": "2abc", "team": "blue"});
    o
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// The Secrets that both name.
pub fn inputs() -> Vec<Value> {
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "clusters"}, "data": data});
    vec![
        secret(
            "demo-pull-secret",
            json!({".dockerconfigjson": encoded("{\"auths\":{\"quay.example\":{\"auth\":\"YTpi\"}}}")}),
        ),
        secret("demo-ssh-key", json!({"id_rsa.pub": encoded("ssh-ed25519 AAAA demo")})),
        secret("demo-sa-key", json!({"key": encoded(&KEY.0)})),
    ]
}
