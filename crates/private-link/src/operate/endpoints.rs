//! The guest's side: an endpoint for each private link service, and names that lead to it.

use super::reach::{Failed, Reached, reach};
use super::{Found, LOOK, Shared, status_of, unreadable};
use crate::around::Clouds;
use crate::endpoint::{self, Connection, ZoneSeen};
use crate::kinds;
use crate::link::{Link, Unreadable, Zone};
use crate::trouble::{Side, Trouble};
use apis::conditions::{private_link as is, reason};
use apis::names::finalizer;
use arm::ResourceId;
use arm::types::PrivateEndpoint;
use azure::Client;
use azure::ops::{PrivateDnsLinks, PrivateDnsZones, PrivateEndpoints};
use azure::plan::Goal;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding, Polarity, Status, summarise};
use reconcile::{Controller, Failure, Outcome, Tenants, View, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct Endpoints {
    pub shared: Shared<Came>,
    pub planes: Arc<View<DynamicObject>>,
    pub tenants: Arc<Tenants>,
    pub clouds: Arc<dyn Clouds>,
}

/// What a pass came to, for the status.
pub(super) enum Came {
    /// The private link service is not there to lead to.
    NoService,
    /// How the endpoint and how its names are.
    Tried { endpoint: Result<Made, Trouble>, zones: Result<Vec<Zone>, Trouble> },
    /// What is in the way of the end.
    Stays(Trouble),
}

/// An endpoint with its address, and whether it is let through.
pub(super) struct Made {
    id: ResourceId,
    address: String,
    open: Option<Trouble>,
}

impl Came {
    fn trouble(&self) -> Option<&Trouble> {
        match self {
            Came::NoService => None,
            Came::Stays(t) => Some(t),
            Came::Tried { endpoint, zones } => match endpoint {
                Err(t) => Some(t),
                Ok(Made { open: Some(t), .. }) => Some(t),
                Ok(_) => zones.as_ref().err(),
            },
        }
    }
}

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "private-endpoint"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

fn of(reason: &'static str, what: String) -> impl Fn(&azure::Error) -> Trouble {
    move |e| Trouble::of(Side::Guest, reason, &what, e)
}

/// Why a part of a zone is not there.
fn part(zone: &Zone, id: &ResourceId) -> &'static str {
    match (*id == zone.id, *id == zone.link, zone.own) {
        (true, _, true) => reason::DNS_ZONE_CREATION_FAILED,
        (true, _, false) => reason::BASE_DOMAIN_DNS_ZONE_CREATION_FAILED,
        (_, true, true) => reason::V_NET_LINK_CREATION_FAILED,
        (_, true, false) => reason::BASE_DOMAIN_V_NET_LINK_CREATION_FAILED,
        (_, _, true) => reason::A_RECORD_CREATION_FAILED,
        (_, _, false) => reason::BASE_DOMAIN_A_RECORD_CREATION_FAILED,
    }
}

/// Somebody else linked the zone to the network between our look and our call: it is as it should be.
fn linked_meanwhile(e: &azure::Error) -> bool {
    e.has_code("Conflict") && e.to_string().contains("already linked to the virtual network")
}

