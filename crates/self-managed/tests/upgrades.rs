//! Which upgrades may begin, and what is said of those that may not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use self_managed::upgrade::{
    Budget, Demand, Facts, Guest, Known, Plan, Quota, Release, Room, Target, Verdict, Workload, candidates,
    plan, text,
};
use serde_json::{Value, json};

const GIB: i64 = 1 << 30;

fn cluster() -> Value {
    json!({"metadata": {"name": "road", "namespace": "clusters"},
        "spec": {"release": {"image": "quay.example/release:4.20.1"}},
        "status": {
            "controlPlaneVersion": {"history": [{"state": "Completed", "version": "4.20.1"}]},
            "conditions": [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}]}})
}

fn pool() -> Value {
    json!({"metadata": {"name": "blue", "namespace": "clusters"},
        "spec": {"release": {"image": "quay.example/release:4.20.1"}, "replicas": 3, "management": {"upgradeType": "Replace",
            "replace": {"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": "40%", "maxUnavailable": 0}}}},
        "status": {"replicas": 3, "version": "4.20.1"}})
}

fn facts(to: &str) -> Facts {
    let demand = Demand { cpu: 350, memory: 2 * GIB };
    let workload =
        |name: &str, changes| Workload { name: name.into(), pods: 2, demand, surges: true, changes };
    let node = Demand { cpu: 4000, memory: 16 * GIB };
    Facts {
        target: Target::Cluster,
        cluster: cluster(),
        pools: vec![pool()],
        release: Release { image: format!("quay.example/release:{to}"), version: to.parse().unwrap() },
        asked: Some(to.parse().unwrap()),
        workloads: Known::Yes(vec![
            workload("etcd", true),
            workload("kube-apiserver", true),
            workload("packageserver", false),
        ]),
        room: Known::Yes(Room { free: vec![node] }),
        guest: Known::Yes(Guest {
            pool: vec![node; 3],
            all: Demand { cpu: 12000, memory: 48 * GIB },
            asked: Demand { cpu: 6000, memory: 20 * GIB },
            budgets: vec![Budget { namespace: "shop".into(), name: "web".into(), pods: 3, allowed: 1 }],
        }),
        quota: Known::Yes(Quota {
            size: "Standard_D4s_v5".into(),
            location: "westus2".into(),
            cpus: 4,
            left: 100,
        }),
    }
}

fn on_pool(to: &str) -> Facts {
    Facts { target: Target::NodePool("blue".into()), ..facts(to) }
}

/// The one check that is not passed.
fn found(plan: &Plan) -> (Verdict, String) {
    let odd: Vec<_> = plan.checks.iter().filter(|c| c.verdict != Verdict::Passed).collect();
    assert_eq!(odd.len(), 1, "{odd:?}");
    (odd[0].verdict, format!("{}: {} → {}", odd[0].check, odd[0].found, odd[0].fix))
}

#[test]
fn a_plan_says_what_rolls_and_changes_one_field() {
    let p = plan(&facts("4.21.0"));
    assert!(p.blockers(false).is_empty(), "{p:?}");
    testkit::golden!("upgrade-cluster.txt", &text(&p, false));
    assert_eq!(
        p.patch("7", true),
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"release": {"image": "quay.example/release:4.21.0"}}})
    );
    let mut f = on_pool("4.21.0");
    f.cluster["status"]["controlPlaneVersion"]["history"][0]["version"] = json!("4.21.0");
    let p = plan(&f);
    assert!(p.blockers(false).is_empty(), "{p:?}");
    testkit::golden!("upgrade-nodepool.txt", &text(&p, false));
    assert!(plan(&facts("4.20.1")).nothing && !p.nothing);
}

