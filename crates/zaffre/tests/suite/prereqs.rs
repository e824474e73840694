//! `create`, `destroy`, `plan` and `doctor` as scripts use them.

use crate::azure::serve_azure;
use crate::road::{answers, hosted_cluster, status};
use crate::zaffre;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

struct Desk<'a> {
    dir: &'a Path,
    env: Vec<(String, String)>,
}

const WHICH: [&str; 4] = ["--name", "demo", "--infra-id", "demo-x2b4c"];

impl Desk<'_> {
    fn run(&self, args: &[&str]) -> Output {
        let mut all: Vec<&str> = args.to_vec();
        // Doctor knows the cluster only if it is told.
        if args[0] != "doctor" {
            all.extend(WHICH);
        }
        zaffre().current_dir(self.dir).args(all).envs(self.env.iter().cloned()).output().unwrap()
    }

    fn good(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn bad(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&out.stdout));
        String::from_utf8(out.stderr).unwrap()
    }

    fn mode(&self, file: &str) -> u32 {
        std::fs::metadata(self.dir.join(file)).unwrap().permissions().mode() & 0o777
    }
}

const IAM: [&str; 9] = [
    "create",
    "iam",
    "azure",
    "--resource-group-name",
    "demo-identities",
    "--oidc-issuer-url",
    "https://oidc.example.test/demo",
    "--output-file",
    "identities.json",
];

const INFRA: [&str; 10] = [
    "create",
    "infra",
    "azure",
    "--base-domain",
    "example.zaffre.test",
    "--workload-identities-file",
    "identities.json",
    "--assign-identity-roles",
    "--dns-zone-rg-name",
    "zaffre-dns",
];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    args.iter().chain(more).copied().collect()
}

fn planned<'a>(args: &[&'a str]) -> Vec<&'a str> {
    std::iter::once("plan").chain(args.iter().copied()).collect()
}

#[test]
fn plan_create_again_and_destroy() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut env) = serve_azure(dir.path(), &["--in-memory", "--creds-out", "creds.json"]);
    // The credentials file alone says who: as YAML, too.
    env.retain(|(k, _)| {
        !matches!(k.as_str(), "AZURE_CLIENT_SECRET" | "AZURE_CLIENT_ID" | "AZURE_SUBSCRIPTION_ID")
    });
    let creds: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("creds.json")).unwrap()).unwrap();
    let yaml: String =
        creds.as_object().unwrap().iter().map(|(k, v)| format!("{k}: {}\n", v.as_str().unwrap())).collect();
    std::fs::write(dir.path().join("creds.yaml"), yaml).unwrap();
    let desk = Desk { dir: dir.path(), env };
    let iam = with(&IAM, &["--azure-creds", "creds.json"]);
    let infra = with(&INFRA, &["--azure-creds", "creds.yaml"]);

    let shown = desk.run(&planned(&iam));
    assert_eq!(shown.status.code(), Some(2), "there is something to do");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("22 to create") && text.contains("Permissions needed"), "{text}");
    assert!(!dir.path().join("identities.json").exists(), "a plan writes nothing");

    let said = desk.good(&iam);
    assert_eq!(said, "wrote    identities.json\n");
    assert_eq!(desk.mode("identities.json"), 0o600);
    let v: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("identities.json")).unwrap()).unwrap();
    assert_eq!(v.as_object().unwrap().keys().next().unwrap(), "imageRegistry");
    assert_eq!(desk.run(&planned(&iam)).status.code(), Some(0), "nothing is left to do");
    let dry = with(&infra, &["--dry-run", "-o", "json"]);
    let shown = desk.run(&dry);
    assert_eq!(shown.status.code(), Some(2));
    let plan: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&plan["create"], plan["steps"].as_array().unwrap().len()), (&27.into(), 27));
    let shown = desk.run(&with(&infra, &["--dry-run", "-o", "yaml"]));
    assert_eq!(serde_saphyr::from_slice::<Value>(&shown.stdout).unwrap(), plan, "the same plan as YAML");

    let events = desk.good(&with(&infra, &["-o", "json", "--output-file", "infra.yaml"]));
    let events: Vec<Value> = events.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(events[0]["event"], "planned");
    assert_eq!(events.iter().filter(|e| e["result"] == "created").count(), 27);
    assert_eq!(events.last().unwrap()["good"], true);
    assert_eq!(desk.mode("infra.yaml"), 0o600);
    let events = desk.good(&with(&infra, &["-o", "yaml", "--output-file", "infra.yaml"]));
    let events: Vec<Value> =
        events.split("---\n").skip(1).map(|d| serde_saphyr::from_str(d).unwrap()).collect();
    assert_eq!((&events[0]["event"], &events.last().unwrap()["good"]), (&"planned".into(), &true.into()));
    let printed = desk.good(&with(&infra, &["--quiet"]));
    assert_eq!(printed, std::fs::read_to_string(dir.path().join("infra.yaml")).unwrap());
    assert!(printed.starts_with("baseDomain: example.zaffre.test\nbootImageID: \"\"\n"), "{printed}");

    let who = ["--azure-creds", "creds.json"];
    let gone = desk.run(&with(&["plan", "destroy", "infra", "azure"], &who));
    assert_eq!(gone.status.code(), Some(2));
    // Of a cluster: two while there is the object, or anything in Azure.
    let kubeconfig = dir.path().join("kubeconfig").display().to_string();
    let planned = with(&["plan", "destroy", "cluster", "azure", "--kubeconfig", &kubeconfig], &who);
    let ends = |there: (u16, Value)| {
        answers(dir.path(), vec![there]);
        let out = desk.run(&planned);
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let mut cluster = hosted_cluster();
    cluster["spec"]["infraID"] = "demo-x2b4c".into();
    answers(dir.path(), vec![(200, cluster.clone())]);
    let elsewhere = desk.run(&planned);
    let said = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(elsewhere.status.code() == Some(1) && said.contains("in subscription 0000"), "{said}");
    cluster["spec"]["platform"]["azure"]["subscriptionID"] = creds["subscriptionId"].clone();
    let (code, said) = ends((200, cluster.clone()));
    assert!(code == Some(2) && said.contains("- HostedCluster clusters/demo"), "{code:?} {said}");
    // For programs too.
    answers(dir.path(), vec![(200, cluster.clone())]);
    let out = desk.run(&with(
        &["plan", "destroy", "cluster", "azure", "--kubeconfig", &kubeconfig, "-o", "json"],
        &who,
    ));
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(plan["hostedCluster"]["name"], "demo", "{plan}");
    let (code, said) = ends(status(404));
    assert!(code == Some(2) && !said.contains("HostedCluster"), "{code:?} {said}");
    desk.good(&with(&["destroy", "infra", "azure"], &who));
    assert_eq!(ends((200, cluster)).0, Some(2), "the object is still there");
    assert_eq!(ends(status(404)).0, Some(0), "nothing is left to do");
    desk.good(&with(&["destroy", "iam", "azure", "--workload-identities-file", "identities.json"], &who));
    let leaks = zaffre().args(["azure", "leaks", "--fail-on-leaks"]).envs(desk.env).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&leaks.stdout), "nothing is left over\n");
}

