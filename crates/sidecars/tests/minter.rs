//! The token minter.

use crate::support::{World, words};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::Value;
use sidecars::minter::{self, Args};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "/var/run/secrets/openshift/serviceaccount/token";

fn args(more: &[&str]) -> Args {
    let mut all =
        words(&["--service-account-namespace=kube-system", "--service-account-name=azure-cloud-provider"]);
    all.extend(words(more));
    sidecars::parse("token-minter", &all).unwrap()
}

fn start(w: &World, args: Args) -> tokio::task::JoinHandle<i32> {
    let (place, timing, stop) = (w.place.clone(), w.timing.clone(), w.stop.clone());
    tokio::spawn(async move { minter::run(&args, &*place, &timing, &stop).await })
}

/// What a token says; nothing if it is none.
fn claims(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let body = text.split('.').nth(1).unwrap_or_default();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap_or_default()).unwrap_or_default()
}

fn accounts(w: &World) -> Api<ServiceAccount> {
    Api::namespaced(w.server.client(), "kube-system")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_minted_renewed_in_time_and_never_absent() {
    let w = World::start().await;
    let path = w.path(FILE);
    let task = start(&w, args(&[]));
    w.until("a token", || path.exists()).await;
    let first = claims(&path);
    assert_eq!(first["sub"], "system:serviceaccount:kube-system:azure-cloud-provider");
    assert_eq!(first["aud"], serde_json::json!(["openshift"]));
    assert_eq!(first["iss"], "https://issuer.example.test/demo");
    let life = first["exp"].as_i64().unwrap() - first["iat"].as_i64().unwrap();
    assert_eq!(life, 3600);
    assert!(accounts(&w).get_opt("azure-cloud-provider").await.unwrap().is_some(), "it was made");

    // Somebody reads all the time.
    let reader = {
        let (path, stop) = (path.clone(), w.stop.clone());
        tokio::task::spawn_blocking(move || {
            let mut reads = 0u32;
            while !stop.is_cancelled() {
                let text = std::fs::read_to_string(&path).expect("the file is always there");
                assert_eq!(text.split('.').count(), 3, "half a token: {text:?}");
                reads += 1;
            }
            reads
        })
    };
    // Not yet.
    w.advance(life * 71 / 100);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(claims(&path)["iat"], first["iat"]);
    for round in 1..=20 {
        let before = claims(&path)["iat"].clone();
        // By four fifths of its life it is replaced, and no sooner than nine tenths of that.
        w.advance(if round == 1 { life * 9 / 100 } else { life * 8 / 10 });
        w.until("the next token", || claims(&path)["iat"] != before).await;
    }
    w.until("the last is said", || w.place.lines.lock().len() == 21).await;
    w.stop.cancel();
    assert_eq!(task.await.unwrap(), 0);
    assert!(reader.await.unwrap() > 100);
    let lines = w.place.lines.lock().clone();
    assert_eq!(lines.len(), 21, "{lines:#?}");
    assert!(lines.iter().all(|l| !l.contains("eyJ")), "no token in the log");
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "nothing is left beside the token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_minters_of_one_world_do_not_renew_together() {
    let w = World::start().await;
    let at = |line: &String| line.split("the next at ").nth(1).unwrap_or_default().to_owned();
    for i in 0..8 {
        start(&w, args(&[&format!("--token-file=/t/{i}")]));
        w.until("a token", || w.place.lines.lock().len() > i).await;
    }
    let lines = w.place.lines.lock().clone();
    let times: std::collections::BTreeSet<String> = lines.iter().map(at).collect();
    assert!(times.len() > 4, "{times:?}");
    w.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_was_made_again_gets_a_token_of_its_own() {
    let w = World::start().await;
    let path = w.path(FILE);
    let task = start(&w, args(&[]));
    w.until("a token", || path.exists()).await;
    let uid = |v: &Value| v["kubernetes.io"]["serviceaccount"]["uid"].clone();
    let old = uid(&claims(&path));
    accounts(&w).delete("azure-cloud-provider", &Default::default()).await.unwrap();
    w.advance(3000);
    w.until("a token of the new account", || uid(&claims(&path)) != old).await;
    let now = accounts(&w).get("azure-cloud-provider").await.unwrap().metadata.uid.unwrap();
    assert_eq!(uid(&claims(&path)), now.as_str());
    w.stop.cancel();
    assert_eq!(task.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_is_away_is_asked_again_and_the_old_token_stays() {
    let w = World::start().await;
    let path = w.path(FILE);
    let address = w.place.at.lock().take();
    let task = start(&w, args(&[]));
    w.until("it is said", || w.said("kube-apiserver:6443 leads nowhere: no ready endpoint")).await;
    assert!(!path.exists());
    // Not before its time has come, which is soon at first.
    *w.place.at.lock() = address;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!path.exists());
    w.advance(1);
    w.until("a token", || path.exists()).await;
    let first = std::fs::read(&path).unwrap();
    // Away again, at a port where nobody listens, for long after the token's end.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = nobody.local_addr().unwrap();
    drop(nobody);
    *w.place.at.lock() = Some(dead);
    w.advance(4000);
    w.until("it is said", || w.said("cannot read service account kube-system/azure-cloud-provider")).await;
    for _ in 0..5 {
        w.advance(10);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(std::fs::read(&path).unwrap(), first);
    let said = w.place.lines.lock().iter().filter(|l| l.contains("cannot read")).count();
    assert_eq!(said, 1, "the same trouble is said once");
    *w.place.at.lock() = address;
    w.advance(10);
    w.until("a new token", || std::fs::read(&path).unwrap() != first).await;
    w.stop.cancel();
    assert_eq!(task.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_ends_with_a_status() {
    let w = World::start().await;
    let once = |more: &[&str]| start(&w, args(&[&["--oneshot"], more].concat()));
    assert_eq!(once(&["--token-audience=https://x.example.test"]).await.unwrap(), 0);
    assert_eq!(claims(&w.path(FILE))["aud"], serde_json::json!(["https://x.example.test"]));
    // What is wrong is said with the flag that is about it.
    assert_eq!(once(&["--kubeconfig=/nowhere", "--token-file=/t/a"]).await.unwrap(), 1);
    assert!(w.said("cannot read the kubeconfig /nowhere (--kubeconfig)"), "{:?}", w.place.lines.lock());
    std::fs::write(w.path("/junk"), "a: [").unwrap();
    assert_eq!(once(&["--kubeconfig=/junk", "--token-file=/t/a"]).await.unwrap(), 1);
    assert!(w.said("/junk is no kubeconfig"));
    // A kubeconfig is data: nothing in it is run.
    let exec = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://kube-apiserver:6443"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}}}]});
    std::fs::write(w.path("/exec"), exec.to_string()).unwrap();
    assert_eq!(once(&["--kubeconfig=/exec", "--token-file=/t/a"]).await.unwrap(), 1);
    assert!(w.said("none is run here"));
    // A directory that is a file.
    std::fs::write(w.path("/file"), "").unwrap();
    assert_eq!(once(&["--token-file=/file/token"]).await.unwrap(), 1);
    assert!(w.said("(--token-file)"));
    // A namespace that does not exist.
    let lost =
        ["--service-account-namespace=lost", "--service-account-name=x", "--oneshot", "--token-file=/t/a"];
    let lost: Args = sidecars::parse("token-minter", &words(&lost)).unwrap();
    assert_eq!(start(&w, lost).await.unwrap(), 1);
    assert!(w.said("cannot create service account lost/x"));
    assert!(!w.path("/t/a").exists());
    let e = sidecars::parse::<Args>("token-minter", &words(&["--oneshot"])).unwrap_err().to_string();
    assert!(e.contains("--service-account-namespace"), "{e}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeconfig_may_be_in_a_secret() {
    let w = World::start().await;
    let secrets: Api<Secret> = Api::namespaced(w.server.client(), "default");
    let from = ["--oneshot", "--kubeconfig-secret-namespace=default", "--kubeconfig-secret-name=guest"];
    assert_eq!(start(&w, args(&from)).await.unwrap(), 1);
    assert!(w.said("cannot read Secret default/guest"));
    let text = std::fs::read(w.path("/etc/kubernetes/kubeconfig")).unwrap();
    let mut secret = Secret {
        metadata: ObjectMeta { name: Some("guest".into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("other".into(), k8s_openapi::ByteString(text.clone()))])),
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(start(&w, args(&from)).await.unwrap(), 1);
    assert!(w.said("Secret default/guest has no key \"kubeconfig\""));
    secret.data = Some(BTreeMap::from([("kubeconfig".into(), k8s_openapi::ByteString(text))]));
    secrets.replace("guest", &PostParams::default(), &secret).await.unwrap();
    assert_eq!(start(&w, args(&from)).await.unwrap(), 0);
    assert!(w.path(FILE).exists());
    let half =
        words(&["--service-account-namespace=a", "--service-account-name=b", "--kubeconfig-secret-name=c"]);
    assert!(sidecars::parse::<Args>("token-minter", &half).is_err(), "a name without a namespace");
}
