//! Running a control plane: from a HostedControlPlane to a namespace full of components, and back to its status.
//!
//! ```text
//! HostedControlPlane ─> facts ─> Services, Routes ─> certificates ─> components whose turn it is
//!          ▲                                                              │
//!          └── conditions, one write <── progress (pure) <── workloads as they are
//! ```
//!
//! A run reads views only, plans, and applies what differs; a settled control plane renders nothing and costs no request
//! ([`memo`]). Components do not wait in line: each is applied as soon as what it depends on is rolled out at the wanted
//! version, which a watch tells. During an upgrade a component that has to wait goes on in its old version.
//!
//! A run is made when something of the control plane changed, and when something it knows ends: certificates, and pauses.
//! Only an API that should answer and does not is asked again by the clock.

mod conditions;
mod etcd;
mod going;
mod memo;
mod objects;
mod progress;
mod standing;
mod tell;
mod trouble;
mod unwanted;
mod views;
mod watches;
mod work;

pub use progress::{Progress, Rollout, Turn, progress};
pub use reconcile::Tenants;
pub use views::Views;
pub use watches::{KINDS, Only, Setup, start};

use crate::certificates::plan::Kind;
use crate::config::providers::{self, OpenId};
use crate::encryption;
use crate::facts::{self, Around};
use crate::scope::{Encryption, Etcd, Management, Reach, Release, Scope};
use apis::hypershift::HostedControlPlane;
use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use memo::{Memo, Sum};
use parking_lot::Mutex;
use reconcile::conditions::{Conditions, Finding};
use reconcile::{Applier, Controller, Failure, Outcome, Waiting, chain, split};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use tell::Account;
use trouble::Trouble;

/// What an operator must be told about the world around it.
pub trait Surroundings: Send + Sync + 'static {
    /// The release a control plane is to run.
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>>;

    /// Whether the API answers where it is published, and if not, why.
    fn healthy<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), String>>;

    /// What is known of the management cluster for a namespace.
    fn management(&self, namespace: &str) -> Management;

    /// Client id of the identity that reads vaults.
    fn vault_reader(&self) -> String;

    /// Whether Azure agrees with what the cluster says of its networks and groups. Asked where the control plane has an
    /// identity to ask with (ARO HCP), before anything is made.
    fn azure<'a>(&'a self, _: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Good })
    }

    /// Whether the key that encrypts data can be used. Asked as above, of vaults that are not private.
    fn kms<'a>(&'a self, _: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Good })
    }

    /// How long it may take until a pod sees what has changed in a ConfigMap it mounts; kubelets look every minute or so.
    /// Authorities are not replaced faster than that.
    fn propagation(&self) -> SignedDuration {
        SignedDuration::from_mins(3)
    }

    /// The document that an issuer of OpenID tokens publishes about itself. `ca` is who signed its certificate, if it is not
    /// one that everybody trusts.
    fn openid<'a>(
        &'a self,
        _issuer: &'a str,
        _ca: Option<&'a str>,
    ) -> BoxFuture<'a, Result<serde_json::Value, String>> {
        Box::pin(async { Err("nobody here can ask it".to_owned()) })
    }

    /// Whether a name resolves; asked only if the API does not answer at it.
    fn resolves<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// What somebody outside says of what we were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It cannot be asked now; nothing is held up by that.
    Unknown(String),
    /// It is wrong, and what to do about it.
    Bad {
        reason: &'static str,
        message: String,
    },
}

/// Keeps control planes as their objects say.
pub struct Operator {
    pub views: Views,
    pub applier: Applier,
    pub clock: SharedClock,
    pub around: Arc<dyn Surroundings>,
    pub tenants: Arc<Tenants>,
    pub only: Only,
    memos: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Memo>>>>,
}

