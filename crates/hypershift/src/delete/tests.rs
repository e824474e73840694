use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn left(name: &str, since: Option<i64>, finalizers: &[&str]) -> Left {
    Left {
        object: name.to_owned(),
        name: name.to_owned(),
        since: since.map(at),
        finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
        note: String::new(),
    }
}

fn full() -> Remains {
    Remains {
        began: at(0),
        pools: vec![left("pool", None, &["f"])],
        cluster: Some(left("cluster", None, &["c"])),
        machines: vec![Machine { left: left("m", None, &["m"]), refused: None }],
        operators: vec![left("capi-provider", None, &["o"])],
        plane: Some(left("plane", None, &["p"])),
        namespace: Some(left("space", None, &[])),
        traces: true,
        ..Remains::default()
    }
}

/// Does what a step says, as a world where everything goes away when asked would.
fn obey(r: &mut Remains, step: &Step, now: Timestamp) {
    for act in &step.acts {
        match act {
            Act::DeletePool(n) | Act::DropPool(n) => r.pools.retain(|p| p.name != *n),
            Act::DeleteCluster | Act::DropCluster => (r.cluster, r.machines) = (None, Vec::new()),
            Act::DropMachine(n) => r.machines.retain(|m| m.left.name != *n),
            Act::ReleaseOperator(n) => r.operators.retain(|o| o.name != *n),
            Act::DropLinks(names) => r.links.retain(|l| !names.contains(&l.left.name)),
            Act::DeletePlane | Act::ReleasePlane | Act::DropPlane => r.plane = None,
            Act::DeleteNamespace | Act::EmptyNamespace => r.namespace = None,
            Act::RemoveTraces => r.traces = false,
            Act::Finish => {}
        }
    }
    if step.layer == Layer::Grace && r.destroyed.is_none() {
        r.destroyed = Some(now);
    }
}

#[test]
fn layers_go_in_order_from_wherever_it_begins() {
    // Every combination of what may be left.
    for bits in 0..128_u32 {
        let has = |i: u32| bits & (1 << i) != 0;
        let mut r = full();
        if !has(0) {
            r.pools.clear();
        }
        if !has(1) {
            (r.cluster, r.machines) = (None, Vec::new());
        }
        if !has(2) {
            r.operators.clear();
        }
        if !has(3) {
            r.plane = None;
        }
        if !has(4) {
            r.namespace = None;
        }
        r.traces = has(5);
        r.grace = has(6).then(|| SignedDuration::from_mins(1));
        let mut seen = Vec::new();
        for minute in 0..20 {
            let s = step(&r, at(minute));
            seen.push(s.layer);
            if s.layer == Layer::Gone {
                assert_eq!(s.acts, [Act::Finish]);
                break;
            }
            assert!(!s.acts.is_empty() || s.layer == Layer::Grace, "{s:?}");
            obey(&mut r, &s, at(minute));
        }
        assert_eq!(seen.last(), Some(&Layer::Gone), "{bits:b}: {seen:?}");
        assert!(seen.is_sorted(), "{bits:b}: {seen:?}");
    }
}

#[test]
fn a_layer_that_hangs_says_who_holds_it_since_when_and_what_to_do() {
    let r = Remains {
        plane: Some(left("HostedControlPlane a-b/b", Some(5), &["x/finalizer"])),
        ..Remains::default()
    };
    let early = step(&r, at(19));
    assert!(early.acts.is_empty() && !early.overdue);
    assert_eq!(finding(&early, "a", "b").reason, "ControlPlaneDeleting");
    let late = step(&r, at(20));
    let f = finding(&late, "a", "b");
    assert_eq!(
        (f.status, f.reason.as_str()),
        (reconcile::conditions::Status::True, "ControlPlaneDeadlineExceeded")
    );
    for part in [
        "HostedControlPlane a-b/b",
        "since 1970-01-01T00:05:00Z",
        "held by x/finalizer",
        "kubectl annotate hostedcluster -n a b --overwrite hypershift.openshift.io/force-delete=control-plane",
    ] {
        assert!(f.message.contains(part), "{part} is not in {}", f.message);
    }
}