#[test]
fn mistakes_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    let desk = Desk { dir: dir.path(), env };
    desk.good(&IAM);
    let net = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n";
    for (more, says) in [
        (vec!["--resource-group-name", "nowhere"], "resource group nowhere does not exist"),
        (vec!["--output-file", "no/such/dir/x"], "cannot write no/such/dir/x (--output-file)"),
        (vec!["--azure-creds", "identities.json"], "must be YAML or JSON with subscriptionId"),
    ] {
        let said = desk.bad(&with(&INFRA, &more));
        assert!(said.contains(says), "{more:?}: {said}");
    }
    // Flags that nothing can follow end as those that clap refuses.
    for (more, says) in [
        (vec!["--vnet-id", net], "--vnet-id is given without --subnet-id"),
        (vec!["--vnet-id", "net"], "not a resource id"),
        (vec!["--network-security-group-id", net], "--network-security-group-id"),
        (vec!["-t", "a/b=c"], "--resource-group-tags"),
        (vec!["--cloud", "Moon"], "there is no cloud 'Moon'"),
    ] {
        let out = desk.run(&with(&INFRA, &more));
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && said.contains(says), "{more:?}: {said}");
    }
    let odd: Vec<&str> = IAM.into_iter().chain(["--name", "Demo", "--infra-id", "x"]).collect();
    let out = zaffre().current_dir(desk.dir).args(odd).envs(desk.env.iter().cloned()).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", String::from_utf8_lossy(&out.stderr));
    let domain: Vec<&str> =
        INFRA.iter().map(|a| if *a == "example.zaffre.test" { "other.test" } else { a }).collect();
    assert!(desk.bad(&domain).contains("az network dns zone create"));
    // Clap explains what flags exclude and need.
    for (flags, says) in [
        (["--managed-identities-file", "x"].as_slice(), "cannot be used with"),
        (&["--assign-custom-hcp-roles", "--endpoint-access", "Nobody"], "Private"),
    ] {
        let out = desk.run(&with(&INFRA, flags));
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn the_doctor_says_what_and_how() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    let desk = Desk { dir: dir.path(), env };
    let said = desk.good(&["doctor", "azure", "--base-domain", "example.zaffre.test"]);
    assert!(said.starts_with("ok       account: object ") && said.contains("ok       permissions"), "{said}");
    let out = desk.run(&["doctor", "azure", "--location", "atlantis", "-o", "json"]);
    assert_eq!(out.status.code(), Some(1));
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["blockers"], 1);
    let stranger = Desk {
        dir: dir.path(),
        env: desk
            .env
            .iter()
            .filter(|(k, _)| k != "AZURE_CLIENT_SECRET")
            .cloned()
            .chain([("AZURE_CLIENT_SECRET".to_owned(), "wrong".to_owned())])
            .collect(),
    };
    let out = stranger.run(&["doctor", "azure"]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("BLOCKER  account") && said.contains("AADSTS7000215"), "{said}");
}
