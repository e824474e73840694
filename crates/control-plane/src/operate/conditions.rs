//! What a control plane says of itself. Pure.

use super::progress::{Progress, Rollout};
use super::trouble::Trouble;
use super::{Held, Verdict};
use crate::scope::{Encryption, Scope};
use apis::conditions::hosted_cluster as is;
use apis::conditions::reason;
use reconcile::conditions::{Finding, Status};

/// Everything that conditions are made from.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub scope: Option<&'a Scope>,
    pub progress: Option<&'a Progress>,
    pub held: Option<&'a Held>,
    /// Why the release is taken as it was last looked up.
    pub stale: Option<&'a str>,
    /// Somebody else runs etcd.
    pub foreign_etcd: bool,
    /// The administrator's kubeconfig is written.
    pub kubeconfig: bool,
    pub health: &'a Result<(), String>,
    pub was_available: bool,
    /// Whether the name of the API resolves; nothing if it has none of its own.
    pub name: Option<&'a Result<(), String>>,
    /// What is wrong with identity providers.
    pub providers: Option<&'a str>,
    /// What Azure says of networks and groups.
    pub azure: &'a Verdict,
    /// What the vault says of the key.
    pub kms: &'a Verdict,
    pub troubles: &'a [Trouble],
}

/// Whether a condition tells of what is seen of a control plane; the others tell of its facts.
pub fn observed(kind: &str) -> bool {
    matches!(kind, is::ETCD_AVAILABLE | is::KUBE_API_SERVER_AVAILABLE | is::DEGRADED | is::AVAILABLE)
}

