//! Deletion: from every state, with every obstacle.

use crate::samples;
use crate::world::{CRDS, World, condition};
use hypershift::kinds;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::Kind;
use serde_json::json;

fn there(o: Option<&DynamicObject>) -> bool {
    o.is_some()
}

fn gone(o: Option<&DynamicObject>) -> bool {
    o.is_none()
}

fn deleting(o: Option<&DynamicObject>) -> bool {
    o.is_some_and(|o| o.metadata.deletion_timestamp.is_some())
}

impl World {
    async fn delete(&self) {
        self.api(&kinds::CLUSTER, "clusters").delete("demo", &Default::default()).await.unwrap();
    }

    async fn delete_wait(&self) {
        self.until(&kinds::CLUSTER, "clusters", "demo", "gone", gone).await;
        self.until(&kinds::NAMESPACE, "", "clusters-demo", "gone", gone).await;
        for role in
            ["hypershift-cluster-api-clusters-demo", "clusters-demo-csr-approver", "clusters-demo-csr-signer"]
        {
            assert!(self.api(&kinds::CLUSTER_ROLE, "").get_opt(role).await.unwrap().is_none(), "{role}");
            assert!(
                self.api(&kinds::CLUSTER_ROLE_BINDING, "").get_opt(role).await.unwrap().is_none(),
                "{role}"
            );
        }
        for input in ["demo-pull-secret", "demo-ssh-key", "demo-sa-key"] {
            if let Some(o) = self.api(&kinds::SECRET, "clusters").get_opt(input).await.unwrap() {
                let marks = o.metadata.annotations.unwrap_or_default();
                assert!(!marks.keys().any(|k| k.starts_with("referenced-resource.")), "{input}: {marks:?}");
            }
        }
        self.until(&kinds::SECRET, "clusters", "demo-admin-kubeconfig", "gone", gone).await;
    }

    /// Gives an object a finalizer that nobody takes off.
    async fn hold(&self, kind: &reconcile::Kind, namespace: &str, name: &str) {
        let o = self.api(kind, namespace).get(name).await.unwrap();
        let mut all = o.metadata.finalizers.unwrap_or_default();
        all.push("test/held".into());
        self.patch(kind, namespace, name, json!({"metadata": {"finalizers": all}})).await;
    }

    async fn let_go(&self, kind: &reconcile::Kind, namespace: &str, name: &str) {
        self.patch(kind, namespace, name, json!({"metadata": {"finalizers": null}})).await;
    }

