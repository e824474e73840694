//! NodePools against an API server: what is written, what is rolled, what is held, what goes.

use crate::samples;
use crate::world::{World, condition};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hypershift::kinds;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

pub const NS: &str = "clusters-demo";

/// A pool of two, as users write it.
pub fn pool(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut o = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": {"name": name, "namespace": "clusters"}, "spec": {
            "clusterName": "demo", "replicas": 2, "release": {"image": "quay.example/ocp-release:4.20.3"},
            "management": {"upgradeType": "Replace", "autoRepair": true},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "availabilityZone": "1",
                "image": {"type": "AzureMarketplace"},
                "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                "subnetID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/demo-demo-x7k2p/subnets/default"}}}});
    change(&mut o);
    o
}

pub fn cluster() -> Value {
    let mut hc = samples::self_managed();
    hc["spec"]["release"]["image"] = json!("quay.example/ocp-release:4.20.3");
    hc
}

/// Whom nodes trust when they fetch ignition.
pub fn ignition_ca() -> Value {
    json!({"metadata": {"name": "ignition-server-ca-cert", "namespace": NS,
        "labels": {"hypershift.openshift.io/hosted-control-plane": NS}}, "stringData": {"tls.crt": "-----BEGIN CERTIFICATE-----"}})
}

impl World {
    /// A cluster that nodes could join.
    pub async fn with_cluster(self) -> World {
        self.create(&kinds::CLUSTER, cluster()).await;
        let there = |o: Option<&DynamicObject>| o.is_some();
        self.until(&kinds::PLANE, NS, "demo", "being", there).await;
        for (name, key) in [("admin-kubeconfig", "kubeconfig"), ("kubeadmin-password", "password")] {
            self.create(
                &kinds::SECRET,
                json!({"metadata": {"name": name, "namespace": NS,
                "labels": {"hypershift.openshift.io/hosted-control-plane": NS}}, "stringData": {key: name}}),
            )
            .await;
        }
        self.create(&kinds::SECRET, ignition_ca()).await;
        self.report(crate::world::available("4.20.3")).await;
        self
    }

    pub async fn pool_condition(&self, name: &str, kind: &str, status: &str) -> Value {
        let o = self
            .until(&kinds::POOL, "clusters", name, &format!("{kind}={status}"), |o| {
                o.is_some_and(|o| condition(o, kind)["status"] == status)
            })
            .await
            .unwrap();
        condition(&o, kind).clone()
    }

    /// Waits for a condition with a reason.
    pub async fn pool_condition_for(&self, name: &str, kind: &str, reason: &str) -> Value {
        let o = self
            .until(&kinds::POOL, "clusters", name, &format!("{kind} because of {reason}"), |o| {
                o.is_some_and(|o| condition(o, kind)["reason"] == reason)
            })
            .await
            .unwrap();
        condition(&o, kind).clone()
    }

    pub async fn md(&self, name: &str, what: &str, good: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
        self.until(&kinds::MACHINE_DEPLOYMENT, NS, name, what, |o| o.is_some_and(&good)).await.unwrap()
    }

    pub async fn secrets(&self, prefix: &str) -> Vec<DynamicObject> {
        let all = self.api(&kinds::SECRET, NS).list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter(|s| s.metadata.name.as_deref().unwrap().starts_with(prefix)).collect()
    }