#[test]
fn clusters_that_must_not_be_upgraded() {
    let said = |status: Value, to: &str| {
        let mut f = facts(to);
        f.cluster["status"]["conditions"].as_array_mut().unwrap().push(status);
        plan(&f)
    };
    let objects = json!({"type": "ClusterVersionUpgradeable", "status": "False", "reason": "AdminAckRequired",
        "message": "removed APIs are still used"});
    let p = said(objects.clone(), "4.21.0");
    let (verdict, words) = found(&p);
    assert_eq!(verdict, Verdict::Refused);
    assert!(
        words.contains("removed APIs are still used (AdminAckRequired)") && words.contains("--force"),
        "{words}"
    );
    assert_eq!((p.blockers(false).len(), p.blockers(true).len()), (1, 0));
    // Who insists says the word that the operators want to hear.
    let insisted = &p.patch("7", true)["metadata"]["annotations"]["hypershift.openshift.io/force-upgrade-to"];
    assert_eq!(insisted, "quay.example/release:4.21.0");
    assert!(p.patch("7", false)["metadata"]["annotations"].is_null());
    assert!(said(objects, "4.20.2").blockers(false).is_empty(), "patches need nobody's leave");

    for (to, verdict, words) in [
        (
            "4.19.9",
            Verdict::Impossible,
            "direction: 4.19.9 is older than 4.20.1, and minors cannot go back → use 4.20",
        ),
        ("4.20.0", Verdict::Refused, "direction: 4.20.0 is older than 4.20.1"),
        (
            "4.22.0",
            Verdict::Refused,
            "skips 1 minors, and what they would have migrated → go to a 4.21 first",
        ),
    ] {
        let (v, said) = found(&plan(&facts(to)));
        assert!(v == verdict && said.contains(words), "{to}: {said}");
    }
    // 5.0 takes the place of 4.23, and 4.22 is one step before both.
    let mut f = facts("5.0.1");
    f.pools.clear();
    f.cluster["status"]["controlPlaneVersion"]["history"][0]["version"] = json!("4.22.3");
    assert!(plan(&f).blockers(false).is_empty(), "{:?}", plan(&f));
    f.pools = vec![pool()];
    f.pools[0]["status"]["version"] = json!("4.19.2");
    let (_, said) = found(&plan(&f));
    assert!(
        said.contains("blue are 4.19.2: 4 minors behind 5.0.1")
            && said.contains("upgrade nodepool blue -n clusters --to"),
        "{said}"
    );

    type Change = fn(&mut Facts);
    let table: [(Change, Verdict, &str); 7] = [
        (
            |f| f.cluster["spec"]["pausedUntil"] = json!("true"),
            Verdict::Refused,
            "paused (spec.pausedUntil: true)",
        ),
        (|f| f.cluster["metadata"]["deletionTimestamp"] = json!("x"), Verdict::Impossible, "being deleted"),
        (
            |f| f.asked = Some("4.21.9".parse().unwrap()),
            Verdict::Impossible,
            "is 4.21.0, and 4.21.9 was asked for (--to)",
        ),
        (
            |f| {
                f.cluster["status"]["conditions"][0] =
                    json!({"type": "Available", "status": "False", "message": "etcd waits"})
            },
            Verdict::Refused,
            "not available: etcd waits → `zaffre explain hostedcluster road -n clusters`",
        ),
        (
            |f| {
                f.cluster["status"]["conditions"][1] =
                    json!({"type": "Degraded", "status": "True", "message": "one of two"})
            },
            Verdict::Risky,
            "degraded: one of two",
        ),
        (
            |f| {
                f.cluster["status"]["controlPlaneVersion"]["history"] = json!([
                    {"state": "Partial", "version": "4.20.9"}, {"state": "Completed", "version": "4.20.1"}]);
            },
            Verdict::Refused,
            "an upgrade to 4.20.9 is under way",
        ),
        (
            |f| f.room = Known::Yes(Room { free: vec![Demand { cpu: 9000, memory: GIB }] }),
            Verdict::Refused,
            "no node of the management cluster has room",
        ),
    ];
    for (change, verdict, words) in table {
        let mut f = facts("4.21.0");
        change(&mut f);
        let (v, said) = found(&plan(&f));
        assert!(v == verdict && said.contains(words), "{words}: {v:?} {said}");
    }
    let unsupported = plan(&Facts { pools: Vec::new(), ..facts("5.2.0") });
    assert!(
        unsupported.blockers(true).iter().any(|c| c.found.contains("4.14 to 5.1 are")),
        "{unsupported:?}"
    );
}

