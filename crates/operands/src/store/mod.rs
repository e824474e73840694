//! The secrets-store CSI driver with its Azure provider: what a vault holds, as files.
//!
//! A volume names a SecretProviderClass of the pod's namespace; the class names vault, objects and the identity of the
//! node that may read them. Files are replaced as a set, so that readers see all of the old or all of the new, and only
//! when something changed. They are looked at again every two minutes. When that fails, the files stay as they are and
//! it is tried sooner; a pod that has none yet is not started, and its status says why.
//!
//! What is not here: keys and certificates as objects (control planes mount secrets only, and are told so), Secrets made
//! of what is mounted, and SecretProviderClassPodStatus.

mod class;

use crate::azure_side::Azure;
use crate::rings::Rings;
use aws_lc_rs::digest::{SHA256, digest};
use azure::Credential;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use class::{Class, Encoding, Object};
use ek_node::{CsiDriver, CsiRequest, Payload, write_files};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ApiResource, DynamicObject};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The driver's default.
const ROTATION: SignedDuration = SignedDuration::from_mins(2);
/// After it failed.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Identities with tokens in hand; a node has few.
const KEPT: usize = 64;

/// The identities of the nodes: a credential by client id, or why the nodes have no such identity.
pub trait NodeIdentity: Send + Sync + 'static {
    fn credential(&self, client_id: &str) -> Result<Credential, String>;
}

impl<F: Fn(&str) -> Result<Credential, String> + Send + Sync + 'static> NodeIdentity for F {
    fn credential(&self, client_id: &str) -> Result<Credential, String> {
        self(client_id)
    }
}

/// The driver.
pub struct SecretsStore(Arc<Inner>);

struct Inner {
    azure: Azure,
    rings: Rings,
    identity: Box<dyn NodeIdentity>,
    /// Hundreds of volumes are read as one identity: they share its token.
    clients: Mutex<HashMap<String, azure::Client>>,
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim()
        .bytes()
        .map(|b| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|p| p[0] << 4 | p[1]).collect())
}

impl SecretsStore {
    pub fn new(azure: Azure, rings: Rings, identity: impl NodeIdentity) -> SecretsStore {
        let identity = Box::new(identity);
        SecretsStore(Arc::new(Inner { azure, rings, identity, clients: Mutex::default() }))
    }
}

impl CsiDriver for SecretsStore {
    fn publish(&self, request: CsiRequest) -> BoxFuture<'static, Result<Option<Timestamp>, String>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let after = |wait| Some(request.now.checked_add(wait).unwrap_or(Timestamp::MAX));
            let why = match inner.mount(&request).await {
                Ok(()) => return Ok(after(ROTATION)),
                Err(why) => why,
            };
            let (namespace, pod) = (&request.namespace, &request.pod);
            // What was mounted once stays: old credentials are better than none, and may still be good.
            if request.target.join("..data").exists() {
                tracing::warn!(
                    namespace,
                    pod,
                    why,
                    "what is mounted from a vault cannot be brought up to date"
                );
                return Ok(after(AGAIN));
            }
            Err(format!("failed to mount secrets store objects for pod {namespace}/{pod}, err: {why}"))
        })
    }
}

impl Inner {
    async fn mount(&self, request: &CsiRequest) -> Result<(), String> {
        let class = class_of(request).await?;
        let client = self.client(&class)?;
        let vault = client.vault(&class.vault).map_err(|e| e.to_string())?;
        let mut payload = Payload::new();
        for o in &class.objects {
            let got = match o.version.as_str() {
                "" => vault.secrets().get(&o.name).await,
                version => vault.secrets().get_version(&o.name, version).await,
            };
            let got = got.map_err(|e| {
                format!(
                    "failed to get objectType:secret, objectName:{}, objectVersion:{} from vault {} as identity {}: {}",
                    o.name, o.version, class.vault, class.identity, sidecars::chain(&e)
                )
            })?;
            let value = got
                .value
                .ok_or_else(|| format!("secret {} of vault {} has no value", o.name, class.vault))?;
            payload.insert(o.file().to_owned(), decoded(o, value.expose())?);
        }
        let target = request.target.clone();
        let written = tokio::task::spawn_blocking(move || replace(&target, &payload)).await;
        let changed = written.map_err(|e| e.to_string())?.map_err(|e| format!("cannot write: {e}"))?;
        if changed {
            self.rings.ring(&request.cluster, &request.namespace, &request.pod);
        }
        Ok(())
    }

