//! What a component is told about Azure and about itself, read where the real one reads it.

use super::Component;
use crate::azure_side::{Identity, Trouble};
use crate::place::PodPlace;
use arm::ResourceId;
use ek_node::ProgramContext;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde::Deserialize;
use sidecars::{KubeconfigFrom, Place};
use std::path::PathBuf;

/// No configuration is larger.
const LARGEST: u64 = 1 << 20;

/// As whom, and where.
#[derive(Clone, Debug)]
pub struct Act {
    pub identity: Identity,
    /// The cluster's resource group.
    pub group: ResourceId,
    pub location: String,
    /// The DNS zone that records are published in.
    pub zone: Option<ResourceId>,
}

/// `cloud.conf`, `azure.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudConf {
    pub tenant_id: String,
    pub subscription_id: String,
    pub resource_group: String,
    pub location: String,
    pub use_federated_workload_identity_extension: bool,
    pub use_workload_identity_extension: bool,
    pub aad_client_id: String,
    pub aad_federated_token_file: String,
    #[serde(rename = "aadMSIDataPlaneIdentityPath")]
    pub mounted: Option<String>,
}

fn refused(text: impl Into<String>) -> Trouble {
    Trouble::Refused(text.into())
}

pub fn real(place: &PodPlace, path: &str) -> Result<PathBuf, Trouble> {
    place.path(path).ok_or_else(|| refused(format!("{path} is under no mount of this container")))
}

/// A small file. Blocks for as long as one takes.
fn read(place: &PodPlace, path: &str) -> Result<String, Trouble> {
    let at = real(place, path)?;
    let failed = |e: std::io::Error| refused(format!("cannot read {path}: {e}"));
    if std::fs::metadata(&at).map_err(failed)?.len() > LARGEST {
        return Err(refused(format!("{path} has more than {LARGEST} bytes")));
    }
    std::fs::read_to_string(at).map_err(failed)
}

impl CloudConf {
    pub fn read(place: &PodPlace, path: &str) -> Result<CloudConf, Trouble> {
        let text = read(place, path)?;
        serde_json::from_str(&text).map_err(|e| refused(format!("{path} is not the JSON it should be: {e}")))
    }

    pub fn identity(&self, place: &PodPlace, path: &str) -> Result<Identity, Trouble> {
        if let Some(file) = &self.mounted {
            return Ok(Identity::Mounted { file: real(place, file)? });
        }
        if !self.use_federated_workload_identity_extension {
            return Err(refused(format!(
                "{path} names no identity: it has neither aadMSIDataPlaneIdentityPath nor useFederatedWorkloadIdentityExtension"
            )));
        }
        for (field, value) in [
            ("tenantId", &self.tenant_id),
            ("aadClientId", &self.aad_client_id),
            ("aadFederatedTokenFile", &self.aad_federated_token_file),
        ] {
            if value.is_empty() {
                return Err(refused(format!("{path}: {field} is missing")));
            }
        }
        Ok(Identity::Federated {
            tenant: self.tenant_id.clone(),
            client: self.aad_client_id.clone(),
            file: real(place, &self.aad_federated_token_file)?,
        })
    }
}

/// `AZURE_*`, or the path of what a vault holds.
pub fn from_env(place: &PodPlace, ctx: &ProgramContext) -> Result<Identity, Trouble> {
    let env = |name: &str| ctx.env().get(name).filter(|v| !v.is_empty());
    if let Some(file) = env("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH") {
        return Ok(Identity::Mounted { file: real(place, file)? });
    }
    let need = |name: &str| {
        env(name).ok_or_else(|| {
            refused(format!("neither {name} nor MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH is set"))
        })
    };
    Ok(Identity::Federated {
        tenant: need("AZURE_TENANT_ID")?.clone(),
        client: need("AZURE_CLIENT_ID")?.clone(),
        file: real(place, need("AZURE_FEDERATED_TOKEN_FILE")?)?,
    })
}

fn group(of: &str, subscription: &str, group: &str) -> Result<ResourceId, Trouble> {
    ResourceId::group_scope(subscription, group).map_err(|e| {
        refused(format!("{of}: subscription {subscription:?} and resource group {group:?} make no id: {e}"))
    })
}

