//! Reading what Secrets and ConfigMaps hold, once per version of them.
//!
//! Watches tell which version there is, without what it holds: the Secrets of a whole management cluster need not travel,
//! nor lie in memory, for the few that clusters name.

use super::views::Views;
use crate::inputs::{Data, Found, Given, Input, Sort};
use crate::kinds;
use apis::names::annotation;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::Failure;
use std::collections::HashMap;
use std::sync::Arc;

type Place = (Sort, String, String);

/// See the module.
pub struct Fetch {
    client: Client,
    kept: Mutex<HashMap<Place, (String, Given)>>,
}

/// More than any input should have; what is larger is refused by the API.
const MOST_KEYS: usize = 4096;

fn read(sort: Sort, o: &DynamicObject) -> Given {
    let mut data = Data::new();
    let fields = ["data", "binaryData"].into_iter().filter_map(|f| Some((f, o.data.get(f)?.as_object()?)));
    for (field, map) in fields {
        for (k, v) in map.iter().take(MOST_KEYS) {
            let text = v.as_str().unwrap_or_default();
            let value = match (sort, field) {
                (Sort::ConfigMap, "data") => text.as_bytes().to_vec(),
                _ => STANDARD.decode(text).unwrap_or_default(),
            };
            data.insert(k.clone(), value);
        }
    }
    let marked = o.metadata.annotations.as_ref().and_then(|a| a.get(annotation::HOSTED_CLUSTER_SOURCED));
    Given {
        data: Arc::new(data),
        type_: o.data.get("type").and_then(|t| t.as_str()).unwrap_or("Opaque").to_owned(),
        placeholder: marked.is_some_and(|m| m == "true"),
    }
}

impl Fetch {
    pub fn new(client: Client) -> Fetch {
        Fetch { client, kept: Mutex::default() }
    }

    /// One object; nothing if no watch knows of it, or it is gone.
    pub async fn one(
        &self,
        views: &Views,
        sort: Sort,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Given>, Failure> {
        let place = (sort, namespace.to_owned(), name.to_owned());
        let Some(mark) = views.mark(sort, namespace, name) else {
            self.kept.lock().remove(&place);
            return Ok(None);
        };
        if let Some((version, given)) = self.kept.lock().get(&place)
            && *version == mark.version
        {
            return Ok(Some(given.clone()));
        }
        let kind = match sort {
            Sort::Secret => kinds::SECRET,
            Sort::ConfigMap => kinds::CONFIG_MAP,
        };
        let Some(o) = kind.api(&self.client, namespace).get_opt(name).await? else { return Ok(None) };
        let given = read(sort, &o);
        let version = o.metadata.resource_version.unwrap_or_default();
        self.kept.lock().insert(place, (version, given.clone()));
        Ok(Some(given))
    }

    /// What was read of an object before, without asking.
    pub fn known(&self, sort: Sort, namespace: &str, name: &str) -> Option<Given> {
        let place = (sort, namespace.to_owned(), name.to_owned());
        self.kept.lock().get(&place).map(|(_, given)| given.clone())
    }

    /// Everything a cluster names, as far as it is there.
    pub async fn all(&self, views: &Views, namespace: &str, inputs: &[Input]) -> Result<Found, Failure> {
        let mut found = Found::default();
        for i in inputs {
            if let Some(given) = self.one(views, i.sort, namespace, &i.name).await? {
                found.0.insert((i.sort, i.name.clone()), given);
            }
        }
        Ok(found)
    }

    /// Forgets what no watch knows of any more.
    pub fn tidy(&self, views: &Views) {
        self.kept.lock().retain(|(sort, namespace, name), _| views.mark(*sort, namespace, name).is_some());
    }
}
