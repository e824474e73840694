//! The version we speak.

use serde_json::{Value, json};

/// `gitVersion` must be a semantic version, or clients refuse to talk.
pub fn info() -> Value {
    json!({
        "major": "1", "minor": "34",
        "gitVersion": concat!("v1.34.0+zaffre.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none (rust)", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, arch()),
        "emulationMajor": "1", "emulationMinor": "34",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "33",
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
