//! The target: a simulator that is started for the test, or Azure.

use arm::ResourceId;
use azure::ops::{ResourceGroups, RoleAssignments};
use azure::{Client, ClientOptions, Deleted, Env, connect};
use azure_sim::{AzureSim, Config, Profile};
use serde_json::json;
use std::future::Future;
use tempfile::TempDir;

pub struct Target {
    pub client: Client,
    pub env: Env,
    pub subscription: ResourceId,
    pub location: String,
    /// Unless it is Azure.
    pub sim: Option<AzureSim>,
    _dir: TempDir,
}

/// A simulator and the environment that leads to it.
pub async fn simulator(profile: Profile, trust: Vec<String>) -> (AzureSim, Env, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::local(7);
    config.profile = profile;
    config.trust = trust;
    config.ca_file = Some(dir.path().join("ca.pem"));
    let sim = AzureSim::start(config).await.unwrap();
    let env = Env::parse(&sim.env());
    (sim, env, dir)
}

pub async fn target() -> Target {
    target_with(Profile::Instant).await
}

pub async fn target_with(profile: Profile) -> Target {
    let process = Env::of_process();
    let location = process.get("ZAFFRE_CONTRACT_LOCATION").unwrap_or("westus2").to_owned();
    let (sim, env, dir) = if process.get("ZAFFRE_CONTRACT") == Some("azure") {
        (None, process, tempfile::tempdir().unwrap())
    } else {
        let (sim, env, dir) = simulator(profile, Vec::new()).await;
        (Some(sim), env, dir)
    };
    let connected = connect(&env, ClientOptions::default()).await.unwrap();
    let subscription =
        connected.subscription.expect("AZURE_SUBSCRIPTION_ID names the subscription to work in");
    let subscription = ResourceId::subscription_scope(&subscription).unwrap();
    Target { client: connected.client, env, subscription, location, sim, _dir: dir }
}

impl Target {
    pub fn subscription_id(&self) -> &str {
        self.subscription.subscription().unwrap()
    }

    /// A name that is free in the whole cloud, of at most 24 letters and digits.
    pub fn unique(&self, prefix: &str) -> String {
        format!("{prefix}{}", &self.client.timing().random.uuid().replace('-', "")[..12])
    }

    /// Our own principal.
    pub async fn me(&self) -> String {
        let id = self.env.get("AZURE_CLIENT_ID").unwrap();
        self.client.graph().service_principal_of(id).await.unwrap().unwrap().id
    }

    /// Gives a principal a role at a scope.
    pub async fn assign(&self, principal: &str, role: &str, scope: &ResourceId) {
        let role = format!("{}/providers/Microsoft.Authorization/roleDefinitions/{role}", self.subscription);
        let body = json!({"properties": {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}});
        let assignments = self.client.arm::<RoleAssignments>();
        let id = assignments.id(scope, &self.client.timing().random.uuid()).unwrap();
        assignments.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    }

    /// A client that waits until rights have arrived.
    pub async fn with_role(&self, role: &str, scope: &ResourceId) -> Client {
        self.assign(&self.me().await, role, scope).await;
        self.client.settling(std::time::Duration::from_secs(600))
    }

    /// The simulator, in tests that only it can serve; says so where it is skipped.
    pub fn only_sim(&self, why: &str) -> Option<&AzureSim> {
        if self.sim.is_none() {
            println!("skipped against Azure: {why}");
        }
        self.sim.as_ref()
    }

    /// Runs a test in a new group and deletes the group whatever happens; the outcome is the test's.
    pub async fn in_group<F: Future<Output = ()>>(&self, name: &str, test: impl FnOnce(ResourceId) -> F) {
        let unique = format!("zaffre-contract-{name}-{}", &self.client.timing().random.uuid()[..8]);
        let groups = self.client.arm::<ResourceGroups>();
        let id = groups.id(&self.subscription, &unique).unwrap();
        let body = serde_json::from_value(json!({"location": self.location})).unwrap();
        groups.put(&id, &body).await.unwrap();
        let outcome = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(test(id.clone()))).await;
        let deleted = groups.delete(&id).await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
        assert_eq!(deleted.unwrap(), Deleted::Done);
        assert!(!groups.exists(&id).await.unwrap());
    }
}
