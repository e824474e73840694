//! Who may do what: one evaluator for enforcement, `permissions` and reports.
//!
//! Allowed if some assignment at or above the scope gives a role of which one permission has a matching action
//! and no matching `notAction`. `notActions` subtract within their own permission only: another role may grant
//! what one takes away. Patterns compare without regard to case and `*` matches any run, `/` included.

use crate::state::{Key, is_within};
use imbl::{OrdMap, OrdSet};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    pub actions: Vec<String>,
    pub not_actions: Vec<String>,
    pub data_actions: Vec<String>,
    pub not_data_actions: Vec<String>,
}

impl Permission {
    pub fn allows(&self, action: &str, data: bool) -> bool {
        let (yes, no) = match data {
            false => (&self.actions, &self.not_actions),
            true => (&self.data_actions, &self.not_data_actions),
        };
        yes.iter().any(|p| matches(p, action)) && !no.iter().any(|p| matches(p, action))
    }

    pub fn json(&self) -> Value {
        json!({
            "actions": self.actions, "notActions": self.not_actions,
            "dataActions": self.data_actions, "notDataActions": self.not_data_actions,
        })
    }

    /// Reads one from a role definition; absent lists are empty.
    pub fn read(v: &Value) -> Permission {
        let list = |name: &str| -> Vec<String> {
            let l = v.get(name).and_then(Value::as_array);
            l.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Permission {
            actions: list("actions"),
            not_actions: list("notActions"),
            data_actions: list("dataActions"),
            not_data_actions: list("notDataActions"),
        }
    }
}

/// Whether `pattern` covers `action`.
pub fn matches(pattern: &str, action: &str) -> bool {
    let (p, a) = (pattern.as_bytes(), action.as_bytes());
    let (mut i, mut j) = (0, 0);
    // Where to go back to when the text after the last star turns out not to fit.
    let mut star: Option<(usize, usize)> = None;
    while j < a.len() {
        if i < p.len() && p[i] == b'*' {
            star = Some((i, j));
            i += 1;
        } else if i < p.len() && p[i].eq_ignore_ascii_case(&a[j]) {
            (i, j) = (i + 1, j + 1);
        } else if let Some((si, sj)) = star {
            star = Some((si, sj + 1));
            (i, j) = (si + 1, sj + 1);
        } else {
            return false;
        }
    }
    p[i..].iter().all(|c| *c == b'*')
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// A GUID, lower case.
    pub id: String,
    pub name: String,
    pub builtin: bool,
    pub permissions: Vec<Permission>,
}

/// The roles whose action lists are part of the simulator; others come with the configuration.
pub static BUILTIN: LazyLock<Vec<Arc<Role>>> = LazyLock::new(|| {
    let mut roles = read_table(include_str!("roles.txt"));
    roles.extend(read_table(include_str!("aro.txt")));
    roles
});

fn read_table(text: &str) -> Vec<Arc<Role>> {
    let mut roles: Vec<Role> = Vec::new();
    for line in text.lines() {
        let Some((mark, rest)) = line.split_once(' ') else { continue };
        if mark == "role" {
            let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
            let permissions = vec![Permission::default()];
            roles.push(Role { id: id.into(), name: name.into(), builtin: true, permissions });
            continue;
        }
        let Some(p) = roles.last_mut().and_then(|r| r.permissions.first_mut()) else { continue };
        let list = match mark {
            "+" => &mut p.actions,
            "-" => &mut p.not_actions,
            "d+" => &mut p.data_actions,
            "d-" => &mut p.not_data_actions,
            _ => continue,
        };
        match rest.split_once(": ") {
            Some((kind, verbs)) => list.extend(verbs.split(' ').map(|v| format!("{kind}/{v}"))),
            None => list.push(rest.to_owned()),
        }
    }
    roles.into_iter().map(Arc::new).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub id: Key,
    pub principal: String,
    pub role: String,
    /// Lower case; empty for the tenant.
    pub scope: Key,
    /// From when on it is enforced.
    pub since: Timestamp,
}

/// A right that was taken away and is still enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lingering {
    pub of: Arc<Assignment>,
    pub until: Timestamp,
}

/// The assignments in force, found by principal.
#[derive(Clone, Debug, Default)]
pub struct Assignments {
    /// Those taken away of which not everybody knows yet.
    pub lingering: OrdMap<Key, Arc<Lingering>>,
    by_id: OrdMap<Key, Arc<Assignment>>,
    by_principal: OrdSet<(String, Key)>,
    pub roles: OrdMap<String, Arc<Role>>,
    /// The time by which those are judged that are not enforced yet.
    pub at: Timestamp,
}

impl Assignments {
    pub fn add(&mut self, a: Assignment) {
        self.remove(&a.id);
        self.by_principal.insert((a.principal.to_lowercase(), a.id.clone()));
        self.by_id.insert(a.id.clone(), Arc::new(a));
    }

