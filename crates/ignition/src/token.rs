//! What a token Secret says, and what is to be done with it next.
//!
//! A token lives eleven hours. After half of that a new one takes its place, and the old one is still good for the other
//! half: machines that were made with it may still be booting. A Secret whose configuration nobody wants any more is
//! given a time of expiry by the NodePool controller; then it is deleted.

use crate::names::{annotation, key};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;

pub const TTL: SignedDuration = SignedDuration::from_hours(11);
/// When a token is replaced.
pub const ROTATION: SignedDuration = SignedDuration::from_mins(330);

/// Bytes that are not to be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Vec<u8>);

impl Hidden {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Hidden {
        Hidden(bytes.into())
    }

    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hidden({} bytes)", self.0.len())
    }
}

/// A Secret with a token.
#[derive(Clone, Debug)]
pub struct Token {
    pub name: String,
    pub resource_version: String,
    /// `<namespace>/<name>` of the pool, if it says so.
    pub node_pool: String,
    pub token: Hidden,
    pub old: Option<Hidden>,
    pub release: String,
    pub version: String,
    /// Compressed.
    pub config: Hidden,
    /// Hashes by the key they lie under.
    pub hashes: BTreeMap<&'static str, String>,
    pub os_stream: String,
    pub in_place: bool,
    pub generated: Timestamp,
    pub expires: Option<Timestamp>,
    pub reached: bool,
    pub reason: String,
    pub message: String,
    pub payload: Option<Hidden>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("Secret {name} has no key {key:?}; the NodePool controller writes it")]
    Missing { name: String, key: &'static str },
    #[error("annotation {annotation} of Secret {name} is {value:?}, which is no time in RFC 3339")]
    Time { name: String, annotation: &'static str, value: String },
}

const HASHES: [&str; 4] = [
    key::PULL_SECRET_HASH,
    key::ADDITIONAL_TRUST_BUNDLE_HASH,
    key::CONFIGURATION_HASH,
    key::CLOUD_CONFIG_HASH,
];

impl Token {
    pub fn read(secret: &Secret) -> Result<Token, Error> {
        let meta = &secret.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let bytes = |key: &str| secret.data.as_ref().and_then(|d| d.get(key)).map(|b| b.0.clone());
        let text = |key: &str| bytes(key).map(|b| String::from_utf8_lossy(&b).trim().to_owned());
        let needed = |key: &'static str| {
            let missing = Error::Missing { name: name.clone(), key };
            bytes(key).filter(|b| !b.is_empty()).ok_or(missing)
        };
        let mark = |of: &str| meta.annotations.as_ref().and_then(|a| a.get(of)).map(String::as_str);
        let time = |annotation: &'static str| match mark(annotation) {
            None => Ok(None),
            Some(t) => t.parse::<Timestamp>().map(Some).map_err(|_| Error::Time {
                name: name.clone(),
                annotation,
                value: t.chars().take(64).collect(),
            }),
        };
        // Who never said when counts from the Secret's own birth.
        let born = meta.creation_timestamp.as_ref().map(|t| t.0);
        Ok(Token {
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            node_pool: mark(annotation::NODE_POOL).unwrap_or_default().to_owned(),
            token: Hidden(needed(key::TOKEN)?),
            old: bytes(key::OLD_TOKEN).filter(|b| !b.is_empty()).map(Hidden),
            release: String::from_utf8_lossy(&needed(key::RELEASE)?).trim().to_owned(),
            version: text(key::RELEASE_VERSION).unwrap_or_default(),
            config: Hidden(needed(key::CONFIG)?),
            hashes: HASHES
                .into_iter()
                .filter_map(|k| Some((k, text(k).filter(|t| !t.is_empty())?)))
                .collect(),
            os_stream: text(key::OS_STREAM).unwrap_or_default(),
            in_place: mark(annotation::UPGRADE_TYPE) == Some("InPlace"),
            generated: time(annotation::GENERATED)?.or(born).unwrap_or(Timestamp::UNIX_EPOCH),
            expires: time(annotation::EXPIRES)?,
            reached: mark(annotation::REACHED) == Some("True"),
            reason: text(key::REASON).unwrap_or_default(),
            message: text(key::MESSAGE).unwrap_or_default(),
            payload: bytes(key::PAYLOAD).map(Hidden),
            name,
        })
    }

    /// The hash that the Secret is called after: what machines that boot with it call their configuration.
    pub fn config_version(&self) -> &str {
        self.name.rsplit('-').next().unwrap_or_default()
    }

    /// Until when each of its tokens is good.
    pub fn good_until(&self) -> Vec<(&Hidden, Timestamp)> {
        let bound = |at: Timestamp| self.expires.map_or(at, |e| e.min(at));
        let mut all = vec![(&self.token, bound(after(self.generated, TTL)))];
        all.extend(self.old.iter().map(|old| (old, bound(after(self.generated, TTL - ROTATION)))));
        all
    }
}

