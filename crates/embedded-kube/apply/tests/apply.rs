//! Server-side apply and managed fields, as stories of a few writes each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use ek_apply::managed::{LAST_APPLIED, conflict_message};
use ek_apply::{Applied, ApplyError, Set, SingleType, Types, Writer, apply, update};
use ek_meta::{Definitions, Node};
use serde_json::{Value, json};

fn defs() -> Definitions {
    let v: Value = serde_json::from_str(include_str!("data/deployment.json")).unwrap();
    Definitions::parse(v.as_object().unwrap())
}

/// One object and the clock; each write is a second later.
struct World {
    defs: Definitions,
    typed: bool,
    live: Option<Value>,
    clock: u32,
    subresource: &'static str,
    reset: Set,
}

impl World {
    fn new() -> World {
        World { defs: defs(), typed: true, live: None, clock: 0, subresource: "", reset: Set::new() }
    }

    fn untyped() -> World {
        World { typed: false, ..World::new() }
    }

    fn now(&self) -> String {
        format!("2024-01-01T00:00:{:02}Z", self.clock)
    }

    fn try_apply(&mut self, manager: &str, config: Value, force: bool) -> Result<bool, ApplyError> {
        self.clock += 1;
        let now = self.now();
        let writer = Writer { manager, subresource: self.subresource, api_version: "apps/v1", now: &now };
        let types = SingleType(if self.typed { self.defs.node("Deployment") } else { None });
        let Applied { object, changed } =
            apply(&types, self.live.as_ref(), &full(config), &writer, force, &self.reset)?;
        if !changed {
            assert_eq!(Some(object.to_string()), self.live.as_ref().map(Value::to_string));
        }
        let object = object.into_owned();
        self.live = Some(object);
        Ok(changed)
    }

    fn apply(&mut self, manager: &str, config: Value) -> bool {
        self.try_apply(manager, config, false).unwrap()
    }

    fn conflicts(&mut self, manager: &str, config: Value) -> String {
        match self.try_apply(manager, config, false) {
            Err(ApplyError::Conflicts(c)) => conflict_message(&c),
            other => panic!("expected conflicts, got {other:?}"),
        }
    }

    /// A read-modify-write, or a create if there is nothing yet.
    fn update(&mut self, manager: &str, edit: impl FnOnce(&mut Value)) {
        self.clock += 1;
        let now = self.now();
        let writer = Writer { manager, subresource: self.subresource, api_version: "apps/v1", now: &now };
        let types = SingleType(if self.typed { self.defs.node("Deployment") } else { None });
        let mut new = self.live.clone().unwrap_or_else(|| full(json!({})));
        edit(&mut new);
        update(&types, self.live.as_ref(), &mut new, &writer, &self.reset);
        self.live = Some(new);
    }

    fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    /// `manager/operation[/subresource]@second fields` per entry.
    fn books(&self) -> Vec<String> {
        let Some(list) = self.live()["metadata"].get("managedFields") else { return Vec::new() };
        let line = |e: &Value| {
            let sub = e.get("subresource").map_or_else(String::new, |s| format!("/{}", s.as_str().unwrap()));
            let at = e["time"]
                .as_str()
                .map_or_else(|| "-".to_owned(), |t| t[17..19].trim_start_matches('0').to_owned());
            format!(
                "{}/{}{sub}@{at} {}",
                e["manager"].as_str().unwrap(),
                e["operation"].as_str().unwrap(),
                e["fieldsV1"]
            )
        };
        list.as_array().unwrap().iter().map(line).collect()
    }

    fn spec(&self) -> &Value {
        &self.live()["spec"]
    }
}

fn full(mut v: Value) -> Value {
    v["apiVersion"] = "apps/v1".into();
    v["kind"] = "Deployment".into();
    v["metadata"]["name"] = "d".into();
    v
}

fn containers(v: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": v}}}})
}

