//! Who asks, and where: flags over the environment.

use crate::cli::prereqs::Account;
use anyhow::Context;
use arm::ResourceId;
use azure::{Client, ClientOptions, Cloud, Env, connect as connect_env};
use self_managed::Refused;
use serde::Deserialize;

/// A client, and the subscription to work in.
pub struct Azure {
    pub client: Client,
    pub subscription: ResourceId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Creds {
    subscription_id: String,
    tenant_id: String,
    client_id: String,
    client_secret: String,
}

/// Other ways to say who one is; a credentials file that is named wins over all of them.
const OTHERS: [&str; 5] = [
    "AZURE_AUTH_LOCATION",
    "ZAFFRE_AZURE_MSI_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "IDENTITY_ENDPOINT",
];

/// The environment as the flags have it.
fn environment(account: &Account) -> anyhow::Result<Env> {
    let mut env = Env::of_process();
    if let Some(path) = &account.azure_creds {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("cannot read the credentials file {} (--azure-creds)", path.display())
        })?;
        // JSON is YAML; the parser's message could quote a secret, so it is not shown.
        let creds: Creds = serde_saphyr::from_str(&text).map_err(|_| {
            anyhow::anyhow!(
                "{} (--azure-creds) must be YAML or JSON with subscriptionId, tenantId, clientId and clientSecret",
                path.display()
            )
        })?;
        env = OTHERS.iter().fold(env, |env, name| env.without(name));
        env = env
            .with("AZURE_SUBSCRIPTION_ID", creds.subscription_id)
            .with("AZURE_TENANT_ID", creds.tenant_id)
            .with("AZURE_CLIENT_ID", creds.client_id)
            .with("AZURE_CLIENT_SECRET", creds.client_secret);
    }
    if let Some(cloud) = &account.cloud {
        Cloud::named(cloud).map_err(|e| Refused::value("--cloud", cloud, &e.to_string()))?;
        env = env.with("AZURE_ENVIRONMENT", cloud);
        // A simulator answers for public Azure; another cloud was asked for by name.
        if !cloud.eq_ignore_ascii_case("AzurePublicCloud") {
            env = env.without("ZAFFRE_AZURE_ARM_URL").without("AZURE_AUTHORITY_HOST");
        }
    }
    Ok(env)
}

/// Subscription and tenant, without asking anybody.
pub fn names(account: &Account) -> anyhow::Result<(String, String)> {
    let env = environment(account)?;
    let one = |name: &str, what: &str| {
        let value = env.get(name).filter(|v| !v.is_empty()).map(str::to_owned);
        value.with_context(|| format!("no {what} is named: give --azure-creds FILE, or set {name}"))
    };
    Ok((one("AZURE_SUBSCRIPTION_ID", "subscription")?, one("AZURE_TENANT_ID", "tenant")?))
}

pub async fn connect(account: &Account) -> anyhow::Result<Azure> {
    let env = environment(account)?;
    let connected = connect_env(&env, ClientOptions::default()).await.context("cannot reach Azure")?;
    let subscription = connected
        .subscription
        .context("no subscription is named: give --azure-creds FILE, or set AZURE_SUBSCRIPTION_ID")?;
    Ok(Azure { client: connected.client, subscription: ResourceId::subscription_scope(&subscription)? })
}
