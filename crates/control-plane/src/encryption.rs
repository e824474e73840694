//! Changing the key that data is encrypted with: a rotation in phases, each read off what is there.
//!
//! ```text
//! ReadOnlyDeploy ──API servers run so──> WritePromote ──API servers run so──> Migrating ──all rewritten──> Completed
//!  old writes, new can be read            new writes, old can be read          (by the config operator)
//! ```
//!
//! In each phase every API server can read what any other writes, whichever of two configurations it still runs with. A
//! phase lasts until it is seen to be done; nothing is timed. Which keys a phase needs follows from the status alone, and
//! the status moves on only after that configuration was seen in use, so a crash anywhere repeats a phase at most.
//!
//! Encryption that is asked for when there is data already is a rotation, too, from no key: what was written in plain
//! is rewritten before anybody is told that all data is encrypted.
//!
//! A rotation that has not written anything yet can be called off. Later it has to end first: with part of the data
//! under each key, a third one, or a way back that is mistaken for done, could lose some of it.

use crate::scope::{AesKey, Encryption, KmsKey};
use apis::hypershift::encryption::{
    AesCbcKeyStatus, AzureKmsKey, KeyFingerprint, KeyProvider, KeyRotation, KeyStatus, RotationState,
    SecretEncryptionStatus, SecretName,
};
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Rotations that are remembered.
const HISTORY: usize = 5;

/// What is seen of the present phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// All API servers run with the configuration of the phase.
    pub converged: bool,
    /// Fingerprint of the key that everything was last rewritten with.
    pub migrated_with: Option<&'a str>,
    /// Data was written before there was a key.
    pub plain: bool,
}

fn hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// A key as a text that is unlike that of any other.
pub fn identity(key: &KmsKey) -> String {
    let mut text = format!("{}\n{}\n{}", key.vault, key.name, key.version);
    if key.managed_hsm {
        text.push_str("\nManagedHSM");
    }
    text
}

fn azure(key: &KmsKey) -> KeyStatus {
    let azure = AzureKmsKey {
        key_vault_name: key.vault.clone(),
        key_name: key.name.clone(),
        key_version: key.version.clone(),
    };
    KeyStatus { provider: KeyProvider::Azure, azure: Some(azure), ..KeyStatus::default() }
}

fn aes(key: &AesKey) -> KeyStatus {
    let aescbc = AesCbcKeyStatus {
        data_hash: hex(key.material().unwrap_or_default()),
        secret: SecretName { name: key.name.clone() },
    };
    KeyStatus { provider: KeyProvider::AesCbc, aescbc: Some(aescbc), ..KeyStatus::default() }
}

/// The key that is wished for.
pub fn wished(encryption: &Encryption) -> KeyStatus {
    match encryption {
        Encryption::Kms { active, .. } => azure(active),
        Encryption::Aescbc { active, .. } => aes(active),
    }
}

/// A key without saying what it is.
pub fn fingerprint(key: &KeyStatus) -> KeyFingerprint {
    let fingerprint = match (&key.azure, &key.aescbc) {
        (Some(a), _) => hex(format!("{}\n{}\n{}", a.key_vault_name, a.key_name, a.key_version).as_bytes()),
        (None, Some(k)) => k.data_hash.clone(),
        (None, None) => String::new(),
    };
    KeyFingerprint { provider: key.provider, fingerprint }
}

/// The rotation that is under way.
fn current(status: &SecretEncryptionStatus) -> Option<(&KeyRotation, &KeyStatus)> {
    let rotation = status.history.as_ref()?.first()?;
    let open = !matches!(rotation.state, RotationState::Completed | RotationState::Interrupted);
    Some(rotation).filter(|_| open).zip(status.target_key.as_ref())
}

pub fn rotating(status: &SecretEncryptionStatus) -> bool {
    current(status).is_some()
}

