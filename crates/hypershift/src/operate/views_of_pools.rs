//! Which clusters a Secret or ConfigMap concerns, for those who look after their pools.

use super::views::{BOOT, Names, Views};
use crate::inputs::Sort;
use apis::names::annotation;
use kube::core::DynamicObject;
use reconcile::View;
use std::sync::Arc;

pub(crate) struct Clusters {
    names: Arc<View<Names>>,
    planes: Arc<View<DynamicObject>>,
}

impl Clusters {
    pub(crate) fn of(views: &Views) -> Clusters {
        Clusters { names: views.names.clone(), planes: views.planes.clone() }
    }

    /// Keys of clusters that name it, or whose control plane wrote it for nodes.
    pub(crate) fn concerned(&self, sort: Sort, namespace: &str, name: &str) -> Vec<String> {
        let wanted = (sort, name.to_owned());
        let all = self.names.within(namespace);
        let mut out: Vec<String> =
            all.iter().filter(|n| n.names.contains(&wanted)).map(|n| n.key.clone()).collect();
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
