//! Releases as a cluster would read them: by its pull secret, through its mirrors.

use crate::serve::ground::azure_account;
use anyhow::{Context, bail};
use apis::hypershift::HostedCluster;
use azure::oci::{Images, Logins, Mirrors, Reference, Shape};
use azure::{Env, Http, HttpOptions, Timing};
use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use release::{Payload, Releases};
use self_managed::stream::{REPOSITORY, Stream};
use std::sync::Arc;

/// A stream has some hundred tags.
const ANSWER: usize = 16 << 20;

/// Registries, and what was read from them.
pub struct Shelf {
    http: Http,
    images: Images,
    releases: Releases,
}

impl Shelf {
    /// With the logins of a pull secret; an account of the environment is used for Azure's registries.
    pub async fn new(pull_secret: &str, mirrors: Mirrors) -> anyhow::Result<Shelf> {
        let http = Http::new(&HttpOptions::from_env(&Env::of_process()))?;
        let mut images = Images::new(http.clone(), Timing::system()).mirrors(mirrors);
        if let Some(client) = azure_account().await? {
            images = images.azure(client.credential().clone(), client.cloud());
        }
        let images = images.logins(Logins::parse(pull_secret)?);
        Ok(Shelf { http, images, releases: Releases::new() })
    }

    /// As a cluster sees it.
    pub async fn of(client: &Client, hc: &HostedCluster) -> anyhow::Result<Shelf> {
        let namespace = hc.metadata.namespace.as_deref().unwrap_or_default();
        let name = &hc.spec.shared.pull_secret.name;
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let secret = api
            .get(name)
            .await
            .with_context(|| format!("cannot read the pull secret {namespace}/{name} (spec.pullSecret)"))?;
        let data = secret.data.and_then(|mut d| d.remove(".dockerconfigjson"));
        let data = data.with_context(|| format!("Secret {namespace}/{name} has no key .dockerconfigjson"))?;
        let mirrors = world::mirrors(&hc.spec.shared).fold(Mirrors::default(), Mirrors::mirror);
        let text = String::from_utf8(data.0).context("the pull secret is not text")?;
        Shelf::new(&text, mirrors).await.with_context(|| format!("Secret {namespace}/{name}"))
    }

    pub async fn payload(&self, image: &str) -> Result<Arc<Payload>, release::Error> {
        self.releases.payload(&self.images, image).await
    }

    /// Whether it runs on more than one architecture.
    pub async fn is_multi_arch(&self, image: &str) -> anyhow::Result<bool> {
        let at: Reference = image.parse()?;
        Ok(matches!(self.images.manifest(&at).await?.shape, Shape::Index(_)))
    }

    /// The newest release of a stream, as `source` tells of it: a release controller, or a repository's tags.
    pub async fn newest(&self, stream: &Stream, source: &str) -> anyhow::Result<String> {
        let offline = || {
            format!(
                "cannot look for the newest release at {source}: name one with --release-image, or another place with --release-source"
            )
        };
        if let Some(repository) = source.strip_prefix(REPOSITORY) {
            let at: Reference = repository.parse().with_context(|| format!("--release-source {source}"))?;
            let tags = self.images.tags(&at).await.with_context(offline)?;
            let at = at.with_tag(&stream.newest_tag(&tags)?.1);
            // A tag may move; a cluster should not.
            let digest = self.images.resolve(&at).await.with_context(offline)?;
            return Ok(at.with_digest(&digest).to_string());
        }
        let url = stream.url(source);
        let request = http::Request::get(&url).header("accept", "application/json").body(Bytes::new());
        let request = request.with_context(|| format!("--release-source {source}: {url} is no address"))?;
        let answer = self.http.open(request).await.with_context(offline)?;
        if !answer.status.is_success() {
            bail!(
                "{url} answers {}: is there such a stream? Name a release with --release-image",
                answer.status
            );
        }
        let body = answer.whole(ANSWER).await.with_context(offline)?;
        let answer =
            serde_json::from_slice(&body).with_context(|| format!("{url} does not answer in JSON"))?;
        Ok(stream.newest(&answer)?.1)
    }

    /// The first of these that is there, by digest if `pinned`.
    pub async fn first(&self, candidates: &[String], pinned: bool) -> anyhow::Result<String> {
        for image in candidates {
            let at: Reference = image.parse()?;
            match self.images.resolve(&at).await {
                Ok(digest) if pinned => return Ok(at.with_digest(&digest).to_string()),
                Ok(_) => return Ok(image.clone()),
                Err(e) if e.is_not_found() => {}
                Err(e) => {
                    return Err(e).with_context(|| {
                        format!("cannot look for {image}: name the release with --release-image")
                    });
                }
            }
        }
        let tags = match candidates.first().map(|c| c.parse::<Reference>()) {
            Some(Ok(at)) => self.images.tags(&at).await.unwrap_or_default(),
            _ => Vec::new(),
        };
        let there = match tags.len() {
            0 => String::new(),
            n => format!("; there are {}", tags[n.saturating_sub(8)..].join(", ")),
        };
        bail!(
            "there is no such release (looked for {}){there}: name it with --release-image",
            candidates.join(", ")
        )
    }
}
