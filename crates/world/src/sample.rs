//! Hosted clusters to try things with: the object and what it names, as `zaffre create cluster azure` writes them.

use crate::World;
use crate::landing::{DOMAIN, LOCATION, Landing};
use hypershift::kinds;
use kube::api::PostParams;
use reconcile::Kind;
use serde_json::{Value, json};

/// Where HostedClusters are; the control plane of `x` is in `clusters-x`.
pub const NAMESPACE: &str = "clusters";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no release {0:?} in this world")]
    Release(String),
    #[error("cannot create {kind} {name}")]
    Create { kind: String, name: String, source: Box<kube::Error> },
    #[error("{kind} {name} cannot be written")]
    Write { kind: String, name: String, source: serde_json::Error },
}

/// A cluster; change it as you like, then create it.
#[derive(Clone)]
pub struct Sample {
    pub name: String,
    pub cluster: Value,
    /// Secrets that it names.
    pub inputs: Vec<Value>,
}

fn service(name: &str, strategy: Value) -> Value {
    json!({"service": name, "servicePublishingStrategy": strategy})
}

fn route(host: String) -> Value {
    json!({"type": "Route", "route": {"hostname": host}})
}

impl Sample {
    /// One of everything, and a balancer for the API.
    pub fn new(world: &World, landing: &Landing, name: &str, version: &str) -> Result<Sample, Error> {
        let release = world.cloud().release(version).ok_or_else(|| Error::Release(version.to_owned()))?;
        Ok(Sample::of(landing, name, release))
    }

    /// The same with any release image.
    pub fn of(landing: &Landing, name: &str, release: &str) -> Sample {
        let host = |what: &str| format!("{what}-{name}.{DOMAIN}");
        let at = &landing.layout;
        let cluster = json!({
            "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedCluster",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "release": {"image": release}, "infraID": format!("{name}-x7k2p"), "issuerURL": landing.issuer,
                "serviceAccountSigningKey": {"name": format!("{name}-sa-key")},
                "dns": {"baseDomain": DOMAIN}, "sshKey": {"name": format!("{name}-ssh-key")},
                "pullSecret": {"name": format!("{name}-pull-secret")},
                "controllerAvailabilityPolicy": "SingleReplica",
                "etcd": {"managementType": "Managed", "managed": {"storage": {
                    "type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}},
                "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                    "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
                "services": [
                    service("APIServer", json!({"type": "LoadBalancer"})),
                    service("OAuthServer", route(host("oauth"))),
                    service("Konnectivity", route(host("konnectivity"))),
                    service("Ignition", route(host("ignition"))),
                ],
                "platform": {"type": "Azure", "azure": {
                    "location": LOCATION, "tenantID": landing.tenant, "subscriptionID": landing.subscription,
                    "resourceGroup": at.main.name(), "vnetID": at.vnet, "subnetID": at.subnet,
                    "securityGroupID": at.security_group, "azureAuthenticationConfig": landing.authentication,
                }},
            },
        });
        let secret = |what: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
                "metadata": {"name": format!("{name}-{what}"), "namespace": NAMESPACE}})
        };
        let inputs = vec![
            secret(
                "pull-secret",
                json!({".dockerconfigjson": r#"{"auths":{"quay.example":{"auth":"YTpi"}}}"#}),
            ),
            secret("ssh-key", json!({"id_rsa.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDemo demo"})),
            secret("sa-key", json!({"key": landing.signing_key})),
        ];
        Sample { name: name.to_owned(), cluster, inputs }
    }

    /// Its API is reached by name through the router.
    pub fn published_by_route(mut self) -> Sample {
        let host = format!("api-{}.{DOMAIN}", self.name);
        self.cluster["spec"]["services"][0] = service("APIServer", route(host));
        self
    }

    /// It can be reached from its own network, and from elsewhere or not: `PublicAndPrivate`, `Private`.
    pub fn private(mut self, topology: &str) -> Sample {
        let azure = &mut self.cluster["spec"]["platform"]["azure"];
        azure["topology"] = json!(topology);
        azure["private"] = json!({"type": "PrivateLink"});
        self
    }

    pub fn highly_available(mut self) -> Sample {
        self.cluster["spec"]["controllerAvailabilityPolicy"] = json!("HighlyAvailable");
        self
    }

    /// Its data is encrypted by a version of a key.
    pub fn encrypted_by(mut self, landing: &Landing, vault: &str, key: &str, version: &str) -> Sample {
        let mut azure = landing.kms.clone();
        azure["activeKey"] = json!({"keyVaultName": vault, "keyName": key, "keyVersion": version});
        let kms = json!({"provider": "Azure", "azure": azure});
        self.cluster["spec"]["secretEncryption"] = json!({"type": "kms", "kms": kms});
        self
    }

    /// It begins with what a snapshot holds.
    pub fn restored_from(mut self, url: &str) -> Sample {
        self.cluster["spec"]["etcd"]["managed"]["storage"]["restoreSnapshotURL"] = json!([url]);
        self
    }

    /// Where its control plane is.
    pub fn plane(&self) -> String {
        format!("{NAMESPACE}-{}", self.name)
    }

    pub async fn create(&self, world: &World) -> Result<(), Error> {
        self.create_in(&world.client()).await
    }

    /// The same in any cluster that serves the kinds.
    pub async fn create_in(&self, client: &kube::Client) -> Result<(), Error> {
        for input in &self.inputs {
            create(client, &kinds::SECRET, input).await?;
        }
        create(client, &kinds::CLUSTER, &self.cluster).await
    }
}

async fn create(client: &kube::Client, kind: &Kind, object: &Value) -> Result<(), Error> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let (kind, api) = (kind.kind.to_string(), kind.api(client, NAMESPACE));
    let object = serde_json::from_value(object.clone());
    let object = object.map_err(|source| Error::Write { kind: kind.clone(), name: name.clone(), source })?;
    let made = api.create(&PostParams::default(), &object).await;
    made.map(drop).map_err(|e| Error::Create { kind, name, source: Box::new(e) })
}
