//! A file that readers never see empty or half written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The pod's other containers share our group, not always our user.
const MODE: u32 = 0o640;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{0} is not the path of a file below a directory (--token-file)")]
    Path(String),
    #[error("there is nowhere to put {0} (--token-file): mount a volume above it")]
    NoPlace(String),
    #[error("cannot make the directory of {path} (--token-file)")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot write {path} (--token-file)")]
    Write { path: PathBuf, source: io::Error },
}

/// Puts `content` at `path`: written beside it, then moved over it. `salt` keeps two writers apart.
pub(crate) fn replace(path: &Path, content: &[u8], salt: &str) -> Result<(), FileError> {
    let bad = || FileError::Path(path.display().to_string());
    let (dir, name) = (path.parent().ok_or_else(bad)?, path.file_name().ok_or_else(bad)?);
    fs::create_dir_all(dir).map_err(|source| FileError::Directory { path: path.to_owned(), source })?;
    // Hidden, so that whoever lists the directory does not take it for a token.
    let beside = dir.join(format!(".{}.{salt}", name.to_string_lossy()));
    let written = write(&beside, content).and_then(|()| fs::rename(&beside, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&beside);
        FileError::Write { path: path.to_owned(), source }
    })
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(content)?;
    // A crash must not leave a name that points to nothing.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn readers_see_one_or_the_other_and_never_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/token");
        replace(&path, &[b'a'; 4096], "1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) || reads < 10 {
                    let seen = fs::read(&path).unwrap();
                    assert_eq!(seen.len(), 4096, "half a file");
                    assert!(seen.iter().all(|b| *b == seen[0]), "two at once");
                    reads += 1;
                }
            });
            for i in 0..300u32 {
                let letter = if i % 2 == 0 { b'a' } else { b'b' };
                replace(&path, &[letter; 4096], &i.to_string()).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_cannot_be_written_says_where() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        let e = replace(&dir.path().join("file/token"), b"t", "1").unwrap_err();
        assert!(matches!(e, FileError::Directory { .. }), "{e:?}");
        assert!(matches!(replace(Path::new("/"), b"t", "1"), Err(FileError::Path(_))));
        // What is there stays when its successor cannot be written.
        let token = dir.path().join("token");
        replace(&token, b"old", "1").unwrap();
        fs::write(dir.path().join(".token.2"), "in the way").unwrap();
        assert!(matches!(replace(&token, b"new", "2"), Err(FileError::Write { .. })));
        assert_eq!(fs::read(&token).unwrap(), b"old");
    }
}
