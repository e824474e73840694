//! One machine, from power on to power off.

use super::console::Console;
use super::disk::{self, Disk};
use super::fetch::{Trouble, fetch};
use super::payload::Settings;
use super::stub::{self, CustomData, Stub};
use super::{Surroundings, update};
use crate::dial;
use crate::health::Dial;
use azure_sim::{Boot, Machine};
use ek_auth::pki::Secret;
use ek_node::{Events, ExternalNode, ExternalOptions, Identity, NodeSpec, ServingRequest};
use futures::future::BoxFuture;
use kube::config::Kubeconfig;
use reconcile::chain;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Between attempts, at first.
const FIRST: Duration = Duration::from_millis(100);
/// How long one attempt to be let in lasts before a line of the console says what is waited for.
const LET_IN: Duration = Duration::from_secs(20);
/// Leases say 40 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Pods that bring other configurations.
const DAEMON: &str = "machine-config-daemon-";

/// Where a node hears of them.
struct Updates {
    client: kube::Client,
    told: watch::Receiver<String>,
}

/// The way out of a machine: through its network security groups.
struct Filtered {
    azure: Arc<azure_sim::World>,
    machine: String,
    beyond: Arc<dyn Dial>,
}

impl Dial for Filtered {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            match self.azure.lets_out(&self.machine, host, port) {
                Ok(()) => self.beyond.dial(host, port).await,
                // Packets are dropped, and a machine would not learn by whom; whoever reads its console here may.
                Err(denied) => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{host}:{port} does not answer (the simulated Azure knows why: {denied})"),
                )),
            }
        })
    }
}

pub(super) struct Life {
    around: Surroundings,
    machine: Machine,
    console: Console,
    /// What it asks to be let in with. Who asks with another is taken for a stranger, also after a restart.
    key: Option<Secret>,
    stop: CancellationToken,
}

