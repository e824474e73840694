//! What keeps a machine from being made, by kind, with the way out in the message.
//!
//! A kind decides three things: the reason that programs compare, whether another try can help and when, and what a
//! person is told to do. Azure's own words come first in a message, ours after them.

use jiff::SignedDuration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More processors than the subscription may have.
    Quota,
    /// The size does not exist, is not sold here, or cannot do what is asked of it.
    Size,
    /// The size is not in this zone.
    Zone,
    /// Azure has no host free.
    Allocation,
    Image,
    Policy,
    Throttled,
    /// The identity may not do this.
    Denied,
    /// There is no identity, or it cannot sign in.
    Credential,
    /// Subnet, load balancer, encryption set or identity that the machine names.
    Reference,
    /// Something of this name exists and is not ours.
    Taken,
    /// What the machine boots with.
    Bootstrap,
    /// It was made, and did not come up.
    Provisioning,
    /// Azure does not answer.
    Unreachable,
    Invalid,
    Other,
}

/// Roles and credentials that were given together with a cluster take up to minutes until they count everywhere. Whoever
/// is denied at first is most often only early: a minute between tries would be added to each.
const SPREADING: SignedDuration = SignedDuration::from_mins(10);
const SPREAD_SOON: SignedDuration = SignedDuration::from_secs(15);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    pub kind: Kind,
    pub message: String,
    /// Azure says not to come back before.
    pub wait: Option<SignedDuration>,
    /// No further try can help this machine; another one may be luckier.
    pub terminal: bool,
}

/// Codes by kind. What is not here is told in Azure's words.
const CODES: &[(&str, Kind)] = &[
    ("SkuNotAvailable", Kind::Size),
    ("AllocationFailed", Kind::Allocation),
    ("ZonalAllocationFailed", Kind::Allocation),
    ("OverconstrainedAllocationRequest", Kind::Allocation),
    ("OverconstrainedZonalAllocationRequest", Kind::Allocation),
    ("PlatformImageNotFound", Kind::Image),
    ("GalleryImageNotFound", Kind::Image),
    ("ImageNotFound", Kind::Image),
    ("MarketplacePurchaseEligibilityFailed", Kind::Image),
    ("ResourcePurchaseValidationFailed", Kind::Image),
    ("VMMarketplaceInvalidInput", Kind::Image),
    ("RequestDisallowedByPolicy", Kind::Policy),
    ("RequestDisallowedByAzure", Kind::Policy),
    ("ScopeLocked", Kind::Policy),
    ("QuotaExceeded", Kind::Quota),
    ("ResourceQuotaExceeded", Kind::Quota),
    ("AuthorizationFailed", Kind::Denied),
    ("LinkedAuthorizationFailed", Kind::Denied),
    ("InvalidResourceReference", Kind::Reference),
    ("ResourceGroupNotFound", Kind::Reference),
    ("OSProvisioningTimedOut", Kind::Provisioning),
    ("OSProvisioningClientError", Kind::Provisioning),
    ("OSProvisioningInternalError", Kind::Provisioning),
    ("VMStartTimedOut", Kind::Provisioning),
    ("VMAgentStatusCommunicationError", Kind::Provisioning),
];

