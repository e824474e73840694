//! The KMS plugin: keys of an API server's data, encrypted by a key that never leaves its vault.
//!
//! `azure-kms-provider-active` and `-backup` are sidecars of kube-apiserver, each with one key of one vault. The real ones
//! speak gRPC over a socket in a volume that both share. Here the API server and the plugin are in one process: the
//! socket's path finds the plugin among those of the same pod ([`KmsSidecars`]), and what follows is the same (encrypt,
//! decrypt, key id), down to the vault's RSA-OAEP-256.
//!
//! An API server asks once when it starts (it draws a data key and has it encrypted) and once for each key that its data
//! was sealed with. A plugin that is not there yet is waited for; one whose identity is refused ends with the vault's or
//! Entra ID's words, and the API server serves what is not encrypted and does not become ready. It asks again every
//! minute; a plugin whose vault does not answer is not ready and says why.

use crate::azure_side::{Azure, Identity, Trouble};
use crate::identity::{CloudConf, flag, from_env};
use crate::place::PodPlace;
use crate::rings::Rings;
use aws_lc_rs::digest::{SHA256, digest};
use azure::vault::Algorithm;
use ek_engine::ClusterId;
use ek_guest::KmsFinder;
use ek_node::ProgramContext;
use ek_server::{Kms, KmsPlugins};
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use parking_lot::Mutex;
use sidecars::Timing;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What an API server is told to wait for a plugin (`timeout` of its configuration).
const PATIENCE: Duration = Duration::from_secs(35);
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// What is encrypted to see whether it can be.
const SAMPLE: &[u8] = b"zaffre-kms-health";

type Where = (ClusterId, String, String);

/// The plugins of all pods, by pod and socket.
#[derive(Clone)]
pub struct KmsSidecars(Arc<watch::Sender<HashMap<Where, Arc<Key>>>>);

impl Default for KmsSidecars {
    fn default() -> KmsSidecars {
        KmsSidecars(Arc::new(watch::Sender::new(HashMap::new())))
    }
}

fn pod(ctx: &ProgramContext) -> (ClusterId, String) {
    (ctx.cluster().clone(), format!("{}/{}", ctx.namespace(), ctx.pod()))
}

impl KmsFinder for KmsSidecars {
    fn plugins(&self, ctx: &ProgramContext) -> Arc<dyn KmsPlugins> {
        let (cluster, pod) = pod(ctx);
        Arc::new(OfPod { all: self.clone(), cluster, pod })
    }
}

struct OfPod {
    all: KmsSidecars,
    cluster: ClusterId,
    pod: String,
}

impl KmsPlugins for OfPod {
    fn connect(&self, _: &str, endpoint: &str) -> Option<Arc<dyn Kms>> {
        // Whether there is one shows when it is asked: sidecars start after the container they serve.
        let at = (self.cluster.clone(), self.pod.clone(), endpoint.to_owned());
        Some(Arc::new(Socket { all: self.all.clone(), at }))
    }
}

/// The API server's end.
struct Socket {
    all: KmsSidecars,
    at: Where,
}

impl Socket {
    async fn plugin(&self) -> Result<Arc<Key>, String> {
        let mut all = self.all.0.subscribe();
        let found = all.wait_for(|a| a.contains_key(&self.at));
        let none = || format!("nobody listens at {} in pod {}", self.at.2, self.at.1);
        let found = tokio::time::timeout(PATIENCE, found).await.map_err(|_| none())?;
        let found = found.map_err(|_| none())?;
        found.get(&self.at).cloned().ok_or_else(none)
    }
}

impl Kms for Socket {
    fn encrypt<'a>(&'a self, plain: &'a [u8]) -> BoxFuture<'a, Result<(Vec<u8>, String), String>> {
        Box::pin(async move {
            let key = self.plugin().await?;
            let sealed = key.encrypt(plain).await.map_err(|t| t.text().to_owned())?;
            Ok((sealed, key.id()))
        })
    }

