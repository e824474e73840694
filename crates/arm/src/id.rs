//! Resource ids.
//!
//! `/subscriptions/{s}[/resourceGroups/{g}][/providers/{ns}/{type}/{name}[/{type}/{name}]...]`, and then again
//! `/providers/...` for an extension resource, which attaches to whatever is left of it: a resource, a group, a
//! subscription, a management group, or nothing (the tenant). Azure compares ids without regard to case and
//! answers in the casing it stored, so an id keeps its text and carries a lower-case key for comparing.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// Longest id that is read; Azure's own limit is lower for every type.
const MAX_LENGTH: usize = 2048;
const MAX_SEGMENT: usize = 260;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("a resource id starts with '/'")]
    NotAbsolute,
    #[error("a resource id has at most {MAX_LENGTH} characters")]
    TooLong,
    #[error("segment {0} is empty, too long or contains a character that is not allowed")]
    Segment(usize),
    #[error("segment {at} is '{found}' where '{expected}' belongs")]
    Expected { at: usize, found: String, expected: &'static str },
    #[error("the id ends after a type, without a name")]
    NoName,
    #[error("the id names nothing")]
    Empty,
}

/// A full type name such as `Microsoft.Network/virtualNetworks/subnets`, compared without regard to case.
#[derive(Clone, Debug)]
pub struct ResourceType(String);

impl ResourceType {
    pub fn new(text: impl Into<String>) -> ResourceType {
        ResourceType(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(n, _)| n)
    }

    /// What follows the namespace.
    pub fn path(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, p)| p)
    }

    pub fn is(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

impl PartialEq for ResourceType {
    fn eq(&self, other: &ResourceType) -> bool {
        self.is(&other.0)
    }
}

impl Eq for ResourceType {}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an id is rooted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    Tenant,
    Subscription(&'a str),
    ResourceGroup { subscription: &'a str, group: &'a str },
}

/// A checked resource id. Equality, order and hash ignore case; display does not.
#[derive(Clone)]
pub struct ResourceId {
    text: Arc<str>,
    key: Arc<str>,
    /// Index of the segment where the first `providers` stands, or the number of segments.
    providers: u16,
    /// The same for the last `providers`.
    last: u16,
}

fn segment_ok(s: &str) -> bool {
    !s.is_empty()
        && s.len() <= MAX_SEGMENT
        && s != "."
        && s != ".."
        && !s.chars().any(|c| c.is_control() || matches!(c, '?' | '#' | '%' | '\\' | '<' | '>' | '"' | '&'))
}

impl ResourceId {
    /// Reads an id. A trailing slash is tolerated, as Azure does.
    pub fn parse(text: &str) -> Result<ResourceId, IdError> {
        if text.len() > MAX_LENGTH {
            return Err(IdError::TooLong);
        }
        let body = text.strip_prefix('/').ok_or(IdError::NotAbsolute)?;
        let body = body.strip_suffix('/').unwrap_or(body);
        if body.is_empty() {
            return Err(IdError::Empty);
        }
        let segments: Vec<&str> = body.split('/').collect();
        if let Some(bad) = segments.iter().position(|s| !segment_ok(s)) {
            return Err(IdError::Segment(bad));
        }
        let (providers, last) = check(&segments)?;
        let text: Arc<str> = format!("/{body}").into();
        let key = lower(&text);
        Ok(ResourceId { text, key, providers, last })
    }

    pub fn subscription_scope(subscription: &str) -> Result<ResourceId, IdError> {
        ResourceId::parse(&format!("/subscriptions/{subscription}"))
    }

    pub fn group_scope(subscription: &str, group: &str) -> Result<ResourceId, IdError> {
        ResourceId::parse(&format!("/subscriptions/{subscription}/resourceGroups/{group}"))
    }

    /// The text, in the casing it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text in lower case: equal for equal ids.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.text[1..].split('/')
    }

    fn nth(&self, n: usize) -> Option<&str> {
        self.segments().nth(n)
    }

    pub fn scope(&self) -> Scope<'_> {
        match (self.providers, self.nth(1), self.nth(3)) {
            (2.., Some(subscription), None) => Scope::Subscription(subscription),
            (2, Some(subscription), _) => Scope::Subscription(subscription),
            (4.., Some(subscription), Some(group)) => Scope::ResourceGroup { subscription, group },
            _ => Scope::Tenant,
        }
    }

    pub fn subscription(&self) -> Option<&str> {
        match self.scope() {
            Scope::Subscription(s) | Scope::ResourceGroup { subscription: s, .. } => Some(s),
            Scope::Tenant => None,
        }
    }

    pub fn group(&self) -> Option<&str> {
        match self.scope() {
            Scope::ResourceGroup { group, .. } => Some(group),
            _ => None,
        }
    }

    /// The name: the last segment.
    pub fn name(&self) -> &str {
        self.segments().next_back().unwrap_or_default()
    }

    /// Namespace of the innermost provider, if the id has one.
    pub fn namespace(&self) -> Option<&str> {
        self.nth(usize::from(self.last) + 1)
    }

    /// The type of the innermost provider, or the built-in type of a subscription or group.
    pub fn resource_type(&self) -> ResourceType {
        let Some(namespace) = self.namespace() else {
            return ResourceType::new(match self.scope() {
                Scope::ResourceGroup { .. } => "Microsoft.Resources/resourceGroups",
                _ => "Microsoft.Resources/subscriptions",
            });
        };
        let mut out = namespace.to_owned();
        for t in self.segments().skip(usize::from(self.last) + 2).step_by(2) {
            out.push('/');
            out.push_str(t);
        }
        ResourceType(out)
    }

    /// The `(type, name)` pairs of the innermost provider, outermost first.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        let rest: Vec<&str> = self.segments().skip(usize::from(self.last) + 2).collect();
        rest.chunks_exact(2).map(|c| (c[0], c[1])).collect()
    }

    /// Whether this is an extension resource: it attaches to the scope that [`ResourceId::extended`] gives.
    pub fn is_extension(&self) -> bool {
        self.last != self.providers
    }

    /// What the innermost provider attaches to; `None` for the tenant.
    pub fn extended(&self) -> Option<ResourceId> {
        self.first_segments(usize::from(self.last))
    }

    /// The id without its last `type/name` pair: the parent resource, or the scope of a top-level one.
    pub fn parent(&self) -> Option<ResourceId> {
        let n = self.segments().count();
        if self.namespace().is_none() {
            return self.first_segments(n.saturating_sub(2));
        }
        let top = n == usize::from(self.last) + 4;
        self.first_segments(if top { usize::from(self.last) } else { n - 2 })
    }

    /// The top-level resource this one belongs to; itself if it is one.
    pub fn root(&self) -> ResourceId {
        if self.namespace().is_none() {
            return self.clone();
        }
        self.first_segments(usize::from(self.last) + 4).unwrap_or_else(|| self.clone())
    }

    fn first_segments(&self, n: usize) -> Option<ResourceId> {
        if n == 0 {
            return None;
        }
        let end = self.text.match_indices('/').nth(n).map_or(self.text.len(), |(i, _)| i);
        ResourceId::parse(&self.text[..end]).ok()
    }

    /// A child: `…/{kind}/{name}`. Only a resource has children.
    pub fn child(&self, kind: &str, name: &str) -> Result<ResourceId, IdError> {
        ResourceId::parse(&format!("{}/{kind}/{name}", self.text))
    }

    /// A resource of another provider attached to this one (or a first resource in a group).
    pub fn provider(&self, namespace: &str, kind: &str, name: &str) -> Result<ResourceId, IdError> {
        ResourceId::parse(&format!("{}/providers/{namespace}/{kind}/{name}", self.text))
    }

    /// Whether `other` is this id or lies below it, on segment boundaries.
    pub fn contains(&self, other: &ResourceId) -> bool {
        within(&other.key, &self.key)
    }
}

