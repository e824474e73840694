//! Which webhooks and policies an attempt concerns.

use super::{Attempt, Operation};
use crate::cluster::{Cluster, tables};
use crate::registry::Resource;
use ek_meta::selector::LabelSelector;
use serde_json::Value;
use std::sync::Arc;

/// One webhook of one configuration, as stored.
pub struct Hook {
    pub config: String,
    pub name: String,
    pub spec: Value,
    pub conditions: super::conditions::Conditions,
}

/// All webhooks, in the order they are called.
#[derive(Default)]
pub struct Configured {
    pub mutating: Vec<Arc<Hook>>,
    pub validating: Vec<Arc<Hook>>,
}

impl Cluster {
    pub(crate) fn webhook_configuration(&self) -> Arc<Configured> {
        self.hooks.get(
            || self.revisions([&tables::MUTATING, &tables::VALIDATING]),
            |_| Configured {
                mutating: hooks(self.objects(&tables::MUTATING)),
                validating: hooks(self.objects(&tables::VALIDATING)),
            },
        )
    }
}

fn hooks(configs: Vec<Value>) -> Vec<Arc<Hook>> {
    let mut out = Vec::new();
    for c in configs {
        let config = ek_meta::object::name(&c).to_owned();
        for w in c["webhooks"].as_array().into_iter().flatten() {
            let name = w["name"].as_str().unwrap_or_default().to_owned();
            let conditions = super::conditions::Conditions::compile(&w["matchConditions"]);
            out.push(Arc::new(Hook { config: config.clone(), name, spec: w.clone(), conditions }));
        }
    }
    out
}

/// The kind a matched rule names, when it is not the one of the request (`matchPolicy: Equivalent`).
pub enum RuleMatch {
    No,
    Exact,
    Equivalent(Arc<Resource>),
}

/// Whether `rules` cover the attempt.
pub fn rules_match(rules: &Value, equivalent: bool, a: &Attempt<'_>) -> RuleMatch {
    let res = &a.call.res;
    if any_rule(rules, res, a) {
        return RuleMatch::Exact;
    }
    if !equivalent {
        return RuleMatch::No;
    }
    let registry = a.call.cluster.registry();
    let other = registry
        .resources()
        .find(|r| r.table == res.table && r.version != res.version && any_rule(rules, r, a));
    match other {
        Some(r) => RuleMatch::Equivalent(r.clone()),
        None => RuleMatch::No,
    }
}

fn any_rule(rules: &Value, res: &Resource, a: &Attempt<'_>) -> bool {
    rules
        .as_array()
        .into_iter()
        .flatten()
        .any(|r| rule_matches(r, res, a.op, &a.call.info.subresource, a.name()))
}

fn rule_matches(rule: &Value, res: &Resource, op: Operation, sub: &str, name: &str) -> bool {
    let list = |f: &str| rule[f].as_array().into_iter().flatten().filter_map(Value::as_str);
    let has = |f: &str, v: &str| list(f).any(|x| x == "*" || x == v);
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => res.namespaced,
        Some("Cluster") => !res.namespaced,
        _ => true,
    };
    let names: Vec<&str> = list("resourceNames").collect();
    scope
        && has("operations", op.as_str())
        && has("apiGroups", &res.group)
        && has("apiVersions", &res.version)
        && (names.is_empty() || names.contains(&name))
        && list("resources").any(|r| match r.split_once('/') {
            None => sub.is_empty() && (r == "*" || r == res.plural),
            Some((r, s)) => {
                // `*/*` covers everything; `pods/*` covers subresources only.
                (r == "*" || r == res.plural) && (s == sub || (s == "*" && (r == "*" || !sub.is_empty())))
            }
        })
}

/// Namespace and object selectors. An attempt on a namespace object is judged by that object's own labels.
pub fn selectors_match(namespace_selector: &Value, object_selector: &Value, a: &Attempt<'_>) -> bool {
    let namespace = || -> Option<Value> {
        let call = a.call;
        if call.res.table == *tables::NAMESPACES {
            return a.object.or(a.old).cloned();
        }
        if call.info.namespace.is_empty() {
            return None;
        }
        call.cluster.object(&tables::NAMESPACES, "", &call.info.namespace)
    };
    if let Ok(s) = LabelSelector::from_json(namespace_selector)
        && !s.is_everything()
        && let Some(ns) = namespace()
        && !s.matches_value(ns["metadata"].get("labels"))
    {
        return false;
    }
    match LabelSelector::from_json(object_selector) {
        Ok(s) if !s.is_everything() => {
            [a.object, a.old].into_iter().flatten().any(|o| s.matches_value(o["metadata"].get("labels")))
        }
        _ => true,
    }
}
