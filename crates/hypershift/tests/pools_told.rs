//! What a NodePool says of what is wrong with it: a row for each, with its condition, reason and way out.

use crate::pools::{NS, cluster, ignition_ca, pool};
use crate::world::{World, boot_images, condition, release};
use apis::hypershift::status::PayloadArch;
use apis::hypershift::{HostedCluster, NodePool};
use hypershift::nodepool::machines::Refs;
use hypershift::nodepool::rollout::Rollout;
use hypershift::nodepool::room::Room;
use hypershift::nodepool::status::{self, Endpoint, Seen, Target};
use hypershift::nodepool::watched::{Check, Token, Word, Workload};
use hypershift::nodepool::{template, validate};
use hypershift::validate::Problem;
use hypershift::{NoRelease, Payload, kinds};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::Pause;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// A pool with something wrong, what a pass finds besides, and what is said of it.
struct Row {
    what: &'static str,
    pool: fn(&mut Value),
    finds: fn(&mut Found),
    condition: &'static str,
    status: &'static str,
    reason: &'static str,
    says: &'static [&'static str],
}

/// What a pass finds beside the pool.
struct Found {
    payload: Payload,
    endpoint: Endpoint,
    conflict: Option<String>,
    workload: Workload,
    check: Option<Check>,
    /// Why there is no payload after all.
    none: Option<NoRelease>,
    skew: Option<String>,
    target: Option<Target>,
    token: Option<Token>,
}

fn asis(_: &mut Value) {}
fn nothing(_: &mut Found) {}

const INVALID: &str = "ValidationFailed";