#[test]
fn create_then_apply_again_changes_nothing() {
    let mut w = World::new();
    let config = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}});
    assert!(w.apply("m", config.clone()));
    assert_eq!(w.books(), [r#"m/Apply@1 {"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:replicas":{}}}"#]);
    assert!(!w.apply("m", config));
    assert_eq!(w.books().len(), 1);
}

#[test]
fn a_name_alone_is_owned_by_nobody() {
    let mut w = World::new();
    w.apply("m", json!({}));
    assert_eq!(w.live(), &full(json!({})));
}

#[test]
fn conflict_unless_forced_or_agreed() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1, "paused": true}}));
    assert_eq!(
        w.conflicts("b", json!({"spec": {"replicas": 2}})),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    assert_eq!(
        w.conflicts("b", json!({"spec": {"replicas": 2, "paused": false}})),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.paused\n- .spec.replicas"
    );
    // Agreeing is sharing, and as it changes no value it has no time.
    assert!(w.apply("b", json!({"spec": {"replicas": 1}})));
    assert_eq!(w.books()[0], r#"b/Apply@- {"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(w.books()[1], r#"a/Apply@1 {"f:spec":{"f:paused":{},"f:replicas":{}}}"#);
    // Now neither may change it alone.
    assert!(w.conflicts("a", json!({"spec": {"replicas": 3, "paused": true}})).contains("\"b\""));
    assert!(w.try_apply("a", json!({"spec": {"replicas": 3, "paused": true}}), true).unwrap());
    assert_eq!(w.spec()["replicas"], 3);
    assert_eq!(w.books(), [r#"a/Apply@6 {"f:spec":{"f:paused":{},"f:replicas":{}}}"#]);
}

#[test]
fn an_updater_is_named_with_its_version() {
    let mut w = World::new();
    w.update("kubectl-edit", |o| o["spec"] = json!({"replicas": 1}));
    assert_eq!(
        w.conflicts("b", json!({"spec": {"replicas": 2}})),
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn what_is_no_longer_applied_goes_unless_someone_else_holds_it() {
    let mut w = World::new();
    w.apply(
        "a",
        json!({"metadata": {"labels": {"x": "1", "y": "1"}}, "spec": {"replicas": 1, "paused": true}}),
    );
    w.apply("b", json!({"metadata": {"labels": {"y": "1"}}}));
    w.apply("a", json!({"spec": {"replicas": 1}}));
    assert_eq!(w.spec(), &json!({"replicas": 1}));
    assert_eq!(w.live()["metadata"]["labels"], json!({"y": "1"}));
    // The last holder takes the container along.
    w.apply("b", json!({}));
    assert_eq!(w.live()["metadata"].get("labels"), None);
}

#[test]
fn nobodys_fields_stay() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1}}));
    // A default the server filled in: in the object, in no set.
    w.live.as_mut().unwrap()["spec"]["minReadySeconds"] = 5.into();
    w.apply("a", json!({"spec": {"paused": true}}));
    assert_eq!(w.spec(), &json!({"minReadySeconds": 5, "paused": true}));
    // A list item goes as a whole, with whatever defaults it had.
    w.apply("b", containers(json!([{"name": "x", "image": "i"}, {"name": "y", "image": "i"}])));
    w.live.as_mut().unwrap()["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] =
        "/t".into();
    w.apply("b", containers(json!([{"name": "y", "image": "i"}])));
    assert_eq!(w.spec()["template"]["spec"]["containers"], json!([{"name": "y", "image": "i"}]));
}

#[test]
fn associative_lists_are_shared_by_item_and_field() {
    let mut w = World::new();
    w.apply("a", containers(json!([{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}])));
    w.apply("b", containers(json!([{"name": "c", "env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]}, {"name": "d"}])));
    let c = &w.spec()["template"]["spec"]["containers"];
    assert_eq!(c[0]["env"], json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
    assert_eq!(c[0]["ports"].as_array().unwrap().len(), 2, "a missing key is its default: {c}");
    assert_eq!(c[1]["name"], "d");
    // The same port by default key is shared, a different image is not.
    assert!(
        w.conflicts("b", containers(json!([{"name": "c", "image": "j"}])))
            .ends_with("\"a\": .spec.template.spec.containers[name=\"c\"].image")
    );
    // b leaves: its items and fields go, a's stay.
    w.apply("b", json!({}));
    assert_eq!(
        w.spec()["template"]["spec"]["containers"],
        json!([{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}])
    );
}

#[test]
fn sets_are_shared_by_value() {
    let mut w = World::new();
    w.apply("a", json!({"metadata": {"finalizers": ["x", "y"]}}));
    w.apply("b", json!({"metadata": {"finalizers": ["y", "z"]}}));
    assert_eq!(w.live()["metadata"]["finalizers"], json!(["x", "y", "z"]));
    w.apply("a", json!({"metadata": {"finalizers": ["x"]}}));
    assert_eq!(w.live()["metadata"]["finalizers"], json!(["x", "y", "z"]));
    w.apply("b", json!({"metadata": {"finalizers": ["z"]}}));
    assert_eq!(w.live()["metadata"]["finalizers"], json!(["x", "z"]));
}

#[test]
fn atomic_things_are_owned_whole() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"args": ["x"], "selector": {"matchLabels": {"a": "1"}}}}));
    let message = w.conflicts(
        "b",
        json!({"spec": {"args": ["x", "y"], "selector": {"matchLabels": {"a": "1", "b": "1"}}}}),
    );
    assert_eq!(
        message,
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.args\n- .spec.selector"
    );
    w.apply("a", json!({"spec": {"args": ["z"]}}));
    assert_eq!(w.spec(), &json!({"args": ["z"]}));
}

#[test]
fn objects_without_schema_have_granular_maps_and_atomic_lists() {
    let mut w = World::untyped();
    w.apply("a", json!({"spec": {"m": {"x": 1}, "l": [{"name": "a"}]}, "metadata": {"finalizers": ["f"]}}));
    w.apply("b", json!({"spec": {"m": {"y": 1}}, "metadata": {"finalizers": ["g"]}}));
    assert!(w.conflicts("b", json!({"spec": {"l": [{"name": "b"}]}})).ends_with("\"a\": .spec.l"));
    assert_eq!(w.spec()["m"], json!({"x": 1, "y": 1}));
    w.apply("a", json!({"spec": {"m": {}}}));
    assert_eq!(w.live()["metadata"]["finalizers"], json!(["g"]));
    assert_eq!(w.spec(), &json!({"m": {"y": 1}}));
}

#[test]
fn updates_take_what_they_change_and_free_what_they_remove() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1, "paused": true, "minReadySeconds": 1}}));
    w.update("u", |o| {
        o["spec"]["replicas"] = 2.into();
        o["spec"].as_object_mut().unwrap().remove("paused");
    });
    assert_eq!(
        w.books(),
        [r#"a/Apply@1 {"f:spec":{"f:minReadySeconds":{}}}"#, r#"u/Update@2 {"f:spec":{"f:replicas":{}}}"#]
    );
    // Writing it back unchanged changes no byte, not even the time.
    let before = w.live().to_string();
    w.update("someone-else", |_| {});
    assert_eq!(w.live().to_string(), before);
    // A client that drops the list does not lose it.
    w.update("u", |o| {
        o["metadata"].as_object_mut().unwrap().remove("managedFields");
    });
    assert_eq!(w.live().to_string(), before);
    // Removing the last field ends the entry.
    w.update("v", |o| {
        o["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert_eq!(w.books(), [r#"a/Apply@1 {"f:spec":{"f:minReadySeconds":{}}}"#]);
}

#[test]
fn create_records_containers_but_not_embedded_structs() {
    let mut w = World::new();
    w.update("creator", |o| {
        o["metadata"]["labels"] = json!({"a": "b"});
        o["metadata"]["uid"] = "u".into();
        o["metadata"]["creationTimestamp"] = "t".into();
        o["spec"] = json!({"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": [{"name": "c", "resources": {}}]}}});
    });
    assert_eq!(
        w.books(),
        [
            r#"creator/Update@1 {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:resources":{}}}}}}}"#
        ]
    );
}

#[test]
fn managed_fields_can_be_edited_reset_and_not_lost() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1}}));
    let list = w.live()["metadata"]["managedFields"].clone();
    // Edited, as kubectl does to migrate from client-side apply.
    w.update("kubectl", |o| o["metadata"]["managedFields"][0]["manager"] = "renamed".into());
    assert_eq!(w.books(), [r#"renamed/Apply@1 {"f:spec":{"f:replicas":{}}}"#]);
    // Nonsense is ignored.
    w.update("x", |o| o["metadata"]["managedFields"] = json!([{"operation": "Dance"}]));
    assert_eq!(w.books(), [r#"renamed/Apply@1 {"f:spec":{"f:replicas":{}}}"#]);
    // Not through a subresource.
    w.subresource = "status";
    w.update("x", |o| o["metadata"]["managedFields"] = json!([]));
    assert_eq!(w.books().len(), 1);
    w.subresource = "";
    for reset in [json!([]), json!([{}])] {
        w.live.as_mut().unwrap()["metadata"]["managedFields"] = list.clone();
        w.update("x", |o| o["metadata"]["managedFields"] = reset);
        assert_eq!(w.live()["metadata"].get("managedFields"), None);
    }
    // Untracked stays untracked until the next apply.
    w.update("x", |o| o["spec"]["replicas"] = 2.into());
    assert!(w.books().is_empty());
}

#[test]
fn the_first_apply_attributes_what_was_there() {
    let mut w = World::new();
    w.live = Some(full(json!({"spec": {"replicas": 1, "paused": true}})));
    assert!(
        w.conflicts("a", json!({"spec": {"replicas": 2}}))
            .contains("\"before-first-apply\" using apps/v1: .spec.replicas")
    );
    w.apply("a", json!({"spec": {"replicas": 1}}));
    assert_eq!(
        w.books(),
        [
            r#"a/Apply@- {"f:spec":{"f:replicas":{}}}"#,
            r#"before-first-apply/Update@2 {"f:spec":{"f:paused":{},"f:replicas":{}}}"#
        ]
    );
}

#[test]
fn the_eleventh_updater_folds_the_oldest() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1}}));
    for n in 0..12 {
        w.update(&format!("u{n}"), |o| o["metadata"]["labels"][format!("l{n}")] = "x".into());
    }
    let books = w.books();
    assert_eq!(books.len(), 11);
    assert_eq!(books[0], r#"a/Apply@1 {"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(
        books[1],
        r#"ancient-changes/Update@4 {"f:metadata":{"f:labels":{".":{},"f:l0":{},"f:l1":{},"f:l2":{}}}}"#
    );
    assert!(books[2].starts_with("u3/Update@5"));
}

