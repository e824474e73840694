//! By what objects are found, and what was asked of the server and not yet heard of. Whoever remembers hears of ends, too,
//! and forgets.

use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{News, Place, Sink, Source, place};
use std::collections::{BTreeSet, HashMap};

/// `kind/namespace/name` of an object's controller, or `orphan/namespace`.
pub fn owner_word(o: &DynamicObject) -> String {
    let namespace = o.metadata.namespace.as_deref().unwrap_or_default();
    match controller(o) {
        Some((kind, name)) => format!("{kind}/{namespace}/{name}"),
        None => format!("orphan/{namespace}"),
    }
}

/// Kind and name.
pub fn controller(o: &DynamicObject) -> Option<(&str, &str)> {
    let owners = o.metadata.owner_references.iter().flatten();
    owners.filter(|r| r.controller == Some(true)).map(|r| (&*r.kind, &*r.name)).next()
}

/// Whether this very object is its controller.
pub fn is_controlled_by(o: &DynamicObject, owner: &DynamicObject) -> bool {
    let owners = o.metadata.owner_references.iter().flatten();
    owners.filter(|r| r.controller == Some(true)).any(|r| Some(&r.uid) == owner.metadata.uid.as_ref())
}

/// What was asked of the server, until a watch tells of it. Without this, a controller that is woken before the watch
/// has caught up would make a machine twice, or take away one too many.
#[derive(Default)]
pub struct Expected(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    /// Who wants it to be there, and in which round of lists it was asked for.
    made: HashMap<Place, (String, u64)>,
    /// By uid.
    gone: HashMap<Place, String>,
    round: u64,
    began: u64,
}

impl Expected {
    /// Before it is asked for.
    pub fn make(&self, at: &Place, owner: &str) {
        let mut asked = self.0.lock();
        let round = asked.round;
        asked.made.insert(at.clone(), (owner.to_owned(), round));
    }

    /// It was refused, and is not there.
    pub fn refused(&self, at: &Place) {
        self.0.lock().made.remove(at);
    }

    pub fn made_for(&self, owner: &str) -> Vec<Place> {
        self.0.lock().made.iter().filter(|(_, (o, _))| o == owner).map(|(p, _)| p.clone()).collect()
    }

    pub fn is_made(&self, at: &Place) -> bool {
        self.0.lock().made.contains_key(at)
    }

    pub fn delete(&self, at: &Place, uid: &str) {
        self.0.lock().gone.insert(at.clone(), uid.to_owned());
    }

    pub fn kept(&self, at: &Place) {
        self.0.lock().gone.remove(at);
    }

    pub fn is_going(&self, o: &DynamicObject) -> bool {
        self.0.lock().gone.get(&place(o)).is_some_and(|uid| Some(uid) == o.metadata.uid.as_ref())
    }
}

impl Sink for Expected {
    fn hear(&self, _: &Source, news: News<'_>) {
        let mut asked = self.0.lock();
        match news {
            News::Begin => {
                asked.began = asked.round;
                asked.round += 1;
            }
            News::Listed(o) | News::Changed(o) => {
                let at = place(o);
                asked.made.remove(&at);
                if o.metadata.deletion_timestamp.is_some() || asked.gone.get(&at) != o.metadata.uid.as_ref() {
                    asked.gone.remove(&at);
                }
            }
            News::Gone(o) => {
                let at = place(o);
                asked.made.remove(&at);
                asked.gone.remove(&at);
            }
            // What was asked for before the list began and is not in it has come and gone.
            News::Complete => {
                let began = asked.began;
                asked.made.retain(|_, (_, round)| *round > began);
            }
        }
    }
}

/// Versions that we wrote, by uid, until the watch has caught up.
#[derive(Default)]
pub struct Versions(Mutex<HashMap<String, u64>>);

fn version(o: &DynamicObject) -> Option<u64> {
    o.metadata.resource_version.as_deref()?.parse().ok()
}

impl Versions {
    pub fn wrote(&self, live: &DynamicObject) {
        // What is gone with this write is told of by its end, not by a version.
        let ends = live.metadata.deletion_timestamp.is_some()
            && live.metadata.finalizers.iter().flatten().next().is_none();
        if let (Some(uid), Some(now), false) = (&live.metadata.uid, version(live), ends) {
            self.0.lock().insert(uid.clone(), now);
        }
    }

    /// Whether what was seen is older than what we wrote.
    pub fn is_stale(&self, seen: &DynamicObject) -> bool {
        let (Some(uid), Some(now)) = (&seen.metadata.uid, version(seen)) else { return false };
        let mut versions = self.0.lock();
        match versions.get(uid) {
            Some(wrote) if now < *wrote => true,
            Some(_) => {
                versions.remove(uid);
                false
            }
            None => false,
        }
    }

    fn ended(&self, o: &DynamicObject) {
        if let Some(uid) = &o.metadata.uid {
            self.0.lock().remove(uid);
        }
    }
}

impl Sink for Versions {
    fn hear(&self, _: &Source, news: News<'_>) {
        if let News::Gone(o) = news {
            self.ended(o);
        }
    }
}

/// AzureMachines by the Secret that they wait for. Attach to their watch.
#[derive(Default)]
pub struct Boots(Mutex<HashMap<Place, BTreeSet<String>>>);

impl Boots {
    pub fn wait(&self, secret: Place, key: String) {
        self.0.lock().entry(secret).or_default().insert(key);
    }

    /// It is there: who waited for it.
    pub fn come(&self, secret: &Place) -> BTreeSet<String> {
        self.0.lock().remove(secret).unwrap_or_default()
    }

    fn ended(&self, o: &DynamicObject) {
        let (namespace, name) = place(o);
        let key = format!("{namespace}/{name}");
        self.0.lock().retain(|_, waiting| {
            waiting.remove(&key);
            !waiting.is_empty()
        });
    }
}

impl Sink for Boots {
    fn hear(&self, _: &Source, news: News<'_>) {
        if let News::Gone(o) = news {
            self.ended(o);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: &str) -> DynamicObject {
        let o = serde_json::json!({"apiVersion": "v1", "kind": "x",
            "metadata": {"namespace": "ns", "name": "m", "uid": "u", "resourceVersion": version}});
        serde_json::from_value(o).unwrap()
    }

    #[test]
    fn nothing_is_kept_of_what_is_gone() {
        let versions = Versions::default();
        versions.wrote(&object("7"));
        assert!(versions.is_stale(&object("6")));
        versions.ended(&object("8"));
        assert!(versions.0.lock().is_empty());
        let (boots, secret) = (Boots::default(), ("ns".to_owned(), "data".to_owned()));
        boots.wait(secret.clone(), "ns/m".into());
        boots.wait(secret.clone(), "ns/n".into());
        boots.ended(&object("8"));
        assert_eq!(boots.come(&secret), BTreeSet::from(["ns/n".to_owned()]));
        boots.wait(secret, "ns/m".into());
        boots.ended(&object("8"));
        assert!(boots.0.lock().is_empty());
    }
}