const TABLE: &[Row] = &[
    Row {
        what: "steps of nothing",
        pool: |o| {
            o["spec"]["management"]["replace"] =
                json!({"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})
        },
        finds: nothing,
        condition: "UpdateManagementEnabled",
        status: "False",
        reason: INVALID,
        says: &["maxSurge and maxUnavailable are both 0", "raise one of them"],
    },
    Row {
        what: "steps that are no number",
        pool: |o| {
            o["spec"]["management"]["replace"] =
                json!({"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}})
        },
        finds: nothing,
        condition: "UpdateManagementEnabled",
        status: "False",
        reason: INVALID,
        says: &["spec.management.replace.rollingUpdate.maxSurge", "write 1 or \"10%\""],
    },
    Row {
        what: "a label that is none",
        pool: |o| o["spec"]["nodeLabels"] = json!({"a b": "c"}),
        finds: nothing,
        condition: "ValidMachineTemplate",
        status: "False",
        reason: INVALID,
        says: &["spec.nodeLabels: \"a b\" is not a label's key", "write name or domain/name"],
    },
    Row {
        what: "a taint twice",
        pool: |o| {
            let taint = |v: &str| json!({"key": "a", "value": v, "effect": "NoSchedule"});
            o["spec"]["taints"] = json!([taint("x"), taint("y")]);
        },
        finds: nothing,
        condition: "ValidMachineTemplate",
        status: "False",
        reason: INVALID,
        says: &["spec.taints[1] has the key and effect of another, a:NoSchedule", "keep one of them"],
    },
    Row {
        what: "a timeout that is none",
        pool: |o| o["spec"]["nodeDrainTimeout"] = json!("soon"),
        finds: nothing,
        condition: "ValidMachineTemplate",
        status: "False",
        reason: INVALID,
        says: &["spec.nodeDrainTimeout \"soon\" is no duration", "10m"],
    },
    Row {
        what: "processors that Azure has not",
        pool: |o| o["spec"]["arch"] = json!("s390x"),
        finds: nothing,
        condition: "ValidArchPlatform",
        status: "False",
        reason: "InvalidArchPlatform",
        says: &["Azure has no machines of spec.arch s390x", "use amd64 or arm64"],
    },
    Row {
        what: "processors that the release has not",
        pool: |o| o["spec"]["arch"] = json!("arm64"),
        finds: |f| f.payload.arch = Some(PayloadArch::Amd64),
        condition: "ValidArchPlatform",
        status: "False",
        reason: "InvalidArchPlatform",
        says: &["the release is for AMD64, and spec.arch is arm64", "use a multi-architecture release"],
    },
    Row {
        what: "a release that names no image",
        pool: asis,
        finds: |f| {
            f.payload.release = release("4.19.3");
            f.payload.boot = boot_images("4.19.3");
        },
        condition: "ValidPlatformImage",
        status: "False",
        reason: INVALID,
        says: &["4.19.3", "spec.platform.azure.image"],
    },
    Row {
        what: "a release without images for these processors",
        pool: |o| o["spec"]["arch"] = json!("arm64"),
        finds: nothing,
        condition: "ValidPlatformImage",
        status: "False",
        reason: INVALID,
        says: &["aarch64", "spec.platform.azure.image"],
    },
    Row {
        what: "nobody to trust",
        pool: asis,
        finds: |f| f.endpoint = Endpoint::Missing("IgnitionCACertMissing", "the CA is not there".into()),
        condition: "IgnitionEndpointAvailable",
        status: "False",
        reason: "IgnitionCACertMissing",
        says: &["the CA is not there"],
    },
    Row {
        what: "a name that is not found",
        pool: asis,
        finds: |f| f.endpoint = Endpoint::Missing("ExternalDNSHostNotReachable", "x is in no DNS".into()),
        condition: "IgnitionEndpointAvailable",
        status: "False",
        reason: "ExternalDNSHostNotReachable",
        says: &["x is in no DNS"],
    },
    Row {
        what: "a release that there is not",
        pool: asis,
        finds: |f| f.none = Some(NoRelease::Invalid("there is no such image".into())),
        condition: "ValidReleaseImage",
        status: "False",
        reason: INVALID,
        says: &["there is no such image"],
    },
    Row {
        what: "machines in the pods' network",
        pool: asis,
        finds: |f| f.conflict = Some("machine m has the address 10.132.0.4".into()),
        condition: "ClusterNetworkCIDRConflict",
        status: "True",
        reason: "InvalidConfiguration",
        says: &["machine m has the address 10.132.0.4"],
    },
    Row {
        what: "an upgrade in place that failed",
        pool: |o| o["spec"]["management"] = json!({"upgradeType": "InPlace"}),
        finds: |f| f.workload.stuck = "node n: the disk is full".into(),
        condition: "UpdatingConfig",
        status: "False",
        reason: "InplaceUpgradeFailed",
        says: &["node n: the disk is full"],
    },
    Row {
        what: "too many that are broken",
        pool: asis,
        finds: |f| {
            let message = "2 of 2 machines are unhealthy: nobody is replaced".into();
            let word =
                Word { status: "False".into(), reason: "TooManyUnhealthy".into(), message, severe: false };
            f.check = Some(Check { pool: "clusters/np".into(), remediation: Some(word) });
        },
        condition: "Ready",
        status: "False",
        reason: "TooManyUnhealthy",
        says: &["2 of 2 machines are unhealthy"],
    },
];

/// Two machines that are all there.
fn workload() -> Workload {
    let ready = Word { status: "True".into(), ..Word::default() };
    Workload {
        name: "np".into(),
        pool: "clusters/np".into(),
        replicas: 2,
        total: 2,
        updated: 2,
        ready: 2,
        available: 2,
        condition: Some(ready),
        ..Workload::default()
    }
}

fn target() -> Target {
    Target {
        rollout: Rollout { hash: "new".into(), config: "new-config".into(), payload: String::new() },
        refs: Refs {
            data_secret: "user-data-np-new".into(),
            template: "np-t".into(),
            version: "4.20.3".into(),
        },
        kubernetes: "1.33.5".into(),
    }
}

/// The conditions of a pool, as a pass that finds this would write them.
fn told(pool: &Value, found: &Found) -> DynamicObject {
    let np: NodePool = serde_json::from_value(pool.clone()).unwrap();
    let hc: HostedCluster = serde_json::from_value(cluster()).unwrap();
    let mut problems = validate::problems(&np, &hc);
    problems.extend(validate::arch(&np, &hc, &found.payload));
    let azure = np.spec.platform.azure.as_ref().unwrap();
    problems.extend(template::image(azure, np.spec.arch, &found.payload).err().map(|e| Problem {
        condition: "ValidPlatformImage",
        reason: INVALID,
        message: e.to_string(),
    }));
    let release = found.none.clone().map_or_else(|| Ok(found.payload.clone()), Err);
    let seen = Seen {
        np: &np,
        problems: &problems,
        pause: &Ok(Pause::No),
        release: Some(&release),
        endpoint: &found.endpoint,
        skew: found.skew.clone(),
        target: found.target.as_ref(),
        token: found.token.as_ref(),
        machines: &[],
        workload: Some(&found.workload),
        check: found.check.as_ref(),
        conflict: found.conflict.clone(),
        profile: &[],
        unscalable: None,
        room: &Room::default(),
        waiting: None,
        error: None,
    };
    let mut o: DynamicObject = serde_json::from_value(pool.clone()).unwrap();
    o.data["status"] = status::status(&o, &seen, "2026-03-01T00:00:00Z".parse().unwrap());
    o
}

fn found() -> Found {
    Found {
        payload: Payload {
            release: release("4.20.3"),
            arch: Some(PayloadArch::Multi),
            boot: boot_images("4.20.3"),
        },
        endpoint: Endpoint::There,
        conflict: None,
        workload: workload(),
        check: None,
        none: None,
        skew: None,
        target: Some(target()),
        token: None,
    }
}

/// A pool whose machines are of an older configuration.
fn rolling(change: fn(&mut Value)) -> Value {
    pool("np", |o| {
        o["metadata"]["annotations"] = json!({"hypershift.openshift.io/nodePoolCurrentConfig": "old-config"});
        change(o);
    })
}

#[test]
fn every_trouble_has_its_condition() {
    let well = told(&rolling(asis), &found());
    for row in TABLE {
        let fine = condition(&well, row.condition);
        assert!(
            fine.is_null() || fine["reason"] != row.reason,
            "{}: said of a pool that has it not: {fine}",
            row.what
        );
        let mut found = found();
        (row.finds)(&mut found);
        let o = told(&rolling(row.pool), &found);
        let said = condition(&o, row.condition);
        assert_eq!(
            (said["status"].as_str(), said["reason"].as_str()),
            (Some(row.status), Some(row.reason)),
            "{}: {said}",
            row.what
        );
        for part in row.says {
            let message = said["message"].as_str().unwrap();
            assert!(message.contains(part), "{}: {part:?} is not in {message:?}", row.what);
        }
    }
    // What is mended is not said any more.
    let mut found = found();
    (found.endpoint, found.conflict) =
        (Endpoint::Missing("IgnitionCACertMissing", "x".into()), Some("y".into()));
    let mut o = told(&rolling(asis), &found);
    assert!(!condition(&o, "ClusterNetworkCIDRConflict").is_null());
    let before = o.data["status"].take();
    let mut mended = rolling(asis);
    mended["status"] = before;
    let o = told(&mended, &self::found());
    for kind in ["IgnitionEndpointAvailable", "ClusterNetworkCIDRConflict"] {
        assert!(condition(&o, kind).is_null(), "{kind}");
    }
}

/// A pool that is held does not stop what its machines were told before.
#[test]
fn a_roll_that_goes_on_is_told_whatever_holds_the_pool() {
    let pool = pool("np", |o| {
        o["metadata"]["annotations"] = json!({"hypershift.openshift.io/nodePoolCurrentConfig": "old-config",
            "hypershift.openshift.io/nodePoolCurrentConfigVersion": "aaaaaaaa",
            "hypershift.openshift.io/nodePoolPlatformMachineTemplate": "np-t"});
        o["status"] = json!({"version": "4.20.3"});
    });
    let held = |version: &str, hash: &str, template: &str, skew: Option<&str>| {
        let mut found = Found { target: None, skew: skew.map(str::to_owned), ..found() };
        let (data_secret, template) = (format!("user-data-np-{hash}"), template.to_owned());
        found.workload = Workload { version: version.into(), data_secret, template, ..found.workload };
        found.payload.release = release("4.21.0");
        let o = told(&pool, &found);
        ["UpdatingVersion", "UpdatingConfig", "UpdatingPlatformMachineTemplate"].map(|kind| {
            let c = condition(&o, kind);
            format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
        })
    };
    let (no, yes) = ("False AsExpected", "True AsExpected");
    assert_eq!(held("4.20.3", "aaaaaaaa", "np-t", None), [no, no, no]);
    assert_eq!(held("4.20.3", "bbbbbbbb", "np-t", None), [no, yes, no]);
    assert_eq!(held("4.20.4", "bbbbbbbb", "np-u", None), [yes, no, yes]);
    assert_eq!(held("4.20.4", "bbbbbbbb", "np-t", Some("newer")), [yes, no, no]);
    assert_eq!(held("4.20.3", "aaaaaaaa", "np-t", Some("newer")), ["False UnsupportedSkew", no, no]);
}

/// An upgrade in place that users took back is over when nodes are back, not when the set says what it said before.
#[test]
fn nodes_on_their_way_back_are_no_finished_upgrade() {
    let pool = pool("np", |o| {
        o["spec"]["management"] = json!({"upgradeType": "InPlace"});
        o["metadata"]["annotations"] = json!({"hypershift.openshift.io/nodePoolCurrentConfig": "new-config"});
        o["status"] = json!({"version": "4.20.3"});
    });
    let target = target();
    let (data_secret, template) = (target.refs.data_secret.clone(), target.refs.template.clone());
    let (version, current) = (target.refs.version.clone(), target.rollout.hash.clone());
    let settled = Workload { data_secret, template, version, current, ..workload() };
    let mut found = Found { workload: settled.clone(), ..found() };
    assert!(status::done(true, &settled, &target));
    assert_eq!(condition(&told(&pool, &found), "UpdatingConfig")["status"], "False");
    for (busy, stuck, says, why) in
        [("1 of 2", "", "True", "AsExpected"), ("", "node n", "False", "InplaceUpgradeFailed")]
    {
        found.workload = Workload { busy: busy.into(), stuck: stuck.into(), ..settled.clone() };
        assert!(!status::done(true, &found.workload, &target), "{busy}{stuck}");
        let o = told(&pool, &found);
        let said = condition(&o, "UpdatingConfig");
        assert_eq!((&said["status"], &said["reason"]), (&json!(says), &json!(why)), "{said}");
    }
}

/// Nodes that are upgraded in place fetch nothing: nobody shows the new token.
#[test]
fn ignition_that_was_reached_stays_so_where_nodes_stay() {
    for (upgrade, status) in [("InPlace", "True"), ("Replace", "False")] {
        let pool = pool("np", |o| {
            o["spec"]["management"] = json!({"upgradeType": upgrade});
            o["status"] = json!({"conditions": [{"type": "ReachedIgnitionEndpoint", "status": "True",
                "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"}]});
        });
        let found = Found { token: Some(Token::default()), ..found() };
        assert_eq!(condition(&told(&pool, &found), "ReachedIgnitionEndpoint")["status"], status, "{upgrade}");
    }
}

/// Who mistypes a limit has the usual one, not none.
#[test]
fn what_a_pool_mistypes_of_repair_its_cluster_says() {
    let key = |name: &str| format!("hypershift.openshift.io/machine-health-check-{name}");
    let said = |pools: Value, clusters: Value| {
        let marks = |all: &Value| -> Value {
            all.as_object().unwrap().iter().map(|(k, v)| (key(k), v.clone())).collect()
        };
        let mut hc = cluster();
        hc["metadata"]["annotations"] = marks(&clusters);
        let hc: HostedCluster = serde_json::from_value(hc).unwrap();
        let np = pool("np", |o| o["metadata"]["annotations"] = marks(&pools));
        let np: NodePool = serde_json::from_value(np).unwrap();
        let spec = hypershift::nodepool::machines::check(&hc, &np)["spec"].take();
        (spec["maxUnhealthy"].clone(), spec["unhealthyConditions"][0]["timeout"].clone())
    };
    let most = |own: &str| said(json!({"max-unhealthy": own}), json!({})).0;
    for (own, is) in [("3", json!(3)), ("40%", json!("40%")), ("0", json!(0))] {
        assert_eq!(most(own), is);
    }
    for own in ["four", "40 %", "-1", "400%", "%", ""] {
        assert_eq!(most(own), 2, "{own:?}");
    }
    assert_eq!(said(json!({"max-unhealthy": "x"}), json!({"max-unhealthy": "5"})).0, 5);
    assert_eq!(said(json!({"timeout": "soon"}), json!({"timeout": "3m"})).1, "3m");
    assert_eq!(said(json!({"timeout": "soon"}), json!({})).1, "8m");
}

/// A release for several sorts of processors has machines of each that it brings an image for.
#[test]
fn a_release_for_all_processors_takes_pools_of_each() {
    let mut found = found();
    let arms = boot_images("4.20.3");
    let arms = arms.iter().map(|b| hypershift::BootImage { arch: "aarch64".into(), ..b.clone() });
    found.payload.boot = found.payload.boot.iter().cloned().chain(arms).collect();
    for arch in ["amd64", "arm64"] {
        let pool = pool("np", |o| o["spec"]["arch"] = json!(arch));
        let o = told(&pool, &found);
        for kind in ["ValidArchPlatform", "ValidPlatformImage"] {
            let said = condition(&o, kind);
            assert_eq!(said["status"], "True", "{arch}: {kind}: {said}");
        }
    }
}

/// Those that take more than a pool to find: whom to trust, whether names are found, where machines are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nodes_could_not_boot_with_is_found() {
    let w = World::start().await.with_inputs().await;
    w.told.nameless.store(true, Ordering::SeqCst);
    let running = w.operate();
    let w = w.with_cluster().await;
    // Another authority of the control plane is none for this.
    let root = json!({"metadata": {"name": "root-ca", "namespace": NS,
        "labels": {"hypershift.openshift.io/hosted-control-plane": NS}}, "data": {"ca.crt": "-----BEGIN CERTIFICATE-----"}});
    w.create(&kinds::CONFIG_MAP, root).await;
    w.api(&kinds::SECRET, NS).delete("ignition-server-ca-cert", &Default::default()).await.unwrap();
    w.create(&kinds::POOL, pool("np", |_| {})).await;
    let reason = async |reason: &str| {
        let o = w
            .until(&kinds::POOL, "clusters", "np", reason, |o| {
                o.is_some_and(|o| condition(o, "IgnitionEndpointAvailable")["reason"] == reason)
            })
            .await
            .unwrap();
        condition(&o, "IgnitionEndpointAvailable")["message"].as_str().unwrap().to_owned()
    };
    let said = reason("IgnitionCACertMissing").await;
    assert!(said.contains("Secret ignition-server-ca-cert"), "{said}");
    w.create(&kinds::SECRET, ignition_ca()).await;
    let said = reason("ExternalDNSHostNotReachable").await;
    assert!(said.contains("ignition-demo.hc.example.com is in no DNS yet"), "{said}");
    assert!(
        w.api(&kinds::MACHINE_DEPLOYMENT, NS).get_opt("np").await.unwrap().is_none(),
        "nobody asks too early"
    );
    w.told.nameless.store(false, Ordering::SeqCst);
    running.operator.node_pools().unwrap().poke("clusters/np");
    w.md("np", "being", |_| true).await;

    // A machine in the pods' network.
    w.machine("np", "m", json!({"status": "True"})).await;
    let at = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.132.0.4"}]}});
    let machines = w.api(&kinds::MACHINE, NS);
    machines.patch_status("m", &PatchParams::default(), &Patch::Merge(&at)).await.unwrap();
    let said = w.pool_condition("np", "ClusterNetworkCIDRConflict", "True").await;
    let text = said["message"].as_str().unwrap();
    assert!(
        text.contains("machine m has the address 10.132.0.4, which is in the pods' network 10.132.0.0/14"),
        "{text}"
    );
}

/// A control plane that has not said yet where ignition is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_waits_until_ignition_has_a_place() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    let w = w.with_cluster().await;
    // Nobody publishes it, and no plane tells of it.
    let mut other = cluster();
    other["metadata"]["name"] = json!("young");
    other["spec"]["infraID"] = json!("young-x7k2p");
    for service in other["spec"]["services"].as_array_mut().unwrap() {
        if let Some(route) = service["servicePublishingStrategy"]["route"].as_object_mut() {
            route["hostname"] =
                json!(route["hostname"].as_str().unwrap_or_default().replace("demo", "young"));
        }
    }
    w.create(&kinds::CLUSTER, other).await;
    w.create(&kinds::POOL, pool("early", |o| o["spec"]["clusterName"] = json!("young"))).await;
    let o = w
        .until(&kinds::POOL, "clusters", "early", "IgnitionEndpointMissing", |o| {
            o.is_some_and(|o| {
                condition(o, "IgnitionEndpointAvailable")["reason"] == "IgnitionEndpointMissing"
            })
        })
        .await
        .unwrap();
    let said = condition(&o, "IgnitionEndpointAvailable")["message"].as_str().unwrap();
    assert!(said.contains("status.ignitionEndpoint"), "{said}");
}
