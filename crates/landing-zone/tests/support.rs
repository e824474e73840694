//! A simulator, clients of it, and the usual inputs.

use arm::ResourceId;
use azure::credential::{Confidential, Entra, Proof};
use azure::{
    ArmType, Client, ClientOptions, Cloud, Credential, Env, Http, HttpOptions, Secret, Timing, connect,
};
use azure_sim::{AzureSim, Config, Profile};
use landing_zone::destroy::Destroy;
use landing_zone::iam::Iam;
use landing_zone::identities::{Identities, WorkloadIdentities};
use landing_zone::infra::{Facts, Infra};
use landing_zone::roles::Assign;
use landing_zone::run::{Options, Outcome, create_iam, create_infra};
use landing_zone::{Cluster, Error, MadeBy};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

pub struct World {
    pub sim: AzureSim,
    pub client: Client,
    pub subscription: ResourceId,
    env: Env,
    _dir: TempDir,
}

pub const ISSUER: &str = "https://issuer.example.test/demo";
pub const DOMAIN: &str = "example.zaffre.test";
pub const CONTRIBUTOR: &str = "b24988ac-6180-42a0-ab88-20f7382dd24c";
pub const ACCESS: &str = "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9";
pub const OWNED_BY: &str = "Application.ReadWrite.OwnedBy";
pub const DNS_GROUP: &str = "zaffre-dns";

pub fn options() -> ClientOptions {
    // Nothing is gained by waiting in real time for operations that last milliseconds.
    ClientOptions { poll_default: Duration::from_millis(10), ..ClientOptions::default() }
}

pub async fn world() -> World {
    make(Profile::Instant, Vec::new()).await
}

pub async fn world_trusting(trust: Vec<String>) -> World {
    make(Profile::Instant, trust).await
}

pub async fn world_with(profile: Profile) -> World {
    make(profile, Vec::new()).await
}

/// Every world of this run signs with the key of the first one.
static SIGNING: OnceLock<Vec<String>> = OnceLock::new();

async fn make(profile: Profile, trust: Vec<String>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::local(7);
    config.profile = profile;
    config.trust = trust;
    config.ca_file = Some(dir.path().join("ca.pem"));
    config.signing_keys = SIGNING.get().cloned().unwrap_or_default();
    let sim = AzureSim::start(config).await.unwrap();
    SIGNING.get_or_init(|| sim.world().signing_pems());
    let env = Env::parse(&sim.env());
    let connected = connect(&env, options()).await.unwrap();
    let subscription = ResourceId::subscription_scope(&connected.subscription.unwrap()).unwrap();
    World { sim, client: connected.client, subscription, env, _dir: dir }
}

pub async fn put<T: ArmType>(w: &World, id: &ResourceId, body: serde_json::Value) {
    w.client.arm::<T>().put(id, &serde_json::from_value(body).unwrap()).await.unwrap();
}

/// A client as a pod has it: client id, tenant, token file.
pub fn pod(w: &World, client_id: &str, file: &Path) -> Client {
    let (http, cloud, timing) = w.parts();
    let entra = Entra { http, login: cloud.login, timing: timing.clone() };
    let proof = Proof::FederatedFile(file.to_owned());
    let tenant = w.sim.creds().tenant_id;
    w.client_of(Credential::new(Confidential::new(entra, &tenant, client_id, proof), timing))
}

