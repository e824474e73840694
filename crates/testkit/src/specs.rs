//! Published specifications, which lie beside the project and are never part of it.

use std::path::PathBuf;

/// A file or directory of the specifications (`azure/roles.json`), or nothing with a word about it: a test that
/// compares with them must say that it was skipped where they are not.
pub fn specs(path: &str) -> Option<PathBuf> {
    let beside = |d: &std::path::Path| d.join("shared/specs").join(path);
    let found = PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().map(beside).find(|p| p.exists());
    if found.is_none() {
        eprintln!("skipped: shared/specs/{path} is not beside the project");
    }
    found
}
