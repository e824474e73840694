//! What is known, and which cluster is looked at.

use super::Change;
use super::azure::Seen;
use serde_json::Value;
use std::collections::BTreeMap;

/// Events that are kept.
const EVENTS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Cluster,
    Pool,
    Component,
    Machine,
    Event,
}

pub fn text<'a>(o: &'a Value, path: &str) -> &'a str {
    o.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn condition<'a>(object: &'a Value, kind: &str, part: &str) -> &'a str {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.filter(|c| c["type"] == kind).find_map(|c| c[part].as_str()).unwrap_or_default()
}

fn key(o: &Value) -> String {
    format!("{}/{}", text(o, "/metadata/namespace"), text(o, "/metadata/name"))
}

/// When an event was last seen; several fields may say it.
pub fn seen(event: &Value) -> &str {
    let times = ["/lastTimestamp", "/eventTime", "/firstTimestamp", "/metadata/creationTimestamp"];
    times.iter().map(|t| text(event, t)).find(|t| !t.is_empty()).unwrap_or_default()
}

#[derive(Default)]
pub struct Board {
    named: Option<String>,
    at: usize,
    parts: BTreeMap<Part, BTreeMap<String, Value>>,
    pub azure: Seen,
    /// A watch that is not answered.
    pub trouble: Option<String>,
}

impl Board {
    pub fn new(named: Option<String>) -> Board {
        Board { named, ..Board::default() }
    }

    pub fn take(&mut self, change: Change) {
        match change {
            Change::Reset(part, namespace) => {
                let inside = format!("{namespace}/");
                let all = self.parts.entry(part).or_default();
                all.retain(|k, _| !namespace.is_empty() && !k.starts_with(&inside));
                self.trouble = None;
            }
            Change::Is(part, object) => {
                let all = self.parts.entry(part).or_default();
                all.insert(key(&object), object);
                if part == Part::Event && all.len() > EVENTS {
                    let oldest = all.iter().min_by_key(|(_, e)| seen(e).to_owned()).map(|(k, _)| k.clone());
                    oldest.map(|k| all.remove(&k));
                }
                self.trouble = None;
            }
            Change::Gone(part, object) => {
                self.parts.entry(part).or_default().remove(&key(&object));
            }
            Change::Trouble(why) => self.trouble = Some(why),
            Change::Azure(seen) => self.azure = seen,
        }
    }

    pub fn all(&self, part: Part) -> impl Iterator<Item = &Value> {
        self.parts.get(&part).into_iter().flat_map(BTreeMap::values)
    }

    /// Clusters that can be looked at.
    pub fn clusters(&self) -> Vec<&Value> {
        let named = |c: &&Value| self.named.as_deref().is_none_or(|n| text(c, "/metadata/name") == n);
        self.all(Part::Cluster).filter(named).collect()
    }

    /// The one that is looked at.
    pub fn cluster(&self) -> Option<&Value> {
        let all = self.clusters();
        all.get(self.at.min(all.len().saturating_sub(1))).copied()
    }

    pub fn chosen(&self) -> Option<(String, String)> {
        let c = self.cluster()?;
        Some((text(c, "/metadata/namespace").to_owned(), text(c, "/metadata/name").to_owned()))
    }

    /// Pools of the chosen cluster.
    pub fn pools(&self) -> Vec<&Value> {
        let Some((namespace, name)) = self.chosen() else { return Vec::new() };
        let mine =
            |p: &&Value| text(p, "/metadata/namespace") == namespace && text(p, "/spec/clusterName") == name;
        self.all(Part::Pool).filter(mine).collect()
    }

    /// Newest first.
    pub fn events(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = self.all(Part::Event).collect();
        all.sort_by(|a, b| seen(b).cmp(seen(a)));
        all
    }

    /// Where the chosen cluster is in Azure: its subscription and group.
    pub fn group(&self) -> Option<(String, String)> {
        let c = self.cluster()?;
        let at = |path: &str| Some(text(c, path).to_owned()).filter(|t| !t.is_empty());
        Some((at("/spec/platform/azure/subscriptionID")?, at("/spec/platform/azure/resourceGroup")?))
    }

    /// The next one, or the one before.
    pub fn choose(&mut self, by: isize) {
        let last = self.clusters().len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(by).min(last);
    }

    pub fn forget_chosen(&mut self) {
        for part in [Part::Component, Part::Machine, Part::Event] {
            self.parts.remove(&part);
        }
        self.azure = Seen::default();
    }
}
