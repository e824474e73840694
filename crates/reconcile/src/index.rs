//! Finding objects by something other than their name.
//!
//! A [`View`](crate::View) is searched by walking over it, which is fine for the handful of objects in one namespace and
//! not for a namespace that a thousand objects share. An index says where the objects are that a word was found in: their
//! owner, whom they belong to, what they name.

use crate::view::{Place, place};
use crate::watch::{News, Sink, Source};
use kube::core::DynamicObject;
use parking_lot::RwLock;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

type Map = Box<dyn Fn(&DynamicObject) -> Vec<String> + Send + Sync>;

/// Objects by words that a function finds in them. Attach to one watch.
pub struct Index {
    map: Map,
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    words: HashMap<Place, Vec<String>>,
    places: HashMap<String, BTreeSet<Place>>,
    list: Option<HashSet<Place>>,
}

impl Inner {
    fn put(&mut self, at: Place, words: Vec<String>) {
        if self.words.get(&at).is_some_and(|before| *before == words) {
            return;
        }
        self.forget(&at);
        // Of most objects of a large kind there is nothing to say.
        if words.is_empty() {
            return;
        }
        for w in &words {
            self.places.entry(w.clone()).or_default().insert(at.clone());
        }
        self.words.insert(at, words);
    }

    fn forget(&mut self, at: &Place) {
        for w in self.words.remove(at).into_iter().flatten() {
            if let Some(set) = self.places.get_mut(&w) {
                set.remove(at);
                if set.is_empty() {
                    self.places.remove(&w);
                }
            }
        }
    }
}

impl Index {
    pub fn new(map: impl Fn(&DynamicObject) -> Vec<String> + Send + Sync + 'static) -> Arc<Index> {
        Arc::new(Index { map: Box::new(map), inner: RwLock::default() })
    }

    /// In order of namespace and name.
    pub fn get(&self, word: &str) -> Vec<Place> {
        self.inner.read().places.get(word).map(|s| s.iter().cloned().collect()).unwrap_or_default()
    }
}

impl Sink for Index {
    fn hear(&self, _: &Source, news: News<'_>) {
        match news {
            News::Begin => self.inner.write().list = Some(HashSet::new()),
            News::Listed(o) | News::Changed(o) => {
                let (at, words) = (place(o), (self.map)(o));
                let mut inner = self.inner.write();
                if let Some(list) = inner.list.as_mut() {
                    list.insert(at.clone());
                }
                inner.put(at, words);
            }
            News::Gone(o) => self.inner.write().forget(&place(o)),
            News::Complete => {
                let mut inner = self.inner.write();
                let Some(list) = inner.list.take() else { return };
                let gone: Vec<Place> = inner.words.keys().filter(|p| !list.contains(*p)).cloned().collect();
                for at in gone {
                    inner.forget(&at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn object(name: &str, words: &str) -> DynamicObject {
        let o = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "ns", "name": name}, "data": {"words": words}});
        serde_json::from_value(o).unwrap()
    }

    fn source() -> Source {
        let kind = Kind::of::<ConfigMap>();
        Source {
            id: 1,
            kind,
            depth: crate::Depth::Whole,
            namespace: String::new(),
            labels: Default::default(),
            name: None,
            fields: String::new(),
        }
    }

    fn by_words() -> Arc<Index> {
        Index::new(|o| {
            let words = o.data["data"]["words"].as_str().unwrap_or_default();
            words.split_whitespace().map(str::to_owned).collect()
        })
    }

    fn names(index: &Index, word: &str) -> Vec<String> {
        index.get(word).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn objects_are_found_by_what_they_say_now() {
        let (index, from) = (by_words(), source());
        index.hear(&from, News::Changed(&object("b", "red blue")));
        index.hear(&from, News::Changed(&object("a", "red")));
        index.hear(&from, News::Changed(&object("c", "")));
        assert_eq!(names(&index, "red"), ["a", "b"]);
        index.hear(&from, News::Changed(&object("b", "green blue")));
        assert_eq!((names(&index, "red"), names(&index, "green")), (vec!["a".to_owned()], vec!["b".into()]));
        index.hear(&from, News::Changed(&object("a", "")));
        index.hear(&from, News::Gone(&object("b", "green blue")));
        let inner = index.inner.read();
        assert!(inner.words.is_empty() && inner.places.is_empty(), "nothing is kept of what says nothing");
    }

    #[test]
    fn a_list_that_lacks_something_ends_it() {
        let (index, from) = (by_words(), source());
        for name in ["a", "b"] {
            index.hear(&from, News::Changed(&object(name, "red")));
        }
        index.hear(&from, News::Begin);
        index.hear(&from, News::Listed(&object("b", "red")));
        assert_eq!(names(&index, "red"), ["a", "b"], "it goes on until the list is whole");
        index.hear(&from, News::Complete);
        assert_eq!(names(&index, "red"), ["b"]);
    }
}
