//! Azure as this world has it: the simulator, a client of it, and a registry with releases.

use crate::{Intranet, Options, releases};
use arm::ResourceId;
use azure::credential::{Confidential, Entra, Proof};
use azure::oci::{Images, OciError, Reference, ReferenceError};
use azure::ops::{Registries, ResourceGroups, RoleAssignments};
use azure::{
    Budget, Budgets, Client, ClientOptions, Connected, Credential, Env, Http, HttpOptions, Secret, connect,
};
use azure_sim::{AzureSim, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The built-in role AcrPush.
const PUSH: &str = "8311e382-0749-4cb8-b61a-304f252e45ec";
/// Of our one role assignment: the same at every start, so that it is made once.
const ASSIGNMENT: &str = "5a66e000-0000-4000-8000-00000000acb1";
/// The built-in role Key Vault Secrets User.
const READ_SECRETS: &str = "4633458b-17de-408a-b874-0445c86b69e6";
const GROUP: &str = "zaffre-world";
const REGISTRY: &str = "zaffreworld";
const LOCATION: &str = "westus2";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the simulator does not start")]
    Start(#[from] azure_sim::StartError),
    #[error("cannot log in")]
    Connect(#[from] azure::ConnectError),
    #[error("cannot use the network")]
    Http(#[from] azure::HttpError),
    #[error("cannot make the registry of releases: {what}")]
    Registry { what: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot make the management cluster's network")]
    Intranet(#[from] crate::intranet::Error),
    #[error("cannot name the releases")]
    Name(#[from] ReferenceError),
    #[error("cannot push a release")]
    Release(#[from] release::make::Error),
    #[error("cannot look for the releases that are there")]
    Look(#[from] OciError),
}

/// The Azure of a world.
pub struct Cloud {
    pub sim: AzureSim,
    pub client: Client,
    pub env: Env,
    pub subscription: String,
    pub images: Images,
    /// Host of the registry.
    pub registry: String,
    /// Release images by version.
    pub releases: BTreeMap<String, String>,
    /// The identity that nodes read vaults as.
    pub vault_reader: String,
    /// The network of management clusters.
    pub intranet: std::sync::Arc<Intranet>,
    http: Http,
    reader: Secret,
}

/// Waiting in real time for what lasts milliseconds gains nothing, and this Azure has no limits to keep.
fn client_options() -> ClientOptions {
    let plenty = (1e9, 1e9);
    ClientOptions {
        poll_default: Duration::from_millis(10),
        budgets: Budgets::new(Budget { reads: plenty, writes: plenty, deletes: plenty }),
        ..ClientOptions::default()
    }
}

impl Cloud {
    /// Of the options, the seed, the clock, its pace, the versions and whether it is to be kept matter.
    pub async fn start(options: &Options, dir: &Path) -> Result<Cloud, Error> {
        let mut config = Config::local(options.seed);
        config.ca_file = Some(dir.join("azure-ca.pem"));
        config.clock = options.clock.clone();
        config.profile = options.profile;
        config.scale = (options.azure_pace != 1.0).then_some(options.azure_pace);
        config.data_dir = options.dir.as_ref().map(|d| d.join("azure"));
        let sim = AzureSim::start(config).await?;
        let env = Env::parse(&sim.env());
        let Connected { client, subscription, .. } = connect(&env, client_options()).await?;
        let subscription = subscription.unwrap_or_else(|| sim.creds().subscription_id);
        let http = Http::new(&HttpOptions::from_env(&env))?;
        let images = Images::new(http.clone(), client.timing().clone())
            .azure(client.credential().clone(), client.cloud());
        // At the pace of a real Azure each of these takes its time, and none needs the other.
        let releases = async {
            let registry = registry(&client, &env, &subscription).await?;
            let known = releases(&images, &registry, &options.versions).await?;
            Ok::<_, Error>((registry, known))
        };
        let intranet = async { Ok::<_, Error>(Intranet::make(&client, &subscription).await?) };
        let ((registry, releases), intranet) = futures::try_join!(releases, intranet)?;
        // Ours, as long as this Azure is; whoever looks for leaks does not mean it.
        if let Ok(scope) = ResourceId::subscription_scope(&subscription)
            && let Ok(group) = client.arm::<ResourceGroups>().id(&scope, GROUP)
        {
            sim.world().furnish(&group);
        }
        let intranet = std::sync::Arc::new(intranet);
        for id in [&intranet.group, &intranet.network] {
            sim.world().furnish(id);
        }
        let reader = Secret::new(client.timing().random.uuid());
        let (vault_reader, object) = sim.world().add_app("vault-reader", reader.expose(), Vec::new());
        sim.world().assign(&object, READ_SECRETS, &format!("/subscriptions/{subscription}"));
        Ok(Cloud {
            sim,
            client,
            env,
            subscription,
            images,
            registry,
            releases,
            vault_reader,
            intranet,
            http,
            reader,
        })
    }

    /// As programs of this world reach it.
    pub fn azure(&self) -> operands::Azure {
        operands::Azure {
            cloud: self.client.cloud().clone(),
            http: self.http.clone(),
            options: client_options(),
        }
    }

    /// What a program is told of this Azure by its environment, without who it is to it.
    pub fn surroundings(&self) -> Vec<(&'static str, String)> {
        const WHO: [&str; 5] = [
            "AZURE_TENANT_ID",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_SUBSCRIPTION_ID",
            "AZURE_AUTH_LOCATION",
        ];
        self.sim.variables().into_iter().filter(|(name, _)| !WHO.contains(name)).collect()
    }

    /// Credentials of the nodes' identities: there is one.
    pub fn node_identity(&self) -> impl operands::NodeIdentity {
        let timing = self.client.timing().clone();
        let login = self.client.cloud().login.clone();
        let entra = Entra { http: self.http.clone(), login, timing: timing.clone() };
        let (tenant, known, secret) =
            (self.sim.creds().tenant_id, self.vault_reader.clone(), self.reader.clone());
        move |client: &str| match client == known {
            true => {
                let proof = Proof::Secret(secret.clone());
                Ok(Credential::new(Confidential::new(entra.clone(), &tenant, client, proof), timing.clone()))
            }
            false => {
                Err(format!("the nodes have no identity with the client id {client:?}; they have {known}"))
            }
        }
    }

    /// The release image of a version, by digest.
    pub fn release(&self, version: &str) -> Option<&str> {
        self.releases.get(version).map(String::as_str)
    }

    /// An image of ours.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}:{}", self.registry, env!("CARGO_PKG_VERSION"))
    }

    pub fn stop(&self) {
        self.sim.stop();
    }
}

/// Release images by version: those that the registry has, and those that it is given, all at once.
async fn releases(
    images: &Images,
    registry: &str,
    versions: &[String],
) -> Result<BTreeMap<String, String>, Error> {
    let all = versions.iter().map(|version| async move {
        let at = Reference::repository(registry, "openshift/release")?.with_tag(version);
        let digest = match images.resolve(&at).await {
            Ok(there) => there,
            Err(e) if e.is_not_found() => {
                release::make::push(images, &at, &releases::payload(registry, version)).await?
            }
            Err(e) => return Err(e.into()),
        };
        Ok::<_, Error>((version.clone(), format!("{registry}/openshift/release@{digest}")))
    });
    Ok(futures::future::try_join_all(all).await?.into_iter().collect())
}

/// A registry that we may push to; its host.
async fn registry(client: &Client, env: &Env, subscription: &str) -> Result<String, Error> {
    type Source = Box<dyn std::error::Error + Send + Sync>;
    fn failed<E: Into<Source>>(what: &'static str) -> impl Fn(E) -> Error {
        move |e| Error::Registry { what, source: e.into() }
    }
    let body = |v: Value| v;
    let subscription = ResourceId::subscription_scope(subscription).map_err(failed("subscription"))?;
    let groups = client.arm::<ResourceGroups>();
    let group = groups.id(&subscription, GROUP).map_err(failed("resource group"))?;
    let made =
        serde_json::from_value(body(json!({"location": LOCATION}))).map_err(failed("resource group"))?;
    groups.put(&group, &made).await.map_err(failed("resource group"))?;
    let registries = client.arm::<Registries>();
    let id = registries.id(&group, REGISTRY).map_err(failed("registry"))?;
    let made = json!({"location": LOCATION, "sku": {"name": "Standard"}, "properties": {}});
    let made = serde_json::from_value(made).map_err(failed("registry"))?;
    let made = registries.put(&id, &made).await.map_err(failed("registry"))?;
    let host = made.properties.and_then(|p| p.login_server);
    let host = host.ok_or_else(|| failed("login server")("the registry has none"))?;
    let who = env.get("AZURE_CLIENT_ID").unwrap_or_default();
    let me = client.graph().service_principal_of(who).await.map_err(failed("service principal"))?;
    let me = me.ok_or_else(|| failed("service principal")("we are nobody"))?.id;
    let role = format!("{subscription}/providers/Microsoft.Authorization/roleDefinitions/{PUSH}");
    let grant = json!({"properties": {"roleDefinitionId": role, "principalId": me, "principalType": "ServicePrincipal"}});
    let assignments = client.arm::<RoleAssignments>();
    let at = assignments.id(&id, ASSIGNMENT).map_err(failed("role"))?;
    let grant = serde_json::from_value(grant).map_err(failed("role"))?;
    assignments.put(&at, &grant).await.map_err(failed("role"))?;
    Ok(host)
}