impl Endpoints {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.shared;
        let (seen, link) = match shared.find(key, |ns| self.tenants.serves(ns)) {
            Found::Nothing => return Ok(Outcome::Done),
            Found::Unreadable(seen, t) => return self.end(&seen, &Came::Stays(t)).await,
            Found::Going(seen, link) => return self.remove(&seen, &link).await,
            Found::There(seen, link) => (seen, link),
        };
        // Nothing is begun for a control plane that goes.
        let plane = self.planes.get(ns, &link.plane).filter(|p| p.metadata.deletion_timestamp.is_none());
        let Some(plane) = plane else { return Ok(Outcome::Done) };
        let Some(alias) = seen.data["status"]["privateLinkServiceAlias"].as_str() else {
            return self.end(&seen, &Came::NoService).await;
        };
        let (at, owner) = (kinds::LINK.at(ns, n), kinds::PLANE.at(ns, &*link.plane));
        shared.applier.add_finalizer(&owner, &plane, finalizer::PRIVATE_ENDPOINT_CLEANUP).await?;
        if shared.applier.add_finalizer(&at, &seen, finalizer::PRIVATE_ENDPOINT).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let zones = match self.zones(&link) {
            Ok(zones) => zones,
            Err(e) => return self.end(&seen, &Came::Stays(unreadable(e))).await,
        };
        let basis = format!("{:?}{alias}{zones:?}", seen.metadata.generation);
        if let Some((found, left)) = shared.known(key, &basis) {
            self.say(&seen, &found).await?;
            return Ok(Outcome::After(left));
        }
        let came = Arc::new(self.make(&link, alias, zones).await);
        if came.trouble().is_none() {
            shared.keep(key, basis, came.clone());
        }
        self.end(&seen, &came).await
    }

    /// The zones of a link, without the records that another link of the cluster looks after.
    fn zones(&self, link: &Link) -> Result<Vec<Zone>, Unreadable> {
        let others = self.shared.others(link);
        let others = others.iter().filter(|o| !o.going && link.name == crate::link::ROUTER);
        let others: Vec<ResourceId> =
            others.filter_map(|o| o.zones().ok()).flatten().flat_map(|z| z.records).collect();
        Ok(link.zones()?.into_iter().map(|z| z.without(&others)).collect())
    }

    async fn client(&self, link: &Link) -> Result<Client, Trouble> {
        let client = self.clouds.client(&link.namespace).await;
        client.map_err(|e| Trouble::soon(reason::AZURE_ERROR, e.0))
    }

    async fn make(&self, link: &Link, alias: &str, zones: Vec<Zone>) -> Came {
        let failed = |t: Trouble| Came::Tried { endpoint: Err(t.clone()), zones: Err(t) };
        let client = match self.client(link).await {
            Ok(client) => client,
            Err(t) => return failed(t),
        };
        let id = match link.endpoint() {
            Ok(id) => id,
            Err(e) => return failed(unreadable(e)),
        };
        let found = match find(&client, &id).await {
            Ok(found) => found,
            Err(t) => return failed(t),
        };
        if let Some(t) = endpoint::foreign(link, found.as_ref()) {
            return failed(t);
        }
        if endpoint::connection(found.as_ref(), alias) == Connection::Stale {
            let gone = client.arm::<PrivateEndpoints>().delete(&id).await;
            let what = format!("cannot replace {id}, which leads nowhere any more");
            return failed(match gone {
                Ok(_) => Trouble::soon(
                    reason::PRIVATE_ENDPOINT_CREATION_FAILED,
                    format!("{id} led nowhere any more and was removed; another is made"),
                ),
                Err(e) => of(reason::PRIVATE_ENDPOINT_CREATION_FAILED, what)(&e),
            });
        }
        let seen = match look_at_zones(&client, zones).await {
            Ok(seen) => seen,
            Err(t) => return failed(t),
        };
        let reached = match endpoint::goal(link, alias, &seen) {
            Ok(goal) => reach(&client, &goal).await.map_err(|e| not_tried(&seen, &id, e)),
            Err(e) => Err(unreadable(e)),
        };
        let reached = match reached {
            Ok(reached) => reached,
            Err(t) => return failed(t),
        };
        let endpoint = connected(&client, &id, alias, &reached).await;
        let zones = names(&client, seen, &reached, endpoint.as_ref().ok()).await;
        Came::Tried { endpoint, zones }
    }

    async fn remove(&self, seen: &DynamicObject, link: &Link) -> Result<Outcome, Failure> {
        if !link.has_endpoint {
            return Ok(Outcome::Done);
        }
        match self.unmake(link).await {
            Ok(()) => self.shared.release(seen, link, finalizer::PRIVATE_ENDPOINT).await,
            Err(t) => self.end(seen, &Came::Stays(t)).await,
        }
    }

    async fn unmake(&self, link: &Link) -> Result<(), Trouble> {
        let client = self.client(link).await?;
        let (id, zones) = (link.endpoint().map_err(unreadable)?, self.zones(link).map_err(unreadable)?);
        let found = find(&client, &id).await?;
        let goal = endpoint::goes_first(link, found.as_ref(), &zones).map_err(unreadable)?;
        gone(&client, &goal).await?;
        // Looked at only now: whoever of several is the last to have removed its records sees that none are left.
        let seen = look_at_zones(&client, zones).await?;
        gone(&client, &endpoint::goes_last(link, &seen)).await
    }

    async fn end(&self, seen: &DynamicObject, came: &Came) -> Result<Outcome, Failure> {
        self.say(seen, came).await?;
        Ok(match came.trouble() {
            Some(t) => self.shared.waits("an end to what Azure refuses", t),
            // Its alias, which the other side writes, wakes us.
            None if matches!(came, Came::NoService) => Outcome::Done,
            None => Outcome::After(LOOK),
        })
    }

    async fn say(&self, seen: &DynamicObject, came: &Came) -> Result<(), Failure> {
        self.shared.say(seen, |o, now| status(o, came, now)).await
    }
}

