//! What an issuer publishes, and which keys it should: pure.

use super::Rotation;
use super::keys::SigningKey;
use crate::Error;
use serde_json::{Value, json};

pub const DISCOVERY: &str = ".well-known/openid-configuration";
pub const KEYS: &str = "openid/v1/jwks";

pub fn discovery(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/{KEYS}"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

/// The ids of published keys.
pub fn kids(jwks: &Value) -> Vec<String> {
    let all = jwks["keys"].as_array().into_iter().flatten();
    all.filter_map(|k| k["kid"].as_str().map(str::to_owned)).collect()
}

/// What is known before anything is done.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub published: Vec<String>,
    /// The key that signs.
    pub current: Option<String>,
    /// Of a rotation that was begun and not ended.
    pub next: Option<String>,
    /// Brought by the user.
    pub given: Option<String>,
}

/// What is to be done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The current key is published, others stay.
    Keep,
    /// There is none yet: the given one, or a new one.
    First,
    /// The next key is made unless it is there, published beside the current one, and then takes its place.
    Rotate,
    /// Rotated already; the old key is not retired yet.
    Rotated,
    /// Only the current key stays published.
    Retire,
}

/// Decides so that no key is ever withdrawn but by `--retire-old`, and a run that was killed is continued.
pub fn decide(known: &Known, rotation: Rotation) -> Result<Decision, Error> {
    let Known { published, current, next, given } = known;
    let is_published = |k: &String| published.contains(k);
    match (rotation, current) {
        (Rotation::Keep, Some(current)) => {
            if given.as_ref().is_some_and(|g| g != current) {
                return Err(Error::OtherKeyHere(current.clone()));
            }
            if !published.is_empty() && !is_published(current) {
                return Err(Error::OtherKeysPublished(published.clone()));
            }
            Ok(Decision::Keep)
        }
        (Rotation::Keep, None) => match given {
            Some(g) if published.is_empty() || is_published(g) => Ok(Decision::First),
            None if published.is_empty() => Ok(Decision::First),
            _ => Err(Error::OtherKeysPublished(published.clone())),
        },
        (_, None) => Err(Error::NoKeyHere),
        (Rotation::Rotate, Some(current)) => {
            if next.is_some() {
                return Ok(Decision::Rotate);
            }
            if given.as_ref() == Some(current) {
                return Err(Error::SameKey(current.clone()));
            }
            let old = published.iter().any(|k| k != current);
            Ok(if old { Decision::Rotated } else { Decision::Rotate })
        }
        (Rotation::RetireOld, Some(current)) => {
            if next.is_some() {
                return Err(Error::RotationUnfinished);
            }
            if !is_published(current) {
                return Err(Error::OtherKeysPublished(published.clone()));
            }
            Ok(Decision::Retire)
        }
    }
}

/// The keys to publish: these first, then what is published already unless only these are to stay.
pub fn published(was: Option<&Value>, ours: &[&SigningKey], only: bool) -> Value {
    let mut keys: Vec<Value> = ours.iter().map(|k| k.jwk()).collect();
    let own: Vec<String> = ours.iter().map(|k| k.kid()).collect();
    let others = was.into_iter().flat_map(|v| v["keys"].as_array().into_iter().flatten());
    let stays = |k: &&Value| !only && !k["kid"].as_str().is_some_and(|kid| own.iter().any(|o| o == kid));
    keys.extend(others.filter(stays).cloned());
    json!({"keys": keys})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(published: &[&str], current: &str, next: &str, given: &str) -> Known {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        Known {
            published: published.iter().map(|s| (*s).to_owned()).collect(),
            current: some(current),
            next: some(next),
            given: some(given),
        }
    }

    #[test]
    fn decisions() {
        use Decision::*;
        use Rotation::{Keep as K, RetireOld as O, Rotate as R};
        for (rotation, published, current, next, given, want) in [
            (K, &[][..], "", "", "", Some(First)),
            (K, &[], "", "", "g", Some(First)),
            // Killed after the key was written, or after it was published.
            (K, &[], "a", "", "", Some(Keep)),
            (K, &["a"], "a", "", "", Some(Keep)),
            (K, &["a"], "", "", "a", Some(First)),
            // Another machine, without the key.
            (K, &["a"], "", "", "", None),
            (K, &["a"], "", "", "b", None),
            (K, &["a"], "b", "", "", None),
            (K, &["a"], "a", "", "b", None),
            (R, &["a"], "", "", "", None),
            (R, &["a"], "a", "", "", Some(Rotate)),
            (R, &["a"], "a", "", "a", None),
            // Killed: the next key was written, published, took over.
            (R, &["a"], "a", "b", "", Some(Rotate)),
            (R, &["b", "a"], "a", "b", "", Some(Rotate)),
            (R, &["b", "a"], "b", "", "", Some(Rotated)),
            (O, &["b", "a"], "b", "", "", Some(Retire)),
            (O, &["b"], "b", "", "", Some(Retire)),
            (O, &["b", "a"], "a", "b", "", None),
            (O, &["a"], "b", "", "", None),
            (O, &[], "b", "", "", None),
        ] {
            let decided = decide(&known(published, current, next, given), rotation).ok();
            assert_eq!(decided, want, "{rotation:?} {published:?} {current} {next} {given}");
        }
    }

    #[test]
    fn nothing_that_is_published_goes_unless_it_is_retired() {
        let key = SigningKey::from_pem(include_str!("../../tests/data/signer.pem")).unwrap();
        let old = json!({"keys": [{"kid": "old", "n": "1"}, {"kid": key.kid(), "n": "?"}]});
        let both = published(Some(&old), &[&key], false);
        assert_eq!(kids(&both), [key.kid(), "old".to_owned()]);
        assert_eq!(both["keys"][0], key.jwk());
        assert_eq!(kids(&published(Some(&old), &[&key], true)), [key.kid()]);
    }
}