    /// What machines would report of a deployment that is all there.
    pub async fn settle(&self, name: &str) {
        let md = self.api(&kinds::MACHINE_DEPLOYMENT, NS).get(name).await.unwrap();
        let n = md.data["spec"]["replicas"].clone();
        let status = json!({"status": {"observedGeneration": md.metadata.generation, "replicas": n, "updatedReplicas": n,
            "readyReplicas": n, "availableReplicas": n, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:00Z"}]}});
        let api = self.api(&kinds::MACHINE_DEPLOYMENT, NS);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// A machine as Cluster API makes it.
    pub async fn machine(&self, pool: &str, name: &str, ready: Value) {
        self.create(
            &kinds::MACHINE,
            json!({"metadata": {"name": name, "namespace": NS,
                "annotations": {"hypershift.openshift.io/nodePool": format!("clusters/{pool}")}},
            "spec": {"clusterName": "demo-x7k2p", "bootstrap": {"dataSecretName": "x"}, "version": "4.20.3",
                "infrastructureRef": {"kind": "AzureMachine", "name": name}}}),
        )
        .await;
        let mut ready = ready;
        (ready["type"], ready["lastTransitionTime"]) = (json!("Ready"), json!("2026-03-01T00:00:00Z"));
        let healthy = json!({"type": "NodeHealthy", "status": ready["status"], "lastTransitionTime": "2026-03-01T00:00:00Z"});
        let status = json!({"status": {"conditions": [ready, healthy], "nodeInfo": {"architecture": "amd64", "bootID": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.33.5", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": ""}}});
        let api = self.api(&kinds::MACHINE, NS);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
}

pub fn decoded(secret: &DynamicObject, key: &str) -> String {
    let text = secret.data["data"][key].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
}

fn template_of(md: &DynamicObject) -> &Value {
    &md.data["spec"]["template"]["spec"]
}

fn data_secret(md: &DynamicObject) -> String {
    template_of(md)["bootstrap"]["dataSecretName"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_becomes_a_token_a_stub_a_template_and_a_deployment() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let md = w.md("np", "being", |_| true).await;
    assert_eq!(md.data["spec"]["replicas"], 2);
    assert_eq!(template_of(&md)["version"], "4.20.3");
    let tokens = w.secrets("token-np-").await;
    let stubs = w.secrets("user-data-np-").await;
    assert_eq!((tokens.len(), stubs.len()), (1, 1));
    assert_eq!(stubs[0].metadata.name.as_deref(), Some(data_secret(&md).as_str()));
    let notes = tokens[0].metadata.annotations.clone().unwrap();
    for (key, value) in
        [("ignition-config", "true"), ("nodePool", "clusters/np"), ("node-pool-upgrade-type", "Replace")]
    {
        assert_eq!(notes.get(&format!("hypershift.openshift.io/{key}")).map(String::as_str), Some(value));
    }
    assert!(notes.contains_key("hypershift.openshift.io/last-token-generation-time"));
    let uuid = decoded(&tokens[0], "token");
    assert_eq!(uuid.len(), 36);
    assert_eq!(decoded(&tokens[0], "release"), "quay.example/ocp-release:4.20.3");
    let stub: Value = serde_json::from_str(&decoded(&stubs[0], "value")).unwrap();
    let merge = &stub["ignition"]["config"]["merge"][0];
    assert_eq!(merge["source"], "https://ignition-demo.hc.example.com/ignition");
    assert_eq!(merge["httpHeaders"][0]["value"], format!("Bearer {}", STANDARD.encode(&uuid)));
    let hash = data_secret(&md).rsplit('-').next().unwrap().to_owned();
    assert_eq!(merge["httpHeaders"][2], json!({"name": "TargetConfigVersionHash", "value": hash}));
    let template = template_of(&md)["infrastructureRef"]["name"].as_str().unwrap().to_owned();
    let template = w.api(&kinds::AZURE_TEMPLATE, NS).get(&template).await.unwrap();
    let machine = &template.data["spec"]["template"]["spec"];
    assert_eq!(machine["image"]["marketplace"]["sku"], "420-v2");
    assert_eq!((&machine["failureDomain"], &machine["osDisk"]["diskSizeGB"]), (&json!("1"), &json!(120)));

    // Nothing is current before machines are.
    let np = w.api(&kinds::POOL, "clusters").get("np").await.unwrap();
    assert!(np.data["status"]["version"].is_null(), "{}", np.data["status"]);
    assert!(np.metadata.owner_references.iter().flatten().any(|r| r.kind == "HostedCluster"));
    w.settle("np").await;
    let np = w
        .until(&kinds::POOL, "clusters", "np", "its version", |o| {
            // Annotations follow the status.
            o.is_some_and(|o| {
                let status = &o.data["status"];
                let current = "hypershift.openshift.io/nodePoolCurrentConfigVersion";
                let noted = o.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(current));
                status["version"] == "4.20.3" && status["replicas"] == 2 && noted
            })
        })
        .await
        .unwrap();
    let current = np.metadata.annotations.unwrap();
    assert_eq!(current["hypershift.openshift.io/nodePoolCurrentConfigVersion"], hash);
    w.pool_condition("np", "Ready", "True").await;
    w.pool_condition("np", "UpdatingVersion", "False").await;
    w.pool_condition("np", "SupportedVersionSkew", "True").await;

    // Repair begins when the first machine has fetched ignition.
    let repair = w.pool_condition("np", "AutorepairEnabled", "False").await;
    assert_eq!(repair["reason"], "ignitionNotReached");
    let reached = json!({"metadata": {"annotations": {"hypershift.openshift.io/ignition-reached": "True"}}, "stringData": {"reason": "AsExpected", "message": "made"}});
    w.patch(&kinds::SECRET, NS, tokens[0].metadata.name.as_deref().unwrap(), reached).await;
    w.pool_condition("np", "ReachedIgnitionEndpoint", "True").await;
    w.pool_condition("np", "ValidGeneratedPayload", "True").await;
    w.pool_condition("np", "AutorepairEnabled", "True").await;
    let check = w.api(&kinds::MACHINE_CHECK, NS).get("np").await.unwrap();
    assert_eq!(check.data["spec"]["unhealthyConditions"][0]["timeout"], "8m");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_roll_nodes_and_tokens_outlive_the_roll() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let before = data_secret(&w.md("np", "being", |_| true).await);
    w.settle("np").await;
    w.pool_condition("np", "Ready", "True").await;
    let first = w.secrets("token-np-").await[0].metadata.name.clone().unwrap();

    // Labels, taints, timeouts and size roll nothing.
    w.patch(
        &kinds::POOL,
        "clusters",
        "np",
        json!({"spec": {"replicas": 3, "nodeLabels": {"team": "blue"}, "nodeDrainTimeout": "10m",
        "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}}),
    )
    .await;
    let md = w.md("np", "three", |o| o.data["spec"]["replicas"] == 3).await;
    assert_eq!(data_secret(&md), before);
    let meta = &md.data["spec"]["template"]["metadata"];
    assert_eq!(meta["labels"]["managed.hypershift.openshift.io.team"], "blue");
    assert_eq!(
        meta["annotations"]["hypershift.openshift.io/nodePoolTaints"],
        r#"[{"key":"dedicated","value":"x","effect":"NoSchedule"}]"#
    );
    assert_eq!(template_of(&md)["nodeDrainTimeout"], "10m");

    // A configuration does.
    let config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: mine}\nspec: {kernelArguments: [quiet]}\n";
    w.create(
        &kinds::CONFIG_MAP,
        json!({"metadata": {"name": "mine", "namespace": "clusters"}, "data": {"config": config}}),
    )
    .await;
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"config": [{"name": "mine"}]}})).await;
    let md = w.md("np", "another stub", |o| data_secret(o) != before).await;
    w.pool_condition("np", "UpdatingConfig", "True").await;
    w.pool_condition("np", "UpdatingVersion", "False").await;
    w.until(&kinds::SECRET, NS, &first, "an end", |o| {
        o.is_some_and(|o| {
            let notes = o.metadata.annotations.as_ref().unwrap();
            notes.contains_key("hypershift.openshift.io/ignition-token-expiration-timestamp")
        })
    })
    .await;
    w.until(&kinds::SECRET, NS, &before, "its end", |o| o.is_none()).await;
    // Spaces in it do not.
    let after = data_secret(&md);
    w.patch(
        &kinds::CONFIG_MAP,
        "clusters",
        "mine",
        json!({"data": {"config": format!("# mine\n{config}\n\n")}}),
    )
    .await;
    w.settle("np").await;
    w.pool_condition("np", "UpdatingConfig", "False").await;
    assert_eq!(data_secret(&w.md("np", "being", |_| true).await), after);

    // One that cannot be read holds the pool where it is; it can still be scaled.
    w.patch(
        &kinds::CONFIG_MAP,
        "clusters",
        "mine",
        json!({"data": {"config": "kind: Pod\napiVersion: v1\nmetadata: {name: x}\n"}}),
    )
    .await;
    let said = w.pool_condition("np", "ValidMachineConfig", "False").await;
    assert!(said["message"].as_str().unwrap().contains("ConfigMap mine"), "{said}");
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"replicas": 4}})).await;
    let md = w.md("np", "four", |o| o.data["spec"]["replicas"] == 4).await;
    assert_eq!(data_secret(&md), after);
    assert!(
        w.secrets("user-data-np-").await.iter().any(|s| s.metadata.name.as_deref() == Some(after.as_str()))
    );
}

