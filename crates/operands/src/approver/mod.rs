//! The machine approver: who may be a node.
//!
//! A machine that boots asks the guest for a certificate with an identity that all machines share. Whoever has read one
//! payload could ask for any name, so a request is approved only if a Machine of the control plane's namespace is
//! expected under that name and has no node yet; and a certificate to serve with only for the node itself, with the names
//! and addresses that its Machine has ([`judge`]).
//!
//! Between approval and the Node there is a gap in which whoever has the shared identity could ask for the same name. So
//! a name is given to one key: a machine that starts again still has its key, on its disk, and may ask as often as it
//! likes; another key is a stranger's. A machine that lost its disk before it joined cannot be told from one, and is
//! replaced (its health check does that).
//!
//! What does not fit is left undecided, never denied: the Machine may say its addresses a moment later. Why is told once
//! by an event on the request in the guest. It stands in for the release's `cluster-machine-approver`; flags and rules
//! are that one's.

mod judge;
mod request;

pub use judge::{Case, Given, MachineFact, Verdict, judge};
pub use request::Request;

use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use parking_lot::Mutex;
use reconcile::{Backoff, Controller, Failure, Kind, Metrics, Options, Outcome, Runtime, View, Watch, chain};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub const MACHINE: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "Machine", "machines");
const REQUEST: Kind = Kind::of_cluster::<CertificateSigningRequest>();
const NODE: Kind = Kind::of_cluster::<Node>();
/// Reasons that were told; more are told again.
const TOLD: usize = 512;

/// What it works between.
pub struct Setup {
    /// The management cluster, where Machines are.
    pub management: Client,
    pub namespace: String,
    pub guest: Client,
    pub clock: SharedClock,
    pub metrics: Metrics,
    /// Somebody who writes a log.
    pub say: Arc<dyn Fn(String) + Send + Sync>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read request {name}")]
    Read { name: String, source: Box<kube::Error> },
    #[error("cannot approve request {name}")]
    Approve { name: String, source: Box<kube::Error> },
}

struct Approver {
    setup: Setup,
    machines: Arc<View<MachineFact>>,
    requests: Arc<View<Filed>>,
    nodes: Arc<View<()>>,
    told: Mutex<HashMap<String, String>>,
    /// What is being given, by the request's name, until the watch tells that it was.
    giving: Mutex<HashMap<String, Given>>,
}

/// A request, as far as others are concerned.
struct Filed {
    name: String,
    pending: bool,
    /// Whom it is for, while it waits.
    node: Option<String>,
    /// It was approved, and for whom.
    given: Option<Given>,
}

impl Filed {
    fn read(o: &DynamicObject) -> Filed {
        let said = |kind: &str| {
            let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
            all.into_iter().any(|c| c["type"] == kind)
        };
        let approved = said("Approved") && !said("Denied") && !said("Failed");
        let request = || {
            let csr = serde_json::from_value(serde_json::to_value(o).ok()?).ok()?;
            Request::read(&csr)
        };
        let pending = pending(o);
        let request = if approved || pending { request() } else { None };
        let given = request.as_ref().filter(|_| approved).and_then(Given::of);
        let node = request.as_ref().filter(|_| pending).and_then(|r| r.node().map(str::to_owned));
        Filed { name: name_of(o).to_owned(), pending, node, given }
    }
}

fn name_of(o: &DynamicObject) -> &str {
    o.metadata.name.as_deref().unwrap_or_default()
}

fn pending(o: &DynamicObject) -> bool {
    let conditions = o.data["status"]["conditions"].as_array().is_none_or(Vec::is_empty);
    conditions && o.data["status"]["certificate"].as_str().unwrap_or_default().is_empty()
}

/// Sets it up in a runtime.
pub fn start(runtime: &mut Runtime, setup: Setup) {
    let machines = View::new(|o: &DynamicObject| Some(MachineFact::read(o)));
    let requests = View::new(|o: &DynamicObject| Some(Filed::read(o)));
    let nodes = View::new(|_: &DynamicObject| Some(()));
    let (management, guest, namespace) =
        (setup.management.clone(), setup.guest.clone(), setup.namespace.clone());
    let approver = Arc::new(Approver {
        setup,
        machines: machines.clone(),
        requests: requests.clone(),
        nodes: nodes.clone(),
        told: Mutex::default(),
        giving: Mutex::default(),
    });
    let backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(30) };
    let handle = runtime.controller(approver, Options { workers: 2, backoff, ..Options::default() });
    let known = requests.clone();
    // A Machine that has changed may be the one that somebody waits for. Each look at a request is a call to the guest.
    let waiting = handle.keys(move |o, keys| {
        let machine = MachineFact::read(o);
        for request in
            known.all().iter().filter(|r| r.node.as_ref().is_some_and(|n| machine.is_or_will_be(n)))
        {
            keys.push(request.name.as_str());
        }
    });
    runtime
        .watch(Watch::whole(&management, &MACHINE).namespace(namespace).into_sink(machines).wakes(waiting));
    let all = Watch::whole(&guest, &REQUEST).into_sink(requests);
    runtime.watch(all.wakes(handle.keys(|o, keys| {
        if pending(o) {
            keys.push(name_of(o));
        }
    })));
    runtime.watch(Watch::metadata(&guest, &NODE).into_sink(nodes));
}