    pub fn remove(&mut self, id: &str) {
        if let Some(a) = self.by_id.remove(id) {
            self.by_principal.remove(&(a.principal.to_lowercase(), a.id.clone()));
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Assignment>> {
        self.by_id.values()
    }

    pub fn of<'a>(&'a self, principal: &str) -> impl Iterator<Item = &'a Arc<Assignment>> + use<'a> {
        let principal = principal.to_lowercase();
        self.by_principal
            .range((principal.clone(), Key::from(""))..)
            .take_while(move |(p, _)| *p == principal)
            .filter_map(|(_, id)| self.by_id.get(id))
    }

    pub fn role(&self, id: &str) -> Option<&Arc<Role>> {
        self.roles.get(&id.to_lowercase())
    }

    /// The assignment that allows it, if one does.
    pub fn allowed(
        &self,
        principal: &str,
        action: &str,
        scope: &str,
        data: bool,
    ) -> Option<&Arc<Assignment>> {
        let covers = |a: &Assignment| {
            (a.scope.is_empty() || is_within(scope, &a.scope))
                && a.since <= self.at
                && self.role(&a.role).is_some_and(|r| r.permissions.iter().any(|p| p.allows(action, data)))
        };
        self.of(principal).find(|a| covers(a)).or_else(|| {
            let lingers = |l: &&Arc<Lingering>| {
                l.of.principal.eq_ignore_ascii_case(principal) && self.at < l.until && covers(&l.of)
            };
            self.lingering.values().find(lingers).map(|l| &l.of)
        })
    }

    /// An assignment of this principal's at a scope or below it.
    pub fn any_below(&self, principal: &str, scope: &str) -> Option<&Arc<Assignment>> {
        self.of(principal).find(|a| a.since <= self.at && is_within(&a.scope, scope))
    }

    /// Takes an assignment away, of which everybody knows only at `until`.
    pub fn fade(&mut self, id: &str, until: Timestamp) {
        let over: Vec<Key> =
            self.lingering.iter().filter(|(_, l)| l.until <= self.at).map(|(k, _)| k.clone()).collect();
        for k in over {
            self.lingering.remove(&k);
        }
        if let Some(of) = self.by_id.get(id).filter(|_| until > self.at).cloned() {
            self.lingering.insert(of.id.clone(), Arc::new(Lingering { of, until }));
        }
        self.remove(id);
    }

    /// What a principal has at a scope, for the `permissions` API and the reports.
    pub fn permissions(&self, principal: &str, scope: &str) -> Vec<Permission> {
        self.of(principal)
            .filter(|a| a.scope.is_empty() || is_within(scope, &a.scope))
            .filter_map(|a| self.role(&a.role))
            .flat_map(|r| r.permissions.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_match_any_run() {
        let cases = [
            ("*", "a/b/read", true),
            ("*/read", "a/b/read", true),
            ("*/read", "a/b/write", false),
            ("A.B/*/Write", "a.b/c/d/write", true),
            ("A.B/*/Write", "a.b/write", false),
            ("A.B/c/read", "A.B/C/READ", true),
            ("A.B/c/read", "A.B/c/reads", false),
            ("a*b*c", "aXbYbZc", true),
            ("", "", true),
            ("", "a", false),
        ];
        for (p, a, want) in cases {
            assert_eq!(matches(p, a), want, "{p} {a}");
        }
    }

    fn world(roles: Vec<Role>, given: &[(&str, &str)]) -> Assignments {
        let mut a = Assignments::default();
        for r in roles {
            a.roles.insert(r.id.clone(), Arc::new(r));
        }
        for (i, (role, scope)) in given.iter().enumerate() {
            a.add(Assignment {
                id: format!("a{i}").into(),
                principal: "p".into(),
                role: (*role).into(),
                scope: (*scope).into(),
                since: Timestamp::MIN,
            });
        }
        a
    }

    fn role(id: &str, yes: &[&str], no: &[&str]) -> Role {
        let own = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect();
        let p = Permission { actions: own(yes), not_actions: own(no), ..Permission::default() };
        Role { id: id.into(), name: id.into(), builtin: false, permissions: vec![p] }
    }

    #[test]
    fn scopes_inherit_and_not_actions_subtract_only_from_their_own_role() {
        let roles = vec![role("most", &["*"], &["a.b/*/write"]), role("write", &["a.b/c/write"], &[])];
        let a = world(roles, &[("most", "/subscriptions/s"), ("write", "/subscriptions/s/resourcegroups/g")]);
        let group = "/subscriptions/s/resourcegroups/g";
        let may = |action: &str, scope: &str| a.allowed("P", action, scope, false).is_some();
        assert!(may("a.b/c/read", group) && may("a.b/c/write", group));
        assert!(!may("a.b/c/write", "/subscriptions/s"), "inheritance goes down only");
        assert!(!may("a.b/d/write", group));
        assert!(!may("a.b/c/read", "/subscriptions/s2"), "scopes end at segments");
        assert!(a.allowed("p", "a.b/c/read", group, true).is_none(), "actions do not grant data");
        assert!(a.allowed("q", "a.b/c/read", group, false).is_none());
    }

    #[test]
    fn the_table_reads() {
        let find = |n: &str| BUILTIN.iter().find(|r| r.name == n).unwrap();
        assert!(find("Contributor").permissions[0].allows("Microsoft.Network/x/write", false));
        assert!(
            !find("Contributor").permissions[0]
                .allows("microsoft.authorization/roleassignments/write", false)
        );
        assert!(find("Reader").permissions[0].allows("Microsoft.Network/x/read", false));
        assert!(
            find("Key Vault Secrets User").permissions[0]
                .allows("Microsoft.KeyVault/vaults/secrets/getSecret/action", true)
        );
    }

    /// The definition, word by word: slow, and obviously so.
    fn covers(pattern: &[char], action: &[char]) -> bool {
        match (pattern.first(), action.first()) {
            (None, None) => true,
            (Some('*'), _) => (0..=action.len()).any(|n| covers(&pattern[1..], &action[n..])),
            (Some(p), Some(a)) => p == a && covers(&pattern[1..], &action[1..]),
            _ => false,
        }
    }

    fn oracle(roles: &[Role], given: &[(usize, String)], action: &str, scope: &str, data: bool) -> bool {
        let lower = |s: &str| s.to_lowercase().chars().collect::<Vec<char>>();
        let any = |l: &[String]| l.iter().any(|p| covers(&lower(p), &lower(action)));
        given.iter().any(|(role, at)| {
            let (at, scope) = (at.to_lowercase(), scope.to_lowercase());
            let inherits = at.is_empty() || scope == at || scope.starts_with(&format!("{at}/"));
            inherits
                && roles[*role].permissions.iter().any(|p| match data {
                    false => any(&p.actions) && !any(&p.not_actions),
                    true => any(&p.data_actions) && !any(&p.not_data_actions),
                })
        })
    }

    fn patterns() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("(\\*|[aA]/|[bB]/|read|Write|[aAbB]|/){1,4}", 0..4)
    }

    prop_compose! {
        fn any_role()(list in proptest::collection::vec((patterns(), patterns(), patterns(), patterns()), 1..3)) -> Vec<Permission> {
            list.into_iter().map(|(actions, not_actions, data_actions, not_data_actions)| Permission { actions, not_actions, data_actions, not_data_actions }).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn decides_as_defined(
            roles in proptest::collection::vec(any_role(), 1..4),
            given in proptest::collection::vec((0..4usize, "(/[xX](/[yY](/z)?)?)?"), 0..5),
            action in "(a/|B/|b/|A/){0,2}(read|write|WRITE|a)",
            scope in "/[xX](/[yY]{1,2}(/[zZ])?)?",
            data in any::<bool>(),
        ) {
            let roles: Vec<Role> = roles.into_iter().enumerate().map(|(i, permissions)| Role { id: format!("r{i}"), name: String::new(), builtin: false, permissions }).collect();
            let given: Vec<(usize, String)> = given.into_iter().map(|(r, s)| (r % roles.len(), s)).collect();
            let mut a = Assignments::default();
            for r in &roles {
                a.roles.insert(r.id.clone(), Arc::new(r.clone()));
            }
            for (i, (r, s)) in given.iter().enumerate() {
                a.add(Assignment { id: format!("a{i}").into(), principal: "P".into(), role: format!("R{r}"), scope: s.to_lowercase().into(), since: Timestamp::MIN });
            }
            let got = a.allowed("p", &action, &scope.to_lowercase(), data).is_some();
            prop_assert_eq!(got, oracle(&roles, &given, &action, &scope, data));
        }
    }

    proptest! {
        #[test]
        fn a_pattern_of_itself_matches(parts in proptest::collection::vec("[a-z./]{0,4}", 1..5), fill in "[a-z/]{0,6}") {
            prop_assert!(matches(&parts.join("*"), &parts.join(&fill)));
        }

        #[test]
        fn more_assignments_never_allow_less(n in 0usize..6, action in "[ab]/[cd]/(read|write)") {
            let roles = || vec![role("r0", &["a/*"], &["*/write"]), role("r1", &["*/read"], &[]), role("r2", &["b/c/*"], &[])];
            let given: Vec<(&str, &str)> = [("r0", "/x"), ("r1", "/x/y"), ("r2", "/x"), ("r0", "/x/y"), ("r1", ""), ("r2", "/z")].into_iter().take(n).collect();
            let fewer = world(roles(), &given[..n.saturating_sub(1)]);
            let more = world(roles(), &given);
            if fewer.allowed("p", &action, "/x/y/z", false).is_some() {
                prop_assert!(more.allowed("p", &action, "/x/y/z", false).is_some());
            }
        }
    }
}
