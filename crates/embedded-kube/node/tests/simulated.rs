//! Pods that walk through stages.

use crate::kit::{Kit, condition};
use ek_node::StageSet;
use ek_node::stage::{COMPLETE_AFTER, EXIT_CODE, FAIL, SIMULATED};
use ek_server::Deletion;
use ek_server::registry::table_name;
use serde_json::{Value, json};

fn state(pod: &Value, i: usize) -> &Value {
    &pod["status"]["containerStatuses"][i]["state"]
}

#[tokio::test]
async fn a_pod_becomes_ready_and_looks_like_a_kubelets() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.pod("a", |_| {}).await;
    let pod = kit.get("a");
    let s = &pod["status"];
    assert_eq!(s["phase"], "Running");
    assert_eq!(pod["metadata"]["annotations"][SIMULATED], "true");
    let kinds: Vec<&str> =
        s["conditions"].as_array().unwrap().iter().filter_map(|c| c["type"].as_str()).collect();
    assert_eq!(
        kinds,
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    );
    assert!(s["conditions"].as_array().unwrap().iter().all(|c| c["status"] == "True"));
    assert_eq!(s["podIP"], "10.128.0.2");
    assert_eq!(s["podIPs"], json!([{"ip": "10.128.0.2"}]));
    assert_eq!(s["hostIPs"][0]["ip"], s["hostIP"]);
    assert_eq!(s["qosClass"], "BestEffort");
    assert_eq!(s["startTime"], "2026-01-01T00:00:00Z");
    let c = &s["containerStatuses"][0];
    assert_eq!((&c["ready"], &c["started"], &c["restartCount"]), (&json!(true), &json!(true), &json!(0)));
    assert_eq!(c["containerID"].as_str().unwrap().len(), "containerd://".len() + 64);
    assert!(c["imageID"].as_str().unwrap().starts_with("example/app:1@sha256:"));
    assert_eq!(kit.reasons(), ["Pulled", "Created", "Started"]);
    kit.pod("latest", |p| p["spec"]["containers"][0]["image"] = json!("example/app")).await;
    assert_eq!(kit.reasons()[3..], ["Pulling", "Pulled", "Created", "Started"]);
    // A pod at rest is left alone.
    let before = pod["metadata"]["resourceVersion"].clone();
    kit.nodes.step("main", "default", "a", 0).unwrap();
    kit.engine.settle().await;
    assert_eq!(kit.get("a")["metadata"]["resourceVersion"], before);
}

#[tokio::test]
async fn stages_take_their_time() {
    let kit = Kit::new(StageSet::realistic()).await;
    kit.pod("a", |p| {
        p["spec"]["containers"][0]["readinessProbe"] =
            json!({"httpGet": {"port": 80}, "initialDelaySeconds": 5})
    })
    .await;
    assert_eq!(kit.get("a")["status"]["phase"], "Pending");
    kit.pass(3).await;
    assert_eq!(kit.get("a")["status"]["phase"], "Running");
    assert_eq!(condition(&kit.get("a"), "Ready"), "False");
    kit.pass(6).await;
    assert_eq!(condition(&kit.get("a"), "Ready"), "True");
}

#[tokio::test]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let kit = Kit::new(StageSet::realistic()).await;
    let init = json!([{"name": "first", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}, {"name": "last", "image": "i"}]);
    kit.pod("a", |p| p["spec"]["initContainers"] = init).await;
    let mut seen = Vec::new();
    for _ in 0..20 {
        kit.pass(1).await;
        let pod = kit.get("a");
        let line: Vec<String> = (pod["status"]["initContainerStatuses"].as_array().into_iter().flatten())
            .chain(pod["status"]["containerStatuses"].as_array().into_iter().flatten())
            .map(|c| c["state"].as_object().unwrap().keys().next().unwrap()[..1].to_owned())
            .collect();
        let line = line.concat();
        if !line.is_empty() && seen.last() != Some(&line) {
            seen.push(line);
        }
    }
    // waiting, running, terminated; never a later one before an earlier one.
    assert_eq!(seen.last().unwrap(), "trtr", "{seen:?}");
    assert!(seen.iter().all(|l| !l.starts_with('w') || l == "wwww"), "{seen:?}");
    assert_eq!(condition(&kit.get("a"), "Ready"), "True");
}