pub fn quiet(_: landing_zone::run::Progress<'_>) {}

impl World {
    /// What clients are made of.
    pub fn parts(&self) -> (Http, Cloud, Timing) {
        let http = Http::new(&HttpOptions::from_env(&self.env)).unwrap();
        (http, self.client.cloud().clone(), Timing::system())
    }

    pub fn client_of(&self, credential: Credential) -> Client {
        let (http, cloud, _) = self.parts();
        Client::new(cloud, http, credential, options())
    }

    /// A client for another principal, with these roles at the subscription.
    pub fn principal(&self, name: &str, roles: &[&str]) -> Client {
        self.principal_with(name, roles, &[], options())
    }

    /// The same, with permissions of Graph; and with options.
    pub fn principal_with(
        &self,
        name: &str,
        roles: &[&str],
        graph: &[&str],
        options: ClientOptions,
    ) -> Client {
        let (client, object) = self.sim.world().add_app(name, "a secret of some length", Vec::new());
        for role in roles {
            self.sim.world().assign(&object, role, self.subscription.as_str());
        }
        for permission in graph {
            assert!(self.sim.world().grant(&object, permission), "{permission}");
        }
        let (http, cloud, timing) = self.parts();
        let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
        let tenant = self.sim.creds().tenant_id;
        let proof = Proof::Secret(Secret::new("a secret of some length"));
        let credential = Credential::new(Confidential::new(entra, &tenant, &client, proof), timing);
        Client::new(cloud, http, credential, options)
    }

    pub fn iam(&self, cluster: &str) -> Iam {
        Iam {
            cluster: Cluster::new(cluster, &format!("{cluster}-x2b4c")).unwrap(),
            subscription: self.subscription.clone(),
            group: format!("{cluster}-identities"),
            location: "westus2".to_owned(),
            issuer: ISSUER.to_owned(),
            kms: false,
            adopt: false,
        }
    }

    pub fn infra(&self, cluster: &str, identities: Identities) -> Infra {
        Infra {
            cluster: Cluster::new(cluster, &format!("{cluster}-x2b4c")).unwrap(),
            subscription: self.subscription.clone(),
            location: "westus2".to_owned(),
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
        }
    }

    pub fn destroy(&self, cluster: &str, by: MadeBy) -> Destroy {
        Destroy {
            cluster: Cluster::new(cluster, &format!("{cluster}-x2b4c")).unwrap(),
            subscription: self.subscription.clone(),
            by,
            group: None,
            preserve: false,
        }
    }

    /// The way back of what clusters share.
    pub fn shared(&self, name: &str, by: MadeBy) -> Destroy {
        let (cluster, subscription) = (Cluster::shared(name).unwrap(), self.subscription.clone());
        Destroy { cluster, subscription, by, group: None, preserve: false }
    }

    pub async fn make_iam(&self, iam: &Iam) -> WorkloadIdentities {
        let (outcome, made) = create_iam(&self.client, iam, Options::default(), &quiet).await.unwrap();
        assert!(outcome.is_good(), "{:#?}", outcome.report.failures().collect::<Vec<_>>());
        made.unwrap()
    }

    pub async fn try_infra(&self, infra: &Infra) -> Result<(Outcome, Facts), Error> {
        create_infra(&self.client, infra, Options::default(), &quiet).await
    }

    pub async fn make_infra(&self, infra: &Infra) -> (Outcome, Facts) {
        let (outcome, facts) = self.try_infra(infra).await.unwrap();
        assert!(outcome.is_good(), "{:#?}", outcome.report.failures().collect::<Vec<_>>());
        (outcome, facts)
    }

    pub async fn remove(&self, d: &Destroy) -> Outcome {
        let done = landing_zone::destroy::destroy(&self.client, d, Options::default(), &quiet).await.unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        let outcome = done.outcome;
        assert!(outcome.is_good(), "{}\n{:#?}", outcome.plan, outcome.report.failures().collect::<Vec<_>>());
        outcome
    }

    /// Everything that was made, by id.
    pub fn left(&self) -> Vec<String> {
        let leaks = self.sim.world().leaks();
        let mut ids: Vec<String> = leaks["value"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["id"].as_str().unwrap().to_lowercase())
            .collect();
        ids.sort();
        ids
    }

    /// Calls to Resource Manager so far.
    pub fn calls(&self) -> Vec<azure_sim::Entry> {
        self.sim.world().journal()
    }
}