#[test]
fn pools_that_must_not_be_upgraded() {
    type Change = fn(&mut Facts);
    fn guest(f: &mut Facts, change: impl Fn(&mut Guest)) {
        let Known::Yes(g) = &mut f.guest else { panic!("the sample has one") };
        change(g);
    }
    let table: [(Change, Verdict, &str); 9] = [
        (
            |f| f.cluster = cluster(),
            Verdict::Refused,
            "4.21.0 is newer than the cluster, which has completed 4.20.1 → `zaffre upgrade cluster road -n clusters --to 4.21.0 --wait` first",
        ),
        (
            |f| guest(f, |g| g.budgets[0].allowed = 0),
            Verdict::Refused,
            "PodDisruptionBudget shop/web → add replicas, relax the budgets, or set spec.nodeDrainTimeout",
        ),
        (
            |f| {
                guest(f, |g| g.budgets = vec![g.budgets[0].clone(); 5]);
                guest(f, |g| g.budgets.iter_mut().for_each(|b| b.allowed = 0));
                f.pools[0]["spec"]["nodeDrainTimeout"] = json!("10m");
            },
            Verdict::Risky,
            "2 more; after 10m (spec.nodeDrainTimeout)",
        ),
        (
            |f| {
                f.pools[0]["spec"]["management"] =
                    json!({"upgradeType": "InPlace", "inPlace": {"maxUnavailable": 2}});
            },
            Verdict::Refused,
            "more than the other nodes have while 2 are away",
        ),
        (
            // Nothing more and nothing less, once it is rounded: then one goes first.
            |f| {
                guest(f, |g| g.asked.memory = 40 * GIB);
                let rolling = &mut f.pools[0]["spec"]["management"]["replace"]["rollingUpdate"];
                *rolling = json!({"maxSurge": 0, "maxUnavailable": "10%"});
            },
            Verdict::Refused,
            "more than the other nodes have while 1 are away",
        ),
        (
            |f| f.guest = Known::No("the cluster cannot be reached".into()),
            Verdict::Unknown,
            "cannot be reached",
        ),
        (
            |f| f.quota = Known::Yes(Quota { size: "S".into(), location: "l".into(), cpus: 4, left: 3 }),
            Verdict::Refused,
            "needs 4 processors, and 3 of the quota are left",
        ),
        (
            |f| f.quota = Known::Yes(Quota { size: "S".into(), location: "l".into(), cpus: 4, left: 5 }),
            Verdict::Risky,
            "8 more processors are wanted for 2 new nodes at once",
        ),
        (
            |f| f.pools[0]["status"]["conditions"] = json!([{"type": "UpdatingConfig", "status": "True"}]),
            Verdict::Risky,
            "being replaced already (UpdatingConfig)",
        ),
    ];
    for (change, verdict, words) in table {
        let mut f = on_pool("4.21.0");
        f.cluster["status"]["controlPlaneVersion"]["history"][0]["version"] = json!("4.21.0");
        change(&mut f);
        let p = plan(&f);
        let odd: Vec<_> = p.checks.iter().filter(|c| c.verdict != Verdict::Passed).collect();
        assert!(
            odd.iter().all(|c| c.verdict == verdict)
                && odd.iter().any(|c| format!("{} → {}", c.found, c.fix).contains(words)),
            "{words}: {odd:?}"
        );
    }
    // An empty pool has nothing to drain, and asks nobody.
    let mut f = on_pool("4.20.2");
    f.cluster["status"]["controlPlaneVersion"]["history"][0]["version"] = json!("4.20.2");
    f.pools[0]["status"]["replicas"] = json!(0);
    f.guest = Known::No("down".into());
    assert!(plan(&f).checks.iter().all(|c| c.verdict == Verdict::Passed));
}

#[test]
fn a_version_is_found_beside_the_release_that_runs() {
    let quay = "quay.io/openshift-release-dev/ocp-release";
    assert_eq!(
        candidates(&format!("{quay}:4.20.1-multi"), "4.20.2", "Multi"),
        [format!("{quay}:4.20.2"), format!("{quay}:4.20.2-multi"), format!("{quay}:4.20.2-x86_64")]
    );
    assert_eq!(
        candidates("localhost:5000/release@sha256:00", "4.20.2", "ARM64"),
        [
            "localhost:5000/release:4.20.2",
            "localhost:5000/release:4.20.2-aarch64",
            "localhost:5000/release:4.20.2-multi"
        ]
    );
    assert_eq!(candidates("r.example/x", "4.20.2", "")[0], "r.example/x:4.20.2");
}
