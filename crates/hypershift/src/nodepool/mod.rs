//! NodePools: from one object to machines that become nodes, and back again.
//!
//! ```text
//! NodePool, HostedCluster ─┐                        ┌─> token-<np>-<hash>, user-data-<np>-<hash>  (ignition)
//! config, keys, release ───┼─ observe ─> rollout ───┼─> AzureMachineTemplate
//! machines, tokens ────────┘     (validate, skew)   └─> MachineDeployment or MachineSet, MachineHealthCheck
//!      status, one write <── conditions <── what machines, tokens and checks report
//! ```
//!
//! * [`config`]: what nodes are configured with. [`rollout`]: from it two hashes, one that rolls nodes and one that does not.
//! * [`tuning`]: what goes to the node tuning operator and comes back. [`capacity`]: what machines of a size have;
//!   [`room`]: how many of them Azure would give.
//! * [`secrets`]: what machines boot with, and which old ones may go. [`template`], [`machines`]: what Cluster API is told.
//! * [`validate`]: what must hold. [`status`]: the conditions. [`watched`]: what is kept of the objects that are watched.
//! * [`operate`]: the controller; only there a client is known. It shares the views of the HostedCluster controller.
//!
//! What holds throughout:
//!
//! * **Only users roll nodes.** Names of Secrets and templates follow from what users wrote. Images that we choose are in
//!   what new nodes boot with and in no name, so a newer image of ours reaches nodes when they are next made.
//! * **Nothing is reported before it is so.** `status.version` and the annotations of the current configuration move when
//!   every machine is of the new kind and available, not when the roll begins.
//! * **What cannot be rolled is held, not stopped.** A pool whose target is not valid (a release that nobody can read, a
//!   version that its cluster does not support) goes on with what its machines have: it can be scaled, labelled, repaired
//!   and deleted.
//!
//! Rejected: counting the ConfigMaps that a control plane is expected to have written (upstream waits for an exact number,
//! and rolls nodes when it meets them halfway): what they would say follows from the HostedCluster and is rendered here.

pub mod capacity;
pub mod config;
mod detour;
pub mod machines;
pub mod operate;
pub mod rollout;
pub mod room;
pub mod secrets;
pub mod status;
pub mod template;
pub mod text;
pub mod tuning;
pub mod validate;
pub mod watched;

use apis::hypershift::{HostedCluster, NodePool};
use apis::names::{annotation, label};
use serde_json::{Value, json};

pub fn name(np: &NodePool) -> &str {
    np.metadata.name.as_deref().unwrap_or_default()
}

/// The namespace it lies in, which is its cluster's.
pub fn home(np: &NodePool) -> &str {
    np.metadata.namespace.as_deref().unwrap_or_default()
}

/// `namespace/name`, as annotations of children and keys have it.
pub fn key(np: &NodePool) -> String {
    format!("{}/{}", home(np), name(np))
}

/// Puts an object into the control plane's namespace and says which pool's it is.
fn belong(hc: &HostedCluster, np: &NodePool, mut object: Value) -> Value {
    let namespace = crate::naming::namespace(hc);
    let metadata = &mut object["metadata"];
    metadata["namespace"] = json!(namespace);
    metadata["labels"][label::HOSTED_CONTROL_PLANE] = json!(namespace);
    metadata["annotations"][annotation::NODE_POOL] = json!(key(np));
    object
}