async fn find(client: &Client, id: &ResourceId) -> Result<Option<PrivateEndpoint>, Trouble> {
    let found = client.arm::<PrivateEndpoints>().find(id).await;
    found.map_err(|e| of(reason::PRIVATE_ENDPOINT_GET_FAILED, format!("cannot read {id}"))(&e))
}

async fn look_at_zones(client: &Client, zones: Vec<Zone>) -> Result<Vec<(Zone, ZoneSeen)>, Trouble> {
    let mut all = Vec::with_capacity(zones.len());
    for zone in zones {
        let cannot = |e| of(part(&zone, &zone.id), format!("cannot read {}", zone.id))(&e);
        let found = client.arm::<PrivateDnsZones>().find(&zone.id).await.map_err(cannot)?;
        let links = match found {
            Some(_) => client.arm::<PrivateDnsLinks>().list_all(&zone.id).await.map_err(cannot)?,
            None => Vec::new(),
        };
        all.push((zone, ZoneSeen { zone: found, links }));
    }
    Ok(all)
}

/// Nothing could be tried at all.
fn not_tried(zones: &[(Zone, ZoneSeen)], endpoint: &ResourceId, e: Failed) -> Trouble {
    match e {
        Failed::Plan(e) => Trouble::new(reason::PRIVATE_ENDPOINT_CREATION_FAILED, e.to_string()),
        Failed::Look(id, e) => {
            let zone = zones.iter().find(|(z, _)| z.id.contains(&id)).map(|(z, _)| z);
            let why = zone
                .filter(|_| id != *endpoint)
                .map_or(reason::PRIVATE_ENDPOINT_GET_FAILED, |z| part(z, &id));
            of(why, format!("cannot read {id}"))(&e)
        }
    }
}

/// How the endpoint is after all was tried.
async fn connected(
    client: &Client,
    id: &ResourceId,
    alias: &str,
    reached: &Reached,
) -> Result<Made, Trouble> {
    if let Some((failed, e)) = reached.error(id) {
        return Err(of(reason::PRIVATE_ENDPOINT_CREATION_FAILED, format!("cannot make {failed}"))(e));
    }
    let whole = client.arm::<PrivateEndpoints>().get_with(id, &[("$expand", "networkInterfaces")]).await;
    let whole =
        whole.map_err(|e| of(reason::PRIVATE_ENDPOINT_GET_FAILED, format!("cannot read {id}"))(&e))?;
    let address = endpoint::address(&whole).map(str::to_owned).ok_or_else(|| {
        Trouble::soon(
            reason::PRIVATE_ENDPOINT_GET_FAILED,
            format!("{id} has no address yet; it is looked at again"),
        )
    })?;
    let open = match endpoint::connection(Some(&whole), alias) {
        Connection::Approved => None,
        Connection::Open(state) => Some(Trouble::new(
            reason::PRIVATE_ENDPOINT_CONNECTION_NOT_APPROVED,
            format!(
                "the connection of {id} to {alias} is {state}: approve it at the private link service (az network private-link-service connection update --connection-status Approved), or allow its subscription in platform.azure.private.privateLink.additionalAllowedSubscriptions"
            ),
        )),
        Connection::None | Connection::Stale => Some(Trouble::soon(
            reason::PRIVATE_ENDPOINT_CONNECTION_NOT_APPROVED,
            format!("the connection of {id} to {alias} was ended; it is made anew"),
        )),
    };
    Ok(Made { id: id.clone(), address, open })
}