    fn decrypt<'a>(&'a self, sealed: &'a [u8], key_id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let key = self.plugin().await?;
            // The provider's name changes with its key, so this is damage and not a rotation.
            if key_id != key.id() {
                return Err(format!(
                    "the data key was encrypted by {key_id}, and this plugin has {}",
                    key.id()
                ));
            }
            key.decrypt(sealed).await.map_err(|t| t.text().to_owned())
        })
    }

    fn key_id(&self) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let key = self.plugin().await?;
            let checked = key.check().await.map_err(|t| t.text().to_owned());
            // The sidecar's status is where people look.
            key.tell(&checked);
            checked?;
            Ok(key.id())
        })
    }
}

/// A key of a vault, as the sidecar's identity.
struct Key {
    client: azure::Client,
    vault: String,
    name: String,
    version: String,
    pod: ProgramContext,
    said: Mutex<String>,
}

impl Key {
    /// Says whether the key can be used, when that is news.
    fn tell(&self, checked: &Result<(), String>) {
        let text = checked.as_ref().err().cloned().unwrap_or_default();
        if std::mem::replace(&mut *self.said.lock(), text.clone()) != text {
            self.pod.log(if text.is_empty() { "the key can be used again" } else { &text });
            self.pod.ready(checked.clone());
        }
    }

    fn id(&self) -> String {
        let text = format!("{}/{}/{}", self.vault, self.name, self.version);
        let sum = digest(&SHA256, text.as_bytes());
        sum.as_ref().iter().take(16).map(|b| format!("{b:02x}")).collect()
    }

    fn about(&self, verb: &str) -> String {
        format!("cannot {verb} with key {}/{} of vault {}", self.name, self.version, self.vault)
    }

    async fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, Trouble> {
        let keys = self.client.vault(&self.vault)?.keys();
        let used = keys.encrypt(&self.name, &self.version, Algorithm::RsaOaep256, plain).await;
        used.map(|u| u.value).map_err(|e| Trouble::from(e).about(&self.about("encrypt")))
    }

    async fn decrypt(&self, sealed: &[u8]) -> Result<Vec<u8>, Trouble> {
        let keys = self.client.vault(&self.vault)?.keys();
        let used = keys.decrypt(&self.name, &self.version, Algorithm::RsaOaep256, sealed).await;
        used.map(|u| u.value).map_err(|e| Trouble::from(e).about(&self.about("decrypt")))
    }

    /// There and back.
    async fn check(&self) -> Result<(), Trouble> {
        let sealed = self.encrypt(SAMPLE).await?;
        match self.decrypt(&sealed).await? == SAMPLE {
            true => Ok(()),
            false => Err(Trouble::Refused("the vault decrypted to something else".into())),
        }
    }
}

/// The program of the sidecars.
pub struct Plugin {
    azure: Azure,
    timing: Timing,
    rings: Rings,
    all: KmsSidecars,
}

impl Plugin {
    pub fn new(azure: &Azure, timing: &Timing, rings: &Rings, all: &KmsSidecars) -> Plugin {
        Plugin {
            azure: azure.clone().brief(),
            timing: timing.clone(),
            rings: rings.clone(),
            all: all.clone(),
        }
    }
}

/// Takes the plugin away when its program ends, however it does.
struct Listening {
    all: KmsSidecars,
    at: Where,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.all.0.send_modify(|a| _ = a.remove(&self.at));
    }
}

impl ek_node::Program for Plugin {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let (azure, timing) = (self.azure.clone(), self.timing.clone());
        let (rings, all) = (self.rings.clone(), self.all.clone());
        Box::pin(async move {
            match Box::pin(serve(&azure, &timing, &rings, all, &ctx)).await {
                Ok(()) => 0,
                Err(why) => {
                    ctx.log(why);
                    1
                }
            }
        })
    }

    fn tells_when_ready(&self) -> bool {
        true
    }
}