/// The ignition server draws tokens anew and authorities are renewed, whatever holds a pool: new machines of it must join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_held_still_boots_machines() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let secret = data_secret(&w.md("np", "being", |_| true).await);
    w.settle("np").await;
    w.pool_condition("np", "Ready", "True").await;
    let token = w.secrets("token-np-").await[0].metadata.name.clone().unwrap();
    let shows = async |drawn: &str, ca: &str| {
        w.patch(&kinds::SECRET, NS, &token, json!({"stringData": {"token": drawn}})).await;
        let authority = json!({"stringData": {"tls.crt": ca}});
        w.patch(&kinds::SECRET, NS, "ignition-server-ca-cert", authority).await;
        let bearer = format!("Bearer {}", STANDARD.encode(drawn));
        let source = format!("data:text/plain;base64,{}", STANDARD.encode(ca));
        w.until(&kinds::SECRET, NS, &secret, "the new token and authority", |o| {
            o.is_some_and(|o| {
                let stub: Value = serde_json::from_str(&decoded(o, "value")).unwrap();
                let i = &stub["ignition"];
                i["config"]["merge"][0]["httpHeaders"][0]["value"] == bearer.as_str()
                    && i["security"]["tls"]["certificateAuthorities"][0]["source"] == source.as_str()
            })
        })
        .await;
    };
    // A configuration that nobody can read: no other machines, but more of the same.
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"config": [{"name": "absent"}]}})).await;
    w.pool_condition("np", "ValidMachineConfig", "False").await;
    shows("drawn-anew", "another authority").await;
    // The same where nothing at all is done to machines.
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"nodeDrainTimeout": "soon"}})).await;
    w.pool_condition("np", "ValidMachineTemplate", "False").await;
    shows("drawn-once-more", "a third authority").await;
    assert_eq!(data_secret(&w.md("np", "being", |_| true).await), secret);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_the_cluster_does_not_support_is_not_rolled() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let before = w.md("np", "being", |_| true).await;
    w.settle("np").await;
    w.pool_condition("np", "Ready", "True").await;
    w.patch(
        &kinds::POOL,
        "clusters",
        "np",
        json!({"spec": {"replicas": 5, "release": {"image": "quay.example/ocp-release:4.21.0"}}}),
    )
    .await;
    let said = w.pool_condition("np", "SupportedVersionSkew", "False").await;
    assert!(said["message"].as_str().unwrap().contains("upgrade the HostedCluster first"), "{said}");
    let md = w.md("np", "five", |o| o.data["spec"]["replicas"] == 5).await;
    assert_eq!(template_of(&md), template_of(&before));
    let np = w.api(&kinds::POOL, "clusters").get("np").await.unwrap();
    assert_eq!(np.data["status"]["version"], "4.20.3");
    // A new pool of such a version has no machines at all.
    w.create(
        &kinds::POOL,
        pool("ahead", |o| o["spec"]["release"]["image"] = json!("quay.example/ocp-release:4.21.0")),
    )
    .await;
    w.pool_condition("ahead", "SupportedVersionSkew", "False").await;
    let ready = w.pool_condition("ahead", "Ready", "False").await;
    assert!(ready["message"].as_str().unwrap().contains("newer than the cluster"), "{ready}");
    assert!(w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("ahead").await.unwrap().is_none());
    let said = w.pool_condition("ahead", "ValidReleaseImage", "False").await;
    assert_eq!(said["reason"], "ValidationFailed");
    assert!(said["message"].as_str().unwrap().contains("or use 4.20"), "{said}");
}

