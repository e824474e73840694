//! Role-based access control: an index from subjects to rules.
//!
//! What holds everywhere is one part, each namespace has one of its own: a change builds only the part it is in, and
//! what is built is immutable. A question touches only the bindings of the asking user and groups.

use crate::{MASTERS, User};
use ek_meta::object::{name, namespace};
use ek_meta::selector::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default)]
    pub verbs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

/// What is being asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub namespace: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    /// A path outside the resource API; the resource fields are then ignored.
    pub path: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

fn has(list: &[String], v: &str) -> bool {
    list.iter().any(|x| x == v || x == "*")
}

impl Rule {
    fn allows(&self, a: &Attributes<'_>) -> bool {
        if !has(&self.verbs, a.verb) {
            return false;
        }
        if let Some(path) = a.path {
            return self.non_resource_urls.iter().any(|u| url_covers(u, path));
        }
        has(&self.api_groups, a.group)
            && self.resources.iter().any(|r| resource_covers(r, a.resource, a.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == a.name))
    }
}

fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == "*" || pattern == path || pattern.strip_suffix('*').is_some_and(|p| path.starts_with(p))
}

fn resource_covers(pattern: &str, resource: &str, sub: &str) -> bool {
    match pattern.split_once('/') {
        _ if pattern == "*" => true,
        None => sub.is_empty() && pattern == resource,
        Some(("*", s)) => s == sub,
        Some((r, s)) => r == resource && s == sub,
    }
}

/// Who is bound to which role, as far as answers need it.
#[derive(Debug)]
pub struct Binding {
    name: String,
    /// Empty where it binds everywhere.
    namespace: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
}

impl Binding {
    /// Reads a RoleBinding or ClusterRoleBinding.
    pub fn of(object: &Value) -> Binding {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let subject = |s: &Value| {
            let name = text(&s["name"]);
            match s["kind"].as_str() {
                Some("Group") => Subject::Group(name),
                Some("ServiceAccount") => {
                    let ns = s["namespace"].as_str().filter(|n| !n.is_empty());
                    let ns = ns.unwrap_or_else(|| namespace(object));
                    Subject::User(format!("system:serviceaccount:{ns}:{name}"))
                }
                _ => Subject::User(name),
            }
        };
        Binding {
            name: name(object).to_owned(),
            namespace: namespace(object).to_owned(),
            role_kind: text(&object["roleRef"]["kind"]),
            role: text(&object["roleRef"]["name"]),
            subjects: object["subjects"].as_array().into_iter().flatten().map(subject).collect(),
        }
    }
}

/// A binding, resolved to its role's rules.
struct Grant {
    binding: Arc<Binding>,
    rules: Arc<Vec<Rule>>,
}

impl Grant {
    /// For the reason given with a decision.
    fn text(&self) -> String {
        let Binding { name, namespace, role_kind, role, .. } = &*self.binding;
        let (kind, place) = match namespace.as_str() {
            "" => ("ClusterRoleBinding", name.clone()),
            ns => ("RoleBinding", format!("{name}/{ns}")),
        };
        format!("RBAC: allowed by {kind} {place:?} of {role_kind} {role:?}")
    }
}

#[derive(Default)]
struct Grants {
    users: HashMap<String, Vec<Arc<Grant>>>,
    groups: HashMap<String, Vec<Arc<Grant>>>,
}

impl Grants {
    fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Arc<Grant>> {
        self.with_subject(user).map(|(g, _)| g)
    }

    /// Every grant with the group it is held through; `None` is the user itself.
    fn with_subject<'a>(&'a self, user: &'a User) -> impl Iterator<Item = (&'a Arc<Grant>, Option<&'a str>)> {
        let by_name = self.users.get(&user.name).into_iter().flatten().map(|g| (g, None));
        let of_group = |group: &'a String| {
            self.groups.get(group).into_iter().flatten().map(move |g| (g, Some(group.as_str())))
        };
        by_name.chain(user.groups.iter().flat_map(of_group))
    }

    fn add(&mut self, binding: &Arc<Binding>, rules: Arc<Vec<Rule>>) {
        let grant = Arc::new(Grant { binding: binding.clone(), rules });
        for subject in &binding.subjects {
            let (all, name) = match subject {
                Subject::User(name) => (&mut self.users, name),
                Subject::Group(name) => (&mut self.groups, name),
            };
            all.entry(name.clone()).or_default().push(grant.clone());
        }
    }
}