/// The value of `--flag=VALUE` or `--flag VALUE`.
pub fn flag(ctx: &ProgramContext, name: &str) -> Option<String> {
    let words: Vec<&String> = ctx.command().iter().chain(ctx.args()).collect();
    words.iter().enumerate().find_map(|(i, w)| match w.strip_prefix(name) {
        Some("") => words.get(i + 1).map(|v| (*v).clone()),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    })
}

/// An object that somebody else brings.
async fn awaited<T>(
    what: &str,
    call: impl Future<Output = Result<Option<T>, kube::Error>>,
) -> Result<T, Trouble> {
    let later = |why: String| Trouble::NotYet(format!("{what}: {why}"));
    match call.await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(later("it is not there yet".into())),
        Err(kube::Error::Api(s)) if s.code == 404 => Err(later("its kind is not served yet".into())),
        Err(kube::Error::Api(s)) => Err(later(s.message)),
        Err(e) => Err(later(sidecars::chain(&e))),
    }
}

/// Where a credential Secret of the guest says the cluster is.
async fn where_secret(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<(ResourceId, String), Trouble> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let of = format!("Secret {namespace}/{name} of the guest");
    let data = awaited(&of, secrets.get_opt(name)).await?.data.unwrap_or_default();
    let text = |key: &str| {
        let value = data.get(key).map(|b| String::from_utf8_lossy(&b.0).into_owned());
        value.filter(|v| !v.is_empty()).ok_or_else(|| refused(format!("{of}: {key} is missing")))
    };
    let group = group(&of, &text("azure_subscription_id")?, &text("azure_resourcegroup")?)?;
    Ok((group, text("azure_region").unwrap_or_default()))
}

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl Act {
    pub async fn read(component: Component, place: &PodPlace, ctx: &ProgramContext) -> Result<Act, Trouble> {
        match component {
            Component::CloudController => {
                let path = flag(ctx, "--cloud-config").unwrap_or_else(|| "/etc/cloud/cloud.conf".into());
                Act::by_conf(place, &path)
            }
            Component::DiskDriver | Component::FileDriver => {
                let named = ctx.env().get("AZURE_CREDENTIAL_FILE").cloned();
                Act::by_conf(place, &named.unwrap_or_else(|| "/etc/kubernetes/cloud.conf".into()))
            }
            Component::Network => Act::by_directory(place, ctx),
            Component::Ingress => Act::ingress(place, ctx).await,
            Component::ImageRegistry => {
                let guest = by_account(place, ctx).await?;
                let (group, location) =
                    where_secret(&guest, "openshift-image-registry", "installer-cloud-credentials").await?;
                Ok(Act { identity: from_env(place, ctx)?, group, location, zone: None })
            }
            Component::NodePools | Component::ControlPlaneOperator => Act::by_cluster(place, ctx).await,
        }
    }

    fn by_conf(place: &PodPlace, path: &str) -> Result<Act, Trouble> {
        let conf = CloudConf::read(place, path)?;
        Ok(Act {
            identity: conf.identity(place, path)?,
            group: group(path, &conf.subscription_id, &conf.resource_group)?,
            location: conf.location,
            zone: None,
        })
    }

    /// A credential Secret, mounted key by key.
    fn by_directory(place: &PodPlace, ctx: &ProgramContext) -> Result<Act, Trouble> {
        const DIRECTORY: &str = "/etc/secret/cloudprovider";
        let key = |name: &str| read(place, &format!("{DIRECTORY}/{name}")).map(|v| v.trim().to_owned());
        let identity = match ctx.env().get("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH") {
            Some(file) => Identity::Mounted { file: real(place, file)? },
            None => Identity::Federated {
                tenant: key("azure_tenant_id")?,
                client: key("azure_client_id")?,
                file: real(place, &key("azure_federated_token_file")?)?,
            },
        };
        let group = group(DIRECTORY, &key("azure_subscription_id")?, &key("azure_resourcegroup")?)?;
        Ok(Act { identity, group, location: key("azure_region").unwrap_or_default(), zone: None })
    }

    async fn ingress(place: &PodPlace, ctx: &ProgramContext) -> Result<Act, Trouble> {
        let identity = from_env(place, ctx)?;
        let path =
            ctx.env().get("KUBECONFIG").cloned().unwrap_or_else(|| "/etc/kubernetes/kubeconfig".into());
        let guest = KubeconfigFrom::File(path).client(place).await;
        let guest = guest.map_err(|e| Trouble::NotYet(sidecars::chain(&e)))?;
        let (group, location) =
            where_secret(&guest, "openshift-ingress-operator", "cloud-credentials").await?;
        let dns: Api<DynamicObject> =
            Api::all_with(guest, &kind("config.openshift.io", "v1", "DNS", "dnses"));
        let dns = awaited("DNS cluster of the guest", dns.get_opt("cluster")).await?;
        let zones = ["publicZone", "privateZone"].map(|z| dns.data["spec"][z]["id"].as_str());
        let zone = zones.into_iter().flatten().next().map(|id| {
            ResourceId::parse(id)
                .map_err(|e| refused(format!("DNS cluster of the guest: {id:?} is no zone: {e}")))
        });
        Ok(Act { identity, group, location, zone: zone.transpose()? })
    }

    /// The AzureCluster beside it.
    async fn by_cluster(place: &PodPlace, ctx: &ProgramContext) -> Result<Act, Trouble> {
        let identity = cluster_identity(place, ctx)?;
        let of = kind("infrastructure.cluster.x-k8s.io", "v1beta1", "AzureCluster", "azureclusters");
        let api: Api<DynamicObject> = Api::namespaced_with(ctx.client(), ctx.namespace(), &of);
        let one = async { Ok(api.list(&ListParams::default()).await?.items.into_iter().next()) };
        let found = awaited("the AzureCluster of this control plane", one).await?;
        let text = |field: &str| found.data["spec"][field].as_str().unwrap_or_default().to_owned();
        let group = group("the AzureCluster", &text("subscriptionID"), &text("resourceGroup"))?;
        Ok(Act { identity, group, location: text("location"), zone: None })
    }
}

