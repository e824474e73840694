//! From what is stored to what must be stored: authorities, certificates, bundles, kubeconfigs.
//!
//! One pass over the lists of this module, in the order in which one needs the other. What will do is not touched; what
//! is written says why. Where an authority's rotation stands is in its Secret (`next.*`, `previous.crt`), so a pass that is
//! cut short is simply made again.

use super::{BUNDLES, Ca, Entry, FORWARDING, IGNITION, Kubeconfig, kubeconfigs, leaves};
use crate::scope::{Lives, Scope};
use jiff::{SignedDuration, Timestamp};
use pki::rotation::{self, Known, Phase, Step, Stored};
use pki::{Access, Authority, Bundle, Error, KeyKind, Pair, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of a Secret or ConfigMap.
pub type Data = BTreeMap<String, Vec<u8>>;

/// In an authority's Secret: when its rotation last went a step further.
const SINCE: &str = "since";
/// How long an authority lives.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// What is there, by kind and name.
pub trait Kept {
    fn data(&self, kind: Kind, name: &str) -> Option<Arc<Data>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Secret,
    ConfigMap,
}

/// Something to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub kind: Kind,
    pub name: String,
    pub data: Data,
    pub labels: Vec<(&'static str, String)>,
    pub why: String,
}

/// What one pass came to.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub writes: Vec<Write>,
    /// When something will have to be issued again.
    pub until: Option<Timestamp>,
    /// Authorities that are being replaced, and what they wait for.
    pub rotating: Vec<(&'static str, Step)>,
    /// What is there stays as it is, whatever it is: somebody else looks after it.
    frozen: bool,
}

/// What is asked for and known of rotations, by authority.
pub type Rotations<'a> = dyn Fn(&str) -> Known + 'a;

/// Plans a pass. Keys are made here; nothing else is left to chance.
pub fn plan(
    scope: &Scope,
    kept: &dyn Kept,
    rotations: &Rotations<'_>,
    now: Timestamp,
) -> Result<Plan, Error> {
    let mut plan =
        Plan { frozen: scope.annotation("disable-pki-reconciliation").is_some(), ..Plan::default() };
    let mut authorities: BTreeMap<&'static str, Stored> = BTreeMap::new();
    for ca in super::authorities(scope) {
        let stored = authority(&mut plan, ca, kept, &rotations(ca.secret), now)?;
        authorities.insert(ca.secret, stored);
    }
    for bundle in BUNDLES {
        let mut all = Bundle::new();
        for name in bundle.authorities {
            if let Some(stored) = authorities.get(name) {
                all.add(&stored.trusted().pem());
            }
        }
        if let Some(user) = bundle.users.and_then(|u| u.config_map(scope)) {
            let given = kept.data(Kind::ConfigMap, user);
            all.add(given.as_ref().and_then(|d| text(d, "ca-bundle.crt")).unwrap_or_default());
        }
        if let Some((others, key)) = bundle.others {
            let given = kept.data(Kind::ConfigMap, others);
            all.add(given.as_ref().and_then(|d| text(d, key)).unwrap_or_default());
        }
        let data = one(bundle.key, all.pem());
        plan.ensure(kept, Kind::ConfigMap, bundle.config_map, data, Vec::new(), "what it trusts has changed");
    }
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for entry in leaves(scope) {
        let Some(by) = authorities.get(entry.authority) else { continue };
        let pair = leaf(&mut plan, &entry, by, scope.leaves, kept, now)?;
        pairs.insert(entry.secret, pair);
    }
    let roots = authorities.get("root-ca").map(|s| s.trusted().pem()).unwrap_or_default();
    for config in kubeconfigs(scope) {
        if let Some(pair) = pairs.get(config.client) {
            write_kubeconfig(&mut plan, &config, pair, &roots, kept);
        }
    }
    Ok(plan)
}

fn one(key: &str, text: String) -> Data {
    [(key.to_owned(), text.into_bytes())].into()
}

fn text<'a>(data: &'a Data, key: &str) -> Option<&'a str> {
    data.get(key).and_then(|b| std::str::from_utf8(b).ok()).filter(|t| !t.is_empty())
}

fn pair(data: &Data, cert: &str, key: &str) -> Option<Pair> {
    Some(Pair::new(text(data, cert)?, text(data, key)?))
}