/// Rules by the name of their role.
pub type Roles = HashMap<String, Arc<Vec<Rule>>>;

/// What holds everywhere: cluster roles, and who has them everywhere.
#[derive(Default)]
pub struct Everywhere {
    grants: Grants,
    roles: Roles,
}

impl Everywhere {
    pub fn build(roles: Roles, bindings: &[Arc<Binding>]) -> Everywhere {
        let mut all = Everywhere { grants: Grants::default(), roles };
        for b in bindings {
            if let Some(rules) = all.role(&b.role_kind, &b.role) {
                all.grants.add(b, rules);
            }
        }
        all
    }

    fn role(&self, kind: &str, name: &str) -> Option<Arc<Vec<Rule>>> {
        self.roles.get(name).filter(|_| kind == "ClusterRole").cloned()
    }
}

/// Answers who may do what in one namespace, or in none.
#[derive(Default)]
pub struct Authorizer {
    everywhere: Arc<Everywhere>,
    namespace: String,
    grants: Grants,
    roles: Roles,
}

/// The rules of a role; rules that do not parse grant nothing.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.filter_map(|r| serde_json::from_value(r.clone()).ok()).collect()
}

impl Authorizer {
    /// For one namespace, by the roles and bindings in it. Without a name it answers for what is in none.
    pub fn build(
        everywhere: Arc<Everywhere>,
        namespace: &str,
        roles: Roles,
        bindings: &[Arc<Binding>],
    ) -> Authorizer {
        let mut a =
            Authorizer { everywhere, namespace: namespace.to_owned(), grants: Grants::default(), roles };
        for b in bindings {
            if let Some(rules) = a.role(&b.role_kind, &b.role) {
                a.grants.add(b, rules);
            }
        }
        a
    }

    /// The rules behind a roleRef, if the role exists.
    pub fn role_rules(&self, role_ref: &Value) -> Option<Arc<Vec<Rule>>> {
        self.role(role_ref["kind"].as_str()?, role_ref["name"].as_str()?)
    }

    fn role(&self, kind: &str, name: &str) -> Option<Arc<Vec<Rule>>> {
        match kind {
            "Role" => self.roles.get(name).cloned(),
            _ => self.everywhere.role(kind, name),
        }
    }

    /// What is granted in a namespace, if it is ours.
    fn local(&self, namespace: &str) -> Option<&Grants> {
        (!namespace.is_empty() && self.namespace == namespace).then_some(&self.grants)
    }

    pub fn authorize(&self, user: &User, a: &Attributes<'_>) -> Decision {
        if user.in_group(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let local = self.local(a.namespace).filter(|_| a.path.is_none());
        let local = local.into_iter().flat_map(|g| g.with_subject(user));
        for (g, group) in self.everywhere.grants.with_subject(user).chain(local) {
            if g.rules.iter().any(|r| r.allows(a)) {
                let who = group.map_or_else(|| user_text(user), |group| format!("Group {group:?}"));
                return Decision { allowed: true, reason: format!("{} to {who}", g.text()) };
            }
        }
        Decision { allowed: false, reason: String::new() }
    }

    /// Everything a user may do in a namespace (and cluster-wide).
    pub fn rules_for(&self, user: &User, ns: &str) -> Vec<Rule> {
        if user.in_group(MASTERS) {
            let all = || vec!["*".to_owned()];
            return vec![
                Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
                Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
            ];
        }
        let local = self.local(ns);
        let grants = self.everywhere.grants.of(user).chain(local.into_iter().flat_map(|g| g.of(user)));
        grants.flat_map(|g| g.rules.iter().cloned()).collect()
    }
}

fn user_text(user: &User) -> String {
    format!("User {:?}", user.name)
}

/// The parts of `wanted` that `owned` does not cover: what giving them would escalate.
pub fn uncovered(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted.iter().flat_map(break_down).filter(|w| !owned.iter().any(|o| covers(o, w))).collect()
}

/// A rule as the single permissions it consists of.
fn break_down(r: &Rule) -> Vec<Rule> {
    let mut out = Vec::new();
    let one = |s: &String| vec![s.clone()];
    for verb in &r.verbs {
        for group in &r.api_groups {
            for resource in &r.resources {
                let base = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if r.resource_names.is_empty() {
                    out.push(base);
                } else {
                    out.extend(
                        r.resource_names.iter().map(|n| Rule { resource_names: one(n), ..base.clone() }),
                    );
                }
            }
        }
        for url in &r.non_resource_urls {
            out.push(Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() });
        }
    }
    out
}

