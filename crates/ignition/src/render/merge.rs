//! Ignition configs, one laid over the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a config of ours says at least; a pool's own may ask for a later one.
const VERSION: (u32, u32) = (3, 2);
/// The last one that nodes understand.
const NEWEST: (u32, u32) = (3, 5);

/// An Ignition config that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Document {
    version: Option<(u32, u32)>,
    files: BTreeMap<String, Value>,
    directories: BTreeMap<String, Value>,
    links: BTreeMap<String, Value>,
    units: BTreeMap<String, Value>,
    users: BTreeMap<String, Value>,
    groups: BTreeMap<String, Value>,
    /// Sections that are taken as they are; the last word counts.
    others: Map<String, Value>,
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|p| p.parse().ok());
    Some((parts.next()??, parts.next()??))
}

impl Document {
    /// A file with this content.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        let source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(content));
        let file = json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}});
        self.files.insert(path.to_owned(), file);
    }

    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub fn unit(&mut self, name: &str, contents: &str) {
        self.units.insert(name.to_owned(), json!({"name": name, "enabled": true, "contents": contents}));
    }

    /// A person who may log in.
    pub fn key(&mut self, user: &str, key: &str) {
        let one = json!({"name": user, "sshAuthorizedKeys": [key]});
        merge_lists(&mut self.users, "name", &[one]);
    }

    /// Lays a config over what there is. `of` is what it is called in errors.
    pub fn lay(&mut self, of: &str, config: &Value) -> Result<(), String> {
        if config.is_null() {
            return Ok(());
        }
        let text = config["ignition"]["version"].as_str().unwrap_or_default();
        let asked = version(text).filter(|v| *v >= (3, 0) && *v <= NEWEST).ok_or_else(|| {
            format!(
                "MachineConfig {of}: spec.config.ignition.version is {text:?}; use one from 3.0.0 to {}.{}.0",
                NEWEST.0, NEWEST.1
            )
        })?;
        self.version = self.version.max(Some(asked));
        let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
        let storage = &config["storage"];
        replace(&mut self.files, "path", &list(&storage["files"]), of)?;
        replace(&mut self.directories, "path", &list(&storage["directories"]), of)?;
        replace(&mut self.links, "path", &list(&storage["links"]), of)?;
        merge_lists(&mut self.units, "name", &list(&config["systemd"]["units"]));
        merge_lists(&mut self.users, "name", &list(&config["passwd"]["users"]));
        merge_lists(&mut self.groups, "name", &list(&config["passwd"]["groups"]));
        for section in ["disks", "raid", "filesystems", "luks"] {
            if let Some(v) = storage.get(section) {
                self.others.insert(section.to_owned(), v.clone());
            }
        }
        Ok(())
    }

    pub fn into_value(self) -> Value {
        let (major, minor) = self.version.max(Some(VERSION)).unwrap_or(VERSION);
        let all = |m: BTreeMap<String, Value>| Value::Array(m.into_values().collect());
        let mut storage = self.others;
        for (section, m) in [("files", self.files), ("directories", self.directories), ("links", self.links)]
        {
            if !m.is_empty() {
                storage.insert(section.to_owned(), all(m));
            }
        }
        let mut passwd = json!({"users": all(self.users)});
        if !self.groups.is_empty() {
            passwd["groups"] = all(self.groups);
        }
        json!({"ignition": {"version": format!("{major}.{minor}.0")}, "storage": storage,
            "systemd": {"units": all(self.units)}, "passwd": passwd})
    }
}

fn replace(into: &mut BTreeMap<String, Value>, by: &str, list: &[Value], of: &str) -> Result<(), String> {
    for one in list {
        let path = one[by].as_str().filter(|p| p.starts_with('/'));
        let path = path.ok_or_else(|| format!("MachineConfig {of}: {} is no absolute path", one[by]))?;
        into.insert(path.to_owned(), one.clone());
    }
    Ok(())
}

/// Objects by name: fields replace fields, lists of names are joined without repeating anything.
fn merge_lists(into: &mut BTreeMap<String, Value>, by: &str, list: &[Value]) {
    for one in list {
        let Some(name) = one[by].as_str() else { continue };
        let there = into.entry(name.to_owned()).or_insert_with(|| json!({by: name}));
        for (field, value) in one.as_object().into_iter().flatten() {
            match (there.get_mut(field).and_then(Value::as_array_mut), value.as_array()) {
                (Some(old), Some(new)) => {
                    for v in new {
                        let same = |o: &Value| o == v || (v["name"].is_string() && o["name"] == v["name"]);
                        old.retain(|o| !same(o));
                        old.push(v.clone());
                    }
                }
                _ => there[field] = value.clone(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_win_and_units_and_users_are_joined() {
        let mut d = Document::default();
        d.file("/etc/a", 0o644, b"one");
        d.unit("kubelet.service", "[Service]");
        d.key("core", "ssh-ed25519 A");
        let over = json!({"ignition": {"version": "3.4.0"},
            "storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,two"}}]},
            "systemd": {"units": [{"name": "kubelet.service", "dropins": [{"name": "10.conf", "contents": "x"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 A", "ssh-ed25519 B"]}]}});
        d.lay("99-mine", &over).unwrap();
        d.lay("99-mine", &over).unwrap();
        let v = d.into_value();
        assert_eq!(v["ignition"]["version"], "3.4.0");
        assert_eq!(v["storage"]["files"].as_array().unwrap().len(), 1);
        assert_eq!(v["storage"]["files"][0]["contents"]["source"], "data:,two");
        let unit = &v["systemd"]["units"][0];
        assert!(unit["contents"] == "[Service]" && unit["enabled"] == true);
        assert_eq!(unit["dropins"].as_array().unwrap().len(), 1);
        assert_eq!(v["passwd"]["users"][0]["sshAuthorizedKeys"], json!(["ssh-ed25519 A", "ssh-ed25519 B"]));
    }

    #[test]
    fn what_nodes_do_not_understand_is_refused() {
        let mut d = Document::default();
        let e = d.lay("99-old", &json!({"ignition": {"version": "2.2.0"}})).unwrap_err();
        assert!(e.contains("99-old") && e.contains("2.2.0"), "{e}");
        let e = d.lay("x", &json!({"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": "a"}]}}));
        assert!(e.unwrap_err().contains("no absolute path"));
        assert!(d.lay("y", &Value::Null).is_ok());
    }
}
