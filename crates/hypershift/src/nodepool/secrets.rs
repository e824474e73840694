//! What machines boot with: a token that the ignition server knows, and the stub that shows it.
//!
//! The token's Secret is written by two: we say what nodes are to be, the ignition server draws the token anew from time to
//! time and says what became of the payload. So the token is drawn when the Secret is made and never named again.
//!
//! Old ones are not torn away. A machine that is just booting may still show the old token, so that expires after two
//! hours; a Secret that some machine set would still make machines from stays as long as that is so.

use super::rollout::Rollout;
use super::text::{canonical, cut, packed, simple, simple_bytes};
use super::watched::Token;
use super::{belong, key, name};
use apis::hypershift::{HostedCluster, NodePool};
use apis::names::{annotation, label, token};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Key of a token: what changes nodes in place, an image of the release. Whoever upgrades them would have to read the
/// release once more to know.
pub const DAEMON_IMAGE: &str = "machine-config-operator-image";

/// How long an old token is good for.
pub const AFTERLIFE: SignedDuration = SignedDuration::from_hours(2);

pub fn token_name(pool: &str, hash: &str) -> String {
    format!("token-{pool}-{hash}")
}

pub fn user_data_name(pool: &str, hash: &str) -> String {
    format!("user-data-{pool}-{hash}")
}

/// The hash in a name of ours.
pub fn hash_of<'a>(pool: &str, secret: &'a str) -> Option<&'a str> {
    let rest = secret.strip_prefix("token-").or_else(|| secret.strip_prefix("user-data-"))?;
    rest.strip_prefix(pool)?.strip_prefix('-').filter(|h| h.len() == 8)
}

/// What the token says besides the payload.
pub struct Said<'a> {
    pub release: &'a str,
    pub version: &'a str,
    pub pull_secret: &'a [u8],
    pub trust_bundle: Option<&'a [u8]>,
    pub cloud_config: Option<&'a [u8]>,
    /// What changes nodes in place.
    pub daemon_image: &'a str,
}

fn secret(hc: &HostedCluster, np: &NodePool, name: String, data: Value) -> Value {
    belong(
        hc,
        np,
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data, "metadata": {
            "name": name,
            "labels": {label::NODE_POOL_NAME: cut(self::name(np), 63)}}}),
    )
}

fn encoded(text: impl AsRef<[u8]>) -> Value {
    json!(STANDARD.encode(text))
}

/// The token's Secret but for the token itself.
pub fn token(
    hc: &HostedCluster,
    np: &NodePool,
    rollout: &Rollout,
    said: &Said<'_>,
) -> Result<Value, std::io::Error> {
    let configuration = serde_json::to_value(&hc.spec.shared.configuration).unwrap_or_default();
    let hashed = |bytes: Option<&[u8]>| bytes.map(simple_bytes).unwrap_or_default();
    let mut data = json!({
        token::RELEASE: encoded(said.release),
        token::RELEASE_VERSION: encoded(said.version),
        token::CONFIG: encoded(packed(&rollout.payload)?),
        token::PULL_SECRET_HASH: encoded(simple_bytes(said.pull_secret)),
        token::ADDITIONAL_TRUST_BUNDLE_HASH: encoded(hashed(said.trust_bundle)),
        token::CONFIGURATION_HASH: encoded(if configuration.is_null() { String::new() } else { simple(&canonical(&configuration)) }),
        token::CLOUD_CONFIG_HASH: encoded(hashed(said.cloud_config)),
        token::OS_STREAM: encoded(""),
    });
    if super::machines::is_in_place(np) {
        data[DAEMON_IMAGE] = encoded(said.daemon_image);
    }
    let mut o = secret(hc, np, token_name(name(np), &rollout.hash), data);
    o["metadata"]["annotations"][annotation::IGNITION_CONFIG] = json!("true");
    o["metadata"]["annotations"][annotation::NODE_POOL_UPGRADE_TYPE] = json!(np.spec.management.upgrade_type);
    Ok(o)
}

/// The same as it is made: with a token.
pub fn drawn(mut token: Value, drawn: &str, now: Timestamp) -> Value {
    token["data"][token::TOKEN] = encoded(drawn);
    token["metadata"]["annotations"][annotation::LAST_TOKEN_GENERATION_TIME] = json!(stamp(now));
    token
}

/// To the second, as Kubernetes writes times.
pub fn stamp(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What the stub needs to know.
pub struct Boot<'a> {
    /// Host of the ignition server.
    pub endpoint: &'a str,
    /// Who signed its certificate, as PEM.
    pub ca: &'a [u8],
    pub token: &'a str,
    pub hash: &'a str,
}

