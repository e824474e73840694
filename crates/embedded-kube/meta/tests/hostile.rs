//! Text from strangers: selectors, quantities, names and schemas never panic, and what they accept they can
//! print and read back.

use ek_meta::selector::{FieldSelector, LabelSelector};
use ek_meta::{Definitions, Schema, names, quantity::Quantity};
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z$/#-]{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("properties".to_owned()),
        Just("items".to_owned()),
        Just("type".to_owned()),
        Just("$ref".to_owned()),
        Just("allOf".to_owned()),
        Just("additionalProperties".to_owned()),
        Just("x-kubernetes-list-map-keys".to_owned()),
        "[a-z]{1,6}",
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn label_selectors(text in prop_oneof![".{0,60}", "[a-z=!,() <>]{0,40}", "[a-z]{1,3} (in|notin) \\([a-z,]{0,9}\\)"]) {
        if let Ok(s) = text.parse::<LabelSelector>() {
            let again: LabelSelector = s.to_string().parse().unwrap();
            prop_assert_eq!(again, s);
        }
    }

    #[test]
    fn field_selectors(text in prop_oneof![".{0,60}", "[a-z.=!,\\\\]{0,40}"]) {
        if let Ok(s) = text.parse::<FieldSelector>() {
            s.matches(|_| Some("x"));
        }
    }

    #[test]
    fn json_selectors(v in any_json()) {
        let _ = LabelSelector::from_json(&v);
        let _ = LabelSelector::from_json(&json!({"matchLabels": v, "matchExpressions": [v]}));
    }

    #[test]
    fn quantities(text in prop_oneof![".{0,20}", "[0-9.+-]{1,30}[eEinumkKMGTP]{0,3}[0-9]{0,3}"]) {
        if let Ok(q) = text.parse::<Quantity>() {
            let again: Quantity = q.to_string().parse().unwrap();
            prop_assert_eq!(again, q);
        }
    }

    #[test]
    fn names_of_any_kind(text in ".{0,80}") {
        for rule in [names::dns_label, names::dns_subdomain, names::dns_1035_label, names::path_segment, names::qualified_name, names::label_value] {
            rule(&text);
        }
        names::generate(&text, |n| n - 1);
    }

    #[test]
    fn schemas(v in any_json()) {
        Schema::parse(&v, &|_| None);
        if let Value::Object(m) = &v {
            let defs = Definitions::parse(m);
            for name in m.keys() {
                if let Some(n) = defs.node(name) {
                    n.items();
                    n.field("a");
                }
            }
        }
    }
}
