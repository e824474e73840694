//! kubectl, unmodified: every transcript in `transcripts/`, each against a server of its own.

use crate::serve;
use testkit::normalize::Normalizer;

#[test]
fn transcripts() {
    let Some(kubectl) = testkit::tools::kubectl() else {
        testkit::tools::skipped("kubectl transcripts: there is no kubectl and no go to build one");
        return;
    };
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&kubectl, bin.path().join("kubectl")).unwrap();
    #[allow(clippy::disallowed_methods, reason = "the test's own PATH, extended")]
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    testkit::transcript::check_dir(dir, |transcript, scratch| {
        let (server, kubeconfig) =
            serve(scratch, &["--in-memory", "--cluster", "blue", "--cluster", "green"]);
        let normalizer = Normalizer::new().literal(server.url(), "<server>");
        transcript
            .env("PATH", &path)
            .env("KUBECONFIG", kubeconfig.display())
            .env("SERVER", server.url())
            .env("KUBECACHEDIR", scratch.join("cache").display())
            .env("HOME", scratch.display())
            .normalizer(normalizer)
            .execute()?;
        Ok(())
    });
}
