//! An object as it should be.

use crate::kind::{self, Kinds, ObjectRef};
use serde_json::Value;
use std::fmt;

/// What the server writes and we therefore never do.
const VOLATILE: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
];

/// What to do when the API says that what is there cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immutable {
    Fail,
    /// Delete it and make it anew. For Jobs by default; deadly for what holds state.
    Replace,
}

/// A manifest that says which object it is; nothing in it but what we want to own.
#[derive(Clone, PartialEq)]
pub struct Desired {
    pub(crate) at: ObjectRef,
    pub(crate) manifest: Value,
    pub(crate) immutable: Immutable,
}

impl Desired {
    pub fn new(kinds: &Kinds, mut manifest: Value) -> Result<Desired, kind::Error> {
        let at = kinds.locate(&manifest)?;
        if let Some(o) = manifest.as_object_mut() {
            o.remove("status");
        }
        if let Some(meta) = manifest["metadata"].as_object_mut() {
            for field in VOLATILE {
                meta.remove(field);
            }
            if !at.kind.namespaced {
                meta.remove("namespace");
            }
        }
        if at.kind.is("", "Secret") {
            encode_strings(&mut manifest);
        }
        let immutable = if at.kind.is("batch", "Job") { Immutable::Replace } else { Immutable::Fail };
        Ok(Desired { at, manifest, immutable })
    }

    #[must_use]
    pub fn when_immutable(mut self, immutable: Immutable) -> Desired {
        self.immutable = immutable;
        self
    }

    pub fn at(&self) -> &ObjectRef {
        &self.at
    }

    pub fn manifest(&self) -> &Value {
        &self.manifest
    }

    /// Others cannot be made before these are there.
    pub(crate) fn comes_first(&self) -> bool {
        let k = &self.at.kind;
        k.is("", "Namespace") || k.is("apiextensions.k8s.io", "CustomResourceDefinition")
    }
}

/// `stringData` is never stored, so a manifest with it never looks applied and each apply would write. What it
/// stands for is.
fn encode_strings(manifest: &mut Value) {
    use base64::Engine;
    let Some(Value::Object(strings)) = manifest.as_object_mut().and_then(|o| o.remove("stringData")) else {
        return;
    };
    for (key, value) in &strings {
        if let Some(text) = value.as_str() {
            manifest["data"][key] = Value::from(base64::engine::general_purpose::STANDARD.encode(text));
        }
    }
}

/// Manifests may be secrets.
impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Desired({})", self.at)
    }
}
