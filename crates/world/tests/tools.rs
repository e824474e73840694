//! What tests on the data of guests have in common: rights in Azure, waits, kubectl, bytes on disk.

pub use crate::kit::condition;
use crate::kit::{DEADLINE, Kit};
use crate::place::Place;
use arm::ResourceId;
use azure::ops::{ArmType, RoleAssignments};
use kube::api::{Api, DynamicObject};
use reconcile::Kind;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use world::sample::NAMESPACE;

pub const CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");

/// Waits until an object is so, and says how the cluster stands if it never is.
pub async fn until<P: Place>(
    kit: &Kit<P>,
    cluster: &str,
    what: &str,
    api: Api<DynamicObject>,
    name: &str,
    so: impl Fn(&DynamicObject) -> bool,
) -> DynamicObject {
    let seen = |o: Option<&DynamicObject>| o.is_some_and(&so);
    let wait = kube::runtime::wait::await_condition(api.clone(), name, seen);
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(o) => o.unwrap().unwrap(),
        Err(_) => {
            let now = api.get_opt(name).await.unwrap().map(|o| o.data.to_string());
            panic!("never: {what}\n{}\n{now:?}", kit.story(cluster).await)
        }
    }
}

pub fn says(status: &Value, kind: &str, value: &str, words: &str) -> bool {
    let c = condition(status, kind);
    c["status"] == value && c["message"].as_str().is_some_and(|m| m.contains(words))
}

pub async fn put<T: ArmType>(kit: &Kit<impl Place>, id: &ResourceId, body: Value) {
    let body = serde_json::from_value(body).unwrap();
    kit.cloud().client.arm::<T>().put(id, &body).await.unwrap();
}

/// Who a client id is.
pub async fn principal<P: Place>(kit: &Kit<P>, client_id: &str) -> String {
    let graph = kit.cloud().client.graph();
    graph.service_principal_of(client_id).await.unwrap().expect("a principal").id
}

/// Gives a role; what is returned takes it back.
pub async fn grant<P: Place>(kit: &Kit<P>, who: &str, role: &str, scope: &ResourceId) -> ResourceId {
    let cloud = kit.cloud();
    let assignments = cloud.client.arm::<RoleAssignments>();
    let at = assignments.id(scope, &cloud.client.timing().random.uuid()).unwrap();
    let role = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/{role}",
        cloud.subscription
    );
    let body = json!({"properties": {"roleDefinitionId": role, "principalId": who, "principalType": "ServicePrincipal"}});
    assignments.put(&at, &serde_json::from_value(body).unwrap()).await.unwrap();
    at
}

pub async fn revoke<P: Place>(kit: &Kit<P>, grant: &ResourceId) {
    kit.cloud().client.arm::<RoleAssignments>().delete(grant).await.unwrap();
}

/// Who the tests themselves are to Azure.
pub async fn me<P: Place>(kit: &Kit<P>) -> String {
    principal(kit, kit.cloud().env.get("AZURE_CLIENT_ID").unwrap()).await
}

/// Where the disk of an etcd member really is; nothing where only nodes know.
pub async fn disk<P: Place>(kit: &Kit<P>, plane: &str, member: usize) -> Option<PathBuf> {
    let world = kit.inside(&format!("the disk of {plane}/etcd-{member}"))?;
    let claim = kit.api(&CLAIM, plane).get(&format!("data-etcd-{member}")).await.unwrap();
    Some(world.dir().join("nodes/claims/main").join(claim.metadata.uid.unwrap()))
}

/// Whether some file below a directory has these bytes in it.
pub fn on_disk(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|e| match e.path() {
        p if p.is_dir() => on_disk(&p, needle),
        p => std::fs::read(p).unwrap_or_default().windows(needle.len()).any(|w| w == needle),
    })
}

/// Deletes pods of an app and waits for others in their place to be ready.
pub async fn replace<P: Place>(kit: &Kit<P>, cluster: &str, app: &str) {
    let plane = format!("{NAMESPACE}-{cluster}");
    let pods = kit.api(&crate::kit::POD, &plane);
    let labelled = kube::api::ListParams::default().labels(&format!("app={app}"));
    let old = pods.list(&labelled).await.unwrap().items;
    assert!(!old.is_empty(), "pods of {app}");
    for pod in &old {
        pods.delete(pod.metadata.name.as_ref().unwrap(), &Default::default()).await.unwrap();
    }
    let uids: Vec<_> = old.iter().map(|p| p.metadata.uid.clone()).collect();
    let fresh = async || {
        let now = pods.list(&labelled).await.unwrap().items;
        let good = |p: &DynamicObject| {
            !uids.contains(&p.metadata.uid) && crate::kit::is_true(&p.data["status"], "Ready")
        };
        // Fewer than before, if they were being rolled out.
        !now.is_empty() && now.iter().all(good)
    };
    let wait = async {
        while !fresh().await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("{app} never comes back\n{}", kit.story(cluster).await);
    }
}

/// kubectl with a kubeconfig of its own; `None` (and a line that says so) where there is none.
pub struct Kubectl {
    program: PathBuf,
    config: PathBuf,
}

impl Kubectl {
    pub fn new<P: Place>(kit: &Kit<P>, name: &str, kubeconfig: &str) -> Option<Kubectl> {
        let Some(program) = testkit::tools::kubectl() else {
            testkit::tools::skipped("kubectl: there is none, and no go to build one");
            return None;
        };
        let config = kit.file(&format!("{name}.kubeconfig"));
        std::fs::write(&config, kubeconfig).unwrap();
        Some(Kubectl { program, config })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.config).args(args);
        command
    }

    /// What it says, and whether it is content.
    pub async fn run(&self, args: &[&str]) -> (bool, String) {
        let mut command = self.command(args);
        let out = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.success(), text)
    }

    /// Starts it, with what it says going into files.
    pub fn start(&self, args: &[&str], out: &Path, err: &Path) -> Child {
        let file = |p: &Path| std::fs::OpenOptions::new().create(true).append(true).open(p).unwrap();
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(file(out)).stderr(file(err)).spawn().unwrap()
    }
}
