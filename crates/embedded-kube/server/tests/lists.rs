//! Lists: versions, pages, selectors.

use crate::api::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

#[tokio::test]
async fn items_of_built_in_kinds_omit_their_kind_and_custom_ones_carry_it() {
    let api = start_widgets().await;
    api.post(MAPS, map("a")).await.ok(201);
    api.post(WIDGETS, widget("w")).await.ok(201);
    let l = api.get(MAPS).await.ok(200);
    assert_eq!((&l["kind"], &l["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(l["items"][0]["kind"].is_null() && l["items"][0]["apiVersion"].is_null());
    let l = api.get(WIDGETS).await.ok(200);
    assert_eq!((&l["kind"], &l["apiVersion"]), (&json!("WidgetList"), &json!("x.io/v1")));
    assert_eq!((&l["items"][0]["kind"], &l["items"][0]["apiVersion"]), (&json!("Widget"), &json!("x.io/v1")));
    let empty = api.get("/api/v1/namespaces/default/secrets").await.ok(200);
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test]
async fn versions_of_lists() {
    let api = start().await;
    let a = rv(&api.post(MAPS, map("a")).await.ok(201));
    let b = rv(&api.post(MAPS, map("b")).await.ok(201));
    let l = async |q: &str| api.get(&format!("{MAPS}?{q}")).await;
    for q in [
        "",
        "resourceVersion=",
        "resourceVersion=0",
        &format!("resourceVersion={a}"),
        &format!("resourceVersion={a}&resourceVersionMatch=NotOlderThan"),
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    ] {
        let got = l(q).await.ok(200);
        assert_eq!(names(&got), ["a", "b"], "{q}");
        assert!(rv(&got).parse::<u64>().unwrap() >= b.parse().unwrap());
    }
    let exact = l(&format!("resourceVersion={a}&resourceVersionMatch=Exact")).await.ok(200);
    assert_eq!((names(&exact), rv(&exact)), (vec!["a".to_owned()], a.clone()));
    let future = b.parse::<u64>().unwrap() + 1000;
    for q in
        [format!("resourceVersion={future}"), format!("resourceVersion={future}&resourceVersionMatch=Exact")]
    {
        let r = l(&q).await;
        assert_eq!(
            r.body()["details"]["causes"],
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}])
        );
        assert_eq!(r.body()["details"]["retryAfterSeconds"], 1);
        assert_eq!(r.header("retry-after"), "1");
        assert!(
            r.fails(504, "Timeout")
                .starts_with(&format!("Timeout: Too large resource version: {future}, current: "))
        );
    }
    api.get(&format!("{MAPS}/a?resourceVersion={future}")).await.fails(504, "Timeout");
    l("resourceVersion=x").await.fails(400, "BadRequest");
    l("resourceVersionMatch=Exact").await.fails(422, "Invalid");
    l("resourceVersion=0&resourceVersionMatch=Exact").await.fails(422, "Invalid");
    l("resourceVersion=1&resourceVersionMatch=Sometimes").await.fails(422, "Invalid");
    assert_eq!(
        l("resourceVersion=0&limit=1").await.ok(200)["items"].as_array().unwrap().len(),
        2,
        "any state: the limit does not count"
    );
}

