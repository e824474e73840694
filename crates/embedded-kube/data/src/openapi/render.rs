//! Operations as the `paths` of a document, in either dialect.

use super::operations::{Answer, Body, Operation, Params, meta, tag};
use super::params;
use serde_json::{Map, Value, json};

/// CBOR is left out of what real servers list: this server does not speak it.
const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) v3: bool,
    /// Built-in kinds take strategic merge patches and protobuf; custom resources take neither.
    pub(super) builtin: bool,
}

impl Dialect {
    fn reference(self, model: &str) -> Value {
        let place = if self.v3 { "components/schemas" } else { "definitions" };
        json!({"$ref": format!("#/{place}/{model}")})
    }

    fn keeps(self, media_type: &str) -> bool {
        self.builtin || !(media_type.contains("protobuf") || media_type.contains("strategic"))
    }
}

pub(super) fn paths(group: &str, version: &str, ops: &[Operation], d: Dialect) -> Map<String, Value> {
    let tag = tag(group, version);
    let mut out: Map<String, Value> = Map::new();
    for op in ops {
        let item = out.entry(op.path.clone()).or_insert_with(|| {
            let kind = op.gvk.as_ref().map_or("", |g| g.kind.as_str());
            let pretty = op.action.is_some() && !op.params.connects();
            match params::of_path(&op.path, kind, pretty, d.v3) {
                list if list.is_empty() => json!({}),
                list => json!({"parameters": list}),
            }
        });
        item[op.method] = operation(op, &tag, d);
    }
    out.sort_keys();
    out
}

fn operation(op: &Operation, tag: &str, d: Dialect) -> Value {
    let mut o = json!({"description": op.description, "operationId": op.id, "tags": [tag]});
    let mut parameters = params::of_operation(op.params, d.v3);
    let types: Vec<&str> = match &op.answer {
        Answer::Text if op.params == Params::Log => vec!["text/plain"],
        Answer::Text => vec!["*/*"],
        Answer::Model(_) => {
            let streams = STREAMS.iter().filter(|_| op.streams);
            TYPES.iter().chain(streams).copied().filter(|t| d.keeps(t)).collect()
        }
    };
    let body = match &op.body {
        Body::None => None,
        Body::Model(m, required) => Some((d.reference(m), vec!["*/*"], *required)),
        Body::Patch => {
            let patches = PATCHES.iter().copied().filter(|t| d.keeps(t)).collect();
            Some((d.reference(&meta("Patch")), patches, true))
        }
    };
    if d.v3 {
        if let Some((schema, types, required)) = body {
            o["requestBody"] = json!({"content": content(&types, &schema)});
            if required {
                o["requestBody"]["required"] = true.into();
            }
        }
    } else {
        o["consumes"] = match &body {
            Some((_, types, _)) => json!(types),
            None => json!(["*/*"]),
        };
        o["produces"] = json!(types);
        o["schemes"] = json!(["https"]);
        if let Some((schema, _, required)) = body {
            let mut p = json!({"in": "body", "name": "body", "schema": schema});
            if required {
                p["required"] = true.into();
            }
            parameters.insert(0, p);
        }
    }
    if !parameters.is_empty() {
        o["parameters"] = parameters.into();
    }
    o["responses"] = responses(op, &types, d);
    if let Some(action) = op.action {
        o["x-kubernetes-action"] = action.into();
    }
    if let Some(g) = &op.gvk {
        o["x-kubernetes-group-version-kind"] =
            json!({"group": g.group, "kind": g.kind, "version": g.version});
    }
    o
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|t| ((*t).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
}

fn responses(op: &Operation, types: &[&str], d: Dialect) -> Value {
    let schema = match &op.answer {
        Answer::Model(m) => d.reference(m),
        Answer::Text => json!({"type": "string"}),
    };
    let mut out = Map::new();
    for code in op.codes {
        let description = match *code {
            "201" => "Created",
            "202" => "Accepted",
            _ => "OK",
        };
        let mut r = json!({"description": description});
        if d.v3 {
            r["content"] = content(types, &schema);
        } else {
            r["schema"] = schema.clone();
        }
        out.insert((*code).to_owned(), r);
    }
    out.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    out.into()
}
