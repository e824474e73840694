//! Whether control plane and nodes reach each other, seen from both ends.
//!
//! Control plane to nodes: the log of an agent is read, which goes through the tunnel. Nodes to control plane: a pod of
//! ours in the guest calls the API once a minute and notes that it could ([`crate::checker`]). Without nodes there is
//! nothing to connect, and nothing is claimed.

use super::{Operator, age, is_deleting, seconds};
use crate::checker;
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedControlPlane;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{ListParams, LogParams};
use reconcile::conditions::{Finding, Status};
use reconcile::{Failure, Outcome, chain};

/// A success that is older proves nothing any more.
pub const STALE: SignedDuration = SignedDuration::from_mins(5);

const DATA: &str = condition::DATA_PLANE_CONNECTION_AVAILABLE;
const CONTROL: &str = condition::CONTROL_PLANE_CONNECTION_AVAILABLE;

impl Operator {
    pub(super) async fn connection(&self, hcp: &HostedControlPlane) -> Result<Outcome, Failure> {
        if is_deleting(hcp) {
            return Ok(Outcome::Done);
        }
        if self.ready_nodes() == 0 {
            for kind in [DATA, CONTROL] {
                let message =
                    "there is no ready node to connect with; create a NodePool or wait for its nodes";
                self.find(
                    kind,
                    Finding::new(kind, Status::Unknown, reason::NO_WORKER_NODES_AVAILABLE, message),
                );
            }
            // A watch tells of nodes.
            return Ok(Outcome::Done);
        }
        let (data, control) = (self.us_to_nodes().await, self.nodes_to_us().await);
        let is_good = data.status == Status::True && control.status == Status::True;
        self.find(DATA, data);
        self.find(CONTROL, control);
        // Nothing tells of a cut cable.
        Ok(Outcome::After(if is_good { seconds(240) } else { seconds(30) }))
    }

    async fn us_to_nodes(&self) -> Finding {
        let no = |reason: &str, message: String| Finding::new(DATA, false, reason, message);
        let pods: Api<Pod> = Api::namespaced(self.guest.clone(), "kube-system");
        let agents = match pods.list(&ListParams::default().labels("app=konnectivity-agent").limit(50)).await
        {
            Ok(agents) => agents,
            Err(e) => return no(reason::RECONCILE_ERROR, format!("cannot list agents: {}", chain(&e))),
        };
        let running = |p: &&Pod| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let names: Vec<&str> =
            agents.items.iter().filter(running).filter_map(|p| p.metadata.name.as_deref()).take(3).collect();
        if names.is_empty() {
            let message = "no pod of DaemonSet kube-system/konnectivity-agent runs; see `kubectl -n kube-system get pods -l app=konnectivity-agent`";
            return no(reason::KONNECTIVITY_AGENT_PODS_NOT_FOUND, message.to_owned());
        }
        let mut last = String::new();
        for name in names {
            let params = LogParams {
                tail_lines: Some(1),
                container: Some("konnectivity-agent".into()),
                ..LogParams::default()
            };
            match pods.logs(name, &params).await {
                Ok(_) => {
                    return Finding::new(DATA, true, reason::AS_EXPECTED, "the control plane reaches nodes");
                }
                Err(e) => last = format!("cannot read the log of pod kube-system/{name}: {}", chain(&e)),
            }
        }
        no(reason::LOGS_ACCESS_FAILED, last)
    }

    async fn nodes_to_us(&self) -> Finding {
        let maps: Api<ConfigMap> = Api::namespaced(self.guest.clone(), checker::NAMESPACE);
        match maps.get_opt(checker::CONFIG_MAP).await {
            Ok(map) => judge(
                map.and_then(|m| m.data).as_ref().map(|d| d.get(checker::LAST_SUCCESS).map(String::as_str)),
                self.clock.now(),
            ),
            Err(e) => Finding::new(
                CONTROL,
                false,
                reason::RECONCILE_ERROR,
                format!("cannot read the checks: {}", chain(&e)),
            ),
        }
    }
}

/// What a check that was noted at a time says now; pure.
pub fn judge(noted: Option<Option<&str>>, now: Timestamp) -> Finding {
    let no = |reason: &str, message: String| Finding::new(CONTROL, false, reason, message);
    let Some(noted) = noted else {
        let message =
            "no node has reported yet; see `kubectl -n kube-system get deployment kas-connection-checker`";
        return no(reason::CONFIG_MAP_NOT_FOUND, message.to_owned());
    };
    let Some(at) = noted.and_then(|t| t.parse::<Timestamp>().ok()) else {
        return no(reason::KAS_ACCESS_FAILED, "no check from a node has succeeded yet".to_owned());
    };
    match age(at, now) < STALE {
        true => Finding::new(CONTROL, true, reason::AS_EXPECTED, "nodes reach the control plane"),
        false => no(
            reason::CONNECTION_CHECK_STALE,
            format!("the last check that succeeded was at {at}; nodes may not reach the API server"),
        ),
    }
}
