//! `--machines=external` with upstream's own controllers: Cluster API and its provider for Azure, as processes.
//!
//! `cargo xtask upstream` builds both from their published modules and runs this. Their pods are the ones that we render:
//! the same arguments, account, rights, mounted files and minted token; a process takes the place of the container. What it
//! cannot have from the pod is said in [`Container::command`], and nothing else is changed.

use crate::kit::{Kit, is_true};
use crate::pools::node_versions;
use crate::remains::Remains;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use hypershift::kinds;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use testkit::tools::{self, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use world::sample::NAMESPACE;
use world::{External, Flavour, Options};

const CLUSTER: &str = "land";
const PLANE: &str = "clusters-land";
/// The first whose manager knows all flags that we render, and that names its own images.
const VERSION: &str = "4.20.1";
const HEALTH: u16 = 9440;
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";

/// Where this world is, for processes outside of it.
struct Outside {
    /// Of the management cluster.
    url: String,
    ca: String,
    /// Of Azure.
    proxy: SocketAddr,
    authority: String,
}

/// A container that is a process.
struct Container {
    name: &'static str,
    program: PathBuf,
    outside: Arc<OnceLock<Outside>>,
}

impl Program for Container {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let (name, program, outside) = (self.name, self.program.clone(), self.outside.clone());
        Box::pin(async move {
            let around = outside.get().expect("the world is told before there are clusters");
            match Container::live(&ctx, name, &program, around).await {
                Ok(code) => code,
                Err(e) => {
                    ctx.log(format!("{name}: {e}"));
                    1
                }
            }
        })
    }
}

impl Container {
    async fn live(ctx: &ProgramContext, name: &str, program: &Path, around: &Outside) -> io::Result<i32> {
        let health = free_port().await?;
        let probes = ctx.listener(HEALTH).await?;
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (mut command, _kept) =
            Container::command(ctx, name, program, around, health, proxy.local_addr()?).await?;
        let mut child = command.spawn()?;
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, health));
        tokio::select! {
            ended = child.wait() => Ok(ended?.code().unwrap_or(1)),
            // Probes of the pod are answered by the process.
            never = forward(probes, to) => never,
            never = tunnel(proxy, ctx.clone(), around.proxy) => never,
            () = ctx.stopping().cancelled() => {
                child.kill().await?;
                Ok(0)
            }
        }
    }

    /// As rendered, but for what a process has no container for: it is told by flags where its account and its mounts are,
    /// and to listen where others of this machine do not. A lease is refused outside of a pod.
    async fn command(
        ctx: &ProgramContext,
        name: &str,
        program: &Path,
        around: &Outside,
        health: u16,
        proxy: SocketAddr,
    ) -> io::Result<(tokio::process::Command, tempfile::TempDir)> {
        let missing = |what: &str| io::Error::other(format!("{what} is under no mount"));
        let token = ctx.path(format!("{ACCOUNT}/token")).ok_or_else(|| missing("the account"))?;
        let certificates = ctx.path(CERTIFICATES).ok_or_else(|| missing("the webhook's certificate"))?;
        let scratch = tempfile::tempdir()?;
        let kubeconfig = scratch.path().join("kubeconfig");
        let cluster =
            json!({"server": around.url, "certificate-authority-data": STANDARD.encode(&around.ca)});
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": cluster}],
            "users": [{"name": "pod", "user": {"tokenFile": token}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}]});
        std::fs::write(&kubeconfig, text.to_string())?;
        std::fs::create_dir_all(logs())?;
        let log = std::fs::File::create(logs().join(format!("{name}.log")))?;
        let mut command = tokio::process::Command::new(program);
        command.args(ctx.args());
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.arg(format!("--webhook-cert-dir={}", certificates.display()));
        command.arg(format!("--webhook-port={}", free_port().await?));
        command.arg(format!("--health-addr=127.0.0.1:{health}"));
        command.args(["--diagnostics-address=127.0.0.1:0", "--leader-elect=false"]);
        command.env_clear().envs(ctx.env());
        if let Some(path) = ctx.env().get(TOKEN_FILE) {
            command.env(TOKEN_FILE, ctx.path(path).ok_or_else(|| missing(path))?);
        }
        command.env("HTTPS_PROXY", format!("http://{proxy}")).env("SSL_CERT_FILE", &around.authority);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        Ok((command, scratch))
    }
}

/// What they say, for people who wonder.
fn logs() -> PathBuf {
    tools::target_dir().join("upstream")
}

/// For programs that cannot be told to pick one themselves.
async fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port())
}

async fn forward(from: TcpListener, to: SocketAddr) -> io::Result<i32> {
    loop {
        let (mut a, _) = from.accept().await?;
        tokio::spawn(async move {
            if let Ok(mut b) = TcpStream::connect(to).await {
                _ = copy_bidirectional(&mut a, &mut b).await;
            }
        });
    }
}

