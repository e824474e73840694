//! Pods as those who manage them see them, and the making, adopting and releasing of pods.

use crate::events::Note;
use crate::objects::{controller_of, controller_ref, seconds_after};
use crate::tables;
use ek_meta::selector::LabelSelector;
use ek_meta::{Status, object, time};
use ek_server::{Access, Deletion};
use ek_store::Entry;
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Writes of one controller that wait for the disk together.
const TOGETHER: usize = 16;

/// What counts of a pod, read without building the whole of it.
#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    pub node: String,
    pub phase: String,
    pub ready: bool,
    pub ready_since: Option<Timestamp>,
    pub deleting: bool,
    /// When its grace ends, if it is being deleted.
    pub deletion: Option<Timestamp>,
    pub created: Timestamp,
    pub restarts: i64,
    /// When its last container ended.
    pub finished: Option<Timestamp>,
    pub annotations: BTreeMap<String, String>,
    pub entry: Arc<Entry>,
}

#[derive(Deserialize)]
struct Doc<'a> {
    #[serde(borrow)]
    metadata: DocMeta<'a>,
    #[serde(borrow, default)]
    spec: DocSpec<'a>,
    #[serde(borrow, default)]
    status: DocStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    creation_timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocSpec<'a> {
    #[serde(borrow, default)]
    node_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocStatus<'a> {
    #[serde(borrow, default)]
    phase: Cow<'a, str>,
    #[serde(borrow, default)]
    conditions: Option<Vec<DocCondition<'a>>>,
    #[serde(borrow, default)]
    container_statuses: Option<Vec<DocContainer<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocCondition<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    last_transition_time: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocContainer<'a> {
    #[serde(default)]
    restart_count: i64,
    #[serde(borrow, default)]
    state: DocState<'a>,
}

#[derive(Default, Deserialize)]
struct DocState<'a> {
    #[serde(borrow, default)]
    terminated: Option<DocEnd<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocEnd<'a> {
    #[serde(borrow, default)]
    finished_at: Option<Cow<'a, str>>,
}

impl Pod {
    pub fn read(entry: &Arc<Entry>) -> Option<Pod> {
        let bytes = entry.bytes();
        let doc: Doc<'_> = serde_json::from_slice(&bytes).ok()?;
        let (m, st) = (doc.metadata, doc.status);
        let conditions = st.conditions.unwrap_or_default();
        let containers = st.container_statuses.unwrap_or_default();
        let ends = containers.iter().filter_map(|c| c.state.terminated.as_ref()?.finished_at.as_deref());
        let ready = conditions.iter().find(|c| c.kind == "Ready" && c.status == "True");
        Some(Pod {
            name: m.name.into_owned(),
            uid: entry.meta.uid.to_string(),
            node: doc.spec.node_name.into_owned(),
            phase: st.phase.into_owned(),
            ready: ready.is_some(),
            ready_since: ready.and_then(|c| c.last_transition_time.as_deref()).and_then(time::parse),
            deleting: m.deletion_timestamp.is_some(),
            deletion: m.deletion_timestamp.as_deref().and_then(time::parse),
            created: time::parse(&m.creation_timestamp).unwrap_or(Timestamp::MIN),
            finished: ends.filter_map(time::parse).max(),
            restarts: containers.iter().map(|c| c.restart_count).sum(),
            annotations: m.annotations.unwrap_or_default(),
            entry: entry.clone(),
        })
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.entry.meta.label(key)
    }

    pub fn ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Runs, or is going to.
    pub fn active(&self) -> bool {
        !self.deleting && !self.ended()
    }

    /// When it is available: ready for long enough. `None` while it is not ready.
    pub fn available_at(&self, min_ready_seconds: i64) -> Option<Timestamp> {
        if !self.ready {
            return None;
        }
        let since = self.ready_since.unwrap_or(Timestamp::MIN);
        Some(if min_ready_seconds <= 0 { Timestamp::MIN } else { seconds_after(since, min_ready_seconds) })
    }

    pub fn available(&self, min_ready_seconds: i64, now: Timestamp) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|t| t <= now)
    }

    /// What its author says losing it costs.
    pub fn deletion_cost(&self) -> i64 {
        let cost = self.annotations.get("controller.kubernetes.io/pod-deletion-cost");
        cost.and_then(|c| c.parse().ok()).unwrap_or(0)
    }
}

/// Pods around a controller.
#[derive(Debug, Default)]
pub struct Claim {
    pub mine: Vec<Pod>,
    /// Match, and belong to nobody.
    pub adopt: Vec<Pod>,
    /// Belong to it, and match no longer.
    pub release: Vec<Pod>,
}