/// An API that answered is believed for this long, unless its pods change. It is asked when there is a run, never for
/// its own sake.
const BELIEVED: SignedDuration = SignedDuration::from_secs(60);
/// How soon one that did not answer is asked again: nobody watches an address from outside.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How soon a registry that had no release for us is asked again.
const RELEASE_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// How soon somebody who did not agree is asked again, and for how long one who did is believed.
const VERDICT_AGAIN: SignedDuration = SignedDuration::from_secs(10);
const VERDICT_BELIEVED: SignedDuration = SignedDuration::from_secs(3600);
/// How soon an issuer of OpenID tokens that said nothing is asked again, and for how long one that did is believed.
const ISSUER_AGAIN: SignedDuration = SignedDuration::from_secs(30);
const ISSUER_BELIEVED: SignedDuration = SignedDuration::from_secs(3600);
/// A tag may move; what it led to is believed for this long.
const RELEASE_BELIEVED: SignedDuration = SignedDuration::from_secs(600);

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "hosted-control-plane"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// Why a control plane is not further along than it is.
#[derive(Clone, Debug)]
struct Held {
    kind: &'static str,
    reason: &'static str,
    message: String,
}

/// What a run has to go by.
struct Pass<'a> {
    seen: &'a DynamicObject,
    /// With the encryption of the present phase.
    scope: &'a Scope,
    /// The encryption that is wished for.
    wished: Option<&'a Encryption>,
    troubles: &'a [Trouble],
    /// Of the facts.
    sum: Sum,
    progress: &'a Progress,
    now: Timestamp,
}

/// What a run found.
#[derive(Default)]
struct Found {
    held: Option<Held>,
    /// Why the release is taken as it was last looked up.
    stale: Option<String>,
    /// What is wrong with identity providers.
    providers: Option<String>,
    /// Why components could not be made, by their names.
    errors: BTreeMap<&'static str, String>,
    /// Further conditions.
    said: Vec<Finding>,
    /// The API server runs everywhere as it is configured now.
    api_converged: bool,
    /// Authorities are being replaced.
    rotates: bool,
    /// Something was written.
    sent: bool,
    waiting: Vec<Waiting>,
    /// When something has to be done again although nothing happened.
    until: Option<Timestamp>,
}

