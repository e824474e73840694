//! How far a revocation is, and what has to be asked to know. Pure.
//!
//! ```text
//! cut ─> RootCertificatesRegenerated ─> NewCertificatesTrusted ─> LeafCertificatesRegenerated ─> PreviousCertificatesRevoked
//! ```
//!
//! `revocationTimestamp` is the cut: whoever signed at it or before is out, whoever begins after it is in. It is written first
//! and alone, since everything else is measured by it. That the new authority is believed, and the old one no more, is told by
//! the API servers themselves and remembered in the conditions; all else is read off what is stored.

use super::Class;
use super::Lives;
use super::plan::{Kind, Seen, client_stands};
use aws_lc_rs::digest::{SHA224, digest};
use jiff::Timestamp;
use kube::core::DynamicObject;
use pki::{Authority, Verdict};
use reconcile::conditions::{AS_EXPECTED, Conditions, Finding, Status};
use serde_json::{Value, json};

pub const CLASS_VALID: &str = "SignerClassValid";
pub const ROOT: &str = "RootCertificatesRegenerated";
pub const TRUSTED: &str = "NewCertificatesTrusted";
pub const LEAVES: &str = "LeafCertificatesRegenerated";
pub const REVOKED: &str = "PreviousCertificatesRevoked";
const CLASS_UNKNOWN: &str = "SignerClassUnknown";
const ROOT_STALE: &str = "RootCertificatesStale";
const LEAVES_STALE: &str = "LeafCertificatesStale";
const WAITING: &str = "WaitingForAvailable";

/// A CertificateRevocationRequest, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocation {
    pub name: String,
    pub uid: String,
    /// Whose certificates; nothing if it is no class we know.
    pub class: Option<Class>,
    /// `revocationTimestamp`.
    pub cut: Option<Timestamp>,
    pub conditions: Conditions,
}

impl Revocation {
    pub fn read(o: &DynamicObject) -> Revocation {
        let status = &o.data["status"];
        Revocation {
            name: o.metadata.name.clone().unwrap_or_default(),
            uid: o.metadata.uid.clone().unwrap_or_default(),
            class: o.data["spec"]["signerClass"].as_str().and_then(Class::named),
            cut: status["revocationTimestamp"].as_str().and_then(|t| t.parse().ok()),
            conditions: Conditions::of(status),
        }
    }

    /// It is over: nothing of it is looked at again.
    pub fn done(&self) -> bool {
        self.conditions.is_true(REVOKED)
    }

    /// The new authority was believed.
    pub fn trusted(&self) -> bool {
        self.conditions.is_true(TRUSTED)
    }

    /// The Secret with the authority that it revokes: the same for the same name, and a name itself.
    pub fn copy(&self) -> String {
        let sum = digest(&SHA224, self.name.as_bytes());
        base36(sum.as_ref())
    }
}

/// A number of many bytes with the digits that names may have.
fn base36(bytes: &[u8]) -> String {
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|b| *b != 0) {
        let mut rest = 0_u32;
        for b in &mut number {
            let part = rest * 256 + u32::from(*b);
            *b = u8::try_from(part / 36).unwrap_or_default();
            rest = part % 36;
        }
        digits.push(char::from_digit(rest, 36).unwrap_or('0'));
    }
    digits.iter().rev().collect()
}

/// What API servers say of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// All of them believe it.
    Believed,
    /// None of them does.
    Refused,
    /// Some do.
    Divided,
}

/// What is known of a class beside its revocations.
pub struct Facts {
    /// When the authority begins that is stored.
    began: Option<Timestamp>,
    /// The client certificate is its.
    leaf: bool,
    /// The authority can be seen by the API server, and in the class's bundle.
    told: bool,
    signer: Option<Authority>,
}

impl Facts {
    pub fn of(seen: &Seen, class: Class, lives: Lives, now: Timestamp) -> Facts {
        let signer = seen.authority(class.signer());
        Facts {
            began: signer.as_ref().and_then(|a| a.facts().ok()).map(|f| f.not_before),
            leaf: signer
                .as_ref()
                .is_some_and(|a| matches!(client_stands(seen, class, a, lives, now), Verdict::Keep { .. })),
            told: signer.as_ref().is_some_and(|a| seen.told(a.cert())),
            signer,
        }
    }

    /// The stored authority is one of after the cut.
    fn regenerated(&self, r: &Revocation) -> bool {
        r.cut.is_some_and(|cut| self.began.is_some_and(|b| b > cut))
    }

    /// Nothing that is in use is lost when those of before the cut are.
    pub fn may_prune(&self, r: &Revocation) -> bool {
        self.regenerated(r) && r.trusted() && self.leaf
    }
}

