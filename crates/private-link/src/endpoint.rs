//! The guest's side: the private endpoint, and the zones whose records lead to it. Pure.

use crate::link::{Link, SHARED, TAG, TAG_SHARED, Unreadable, Zone};
use crate::trouble::Trouble;
use apis::conditions::reason;
use arm::ResourceId;
use arm::types::{PrivateDnsLink, PrivateDnsZone, PrivateEndpoint};
use azure::plan::{Desired, Goal};
use serde_json::json;

/// A zone as it is in Azure.
#[derive(Clone, Debug, Default)]
pub struct ZoneSeen {
    pub zone: Option<PrivateDnsZone>,
    pub links: Vec<PrivateDnsLink>,
}

impl ZoneSeen {
    /// We made it, or another cluster's operator did: it may be removed when nobody uses it.
    fn is_ours(&self) -> bool {
        let tags = self.zone.as_ref().and_then(|z| z.tags.as_ref());
        tags.is_some_and(|t| t.0.get(TAG_SHARED).is_some_and(|v| v == SHARED))
    }

    /// Nothing but the record that every zone begins with.
    fn is_empty(&self) -> bool {
        let p = self.zone.as_ref().and_then(|z| z.properties.as_ref());
        p.and_then(|p| p.number_of_record_sets).is_some_and(|n| n <= 1)
    }
}

/// How an endpoint stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// There is no endpoint yet.
    None,
    /// It leads elsewhere, or nowhere any more: Azure cannot change that, so another has to be made.
    Stale,
    /// Somebody has to approve it; what they said.
    Open(String),
    Approved,
}

/// The endpoint of this name belongs to another cluster, or to nobody we know.
pub fn foreign(link: &Link, endpoint: Option<&PrivateEndpoint>) -> Option<Trouble> {
    let tags = endpoint?.tags.as_ref();
    let whose = tags.and_then(|t| t.0.get(TAG));
    if whose == Some(&link.infra_id) {
        return None;
    }
    let id = endpoint?.id.as_ref().map(ToString::to_string).unwrap_or_default();
    let whose = whose.map_or_else(|| "nobody's mark".to_owned(), |w| format!("the mark of cluster {w}"));
    Some(Trouble::new(
        reason::PRIVATE_ENDPOINT_CREATION_FAILED,
        format!(
            "private endpoint {id} exists with {whose} (tag {TAG}): private clusters need a resource group each; delete the endpoint, or make this cluster with a group of its own"
        ),
    ))
}

/// How the endpoint is connected.
pub fn connection(endpoint: Option<&PrivateEndpoint>, alias: &str) -> Connection {
    let Some(p) = endpoint.and_then(|e| e.properties.as_ref()) else { return Connection::None };
    let lists = [&p.manual_private_link_service_connections, &p.private_link_service_connections];
    let found = lists.into_iter().flatten().flatten().find_map(|c| c.properties.as_ref());
    let Some(c) = found else { return Connection::Stale };
    let state = c.private_link_service_connection_state.clone().unwrap_or_default();
    let leads = c.private_link_service_id.as_deref().is_some_and(|to| to.eq_ignore_ascii_case(alias));
    match state.status.as_deref() {
        Some("Disconnected") => Connection::Stale,
        _ if !leads => Connection::Stale,
        Some("Approved") => Connection::Approved,
        other => {
            let words = state.description.unwrap_or_default();
            let words = if words.is_empty() { String::new() } else { format!(" ({words})") };
            Connection::Open(format!("{}{words}", other.unwrap_or("Pending")))
        }
    }
}

/// The address of an endpoint; known when its interfaces were asked for as well.
pub fn address(endpoint: &PrivateEndpoint) -> Option<&str> {
    let interfaces = endpoint.properties.as_ref()?.network_interfaces.as_ref()?;
    let configurations = interfaces.iter().filter_map(|n| n.properties.as_ref()?.ip_configurations.as_ref());
    configurations.flatten().find_map(|c| c.properties.as_ref()?.private_ip_address.as_deref())
}

/// The endpoint, the zones and their links; records follow when there is an address.
pub fn goal(link: &Link, alias: &str, zones: &[(Zone, ZoneSeen)]) -> Result<Goal, Unreadable> {
    let tags = json!({TAG: link.infra_id});
    let mut goal = Goal::default().present(Desired::new(
        link.endpoint()?,
        json!({
            "location": link.spec.location,
            "tags": tags,
            "properties": {
                "subnet": {"id": link.spec.guest_subnet_id},
                "manualPrivateLinkServiceConnections": [{"name": link.name, "properties": {
                    "privateLinkServiceId": alias,
                    "requestMessage": format!("hosted cluster {}", link.plane)}}],
            },
        }),
    ));
    for (zone, seen) in zones {
        let mut body = json!({"location": "global"});
        if seen.zone.is_none() {
            // What is there already is somebody's, whatever its name: it does not become ours.
            body["tags"] = json!({TAG_SHARED: SHARED});
        }
        goal = goal.present(Desired::new(zone.id.clone(), body));
        if !linked(seen, &link.spec.guest_vnet_id) {
            goal = goal.present(Desired::new(
                zone.link.clone(),
                json!({"location": "global", "tags": tags, "properties": {
                    "virtualNetwork": {"id": link.spec.guest_vnet_id}, "registrationEnabled": false}}),
            ));
        }
    }
    Ok(goal)
}

/// Whether a zone is known in a network. A second link to the same one is refused.
fn linked(seen: &ZoneSeen, network: &str) -> bool {
    let to = |l: &PrivateDnsLink| l.properties.as_ref()?.virtual_network.as_ref()?.id.clone();
    ResourceId::parse(network).is_ok_and(|n| seen.links.iter().filter_map(to).any(|id| id == n))
}

/// The records of a zone.
pub fn records(zone: &Zone, address: &str) -> Goal {
    zone.records.iter().fold(Goal::default(), |goal, record| {
        let body = json!({"properties": {"ttl": 300, "aRecords": [{"ipv4Address": address}]}});
        goal.present(Desired::new(record.clone(), body))
    })
}

/// First of what goes: our records and the endpoint.
pub fn goes_first(
    link: &Link,
    endpoint: Option<&PrivateEndpoint>,
    zones: &[Zone],
) -> Result<Goal, Unreadable> {
    let mut goal = Goal::default();
    // Of this name, but not ours: it never was made.
    if foreign(link, endpoint).is_none() {
        goal = goal.absent(link.endpoint()?);
    }
    Ok(zones.iter().flat_map(|z| &z.records).fold(goal, |g, r| g.absent(r.clone())))
}

/// Then the zones that nobody uses any more, with their links; of a zone that stays and is not ours, our link.
pub fn goes_last(link: &Link, zones: &[(Zone, ZoneSeen)]) -> Goal {
    let mut goal = Goal::default();
    for (zone, seen) in zones {
        let goes = seen.is_ours() && (zone.own || seen.is_empty());
        let ours =
            |l: &&PrivateDnsLink| l.tags.as_ref().is_some_and(|t| t.0.get(TAG) == Some(&link.infra_id));
        let links = seen.links.iter().filter(|l| goes || (!seen.is_ours() && ours(l)));
        goal = links.filter_map(|l| l.id.clone()).fold(goal, Goal::absent);
        if goes {
            goal = goal.absent(zone.id.clone());
        }
    }
    goal
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