/// A condition before it has its name.
type Said = (Status, &'static str, String);

/// In this order each later condition may rely on the earlier.
pub fn conditions(known: &Known<'_>) -> Vec<Finding> {
    let etcd = etcd(known);
    let api = api_server(known);
    let mut all = Vec::new();
    let mut say = |kind: &str, (status, reason, message): Said| {
        all.push(Finding::new(kind, status, reason, message));
    };
    say(is::VALID_HOSTED_CONTROL_PLANE_CONFIGURATION, configuration(known));
    say(is::VALID_RELEASE_INFO, release(known));
    say(is::INFRASTRUCTURE_READY, infrastructure(known));
    say(is::EXTERNAL_DNS_REACHABLE, name(known));
    say(is::VALID_IDP_CONFIGURATION, providers(known));
    say(is::VALID_AZURE_KMS_CONFIG, kms(known));
    say(is::ETCD_AVAILABLE, etcd.clone());
    say(is::KUBE_API_SERVER_AVAILABLE, api.clone());
    say(is::DEGRADED, degraded(known));
    say(is::AVAILABLE, available(known, etcd, api));
    all
}

fn well(message: &str) -> Said {
    (Status::True, reason::AS_EXPECTED, message.to_owned())
}

fn unknown(message: &str) -> Said {
    (Status::Unknown, reason::STATUS_UNKNOWN, message.to_owned())
}

fn held(known: &Known<'_>, kind: &str) -> Said {
    match known.held.filter(|h| h.kind == kind) {
        Some(h) => (Status::False, h.reason, h.message.clone()),
        None => well("all is well"),
    }
}

fn release(known: &Known<'_>) -> Said {
    let said = held(known, is::VALID_RELEASE_INFO);
    match known.stale {
        Some(why) if said.0 == Status::True => {
            well(&format!("the release is taken as it was last looked up; it cannot be looked up now: {why}"))
        }
        _ => said,
    }
}

fn configuration(known: &Known<'_>) -> Said {
    let said = held(known, is::VALID_HOSTED_CONTROL_PLANE_CONFIGURATION);
    match known.azure {
        _ if said.0 != Status::True => said,
        Verdict::Good => said,
        Verdict::Bad { reason, message } => (Status::False, reason, message.clone()),
        Verdict::Unknown(why) => (Status::Unknown, reason::AZURE_ERROR, why.clone()),
    }
}

fn infrastructure(known: &Known<'_>) -> Said {
    match known.scope {
        None => {
            let message = "the configuration cannot be used yet".to_owned();
            (Status::Unknown, reason::INFRA_STATUS_FAILURE, message)
        }
        Some(_) => held(known, is::INFRASTRUCTURE_READY),
    }
}

fn name(known: &Known<'_>) -> Said {
    match known.name {
        None => unknown("the API has no name of its own in DNS"),
        Some(Ok(())) => well("the API's name resolves"),
        Some(Err(why)) => (Status::False, reason::EXTERNAL_DNS_HOST_NOT_REACHABLE, why.clone()),
    }
}

fn providers(known: &Known<'_>) -> Said {
    match known.providers {
        Some(why) => (Status::False, reason::IDP_CONFIGURATION_ERROR, why.to_owned()),
        None => (Status::True, reason::IDP_CONFIGURATION_VALID, "identity providers can be used".to_owned()),
    }
}

fn kms(known: &Known<'_>) -> Said {
    let Some(scope) = known.scope else { return unknown("the configuration cannot be used yet") };
    let Some(Encryption::Kms { private, .. }) = &scope.encryption else {
        return unknown("Azure KMS is not configured");
    };
    match known.kms {
        _ if *private => unknown("the vault is private and cannot be asked from here"),
        _ if !scope.identity.managed() => {
            well("not verified: only the API server's own pods can use the key")
        }
        Verdict::Good => well("the key encrypts"),
        Verdict::Bad { reason, message } => (Status::False, reason, message.clone()),
        Verdict::Unknown(why) => (Status::Unknown, reason::AZURE_ERROR, why.clone()),
    }
}

fn rollout(known: &Known<'_>, name: &str) -> Rollout {
    known.progress.and_then(|p| p.rollout(name)).cloned().unwrap_or_default()
}

fn etcd(known: &Known<'_>) -> Said {
    if known.foreign_etcd {
        return (Status::True, reason::ETCD_RUNNING, "etcd is not ours".to_owned());
    }
    let r = rollout(known, "etcd");
    if !r.there {
        return (Status::False, reason::STATEFUL_SET_NOT_FOUND, "etcd is not deployed yet".to_owned());
    }
    let quorum = r.wanted / 2 + 1;
    match r.ready >= quorum {
        true => {
            (Status::True, reason::QUORUM_AVAILABLE, format!("{} of {} members are ready", r.ready, r.wanted))
        }
        false => (
            Status::False,
            reason::ETCD_WAITING_FOR_QUORUM,
            format!(
                "{} of {} members are ready; {quorum} are a quorum{}",
                r.ready,
                r.wanted,
                because(known, "etcd")
            ),
        ),
    }
}

fn api_server(known: &Known<'_>) -> Said {
    let r = rollout(known, "kube-apiserver");
    match (r.there, r.available) {
        (false, _) => (Status::False, reason::NOT_FOUND, "the API server is not deployed yet".to_owned()),
        (true, false) => (
            Status::False,
            reason::WAITING_FOR_AVAILABLE,
            format!("{} of {} replicas are ready{}", r.ready, r.wanted, because(known, "kube-apiserver")),
        ),
        (true, true) => well("the API server runs"),
    }
}

/// What a component's pods say, as the end of a sentence.
fn because(known: &Known<'_>, component: &str) -> String {
    let said = known.troubles.iter().find(|t| t.component == component);
    said.map(|t| format!("; {}", t.text)).unwrap_or_default()
}

fn degraded(known: &Known<'_>) -> Said {
    let short: Vec<String> = known
        .progress
        .iter()
        .flat_map(|p| p.short())
        .map(|(n, r)| format!("{n} ({} of {}{})", r.ready, r.wanted, because(known, n)))
        .collect();
    match short.is_empty() {
        true => (Status::False, reason::AS_EXPECTED, "all replicas are there".to_owned()),
        false => (
            Status::True,
            reason::UNAVAILABLE_REPLICAS,
            format!("replicas are missing: {}", short.join(", ")),
        ),
    }
}

fn available(known: &Known<'_>, etcd: Said, api: Said) -> Said {
    let no = |reason: &'static str, message: String| (Status::False, reason, message);
    // What holds up a change of a control plane that serves says nothing of whether it serves.
    if let Some(h) = known.held.filter(|_| !known.was_available) {
        return no(h.reason, h.message.clone());
    }
    if !known.kubeconfig {
        let message = "the administrator's kubeconfig is not written yet".to_owned();
        return no(reason::KUBECONFIG_WAITING_FOR_CREATE, message);
    }
    if etcd.0 != Status::True {
        return etcd;
    }
    if api.0 != Status::True {
        return api;
    }
    if let Err(why) = known.health {
        return no(reason::KAS_LOAD_BALANCER_NOT_REACHABLE, why.clone());
    }
    let missing = known.progress.map(Progress::missing).unwrap_or_default();
    if !known.was_available && !missing.is_empty() {
        return no(reason::COMPONENTS_NOT_AVAILABLE, format!("waiting for {}", missing.join(", ")));
    }
    if !known.was_available && known.scope.is_none() {
        let message = "whether all components are there cannot be told at present".to_owned();
        return no(reason::COMPONENTS_NOT_AVAILABLE, message);
    }
    well("the control plane answers")
}

/// Whether all data is encrypted with the wished key, as long as it never was another; the config operator tells the rest.
pub fn encrypted(status: &apis::hypershift::encryption::SecretEncryptionStatus) -> Option<Finding> {
    let key = status.active_key.as_ref().filter(|_| status.history.is_none())?;
    let key = crate::encryption::fingerprint(key).fingerprint;
    let message = format!("all data was written with key {key}");
    Some(Finding::new(is::ETCD_DATA_ENCRYPTION_UP_TO_DATE, Status::True, reason::AS_EXPECTED, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(all: &'a [Finding], kind: &str) -> Option<&'a Finding> {
        all.iter().find(|f| f.kind == kind)
    }

    /// Every condition that a HostedCluster copies from here, each time.
    #[test]
    fn nothing_is_left_unsaid() {
        let health = Err("nobody answers".to_owned());
        let held =
            Held { kind: "ValidReleaseInfo", reason: "MissingReleaseImages", message: "no image".into() };
        let known = Known {
            scope: None,
            progress: None,
            held: Some(&held),
            stale: None,
            foreign_etcd: false,
            kubeconfig: false,
            health: &health,
            was_available: false,
            name: Some(&health),
            providers: Some("no client id"),
            azure: &Verdict::Unknown("Azure is away".into()),
            kms: &Verdict::Good,
            troubles: &[],
        };
        let all = conditions(&known);
        let said = |kind: &str| find(&all, kind).map(|f| (f.status, f.reason.as_str()));
        for (kind, status, reason) in [
            (is::VALID_HOSTED_CONTROL_PLANE_CONFIGURATION, Status::Unknown, "AzureError"),
            (is::VALID_RELEASE_INFO, Status::False, "MissingReleaseImages"),
            (is::INFRASTRUCTURE_READY, Status::Unknown, "InfraStatusFailure"),
            (is::EXTERNAL_DNS_REACHABLE, Status::False, "ExternalDNSHostNotReachable"),
            (is::VALID_IDP_CONFIGURATION, Status::False, "IDPConfigurationError"),
            (is::VALID_AZURE_KMS_CONFIG, Status::Unknown, "StatusUnknown"),
            (is::ETCD_AVAILABLE, Status::False, "StatefulSetNotFound"),
            (is::KUBE_API_SERVER_AVAILABLE, Status::False, "NotFound"),
            (is::DEGRADED, Status::False, "AsExpected"),
            (is::AVAILABLE, Status::False, "MissingReleaseImages"),
        ] {
            assert_eq!(said(kind), Some((status, reason)), "{kind}");
        }
    }

    /// Nobody can be let in before there is a kubeconfig to come in with.
    #[test]
    fn a_control_plane_without_a_kubeconfig_is_not_available() {
        let health = Ok(());
        let mut known = Known {
            scope: None,
            progress: None,
            held: None,
            stale: None,
            foreign_etcd: false,
            kubeconfig: false,
            health: &health,
            was_available: true,
            name: None,
            providers: None,
            azure: &Verdict::Good,
            kms: &Verdict::Good,
            troubles: &[],
        };
        let well = || well("well");
        assert_eq!(available(&known, well(), well()).1, "KubeconfigWaitingForCreate");
        known.kubeconfig = true;
        assert_eq!(available(&known, well(), well()).0, Status::True);
    }

    #[test]
    fn what_holds_up_a_change_does_not_make_a_serving_api_unavailable() {
        let held = Held { kind: "ValidReleaseInfo", reason: "MissingReleaseImages", message: "gone".into() };
        let mut known = Known {
            scope: None,
            progress: None,
            held: Some(&held),
            stale: None,
            foreign_etcd: false,
            kubeconfig: true,
            health: &Ok(()),
            was_available: true,
            name: None,
            providers: None,
            azure: &Verdict::Good,
            kms: &Verdict::Good,
            troubles: &[],
        };
        let well = || well("well");
        assert_eq!(available(&known, well(), well()).0, Status::True);
        let away = Err("nobody answers".to_owned());
        known.health = &away;
        assert_eq!(available(&known, well(), well()).1, "KASLoadBalancerNotReachable");
        known.was_available = false;
        assert_eq!(available(&known, well(), well()).1, "MissingReleaseImages");
    }
}
