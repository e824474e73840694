//! The operators as processes: each with the account, the rights and the command line that are rendered for its pod, and
//! nothing else. The world they work in runs none of them itself.

use crate::zaffre;
use hypershift::kinds;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use self_managed::install;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::Server;
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing, Options, World};

/// Long enough for a loaded machine; nothing waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(300);
const PLANE: &str = "clusters-demo";
/// Who a process would be to Azure; only the operator of HostedClusters is somebody.
const ACCOUNT: [&str; 4] =
    ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_SUBSCRIPTION_ID"];

struct Kit {
    world: World,
    url: String,
    dir: PathBuf,
    env: Vec<(String, String)>,
}

impl Kit {
    fn client(&self) -> kube::Client {
        self.world.client()
    }

    /// A kubeconfig with a token of a service account.
    async fn kubeconfig(&self, namespace: &str, account: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let ask = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() },
            ..Default::default()
        };
        let made = accounts.create_token_request(account, &PostParams::default(), &ask).await.unwrap();
        let ca = self.dir.join("ca.pem");
        std::fs::write(&ca, self.world.management().ca_pem()).unwrap();
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority": ca}}],
            "users": [{"name": "c", "user": {"token": made.status.unwrap().token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
        let file = self.dir.join(format!("{namespace}-{account}"));
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// Starts what a container would, with its words; `more` comes after them.
    fn start(&self, container: &Value, pod: &str, namespace: &str, somebody: bool, more: &[&str]) -> Server {
        let words =
            [&container["command"], &container["args"]].into_iter().filter_map(Value::as_array).flatten();
        let mut given: Vec<String> = Vec::new();
        for word in words.skip(1).map(|w| w.as_str().unwrap()) {
            let word = word.replace("$(MY_NAMESPACE)", namespace).replace("$(POD_NAMESPACE)", namespace);
            given.push(word.replace("$(POD_NAME)", pod));
        }
        // Ports and files are the machine's, not a pod's.
        let replaced: Vec<&str> = more.iter().filter_map(|m| m.split('=').next()).collect();
        given.retain(|w| !replaced.contains(&w.split('=').next().unwrap_or_default()));
        let mut c = zaffre();
        c.args(given).args(more).current_dir(&self.dir).env("POD_NAME", pod);
        c.envs(self.env.iter().filter(|(n, _)| somebody || !ACCOUNT.contains(&n.as_str())).cloned());
        for variable in container["env"].as_array().into_iter().flatten() {
            if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
                c.env(name, value);
            }
        }
        Server::spawn(c).unwrap()
    }

    async fn until(
        &self,
        kind: &reconcile::Kind,
        place: (&str, &str),
        processes: &[&Server],
        what: &str,
        so: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let api = kind.api(&self.client(), place.0);
        let seen = |o: Option<&DynamicObject>| o.is_some_and(&so);
        let wait = kube::runtime::wait::await_condition(api.clone(), place.1, seen);
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => {
                let now = api.get_opt(place.1).await.unwrap().map(|o| o.data["status"].clone());
                let said: String = processes.iter().map(|p| p.stderr()).collect();
                panic!("{} {}: never {what}: {now:#?}\n{said}", kind.kind, place.1);
            }
        }
    }
}

fn condition<'a>(o: &'a DynamicObject, kind: &str) -> &'a Value {
    let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

fn is_true(kind: &'static str) -> impl Fn(&DynamicObject) -> bool {
    move |o| condition(o, kind)["status"] == "True"
}

