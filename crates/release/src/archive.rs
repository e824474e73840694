//! Layers: compressed archives in which a few small files are looked for.

use std::io::{self, Read};

/// A layer may unpack to this much; more is a bomb.
const MAX_UNPACKED: u64 = 4 << 30;
/// A file we want is never larger.
const MAX_FILE: u64 = 32 << 20;

/// Finds files by their names in one layer, compressed or not; `None` for those that are not in it. A file that the
/// layer deletes from those below is found as empty.
pub fn find<const N: usize>(layer: &[u8], names: [&str; N]) -> io::Result<[Option<Found>; N]> {
    match layer {
        [0x1f, 0x8b, ..] => scan(flate2::read::MultiGzDecoder::new(layer), names),
        _ => scan(layer, names),
    }
}

/// What a layer says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Content(Vec<u8>),
    Deleted,
}

fn scan<const N: usize>(from: impl Read, names: [&str; N]) -> io::Result<[Option<Found>; N]> {
    let mut found = [const { None }; N];
    let mut archive = tar::Archive::new(from.take(MAX_UNPACKED));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let path = path.trim_start_matches("./").trim_start_matches('/');
        for (i, name) in names.iter().enumerate() {
            if path == *name && entry.header().entry_type().is_file() {
                if entry.size() > MAX_FILE {
                    let why = format!("{name} has {} bytes; at most {MAX_FILE} are read", entry.size());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                found[i] = Some(Found::Content(content));
            } else if deletes(path, name) && found[i].is_none() {
                found[i] = Some(Found::Deleted);
            }
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(found)
}

/// Whether an entry takes away a file of the layers below: `.wh.name`, or all of its directory.
fn deletes(path: &str, name: &str) -> bool {
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let Some((at, mark)) = path.rsplit_once('/') else { return path == format!(".wh.{directory}") };
    at == directory && (mark == ".wh..wh..opq" || mark.strip_prefix(".wh.") == Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        crate::make::archive(files).unwrap()
    }

    #[test]
    fn files_are_found_plain_and_compressed() {
        let plain = tar(&[("a/x", b"1"), ("a/y", b"2")]);
        let got = find(&plain, ["a/y", "a/z"]).unwrap();
        assert_eq!(got, [Some(Found::Content(b"2".to_vec())), None]);
        let small = crate::make::compress(&plain).unwrap();
        assert_eq!(find(&small, ["a/x"]).unwrap(), [Some(Found::Content(b"1".to_vec()))]);
    }

    #[test]
    fn what_a_layer_deletes_is_said() {
        let layer = tar(&[("a/.wh.x", b""), ("b/.wh..wh..opq", b"")]);
        assert_eq!(
            find(&layer, ["a/x", "a/y", "b/z"]).unwrap(),
            [Some(Found::Deleted), None, Some(Found::Deleted)]
        );
    }

    #[test]
    fn what_is_no_archive_is_an_error() {
        assert!(find(&[7u8; 2048], ["a"]).is_err());
        assert!(find(&[0x1f, 0x8b, 1, 2, 3], ["a"]).is_err());
    }
}