#[tokio::test]
async fn pages_show_one_moment() {
    let api = start().await;
    for i in 0..5 {
        api.post(MAPS, map(&format!("m{i}"))).await.ok(201);
    }
    let first = api.get(&format!("{MAPS}?limit=2")).await.ok(200);
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["m0".into(), "m1".into()], &json!(3))
    );
    // What happens meanwhile is not seen by this list.
    api.delete(&format!("{MAPS}/m2")).await.ok(200);
    api.post(MAPS, map("m1a")).await.ok(201);
    api.patch(MERGE, &format!("{MAPS}/m3"), json!({"data": {"k": "new"}})).await.ok(200);
    let go_on = |l: &serde_json::Value| {
        format!("{MAPS}?limit=2&continue={}", l["metadata"]["continue"].as_str().unwrap())
    };
    let second = api.get(&go_on(&first)).await.ok(200);
    assert_eq!((names(&second), rv(&second)), (vec!["m2".into(), "m3".into()], rv(&first)));
    assert_eq!(second["items"][1]["data"]["k"], "v");
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let third = api.get(&go_on(&second)).await.ok(200);
    assert_eq!(names(&third), ["m4"]);
    assert!(third["metadata"]["continue"].is_null() && third["metadata"]["remainingItemCount"].is_null());
    let some = api.get(&format!("{MAPS}?limit=1&labelSelector=!x")).await.ok(200);
    assert!(some["metadata"]["continue"].is_string() && some["metadata"]["remainingItemCount"].is_null());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let decoded: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    assert_eq!((&decoded["v"], &decoded["start"]), (&json!("meta.k8s.io/v1"), &json!("m1\u{0}")));
    api.get(&format!("{MAPS}?limit=2&resourceVersion=5&continue={token}")).await.fails(400, "BadRequest");
    // All namespaces: pages cross them.
    let all = api.get("/api/v1/configmaps?limit=1").await.ok(200);
    let next = api
        .get(&format!(
            "/api/v1/configmaps?limit=500&continue={}",
            all["metadata"]["continue"].as_str().unwrap()
        ))
        .await
        .ok(200);
    assert!(!names(&next).contains(&names(&all)[0]) || names(&next).len() > 3);
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    for v in [
        json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "../secrets/x"}),
        json!({"v": "meta.k8s.io/v1", "rv": -5, "start": "a"}),
        json!({"v": "v0", "rv": 1, "start": "a"}),
        json!([]),
        json!("x"),
    ] {
        let token = URL_SAFE_NO_PAD.encode(v.to_string());
        let m = api.get(&format!("{MAPS}?limit=1&continue={token}")).await.fails(400, "BadRequest");
        assert!(m.starts_with("invalid continue token: continue key is not valid"), "{m}");
    }
    api.get(&format!("{MAPS}?limit=1&continue=%00%ff")).await.fails(400, "BadRequest");
    api.get(&format!("{MAPS}?limit=x")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn history_that_is_gone_is_said_to_be() {
    let (api, clock) = start_manual().await;
    let a = rv(&api.post(MAPS, map("m-a")).await.ok(201));
    api.post(MAPS, map("m-b")).await.ok(201);
    let page = api.get(&format!("{MAPS}?limit=1")).await.ok(200);
    clock.advance(jiff::SignedDuration::from_secs(100));
    for i in 0..1100 {
        api.patch(MERGE, &format!("{MAPS}/m-a"), json!({"data": {"k": i.to_string()}})).await.ok(200);
    }
    clock.advance(jiff::SignedDuration::from_secs(100));
    api.patch(MERGE, &format!("{MAPS}/m-a"), json!({"data": {"k": "last"}})).await.ok(200);
    let r = api.get(&format!("{MAPS}?resourceVersion={a}&resourceVersionMatch=Exact")).await;
    assert_eq!(r.fails(410, "Expired"), format!("The resourceVersion for the provided list is too old: {a}"));
    let r =
        api.get(&format!("{MAPS}?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap())).await;
    let fresh = r.body()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert!(r.fails(410, "Expired").starts_with("The provided continue parameter is too old"));
    assert_eq!(names(&api.get(&format!("{MAPS}?limit=1&continue={fresh}")).await.ok(200)), ["m-b"]);
    // A watch that starts too early says so in its stream.
    let mut w = api.watch(&format!("{MAPS}?watch=1&resourceVersion={a}")).await;
    let e = w.next().await.unwrap();
    assert_eq!(
        (&e["type"], &e["object"]["code"], &e["object"]["reason"]),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert!(e["object"]["message"].as_str().unwrap().starts_with("too old resource version: "));
    assert!(w.next().await.is_none());
}

#[tokio::test]
async fn label_selectors() {
    let api = start().await;
    for (n, l) in [("a", json!({"x": "1"})), ("b", json!({"x": "2", "y": "z"})), ("c", json!({}))] {
        api.post(MAPS, labelled(n, l)).await.ok(201);
    }
    for (s, want) in [
        ("x%3D1", "a"),
        ("x%3D%3D2", "b"),
        ("x!%3D1", "b,c"),
        ("x", "a,b"),
        ("!x", "c"),
        ("x%20in%20(1,2)", "a,b"),
        ("x%20notin%20(1)", "b,c"),
        ("x%3D2,y", "b"),
        ("x%3E1", "b"),
        ("", "a,b,c"),
    ] {
        let got = api.get(&format!("{MAPS}?labelSelector={s}")).await.ok(200);
        assert_eq!(names(&got).join(","), want, "{s}");
    }
    for s in ["x%3D%3D%3D", "x%20in", "(", "x%20in%20()x", "-%3Dy"] {
        api.get(&format!("{MAPS}?labelSelector={s}")).await.fails(400, "BadRequest");
    }
}

#[tokio::test]
async fn field_selectors() {
    let api = start_widgets().await;
    let pick = async |uri: &str| names(&api.get(uri).await.ok(200)).join(",");
    let mut p = pod("p");
    p["spec"]["nodeName"] = json!("n1");
    p["spec"]["restartPolicy"] = json!("Never");
    api.post(PODS, p).await.ok(201);
    api.post(PODS, pod("q")).await.ok(201);
    api.patch(
        MERGE,
        &format!("{PODS}/p/status"),
        json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}}),
    )
    .await
    .ok(200);
    for (s, want) in [
        ("spec.nodeName%3Dn1", "p"),
        ("spec.nodeName%3D", "q"),
        ("spec.nodeName!%3Dn1", "q"),
        ("status.phase%3DRunning", "p"),
        ("status.phase%3DPending", "q"),
        ("status.podIP%3D10.0.0.1", "p"),
        ("spec.restartPolicy%3DNever", "p"),
        ("spec.schedulerName%3Ddefault-scheduler", "p,q"),
        ("spec.serviceAccountName%3Ddefault", "p,q"),
        ("spec.hostNetwork%3Dfalse", "p,q"),
        ("status.nominatedNodeName%3D", "p,q"),
        ("metadata.name%3Dp", "p"),
        ("metadata.name!%3Dp", "q"),
        ("metadata.namespace%3Ddefault", "p,q"),
        ("metadata.namespace%3Dother", ""),
        ("metadata.name%3Dp,spec.nodeName%3Dn1", "p"),
        ("metadata.name%3Dp,metadata.name%3Dq", ""),
    ] {
        assert_eq!(pick(&format!("{PODS}?fieldSelector={s}")).await, want, "{s}");
    }
    assert_eq!(pick("/api/v1/pods?fieldSelector=metadata.namespace%3Ddefault").await, "p,q");
    assert_eq!(pick("/api/v1/pods?fieldSelector=metadata.name%3Dq").await, "q");
    let event = |n: &str, kind: &str| {
        json!({"metadata": {"name": n, "namespace": "default"}, "type": "Normal", "reason": "R",
        "involvedObject": {"kind": kind, "name": n, "namespace": "default", "uid": "u"}, "source": {"component": "me"}, "reportingComponent": "me"})
    };
    let events = "/api/v1/namespaces/default/events";
    api.post(events, event("e1", "Pod")).await.ok(201);
    api.post(events, event("e2", "Node")).await.ok(201);
    for s in [
        "involvedObject.kind%3DPod",
        "involvedObject.name%3De1",
        "involvedObject.uid%3Du,involvedObject.kind%3DPod",
        "involvedObject.namespace%3Ddefault,involvedObject.name%3De1",
        "reason%3DR,involvedObject.kind%3DPod",
        "type%3DNormal,involvedObject.kind%3DPod",
        "source%3Dme,involvedObject.kind%3DPod",
        "reportingComponent%3Dme,involvedObject.kind%3DPod",
    ] {
        assert_eq!(pick(&format!("{events}?fieldSelector={s}")).await, "e1", "{s}");
    }
    assert_eq!(
        pick("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.kind%3DNode").await,
        "e2"
    );
    api.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}, "type": "x.io/y"}))
        .await
        .ok(201);
    assert_eq!(pick("/api/v1/namespaces/default/secrets?fieldSelector=type%3Dx.io/y").await, "s");
    assert_eq!(pick("/api/v1/namespaces/default/secrets?fieldSelector=type%3DOpaque").await, "");
    assert!(pick("/api/v1/namespaces?fieldSelector=status.phase%3DActive").await.contains("default"));
    api.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);
    assert_eq!(pick("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse").await, "n1");
    assert_eq!(pick("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").await, "");
    let mut blue = widget("blue");
    blue["spec"]["color"] = json!("blue");
    api.post(WIDGETS, blue).await.ok(201);
    api.post(WIDGETS, widget("plain")).await.ok(201);
    assert_eq!(pick(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).await, "blue");
    assert_eq!(pick(&format!("{WIDGETS}?fieldSelector=spec.color!%3Dblue")).await, "plain");
    let m = api.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D5")).await.fails(400, "BadRequest");
    assert!(m.contains("field label not supported: spec.size"), "{m}");
    api.get(&format!("{PODS}?fieldSelector=spec.nothing%3Dx")).await.fails(400, "BadRequest");
    api.get(&format!("{PODS}?fieldSelector=spec")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn a_list_that_takes_too_long_goes_on_with_what_is_there() {
    let (api, clock) = start_manual().await;
    for name in ["a", "b", "c"] {
        api.post(MAPS, map(name)).await.ok(201);
    }
    let token = |v: &serde_json::Value| v["metadata"]["continue"].as_str().unwrap().to_owned();
    let first = api.get(&format!("{MAPS}?limit=1")).await.ok(200);
    clock.advance(jiff::SignedDuration::from_secs(200));
    let next = format!("{MAPS}?limit=1&continue={}", token(&first));
    let second = api.get(&next).await.ok(200);
    api.delete(&format!("{MAPS}/c")).await.ok(200);
    clock.advance(jiff::SignedDuration::from_secs(200));
    let r = api.get(&format!("{MAPS}?limit=1&continue={}", token(&second))).await;
    assert_eq!(r.code, 410, "counted from the beginning of the list");
    let rest = api.get(&format!("{MAPS}?limit=1&continue={}", token(&r.body()))).await.ok(200);
    assert_eq!(names(&rest), Vec::<String>::new(), "what is there now");
}
