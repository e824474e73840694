//! Sharing the clusters of one management cluster among several operators.

use apis::names::annotation;
use kube::core::ObjectMeta;

/// Which clusters are ours. What another operator keeps is not looked at, not even when it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shard {
    #[default]
    Everything,
    /// Those with this word in their annotation `hypershift.openshift.io/scope`; those without one if it is empty.
    Scope(String),
}

impl Shard {
    pub fn covers(&self, cluster: &ObjectMeta) -> bool {
        let Shard::Scope(ours) = self else { return true };
        let theirs = cluster.annotations.as_ref().and_then(|a| a.get(annotation::SCOPE));
        theirs.map_or("", String::as_str) == ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(scope: Option<&str>) -> ObjectMeta {
        let annotations = scope.map(|s| [(annotation::SCOPE.to_owned(), s.to_owned())].into());
        ObjectMeta { annotations, ..ObjectMeta::default() }
    }

    #[test]
    fn each_cluster_is_in_one_shard() {
        let (blue, rest) = (Shard::Scope("blue".into()), Shard::Scope(String::new()));
        for (cluster, expected) in [
            (with(None), [false, true]),
            (with(Some("")), [false, true]),
            (with(Some("blue")), [true, false]),
            (with(Some("green")), [false, false]),
        ] {
            assert_eq!([blue.covers(&cluster), rest.covers(&cluster)], expected);
            assert!(Shard::Everything.covers(&cluster));
        }
    }
}
