//! What a vault stores: objects with versions, deleted softly.

use crate::planes::vault::crypto::Material;
use crate::state::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The three collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sort {
    Secret,
    Key,
    Certificate,
}

impl Sort {
    pub fn path(self) -> &'static str {
        match self {
            Sort::Secret => "secrets",
            Sort::Key => "keys",
            Sort::Certificate => "certificates",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Sort::Secret => "Secret",
            Sort::Key => "Key",
            Sort::Certificate => "Certificate",
        }
    }

    pub fn parse(path: &str) -> Option<(Sort, bool)> {
        let lower = path.to_ascii_lowercase();
        let (rest, deleted) = match lower.strip_prefix("deleted") {
            Some(rest) => (rest, true),
            None => (lower.as_str(), false),
        };
        let sort = [Sort::Secret, Sort::Key, Sort::Certificate].into_iter().find(|s| s.path() == rest)?;
        Some((sort, deleted))
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Attributes {
    pub enabled: bool,
    pub nbf: Option<i64>,
    pub exp: Option<i64>,
    pub created: i64,
    pub updated: i64,
    pub exportable: bool,
}

/// A certificate's bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Issued {
    /// The leaf first.
    pub chain: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Holds {
    Secret { value: Secret, content_type: Option<String> },
    Key { material: Material, ops: Vec<String> },
    Certificate(Issued),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Version {
    pub id: String,
    pub attributes: Attributes,
    pub tags: Option<Map<String, Value>>,
    pub holds: Holds,
}

/// An issuance under way, with what it will make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pending {
    pub version: String,
    pub request: String,
    pub issuer: String,
    /// The signing request, DER.
    pub csr: Vec<u8>,
    pub material: Material,
    /// What is issued when it is due; nothing if somebody else issues it.
    pub issued: Option<Issued>,
    pub due: Option<i64>,
    pub tags: Option<Map<String, Value>>,
    pub enabled: bool,
    pub cancelled: bool,
    pub done: bool,
    /// What it ends with instead of a certificate.
    #[serde(default)]
    pub fails: Option<crate::trouble::Why>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Object {
    pub name: String,
    pub sort: Sort,
    /// The oldest first.
    pub versions: Vec<Version>,
    /// When it was deleted, and when it goes for good.
    pub deleted: Option<(i64, i64)>,
    /// Of a certificate, or the rotation policy of a key.
    pub policy: Option<Value>,
    pub pending: Option<Box<Pending>>,
    /// Made by a certificate: not changed by itself.
    pub managed: bool,
}

impl Object {
    pub fn new(name: &str, sort: Sort) -> Object {
        Object {
            name: name.to_owned(),
            sort,
            versions: Vec::new(),
            deleted: None,
            policy: None,
            pending: None,
            managed: false,
        }
    }

    /// A version by its id; the newest if that is empty.
    pub fn version(&self, id: &str) -> Option<&Version> {
        match id {
            "" => self.versions.last(),
            id => self.versions.iter().find(|v| v.id.eq_ignore_ascii_case(id)),
        }
    }

    pub fn version_mut(&mut self, id: &str) -> Option<&mut Version> {
        match id {
            "" => self.versions.last_mut(),
            id => self.versions.iter_mut().find(|v| v.id.eq_ignore_ascii_case(id)),
        }
    }
}

/// How a vault treats what is deleted.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    pub days: i64,
    pub protected: bool,
}

impl Recovery {
    pub fn level(self) -> &'static str {
        match (self.days, self.protected) {
            (90, false) => "Recoverable+Purgeable",
            (_, false) => "CustomizedRecoverable+Purgeable",
            (90, true) => "Recoverable",
            (_, true) => "CustomizedRecoverable",
        }
    }
}

impl Attributes {
    pub fn new(now: i64) -> Attributes {
        Attributes { enabled: true, nbf: None, exp: None, created: now, updated: now, exportable: false }
    }

    /// Takes what the client said.
    pub fn merge(&mut self, given: &Value) -> Result<(), String> {
        let number = |name: &str| match &given[name] {
            Value::Null => Ok(None),
            v => v.as_i64().map(Some).ok_or_else(|| format!("Property attributes.{name} has invalid value")),
        };
        let (nbf, exp) = (number("nbf")?, number("exp")?);
        match &given["enabled"] {
            Value::Null => {}
            Value::Bool(b) => self.enabled = *b,
            _ => return Err("Property attributes.enabled has invalid value".to_owned()),
        }
        self.nbf = nbf.or(self.nbf);
        self.exp = exp.or(self.exp);
        if let (Some(from), Some(until)) = (self.nbf, self.exp)
            && until <= from
        {
            return Err("Property attributes.exp must be later than attributes.nbf".to_owned());
        }
        Ok(())
    }

    pub fn json(&self, recovery: Recovery, sort: Sort) -> Value {
        let mut v = json!({"enabled": self.enabled});
        if let Some(n) = self.nbf {
            v["nbf"] = n.into();
        }
        if let Some(n) = self.exp {
            v["exp"] = n.into();
        }
        v["created"] = self.created.into();
        v["updated"] = self.updated.into();
        v["recoveryLevel"] = recovery.level().into();
        v["recoverableDays"] = recovery.days.into();
        if sort == Sort::Key {
            v["exportable"] = self.exportable.into();
        }
        v
    }
}