pub(crate) fn after(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What to do with a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its time is over.
    Delete,
    /// A new token; the one it has stays good as the old one, unless it is too old for that.
    Rotate { keep_old: bool },
    /// Nothing before this time.
    Serve { until: Timestamp },
}

pub fn next(token: &Token, now: Timestamp) -> Next {
    if let Some(expires) = token.expires {
        // Nobody makes machines with it any more, so it is not renewed either.
        return if expires <= now { Next::Delete } else { Next::Serve { until: expires } };
    }
    let due = after(token.generated, ROTATION);
    match due <= now {
        true => Next::Rotate { keep_old: now < after(token.generated, TTL) },
        false => Next::Serve { until: due },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(annotations: serde_json::Value) -> Secret {
        serde_json::from_value(json!({
            "metadata": {"name": "token-workers-1a2b3c4d", "annotations": annotations,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "data": {"token": "dA==", "old_token": "bw==", "release": "cg==", "config": "Yw=="},
        }))
        .unwrap()
    }

    fn at(hours: i64) -> Timestamp {
        after("2026-01-01T00:00:00Z".parse().unwrap(), SignedDuration::from_hours(hours))
    }

    #[test]
    fn tokens_are_renewed_at_half_of_their_life_and_kept_for_the_other_half() {
        let t = Token::read(&secret(json!({}))).unwrap();
        assert_eq!(t.config_version(), "1a2b3c4d");
        assert_eq!(next(&t, at(5)), Next::Serve { until: after(at(5), SignedDuration::from_mins(30)) });
        assert_eq!(next(&t, at(6)), Next::Rotate { keep_old: true });
        assert_eq!(next(&t, at(12)), Next::Rotate { keep_old: false });
        let good: Vec<_> = t.good_until().into_iter().map(|(_, until)| until).collect();
        assert_eq!(good, [at(11), after(at(5), SignedDuration::from_mins(30))]);
    }

    #[test]
    fn an_expiring_secret_is_not_renewed_and_then_deleted() {
        let t = Token::read(&secret(json!({annotation::EXPIRES: "2026-01-01T02:00:00Z"}))).unwrap();
        assert_eq!((next(&t, at(1)), next(&t, at(2))), (Next::Serve { until: at(2) }, Next::Delete));
        assert!(t.good_until().iter().all(|(_, until)| *until <= at(2)));
    }

    #[test]
    fn what_is_wrong_is_named_and_nothing_secret_is_printed() {
        let e = Token::read(&secret(json!({annotation::EXPIRES: "soon"}))).unwrap_err();
        assert!(e.to_string().contains("ignition-token-expiration-timestamp"), "{e}");
        let mut s = secret(json!({}));
        s.data.as_mut().unwrap().remove("config");
        assert_eq!(
            Token::read(&s).unwrap_err(),
            Error::Missing { name: "token-workers-1a2b3c4d".into(), key: "config" }
        );
        let shown = format!("{:?}", Token::read(&secret(json!({}))).unwrap());
        assert!(shown.contains("Hidden(1 bytes)"), "{shown}");
    }
}
