//! Secrets.

use super::objects::{Attributes, Objects, Sort, part};
use crate::Secret;
use crate::pipeline::Error;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub enum Secrets {}

impl Sort for Secrets {
    const PATH: &'static str = "secrets";
    const WHAT: &'static str = "a secret";
    type Version = SecretVersion;
}

/// A version of a secret with its value, except in answers that have none.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretVersion {
    pub id: String,
    #[serde(default)]
    pub value: Option<Secret>,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The key of the certificate that it belongs to.
    #[serde(default)]
    pub kid: Option<String>,
    #[serde(default)]
    pub managed: bool,
}

impl SecretVersion {
    pub fn version(&self) -> &str {
        part(&self.id, 2).unwrap_or_default()
    }
}

/// What a new version holds.
#[derive(Clone, Debug)]
pub struct SetSecret {
    pub value: Secret,
    pub content_type: Option<String>,
    pub attributes: Attributes,
    pub tags: BTreeMap<String, String>,
}

impl SetSecret {
    pub fn new(value: impl Into<String>) -> SetSecret {
        SetSecret {
            value: Secret::new(value),
            content_type: None,
            attributes: Attributes::default(),
            tags: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn content_type(mut self, content_type: &str) -> SetSecret {
        self.content_type = Some(content_type.to_owned());
        self
    }

    #[must_use]
    pub fn tag(mut self, name: &str, value: &str) -> SetSecret {
        self.tags.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl Objects<Secrets> {
    /// Adds a version, which is the newest from then on. Done twice after a lost answer, there are two that are equal.
    pub async fn set(&self, name: &str, new: &SetSecret) -> Result<SecretVersion, Error> {
        let mut body = json!({"value": new.value.expose(), "attributes": new.attributes, "tags": new.tags});
        if let Some(t) = &new.content_type {
            body["contentType"] = t.as_str().into();
        }
        self.vault.ask(self.call(Method::PUT, name, &[])?.body(body)).await
    }
}
