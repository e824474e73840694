//! What a registry is asked beside its resource..

use super::{Arm, Registries};
use crate::Secret;
use crate::pipeline::Error;
use arm::ResourceId;
use serde::Deserialize;
use serde_json::{Value, json};

/// Where an image comes from.
#[derive(Clone, Debug)]
pub enum ImportFrom {
    /// Another registry of Azure's, by its resource.
    Registry(ResourceId),
    /// Any registry by its host.
    Host { host: String, username: Option<String>, password: Option<Secret> },
}

#[derive(Clone, Debug)]
pub struct ImageImport {
    pub from: ImportFrom,
    /// `repository:tag` or `repository@digest`.
    pub image: String,
    /// `repository:tag`; the same as the source's if none is named.
    pub tags: Vec<String>,
    /// Replace tags that are there.
    pub force: bool,
}

/// The admin user of a registry, if it is switched on.
#[derive(Clone, Debug, Deserialize)]
pub struct RegistryLogin {
    pub username: String,
    pub passwords: Vec<RegistryPassword>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RegistryPassword {
    pub name: String,
    pub value: Secret,
}

impl Arm<Registries> {
    /// Copies an image into the registry, by the registry itself, and waits until it is there.
    pub async fn import_image(&self, id: &ResourceId, what: &ImageImport) -> Result<(), Error> {
        let mut source = json!({"sourceImage": what.image});
        match &what.from {
            ImportFrom::Registry(from) => source["resourceId"] = from.as_str().into(),
            ImportFrom::Host { host, username, password } => {
                source["registryUri"] = host.as_str().into();
                if let Some(password) = password {
                    source["credentials"] = json!({"username": username, "password": password.expose()});
                }
            }
        }
        let mode = if what.force { "Force" } else { "NoForce" };
        let body = json!({"source": source, "targetTags": what.tags, "mode": mode});
        self.action::<Value>(id, "importImage", Some(body)).await.map(drop)
    }

    pub async fn login(&self, id: &ResourceId) -> Result<RegistryLogin, Error> {
        self.action(id, "listCredentials", None).await
    }
}
