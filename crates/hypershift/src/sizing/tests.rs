//! Sizes as properties: of configurations, of one cluster's life, and of many clusters that want to change at once.

use super::*;
use apis::names::{annotation, label};
use jiff::Timestamp;
use kube::core::ObjectMeta;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn spec(v: Value) -> ClusterSizingConfigurationSpec {
    serde_json::from_value(v).unwrap()
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn default_sizes() -> Sizes {
    Sizes::read(&spec(default_configuration()["spec"].clone())).unwrap()
}

#[test]
fn the_default_is_small_medium_large() {
    let sizes = default_sizes();
    let of = |n| sizes.of(n).unwrap().name.as_str();
    assert_eq!(
        [0, 10, 11, 100, 101, u32::MAX].map(of),
        ["small", "small", "medium", "medium", "large", "large"]
    );
    assert_eq!((sizes.limit, sizes.window), (5, SignedDuration::from_mins(10)));
    assert_eq!(
        (sizes.increase, sizes.decrease),
        (SignedDuration::from_secs(30), SignedDuration::from_mins(10))
    );
}

#[test]
fn what_is_wrong_with_a_configuration_is_said() {
    let size =
        |name: &str, from: u32, to: Option<u32>| json!({"name": name, "criteria": {"from": from, "to": to}});
    for (sizes, says) in [
        (json!([]), "cover every number"),
        (json!([size("a", 0, Some(10))]), "cover every number"),
        (json!([size("a", 0, Some(10)), size("b", 12, None)]), "cover every number"),
        (json!([size("a", 0, Some(10)), size("b", 10, None)]), "cover every number"),
        (json!([size("a", 0, None), size("b", 5, None)]), "cover every number"),
        (json!([size("a", 0, Some(u32::MAX)), size("b", 7, None)]), "cover every number"),
        (json!([size("a", 0, Some(1)), size("a", 2, None)]), "two sizes \"a\""),
        (json!([size("x-large", 0, None)]), "\"x-large\" can be no size"),
        (json!([size("", 0, None)]), "can be no size"),
    ] {
        let why = Sizes::read(&spec(json!({"sizes": sizes}))).unwrap_err();
        assert!(why.contains(says), "{sizes}: {why}");
    }
    let mut odd = spec(json!({"sizes": [size("a", 0, None)], "transitionDelay": {"increase": "soon"}}));
    assert!(Sizes::read(&odd).unwrap_err().contains("transitionDelay.increase: \"soon\" is no duration"));
    odd = spec(json!({"sizes": [{"name": "a", "criteria": {"from": 0}, "effects": {"resourceRequests": [
        {"deploymentName": "not a name", "containerName": "c", "cpu": 1}]}}]}));
    assert!(Sizes::read(&odd).unwrap_err().contains("no container"));
    odd = spec(json!({"sizes": [size("a", 0, Some(1)), {"name": "b", "criteria": {"from": 2},
        "management": {"nonRequestServingNodesPerZone": "0.2"}}]}));
    assert!(Sizes::read(&odd).unwrap_err().contains("in all sizes or in none"));
}

/// Sizes with these first numbers.
fn sizes_at(cuts: &[u32], increase: i64, decrease: i64, window: i64, limit: usize) -> Sizes {
    let mut from: Vec<u32> = cuts.to_vec();
    from.push(0);
    from.sort_unstable();
    from.dedup();
    let size = |(i, f): (usize, &u32)| json!({"name": format!("s{i}"), "criteria": {"from": f, "to": from.get(i + 1).map(|n| n - 1)}});
    let list: Vec<Value> = from.iter().enumerate().map(size).collect();
    Sizes::read(&spec(
        json!({"sizes": list, "concurrency": {"slidingWindow": format!("{window}s"), "limit": limit},
        "transitionDelay": {"increase": format!("{increase}s"), "decrease": format!("{decrease}s")}}),
    ))
    .unwrap()
}

/// What a status would keep of a cluster.
#[derive(Clone, Debug, Default)]
struct Cluster {
    size: Option<(String, Timestamp)>,
    wanted: Option<(String, Timestamp)>,
    nodes: u32,
    /// Since when its nodes have asked for the size they ask for.
    asked: Option<(String, Timestamp)>,
    forced: Option<String>,
}

impl Cluster {
    fn observed(&self) -> Observed<'_> {
        fn pair(p: &Option<(String, Timestamp)>) -> Option<(&str, Timestamp)> {
            p.as_ref().map(|(s, t)| (s.as_str(), *t))
        }
        Observed {
            size: pair(&self.size),
            label: None,
            wanted: pair(&self.wanted),
            nodes: Some(self.nodes),
            forced: self.forced.as_deref(),
        }
    }

    /// As the status is written.
    fn write(&mut self, decision: &Decision, now: Timestamp) {
        match decision {
            Decision::Becomes { size, at, .. } => {
                self.size = Some((size.clone(), *at));
                self.wanted = None;
            }
            Decision::Waits { wanted, .. } => {
                if self.wanted.as_ref().is_none_or(|(w, _)| w != wanted) {
                    self.wanted = Some((wanted.clone(), now));
                }
            }
            Decision::Stays { .. } => self.wanted = None,
            Decision::Undecided => {}
        }
    }
}

