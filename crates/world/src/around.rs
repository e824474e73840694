//! What the operator of control planes is told: releases out of a registry, and whether an API answers.
//!
//! Nothing here knows an embedded world: it is given a Kubernetes client, a registry client and a way to dial.

use crate::Cloud;
use crate::health::{Dial, Health};
use crate::verdicts::Verdicts;
use apis::hypershift::shared::SharedSpec;
use apis::hypershift::status::PayloadArch;
use apis::hypershift::{HostedCluster, HostedControlPlane};
use azure::oci::{Images, Logins, Mirror};
use clock::SharedClock;
use control_plane::facts;
use control_plane::operate::{Surroundings, Verdict};
use control_plane::scope::{Management, Release, Scope};
use futures::future::BoxFuture;
use hypershift::preflight::Preflight;
use hypershift::{BootImage, Machinery, NoRelease, Payload};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::{Failure, chain};
use release::Releases;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A tag may move; this is how late we may notice.
const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// More images than any region installs at a time.
const KEPT: usize = 256;
/// The user that pods run as where the cluster picks none.
const USER: i64 = 1001;

/// What operators know of the world around them.
pub struct Around {
    client: Client,
    images: Images,
    releases: Releases,
    known: Mutex<HashMap<String, (Found, Timestamp)>>,
    health: Health,
    clock: SharedClock,
    /// The image with our own programs.
    ours: String,
    vault_reader: String,
    minor: u32,
    preflight: Option<Arc<dyn Preflight>>,
    verdicts: Option<Verdicts>,
    sizing: bool,
    shared_ingress: Option<String>,
    machinery: Machinery,
}

impl Around {
    pub fn new(client: Client, images: Images, dial: impl Dial, clock: SharedClock, ours: String) -> Around {
        Around {
            client,
            images,
            releases: Releases::new(),
            known: Mutex::default(),
            health: Health::new(Arc::new(dial)),
            clock,
            ours,
            vault_reader: String::new(),
            minor: 34,
            preflight: None,
            verdicts: None,
            sizing: false,
            shared_ingress: None,
            machinery: Machinery::default(),
        }
    }

    /// The identity that mounts secrets of vaults.
    pub fn with_vault_reader(mut self, client_id: impl Into<String>) -> Around {
        self.vault_reader = client_id.into();
        self
    }

    /// Asks Azure with this account before anything is made.
    pub fn with_preflight(mut self, client: azure::Client) -> Around {
        self.preflight = Some(Arc::new(hypershift::preflight::azure::Arm::new(client)));
        self
    }

    /// Asks Azure as the control planes' own identities, where they have some; credentials are kept below `dir`.
    pub fn with_identities_of(mut self, cloud: &Cloud, dir: &Path) -> Around {
        self.verdicts = Some(Verdicts::new(cloud, dir));
        self
    }

    /// Clusters have sizes.
    pub fn with_sizing(mut self, sizing: bool) -> Around {
        self.sizing = sizing;
        self
    }

    /// Public clusters of the managed flavour share a router, which is this image.
    pub fn with_shared_ingress(mut self, image: Option<String>) -> Around {
        self.shared_ingress = image;
        self
    }

    /// Who keeps machines.
    pub fn with_machinery(mut self, machinery: Machinery) -> Around {
        self.machinery = machinery;
        self
    }

    /// Shares what others looked up.
    pub fn with_releases(mut self, releases: Releases) -> Around {
        self.releases = releases;
        self
    }

    async fn look_up(
        &self,
        image: &str,
        shared: &SharedSpec,
        logins: impl AsyncFnOnce() -> Result<Option<Logins>, Failure>,
    ) -> Result<Found, Failure> {
        let now = self.clock.now();
        let fixed = image.contains('@');
        if let Some((release, at)) = self.known.lock().get(image)
            && (fixed || now.duration_since(*at) < FRESH)
        {
            return Ok(release.clone());
        }
        let images = match logins().await? {
            Some(logins) => self.images.clone().logins(logins),
            None => self.images.clone(),
        };
        let images = images.mirrored(mirrors(shared));
        let payload = self.releases.payload(&images, image).await?;
        let release = Release {
            image: image.to_owned(),
            version: payload.version.clone(),
            kubernetes: payload.kubernetes.clone(),
            images: Arc::new(payload.images.clone()),
            ours: self.ours.clone(),
            registry_overrides: String::new(),
        };
        let found = Found { release, arch: payload_arch(&payload), boot: boot_images(&payload.boot) };
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(image.to_owned(), (found.clone(), now));
        Ok(found)
    }

    /// What the cluster's pull secret lets us read.
    async fn logins(&self, namespace: &str) -> Result<Option<Logins>, Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt("pull-secret").await?;
        let text = secret.and_then(|s| s.data?.remove(".dockerconfigjson"));
        let text = text.map(|t| String::from_utf8_lossy(&t.0).into_owned());
        Ok(text.map(|t| Logins::parse(&t)).transpose()?)
    }
}

/// A release, and what its machines boot from.
#[derive(Clone)]
struct Found {
    release: Release,
    arch: Option<PayloadArch>,
    boot: Arc<[BootImage]>,
}