/// The key that writes and the one that is read besides, in the phase that the status says.
fn keys<'a>(
    wished: &'a KeyStatus,
    status: &'a SecretEncryptionStatus,
) -> (&'a KeyStatus, Option<&'a KeyStatus>) {
    let Some(active) = &status.active_key else {
        return (current(status).map_or(wished, |(_, target)| target), None);
    };
    match current(status) {
        None => (active, None),
        Some((r, target)) if r.state == RotationState::ReadOnlyDeploy => (active, Some(target)),
        Some((_, target)) => (target, Some(active)),
    }
}

/// What API servers are to be told in the phase that the status says.
pub fn layout(desired: &Encryption, status: &SecretEncryptionStatus) -> Result<Encryption, String> {
    let wish = wished(desired);
    let (writes, reads) = keys(&wish, status);
    match desired {
        Encryption::Kms { active, backup, private } => {
            let key = |k: &KeyStatus| {
                let a = k.azure.as_ref().ok_or(
                    "the key in use is not one of Azure, and data encrypted with it could not be read",
                )?;
                Ok::<_, String>(KmsKey {
                    vault: a.key_vault_name.clone(),
                    name: a.key_name.clone(),
                    version: a.key_version.clone(),
                    managed_hsm: active.managed_hsm,
                })
            };
            let writes = key(writes)?;
            let reads = reads.map(key).transpose()?.or_else(|| backup.clone().filter(|b| *b != writes));
            Ok(Encryption::Kms { active: writes, backup: reads, private: *private })
        }
        Encryption::Aescbc { active, backup } => {
            let given = [Some(active), backup.as_ref()];
            let find = |k: &KeyStatus| {
                let found = given.into_iter().flatten().find(|g| {
                    aes(g).aescbc.as_ref().map(|a| &a.data_hash) == k.aescbc.as_ref().map(|a| &a.data_hash)
                });
                let name = k.aescbc.as_ref().map_or("", |a| a.secret.name.as_str());
                found.cloned().ok_or_else(|| {
                    format!("the key of Secret {name} is in use, and neither activeKey nor backupKey holds it: name it as backupKey until the rotation is completed")
                })
            };
            let writes = find(writes)?;
            let reads = reads.map(find).transpose()?.or_else(|| backup.clone().filter(|b| *b != writes));
            Ok(Encryption::Aescbc { active: writes, backup: reads })
        }
    }
}

