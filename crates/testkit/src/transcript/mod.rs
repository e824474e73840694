//! Transcripts: a text file of commands that is its own expected output.
//!
//! The file is the test ([`parse`] describes the format). Each command runs in `bash -c` with `pipefail`, its
//! two outputs interleaved as a terminal would show them and [normalised](crate::normalize); the file is then
//! written anew in memory with the answers it got, and must come out as it was. `ZAFFRE_GOLDEN=update` writes
//! it to disk instead, so a new scenario is written as commands only and answered by the machine.
//!
//! Every command has its own shell: variables do not carry over, files in the working directory do. Things
//! that go on in the background (a watch) have a name and are waited for by what they say; nothing sleeps, and
//! nothing is left running when the transcript ends.
//!
//! ```no_run
//! // In crates/zaffre/tests/kube.rs: every file of the directory, each with a server of its own.
//! # let zaffre = "target/debug/zaffre"; // env!("CARGO_BIN_EXE_zaffre")
//! let Some(kubectl) = testkit::tools::kubectl() else { return };
//! testkit::transcript::check_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts"), |transcript, scratch| {
//!     let kubeconfig = scratch.join("kubeconfig");
//!     let mut serve = std::process::Command::new(zaffre);
//!     serve.args(["serve", "kube", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig-out"]).arg(&kubeconfig);
//!     let server = testkit::Server::spawn(serve)?;
//!     transcript
//!         .program("kubectl", &kubectl)
//!         .env("KUBECONFIG", kubeconfig.display())
//!         .env("SERVER", server.url())
//!         .execute()?;
//!     Ok(())
//! });
//! ```

mod parse;
mod play;

pub use parse::SyntaxError;

