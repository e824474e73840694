//! `zaffre serve control-plane-operator` as a program: the pod in a control plane's namespace, without which nothing
//! happens there.
//!
//! In production each such pod is an operator of its own. Here one operator serves all namespaces whose pod runs: five
//! hundred of them would watch the same objects five hundred times. What users see is the same: no pod, no progress.

use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reconcile::Handle;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Which namespaces have an operator that runs; cheap to clone.
#[derive(Clone, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By namespace: how many pods.
    open: Mutex<HashMap<String, usize>>,
    planes: OnceLock<(Handle, kube::Client)>,
}

impl Gate {
    pub fn is_open(&self, namespace: &str) -> bool {
        self.0.open.lock().contains_key(namespace)
    }

    /// Whom to wake when a gate opens. Before this, nobody needs waking.
    pub(crate) fn attach(&self, planes: Handle, client: kube::Client) {
        let _ = self.0.planes.set((planes, client));
    }

    async fn wake(&self, namespace: &str) {
        let Some((planes, client)) = self.0.planes.get() else { return };
        let api = control_plane::operate::KINDS.plane().api(client, namespace);
        match api.list_metadata(&Default::default()).await {
            Ok(list) => {
                let names = list.items.into_iter().filter_map(|o| o.metadata.name);
                names.for_each(|name| planes.poke(&format!("{namespace}/{name}")));
            }
            Err(e) => tracing::warn!(namespace, error = %e, "control planes cannot be listed"),
        }
    }

    fn enter(&self, namespace: &str) -> Inside {
        *self.0.open.lock().entry(namespace.to_owned()).or_default() += 1;
        Inside { gate: self.clone(), namespace: namespace.to_owned() }
    }
}

/// A pod that runs. However it ends, the gate hears of it.
struct Inside {
    gate: Gate,
    namespace: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut open = self.gate.0.open.lock();
        if let Some(count) = open.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.namespace);
            }
        }
    }
}

/// The pod's program.
pub(crate) struct ControlPlaneOperator(pub(crate) Gate);

impl Program for ControlPlaneOperator {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let gate = self.0.clone();
        Box::pin(async move {
            let inside = gate.enter(ctx.namespace());
            ctx.log("control planes of this namespace are served by the operator of this process");
            gate.wake(ctx.namespace()).await;
            ctx.stopping().cancelled().await;
            drop(inside);
            0
        })
    }
}

/// Whether a container runs `zaffre serve <name>`.
pub(crate) fn serves(name: &'static str) -> impl Fn(&serde_json::Value) -> bool + Send + Sync + 'static {
    move |c| {
        let words = [&c["command"], &c["args"]].into_iter().filter_map(|w| w.as_array()).flatten();
        let mut words =
            words.filter_map(|w| w.as_str()).skip_while(|w| w.rsplit('/').next() == Some("zaffre"));
        words.next() == Some("serve") && words.next() == Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn our_programs_are_known_by_their_words() {
        let is = serves("control-plane-operator");
        assert!(is(&json!({"command": ["/usr/bin/zaffre", "serve", "control-plane-operator"]})));
        assert!(is(
            &json!({"command": ["/usr/bin/zaffre"], "args": ["serve", "control-plane-operator", "--x"]})
        ));
        assert!(!is(&json!({"command": ["/usr/bin/zaffre", "serve", "token-minter"]})));
        assert!(!is(&json!({"command": ["serve"]})) && !is(&json!({})));
    }

    #[test]
    fn a_gate_is_open_while_any_pod_runs() {
        let gate = Gate::default();
        let (a, b) = (gate.enter("x"), gate.enter("x"));
        drop(a);
        assert!(gate.is_open("x") && !gate.is_open("y"));
        drop(b);
        assert!(!gate.is_open("x"));
    }
}