#[test]
fn endpoints_own_only_what_they_listen_to() {
    let mut w = World::new();
    w.reset = Set::of_fields(&[&["status"]]);
    w.apply("a", json!({"spec": {"replicas": 1}, "status": {"replicas": 9}}));
    assert_eq!(w.live().get("status"), None);
    w.update("a", |o| o["status"] = json!({"replicas": 9}));
    assert_eq!(w.books(), [r#"a/Apply@1 {"f:spec":{"f:replicas":{}}}"#]);
    w.live.as_mut().unwrap().as_object_mut().unwrap().remove("status");

    w.subresource = "status";
    w.reset = Set::of_fields(&[&["spec"], &["metadata", "labels"]]);
    w.update("c", |o| {
        o["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        o["spec"]["replicas"] = 7.into();
    });
    w.live.as_mut().unwrap()["spec"]["replicas"] = 1.into();
    w.apply("a", json!({"spec": {"replicas": 8}, "status": {"observedGeneration": 1}}));
    assert_eq!(w.spec()["replicas"], 1);
    let books = w.books();
    assert_eq!(books[0], r#"a/Apply@1 {"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(books[1], r#"a/Apply/status@4 {"f:status":{"f:observedGeneration":{}}}"#);
    assert_eq!(
        books[2],
        r#"c/Update/status@3 {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}}}}"#
    );
    // The same manager on two endpoints is two managers.
    assert!(
        w.conflicts("b", json!({"status": {"observedGeneration": 2}}))
            .contains("\"a\" with subresource \"status\"")
    );
}

#[test]
fn what_may_not_be_applied() {
    let mut w = World::new();
    let error = |w: &mut World, c: Value| w.try_apply("m", c, false).unwrap_err().to_string();
    assert_eq!(
        error(&mut w, json!({"metadata": {"managedFields": [{}]}})),
        "metadata.managedFields must be nil"
    );
    assert!(w.try_apply("m", json!({"metadata": {"managedFields": []}}), false).unwrap());
    assert_eq!(
        error(&mut w, json!({"spec": {"nope": 1}})),
        "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.nope: field not declared in schema"
    );
    assert!(
        error(&mut w, containers(json!([{"name": "a"}, {"name": "a"}])))
            .ends_with("duplicate entries for key [name=\"a\"]")
    );
}

#[test]
fn live_duplicates_are_survived() {
    let mut w = World::new();
    w.apply("a", containers(json!([{"name": "c", "image": "i"}])));
    w.update("u", |o| {
        o["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "e"}, {"name": "e"}, {"name": "c", "image": "i"}])
    });
    assert!(w.apply("b", json!({"spec": {"replicas": 1}})));
    assert_eq!(w.spec()["template"]["spec"]["containers"].as_array().unwrap().len(), 3);
    assert!(!w.apply("b", json!({"spec": {"replicas": 1}})));
}

#[test]
fn kubectl_moves_from_client_side_to_server_side() {
    let last = |replicas: u32| full(json!({"spec": {"replicas": replicas}}));
    let mut w = World::new();
    w.update("kubectl-client-side-apply", |o| {
        o["metadata"]["annotations"] = json!({LAST_APPLIED: last(1).to_string()});
        o["spec"] = json!({"replicas": 1, "paused": true});
    });
    // Its own annotation proves the field is kubectl's; paused it does not.
    assert!(w.conflicts("other", json!({"spec": {"replicas": 2}})).contains("kubectl-client-side-apply"));
    assert!(
        w.conflicts("kubectl", json!({"spec": {"replicas": 2, "paused": false}})).ends_with(": .spec.paused")
    );
    assert!(w.apply("kubectl", json!({"spec": {"replicas": 2}})));
    let annotation = w.live()["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(
        annotation,
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":2}}\n"
    );
    assert!(!w.apply("kubectl", json!({"spec": {"replicas": 2}})));
}

/// Two versions: `apps/v1` calls `replicas` what `apps/v2` calls `count`.
struct Renamed;

impl Types for Renamed {
    fn node(&self, _: &str) -> Option<Node<'_>> {
        None
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut o = object.clone();
        let (old, new) = match api_version {
            "apps/v1" => ("count", "replicas"),
            "apps/v2" => ("replicas", "count"),
            _ => return None,
        };
        if let Some(v) = o["spec"].as_object_mut().and_then(|s| s.remove(old)) {
            o["spec"][new] = v;
        }
        o["apiVersion"] = api_version.into();
        Some(o)
    }
}

#[test]
fn sets_are_weighed_in_their_own_version() {
    let v1 = Writer { manager: "a", subresource: "", api_version: "apps/v1", now: "2024-01-01T00:00:01Z" };
    let v2 = Writer { manager: "b", api_version: "apps/v2", ..v1 };
    let config =
        |v: &str, spec: Value| json!({"apiVersion": v, "kind": "D", "metadata": {"name": "d"}, "spec": spec});
    let none = Set::new();
    let one =
        apply(&Renamed, None, &config("apps/v1", json!({"replicas": 1, "x": 1})), &v1, false, &none).unwrap();
    let live2 = Renamed.convert(&one.object, "apps/v2").unwrap();
    let clash = apply(&Renamed, Some(&live2), &config("apps/v2", json!({"count": 2})), &v2, false, &none);
    let Err(ApplyError::Conflicts(c)) = clash else { panic!("{clash:?}") };
    assert_eq!(c[0].path, ".spec.replicas");
    // The applier itself may change version: its old claim is pruned in the old one.
    let own2 = Writer { manager: "a", ..v2 };
    let two =
        apply(&Renamed, Some(&live2), &config("apps/v2", json!({"count": 1})), &own2, false, &none).unwrap();
    assert_eq!(two.object["spec"], json!({"count": 1}));
    assert_eq!(two.object["metadata"]["managedFields"].as_array().unwrap().len(), 1);
    // A version that is gone takes its claims along.
    let mut gone = live2;
    gone["metadata"]["managedFields"][0]["apiVersion"] = "apps/v0".into();
    let free =
        apply(&Renamed, Some(&gone), &config("apps/v2", json!({"count": 2})), &v2, false, &none).unwrap();
    assert_eq!(free.object["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}

#[test]
fn order_of_applied_items_is_kept_and_changing_it_is_a_change() {
    let mut w = World::new();
    w.apply("a", containers(json!([{"name": "x"}, {"name": "y"}])));
    assert!(w.apply("a", containers(json!([{"name": "y"}, {"name": "x"}]))));
    assert_eq!(w.spec()["template"]["spec"]["containers"], json!([{"name": "y"}, {"name": "x"}]));
}

#[test]
fn nulls_of_generated_manifests_are_no_change() {
    let mut w = World::new();
    w.apply("a", json!({"spec": {"replicas": 1}}));
    let config = json!({"spec": {"replicas": 1, "template": {"metadata": {"creationTimestamp": null}}}});
    w.apply("a", config.clone());
    assert!(!w.apply("a", config));
}
