//! Group, version, kind and resource.

use std::fmt;

/// A group and version, written `apps/v1` or, for the core group, `v1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

impl GroupVersion {
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`. More than one slash is not an API version.
    pub fn parse(api_version: &str) -> Option<Self> {
        let mut parts = api_version.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(v), None, _) if !v.is_empty() => Some(Self::new("", v)),
            (Some(g), Some(v), None) if !v.is_empty() => Some(Self::new(g, v)),
            _ => None,
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A fully qualified kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Gvk { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

impl fmt::Display for Gvk {
    /// The form Go prints: `apps/v1, Kind=Deployment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A fully qualified resource (the plural in a path).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    pub group: String,
    pub version: String,
    pub resource: String,
}

impl Gvr {
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Gvr { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// `deployments.apps`, or `pods` for the core group: how errors name a resource.
    pub fn group_resource(&self) -> String {
        group_resource(&self.group, &self.resource)
    }
}

/// `deployments.apps`, or `pods` for the core group.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_parse_and_print() {
        assert_eq!(GroupVersion::parse("v1").unwrap().to_string(), "v1");
        assert_eq!(GroupVersion::parse("apps/v1").unwrap().to_string(), "apps/v1");
        assert_eq!(GroupVersion::parse("a/b/c"), None);
        assert_eq!(GroupVersion::parse(""), None);
    }
}