impl Kind {
    /// For conditions.
    pub fn reason(self) -> &'static str {
        match self {
            Kind::Quota => "QuotaExceeded",
            Kind::Size => "SizeNotAvailable",
            Kind::Zone => "SizeNotInZone",
            Kind::Allocation => "AllocationFailed",
            Kind::Image => "ImageNotFound",
            Kind::Policy => "DisallowedByPolicy",
            Kind::Throttled => "Throttled",
            Kind::Denied => "AuthorizationFailed",
            Kind::Credential => "IdentityInvalid",
            Kind::Reference => "ReferenceNotFound",
            Kind::Taken => "NameTaken",
            Kind::Bootstrap => "BootstrapDataInvalid",
            Kind::Provisioning => "VMProvisionFailed",
            Kind::Unreachable => "AzureUnreachable",
            Kind::Invalid => "InvalidConfiguration",
            Kind::Other => "Failed",
        }
    }

    pub fn severity(self) -> &'static str {
        match self {
            Kind::Throttled | Kind::Unreachable => "Warning",
            _ => "Error",
        }
    }

    fn fix(self) -> &'static str {
        match self {
            Kind::Quota => {
                "ask for more vCPUs of this family (az vm list-usage -l REGION, then the Quotas page of the portal), or choose a smaller size or another family in the NodePool"
            }
            Kind::Size => {
                "choose a size that this region sells to the subscription (az vm list-skus -l REGION --size NAME) in the NodePool's vmSize"
            }
            Kind::Zone => {
                "choose another availabilityZone or another vmSize in the NodePool (az vm list-skus -l REGION --zone)"
            }
            Kind::Allocation => {
                "Azure is out of hosts of this size there: it is tried again with a new machine (delete the Machine, or let autoRepair do it); or choose another size or zone"
            }
            Kind::Image => {
                "check the NodePool's image: does it exist in this region, and are its terms accepted (az vm image terms accept)?"
            }
            Kind::Policy => {
                "ask the owner of the policy or the lock for an exception for this resource group, or give what it demands (tags, sizes) in the NodePool"
            }
            Kind::Throttled => "nothing to do: it is tried again when Azure allows",
            Kind::Denied => {
                "give the identity of node pool management the missing role (zaffre create infra assigns them), then wait a few minutes"
            }
            Kind::Credential => {
                "check the AzureClusterIdentity, its federated credential and the HostedCluster's issuer"
            }
            Kind::Reference => {
                "check that what the NodePool names exists in the same region: subnet, disk encryption set, identity, load balancer of the cluster"
            }
            Kind::Taken => "rename or remove it, or delete this Machine so that another gets another name",
            Kind::Bootstrap => "what nodes boot with must be in the Secret's key value and at most 64 KiB",
            Kind::Provisioning => "the Machine is not tried again: delete it, or let autoRepair replace it",
            Kind::Unreachable => "is there a way from here to Azure's management endpoint?",
            Kind::Invalid => "correct the AzureMachineTemplate (the NodePool's platform.azure)",
            Kind::Other => "",
        }
    }

    /// When to try again, if nothing happens before.
    pub fn again(self) -> SignedDuration {
        match self {
            Kind::Throttled | Kind::Unreachable | Kind::Bootstrap => SignedDuration::from_secs(20),
            Kind::Quota | Kind::Denied | Kind::Credential => SignedDuration::from_mins(1),
            _ => SignedDuration::from_mins(3),
        }
    }
}

impl Trouble {
    pub fn new(kind: Kind, message: impl Into<String>) -> Trouble {
        let (message, fix): (String, &str) = (message.into(), kind.fix());
        let message = if fix.is_empty() { message } else { format!("{message}. What to do: {fix}") };
        Trouble { kind, message, wait: None, terminal: false }
    }

    /// What an error of Azure's means while a machine is made.
    pub fn of(e: &azure::Error) -> Trouble {
        let said = |detail: &arm::ErrorDetail| format!("{}: {}", detail.code, detail.message);
        let text = match e {
            azure::Error::Refused(r) => said(&r.detail),
            azure::Error::Operation { detail, .. } => said(detail),
            other => reconcile::chain(other).to_string(),
        };
        let kind = kind_of(e, &text);
        let mut t = Trouble::new(kind, text);
        t.wait = e.refused().and_then(|r| r.retry_after).and_then(|d| SignedDuration::try_from(d).ok());
        // An operation that Azure took on and that failed has left a machine behind that will never be one.
        t.terminal = matches!(e, azure::Error::Operation { .. });
        t
    }

    /// When to try again, of something that was asked for so long ago.
    pub fn again(&self, age: SignedDuration) -> SignedDuration {
        let young = matches!(self.kind, Kind::Denied | Kind::Credential) && age < SPREADING;
        self.wait.unwrap_or_else(|| if young { SPREAD_SOON } else { self.kind.again() })
    }
}