/// These are told by variables, or find the one credential that is mounted.
fn cluster_identity(place: &PodPlace, ctx: &ProgramContext) -> Result<Identity, Trouble> {
    if ctx.env().contains_key("AZURE_FEDERATED_TOKEN_FILE") {
        return from_env(place, ctx);
    }
    let dir = real(place, "/mnt/certs")?;
    let names = std::fs::read_dir(dir).map_err(|e| refused(format!("cannot list /mnt/certs: {e}")))?;
    let mut files: Vec<PathBuf> = names.flatten().map(|e| e.path()).collect();
    files.retain(|p| p.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('.')));
    files.sort();
    let file = files.into_iter().next();
    Ok(Identity::Mounted { file: file.ok_or_else(|| refused("/mnt/certs holds no credential"))? })
}

/// The guest, with the token and authority that are mounted where client libraries look. Without variables a kubelet's
/// own would lead to the management cluster.
async fn by_account(place: &PodPlace, ctx: &ProgramContext) -> Result<kube::Client, Trouble> {
    let env = |name: &str| {
        let value = ctx.env().get(name);
        value.ok_or_else(|| refused(format!("{name} is not set: this is not the guest's API")))
    };
    let url = format!("https://{}:{}", env("KUBERNETES_SERVICE_HOST")?, env("KUBERNETES_SERVICE_PORT")?);
    let later = |t: Trouble| Trouble::NotYet(t.text().to_owned());
    let token = read(place, &format!("{}/token", ek_node::ACCOUNT)).map_err(later)?;
    let ca = read(place, "/etc/certificate/ca/ca.crt").map_err(later)?;
    let text = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "guest",
        "clusters": [{"name": "guest", "cluster": {"server": url, "certificate-authority-data": crate::store::base64(ca.as_bytes())}}],
        "users": [{"name": "account", "user": {"token": token.trim()}}],
        "contexts": [{"name": "guest", "context": {"cluster": "guest", "user": "account"}}]});
    let made = sidecars::client_by_text("the mounted account", &text.to_string(), place).await;
    made.map_err(|e| Trouble::NotYet(sidecars::chain(&e)))
}
