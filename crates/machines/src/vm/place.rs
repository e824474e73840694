//! Names and ids: everything that belongs to a machine is named after it, so that a process that knows the machine
//! finds, adopts and removes its parts without having written anything down.

use super::trouble::{Kind, Trouble};
use apis::capz::azure_cluster::AzureClusterSpec;
use apis::capz::azure_machine::AzureMachineSpec;
use arm::{ResourceId, Tags};
use std::collections::BTreeMap;

/// Characters in the name of an availability set.
const LONGEST: usize = 80;

/// Where a machine and its parts are.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub location: String,
    pub group: ResourceId,
    pub vm: ResourceId,
    /// With the subnet of each; the first is primary.
    pub interfaces: Vec<(ResourceId, ResourceId)>,
    pub os_disk: ResourceId,
    pub data_disks: Vec<ResourceId>,
    /// Of the load balancer that nodes go out through.
    pub pool: Option<ResourceId>,
    /// Where machines of the pool go that cannot have a zone.
    pub set: ResourceId,
    pub tags: Tags,
}

/// Said of resources that are ours, by Cluster API's provider and by us alike: either may take over from the other.
fn owner_tag(cluster: &str) -> String {
    format!("sigs.k8s.io_cluster-api-provider-azure_cluster_{cluster}")
}

impl Place {
    /// `name` of the machine, `cluster` of the Cluster, `owner` what it shares an availability set with.
    pub fn of(
        name: &str,
        spec: &AzureMachineSpec,
        azure: &AzureClusterSpec,
        cluster: &str,
        owner: &str,
    ) -> Result<Place, Trouble> {
        let lacks = |field: &str| Trouble::new(Kind::Invalid, format!("the AzureCluster has no {field}"));
        let bad = |e: arm::IdError| {
            Trouble::new(Kind::Invalid, format!("AzureMachine {name} cannot have an id in Azure: {e}"))
        };
        let subscription = azure.subscription_id.as_deref().ok_or_else(|| lacks("subscriptionID"))?;
        let group = azure.resource_group.as_deref().ok_or_else(|| lacks("resourceGroup"))?;
        let network = azure.network_spec.as_ref().ok_or_else(|| lacks("networkSpec"))?;
        let vnet = network.vnet.as_ref().ok_or_else(|| lacks("networkSpec.vnet"))?;
        let group = ResourceId::group_scope(subscription, group).map_err(bad)?;
        let vnet = match &vnet.id {
            Some(id) => ResourceId::parse(id).map_err(bad)?,
            None => {
                let there =
                    vnet.resource_group.as_deref().or(azure.resource_group.as_deref()).unwrap_or_default();
                let there = ResourceId::group_scope(subscription, there).map_err(bad)?;
                there.provider("Microsoft.Network", "virtualNetworks", &vnet.name).map_err(bad)?
            }
        };
        let compute = |kind: &str, name: &str| group.provider("Microsoft.Compute", kind, name).map_err(bad);
        let balancer = network.node_outbound_lb.as_ref();
        let pool = match balancer
            .and_then(|b| Some((b.name.as_deref()?, b.backend_pool.as_ref()?.name.as_deref()?)))
        {
            Some((lb, pool)) => {
                let lb = group.provider("Microsoft.Network", "loadBalancers", lb).map_err(bad)?;
                Some(lb.child("backendAddressPools", pool).map_err(bad)?)
            }
            None => None,
        };
        let subnets: Vec<&str> = match spec.network_interfaces.as_deref() {
            Some(list) if !list.is_empty() => {
                list.iter().map(|i| i.subnet_name.as_deref().unwrap_or_default()).collect()
            }
            _ => vec![spec.subnet_name.as_deref().unwrap_or_default()],
        };
        let mut interfaces = Vec::new();
        for (i, subnet) in subnets.into_iter().enumerate() {
            if subnet.is_empty() {
                let field = format!("networkInterfaces[{i}].subnetName");
                return Err(Trouble::new(Kind::Invalid, format!("AzureMachine {name} has no {field}")));
            }
            let nic = if i == 0 { format!("{name}-nic") } else { format!("{name}-nic-{i}") };
            interfaces.push((
                group.provider("Microsoft.Network", "networkInterfaces", &nic).map_err(bad)?,
                vnet.child("subnets", subnet).map_err(bad)?,
            ));
        }
        let data_disks = spec.data_disks.iter().flatten();
        let data_disks = data_disks.map(|d| compute("disks", &format!("{name}_{}", d.name_suffix)));
        Ok(Place {
            location: azure.location.clone(),
            vm: compute("virtualMachines", name)?,
            os_disk: compute("disks", &format!("{name}_OSDisk"))?,
            data_disks: data_disks.collect::<Result<_, _>>()?,
            set: compute("availabilitySets", &set_name(cluster, owner))?,
            interfaces,
            pool,
            tags: tags(name, spec, azure, cluster),
            group,
        })
    }

