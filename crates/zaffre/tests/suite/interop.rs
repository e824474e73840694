//! Clients in other languages: the official Python one, and a Go program on controller-runtime.

use crate::serve;
use std::process::Command;

fn check(mut c: Command, name: &str) {
    let out = c.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{name} failed ({}):\n{text}", out.status);
    assert!(text.contains("ok "), "{name} checked nothing:\n{text}");
}

#[test]
fn the_python_client() {
    let Some(python) = testkit::tools::python() else {
        testkit::tools::skipped("the Python client: no virtual environment (cargo xtask setup makes one)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (_server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let script = testkit::tools::workspace_root().join("interop/python/test_kubernetes.py");
    let mut c = Command::new(python);
    c.arg(script).env("KUBECONFIG", kubeconfig);
    check(c, "test_kubernetes.py");
}

#[test]
fn a_go_controller_manager() {
    let Some(manager) = testkit::tools::go_manager() else {
        testkit::tools::skipped("the Go manager: there is no go tool to build it");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (_server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let mut c = Command::new(manager);
    c.env("KUBECONFIG", kubeconfig).current_dir(testkit::tools::workspace_root().join("interop/go/manager"));
    check(c, "the Go manager");
}

/// The same program owning Deployments, where something runs them.
#[test]
fn a_go_operator_with_workloads() {
    let Some(manager) = testkit::tools::go_manager() else {
        testkit::tools::skipped("the Go operator: there is no go tool to build it");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (_server, kubeconfig) = serve(dir.path(), &["--in-memory", "--nodes", "2"]);
    let mut c = Command::new(manager);
    c.arg("--workloads").env("KUBECONFIG", kubeconfig);
    c.current_dir(testkit::tools::workspace_root().join("interop/go/manager"));
    check(c, "the Go operator");
}
