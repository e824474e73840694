//! Whoever is logged in with `az`.

use crate::credential::error::CredentialError;
use crate::credential::{AccessToken, TokenRequest, TokenSource};
use crate::{Env, Secret, Timing};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// `az` is slow, and slower when it refreshes its own tokens.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct AzureCli {
    program: Option<PathBuf>,
    tenant: Option<String>,
    timing: Timing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    access_token: Secret,
    /// Seconds; newer versions only. The other field is local time without a zone, which cannot be trusted.
    #[serde(default, rename = "expires_on")]
    expires_on: Option<i64>,
}

impl AzureCli {
    /// Looks for `az` on the `PATH` of the environment given, so that what runs is what the caller meant.
    pub fn new(env: &Env, timing: Timing) -> AzureCli {
        let path = env.get("PATH").unwrap_or_default();
        let program = std::env::split_paths(path).map(|d| d.join("az")).find(|p| p.is_file());
        AzureCli { program, tenant: env.get("AZURE_TENANT_ID").map(str::to_owned), timing }
    }

    async fn fetch(&self, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        let missing = || CredentialError::Cli("'az' is not on the PATH".to_owned());
        let program = self.program.as_ref().ok_or_else(missing)?;
        let mut command = Command::new(program);
        command.args(["account", "get-access-token", "--output", "json", "--scope", &ask.scope]);
        if let Some(tenant) = &self.tenant {
            command.args(["--tenant", tenant]);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        let run = tokio::time::timeout(PATIENCE, command.output()).await;
        let out = run
            .map_err(|_| CredentialError::Cli(format!("it did not finish within {PATIENCE:?}")))?
            .map_err(|e| CredentialError::Cli(format!("it cannot be started: {e}")))?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let line =
                said.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("it failed without a word");
            return Err(CredentialError::Cli(line.chars().take(300).collect()));
        }
        let printed: Printed = serde_json::from_slice(&out.stdout)
            .map_err(|_| CredentialError::Cli("it printed something that is not a token".to_owned()))?;
        let now = self.timing.clock.now();
        // Old versions do not say when in a way that can be read; their tokens are good for five minutes at least.
        let soon = now.checked_add(SignedDuration::from_mins(5)).unwrap_or(now);
        let expires = printed.expires_on.and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(soon);
        Ok(AccessToken { secret: printed.access_token, expires, refresh: None })
    }
}

impl TokenSource for AzureCli {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(self.fetch(ask))
    }

    fn describe(&self) -> String {
        "the Azure CLI's login".to_owned()
    }
}
