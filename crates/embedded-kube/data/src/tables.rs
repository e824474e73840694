//! Access to the committed tables (`tables/`, written by `cargo xtask tables`).
//!
//! The definitions are kept deflated: 165 KB in the binary instead of 900 KB in memory. Whoever needs the
//! text (explain, OpenAPI) inflates a copy and drops it; whoever needs the structure (apply, strategic merge,
//! pruning, validation) shares one parsed copy that has no descriptions.

use ek_meta::{Definitions, Gvk};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

static PACKED: &[u8] = include_bytes!("../tables/definitions.json.z");
static KINDS: &str = include_str!("../tables/kinds.tsv");

/// The protobuf field table, as text; ek-proto parses it. Its format is explained in `xtask/src/tables/join.rs`.
pub static PROTOBUF: &str = include_str!("../tables/protobuf.tsv");

/// The published definitions with descriptions: a JSON object from definition name to schema, in the swagger
/// dialect (`#/definitions/` references). Inflated anew on every call; drop it after use.
pub fn definitions_json() -> Vec<u8> {
    // The input is part of the binary and the tests inflate it, so the error cannot happen at run time.
    miniz_oxide::inflate::decompress_to_vec_zlib(PACKED).unwrap_or_default()
}

/// [`definitions_json`], parsed.
pub fn definitions_with_descriptions() -> Map<String, Value> {
    serde_json::from_slice(&definitions_json()).unwrap_or_default()
}

/// The built-in definitions as schema nodes: no descriptions, and with what the published form leaves unsaid.
/// A `default` in them completes keys of associative lists; the defaulting of built-in kinds is richer than
/// any schema and happens elsewhere.
pub fn definitions() -> &'static Definitions {
    static PARSED: LazyLock<Definitions> = LazyLock::new(|| {
        // As above, the input cannot be wrong at run time.
        Definitions::from_json(&definitions_json(), |name, definition| {
            for (_, flags) in CORRECTIONS.iter().filter(|(n, _)| *n == name) {
                definition.extend(flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())));
            }
            if name == "io.k8s.apimachinery.pkg.api.resource.Quantity" {
                // `cpu: 1` and `cpu: 0.5` are as good as `cpu: "1"`: no type can say that, so a format does.
                definition.remove("type");
                definition.insert("format".to_owned(), "quantity".into());
            }
            if name == "io.k8s.apimachinery.pkg.runtime.RawExtension" {
                // Bytes to whoever carries them: owned, merged and compared as one value.
                definition.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
            }
        })
        .unwrap_or_default()
    });
    &PARSED
}

/// What the Go types do with a custom unmarshaller and the definitions therefore cannot say.
const CORRECTIONS: &[(&str, &[(&str, bool)])] = &[
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", &[("x-kubernetes-int-or-string", true)]),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", PRESERVE),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", PRESERVE),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", PRESERVE),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", PRESERVE),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", PRESERVE),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", PRESERVE),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", PRESERVE),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", &[("nullable", true)]),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", &[("nullable", true)]),
];
const PRESERVE: &[(&str, bool)] = &[("x-kubernetes-preserve-unknown-fields", true)];

/// The definition of a built-in kind, its lists included. DeleteOptions, WatchEvent and Status are known in
/// every group, as in the published `x-kubernetes-group-version-kind`.
pub fn definition_name(gvk: &Gvk) -> Option<&'static str> {
    definition_name_of(&gvk.api_version(), &gvk.kind)
}

/// [`definition_name`] for a kind as objects spell it.
pub fn definition_name_of(api_version: &str, kind: &str) -> Option<&'static str> {
    static BY_KIND: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
        let row = |line: &'static str| {
            let mut cells = line.split('\t');
            Some(((cells.next()?, cells.next()?), cells.next()?))
        };
        KINDS.lines().filter_map(row).collect()
    });
    match kind {
        "DeleteOptions" => Some("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        "WatchEvent" => Some("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"),
        _ => BY_KIND.get(&(api_version, kind)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ek_meta::ListType;

    #[test]
    fn tables_are_whole() {
        assert!(definitions_json().len() > 500_000);
        assert_eq!(definitions_with_descriptions().len(), definitions().len());
        for line in KINDS.lines() {
            let name = line.split('\t').nth(2).unwrap();
            assert!(definitions().node(name).is_some(), "{name}");
        }
    }

    #[test]
    fn kinds_are_found_by_gvk() {
        let name = definition_name(&Gvk::new("apps", "v1", "Deployment"));
        assert_eq!(name, Some("io.k8s.api.apps.v1.Deployment"));
        assert_eq!(definition_name_of("v1", "Status"), Some("io.k8s.apimachinery.pkg.apis.meta.v1.Status"));
        assert!(definition_name_of("apps/v1", "DeleteOptions").is_some());
        assert_eq!(definition_name_of("apps/v2", "Deployment"), None);
    }

    #[test]
    fn special_types_are_flagged() {
        let d = definitions();
        assert!(d.node("io.k8s.apimachinery.pkg.util.intstr.IntOrString").unwrap().schema.int_or_string);
        let quantity = d.node("io.k8s.apimachinery.pkg.api.resource.Quantity").unwrap().schema;
        assert!(quantity.is_untyped() && quantity.format.as_deref() == Some("quantity"));
        assert!(d.node("io.k8s.apimachinery.pkg.runtime.RawExtension").unwrap().schema.preserve_unknown);
        let ports = d.node("io.k8s.api.core.v1.ServiceSpec").unwrap().property("ports").unwrap();
        assert_eq!(ports.list_type(), ListType::Map);
        assert_eq!(ports.list_map_keys().len(), 2);
        let protocol = ports.items().unwrap().property("protocol").unwrap();
        assert_eq!(protocol.default().and_then(|v| v.as_str()), Some("TCP"));
    }
}