/// A proxy with a pod's idea of names: Services are where they really are, everything else is Azure's.
async fn tunnel(from: TcpListener, ctx: ProgramContext, azure: SocketAddr) -> io::Result<i32> {
    loop {
        let (mut a, _) = from.accept().await?;
        let ctx = ctx.clone();
        tokio::spawn(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") && head.len() < 4096 {
                head.push(a.read_u8().await?);
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let at = text.split(' ').nth(1).and_then(|t| t.rsplit_once(':')).unwrap_or_default();
            let service = ctx.resolve(at.0, at.1.parse().unwrap_or(443));
            let mut b = match service {
                Some(service) => {
                    let b = TcpStream::connect(service).await?;
                    a.write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n").await?;
                    b
                }
                None => {
                    let mut b = TcpStream::connect(azure).await?;
                    b.write_all(&head).await?;
                    b
                }
            };
            copy_bidirectional(&mut a, &mut b).await.map(drop)
        });
    }
}

/// Upstream's definitions, as `kustomize build` would label them: the contract is found by it.
fn definitions(upstream: &Upstream) -> Vec<Value> {
    let mut all = Vec::new();
    for module in [&upstream.cluster_api, &upstream.provider] {
        let dir = module.dir.join("config/crd/bases");
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in files {
            let mut crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            crd["metadata"]["labels"]["cluster.x-k8s.io/v1beta1"] = json!("v1beta1");
            all.push(crd);
        }
    }
    all
}

struct Stage {
    kit: Kit,
    /// The management cluster's socket.
    _listening: ek_server::Listening,
}

impl Stage {
    async fn start(upstream: &Upstream) -> Stage {
        let outside = Arc::new(OnceLock::new());
        let container = |name, program: &Path| -> Arc<dyn Program> {
            Arc::new(Container { name, program: program.to_owned(), outside: outside.clone() })
        };
        let external = External {
            definitions: definitions(upstream),
            programs: vec![
                ("cluster-capi-controllers", container("cluster-api", &upstream.cluster_api.program)),
                ("azure-cluster-api-controllers", container("capi-provider", &upstream.provider.program)),
            ],
        };
        let options = Options { external: Some(external), ..Options::default() };
        let kit = Kit::start_with(Flavour::Workload, options).await;
        let listening = kit.world.management().listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let cloud = kit.world.cloud();
        let surroundings = cloud.surroundings();
        let said =
            |name: &str| surroundings.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap();
        let known = outside.set(Outside {
            url: format!("https://{}", listening.address),
            ca: kit.world.management().ca_pem().to_owned(),
            proxy: said("HTTPS_PROXY").trim_start_matches("http://").trim_end_matches('/').parse().unwrap(),
            authority: said("SSL_CERT_FILE"),
        });
        assert!(known.is_ok());
        Stage { kit, _listening: listening }
    }
}