/// Zones, links and records; the records as soon as there is an address.
async fn names(
    client: &Client,
    zones: Vec<(Zone, ZoneSeen)>,
    reached: &Reached,
    endpoint: Option<&Made>,
) -> Result<Vec<Zone>, Trouble> {
    let zones: Vec<Zone> = zones.into_iter().map(|(z, _)| z).collect();
    for zone in &zones {
        for id in [&zone.id, &zone.link] {
            if let Some((failed, e)) = reached.error(id).filter(|(_, e)| !linked_meanwhile(e)) {
                return Err(of(part(zone, failed), format!("cannot make {failed}"))(e));
            }
        }
    }
    let Some(Made { address, .. }) = endpoint else {
        return Err(Trouble::new(reason::A_RECORD_CREATION_FAILED, "records wait for the private endpoint"));
    };
    for zone in &zones {
        let written = reach(client, &endpoint::records(zone, address)).await;
        let written = written.map_err(|e| match e {
            Failed::Look(id, e) => of(part(zone, &id), format!("cannot read {id}"))(&e),
            Failed::Plan(e) => Trouble::new(reason::A_RECORD_CREATION_FAILED, e.to_string()),
        })?;
        if let Some((id, e)) = written.first() {
            return Err(of(part(zone, id), format!("cannot write {id}"))(e));
        }
    }
    Ok(zones)
}

/// Deletes what a goal does not want.
async fn gone(client: &Client, goal: &Goal) -> Result<(), Trouble> {
    let reached = reach(client, goal).await.map_err(|e| match e {
        Failed::Look(id, e) => of(reason::AZURE_ERROR, format!("cannot read {id}"))(&e),
        Failed::Plan(e) => Trouble::new(reason::AZURE_ERROR, e.to_string()),
    })?;
    match reached.first() {
        Some((id, e)) => Err(of(reason::AZURE_ERROR, format!("cannot delete {id}"))(e)),
        None => Ok(()),
    }
}

/// Our half of the status, and what both halves come to; pure.
fn status(o: &DynamicObject, came: &Came, now: Timestamp) -> Value {
    let mut status = status_of(o);
    let mut all = Conditions::of(&status);
    let generation = o.metadata.generation;
    let bad = |kind: &str, t: &Trouble| Finding::new(kind, Status::False, t.reason, t.message.clone());
    let good = |kind: &str, message: String| Finding::new(kind, Status::True, reason::AZURE_SUCCESS, message);
    let findings = match came {
        Came::NoService => {
            let waits = "it waits for the private link service";
            let open = |kind| Finding::new(kind, Status::Unknown, reason::STATUS_UNKNOWN, waits);
            vec![open(is::PRIVATE_ENDPOINT_AVAILABLE), open(is::PRIVATE_DNS_AVAILABLE)]
        }
        Came::Stays(t) => vec![bad(is::PRIVATE_ENDPOINT_AVAILABLE, t)],
        Came::Tried { endpoint, zones } => {
            let first = match endpoint {
                Err(t) => bad(is::PRIVATE_ENDPOINT_AVAILABLE, t),
                Ok(made) => {
                    status["privateEndpointID"] = json!(made.id);
                    status["privateEndpointIP"] = json!(made.address);
                    match &made.open {
                        Some(t) => bad(is::PRIVATE_ENDPOINT_AVAILABLE, t),
                        None => good(is::PRIVATE_ENDPOINT_AVAILABLE, format!("{} is connected", made.id)),
                    }
                }
            };
            let second = match zones {
                Err(t) => bad(is::PRIVATE_DNS_AVAILABLE, t),
                Ok(zones) => {
                    for zone in zones {
                        if zone.own {
                            status["privateDNSZoneID"] = json!(zone.id);
                            status["dnsZoneName"] = json!(zone.name);
                        } else {
                            status["baseDomainDNSZoneID"] = json!(zone.id);
                        }
                    }
                    let named: Vec<&str> = zones.iter().map(|z| z.name.as_str()).collect();
                    good(
                        is::PRIVATE_DNS_AVAILABLE,
                        format!("names in {} lead to the endpoint", named.join(", ")),
                    )
                }
            };
            vec![first, second]
        }
    };
    for finding in findings {
        all.set(finding, generation, now);
    }
    let parts: Vec<&str> = is::ALL.iter().copied().filter(|k| *k != is::AVAILABLE).collect();
    let mut whole = summarise(is::AVAILABLE, &parts, &all, Polarity::default());
    match whole.status {
        Status::True => {
            whole.reason = reason::AZURE_SUCCESS.to_owned();
            whole.message = "the private way is open".to_owned();
        }
        Status::False => whole.reason = reason::AZURE_ERROR.to_owned(),
        Status::Unknown => {}
    }
    all.set(whole, generation, now);
    status["conditions"] = all.to_value();
    status
}
