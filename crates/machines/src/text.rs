//! Small readings of Kubernetes' texts: durations, selectors, times, counts.

use apis::common::{IntOrString, LabelSelector};
pub use apis::duration::go_duration;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

/// Whether labels are selected. A selector that selects everything selects nothing here: a set that takes every machine
/// of its namespace is a mistake, and an expensive one.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let rules = selector.match_expressions.iter().flatten();
    if equal.clone().next().is_none() && rules.clone().next().is_none() {
        return false;
    }
    let holds = |r: &apis::common::LabelSelectorRequirement| {
        let value = labels.get(&r.key);
        let among = |v: &String| r.values.iter().flatten().any(|x| x == v);
        match r.operator.as_str() {
            "In" => value.is_some_and(among),
            "NotIn" => !value.is_some_and(among),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    equal.into_iter().all(|(k, v)| labels.get(k) == Some(v)) && rules.into_iter().all(holds)
}

/// The selector as `kubectl -l` takes it.
pub fn selector_text(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().flatten().map(|(k, v)| format!("{k}={v}"));
    let rules = selector.match_expressions.iter().flatten().map(|r| {
        let values = r.values.iter().flatten().cloned().collect::<Vec<_>>().join(",");
        match r.operator.as_str() {
            "In" => format!("{} in ({values})", r.key),
            "NotIn" => format!("{} notin ({values})", r.key),
            "Exists" => r.key.clone(),
            _ => format!("!{}", r.key),
        }
    });
    equal.chain(rules).collect::<Vec<_>>().join(",")
}

/// A count of `total`, or the default where it says none.
pub fn count(value: Option<&IntOrString>, total: u32, round_up: bool, default: u32) -> u32 {
    value.map_or(default, |v| v.of(total, round_up).unwrap_or(default))
}

pub fn replicas(of: Option<i32>) -> u32 {
    of.map_or(1, |n| u32::try_from(n).unwrap_or(0))
}

pub fn int(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

pub fn time(t: &Time) -> Timestamp {
    Timestamp::from_second(t.0.as_second()).unwrap_or_default()
}

/// `t` as the API keeps it: without fractions.
pub fn stamp(t: Timestamp) -> String {
    Timestamp::from_second(t.as_second()).unwrap_or(t).to_string()
}

pub fn after(t: Timestamp, by: SignedDuration) -> Timestamp {
    t.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_select_what_they_say_and_never_everything() {
        let labels: BTreeMap<String, String> = [("a".into(), "1".into())].into();
        let s = |v| selects(&serde_json::from_value(v).unwrap(), &labels);
        assert!(s(json!({"matchLabels": {"a": "1"}})));
        assert!(!s(json!({"matchLabels": {"a": "1", "b": "2"}})));
        assert!(s(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]},
            {"key": "b", "operator": "DoesNotExist"}]})));
        assert!(!s(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]})));
        assert!(!s(json!({})));
    }
}
