//! Payloads made by somebody else's program.

use crate::stage::{Stage, text};
use ignition::command::ByCommand;
use serde_json::json;
use std::sync::Arc;

fn shell(script: &str) -> Arc<ByCommand> {
    let mut command = ByCommand::new("/bin/sh");
    command.args = vec!["-c".into(), script.into()];
    Arc::new(command)
}

#[tokio::test]
async fn a_command_reads_what_there_is_and_writes_a_payload() {
    let script = r#"input=$(cat); case "$input" in *'"configVersion":"1a2b3c4d"'*99-mine*) ;; *) echo "bad input" >&2; exit 1;; esac
        echo '{"ignition":{"version":"3.4.0"},"made":"elsewhere"}'"#;
    let stage = Stage::start(shell(script)).await;
    stage.furnish().await;
    stage.token("token-workers-1a2b3c4d", "t1", json!({})).await;
    stage.until("token-workers-1a2b3c4d", |s| text(s, "reason") == "AsExpected").await;
    assert_eq!(stage.fetch("t1").await.1["made"], "elsewhere");
}

/// More than a pipe holds, and more than is kept of it.
const CHATTER: &str = "head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo >&2";

#[tokio::test]
async fn a_command_may_say_much_before_its_payload() {
    let script =
        format!("cat >/dev/null; {CHATTER}; {CHATTER} && echo '{{\"ignition\":{{\"version\":\"3.4.0\"}}}}'");
    let stage = Stage::start(shell(&script)).await;
    stage.furnish().await;
    stage.token("token-workers-1a2b3c4d", "t1", json!({})).await;
    stage.until("token-workers-1a2b3c4d", |s| !text(s, "reason").is_empty()).await;
    assert_eq!(stage.fetch("t1").await.1["ignition"]["version"], "3.4.0");
}

/// One that says nothing any more and goes on: nobody but the clock ends it.
#[tokio::test]
async fn a_command_that_does_not_end_is_ended() {
    let mut command = ByCommand::new("/bin/sh");
    command.args = vec!["-c".into(), "cat >/dev/null; exec sleep 300 >&- 2>&-".into()];
    command.patience = std::time::Duration::from_millis(300);
    let stage = Stage::start(Arc::new(command)).await;
    stage.furnish().await;
    stage.token("token-workers-1a2b3c4d", "t1", json!({})).await;
    let said = stage.until("token-workers-1a2b3c4d", |s| text(s, "reason") == "InvalidConfig").await;
    assert!(text(said.as_ref(), "message").contains("has not ended within 300ms"));
}

#[tokio::test]
async fn how_a_command_fails_is_told() {
    let long = format!("cat >/dev/null; {CHATTER}; echo 'the last word' >&2; exit 3");
    for (script, word) in [
        ("cat >/dev/null; echo first >&2; echo 'the registry is away' >&2; exit 3", "the registry is away"),
        (long.as_str(), "the last word"),
        ("cat >/dev/null; echo hello", "not JSON"),
        ("cat >/dev/null; echo '{\"ignition\":{\"version\":\"2.2.0\"}}'", "2.2.0"),
    ] {
        let stage = Stage::start(shell(script)).await;
        stage.furnish().await;
        stage.token("token-workers-1a2b3c4d", "t1", json!({})).await;
        let said = stage.until("token-workers-1a2b3c4d", |s| text(s, "reason") == "InvalidConfig").await;
        assert!(text(said.as_ref(), "message").contains(word), "{}", text(said.as_ref(), "message"));
    }
}
