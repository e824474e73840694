//! The shared ingress as a key of its own: from what clusters, Routes and Services mean for it, to its objects.

use super::Operator;
use crate::ingress::{self, Exposed, Front, Published, Rolled, Target, Ways};
use apis::hypershift::HostedCluster;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{Failure, Handle, News, Outcome, Sink, Source, View};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The key: no cluster has it, for want of a namespace.
pub(super) const KEY: &str = "shared-ingress";

type Place = (String, String);

/// What objects mean for the ingress. Most changes of a HostedCluster are its status and mean nothing: only what means
/// something else than before wakes, so that a thousand settled clusters cost it nothing.
pub struct Meant<T> {
    of: fn(&DynamicObject) -> Option<T>,
    known: Mutex<Known<T>>,
    wakes: OnceLock<Handle>,
}

struct Known<T> {
    all: BTreeMap<Place, T>,
    lists: HashMap<u32, HashSet<Place>>,
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Meant<T> {
    fn new(of: fn(&DynamicObject) -> Option<T>) -> Arc<Meant<T>> {
        let known = Mutex::new(Known { all: BTreeMap::new(), lists: HashMap::new() });
        Arc::new(Meant { of, known, wakes: OnceLock::new() })
    }

    fn all(&self) -> Vec<T> {
        self.known.lock().all.values().cloned().collect()
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Sink for Meant<T> {
    fn hear(&self, from: &Source, news: News<'_>) {
        let place = |o: &DynamicObject| {
            (o.metadata.namespace.clone().unwrap_or_default(), o.metadata.name.clone().unwrap_or_default())
        };
        let mut known = self.known.lock();
        let changed = match news {
            News::Begin => {
                known.lists.insert(from.id, HashSet::new());
                false
            }
            News::Listed(o) | News::Changed(o) => {
                let (place, means) = (place(o), (self.of)(o));
                if let Some(list) = known.lists.get_mut(&from.id) {
                    list.insert(place.clone());
                }
                match means {
                    Some(means) if known.all.get(&place) == Some(&means) => false,
                    Some(means) => {
                        known.all.insert(place, means);
                        true
                    }
                    None => known.all.remove(&place).is_some(),
                }
            }
            News::Gone(o) => known.all.remove(&place(o)).is_some(),
            News::Complete => {
                let list = known.lists.remove(&from.id);
                let before = known.all.len();
                if let Some(list) = list {
                    known.all.retain(|place, _| list.contains(place));
                }
                known.all.len() != before
            }
        };
        drop(known);
        if changed && let Some(handle) = self.wakes.get() {
            handle.poke(KEY);
        }
    }
}

/// Everything that means something.
pub struct Meanings {
    pub(super) fronts: Arc<Meant<Front>>,
    pub(super) routes: Arc<Meant<Published>>,
    pub(super) services: Arc<Meant<Target>>,
    pub(super) router: Arc<View<Rolled>>,
    /// The newest configuration, by its hash, and whom it leads to; nothing before the first was made.
    led: Mutex<Option<(String, BTreeSet<String>)>>,
}

impl Default for Meanings {
    fn default() -> Meanings {
        Meanings {
            fronts: Meant::new(Front::of),
            routes: Meant::new(Published::of),
            services: Meant::new(Target::of),
            router: View::new(Rolled::of),
            led: Mutex::default(),
        }
    }
}

impl Meanings {
    pub(super) fn wake(&self, handle: &Handle) {
        let _ = self.fronts.wakes.set(handle.clone());
        let _ = self.routes.wakes.set(handle.clone());
        let _ = self.services.wakes.set(handle.clone());
    }
}

impl Operator {
    /// Makes it when the first cluster needs it. It stays when the last has gone: names lead to its address.
    pub(super) async fn shared_ingress(&self) -> Result<Outcome, Failure> {
        let Some(image) = self.around.shared_ingress() else { return Ok(Outcome::Done) };
        let meant = &self.meanings;
        let fronts = meant.fronts.all();
        if fronts.is_empty() && self.views.spaces.get("", ingress::NAMESPACE).is_none() {
            *meant.led.lock() = Some(Default::default());
            return Ok(Outcome::Done);
        }
        let ways = Ways::of(&fronts, &meant.routes.all(), &meant.services.all());
        let led = (ingress::hash(&ingress::configuration(&ways)), ingress::led_to(&ways));
        let before = meant.led.lock().replace(led.clone());
        if before.as_ref() != Some(&led)
            && let Some(handle) = meant.fronts.wakes.get()
        {
            swift_keys(&self.views.clusters).iter().for_each(|key| handle.poke(key));
        }
        let mut objects = ingress::objects(&ways, &image, &self.around.blocked()).into_iter();
        if let Some(namespace) = objects.next() {
            self.applier.apply(&self.applier.desired(namespace)?).await?;
        }
        let desired: Result<Vec<_>, _> = objects.map(|o| self.applier.desired(o)).collect();
        self.applier.apply_all(&desired?).await.into_result()?;
        Ok(Outcome::Done)
    }

    /// Whether a cluster's public endpoint is as its topology says; nothing while nobody has looked.
    pub(super) fn exposed(&self, hc: &HostedCluster) -> Option<Exposed> {
        let rolled = self.meanings.router.get(ingress::NAMESPACE, ingress::ROUTER);
        Some(Exposed::of(hc, self.meanings.led.lock().as_ref()?, rolled.as_deref()))
    }
}

/// Keys of clusters whose public endpoint comes and goes.
pub(super) fn swift_keys(clusters: &View<DynamicObject>) -> Vec<String> {
    let private = |o: &DynamicObject| {
        let azure = &o.data["spec"]["platform"]["azure"];
        let annotated = o.metadata.annotations.as_ref();
        azure["private"]["type"] == "Swift"
            || annotated.is_some_and(|a| a.contains_key(apis::names::annotation::SWIFT_POD_NETWORK_INSTANCE))
    };
    let key = |o: &DynamicObject| {
        Some(format!("{}/{}", o.metadata.namespace.as_deref()?, o.metadata.name.as_deref()?))
    };
    clusters.all().iter().filter(|o| private(o)).filter_map(|o| key(o)).collect()
}
