//! What the server serves: built-in resources shared by all clusters, and custom ones of this cluster.
//!
//! A registry is an immutable value derived from the CRD table. Requests compare its revision with the
//! table's and rebuild it when stale, so an object whose CRD was just stored is never met by a 404.

use crate::crd::CustomVersion;
use crate::wire::encode;
use bytes::Bytes;
use ek_meta::gvk::GroupVersion;
use ek_meta::schema::{Definitions, Node};
use ek_meta::{Gvk, Status};
use ek_store::TableName;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A subresource as discovery lists it.
#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: String,
    pub response: Gvk,
    pub verbs: Vec<String>,
}

/// One served group, version and resource.
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// `apps/v1`.
    pub api_version: String,
    /// Canonical head of objects served here.
    pub head: String,
    /// Where the objects are stored; several versions (and, for events, groups) share one.
    pub table: TableName,
    /// The head objects are stored under.
    pub storage_head: String,
    pub storage_api_version: String,
    pub custom: Option<Arc<CustomVersion>>,
    definition: Option<&'static str>,
}

impl Resource {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&*self.group, &*self.version, &*self.kind)
    }

    fn path(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }

    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Changes whenever stored bytes may have to be re-read under another schema. Built-ins never do.
    pub fn stamp(&self) -> u64 {
        self.custom.as_ref().map_or(0, |c| c.stamp)
    }

    /// The type's schema; `None` when nothing is known of it.
    pub fn node(&self) -> Option<Node<'_>> {
        match &self.custom {
            Some(c) => c.validator.as_ref().map(|v| v.node()),
            None => ek_data::definitions().node(self.definition?),
        }
    }

    pub fn definitions(&self) -> &'static Definitions {
        if self.is_custom() { Definitions::empty() } else { ek_data::definitions() }
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group, &self.plural, name)
    }
}

/// One group in discovery order.
pub struct Group {
    pub name: String,
    /// Preferred first.
    pub versions: Vec<Version>,
}

pub struct Version {
    pub name: String,
    pub resources: Vec<Arc<Resource>>,
}

pub struct Registry {
    /// Revision of the CRD table this was built from.
    pub revision: u64,
    /// Sorted by group, version and plural.
    by_path: Vec<Arc<Resource>>,
    /// One resource for each table, in its preferred version.
    by_table: HashMap<TableName, Arc<Resource>>,
    pub groups: Vec<Group>,
    /// ETag material: changes with anything discovery shows.
    pub etag: u64,
}

impl Registry {
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let at = self.by_path.binary_search_by(|r| r.path().cmp(&(group, version, plural)));
        at.ok().map(|i| &self.by_path[i])
    }

    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.group_version(group, version)?.resources.iter().find(|r| r.kind == kind)
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.name == name)
    }

    pub fn group_version(&self, group: &str, version: &str) -> Option<&Version> {
        self.group(group)?.versions.iter().find(|v| v.name == version)
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }

    /// One resource for each table, in its preferred version: what a sweep over all objects walks.
    pub fn storage_resources(&self) -> Vec<Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        self.resources().filter(|r| r.allows("list") && seen.insert(r.table.clone())).cloned().collect()
    }

    /// What is stored in a table.
    pub fn of_table(&self, table: &TableName) -> Option<&Arc<Resource>> {
        self.by_table.get(table)
    }

    /// Built-ins plus the given custom resources.
    pub fn new(custom: Vec<Resource>, revision: u64) -> Registry {
        let mut all: Vec<Arc<Resource>> = builtin().to_vec();
        all.extend(custom.into_iter().map(Arc::new));
        // A custom resource comes after the built-in one whose path it takes, and wins.
        let mut by_path: Vec<Arc<Resource>> = all.iter().rev().cloned().collect();
        by_path.sort_by(|a, b| a.path().cmp(&b.path()));
        by_path.dedup_by(|later, kept| later.path() == kept.path());
        let groups = group(&all);
        let mut text = String::new();
        for r in &all {
            use std::fmt::Write;
            let _ = write!(
                text,
                "{}/{}/{}/{:?}/{:?}/{:?}/{};",
                r.group, r.version, r.plural, r.verbs, r.short_names, r.categories, r.kind
            );
            for s in &r.subresources {
                let _ = write!(text, "{}", s.name);
            }
        }
        let etag = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        let mut by_table = HashMap::new();
        let preferred = groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources);
        for r in preferred.filter(|r| r.allows("list")) {
            by_table.entry(r.table.clone()).or_insert_with(|| r.clone());
        }
        Registry { revision, by_path, by_table, groups, etag }
    }
}

/// Table of a group and resource.
pub fn table_name(group: &str, plural: &str) -> TableName {
    TableName::from(format!("{group}/{plural}"))
}

