//! Control planes to try things with: what the HostedCluster controller would write, without one.

use crate::World;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no release {0:?} in this world")]
    Release(String),
    #[error("the key of service accounts cannot be made")]
    Key(#[from] pki::Error),
    #[error("cannot create {what}")]
    Create { what: String, source: Box<kube::Error> },
    #[error("{what} cannot be written")]
    Write { what: String, source: serde_json::Error },
}

/// A control plane and what comes before it; change it as you like, then create it.
pub struct Sample {
    pub namespace: String,
    /// A HostedControlPlane whose API has a balancer of its own.
    pub plane: Value,
    image: String,
}

const SUB: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups";

/// A HostedControlPlane as the HostedCluster controller writes it. The API has a balancer of its own.
fn hosted_control_plane(namespace: &str, name: &str, release: &str) -> Value {
    let id = |n: u8| json!({"clientID": format!("00000000-0000-0000-0000-00000000000{n}")});
    let service = |s: &str, strategy: Value| json!({"service": s, "servicePublishingStrategy": strategy});
    let route = |s: &str, host: &str| {
        service(s, json!({"type": "Route", "route": {"hostname": format!("{host}-{name}.hc.example.com")}}))
    };
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "releaseImage": release, "infraID": format!("{name}-x7k2p"), "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11",
            "issuerURL": format!("https://{name}oidc.blob.core.windows.net/{name}oidc"),
            "dns": {"baseDomain": "example.com"}, "sshKey": {"name": "ssh-key"}, "pullSecret": {"name": "pull-secret"},
            "controllerAvailabilityPolicy": "SingleReplica",
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}},
            "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
            "services": [
                service("APIServer", json!({"type": "LoadBalancer"})),
                route("OAuthServer", "oauth"), route("Konnectivity", "konnectivity"), route("Ignition", "ignition"),
            ],
            "platform": {"type": "Azure", "azure": {
                "location": "eastus", "resourceGroup": format!("{name}-rg"), "tenantID": "11111111-1111-1111-1111-111111111111",
                "subscriptionID": "22222222-2222-2222-2222-222222222222",
                "vnetID": format!("{SUB}/net/providers/Microsoft.Network/virtualNetworks/{name}"),
                "subnetID": format!("{SUB}/net/providers/Microsoft.Network/virtualNetworks/{name}/subnets/default"),
                "securityGroupID": format!("{SUB}/net/providers/Microsoft.Network/networkSecurityGroups/{name}-nsg"),
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                    "cloudProvider": id(0), "nodePoolManagement": id(1), "controlPlaneOperator": id(2), "ingress": id(3),
                    "network": id(4), "disk": id(5), "file": id(6), "imageRegistry": id(7)}},
            }},
        },
    })
}

async fn create<K>(api: Api<K>, object: Value) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
    let object =
        serde_json::from_value(object).map_err(|source| Error::Write { what: what.clone(), source })?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::Create { what, source: Box::new(e) }),
    }
}

impl Sample {
    pub fn new(world: &World, namespace: &str, name: &str, version: &str) -> Result<Sample, Error> {
        let release = world.cloud().release(version).ok_or_else(|| Error::Release(version.to_owned()))?;
        Ok(Sample {
            namespace: namespace.to_owned(),
            plane: hosted_control_plane(namespace, name, release),
            image: world.cloud().image("zaffre"),
        })
    }

    pub async fn create(&self, world: &World) -> Result<(), Error> {
        let client = world.client();
        self.prepare(&client).await?;
        self.create_plane(&client).await?;
        self.create_operator(&client).await
    }

    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(client.clone(), &self.namespace)
    }

    /// The namespace, the operator's account, keys and the pull secret.
    pub async fn prepare(&self, client: &Client) -> Result<(), Error> {
        let ns = &self.namespace;
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
        create::<Namespace>(Api::all(client.clone()), space).await?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "control-plane-operator"}});
        create::<ServiceAccount>(self.api(client), account).await?;
        let key = pki::KeyKind::P256.generate()?;
        let sa =
            json!({"service-account.key": key.serialize_pem(), "service-account.pub": key.public_key_pem()});
        let pull = json!({".dockerconfigjson": r#"{"auths":{}}"#});
        for (name, data) in [("sa-signing-key", sa), ("pull-secret", pull)] {
            let labels = json!({"hypershift.openshift.io/hosted-control-plane": ns});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "stringData": data});
            create::<Secret>(self.api(client), secret).await?;
        }
        Ok(())
    }

    pub async fn create_plane(&self, client: &Client) -> Result<(), Error> {
        let api: Api<DynamicObject> = control_plane::operate::KINDS.plane().api(client, &self.namespace);
        let what = "HostedControlPlane".to_owned();
        let object = serde_json::from_value(self.plane.clone())
            .map_err(|source| Error::Write { what: what.clone(), source })?;
        let made = api.create(&PostParams::default(), &object).await;
        made.map(|_: DynamicObject| ()).map_err(|e| Error::Create { what, source: Box::new(e) })
    }

    /// The pod without which nothing happens.
    pub async fn create_operator(&self, client: &Client) -> Result<(), Error> {
        let labels = json!({"app": "control-plane-operator"});
        let container = json!({"name": "control-plane-operator", "image": self.image,
            "command": ["/usr/bin/zaffre", "serve", "control-plane-operator"]});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"serviceAccountName": "control-plane-operator", "containers": [container]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "control-plane-operator"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
        create::<Deployment>(self.api(client), deployment).await
    }
}