/// Releases that no cluster could run are none for pools, and nodes do not go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_pool_may_not_come_to_is_refused() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    let image = |version: &str| json!(format!("quay.example/ocp-release:{version}"));
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let before = w.md("np", "being", |_| true).await;
    w.settle("np").await;
    w.pool_condition("np", "Ready", "True").await;
    w.patch(
        &kinds::POOL,
        "clusters",
        "np",
        json!({"spec": {"replicas": 3, "release": {"image": image("4.19.9")}}}),
    )
    .await;
    let said = w.pool_condition("np", "ValidReleaseImage", "False").await;
    let text = said["message"].as_str().unwrap();
    assert!(text.contains("minors cannot go back; use 4.20 or newer"), "{text}");
    let md = w.md("np", "three", |o| o.data["spec"]["replicas"] == 3).await;
    assert_eq!(template_of(&md), template_of(&before), "nodes stay as they are");
    // Another patch of the same minor is no way back.
    w.patch(&kinds::POOL, "clusters", "np", json!({"spec": {"release": {"image": image("4.20.1")}}})).await;
    w.pool_condition("np", "ValidReleaseImage", "True").await;

    w.create(
        &kinds::POOL,
        pool("old", |o| {
            o["spec"]["release"]["image"] = image("4.13.2");
            o["spec"]["platform"]["azure"]["image"] = json!({"type": "ImageID", "imageID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/r/providers/Microsoft.Compute/images/i"});
        }),
    )
    .await;
    let said = w.pool_condition("old", "ValidReleaseImage", "False").await;
    let text = said["message"].as_str().unwrap();
    assert!(text.contains("the oldest that is supported is 4.14: use that or newer"), "{text}");
    assert!(w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("old").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn troubles_of_machines_are_told_and_deletion_names_what_it_waits_for() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    w.md("np", "being", |_| true).await;
    w.machine("np", "np-b", json!({"status": "False", "severity": "Error", "reason": "QuotaExceeded", "message": "ask for more vCPUs"})).await;
    w.machine(
        "np",
        "np-a",
        json!({"status": "False", "severity": "Error", "reason": "SizeNotInZone", "message": "another zone"}),
    )
    .await;
    w.machine("np", "np-c", json!({"status": "True"})).await;
    w.until(&kinds::POOL, "clusters", "np", "both troubles", |o| {
        o.is_some_and(|o| {
            let c = condition(o, "AllMachinesReady");
            c["reason"] == "QuotaExceeded,SizeNotInZone"
                && c["message"].as_str().unwrap() == "2 of 3 machines are not ready\nMachine np-a: SizeNotInZone: another zone\nMachine np-b: QuotaExceeded: ask for more vCPUs"
        })
    })
    .await;
    w.until(&kinds::POOL, "clusters", "np", "nodes", |o| {
        o.is_some_and(|o| {
            o.data["status"]["nodesInfo"]["nodeVersions"][0]
                == json!({"ocpVersion": "4.20.3", "kubeletVersion": "v1.33.5", "readyNodeCount": 1, "unreadyNodeCount": 2})
        })
    })
    .await;
    w.api(&kinds::POOL, "clusters").delete("np", &Default::default()).await.unwrap();
    w.until(&kinds::POOL, "clusters", "np", "what it waits for", |o| {
        o.is_some_and(|o| {
            let c = condition(o, "Ready");
            c["reason"] == "Deleting" && c["message"].as_str().unwrap().contains("Machine np-a")
        })
    })
    .await;
    for name in ["np-a", "np-b", "np-c"] {
        w.api(&kinds::MACHINE, NS).delete(name, &Default::default()).await.unwrap();
    }
    w.until(&kinds::POOL, "clusters", "np", "its end", |o| o.is_none()).await;
    assert!(w.secrets("token-np").await.is_empty() && w.secrets("user-data-np").await.is_empty());
    for kind in [kinds::MACHINE_DEPLOYMENT, kinds::AZURE_TEMPLATE, kinds::MACHINE_CHECK] {
        assert!(
            w.api(&kind, NS).list(&ListParams::default()).await.unwrap().items.is_empty(),
            "{}",
            kind.kind
        );
    }
}