/// Groups in discovery order: built-in ones by priority, then custom ones by name; versions GA first.
fn group(all: &[Arc<Resource>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for r in all {
        let g = match groups.iter_mut().position(|g| g.name == r.group) {
            Some(i) => &mut groups[i],
            None => {
                groups.push(Group { name: r.group.clone(), versions: Vec::new() });
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        match g.versions.iter_mut().find(|v| v.name == r.version) {
            Some(v) => v.resources.push(r.clone()),
            None => g.versions.push(Version { name: r.version.clone(), resources: vec![r.clone()] }),
        }
    }
    let rank = |g: &Group| ek_data::GROUPS.iter().position(|b| b.name == g.name).unwrap_or(usize::MAX);
    groups.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    for g in &mut groups {
        g.versions.sort_by(|a, b| version_order(&a.name, &b.name));
        for v in &mut g.versions {
            v.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    groups
}

/// GA before beta before alpha, higher numbers first, anything else last by name.
pub fn version_order(a: &str, b: &str) -> std::cmp::Ordering {
    fn parse(v: &str) -> Option<(u8, u32, u32)> {
        let rest = v.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        if tail.is_empty() {
            return Some((2, major, 0));
        }
        let (stage, n) =
            if let Some(n) = tail.strip_prefix("beta") { (1, n) } else { (0, tail.strip_prefix("alpha")?) };
        Some((stage, major, n.parse().ok()?))
    }
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// The built-in resources, made once for the process.
fn builtin() -> &'static [Arc<Resource>] {
    static ALL: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
        ek_data::RESOURCES
            .iter()
            .map(|d| {
                let api_version = GroupVersion::new(d.group, d.version).to_string();
                // Two names for one store: events in their new group, and the older scale of autoscalers.
                let (table, storage_api_version) = match (d.group, d.plural) {
                    ("events.k8s.io", "events") => (table_name("", "events"), "v1".to_owned()),
                    ("autoscaling", p) => (table_name("autoscaling", p), "autoscaling/v2".to_owned()),
                    (g, p) => (table_name(g, p), api_version.clone()),
                };
                Arc::new(Resource {
                    group: d.group.into(),
                    version: d.version.into(),
                    kind: d.kind.into(),
                    list_kind: format!("{}List", d.kind),
                    plural: d.plural.into(),
                    singular: d.singular(),
                    short_names: d.short_names.iter().map(|s| (*s).into()).collect(),
                    categories: d.categories.iter().map(|s| (*s).into()).collect(),
                    namespaced: d.namespaced,
                    verbs: d.verbs.iter().map(|s| (*s).into()).collect(),
                    subresources: d
                        .subresources
                        .iter()
                        .map(|s| Subresource {
                            name: s.name.into(),
                            response: s.gvk(d),
                            verbs: s.verbs.iter().map(|v| (*v).into()).collect(),
                        })
                        .collect(),
                    head: encode::head(d.kind, &api_version),
                    storage_head: encode::head(d.kind, &storage_api_version),
                    api_version,
                    table,
                    storage_api_version,
                    custom: None,
                    definition: ek_data::definition_name(&d.gvk()),
                })
            })
            .collect()
    });
    &ALL
}

/// The kind all scale subresources show. It has no store of its own; its schema is what bodies are read by.
pub fn scale() -> &'static Arc<Resource> {
    static SCALE: LazyLock<Arc<Resource>> = LazyLock::new(|| {
        let gvk = Gvk::new("autoscaling", "v1", "Scale");
        let head = encode::head("Scale", "autoscaling/v1");
        Arc::new(Resource {
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            list_kind: "ScaleList".into(),
            plural: "scales".into(),
            singular: "scale".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
            api_version: "autoscaling/v1".into(),
            table: table_name("autoscaling", "scales"),
            storage_head: head.clone(),
            head,
            storage_api_version: "autoscaling/v1".into(),
            custom: None,
            definition: ek_data::definition_name(&gvk),
        })
    });
    &SCALE
}

/// The resource of a custom version.
pub fn custom_resource(c: Arc<CustomVersion>) -> Resource {
    let api_version = GroupVersion::new(&*c.group, &*c.version).to_string();
    let storage = GroupVersion::new(&*c.group, &*c.storage_version).to_string();
    let own = |v: &[&str]| v.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let mut subresources = Vec::new();
    if c.has_status {
        subresources.push(Subresource {
            name: "status".into(),
            response: Gvk::new(&*c.group, &*c.version, &*c.kind),
            verbs: own(&["get", "patch", "update"]),
        });
    }
    if c.scale.is_some() {
        subresources.push(Subresource {
            name: "scale".into(),
            response: Gvk::new("autoscaling", "v1", "Scale"),
            verbs: own(&["get", "patch", "update"]),
        });
    }
    Resource {
        group: c.group.clone(),
        version: c.version.clone(),
        kind: c.kind.clone(),
        list_kind: c.list_kind.clone(),
        plural: c.plural.clone(),
        singular: c.singular.clone(),
        short_names: c.short_names.clone(),
        categories: c.categories.clone(),
        namespaced: c.namespaced,
        verbs: own(&["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]),
        subresources,
        head: encode::head(&c.kind, &api_version),
        storage_head: encode::head(&c.kind, &storage),
        table: table_name(&c.group, &c.plural),
        api_version,
        storage_api_version: storage,
        definition: None,
        custom: Some(c),
    }
}

/// Swaps the stored head of canonical bytes for the served one, when the bytes have it.
pub fn reheaded(bytes: &Bytes, from: &str, to: &str) -> Option<Bytes> {
    let rest = bytes.strip_prefix(from.as_bytes())?;
    let mut out = Vec::with_capacity(rest.len() + to.len());
    out.extend_from_slice(to.as_bytes());
    out.extend_from_slice(rest);
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability() {
        let mut v = vec!["v1alpha1", "v2", "v1beta2", "foo", "v1", "v1beta1", "v10"];
        v.sort_by(|a, b| version_order(a, b));
        assert_eq!(v, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