    fn client(&self, class: &Class) -> Result<azure::Client, String> {
        if let Some(client) = self.clients.lock().get(&class.identity) {
            return Ok(client.clone());
        }
        let credential = self.identity.credential(&class.identity)?;
        let client = self.azure.client_with(credential);
        let mut all = self.clients.lock();
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(class.identity.clone(), client.clone());
        Ok(client)
    }
}

async fn class_of(request: &CsiRequest) -> Result<Class, String> {
    let name = request.attributes.get("secretProviderClass").filter(|n| !n.is_empty());
    let name = name.ok_or("volumeAttributes.secretProviderClass is missing")?;
    let kind = ApiResource {
        group: "secrets-store.csi.x-k8s.io".into(),
        version: "v1".into(),
        api_version: "secrets-store.csi.x-k8s.io/v1".into(),
        kind: "SecretProviderClass".into(),
        plural: "secretproviderclasses".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(request.client.clone(), &request.namespace, &kind);
    let found = match api.get_opt(name).await {
        Ok(found) => found,
        Err(kube::Error::Api(s)) if s.code == 404 => None,
        Err(e) => {
            return Err(format!(
                "failed to get secretproviderclass {}/{name}: {}",
                request.namespace,
                sidecars::chain(&e)
            ));
        }
    };
    let found = found.ok_or_else(|| {
        format!("failed to get secretproviderclass {}/{name}, error: not found", request.namespace)
    })?;
    Class::read(&found.data["spec"])
        .map_err(|e| format!("secretproviderclass {}/{name}: {e}", request.namespace))
}

fn decoded(o: &Object, text: &str) -> Result<Vec<u8>, String> {
    let bytes = match o.encoding {
        Encoding::Utf8 => Some(text.as_bytes().to_vec()),
        Encoding::Hex => hex(text),
        Encoding::Base64 => STANDARD.decode(text.split_whitespace().collect::<String>()).ok(),
    };
    bytes.ok_or_else(|| {
        format!(
            "the value of secret {} is not {}, which objectEncoding says it is",
            o.name,
            o.encoding.as_str()
        )
    })
}

/// Makes the directory show the payload, if it does not; whether it was changed.
fn replace(dir: &Path, payload: &Payload) -> std::io::Result<bool> {
    let mut all = Vec::new();
    for (name, content) in payload {
        all.extend((name.len() as u64).to_be_bytes());
        all.extend(name.as_bytes());
        all.extend((content.len() as u64).to_be_bytes());
        all.extend(content);
    }
    let sum: String = digest(&SHA256, &all).as_ref().iter().take(12).map(|b| format!("{b:02x}")).collect();
    let shown = std::fs::read_link(dir.join("..data")).ok();
    if shown.is_some_and(|s| s.as_os_str() == format!("..{sum}").as_str()) {
        return Ok(false);
    }
    write_files(dir, payload, &sum, 0o644)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let o =
            |encoding| Object { name: "s".into(), alias: String::new(), version: String::new(), encoding };
        assert_eq!(decoded(&o(Encoding::Utf8), "a\nb").unwrap(), b"a\nb");
        assert_eq!(decoded(&o(Encoding::Hex), "00fF").unwrap(), [0, 255]);
        assert_eq!(decoded(&o(Encoding::Base64), "aGk=\n").unwrap(), b"hi");
        for (encoding, bad) in [(Encoding::Hex, "0"), (Encoding::Hex, "zz"), (Encoding::Base64, "%")] {
            assert!(decoded(&o(encoding), bad).unwrap_err().contains("objectEncoding"));
        }
    }

    #[test]
    fn what_has_not_changed_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let payload = |text: &str| Payload::from([("a".to_owned(), text.as_bytes().to_vec())]);
        assert!(replace(dir.path(), &payload("1")).unwrap());
        assert!(!replace(dir.path(), &payload("1")).unwrap());
        assert!(replace(dir.path(), &payload("2")).unwrap());
        assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "2");
    }
}