/// Whether `owner` includes the single permission `w`.
fn covers(owner: &Rule, w: &Rule) -> bool {
    let all = |own: &[String], want: &[String]| want.iter().all(|v| has(own, v));
    if !all(&owner.verbs, &w.verbs) {
        return false;
    }
    if !w.non_resource_urls.is_empty() {
        return w.non_resource_urls.iter().all(|u| owner.non_resource_urls.iter().any(|o| url_covers(o, u)));
    }
    let resources = w.resources.iter().all(|r| {
        owner.resources.iter().any(|o| match r.split_once('/') {
            _ if o == r || o == "*" => true,
            Some((_, s)) => o.strip_prefix("*/") == Some(s),
            None => false,
        })
    });
    let names = owner.resource_names.is_empty()
        || (!w.resource_names.is_empty()
            && w.resource_names.iter().all(|n| owner.resource_names.contains(n)));
    all(&owner.api_groups, &w.api_groups) && resources && names
}

/// Which ClusterRoles one is the sum of, or `None` when it does not aggregate.
pub fn parts(role: &Value) -> Option<Vec<LabelSelector>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    Some(selectors.iter().filter_map(|s| LabelSelector::from_json(s).ok()).collect())
}

/// The rules an aggregated ClusterRole should have, or `None` when it does not aggregate.
pub fn aggregated_rules(role: &Value, all: &[Value]) -> Option<Value> {
    let selectors = parts(role)?;
    let mut sources: Vec<&Value> = all
        .iter()
        .filter(|r| name(r) != name(role))
        .filter(|r| selectors.iter().any(|s| s.matches_value(r["metadata"].get("labels"))))
        .collect();
    sources.sort_by_key(|r| name(r));
    let mut rules: Vec<Value> = Vec::new();
    for r in sources.iter().flat_map(|r| r["rules"].as_array().into_iter().flatten()) {
        if !rules.contains(r) {
            rules.push(r.clone());
        }
    }
    Some(Value::Array(rules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn authorizer() -> Authorizer {
        let roles = [json!({"metadata": {"name": "r", "namespace": "a"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
                      {"verbs": ["update"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"]}]})];
        let cluster_roles = [json!({"metadata": {"name": "c"}, "rules": [
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]},
            {"verbs": ["update"], "apiGroups": [""], "resources": ["*/scale"]}]})];
        let bindings = [
            json!({"metadata": {"name": "b", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]}),
            json!({"metadata": {"name": "dangling", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "gone"},
            "subjects": [{"kind": "User", "name": "u"}]}),
        ];
        let cluster = [json!({"metadata": {"name": "cb"}, "roleRef": {"kind": "ClusterRole", "name": "c"},
            "subjects": [{"kind": "Group", "name": "g"}]})];
        let named = |all: &[Value]| all.iter().map(|r| (name(r).to_owned(), Arc::new(rules_of(r)))).collect();
        let read = |all: &[Value]| all.iter().map(|b| Arc::new(Binding::of(b))).collect::<Vec<_>>();
        let everywhere = Arc::new(Everywhere::build(named(&cluster_roles), &read(&cluster)));
        Authorizer::build(everywhere, "a", named(&roles), &read(&bindings))
    }

    fn ask<'a>(verb: &'a str, ns: &'a str, group: &'a str, resource: &'a str) -> Attributes<'a> {
        Attributes { verb, namespace: ns, group, resource, ..Attributes::default() }
    }

    #[test]
    fn decisions() {
        let a = authorizer();
        let u = User::new("u", &[]);
        let g = User::new("x", &["g"]);
        let s = User::service_account("a", "s");
        let ok = |user: &User, at: Attributes<'_>| a.authorize(user, &at).allowed;
        assert!(ok(&u, ask("get", "a", "", "pods")));
        assert!(ok(&s, ask("get", "a", "", "pods")));
        assert!(ok(&u, Attributes { subresource: "log", ..ask("get", "a", "", "pods") }));
        assert!(!ok(&u, Attributes { subresource: "exec", ..ask("get", "a", "", "pods") }));
        assert!(!ok(&u, ask("get", "b", "", "pods")));
        assert!(!ok(&u, ask("get", "", "", "pods")));
        assert!(!ok(&u, ask("list", "a", "", "pods")));
        assert!(ok(&u, Attributes { name: "one", ..ask("update", "a", "", "configmaps") }));
        assert!(!ok(&u, Attributes { name: "two", ..ask("update", "a", "", "configmaps") }));
        assert!(ok(&g, ask("delete", "", "apps", "deployments")));
        assert!(ok(
            &g,
            Attributes { subresource: "scale", ..ask("update", "z", "", "replicationcontrollers") }
        ));
        assert!(ok(&g, Attributes { verb: "get", path: Some("/api/v1"), ..Attributes::default() }));
        assert!(!ok(&g, Attributes { verb: "get", path: Some("/metrics"), ..Attributes::default() }));
        assert!(ok(&User::loopback(), ask("anything", "", "x", "y")));
        let d = a.authorize(&u, &ask("get", "a", "", "pods"));
        assert_eq!(d.reason, "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"u\"");
        let d = a.authorize(&g, &ask("delete", "", "apps", "deployments"));
        assert_eq!(
            d.reason,
            "RBAC: allowed by ClusterRoleBinding \"cb\" of ClusterRole \"c\" to Group \"g\""
        );
    }

    #[test]
    fn nobody_gives_more_than_they_have() {
        let rule = |v: &[&str], g: &[&str], r: &[&str]| Rule {
            verbs: v.iter().map(|s| (*s).into()).collect(),
            api_groups: g.iter().map(|s| (*s).into()).collect(),
            resources: r.iter().map(|s| (*s).into()).collect(),
            ..Rule::default()
        };
        let own = [rule(&["get", "list"], &[""], &["pods"]), rule(&["get"], &["apps"], &["*"])];
        assert!(uncovered(&own, &[rule(&["get"], &[""], &["pods"])]).is_empty());
        assert!(
            uncovered(&own, &[rule(&["get"], &["apps"], &["deployments", "deployments/scale"])]).is_empty()
        );
        assert_eq!(uncovered(&own, &[rule(&["get", "delete"], &[""], &["pods"])]).len(), 1);
        assert_eq!(uncovered(&own, &[rule(&["*"], &[""], &["pods"])]).len(), 1);
        // One rule may be covered by several together.
        assert!(uncovered(&own, &[rule(&["get"], &["", "apps"], &["pods"])]).is_empty());
    }

    #[test]
    fn aggregation_unites_selected_roles() {
        let role = json!({"metadata": {"name": "admin"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to-admin": "true"}}]}});
        let all = [
            json!({"metadata": {"name": "b", "labels": {"to-admin": "true"}}, "rules": [{"verbs": ["get"]}]}),
            json!({"metadata": {"name": "a", "labels": {"to-admin": "true"}}, "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]}),
            json!({"metadata": {"name": "c"}, "rules": [{"verbs": ["delete"]}]}),
        ];
        assert_eq!(aggregated_rules(&role, &all).unwrap(), json!([{"verbs": ["get"]}, {"verbs": ["list"]}]));
        assert_eq!(aggregated_rules(&all[2], &all), None);
    }
}
