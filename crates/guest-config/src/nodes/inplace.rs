//! Upgrades in place: nodes stay, and what they are made of changes.
//!
//! The NodePool controller says on a MachineSet which configuration its nodes should have; the ignition server puts the
//! payload into the token Secret of that configuration. Here both meet: the payload goes into a namespace of the guest, a
//! few nodes at a time are told to take it, and a pod on each does. A node that says that it could not stops the rest.

use super::facts::{MachineFact, NodeFact, SetFact, word};
use super::{Error, Keeper, MACHINE_SET, asking};
use crate::operate::MANAGER;
use apis::names::annotation;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use reconcile::{Failure, Kind, Outcome, Waiting};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pods that change nodes are called so.
pub const DAEMON: &str = "machine-config-daemon-";
/// On such a pod: what it makes of its node.
const TARGET: &str = "hypershift.openshift.io/targetConfigVersion";
/// Key of a token Secret: the image of the release that they run.
const IMAGE: &str = "machine-config-operator-image";
/// What no watch tells of is looked at again.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    Done,
    /// Told, and not there yet.
    Going,
    /// It could not.
    Degraded,
    /// Told something else before, and not there yet: it may be drained.
    Between,
    Waiting,
}

pub fn stand(node: &NodeFact, target: &str) -> Stand {
    let (current, desired, state) =
        (node.mark(word::CURRENT), node.mark(word::DESIRED), node.mark(word::STATE));
    match (desired == target, state) {
        (true, "Degraded") => Stand::Degraded,
        (true, "Done") if current == target => Stand::Done,
        (true, _) => Stand::Going,
        (false, _) if current != desired => Stand::Between,
        (false, "Done" | "") => Stand::Waiting,
        (false, _) => Stand::Between,
    }
}

/// Nobody has said anything of it yet: it is as it booted.
fn is_unmarked(node: &NodeFact) -> bool {
    [word::CURRENT, word::DESIRED].iter().all(|key| node.mark(key).is_empty())
}

/// What to do next; pure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nodes that are to be told.
    pub tell: Vec<String>,
    /// Nodes that need a pod.
    pub daemons: Vec<String>,
    /// Nodes that need none any more.
    pub finished: Vec<String>,
    /// Why nothing goes on.
    pub degraded: Option<String>,
    pub complete: bool,
}

pub fn plan(set: &SetFact, nodes: &[Arc<NodeFact>]) -> Plan {
    let mut plan = Plan::default();
    let mut busy = 0;
    let mut sorted: Vec<&Arc<NodeFact>> = nodes.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut waiting, mut between) = (Vec::new(), Vec::new());
    for node in sorted {
        match stand(node, &set.target) {
            Stand::Waiting if is_unmarked(node) && set.current == set.target => {
                plan.finished.push(node.name.clone());
            }
            Stand::Done => {
                plan.finished.push(node.name.clone());
                busy += usize::from(!node.ready);
            }
            Stand::Going => {
                plan.daemons.push(node.name.clone());
                busy += 1;
            }
            Stand::Degraded => {
                busy += 1;
                plan.daemons.push(node.name.clone());
                let why = node.mark(word::REASON);
                plan.degraded
                    .get_or_insert_with(|| format!("node {} could not be upgraded: {why}", node.name));
            }
            Stand::Between => between.push(node),
            Stand::Waiting => waiting.push(node),
        }
    }
    // They are out already, and what they were told is not there any more: whatever else, they go on.
    for node in between {
        busy += 1;
        plan.tell.push(node.name.clone());
        plan.daemons.push(node.name.clone());
    }
    if plan.degraded.is_none() {
        // Who is not there anyway costs nothing to take first.
        waiting.sort_by_key(|n| n.ready);
        for node in &waiting {
            if busy >= set.most_unavailable {
                break;
            }
            busy += 1;
            plan.tell.push(node.name.clone());
            plan.daemons.push(node.name.clone());
        }
    }
    plan.complete = plan.finished.len() == nodes.len();
    plan
}

fn place(set: &str) -> String {
    format!("{set}-upgrade")
}

