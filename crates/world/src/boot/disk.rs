//! What a machine has on its disk: its payload, and who it is. A directory per machine, readable by us alone.

use ek_auth::pki::Secret;
use ek_node::Identity;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

fn place(dir: &Path, vm: &str) -> Option<PathBuf> {
    let plain = !vm.is_empty() && vm.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain.then(|| dir.join("machines").join(format!("{vm}.json")))
}

/// The payload, the key it asks to be let in with, and the identity once there is one.
pub(super) struct Disk {
    pub(super) payload: Value,
    pub(super) key: Option<Secret>,
    pub(super) identity: Option<Identity>,
}

pub(super) fn read(dir: &Path, vm: &str) -> Option<Disk> {
    let text = std::fs::read(place(dir, vm)?).ok()?;
    let v: Value = serde_json::from_slice(&text).ok()?;
    let text = |k: &str| v["identity"][k].as_str().map(str::to_owned);
    let identity = match (text("name"), text("cert"), text("key")) {
        (Some(name), Some(cert_pem), Some(key)) => {
            Some(Identity { name, cert_pem, key_pem: Secret::new(key) })
        }
        _ => None,
    };
    let key = v["key"].as_str().map(|k| Secret::new(k.to_owned()));
    Some(Disk { payload: v["payload"].clone(), key, identity })
}

pub(super) fn write(dir: &Path, vm: &str, disk: &Disk) -> io::Result<()> {
    let Some(path) = place(dir, vm) else { return Ok(()) };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let identity = disk
        .identity
        .as_ref()
        .map(|i| json!({"name": i.name, "cert": i.cert_pem, "key": i.key_pem.expose()}));
    let key = disk.key.as_ref().map(Secret::expose);
    let text = json!({"payload": disk.payload, "key": key, "identity": identity}).to_string();
    ek_server::write_private(&path, &text)
}

pub(super) fn remove(dir: &Path, vm: &str) {
    if let Some(path) = place(dir, vm) {
        let _ = std::fs::remove_file(path);
    }
}

/// Disks of machines that were deleted while nobody looked.
pub(super) fn sweep(dir: &Path, there: &[String]) {
    for entry in std::fs::read_dir(dir.join("machines")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(vm) = name.strip_suffix(".json")
            && !there.iter().any(|t| t == vm)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
