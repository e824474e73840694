//! Golden files: what the code renders, committed.
//!
//! A test renders something and names a file; the file decides. `ZAFFRE_GOLDEN=update` rewrites instead of
//! comparing, and review happens in the version control diff. A file that does not exist yet is a failure,
//! not a free pass: otherwise a misspelt name would test nothing for ever.
//!
//! ```no_run
//! # let rendered = String::new();
//! # let object = serde_json::json!({});
//! testkit::golden!("help.txt", &rendered); // <crate>/tests/golden/help.txt
//! testkit::golden_json!("deployment.json", &object); // pretty, ordered as serialised
//! ```
//!
//! When one test renders many files, a [`Set`] reports all differences at once and also the files nobody
//! rendered any more, which a file-by-file check cannot notice.

use similar::TextDiff;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Compare, or rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Check,
    Update,
}

impl Mode {
    /// `ZAFFRE_GOLDEN=update` means rewrite; anything else means compare.
    pub fn from_env() -> Mode {
        if crate::env::var("ZAFFRE_GOLDEN").as_deref() == Some("update") { Mode::Update } else { Mode::Check }
    }
}

/// Why a golden file did not hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} differs from what was rendered (- committed, + rendered):\n{diff}\n{REWRITE}")]
    Differs { path: PathBuf, diff: String },
    #[error("{path} does not exist; this was rendered:\n{text}\n{REWRITE}")]
    Missing { path: PathBuf, text: String },
    #[error("nothing renders these any more; delete them or rewrite the set:\n{}", list(.paths))]
    Unclaimed { paths: Vec<PathBuf> },
    #[error("cannot read golden file {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write golden file {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot serialise what was rendered for {path}")]
    Serialise { path: PathBuf, source: serde_json::Error },
    #[error("cannot list golden directory {path}")]
    List { path: PathBuf, source: io::Error },
}

/// The sentence every mismatch ends with.
pub(crate) const REWRITE: &str = "If the change is meant, rewrite with: ZAFFRE_GOLDEN=update cargo test -p <crate>  (all: cargo xtask golden --update)";

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| format!("  {}", p.display())).collect::<Vec<_>>().join("\n")
}

/// Compares `text` with the file, or rewrites the file.
pub fn check(path: &Path, text: &str, mode: Mode) -> Result<(), Error> {
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let committed = match std::fs::read_to_string(path) {
        Ok(committed) => Some(committed),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
    };
    match (committed, mode) {
        (Some(committed), _) if committed == text => Ok(()),
        (_, Mode::Update) => write(path, &text),
        (Some(committed), Mode::Check) => {
            Err(Error::Differs { path: path.to_owned(), diff: diff(&committed, &text) })
        }
        (None, Mode::Check) => Err(Error::Missing { path: path.to_owned(), text }),
    }
}

/// [`check`] of a value as indented JSON.
pub fn check_json<T: serde::Serialize>(path: &Path, value: &T, mode: Mode) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|source| Error::Serialise { path: path.to_owned(), source })?;
    check(path, &text, mode)
}

/// Writes through a neighbour and a rename: an interrupted update leaves the old file, not half of the new one.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(dir).map_err(failed)?;
    let scratch = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(dir)
        .map_err(failed)?;
    std::fs::write(scratch.path(), text).map_err(failed)?;
    scratch.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

/// A unified diff from the committed text to the rendered one.
pub(crate) fn diff(committed: &str, rendered: &str) -> String {
    TextDiff::from_lines(committed, rendered)
        .unified_diff()
        .context_radius(3)
        .header("committed", "rendered")
        .to_string()
}

/// Where a crate keeps its golden files. The macros pass the caller's `CARGO_MANIFEST_DIR`.
pub fn path(manifest_dir: &str, name: &str) -> PathBuf {
    Path::new(manifest_dir).join("tests/golden").join(name)
}

/// For the macros: checks in the mode of the environment and fails the test.
#[track_caller]
pub fn assert_text(manifest_dir: &str, name: &str, text: &str) {
    if let Err(e) = check(&path(manifest_dir, name), text, Mode::from_env()) {
        crate::fail(&crate::chain(&e));
    }
}

/// For the macros: checks in the mode of the environment and fails the test.
#[track_caller]
pub fn assert_json<T: serde::Serialize>(manifest_dir: &str, name: &str, value: &T) {
    if let Err(e) = check_json(&path(manifest_dir, name), value, Mode::from_env()) {
        crate::fail(&crate::chain(&e));
    }
}

/// Compares text with `tests/golden/<name>` of the calling crate.
#[macro_export]
macro_rules! golden {
    ($name:expr, $text:expr) => {
        $crate::golden::assert_text(
            ::core::env!("CARGO_MANIFEST_DIR"),
            ::core::convert::AsRef::as_ref(&$name),
            $text,
        )
    };
}

/// Compares a serialisable value with `tests/golden/<name>` of the calling crate.
#[macro_export]
macro_rules! golden_json {
    ($name:expr, $value:expr) => {
        $crate::golden::assert_json(
            ::core::env!("CARGO_MANIFEST_DIR"),
            ::core::convert::AsRef::as_ref(&$name),
            $value,
        )
    };
}

/// A directory of golden files that one test renders completely.
///
/// Differences are collected so that one run shows them all, and [`Set::finish`] adds the files that were
/// not rendered. In update mode those are deleted, because an update makes the directory what the code says.
pub struct Set {
    dir: PathBuf,
    mode: Mode,
    claimed: BTreeSet<PathBuf>,
    errors: Vec<Error>,
}

impl Set {
    pub fn new(dir: impl Into<PathBuf>, mode: Mode) -> Set {
        Set { dir: dir.into(), mode, claimed: BTreeSet::new(), errors: Vec::new() }
    }

    pub fn text(&mut self, name: &str, text: &str) {
        let path = self.dir.join(name);
        self.errors.extend(check(&path, text, self.mode).err());
        self.claimed.insert(path);
    }

    pub fn json<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        let path = self.dir.join(name);
        self.errors.extend(check_json(&path, value, self.mode).err());
        self.claimed.insert(path);
    }

    /// Every failure of the set, in the order found; empty means the directory is exactly what was rendered.
    pub fn finish(mut self) -> Vec<Error> {
        match files(&self.dir) {
            Ok(found) => {
                let unclaimed: Vec<_> = found.into_iter().filter(|p| !self.claimed.contains(p)).collect();
                match self.mode {
                    _ if unclaimed.is_empty() => {}
                    Mode::Check => self.errors.push(Error::Unclaimed { paths: unclaimed }),
                    Mode::Update => self.errors.extend(unclaimed.into_iter().filter_map(|path| {
                        std::fs::remove_file(&path).err().map(|source| Error::Write { path, source })
                    })),
                }
            }
            Err(source) => self.errors.push(Error::List { path: self.dir, source }),
        }
        self.errors
    }

    /// [`Set::finish`] as an assertion.
    #[track_caller]
    pub fn assert(self) {
        let errors = self.finish();
        if !errors.is_empty() {
            crate::fail(&errors.iter().map(|e| crate::chain(e)).collect::<Vec<_>>().join("\n\n"));
        }
    }
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() { pending.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}
