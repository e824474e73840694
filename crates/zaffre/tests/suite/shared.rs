//! `create oidc-issuer` and `create managed-identities` as scripts use them; and what Azure's own clients see of all that
//! was made.

use crate::azure::serve_azure;
use crate::zaffre;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use testkit::tools;

struct Desk {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
    _server: testkit::Server,
}

const ISSUER: &str = "create oidc-issuer azure --name demooidc --resource-group-name demo-oidc --location westus2 --output-dir oidc";
const MANAGED: &str = "create managed-identities azure --name demo --resource-group-name demo-shared --location westus2 \
    --key-vault-name demo-vault --oidc-issuer-url https://demooidc.blob.core.windows.net/demooidc \
    --managed-identities-file cp.json --data-plane-identities-file dp.json";
const IAM: &str = "create iam azure --name demo --infra-id demo-x2b4c --resource-group-name demo-identities \
    --oidc-issuer-url https://demooidc.blob.core.windows.net/demooidc --output-file identities.json";
const INFRA: &str = "create infra azure --name demo --infra-id demo-x2b4c --base-domain example.zaffre.test \
    --assign-identity-roles --dns-zone-rg-name zaffre-dns --output-file infra.yaml";
/// Keys of 4096 bits take long to make in a debug build; a given one is checked just as well.
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../landing-zone/tests/data/signer.pem");

fn desk() -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut env) = serve_azure(dir.path(), &["--in-memory"]);
    env.push(("HOME".to_owned(), dir.path().display().to_string()));
    Desk { dir, env, _server: server }
}

impl Desk {
    fn run(&self, line: &str) -> Output {
        let words = line.split_whitespace();
        zaffre().current_dir(self.dir.path()).args(words).envs(self.env.iter().cloned()).output().unwrap()
    }

    fn exits(&self, code: i32, line: &str) -> String {
        let out = self.run(line);
        let said =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(code), "{line}: {said}");
        said
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir.path().join(file)).unwrap()).unwrap()
    }

    fn mode(&self, file: &str) -> u32 {
        std::fs::metadata(self.dir.path().join(file)).unwrap().permissions().mode() & 0o777
    }

    fn nothing_is_left(&self) {
        self.exits(0, "destroy infra azure --name demo --infra-id demo-x2b4c --quiet");
        self.exits(0, "destroy iam azure --name demo --infra-id demo-x2b4c --quiet");
        self.exits(0, "destroy managed-identities azure --name demo --quiet");
        self.exits(0, "destroy oidc-issuer azure --name demooidc --quiet");
        self.exits(0, "azure leaks --fail-on-leaks");
    }
}

#[test]
fn an_issuer_and_managed_identities() {
    let d = desk();
    let shown = d.exits(2, &format!("plan {ISSUER}"));
    assert!(shown.contains("+ RSA key in --output-dir") && !d.dir.path().join("oidc").exists(), "{shown}");
    let said = d.exits(0, &format!("{ISSUER} --key {KEY}"));
    assert!(said.contains("issuer   https://demooidc.blob.core.windows.net/demooidc"), "{said}");
    assert_eq!(d.mode("oidc/serviceaccount-signer.private"), 0o600);
    d.exits(0, &format!("plan {ISSUER}"));
    let elsewhere = ISSUER.replace("--output-dir oidc", "--output-dir other");
    let said = d.exits(1, &elsewhere);
    assert!(said.contains("the issuer publishes other keys") && said.contains("--key"), "{said}");
    assert!(
        d.exits(1, &format!("{ISSUER} --key {KEY} --rotate")).contains("--key is the key that signs already")
    );
    d.exits(2, &format!("{ISSUER} --rotate --retire-old"));
    assert!(
        d.exits(2, &ISSUER.replace("demooidc", "Demo")).contains("3 to 24 lower-case letters and digits")
    );

    d.exits(2, &format!("plan {MANAGED}"));
    let said = d.exits(0, MANAGED);
    assert!(said.contains("wrote    cp.json") && said.contains("wrote    dp.json"), "{said}");
    assert_eq!((d.mode("cp.json"), d.mode("dp.json")), (0o600, 0o600));
    let cp = d.json("cp.json");
    assert_eq!(cp["managedIdentitiesKeyVault"]["name"], "demo-vault");
    assert_eq!(cp["nodePoolManagement"]["credentialsSecretName"], "demo-nodepool-mgmt");
    assert_eq!(d.json("dp.json").as_object().unwrap().len(), 3);
    d.exits(0, &format!("plan {MANAGED}"));
    d.exits(2, &format!("plan {MANAGED} --renew --renew-before 365"));
    // What is left to renew is nothing, and its events are JSON.
    let events = d.exits(0, &format!("{MANAGED} --renew -o json"));
    assert!(events.lines().all(|l| serde_json::from_str::<Value>(l).is_ok()), "{events}");
    d.exits(0, &format!("{INFRA} --managed-identities-file cp.json --data-plane-identities-file dp.json"));
    d.exits(0, "doctor azure --for managed --location westus2 --name demo --infra-id demo --key-vault-name demo-vault --oidc-issuer-name demooidc");
    d.exits(2, "plan destroy managed-identities azure --name demo");
    d.nothing_is_left();
    d.exits(0, "plan destroy managed-identities azure --name demo");
}

/// Everything that the commands can make, and what their plans said.
fn everything() -> Desk {
    let d = desk();
    let mut ids = Vec::new();
    let infra = format!("{INFRA} --workload-identities-file identities.json");
    for line in [&format!("{ISSUER} --key {KEY}"), MANAGED, IAM, &infra] {
        let out = d.run(&format!("plan {line} -o json"));
        let plan: Value = serde_json::from_slice(&out.stdout).unwrap();
        ids.extend(plan["steps"].as_array().unwrap().iter().map(|s| s["id"].clone()));
        d.exits(0, line);
    }
    let suffixes =
        ["cpo", "nodepool-mgmt", "cloud-provider", "disk", "file", "ingress", "network", "image-registry"];
    let expected = json!({"ids": ids, "account": "demooidc", "vault": "demo-vault",
        "secrets": suffixes.map(|s| format!("demo-{s}"))});
    std::fs::write(d.dir.path().join("expected.json"), expected.to_string()).unwrap();
    d
}

fn sees(python: &Path, script: &str, args: &[&str], least: usize) {
    let d = everything();
    let mut c = Command::new(python);
    c.arg(tools::workspace_root().join("interop/python").join(script)).args(args);
    c.current_dir(d.dir.path()).envs(d.env.iter().cloned());
    let out = c.env("EXPECTED", "expected.json").env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}");
    assert!(said.lines().filter(|l| l.starts_with("ok ")).count() >= least, "{said}");
    d.nothing_is_left();
}

#[test]
fn the_azure_cli_sees_what_was_made() {
    let Some(python) = tools::python_az() else { return };
    sees(&python, "az_prereqs.py", &["public"], 4);
}

#[test]
fn the_sdk_for_python_sees_what_was_made() {
    let Some(python) = tools::python_azure() else { return };
    sees(&python, "test_azure_prereqs.py", &[], 14);
}
