//! Programs that stand in for OpenShift's, in an embedded world: those that act in Azure.
//!
//! A hosted control plane's components carry Azure identities without long-lived secrets, and whether these work is only
//! seen when they are used. So they are used: the programs here read what the real ones read (`cloud.conf`, credential
//! Secrets, `AZURE_*`, mounted vault credentials), take the minted token or the certificate, exchange it at Entra ID,
//! and make one call of the component's kind. A role that was not given or a federated credential with the wrong
//! subject fails here as it fails in Azure, with Azure's words.
//!
//! ```text
//! self-managed:  guest API ──TokenRequest──> token-minter ──file──> program ──assertion──> Entra ──token──> ARM
//! ARO HCP:       Key Vault ──secrets-store──> file ───────────────> program ──certificate─> Entra ──token──> ARM
//! KMS:           API server ──in process──> azure-kms-provider ──(either way)──> Entra ──token──> Key Vault key
//! ```
//!
//! What is real: configuration, tokens, exchanges, calls, and (for KMS) the encryption. What is not: everything else
//! those components do. They balance no loads, serve no volumes, publish no records; `azure_sim` and the controllers of
//! this process do what the world needs of it.
//!
//! **How trouble shows.** A program whose identity is refused ends with status 1, and its last words are its container's
//! termination message (control planes ask for `FallbackToLogsOnError`), so `kubectl describe pod` has the AADSTS or
//! authorization error under *Last State*; its Deployment is not available, and neither is the component. A program that
//! waits for something (a token, an answer of Azure) runs and is not ready, and says why in an event. Operators with
//! operands are ready when these are, and pass on what these say.
//!
//! Two programs have nothing to do with Azure and do the whole of their work: [`approver`] and [`break_glass`].
//!
//! This crate is part of the worlds: only the binary, benches and tests link it.

pub mod approver;
mod azure_side;
pub mod break_glass;
mod identity;
mod kms;
mod operators;
mod place;
mod rings;
mod sidecar;
mod store;

pub use azure_side::{Azure, Identity};
pub use identity::{Component, check};
pub use kms::KmsSidecars;
pub use rings::Rings;
pub use store::{NodeIdentity, SecretsStore};

use ek_node::Programs;
use serde_json::Value;
use sidecars::Timing;
use std::sync::Arc;

/// The driver's name.
pub const SECRETS_STORE: &str = "secrets-store.csi.k8s.io";

/// Everything here, with the Azure that it talks to.
#[derive(Clone)]
pub struct Operands {
    azure: Azure,
    timing: Timing,
    rings: Rings,
    kms: KmsSidecars,
}

impl Operands {
    pub fn new(azure: Azure, timing: Timing) -> Operands {
        Operands { azure, timing, rings: Rings::default(), kms: KmsSidecars::default() }
    }

    /// For `Guests::with_kms`.
    pub fn kms(&self) -> KmsSidecars {
        self.kms.clone()
    }

    /// For the nodes' drivers, under [`SECRETS_STORE`]. `identity` has credentials for the node's identities.
    pub fn secrets_store(&self, identity: impl NodeIdentity) -> Arc<SecretsStore> {
        Arc::new(SecretsStore::new(self.azure.clone(), self.rings.clone(), identity))
    }

    /// Makes containers of these images programs. `image` turns the name a release payload gives an image into a pattern
    /// of what pods call it; `ours` is a pattern of our own image.
    pub fn register(&self, programs: &mut Programs, image: impl Fn(&str) -> String, ours: &str) {
        let (timing, rings) = (self.timing.clone(), self.rings.clone());
        let minter = sidecar::TokenMinter { timing, rings };
        programs.register_where(ours, |c| serves(c, "token-minter"), Arc::new(minter));
        let prober = Arc::new(sidecar::AvailabilityProber);
        programs.register_where(ours, |c| serves(c, "availability-prober"), prober);
        for component in Component::ALL {
            let Some(key) = component.image() else { continue };
            let program = identity::Probe::new(component, &self.azure, &self.timing, &self.rings);
            programs.register(&image(key), program);
        }
        for operator in operators::ALL {
            programs.register(&image(operator.image), operators::Program(operator));
        }
        let plugin = kms::Plugin::new(&self.azure, &self.timing, &self.rings, &self.kms);
        programs.register(&image("azure-kms-encryption-provider"), plugin);
    }
}

/// Whether a container runs this sidecar of ours.
fn serves(container: &Value, name: &str) -> bool {
    let words = [&container["command"], &container["args"]].into_iter().filter_map(Value::as_array).flatten();
    let words: Vec<&str> = words.filter_map(Value::as_str).take(8).collect();
    sidecar::flags_at(&words, name).is_some()
}
