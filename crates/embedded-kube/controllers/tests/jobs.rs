//! Jobs and cron jobs.

use crate::world::World;
use serde_json::{Value, json};

fn spec(run: &str, more: Value) -> Value {
    let mut spec = json!({"template": {"metadata": {"annotations": {"test/run": run}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}});
    for (k, v) in more.as_object().unwrap() {
        spec[k] = v.clone();
    }
    spec
}

fn job(run: &str, more: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec(run, more)})
}

fn conditions(w: &World) -> Vec<String> {
    let j = w.get("batch/jobs", "default/j");
    let all = j["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|c| {
            format!(
                "{}={} {}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap(),
                c["reason"].as_str().unwrap()
            )
        })
        .collect()
}

#[tokio::test]
async fn completions_are_counted_once() {
    let w = World::new().await;
    w.node("n1").await;
    w.create(
        "batch/jobs",
        job("Succeeded", json!({"completions": 5, "parallelism": 2, "ttlSecondsAfterFinished": 60})),
    )
    .await;
    w.settle().await;
    let j = w.get("batch/jobs", "default/j");
    assert_eq!(j["status"]["succeeded"], 5);
    assert_eq!(j["status"]["uncountedTerminatedPods"], json!({}));
    assert!(j["status"]["completionTime"].is_string());
    assert_eq!(
        conditions(&w),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
    assert_eq!(w.pods().len(), 5);
    assert!(w.pods().iter().all(|p| p["metadata"]["finalizers"].is_null()));
    assert!(w.reasons("Job").contains(&"Completed".to_owned()));
    w.pass(61).await;
    assert!(w.names("batch/jobs").is_empty() && w.pods().is_empty(), "its time to live is over");
}

#[tokio::test]
async fn failures_pause_then_end_the_job() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("batch/jobs", job("Failed", json!({"backoffLimit": 2}))).await;
    w.settle().await;
    assert_eq!(w.pods().len(), 1, "the second try waits");
    w.pass(11).await;
    assert_eq!(w.pods().len(), 2);
    w.pass(200).await;
    assert_eq!(w.get("batch/jobs", "default/j")["status"]["failed"], 3);
    assert_eq!(
        conditions(&w),
        ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]
    );
    assert!(w.reasons("Job").contains(&"BackoffLimitExceeded".to_owned()));
}

#[tokio::test]
async fn indexes_deadlines_and_suspension() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("batch/jobs", job("hold", json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "activeDeadlineSeconds": 100, "suspend": true}))).await;
    w.settle().await;
    assert!(w.pods().is_empty());
    assert_eq!(conditions(&w), ["Suspended=True JobSuspended"]);
    w.pass(1000).await;
    w.apply("batch/jobs", "default/j", |j| j["spec"]["suspend"] = json!(false)).await;
    w.settle().await;
    let mut hosts: Vec<String> =
        w.pods().iter().map(|p| p["spec"]["hostname"].as_str().unwrap().to_owned()).collect();
    hosts.sort();
    assert_eq!(hosts, ["j-0", "j-1", "j-2"]);
    assert!(
        w.pods()[0]["spec"]["containers"][0]["env"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["name"] == "JOB_COMPLETION_INDEX")
    );
    let first = w.pods().iter().find(|p| p["spec"]["hostname"] == "j-1").unwrap()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    w.set_status("pods", &format!("default/{first}"), |p| p["status"]["phase"] = json!("Succeeded")).await;
    w.settle().await;
    assert_eq!(w.get("batch/jobs", "default/j")["status"]["completedIndexes"], "1");
    w.pass(101).await;
    assert_eq!(conditions(&w)[1..], ["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"]);
    assert_eq!(w.pods().len(), 1, "what ran is deleted, what succeeded stays");
}

