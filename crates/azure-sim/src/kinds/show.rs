//! What a client sees of a record: the document plus everything that is computed.

use crate::kinds::{Etag, HIDDEN, Part, private_endpoint, properties};
use crate::state::{Phase, Record, State};
use arm::ApiVersion;
use serde_json::{Map, Value, json};

fn etag_text(record: &Record) -> Option<String> {
    match record.kind.etag {
        Etag::Weak => Some(format!("W/\"{}\"", record.etag)),
        Etag::Plain => Some(record.etag.clone()),
        Etag::None => None,
    }
}

/// The whole resource.
pub fn show(state: &State, record: &Record, version: &ApiVersion) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), record.id.name().into());
    out.insert("id".into(), record.id.as_str().into());
    out.insert("type".into(), record.id.resource_type().as_str().into());
    let etag = etag_text(record);
    if let Some(e) = &etag {
        out.insert("etag".into(), e.as_str().into());
    }
    for (k, v) in record.doc.iter().filter(|(k, _)| *k != HIDDEN) {
        out.insert(k.clone(), v.clone());
    }
    if record.kind.always_tags && !out.contains_key("tags") {
        out.insert("tags".into(), json!({}));
    }
    if record.kind.stateful {
        let phase = record.phase.as_str();
        properties(&mut out).insert("provisioningState".into(), phase.into());
    }
    back_references(state, record.id.key(), &mut out);
    let type_name = record.id.resource_type();
    let shown = Shown { state, record, etag: etag.as_deref() };
    shown.parts(record.kind.parts, record.id.as_str(), type_name.as_str(), &mut out, true);
    record.kind.rules.show(state, record, version, &mut out);
    Value::Object(out)
}

/// One element of an embedded list, addressed by itself.
pub fn show_part(
    state: &State,
    record: &Record,
    version: &ApiVersion,
    list: &str,
    name: &str,
) -> Option<Value> {
    let whole = show(state, record, version);
    let elements = whole.get("properties")?.get(list)?.as_array()?;
    elements.iter().find(|e| e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name))).cloned()
}

struct Shown<'a> {
    state: &'a State,
    record: &'a Record,
    etag: Option<&'a str>,
}

impl Shown<'_> {
    fn parts(&self, parts: &[Part], id: &str, type_name: &str, out: &mut Map<String, Value>, top: bool) {
        for part in parts {
            let list =
                out.get_mut("properties").and_then(|p| p.get_mut(part.list)).and_then(Value::as_array_mut);
            for element in list.into_iter().flatten().filter_map(Value::as_object_mut) {
                let name = element.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let id = format!("{id}/{}/{name}", part.list);
                let type_name = format!("{type_name}/{}", part.list);
                element.insert("id".into(), id.as_str().into());
                if let Some(e) = self.etag {
                    element.insert("etag".into(), e.into());
                }
                element.insert("type".into(), type_name.as_str().into());
                // Parts of parts are settled with what contains them.
                let phase = match top {
                    true => self.record.part_phase(Some((part.list, &name))),
                    false => Phase::Succeeded,
                };
                properties(element).insert("provisioningState".into(), phase.as_str().into());
                back_references(self.state, &id.to_lowercase(), element);
                self.parts(part.parts, &id, &type_name, element, false);
            }
        }
    }
}

fn back_references(state: &State, key: &str, out: &mut Map<String, Value>) {
    for edge in state.edges_to(key).filter(|e| !e.back.is_empty()) {
        // Asked of few only: a network shows many.
        if matches!(edge.back, "privateEndpoints" | "ipConfigurations")
            && private_endpoint::unborn(state, &edge.source)
        {
            continue;
        }
        let reference = json!({"id": &*edge.text});
        let p = properties(out);
        if edge.one {
            p.insert(edge.back.to_owned(), reference);
        } else if let Some(list) =
            p.entry(edge.back).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()
        {
            list.push(reference);
        }
    }
}
