//! What Azure's refusals mean here, and the way out.

use crate::link::Unreadable;
use jiff::SignedDuration;
use std::fmt;

/// Something that keeps a link from being as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Of the condition; one of `apis::conditions::reason`.
    pub reason: &'static str,
    /// The cause, and what to do about it.
    pub message: String,
    /// When to try again, if nothing happens before.
    pub again: SignedDuration,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// On whose behalf something was tried: it decides who can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The HyperShift operator's account.
    Management,
    /// The control plane operator's identity.
    Guest,
}

impl Side {
    fn role(self) -> &'static str {
        match self {
            Side::Management => {
                "give the HyperShift operator's account a role that may write private link services, load balancers and subnets (Network Contributor) at the group of --azure-pls-resource-group and at the network of the management cluster"
            }
            Side::Guest => {
                "give the identity of workloadIdentities.controlPlaneOperator its role at the groups of the cluster and of its network (`zaffre create infra azure … --assign-identity-roles`)"
            }
        }
    }

    fn identity(self) -> &'static str {
        match self {
            Side::Management => {
                "check the credentials that the HyperShift operator was installed with (--azure-private-creds, --azure-private-secret or --azure-pls-managed-identity-client-id)"
            }
            Side::Guest => {
                "check workloadIdentities.controlPlaneOperator, its federated credential for system:serviceaccount:kube-system:control-plane-operator, and the cluster's issuerURL"
            }
        }
    }
}

/// A moment, a while, and until somebody did something.
const SOON: SignedDuration = SignedDuration::from_secs(2);
const LATER: SignedDuration = SignedDuration::from_secs(10);
const SLOWLY: SignedDuration = SignedDuration::from_mins(1);

impl Trouble {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Trouble {
        Trouble { reason, message: message.into(), again: SLOWLY }
    }

    /// The same, and look again soon: what is waited for is on its way.
    pub fn soon(reason: &'static str, message: impl Into<String>) -> Trouble {
        Trouble { again: SOON, ..Trouble::new(reason, message) }
    }

    pub fn unreadable(reason: &'static str, e: &Unreadable) -> Trouble {
        Trouble::new(reason, reconcile::chain(e).to_string())
    }

    /// What an error of Azure's means for `what` was tried.
    pub fn of(side: Side, reason: &'static str, what: &str, e: &azure::Error) -> Trouble {
        let told = match e {
            azure::Error::Refused(r) => format!("{}: {}", r.detail.code, r.detail.message),
            azure::Error::Operation { detail, .. } => format!("{}: {}", detail.code, detail.message),
            other => reconcile::chain(other).to_string(),
        };
        let wait = e.refused().and_then(|r| r.retry_after).and_then(|d| SignedDuration::try_from(d).ok());
        let (fix, again) = match (e, e.status()) {
            (azure::Error::Token { source, .. }, _) if not_yet(source) => {
                ("the token is minted when the guest's API answers; it is tried again", SOON)
            }
            (azure::Error::Token { source, .. }, _) if !source.is_transient() => (side.identity(), SLOWLY),
            (_, Some(401)) => (side.identity(), SLOWLY),
            (_, Some(403)) if e.has_code("RequestDisallowedByPolicy") || e.has_code("ScopeLocked") => {
                ("ask the owner of the policy or lock for an exception", SLOWLY)
            }
            (_, Some(403)) => (side.role(), SLOWLY),
            (_, Some(409 | 412 | 429)) => ("it is tried again", LATER),
            _ if e.is_transient() => ("it is tried again", LATER),
            // Ranges that somebody else took a moment ago are looked for anew.
            _ if e.has_code("NetcfgSubnetRangesOverlap") => ("it is tried again with another range", SOON),
            _ => ("correct what Azure names; it is tried again every minute", SLOWLY),
        };
        Trouble { reason, message: format!("{what}: {told}; {fix}"), again: wait.unwrap_or(again) }
    }
}

/// Whoever writes the token has not done it yet.
fn not_yet(e: &azure::CredentialError) -> bool {
    use azure::CredentialError::{Field, ReadFile};
    matches!(e, ReadFile { .. } | Field { field: "the token", .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arm::ErrorDetail;

    fn refused(status: u16, code: &str) -> azure::Error {
        azure::Error::Refused(Box::new(azure::Refused {
            status,
            detail: ErrorDetail::new(code, "no"),
            method: "PUT".into(),
            path: "/x".into(),
            request_id: String::new(),
            correlation: String::new(),
            retry_after: None,
            attempts: 1,
        }))
    }

    #[test]
    fn a_refusal_says_who_can_help() {
        let of = |side, status, code| Trouble::of(side, "R", "cannot make x", &refused(status, code));
        let t = of(Side::Guest, 403, "AuthorizationFailed");
        assert!(
            t.message.starts_with("cannot make x: AuthorizationFailed: no; give the identity of workload"),
            "{t}"
        );
        assert!(
            of(Side::Management, 403, "AuthorizationFailed").message.contains("--azure-pls-resource-group")
        );
        assert!(of(Side::Guest, 403, "RequestDisallowedByPolicy").message.contains("policy"));
        assert_eq!(of(Side::Guest, 429, "TooManyRequests").again, LATER);
        assert_eq!(of(Side::Management, 400, "NetcfgSubnetRangesOverlap").again, SOON);
        assert_eq!(of(Side::Management, 400, "InvalidParameter").again, SLOWLY);
    }
}
