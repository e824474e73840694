//! Azure's own clients, unmodified: the CLI both ways in, the SDKs for Python and Go. They hold no opinion of ours.

use crate::azure::serve_azure;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::path::Path;
use std::process::Command;
use testkit::Server;
use testkit::tools;

/// A simulator that trusts the authority of a token issuer on localhost; the issuer itself is the script's.
struct Lab {
    dir: tempfile::TempDir,
    _server: Server,
    env: Vec<(String, String)>,
}

fn lab() -> Lab {
    let dir = tempfile::tempdir().unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let pem = ca.self_signed(&ca_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap().pem();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let flags = ["--in-memory", "--issuer-ca", &write("issuer-ca.pem", pem)];
    let (server, mut env) = serve_azure(dir.path(), &flags);
    env.push(("ISSUER_CERT".into(), write("issuer.pem", leaf)));
    env.push(("ISSUER_KEY".into(), write("issuer.key", key.serialize_pem())));
    env.push(("HOME".into(), dir.path().display().to_string()));
    env.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
    Lab { dir, _server: server, env }
}

impl Lab {
    fn command(&self, program: &Path) -> Command {
        let mut c = Command::new(program);
        c.current_dir(self.dir.path()).envs(self.env.iter().cloned());
        c
    }

    /// Runs a script that says `ok` for each of its checks; afterwards nothing is left over.
    fn check(&self, c: &mut Command, least: usize) {
        let out = c.output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{c:?} failed ({}):\n{said}", out.status);
        let checks = said.lines().filter(|l| l.starts_with("ok ")).count();
        assert!(checks >= least, "only {checks} checks were made:\n{said}");
        let left = self
            .command(Path::new(env!("CARGO_BIN_EXE_zaffre")))
            .args(["azure", "leaks", "--fail-on-leaks"])
            .output()
            .unwrap();
        assert!(left.status.success(), "{}", String::from_utf8_lossy(&left.stdout));
    }
}

fn script(name: &str) -> std::path::PathBuf {
    tools::workspace_root().join("interop/python").join(name)
}

fn az_check(way: &str) {
    let Some(python) = tools::python_az() else { return };
    let lab = lab();
    lab.check(lab.command(&python).arg(script("az_check.py")).arg(way), 9);
}

#[test]
fn the_azure_cli_as_it_comes_through_the_proxy() {
    az_check("public");
}

#[test]
fn the_azure_cli_with_a_cloud_of_its_own() {
    az_check("custom");
}

#[test]
fn the_azure_cli_has_machines() {
    let Some(python) = tools::python_az() else { return };
    for way in ["public", "custom"] {
        let lab = lab();
        lab.check(lab.command(&python).arg(script("az_machines.py")).arg(way), 6);
    }
}

fn az_data(way: &str) {
    let Some(python) = tools::python_az() else { return };
    let lab = lab();
    lab.check(lab.command(&python).arg(script("az_data.py")).arg(way), 11);
}

#[test]
fn the_azure_cli_has_data_through_the_proxy() {
    az_data("public");
}

#[test]
fn the_azure_cli_has_data_in_a_cloud_of_its_own() {
    az_data("custom");
}

#[test]
fn skopeo_pushes_and_pulls() {
    let (Some(python), Some(skopeo)) = (tools::python_az(), tools::skopeo()) else { return };
    let lab = lab();
    lab.check(lab.command(&python).arg(script("oci_check.py")).arg("public").env("SKOPEO", skopeo), 4);
}

#[test]
fn the_sdk_for_python_has_machines() {
    let Some(python) = tools::python_azure() else { return };
    let lab = lab();
    lab.check(lab.command(&python).arg(script("test_azure_machines.py")), 6);
}

/// The executable itself, as a person types it: tables, queries, exit codes.
#[test]
fn the_azure_cli_at_the_shell() {
    let Some(python) = tools::python_az() else { return };
    let lab = lab();
    let az = |args: &[&str]| {
        let out = lab.command(&python).args(["-m", "azure.cli"]).args(args).output().unwrap();
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let value = |name: &str| lab.env.iter().find(|(n, _)| n == name).unwrap().1.clone();
    let (client, secret, tenant) =
        (value("AZURE_CLIENT_ID"), value("AZURE_CLIENT_SECRET"), value("AZURE_TENANT_ID"));
    let (code, said, why) =
        az(&["login", "--service-principal", "-u", &client, "-p", &secret, "--tenant", &tenant]);
    assert_eq!(code, Some(0), "{why}");
    assert!(said.contains(&value("AZURE_SUBSCRIPTION_ID")), "{said}");
    let (code, said, why) = az(&["group", "create", "-n", "g", "-l", "westeurope", "-o", "table"]);
    assert_eq!(code, Some(0), "{why}");
    assert!(said.contains("westeurope  g"), "{said}");
    let (_, said, _) = az(&["group", "list", "--query", "[].name", "-o", "tsv"]);
    assert_eq!(said, "g\nzaffre-dns\n");
    let (code, _, why) = az(&["network", "vnet", "show", "-g", "g", "-n", "absent"]);
    assert_eq!(code, Some(3), "az has an exit code for what does not exist");
    assert!(why.contains("(ResourceNotFound)"), "{why}");
    assert_eq!(az(&["group", "delete", "-n", "g", "--yes"]).0, Some(0));
    // Logins of the simulator are kept apart from a person's own.
    assert!(Path::new(&value("AZURE_CONFIG_DIR")).join("azureProfile.json").exists());
    assert!(!lab.dir.path().join(".azure").exists());
}

/// A world that starts anew has other keys: az must not show it tokens of the one before.
#[test]
fn the_azure_cli_when_the_world_is_another() {
    let Some(python) = tools::python_az() else { return };
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let (server, env) = serve_azure(dir.path(), &["--in-memory"]);
        let value = |name: &str| env.iter().find(|(n, _)| n == name).unwrap().1.clone();
        let who = [value("AZURE_CLIENT_ID"), value("AZURE_CLIENT_SECRET"), value("AZURE_TENANT_ID")];
        let mut c = Command::new(&python);
        c.args([
            "-m",
            "azure.cli",
            "login",
            "--service-principal",
            "-u",
            &who[0],
            "-p",
            &who[1],
            "-t",
            &who[2],
        ]);
        let out = c.envs(env.iter().cloned()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(server.stop().unwrap().success());
    }
    let worlds = std::fs::read_dir(dir.path().join("env.az")).unwrap().count();
    assert_eq!(worlds, 1, "what the first left is gone");
}

#[test]
fn the_sdk_for_python() {
    let Some(python) = tools::python_azure() else { return };
    let lab = lab();
    // Its applications are deleted by Graph; resources by their groups.
    lab.check(lab.command(&python).arg(script("test_azure.py")), 13);
}

/// Vaults, blobs and a registry; it deletes what it made and purges its vault.
#[test]
fn the_sdk_for_python_on_data_planes() {
    let Some(python) = tools::python_azure() else { return };
    let lab = lab();
    lab.check(lab.command(&python).arg(script("test_azure_data.py")), 6);
}

#[test]
fn the_sdk_for_go() {
    let Some(probe) = tools::go_azure() else { return };
    let lab = lab();
    lab.check(&mut lab.command(&probe), 26);
}
