//! A vault as its requests work on it, and how it refuses them.

use crate::planes::Datum;
use crate::planes::vault::objects::{Object, Recovery, Sort, Version};
use crate::planes::vault::{certificates, keys, secrets};
use crate::state::{Record, State};
use crate::wire::Reply;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

/// A refusal, with the words of the service.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    pub inner: Option<&'static str>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), inner: None }
    }

    pub fn bad(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "BadParameter", message)
    }

    pub fn inner(mut self, code: &'static str) -> Refusal {
        self.inner = Some(code);
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn reply(self) -> Reply {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(code) = self.inner {
            error["innererror"] = json!({"code": code});
        }
        Reply::json(self.status, json!({"error": error}))
    }
}

/// What a call is about.
pub struct Room<'a> {
    pub state: &'a mut State,
    pub vault: Arc<Record>,
    /// Lower case.
    pub name: String,
    pub now: i64,
}

impl Room<'_> {
    pub fn open(state: &mut State, vault: Arc<Record>, now: i64) -> Room<'_> {
        let name = vault.id.name().to_lowercase();
        Room { state, vault, name, now }
    }

    pub fn base(&self) -> String {
        format!("https://{}.vault.azure.net", self.name)
    }

    pub fn key(&self, sort: Sort, name: &str) -> String {
        format!("v/{}/{}/{}", self.name, sort.path(), name.to_lowercase())
    }

    pub fn recovery(&self) -> Recovery {
        let days = self.vault.property("softDeleteRetentionInDays").and_then(Value::as_i64).unwrap_or(90);
        let protected =
            self.vault.property("enablePurgeProtection").and_then(Value::as_bool).unwrap_or(false);
        Recovery { days, protected }
    }

    /// An object, deleted or not; one whose time is up is gone.
    pub fn any(&self, sort: Sort, name: &str) -> Option<&Object> {
        match self.state.data.get(&self.key(sort, name)) {
            Some(Datum::Object(o)) if o.deleted.is_none_or(|(_, until)| until > self.now) => Some(o),
            _ => None,
        }
    }

    pub fn object(&self, sort: Sort, name: &str) -> Option<&Object> {
        self.any(sort, name).filter(|o| o.deleted.is_none() && !o.versions.is_empty())
    }

    pub fn put(&mut self, object: Object) {
        let key = self.key(object.sort, &object.name);
        self.state.data.put(&key, Datum::Object(Box::new(object)));
    }

    pub fn remove(&mut self, sort: Sort, name: &str) {
        let key = self.key(sort, name);
        self.state.data.remove(&key);
    }

    pub fn missing(&self, sort: Sort, name: &str) -> Refusal {
        let (word, link) = match sort {
            Sort::Secret => ("SecretNotFound", "2125182"),
            Sort::Key => ("KeyNotFound", "2125182"),
            Sort::Certificate => ("CertificateNotFound", "2125182"),
        };
        let what = sort.word().to_lowercase();
        Refusal::new(
            StatusCode::NOT_FOUND,
            word,
            format!(
                "A {what} with (name/id) {name} was not found in this key vault. If you recently deleted this {what} you may be able to recover it using the correct recovery command. For help resolving this issue, please see https://go.microsoft.com/fwlink/?linkid={link}"
            ),
        )
    }

    /// Refuses a name that a deleted object still holds, or that a certificate holds.
    pub fn free(&self, sort: Sort, name: &str) -> Result<(), Refusal> {
        let Some(o) = self.any(sort, name) else { return Ok(()) };
        if o.deleted.is_some() {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!(
                    "{} {name} is currently in a deleted but recoverable state, and its name cannot be reused; in this state, the {} can only be recovered or purged.",
                    sort.word(),
                    sort.word().to_lowercase()
                ),
            )
            .inner("ObjectIsDeletedButRecoverable"));
        }
        if o.managed {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "Forbidden",
                format!(
                    "Operation is not allowed on a managed {}: change its certificate.",
                    sort.word().to_lowercase()
                ),
            ));
        }
        Ok(())
    }

    /// A version id: 32 hex digits that depend on the seed and on how many there were.
    pub fn version_id(&mut self, sort: Sort, name: &str) -> String {
        let key: crate::state::Key = self.key(sort, name).into();
        self.state.bump(&key);
        self.state.guid(&key, "version").replace('-', "")
    }

    /// What clients see of a version.
    pub fn shown(&self, o: &Object, v: &Version) -> Value {
        match o.sort {
            Sort::Secret => secrets::shown(self, o, v),
            Sort::Key => keys::shown(self, o, v),
            Sort::Certificate => certificates::shown(self, o, v),
        }
    }

    pub fn deleted_fields(&self, o: &Object, out: &mut Value) {
        if let Some((at, until)) = o.deleted {
            out["recoveryId"] = format!("{}/deleted{}/{}", self.base(), o.sort.path(), o.name).into();
            out["deletedDate"] = at.into();
            out["scheduledPurgeDate"] = until.into();
        }
    }
}

pub fn name_ok(name: &str) -> bool {
    (1..=127).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
