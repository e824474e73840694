//! Every command in the documentation runs, as it stands there.

use crate::zaffre;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Server;

/// The `console` blocks, each as its commands (with their here-documents).
fn blocks(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut current: Option<Vec<String>> = None;
    for line in text.lines() {
        match (&mut current, line) {
            (None, "```console") => current = Some(Vec::new()),
            (Some(_), "```") => all.extend(current.take()),
            (Some(commands), line) => match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push(command.to_owned()),
                (None, Some(last)) => *last = format!("{last}\n{line}"),
                (None, None) => panic!("a console block begins with a command: {line}"),
            },
            _ => {}
        }
    }
    all
}

/// A reader following a page: one terminal for the server, one for everything else.
struct Reader {
    dir: tempfile::TempDir,
    path: String,
    /// `export` lines typed so far: they hold for the rest of the session.
    exports: String,
    /// What is served, and by which server: `kube`, `azure`. Starting one again stops the one before.
    servers: Vec<(String, Server)>,
    last_start: String,
}

impl Reader {
    /// Programs on the reader's PATH: what a name runs.
    fn new(programs: &[(&str, String)]) -> Reader {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let own = ("zaffre", env!("CARGO_BIN_EXE_zaffre").to_owned());
        for (name, runs) in programs.iter().chain([&own]) {
            let path = bin.join(name);
            std::fs::write(&path, format!("#!/bin/sh\nexec {runs} \"$@\"\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        #[allow(clippy::disallowed_methods, reason = "the test's own PATH, extended")]
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Reader { dir, path, exports: String::new(), servers: Vec::new(), last_start: String::new() }
    }

    /// Starts a server as the page says, but on a free port: tests run side by side.
    fn start(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let what = if words[1] == "up" { "up" } else { words.get(2).copied().unwrap_or_default() }.to_owned();
        if let Some(at) = self.servers.iter().position(|(w, _)| *w == what) {
            assert!(self.servers.remove(at).1.stop().unwrap().success());
        }
        let command = command.replace("127.0.0.1:6443", "127.0.0.1:0");
        let mut c = zaffre();
        c.current_dir(self.dir.path()).args(command.split_whitespace().skip(1));
        self.servers.push((what, Server::spawn(c).unwrap()));
        self.last_start = command;
    }

    fn stop(&mut self) {
        for (_, s) in self.servers.drain(..) {
            assert!(s.stop().unwrap().success());
        }
    }

    fn type_in(&mut self, command: &str) {
        if ["zaffre up ", "zaffre serve kube", "zaffre serve azure"].iter().any(|s| command.starts_with(s)) {
            return self.start(command);
        }
        if command.starts_with("export ") || command.starts_with(". ") {
            self.exports.push_str(command);
            self.exports.push('\n');
        }
        let out = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &format!("{}{command}", self.exports)])
            .current_dir(self.dir.path())
            .env("PATH", &self.path)
            .env("HOME", self.dir.path())
            .output()
            .unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{command}\nfailed: {said}");
    }
}

fn page(name: &str) -> Vec<Vec<String>> {
    let path: PathBuf = testkit::tools::workspace_root().join(name);
    blocks(&std::fs::read_to_string(Path::new(&path)).unwrap())
}

fn kubectl() -> Option<[(&'static str, String); 1]> {
    let found = testkit::tools::kubectl();
    if found.is_none() {
        testkit::tools::skipped("commands of the documentation: there is no kubectl and no go to build one");
    }
    Some([("kubectl", found?.display().to_string())])
}

/// `az`, and a `python` with Azure's SDK.
fn azure_clients() -> Option<[(&'static str, String); 2]> {
    let (az, python) = (testkit::tools::python_az()?, testkit::tools::python_azure()?);
    Some([("az", format!("{} -m azure.cli", az.display())), ("python", python.display().to_string())])
}

/// Whether a block is about Azure: the pages begin such with starting the simulator.
fn starts_azure(block: &[String]) -> bool {
    block.iter().any(|c| c.starts_with("zaffre serve azure"))
}

#[test]
fn the_readme() {
    let blocks = page("README.md");
    // The two commands: the demo is run by `the_demo_shows_every_step`, once; `xtask ci` is what runs this test.
    assert_eq!(blocks[0], ["cargo run --release -- demo", "cargo xtask ci"]);
    let ci = testkit::tools::workspace_root().join(".ci/run");
    assert!(std::fs::read_to_string(ci).unwrap().contains("exec cargo xtask ci"));
    let Some(kubectl) = kubectl() else { return };
    let mut reader = Reader::new(&kubectl);
    let kube: Vec<&Vec<String>> = blocks[1..].iter().take_while(|b| !starts_azure(b)).collect();
    let (last, tour) = kube.split_last().unwrap();
    for command in tour.iter().copied().flatten() {
        reader.type_in(command);
    }
    // "Stop the server and start it again: the berth is still there."
    let again = reader.last_start.clone();
    reader.start(&again);
    for command in last.iter() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_the_server() {
    let Some(kubectl) = kubectl() else { return };
    let mut reader = Reader::new(&kubectl);
    for command in page("docs/kube.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_living_clusters() {
    let Some(kubectl) = kubectl() else { return };
    let mut reader = Reader::new(&kubectl);
    for command in page("docs/embedded-kubernetes.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_readme_on_azure() {
    let Some(clients) = azure_clients() else { return };
    let mut reader = Reader::new(&clients);
    let blocks = page("README.md");
    let azure: Vec<&String> = blocks.iter().skip_while(|b| !starts_azure(b)).flatten().collect();
    // Three commands: start it, source its environment, log in.
    assert!(
        azure[0].starts_with("zaffre serve azure")
            && azure[1] == ". ./env"
            && azure[2].starts_with("az login")
    );
    for command in azure {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_the_azure_simulator() {
    let Some(clients) = azure_clients() else { return };
    let mut reader = Reader::new(&clients);
    for command in page("docs/azure-simulator.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_the_self_managed_road() {
    let Some(kubectl) = kubectl() else { return };
    let az = testkit::tools::python_az().map(|python| ("az", format!("{} -m azure.cli", python.display())));
    let programs: Vec<_> = kubectl.into_iter().chain(az.clone()).collect();
    let mut reader = Reader::new(&programs);
    for command in page("docs/self-managed.md").iter().flatten() {
        // Azure's own client only looks on; without it the road is the same.
        if az.is_some() || !command.starts_with("az ") {
            reader.type_in(command);
        }
    }
    reader.stop();
}

#[test]
fn the_page_on_azure_prerequisites() {
    // Everything on it is ours; `az` is only mentioned.
    let mut reader = Reader::new(&[]);
    for command in page("docs/azure-prerequisites.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_hosted_clusters() {
    let Some(kubectl) = kubectl() else { return };
    for (tool, shows) in [("curl", "--version"), ("openssl", "version")] {
        if Command::new(tool).arg(shows).output().is_err() {
            return testkit::tools::skipped(&format!(
                "commands of docs/hosted-clusters.md: there is no {tool}"
            ));
        }
    }
    let mut reader = Reader::new(&kubectl);
    for command in page("docs/hosted-clusters.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}

#[test]
fn the_page_on_identity() {
    let Some(kubectl) = kubectl() else { return };
    if Command::new("curl").arg("--version").output().is_err() {
        return testkit::tools::skipped("commands of docs/identity.md: there is no curl");
    }
    let mut reader = Reader::new(&kubectl);
    for command in page("docs/identity.md").iter().flatten() {
        reader.type_in(command);
    }
    reader.stop();
}
