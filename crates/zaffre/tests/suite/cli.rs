//! Help, version, completion, and how `serve kube` starts, refuses and stops.

use crate::{serve, zaffre};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn stdout(mut c: Command) -> String {
    let out = c.output().unwrap();
    assert!(out.status.success(), "{c:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn run(args: &[&str]) -> String {
    let mut c = zaffre();
    c.args(args);
    stdout(c)
}

#[test]
fn help_teaches() {
    testkit::golden!("help.txt", &run(&["--help"]));
    testkit::golden!("help-serve-kube.txt", &run(&["help", "serve", "kube"]));
    testkit::golden!("help-demo.txt", &run(&["help", "demo"]));
    testkit::golden!("help-serve-azure.txt", &run(&["help", "serve", "azure"]));
    testkit::golden!("help-serve-token-minter.txt", &run(&["help", "serve", "token-minter"]));
    testkit::golden!("help-serve-availability-prober.txt", &run(&["help", "serve", "availability-prober"]));
    testkit::golden!(
        "help-serve-config-operator.txt",
        &run(&["help", "serve", "hosted-cluster-config-operator"])
    );
    testkit::golden!(
        "help-serve-kas-connection-checker.txt",
        &run(&["help", "serve", "kas-connection-checker"])
    );
    for what in [
        "create iam",
        "create infra",
        "create oidc-issuer",
        "create managed-identities",
        "destroy iam",
        "destroy infra",
        "destroy oidc-issuer",
        "destroy managed-identities",
        "create cluster",
        "create nodepool",
        "destroy cluster",
    ] {
        let args: Vec<&str> = std::iter::once("help").chain(what.split(' ')).chain(["azure"]).collect();
        let name = format!("help-{}-azure.txt", what.replace(' ', "-"));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        testkit::golden::check(&path, &run(&args), testkit::Mode::from_env())
            .unwrap_or_else(|e| panic!("{e}"));
    }
    for what in [
        "upgrade cluster",
        "upgrade nodepool",
        "dump cluster",
        "status",
        "up",
        "down",
        "install",
        "uninstall",
        "create kubeconfig",
        "version",
    ] {
        let args: Vec<&str> = std::iter::once("help").chain(what.split(' ')).collect();
        let name = format!("help-{}.txt", what.replace(' ', "-"));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        testkit::golden::check(&path, &run(&args), testkit::Mode::from_env())
            .unwrap_or_else(|e| panic!("{e}"));
    }
    testkit::golden!("help-doctor-azure.txt", &run(&["help", "doctor", "azure"]));
    testkit::golden!("help-plan.txt", &run(&["help", "plan"]));
    testkit::golden!("help-azure.txt", &run(&["help", "azure"]));
    testkit::golden!("help-azure-journal.txt", &run(&["help", "azure", "journal"]));
    testkit::golden!("help-azure-leaks.txt", &run(&["help", "azure", "leaks"]));
    testkit::golden!("help-azure-faults.txt", &run(&["help", "azure", "faults"]));
    testkit::golden!("help-azure-faults-add.txt", &run(&["help", "azure", "faults", "add"]));
    testkit::golden!("help-azure-clock.txt", &run(&["help", "azure", "clock"]));
    testkit::golden!("help-azure-top.txt", &run(&["help", "azure", "top"]));
}

#[test]
fn version_and_completion() {
    let v: serde_json::Value = serde_json::from_str(&run(&["version", "-o", "json"])).unwrap();
    assert_eq!(v["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(v["kubernetes"], "1.34");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completion", shell]);
        assert!(
            ["zaffre", "kubeconfig-out", "creds-out", "least-privilege"].iter().all(|w| script.contains(w)),
            "{shell}: {script}"
        );
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man1");
    run(&["man", "--out", out.to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(page("zaffre.1").contains("zaffre\\-upgrade(1)") || page("zaffre.1").contains("upgrade"));
    assert!(page("zaffre-upgrade-cluster.1").contains("release\\-image"));
    assert!(page("zaffre-create-cluster-azure.1").starts_with(".ie"));
    assert!(std::fs::read_dir(&out).unwrap().count() > 50);
}

#[test]
fn down_finds_what_runs_and_says_when_nothing_does() {
    let dir = tempfile::tempdir().unwrap();
    let down = || zaffre().current_dir(dir.path()).args(["down", "--data-dir", "region"]).output().unwrap();
    let out = down();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success()
            && said.contains("nothing to stop")
            && said.contains("zaffre up --data-dir region"),
        "{said}"
    );
    let mut c = zaffre();
    c.current_dir(dir.path()).args([
        "up",
        "--data-dir",
        "region",
        "--management-clusters",
        "2",
        "--profile",
        "fast",
    ]);
    let up = testkit::Server::spawn(c).unwrap();
    let contexts = std::fs::read_to_string(dir.path().join("kubeconfig")).unwrap();
    assert!(contexts.contains("management-2-admin") && contexts.contains(up.url()), "{contexts}");
    let second = zaffre().current_dir(dir.path()).args(["up", "--data-dir", "region"]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && said.contains("runs here already") && said.contains(up.url()),
        "{said}"
    );
    let out = down();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success() && said.starts_with("stopped after") && said.contains("its state is in region"),
        "{said}"
    );
    assert!(up.stop().unwrap().success());
    assert!(!down().status.success());
}

#[test]
fn up_and_down_speak_to_programs() {
    let dir = tempfile::tempdir().unwrap();
    let mut c = zaffre();
    c.current_dir(dir.path()).args(["up", "--env-out", "env", "-o", "json"]);
    let mut up = c.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let out = std::io::BufReader::new(up.stdout.take().unwrap());
    let said = serde_json::Deserializer::from_reader(out).into_iter::<serde_json::Value>().next();
    let said = said.unwrap().unwrap();
    let down = zaffre().current_dir(dir.path()).args(["down", "-o", "yaml"]).output().unwrap();
    assert!(up.wait().unwrap().success());

    let server = said["clusters"][0]["server"].as_str().unwrap();
    let kubeconfig = dir.path().join(said["kubeconfig"].as_str().unwrap());
    assert!(std::fs::read_to_string(kubeconfig).unwrap().contains(server), "{said}");
    assert_eq!(
        (&said["clusters"][0]["context"], said["environment"].as_str()),
        (&"main".into(), Some("env"))
    );
    assert!(said["releases"].as_object().is_some_and(|all| !all.is_empty()), "{said}");
    let ended: serde_json::Value = serde_saphyr::from_slice(&down.stdout).unwrap();
    assert_eq!((&ended["pid"], &ended["orderly"]), (&said["pid"], &true.into()), "{ended}");
    assert_eq!(ended["server"], server);
}

#[test]
fn the_demo_shows_every_step() {
    let v: serde_json::Value = serde_json::from_str(&run(&["demo", "-o", "json"])).unwrap();
    let steps: Vec<&str> =
        v["steps"].as_array().unwrap().iter().map(|s| s["step"].as_str().unwrap()).collect();
    assert_eq!(steps.len(), 42, "{steps:?}");
    assert_eq!(steps.last(), Some(&"stopped"));
}

#[test]
fn a_server_starts_private_refuses_a_second_and_stops_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--data-dir", "data"]);
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    assert_eq!(server.stdout().lines().count(), 1);
    assert_eq!(std::fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o777, 0o600);
    let key = dir.path().join("data/pki/ca.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

    let second = zaffre()
        .current_dir(dir.path())
        .args(["serve", "kube", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1));
    assert!(said.contains("in use by another server") && said.contains("--data-dir"), "{said}");

    let status = server.stop().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn bad_flags_are_explained() {
    let out = zaffre().args(["serve", "kube", "--in-memory", "--data-dir", "x"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("cannot be used with"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = zaffre().args(["serve", "kube", "--in-memory", "--listen", &address]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("--listen") && said.contains("in use"), "{said}");
}

#[test]
fn sidecars_run_on_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubeconfig) = serve(dir.path(), &["--in-memory"]);
    let minter = |kubeconfig: &str| {
        let args = "serve token-minter --service-account-namespace kube-system --service-account-name azure-cloud-provider";
        let mut c = zaffre();
        c.current_dir(dir.path()).args(args.split(' '));
        c.args(["--token-file", "tokens/cloud", "--oneshot", "--kubeconfig", kubeconfig]);
        c.output().unwrap()
    };
    let out = minter("missing");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("cannot read the kubeconfig missing (--kubeconfig)"), "{said}");
    let out = minter(kubeconfig.to_str().unwrap());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let token = dir.path().join("tokens/cloud");
    assert_eq!(std::fs::read_to_string(&token).unwrap().split('.').count(), 3);
    assert_eq!(std::fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o640);
    let ready = format!("{}/readyz", server.url());
    let probe = ["serve", "availability-prober", "--target", &ready, "--required-api=apps,v1,Deployment"];
    let mut c = zaffre();
    c.args(probe).args(["--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert!(c.output().unwrap().status.success());
    // While it waits it says what for, and ends when it is told to.
    let mut c = zaffre();
    c.args(["serve", "availability-prober", "--target", &ready, "--required-api=x.example.test,v1,Lost"]);
    c.args(["--kubeconfig", kubeconfig.to_str().unwrap()]).stderr(std::process::Stdio::piped());
    let mut waits = c.spawn().unwrap();
    let mut first = String::new();
    let mut said = std::io::BufReader::new(waits.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut first).unwrap();
    assert!(first.contains("does not serve x.example.test,v1,Lost yet"), "{first}");
    let id = rustix::process::Pid::from_child(&waits);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(waits.wait().unwrap().code(), Some(143));
    assert!(server.stop().unwrap().success());
}
