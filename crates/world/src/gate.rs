//! `zaffre serve control-plane-operator` as a program: the pod in a control plane's namespace, without which nothing
//! happens there.
//!
//! In production each such pod is an operator of its own. Here one operator serves all namespaces whose pod runs: five
//! hundred of them would watch the same objects five hundred times. What users see is the same: no pod, no progress.

use control_plane::operate::Tenants;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Counts the operators' pods of each namespace: while a rollout replaces one, there are two.
pub(crate) struct Gate {
    pub(crate) tenants: Arc<Tenants>,
    /// The same namespaces, for the controllers of private links.
    pub(crate) links: Arc<Tenants>,
    pods: Mutex<HashMap<String, usize>>,
    /// The pods themselves, the newest last.
    known: Mutex<HashMap<String, Vec<ProgramContext>>>,
}

impl Gate {
    pub(crate) fn new() -> Arc<Gate> {
        Arc::new(Gate {
            tenants: Tenants::admitted(),
            links: Tenants::admitted(),
            pods: Mutex::default(),
            known: Mutex::default(),
        })
    }

    fn enter(self: &Arc<Gate>, namespace: &str) -> Inside {
        let mut pods = self.pods.lock();
        *pods.entry(namespace.to_owned()).or_default() += 1;
        self.tenants.admit(namespace);
        self.links.admit(namespace);
        Inside { gate: self.clone(), namespace: namespace.to_owned() }
    }
}

impl Gate {
    fn know(self: &Arc<Gate>, ctx: &ProgramContext) -> Known {
        let namespace = ctx.namespace().to_owned();
        self.known.lock().entry(namespace.clone()).or_default().push(ctx.clone());
        Known { gate: self.clone(), namespace, pod: ctx.pod().to_owned() }
    }

    /// The operator's pod in a namespace.
    pub(crate) fn pod(&self, namespace: &str) -> Option<ProgramContext> {
        self.known.lock().get(namespace).and_then(|p| p.last().cloned())
    }
}

/// A pod that can be asked for its files.
struct Known {
    gate: Arc<Gate>,
    namespace: String,
    pod: String,
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut known = self.gate.known.lock();
        if let Some(list) = known.get_mut(&self.namespace) {
            list.retain(|p| p.pod() != self.pod);
            if list.is_empty() {
                known.remove(&self.namespace);
            }
        }
    }
}

/// A pod that runs. However it ends, the gate hears of it.
struct Inside {
    gate: Arc<Gate>,
    namespace: String,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut pods = self.gate.pods.lock();
        if let Some(count) = pods.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                pods.remove(&self.namespace);
                self.gate.tenants.dismiss(&self.namespace);
                self.gate.links.dismiss(&self.namespace);
            }
        }
    }
}

/// The pod's program.
pub(crate) struct ControlPlaneOperator(pub(crate) Arc<Gate>);

impl Program for ControlPlaneOperator {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let gate = self.0.clone();
        Box::pin(async move {
            let _known = gate.know(&ctx);
            let _inside = gate.enter(ctx.namespace());
            ctx.log("control planes of this namespace are served by the operator of this process");
            match ctx.listener(health_port(&ctx)).await {
                Ok(listener) => ek_guest::stand_ins::healthy(&ctx, listener).await,
                Err(e) => {
                    ctx.log(format!("cannot listen for health checks: {e}"));
                    1
                }
            }
        })
    }
}

/// From `--health-address=0.0.0.0:6060`.
pub(crate) fn health_port(ctx: &ProgramContext) -> u16 {
    let words = ctx.command().iter().chain(ctx.args());
    let mut addresses = words.filter_map(|w| w.strip_prefix("--health-address="));
    addresses.find_map(|a| a.rsplit(':').next()?.parse().ok()).unwrap_or(6060)
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
        let gate = Gate::new();
        let (a, b) = (gate.enter("x"), gate.enter("x"));
        drop(a);
        assert!(gate.tenants.serves("x") && !gate.tenants.serves("y"));
        drop(b);
        assert!(!gate.tenants.serves("x"));
    }
}
