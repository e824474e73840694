//! What a watch last saw, to read without asking.
//!
//! A view keeps of each object what its owner needs, made by a function: a typed object, a few fields, or nothing for
//! objects that do not matter. A settled reconcile reads only views, and so costs no request.

use crate::watch::{News, Sink, Source};
use kube::core::DynamicObject;
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Namespace and name.
pub type Place = (String, String);

/// A read-only copy of part of a cluster, by namespace and name. Attach to one watch.
pub struct View<T> {
    keep: Box<dyn Fn(&DynamicObject) -> Option<T> + Send + Sync>,
    inner: RwLock<Inner<T>>,
}

struct Inner<T> {
    objects: BTreeMap<Place, Arc<T>>,
    lists: HashMap<u32, HashSet<Place>>,
}

impl<T: Send + Sync + 'static> View<T> {
    pub fn new(keep: impl Fn(&DynamicObject) -> Option<T> + Send + Sync + 'static) -> Arc<View<T>> {
        let inner = RwLock::new(Inner { objects: BTreeMap::new(), lists: HashMap::new() });
        Arc::new(View { keep: Box::new(keep), inner })
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.inner.read().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All of a namespace, in order of name.
    pub fn within(&self, namespace: &str) -> Vec<Arc<T>> {
        let inner = self.inner.read();
        let from = inner.objects.range((namespace.to_owned(), String::new())..);
        from.take_while(|((ns, _), _)| ns == namespace).map(|(_, o)| o.clone()).collect()
    }

    /// All, in order of namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.inner.read().objects.values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl View<DynamicObject> {
    /// Whole objects, without the record of who wrote what, which is often the larger half.
    pub fn whole() -> Arc<View<DynamicObject>> {
        View::new(|o| {
            let mut o = o.clone();
            o.metadata.managed_fields = None;
            Some(o)
        })
    }
}

/// Where an object lies.
pub fn place(o: &DynamicObject) -> Place {
    (o.metadata.namespace.clone().unwrap_or_default(), o.metadata.name.clone().unwrap_or_default())
}

impl<T: Send + Sync + 'static> Sink for View<T> {
    fn hear(&self, from: &Source, news: News<'_>) {
        match news {
            News::Begin => {
                self.inner.write().lists.insert(from.id, HashSet::new());
            }
            News::Listed(o) | News::Changed(o) => {
                let kept = (self.keep)(o);
                let place = place(o);
                let mut inner = self.inner.write();
                if let Some(list) = inner.lists.get_mut(&from.id) {
                    list.insert(place.clone());
                }
                match kept {
                    Some(kept) => inner.objects.insert(place, Arc::new(kept)),
                    None => inner.objects.remove(&place),
                };
            }
            News::Gone(o) => {
                self.inner.write().objects.remove(&place(o));
            }
            News::Complete => {
                let mut inner = self.inner.write();
                if let Some(list) = inner.lists.remove(&from.id) {
                    inner.objects.retain(|place, _| list.contains(place));
                }
            }
        }
    }
}
