//! Objects as text: YAML documents, JSON, a template with parameters, a chart.

use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an object cannot be written as YAML")]
    Yaml(#[from] serde_saphyr::ser_error::Error),
    #[error("an object cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// All objects in it in the order of their keys: the same input gives the same text.
pub fn sorted(v: Value) -> Value {
    match v {
        Value::Object(m) => {
            let mut pairs: Vec<(String, Value)> = m.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(pairs.into_iter().collect())
        }
        Value::Array(l) => Value::Array(l.into_iter().map(sorted).collect()),
        other => other,
    }
}

pub fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// A value stays on its line, whatever its length: people read these with grep.
fn yaml(object: &Value) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(object, options)?;
    Ok(format!("{}\n", text.trim_end()))
}

/// Documents that each end with `---`, as those who split on it expect.
pub fn terminated(objects: &[Value]) -> Result<String, Error> {
    let mut out = String::new();
    for object in objects {
        out.push_str(&yaml(object)?);
        out.push_str("---\n");
    }
    Ok(out)
}

/// Documents with `---` between them.
pub fn joined(objects: &[Value]) -> Result<String, Error> {
    let texts: Result<Vec<String>, Error> = objects.iter().map(yaml).collect();
    Ok(texts?.join("---\n"))
}

/// One object as itself, several as a list.
pub fn json(objects: &[Value]) -> Result<String, Error> {
    let one = match objects {
        [one] => one.clone(),
        many => json!({"apiVersion": "v1", "kind": "List", "items": many}),
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&one)?))
}
