//! A Deployment small enough to read and large enough to hold every list and map type.

use ek_meta::Definitions;

pub(crate) fn defs() -> Definitions {
    let text = include_str!("../../tests/data/deployment.json");
    let v: serde_json::Value = serde_json::from_str(text).unwrap();
    Definitions::parse(v.as_object().unwrap())
}
