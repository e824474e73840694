//! The target: a simulator that is started for the test, or Azure.

use arm::ResourceId;
use azure::ops::ResourceGroups;
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
