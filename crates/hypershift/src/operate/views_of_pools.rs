//! Which clusters a Secret or ConfigMap concerns, for those who look after their pools.

use super::views::{BOOT, Views, named};
use crate::inputs::Sort;
use apis::names::annotation;
use kube::core::DynamicObject;
use reconcile::{Index, View};
use std::sync::Arc;

pub(crate) struct Clusters {
    clusters_by: Arc<Index>,
    planes: Arc<View<DynamicObject>>,
}

impl Clusters {
    pub(crate) fn of(views: &Views) -> Clusters {
        Clusters { clusters_by: views.clusters_by.clone(), planes: views.planes.clone() }
    }

    /// Keys of clusters that name it, or whose control plane wrote it for nodes.
    pub(crate) fn concerned(&self, sort: Sort, namespace: &str, name: &str) -> Vec<String> {
        let all = self.clusters_by.get(&named(sort, namespace, name)).into_iter();
        let mut out: Vec<String> = all.map(|(namespace, cluster)| format!("{namespace}/{cluster}")).collect();
        if BOOT.contains(&name) {
            let planes = self.planes.within(namespace);
            let keys = planes
                .iter()
                .filter_map(|p| p.metadata.annotations.as_ref()?.get(annotation::HOSTED_CLUSTER));
            out.extend(keys.cloned());
        }
        out
    }
}