/// The stub: where to fetch the rest, whom to trust, what to show.
pub fn stub(hc: &HostedCluster, np: &NodePool, boot: &Boot<'_>) -> Value {
    let header = |name: &str, value: String| json!({"name": name, "value": value});
    let mut ignition = json!({
        "version": "3.2.0",
        "security": {"tls": {"certificateAuthorities": [
            {"source": format!("data:text/plain;base64,{}", STANDARD.encode(boot.ca))}]}},
        "config": {"merge": [{
            "source": format!("https://{}/ignition", boot.endpoint),
            "httpHeaders": [
                header("Authorization", format!("Bearer {}", STANDARD.encode(boot.token))),
                header("NodePool", key(np)),
                header("TargetConfigVersionHash", boot.hash.to_owned()),
            ]}]},
    });
    let configuration = serde_json::to_value(&hc.spec.shared.configuration).unwrap_or_default();
    let proxy = &configuration["proxy"];
    let text = |field: &str| proxy[field].as_str().filter(|t| !t.is_empty());
    for (from, to) in [("httpProxy", "httpProxy"), ("httpsProxy", "httpsProxy")] {
        if let Some(url) = text(from) {
            ignition["proxy"][to] = json!(url);
        }
    }
    if let (Some(list), true) = (text("noProxy"), ignition["proxy"].is_object()) {
        let list: Vec<&str> = list.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        ignition["proxy"]["noProxy"] = json!(list);
    }
    json!({"ignition": ignition})
}

/// The Secret that machines name.
pub fn user_data(hc: &HostedCluster, np: &NodePool, boot: &Boot<'_>) -> Value {
    let data = json!({
        token::VALUE: encoded(stub(hc, np, boot).to_string()),
        // Encoded twice, as upstream has it: whoever reads it decodes what it finds in the Secret.
        token::DISABLE_TEMPLATING: encoded(STANDARD.encode("true")),
    });
    secret(hc, np, user_data_name(name(np), boot.hash), data)
}

/// What becomes of a Secret that nobody will boot from any more, or again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    Delete(String),
    /// Wanted again: without an end.
    Keep(String),
    /// Good until then.
    Expire(String, Timestamp),
}

/// Chores, and when the next one is due. `kept` are the hashes that machines are or may still be made from.
pub fn janitor(
    pool: &str,
    secrets: &[std::sync::Arc<Token>],
    kept: &BTreeSet<String>,
    now: Timestamp,
) -> (Vec<Chore>, Option<SignedDuration>) {
    let (mut chores, mut next) = (Vec::new(), None::<SignedDuration>);
    for s in secrets {
        let Some(hash) = hash_of(pool, &s.name) else { continue };
        if kept.contains(hash) {
            // A configuration that users went back to: the ignition server would neither renew it nor let it live.
            chores.extend(s.expires.map(|_| Chore::Keep(s.name.clone())));
            continue;
        }
        match (s.token.is_some(), s.expires) {
            (false, _) => chores.push(Chore::Delete(s.name.clone())),
            (true, None) => {
                chores.push(Chore::Expire(
                    s.name.clone(),
                    now.checked_add(AFTERLIFE).unwrap_or(Timestamp::MAX),
                ));
            }
            (true, Some(end)) if end <= now => chores.push(Chore::Delete(s.name.clone())),
            (true, Some(end)) => {
                let left = end.duration_since(now);
                next = Some(next.map_or(left, |n| n.min(left)));
            }
        }
    }
    (chores, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn one(name: &str, token: bool, expires: Option<Timestamp>) -> Arc<Token> {
        Arc::new(Token {
            name: name.into(),
            pool: "clusters/np".into(),
            token: token.then(|| "t".to_owned().into()),
            expires,
            ..Token::default()
        })
    }

    #[test]
    fn old_tokens_live_on_for_a_while() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let later = now.checked_add(SignedDuration::from_mins(5)).unwrap();
        let kept: BTreeSet<String> = ["aaaaaaaa".to_owned(), "ffffffff".to_owned()].into();
        let all = [
            one("token-np-aaaaaaaa", true, None),
            one("user-data-np-aaaaaaaa", false, None),
            one("token-np-bbbbbbbb", true, None),
            one("user-data-np-bbbbbbbb", false, None),
            one("token-np-cccccccc", true, Some(later)),
            one("token-np-dddddddd", true, Some(now)),
            one("token-other-eeeeeeee", true, Some(now)),
            one("token-np-ffffffff", true, Some(later)),
        ];
        let (chores, next) = janitor("np", &all, &kept, now);
        assert_eq!(
            chores,
            [
                Chore::Expire("token-np-bbbbbbbb".into(), now.checked_add(AFTERLIFE).unwrap()),
                Chore::Delete("user-data-np-bbbbbbbb".into()),
                Chore::Delete("token-np-dddddddd".into()),
                Chore::Keep("token-np-ffffffff".into()),
            ]
        );
        assert_eq!(next, Some(SignedDuration::from_mins(5)));
    }

    #[test]
    fn names_of_one_pool_are_not_those_of_another() {
        assert_eq!(hash_of("np", "token-np-0123abcd"), Some("0123abcd"));
        assert_eq!(hash_of("np", "token-np-2-0123abcd"), None);
        assert_eq!(hash_of("np-2", "user-data-np-2-0123abcd"), Some("0123abcd"));
    }
}