/// Whether `key` is `scope` or below it. Both are lower case; the empty scope is the tenant.
fn within(key: &str, scope: &str) -> bool {
    key.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn lower(text: &Arc<str>) -> Arc<str> {
    // Most ids that services pass around are not lower case, but the keys made from keys are.
    if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        return text.clone();
    }
    text.to_lowercase().into()
}

/// Checks the grammar; returns where the first and the last `providers` stand.
fn check(segments: &[&str]) -> Result<(u16, u16), IdError> {
    let expected = |at: usize, expected: &'static str| IdError::Expected {
        at,
        found: segments.get(at).map_or(String::new(), |s| (*s).to_owned()),
        expected,
    };
    let is = |at: usize, word: &str| segments.get(at).is_some_and(|s| s.eq_ignore_ascii_case(word));
    let mut at = 0;
    if is(0, "subscriptions") {
        if segments.len() < 2 {
            return Err(IdError::NoName);
        }
        at = 2;
        if is(2, "resourceGroups") {
            if segments.len() < 4 {
                return Err(IdError::NoName);
            }
            at = 4;
        }
    } else if !is(0, "providers") {
        return Err(expected(0, "subscriptions"));
    }
    let first = at;
    let mut last = at;
    while at < segments.len() {
        if !is(at, "providers") {
            return Err(expected(at, "providers"));
        }
        last = at;
        if segments.len() < at + 4 {
            return Err(IdError::NoName);
        }
        at += 2;
        while at < segments.len() && !is(at, "providers") {
            if at + 1 >= segments.len() {
                return Err(IdError::NoName);
            }
            at += 2;
        }
        if at == last + 2 {
            return Err(expected(at, "a type"));
        }
    }
    let narrow = |n: usize| u16::try_from(n).map_err(|_| IdError::TooLong);
    Ok((narrow(first)?, narrow(last)?))
}

impl PartialEq for ResourceId {
    fn eq(&self, other: &ResourceId) -> bool {
        self.key == other.key
    }
}

impl Eq for ResourceId {}

impl PartialOrd for ResourceId {
    fn partial_cmp(&self, other: &ResourceId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceId {
    fn cmp(&self, other: &ResourceId) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Hash for ResourceId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl FromStr for ResourceId {
    type Err = IdError;

    fn from_str(s: &str) -> Result<ResourceId, IdError> {
        ResourceId::parse(s)
    }
}

impl Serialize for ResourceId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ResourceId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ResourceId, D::Error> {
        let text = String::deserialize(d)?;
        ResourceId::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