#[tokio::test]
async fn sleeping_and_shrinking_are_no_failures() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("batch/jobs", job("Running", json!({"completions": 9, "parallelism": 4, "backoffLimit": 0})))
        .await;
    w.settle().await;
    w.apply("batch/jobs", "default/j", |j| j["spec"]["parallelism"] = json!(2)).await;
    w.settle().await;
    assert_eq!(w.pods().len(), 2);
    w.apply("batch/jobs", "default/j", |j| j["spec"]["suspend"] = json!(true)).await;
    w.settle().await;
    assert!(w.pods().is_empty());
    w.apply("batch/jobs", "default/j", |j| j["spec"]["suspend"] = json!(false)).await;
    w.settle().await;
    let j = w.get("batch/jobs", "default/j");
    assert_eq!(
        (w.pods().len(), &j["status"]["failed"], &j["status"]["active"]),
        (2, &Value::Null, &json!(2))
    );
    assert_eq!(conditions(&w), ["Suspended=False JobResumed"]);
}

#[tokio::test]
async fn failure_rules_decide() {
    let w = World::new().await;
    w.node("n1").await;
    let rules = json!({"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}});
    w.create("batch/jobs", job("Failed", rules)).await;
    w.settle().await;
    assert_eq!(conditions(&w), ["FailureTarget=True PodFailurePolicy", "Failed=True PodFailurePolicy"]);
}

#[tokio::test]
async fn deleting_a_job_deletes_pods_that_run() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("batch/jobs", job("Running", json!({"parallelism": 2, "completions": 4}))).await;
    w.settle().await;
    assert_eq!(w.get("batch/jobs", "default/j")["status"]["ready"], 2);
    w.delete("batch/jobs", "default/j", "Background").await;
    w.settle().await;
    assert!(w.pods().is_empty(), "{:?}", w.pods());
}

fn cron(policy: &str, run: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": "*/5 * * * *", "concurrencyPolicy": policy, "jobTemplate": {"metadata": {"labels": {"x": "y"}}, "spec": spec(run, json!({}))}}})
}

#[tokio::test]
async fn cron_jobs_start_on_time_and_keep_some_history() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("batch/cronjobs", cron("Allow", "Succeeded")).await;
    w.pass(299).await;
    assert!(w.names("batch/jobs").is_empty());
    w.pass(1).await;
    assert_eq!(w.names("batch/jobs").len(), 1);
    w.pass(3600).await;
    assert_eq!(w.names("batch/jobs").len(), 3, "three successes are kept");
    let c = w.get("batch/cronjobs", "default/c");
    assert_eq!(c["status"]["lastScheduleTime"], "2026-11-15T01:05:00Z");
    assert_eq!(c["status"]["lastSuccessfulTime"], "2026-11-15T01:05:00Z");
    assert!(c["status"]["active"].is_null());
    w.apply("batch/cronjobs", "default/c", |c| c["spec"]["suspend"] = json!(true)).await;
    w.pass(600).await;
    assert_eq!(w.get("batch/cronjobs", "default/c")["status"]["lastScheduleTime"], "2026-11-15T01:05:00Z");
    w.delete("batch/cronjobs", "default/c", "Background").await;
    w.settle().await;
    assert!(w.names("batch/jobs").is_empty() && w.pods().is_empty());
}

#[tokio::test]
async fn cron_jobs_that_overlap() {
    for (policy, jobs) in [("Forbid", 1), ("Replace", 1), ("Allow", 3)] {
        let w = World::new().await;
        w.node("n1").await;
        w.create("batch/cronjobs", cron(policy, "Running")).await;
        w.pass(300).await;
        let first = w.names("batch/jobs");
        w.pass(600).await;
        assert_eq!(w.names("batch/jobs").len(), jobs, "{policy}");
        assert_eq!(w.names("batch/jobs").contains(&first[0]), policy != "Replace", "{policy}");
        assert_eq!(
            w.get("batch/cronjobs", "default/c")["status"]["active"].as_array().map(Vec::len),
            Some(jobs),
            "{policy}"
        );
    }
}
