//! Shapes that many kinds share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What stands in an object beside the fields we name.
pub type Other = BTreeMap<String, Value>;

/// Declares an enum that is a string in JSON, with its schema, its text and its first variant as default.
macro_rules! text_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every value, in the order of the schema.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// The value as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        #[allow(clippy::derivable_impls, reason = "the first variant is the default of every such enum")]
        impl Default for $name {
            fn default() -> $name {
                $name::ALL[0]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": [$($text),+]})
            }
        }
    };
}
pub(crate) use text_enum;

/// An object that we carry and hand on, but do not act on: kept as it came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Value);

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// Text that must not be printed: keys and passwords that a kind carries inline.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Sensitive(pub String);

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

/// A whole number or text: counts and percentages, quantities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i64),
    String(String),
}

impl Default for IntOrString {
    fn default() -> IntOrString {
        IntOrString::Int(0)
    }
}

impl From<i64> for IntOrString {
    fn from(n: i64) -> IntOrString {
        IntOrString::Int(n)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IntOrString::Int(n) => n.fmt(f),
            IntOrString::String(s) => s.fmt(f),
        }
    }
}

impl IntOrString {
    /// The count this means out of `total`; percentages round up if asked to. `None`: neither number nor percentage.
    pub fn of(&self, total: u32, round_up: bool) -> Option<u32> {
        let percent = match self {
            IntOrString::Int(n) => return u32::try_from(*n).ok(),
            IntOrString::String(s) => s.strip_suffix('%')?.parse::<u32>().ok()?,
        };
        let parts = u64::from(total) * u64::from(percent);
        let count = if round_up { parts.div_ceil(100) } else { parts / 100 };
        u32::try_from(count).ok()
    }
}

impl JsonSchema for IntOrString {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true})
    }
}

/// Kubernetes' pattern of quantities.
pub(crate) const QUANTITY: &str = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$";

/// An object without fields. Read as `Option<Nothing>`, so that it may also be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// An object of the same namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalObjectReference {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

impl LocalObjectReference {
    pub fn new(name: impl Into<String>) -> LocalObjectReference {
        LocalObjectReference { name: name.into() }
    }
}

/// A key of a Secret of the same namespace that holds a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeconfigSecretRef {
    /// Name of the Secret.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(max = 255))]
    pub key: String,
}

/// An object anywhere, as core/v1 refers to it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectReference {
    pub api_version: Option<String>,
    pub field_path: Option<String>,
    pub kind: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub resource_version: Option<String>,
    pub uid: Option<String>,
}

/// Labels and expressions that objects must match.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// One expression of a [`LabelSelector`].
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelSelectorRequirement {
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
}

/// Host and port of an API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiEndpoint {
    /// Host name or address.
    #[schemars(length(max = 255))]
    pub host: String,
    /// Port.
    pub port: i32,
}

text_enum! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        True = "True",
        False = "False",
        Unknown = "Unknown",
    }
}

/// Prefixed names such as `example.com/Ready`.
pub(crate) const CONDITION_TYPE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// One aspect of the state of an object.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one CamelCase word that programs compare.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, and what to do, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// The generation of the object that this was computed from.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}
