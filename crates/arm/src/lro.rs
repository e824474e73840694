//! Long-running operations: how a client learns that one is running, where to ask, and when it is over.
//!
//! Azure answers in several styles. [`Polling::of`] reads the first response the way the official clients do:
//! `Azure-AsyncOperation` first, then `Location`, then `provisioningState` in the body.

use crate::ErrorDetail;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// `properties.provisioningState`; anything but the three ends means that it is still running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ProvisioningState {
    Succeeded,
    Failed,
    Canceled,
    /// `Updating`, `Creating`, `Deleting`, `RegisteringDns`, and whatever comes next.
    Running(String),
}

impl ProvisioningState {
    pub fn as_str(&self) -> &str {
        match self {
            ProvisioningState::Succeeded => "Succeeded",
            ProvisioningState::Failed => "Failed",
            ProvisioningState::Canceled => "Canceled",
            ProvisioningState::Running(s) => s,
        }
    }

    pub fn is_terminal(&self) -> bool {
        !matches!(self, ProvisioningState::Running(_))
    }

    /// The state that a resource body shows, if it shows one.
    pub fn of(body: &Value) -> Option<ProvisioningState> {
        let s = body.get("properties")?.get("provisioningState")?.as_str()?;
        Some(ProvisioningState::from(s.to_owned()))
    }
}

impl From<String> for ProvisioningState {
    fn from(s: String) -> ProvisioningState {
        for end in [ProvisioningState::Succeeded, ProvisioningState::Failed, ProvisioningState::Canceled] {
            if s.eq_ignore_ascii_case(end.as_str()) {
                return end;
            }
        }
        ProvisioningState::Running(s)
    }
}

impl From<ProvisioningState> for String {
    fn from(s: ProvisioningState) -> String {
        s.as_str().to_owned()
    }
}

/// Where to ask next. Only URLs, so that it survives a restart of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "style", content = "url")]
pub enum Polling {
    /// Ask the operation; when it ends, the resource (or `Location`) holds the result.
    AsyncOperation(String),
    /// Ask this URL until it stops answering 202.
    Location(String),
    /// Ask the resource itself until its state is terminal.
    Body,
    /// Nothing is running.
    Done,
}

impl Polling {
    /// Reads the first response. `None`: 202 without any way to ask, which is an error of the service.
    pub fn of(status: u16, headers: &HeaderMap, body: Option<&Value>) -> Option<Polling> {
        let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let state = body.and_then(ProvisioningState::of);
        if status != 202 && state.as_ref().is_some_and(ProvisioningState::is_terminal) {
            return Some(Polling::Done);
        }
        if let Some(url) = header("azure-asyncoperation").or_else(|| header("operation-location")) {
            return Some(Polling::AsyncOperation(url));
        }
        // A `Location` beside 201 names the new resource; only with 202 is it a place to poll.
        match (status, header("location"), state) {
            (202, Some(url), _) => Some(Polling::Location(url)),
            (202, None, None) => None,
            (_, _, Some(_)) => Some(Polling::Body),
            _ => Some(Polling::Done),
        }
    }
}

/// What an operation resource answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationStatus {
    pub status: ProvisioningState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetail>,
    #[serde(flatten)]
    pub other: serde_json::Map<String, Value>,
}

/// One look at a running operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Running { wait: Duration },
    Succeeded,
    Failed(ErrorDetail),
}

impl OperationStatus {
    pub fn progress(&self, wait: Duration) -> Progress {
        match &self.status {
            ProvisioningState::Succeeded => Progress::Succeeded,
            ProvisioningState::Running(_) => Progress::Running { wait },
            end => {
                Progress::Failed(self.error.clone().unwrap_or_else(|| {
                    ErrorDetail::new(end.as_str(), "the operation ended without saying why")
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect()
    }

    #[test]
    fn reads_the_first_response_as_the_official_clients_do() {
        let running = json!({"properties": {"provisioningState": "Updating"}});
        let done = json!({"properties": {"provisioningState": "Succeeded"}});
        let aao = headers(&[("azure-asyncoperation", "a"), ("location", "l")]);
        let loc = headers(&[("location", "l")]);
        let none = HeaderMap::new();
        let cases = [
            (201, &aao, Some(&running), Some(Polling::AsyncOperation("a".into()))),
            (201, &aao, Some(&done), Some(Polling::Done)),
            (202, &aao, None, Some(Polling::AsyncOperation("a".into()))),
            (202, &loc, None, Some(Polling::Location("l".into()))),
            (201, &loc, None, Some(Polling::Done)),
            (200, &none, Some(&running), Some(Polling::Body)),
            (200, &none, None, Some(Polling::Done)),
            (202, &none, None, None),
        ];
        for (status, h, body, want) in cases {
            assert_eq!(Polling::of(status, h, body), want, "{status} {body:?}");
        }
    }

    #[test]
    fn only_three_states_end() {
        let status = |s: &str| serde_json::from_value::<OperationStatus>(json!({"status": s})).unwrap();
        let wait = Duration::from_secs(1);
        assert_eq!(status("Creating").progress(wait), Progress::Running { wait });
        assert_eq!(status("succeeded").progress(wait), Progress::Succeeded);
        assert!(matches!(status("Canceled").progress(wait), Progress::Failed(e) if e.code == "Canceled"));
    }
}