impl Operator {
    pub fn new(
        views: Views,
        applier: Applier,
        clock: SharedClock,
        around: Arc<dyn Surroundings>,
        tenants: Arc<Tenants>,
        only: Only,
    ) -> Operator {
        Operator { views, applier, clock, around, tenants, only, memos: Mutex::default() }
    }

    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (namespace, name) = split(key);
        let seen = self.views.planes.get(namespace, name);
        // Everything is owned by the object and goes with it.
        let seen = seen.filter(|_| self.tenants.serves(namespace));
        if let Some(going) = seen.as_ref().filter(|s| s.metadata.deletion_timestamp.is_some()) {
            self.let_go(going).await?;
        }
        let Some(seen) = seen.filter(|s| s.metadata.deletion_timestamp.is_none()) else {
            self.memos.lock().remove(key);
            return Ok(Outcome::Done);
        };
        let memo = self.memos.lock().entry(key.to_owned()).or_default().clone();
        let mut memo = memo.lock().await;
        let hcp = memo.read(&seen)?;
        if !self.only.covers(&hcp) {
            return Ok(Outcome::Done);
        }
        let now = self.clock.now();
        if let Some(outcome) = self.paused(&seen, &hcp, &mut memo, now).await? {
            return Ok(outcome);
        }
        memo.pending.settle(&self.applier, |kind, name| self.views.seen(namespace, kind, name));
        let facts = match self.scope(&mut memo, &hcp).await {
            Ok((scope, sum)) => self.present(&seen, scope, sum),
            Err(held) => Err(held),
        };
        let (scope, sum, wished) = match facts {
            Ok((scope, sum, wished)) => {
                let (scope, sum) = self.with_issuers(&mut memo, scope, sum, now).await;
                (scope, sum, wished)
            }
            Err(held) => return self.stands(&seen, &hcp, &mut memo, held, now).await,
        };
        let progress = progress(&scope, &|n| self.views.rollout(namespace, n));
        let troubles = self.views.troubles(namespace);
        let wished = wished.as_ref();
        let pass =
            Pass { seen: &seen, scope: &scope, wished, troubles: &troubles, sum, progress: &progress, now };
        let mut found = Found { stale: memo.unanswered.clone(), ..Found::default() };
        let (azure, kms) = self.ask(&pass, &mut memo).await;
        // What could not be done does not keep us from saying how things are.
        let done = match &azure {
            Verdict::Bad { reason, message } if seen.data["status"]["initialized"] != true => {
                let kind = "ValidHostedControlPlaneConfiguration";
                found.held = Some(Held { kind, reason, message: message.clone() });
                Ok(())
            }
            _ => {
                let done = self.work(&pass, &mut memo, &mut found).await;
                done.and(self.look_after_etcd(&pass, &mut memo, &mut found).await)
            }
        };
        let health = self.health(&scope, &progress, &mut memo, now).await;
        if health.is_err() {
            memo.doubt("kms", now);
        }
        let name = self.name(&pass, &health).await;
        let kubeconfig = self.views.kept(namespace, &memo.pending).has(Kind::Secret, "admin-kubeconfig");
        let account =
            Account { pass: Some(&pass), kubeconfig, name, azure, kms, ..Account::of(&found, &health) };
        let rotates = self.tell(&seen, &account).await?;
        let unsure = account.azure != Verdict::Good || account.kms != Verdict::Good;
        self.tell_components(&pass, &found, &mut memo).await?;
        done?;
        found.waiting.extend(progress.waiting(now));
        let until = found.until.map(|t| t.duration_since(now).max(SignedDuration::ZERO));
        let soonest = [
            until,
            health.is_err().then_some(ASK_AGAIN),
            unsure.then_some(VERDICT_AGAIN),
            memo.unanswered.is_some().then_some(RELEASE_AGAIN),
            scope.openid.values().any(Result::is_err).then_some(ISSUER_AGAIN),
            // Whether a phase of a rotation is over is seen by the run after the one that wrote.
            ((rotates || found.rotates) && found.sent).then_some(SignedDuration::from_secs(1)),
        ];
        let again = soonest.into_iter().flatten().min();
        Ok(match (found.waiting.is_empty() && health.is_ok(), again) {
            (true, None) => Outcome::Done,
            (true, Some(after)) => Outcome::After(after),
            (false, again) => Outcome::Waiting { on: found.waiting, again },
        })
    }

    /// The facts as they are at present: with the encryption that the phase of its rotation needs, with the keys and the
    /// authorities that users gave us, and without a snapshot that was restored.
    fn present(
        &self,
        seen: &DynamicObject,
        mut scope: Arc<Scope>,
        mut sum: Sum,
    ) -> Result<(Arc<Scope>, Sum, Option<Encryption>), Held> {
        let restored = Conditions::of(&seen.data["status"]).is_true("EtcdSnapshotRestored");
        if restored && matches!(&scope.etcd, Etcd::Managed { restore: Some(_), .. }) {
            let mut after = (*scope).clone();
            if let Etcd::Managed { restore, .. } = &mut after.etcd {
                *restore = None;
            }
            (scope, sum) = (Arc::new(after), memo::sum(&format!("{sum}restored")));
        }
        let authorities = self.views.authorities(&scope);
        if !authorities.is_empty() {
            sum = memo::sum(&format!("{sum}{authorities:?}"));
            scope = Arc::new(Scope { authorities, ..(*scope).clone() });
        }
        let Some(wished) = &scope.encryption else { return Ok((scope, sum, None)) };
        let bad = |message: String| Held {
            kind: "ValidHostedControlPlaneConfiguration",
            reason: "InvalidConfiguration",
            message,
        };
        let wished = self.views.keys(&scope.namespace, wished).map_err(bad)?;
        let layout = encryption::layout(&wished, &tell::encryption_of(seen)).map_err(bad)?;
        if scope.encryption.as_ref() == Some(&layout) {
            return Ok((scope, sum, Some(wished)));
        }
        let sum = memo::sum(&format!("{sum}{layout:?}"));
        Ok((Arc::new(Scope { encryption: Some(layout), ..(*scope).clone() }), sum, Some(wished)))
    }

    /// The facts with what issuers of OpenID tokens say of themselves. One that is away now is taken at its last word.
    async fn with_issuers(
        &self,
        memo: &mut Memo,
        scope: Arc<Scope>,
        sum: Sum,
        now: Timestamp,
    ) -> (Arc<Scope>, Sum) {
        let issuers = providers::issuers(&scope);
        if issuers.is_empty() {
            return (scope, sum);
        }
        let mut openid = BTreeMap::new();
        let mut asked = Vec::new();
        for (issuer, bundle) in issuers {
            let bundle = bundle.map(|b| (self.views.seen(&scope.namespace, Kind::ConfigMap, &b), b));
            let key = (issuer.clone(), bundle.as_ref().and_then(|(m, _)| m.as_ref()).map(|m| m.sum));
            let known = memo.openid.get(&key);
            let fresh = known.filter(|(said, at)| {
                let believed = if said.is_ok() { ISSUER_BELIEVED } else { ISSUER_AGAIN };
                now.duration_since(*at) < believed
            });
            if fresh.is_none() {
                let said = match &bundle {
                    Some((None, name)) => {
                        Err(format!("there is no ConfigMap {name:?}, which it names as ca"))
                    }
                    Some((Some(m), name)) => match m.data.get("ca.crt").map(|b| String::from_utf8_lossy(b)) {
                        Some(pem) => self.around.openid(&issuer, Some(&pem)).await,
                        None => Err(format!("ConfigMap {name:?} has no key \"ca.crt\"")),
                    },
                    None => self.around.openid(&issuer, None).await,
                };
                let said = said.and_then(|document| OpenId::read(&document));
                let said = match (said, known) {
                    (Err(_), Some((Ok(before), _))) => Ok(before.clone()),
                    (said, _) => said,
                };
                memo.openid.insert(key.clone(), (said, now));
            }
            openid.extend(memo.openid.get(&key).map(|(said, _)| (issuer, said.clone())));
            asked.push(key);
        }
        memo.openid.retain(|key, _| asked.contains(key));
        let sum = memo::sum(&format!("{sum}{openid:?}"));
        (Arc::new(Scope { openid, ..(*scope).clone() }), sum)
    }

    /// What Azure says, where it can be asked; who agreed a while ago is not asked again.
    async fn ask(&self, pass: &Pass<'_>, memo: &mut Memo) -> (Verdict, Verdict) {
        let scope = pass.scope;
        if !scope.identity.managed() {
            return (Verdict::Good, Verdict::Good);
        }
        let public = matches!(&scope.encryption, Some(Encryption::Kms { private: false, .. }));
        let places = memo::sum(&format!("{:?}", scope.azure));
        let key = memo::sum(&format!("{:?}", scope.encryption));
        let known = [("azure", places), ("kms", key)].map(|(who, of)| memo.verdict(who, of, pass.now));
        let [azure, kms] = known.clone();
        let azure = async {
            match azure {
                Some(known) => known,
                None => self.around.azure(scope).await,
            }
        };
        let kms = async {
            match kms {
                Some(known) => known,
                None if public => self.around.kms(scope).await,
                None => Verdict::Good,
            }
        };
        let (azure, kms) = futures::join!(azure, kms);
        // Asking may have taken longer than a doubtful answer is believed.
        let now = self.clock.now();
        for (known, who, of, said) in [(&known[0], "azure", places, &azure), (&known[1], "kms", key, &kms)] {
            if known.is_none() {
                memo.asked(who, of, now, said);
            }
        }
        (azure, kms)
    }

    /// Whether the API's own name leads somewhere; nothing if it has none, or nobody outside is to use it.
    async fn name(&self, pass: &Pass<'_>, health: &Result<(), String>) -> Option<Result<(), String>> {
        let host = &pass.scope.endpoints.api.host;
        let given = self.views.given(&pass.scope.namespace);
        let hidden = matches!(pass.scope.reach, Reach::Private | Reach::Swift(_));
        if host.is_empty() || hidden || given.get("api") == Some(host) || host.parse::<IpAddr>().is_ok() {
            return None;
        }
        // Who answers at a name was found by it.
        Some(if health.is_ok() { Ok(()) } else { self.around.resolves(host).await })
    }

    /// The release that the object names. Of a registry that is away now its last word is taken: nothing about a control
    /// plane that runs depends on whether a registry answers today.
    async fn release(&self, memo: &mut Memo, hcp: &HostedControlPlane) -> Result<Release, Held> {
        let now = self.clock.now();
        if let Some(release) = memo.release(now) {
            return Ok(release);
        }
        let image = facts::image(hcp);
        let why = match self.around.release(hcp).await {
            Ok(asked) => {
                memo.unanswered = None;
                memo.last = Some((image.to_owned(), asked.clone()));
                memo.released = Some((asked.clone(), now + RELEASE_BELIEVED));
                return Ok(asked);
            }
            Err(e) => chain(&*e).to_string(),
        };
        match memo.last.as_ref().filter(|(of, _)| of == image).map(|(_, release)| release.clone()) {
            Some(release) => {
                memo.released = Some((release.clone(), now + RELEASE_AGAIN));
                memo.unanswered = Some(why);
                Ok(release)
            }
            None => Err(Held { kind: "ValidReleaseInfo", reason: "MissingReleaseImages", message: why }),
        }
    }

    async fn scope(&self, memo: &mut Memo, hcp: &HostedControlPlane) -> Result<(Arc<Scope>, Sum), Held> {
        let release = self.release(memo, hcp).await?;
        let namespace = hcp.metadata.namespace.clone().unwrap_or_default();
        let given = self.views.given(&namespace);
        let image_streams = self.views.served.contains("image.openshift.io/ImageStream");
        let management = Management { image_streams, ..self.around.management(&namespace) };
        if let Some(known) = memo.facts(&given, &management, &release) {
            return Ok(known);
        }
        let around = Around {
            release,
            management: management.clone(),
            given: given.clone(),
            vault_reader: self.around.vault_reader(),
        };
        let scope = facts::read(hcp, &around).map_err(|e| Held {
            kind: "ValidHostedControlPlaneConfiguration",
            reason: "InvalidConfiguration",
            message: e.to_string(),
        })?;
        let scope = Arc::new(scope);
        let sum = memo.keep(given, management, scope.clone());
        Ok((scope, sum))
    }

    /// Whether the API answers. Who answered a moment ago and has not changed since is not asked again.
    async fn health(
        &self,
        scope: &Scope,
        progress: &Progress,
        memo: &mut Memo,
        now: Timestamp,
    ) -> Result<(), String> {
        let Some(api) = progress.rollout("kube-apiserver").filter(|r| r.available) else {
            memo.answered = None;
            return Err("the API server is not available yet".to_owned());
        };
        let looks = memo::sum(&format!("{:?}{api:?}", scope.endpoints.api));
        let fresh = |at: Timestamp| now.duration_since(at) < BELIEVED;
        if memo.answered.is_some_and(|(l, at)| l == looks && fresh(at)) {
            return Ok(());
        }
        let health = self.around.healthy(scope).await;
        memo.answered = health.is_ok().then_some((looks, now));
        health
    }
}