impl Controller for Approver {
    fn name(&self) -> &'static str {
        "machine-approver"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

impl Approver {
    async fn run(&self, name: &str) -> Result<Outcome, Failure> {
        let all: Api<CertificateSigningRequest> = Api::all(self.setup.guest.clone());
        let found = all
            .get_opt(name)
            .await
            .map_err(|e| Error::Read { name: name.to_owned(), source: Box::new(e) })?;
        let Some(mut csr) = found else {
            self.told.lock().remove(name);
            return Ok(Outcome::Done);
        };
        let Some(request) = Request::read(&csr) else { return Ok(Outcome::Done) };
        match self.judge(&request) {
            Verdict::NotOurs => Ok(Outcome::Done),
            Verdict::Refuse(why) => {
                self.tell(&csr, &why).await;
                Ok(Outcome::Done)
            }
            Verdict::Crowded(why) => {
                self.tell(&csr, &why).await;
                // Requests age and nodes come; no single one tells.
                Ok(Outcome::After(SignedDuration::from_secs(30)))
            }
            Verdict::Approve(machine) => {
                let message = format!("Machine {machine} is expected under this name");
                let condition = json!([{"type": "Approved", "status": "True", "reason": "NodeCSRApprove",
                    "message": message, "lastUpdateTime": self.setup.clock.now().to_string()}]);
                let status = csr.status.get_or_insert_default();
                status.conditions = serde_json::from_value(condition).ok();
                match all.replace_subresource("approval", name, &PostParams::default(), &csr).await {
                    Ok(_) => (self.setup.say)(format!("approved {name}: {message}")),
                    Err(kube::Error::Api(s)) if s.code == 404 || s.code == 409 => {
                        self.giving.lock().remove(name);
                    }
                    // Perhaps it was approved: it stays given, and the same request is tried again.
                    Err(e) => {
                        return Err(Error::Approve { name: name.to_owned(), source: Box::new(e) }.into());
                    }
                }
                self.told.lock().remove(name);
                Ok(Outcome::Done)
            }
        }
    }

    /// Looks at a request and, if it is good, marks its identity as given before the next one is looked at.
    fn judge(&self, request: &Request) -> Verdict {
        let machines = self.machines.all();
        let filed = self.requests.all();
        let mut giving = self.giving.lock();
        giving.retain(|name, _| self.requests.get("", name).is_none_or(|f| f.given.is_none()));
        let given = filed.iter().filter_map(|f| f.given.clone());
        let given: Vec<Given> = given.chain(giving.values().cloned()).collect();
        let case = Case {
            request,
            given: &given,
            machines: &machines,
            nodes: self.nodes.len(),
            is_node: request.node().is_some_and(|n| self.nodes.get("", n).is_some()),
            pending: filed.iter().filter(|r| r.pending).count(),
            now: self.setup.clock.now(),
        };
        let verdict = judge(&case);
        if let (Verdict::Approve(_), Some(given)) = (&verdict, Given::of(request)) {
            if giving.len() >= TOLD {
                giving.clear();
            }
            giving.insert(request.name.clone(), given);
        }
        verdict
    }

    /// Says why a request is left alone, once.
    async fn tell(&self, csr: &CertificateSigningRequest, why: &str) {
        let name = csr.metadata.name.clone().unwrap_or_default();
        {
            let mut told = self.told.lock();
            if told.get(&name).is_some_and(|t| t == why) {
                return;
            }
            if told.len() >= TOLD {
                told.clear();
            }
            told.insert(name.clone(), why.to_owned());
        }
        (self.setup.say)(format!("not approved: {name}: {why}"));
        let now = self.setup.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event: Value = json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": format!("{name}."), "namespace": "default"},
            "involvedObject": {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "name": name, "uid": csr.metadata.uid},
            "reason": "NotApproved", "message": why, "type": "Warning", "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "machine-approver"}});
        let events: Api<k8s_openapi::api::core::v1::Event> =
            Api::namespaced(self.setup.guest.clone(), "default");
        if let Ok(event) = serde_json::from_value(event)
            && let Err(e) = events.create(&PostParams::default(), &event).await
        {
            tracing::debug!(error = %chain(&e), "an event was not written");
        }
    }
}
