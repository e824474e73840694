//! Containers that really run.

use crate::kit::{DEADLINE, Kit, condition};
use ek_node::{ACCOUNT, CsiDriver, CsiRequest, FnProgram, ProgramContext, StageSet};
use ek_server::registry::table_name;
use ek_server::{Deletion, ServiceResolver};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A program that hands its context to the test and runs until it has to stop.
fn shown() -> (FnProgram<impl Fn(ProgramContext) -> BoxFuture<'static, i32>>, mpsc::Receiver<ProgramContext>)
{
    let (tell, told) = mpsc::channel(8);
    let run = move |ctx: ProgramContext| -> BoxFuture<'static, i32> {
        let tell = tell.clone();
        Box::pin(async move {
            let _ = tell.send(ctx.clone()).await;
            ctx.stopping().cancelled().await;
            0
        })
    };
    (FnProgram(run), told)
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut text = String::new();
    tokio::time::timeout(DEADLINE, tcp.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

fn ready(kit: &Kit, name: &str) -> bool {
    condition(&kit.get(name), "Ready") == "True"
}

#[tokio::test]
async fn an_http_server_behind_a_service() {
    let kit = Kit::live(|_| {}).await;
    kit.create(
        "services",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]}}),
    )
    .await;
    let id = ek_engine::ClusterId::new("main");
    assert_eq!(kit.nodes.resolve(&id, "default", "web", 80), None);
    kit.pod("web", |p| {
        p["metadata"]["labels"] = json!({"app": "web"});
        p["spec"]["containers"] = json!([{"name": "main", "image": "zaffre.io/echo:1", "ports": [{"name": "http", "containerPort": 8080}],
            "env": [{"name": "MESSAGE", "value": "hello $(HOSTNAME)"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
            "livenessProbe": {"tcpSocket": {"port": 8080}}}]);
    }).await;
    kit.until("ready", |k| ready(k, "web")).await;
    let pod = kit.get("web");
    assert!(pod["metadata"]["annotations"].is_null(), "nothing of it is simulated");
    let address = kit.nodes.resolve(&id, "default", "web", 80).unwrap();
    assert!(address.ip().is_loopback());
    // A Route may say nothing, the name of the Service's port, or what pods listen on; not the Service's number.
    for (port, to) in [
        (json!(null), Some(address)),
        (json!("web"), Some(address)),
        (json!(8080), Some(address)),
        (json!(80), None),
        (json!("http"), None),
    ] {
        assert_eq!(kit.nodes.routed(&id, "default", "web", &port), to, "{port}");
    }
    let text = get(address, "/x").await;
    assert!(text.contains("pod: default/web") && text.contains("GET /x"), "{text}");
    assert_eq!(kit.nodes.resolve_pod("main", "default", "web", 8080), Some(address));
    kit.access.delete(&table_name("", "pods"), "default", "web", Deletion::default()).await.unwrap();
    kit.until("gone", |k| k.get("web").is_null()).await;
    assert_eq!(kit.nodes.resolve(&id, "default", "web", 80), None);
}

#[tokio::test]
async fn files_env_and_tokens() {
    let (program, mut told) = shown();
    let kit = Kit::with(|o| {
        o.stages = StageSet::instant();
        o.programs.register("test/shown", program);
    })
    .await;
    kit.create("secrets", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "stringData": {"key": "v1"}})).await;
    kit.create("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"a.conf": "x", "b": "y"}})).await;
    kit.create("persistentvolumeclaims", json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})).await;
    kit.pod("a", |p| {
        p["spec"]["volumes"] = json!([
            {"name": "s", "secret": {"secretName": "s"}}, {"name": "c", "configMap": {"name": "c", "items": [{"key": "a.conf", "path": "etc/a"}]}},
            {"name": "e", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "p", "projected": {"sources": [
                {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]);
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/shown", "args": ["--x=$(FROM_SECRET)"],
            "env": [{"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "C_"}],
            "volumeMounts": [{"name": "s", "mountPath": "/secret"}, {"name": "c", "mountPath": "/config"}, {"name": "e", "mountPath": "/tmp"}, {"name": "d", "mountPath": "/data", "subPath": "one"}, {"name": "p", "mountPath": "/p"}]}]);
    }).await;
    let ctx = told.recv().await.unwrap();
    assert_eq!(ctx.args(), ["--x=v1"]);
    assert_eq!(ctx.env()["C_b"], "y");
    assert_eq!(ctx.env()["IP"], "10.128.0.2");
    let read = |p: &str| std::fs::read_to_string(ctx.path(p).unwrap()).unwrap();
    assert_eq!(read("/secret/key"), "v1");
    let mode = |p: &str| {
        std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(kit.dir.path().join(p)).unwrap().permissions(),
        )
    };
    assert_eq!((mode("pods") & 0o777, mode("claims") & 0o777), (0o700, 0o700));
    assert_eq!(read("/config/etc/a"), "x");
    assert_eq!(read("/p/name"), "a");
    assert_eq!(read(&format!("{ACCOUNT}/namespace")), "default");
    assert!(read(&format!("{ACCOUNT}/ca.crt")).contains("BEGIN CERTIFICATE"));
    assert!(ctx.path("/etc/passwd").is_none());
    assert!(ctx.path("/secret/../x").is_none());
    std::fs::write(ctx.path("/data/file").unwrap(), "kept").unwrap();
    // A changed Secret arrives; a token is replaced before it expires.
    let token = read("/p/t");
    let changed = |s: &mut Value| {
        s["data"]["key"] = json!("djI=");
        true
    };
    kit.access.update(&table_name("", "secrets"), "default", "s", "", changed).await.unwrap();
    kit.engine.settle().await;
    assert_eq!(read("/secret/key"), "v2");
    assert_eq!(read("/p/t"), token);
    kit.pass(481).await;
    let second = read("/p/t");
    assert_ne!(second, token);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": second, "audiences": ["vault"]}});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let answer: Value = kit.server.client().request(request).await.unwrap();
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:default");
    // It speaks to its cluster as its account, and no more than that.
    let list = http::Request::get("/api/v1/namespaces/default/secrets").body(Vec::new()).unwrap();
    let refused = ctx.client().request::<Value>(list).await.unwrap_err();
    assert!(refused.to_string().contains("system:serviceaccount:default:default"), "{refused}");
}

#[tokio::test]
async fn what_is_missing_is_said_and_waited_for() {
    let (program, mut told) = shown();
    let kit = Kit::with(|o| {
        o.stages = StageSet::instant();
        o.programs.register("test/shown", program);
    })
    .await;
    let container = json!([{"name": "main", "image": "test/shown", "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]);
    kit.pod("a", |p| p["spec"]["containers"] = container).await;
    let waiting = kit.get("a")["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(waiting, json!({"reason": "CreateContainerConfigError", "message": "secret \"s\" not found"}));
    kit.create("secrets", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "v"}})).await;
    kit.pass(11).await;
    assert_eq!(told.recv().await.unwrap().env()["X"], "v");
    kit.pod("h", |p| {
        p["spec"]["volumes"] = json!([{"name": "h", "hostPath": {"path": "/"}}]);
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/shown"}]);
    })
    .await;
    let text = kit.get("h")["status"]["containerStatuses"][0]["state"]["waiting"]["message"].to_string();
    assert!(text.contains("hostPath volumes are refused"), "{text}");
}