/// Sorts the pods of a namespace into those the owner has, should have and should let go.
pub fn claim(access: &Access, namespace: &str, owner: &str, selector: &LabelSelector) -> Claim {
    let mut out = Claim::default();
    for (_, entry) in access.in_namespace(&tables::PODS, namespace) {
        let owned = entry.meta.owners.iter().any(|o| &*o.uid == owner);
        let matches = selector.matches(|k| entry.meta.label(k));
        if !owned && (!matches || entry.meta.deleting) {
            continue;
        }
        // Another controller's pod is never taken.
        if !owned && controller_of(&entry).is_some() {
            continue;
        }
        let Some(pod) = Pod::read(&entry) else { continue };
        match (owned, matches) {
            (true, true) => out.mine.push(pod),
            (true, false) => out.release.push(pod),
            (false, _) if pod.ended() => {}
            (false, _) => out.adopt.push(pod),
        }
    }
    out
}

/// Makes the claim true; returns the pods that are the owner's afterwards.
pub async fn settle_claim(access: &Access, owner: &Value, claim: Claim) -> Result<Vec<Pod>, Status> {
    let Claim { mut mine, adopt, release } = claim;
    let (namespace, uid) = (object::namespace(owner), object::uid(owner));
    for pod in &release {
        disown(access, &tables::PODS, namespace, &pod.name, &pod.uid, uid).await?;
    }
    for pod in adopt {
        if own(access, &tables::PODS, owner, &pod.name, &pod.uid).await? {
            mine.push(pod);
        }
    }
    Ok(mine)
}

/// Makes `owner` the controller of an object that has none. Says whether it is now.
pub async fn own(
    access: &Access,
    table: &ek_store::TableName,
    owner: &Value,
    name: &str,
    uid: &str,
) -> Result<bool, Status> {
    let reference = controller_ref(owner);
    let take = |o: &mut Value| {
        let taken = (o["metadata"]["ownerReferences"].as_array().into_iter().flatten())
            .any(|r| r["controller"] == true);
        if object::uid(o) != uid || taken {
            return false;
        }
        match o["metadata"]["ownerReferences"].as_array_mut() {
            Some(all) => all.push(reference.clone()),
            None => o["metadata"]["ownerReferences"] = json!([reference]),
        }
        true
    };
    match access.update(table, object::namespace(owner), name, "", take).await {
        Ok(written) => Ok(written.is_some()),
        Err(e) if e.code == 404 => Ok(false),
        Err(e) => Err(e),
    }
}

/// Takes an owner's reference out of an object.
pub async fn disown(
    access: &Access,
    table: &ek_store::TableName,
    namespace: &str,
    name: &str,
    uid: &str,
    owner: &str,
) -> Result<(), Status> {
    let drop = |o: &mut Value| {
        if object::uid(o) != uid {
            return false;
        }
        let Some(Value::Array(all)) = o.pointer_mut("/metadata/ownerReferences") else { return false };
        let before = all.len();
        all.retain(|r| r["uid"] != owner);
        all.len() != before
    };
    match access.update(table, namespace, name, "", drop).await {
        Err(e) if e.code != 404 => Err(e),
        _ => Ok(()),
    }
}

