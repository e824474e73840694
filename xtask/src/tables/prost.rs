//! Reads prost-generated structs as text: the attribute holds the wire type and tag, the line below the name
//! and, for messages, the Rust path of the type. A full Rust parser would see nothing more.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wire {
    Bool,
    Int32,
    Int64,
    Double,
    Text,
    Bytes,
    /// Full message name as in the published definitions, but in lower case (prost writes `HpaScalingPolicy`).
    Message(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    One,
    Repeated,
    /// Keys are always strings.
    Map,
}

#[derive(Clone, Debug)]
pub(crate) struct PbField {
    /// Lower case without underscores: prost's snake case has lost the original capitals.
    pub(crate) norm: String,
    pub(crate) tag: u32,
    pub(crate) wire: Wire,
    pub(crate) shape: Shape,
}

pub(crate) type Messages = BTreeMap<String, Vec<PbField>>;

pub(crate) fn normalise(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

pub(crate) fn parse_tree(src: &Path) -> Result<Messages> {
    let mut out = Messages::new();
    walk(src, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn walk(dir: &Path, module: &mut Vec<String>, out: &mut Messages) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            let name = path.file_name().and_then(|n| n.to_str()).context("not a UTF-8 path")?;
            module.push(name.to_owned());
            walk(&path, module, out)?;
            module.pop();
        } else if path.file_name().is_some_and(|n| n == "mod.rs") {
            parse_file(&std::fs::read_to_string(&path)?, module, out)
                .with_context(|| format!("in {}", path.display()))?;
        }
    }
    Ok(())
}

fn parse_file(text: &str, module: &[String], out: &mut Messages) -> Result<()> {
    let mut lines = text.lines().map(str::trim);
    let mut current: Option<(String, Vec<PbField>)> = None;
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            let name = rest.trim_end_matches(" {").trim_end_matches(" {}");
            current = Some((message_name(module, name), Vec::new()));
            if rest.ends_with("{}") {
                out.extend(current.take());
            }
        } else if let Some(attr) = line.strip_prefix("#[prost(") {
            let Some((_, fields)) = &mut current else { bail!("attribute outside a struct: {line}") };
            // Attribute and field each stand on their own line; long types continue on the next ones.
            let mut decl = lines.next().context("field after attribute")?.to_owned();
            while !complete(&decl) {
                decl.push(' ');
                decl.push_str(lines.next().context("unfinished field")?);
            }
            fields.push(field(attr.trim_end_matches(")]"), &decl, module)?);
        } else if line == "}" {
            out.extend(current.take());
        }
    }
    Ok(())
}

fn field(attr: &str, decl: &str, module: &[String]) -> Result<PbField> {
    let decl = decl.trim_start_matches("pub ").trim_end_matches(',');
    let (name, ty) = decl.split_once(": ").with_context(|| format!("field {decl}"))?;
    let tag = attr
        .split("tag = \"")
        .nth(1)
        .and_then(|t| t.split('"').next())
        .with_context(|| format!("tag of {attr}"))?
        .parse()?;
    let (kind, shape) = match attr.split_once("btree_map = \"string, ") {
        Some((_, rest)) => (rest.split('"').next().unwrap_or_default(), Shape::Map),
        None => {
            let kind = attr.split([',', ' ']).next().unwrap_or_default();
            (kind, if attr.contains("repeated") { Shape::Repeated } else { Shape::One })
        }
    };
    let wire = match kind {
        "bool" => Wire::Bool,
        "int32" => Wire::Int32,
        "int64" => Wire::Int64,
        "double" => Wire::Double,
        "string" => Wire::Text,
        "bytes" => Wire::Bytes,
        "message" => Wire::Message(resolve(innermost(ty), module)?),
        other => bail!("unknown protobuf type {other} in {attr}"),
    };
    Ok(PbField { norm: normalise(name.trim_start_matches("r#")), tag, wire, shape })
}

/// A declaration ends with a comma outside all brackets.
fn complete(decl: &str) -> bool {
    decl.ends_with(',') && decl.matches('<').count() == decl.matches('>').count()
}

/// The last type argument: what an `Option<Vec<..>>`, `Box` or map holds.
fn innermost(ty: &str) -> &str {
    let inner = ty.rsplit('<').next().unwrap_or(ty).trim_end_matches(['>', ',', ' ']);
    inner.rsplit(',').next().unwrap_or(inner).trim()
}

fn resolve(path: &str, module: &[String]) -> Result<String> {
    let mut depth = module.len();
    let mut parts: Vec<&str> = path.split("::").filter(|p| !p.is_empty()).collect();
    while parts.first() == Some(&"super") {
        parts.remove(0);
        depth = depth.checked_sub(1).with_context(|| format!("too many supers in {path}"))?;
    }
    let name = parts.pop().context("empty path")?;
    let full: Vec<String> = module[..depth]
        .iter()
        .cloned()
        .chain(parts.into_iter().map(|p| p.trim_start_matches("r#").to_owned()))
        .collect();
    Ok(message_name(&full, name))
}

fn message_name(module: &[String], name: &str) -> String {
    let path = module.join(".").replace("apiextensions_apiserver", "apiextensions-apiserver");
    format!("io.k8s.{}.{name}", path.replace("kube_aggregator", "kube-aggregator")).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_of_every_shape() {
        let text = r#"
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Thing {
    /// words
    #[prost(message, optional, boxed, tag = "1")]
    pub a_b: ::core::option::Option<::prost::alloc::boxed::Box<super::super::super::apimachinery::pkg::X>>,
    #[prost(btree_map = "string, message", tag = "12")]
    pub limits: ::prost::alloc::collections::BTreeMap<
        ::prost::alloc::string::String,
        super::v2::Y,
    >,
    #[prost(int32, repeated, packed = "false", tag = "3")]
    pub r#type: ::prost::alloc::vec::Vec<i32>,
}
"#;
        let module = ["api", "apps", "v1"].map(String::from);
        let mut out = Messages::new();
        parse_file(text, &module, &mut out).unwrap();
        let f = &out["io.k8s.api.apps.v1.thing"];
        assert_eq!((f[0].norm.as_str(), f[0].tag), ("ab", 1));
        assert_eq!(f[0].wire, Wire::Message("io.k8s.apimachinery.pkg.x".into()));
        assert_eq!(
            (f[1].wire.clone(), f[1].shape),
            (Wire::Message("io.k8s.api.apps.v2.y".into()), Shape::Map)
        );
        assert_eq!((f[2].norm.as_str(), f[2].shape), ("type", Shape::Repeated));
    }
}
