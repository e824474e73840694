//! Registering resource providers: a subscription that never used one must say so first.

use crate::pipeline::{Call, Client, Error};
use arm::ErrorDetail;
use http::Method;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const VERSION: &str = "2021-04-01";
const PATIENCE: Duration = Duration::from_secs(600);

/// One registration at a time per provider; who comes second finds it done.
pub type Registering = Mutex<HashMap<(String, String), Arc<tokio::sync::Mutex<()>>>>;

/// Which provider is missing: what the message names (it may be another than the path's), else the path's.
pub fn namespace(detail: &ErrorDetail, path: &str) -> Option<String> {
    let named = detail.message.split("namespace '").nth(1).and_then(|r| r.split('\'').next());
    let lower = path.to_ascii_lowercase();
    let in_path = lower.rfind("/providers/").and_then(|i| path[i + 11..].split('/').next());
    let fits = |n: &&str| {
        !n.is_empty() && n.len() <= 100 && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
    };
    named.filter(fits).or_else(|| in_path.filter(fits)).map(str::to_owned)
}

impl Client {
    /// Registers a provider and waits until it is.
    pub async fn register_provider(&self, subscription: &str, namespace: &str) -> Result<(), Error> {
        let correlation = self.uuid();
        self.register(subscription, namespace, &correlation).await
    }

    pub(super) async fn register(
        &self,
        subscription: &str,
        namespace: &str,
        correlation: &str,
    ) -> Result<(), Error> {
        let key = (subscription.to_ascii_lowercase(), namespace.to_ascii_lowercase());
        let turn = self.0.registering.lock().entry(key).or_default().clone();
        let _turn = turn.lock().await;
        let at = format!("/subscriptions/{subscription}/providers/{namespace}");
        if self.registration(&at, correlation).await? == "Registered" {
            return Ok(());
        }
        tracing::info!(subscription, namespace, "registering a resource provider");
        let call = Call::new(Method::POST, format!("{at}/register?api-version={VERSION}")).repeatable();
        self.unregistered(call, correlation).await?;
        let (mut wait, mut waited) = (Duration::from_millis(500), Duration::ZERO);
        loop {
            let state = self.registration(&at, correlation).await?;
            if state == "Registered" {
                return Ok(());
            }
            if waited >= PATIENCE {
                return Err(Error::Registration {
                    subscription: subscription.to_owned(),
                    namespace: namespace.to_owned(),
                    state,
                });
            }
            self.0.timing.pause.pause(wait).await;
            waited += wait;
            wait = (wait * 2).min(Duration::from_secs(15));
        }
    }

    async fn registration(&self, at: &str, correlation: &str) -> Result<String, Error> {
        let answer = self.unregistered(Call::get(format!("{at}?api-version={VERSION}")), correlation).await?;
        let body = answer.json().unwrap_or_default();
        Ok(body["registrationState"].as_str().unwrap_or("unknown").to_owned())
    }

    /// A call that must not itself lead to a registration. Boxed: the pipeline calls itself here.
    async fn unregistered(&self, call: Call, correlation: &str) -> Result<crate::Answer, Error> {
        let url = self.resolve(&call.service, &call.target)?;
        Box::pin(self.run(&call, &url, correlation, false)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_namespace() {
        let of = |m: &str, p: &str| namespace(&ErrorDetail::new("c", m), p);
        let path = "/subscriptions/s/resourceGroups/g/providers/A.B/c/d/Providers/E.F/g/h";
        assert_eq!(of("not registered to use namespace 'X.Y'. See", path).as_deref(), Some("X.Y"));
        assert_eq!(of("no", path).as_deref(), Some("E.F"));
        assert_eq!(of("namespace 'a/../b'", "/x"), None);
    }
}
