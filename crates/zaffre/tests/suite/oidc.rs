//! One cluster trusts the tokens of another, as workload identity does: real discovery, real keys, real TLS.

use crate::{serve, zaffre};
use std::path::Path;
use std::process::Command;

fn run(kubectl: &Path, kubeconfig: &Path, args: &[&str]) -> Result<String, String> {
    let out = Command::new(kubectl).arg("--kubeconfig").arg(kubeconfig).args(args).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).trim().to_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

#[test]
fn tokens_of_another_cluster_are_trusted_as_configured() {
    let Some(kubectl) = testkit::tools::kubectl() else {
        testkit::tools::skipped("tokens across clusters: there is no kubectl and no go to build one");
        return;
    };
    let (a_dir, b_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The issuer's URL is part of its tokens, so its port must be known before it starts.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("https://127.0.0.1:{port}");
    let a_config = a_dir.path().join("kubeconfig");
    let mut c = zaffre();
    c.args([
        "serve",
        "kube",
        "--in-memory",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--service-account-issuer",
        &url,
    ]);
    c.arg("--kubeconfig-out").arg(&a_config);
    let a = testkit::Server::spawn(c).unwrap();
    let on_a = |args: &[&str]| run(&kubectl, &a_config, args);
    let bind = [
        "create",
        "clusterrolebinding",
        "anyone-may-verify",
        "--clusterrole=system:service-account-issuer-discovery",
        "--group=system:unauthenticated",
    ];
    on_a(&bind).unwrap();
    on_a(&["create", "serviceaccount", "robot"]).unwrap();
    let ca = on_a(&[
        "config",
        "view",
        "--raw",
        "-o",
        "jsonpath={.clusters[0].cluster.certificate-authority-data}",
    ])
    .unwrap();
    let pem = Command::new("bash").args(["-c", "base64 -d <<< \"$0\"", &ca]).output().unwrap().stdout;

    let config = serde_json::json!({
        "apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": {"url": url, "audiences": ["cluster-b"], "certificateAuthority": String::from_utf8(pem).unwrap()},
            "claimMappings": {"username": {"expression": "'a:' + claims.sub"}, "groups": {"expression": "['from-a']"}},
            "userValidationRules": [{"expression": "!user.username.endsWith(':banned')", "message": "banned"}]}]
    });
    std::fs::write(b_dir.path().join("auth.yaml"), config.to_string()).unwrap();
    let (b, b_config) = serve(b_dir.path(), &["--in-memory", "--authentication-config", "auth.yaml"]);
    let token = |audience: &str| on_a(&["create", "token", "robot", "--audience", audience]).unwrap();
    let as_token = |token: &str, args: &[&str]| {
        let base = ["--server", b.url(), "--insecure-skip-tls-verify", "--token", token];
        run(&kubectl, Path::new("/dev/null"), &[&base[..], args].concat())
    };
    let who = as_token(&token("cluster-b"), &["auth", "whoami", "-o", "json"]).unwrap();
    let who: serde_json::Value = serde_json::from_str(&who).unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "a:system:serviceaccount:default:robot");
    assert_eq!(who["status"]["userInfo"]["groups"], serde_json::json!(["from-a", "system:authenticated"]));

    // Known is not allowed: RBAC decides, by the mapped group.
    let refused = as_token(&token("cluster-b"), &["get", "pods"]).unwrap_err();
    assert!(refused.contains("cannot list resource"), "{refused}");
    run(
        &kubectl,
        &b_config,
        &["create", "clusterrolebinding", "from-a", "--clusterrole=view", "--group=from-a"],
    )
    .unwrap();
    as_token(&token("cluster-b"), &["get", "pods"]).unwrap();

    // Another audience, another cluster's forgery: nobody.
    let refused = as_token(&token("cluster-c"), &["get", "pods"]).unwrap_err();
    assert!(refused.contains("Unauthorized"), "{refused}");
    assert!(a.stop().unwrap().success() && b.stop().unwrap().success());
}
