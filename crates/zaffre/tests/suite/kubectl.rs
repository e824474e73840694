//! kubectl, unmodified: every transcript in `transcripts/`, each against a server of its own.

use crate::serve;
use testkit::normalize::Normalizer;

/// Plays a directory of transcripts, each against a server with these flags.
fn play(dir: &str, flags: &[&str], normalizer: impl Fn(Normalizer) -> Normalizer + Sync) {
    let Some(kubectl) = testkit::tools::kubectl() else {
        testkit::tools::skipped("kubectl transcripts: there is no kubectl and no go to build one");
        return;
    };
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&kubectl, bin.path().join("kubectl")).unwrap();
    #[allow(clippy::disallowed_methods, reason = "the test's own PATH, extended")]
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let dir = format!("{}/tests/{dir}", env!("CARGO_MANIFEST_DIR"));
    testkit::transcript::check_dir(&dir, |transcript, scratch| {
        let (server, kubeconfig) = serve(scratch, flags);
        transcript
            .env("PATH", &path)
            .env("KUBECONFIG", kubeconfig.display())
            .env("SERVER", server.url())
            .env("KUBECACHEDIR", scratch.join("cache").display())
            .env("HOME", scratch.display())
            .normalizer(normalizer(Normalizer::new().literal(server.url(), "<server>")))
            .execute()?;
        Ok(())
    });
}

/// Addresses of Services are given out at random.
fn cluster_ips(n: Normalizer) -> Normalizer {
    n.pattern(r"\b10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+\b", "<cluster-ip>")
}

#[test]
fn transcripts() {
    play("transcripts", &["--in-memory", "--cluster", "blue", "--cluster", "green"], cluster_ips);
}

/// Clusters with nodes: what rolls out, runs, is drained and goes.
#[test]
fn living() {
    play("living", &["--in-memory", "--nodes", "2"], |n| {
        cluster_ips(n)
            .pattern(
                r"-[bcdfghjklmnpqrstvwxz2456789]{7,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
                "-<hash>-<random>",
            )
            .pattern(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-<hash>")
            .pattern(r"pod-template-hash=\w+", "pod-template-hash=<hash>")
            .pattern(r"\b10\.(?:12[89]|1[3-9]\d)\.\d+\.\d+\b", "<pod-ip>")
            .pattern(r":3[0-2]\d{3}/", ":<node-port>/")
            .generated("agent-")
            .generated("once-")
    });
}
