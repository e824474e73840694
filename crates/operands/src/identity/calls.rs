//! One call of each component's kind.

use super::Component;
use super::config::Act;
use crate::azure_side::Trouble;
use azure::ops::{
    Disks, DnsA, LoadBalancers, NetworkInterfaces, PrivateDnsA, PrivateEndpoints, StorageAccounts,
    VirtualMachines,
};
use azure::{ArmType, Client};
use futures::TryStreamExt;
use serde_json::json;

/// What the disk that comes and goes is called; one per control plane, so that none is left behind twice.
fn disk_name(namespace: &str) -> String {
    let mut name = format!("zaffre-identity-probe-{namespace}");
    name.truncate(80);
    name
}

async fn list<T: ArmType>(client: &Client, at: &arm::ResourceId, what: &str) -> Result<String, Trouble> {
    let found: Vec<T::Body> = client.arm::<T>().list(at).try_collect().await?;
    Ok(format!("listed {} {what} of {at}", found.len()))
}

pub async fn make(
    component: Component,
    client: &Client,
    act: &Act,
    namespace: &str,
) -> Result<String, Trouble> {
    let (what, done) = match component {
        Component::CloudController => {
            ("cannot list load balancers", list::<LoadBalancers>(client, &act.group, "load balancers").await)
        }
        Component::DiskDriver => ("cannot create and delete a disk", disk(client, act, namespace).await),
        Component::FileDriver | Component::ImageRegistry => (
            "cannot list storage accounts",
            list::<StorageAccounts>(client, &act.group, "storage accounts").await,
        ),
        Component::Network => (
            "cannot list network interfaces",
            list::<NetworkInterfaces>(client, &act.group, "network interfaces").await,
        ),
        Component::Ingress => ("cannot list DNS records", records(client, act).await),
        Component::NodePools => (
            "cannot list virtual machines",
            list::<VirtualMachines>(client, &act.group, "virtual machines").await,
        ),
        Component::ControlPlaneOperator => (
            "cannot list private endpoints",
            list::<PrivateEndpoints>(client, &act.group, "private endpoints").await,
        ),
    };
    done.map_err(|t| t.about(what))
}

/// A private cluster has a private zone only; one without any publishes nothing.
async fn records(client: &Client, act: &Act) -> Result<String, Trouble> {
    match &act.zone {
        Some(zone) if zone.resource_type().is("Microsoft.Network/privateDnsZones") => {
            list::<PrivateDnsA>(client, zone, "addresses").await
        }
        Some(zone) => list::<DnsA>(client, zone, "addresses").await,
        None => list::<azure::ops::PrivateDnsZones>(client, &act.group, "DNS zones").await,
    }
}

async fn disk(client: &Client, act: &Act, namespace: &str) -> Result<String, Trouble> {
    let disks = client.arm::<Disks>();
    let id = disks.id(&act.group, &disk_name(namespace))?;
    let body = json!({"location": act.location, "sku": {"name": "Standard_LRS"},
        "tags": {"zaffre.io/identity-probe": namespace},
        "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 1}});
    let body = serde_json::from_value(body).map_err(|e| Trouble::Refused(e.to_string()))?;
    let made = disks.put(&id, &body).await;
    // What may have been made half is taken away, too.
    let gone = disks.delete(&id).await;
    made?;
    gone?;
    Ok(format!("created and deleted {id}"))
}