use crate::golden::{self, Mode};
use crate::normalize::Normalizer;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one command, or one wait, may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Why a transcript did not hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read transcript {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not a transcript")]
    Syntax { path: PathBuf, source: SyntaxError },
    #[error("cannot make a scratch directory for {path}")]
    Scratch { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: cannot run `{command}`")]
    Run { path: PathBuf, line: usize, command: String, source: io::Error },
    #[error("{path}:{line}: `{command}` was ended after {after:?}; it had said:\n{said}")]
    Timeout { path: PathBuf, line: usize, command: String, after: Duration, said: String },
    #[error("{path}:{line}: {name} did not say {text:?} {how}; since the last wait it said:\n{said}")]
    Unsaid { path: PathBuf, line: usize, name: String, text: String, how: String, said: String },
    #[error("{path}:{line}: nothing is running under the name {name:?}")]
    Unknown { path: PathBuf, line: usize, name: String },
    #[error("{path}:{line}: {name:?} is already running")]
    Duplicate { path: PathBuf, line: usize, name: String },
    #[error("{path} differs from what happened (- committed, + happened):\n{diff}\n{}", golden::REWRITE)]
    Differs { path: PathBuf, diff: String },
    #[error("cannot rewrite transcript {path}")]
    Write { path: PathBuf, source: golden::Error },
}

/// One transcript, about to be played.
pub struct Transcript {
    path: PathBuf,
    env: Vec<(String, String)>,
    programs: Vec<(String, PathBuf)>,
    cwd: Option<PathBuf>,
    normalizer: Normalizer,
    deadline: Duration,
    mode: Mode,
}

impl Transcript {
    pub fn new(path: impl Into<PathBuf>) -> Transcript {
        Transcript {
            path: path.into(),
            env: Vec::new(),
            programs: Vec::new(),
            cwd: None,
            normalizer: Normalizer::new(),
            deadline: DEADLINE,
            mode: Mode::from_env(),
        }
    }

    /// Plays the file with these variables in this directory.
    pub fn run(path: &Path, env: &[(String, String)], cwd: &Path) -> Result<(), Error> {
        let mut transcript = Transcript::new(path).cwd(cwd);
        transcript.env.extend_from_slice(env);
        transcript.execute()
    }

    /// Sets a variable for every command.
    pub fn env(mut self, name: &str, value: impl std::fmt::Display) -> Transcript {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// What a command by this name means, whatever `PATH` says: the kubectl that [`crate::tools`] found, or the
    /// binary under test.
    pub fn program(mut self, name: &str, path: impl Into<PathBuf>) -> Transcript {
        self.programs.push((name.to_owned(), path.into()));
        self
    }

    /// Where commands run; without it, in a scratch directory that is removed afterwards.
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Transcript {
        self.cwd = Some(dir.into());
        self
    }

    pub fn normalizer(mut self, normalizer: Normalizer) -> Transcript {
        self.normalizer = normalizer;
        self
    }

    /// The longest one command or wait may take.
    pub fn deadline(mut self, deadline: Duration) -> Transcript {
        self.deadline = deadline;
        self
    }

    /// Compare or rewrite; without it, what `ZAFFRE_GOLDEN` says.
    pub fn mode(mut self, mode: Mode) -> Transcript {
        self.mode = mode;
        self
    }

    /// The file's name without its ending, for messages and names.
    pub fn name(&self) -> String {
        self.path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Plays the file and compares it with what happened.
    pub fn execute(self) -> Result<(), Error> {
        let path = &self.path;
        let committed =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let items =
            parse::parse(&committed).map_err(|source| Error::Syntax { path: path.clone(), source })?;
        let scratch = tempfile::tempdir().map_err(|source| Error::Scratch { path: path.clone(), source })?;
        let happened = play::play(&self, items, scratch.path())?;
        match self.mode {
            _ if happened == committed => Ok(()),
            Mode::Update => {
                golden::write(path, &happened).map_err(|source| Error::Write { path: path.clone(), source })
            }
            Mode::Check => {
                Err(Error::Differs { path: path.clone(), diff: golden::diff(&committed, &happened) })
            }
        }
    }
}

type AnyError = Box<dyn std::error::Error + 'static>;

/// What failed in a directory of transcripts.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    #[error("cannot list transcripts in {path}")]
    List { path: PathBuf, source: io::Error },
    #[error("no transcript (*.txt) in {path}{}", .filter.as_deref().map(|f| format!(" has {f:?} in its name")).unwrap_or_default())]
    Empty { path: PathBuf, filter: Option<String> },
    #[error("{failed} of {all} transcripts failed:\n\n{report}")]
    Failed { failed: usize, all: usize, report: String },
}

/// Plays every `*.txt` of a directory, each with a scratch directory that is also its working directory, and
/// reports all that failed. `ZAFFRE_TRANSCRIPT=text` plays only those with the text in their name.
///
/// The closure sets up the world of one transcript and plays it, so a server lives as long as its transcript.
pub fn run_dir(
    dir: &Path,
    mut play: impl FnMut(Transcript, &Path) -> Result<(), AnyError>,
) -> Result<usize, DirError> {
    let failed = |source| DirError::List { path: dir.to_owned(), source };
    let filter = crate::env::var("ZAFFRE_TRANSCRIPT");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
        .map_err(failed)?;
    paths.retain(|p| {
        let name = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        name.ends_with(".txt") && filter.as_deref().is_none_or(|f| name.contains(f))
    });
    paths.sort();
    if paths.is_empty() {
        // A directory that moved must not turn into a test that passes.
        return Err(DirError::Empty { path: dir.to_owned(), filter });
    }
    let all = paths.len();
    let mut reports = Vec::new();
    for path in paths {
        let scratch = tempfile::tempdir().map_err(failed)?;
        let transcript = Transcript::new(&path).cwd(scratch.path());
        if let Err(e) = play(transcript, scratch.path()) {
            reports.push(crate::chain(e.as_ref()));
        }
    }
    match reports.len() {
        0 => Ok(all),
        failed => Err(DirError::Failed { failed, all, report: reports.join("\n\n") }),
    }
}

/// [`run_dir`] as an assertion.
#[track_caller]
pub fn check_dir(
    dir: impl AsRef<Path>,
    play: impl FnMut(Transcript, &Path) -> Result<(), AnyError>,
) -> usize {
    match run_dir(dir.as_ref(), play) {
        Ok(all) => all,
        Err(e) => crate::fail(&crate::chain(&e)),
    }
}
