//! Which objects a list or watch is about: namespace, name, labels, fields.
//!
//! Labels come from the side record. Other fields are read out of the stored bytes by a scanner that builds
//! nothing but the one value it looks for.

use crate::registry::Resource;
use crate::wire::params::Params;
use ek_meta::Status;
use ek_meta::selector::{FieldSelector, LabelSelector};
use ek_store::{Entry, View};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Selectors longer than this are refused before parsing.
const MAX_SELECTOR: usize = 64 << 10;

#[derive(Clone, Debug)]
struct FieldTest {
    path: Vec<String>,
    /// The field's value when the object lacks it.
    absent: &'static str,
    value: String,
    negated: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub namespace: Option<String>,
    pub name: Option<String>,
    labels: LabelSelector,
    fields: Vec<FieldTest>,
}

impl Filter {
    /// Reads `labelSelector` and `fieldSelector`; `name` restricts to one object (watch on a single path).
    pub fn parse(res: &Resource, namespace: &str, name: &str, params: &Params) -> Result<Filter, Status> {
        let some = |s: &str| Some(s.to_owned()).filter(|s| !s.is_empty());
        let mut filter = Filter { namespace: some(namespace), name: some(name), ..Filter::default() };
        let get = |p: &str| -> Result<&str, Status> {
            let s = params.get(p).unwrap_or_default();
            if s.len() > MAX_SELECTOR {
                return Err(Status::bad_request(format!("{p} is longer than {MAX_SELECTOR} bytes")));
            }
            Ok(s)
        };
        filter.labels = get("labelSelector")?
            .parse()
            .map_err(|e: ek_meta::selector::ParseSelectorError| Status::bad_request(e.to_string()))?;
        let fields: FieldSelector = get("fieldSelector")?
            .parse()
            .map_err(|e: ek_meta::selector::ParseFieldSelectorError| Status::bad_request(e.to_string()))?;
        for t in fields.terms {
            match (t.field.as_str(), t.negated) {
                ("metadata.name", false) => {
                    if !name.is_empty() && name != t.value {
                        return Err(Status::bad_request(format!(
                            "fieldSelector metadata.name={} contradicts the requested name",
                            t.value
                        )));
                    }
                    // Two names at once select nothing: no object's name is empty.
                    let other = filter.name.as_ref().is_some_and(|n| *n != t.value);
                    filter.name = Some(if other { String::new() } else { t.value });
                }
                ("metadata.namespace", false) if res.namespaced => match &filter.namespace {
                    Some(ns) if *ns != t.value => filter.name = Some(String::new()),
                    _ => filter.namespace = Some(t.value),
                },
                (field, negated) => {
                    let (path, absent) = field_path(res, field)
                        .ok_or_else(|| Status::bad_request(unknown_field(res, field)))?;
                    filter.fields.push(FieldTest { path, absent, value: t.value, negated });
                }
            }
        }
        Ok(filter)
    }

    /// Whether a count of everything in scope would be a count of what is selected.
    pub fn selects_all(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.is_empty()
    }

    /// Those of a table that are selected. Other namespaces are not walked over.
    pub fn among<'a>(&'a self, view: &'a View) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Entry>)> {
        let from = self.namespace.as_ref().map(|ns| format!("{ns}/")).unwrap_or_default();
        let all = view.objects.range::<_, str>((Bound::Included(from.as_str()), Bound::Unbounded));
        all.take_while(move |(k, _)| k.starts_with(&from)).filter(|(k, e)| self.matches(k, e))
    }

    pub fn matches(&self, key: &str, entry: &Entry) -> bool {
        let (ns, name) = key.split_once('/').unwrap_or(("", key));
        if self.namespace.as_deref().is_some_and(|n| n != ns) {
            return false;
        }
        if self.name.as_deref().is_some_and(|n| n != name) {
            return false;
        }
        if !self.labels.matches(|k| entry.meta.label(k)) {
            return false;
        }
        self.fields.iter().all(|t| {
            let v = scan(&entry.bytes(), &t.path).unwrap_or_else(|| t.absent.to_owned());
            (v == t.value) != t.negated
        })
    }
}

/// Where a selectable field lives, and what it reads as when absent.
/// Kinds with fields of their own say it one way, those with none another.
fn unknown_field(res: &Resource, field: &str) -> String {
    if res.is_custom() || !own_fields(res).is_empty() {
        return format!("field label not supported: {field}");
    }
    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

fn field_path(res: &Resource, field: &str) -> Option<(Vec<String>, &'static str)> {
    let split = |p: &str| p.split('.').map(str::to_owned).collect::<Vec<_>>();
    if field == "metadata.name" || (field == "metadata.namespace" && res.namespaced) {
        return Some((split(field), ""));
    }
    if let Some(c) = &res.custom {
        return c.selectable.iter().find(|(l, _)| l == field).map(|(_, p)| (p.clone(), ""));
    }
    let absent = match (res.plural.as_str(), field) {
        ("pods", "spec.hostNetwork") | ("nodes", "spec.unschedulable") => "false",
        ("replicasets" | "replicationcontrollers", "status.replicas") | ("jobs", "status.successful") => "0",
        _ => "",
    };
    if !own_fields(res).contains(&field) {
        return None;
    }
    let path = match field {
        "source" => "source.component".to_owned(),
        "name" => "metadata.name".to_owned(),
        "status.successful" => "status.succeeded".to_owned(),
        // Events are stored in their core form.
        "reportingController" => "reportingComponent".to_owned(),
        f => f.replace("regarding.", "involvedObject."),
    };
    Some((split(&path), absent))
}

/// What a built-in kind can be selected by beyond its name.
fn own_fields(res: &Resource) -> &'static [&'static str] {
    match (res.group.as_str(), res.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase", "name"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

/// The scalar at `path` in JSON bytes, as text.
pub fn scan(bytes: &[u8], path: &[String]) -> Option<String> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    Scan(path).deserialize(&mut de).ok().flatten()
}

struct Scan<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Option<String>, D::Error> {
        d.deserialize_any(self)
    }
}

impl Scan<'_> {
    fn leaf<E>(self, v: impl fmt::Display) -> Result<Option<String>, E> {
        Ok(self.0.is_empty().then(|| v.to_string()))
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
        self.leaf(v)
    }

    fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
        self.leaf(v)
    }

    fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
        self.leaf(v)
    }

    fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
        self.leaf(v)
    }

    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        self.leaf(v)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == *key && found.is_none() => {
                    found = map.next_value_seed(Scan(rest))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanning_finds_scalars_only() {
        let b = br#"{"spec":{"nodeName":"n1","hostNetwork":true,"x":[1]},"n":3}"#;
        let at = |p: &str| scan(b, &p.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(at("spec.nodeName").as_deref(), Some("n1"));
        assert_eq!(at("spec.hostNetwork").as_deref(), Some("true"));
        assert_eq!(at("n").as_deref(), Some("3"));
        assert_eq!(at("spec"), None);
        assert_eq!(at("spec.x"), None);
        assert_eq!(at("nope.y"), None);
    }
}
