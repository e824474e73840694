//! `azure faults`, `azure clock`, `azure top`; and a simulator that is killed in the middle of a hundred operations.

use crate::azure::{ask, client, get, serve_azure, text};
use arm::ResourceId;
use azure::ops::{ResourceGroups, VirtualNetworks};
use azure::{Condition, Lro};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn json(env: &[(String, String)], args: &[&str]) -> Value {
    let out = ask(env, args);
    assert!(out.status.success(), "{args:?}: {}", text(&out).1);
    serde_json::from_slice(&out.stdout).unwrap()
}

fn refused(env: &[(String, String)], args: &[&str]) -> String {
    let out = ask(env, args);
    assert!(!out.status.success(), "{args:?} was not refused: {}", text(&out).0);
    text(&out).1
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_added_listed_met_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    assert_eq!(text(&ask(&env, &["faults", "list"])).0, "nothing goes wrong on purpose\n");
    let add = [
        "faults", "add", "--name", "lost", "--method", "PUT", "--nth", "1", "--each", "id", "--drop", "after",
    ];
    assert_eq!(text(&ask(&env, &add)).0, "added lost\n");
    let add =
        ["faults", "add", "--type", "Microsoft.Resources/*", "--every", "3", "--status", "503", "--html"];
    assert_eq!(text(&ask(&env, &add)).0, "added answer-1\n");
    let subscription = ResourceId::subscription_scope(get(&env, "AZURE_SUBSCRIPTION_ID")).unwrap();
    let groups = client(&env).await.arm::<ResourceGroups>();
    let group = groups.id(&subscription, "g").unwrap();
    groups.put(&group, &serde_json::from_value(json!({"location": "eastus"})).unwrap()).await.unwrap();
    let (table, _) = text(&ask(&env, &["faults", "list"]));
    let line = table.lines().find(|l| l.starts_with("lost")).unwrap();
    assert!(line.contains("drop after") && line.contains("method=PUT"), "{table}");
    assert_eq!(json(&env, &["faults", "list", "-o", "json"])["value"][0]["fired"], 1);
    let (journal, _) = text(&ask(&env, &["journal"]));
    assert!(journal.contains("(fault: lost)"), "{journal}");
    let top = json(&env, &["top", "--once", "-o", "json"]);
    assert!(top["faulty"].as_u64() >= Some(1) && top["requests"].as_u64() >= Some(2), "{top}");
    assert!(text(&ask(&env, &["top"])).0.contains("operations under way 0"));
    assert_eq!(text(&ask(&env, &["faults", "remove", "lost"])).0, "removed 1\n");
    assert_eq!(text(&ask(&env, &["faults", "clear"])).0, "removed 1\n");

    let (presets, _) = text(&ask(&env, &["faults", "presets"]));
    assert!(presets.contains("bad-day") && presets.contains("zone-outage"), "{presets}");
    assert!(text(&ask(&env, &["faults", "load", "bad-day"])).0.starts_with("added bad-day-html\n"));
    let file = dir.path().join("mine.json");
    std::fs::write(&file, r#"{"rules":[{"name":"mine","then":{"delay":1}}]}"#).unwrap();
    assert_eq!(text(&ask(&env, &["faults", "load", file.to_str().unwrap()])).0, "added mine\n");
}

#[test]
fn wrong_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    for (args, says) in [
        (vec!["faults", "add", "--method", "PUT"], "--status"),
        (vec!["faults", "add", "--status", "503", "--delay", "5"], "cannot be used with"),
        (vec!["faults", "add", "--drop", "sometimes"], "sometimes"),
        (vec!["faults", "add", "--nth", "1", "--every", "2", "--delay", "1"], "cannot be used with"),
        (vec!["faults", "add", "--status", "200"], "400 to 599"),
        (vec!["faults", "add", "--probability", "3", "--delay", "1"], "probability"),
        (vec!["faults", "add", "--name", "a b", "--delay", "1"], "name"),
        (vec!["faults", "add", "--nth", "0", "--delay", "1"], "counts from 1"),
        (vec!["faults", "remove", "nobody"], "there is no rule 'nobody'"),
        (vec!["faults", "load", "sunshine"], "is no preset"),
        (vec!["clock", "advance", "soon"], "soon"),
        (vec!["clock", "scale", "lots"], "lots"),
        (vec!["clock", "scale", "1e9"], "stands still"),
        (vec!["clock", "next"], "nothing is going to happen"),
        (vec!["top", "--every", "0"], "0"),
    ] {
        let said = refused(&env, &args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    let bad = dir.path().join("bad.json");
    std::fs::write(&bad, r#"{"then":{"answer":{"status":500}},"match":{"colour":"red"}}"#).unwrap();
    assert!(refused(&env, &["faults", "load", bad.to_str().unwrap()]).contains("colour"));
    let scale = crate::zaffre()
        .current_dir(dir.path())
        .args(["serve", "azure", "--in-memory", "--clock-scale", "1e9"])
        .output()
        .unwrap();
    assert!(text(&scale).1.contains("--clock-scale"), "{}", text(&scale).1);
}

#[test]
fn the_clock_is_shown_moved_and_scaled() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory", "--clock-scale", "0"]);
    let now = |v: &Value| -> jiff::Timestamp { v["now"].as_str().unwrap().parse().unwrap() };
    let before = json(&env, &["clock", "-o", "json"]);
    assert_eq!(before["mode"], "virtual");
    let after = json(&env, &["clock", "advance", "90", "-o", "json"]);
    assert_eq!(now(&after).duration_since(now(&before)).as_secs(), 90);
    let (said, _) = text(&ask(&env, &["clock", "scale", "25"]));
    assert!(said.contains("runs  scaled (x25.0)"), "{said}");
    assert!(text(&ask(&env, &["clock", "show"])).0.contains("nothing happens by itself"));
}

const OPERATIONS: usize = 100;

/// A hundred networks are being made when the simulator dies; it comes back at the same address. All are made, none
/// is begun twice.
#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_hundred_operations() {
    let dir = tempfile::tempdir().unwrap();
    let (first, env) =
        serve_azure(dir.path(), &["--data-dir", "data", "--profile", "real", "--clock-scale", "0"]);
    let azure = client(&env).await;
    let subscription = ResourceId::subscription_scope(get(&env, "AZURE_SUBSCRIPTION_ID")).unwrap();
    let groups = azure.arm::<ResourceGroups>();
    let group = groups.id(&subscription, "g").unwrap();
    groups.put(&group, &serde_json::from_value(json!({"location": "westus2"})).unwrap()).await.unwrap();
    let vnets = azure.arm::<VirtualNetworks>();
    let body =
        json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
    let body = serde_json::from_value(body).unwrap();
    let begun = futures::future::join_all((0..OPERATIONS).map(|i| {
        let (vnets, group, body) = (&vnets, &group, &body);
        async move {
            let id = vnets.id(group, &format!("n{i}")).unwrap();
            vnets.begin_put(&id, body, &Condition::Absent).await.unwrap().token().clone()
        }
    }))
    .await;
    let etags = |all: Vec<arm::types::VirtualNetwork>| -> BTreeSet<String> {
        all.into_iter()
            .filter_map(|n| {
                serde_json::to_value(n).unwrap()["properties"]["resourceGuid"].as_str().map(str::to_owned)
            })
            .collect()
    };
    let before = etags(vnets.list_all(&group).await.unwrap());
    let port = |name: &str| get(&env, name).rsplit(':').next().unwrap().to_owned();
    let at = |name: &str| format!("127.0.0.1:{}", port(name));
    let (arm, proxy, admin) = (at("ZAFFRE_AZURE_ARM_URL"), at("HTTPS_PROXY"), at("ZAFFRE_AZURE_ADMIN_URL"));
    // Half of them are being waited for when it dies.
    let waiting: Vec<_> = begun
        .iter()
        .take(OPERATIONS / 2)
        .map(|lro: &Lro| {
            let mut operation = vnets.resume(lro.clone());
            tokio::spawn(async move { operation.wait_raw().await })
        })
        .collect();
    // Time stands still until it is moved: by the median, so that about half of them are done.
    let (_, moved) = text(&ask(&env, &["clock", "advance", "3"]));
    assert_eq!(moved, "");
    vnets.list_all(&group).await.unwrap();
    let under_way = json(&env, &["top", "--once", "-o", "json"])["operationsInFlight"].as_u64().unwrap();
    assert!((10..90).contains(&under_way), "{under_way} of {OPERATIONS} are under way");
    first.kill().unwrap();
    let flags = [
        "--data-dir",
        "data",
        "--profile",
        "real",
        "--clock-scale",
        "20",
        "--listen",
        &arm,
        "--proxy-listen",
        &proxy,
        "--admin-listen",
        &admin,
    ];
    let (_second, again) = serve_azure(dir.path(), &flags);
    for w in waiting {
        w.await.unwrap().unwrap();
    }
    for lro in begun.iter().skip(OPERATIONS / 2) {
        vnets.resume(lro.clone()).wait_raw().await.unwrap();
    }
    let all = vnets.list_all(&group).await.unwrap();
    assert_eq!(all.len(), OPERATIONS);
    for n in &all {
        let shown = serde_json::to_value(n).unwrap();
        assert_eq!(shown["properties"]["provisioningState"], "Succeeded", "{shown}");
    }
    assert_eq!(etags(all), before, "they are the same networks, not new ones");
    let journal = json(&again, &["journal", "--limit", "0", "-o", "json"]);
    let puts = journal["value"].as_array().unwrap().iter().filter(|e| e["method"] == "PUT").count();
    assert_eq!(puts, 0, "nothing was begun again");
}