    /// Waits until the condition is as wanted, after time has passed.
    async fn blocked(&self, handle: &reconcile::Handle, reason: &str) -> String {
        handle.poke("clusters/demo");
        let o = self
            .until(&kinds::CLUSTER, "clusters", "demo", reason, |o| {
                o.is_some_and(|o| condition(o, "DeletionBlocked")["reason"] == reason)
            })
            .await
            .unwrap();
        condition(&o, "DeletionBlocked")["message"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_goes_and_nothing_is_left() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    w.delete().await;
    w.delete_wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_never_begun_goes_at_once() {
    // Without its inputs it is not valid.
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.condition("ValidReleaseImage", "False").await;
    w.delete().await;
    w.delete_wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_layer_waits_says_why_and_can_be_forced() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    let pool = json!({"metadata": {"name": "workers", "namespace": "clusters", "finalizers": ["test/held"]},
        "spec": {"clusterName": "demo", "replicas": 1, "management": {"upgradeType": "Replace"},
            "release": {"image": "quay.example/ocp-release:4.19.3"},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                "image": {"type": "ImageID", "imageID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/r/providers/Microsoft.Compute/images/i"},
                "subnetID": samples::self_managed()["spec"]["platform"]["azure"]["subnetID"]}}}});
    w.create(&kinds::POOL, pool).await;
    let machine = json!({"metadata": {"name": "m", "namespace": "clusters-demo", "finalizers": ["test/azure"]},
        "spec": {"vmSize": "x", "osDisk": {"osType": "Linux"}}});
    w.create(&kinds::AZURE_MACHINE, machine).await;
    w.hold(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.hold(&kinds::PLANE, "clusters-demo", "demo").await;
    // Of kinds that nobody here has heard of too.
    let stuck =
        || json!({"metadata": {"name": "stuck", "namespace": "clusters-demo", "finalizers": ["test/held"]}});
    w.create(&kinds::CONFIG_MAP, stuck()).await;
    w.create(&Kind::new("coordination.k8s.io", "v1", "Lease", "leases"), stuck()).await;
    w.create(&CRDS, foreign_kind()).await;
    w.until(&CRDS, "", "anchors.harbour.example.com", "being served", |o| {
        o.is_some_and(|o| condition(o, "Established")["status"] == "True")
    })
    .await;
    w.create(&Kind::new("harbour.example.com", "v1", "Anchor", "anchors"), stuck()).await;
    w.delete().await;

    // Pools first; nothing below is touched.
    let now: jiff::Timestamp = clock::system().now();
    w.clock.advance(now.duration_since(clock::Clock::now(&*w.clock)));
    w.until(&kinds::POOL, "clusters", "workers", "deletion", deleting).await;
    assert!(w.blocked(&running.handle, "NodePoolsDeleting").await.contains("NodePool clusters/workers"));
    w.clock.advance(SignedDuration::from_mins(31));
    let said = w.blocked(&running.handle, "NodePoolsDeadlineExceeded").await;
    assert!(said.contains("held by test/held"), "{said}");
    assert!(!deleting(
        w.api(&kinds::CAPI_CLUSTER, "clusters-demo").get_opt("demo-x7k2p").await.unwrap().as_ref()
    ));
    assert!(said.contains("force-delete=node-pools"), "{said}");
    let force =
        |layers: &str| json!({"metadata": {"annotations": {"hypershift.openshift.io/force-delete": layers}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", force("node-pools")).await;
    w.until(&kinds::POOL, "clusters", "workers", "gone", gone).await;

    // Machines: Azure refuses one for ten minutes, and it is given up.
    w.until(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p", "deletion", deleting).await;
    w.api(&kinds::AZURE_MACHINE, "clusters-demo").delete("m", &Default::default()).await.unwrap();
    let refused = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "DeletionFailed",
        "message": "AADSTS700016: the application was not found", "lastTransitionTime": now.to_string()}]}});
    let machines = w.api(&kinds::AZURE_MACHINE, "clusters-demo");
    machines.patch_status("m", &Default::default(), &kube::api::Patch::Merge(&refused)).await.unwrap();
    w.clock.advance(SignedDuration::from_mins(12));
    running.handle.poke("clusters/demo");
    w.until(&kinds::AZURE_MACHINE, "clusters-demo", "m", "gone", gone).await;
    w.clock.advance(SignedDuration::from_mins(21));
    let said = w.blocked(&running.handle, "MachinesDeadlineExceeded").await;
    assert!(
        said.contains("Cluster clusters-demo/demo-x7k2p") && said.contains("force-delete=machines"),
        "{said}"
    );
    assert!(!deleting(w.api(&kinds::PLANE, "clusters-demo").get_opt("demo").await.unwrap().as_ref()));
    w.patch(&kinds::CLUSTER, "clusters", "demo", force("machines")).await;
    w.until(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p", "gone", gone).await;

    // The control plane.
    w.until(&kinds::PLANE, "clusters-demo", "demo", "deletion", deleting).await;
    w.clock.advance(SignedDuration::from_mins(30));
    let said = w.blocked(&running.handle, "ControlPlaneDeadlineExceeded").await;
    assert!(said.contains("HostedControlPlane clusters-demo/demo") && said.contains("test/held"), "{said}");
    w.patch(&kinds::CLUSTER, "clusters", "demo", force("machines,control-plane")).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "gone", gone).await;

    // The namespace, which objects of many kinds hold.
    w.until(&kinds::NAMESPACE, "", "clusters-demo", "deletion", deleting).await;
    w.clock.advance(SignedDuration::from_mins(30));
    let said = w.blocked(&running.handle, "NamespaceDeadlineExceeded").await;
    assert!(said.contains("Namespace clusters-demo") && said.contains("force-delete=namespace"), "{said}");
    w.patch(&kinds::CLUSTER, "clusters", "demo", force("namespace")).await;
    w.delete_wait().await;
}

/// A definition that none of ours knows.
fn foreign_kind() -> serde_json::Value {
    json!({"metadata": {"name": "anchors.harbour.example.com"}, "spec": {
        "group": "harbour.example.com", "scope": "Namespaced",
        "names": {"kind": "Anchor", "plural": "anchors", "singular": "anchor", "listKind": "AnchorList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_group_that_is_gone_wedges_nothing() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    let machine = json!({"metadata": {"name": "m", "namespace": "clusters-demo", "finalizers": ["test/azure"]},
        "spec": {"vmSize": "x", "osDisk": {"osType": "Linux"}}});
    w.create(&kinds::AZURE_MACHINE, machine).await;
    w.hold(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.hold(&kinds::PLANE, "clusters-demo", "demo").await;
    *w.told.group_gone.lock() = true;
    w.clock.advance(clock::system().now().duration_since(clock::Clock::now(&*w.clock)));
    w.delete().await;
    w.until(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p", "deletion", deleting).await;
    w.api(&kinds::AZURE_MACHINE, "clusters-demo").delete("m", &Default::default()).await.unwrap();
    w.until(&kinds::AZURE_MACHINE, "clusters-demo", "m", "gone", gone).await;
    w.let_go(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "deletion", deleting).await;
    w.clock.advance(SignedDuration::from_mins(16));
    running.handle.poke("clusters/demo");
    w.delete_wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_cluster_can_be_deleted_and_the_grace_period_is_kept() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await;
    let change = json!({"spec": {"pausedUntil": "true"}, "metadata": {"annotations": {
        "hypershift.openshift.io/destroy-grace-period": "10m"}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", change).await;
    let paused = w.condition("ReconciliationActive", "False").await;
    assert_eq!(paused["reason"], "ReconciliationPaused");
    w.until(&kinds::PLANE, "clusters-demo", "demo", "pause", |o| {
        o.is_some_and(|o| o.data["spec"]["pausedUntil"] == "true")
    })
    .await;
    w.until(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p", "pause", |o| {
        o.is_some_and(|o| o.data["spec"]["paused"] == true)
    })
    .await;
    w.delete().await;
    let c = w.condition("HostedClusterDestroyed", "True").await;
    assert_eq!(c["reason"], "WaitingForGracePeriod");
    w.clock.advance(SignedDuration::from_mins(11));
    running.handle.poke("clusters/demo");
    w.delete_wait().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guest_cleans_up_before_its_control_plane_goes() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    let mut hc = samples::self_managed();
    hc["metadata"]["annotations"] = json!({"hypershift.openshift.io/cleanup-cloud-resources": "true"});
    w.create(&kinds::CLUSTER, hc).await;
    w.report_available().await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    w.clock.advance(clock::system().now().duration_since(clock::Clock::now(&*w.clock)));
    w.delete().await;
    let said = w.blocked(&running.handle, "ControlPlaneDeleting").await;
    assert!(said.contains("the guest removes what it made in Azure"), "{said}");
    let mut status = crate::world::available("4.19.3");
    let destroyed = json!({"type": "CloudResourcesDestroyed", "status": "True", "reason": "CloudResourcesDestroyed",
        "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"});
    status["conditions"].as_array_mut().unwrap().push(destroyed);
    w.report(status).await;
    w.delete_wait().await;
}

/// A plain `kubectl delete` asks for no cleanup: it goes on, and says what it leaves, before and after the control plane
/// is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_leaves_in_azure_is_said() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    w.hold(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.create(
        &kinds::CONFIG_MAP,
        json!({"metadata": {"name": "stuck", "namespace": "clusters-demo", "finalizers": ["test/held"]}}),
    )
    .await;
    w.delete().await;
    let c = w.condition("CloudResourcesDestroyed", "False").await;
    assert_eq!(c["reason"], "CloudResourcesCleanupSkipped");
    let said = c["message"].as_str().unwrap();
    assert!(said.contains("resource group demo-demo-x7k2p"), "{said}");
    assert!(
        said.contains("kubectl annotate hostedcluster -n clusters demo --overwrite hypershift.openshift.io/cleanup-cloud-resources=true"),
        "{said}"
    );
    w.let_go(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "gone", gone).await;
    w.blocked(&running.handle, "NamespaceDeleting").await;
    assert_eq!(w.condition("CloudResourcesDestroyed", "False").await["reason"], c["reason"]);
    w.let_go(&kinds::CONFIG_MAP, "clusters-demo", "stuck").await;
    w.delete_wait().await;
}

/// Whoever follows the advice in time is heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_can_still_be_asked_to_clean_up() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    w.hold(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    w.clock.advance(clock::system().now().duration_since(clock::Clock::now(&*w.clock)));
    w.delete().await;
    w.condition("CloudResourcesDestroyed", "False").await;
    let ask =
        json!({"metadata": {"annotations": {"hypershift.openshift.io/cleanup-cloud-resources": "true"}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", ask).await;
    w.until(&kinds::CLUSTER, "clusters", "demo", "no word of a skip", |o| {
        o.is_some_and(|o| condition(o, "CloudResourcesDestroyed").is_null())
    })
    .await;
    w.let_go(&kinds::CAPI_CLUSTER, "clusters-demo", "demo-x7k2p").await;
    let said = w.blocked(&running.handle, "ControlPlaneDeleting").await;
    assert!(said.contains("the guest removes what it made in Azure"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_that_somebody_deletes_is_held() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    w.api(&kinds::PLANE, "clusters-demo").delete("demo", &Default::default()).await.unwrap();
    let c = w.condition("ReconciliationSucceeded", "False").await;
    assert!(c["message"].as_str().unwrap().contains("is being deleted, and its HostedCluster is not"), "{c}");
    assert!(w.api(&kinds::PLANE, "clusters-demo").get_opt("demo").await.unwrap().is_some());
    w.delete().await;
    w.delete_wait().await;
}
