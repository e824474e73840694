//! What must be stored: authorities, the bundles that trust them, client certificates. Pure.
//!
//! One pass looks at everything of a control plane. What will do is not touched; writes are in an order in which any of
//! them may be the last. Keys are made here; nothing else is left to chance but names of users.

use super::revocation::{Facts, Revocation};
use super::{CLIENTS, Class, Lives, MANAGED, TOTAL};
use clock::Random;
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Bundle, Error, Leaf, Pair, Private, Verdict};
use std::collections::BTreeMap;

/// What users of these authorities are: everything.
pub const MASTERS: &str = "system:masters";
/// Key of bundles.
pub const BUNDLE: &str = "ca-bundle.crt";
const NOT_BEFORE: &str = "auth.openshift.io/certificate-not-before";
const NOT_AFTER: &str = "auth.openshift.io/certificate-not-after";
const ISSUER: &str = "auth.openshift.io/certificate-issuer";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Secret,
    ConfigMap,
}

/// Keys and texts, none of which are printed.
pub type Data = BTreeMap<String, Private>;

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub objects: BTreeMap<(Kind, String), Data>,
    pub revocations: Vec<Revocation>,
}

/// Something to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub kind: Kind,
    pub name: String,
    pub data: Data,
    pub labels: Vec<(&'static str, String)>,
    pub annotations: Vec<(&'static str, String)>,
    /// The revocation it goes with; otherwise it goes with the control plane.
    pub of: Option<String>,
    pub why: String,
}

/// What a pass came to.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub writes: Vec<Write>,
    /// When something is due although nothing happened.
    pub until: Option<Timestamp>,
}

impl Seen {
    pub fn text(&self, kind: Kind, name: &str, key: &str) -> Option<&str> {
        let data = self.objects.get(&(kind, name.to_owned()))?;
        data.get(key).map(Private::expose).filter(|t| !t.is_empty())
    }

    pub fn pair(&self, secret: &str) -> Option<Pair> {
        let part = |key| self.text(Kind::Secret, secret, key);
        Some(Pair::new(part("tls.crt")?, part("tls.key")?))
    }

    /// An authority that can be used; one that cannot is as good as none, since it does not live long anyway.
    pub fn authority(&self, secret: &str) -> Option<Authority> {
        Authority::from_pair(self.pair(secret)?).ok()
    }

    /// Whether the API server is told to believe an authority.
    pub fn told(&self, cert: &str) -> bool {
        let all = self.text(Kind::ConfigMap, CLIENTS, "ca.crt").unwrap_or_default();
        Bundle::new().with(all).contains(cert)
    }

    fn bundle(&self, class: Class) -> &str {
        self.text(Kind::ConfigMap, class.bundle(), BUNDLE).unwrap_or_default()
    }

    pub fn of(&self, class: Class) -> impl Iterator<Item = &Revocation> {
        self.revocations.iter().filter(move |r| r.class == Some(class))
    }
}

/// A client certificate of a class, for somebody.
fn client(class: Class, somebody: &str, lives: Lives) -> Leaf {
    let leaf = Leaf::client(format!("{}{somebody}", class.prefix()), MASTERS);
    leaf.living(lives.client(), lives.client() - lives.client_replaced())
}

/// Whether the client certificate that is there will do, and until when.
pub fn client_stands(seen: &Seen, class: Class, by: &Authority, lives: Lives, now: Timestamp) -> Verdict {
    let there = seen.pair(class.client());
    let name = there.as_ref().and_then(|p| p.facts().ok()).map(|f| f.common_name).unwrap_or_default();
    // Who it is for was drawn once; any of our users will do.
    let somebody = name.strip_prefix(&class.prefix()).unwrap_or_default();
    client(class, somebody, lives).assess(there.as_ref(), by, now)
}

/// Plans a pass over one namespace.
pub fn plan(
    seen: &Seen,
    namespace: &str,
    lives: Lives,
    now: Timestamp,
    random: &Random,
) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    let mut total = Bundle::new();
    for class in Class::ALL {
        let signer = plan.signer(seen, class, namespace, lives, now)?;
        total.add(&plan.bundle(seen, class, &signer, lives, now));
        plan.client(seen, class, &signer, lives, now, random)?;
    }
    let trusted = BTreeMap::from([(BUNDLE.to_owned(), Private::new(total.pem()))]);
    plan.ensure(
        seen,
        Write::new(Kind::ConfigMap, TOTAL, trusted, "ca-bundle", "whom to believe has changed"),
    );
    Ok(plan)
}

impl Write {
    fn new(kind: Kind, name: &str, data: Data, what: &str, why: &str) -> Write {
        let labels = vec![(MANAGED, what.to_owned())];
        Write {
            kind,
            name: name.to_owned(),
            data,
            labels,
            annotations: Vec::new(),
            of: None,
            why: why.to_owned(),
        }
    }

    /// A certificate and its key; how long it is good for can be read without opening it.
    fn pair(name: &str, pair: &Pair, what: &str, why: &str) -> Result<Write, Error> {
        let data = BTreeMap::from([
            ("tls.crt".to_owned(), Private::new(pair.cert.clone())),
            ("tls.key".to_owned(), pair.key.clone()),
        ]);
        let facts = pair.facts()?;
        let mut write = Write::new(Kind::Secret, name, data, what, why);
        write.annotations =
            vec![(NOT_BEFORE, facts.not_before.to_string()), (NOT_AFTER, facts.not_after.to_string())];
        Ok(write)
    }