#[test]
fn force_takes_finalizers_off_where_it_is_said_and_nowhere_else() {
    let mut r = Remains { plane: Some(left("p", Some(0), &["f"])), ..Remains::default() };
    r.force = vec!["machines".into()];
    assert!(step(&r, at(1)).acts.is_empty());
    r.force = vec!["control-plane".into()];
    assert_eq!(step(&r, at(1)).acts, [Act::DropPlane]);
    r.force = vec!["all".into()];
    assert_eq!(step(&r, at(1)).acts, [Act::DropPlane]);
}

#[test]
fn every_layer_that_can_be_held_can_be_forced() {
    let held = || left("held", Some(0), &["f"]);
    let machine = || Machine { left: held(), refused: None };
    let each = [
        ("node-pools", Remains { pools: vec![held()], ..Remains::default() }, Act::DropPool("held".into())),
        (
            "machines",
            Remains { cluster: Some(held()), machines: vec![machine()], ..Remains::default() },
            Act::DropMachine("held".into()),
        ),
        ("control-plane", Remains { plane: Some(held()), ..Remains::default() }, Act::DropPlane),
        ("namespace", Remains { namespace: Some(held()), ..Remains::default() }, Act::EmptyNamespace),
    ];
    for (word, remains, act) in each {
        let mut r = remains;
        assert!(step(&r, at(1)).acts.is_empty(), "{word}");
        r.force = vec!["grace-period".into()];
        assert!(step(&r, at(1)).acts.is_empty(), "{word}");
        for force in [word, "all"] {
            r.force = vec![force.into()];
            let forced = step(&r, at(1));
            assert_eq!((&forced.acts[..], forced.forced), (std::slice::from_ref(&act), true), "{word}");
        }
        r.force.clear();
        let said = finding(&step(&r, at(60)), "clusters", "demo").message;
        assert!(said.contains(&format!("force-delete={word}`")), "{word}: {said}");
    }
    let mut r = Remains { pools: vec![left("new", None, &["f"])], ..Remains::default() };
    r.force = vec!["all".into()];
    assert_eq!(step(&r, at(1)).acts, [Act::DeletePool("new".into())], "deletion is asked for first");
}

#[test]
fn machines_are_given_up_while_their_pool_waits_for_them() {
    let machine = Machine {
        left: Left { note: "AuthorizationFailed".into(), ..left("m", Some(0), &["f"]) },
        refused: Some(at(2)),
    };
    let mut r = Remains {
        pools: vec![left("pool", Some(0), &["f"])],
        cluster: Some(left("cluster", None, &[])),
        machines: vec![machine],
        ..Remains::default()
    };
    let waits = step(&r, at(11));
    assert_eq!((waits.layer, &waits.acts[..]), (Layer::Pools, &[][..]));
    assert!(finding(&waits, "a", "b").message.contains("AuthorizationFailed"));
    let drop = Act::DropMachine("m".into());
    assert_eq!(step(&r, at(12)).acts, std::slice::from_ref(&drop));
    (r.machines[0].refused, r.group_gone) = (None, true);
    assert_eq!(step(&r, at(1)).acts, [drop]);
}

#[test]
fn machines_that_azure_keeps_refusing_are_given_up_and_no_others() {
    let machine = |name: &str, refused: Option<i64>| Machine {
        left: left(name, Some(0), &["f"]),
        refused: refused.map(at),
    };
    let mut r = Remains {
        cluster: Some(left("cluster", Some(0), &["c"])),
        machines: vec![machine("refused", Some(2)), machine("slow", None)],
        ..Remains::default()
    };
    assert!(step(&r, at(11)).acts.is_empty());
    assert_eq!(step(&r, at(12)).acts, [Act::DropMachine("refused".into())]);
    r.group_gone = true;
    assert_eq!(step(&r, at(1)).acts.len(), 2, "nothing of them can be left in Azure");
}

#[test]
fn a_control_plane_in_a_group_that_is_gone_does_not_wedge() {
    let r = Remains { plane: Some(left("p", Some(0), &["f"])), group_gone: true, ..Remains::default() };
    assert!(step(&r, at(14)).acts.is_empty(), "the guest has its time");
    assert_eq!(step(&r, at(15)).acts, [Act::DropPlane]);
}