fn key(azure: &Azure, ctx: &ProgramContext) -> Result<Key, Trouble> {
    let need = |name: &str| {
        let value = flag(ctx, name).filter(|v| !v.is_empty());
        value.ok_or_else(|| Trouble::Refused(format!("{name} is missing")))
    };
    if flag(ctx, "--managed-hsm").is_some_and(|v| v == "true") {
        return Err(Trouble::Refused("--managed-hsm: this world has vaults and no managed HSM".into()));
    }
    Ok(Key {
        client: azure.client(&identity(ctx)?),
        vault: need("--keyvault-name")?,
        name: need("--key-name")?,
        version: need("--key-version")?,
        pod: ctx.clone(),
        said: Mutex::default(),
    })
}

fn identity(ctx: &ProgramContext) -> Result<Identity, Trouble> {
    let path = flag(ctx, "--config-file-path").unwrap_or_else(|| "/etc/kubernetes/azure.json".into());
    let place = PodPlace::new(ctx);
    let conf = CloudConf::read(&place, &path)?;
    match conf.use_workload_identity_extension && conf.mounted.is_none() {
        true => from_env(&place, ctx),
        false => conf.identity(&place, &path),
    }
}

async fn serve(
    azure: &Azure,
    timing: &Timing,
    rings: &Rings,
    all: KmsSidecars,
    ctx: &ProgramContext,
) -> Result<(), String> {
    let endpoint = flag(ctx, "--listen-addr").ok_or("--listen-addr is missing")?;
    let mut ring = rings.listen(ctx.cluster(), ctx.namespace(), ctx.pod());
    let (mut said, mut wait) = (String::new(), FIRST);
    let key = loop {
        let tried = async {
            let key = key(azure, ctx)?;
            key.check().await.map(|()| key)
        };
        let tried = tokio::select! {
            () = ctx.stopping().cancelled() => return Ok(()),
            t = Box::pin(tried) => t,
        };
        match tried {
            Ok(key) => break Arc::new(key),
            Err(Trouble::Refused(why)) => return Err(why),
            Err(Trouble::NotYet(why)) => {
                if why != said {
                    ctx.log(&why);
                    ctx.ready(Err(why.clone()));
                    said = why;
                }
            }
        }
        let at = timing.clock.now().checked_add(SignedDuration::try_from(wait).unwrap_or_default());
        wait = (wait * 2).min(LONGEST);
        tokio::select! {
            woken = timing.until(at.unwrap_or(jiff::Timestamp::MAX), ctx.stopping()) => if !woken { return Ok(()) },
            () = ring.heard() => {}
        }
    };
    let port = flag(ctx, "--healthz-port").and_then(|p| p.parse().ok()).unwrap_or(8787);
    let listener = ctx.listener(port).await.map_err(|e| format!("port {port}: {e}"))?;
    let (cluster, pod) = pod(ctx);
    let at = (cluster, pod, endpoint.clone());
    all.0.send_modify(|a| _ = a.insert(at.clone(), key.clone()));
    let _listening = Listening { all, at };
    ctx.log(format!("listening at {endpoint} with key {}/{} of vault {}", key.name, key.version, key.vault));
    ctx.ready(Ok(()));
    health(ctx, &listener, &key).await;
    Ok(())
}

/// Says whether the key can be used, by using it.
async fn health(ctx: &ProgramContext, listener: &TcpListener, key: &Arc<Key>) {
    loop {
        let tcp = tokio::select! {
            () = ctx.stopping().cancelled() => return,
            a = listener.accept() => match a {
                Ok((tcp, _)) => tcp,
                Err(_) => continue,
            },
        };
        let key = key.clone();
        let service = hyper::service::service_fn(move |_: http::Request<hyper::body::Incoming>| {
            let key = key.clone();
            async move {
                let checked = Box::pin(key.check()).await.map_err(|t| t.text().to_owned());
                key.tell(&checked);
                let (code, text) = match checked {
                    Ok(()) => (200, "ok".to_owned()),
                    Err(text) => (503, text),
                };
                let mut answer = http::Response::new(Full::new(bytes::Bytes::from(text)));
                *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
                Ok::<_, Infallible>(answer)
            }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service);
        let _ = tokio::time::timeout(PATIENCE, connection).await;
    }
}
