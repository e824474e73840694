//! Joins field numbers, JSON names and Go's habits into one line of text per message.
//!
//! ```text
//! io.k8s.api.apps.v1.DeploymentSpec<TAB>1:replicas:i?<TAB>2:selector:m511?<TAB>3:template:m94+ …
//! ```
//!
//! A field is `tag:jsonName:type` and a presence flag; the name is empty when Go inlines the struct. Types:
//! `b` bool, `i` int32, `l` int64, `d` double, `s` string, `y` bytes, `mN` the message on line N, and a
//! capital letter for the messages that have a JSON form of their own ([`SPECIAL`]). `*` before the type
//! means repeated, `%` a map from strings. Flags are explained in `interop/go/protofixtures`.

use super::definitions::Defs;
use super::prost::{Messages, PbField, Shape, Wire, normalise};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const APIEXT: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Messages whose JSON is not an object of their fields.
const SPECIAL: [(&str, &str, char); 11] = [
    (META, "Time", 'T'),
    (META, "MicroTime", 'U'),
    (META, "FieldsV1", 'R'),
    (META, "Verbs", 'E'),
    ("io.k8s.apimachinery.pkg.runtime", "RawExtension", 'R'),
    ("io.k8s.apimachinery.pkg.util.intstr", "IntOrString", 'I'),
    ("io.k8s.apimachinery.pkg.api.resource", "Quantity", 'Q'),
    (APIEXT, "JSON", 'R'),
    (APIEXT, "JSONSchemaPropsOrBool", 'B'),
    (APIEXT, "JSONSchemaPropsOrArray", 'A'),
    (APIEXT, "JSONSchemaPropsOrStringArray", 'S'),
];

fn special(message: &str) -> Option<char> {
    let (package, name) = message.rsplit_once('.')?;
    // Several groups have their own ExtraValue, all alike.
    if name.eq_ignore_ascii_case("ExtraValue") {
        return Some('E');
    }
    SPECIAL.iter().find(|(p, n, _)| *p == package && n.eq_ignore_ascii_case(name)).map(|s| s.2)
}

/// One field of a Go struct, as `encoding/json` sees it.
pub(crate) struct GoField {
    pub(crate) norm: String,
    /// Empty when inlined.
    pub(crate) json: String,
    pub(crate) flag: char,
}

pub(crate) struct GoTypes(pub(crate) BTreeMap<String, Vec<GoField>>);

impl GoTypes {
    pub(crate) fn parse(text: &str) -> Result<GoTypes> {
        let mut out = BTreeMap::new();
        for line in text.lines() {
            let mut cells = line.split('\t');
            let name = cells.next().context("empty line")?;
            let mut fields = Vec::new();
            for cell in cells {
                let flag = cell.chars().last().context("empty field")?;
                let body = &cell[..cell.len() - flag.len_utf8()];
                let (proto, json) = body.split_once(':').unwrap_or((body, body));
                fields.push(GoField { norm: normalise(proto), json: json.to_owned(), flag });
            }
            out.insert(name.to_owned(), fields);
        }
        Ok(GoTypes(out))
    }
}

pub(crate) fn table(messages: &Messages, go: &GoTypes, defs: &Defs) -> Result<String> {
    check_names(go, defs)?;
    let names: Vec<&String> = go.0.keys().filter(|n| special(n).is_none()).collect();
    let index: BTreeMap<String, usize> =
        names.iter().enumerate().map(|(i, n)| (n.to_lowercase(), i)).collect();
    let mut out = String::new();
    for name in &names {
        let pb = messages.get(&name.to_lowercase()).with_context(|| format!("{name} is not in k8s-pb"))?;
        let mut rows = Vec::new();
        for field in &go.0[*name] {
            let from = pb
                .iter()
                .find(|p| p.norm == field.norm)
                .with_context(|| format!("{name}.{} has no field number", field.json))?;
            rows.push((from.tag, row(name, from, field, &index)?));
        }
        rows.sort();
        out.push_str(name);
        rows.iter().for_each(|(_, r)| write!(out, "\t{r}").unwrap_or_default());
        out.push('\n');
    }
    Ok(out)
}

fn row(message: &str, pb: &PbField, go: &GoField, index: &BTreeMap<String, usize>) -> Result<String> {
    let ty = match &pb.wire {
        Wire::Bool => "b".to_owned(),
        Wire::Int32 => "i".to_owned(),
        Wire::Int64 => "l".to_owned(),
        Wire::Double => "d".to_owned(),
        Wire::Text => "s".to_owned(),
        Wire::Bytes => "y".to_owned(),
        Wire::Message(m) => match (special(m), index.get(m.as_str())) {
            (Some(c), _) => c.to_string(),
            (None, Some(i)) => format!("m{i}"),
            (None, None) => bail!("{message}.{} has unknown type {m}", go.json),
        },
    };
    let shape = match pb.shape {
        Shape::One => "",
        Shape::Repeated => "*",
        Shape::Map => "%",
    };
    Ok(format!("{}:{}:{shape}{ty}{}", pb.tag, go.json, go.flag))
}

/// Every Go struct that has a published definition must have exactly its properties.
fn check_names(go: &GoTypes, defs: &Defs) -> Result<()> {
    for (name, def) in defs {
        let Some(properties) = def["properties"].as_object() else { continue };
        if !go.0.contains_key(name) {
            continue;
        }
        let want: BTreeSet<&str> =
            properties.keys().map(String::as_str).filter(|k| *k != "apiVersion" && *k != "kind").collect();
        let mut have = BTreeSet::new();
        flatten(name, go, &mut have);
        have.remove("apiVersion");
        have.remove("kind");
        if want != have {
            let diff: Vec<_> = want.symmetric_difference(&have).collect();
            bail!("{name}: Go types and published definition disagree about {diff:?}");
        }
    }
    Ok(())
}

/// JSON names of a struct, with those of inlined structs. The inlined type is found by name: Go embeds it.
fn flatten<'a>(name: &str, go: &'a GoTypes, out: &mut BTreeSet<&'a str>) {
    let Some(fields) = go.0.get(name) else { return };
    let package = name.rsplit_once('.').map_or("", |p| p.0);
    for f in fields {
        if !f.json.is_empty() {
            out.insert(&f.json);
            continue;
        }
        // Probe calls its ProbeHandler `handler`; everyone else keeps the type's name.
        let target = if f.norm == "handler" { "probehandler" } else { &f.norm };
        let found =
            go.0.keys()
                .find(|k| k.rsplit_once('.').is_some_and(|(p, n)| p == package && normalise(n) == target));
        if let Some(inner) = found {
            flatten(inner, go, out);
        }
    }
}