impl Plan {
    /// Writes unless everything wanted is there already; foreign keys in it are left out.
    fn ensure(
        &mut self,
        kept: &dyn Kept,
        kind: Kind,
        name: &str,
        data: Data,
        labels: Vec<(&'static str, String)>,
        why: &str,
    ) {
        let there = kept.data(kind, name);
        if there.as_ref().is_some_and(|t| self.frozen || data.iter().all(|(k, v)| t.get(k) == Some(v))) {
            return;
        }
        let why = if there.is_none() { "there is none".to_owned() } else { why.to_owned() };
        self.writes.push(Write { kind, name: name.to_owned(), data, labels, why });
    }

    fn look_again(&mut self, at: Timestamp) {
        self.until = Some(self.until.map_or(at, |u| u.min(at)));
    }
}

/// An authority as stored, made if there is none, taken one step further if it is being replaced.
fn authority(
    plan: &mut Plan,
    ca: Ca,
    kept: &dyn Kept,
    known: &Known,
    now: Timestamp,
) -> Result<Stored, Error> {
    let make = || Authority::generate(ca.common_name, "openshift", KeyKind::P256, now, LIFE);
    let (stored, until) = match kept.data(Kind::Secret, ca.secret) {
        None => {
            let made = Stored { honoured: known.asked.clone(), ..Stored::new(make()?) };
            plan.ensure(kept, Kind::Secret, ca.secret, authority_data(ca, &made), Vec::new(), "");
            return Ok(made);
        }
        Some(data) => {
            let stored = read_authority(&data)?;
            let since: Option<Timestamp> = text(&data, SINCE).and_then(|t| t.parse().ok());
            let until = since.and_then(|s| s.checked_add(known.overlap).ok()).filter(|t| now < *t);
            (stored, until)
        }
    };
    if plan.frozen {
        return Ok(stored);
    }
    let mut known = known.clone();
    if let Some(until) = until.filter(|_| stored.phase() != Phase::Steady) {
        // Somebody may still be without what the last step brought.
        (known.bundle_in_use, known.leaves_in_use) = (false, false);
        plan.look_again(until);
    }
    let step = rotation::next(&stored, &known, now);
    match &step {
        Step::Rest { until } => plan.look_again(*until),
        other => plan.rotating.push((ca.secret, other.clone())),
    }
    let why = match &step {
        Step::Announce { why } => format!("it is being replaced: {why}"),
        Step::Promote => "its successor signs from now on".to_owned(),
        Step::Retire => "nothing of its predecessor is left".to_owned(),
        Step::Rest { .. } | Step::AwaitTrust | Step::AwaitLeaves => return Ok(stored),
    };
    let stored = rotation::apply(stored, &step, known.asked.as_deref(), make)?;
    let mut data = authority_data(ca, &stored);
    data.insert(SINCE.to_owned(), now.to_string().into_bytes());
    plan.ensure(kept, Kind::Secret, ca.secret, data, Vec::new(), &why);
    Ok(stored)
}

/// An authority that cannot be read is never replaced by a new one: everything it signed would be worthless at once, and
/// somebody may still have it.
fn read_authority(data: &Data) -> Result<Stored, Error> {
    let bad = |why: &str| Error::Read { what: "an authority", why: why.to_owned() };
    let current = pair(data, "ca.crt", "ca.key").ok_or_else(|| bad("its Secret has no ca.crt and ca.key"))?;
    let next = pair(data, "next.crt", "next.key").map(Authority::from_pair).transpose()?;
    Ok(Stored {
        current: Authority::from_pair(current)?,
        next,
        previous: text(data, "previous.crt").map(str::to_owned),
        honoured: text(data, "rotated-for").map(str::to_owned),
    })
}

/// All keys of an authority's Secret; those of a rotation are empty when there is none, so that they are taken away.
fn authority_data(ca: Ca, stored: &Stored) -> Data {
    let pair = stored.current.pair();
    let shown = ca.secret == IGNITION || FORWARDING.contains(&ca);
    let trusted = if shown { stored.trusted().pem() } else { pair.cert.clone() };
    let next = stored.next.as_ref().map(|n| n.pair());
    let fields: [(&str, &str); 8] = [
        ("ca.crt", &pair.cert),
        ("ca.key", pair.key.expose()),
        ("tls.crt", &trusted),
        ("tls.key", pair.key.expose()),
        ("next.crt", next.map_or("", |n| &n.cert)),
        ("next.key", next.map_or("", |n| n.key.expose())),
        ("previous.crt", stored.previous.as_deref().unwrap_or_default()),
        ("rotated-for", stored.honoured.as_deref().unwrap_or_default()),
    ];
    fields.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
}

fn leaf(
    plan: &mut Plan,
    entry: &Entry,
    by: &Stored,
    lives: Lives,
    kept: &dyn Kept,
    now: Timestamp,
) -> Result<Pair, Error> {
    let there = kept.data(Kind::Secret, &entry.secret).and_then(|d| pair(&d, entry.keys.0, entry.keys.1));
    if let Some(pair) = there.as_ref().filter(|_| plan.frozen) {
        return Ok(pair.clone());
    }
    let wanted = entry.leaf.clone().living(lives.life, lives.renew_before);
    let why = match wanted.assess(there.as_ref(), &by.current, now) {
        Verdict::Keep { until } => {
            plan.look_again(until);
            None
        }
        Verdict::Issue(why) => Some(why.to_string()),
    };
    let pair = match (there, &why) {
        (Some(pair), None) => pair,
        _ => by.current.issue(&wanted, now)?,
    };
    let mut data = one(entry.keys.0, pair.cert.clone());
    data.insert(entry.keys.1.to_owned(), pair.key.expose().as_bytes().to_vec());
    let why = why.unwrap_or_else(|| "what it trusts has changed".to_owned());
    plan.ensure(kept, Kind::Secret, &entry.secret, data, Vec::new(), &why);
    Ok(pair)
}

fn write_kubeconfig(plan: &mut Plan, config: &Kubeconfig, pair: &Pair, roots: &str, kept: &dyn Kept) {
    let shown = config.shown.as_ref().and_then(|s| kept.data(Kind::Secret, s));
    let mut trusted = roots.to_owned();
    trusted.extend(shown.as_ref().and_then(|d| text(d, "tls.crt")));
    let document = pki::kubeconfig(&config.server, &trusted, config.user, &Access::Certificate(pair));
    let data = one(config.key, document);
    let why = "its certificate, its server or what it trusts has changed";
    plan.ensure(kept, Kind::Secret, &config.secret, data, config.labels.clone(), why);
}

/// Where a stored authority's rotation stands, for people.
pub fn phase(data: &Data) -> Result<Phase, Error> {
    Ok(read_authority(data)?.phase())
}