pub(super) async fn run(keeper: &Keeper, name: &str) -> Result<Outcome, Failure> {
    let Some(set) = keeper.sets.get(&keeper.namespace, name) else { return Ok(Outcome::Done) };
    if set.target.is_empty() {
        return Ok(Outcome::Done);
    }
    let machines: Vec<Arc<MachineFact>> = keeper.machines.all();
    let ours: Vec<_> = machines.iter().filter(|m| m.set.as_deref() == Some(name)).collect();
    let nodes: Vec<Arc<NodeFact>> =
        ours.iter().filter_map(|m| keeper.nodes.get("", m.node.as_deref()?)).collect();
    let plan = plan(&set, &nodes);
    // A target that went back to what is current may have left nodes that are not: they decide, not the set's words.
    if plan.complete && set.upgrading() && nodes.len() == ours.len() {
        say(keeper, &set, Some(&set.target), None, None).await?;
        return Ok(Outcome::Done);
    }
    if plan.complete && !set.upgrading() {
        // A node that is not known yet may need what lies there.
        if ours.iter().filter(|m| m.node.is_some()).count() == nodes.len() {
            clean(keeper, name).await?;
        }
        return Ok(Outcome::Done);
    }
    let pool = set.pool.clone().unwrap_or_default();
    let secret = format!("token-{pool}-{}", set.target);
    let told = match told(&secret_data(keeper, &secret).await?) {
        Ok(told) => told,
        Err((key, hint)) => {
            let on = Waiting::new(format!("{key} in Secret {secret}"), hint, keeper.clock.now());
            return Ok(Outcome::Waiting { on: vec![on], again: Some(AGAIN) });
        }
    };
    let message = format!(
        "Nodepool update in progress. Target Config version: {}. Total Nodes: {}. Upgraded: {}",
        set.target,
        nodes.len(),
        plan.finished.len()
    );
    match &plan.degraded {
        Some(why) => say(keeper, &set, None, None, Some(why)).await?,
        None => say(keeper, &set, None, Some(&message), None).await?,
    }
    furnish(keeper, name, &told.payload, &set.target).await?;
    for node in &plan.tell {
        let marks = json!({"metadata": {"annotations": {word::DESIRED: set.target}}});
        keeper.patch_node(node, &marks).await?;
    }
    for node in &plan.daemons {
        run_daemon(keeper, name, node, daemon(name, node, &set.target, &told)).await?;
    }
    for node in &plan.finished {
        let pods: Api<Pod> = Api::namespaced(keeper.guest.clone(), &place(name));
        gone(
            pods.delete(&format!("{DAEMON}{node}"), &DeleteParams::default()).await.map(drop),
            "remove a pod",
        )?;
    }
    Ok(Outcome::After(AGAIN))
}

fn gone(result: Result<(), kube::Error>, what: &str) -> Result<(), Error> {
    match result {
        Ok(()) => Ok(()),
        Err(kube::Error::Api(s)) if s.code == 404 => Ok(()),
        Err(e) => Err(asking(what)(e)),
    }
}

/// What a token Secret tells.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// As it lies there.
    payload: String,
    release: String,
    /// What applies it.
    image: String,
}

type Data = BTreeMap<String, ByteString>;

async fn secret_data(keeper: &Keeper, name: &str) -> Result<Data, Error> {
    let secrets: Api<Secret> = Api::namespaced(keeper.management.clone(), &keeper.namespace);
    let secret = secrets.get_opt(name).await.map_err(asking(format!("read Secret {name}")))?;
    Ok(secret.and_then(|s| s.data).unwrap_or_default())
}

/// Or what is missing, and who writes it.
fn told(data: &Data) -> Result<Told, (&'static str, &'static str)> {
    let text = |key: &str| data.get(key).map(|b| String::from_utf8_lossy(&b.0).into_owned());
    let needed = |key: &'static str, hint| text(key).filter(|t| !t.is_empty()).ok_or((key, hint));
    Ok(Told {
        payload: needed(
            "payload",
            "the ignition server writes it; see the NodePool's condition ValidGeneratedPayload",
        )?,
        release: text("release").unwrap_or_default(),
        image: needed(IMAGE, "the NodePool controller writes it if the release has such an image")?,
    })
}

async fn apply(keeper: &Keeper, kind: &Kind, namespace: &str, object: &Value) -> Result<(), Error> {
    let params = PatchParams::apply(MANAGER).force();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let api = kind.api(&keeper.guest, namespace);
    let done = api.patch(name, &params, &Patch::Apply(object)).await.map(drop);
    done.map_err(asking(format!("apply {} {name}", kind.kind)))
}

async fn furnish(keeper: &Keeper, set: &str, payload: &str, hash: &str) -> Result<(), Error> {
    let name = place(set);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
        "pod-security.kubernetes.io/enforce": "privileged", "hypershift.openshift.io/in-place-upgrade": "true"}}});
    apply(keeper, &Kind::of_cluster::<Namespace>(), "", &namespace).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": name},
        "data": {"config": payload, "hash": hash}});
    apply(keeper, &Kind::of::<ConfigMap>(), &name, &map).await
}

