//! Who makes payloads.
//!
//! The real thing extracts the machine-config operator's templates and binaries from the release image and runs three of
//! them in a row; what comes out is the Ignition config of one pool. That step is a trait: [`crate::render`] makes a
//! config that names everything a node of this cluster needs, and [`crate::command`] asks a program of yours, which can
//! do the rest.

use crate::names::input;
use crate::token::{Hidden, Token};
use bytes::Bytes;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeMap;

/// The configuration, or what it refers to, is of no use.
pub const INVALID_CONFIG: &str = "InvalidConfig";
/// The cloud's configuration is being replaced.
pub const CLOUD_CONFIG_PENDING: &str = "CloudConfigPending";
/// Something that a payload needs is not there yet.
pub const INPUT_PENDING: &str = "InputPending";
/// The release image cannot be read.
pub const RELEASE_UNREADABLE: &str = "ReleaseUnreadable";

/// Why there is no payload. Words may be shown to anybody who may see the NodePool: no secrets in them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Refused {
    pub reason: &'static str,
    pub message: String,
    /// Whether it may go better without anything that we watch changing.
    pub again: bool,
}

impl Refused {
    pub fn invalid(message: impl Into<String>) -> Refused {
        Refused { reason: INVALID_CONFIG, message: message.into(), again: false }
    }

    pub fn pending(message: impl Into<String>) -> Refused {
        Refused { reason: INPUT_PENDING, message: message.into(), again: false }
    }
}

/// What lies in the control plane's namespace for us.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub secrets: BTreeMap<&'static str, BTreeMap<String, Hidden>>,
    pub config_maps: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// The HostedControlPlane.
    pub plane: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("cannot read {what}")]
    Read { what: String, source: Box<kube::Error> },
    #[error("there is no HostedControlPlane in namespace {0}")]
    NoPlane(String),
}

impl Inputs {
    pub async fn read(client: &Client, namespace: &str) -> Result<Inputs, InputError> {
        let failed = |what: String| move |e| InputError::Read { what, source: Box::new(e) };
        let mut inputs = Inputs::default();
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        for name in input::SECRETS {
            let found = secrets.get_opt(name).await.map_err(failed(format!("Secret {name}")))?;
            let Some(data) = found.and_then(|s| s.data) else { continue };
            let data = data.into_iter().map(|(k, v)| (k, Hidden::new(v.0))).collect();
            inputs.secrets.insert(name, data);
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for name in input::CONFIG_MAPS {
            let found = maps.get_opt(name).await.map_err(failed(format!("ConfigMap {name}")))?;
            let Some(data) = found.and_then(|s| s.data) else { continue };
            inputs.config_maps.insert(name, data);
        }
        let planes = crate::operate::PLANE.api(client, namespace);
        let list = planes.list(&kube::api::ListParams::default().limit(1)).await;
        let list = list.map_err(failed("HostedControlPlanes".to_owned()))?;
        let plane = list.items.into_iter().next();
        let plane = plane.ok_or_else(|| InputError::NoPlane(namespace.to_owned()))?;
        inputs.plane = serde_json::to_value(plane).unwrap_or_default();
        Ok(inputs)
    }

    pub fn secret(&self, name: &str, key: &str) -> Option<&[u8]> {
        self.secrets.get(name)?.get(key).map(Hidden::expose)
    }

    pub fn config_map(&self, name: &str, key: &str) -> Option<&str> {
        self.config_maps.get(name)?.get(key).map(String::as_str)
    }
}

/// What a payload is asked for with.
pub struct Ask<'a> {
    pub token: &'a Token,
    /// The manifests of the pool, unpacked.
    pub config: &'a str,
    pub inputs: &'a Inputs,
}

pub trait PayloadProvider: Send + Sync + 'static {
    /// An Ignition config, in JSON.
    fn payload<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Bytes, Refused>>;
}

/// A release, as far as nodes care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    pub version: String,
    pub kubernetes: String,
    /// Images by component.
    pub images: BTreeMap<String, String>,
}

/// Who reads releases.
pub trait Releases: Send + Sync + 'static {
    /// `pull_secret` is a Docker configuration in JSON.
    fn release<'a>(&'a self, image: &'a str, pull_secret: &'a [u8])
    -> BoxFuture<'a, Result<Release, String>>;
}
