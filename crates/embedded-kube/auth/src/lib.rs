//! Identity in the embedded API server: who a caller is, and what they may do.
//!
//! * [`pki`]: a cluster's certificate authority, server and client certificates, signing requests.
//! * [`token`]: service-account tokens (ES256), their keys, discovery document and rotation.
//! * [`oidc`]: other issuers, as an AuthenticationConfiguration describes them.
//! * [`rbac`]: roles and bindings as an index that answers one question fast, and the rules against giving
//!   others more than one has.
//! * [`bootstrap`]: the roles every cluster starts with.
//!
//! Nothing here reads a store, a clock or the network: time and objects are handed in. Private keys live in
//! types whose `Debug` shows nothing of them.

pub mod bootstrap;
pub mod oidc;
pub mod pki;
pub mod rbac;
pub mod token;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

impl User {
    pub fn new(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..User::default()
        }
    }

    pub fn anonymous() -> User {
        User::new("system:anonymous", &[UNAUTHENTICATED])
    }

    /// The server itself, and the in-process client by default.
    pub fn loopback() -> User {
        User::new("system:apiserver", &[MASTERS, AUTHENTICATED])
    }

    pub fn service_account(namespace: &str, name: &str) -> User {
        User::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), AUTHENTICATED],
        )
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Everyone who has proven who they are is in this group.
    pub fn authenticated(mut self) -> User {
        if !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