/// The pod that changes a node.
fn daemon(set: &str, node: &str, hash: &str, told: &Told) -> Value {
    let (namespace, name) = (place(set), format!("{DAEMON}{node}"));
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {
            "hypershift.openshift.io/release": told.release, TARGET: hash}},
        "spec": {"nodeName": node, "hostNetwork": true, "hostPID": true, "restartPolicy": "OnFailure",
            "enableServiceLinks": false, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "machine-config-daemon", "image": told.image,
                "command": ["/usr/bin/machine-config-daemon"],
                "args": ["start", format!("--node-name={node}"), "--root-mount=/rootfs", "--kubeconfig=/var/lib/kubelet/kubeconfig",
                    "--desired-configmap=/etc/machine-config-daemon-desired-config"],
                "securityContext": {"privileged": true, "runAsUser": 0},
                "volumeMounts": [{"name": "rootfs", "mountPath": "/rootfs"},
                    {"name": "desired-config-mount", "mountPath": "/rootfs/etc/machine-config-daemon-desired-config"}]}],
            "volumes": [{"name": "rootfs", "hostPath": {"path": "/", "type": "Directory"}},
                {"name": "desired-config-mount", "configMap": {"name": namespace}}]}})
}

async fn run_daemon(keeper: &Keeper, set: &str, node: &str, pod: Value) -> Result<(), Error> {
    let (namespace, name) = (place(set), format!("{DAEMON}{node}"));
    let wanted = &pod["metadata"]["annotations"][TARGET];
    let pods: Api<Pod> = Api::namespaced(keeper.guest.clone(), &namespace);
    let there = pods.get_opt(&name).await.map_err(asking(format!("read pod {namespace}/{name}")))?;
    let marks = there.as_ref().and_then(|p| p.metadata.annotations.as_ref());
    match marks.and_then(|a| a.get(TARGET)) {
        Some(there) if *wanted == there.as_str() => Ok(()),
        Some(_) => gone(pods.delete(&name, &DeleteParams::default()).await.map(drop), "remove a pod"),
        None => apply(keeper, &Kind::of::<Pod>(), &namespace, &pod).await,
    }
}

async fn clean(keeper: &Keeper, set: &str) -> Result<(), Error> {
    let spaces: Api<Namespace> = Api::all(keeper.guest.clone());
    let name = place(set);
    let there = spaces.get_opt(&name).await.map_err(asking(format!("read namespace {name}")))?;
    match there.filter(|n| n.metadata.deletion_timestamp.is_none()) {
        Some(_) => gone(spaces.delete(&name, &DeleteParams::default()).await.map(drop), "remove a namespace"),
        None => Ok(()),
    }
}

