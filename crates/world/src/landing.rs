//! The Azure prerequisites of hosted clusters, made as `zaffre create` makes them: an issuer, identities, a network.
//!
//! Clusters may share one: identities are federated with the issuer and not with a cluster, and nothing of the network
//! is a cluster's own until it has nodes.

use crate::Cloud;
use arm::ResourceId;
use azure::Client;
use landing_zone::identities::{Identities, WorkloadIdentities};
use landing_zone::infra::{Infra, Layout};
use landing_zone::issuer::{self, Issuer, KeyDir, Keys, Rotation, SigningKey};
use landing_zone::managed::{self, Encoding, Managed};
use landing_zone::roles::Assign;
use landing_zone::run::{Options, Outcome, Progress, create_iam, create_infra};
use landing_zone::{Cluster, iam::Iam};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the simulator has from the start: a public zone that clusters live under.
pub const DOMAIN: &str = "example.zaffre.test";
const DNS_GROUP: &str = "zaffre-dns";
pub const LOCATION: &str = "westus2";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Landing(#[from] landing_zone::Error),
    #[error("the subscription cannot be named")]
    Subscription(#[source] arm::IdError),
    #[error("{what} was not made: {why}")]
    Failed { what: &'static str, why: String },
    #[error("{path} cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the identities cannot be written")]
    Write(#[from] serde_json::Error),
}

/// Who the components of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Self-managed: tokens of the guest, exchanged.
    Workload,
    /// As the managed service does it: certificates in a vault.
    Managed,
}

/// What clusters are made on.
#[derive(Clone)]
pub struct Landing {
    pub tenant: String,
    pub subscription: String,
    pub issuer: String,
    /// The private key of the issuer, PEM.
    pub signing_key: String,
    pub layout: Layout,
    /// As in `spec.platform.azure.azureAuthenticationConfig`.
    pub authentication: Value,
    /// Who may be given keys to encrypt data with, as in `spec.secretEncryption.kms.azure`.
    pub kms: Value,
}

impl std::fmt::Debug for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing")
            .field("issuer", &self.issuer)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

fn quiet(_: Progress<'_>) {}

fn good(what: &'static str, outcome: &Outcome) -> Result<(), Error> {
    match outcome.is_good() {
        true => Ok(()),
        false => {
            let why: Vec<String> = outcome.report.failures().map(|(s, e)| format!("{s:?}: {e}")).collect();
            Err(Error::Failed { what, why: why.join("; ") })
        }
    }
}

impl Landing {
    /// Makes everything, or takes what an earlier run made. `name` is of lower-case letters and digits; keys are kept
    /// in a directory below `dir`.
    pub async fn make(cloud: &Cloud, dir: &Path, name: &str, flavour: Flavour) -> Result<Landing, Error> {
        let tenant = cloud.sim.creds().tenant_id;
        Landing::make_in(&cloud.client, &cloud.subscription, &tenant, dir, name, flavour).await
    }

    /// The same in any Azure that has the zone [`DOMAIN`].
    pub async fn make_in(
        azure: &Client,
        subscription_id: &str,
        tenant: &str,
        dir: &Path,
        name: &str,
        flavour: Flavour,
    ) -> Result<Landing, Error> {
        let subscription = ResourceId::subscription_scope(subscription_id).map_err(Error::Subscription)?;
        let cluster = Cluster::new(name, &format!("{name}-x7k2p"))?;
        let (issuer, signing_key) =
            publish(azure, &subscription, &dir.join(format!("{name}-keys")), name).await?;
        let (identities, authentication, kms) = match flavour {
            Flavour::Workload => workload(azure, &subscription, &cluster, &issuer).await?,
            Flavour::Managed => managed(azure, &subscription, &cluster, &issuer).await?,
        };
        let infra = Infra {
            cluster,
            subscription: subscription.clone(),
            location: LOCATION.to_owned(),
            base_domain: DOMAIN.to_owned(),
            group: None,
            tags: BTreeMap::new(),
            vnet: None,
            subnet: None,
            security_group: None,
            identities,
            assign: Some(Assign { custom: false, dns_group: DNS_GROUP.to_owned(), image_registry: true }),
            nat_subnet: None,
            adopt: false,
        };
        let (outcome, _) = create_infra(azure, &infra, Options::default(), &quiet).await?;
        good("the network", &outcome)?;
        Ok(Landing {
            tenant: tenant.to_owned(),
            subscription: subscription_id.to_owned(),
            issuer,
            signing_key,
            layout: infra.layout()?,
            authentication,
            kms,
        })
    }
}

async fn publish(
    azure: &Client,
    subscription: &ResourceId,
    dir: &Path,
    name: &str,
) -> Result<(String, String), Error> {
    let issuer =
        Issuer::new(&format!("{name}oidc"), subscription.clone(), &format!("{name}-oidc"), LOCATION)?;
    let keys =
        Keys { dir: KeyDir::open(dir)?, given: None, rotation: Rotation::Keep, make: SigningKey::generate };
    let (outcome, published) = issuer::create(azure, &issuer, &keys, Options::default(), &quiet).await?;
    good("the issuer", &outcome)?;
    let published =
        published.ok_or(Error::Failed { what: "the issuer", why: "it was not published".into() })?;
    let path = dir.join("serviceaccount-signer.private");
    let key = std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
    Ok((published.url, key))
}

async fn workload(
    azure: &Client,
    subscription: &ResourceId,
    cluster: &Cluster,
    issuer: &str,
) -> Result<(Identities, Value, Value), Error> {
    let iam = Iam {
        cluster: cluster.clone(),
        subscription: subscription.clone(),
        group: format!("{}-identities", cluster.name),
        location: LOCATION.to_owned(),
        issuer: issuer.to_owned(),
        kms: true,
        adopt: false,
    };
    let (outcome, made) = create_iam(azure, &iam, Options::default(), &quiet).await?;
    good("the identities", &outcome)?;
    let mut made: WorkloadIdentities =
        made.ok_or(Error::Failed { what: "the identities", why: "they are not there".into() })?;
    // It belongs to the encryption of a cluster, and not to its platform.
    let kms = json!({"workloadIdentity": {"clientID": made.kms_client_id.take()}});
    let authentication = json!({"azureAuthenticationConfigType": "WorkloadIdentities",
        "workloadIdentities": serde_json::to_value(&made)?});
    Ok((Identities::Workload(made), authentication, kms))
}

async fn managed(
    azure: &Client,
    subscription: &ResourceId,
    cluster: &Cluster,
    issuer: &str,
) -> Result<(Identities, Value, Value), Error> {
    let wanted = Managed {
        mark: Cluster::shared(&cluster.name)?,
        subscription: subscription.clone(),
        group: format!("{}-identities", cluster.name),
        location: LOCATION.to_owned(),
        vault: format!("{}-vault", cluster.name),
        issuer: issuer.to_owned(),
        encoding: Encoding::Utf8,
        validity: 90,
        renew: None,
        adopt: false,
        make: managed::new_key,
    };
    let made = managed::create(azure, &wanted, Options::default(), &quiet).await?;
    good("the identities", &made.outcome)?;
    let files =
        made.files.ok_or(Error::Failed { what: "the identities", why: format!("{:?}", made.failed) })?;
    let (control_plane, data_plane) = files;
    let authentication = json!({"azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": {
        "controlPlane": serde_json::to_value(&control_plane)?, "dataPlane": serde_json::to_value(&data_plane)?}});
    // The vault has none for this alone; this one has no other use here.
    let kms = json!({"kms": serde_json::to_value(&control_plane.control_plane_operator)?});
    Ok((Identities::Managed { control_plane, data_plane }, authentication, kms))
}
