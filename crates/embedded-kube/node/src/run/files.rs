//! Files that change together: readers see all of the old ones or all of the new ones.
//!
//! As a kubelet lays them out: the files are in a directory of their own, `..data` points to it, and what readers
//! open points through `..data`. An update writes a new directory and moves that one link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

/// Relative path → content.
pub type Payload = BTreeMap<String, Vec<u8>>;

fn clean(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
        && !path.starts_with("..")
}

/// Makes `dir` show exactly `payload`. `version` names the new directory and must be new.
pub fn write(dir: &Path, payload: &Payload, version: &str, mode: u32) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let fresh = format!("..{version}");
    let inner = dir.join(&fresh);
    if inner.exists() {
        fs::remove_dir_all(&inner)?;
    }
    fs::create_dir(&inner)?;
    let mut tops = BTreeSet::new();
    for (path, content) in payload.iter().filter(|(p, _)| clean(p)) {
        let file = inner.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        tops.insert(path.split('/').next().unwrap_or_default().to_owned());
    }
    let old = fs::read_link(dir.join("..data")).ok();
    let tmp = dir.join("..data_tmp");
    let _ = fs::remove_file(&tmp);
    symlink(&fresh, &tmp)?;
    fs::rename(&tmp, dir.join("..data"))?;
    for top in &tops {
        let link = dir.join(top);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(top), link)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if !text.starts_with("..") && !tops.contains(&*text) {
            fs::remove_file(dir.join(&name))?;
        }
    }
    if let Some(old) = old.filter(|o| o.as_os_str() != fresh.as_str()) {
        let _ = fs::remove_dir_all(dir.join(old));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_as_one_and_cannot_leave_their_directory() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("v");
        let payload = |list: &[(&str, &str)]| -> Payload {
            list.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
        };
        write(&dir, &payload(&[("a", "1"), ("b/c", "2"), ("../x", "no")]), "1", 0o644).unwrap();
        assert_eq!(fs::read_to_string(dir.join("b/c")).unwrap(), "2");
        write(&dir, &payload(&[("a", "3")]), "2", 0o600).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "3");
        assert!(fs::symlink_metadata(dir.join("b")).is_err());
        assert!(!dir.join("..1").exists());
        assert!(!tmp.path().join("x").exists());
    }
}