    /// As nodes carry it.
    pub fn provider_id(&self) -> String {
        format!("azure://{}", self.vm)
    }

    /// Whether somebody wrote down that this is the machine: then it and its parts are ours, whatever became of their tags.
    pub fn is_named(&self, provider_id: Option<&str>) -> bool {
        let id = provider_id.and_then(|id| id.strip_prefix("azure://"));
        id.and_then(|id| ResourceId::parse(id).ok()).is_some_and(|id| id == self.vm)
    }

    pub fn subscription(&self) -> &str {
        self.group.subscription().unwrap_or_default()
    }

    /// Whether a resource says that it belongs to our cluster.
    pub fn is_ours(&self, tags: Option<&Tags>) -> bool {
        let Some(tags) = tags else { return false };
        let wanted = self
            .tags
            .0
            .iter()
            .filter(|(k, _)| k.starts_with("sigs.k8s.io_cluster-api-provider-azure_cluster_"));
        wanted.into_iter().all(|(k, v)| tags.0.iter().any(|(x, y)| x.eq_ignore_ascii_case(k) && y == v))
    }
}

/// As Cluster API's provider names it, as far as Azure's names go. What is cut off is told by a hash: two pools whose
/// names begin alike have two sets.
fn set_name(cluster: &str, owner: &str) -> String {
    let whole = format!("{cluster}_{owner}-as");
    if whole.len() <= LONGEST {
        return whole;
    }
    let hash = format!("-{:08x}-as", xxhash_rust::xxh3::xxh3_64(whole.as_bytes()) as u32);
    let cut: String = format!("{cluster}_{owner}").chars().take(LONGEST - hash.len()).collect();
    format!("{cut}{hash}")
}

fn tags(name: &str, spec: &AzureMachineSpec, azure: &AzureClusterSpec, cluster: &str) -> Tags {
    let mut all: BTreeMap<String, String> = azure.additional_tags.clone().unwrap_or_default();
    all.extend(spec.additional_tags.clone().unwrap_or_default());
    all.insert("Name".into(), name.to_owned());
    all.insert(owner_tag(cluster), "owned".into());
    all.insert("sigs.k8s.io_cluster-api-provider-azure_role".into(), "node".into());
    Tags(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_its_provider_id() {
        let azure = serde_json::json!({"location": "westus2", "subscriptionID": "s", "resourceGroup": "demo",
            "networkSpec": {"vnet": {"name": "net"}}});
        let azure: AzureClusterSpec = serde_json::from_value(azure).unwrap();
        let spec = serde_json::json!({"vmSize": "x", "osDisk": {"osType": "Linux"}, "subnetName": "nodes"});
        let spec: AzureMachineSpec = serde_json::from_value(spec).unwrap();
        let place = Place::of("m", &spec, &azure, "demo-x", "pool").unwrap();
        let theirs = place.provider_id().replace("resourceGroups/demo", "resourceGroups/DEMO");
        assert!(place.is_named(Some(&place.provider_id())) && place.is_named(Some(&theirs)));
        let other = place.provider_id().replace("virtualMachines/m", "virtualMachines/n");
        assert!(!place.is_named(Some(&other)) && !place.is_named(Some("")) && !place.is_named(None));
    }

    #[test]
    fn names_of_sets_fit_into_azure_and_stay_apart() {
        assert_eq!(set_name("demo-x7k2p", "workers"), "demo-x7k2p_workers-as");
        let cluster = "a".repeat(30);
        let [one, other] = ["1", "2"].map(|n| set_name(&cluster, &format!("{}-{n}", "pool".repeat(15))));
        assert!(one.len() == LONGEST && other.len() == LONGEST && one != other, "{one} {other}");
        assert!(one.starts_with(&cluster) && one.ends_with("-as"));
        let longest = "p".repeat(LONGEST - cluster.len() - "_-as".len());
        assert_eq!(set_name(&cluster, &longest), format!("{cluster}_{longest}-as"));
    }
}
