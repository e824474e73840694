//! What secrets, keys and certificates have in common.

use super::{VERSION, Vault};
use crate::Deleted;
use crate::pipeline::{Call, Error, Service};
use futures::stream::{BoxStream, TryStreamExt};
use http::Method;
use jiff::Timestamp;
use jiff::fmt::serde::timestamp::second::optional as seconds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

/// A sort of object.
pub trait Sort: Send + Sync + 'static {
    /// Of its collection.
    const PATH: &'static str;
    const WHAT: &'static str;
    /// A version, whole.
    type Version: DeserializeOwned + Send + 'static;
}

/// From when until when a version is good, and what becomes of it when it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attributes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(rename = "nbf", with = "seconds", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    #[serde(rename = "exp", with = "seconds", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    #[serde(with = "seconds", skip_serializing)]
    pub created: Option<Timestamp>,
    #[serde(with = "seconds", skip_serializing)]
    pub updated: Option<Timestamp>,
    #[serde(skip_serializing)]
    pub recovery_level: Option<String>,
    #[serde(skip_serializing)]
    pub recoverable_days: Option<u32>,
}

/// An object, or a version of one, in a list: nothing secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Item {
    #[serde(alias = "kid")]
    pub id: String,
    pub attributes: Attributes,
    pub tags: BTreeMap<String, String>,
    pub content_type: Option<String>,
    /// Belongs to a certificate.
    pub managed: bool,
}

impl Item {
    pub fn name(&self) -> &str {
        part(&self.id, 1).unwrap_or_default()
    }

    /// In lists of versions.
    pub fn version(&self) -> Option<&str> {
        part(&self.id, 2)
    }
}

/// `https://vault/sort/name/version`: the parts after the host.
pub(super) fn part(id: &str, n: usize) -> Option<&str> {
    id.split("://").nth(1)?.split('/').nth(n + 1).filter(|p| !p.is_empty())
}

/// What was deleted and can come back.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletedObject {
    pub recovery_id: String,
    #[serde(with = "seconds")]
    pub deleted_date: Option<Timestamp>,
    /// When it goes for good by itself.
    #[serde(with = "seconds")]
    pub scheduled_purge_date: Option<Timestamp>,
    pub attributes: Attributes,
}

impl DeletedObject {
    pub fn name(&self) -> &str {
        part(&self.recovery_id, 1).unwrap_or_default()
    }
}

/// The objects of one sort in a vault.
pub struct Objects<S> {
    pub(super) vault: Vault,
    of: PhantomData<fn() -> S>,
}

impl<S> Clone for Objects<S> {
    fn clone(&self) -> Objects<S> {
        Objects { vault: self.vault.clone(), of: PhantomData }
    }
}

/// Between looks whether a deletion or recovery has come true.
const FIRST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// They take seconds; after this something is wrong.
const LOOKS: Duration = Duration::from_secs(180);

