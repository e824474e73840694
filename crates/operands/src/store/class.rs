//! What a SecretProviderClass asks for.

use serde::Deserialize;
use serde_json::Value;

/// No class names more.
const MOST: usize = 64;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ClassError {
    #[error("provider {0:?} is not known here: azure is")]
    Provider(String),
    #[error("parameters.{0} is missing")]
    Missing(&'static str),
    #[error("parameters.{0} must be {1:?}: objects are read as an identity of the node, and in no other way")]
    Way(&'static str, &'static str),
    #[error("parameters.objects cannot be read: {0}")]
    Objects(String),
    #[error("object {0:?}: objectType {1:?} is not mounted here, only secret is")]
    Type(String, String),
    #[error("object {0:?}: objectEncoding {1:?} is none of utf-8, hex and base64")]
    Encoding(String, String),
    #[error("object {0:?}: {1:?} cannot be the name of a file")]
    File(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Hex,
    Base64,
}

impl Encoding {
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Hex => "hex",
            Encoding::Base64 => "base64",
        }
    }
}

/// One object of a vault, and the file it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub alias: String,
    /// Empty for the newest.
    pub version: String,
    pub encoding: Encoding,
}

impl Object {
    pub fn file(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub vault: String,
    /// Client id of the node's identity; empty for the only one.
    pub identity: String,
    pub objects: Vec<Object>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    array: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Entry {
    object_name: String,
    object_type: String,
    object_alias: String,
    object_version: String,
    object_encoding: String,
}

impl Class {
    pub fn read(spec: &Value) -> Result<Class, ClassError> {
        let provider = spec["provider"].as_str().unwrap_or_default();
        if provider != "azure" {
            return Err(ClassError::Provider(provider.to_owned()));
        }
        let text = |key: &str| spec["parameters"][key].as_str().unwrap_or_default();
        let need = |key: &'static str| match text(key) {
            "" => Err(ClassError::Missing(key)),
            value => Ok(value.to_owned()),
        };
        if !matches!(text("usePodIdentity"), "" | "false") {
            return Err(ClassError::Way("usePodIdentity", "false"));
        }
        if text("useVMManagedIdentity") != "true" {
            return Err(ClassError::Way("useVMManagedIdentity", "true"));
        }
        let bad = |e: &dyn std::fmt::Display| ClassError::Objects(e.to_string());
        let list: List = serde_saphyr::from_str(&need("objects")?).map_err(|e| bad(&e))?;
        if list.array.is_empty() || list.array.len() > MOST {
            return Err(ClassError::Objects(format!(
                "it names {} objects, not 1 to {MOST}",
                list.array.len()
            )));
        }
        let objects = list.array.iter().map(|entry| {
            let entry: Entry = serde_saphyr::from_str(entry).map_err(|e| bad(&e))?;
            object(entry)
        });
        Ok(Class {
            vault: need("keyvaultName")?,
            identity: text("userAssignedIdentityID").to_owned(),
            objects: objects.collect::<Result<_, _>>()?,
        })
    }
}

fn object(e: Entry) -> Result<Object, ClassError> {
    if e.object_name.is_empty() {
        return Err(ClassError::Objects("an entry has no objectName".into()));
    }
    if !matches!(e.object_type.as_str(), "" | "secret") {
        return Err(ClassError::Type(e.object_name, e.object_type));
    }
    let encoding = match e.object_encoding.as_str() {
        "" | "utf-8" => Encoding::Utf8,
        "hex" => Encoding::Hex,
        "base64" => Encoding::Base64,
        _ => return Err(ClassError::Encoding(e.object_name, e.object_encoding)),
    };
    let (name, alias, version) = (e.object_name, e.object_alias, e.object_version);
    let o = Object { name, alias, version, encoding };
    let plain = |f: &str| !f.is_empty() && !f.starts_with('.') && !f.contains(['/', '\0']);
    match plain(o.file()) {
        true => Ok(o),
        false => Err(ClassError::File(o.name.clone(), o.file().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(objects: &str) -> Value {
        json!({"provider": "azure", "parameters": {"usePodIdentity": "false", "useVMManagedIdentity": "true",
            "userAssignedIdentityID": "me", "keyvaultName": "v", "tenantId": "t", "objects": objects}})
    }

    const ONE: &str =
        "array:\n  - |\n    objectName: creds\n    objectEncoding: hex\n    objectType: secret\n";

    #[test]
    fn classes_as_control_planes_write_them() {
        let class = Class::read(&spec(ONE)).unwrap();
        assert_eq!((class.vault.as_str(), class.identity.as_str()), ("v", "me"));
        let [one] = &class.objects[..] else { panic!("{class:?}") };
        assert_eq!((one.file(), one.encoding), ("creds", Encoding::Hex));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |change: fn(&mut Value), text: &str| {
            let mut s = spec(ONE);
            change(&mut s);
            let e = Class::read(&s).unwrap_err().to_string();
            assert!(e.contains(text), "{e}");
        };
        refused(|s| s["provider"] = json!("aws"), "\"aws\"");
        refused(|s| s["parameters"]["keyvaultName"] = json!(""), "keyvaultName");
        refused(|s| s["parameters"]["usePodIdentity"] = json!("true"), "usePodIdentity");
        refused(|s| s["parameters"]["useVMManagedIdentity"] = json!("false"), "useVMManagedIdentity");
        refused(|s| s["parameters"]["objects"] = json!("array: ["), "objects cannot be read");
        refused(|s| s["parameters"]["objects"] = json!("array: []"), "0 objects");
        refused(
            |s| s["parameters"]["objects"] = json!("array:\n- \"objectName: a\\nobjectType: key\""),
            "objectType",
        );
        refused(
            |s| s["parameters"]["objects"] = json!("array:\n- \"objectName: a\\nobjectEncoding: x\""),
            "utf-8, hex",
        );
        refused(
            |s| s["parameters"]["objects"] = json!("array:\n- \"objectName: a\\nobjectAlias: ../b\""),
            "file",
        );
    }
}
