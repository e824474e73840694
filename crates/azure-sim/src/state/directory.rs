//! Who exists: applications with their credentials, and the principals that roles are given to.

use crate::state::Key;
use imbl::OrdMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// A client secret. Not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(Arc<str>);

impl Secret {
    pub fn new(text: &str) -> Secret {
        Secret(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares without revealing by time where the first difference is.
    pub fn matches(&self, given: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), given.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// A certificate an application may sign assertions with: its DER.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate(pub Arc<[u8]>);

/// One of an application's secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password {
    pub id: String,
    pub name: Option<String>,
    pub secret: Secret,
    pub from: Timestamp,
    pub until: Option<Timestamp>,
}

/// Whose tokens an application accepts instead of its own secret. Those of managed identities are resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FederatedCredential {
    pub id: String,
    pub name: String,
    pub issuer: String,
    pub subject: String,
    pub audiences: Vec<String>,
    pub description: Option<String>,
    #[serde(default)]
    pub changed: Option<Timestamp>,
}

/// An application registration. A user-assigned identity has one too, without secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct App {
    pub client_id: String,
    /// Of the application, not of its principal.
    pub object_id: String,
    pub name: String,
    pub passwords: Vec<Password>,
    pub certificates: Vec<Certificate>,
    pub federated: Vec<FederatedCredential>,
    pub enabled: bool,
    pub created: Timestamp,
    /// Object id of the principal that made it.
    pub owner: Option<String>,
    /// Of a managed identity: not shown as an application.
    pub managed: bool,
    /// Other fields, as they were given.
    pub other: Map<String, Value>,
}

/// A version of itself: another allocation is another version.
impl PartialEq for App {
    fn eq(&self, other: &App) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for App {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrincipalKind {
    Application,
    /// A managed identity: the id of the resource.
    Identity(Key, Arc<str>),
}

/// A service principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    pub object_id: String,
    pub client_id: String,
    pub name: String,
    pub kind: PrincipalKind,
    pub created: Timestamp,
    pub owner: Option<String>,
    /// Application permissions of Microsoft Graph that an administrator consented to, by name.
    #[serde(default)]
    pub graph_roles: Vec<String>,
}

/// Both by client id (lower case); principals also by object id.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    pub apps: OrdMap<String, Arc<App>>,
    pub principals: OrdMap<String, Arc<Principal>>,
    by_client: OrdMap<String, String>,
    /// Managed identities by the resource they belong to.
    by_resource: OrdMap<Key, String>,
}

impl Directory {
    pub fn add(&mut self, principal: Principal) {
        self.by_client.insert(principal.client_id.to_lowercase(), principal.object_id.to_lowercase());
        if let PrincipalKind::Identity(key, _) = &principal.kind {
            self.by_resource.insert(key.clone(), principal.object_id.to_lowercase());
        }
        self.principals.insert(principal.object_id.to_lowercase(), Arc::new(principal));
    }

    pub fn add_app(&mut self, app: App) {
        self.apps.insert(app.client_id.to_lowercase(), Arc::new(app));
    }

    pub fn principal(&self, object_id: &str) -> Option<&Arc<Principal>> {
        self.principals.get(&object_id.to_lowercase())
    }

    pub fn by_client(&self, client_id: &str) -> Option<&Arc<Principal>> {
        self.principals.get(self.by_client.get(&client_id.to_lowercase())?)
    }

    /// An application by the object id of its own.
    pub fn app(&self, object_id: &str) -> Option<&Arc<App>> {
        self.apps.values().find(|a| a.object_id.eq_ignore_ascii_case(object_id))
    }

    pub fn remove_principal(&mut self, object_id: &str) {
        if let Some(p) = self.principals.remove(&object_id.to_lowercase()) {
            self.by_client.remove(&p.client_id.to_lowercase());
            if let PrincipalKind::Identity(key, _) = &p.kind {
                self.by_resource.remove(key);
            }
        }
    }

    /// The principal of a managed identity.
    pub fn of_resource(&self, key: &str) -> Option<&Arc<Principal>> {
        self.principals.get(self.by_resource.get(key)?)
    }

    /// A managed identity disappears with its resource.
    pub fn remove_resource(&mut self, key: &str) {
        if let Some(p) = self.of_resource(key).cloned() {
            self.remove_principal(&p.object_id);
            self.apps.remove(&p.client_id.to_lowercase());
        }
    }
}