#[test]
fn the_grace_period_is_waited_for() {
    let mut r = Remains { grace: Some(SignedDuration::from_mins(10)), ..Remains::default() };
    assert_eq!(step(&r, at(0)).layer, Layer::Grace);
    r.destroyed = Some(at(0));
    let waits = step(&r, at(4));
    assert_eq!((waits.layer, waits.again), (Layer::Grace, Some(SignedDuration::from_mins(6))));
    assert_eq!(step(&r, at(10)).layer, Layer::Gone);
}

#[test]
fn the_guest_has_its_time_to_clean_up_and_no_more() {
    let mut r = Remains { plane: Some(left("p", Some(0), &[HYPERSHIFT])), ..Remains::default() };
    assert_eq!(step(&r, at(1)).acts, [Act::ReleasePlane], "nobody asked it to");
    r.cleanup = Cleanup::Running;
    assert!(step(&r, at(9)).acts.is_empty());
    assert_eq!(step(&r, at(10)).acts, [Act::ReleasePlane]);
    r.cleanup = Cleanup::Over;
    assert_eq!(step(&r, at(1)).acts, [Act::ReleasePlane]);
}

/// A control plane waits for its private endpoints, and for one that Azure refuses to delete no longer than for a machine.
#[test]
fn private_endpoints_are_waited_for_and_given_up() {
    let link = |refused: Option<i64>| Machine {
        left: Left { note: "AuthorizationFailed".into(), ..left("private-router", Some(1), &["endpoint"]) },
        refused: refused.map(at),
    };
    let mut r = Remains {
        began: at(0),
        plane: Some(left("plane", Some(1), &["hypershift.openshift.io/azure-pls-endpoint-cleanup"])),
        links: vec![link(None)],
        ..Remains::default()
    };
    let first = step(&r, at(2));
    assert_eq!((first.layer, &first.acts[..]), (Layer::Plane, &[][..]));
    let said = finding(&first, "clusters", "demo").message;
    assert!(said.contains("private-router") && said.contains("AuthorizationFailed"), "{said}");
    r.links = vec![link(Some(2))];
    assert_eq!(step(&r, at(11)).acts, []);
    let drop = Act::DropLinks(vec!["private-router".to_owned()]);
    assert_eq!(step(&r, at(12)).acts, std::slice::from_ref(&drop));
    // Nobody can delete from a group that is gone; whoever forces does not wait either.
    r.links = vec![link(None)];
    r.group_gone = true;
    assert_eq!(step(&r, at(2)).acts, std::slice::from_ref(&drop));
    (r.group_gone, r.force) = (false, vec!["control-plane".into()]);
    assert_eq!(step(&r, at(2)).acts, [drop, Act::DropPlane]);
}

#[test]
fn a_control_plane_that_goes_with_its_cluster_is_let_go() {
    let mut r = Remains {
        cluster: Some(left("cluster", Some(1), &["cluster.cluster.x-k8s.io"])),
        plane: Some(left("plane", Some(2), &[HYPERSHIFT])),
        ..Remains::default()
    };
    let s = step(&r, at(3));
    assert_eq!((s.layer, &s.acts[..]), (Layer::Machines, &[Act::ReleasePlane][..]));
    assert_eq!(s.blockers.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["plane", "cluster"]);
    // The guest has its time to clean up, and machines are taken away by a control plane that is there.
    r.cleanup = Cleanup::Running;
    assert!(step(&r, at(3)).acts.is_empty());
    assert_eq!(step(&r, at(12)).acts, [Act::ReleasePlane]);
    r.cleanup = Cleanup::No;
    r.machines = vec![Machine { left: left("m", Some(1), &["f"]), refused: None }];
    assert!(step(&r, at(3)).acts.is_empty());
    // Nobody deletes it: it is the next layer's.
    r.machines.clear();
    r.plane = Some(left("plane", None, &[HYPERSHIFT]));
    assert!(step(&r, at(3)).acts.is_empty());
}