/// The status after what was seen; pure. `observed` is of the phase that `status` says.
pub fn advance(
    desired: &Encryption,
    status: &SecretEncryptionStatus,
    observed: Observed<'_>,
    now: Timestamp,
) -> SecretEncryptionStatus {
    let wish = wished(desired);
    let mut next = status.clone();
    let time = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let Some((rotation, target)) = current(status) else {
        let (from, state) = match &status.active_key {
            Some(active) => (fingerprint(active), RotationState::ReadOnlyDeploy),
            // What is in plain is read without a key; the new one may write at once.
            None if observed.plain => (fingerprint(&wish), RotationState::WritePromote),
            None => {
                // Nothing was ever written otherwise.
                next.active_key = observed.converged.then_some(wish);
                return next;
            }
        };
        next.target_key = None;
        if from != fingerprint(&wish) || state == RotationState::WritePromote {
            let to = fingerprint(&wish);
            let history = next.history.get_or_insert_default();
            history.insert(0, KeyRotation { from, to, state, started_time: time, completion_time: None });
            history.truncate(HISTORY);
            next.target_key = Some(wish);
        }
        return next;
    };
    let called_off = fingerprint(target) != fingerprint(&wish);
    let (state, ended) = match rotation.state {
        RotationState::ReadOnlyDeploy if called_off => (RotationState::Interrupted, true),
        RotationState::ReadOnlyDeploy if observed.converged => (RotationState::WritePromote, false),
        RotationState::WritePromote if observed.converged => (RotationState::Migrating, false),
        RotationState::Migrating if observed.migrated_with == Some(&fingerprint(target).fingerprint) => {
            (RotationState::Completed, true)
        }
        same => (same, false),
    };
    if state == RotationState::Completed {
        next.active_key = Some(target.clone());
    }
    if ended {
        next.target_key = None;
    }
    if let Some(first) = next.history.as_mut().and_then(|h| h.first_mut()) {
        first.state = state;
        first.completion_time = ended.then_some(time);
    }
    next
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn kms(version: &str) -> Encryption {
        let key = KmsKey { vault: "v".into(), name: "k".into(), version: version.into(), managed_hsm: false };
        Encryption::Kms { active: key, backup: None, private: false }
    }

    fn versions(e: &Encryption) -> (String, Option<String>) {
        let Encryption::Kms { active, backup, .. } = e else { unreachable!() };
        (active.version.clone(), backup.as_ref().map(|b| b.version.clone()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const SEEN: Observed<'static> = Observed { converged: true, migrated_with: None, plain: false };

    fn state(s: &SecretEncryptionStatus) -> RotationState {
        s.history.as_ref().unwrap()[0].state
    }

    #[test]
    fn a_rotation_waits_for_what_it_sees() {
        let mut s = SecretEncryptionStatus::default();
        assert_eq!(advance(&kms("1"), &s, Observed::default(), at(1)).active_key, None, "not in use yet");
        s = advance(&kms("1"), &s, SEEN, at(1));
        assert_eq!(versions(&layout(&kms("1"), &s).unwrap()), ("1".into(), None));
        assert!(s.history.is_none() && !rotating(&s));
        s = advance(&kms("2"), &s, Observed::default(), at(2));
        assert_eq!(state(&s), RotationState::ReadOnlyDeploy);
        assert_eq!(versions(&layout(&kms("2"), &s).unwrap()), ("1".into(), Some("2".into())));
        assert_eq!(advance(&kms("2"), &s, Observed::default(), at(3)), s, "nothing is timed");
        s = advance(&kms("2"), &s, SEEN, at(3));
        assert_eq!(versions(&layout(&kms("2"), &s).unwrap()), ("2".into(), Some("1".into())));
        assert_eq!(state(&s), RotationState::WritePromote);
        s = advance(&kms("2"), &s, SEEN, at(4));
        assert_eq!(state(&s), RotationState::Migrating);
        assert_eq!(advance(&kms("2"), &s, SEEN, at(5)), s, "nobody has rewritten anything");
        let other = fingerprint(s.active_key.as_ref().unwrap()).fingerprint;
        assert_eq!(advance(&kms("2"), &s, Observed { migrated_with: Some(&other), ..SEEN }, at(5)), s);
        let to = s.history.as_ref().unwrap()[0].to.fingerprint.clone();
        s = advance(&kms("2"), &s, Observed { migrated_with: Some(&to), ..SEEN }, at(6));
        assert_eq!((state(&s), &s.target_key, rotating(&s)), (RotationState::Completed, &None, false));
        assert_eq!(versions(&layout(&kms("2"), &s).unwrap()), ("2".into(), None));
        assert_eq!(s.history.as_ref().unwrap()[0].completion_time, Some(Time(at(6))));
    }

    #[test]
    fn data_that_was_there_before_its_key_is_rewritten() {
        let plain = Observed { plain: true, ..SEEN };
        let mut s = advance(&kms("1"), &SecretEncryptionStatus::default(), plain, at(1));
        assert_eq!((state(&s), &s.active_key), (RotationState::WritePromote, &None));
        assert_eq!(versions(&layout(&kms("1"), &s).unwrap()), ("1".into(), None));
        // Only now does the status exist, so nobody calls it plain any more.
        s = advance(&kms("1"), &s, SEEN, at(2));
        assert_eq!(state(&s), RotationState::Migrating);
        assert_eq!(advance(&kms("1"), &s, SEEN, at(3)), s, "nobody has rewritten anything");
        assert_eq!(versions(&layout(&kms("2"), &s).unwrap()), ("1".into(), None), "one key after the other");
        let to = s.history.as_ref().unwrap()[0].to.fingerprint.clone();
        s = advance(&kms("1"), &s, Observed { migrated_with: Some(&to), ..SEEN }, at(4));
        assert_eq!((state(&s), rotating(&s)), (RotationState::Completed, false));
        assert_eq!(s.active_key, Some(wished(&kms("1"))));
    }

    #[test]
    fn only_what_wrote_nothing_is_called_off() {
        let begun = advance(&kms("1"), &SecretEncryptionStatus::default(), SEEN, at(1));
        let read_only = advance(&kms("2"), &begun, SEEN, at(2));
        let off = advance(&kms("1"), &read_only, SEEN, at(3));
        assert_eq!(state(&off), RotationState::Interrupted);
        assert_eq!(versions(&layout(&kms("1"), &off).unwrap()), ("1".into(), None));
        let promoted = advance(&kms("2"), &read_only, SEEN, at(3));
        let stays = advance(&kms("1"), &promoted, SEEN, at(4));
        assert_eq!(state(&stays), RotationState::Migrating, "the way back begins when this one is over");
    }

    #[test]
    fn a_key_of_a_secret_is_known_by_its_bytes() {
        let key = |name: &str, byte: u8| AesKey::with(name, vec![byte; 32]);
        let only = Encryption::Aescbc { active: key("a", 1), backup: None };
        let s = advance(&only, &SecretEncryptionStatus::default(), SEEN, at(1));
        // The same name, other bytes, and nobody keeps the old ones.
        let lost = Encryption::Aescbc { active: key("a", 2), backup: None };
        let s2 = advance(&lost, &s, SEEN, at(2));
        assert!(layout(&lost, &s2).unwrap_err().contains("backupKey"));
        let both = Encryption::Aescbc { active: key("b", 2), backup: Some(key("a", 1)) };
        let Encryption::Aescbc { active, backup } = layout(&both, &s2).unwrap() else { unreachable!() };
        assert_eq!((active.name.as_str(), backup.unwrap().name.as_str()), ("a", "b"), "the old one writes");
        assert!(!format!("{both:?}").contains("[1, 1"), "keys are not shown");
    }

    proptest! {
        /// Two API servers that run with configurations of neighbouring moments can read each other's writes, and what
        /// is stored under the active key can be read at all times.
        #[test]
        fn nobody_writes_what_another_cannot_read(steps in prop::collection::vec((0..3u8, any::<bool>(), any::<bool>()), 1..40)) {
            let mut s = advance(&kms("0"), &SecretEncryptionStatus::default(), SEEN, at(0));
            let mut running = versions(&layout(&kms("0"), &s).unwrap());
            for (i, (wish, converged, migrated)) in steps.into_iter().enumerate() {
                let wish = kms(&wish.to_string());
                let config = versions(&layout(&wish, &s).unwrap());
                let reads = |c: &(String, Option<String>), key: &String| c.0 == *key || c.1.as_ref() == Some(key);
                prop_assert!(reads(&running, &config.0) && reads(&config, &running.0), "{running:?} {config:?}");
                let stored = s.active_key.as_ref().unwrap().azure.as_ref().unwrap().key_version.clone();
                prop_assert!(reads(&config, &stored));
                if converged {
                    running = config;
                }
                let to = s.target_key.as_ref().map(|k| fingerprint(k).fingerprint);
                let seen = Observed { converged, migrated_with: to.as_deref().filter(|_| migrated), plain: false };
                s = advance(&wish, &s, seen, at(i64::try_from(i).unwrap()));
                prop_assert!(s.history.as_ref().is_none_or(|h| h.len() <= 5));
            }
        }
    }
}
