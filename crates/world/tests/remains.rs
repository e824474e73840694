//! What is left in the management cluster and in Azure, whoever made it.

use crate::kit::{DEADLINE, Kit};
use crate::place::Place;
use hypershift::kinds;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use std::collections::BTreeSet;
use world::sample::{NAMESPACE, Sample};

/// What people give for a cluster.
const INPUTS: [&str; 3] = ["pull-secret", "ssh-key", "sa-key"];

/// Everything there is, by kind and name. What comes and goes by itself is left out.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    pub objects: BTreeSet<String>,
    pub azure: BTreeSet<String>,
}

impl Remains {
    /// In a cluster that others use, too, what carries our mark.
    pub async fn of<P: Place>(kit: &Kit<P>) -> Remains {
        let (client, mark) = (kit.client(), kit.world.mark());
        let known = Discovery::new(client.clone()).run().await.unwrap();
        let mut objects = BTreeSet::new();
        for (resource, able) in known.groups().flat_map(|g| g.recommended_resources()) {
            if !able.supports_operation(verbs::LIST) || ["Event", "Lease"].contains(&resource.kind.as_str()) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let there = match api.list_metadata(&ListParams::default()).await {
                Ok(there) => there.items,
                // Somebody else's API, which answers in no such way or not at all.
                Err(_) if !mark.is_empty() && !ours(&resource.group) => continue,
                Err(e) => panic!("{}: {e}", resource.kind),
            };
            for o in there {
                let space = match able.scope {
                    Scope::Namespaced => o.metadata.namespace.unwrap_or_default() + "/",
                    Scope::Cluster => String::new(),
                };
                let marked = o.metadata.annotations.iter().flatten();
                let marked = marked.filter(|(k, _)| k.starts_with("referenced-resource")).count();
                let mark = if marked > 0 { " (still marked)" } else { "" };
                objects.insert(format!(
                    "{} {space}{}{mark}",
                    resource.kind,
                    o.metadata.name.unwrap_or_default()
                ));
            }
        }
        objects.retain(|o| o.contains(mark));
        let leaks = kit.cloud().sim.world().leaks();
        let azure = leaks["value"].as_array().into_iter().flatten();
        let azure = azure.filter_map(|l| Some(l["id"].as_str()?.to_lowercase()));
        Remains { objects, azure: azure.filter(|id| id.contains(mark)).collect() }
    }

    /// Only what people gave may have been added since `before`: the clusters' inputs.
    pub fn assert_clean_since(&self, before: &Remains, clusters: &[&str]) {
        let given: BTreeSet<String> =
            (clusters.iter()).flat_map(|c| INPUTS.map(|i| format!("Secret {NAMESPACE}/{c}-{i}"))).collect();
        let more: Vec<&String> =
            self.objects.difference(&before.objects).filter(|o| !given.contains(*o)).collect();
        assert!(more.is_empty(), "left in the cluster: {more:#?}");
        assert!(given.is_subset(&self.objects), "what people gave is theirs: {:?}", given);
        let more: Vec<&String> = self.azure.difference(&before.azure).collect();
        assert!(more.is_empty(), "left in Azure: {more:#?}");
    }
}

/// Whether we make objects of a group.
fn ours(group: &str) -> bool {
    let known = ["rbac.authorization.k8s.io", "networking.k8s.io", "policy", "route.openshift.io"];
    !group.contains('.')
        || known.contains(&group)
        || group.contains("hypershift")
        || group.contains("cluster.x-k8s.io")
}

impl<P: Place> Kit<P> {
    pub async fn delete(&self, name: &str) {
        let clusters = self.api(&kinds::CLUSTER, NAMESPACE);
        clusters.delete(name, &Default::default()).await.unwrap();
    }

    /// Deletes what was given for a cluster, so that there can be another of its name.
    pub async fn take_back(&self, name: &str) {
        for input in INPUTS {
            let secrets = self.api(&kinds::SECRET, NAMESPACE);
            secrets.delete(&format!("{name}-{input}"), &Default::default()).await.unwrap();
        }
    }

    /// Waits until an object is not there any more.
    pub async fn gone(&self, name: &str) {
        let gone = |o: Option<&DynamicObject>| o.is_none();
        let wait = kube::runtime::wait::await_condition(self.api(&kinds::CLUSTER, NAMESPACE), name, gone);
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("{name} is never gone\n{}", self.story(name).await);
        }
        // The cluster's object goes last: nothing may be found once it is gone.
        let plane = format!("{NAMESPACE}-{name}");
        let left = Remains::of(self).await.objects;
        let left: Vec<&String> = left.iter().filter(|o| o.contains(&plane)).collect();
        assert!(left.is_empty(), "left of {name}: {left:#?}");
    }

    /// Waits until an object of a control plane is so.
    pub async fn until_object(
        &self,
        kind: &reconcile::Kind,
        cluster: &Sample,
        name: &str,
        so: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let seen = |o: Option<&DynamicObject>| o.is_some_and(&so);
        let wait = kube::runtime::wait::await_condition(self.api(kind, &cluster.plane()), name, seen);
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(o) => o.unwrap().unwrap(),
            Err(_) => panic!("{} {name} is never so\n{}", kind.kind, self.story(&cluster.name).await),
        }
    }
}
