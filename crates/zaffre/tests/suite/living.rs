//! Clusters that live through trouble.

use crate::serve;
use std::path::Path;
use std::process::Command;

fn kubectl(tool: &Path, kubeconfig: &Path, args: &[&str]) -> String {
    let out = Command::new(tool).env("KUBECONFIG", kubeconfig).args(args).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "kubectl {args:?}: {said}");
    said
}

/// A server that dies in the middle of a rollout: the next one goes on where things stand, and nothing is left over.
#[test]
fn a_rollout_survives_kill_nine() {
    let Some(tool) = testkit::tools::kubectl() else {
        testkit::tools::skipped("kill -9 while deploying: there is no kubectl and no go to build one");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--data-dir", "data", "--nodes", "2"];
    let (server, kubeconfig) = serve(dir.path(), &flags);
    let run = |args: &[&str]| kubectl(&tool, &kubeconfig, args);
    run(&["create", "deployment", "web", "--image=registry.example/web:1", "--replicas=12"]);
    run(&["create", "deployment", "echo", "--image=zaffre.io/echo", "--replicas=2"]);
    // As soon as the first pod has a node, everything is under way and nothing is done.
    run(&["wait", "deployment/web", "--for=jsonpath={.status.replicas}", "--timeout=30s"]);
    server.kill().unwrap();
    let (server, _) = serve(dir.path(), &flags);
    let run = |args: &[&str]| kubectl(&tool, &kubeconfig, args);
    for name in ["deployment/web", "deployment/echo"] {
        run(&["rollout", "status", name, "--timeout=60s"]);
    }
    run(&["set", "image", "deployment/web", "web=registry.example/web:2"]);
    run(&["wait", "deployment/web", "--for=jsonpath={.status.updatedReplicas}", "--timeout=30s"]);
    server.kill().unwrap();
    let (server, _) = serve(dir.path(), &flags);
    run(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let images = "jsonpath={range .items[*]}{.spec.containers[0].image}{\"\\n\"}{end}";
    let pods = run(&["get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", images]);
    let new = pods.lines().filter(|l| *l == "registry.example/web:2").count();
    assert_eq!(new, 12, "every pod is new, none twice: {pods}");
    let body = run(&["logs", "deployment/echo"]);
    assert!(body.contains("listening"), "the program runs again: {body}");
    run(&["delete", "deployment", "web", "echo", "--cascade=foreground", "--timeout=60s"]);
    assert!(run(&["get", "pods,replicasets"]).contains("No resources found"));
    assert!(server.stop().unwrap().success());
}
