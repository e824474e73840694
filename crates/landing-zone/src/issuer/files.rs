//! The directory in which keys are kept. A key is written before anybody is told of it, and none is ever overwritten
//! but by a copy of itself.

use super::keys::SigningKey;
use crate::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

const PRIVATE: &str = "serviceaccount-signer.private";
const PUBLIC: &str = "serviceaccount-signer.public";
const NEXT: &str = "serviceaccount-signer.next.private";
const URL: &str = "issuer-url";
/// Larger files are no keys.
const MAX: u64 = 64 << 10;

#[derive(Clone, Debug)]
pub struct KeyDir {
    dir: PathBuf,
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::KeyFile { path, source }
}

/// The key in a file that may not be there.
pub fn read(path: &Path) -> Result<Option<SigningKey>, Error> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(path)(e)),
        Ok(m) if m.len() > MAX => {
            return Err(Error::Key { path: path.to_owned(), source: super::keys::KeyError::Pem });
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(failed(path))?;
    SigningKey::from_pem(&text).map(Some).map_err(|source| Error::Key { path: path.to_owned(), source })
}

impl KeyDir {
    /// The directory is made if it is not there.
    pub fn open(dir: &Path) -> Result<KeyDir, Error> {
        std::fs::create_dir_all(dir).map_err(failed(dir))?;
        let found = KeyDir { dir: dir.to_owned() };
        // Asked before minutes of work.
        tempfile::NamedTempFile::new_in(dir).map_err(failed(dir))?;
        Ok(found)
    }

    /// For looking only: nothing is made.
    pub fn look(dir: &Path) -> KeyDir {
        KeyDir { dir: dir.to_owned() }
    }

    pub fn current(&self) -> Result<Option<SigningKey>, Error> {
        read(&self.dir.join(PRIVATE))
    }

    pub fn next(&self) -> Result<Option<SigningKey>, Error> {
        read(&self.dir.join(NEXT))
    }

    /// Whole or not at all, and on disk before it is named.
    fn write(&self, name: &str, text: &str, public: bool) -> Result<(), Error> {
        let path = self.dir.join(name);
        // Files of this kind have mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
        if public {
            use std::os::unix::fs::PermissionsExt;
            let open = std::fs::Permissions::from_mode(0o644);
            file.as_file().set_permissions(open).map_err(failed(&path))?;
        }
        file.as_file().sync_all().map_err(failed(&path))?;
        file.persist(&path).map_err(|e| failed(&path)(e.error))?;
        self.settle()
    }

    /// Names are on disk, too.
    fn settle(&self) -> Result<(), Error> {
        std::fs::File::open(&self.dir).and_then(|d| d.sync_all()).map_err(failed(&self.dir))
    }

    pub fn write_first(&self, key: &SigningKey) -> Result<(), Error> {
        self.write(PRIVATE, key.private_pem().expose(), false)
    }

    pub fn write_next(&self, key: &SigningKey) -> Result<(), Error> {
        self.write(NEXT, key.private_pem().expose(), false)
    }

    /// What follows from the current key.
    pub fn describe(&self, key: &SigningKey, issuer: &str) -> Result<(), Error> {
        self.write(PUBLIC, &key.public_pem(), true)?;
        self.write(URL, &format!("{issuer}\n"), true)
    }

    /// The next key takes the place of the current one, of which a copy stays under its id. The last step of a
    /// rotation: before it the old key signs, after it the new one does.
    pub fn promote(&self, old: &SigningKey) -> Result<(), Error> {
        let kid = old.kid();
        let short: String = kid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        self.write(&format!("serviceaccount-signer.{short}.private"), old.private_pem().expose(), false)?;
        self.write(&format!("serviceaccount-signer.{short}.public"), &old.public_pem(), true)?;
        let path = self.dir.join(PRIVATE);
        std::fs::rename(self.dir.join(NEXT), &path).map_err(failed(&path))?;
        self.settle()
    }
}