/// As the operator takes them.
pub fn boot_images(boot: &release::BootImages) -> Arc<[BootImage]> {
    let of = |arch: &str, first_generation: bool, m: &release::Marketplace| BootImage {
        arch: arch.to_owned(),
        first_generation,
        publisher: m.publisher.clone(),
        offer: m.offer.clone(),
        sku: m.sku.clone(),
        version: m.version.clone(),
    };
    let each = boot.0.iter().flat_map(|(arch, g)| {
        let first = g.gen1.as_ref().map(|m| of(arch, true, m));
        first.into_iter().chain(g.gen2.as_ref().map(|m| of(arch, false, m)))
    });
    each.collect()
}

/// Where else a cluster's images may be had (`spec.imageContentSources`), its release among them.
pub fn mirrors(shared: &SharedSpec) -> impl Iterator<Item = Mirror> {
    shared.image_content_sources.iter().flatten().map(|s| Mirror {
        source: s.source.clone(),
        mirrors: s.mirrors.iter().flatten().map(|m| m.0.clone()).collect(),
        never_source: false,
        tags: true,
    })
}

/// For which processors a release is. Nothing if its image does not say, or names none that we know.
pub fn payload_arch(payload: &release::Payload) -> Option<PayloadArch> {
    let mut known = payload.architectures.iter().filter_map(|a| match a.as_str() {
        "amd64" => Some(PayloadArch::Amd64),
        "arm64" => Some(PayloadArch::Arm64),
        "ppc64le" => Some(PayloadArch::Ppc64Le),
        "s390x" => Some(PayloadArch::S390X),
        _ => None,
    });
    match (known.next(), known.next()) {
        (Some(_), Some(_)) => Some(PayloadArch::Multi),
        (one, _) => one,
    }
}

/// What a user is told when there is no release.
fn no_release(e: Failure) -> NoRelease {
    let text = chain(&*e).to_string();
    match e.downcast_ref::<release::Error>() {
        Some(e) if e.is_final() => NoRelease::Invalid(text),
        _ => NoRelease::Unreachable(text),
    }
}

impl hypershift::Surroundings for Around {
    fn release<'a>(
        &'a self,
        cluster: &'a HostedCluster,
        image: &'a str,
        pull_secret: &'a [u8],
    ) -> BoxFuture<'a, Result<Payload, NoRelease>> {
        Box::pin(async move {
            let logins = Logins::parse(&String::from_utf8_lossy(pull_secret));
            let logins = logins.map_err(|e| NoRelease::Invalid(chain(&e).to_string()))?;
            let found = self.look_up(image, &cluster.spec.shared, async || Ok(Some(logins))).await;
            let found = found.map_err(no_release)?;
            Ok(Payload { release: found.release, arch: found.arch, boot: found.boot })
        })
    }

    fn management(&self) -> hypershift::Management {
        hypershift::Management { openshift: false, minor: self.minor, routes: true }
    }

    fn vault_reader(&self) -> String {
        self.vault_reader.clone()
    }

    fn home(&self) -> String {
        crate::install::HOME.to_owned()
    }

    fn machinery(&self) -> Machinery {
        self.machinery
    }

    fn sizing(&self) -> bool {
        self.sizing
    }

    fn shared_ingress(&self) -> Option<String> {
        self.shared_ingress.clone()
    }

    fn preflight(&self) -> Option<Arc<dyn Preflight>> {
        self.preflight.clone()
    }
}

impl Surroundings for Around {
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>> {
        let namespace = hcp.metadata.namespace.as_deref().unwrap_or_default();
        Box::pin(async move {
            let logins = async || self.logins(namespace).await;
            let found = self.look_up(facts::image(hcp), &hcp.spec.shared, logins).await?;
            Ok(found.release)
        })
    }

    fn healthy<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let at = &scope.endpoints.api;
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &scope.namespace);
            let map = maps.get_opt("root-ca").await.map_err(|e| chain(&e).to_string())?;
            let bundle = map.and_then(|m| m.data?.remove("ca.crt"));
            let bundle = bundle.ok_or("the cluster's root certificate is not there yet")?;
            self.health.ask(&at.host, at.port, &bundle).await.map_err(|e| chain(&e).to_string())
        })
    }

    fn management(&self, _: &str) -> Management {
        Management { uid: Some(USER), minor: self.minor, ..Management::default() }
    }

    fn vault_reader(&self) -> String {
        self.vault_reader.clone()
    }

    fn azure<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match &self.verdicts {
                Some(v) => v.azure(scope).await,
                None => Verdict::Good,
            }
        })
    }

    fn openid<'a>(
        &'a self,
        issuer: &'a str,
        ca: Option<&'a str>,
    ) -> BoxFuture<'a, Result<serde_json::Value, String>> {
        Box::pin(async move { azure::openid::discover(&azure::Env::of_process(), issuer, ca).await })
    }

    fn kms<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match &self.verdicts {
                Some(v) => v.kms(scope).await,
                None => Verdict::Good,
            }
        })
    }

    /// Pods of this world see a changed ConfigMap at once.
    fn propagation(&self) -> jiff::SignedDuration {
        jiff::SignedDuration::ZERO
    }
}
