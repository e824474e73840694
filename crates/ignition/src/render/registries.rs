//! Mirrors, as the container runtime reads them.

use super::pool::Pool;
use super::{Document, path};
use crate::provider::Refused;
use serde_json::json;

pub fn files(d: &mut Document, pool: &Pool) -> Result<(), Refused> {
    if pool.mirrors.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for (source, mirrors) in &pool.mirrors {
        for name in mirrors.iter().chain([source]) {
            let plain =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
            if !plain {
                return Err(Refused::invalid(format!("{name:?} is no name of a registry or repository")));
            }
        }
        text += &format!("[[registry]]\n  prefix = \"\"\n  location = {}\n\n", json!(source));
        for mirror in mirrors {
            text += &format!(
                "  [[registry.mirror]]\n    location = {}\n    pull-from-mirror = \"digest-only\"\n\n",
                json!(mirror)
            );
        }
    }
    d.file(path::MIRRORS, 0o644, text.as_bytes());
    Ok(())
}
