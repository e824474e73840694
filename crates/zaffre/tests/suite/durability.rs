//! Acknowledged writes survive `kill -9`, whenever it comes.

use crate::serve;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

async fn client(kubeconfig: &Path) -> kube::Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Four writers write until the server is killed in the middle; what was answered must be there afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn kill_nine_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..4 {
        let (server, kubeconfig) = serve(dir.path(), &["--data-dir", "data"]);
        let enough = 40 + 37 * round;
        let count = Arc::new(AtomicUsize::new(0));
        let reached = Arc::new(tokio::sync::Notify::new());
        let writers: Vec<_> = (0..4)
            .map(|w| {
                let (kubeconfig, count, reached) = (kubeconfig.clone(), count.clone(), reached.clone());
                tokio::spawn(async move {
                    let maps: Api<ConfigMap> = Api::namespaced(client(&kubeconfig).await, "default");
                    let mut done = Vec::new();
                    for i in 0.. {
                        let name = format!("r{round}-w{w}-{i}");
                        let cm: ConfigMap =
                            serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
                        // The first failure is the server's death.
                        if maps.create(&PostParams::default(), &cm).await.is_err() {
                            break;
                        }
                        done.push(name);
                        if count.fetch_add(1, Ordering::SeqCst) + 1 == enough {
                            reached.notify_one();
                        }
                    }
                    done
                })
            })
            .collect();
        reached.notified().await;
        server.kill().unwrap();
        for w in writers {
            acknowledged.extend(w.await.unwrap());
        }
    }
    let (server, kubeconfig) = serve(dir.path(), &["--data-dir", "data"]);
    let maps: Api<ConfigMap> = Api::namespaced(client(&kubeconfig).await, "default");
    let stored: std::collections::HashSet<String> = maps
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|c| c.metadata.name)
        .collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|n| !stored.contains(*n)).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged writes are gone: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    assert!(acknowledged.len() >= 40 + 77 + 114 + 151);
    assert!(server.stop().unwrap().success());
}
