//! Which releases a cluster may run, and when it may change to one.

use super::Problem;
use crate::around::{NoRelease, Payload};
use crate::naming;
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedCluster;
use apis::hypershift::encryption::KeyVaultType;
use apis::hypershift::networking::NetworkType;
use apis::names::annotation;
use apis::version::{LATEST, OLDEST, Version, ordinal};

fn invalid(message: String) -> Problem {
    Problem { condition: condition::VALID_RELEASE_IMAGE, reason: reason::INVALID_IMAGE, message }
}

/// Managed HSMs came with 4.22.
const HSM: u32 = 22;

/// What is wrong with a release for this cluster. `running` is the newest version that was ever complete.
pub fn problems(hc: &HostedCluster, payload: &Payload, running: Option<&Version>) -> Vec<Problem> {
    let version: Version = match payload.release.version.parse() {
        Ok(version) => version,
        Err(e) => return vec![invalid(format!("{}: {e}", named(hc)))],
    };
    let mut out = Vec::new();
    if !unchecked(hc) {
        out.extend(reach(&named(hc), &version, running).into_iter().map(invalid));
        if hc.spec.networking.network_type == NetworkType::OpenShiftSdn && version.ordinal() > 10 {
            out.push(invalid(format!(
                "spec.networking.networkType is OpenShiftSDN, which {version} no longer has: use OVNKubernetes"
            )));
        }
    }
    if payload.arch.is_none() {
        out.push(Problem {
            condition: condition::VALID_RELEASE_IMAGE,
            reason: reason::PAYLOAD_ARCH_NOT_FOUND,
            message: format!(
                "{} does not say for which processors it is: neither its index nor its configuration names amd64, arm64, ppc64le or s390x; use a release as it was published, or mirror it with all its platforms",
                named(hc)
            ),
        });
    }
    let kms = hc.spec.shared.secret_encryption.as_ref().and_then(|e| e.kms.as_ref());
    let hsm = kms
        .and_then(|k| k.azure.as_ref())
        .is_some_and(|a| a.key_vault_type == Some(KeyVaultType::ManagedHsm));
    if hsm && version.ordinal() < HSM {
        out.push(Problem::configuration(format!(
            "spec.secretEncryption.kms.azure.keyVaultType is ManagedHSM, which needs release 4.22, and this is {version}: use a Key Vault, or a newer release"
        )));
    }
    out
}

/// The same of the release that only the control plane runs.
pub fn problems_of_plane(hc: &HostedCluster, payload: &Payload, running: Option<&Version>) -> Vec<Problem> {
    match payload.release.version.parse::<Version>() {
        Ok(_) if unchecked(hc) => Vec::new(),
        Ok(version) => reach(&named_of_plane(hc), &version, running).into_iter().map(invalid).collect(),
        Err(e) => vec![invalid(format!("{}: {e}", named_of_plane(hc)))],
    }
}

/// Whether the user answers for the release alone.
pub fn unchecked(hc: &HostedCluster) -> bool {
    naming::annotation(hc, annotation::SKIP_RELEASE_IMAGE_VALIDATION).is_some()
}

/// As a user finds it in the spec.
fn named(hc: &HostedCluster) -> String {
    format!("spec.release.image {}", hc.spec.release.image)
}

fn named_of_plane(hc: &HostedCluster) -> String {
    let image = hc.spec.control_plane_release.as_ref().map_or("", |r| &r.image);
    format!("spec.controlPlaneRelease.image {image}")
}

/// What keeps whatever runs, if anything does, from coming to this version: clusters and pools alike. `what` is the field
/// and what it says.
pub fn reach(what: &str, version: &Version, running: Option<&Version>) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(window(version).map(|m| format!("{what} is {version}: {m}")));
    if let Some(now) = running.filter(|now| version.ordinal() < now.ordinal()) {
        out.push(format!(
            "{what} is {version}, older than the {now} that runs: minors cannot go back; use {} or newer",
            now.stream()
        ));
    }
    out
}

fn window(version: &Version) -> Option<String> {
    let (latest, oldest) = (ordinal(LATEST.0, LATEST.1), ordinal(OLDEST.0, OLDEST.1));
    let at = version.ordinal();
    if at > latest {
        return Some(format!(
            "the newest that this operator knows is {}.{}: upgrade the operator first",
            LATEST.0, LATEST.1
        ));
    }
    (at < oldest)
        .then(|| format!("the oldest that is supported is {}.{}: use that or newer", OLDEST.0, OLDEST.1))
}

/// What it means that there is no release.
pub fn absent(hc: &HostedCluster, why: &NoRelease) -> Option<Problem> {
    missing(&named(hc), why)
}

/// The same of the release that only the control plane runs.
pub fn absent_of_plane(hc: &HostedCluster, why: &NoRelease) -> Option<Problem> {
    missing(&named_of_plane(hc), why)
}

fn missing(what: &str, why: &NoRelease) -> Option<Problem> {
    match why {
        NoRelease::Invalid(why) => Some(invalid(format!(
            "{what} cannot be used: {why}; check the pull spec and that the pull secret reaches its registry"
        ))),
        // Nobody could say: that is no judgement on the image.
        NoRelease::Unreachable(_) => None,
    }
}

/// Whether the cluster may change from what it runs to what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// It stays at what it runs, and this is why.
    Closed(String),
}

/// Upgrades between minors wait until the cluster says that it is ready, unless somebody insists. `now` is what was complete
/// last, `admitted` what the control plane was told to run: a cluster on its way there is not ready for anything, and must
/// neither be held by that nor kept from a patch that mends it.
pub fn gate(
    hc: &HostedCluster,
    wanted: &Version,
    now: Option<&Version>,
    admitted: Option<&Version>,
    blocked: Option<&str>,
) -> Gate {
    let image = &hc.spec.release.image;
    let (Some(now), Some(blocked)) = (now, blocked) else { return Gate::Open };
    let through = [Some(now), admitted].into_iter().flatten().any(|v| wanted.same_minor(v));
    if through || hc.spec.control_plane_release.is_some() {
        return Gate::Open;
    }
    let insists = format!(
        "`kubectl annotate hostedcluster -n {} {} --overwrite {}={image}`",
        naming::home(hc),
        naming::name(hc),
        annotation::FORCE_UPGRADE_TO
    );
    match naming::annotation(hc, annotation::FORCE_UPGRADE_TO) {
        Some(forced) if forced == image => Gate::Open,
        Some(other) => Gate::Closed(format!(
            "the upgrade to {wanted} is blocked ({blocked}), and {} names {other}, which is not spec.release.image: correct it with {insists}",
            annotation::FORCE_UPGRADE_TO
        )),
        None => Gate::Closed(format!(
            "the upgrade from {now} to {wanted} is blocked: the cluster is not upgradeable ({blocked}); resolve that, or insist with {insists}"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_upgrade_that_was_let_through_is_not_held_by_itself() {
        let hc = HostedCluster::default();
        let v = |text: &str| text.parse::<Version>().unwrap();
        let (old, new, mended, next) = (v("4.19.3"), v("4.20.0"), v("4.20.1"), v("4.21.0"));
        let said = |wanted: &Version, admitted: &Version| {
            gate(&hc, wanted, Some(&old), Some(admitted), Some("UpdateInProgress"))
        };
        assert!(matches!(said(&new, &old), Gate::Closed(_)));
        assert_eq!(said(&new, &new), Gate::Open, "it is on its way");
        assert_eq!(said(&mended, &new), Gate::Open, "a patch may mend it");
        assert!(matches!(said(&next, &new), Gate::Closed(_)), "one minor at a time");
    }
}
