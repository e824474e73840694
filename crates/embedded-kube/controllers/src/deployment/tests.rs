use super::plan::{Set, bounds, newest, plan, same};
use serde_json::{Value, json};
use std::sync::Arc;

fn deployment(replicas: i64, image: &str, strategy: Value) -> Value {
    json!({"metadata": {"name": "d", "namespace": "n", "uid": "u", "generation": 1}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "strategy": strategy, "revisionHistoryLimit": 2,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn set(d: &Value, image: &str, replicas: i64, available: i64, revision: i64) -> Set {
    let wanted = d["spec"]["replicas"].as_i64().unwrap();
    Set::of(Arc::new(
        json!({"metadata": {"name": format!("d-{image}"), "generation": 1, "creationTimestamp": format!("2026-01-01T00:00:0{revision}Z"), "annotations": {
            "deployment.kubernetes.io/desired-replicas": wanted.to_string(), "deployment.kubernetes.io/max-replicas": (wanted + bounds(d).0).to_string(),
            "deployment.kubernetes.io/revision": revision.to_string()}},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"a": "b", "pod-template-hash": image}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
        "status": {"replicas": replicas, "availableReplicas": available, "observedGeneration": 1}}),
    ))
}

fn sizes(d: &Value, sets: &[Set]) -> Vec<(String, i64)> {
    let p = plan(d, sets, false);
    let mut all: Vec<(String, i64)> = sets
        .iter()
        .map(|s| {
            let to = p.changes.iter().find(|c| c.name == s.name).map_or(s.replicas, |c| c.to);
            (s.name.clone(), to)
        })
        .collect();
    all.extend(p.create.map(|c| ("new".to_owned(), c["spec"]["replicas"].as_i64().unwrap())));
    all
}

fn pairs(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(n, i)| ((*n).to_owned(), *i)).collect()
}

#[test]
fn percentages_round_up_for_surge_and_down_for_unavailable() {
    assert_eq!(bounds(&deployment(10, "x", rolling(json!("25%"), json!("25%")))), (3, 2));
    assert_eq!(bounds(&deployment(1, "x", rolling(json!("25%"), json!("25%")))), (1, 0));
    assert_eq!(bounds(&deployment(3, "x", rolling(json!(0), json!("0%")))), (0, 1));
}

#[test]
fn a_rolling_update_goes_step_by_step_within_its_bounds() {
    let d = deployment(4, "v2", rolling(json!(1), json!(1)));
    let v1 = |n, a| set(&d, "v1", n, a, 1);
    let v2 = |n, a| set(&d, "v2", n, a, 2);
    assert_eq!(sizes(&d, &[v1(4, 4)]), pairs(&[("d-v1", 3), ("new", 1)]));
    assert_eq!(sizes(&d, &[v1(3, 3), v2(1, 0)]), pairs(&[("d-v1", 3), ("d-v2", 2)]));
    assert_eq!(sizes(&d, &[v1(3, 3), v2(2, 1)]), pairs(&[("d-v1", 2), ("d-v2", 2)]));
    assert_eq!(sizes(&d, &[v1(2, 0), v2(2, 2)]), pairs(&[("d-v1", 1), ("d-v2", 3)]));
    assert_eq!(sizes(&d, &[v1(1, 1), v2(4, 4)]), pairs(&[("d-v1", 0), ("d-v2", 4)]));
}

#[test]
fn recreate_waits_until_nothing_old_runs() {
    let d = deployment(3, "v2", json!({"type": "Recreate"}));
    assert_eq!(sizes(&d, &[set(&d, "v1", 3, 3, 1)]), pairs(&[("d-v1", 0), ("new", 0)]));
    let mut going = set(&d, "v1", 0, 0, 1);
    Arc::make_mut(&mut going.object)["status"]["replicas"] = json!(2);
    assert_eq!(sizes(&d, &[going, set(&d, "v2", 0, 0, 2)]), pairs(&[("d-v1", 0), ("d-v2", 0)]));
    assert_eq!(
        sizes(&d, &[set(&d, "v1", 0, 0, 1), set(&d, "v2", 0, 0, 2)]),
        pairs(&[("d-v1", 0), ("d-v2", 3)])
    );
}

#[test]
fn scaling_in_the_middle_keeps_shares() {
    let before = deployment(10, "v2", rolling(json!(3), json!(2)));
    let sets = [set(&before, "v1", 8, 8, 1), set(&before, "v2", 5, 0, 2)];
    let mut d = before.clone();
    d["spec"]["replicas"] = json!(15);
    assert_eq!(sizes(&d, &sets), pairs(&[("d-v1", 11), ("d-v2", 7)]));
    let alone = [set(&before, "v2", 10, 10, 1)];
    assert_eq!(sizes(&d, &alone), pairs(&[("d-v2", 15)]));
}

#[test]
fn paused_scales_but_does_not_roll() {
    let before = deployment(2, "v2", rolling(json!(1), json!(0)));
    let mut d = before.clone();
    d["spec"]["paused"] = json!(true);
    assert_eq!(sizes(&d, &[set(&before, "v1", 2, 2, 1)]), pairs(&[("d-v1", 2)]));
    d["spec"]["replicas"] = json!(5);
    assert_eq!(sizes(&d, &[set(&before, "v1", 2, 2, 1)]), pairs(&[("d-v1", 5)]));
}

#[test]
fn going_back_gives_the_old_set_a_new_revision_and_history_is_bounded() {
    let d = deployment(1, "v1", rolling(json!(1), json!(0)));
    let sets: Vec<Set> =
        (1..=5).map(|i| set(&d, &format!("v{i}"), i64::from(i == 5), i64::from(i == 5), i)).collect();
    assert_eq!(newest(&d, &sets).unwrap().name, "d-v1");
    let p = plan(&d, &sets, true);
    assert_eq!(p.revision, Some(6));
    let change = p.changes.iter().find(|c| c.name == "d-v1").unwrap();
    assert!(change.annotations.contains(&("deployment.kubernetes.io/revision".into(), "6".into())));
    assert!(change.annotations.contains(&("deployment.kubernetes.io/revision-history".into(), "1".into())));
    assert_eq!(p.delete, ["d-v2"], "of three idle ones two are kept");
}

#[test]
fn templates_are_compared_without_the_hash_that_the_controller_adds() {
    let of = |labels: Value, image: &str| json!({"metadata": {"labels": labels}, "spec": {"image": image}});
    let hashed = of(json!({"pod-template-hash": "1", "a": "b"}), "i");
    assert!(same(&of(json!({"a": "b"}), "i"), &hashed) && same(&hashed, &of(json!({"a": "b"}), "i")));
    for other in
        [of(json!({"a": "c"}), "i"), of(json!({"a": "b", "c": "d"}), "i"), of(json!({"a": "b"}), "j")]
    {
        assert!(!same(&other, &hashed) && !same(&hashed, &other), "{other}");
    }
    let mut annotated = hashed.clone();
    annotated["metadata"]["annotations"] = json!({"a": "b"});
    assert!(!same(&annotated, &hashed) && !same(&hashed, &annotated));
    let only_hash = of(json!({"pod-template-hash": "1"}), "i");
    assert!(
        same(&json!({"spec": {"image": "i"}}), &only_hash)
            && same(&only_hash, &json!({"spec": {"image": "i"}}))
    );
}