proptest! {
    /// Any cuts make sizes that can be used, and every number has the one it falls into.
    #[test]
    fn every_number_has_one_size(cuts in prop::collection::vec(1u32..1000, 0..6), nodes in 0u32..2000) {
        let sizes = sizes_at(&cuts, 0, 0, 60, 1);
        prop_assert_eq!(sizes.list.iter().filter(|s| s.criteria.holds(nodes)).count(), 1);
        let found = sizes.of(nodes).unwrap();
        prop_assert!(found.criteria.from <= nodes);
    }

    /// Many clusters over some time: a size is always a configured one, no window has more changes than are allowed,
    /// and none comes before its number of nodes has lasted.
    #[test]
    fn a_fleet_changes_its_sizes_in_order(
        cuts in prop::collection::vec(1u32..40, 1..4),
        (increase, decrease, window, limit) in (0i64..50, 0i64..50, 10i64..120, 1usize..4),
        steps in prop::collection::vec((0usize..8, 0u32..50, 0i64..40), 1..150),
        restart in 0usize..150,
    ) {
        let sizes = sizes_at(&cuts, increase, decrease, window, limit);
        let mut grants = Grants::default();
        let mut fleet: BTreeMap<String, Cluster> = BTreeMap::new();
        let mut changes: Vec<Timestamp> = Vec::new();
        let mut clock = 0;
        for (i, (who, nodes, wait)) in steps.into_iter().enumerate() {
            clock += wait;
            let now = time(clock);
            if i == restart {
                grants = Grants::default();
                // Statuses tell of each cluster's last change only.
                changes.retain(|t| fleet.values().any(|c| c.size.as_ref().is_some_and(|(_, at)| at == t)));
            }
            let key = format!("clusters/c{who}");
            let c = fleet.entry(key.clone()).or_default();
            c.nodes = nodes;
            let asks = sizes.of(nodes).unwrap().name.clone();
            if c.asked.as_ref().is_none_or(|(a, _)| *a != asks) {
                c.asked = Some((asks, now));
            }
            let seen = || -> Vec<(String, Timestamp)> {
                fleet.iter().filter_map(|(k, c)| Some((k.clone(), c.size.as_ref()?.1))).collect()
            };
            let before = fleet[&key].clone();
            let decision = grants.decide(&key, &before.observed(), &sizes, seen, now);
            if let Decision::Becomes { size, at, first } = &decision {
                prop_assert!(sizes.get(size).is_some());
                prop_assert_eq!(*first, before.size.is_none());
                if let Some((old, _)) = &before.size {
                    let grew = sizes.get(old).unwrap().criteria.from < sizes.get(size).unwrap().criteria.from;
                    let delay = SignedDuration::from_secs(if grew { increase } else { decrease });
                    let (asked, since) = before.asked.clone().unwrap();
                    prop_assert_eq!(&asked, size);
                    prop_assert!(at.duration_since(since) >= delay, "{} after {:?}", size, at.duration_since(since));
                    changes.push(*at);
                    let begin = now.checked_sub(sizes.window).unwrap();
                    let lately = changes.iter().filter(|t| **t > begin).count();
                    prop_assert!(lately <= limit, "{} changes in a window of {}", lately, limit);
                }
            }
            fleet.get_mut(&key).unwrap().write(&decision, now);
        }
        // Everybody gets there: each look is a moment that the decision before asked for.
        let mut looks = 0;
        loop {
            let mut next: Option<Timestamp> = None;
            for key in fleet.keys().cloned().collect::<Vec<_>>() {
                let seen = || -> Vec<(String, Timestamp)> {
                    fleet.iter().filter_map(|(k, c)| Some((k.clone(), c.size.as_ref()?.1))).collect()
                };
                let c = fleet[&key].clone();
                let decision = grants.decide(&key, &c.observed(), &sizes, seen, time(clock));
                if let Decision::Waits { why, .. } = &decision {
                    prop_assert!(why.until() > time(clock));
                    next = Some(next.map_or_else(|| why.until(), |n| n.min(why.until())));
                }
                fleet.get_mut(&key).unwrap().write(&decision, time(clock));
            }
            let Some(next) = next else { break };
            clock = next.as_second() - 1_700_000_000;
            looks += 1;
            prop_assert!(looks < 200, "somebody never gets the size");
        }
        for c in fleet.values() {
            prop_assert_eq!(&c.size.as_ref().unwrap().0, &sizes.of(c.nodes).unwrap().name);
        }
    }
}

