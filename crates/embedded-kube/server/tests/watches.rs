//! Watches: every change once, in order, for those it concerns.

use crate::api::*;
use serde_json::json;

#[tokio::test]
async fn a_watch_from_a_version_sees_everything_after_it_once() {
    let api = start().await;
    let a = rv(&api.post(MAPS, map("a")).await.ok(201));
    api.post(MAPS, map("b")).await.ok(201);
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={a}")).await;
    api.patch(MERGE, &format!("{MAPS}/a"), json!({"data": {"k": "2"}})).await.ok(200);
    api.delete(&format!("{MAPS}/b")).await.ok(200);
    api.post("/api/v1/namespaces/kube-system/configmaps", map("elsewhere")).await.ok(201);
    api.post(MAPS, map("c")).await.ok(201);
    let events = w.take(4).await;
    let text: Vec<_> = events
        .iter()
        .map(|e| {
            format!("{} {}", e["type"].as_str().unwrap(), e["object"]["metadata"]["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(text, ["ADDED b", "MODIFIED a", "DELETED b", "ADDED c"]);
    let versions: Vec<u64> = events.iter().map(|e| rv(&e["object"]).parse().unwrap()).collect();
    assert!(versions.is_sorted());
    assert_eq!(
        (&events[0]["object"]["kind"], &events[0]["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
}

#[tokio::test]
async fn without_a_version_the_present_comes_first() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    for q in ["watch=1", "watch=true&resourceVersion=0", "watch=true&resourceVersion="] {
        let mut w = api.watch(&format!("{MAPS}?{q}")).await;
        assert_eq!(w.names(1).await, ["ADDED a"]);
    }
    let mut w = api.watch("/api/v1/watch/namespaces/default/configmaps").await;
    assert_eq!(w.names(1).await, ["ADDED a"]);
}

#[tokio::test]
async fn a_watch_from_the_future_waits_for_it() {
    let api = start().await;
    let now: u64 = rv(&api.post(MAPS, map("a")).await.ok(201)).parse().unwrap();
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={}", now + 2)).await;
    for n in ["b", "c", "d"] {
        api.post(MAPS, map(n)).await.ok(201);
    }
    assert_eq!(w.names(1).await, ["ADDED d"]);
}

#[tokio::test]
async fn an_object_enters_and_leaves_a_selection() {
    let api = start_widgets().await;
    let start = rv(&api.post(MAPS, labelled("a", json!({"x": "1"}))).await.ok(201));
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={start}&labelSelector=x%3D1")).await;
    let at = format!("{MAPS}/a");
    let out = api
        .patch(MERGE, &at, json!({"metadata": {"labels": {"x": "2"}}, "data": {"k": "outside"}}))
        .await
        .ok(200);
    api.patch(MERGE, &at, json!({"data": {"k": "unseen"}})).await.ok(200);
    api.patch(MERGE, &at, json!({"metadata": {"labels": {"x": "1"}}})).await.ok(200);
    api.patch(MERGE, &at, json!({"data": {"k": "seen"}})).await.ok(200);
    api.patch(MERGE, &at, json!({"metadata": {"labels": {"x": "2"}}})).await.ok(200);
    api.delete(&at).await.ok(200);
    api.post(MAPS, labelled("b", json!({"x": "1"}))).await.ok(201);
    let events = w.take(5).await;
    let types: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["DELETED", "ADDED", "MODIFIED", "DELETED", "ADDED"]);
    // Who leaves is shown as last seen, with the version at which it left.
    let left = &events[0]["object"];
    assert_eq!((&left["data"]["k"], &left["metadata"]["labels"]["x"]), (&json!("v"), &json!("1")));
    assert_eq!(rv(left), rv(&out));
    // The same for a field selector, and for other shapes.
    let mut blue = widget("w");
    blue["spec"]["color"] = json!("blue");
    let since = rv(&api.post(WIDGETS, blue).await.ok(201));
    let q = format!("{WIDGETS}?watch=1&resourceVersion={since}&fieldSelector=spec.color%3Dblue");
    let mut whole = api.watch(&q).await;
    let mut table = api.with("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").watch(&q).await;
    let out =
        api.patch(MERGE, &format!("{WIDGETS}/w"), json!({"spec": {"color": "red", "size": 8}})).await.ok(200);
    let e = whole.next().await.unwrap();
    assert_eq!(
        (&e["type"], &e["object"]["spec"]["color"], rv(&e["object"])),
        (&json!("DELETED"), &json!("blue"), rv(&out))
    );
    let e = table.next().await.unwrap();
    assert_eq!((&e["type"], &e["object"]["rows"][0]["cells"][1]), (&json!("DELETED"), &json!(5)));
    assert_eq!(rv(&e["object"]["rows"][0]["object"]), rv(&out));
}

#[tokio::test]
async fn one_object_can_be_watched() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let mut by_path = api.watch(&format!("{MAPS}/a?watch=1")).await;
    let mut by_field =
        api.watch(&format!("{MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Da")).await;
    api.post(MAPS, map("b")).await.ok(201);
    api.delete(&format!("{MAPS}/a")).await.ok(200);
    for w in [&mut by_path, &mut by_field] {
        assert_eq!(w.names(2).await, ["ADDED a", "DELETED a"]);
    }
}

#[tokio::test]
async fn streaming_lists_end_their_first_part_with_a_bookmark() {
    let api = start_widgets().await;
    api.post(MAPS, map("a")).await.ok(201);
    let q = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut w = api.watch(&format!("{MAPS}?{q}")).await;
    let list = api.get(MAPS).await.ok(200);
    let e = w.take(2).await;
    assert_eq!(e[0]["object"]["metadata"]["name"], "a");
    let expect = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": rv(&list),
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    assert_eq!((&e[1]["type"], &e[1]["object"]), (&json!("BOOKMARK"), &expect));
    api.post(MAPS, map("b")).await.ok(201);
    assert_eq!(w.names(1).await, ["ADDED b"]);
    // An empty list is a bookmark alone.
    let mut w = api.watch(&format!("{WIDGETS}?{q}")).await;
    assert_eq!(w.next().await.unwrap()["type"], "BOOKMARK");
    for (bad, field) in [
        ("watch=1&sendInitialEvents=true&allowWatchBookmarks=true", "resourceVersionMatch"),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true",
            "resourceVersionMatch",
        ),
        ("watch=1&resourceVersionMatch=NotOlderThan", "resourceVersionMatch"),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "sendInitialEvents"),
    ] {
        let r = api.get(&format!("{MAPS}?{bad}")).await;
        let cause = &r.body()["details"]["causes"][0];
        assert_eq!(
            (&cause["reason"], &cause["field"]),
            (&json!("FieldValueForbidden"), &json!(field)),
            "{bad}"
        );
        r.fails(422, "Invalid");
    }
    // Without bookmarks allowed it is a plain replay.
    let mut w =
        api.watch(&format!("{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(w.names(2).await, ["ADDED a", "ADDED b"]);
    // sendInitialEvents=false skips the present.
    let mut w = api.watch(&format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")).await;
    api.post(MAPS, map("c")).await.ok(201);
    assert_eq!(w.names(1).await, ["ADDED c"]);
}

#[tokio::test]
async fn a_watch_ends_in_time_with_a_bookmark_if_asked_for() {
    let api = start().await;
    let now = rv(&api.post(MAPS, map("a")).await.ok(201));
    let mut w = api
        .watch(&format!("{MAPS}?watch=1&resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=1"))
        .await;
    let mut quiet = api.watch(&format!("{MAPS}?watch=1&resourceVersion={now}&timeoutSeconds=1")).await;
    let later = rv(&api
        .post("/api/v1/namespaces/kube-system/secrets", json!({"metadata": {"name": "s"}}))
        .await
        .ok(201));
    let mut seen = Vec::new();
    while let Some(e) = w.next().await {
        seen.push(e);
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    for e in &seen {
        assert_eq!(e["type"], "BOOKMARK");
        assert_eq!(
            e["object"],
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": later}})
        );
    }
    assert!(quiet.next().await.is_none(), "no bookmarks unless asked for, and an end in time");
}

#[tokio::test]
async fn a_stopped_server_ends_its_watches() {
    let api = start().await;
    let mut w = api.watch(&format!("{MAPS}?watch=1")).await;
    api.server.stop().await;
    assert!(w.next().await.is_none());
}

#[tokio::test]
async fn many_writers_and_watchers_agree() {
    let api = start().await;
    let now = rv(&api.post(MAPS, map("a")).await.ok(201));
    let watchers: Vec<_> = futures::future::join_all((0..4).map(|_| api.watch_from(&now))).await;
    let writers = (0..8).map(|i| {
        let api = api.clone();
        tokio::spawn(async move {
            for j in 0..10 {
                // Patches without a version are tried until they win.
                let body = json!({"data": {format!("w{i}"): j.to_string()}});
                api.patch(MERGE, &format!("{MAPS}/a"), body).await.ok(200);
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|r| r.unwrap());
    let last = api.get(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!(last["data"].as_object().unwrap().len(), 9);
    for mut w in watchers {
        let events = w.take(80).await;
        assert_eq!(rv(&events[79]["object"]), rv(&last));
    }
}
