//! The real kubectl against a real socket.

use crate::kit::{DEADLINE, Kit, condition};
use serde_json::json;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

struct Cli {
    kit: Kit,
    kubectl: std::path::PathBuf,
    config: std::path::PathBuf,
    _listening: ek_server::Listening,
}

impl Cli {
    async fn new() -> Option<Cli> {
        let kubectl = testkit::tools::kubectl()?;
        let kit = Kit::live(|_| {}).await;
        let listening = kit.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let config = kit.dir.path().join("kubeconfig");
        let text = kit.server.kubeconfig(&format!("https://{}", listening.address)).unwrap().to_string();
        std::fs::write(&config, text).unwrap();
        Some(Cli { kit, kubectl, config, _listening: listening })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(&self.kubectl);
        c.arg("--kubeconfig")
            .arg(&self.config)
            .args(args)
            .env("HOME", self.kit.dir.path())
            .kill_on_drop(true);
        c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        c
    }

    async fn run(&self, args: &[&str]) -> (i32, String, String) {
        let out = tokio::time::timeout(DEADLINE, self.command(args).output()).await.unwrap().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
    }

    async fn echo(&self) {
        self.kit
            .pod("web", |p| {
                p["metadata"]["labels"] = json!({"app": "web"});
                p["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
                p["spec"]["containers"] = json!([{"name": "main", "image": "zaffre.io/echo", "ports": [{"containerPort": 8080}],
                    "env": [{"name": "COLOUR", "value": "blue"}], "volumeMounts": [{"name": "c", "mountPath": "/etc/c"}]}]);
            })
            .await;
        self.kit.until("ready", |k| condition(&k.get("web"), "Ready") == "True").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_exec_and_port_forward() {
    let Some(cli) = Cli::new().await else { return };
    cli.kit.create("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": {"k": "from the map"}})).await;
    cli.echo().await;
    assert_eq!(cli.run(&["logs", "web"]).await, (0, "listening on port 8080\n".into(), String::new()));
    let (code, out, err) = cli.run(&["logs", "web", "--timestamps", "--tail=1"]).await;
    assert!(code == 0 && out.ends_with("Z listening on port 8080\n"), "{out} {err}");
    for websockets in ["true", "false"] {
        let exec = async |words: &[&str]| {
            let mut c = cli.command(&["exec", "web", "--"]);
            c.args(words).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
            let out = tokio::time::timeout(DEADLINE, c.output()).await.unwrap().unwrap();
            (
                out.status.code(),
                String::from_utf8(out.stdout).unwrap(),
                String::from_utf8(out.stderr).unwrap(),
            )
        };
        assert_eq!(
            exec(&["sh", "-c", "echo $COLOUR; cat /etc/c/k"]).await,
            (Some(0), "blue\nfrom the map".into(), String::new())
        );
        let (code, _, err) = exec(&["sh", "-c", "exit 3"]).await;
        assert_eq!((code, err.as_str()), (Some(3), "command terminated with exit code 3\n"));
        // Input.
        let mut c = cli.command(&["exec", "-i", "web", "--", "cat"]);
        c.stdin(Stdio::piped()).env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        let mut child = c.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let text = "0123456789abcdef".repeat(8 << 10);
        stdin.write_all(text.as_bytes()).await.unwrap();
        drop(stdin);
        let out = tokio::time::timeout(DEADLINE, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(out.stdout.len(), text.len(), "{}", String::from_utf8_lossy(&out.stderr));
        // Ports.
        let mut c = cli.command(&["port-forward", "pod/web", ":8080"]);
        c.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        let mut child = c.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
        let port: u16 = line.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for i in 0..3 {
            let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tcp.write_all(format!("GET /{i} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut text = String::new();
            let read = tokio::time::timeout(DEADLINE, tcp.read_to_string(&mut text)).await.unwrap();
            if read.is_err() || !text.contains(&format!("GET /{i}")) {
                child.kill().await.unwrap();
                let err = child.wait_with_output().await.unwrap().stderr;
                panic!(
                    "request {i}, websockets {websockets}: {read:?} {text}: {}",
                    String::from_utf8_lossy(&err)
                );
            }
        }
        child.kill().await.unwrap();
    }
    // Following sees what comes.
    let mut child = cli.command(&["logs", "-f", "web", "--tail=1"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        async || tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert_eq!(next().await, "GET /2");
    let path = "/api/v1/namespaces/default/pods/web:8080/proxy/hello?x=1";
    let (code, out, err) = cli.run(&["get", "--raw", path]).await;
    assert!(code == 0 && out.contains("GET /hello?x=1"), "{out} {err}");
    assert_eq!(next().await, "GET /hello?x=1");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_for_what_cannot_be_done() {
    let Some(cli) = Cli::new().await else { return };
    cli.kit
        .pod("two", |p| {
            p["spec"]["containers"] = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}])
        })
        .await;
    let raw = cli.run(&["get", "--raw", "/api/v1/namespaces/default/pods/two/log"]).await;
    assert!(
        raw.2.contains("a container name must be specified for pod two, choose one of: [a b]"),
        "{}",
        raw.2
    );
    let raw = cli.run(&["logs", "two", "-c", "zz"]).await;
    assert!(raw.2.contains("container zz is not valid for pod two"), "{}", raw.2);
    let raw = cli.run(&["logs", "two", "-c", "a", "-p"]).await;
    assert!(raw.2.contains("previous terminated container \"a\" in pod \"two\" not found"), "{}", raw.2);
    let (_, out, _) = cli.run(&["logs", "two", "-c", "a"]).await;
    assert_eq!(out, "container \"a\" is simulated: no program of image \"x\" runs here\n");
    let (_, out, _) = cli.run(&["describe", "pod", "two"]).await;
    assert!(out.contains("zaffre.io/simulated: true"), "{out}");
    let (code, _, err) = cli
        .run(&["get", "--raw", "/api/v1/namespaces/default/pods/two/exec?command=ls&stdout=1&container=a"])
        .await;
    assert!(code != 0 && err.contains("Upgrade request required"), "{err}");
}
