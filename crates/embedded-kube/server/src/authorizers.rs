//! Authorizers of a cluster, one for each namespace that somebody asks about, built when they are asked for and the
//! objects behind them have changed.
//!
//! A management cluster has tens of thousands of roles and bindings, a few dozen for each namespace. Those of one
//! namespace are found by their keys, so that a role which is written in one costs nothing in the others. What was read of
//! an object is shared by all authorizers that are made of it, later ones and those of other clusters: guests have the very
//! same objects to begin with, and a management cluster with hundreds of bindings reads the one that is new.

use crate::cluster::{Cluster, Derived, tables};
use ek_auth::rbac::{Authorizer, Binding, Everywhere, Roles, Rule, rules_of};
use ek_store::{Entry, TableName};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, LazyLock, Weak};

/// As many namespaces are kept; with more, those that are asked about are built again.
const KEPT: usize = 64;

/// How new something is: revisions of the tables.
type Revisions = [u64; 2];

/// What a namespace's authorizer was made from: how many objects each table has there, and the newest of them.
type Made = [(usize, u64); 2];

#[derive(Default)]
pub struct Authorizers {
    everywhere: Derived<Everywhere>,
    namespaces: Mutex<HashMap<String, (Revisions, Made, Arc<Everywhere>, Arc<Authorizer>)>>,
}

/// What was read of objects, by where they are, while somebody has both.
struct Known<T>(LazyLock<Mutex<HashMap<usize, (Weak<Entry>, Weak<T>)>>>);

static RULES: Known<Vec<Rule>> = Known::none();
static BINDINGS: Known<Binding> = Known::none();

impl<T> Known<T> {
    const fn none() -> Known<T> {
        Known(LazyLock::new(Mutex::default))
    }

    /// An object that cannot be read is as one that says nothing.
    fn of(&self, entry: &Arc<Entry>, read: fn(&Value) -> T) -> Arc<T> {
        let at = Arc::as_ptr(entry) as usize;
        let known = self.0.lock().get(&at).and_then(|(e, value)| {
            // Another object may have come to lie there.
            let same = e.upgrade().is_some_and(|e| Arc::ptr_eq(&e, entry));
            value.upgrade().filter(|_| same)
        });
        if let Some(known) = known {
            return known;
        }
        let made = Arc::new(read(&crate::parse(entry).unwrap_or_default()));
        let mut all = self.0.lock();
        if all.len().is_power_of_two() {
            all.retain(|_, (_, value)| value.strong_count() > 0);
        }
        all.insert(at, (Arc::downgrade(entry), Arc::downgrade(&made)));
        made
    }
}

/// Names and entries of a table below a prefix of their keys.
fn below(cluster: &Cluster, table: &TableName, prefix: &str) -> Vec<(String, Arc<Entry>)> {
    let view = cluster.store.view(&cluster.id, table);
    let from = (Bound::Included(prefix), Bound::Unbounded);
    let all = view.objects.range::<_, str>(from).take_while(|(k, _)| k.starts_with(prefix));
    all.map(|(k, e)| (k[prefix.len()..].to_owned(), e.clone())).collect()
}

fn roles(entries: Vec<(String, Arc<Entry>)>) -> Roles {
    entries.into_iter().map(|(name, e)| (name, RULES.of(&e, rules_of))).collect()
}

fn bindings(entries: &[(String, Arc<Entry>)]) -> Vec<Arc<Binding>> {
    entries.iter().map(|(_, e)| BINDINGS.of(e, Binding::of)).collect()
}

impl Authorizers {
    fn everywhere(&self, cluster: &Cluster) -> Arc<Everywhere> {
        let sources: [&TableName; 2] = [&tables::CLUSTER_ROLES, &tables::CLUSTER_ROLE_BINDINGS];
        self.everywhere.get(
            || cluster.revisions(sources),
            |_| {
                let [all, bound] = sources.map(|t| below(cluster, t, ""));
                Everywhere::build(roles(all), &bindings(&bound))
            },
        )
    }

    pub fn of(&self, cluster: &Cluster, namespace: &str) -> Arc<Authorizer> {
        let everywhere = self.everywhere(cluster);
        let sources: [&TableName; 2] = [&tables::ROLES, &tables::ROLE_BINDINGS];
        // Read before the data: what is written in between is only looked at once more.
        let now = cluster.revisions(sources);
        let known = self.namespaces.lock().get(namespace).map(|(at, made, of, a)| {
            let same = Arc::ptr_eq(of, &everywhere);
            (*at == now && same, *made, same, a.clone())
        });
        if let Some((true, .., authorizer)) = known {
            return authorizer;
        }
        let found = match namespace {
            "" => [Vec::new(), Vec::new()],
            _ => sources.map(|t| below(cluster, t, &format!("{namespace}/"))),
        };
        let made: Made = [0, 1].map(|i: usize| {
            let newest = found[i].iter().map(|(_, e)| e.revision).max();
            (found[i].len(), newest.unwrap_or(0))
        });
        let authorizer = match known {
            Some((_, before, true, authorizer)) if before == made => authorizer,
            _ => {
                let [all, bound] = found;
                Arc::new(Authorizer::build(everywhere.clone(), namespace, roles(all), &bindings(&bound)))
            }
        };
        let mut kept = self.namespaces.lock();
        if kept.len() >= KEPT && !kept.contains_key(namespace) {
            kept.clear();
        }
        kept.insert(namespace.to_owned(), (now, made, everywhere, authorizer.clone()));
        authorizer
    }
}
