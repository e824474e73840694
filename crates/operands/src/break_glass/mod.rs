//! The PKI operator: certificates for emergencies, and taking them back.
//!
//! A customer or an engineer of the service who cannot get into a cluster any other way asks for a client certificate with
//! all rights (`system:masters`). Two authorities give them out, one for each, and live for days:
//!
//! ```text
//! CertificateSigningRequest ──same name──> CertificateSigningRequestApproval ──> [judge] ──> signed by the class's authority
//! CertificateRevocationRequest ──> new authority ──> trusted? ──> new client certificate ──> old one out of bundles ──> refused?
//!
//! authority ─> <class>-system-admin-signer-ca ─> total-client-ca ─(control plane)─> client-ca ─> API server, which reads it again
//! ```
//!
//! * [`judge`]: whether a signing request is signed, and what is wrong with it; pure.
//! * [`plan`]: what must be stored of authorities, bundles and client certificates; [`revocation`]: how far a revocation
//!   is. Both pure: everything is read off what is stored, so who is killed between any two steps goes on with the next.
//! * [`keeping`], [`signing`]: the two controllers that read, ask and write.
//!
//! It stands in for the payload's `control-plane-pki-operator`: names, kinds, lives, conditions and reasons are that one's,
//! and a management cluster with OpenShift's image needs nothing of this. So it is here, among the programs of worlds, and
//! not in `control-plane`, which has to work with either; what both need of each other is one ConfigMap, `total-client-ca`,
//! which this one writes and that one reads.
//!
//! Rejected: the mark on a Secret by which the real one's controllers tell each other to issue anew (`force-regeneration`):
//! here one plan sees all, and a mark is one more thing to be left behind by a crash.

pub mod judge;
pub mod keeping;
pub mod plan;
pub mod revocation;
mod signing;

#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod plan_tests;

use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use pki::Pair;
use reconcile::{Backoff, Kind, Metrics, Options, Runtime, Watch};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SECRET: Kind = Kind::of::<Secret>();
pub(crate) const CONFIG_MAP: Kind = Kind::of::<ConfigMap>();
pub(crate) const REQUEST: Kind = Kind::of_cluster::<CertificateSigningRequest>();
const GROUP: &str = "certificates.hypershift.openshift.io";
pub(crate) const APPROVAL: Kind =
    Kind::new(GROUP, "v1alpha1", "CertificateSigningRequestApproval", "certificatesigningrequestapprovals");
pub(crate) const REVOCATION: Kind =
    Kind::new(GROUP, "v1alpha1", "CertificateRevocationRequest", "certificaterevocationrequests");
pub(crate) const PLANE: Kind =
    Kind::new("hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes");

/// Whom the API server believes by these authorities: `ca-bundle.crt`.
pub const TOTAL: &str = "total-client-ca";
/// What the API server really reads, which the control plane writes: `ca.crt`.
pub const CLIENTS: &str = "client-ca";
/// On everything of ours, and what it is: `signer`, `target` or `ca-bundle`.
pub const MANAGED: &str = "auth.openshift.io/managed-certificate-type";

/// For whom an authority signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Customer,
    Sre,
}

impl Class {
    pub const ALL: [Class; 2] = [Class::Customer, Class::Sre];

    pub fn name(self) -> &'static str {
        match self {
            Class::Customer => "customer-break-glass",
            Class::Sre => "sre-break-glass",
        }
    }

    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|c| c.name() == name)
    }

    /// The Secret of its authority.
    pub fn signer(self) -> &'static str {
        match self {
            Class::Customer => "customer-system-admin-signer",
            Class::Sre => "sre-system-admin-signer",
        }
    }

    /// The ConfigMap with its authority, and with those of before until they end.
    pub fn bundle(self) -> &'static str {
        match self {
            Class::Customer => "customer-system-admin-signer-ca",
            Class::Sre => "sre-system-admin-signer-ca",
        }
    }

    /// The Secret with a client certificate that is always there.
    pub fn client(self) -> &'static str {
        match self {
            Class::Customer => "customer-system-admin-client-cert-key",
            Class::Sre => "sre-system-admin-client-cert-key",
        }
    }

    /// How names of its users begin.
    pub fn prefix(self) -> String {
        format!("system:{}:", self.name())
    }

    /// What signing requests to it say.
    pub fn signer_name(self, namespace: &str) -> String {
        format!("hypershift.openshift.io/{namespace}.{}", self.name())
    }
}

/// How long things live, by the length of a day: tests of the real operator make it shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    pub day: SignedDuration,
}

impl Default for Lives {
    fn default() -> Lives {
        Lives { day: SignedDuration::from_hours(24) }
    }
}

impl Lives {
    pub fn authority(self) -> SignedDuration {
        self.day * 7
    }

    /// At this age another takes its place; it is trusted to its end.
    pub fn authority_replaced(self) -> SignedDuration {
        self.day * 2
    }

    pub fn client(self) -> SignedDuration {
        self.day * 36 / 24
    }

    pub fn client_replaced(self) -> SignedDuration {
        self.day * 6 / 24
    }
}

/// Somebody who can ask the guest's API servers.
pub trait Ask: Send + Sync + 'static {
    /// Whether they believe a client certificate: all of them, none (`Ok(false)`), or it cannot be told. `kubeconfig` says
    /// where they are and whom to believe; who it is good for does not matter.
    fn believed<'a>(
        &'a self,
        kubeconfig: &'a str,
        client: &'a Pair,
    ) -> BoxFuture<'a, Result<revocation::Heard, String>>;
}

/// What it works with.
pub struct Setup {
    pub management: Client,
    pub namespace: String,
    /// Of the HostedControlPlane.
    pub name: String,
    pub lives: Lives,
    pub ask: Arc<dyn Ask>,
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Metrics,
    /// Somebody who writes a log.
    pub say: Arc<dyn Fn(String) + Send + Sync>,
}

/// Everything of one namespace is looked at together.
const ALL: &str = "authorities";

/// Sets it up in a runtime.
pub fn start(runtime: &mut Runtime, setup: Setup) {
    let setup = Arc::new(setup);
    let (client, namespace) = (setup.management.clone(), setup.namespace.clone());
    let backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(30) };
    let options = |workers| Options { workers, backoff, ..Options::default() };

    let keeper = runtime.controller(Arc::new(keeping::Keeper::new(setup.clone())), options(1));
    let all = keeper.keys(|_, keys| keys.push(ALL));
    for kind in [SECRET, CONFIG_MAP] {
        let ours = Watch::metadata(&client, &kind).namespace(&*namespace);
        let ours = ours.labels(kube::core::Expression::Exists(MANAGED.to_owned()));
        runtime.watch(ours.wakes(all.clone()));
    }
    let clients = Watch::metadata(&client, &CONFIG_MAP).namespace(&*namespace).name(CLIENTS);
    runtime.watch(clients.wakes(all.clone()));
    runtime.watch(Watch::metadata(&client, &REVOCATION).namespace(&*namespace).wakes(all));
    keeper.poke(ALL);

    let signer = runtime.controller(Arc::new(signing::Signer::new(setup)), options(2));
    let by_name = signer.keys(|o, keys| keys.push(o.metadata.name.as_deref().unwrap_or_default()));
    runtime.watch(Watch::metadata(&client, &APPROVAL).namespace(&*namespace).wakes(by_name.clone()));
    for class in Class::ALL {
        let asked = Watch::metadata(&client, &REQUEST);
        let asked = asked.fields(format!("spec.signerName={}", class.signer_name(&namespace)));
        runtime.watch(asked.wakes(by_name.clone()));
    }
}