#[tokio::test]
async fn panics_and_exits_are_crashes_and_completions() {
    let kit = Kit::live(|_| {}).await;
    let never = |image: &str, args: Value| {
        let c = json!([{"name": "main", "image": image, "args": args}]);
        move |p: &mut Value| {
            p["spec"]["restartPolicy"] = json!("Never");
            p["spec"]["containers"] = c;
        }
    };
    kit.pod("panic", never("zaffre.io/fail", json!(["panic"]))).await;
    kit.pod("seven", never("zaffre.io/fail", json!(["7"]))).await;
    kit.pod("fine", never("zaffre.io/true", json!([]))).await;
    let phase = |k: &Kit, n: &str| k.get(n)["status"]["phase"].as_str().unwrap_or_default().to_owned();
    kit.until("all ended", |k| {
        ["panic", "seven", "fine"].iter().all(|n| matches!(phase(k, n).as_str(), "Failed" | "Succeeded"))
    })
    .await;
    let ended = |n: &str| kit.get(n)["status"]["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&ended("panic")["exitCode"], &ended("panic")["reason"]), (&json!(134), &json!("Error")));
    assert_eq!(ended("panic")["message"], "the program panicked: as asked");
    assert_eq!(ended("seven")["exitCode"], 7);
    assert_eq!(
        (phase(&kit, "fine"), &ended("fine")["reason"]),
        ("Succeeded".to_owned(), &json!("Completed"))
    );
    // Restarted by policy: the first time at once.
    kit.pod("again", |p| p["spec"]["containers"] = json!([{"name": "main", "image": "zaffre.io/false"}]))
        .await;
    kit.until("it backs off", |k| {
        k.get("again")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    })
    .await;
    assert_eq!(kit.get("again")["status"]["containerStatuses"][0]["restartCount"], 1);
}

#[tokio::test]
async fn a_program_that_hangs_is_unready_and_is_killed_after_its_grace() {
    let kit = Kit::live(|o| {
        o.programs.register("test/deaf", FnProgram(|_| std::future::pending::<i32>()));
    })
    .await;
    kit.pod("a", |p| {
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/deaf", "ports": [{"containerPort": 80}],
            "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}}]);
    })
    .await;
    kit.until("unhealthy", |k| k.reasons().contains(&"Unhealthy".to_owned())).await;
    assert_eq!(condition(&kit.get("a"), "Ready"), "False");
    let how = Deletion { grace_seconds: Some(1), ..Deletion::default() };
    kit.access.delete(&table_name("", "pods"), "default", "a", how).await.unwrap();
    kit.until("gone", |k| k.get("a").is_null()).await;
}

#[tokio::test]
async fn a_failed_liveness_probe_restarts() {
    let kit = Kit::live(|_| {}).await;
    kit.pod("a", |p| {
        p["spec"]["containers"] = json!([{"name": "main", "image": "zaffre.io/sleep",
            "livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}}]);
    })
    .await;
    kit.until("restarted", |k| k.get("a")["status"]["containerStatuses"][0]["restartCount"] == 1).await;
    assert_eq!(kit.get("a")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 143);
    assert!(kit.reasons().contains(&"Killing".to_owned()));
}

struct Greeting;

impl CsiDriver for Greeting {
    fn publish(&self, r: CsiRequest) -> BoxFuture<'static, Result<Option<jiff::Timestamp>, String>> {
        Box::pin(async move {
            std::fs::write(r.target.join("greeting"), format!("{} {}", r.attributes["word"], r.pod))
                .map_err(|e| e.to_string())?;
            Ok(None)
        })
    }
}

#[tokio::test]
async fn csi_volumes_are_filled_by_drivers() {
    let (program, mut told) = shown();
    let kit = Kit::with(|o| {
        o.stages = StageSet::instant();
        o.programs.register("test/shown", program);
        o.csi.insert("greet.example".into(), Arc::new(Greeting));
    })
    .await;
    kit.pod("a", |p| {
        p["spec"]["volumes"] = json!([{"name": "v", "csi": {"driver": "greet.example", "volumeAttributes": {"word": "hello"}}}]);
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/shown", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
    })
    .await;
    let ctx = told.recv().await.unwrap();
    assert_eq!(std::fs::read_to_string(ctx.path("/v/greeting").unwrap()).unwrap(), "hello a");
}

#[tokio::test]
async fn what_ran_in_an_earlier_process_is_started_again() {
    let kit = Kit::live(|_| {}).await;
    kit.pod("a", |p| {
        p["spec"]["volumes"] = json!([{"name": "e", "emptyDir": {}}]);
        p["spec"]["containers"] = json!([{"name": "main", "image": "zaffre.io/sleep", "volumeMounts": [{"name": "e", "mountPath": "/e"}]}]);
    })
    .await;
    kit.until("ready", |k| ready(k, "a")).await;
    let uid = kit.get("a")["metadata"]["uid"].as_str().unwrap().to_owned();
    let file = kit.dir.path().join("pods").join(&uid).join("volumes/e/file");
    // Nobody has looked into the volume yet.
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "kept").unwrap();
    let stale = kit.dir.path().join("pods/nobody");
    std::fs::create_dir_all(&stale).unwrap();
    // Another process over the same store and directory.
    let options = ek_node::Options { stages: StageSet::instant(), ..ek_node::Options::new(kit.dir.path()) };
    let nodes = ek_node::Nodes::new(&kit.host, options);
    let engine = ek_engine::Engine::new(&kit.host, nodes.controllers());
    nodes.attach(&engine);
    engine.settle().await;
    let pod = kit.get("a");
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let gone = async {
        while stale.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
}

#[tokio::test]
async fn a_deleted_cluster_takes_its_programs_along() {
    let (program, mut told) = shown();
    let kit = Kit::live(|o| {
        o.programs.register("test/shown", program);
    })
    .await;
    let other = kit.host.ensure("other", ek_server::ClusterConfig::default()).await.unwrap();
    kit.nodes.add_node("other", "n1", ek_node::NodeSpec::default()).await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"nodeName": "n1", "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "test/shown"}]}});
    other.access("test").create(&table_name("", "pods"), pod).await.unwrap();
    let ctx = tokio::time::timeout(DEADLINE, told.recv()).await.unwrap().unwrap();
    assert!(kit.host.delete("other").await.unwrap());
    tokio::time::timeout(DEADLINE, ctx.stopping().cancelled()).await.unwrap();
    assert!(kit.nodes.names("other").is_empty());
}

#[tokio::test]
async fn hooks_run_before_the_end() {
    let (tell, mut told) = mpsc::channel(8);
    struct Hooked(mpsc::Sender<String>);
    impl ek_node::Program for Hooked {
        fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
            let tell = self.0.clone();
            Box::pin(async move {
                ctx.stopping().cancelled().await;
                let _ = tell.send("told to stop".into()).await;
                0
            })
        }

        fn exec(
            &self,
            _: ProgramContext,
            words: Vec<String>,
            _: Vec<u8>,
        ) -> BoxFuture<'static, Option<ek_node::ExecOutput>> {
            let tell = self.0.clone();
            Box::pin(async move {
                let _ = tell.send(words.join(" ")).await;
                Some(ek_node::ExecOutput::default())
            })
        }
    }
    let kit = Kit::live(|o| {
        o.programs.register("test/hooked", Hooked(tell));
    })
    .await;
    kit.pod("a", |p| {
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/hooked",
            "lifecycle": {"postStart": {"exec": {"command": ["begin"]}}, "preStop": {"exec": {"command": ["say", "goodbye"]}}}}]);
    })
    .await;
    assert_eq!(told.recv().await.unwrap(), "begin");
    kit.access.delete(&table_name("", "pods"), "default", "a", Deletion::default()).await.unwrap();
    assert_eq!(told.recv().await.unwrap(), "say goodbye");
    assert_eq!(told.recv().await.unwrap(), "told to stop");
    kit.until("gone", |k| k.get("a").is_null()).await;
}

