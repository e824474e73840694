//! Whether the cluster still is what a token Secret was made for.
//!
//! The NodePool controller writes down the hashes of what it saw. What we see may be older or newer: then a payload
//! would mix two states, so none is made before both agree. Either of us hears of the change by a watch.

use crate::data::{hash, hash_bytes};
use crate::names::{input, key};
use crate::provider::{CLOUD_CONFIG_PENDING, INVALID_CONFIG, Inputs, Refused};
use crate::token::Token;

struct Check {
    key: &'static str,
    reason: &'static str,
    /// What it is about, for people.
    of: &'static str,
}

const CHECKS: [Check; 4] = [
    Check { key: key::PULL_SECRET_HASH, reason: INVALID_CONFIG, of: "Secret pull-secret" },
    Check { key: key::ADDITIONAL_TRUST_BUNDLE_HASH, reason: INVALID_CONFIG, of: "ConfigMap user-ca-bundle" },
    Check { key: key::CONFIGURATION_HASH, reason: INVALID_CONFIG, of: "ConfigMap machine-config-server" },
    Check { key: key::CLOUD_CONFIG_HASH, reason: CLOUD_CONFIG_PENDING, of: "ConfigMap azure-cloud-config" },
];

/// Hashes of the same content in the forms that are in use; empty: there is none.
fn seen(check: &Check, inputs: &Inputs) -> Vec<String> {
    let both = |bytes: &[u8]| vec![hash_bytes(bytes), hash(&String::from_utf8_lossy(bytes))];
    match check.key {
        key::PULL_SECRET_HASH => inputs.secret(input::PULL_SECRET, ".dockerconfigjson").map(both),
        key::ADDITIONAL_TRUST_BUNDLE_HASH => {
            inputs.config_map(input::TRUST_BUNDLE, "ca-bundle.crt").map(|t| both(t.as_bytes()))
        }
        key::CLOUD_CONFIG_HASH => {
            inputs.config_map(input::CLOUD_CONFIG, "cloud.conf").map(|t| both(t.as_bytes()))
        }
        // Whoever renders it has computed the hash; where nobody does, there is nothing to compare with.
        _ => inputs
            .config_map(input::MACHINE_CONFIG_SERVER, "configuration-hash")
            .map(|h| vec![h.trim().to_owned()]),
    }
    .unwrap_or_default()
}

/// Refuses what does not agree.
pub fn agree(token: &Token, inputs: &Inputs) -> Result<(), Refused> {
    for check in &CHECKS {
        let Some(expected) = token.hashes.get(check.key) else { continue };
        let seen = seen(check, inputs);
        let absent_is_fine = check.key == key::CONFIGURATION_HASH;
        let message = match seen.is_empty() {
            true if absent_is_fine => continue,
            true => format!("{} is not there yet, and the NodePool was computed with it", check.of),
            false if seen.contains(expected) => continue,
            false => format!(
                "{} is not the one that the NodePool was computed with ({} differs); waiting until both agree",
                check.of, check.key
            ),
        };
        return Err(Refused { reason: check.reason, message, again: false });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Hidden;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    fn token(hashes: &[(&'static str, String)]) -> Token {
        let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "token-a-b"},
            "data": {"token": "dA==", "release": "cg==", "config": "Yw=="}}))
        .unwrap();
        let mut token = Token::read(&secret).unwrap();
        token.hashes = hashes.iter().cloned().collect();
        token
    }

    #[test]
    fn each_hash_has_a_reason_of_its_own() {
        let mut inputs = Inputs::default();
        let pull = [(".dockerconfigjson".to_owned(), Hidden::new(*b"{}"))];
        inputs.secrets.insert(input::PULL_SECRET, pull.into());
        let good = [(key::PULL_SECRET_HASH, hash_bytes(b"{}"))];
        assert_eq!(agree(&token(&good), &inputs), Ok(()));
        // As text it is the same content.
        assert_eq!(agree(&token(&[(key::PULL_SECRET_HASH, hash("{}"))]), &inputs), Ok(()));
        let bad = agree(&token(&[(key::PULL_SECRET_HASH, "00000000".into())]), &inputs).unwrap_err();
        assert!(bad.reason == INVALID_CONFIG && bad.message.contains("pull-secret"), "{bad}");
        let pending = agree(&token(&[(key::CLOUD_CONFIG_HASH, "00000000".into())]), &inputs).unwrap_err();
        assert!(pending.reason == CLOUD_CONFIG_PENDING && pending.message.contains("not there"), "{pending}");
        assert_eq!(agree(&token(&[(key::CONFIGURATION_HASH, "x".into())]), &inputs), Ok(()));
        let map = [("configuration-hash".to_owned(), "y".to_owned())];
        inputs.config_maps.insert(input::MACHINE_CONFIG_SERVER, map.into());
        assert!(agree(&token(&[(key::CONFIGURATION_HASH, "x".into())]), &inputs).is_err());
    }
}