async fn ready_nodes(guest: &kube::Client) -> usize {
    let nodes: Api<Node> = Api::all(guest.clone());
    let all = nodes.list(&ListParams::default()).await.unwrap().items;
    let ready = |n: &Node| {
        let all = n.status.iter().flat_map(|s| s.conditions.iter().flatten());
        all.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    all.iter().filter(|n| ready(n)).count()
}

/// A pool whose machines are what they are to be.
fn settled(status: &Value, replicas: i64) -> bool {
    let all = ["Ready", "AllMachinesReady", "AllNodesHealthy"];
    let idle = ["UpdatingVersion", "UpdatingConfig", "UpdatingPlatformMachineTemplate"];
    status["replicas"] == replicas
        && all.iter().all(|c| is_true(status, c))
        && !idle.iter().any(|c| is_true(status, c))
        && node_versions(status) == [(VERSION.to_owned(), replicas, 0)]
}

impl Kit {
    /// How often what somebody keeps of machines was changed.
    async fn generations(&self) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        for kind in [kinds::MACHINE_DEPLOYMENT, kinds::MACHINE_SET] {
            for o in self.api(&kind, PLANE).list(&ListParams::default()).await.unwrap().items {
                let name = format!("{} {}", kind.kind, o.metadata.name.unwrap_or_default());
                all.insert(name, o.metadata.generation.unwrap_or_default());
            }
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_kept_by_upstreams_controllers() {
    let Some(upstream) = tools::upstream().unwrap() else { return };
    assert_eq!(upstream.cluster_api.version, apis::capi::UPSTREAM);
    assert_eq!(upstream.provider.version, apis::capz::UPSTREAM);
    let Stage { kit, _listening } = Stage::start(&upstream).await;
    let before = Remains::of(&kit).await;
    kit.with_cluster(VERSION).await;

    // Two kinds of pools: a MachineDeployment and a MachineSet.
    kit.put(&kinds::POOL, kit.pool("workers", VERSION, 2)).await;
    let mut other = kit.pool("inplace", VERSION, 1);
    other["spec"]["management"]["upgradeType"] = json!("InPlace");
    kit.put(&kinds::POOL, other).await;
    let status = kit.until_pool("workers", "two nodes", |s| settled(s, 2)).await;
    assert_eq!(status["version"], VERSION, "{status:#}");
    kit.until_pool("inplace", "one node", |s| settled(s, 1)).await;
    assert_eq!(kit.machines(), kit.machine_names().await, "and nothing beside them, such as extensions");
    let guest = kit.admin(CLUSTER).await;
    assert_eq!(ready_nodes(&guest).await, 3);
    // Theirs and ours want the same: a field that both set to values of their own is set for ever.
    let generations = kit.generations().await;
    assert!(generations.len() == 3 && generations.values().all(|g| *g <= 5), "{generations:?}");

    // Fewer, others, none.
    kit.change_pool("workers", json!({"spec": {"replicas": 1}})).await;
    kit.until_pool("workers", "one node", |s| settled(s, 1)).await;
    let old = kit.machines();
    kit.change_pool("workers", json!({"spec": {"platform": {"azure": {"vmSize": "Standard_D8s_v5"}}}})).await;
    let new = |s: &Value| settled(s, 1) && kit.machines().len() == 2 && kit.machines() != old;
    kit.until_pool("workers", "another node", new).await;
    for pool in ["workers", "inplace"] {
        kit.api(&kinds::POOL, NAMESPACE).delete(pool, &Default::default()).await.unwrap();
    }
    for pool in ["workers", "inplace"] {
        kit.pool_gone(pool).await;
    }
    assert_eq!(kit.machines(), BTreeSet::new());
    kit.delete(CLUSTER).await;
    kit.gone(CLUSTER).await;
    Remains::of(&kit).await.assert_clean_since(&before, &[CLUSTER]);
    for name in ["cluster-api", "capi-provider"] {
        let log = std::fs::read_to_string(logs().join(format!("{name}.log"))).unwrap();
        let refused: Vec<&str> = log.lines().filter(|l| l.contains("is forbidden")).collect();
        assert!(refused.is_empty(), "rights are missing: {refused:#?}");
    }
    kit.world.stop().await;
}

/// Every object of theirs that we render, with nothing in it that their definitions do not know.
#[tokio::test(flavor = "multi_thread")]
async fn upstreams_definitions_know_every_field_that_we_render() {
    let Some(upstream) = tools::upstream().unwrap() else { return };
    let server = ek_server::ApiServer::start(ek_server::Config::memory()).await.unwrap();
    let client = server.client();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in definitions(&upstream) {
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        crds.patch(&name, &PatchParams::apply("upstream").force(), &Patch::Apply(&crd)).await.unwrap();
    }
    let goldens = tools::workspace_root().join("crates/hypershift/tests/golden");
    let mut kinds_seen = BTreeSet::new();
    for file in ["self-managed.yaml", "managed.yaml", "pool.yaml"] {
        let text = std::fs::read_to_string(goldens.join(file)).unwrap();
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let Some((group, version)) = object["apiVersion"].as_str().and_then(|v| v.split_once('/')) else {
                continue;
            };
            if !group.ends_with("cluster.x-k8s.io") {
                continue;
            }
            let kind = object["kind"].as_str().unwrap();
            let (name, namespace) = (
                object["metadata"]["name"].as_str().unwrap(),
                object["metadata"]["namespace"].as_str().unwrap(),
            );
            let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let spaces: Api<Namespace> = Api::all(client.clone());
            spaces.patch(namespace, &PatchParams::apply("test"), &Patch::Apply(&space)).await.unwrap();
            let plural = format!("{}s", kind.to_lowercase()).replace("identitys", "identities");
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural);
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let strict = PatchParams::apply("test").force().validation_strict();
            let applied = api.patch(name, &strict, &Patch::Apply(&object)).await;
            assert!(applied.is_ok(), "{file}: {kind} {name}: {applied:?}");
            kinds_seen.insert(kind.to_owned());
        }
    }
    // One that is not known is refused, or the above proves nothing.
    let nonsense = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "x"},
        "spec": {"nonsense": 1}});
    let sets = kinds::MACHINE_SET.api(&client, "clusters-demo");
    let strict = PatchParams::apply("test").validation_strict();
    let refused = sets.patch("x", &strict, &Patch::Apply(&nonsense)).await.unwrap_err().to_string();
    assert!(refused.contains("nonsense"), "{refused}");
    let all = [
        "AzureCluster",
        "AzureClusterIdentity",
        "AzureMachineTemplate",
        "Cluster",
        "MachineDeployment",
        "MachineHealthCheck",
    ];
    assert_eq!(kinds_seen, all.map(str::to_owned).into());
    server.stop().await;
}
