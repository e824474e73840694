//! What to look at when a condition is not as it should be. Messages say what is wrong; this says where to go.

use super::State;
use crate::delete::DELETION_BLOCKED;
use apis::conditions::{hosted_cluster as c, private_link, reason};
use reconcile::conditions::Condition;

/// How a condition stands whose reason says more than whether it is True.
pub fn exception(found: &Condition) -> Option<State> {
    match (found.kind.as_str(), found.reason.as_str()) {
        // It is not active because it gave up.
        (c::ETCD_RECOVERY_ACTIVE, reason::ETCD_RECOVERY_JOB_FAILED) => Some(State::Blocked),
        // Nobody asked for it.
        (c::PUBLIC_ENDPOINT_EXPOSED, reason::TOPOLOGY_PRIVATE) => Some(State::Ready),
        (c::PUBLIC_ENDPOINT_EXPOSED, reason::CONVERGENCE_IN_PROGRESS) => Some(State::Waiting),
        _ => None,
    }
}

/// Whether somebody has to do something about it.
pub fn state(kind: &str, why: &str) -> State {
    match kind {
        c::SUPPORTED_HOSTED_CLUSTER
        | c::VALID_CONFIGURATION
        | c::VALID_RELEASE_IMAGE
        | c::VALID_PROXY_CONFIGURATION
        | c::PLATFORM_CREDENTIALS_FOUND
        | c::VALID_HOSTED_CONTROL_PLANE_CONFIGURATION
        | c::VALID_RELEASE_INFO
        | c::VALID_AZURE_KMS_CONFIG
        | c::VALID_IDP_CONFIGURATION
        | c::RECONCILIATION_ACTIVE
        | c::UNMANAGED_ETCD_AVAILABLE
        | c::CLUSTER_VERSION_UPGRADEABLE
        | DELETION_BLOCKED => State::Blocked,
        c::PROGRESSING if why == reason::BLOCKED => State::Blocked,
        c::ETCD_DATA_ENCRYPTION_UP_TO_DATE if why == reason::RE_ENCRYPTION_FAILED => State::Blocked,
        _ => State::Waiting,
    }
}

pub fn hint(kind: &str, state: State) -> &'static str {
    match kind {
        // It is asked, or asked again, by itself.
        c::PLATFORM_CREDENTIALS_FOUND | c::VALID_RELEASE_IMAGE if state == State::Unknown => "",
        c::RECONCILIATION_ACTIVE => "remove spec.pausedUntil to go on",
        c::VALID_CONFIGURATION | c::SUPPORTED_HOSTED_CLUSTER | c::VALID_PROXY_CONFIGURATION => {
            "correct what the message names; the cluster goes on by itself"
        }
        c::VALID_RELEASE_IMAGE => "correct spec.release.image, or the pull secret",
        c::PLATFORM_CREDENTIALS_FOUND => {
            "give the identity its role (`zaffre create infra azure … --assign-identity-roles`), or correct its client id"
        }
        c::RECONCILIATION_SUCCEEDED => "it is tried again; the message says what was refused",
        c::INFRASTRUCTURE_READY => {
            "see the Services of the control plane's namespace: a load balancer must give an address"
        }
        c::ETCD_RECOVERY_ACTIVE if state == State::Blocked => {
            "see the log of the member that fails; if data is lost, restore a snapshot"
        }
        c::ETCD_BACKUP_SUCCEEDED => "see `kubectl get hcpetcdbackups` in the control plane's namespace",
        c::EXTERNAL_DNS_REACHABLE => "see that the API's name has a record in its zone",
        c::VALID_IDP_CONFIGURATION => "correct spec.configuration.oauth; others log in meanwhile",
        c::UNMANAGED_ETCD_AVAILABLE => "correct what the message names; the cluster goes on by itself",
        c::ETCD_AVAILABLE => "see the pods and volumes of StatefulSet etcd",
        c::KUBE_API_SERVER_AVAILABLE => "see the pods of Deployment kube-apiserver",
        c::IGNITION_ENDPOINT_AVAILABLE => "see the pods of Deployment ignition-server",
        c::AVAILABLE => "see what waits below",
        c::CLUSTER_VERSION_AVAILABLE | c::CLUSTER_VERSION_PROGRESSING => {
            "a cluster's version is complete when it has nodes: see the NodePools"
        }
        c::DATA_PLANE_CONNECTION_AVAILABLE | c::CONTROL_PLANE_CONNECTION_AVAILABLE => {
            "needs nodes: see the NodePools and the konnectivity agents on them"
        }
        kind if private_link::ALL.contains(&kind) => {
            "see `kubectl get azpls` in the control plane's namespace; the operator must be installed with --private-platform Azure"
        }
        c::VALID_AZURE_KMS_CONFIG => {
            "see that the key exists and the identity may encrypt and decrypt with it"
        }
        _ => "",
    }
}
