//! One call of each component's kind.

use super::Component;
use super::config::Act;
use crate::azure_side::Trouble;
use azure::ops::{
    Disks, DnsA, LoadBalancers, NetworkInterfaces, PrivateDnsA, ResourceGroups, StorageAccounts,
    VirtualMachines,
};
use azure::{ArmType, Client};
use futures::TryStreamExt;
use serde_json::{Value, json};

/// What comes and goes is called this; one per control plane, so that none is left behind twice. Fits a disk and a label.
fn probe_name(namespace: &str) -> String {
    let mut name = format!("zaffre-probe-{namespace}");
    name.truncate(63);
    name.trim_end_matches('-').to_owned()
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
        Component::Ingress => ("cannot publish a DNS record", record(client, act, namespace).await),
        Component::NodePools => (
            "cannot list virtual machines",
            list::<VirtualMachines>(client, &act.group, "virtual machines").await,
        ),
        Component::ControlPlaneOperator => ("cannot read the resource group", group(client, act).await),
    };
    done.map_err(|t| t.about(what))
}

/// Its role is to write and delete addresses, and does not even include reading them. The one that comes and goes leads
/// nowhere (RFC 5737). A cluster without a zone publishes nothing.
async fn record(client: &Client, act: &Act, namespace: &str) -> Result<String, Trouble> {
    let private = |z: &arm::ResourceId| z.resource_type().is("Microsoft.Network/privateDnsZones");
    match &act.zone {
        Some(zone) if private(zone) => {
            let body = json!({"properties": {"ttl": 30, "aRecords": [{"ipv4Address": "192.0.2.1"}]}});
            come_and_go::<PrivateDnsA>(client, zone, &probe_name(namespace), body).await
        }
        Some(zone) => {
            let body = json!({"properties": {"TTL": 30, "ARecords": [{"ipv4Address": "192.0.2.1"}]}});
            come_and_go::<DnsA>(client, zone, &probe_name(namespace), body).await
        }
        None => Ok("the cluster has no DNS zone: nothing to publish".to_owned()),
    }
}

/// Making private endpoints takes a network to put them into; what all of its roles have in common is this.
async fn group(client: &Client, act: &Act) -> Result<String, Trouble> {
    client.arm::<ResourceGroups>().get(&act.group).await?;
    Ok(format!("read {}", act.group))
}

async fn disk(client: &Client, act: &Act, namespace: &str) -> Result<String, Trouble> {
    let body = json!({"location": act.location, "sku": {"name": "Standard_LRS"},
        "tags": {"zaffre-identity-probe": namespace},
        "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 1}});
    come_and_go::<Disks>(client, &act.group, &probe_name(namespace), body).await
}

async fn come_and_go<T: ArmType>(
    client: &Client,
    scope: &arm::ResourceId,
    name: &str,
    body: Value,
) -> Result<String, Trouble> {
    let all = client.arm::<T>();
    let id = all.id(scope, name)?;
    let body = serde_json::from_value(body).map_err(|e| Trouble::Refused(e.to_string()))?;
    let made = all.put(&id, &body).await;
    // What may have been made half is taken away, too.
    let gone = all.delete(&id).await;
    made?;
    gone?;
    Ok(format!("created and deleted {id}"))
}