fn name_ok(name: &str) -> bool {
    (1..=127).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl<S: Sort> Objects<S> {
    pub(super) fn new(vault: Vault) -> Objects<S> {
        Objects { vault, of: PhantomData }
    }

    /// A call about an object; `rest` follows its name.
    pub(super) fn call(&self, method: Method, name: &str, rest: &[&str]) -> Result<Call, Error> {
        self.call_in(S::PATH, method, name, rest)
    }

    fn call_in(&self, path: &str, method: Method, name: &str, rest: &[&str]) -> Result<Call, Error> {
        let all = [name].into_iter().chain(rest.iter().copied());
        if let Some(bad) = all.into_iter().find(|n| !name_ok(n)) {
            let why = "names and versions have 1 to 127 letters, digits and hyphens";
            return Err(Error::Name { what: S::WHAT, name: bad.chars().take(80).collect(), why });
        }
        let mut at = format!("{path}/{name}");
        for r in rest {
            at = format!("{at}/{r}");
        }
        Ok(self.vault.call(method, &at))
    }

    fn deleted_path() -> String {
        format!("deleted{}", S::PATH)
    }

    /// The newest version.
    pub async fn get(&self, name: &str) -> Result<S::Version, Error> {
        self.vault.ask(self.call(Method::GET, name, &[])?).await
    }

    pub async fn get_version(&self, name: &str, version: &str) -> Result<S::Version, Error> {
        self.vault.ask(self.call(Method::GET, name, &[version])?).await
    }

    /// Like `get`, but what is not there is `None`.
    pub async fn find(&self, name: &str) -> Result<Option<S::Version>, Error> {
        match self.get(name).await {
            Ok(v) => Ok(Some(v)),
            Err(e) if e.is_not_found() && !e.has_code("VaultNotFound") => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Changes attributes and tags of a version; what is not mentioned stays.
    pub async fn update(
        &self,
        name: &str,
        version: &str,
        attributes: &Attributes,
        tags: Option<&BTreeMap<String, String>>,
    ) -> Result<S::Version, Error> {
        let mut body = serde_json::json!({"attributes": attributes});
        if let Some(tags) = tags {
            body["tags"] = serde_json::json!(tags);
        }
        self.vault.ask(self.call(Method::PATCH, name, &[version])?.body(body).repeatable()).await
    }

    fn items<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
    ) -> BoxStream<'static, Result<T, Error>> {
        let target = format!("/{path}?api-version={VERSION}");
        self.vault.client.pages(Service::At(self.vault.door.clone()), target)
    }

    pub fn list(&self) -> BoxStream<'static, Result<Item, Error>> {
        self.items(S::PATH)
    }

    pub async fn list_all(&self) -> Result<Vec<Item>, Error> {
        self.list().try_collect().await
    }

    pub fn versions(&self, name: &str) -> Result<BoxStream<'static, Result<Item, Error>>, Error> {
        let call = self.call(Method::GET, name, &["versions"])?;
        Ok(self.vault.client.pages(call.service, call.target))
    }

    /// Deletes an object with all its versions, and waits until it can be recovered or purged.
    pub async fn delete(&self, name: &str) -> Result<Deleted, Error> {
        match self.vault.ask::<Value>(self.call(Method::DELETE, name, &[])?).await {
            Ok(_) => {}
            Err(e) if e.is_not_found() && !e.has_code("VaultNotFound") => return Ok(Deleted::Absent),
            Err(e) => return Err(e),
        }
        let call = self.call_in(&Self::deleted_path(), Method::GET, name, &[])?;
        self.until_found(call).await?;
        Ok(Deleted::Done)
    }

    /// What was deleted under this name.
    pub async fn deleted(&self, name: &str) -> Result<Option<DeletedObject>, Error> {
        let call = self.call_in(&Self::deleted_path(), Method::GET, name, &[])?;
        match self.vault.ask(call).await {
            Ok(v) => Ok(Some(v)),
            Err(e) if e.is_not_found() && !e.has_code("VaultNotFound") => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub fn list_deleted(&self) -> BoxStream<'static, Result<DeletedObject, Error>> {
        self.items(&Self::deleted_path())
    }

    /// Takes a deletion back, and waits until the object is there.
    pub async fn recover(&self, name: &str) -> Result<(), Error> {
        let call = self.call_in(&Self::deleted_path(), Method::POST, name, &["recover"])?;
        self.vault.ask::<Value>(call).await?;
        // By its versions: they can be listed even if the object itself is disabled.
        let call = self.call(Method::GET, name, &["versions"])?;
        self.until(call, |page| page["value"].as_array().is_some_and(|l| !l.is_empty())).await
    }

    /// Ends a deleted object for good. What is not there is ended already.
    pub async fn purge(&self, name: &str) -> Result<Deleted, Error> {
        let call = self.call_in(&Self::deleted_path(), Method::DELETE, name, &[])?;
        match self.vault.client.send(call).await {
            Ok(_) => Ok(Deleted::Done),
            Err(e) if e.is_not_found() && !e.has_code("VaultNotFound") => Ok(Deleted::Absent),
            Err(e) => Err(e),
        }
    }

    async fn until_found(&self, call: Call) -> Result<(), Error> {
        self.until(call, |_| true).await
    }

    /// Asks until it is there and as it should be.
    async fn until(&self, call: Call, good: impl Fn(&Value) -> bool) -> Result<(), Error> {
        let (mut wait, mut waited) = (FIRST_LOOK, Duration::ZERO);
        loop {
            match self.vault.ask::<Value>(call.clone()).await {
                Ok(v) if good(&v) => return Ok(()),
                Ok(_) => {}
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
            if waited >= LOOKS {
                return Err(Error::StillRunning { path: super::path_of(&call), waited });
            }
            self.vault.client.timing().pause.pause(wait).await;
            waited += wait;
            wait = (wait * 2).min(LONGEST_LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_have_names_and_versions() {
        let id = |id: &str| Item { id: id.to_owned(), ..Item::default() };
        let whole = id("https://v.vault.azure.net/secrets/s/0123");
        assert_eq!((whole.name(), whole.version()), ("s", Some("0123")));
        assert_eq!(id("https://v.vault.azure.net/keys/k").version(), None);
        assert_eq!(id("rubbish").name(), "");
        assert!(name_ok("a-1") && !name_ok("a/b") && !name_ok("..") && !name_ok("") && !name_ok("a b"));
    }

    #[test]
    fn times_are_seconds_and_what_the_service_decides_is_not_written() {
        let v = json!({"enabled": true, "nbf": 1, "exp": 2, "created": 3, "recoveryLevel": "Recoverable", "recoverableDays": 90});
        let a: Attributes = serde_json::from_value(v).unwrap();
        assert_eq!(a.expires, Some(Timestamp::from_second(2).unwrap()));
        assert_eq!(serde_json::to_value(&a).unwrap(), json!({"enabled": true, "nbf": 1, "exp": 2}));
    }
}