/// What the API servers have to be asked before it is known how a revocation stands.
#[derive(Clone, Debug)]
pub enum Question {
    /// Is the new one believed?
    New(Authority),
    /// Is the old one refused?
    Old(Authority),
}

impl Question {
    pub fn authority(&self) -> &Authority {
        match self {
            Question::New(a) | Question::Old(a) => a,
        }
    }

    /// Whether this is what we wait for.
    pub fn satisfied(&self, heard: &Result<Heard, String>) -> bool {
        match self {
            Question::New(_) => *heard == Ok(Heard::Believed),
            Question::Old(_) => *heard == Ok(Heard::Refused),
        }
    }
}

/// The question that a revocation waits for, once what can be seen without asking is so.
pub fn question(seen: &Seen, r: &Revocation, facts: &Facts) -> Option<Question> {
    if r.done() || !facts.regenerated(r) {
        return None;
    }
    if !r.trusted() {
        return facts.signer.clone().filter(|_| facts.told).map(Question::New);
    }
    let old = seen.authority(&r.copy())?;
    (facts.leaf && !seen.told(old.cert())).then_some(Question::Old(old))
}

/// What was asked, and what came back.
pub type Answer<'a> = Option<(&'a Question, &'a Result<Heard, String>)>;

/// The status of a revocation; the whole of it, from what is there.
pub fn status(o: &DynamicObject, seen: &Seen, lives: Lives, answer: Answer<'_>, now: Timestamp) -> Value {
    let r = Revocation::read(o);
    let mut status = o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    if r.done() {
        return status;
    }
    let mut all = r.conditions.clone();
    let mut set = |finding| all.set(finding, o.metadata.generation, now);
    let Some(class) = r.class else {
        let known = Class::ALL.map(Class::name).join(" or ");
        let asked = o.data["spec"]["signerClass"].as_str().unwrap_or_default();
        let message = format!("spec.signerClass {asked:?} is none: ask for {known}");
        set(Finding::new(CLASS_VALID, Status::False, CLASS_UNKNOWN, message));
        status["conditions"] = all.to_value();
        return status;
    };
    set(Finding::new(CLASS_VALID, Status::True, AS_EXPECTED, format!("{} signs", class.signer())));
    let Some(cut) = r.cut else {
        status["revocationTimestamp"] = json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        status["conditions"] = all.to_value();
        return status;
    };
    let facts = Facts::of(seen, class, lives, now);
    let copy = r.copy();
    if seen.objects.contains_key(&(Kind::Secret, copy.clone())) {
        status["previousSigner"] = json!({"name": copy});
    }
    let good = |kind, message: String| Finding::new(kind, Status::True, AS_EXPECTED, message);
    let bad = |kind, reason, message: String| Finding::new(kind, Status::False, reason, message);
    if !facts.regenerated(&r) {
        set(bad(ROOT, ROOT_STALE, format!("Secret {} holds the authority of before {cut}", class.signer())));
    } else {
        set(good(ROOT, format!("Secret {} holds an authority of after {cut}", class.signer())));
        let heard = answer.filter(|(q, _)| matches!(q, Question::New(_)));
        let trusted = r.trusted() || heard.is_some_and(|(q, h)| q.satisfied(h));
        set(match trusted {
            true => good(TRUSTED, "every API server believes the new authority".to_owned()),
            false => bad(TRUSTED, WAITING, waiting("believe the new authority", heard)),
        });
        set(match facts.leaf {
            true => good(LEAVES, format!("Secret {} is of the new authority", class.client())),
            false => bad(LEAVES, LEAVES_STALE, format!("Secret {} is of the old authority", class.client())),
        });
        let heard = answer.filter(|(q, _)| matches!(q, Question::Old(_)));
        // Where there was nothing before, nothing has to be refused.
        let nothing = seen.pair(&copy).is_none();
        let refused = facts.may_prune(&r) && (nothing || heard.is_some_and(|(q, h)| q.satisfied(h)));
        set(match refused {
            true => good(REVOKED, format!("no API server believes what was signed before {cut}")),
            false => bad(REVOKED, WAITING, waiting("refuse the old authority", heard)),
        });
    }
    status["conditions"] = all.to_value();
    status
}

fn waiting(what: &str, heard: Answer<'_>) -> String {
    match heard {
        None => format!("API servers are not told yet to {what}"),
        Some((_, Err(why))) => format!("API servers cannot be asked whether they {what}: {why}"),
        Some((_, Ok(_))) => format!("not all API servers {what} yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_name_that_others_look_for() {
        let r = Revocation { name: "crr-name".into(), ..Revocation::default() };
        assert_eq!(r.copy(), "1pfcydcz358pa1glirkmc72sdkf5zw21uam4jbnj03pw");
    }
}