fn kind_of(e: &azure::Error, text: &str) -> Kind {
    if let azure::Error::Token { source, .. } = e {
        return if source.is_transient() { Kind::Unreachable } else { Kind::Credential };
    }
    if matches!(e, azure::Error::Send { .. } | azure::Error::StillRunning { .. }) {
        return Kind::Unreachable;
    }
    if e.status() == Some(429) {
        return Kind::Throttled;
    }
    let lower = text.to_lowercase();
    // One code for both: it is in the words whether another zone would do.
    if e.has_code("SkuNotAvailable") && lower.contains(" zone '") {
        return Kind::Zone;
    }
    if let Some((_, kind)) = CODES.iter().find(|(code, _)| e.has_code(code)) {
        return *kind;
    }
    match (e.code().unwrap_or_default(), e.status()) {
        // One code for everything that is not allowed; quotas say so in words.
        ("OperationNotAllowed", _) if lower.contains("quota") => Kind::Quota,
        ("InvalidParameter", _) if lower.contains("vm size") => Kind::Size,
        ("InvalidParameter", _) if lower.contains("image") => Kind::Image,
        ("NotFound", _) if lower.contains("image") => Kind::Image,
        ("NotFound" | "ResourceNotFound", _) => Kind::Reference,
        (_, Some(500..)) => Kind::Unreachable,
        (_, Some(400)) => Kind::Invalid,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arm::ErrorDetail;

    fn refused(status: u16, code: &str, message: &str) -> azure::Error {
        azure::Error::Refused(Box::new(azure::Refused {
            status,
            detail: ErrorDetail::new(code, message),
            method: "PUT".into(),
            path: "/x".into(),
            request_id: String::new(),
            correlation: String::new(),
            retry_after: (status == 429).then(|| std::time::Duration::from_secs(7)),
            attempts: 1,
        }))
    }

    #[test]
    fn errors_have_kinds_reasons_and_ways_out() {
        let cases = [
            (
                refused(409, "OperationNotAllowed", "exceeding approved Total Regional Cores quota"),
                Kind::Quota,
            ),
            (refused(409, "SkuNotAvailable", "x"), Kind::Size),
            (refused(409, "SkuNotAvailable", "not available in location 'westus2' zone '2'."), Kind::Zone),
            (refused(404, "PlatformImageNotFound", "x"), Kind::Image),
            (refused(403, "RequestDisallowedByPolicy", "x"), Kind::Policy),
            (refused(403, "AuthorizationFailed", "x"), Kind::Denied),
            (refused(429, "SubscriptionRequestsThrottled", "x"), Kind::Throttled),
            (refused(400, "InvalidResourceReference", "x"), Kind::Reference),
            (refused(400, "InvalidParameter", "the VM size is not valid"), Kind::Size),
            (refused(503, "ServiceUnavailable", "x"), Kind::Unreachable),
        ];
        for (e, kind) in cases {
            let t = Trouble::of(&e);
            assert_eq!(t.kind, kind, "{e}");
            assert!(!t.terminal && t.message.contains("What to do: "), "{t}");
        }
        let again = |e: azure::Error, age| Trouble::of(&e).again(SignedDuration::from_mins(age)).as_secs();
        assert_eq!(again(refused(429, "x", ""), 0), 7);
        let denied = || refused(403, "AuthorizationFailed", "x");
        assert_eq!(
            (again(denied(), 9), again(denied(), 10)),
            (15, 60),
            "rights spread within minutes, or never"
        );
        let late = azure::Error::Operation {
            path: "/x".into(),
            detail: Box::new(ErrorDetail::new("AllocationFailed", "no hosts")),
        };
        let t = Trouble::of(&late);
        assert!(
            t.terminal && t.kind == Kind::Allocation && t.message.starts_with("AllocationFailed: no hosts")
        );
    }
}
