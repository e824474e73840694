//! Three members: what one of them may lose, and what snapshots are for.

use crate::data::{read, write};
use crate::kit::{Hosted, Kit, is_ready};
use serde_json::{Value, json};

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_everything_comes_back_with_everything() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let mut hosted = Hosted::new("clusters-m");
    hosted.members = 3;
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    assert_eq!(kit.guests.members(&Kit::id(), "clusters-m"), Some((3, 3)));
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    write(&client, "before", "1").await;

    // A member and its volume go. The others accept writes meanwhile.
    let before = uid(&kit.get("pods", "clusters-m", "etcd-0"));
    kit.delete("persistentvolumeclaims", "clusters-m", "data-etcd-0").await;
    kit.delete("pods", "clusters-m", "etcd-0").await;
    write(&client, "meanwhile", "2").await;
    kit.until("the member is back", |k| {
        let pod = k.get("pods", "clusters-m", "etcd-0");
        is_ready(&pod) && uid(&pod) != before
    })
    .await;
    kit.until("all are up", |k| k.guests.members(&Kit::id(), "clusters-m") == Some((3, 3))).await;
    let log = kit.log("clusters-m", "etcd-0", "etcd").await;
    assert!(log.contains("the data directory is empty"), "{log}");
    write(&client, "after", "3").await;

    // Now the other two lose theirs in the same way, one after the other: what the first was given is all there is.
    for n in ["etcd-1", "etcd-2"] {
        let before = uid(&kit.get("pods", "clusters-m", n));
        kit.delete("persistentvolumeclaims", "clusters-m", &format!("data-{n}")).await;
        kit.delete("pods", "clusters-m", n).await;
        kit.until("the next member is back", |k| {
            let pod = k.get("pods", "clusters-m", n);
            is_ready(&pod)
                && uid(&pod) != before
                && k.guests.members(&Kit::id(), "clusters-m") == Some((3, 3))
        })
        .await;
    }
    // And the process ends: only the volumes are left.
    kit.stop().await;
    let kit = Kit::start(dir.path()).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    for (name, value) in [("before", "1"), ("meanwhile", "2"), ("after", "3")] {
        assert_eq!(read(&client, name).await.as_deref(), Some(value), "{name}");
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_does_not_serve_and_a_lost_majority_is_not_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let mut hosted = Hosted::new("clusters-q");
    hosted.members = 3;
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    write(&client, "kept", "1").await;
    let exec = kit.claim("clusters-q", 0).join("backup.db");
    let store = kit.guests.server(&Kit::id(), "clusters-q").unwrap();
    store.store().backup(&exec).unwrap();
    drop(store);
    let saved = std::fs::read(&exec).unwrap();

    // One of three.
    kit.edit("apps/statefulsets", "clusters-q", "etcd", |s| s["spec"]["replicas"] = json!(1)).await;
    kit.until("one is not ready alone", |k| {
        k.pods("clusters-q", "etcd").len() == 1 && k.ready("clusters-q", "etcd") == 0
    })
    .await;
    kit.until("nor is the API server", |k| k.ready("clusters-q", "kube-apiserver") == 0).await;

    // All stop, two volumes are emptied: there is no majority that knows anything.
    kit.edit("apps/statefulsets", "clusters-q", "etcd", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.edit("apps/deployments", "clusters-q", "kube-apiserver", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.until("all are gone", |k| {
        k.pods("clusters-q", "etcd").is_empty() && k.pods("clusters-q", "kube-apiserver").is_empty()
    })
    .await;
    for n in [1, 2] {
        std::fs::remove_dir_all(kit.claim("clusters-q", n).join("data")).unwrap();
    }
    kit.edit("apps/statefulsets", "clusters-q", "etcd", |s| s["spec"]["replicas"] = json!(3)).await;
    kit.until("three run", |k| {
        k.pods("clusters-q", "etcd").iter().filter(|p| p["status"]["phase"] == "Running").count() == 3
    })
    .await;
    let told = async {
        loop {
            let log = kit.log("clusters-q", "etcd-0", "etcd").await;
            if log.contains("only 1 of 3 members have their data") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, told).await.expect("it is told");
    assert_eq!(kit.ready("clusters-q", "etcd"), 0);

    // A snapshot brings it back: all members begin with the same one. A damaged one does not.
    kit.edit("apps/statefulsets", "clusters-q", "etcd", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.until("all are gone again", |k| k.pods("clusters-q", "etcd").is_empty()).await;
    let file = dir.path().join("snapshot.db");
    let mut damaged = saved.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let target = dir.path().join("restored");
    let refused = ek_store::restore(&file, &target).unwrap_err();
    assert!(refused.to_string().contains("checksum"), "{refused}");
    assert!(!target.exists());
    std::fs::write(&file, &saved).unwrap();
    for n in 0..3 {
        let data = kit.claim("clusters-q", n).join("data");
        let _ = std::fs::remove_dir_all(&data);
        ek_store::restore(&file, &data).unwrap();
    }
    let full = ek_store::restore(&file, &kit.claim("clusters-q", 0).join("data")).unwrap_err();
    assert!(full.to_string().contains("holds data already"), "{full}");
    kit.edit("apps/statefulsets", "clusters-q", "etcd", |s| s["spec"]["replicas"] = json!(3)).await;
    kit.edit("apps/deployments", "clusters-q", "kube-apiserver", |s| s["spec"]["replicas"] = json!(1)).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "kept").await.as_deref(), Some("1"));
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_one_moment_and_restoring_goes_back_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new("clusters-s");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    write(&client, "old", "1").await;
    let (code, out) = exec(&kit, "clusters-s", &["etcdctl", "snapshot", "save", "/var/lib/snap.db"]).await;
    assert_eq!(code, 0, "{out}");
    write(&client, "new", "2").await;
    let (code, out) = exec(&kit, "clusters-s", &["etcdutl", "snapshot", "status", "/var/lib/snap.db"]).await;
    assert!(code == 0 && out.contains("objects"), "{out}");
    // The API server stays, and finds other data behind the same Service.
    kit.edit("apps/statefulsets", "clusters-s", "etcd", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.until("etcd is gone", |k| k.pods("clusters-s", "etcd").is_empty()).await;
    let claim = kit.claim("clusters-s", 0);
    std::fs::remove_dir_all(claim.join("data")).unwrap();
    ek_store::restore(&claim.join("snap.db"), &claim.join("data")).unwrap();
    kit.edit("apps/statefulsets", "clusters-s", "etcd", |s| s["spec"]["replicas"] = json!(1)).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "old").await.as_deref(), Some("1"));
    assert_eq!(read(&client, "new").await, None);
    kit.stop().await;
}

/// Fetches from a directory whatever the URL's last part names.
struct Shelf(std::path::PathBuf);

impl ek_guest::Fetch for Shelf {
    fn fetch<'a>(
        &'a self,
        url: &'a str,
        to: &'a std::path::Path,
    ) -> futures::future::BoxFuture<'a, Result<(), String>> {
        let name = url.split('?').next().and_then(|u| u.rsplit('/').next()).unwrap_or_default();
        let from = self.0.join(name);
        Box::pin(async move { std::fs::copy(from, to).map(drop).map_err(|e| e.to_string()) })
    }
}