impl Life {
    pub(super) fn new(around: Surroundings, machine: Machine, stop: CancellationToken) -> Life {
        let console = Console::new(around.azure.clone(), &machine.id, around.clock.clone());
        let way = Filtered { azure: around.azure.clone(), machine: machine.id.clone(), beyond: around.dial };
        let around = Surroundings { dial: Arc::new(way), ..around };
        Life { around, machine, console, key: None, stop }
    }

    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.live() => {}
        }
    }

    async fn live(&mut self) {
        let (custom, name) = (self.machine.custom_data.clone(), self.machine.computer_name.clone());
        self.console.note(&format!("{name} starts ({})", self.machine.size));
        let data = stub::read(custom.as_ref().map(|d| d.expose()));
        let stub = match data {
            CustomData::Stub(stub) => stub,
            CustomData::Other => {
                self.console
                    .note("customData holds no Ignition config to fetch; this machine becomes no node");
                return self.console.report(&Boot::Ready);
            }
            CustomData::Broken(why) => {
                self.console.note(&format!("Ignition: customData cannot be followed: {why}"));
                let code = "OSProvisioningClientError".to_owned();
                return self.console.report(&Boot::Failed { code, message: why });
            }
        };
        let known = disk::read(&self.around.dir, &self.machine.vm_id);
        let (config, identity) = match known {
            Some(Disk { payload, key, identity }) => {
                self.key = key;
                self.console.note("Ignition: this machine has been set up before");
                (payload, identity)
            }
            None => {
                // Firmware, kernel and the first of its system: nothing of that runs here, but it takes its time.
                tokio::time::sleep(self.around.azure.boot_takes(&self.machine.id)).await;
                let config = self.ignite(&stub).await;
                self.keep(&config, None);
                (config, None)
            }
        };
        self.console.report(&Boot::Ready);
        let settings = match Settings::read(&config) {
            Ok(s) => s,
            Err(why) => return self.console.say(format!("kubelet: cannot start: {why}")),
        };
        // What joining takes is given back once it is a node.
        Box::pin(self.join(&settings, &config, identity)).await;
    }

    fn keep(&mut self, payload: &Value, identity: Option<Identity>) {
        let disk = Disk { payload: payload.clone(), key: self.key.clone(), identity };
        if let Err(e) = disk::write(&self.around.dir, &self.machine.vm_id, &disk) {
            self.console.say(format!("disk: {e}"));
        }
    }

    /// Fetches its config, however long it takes.
    async fn ignite(&mut self, stub: &Stub) -> Value {
        let mut wait = FIRST;
        loop {
            match fetch(&*self.around.dial, stub).await {
                Ok(config) => {
                    self.console.note(&format!("Ignition: fetched {}", stub.source));
                    return config;
                }
                Err(Trouble::Again(why)) => {
                    self.console.say(format!("Ignition: {why}; trying again"));
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(self.around.patience);
                }
                Err(Trouble::Refused(why)) => {
                    self.console.say(format!(
                        "Ignition failed: {why}; is the token of the user data still good? Starting anew in {:?}",
                        self.around.patience
                    ));
                    tokio::time::sleep(self.around.patience).await;
                }
            }
        }
    }

    /// Becomes a node and stays one.
    async fn join(&mut self, settings: &Settings, config: &Value, mut identity: Option<Identity>) {
        let name = self.machine.computer_name.to_ascii_lowercase();
        let mut wait = FIRST;
        loop {
            let why = match self.joined(&name, settings, config, &mut identity).await {
                Ok((node, update)) => {
                    let stop = self.stop.clone();
                    futures::future::join(node.run(stop), self.follow(&name, update)).await;
                    return;
                }
                Err(why) => why,
            };
            self.console.say(format!("kubelet: {why}; trying again"));
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(self.around.patience);
        }
    }

    async fn joined(
        &mut self,
        name: &str,
        settings: &Settings,
        config: &Value,
        identity: &mut Option<Identity>,
    ) -> Result<(ExternalNode, Updates), String> {
        let file =
            Kubeconfig::from_yaml(&settings.kubeconfig).map_err(|e| format!("bootstrap kubeconfig: {e}"))?;
        if identity.is_none() {
            let bootstrap = dial::over(file.clone(), self.around.dial.clone()).await;
            let bootstrap = bootstrap.map_err(|e| chain(&e).to_string())?;
            let key = match &self.key {
                Some(key) => key.clone(),
                None => {
                    let key = Identity::draw().map_err(|e| chain(&e).to_string())?;
                    self.key = Some(key.clone());
                    self.keep(config, None);
                    key
                }
            };
            let asked = tokio::time::timeout(LET_IN, Identity::request(&bootstrap, name, &key)).await;
            let made = asked.map_err(|_| {
                "its request for a certificate waits for approval; does a Machine match? (see the requests of the guest: kubectl get csr)".to_owned()
            })?;
            let made = made.map_err(|e| chain(&e).to_string())?;
            self.console.note("kubelet: has a client certificate");
            self.keep(config, Some(made.clone()));
            *identity = Some(made);
        }
        let Some(me) = identity.as_ref() else { return Err("it has no identity".to_owned()) };
        let client = dial::over(as_node(file, me), self.around.dial.clone())
            .await
            .map_err(|e| chain(&e).to_string())?;
        let (tell, told) = watch::channel(String::new());
        let daemon = format!("{DAEMON}{name}");
        let heard = move |pod: &Value| {
            let wanted =
                pod["metadata"]["name"] == daemon.as_str() && pod["metadata"]["deletionTimestamp"].is_null();
            if let Some(namespace) = pod["metadata"]["namespace"].as_str().filter(|_| wanted) {
                tell.send_replace(namespace.to_owned());
            }
        };
        let mine = client.clone();
        let options = ExternalOptions {
            clock: self.around.clock.clone(),
            seed: self.around.seed,
            stages: self.around.stages.clone(),
            heartbeat: HEARTBEAT,
            events: Events::Warnings,
            serving: Some(ServingRequest { addresses: self.addresses() }),
            heard: Some(Arc::new(heard)),
        };
        let node = ExternalNode::register(client, name, &self.spec(settings), options).await;
        let node = node.map_err(|e| chain(&e).to_string())?;
        self.console.say(format!("kubelet: node {name} is registered"));
        Ok((node, Updates { client: mine, told }))
    }

    /// Takes other configurations, when a daemon brings them.
    async fn follow(&mut self, name: &str, mut updates: Updates) {
        while updates.told.changed().await.is_ok() {
            let namespace = updates.told.borrow_and_update().clone();
            match update::apply(&updates.client, name, &namespace).await {
                Ok(Some(config)) => {
                    let identity = disk::read(&self.around.dir, &self.machine.vm_id).and_then(|d| d.identity);
                    self.keep(&config, identity);
                    self.console.say(format!("machine-config-daemon: took the configuration of {namespace}"));
                }
                Ok(None) => {}
                Err(why) => {
                    self.console.say(format!("machine-config-daemon: {why}"));
                    update::degraded(&updates.client, name, &why).await;
                }
            }
        }
        // Whoever told is gone with the node.
        std::future::pending::<()>().await;
    }

    fn addresses(&self) -> Vec<String> {
        self.machine.interfaces.iter().flat_map(|i| i.addresses.clone()).collect()
    }

    fn spec(&self, settings: &Settings) -> NodeSpec {
        let m = &self.machine;
        let mut labels: BTreeMap<String, String> = [
            ("node-role.kubernetes.io/worker", String::new()),
            ("node.openshift.io/os_id", "rhel".to_owned()),
            ("node.kubernetes.io/instance-type", m.size.clone()),
            ("beta.kubernetes.io/instance-type", m.size.clone()),
            ("topology.kubernetes.io/region", m.location.clone()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        let zone = m.zone.as_ref().map_or_else(|| "0".to_owned(), |z| format!("{}-{z}", m.location));
        labels.insert("topology.kubernetes.io/zone".into(), zone);
        let (cpus, memory, arm) = azure_sim::capacity(&m.size).unwrap_or((4, 16, false));
        NodeSpec {
            cpus,
            memory: format!("{memory}Gi"),
            storage: "128Gi".into(),
            arch: if arm { "arm64" } else { "amd64" }.into(),
            pods: settings.max_pods,
            labels,
            annotations: settings.annotations.clone(),
            provider_id: Some(format!("azure://{}", m.id)),
            address: self.addresses().iter().find_map(|a| a.parse().ok()),
            os_image: settings.os_image(),
            kubelet: settings.kubelet.clone(),
            ..NodeSpec::default()
        }
    }
}

/// The same cluster, as this node.
fn as_node(mut file: Kubeconfig, me: &Identity) -> Kubeconfig {
    use base64::Engine as _;
    let b64 = |s: &str| base64::engine::general_purpose::STANDARD.encode(s);
    for user in &mut file.auth_infos {
        let auth = serde_json::from_value(serde_json::json!({
            "client-certificate-data": b64(&me.cert_pem), "client-key-data": b64(me.key_pem.expose())}));
        user.auth_info = auth.ok();
    }
    file
}