/// Ready when its file is there; ends when it is told to by another.
struct Judge;

impl ek_node::Program for Judge {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            loop {
                let there = |name: &str| ctx.path(format!("/e/{name}")).is_some_and(|p| p.exists());
                if there("end") {
                    ctx.log("AADSTS70021: no matching record");
                    return 1;
                }
                ctx.ready(if there("good") { Ok(()) } else { Err("the file is missing".into()) });
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
    }

    fn tells_when_ready(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_program_may_tell_when_it_is_ready_and_its_last_words_are_kept() {
    let kit = Kit::live(|o| _ = o.programs.register("test/judge", Judge)).await;
    kit.pod("a", |p| {
        p["spec"]["volumes"] = json!([{"name": "e", "emptyDir": {}}]);
        p["spec"]["containers"] = json!([
            {"name": "main", "image": "test/judge", "terminationMessagePolicy": "FallbackToLogsOnError", "volumeMounts": [{"name": "e", "mountPath": "/e"}]},
            {"name": "side", "image": "zaffre.io/sleep", "volumeMounts": [{"name": "e", "mountPath": "/e"}],
                "startupProbe": {"exec": {"command": ["test", "-f", "/e/good"]}, "periodSeconds": 1, "failureThreshold": 60}},
        ]);
    })
    .await;
    kit.until("an event", |k| k.reasons().contains(&"Unhealthy".to_owned())).await;
    let running = |k: &Kit, i: usize| k.get("a")["status"]["containerStatuses"][i].clone();
    kit.until("both run", |k| (0..2).all(|i| running(k, i)["state"]["running"].is_object())).await;
    assert_eq!((&running(&kit, 0)["ready"], &running(&kit, 1)["started"]), (&json!(false), &json!(false)));
    let uid = kit.get("a")["metadata"]["uid"].as_str().unwrap().to_owned();
    let dir = kit.dir.path().join("pods").join(&uid).join("volumes/e");
    std::fs::write(dir.join("good"), "").unwrap();
    kit.until("ready", |k| ready(k, "a")).await;
    std::fs::remove_file(dir.join("good")).unwrap();
    kit.until("not ready", |k| !ready(k, "a")).await;
    std::fs::write(dir.join("end"), "").unwrap();
    kit.until("ended", |k| {
        let c = running(k, 0);
        let ended = [&c["state"]["terminated"], &c["lastState"]["terminated"]];
        ended.iter().any(|t| t["message"] == "AADSTS70021: no matching record\n")
    })
    .await;
}