#[tokio::test]
async fn crash_loops_back_off() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.pod("a", |p| p["metadata"]["annotations"] = json!({FAIL: "CrashLoop"})).await;
    let pod = kit.get("a");
    assert_eq!(state(&pod, 0)["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(pod["status"]["phase"], "Running");
    let text = state(&pod, 0)["waiting"]["message"].as_str().unwrap();
    assert!(text.starts_with("back-off 10s restarting failed container=main pod=a_default("), "{text}");
    let mut restarts = Vec::new();
    for second in 1..=80 {
        kit.pass(1).await;
        let n = kit.get("a")["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap();
        if restarts.last().is_none_or(|(_, m)| *m != n) {
            restarts.push((second, n));
        }
    }
    assert_eq!(restarts, [(1, 1), (10, 2), (30, 3), (70, 4)]);
    assert!(kit.reasons().contains(&"BackOff".to_owned()));
    // Healed, it stays up.
    kit.nodes.fail("main", "default", "a", None).await.unwrap();
    kit.pass(90).await;
    assert_eq!(condition(&kit.get("a"), "Ready"), "True");
}

#[tokio::test]
async fn images_that_do_not_come() {
    let kit = Kit::new(StageSet::realistic()).await;
    kit.pod("a", |p| p["metadata"]["annotations"] = json!({FAIL: "ImagePullBackOff"})).await;
    kit.pass(2).await;
    assert_eq!(state(&kit.get("a"), 0)["waiting"]["reason"], "ErrImagePull");
    kit.pass(3).await;
    assert_eq!(state(&kit.get("a"), 0)["waiting"]["reason"], "ImagePullBackOff");
    assert_eq!(kit.get("a")["status"]["phase"], "Pending");
    kit.nodes.fail("main", "default", "a", None).await.unwrap();
    kit.pass(25).await;
    assert_eq!(condition(&kit.get("a"), "Ready"), "True");
}

#[tokio::test]
async fn jobs_end_and_other_endings() {
    let kit = Kit::new(StageSet::instant()).await;
    let job = |p: &mut Value| {
        p["spec"]["restartPolicy"] = json!("Never");
        p["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
    };
    kit.pod("done", job).await;
    let pod = kit.get("done");
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert_eq!(state(&pod, 0)["terminated"]["reason"], "Completed");
    assert_eq!(condition(&pod, "Ready"), "False");
    kit.pod("bad", |p| {
        p["spec"]["restartPolicy"] = json!("Never");
        p["metadata"]["annotations"] = json!({COMPLETE_AFTER: "5s", EXIT_CODE: "3"});
    })
    .await;
    assert_eq!(kit.get("bad")["status"]["phase"], "Running");
    kit.pass(6).await;
    assert_eq!(kit.get("bad")["status"]["phase"], "Failed");
    assert_eq!(state(&kit.get("bad"), 0)["terminated"]["exitCode"], 3);
    kit.pod("oom", |p| p["metadata"]["annotations"] = json!({FAIL: "OOMKilled"})).await;
    let pod = kit.get("oom");
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"], "OOMKilled");
    kit.pod("out", |p| p["metadata"]["annotations"] = json!({FAIL: "Evicted"})).await;
    let pod = kit.get("out");
    assert_eq!((&pod["status"]["phase"], &pod["status"]["reason"]), (&json!("Failed"), &json!("Evicted")));
}

#[tokio::test]
async fn readiness_gates_hold_a_pod_back() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.pod("a", |p| p["spec"]["readinessGates"] = json!([{"conditionType": "example.com/open"}])).await;
    assert_eq!(condition(&kit.get("a"), "ContainersReady"), "True");
    assert_eq!(condition(&kit.get("a"), "Ready"), "False");
    let open = |p: &mut Value| {
        p["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "example.com/open", "status": "True"}));
        true
    };
    kit.access.update(&table_name("", "pods"), "default", "a", "status", open).await.unwrap();
    kit.engine.settle().await;
    assert_eq!(condition(&kit.get("a"), "Ready"), "True");
}

#[tokio::test]
async fn deletion_is_graceful_and_frees_the_address() {
    let kit = Kit::new(StageSet::realistic()).await;
    kit.pod("a", |_| {}).await;
    kit.pass(5).await;
    kit.access.delete(&table_name("", "pods"), "default", "a", Deletion::default()).await.unwrap();
    kit.engine.settle().await;
    assert!(!kit.get("a")["metadata"]["deletionTimestamp"].is_null());
    kit.pass(1).await;
    assert!(kit.get("a").is_null());
    assert!(kit.reasons().contains(&"Killing".to_owned()));
}

#[tokio::test]
async fn manual_mode_moves_when_poked() {
    let kit = Kit::new(StageSet::instant().manual()).await;
    kit.pod("a", |_| {}).await;
    kit.pass(5).await;
    assert_eq!(kit.get("a")["status"]["phase"], "Pending");
    assert!(kit.get("a")["status"]["podIP"].is_null());
    let step = async |n| {
        kit.nodes.step("main", "default", "a", n).unwrap();
        kit.engine.settle().await;
        kit.get("a")
    };
    assert_eq!(step(1).await["status"]["podIP"], "10.128.0.2");
    assert_eq!(step(1).await["status"]["phase"], "Running");
    assert_eq!(condition(&kit.get("a"), "Ready"), "False");
    assert_eq!(condition(&step(1).await, "Ready"), "True");
}

#[tokio::test]
async fn a_pod_somebody_holds_says_how_it_ended() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.pod("a", |p| p["metadata"]["finalizers"] = json!(["example.com/hold"])).await;
    kit.access.delete(&table_name("", "pods"), "default", "a", Deletion::default()).await.unwrap();
    kit.engine.settle().await;
    let pod = kit.get("a");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(state(&pod, 0)["terminated"]["exitCode"], 143);
    let release = |p: &mut Value| p["metadata"].as_object_mut().unwrap().remove("finalizers").is_some();
    kit.access.update(&table_name("", "pods"), "default", "a", "", release).await.unwrap();
    kit.engine.settle().await;
    assert!(kit.get("a").is_null());
}

#[tokio::test]
async fn the_same_seed_tells_the_same_story() {
    let story = async |seed: u64| {
        let kit = Kit::with(|o| o.seed = seed).await;
        let mut told = Vec::new();
        for name in ["a", "b", "c"] {
            kit.pod(name, |_| {}).await;
        }
        for _ in 0..8 {
            kit.world.clock.advance(jiff::SignedDuration::from_millis(250));
            kit.engine.settle().await;
            for name in ["a", "b", "c"] {
                told.push((
                    kit.get(name)["status"]["phase"].clone(),
                    condition(&kit.get(name), "Ready").to_owned(),
                ));
            }
        }
        told
    };
    assert_eq!(story(4).await, story(4).await);
    assert_ne!(story(4).await, story(5).await);
}