    fn issued_by(mut self, name: String) -> Write {
        self.annotations.push((ISSUER, name));
        self
    }
}

impl Plan {
    fn look_again(&mut self, at: Timestamp) {
        self.until = Some(self.until.map_or(at, |u| u.min(at)));
    }

    fn ensure(&mut self, seen: &Seen, mut write: Write) {
        let there = seen.objects.get(&(write.kind, write.name.clone()));
        if there.is_some_and(|t| write.data.iter().all(|(k, v)| t.get(k) == Some(v))) {
            return;
        }
        if there.is_none() {
            write.why = "there is none".to_owned();
        }
        self.writes.push(write);
    }

    /// The authority that signs from now on.
    fn signer(
        &mut self,
        seen: &Seen,
        class: Class,
        namespace: &str,
        lives: Lives,
        now: Timestamp,
    ) -> Result<Authority, Error> {
        let there = seen.authority(class.signer());
        let began = there.as_ref().and_then(|a| a.facts().ok()).map(|f| f.not_before);
        let replaced = began.and_then(|b| b.checked_add(lives.authority_replaced()).ok());
        // Revocations whose cut it was there at, and the newest of these cuts.
        let behind = |r: &&Revocation| !r.done() && r.cut.is_some_and(|cut| began.is_some_and(|b| b <= cut));
        let mut copied = true;
        if let Some(pair) = seen.pair(class.signer()) {
            for r in seen.of(class).filter(behind).filter(|r| seen.pair(&r.copy()).is_none()) {
                // Kept, to see at the end that nobody believes it any more.
                let mut copy = Write::pair(&r.copy(), &pair, "signer", "it is about to be revoked")?;
                copy.of = Some(r.name.clone());
                self.writes.push(copy);
                copied = false;
            }
        }
        let revoked = copied && seen.of(class).any(|r| behind(&r));
        let cut = seen.of(class).filter_map(|r| r.cut).max();
        let why = match (&there, replaced) {
            (Some(_), _) if revoked => "it is revoked",
            (Some(_), Some(at)) if now >= at => "its time is over",
            (Some(authority), Some(at)) => {
                self.look_again(at);
                return Ok(authority.clone());
            }
            _ => "there is none that can be used",
        };
        // After the cut, which is a whole second and may be this one.
        let second = SignedDuration::from_secs(1);
        let from = cut.and_then(|c| c.checked_add(second).ok()).map_or(now, |c| c.max(now));
        let name = format!("{namespace}_{}@{}", class.signer(), from.as_second());
        let made = Authority::starting(&name, from, lives.authority())?;
        self.ensure(seen, Write::pair(class.signer(), made.pair(), "signer", why)?.issued_by(name));
        Ok(made)
    }

    /// Whom a class's bundle holds: the authority, and those of before until they end or are revoked.
    fn bundle(
        &mut self,
        seen: &Seen,
        class: Class,
        signer: &Authority,
        lives: Lives,
        now: Timestamp,
    ) -> String {
        let facts = Facts::of(seen, class, lives, now);
        // Not before the new one is believed and everything is issued by it.
        let cut = seen.of(class).filter(|r| r.done() || facts.may_prune(r)).filter_map(|r| r.cut).max();
        let mut kept = Bundle::new();
        for cert in certificates(seen.bundle(class)) {
            let Ok(f) = pki::Facts::of(&cert) else { continue };
            if f.not_after > now && cut.is_none_or(|c| f.not_before > c) {
                kept.add(&cert);
                self.look_again(f.not_after);
            }
        }
        kept.add(signer.cert());
        let data = BTreeMap::from([(BUNDLE.to_owned(), Private::new(kept.pem()))]);
        let write =
            Write::new(Kind::ConfigMap, class.bundle(), data, "ca-bundle", "whom it holds has changed");
        self.ensure(seen, write);
        kept.pem()
    }

    fn client(
        &mut self,
        seen: &Seen,
        class: Class,
        signer: &Authority,
        lives: Lives,
        now: Timestamp,
        random: &Random,
    ) -> Result<(), Error> {
        let why = match client_stands(seen, class, signer, lives, now) {
            Verdict::Keep { until } => {
                self.look_again(until);
                return Ok(());
            }
            Verdict::Issue(why) => why,
        };
        // A certificate that nobody believes yet is worth less than the one that is there.
        if !seen.told(signer.cert()) || seen.of(class).any(|r| !r.done() && !r.trusted()) {
            return Ok(());
        }
        let pair = signer.issue(&client(class, &word(random), lives), now)?;
        let issuer = signer.facts()?.common_name;
        self.ensure(seen, Write::pair(class.client(), &pair, "target", &why.to_string())?.issued_by(issuer));
        Ok(())
    }
}

/// The certificates of a PEM text.
fn certificates(pem: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----";
    pem.split_inclusive(end).filter(|p| p.contains(end)).map(str::to_owned).collect()
}

/// A name that nobody guesses: a log must be able to tell which certificate it was.
fn word(random: &Random) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    (0..43).map(|_| char::from(LETTERS[random.below(LETTERS.len())])).collect()
}