/// What has a pool's name and no watch tells of goes with it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_pool_is_left_that_nobody_saw() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    let w = w.with_cluster().await;
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    w.md("np", "being", |_| true).await;
    drop(running);
    let unmarked = json!({"metadata": {"annotations": {"hypershift.openshift.io/nodePool": null}}});
    w.patch(&kinds::MACHINE_DEPLOYMENT, NS, "np", unmarked).await;
    w.api(&kinds::POOL, "clusters").delete("np", &Default::default()).await.unwrap();
    let _running = w.operate();
    w.until(&kinds::POOL, "clusters", "np", "its end", |o| o.is_none()).await;
    assert!(w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("np").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_pause_scale_by_themselves_and_upgrade_in_place() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    w.create(
        &kinds::POOL,
        pool("auto", |o| {
            o["spec"].as_object_mut().unwrap().remove("replicas");
            o["spec"]["autoScaling"] = json!({"min": 1, "max": 3});
            o["spec"]["nodeLabels"] = json!({"a": "b"});
        }),
    )
    .await;
    let md = w.md("auto", "its smallest size", |o| o.data["spec"]["replicas"] == 1).await;
    let notes = md.metadata.annotations.unwrap();
    assert_eq!(notes["cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"], "3");
    assert_eq!(notes["capacity.cluster-autoscaler.kubernetes.io/labels"], "a=b");
    // The autoscaler's word counts, within bounds.
    w.patch(&kinds::MACHINE_DEPLOYMENT, NS, "auto", json!({"spec": {"replicas": 2}})).await;
    w.patch(&kinds::POOL, "clusters", "auto", json!({"spec": {"nodeLabels": {"a": "c"}}})).await;
    let md = w
        .md("auto", "the label", |o| {
            o.metadata.annotations.as_ref().unwrap()["capacity.cluster-autoscaler.kubernetes.io/labels"]
                == "a=c"
        })
        .await;
    assert_eq!(md.data["spec"]["replicas"], 2);
    w.patch(&kinds::MACHINE_DEPLOYMENT, NS, "auto", json!({"spec": {"replicas": 9}})).await;
    w.md("auto", "its largest size", |o| o.data["spec"]["replicas"] == 3).await;
    w.pool_condition("auto", "AutoscalingEnabled", "True").await;

    w.patch(&kinds::POOL, "clusters", "auto", json!({"spec": {"pausedUntil": "true"}})).await;
    let paused = |o: &DynamicObject| {
        o.metadata.annotations.as_ref().is_some_and(|a| a.contains_key("cluster.x-k8s.io/paused"))
    };
    w.md("auto", "its pause", paused).await;
    w.pool_condition("auto", "ReconciliationActive", "False").await;
    // What becomes of its machines is told all the same; what it is asked for meanwhile is not on its way.
    w.settle("auto").await;
    w.until(&kinds::POOL, "clusters", "auto", "its machines", |o| {
        o.is_some_and(|o| o.data["status"]["replicas"] == 3 && condition(o, "Ready")["status"] == "True")
    })
    .await;
    let larger = json!({"spec": {"platform": {"azure": {"vmSize": "Standard_D8s_v5"}}}});
    w.patch(&kinds::POOL, "clusters", "auto", larger).await;
    w.machine("auto", "auto-a", json!({"status": "False", "reason": "Lost", "message": "gone"})).await;
    let said = w.pool_condition_for("auto", "AllMachinesReady", "Lost").await;
    assert!(said["message"].as_str().unwrap().contains("auto-a"), "{said}");
    w.pool_condition("auto", "UpdatingPlatformMachineTemplate", "False").await;
    w.patch(&kinds::POOL, "clusters", "auto", json!({"spec": {"pausedUntil": null}})).await;
    w.md("auto", "no pause", |o| !paused(o)).await;
    w.pool_condition("auto", "UpdatingPlatformMachineTemplate", "True").await;

    w.create(
        &kinds::POOL,
        pool("place", |o| {
            o["spec"]["management"] = json!({"upgradeType": "InPlace", "inPlace": {"maxUnavailable": "60%"}});
        }),
    )
    .await;
    let note = |o: &DynamicObject, key: &str| {
        o.metadata.annotations.as_ref().unwrap().get(&format!("hypershift.openshift.io/{key}")).cloned()
    };
    let is_said =
        |o: Option<&DynamicObject>| o.is_some_and(|o| note(o, "nodePoolCurrentConfigVersion").is_some());
    let set = w.until(&kinds::MACHINE_SET, NS, "place", "being", is_said).await.unwrap();
    let first = note(&set, "nodePoolTargetConfigVersion").unwrap();
    assert_eq!(note(&set, "nodePoolCurrentConfigVersion"), Some(first.clone()));
    assert_eq!(note(&set, "nodePoolMaxUnavailable").as_deref(), Some("1"));
    // Of whatever it says by now: it may have been told more since it was first seen.
    let status = json!({"status": {"observedGeneration": 99, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:00Z"}]}});
    let api = w.api(&kinds::MACHINE_SET, NS);
    api.patch_status("place", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    w.pool_condition("place", "Ready", "True").await;
    // What is taken away goes.
    let with = json!({"spec": {"nodeLabels": {"team": "blue", "tier": "web"}, "nodeDrainTimeout": "10m"}});
    w.patch(&kinds::POOL, "clusters", "place", with).await;
    let labels = |o: &DynamicObject| -> Vec<String> {
        let all = o.data["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
        all.keys()
            .filter_map(|k| k.strip_prefix("managed.hypershift.openshift.io.").map(str::to_owned))
            .collect()
    };
    let has = |names: &'static [&'static str], timeout: bool| {
        move |o: Option<&DynamicObject>| {
            o.is_some_and(|o| {
                labels(o) == names
                    && o.data["spec"]["template"]["spec"]["nodeDrainTimeout"].is_string() == timeout
            })
        }
    };
    w.until(&kinds::MACHINE_SET, NS, "place", "labels", has(&["team", "tier"], true)).await;
    let without = json!({"spec": {"nodeLabels": {"team": null}, "nodeDrainTimeout": null}});
    w.patch(&kinds::POOL, "clusters", "place", without).await;
    w.until(&kinds::MACHINE_SET, NS, "place", "fewer labels", has(&["tier"], false)).await;
    w.patch(
        &kinds::SECRET,
        "clusters",
        "demo-ssh-key",
        json!({"stringData": {"id_rsa.pub": "ssh-ed25519 BBBB demo"}}),
    )
    .await;
    let set = w
        .until(&kinds::MACHINE_SET, NS, "place", "another target", |o| {
            o.is_some_and(|o| note(o, "nodePoolTargetConfigVersion") != Some(first.clone()))
        })
        .await
        .unwrap();
    // Only the guest's upgrader says what machines are.
    assert_eq!(note(&set, "nodePoolCurrentConfigVersion"), Some(first));
    w.pool_condition("place", "UpdatingConfig", "True").await;
    let target = note(&set, "nodePoolTargetConfigVersion").unwrap();
    w.patch(&kinds::MACHINE_SET, NS, "place", json!({"metadata": {"annotations": {"hypershift.openshift.io/nodePoolCurrentConfigVersion": target}}})).await;
    let mut status = status;
    status["status"]["observedGeneration"] = json!(set.metadata.generation.unwrap() + 1);
    api.patch_status("place", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    w.pool_condition("place", "UpdatingConfig", "False").await;
}