#[test]
fn passes_at_the_same_time_share_a_window() {
    // None of them has written anything when the next decides.
    let sizes = sizes_at(&[10], 0, 0, 600, 2);
    let grants = Grants::default();
    let small = |n| Observed {
        size: Some(("s0", time(-9999))),
        label: None,
        wanted: None,
        nodes: Some(n),
        forced: None,
    };
    let ask = |key: &str| grants.decide(key, &small(20), &sizes, Vec::new, time(0));
    let granted = |d: &Decision| matches!(d, Decision::Becomes { .. });
    let all: Vec<Decision> = ["a/1", "a/2", "a/3"].map(ask).into();
    assert_eq!(all.iter().filter(|d| granted(d)).count(), 2);
    assert!(matches!(&all[2], Decision::Waits { why: Why::Limit { until, .. }, .. } if *until == time(600)));
    // Who asks again before the watch told gets the same answer, and takes no second place.
    assert_eq!(grants.decide("a/1", &small(20), &sizes, Vec::new, time(5)), all[0]);
}

#[test]
fn an_override_wins_and_one_that_is_none_is_said() {
    let sizes = default_sizes();
    let at = |forced| Observed {
        size: Some(("small", time(-9999))),
        label: Some("small"),
        wanted: None,
        nodes: Some(3),
        forced,
    };
    let decide = |o: &Observed<'_>| plan(o, &sizes, Vec::new, time(0));
    assert!(matches!(decide(&at(Some("large"))), Decision::Waits { wanted, .. } if wanted == "large"));
    let lasted = Observed { wanted: Some(("large", time(-30))), ..at(Some("large")) };
    assert!(matches!(decide(&lasted), Decision::Becomes { size, .. } if size == "large"));
    let other = decide(&at(Some("huge")));
    assert_eq!(other, Decision::Stays { size: "small".into(), unknown: Some("huge".into()) });
    let new = Observed { size: None, label: None, ..at(Some("large")) };
    assert!(matches!(decide(&new), Decision::Becomes { size, first: true, .. } if size == "large"));
    let restored = Observed { size: None, label: Some("medium"), ..at(None) };
    assert!(matches!(decide(&restored), Decision::Becomes { size, first: true, .. } if size == "medium"));
    // A size that there is not any more is left at once; nothing to go by is no reason to leave one.
    let left = Observed { size: Some(("tiny", time(-1))), ..at(None) };
    assert!(matches!(decide(&left), Decision::Becomes { size, first: false, .. } if size == "small"));
    let blind = Observed { nodes: None, ..at(None) };
    assert_eq!(decide(&blind), Decision::Stays { size: "small".into(), unknown: None });
}

#[test]
fn effects_come_and_go_with_the_size() {
    let sizes = Sizes::read(&spec(json!({"sizes": [
        {"name": "small", "criteria": {"from": 0, "to": 60}, "effects": {"kasGoMemLimit": "8GiB", "maximumRequestsInflight": 150,
            "resourceRequests": [{"deploymentName": "kube-apiserver", "containerName": "kube-apiserver", "memory": "8Gi", "cpu": 2}]}},
        {"name": "large", "criteria": {"from": 61}, "effects": {"kasGoMemLimit": "96GiB", "machineHealthCheckTimeout": "40m",
            "etcdPriorityClassName": "dear"}}]})))
    .unwrap();
    let mut meta = ObjectMeta {
        annotations: Some([(annotation::ETCD_PRIORITY_CLASS.to_owned(), "mine".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let mut become_ = |size: &str| {
        let size = sizes.get(size).unwrap();
        let patch = change(&meta, size).expect("there is something to change");
        for (field, map) in [("labels", &mut meta.labels), ("annotations", &mut meta.annotations)] {
            for (k, v) in patch["metadata"][field].as_object().into_iter().flatten() {
                match v.as_str() {
                    Some(v) => map.get_or_insert_default().insert(k.clone(), v.to_owned()),
                    None => map.get_or_insert_default().remove(k),
                };
            }
        }
        assert_eq!(change(&meta, size), None, "once is enough");
        meta.clone()
    };
    let get = |m: &ObjectMeta, key: &str| m.annotations.as_ref().unwrap().get(key).cloned();
    let requests = "resource-request-override.hypershift.openshift.io/kube-apiserver.kube-apiserver";
    let m = become_("small");
    assert_eq!(m.labels.as_ref().unwrap()[label::HOSTED_CLUSTER_SIZE], "small");
    assert_eq!(get(&m, requests).unwrap(), "memory=8Gi,cpu=2");
    assert_eq!(get(&m, annotation::KUBE_APISERVER_MAX_REQUESTS_INFLIGHT).unwrap(), "150");
    assert_eq!(get(&m, annotation::ETCD_PRIORITY_CLASS).unwrap(), "mine", "a user's stays");
    let m = become_("large");
    assert_eq!(get(&m, requests), None);
    assert_eq!(get(&m, annotation::KUBE_APISERVER_GOMEMLIMIT).unwrap(), "96GiB");
    assert_eq!(get(&m, annotation::MACHINE_HEALTH_CHECK_TIMEOUT).unwrap(), "40m");
    assert_eq!(get(&m, annotation::ETCD_PRIORITY_CLASS).unwrap(), "dear");
    assert_eq!(get(&m, annotation::CLUSTER_SCHEDULED).unwrap(), "true");
}