/// Says on the MachineSet how it goes; what is said already is not said again.
async fn say(
    keeper: &Keeper,
    set: &SetFact,
    current: Option<&str>,
    progress: Option<&str>,
    stopped: Option<&str>,
) -> Result<(), Error> {
    if current.is_none() && set.said.0.as_deref() == progress && set.said.1.as_deref() == stopped {
        return Ok(());
    }
    let mut marks = json!({annotation::NODE_POOL_UPGRADE_IN_PROGRESS_TRUE: progress,
        annotation::NODE_POOL_UPGRADE_IN_PROGRESS_FALSE: stopped});
    if let Some(current) = current {
        marks[annotation::NODE_POOL_CURRENT_CONFIG_VERSION] = json!(current);
    }
    let patch = json!({"metadata": {"annotations": marks}});
    let api = MACHINE_SET.api(&keeper.management, &keeper.namespace);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let done = api.patch(&set.name, &params, &Patch::Merge(&patch)).await.map(drop);
    gone(done, "report an upgrade in place")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, current: &str, desired: &str, state: &str) -> Arc<NodeFact> {
        let marks = [
            (word::CURRENT, current),
            (word::DESIRED, desired),
            (word::STATE, state),
            (word::REASON, "no room"),
        ];
        Arc::new(NodeFact {
            name: name.into(),
            ready: true,
            annotations: marks.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..NodeFact::default()
        })
    }

    fn set(most: usize) -> SetFact {
        SetFact {
            name: "w".into(),
            target: "b".into(),
            current: "a".into(),
            most_unavailable: most,
            ..SetFact::default()
        }
    }

    #[test]
    fn so_many_at_a_time_until_all_have_it() {
        let nodes = [node("1", "a", "a", "Done"), node("2", "a", "a", "Done"), node("3", "a", "a", "Done")];
        assert_eq!(plan(&set(2), &nodes).tell, ["1", "2"]);
        let nodes =
            [node("1", "b", "b", "Done"), node("2", "a", "b", "Working"), node("3", "a", "a", "Done")];
        let p = plan(&set(2), &nodes);
        assert_eq!((p.tell, p.finished, p.complete), (vec!["3".to_owned()], vec!["1".to_owned()], false));
        assert!(plan(&set(1), &nodes).tell.is_empty());
        // Told, and its daemon has not begun: state still says Done of the old one.
        assert_eq!(stand(&node("1", "a", "b", "Done"), "b"), Stand::Going);
        let nodes = [node("1", "b", "b", "Done"), node("2", "b", "b", "Done")];
        assert!(plan(&set(1), &nodes).complete);
    }

    #[test]
    fn a_target_that_goes_back_takes_along_who_left_already() {
        let back = SetFact { target: "a".into(), ..set(1) };
        // One has the other, one is on its way there, one was told and has not begun, one was never told.
        let nodes = [
            node("1", "b", "b", "Done"),
            node("2", "a", "b", "Working"),
            node("3", "a", "b", "Done"),
            node("4", "a", "a", "Done"),
        ];
        let p = plan(&back, &nodes);
        assert!(!p.complete, "the set says that it has what it should");
        assert_eq!((p.tell, p.finished), (vec!["2".to_owned(), "3".to_owned()], vec!["4".to_owned()]));
        let nodes =
            [node("1", "b", "b", "Done"), node("2", "a", "a", "Working"), node("3", "a", "a", "Done")];
        let p = plan(&back, &nodes);
        assert_eq!((p.tell.len(), p.daemons), (0, vec!["2".to_owned()]), "one at a time");
        let nodes = [node("1", "b", "b", "Done"), node("2", "a", "a", "Done")];
        assert_eq!(plan(&back, &nodes).tell, ["1"]);
        let nodes = [node("1", "a", "a", "Done"), node("2", "", "", "")];
        assert!(plan(&back, &nodes).complete, "who says nothing is as it booted");
        assert!(!plan(&set(1), &nodes).complete);
    }

    #[test]
    fn another_target_half_way_takes_nobody_more_than_may_be_missing() {
        let other = SetFact { target: "c".into(), ..set(1) };
        let nodes =
            [node("1", "a", "a", "Done"), node("2", "a", "b", "Working"), node("3", "b", "b", "Degraded")];
        let p = plan(&other, &nodes);
        assert_eq!((p.tell, p.degraded), (vec!["2".to_owned(), "3".to_owned()], None));
        let roomy = SetFact { most_unavailable: 3, ..other };
        assert_eq!(plan(&roomy, &nodes).tell, ["2", "3", "1"]);
        // One that could not take the new one stops who waits, not who is out.
        let nodes =
            [node("1", "a", "c", "Degraded"), node("2", "a", "b", "Working"), node("3", "a", "a", "Done")];
        let p = plan(&roomy, &nodes);
        assert_eq!(p.tell, ["2"]);
        assert!(p.degraded.is_some());
    }

    #[test]
    fn a_daemon_runs_the_image_of_the_release_that_it_brings() {
        let data = |all: &[(&str, &str)]| -> Data {
            all.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec()))).collect()
        };
        let whole =
            [("payload", "p"), ("release", "quay.example/r:4.20.3"), (IMAGE, "quay.example/mco@sha256:1")];
        let pod = daemon("w", "n1", "b", &told(&data(&whole)).unwrap());
        assert_eq!(pod["spec"]["containers"][0]["image"], "quay.example/mco@sha256:1");
        assert_eq!(pod["metadata"]["name"], "machine-config-daemon-n1");
        assert_eq!(pod["metadata"]["annotations"][TARGET], "b");
        assert_eq!(told(&data(&whole[..2])).unwrap_err().0, IMAGE);
        assert_eq!(told(&data(&whole[1..])).unwrap_err().0, "payload");
    }

    #[test]
    fn one_that_could_not_stops_the_rest() {
        let nodes = [node("1", "a", "b", "Degraded"), node("2", "a", "a", "Done")];
        let p = plan(&set(2), &nodes);
        assert!(p.tell.is_empty() && p.degraded.unwrap().contains("node 1 could not be upgraded: no room"));
    }
}