/// A pod made of a template, named after its owner. Callers add what makes it special.
pub fn from_template(owner: &Value, template: &Value) -> Value {
    let prefix = match format!("{}-", object::name(owner)) {
        // A name that is no prefix of one would be refused for ever.
        p if ek_meta::names::dns_subdomain(p.trim_end_matches('-')).is_empty() => p,
        _ => "pod-".to_owned(),
    };
    let mut meta = json!({
        "generateName": prefix, "namespace": object::namespace(owner), "ownerReferences": [controller_ref(owner)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(v) = template.pointer(&format!("/metadata/{field}")).filter(|v| !v.is_null()) {
            meta[field] = v.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]})
}

fn is_of_ending_namespace(e: &Status) -> bool {
    e.details.iter().flat_map(|d| &d.causes).any(|c| c.reason.as_deref() == Some("NamespaceTerminating"))
}

/// Creates pods: one first, since what refuses one refuses all, then the others together. Returns how many it
/// created, what to tell, and the first error.
pub async fn create(access: &Access, pods: Vec<Value>) -> (Vec<Value>, Vec<Note>, Option<Status>) {
    let (mut made, mut notes, mut failed) = (Vec::new(), Vec::new(), None);
    let mut rest = pods.into_iter();
    let mut note = |result: Result<Value, Status>| match result {
        Ok(pod) => {
            notes.push(Note::normal("SuccessfulCreate", format!("Created pod: {}", object::name(&pod))));
            made.push(pod);
            true
        }
        // The namespace ends, and whatever asked for these pods with it: nobody needs to hear of it.
        Err(e) if is_of_ending_namespace(&e) => false,
        Err(e) => {
            if failed.is_none() {
                notes.push(Note::warning("FailedCreate", format!("Error creating: {}", e.message)));
                failed = Some(e);
            }
            false
        }
    };
    if let Some(first) = rest.next()
        && note(access.create(&tables::PODS, first).await)
    {
        let mut all: Vec<BoxFuture<'_, Result<Value, Status>>> = Vec::new();
        for pod in rest {
            all.push(Box::pin(access.create(&tables::PODS, pod)));
        }
        let mut results = futures::stream::iter(all).buffered(TOGETHER);
        while let Some(result) = results.next().await {
            note(result);
        }
    }
    (made, notes, failed)
}

/// Deletes pods together.
pub async fn delete(access: &Access, namespace: &str, pods: &[&Pod]) -> (Vec<Note>, Option<Status>) {
    let mut all: Vec<BoxFuture<'_, (&str, Result<(), Status>)>> = Vec::new();
    for pod in pods {
        all.push(Box::pin(async move {
            let how = Deletion { uid: Some(&pod.uid), ..Deletion::default() };
            (pod.name.as_str(), access.delete(&tables::PODS, namespace, &pod.name, how).await)
        }));
    }
    let results: Vec<_> = futures::stream::iter(all).buffered(TOGETHER).collect().await;
    let (mut notes, mut failed) = (Vec::new(), None);
    for (name, result) in results {
        match result {
            Ok(()) => notes.push(Note::normal("SuccessfulDelete", format!("Deleted pod: {name}"))),
            Err(e) => {
                notes.push(Note::warning("FailedDelete", format!("Error deleting: {}", e.message)));
                failed = failed.or(Some(e));
            }
        }
    }
    (notes, failed)
}

/// Pods in the order in which they go when there are too many: first what is of least use.
pub fn least_useful_first(pods: &mut [&Pod]) {
    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    for p in pods.iter().filter(|p| p.active()) {
        *per_node.entry(p.node.clone()).or_default() += 1;
    }
    pods.sort_by(|a, b| {
        let phase = |p: &Pod| match p.phase.as_str() {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let crowd = |p: &Pod| per_node.get(&p.node).copied().unwrap_or(0);
        (a.node.is_empty().cmp(&b.node.is_empty()).reverse())
            .then_with(|| phase(a).cmp(&phase(b)))
            .then_with(|| a.ready.cmp(&b.ready))
            .then_with(|| a.deletion_cost().cmp(&b.deletion_cost()))
            .then_with(|| crowd(b).cmp(&crowd(a)))
            .then_with(|| b.ready_since.cmp(&a.ready_since))
            .then_with(|| b.restarts.cmp(&a.restarts))
            .then_with(|| b.created.cmp(&a.created))
            .then_with(|| a.name.cmp(&b.name))
    });
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A pod as a test describes it; `status` as the API has it.
    pub fn pod(name: &str, labels: &Value, node: &str, status: &Value) -> Pod {
        let meta = json!({"name": name, "uid": name, "namespace": "n", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"});
        read(&json!({"metadata": meta, "spec": {"nodeName": node}, "status": status}))
    }

    pub fn read(object: &Value) -> Pod {
        let bytes = serde_json::to_vec(object).unwrap_or_default();
        let meta = ek_store::Meta::from_bytes(&bytes).unwrap_or_default();
        let entry = Arc::new(Entry::new(bytes.into(), 1, meta));
        Pod::read(&entry).unwrap_or_else(|| unreachable!("a pod that can be read"))
    }

    pub fn ready() -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    }

    #[test]
    fn the_least_useful_go_first() {
        let none = json!({});
        let pods = [
            pod("ready", &none, "n1", &ready()),
            pod("running", &none, "n1", &json!({"phase": "Running"})),
            pod("pending", &none, "n1", &json!({"phase": "Pending"})),
            pod("homeless", &none, "", &json!({"phase": "Pending"})),
            pod("crowded", &none, "n2", &ready()),
        ];
        let mut order: Vec<&Pod> = pods.iter().collect();
        least_useful_first(&mut order);
        let names: Vec<&str> = order.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["homeless", "pending", "running", "ready", "crowded"],
            "three share a node, so one of them goes"
        );
    }
}