fn get(url: &str, path: &str) -> String {
    let mut tcp = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(tcp, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    tcp.read_to_string(&mut text).unwrap();
    text
}

async fn holder(leases: &Api<Lease>, name: &str) -> String {
    let held = leases.get_opt(name).await.unwrap().and_then(|l| l.spec?.holder_identity);
    held.unwrap_or_default()
}

/// Waits until a process has read what there is; one that does not lead gets there too.
async fn ready(process: &Server) {
    let wait = async {
        while !get(process.url(), "/readyz").starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.expect("a process that does not lead is ready too");
}

/// Waits until a lease is held by a pod.
async fn held_by(leases: &Api<Lease>, name: &str, pod: &str) {
    let by = |l: Option<&Lease>| {
        let holder = l.and_then(|l| l.spec.as_ref()?.holder_identity.as_deref()).unwrap_or_default();
        holder.starts_with(pod)
    };
    let wait = kube::runtime::wait::await_condition(leases.clone(), name, by);
    tokio::time::timeout(DEADLINE, wait).await.expect("somebody leads").unwrap();
}

async fn container(kit: &Kit, namespace: &str, name: &str, processes: &[&Server]) -> Value {
    let o = kit.until(&kinds::DEPLOYMENT, (namespace, name), processes, "being", |_| true).await;
    o.data["spec"]["template"]["spec"]["containers"][0].clone()
}

/// What an installation brings, but no pods: the processes of this test are in their place.
async fn installed(client: &kube::Client, image: &str) {
    let words = ["--development", "--platform-monitoring=None", "--hypershift-image", image];
    let chosen = ["--metrics-set=All", "--cert-rotation-scale=30m"];
    let words: Vec<&str> = words.into_iter().chain(chosen).collect();
    let install = install::Args::of(&words).unwrap().objects(&install::Inputs::default()).unwrap();
    let known = reconcile::Kinds::builtin();
    // Priority classes are made only if they are absent; the world has them.
    for object in install.resources.into_iter().filter(|o| o["kind"] != "PriorityClass") {
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let kind = known.find(version, kind).unwrap();
        let at = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("zaffre-install").force();
        kind.api(client, at).patch(name, &params, &Patch::Apply(&object)).await.unwrap();
    }
}

async fn start(dir: &Path) -> (Kit, ek_server::Listening) {
    let world = World::start(Options { operators: false, ..Options::default() }).await.unwrap();
    let listening = world.management().listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let url = format!("https://{}", listening.address);
    let pair = |l: &str| {
        let (name, value) = l.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').to_owned()))
    };
    let env = world.cloud().sim.env().lines().filter_map(pair).collect();
    (Kit { world, url, dir: dir.to_owned(), env }, listening)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_processes_with_the_rights_of_their_pods() {
    let dir = tempfile::tempdir().unwrap();
    let (kit, listening) = start(dir.path()).await;
    let landing = Landing::make(kit.world.cloud(), kit.world.dir(), "land", Flavour::Workload).await.unwrap();
    let image = kit.world.cloud().image("zaffre");
    installed(&kit.client(), &image).await;
    let config = kit.kubeconfig("hypershift", "operator").await;
    let config = format!("--kubeconfig={}", config.display());
    let words = container(&kit, "hypershift", "operator", &[]).await;
    let image = format!("--image={image}");
    let begin = |pod: &str| {
        let here = ["--metrics-addr=127.0.0.1:0", "--health-address=127.0.0.1:0"];
        kit.start(
            &words,
            pod,
            "hypershift",
            true,
            &[here[0], here[1], &config, &image, "--lease-duration=10"],
        )
    };
    let leases: Api<Lease> = Api::namespaced(kit.client(), "hypershift");
    let first = begin("operator-a");
    held_by(&leases, "hypershift-operator", "operator-a").await;
    let second = begin("operator-b");
    ready(&second).await;

    // Half of what the cluster needs is not there, and so it is known where the first one is when it is killed.
    let mut demo = Sample::new(&kit.world, &landing, "demo", "4.19.3").unwrap();
    let [user, password] = ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"].map(|n| crate::azure::get(&kit.env, n));
    let auth = format!("{user}:{password}");
    let auth = json!({"auths": {&kit.world.cloud().registry: {"auth": base64(&auth)}}}).to_string();
    demo.inputs[0]["stringData"][".dockerconfigjson"] = json!(auth);
    let late = demo.inputs.pop().unwrap();
    demo.create(&kit.world).await.unwrap();
    let cluster = (NAMESPACE, "demo");
    let invalid = |o: &DynamicObject| condition(o, "ValidConfiguration")["status"] == "False";
    let seen = kit.until(&kinds::CLUSTER, cluster, &[&first], "refused", invalid).await;
    let why = condition(&seen, "ValidConfiguration")["message"].as_str().unwrap().to_owned();
    assert!(why.contains("demo-sa-key"), "{why}");
    first.kill().unwrap();
    let secrets: Api<Secret> = Api::namespaced(kit.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(late).unwrap()).await.unwrap();
    held_by(&leases, "hypershift-operator", "operator-b").await;
    kit.until(&kinds::PLANE, (PLANE, "demo"), &[&second], "made by the second one", |_| true).await;

    // The operator of the control plane, from what its pod says.
    let words = container(&kit, PLANE, "control-plane-operator", &[&second]).await;
    let pods: Api<Pod> = Api::namespaced(kit.client(), PLANE);
    let pod = loop {
        let all = pods.list(&ListParams::default().labels("app=control-plane-operator")).await.unwrap();
        if let Some(name) = all.items.into_iter().find_map(|p| p.metadata.name) {
            break name;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let plane_config = kit.kubeconfig(PLANE, "control-plane-operator").await;
    let own = format!("--kubeconfig={}", plane_config.display());
    let here = ["--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0"];
    let planes = kit.start(&words, &pod, PLANE, false, &[here[0], here[1], &own]);
    let available = is_true("KubeAPIServerAvailable");
    kit.until(&kinds::PLANE, (PLANE, "demo"), &[&second, &planes], "its API available", available).await;

    // What was chosen at the installation has come through all of them.
    let pki = container(&kit, PLANE, "control-plane-pki-operator", &[&second, &planes]).await;
    for (place, chosen) in [(&words, ("METRICS_SET", "All")), (&pki, ("CERT_ROTATION_SCALE", "30m"))] {
        let chosen = json!({"name": chosen.0, "value": chosen.1});
        assert!(place["env"].as_array().unwrap().contains(&chosen), "{}", place["env"]);
    }

    // Its rights end where its namespace does.
    let file = kube::config::Kubeconfig::read_from(&plane_config).unwrap();
    let limited = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    let limited = kube::Client::try_from(limited).unwrap();
    let refused =
        Api::<Secret>::namespaced(limited, NAMESPACE).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(ref s) if s.code == 403), "{refused}");

    // The operator of the guest's configuration. Its kubeconfig names a Service of the cluster; here is where that is.
    let words = container(&kit, PLANE, "hosted-cluster-config-operator", &[&second, &planes]).await;
    let inside: Api<Secret> = Api::namespaced(kit.client(), PLANE);
    let secret = inside.get("hcco-kubeconfig").await.unwrap().data.unwrap();
    let mut target: Value = serde_saphyr::from_slice(&secret["kubeconfig"].0).unwrap();
    let at = kit.until(&kinds::PLANE, (PLANE, "demo"), &[], "somewhere", |_| true).await;
    let at = &at.data["status"]["controlPlaneEndpoint"];
    target["clusters"][0]["cluster"]["server"] =
        json!(format!("https://{}:{}", at["host"].as_str().unwrap(), at["port"]));
    target["clusters"][0]["cluster"]["tls-server-name"] = json!("kube-apiserver");
    std::fs::write(dir.path().join("guest"), target.to_string()).unwrap();
    let own = kit.kubeconfig(PLANE, "hosted-cluster-config-operator").await;
    let own = format!("--kubeconfig={}", own.display());
    let guest = kit.start(
        &words,
        "config-operator",
        PLANE,
        false,
        &[here[0], here[1], &own, "--target-kubeconfig=guest"],
    );
    let all = [&second, &planes, &guest];
    let configured = is_true("ConfigOperatorReconciliationSucceeded");
    kit.until(&kinds::PLANE, (PLANE, "demo"), &all, "configured", configured).await;
    let o = kit.until(&kinds::CLUSTER, cluster, &all, "available", is_true("Available")).await;
    assert_eq!(condition(&o, "ReconciliationSucceeded")["status"], "True");
    assert_eq!(condition(&o, "Degraded")["status"], "False");

    // Numbers: of the controllers, and of clusters.
    let page = get(second.url(), "/metrics");
    for line in [
        "leader_election_master_status{name=\"hypershift-operator\"} 1",
        "controller_runtime_reconcile_total{controller=\"hosted-cluster\",result=",
        "hypershift_hostedclusters{platform=\"Azure\",identity=\"WorkloadIdentities\"} 1",
        "hosted_cluster_azure_info{namespace=\"clusters\",name=\"demo\"",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    assert!(get(planes.url(), "/metrics").contains("controller=\"hosted-control-plane\""));
    // (The guest gives its rights while it starts; until then, its operator is told so.)
    for process in [&second, &planes] {
        let said = process.stderr();
        assert!(!said.contains("forbidden"), "{said}");
    }
    // Whoever ends in order gives its place back at once.
    assert!(second.stop().unwrap().success());
    assert_eq!(holder(&leases, "hypershift-operator").await, "");
    assert!(planes.stop().unwrap().success() && guest.stop().unwrap().success());
    listening.drain().await;
    kit.world.stop().await;
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
