//! The same requests to this server and to a real one, when there is a real one.

use std::process::Command;

#[test]
fn answers_as_a_real_server_does() {
    let Some((api, etcd)) = testkit::tools::kube_apiserver() else {
        testkit::tools::skipped(
            "comparison with kube-apiserver: set KUBE_APISERVER and ETCD to their binaries",
        );
        return;
    };
    let tool = testkit::tools::workspace_root().join("interop/differential/run.py");
    let run = Command::new("python3")
        .arg(tool)
        .env("KUBE_APISERVER", api)
        .env("ETCD", etcd)
        .env("ZAFFRE", env!("CARGO_BIN_EXE_zaffre"))
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}