/// A Job takes the snapshot, as an operator has it; a cluster whose disks are empty begins from what its URL leads to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_begins_from_a_snapshot_that_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    kit.guests.fetch_with(Shelf(dir.path().to_owned()));
    let hosted = Hosted::new("clusters-f");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    write(&client, "kept", "1").await;
    let taking = |name: &str, key: &str| {
        json!({"metadata": {"name": name, "namespace": "clusters-f", "labels": {"app": "backup"}},
            "spec": {"restartPolicy": "Never", "volumes": [
                    {"name": "tls", "secret": {"secretName": "etcd-client-tls"}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-etcd-0"}}],
                "containers": [{"name": "etcd-snapshot", "image": crate::kit::image("etcd"), "command": ["etcdctl"],
                    "args": [format!("--key={key}"), "snapshot", "save", "/var/lib/taken.db"],
                    "volumeMounts": [{"name": "tls", "mountPath": "/tls"}, {"name": "data", "mountPath": "/var/lib"}]}]}})
    };
    kit.put("pods", taking("nobody", "/tls/other.key")).await;
    kit.put("pods", taking("backup", "/tls/etcd-client.key")).await;
    let phase = |k: &Kit, name: &str| k.get("pods", "clusters-f", name)["status"]["phase"].clone();
    kit.until("both are over", |k| phase(k, "backup") == "Succeeded" && phase(k, "nobody") == "Failed").await;
    assert!(kit.log("clusters-f", "nobody", "etcd-snapshot").await.contains("open /tls/other.key"));
    write(&client, "later", "2").await;
    std::fs::copy(kit.claim("clusters-f", 0).join("taken.db"), dir.path().join("taken.db")).unwrap();

    // As if the cluster were made anew with this snapshot: empty disks, and an address.
    kit.edit("apps/statefulsets", "clusters-f", "etcd", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.until("etcd is gone", |k| k.pods("clusters-f", "etcd").is_empty()).await;
    std::fs::remove_dir_all(kit.claim("clusters-f", 0).join("data")).unwrap();
    kit.edit("apps/statefulsets", "clusters-f", "etcd", |s| {
        s["spec"]["replicas"] = json!(1);
        let init = json!({"name": "etcd-init", "image": crate::kit::image("etcd"), "command": ["/bin/bash"],
            "env": [{"name": "RESTORE_URL_ETCD", "value": "https://shelf.example/etcd/taken.db?sig=secret"}],
            "volumeMounts": [{"name": "data", "mountPath": "/var/lib"}]});
        let spec = &mut s["spec"]["template"]["spec"];
        match spec["initContainers"].as_array_mut() {
            Some(list) => list.push(init),
            None => spec["initContainers"] = json!([init]),
        }
    })
    .await;
    hosted.up(&kit).await;
    let log = kit.log("clusters-f", "etcd-0", "etcd-init").await;
    assert!(
        log.contains("fetched https://shelf.example/etcd/taken.db") && !log.contains("sig=secret"),
        "{log}"
    );
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "kept").await.as_deref(), Some("1"));
    assert_eq!(read(&client, "later").await, None);
    assert!(!kit.claim("clusters-f", 0).join("snapshot.db").exists(), "nothing is left lying about");
    kit.stop().await;
}

/// A command in etcd's container, as a probe would run it: through the program.
async fn exec(kit: &Kit, ns: &str, words: &[&str]) -> (i32, String) {
    kit.nodes
        .exec("main", ns, "etcd-0", "etcd", words.iter().map(|w| (*w).to_owned()).collect())
        .await
        .map(|o| (o.code, String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned()))
        .expect("a running container")
}
