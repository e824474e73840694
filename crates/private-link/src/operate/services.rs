//! The management side: a private link service before each internal load balancer.

use super::reach::{Failed, reach};
use super::{Found, LOOK, Shared, status_of, unreadable};
use crate::around::Management;
use crate::kinds;
use crate::link::{Link, NAT_SUBNET, TAG};
use crate::service::{self, Front, Made};
use crate::trouble::{Side, Trouble};
use apis::conditions::{private_link as is, reason};
use apis::names::finalizer;
use arm::ResourceId;
use azure::ops::{LoadBalancers, PrivateEndpointConnections, PrivateLinkServices, Subnets, VirtualNetworks};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding, Status};
use reconcile::{Controller, Failure, Outcome, Waiting, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct Services {
    pub shared: Shared<Came>,
    pub management: Management,
}

/// What a pass came to, for the status.
pub(super) enum Came {
    Good(Made),
    /// There is no load balancer to lead to.
    NoBalancer(Trouble),
    /// There is one, and this keeps the service from being made.
    NoService(Front, Trouble),
    /// What is in the way of the end.
    Stays(Trouble),
}

impl Controller for Services {
    fn name(&self) -> &'static str {
        "private-link-service"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

fn of(reason: &'static str, what: String) -> impl Fn(&azure::Error) -> Trouble {
    move |e| Trouble::of(Side::Management, reason, &what, e)
}

impl Services {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.shared;
        let (seen, link) = match shared.find(key, |_| true) {
            Found::Nothing => return Ok(Outcome::Done),
            Found::Unreadable(seen, t) => return self.end(&seen, &Came::Stays(t)).await,
            Found::Going(seen, link) => return self.remove(&seen, &link).await,
            Found::There(seen, link) => (seen, link),
        };
        let at = kinds::LINK.at(ns, n);
        if shared.applier.add_finalizer(&at, &seen, finalizer::PRIVATE_LINK_SERVICE).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let basis = format!("{:?}{:?}", seen.metadata.generation, link.made_subnet);
        if let Some((found, left)) = shared.known(key, &basis) {
            self.say(&seen, &found).await?;
            return Ok(Outcome::After(left));
        }
        let came = match self.make(&seen, &link).await? {
            Some(came) => Arc::new(came),
            // The change wakes us.
            None => return Ok(Outcome::Done),
        };
        if let Came::Good(_) = &*came {
            shared.keep(key, basis, came.clone());
        }
        self.end(&seen, &came).await
    }

    /// Nothing: something was written on the object first.
    async fn make(&self, seen: &DynamicObject, link: &Link) -> Result<Option<Came>, Failure> {
        let Management { client, group } = &self.management;
        let front = match self.front(link).await {
            Ok(front) => front,
            Err(t) => return Ok(Some(Came::NoBalancer(t))),
        };
        let nat = client.arm::<VirtualNetworks>().get(&front.network).await;
        let what = format!("cannot read network {} of the load balancer", front.network);
        let nat = nat.map_err(|e| of(reason::NAT_SUBNET_CREATION_FAILED, what)(&e));
        let nat = match nat.and_then(|network| service::nat(link, &front, &network)) {
            Ok(nat) => nat,
            Err(t) => return Ok(Some(Came::NoService(front, t))),
        };
        if nat.prefix.is_some() && link.made_subnet.as_deref() != Some(nat.id.as_str()) {
            self.note(seen, &nat.id).await?;
            return Ok(None);
        }
        let came = match self.reach(link, group, &front, &nat).await {
            Ok(made) => Came::Good(made),
            Err(t) => Came::NoService(front, t),
        };
        Ok(Some(came))
    }

    async fn front(&self, link: &Link) -> Result<Front, Trouble> {
        let Management { client, group } = &self.management;
        let Some(address) = link.spec.load_balancer_ip.as_deref() else {
            return Err(service::no_front(link, group, None));
        };
        let balancers = client.arm::<LoadBalancers>().list_all(group).await;
        let what = format!("cannot list the load balancers of {group}");
        let balancers = balancers.map_err(|e| of(reason::ILB_LOOKUP_FAILED, what)(&e))?;
        service::front(&balancers, address).ok_or_else(|| service::no_front(link, group, Some(address)))
    }

    async fn reach(
        &self,
        link: &Link,
        group: &ResourceId,
        front: &Front,
        nat: &service::Nat,
    ) -> Result<Made, Trouble> {
        let goal = service::goal(link, group, front, nat).map_err(unreadable)?;
        let id = link.service(group).map_err(unreadable)?;
        let why = |id: &ResourceId| match *id == nat.id {
            true => reason::NAT_SUBNET_CREATION_FAILED,
            false => reason::PLS_CREATION_FAILED,
        };
        let reached = reach(&self.management.client, &goal).await.map_err(|failed| match failed {
            Failed::Look(id, e) => of(why(&id), format!("cannot read {id}"))(&e),
            Failed::Plan(e) => Trouble::new(reason::PLS_CREATION_FAILED, e.to_string()),
        })?;
        if let Some((id, e)) = reached.first() {
            return Err(of(why(id), format!("cannot make {id}"))(e));
        }
        let made = reached.body(&id).and_then(|b| service::made(front, b));
        made.ok_or_else(|| {
            Trouble::soon(
                reason::PLS_CREATION_FAILED,
                format!("{id} has no alias yet; it is looked at again"),
            )
        })
    }

    /// In which network the subnet will be, before it is.
    async fn note(&self, seen: &DynamicObject, subnet: &ResourceId) -> Result<(), Failure> {
        let m = &seen.metadata;
        let patch = json!({"metadata": {"resourceVersion": m.resource_version, "uid": m.uid,
            "annotations": {NAT_SUBNET: subnet}}});
        let params =
            PatchParams { field_manager: Some(super::watches::MANAGER.to_owned()), ..PatchParams::default() };
        let api = kinds::LINK.api(self.shared.applier.client(), m.namespace.as_deref().unwrap_or_default());
        match api.patch(m.name.as_deref().unwrap_or_default(), &params, &Patch::Merge(&patch)).await {
            // Whoever was quicker wakes us.
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    async fn remove(&self, seen: &DynamicObject, link: &Link) -> Result<Outcome, Failure> {
        let ours = seen.metadata.finalizers.iter().flatten().any(|f| f == finalizer::PRIVATE_LINK_SERVICE);
        if !ours {
            return Ok(Outcome::Done);
        }
        if link.has_endpoint {
            let why =
                format!("its operator takes {} off when the endpoint is gone", finalizer::PRIVATE_ENDPOINT);
            let on = Waiting::new("the private endpoint to go first", why, self.shared.clock.now());
            return Ok(Outcome::Waiting { on: vec![on], again: None });
        }
        match self.unmake(link).await {
            Ok(()) => self.shared.release(seen, link, finalizer::PRIVATE_LINK_SERVICE).await,
            Err(t) => self.end(seen, &Came::Stays(t)).await,
        }
    }

    async fn unmake(&self, link: &Link) -> Result<(), Trouble> {
        let Management { client, group } = &self.management;
        let id = link.service(group).map_err(unreadable)?;
        let stays = |id: &ResourceId| of(reason::AZURE_ERROR, format!("cannot delete {id}"));
        let services = client.arm::<PrivateLinkServices>();
        if let Some(service) = services.find(&id).await.map_err(|e| stays(&id)(&e))?
            && service.tags.as_ref().is_some_and(|t| t.0.get(TAG) == Some(&link.infra_id))
        {
            // Endpoints of others, or one that had to be given up: they stay where they are, disconnected.
            let connected = service.properties.and_then(|p| p.private_endpoint_connections);
            for c in connected.into_iter().flatten().filter_map(|c| c.id) {
                let ended = client.arm::<PrivateEndpointConnections>().delete(&c).await;
                ended.map_err(|e| stays(&c)(&e))?;
            }
            services.delete(&id).await.map_err(|e| stays(&id)(&e))?;
        }
        let Some(subnet) = &link.made_subnet else { return Ok(()) };
        let Ok(subnet) = ResourceId::parse(subnet) else { return Ok(()) };
        match client.arm::<Subnets>().delete(&subnet).await {
            Ok(_) => Ok(()),
            // The last link of the cluster takes it away.
            Err(e)
                if e.has_code(IN_USE)
                    && self.shared.others(link).iter().any(|o| o.made_subnet == link.made_subnet) =>
            {
                Ok(())
            }
            Err(e) => Err(stays(&subnet)(&e)),
        }
    }

    async fn end(&self, seen: &DynamicObject, came: &Came) -> Result<Outcome, Failure> {
        self.say(seen, came).await?;
        Ok(match came {
            Came::Good(_) => Outcome::After(LOOK),
            Came::NoBalancer(t) => self.shared.waits("the internal load balancer", t),
            Came::NoService(_, t) => self.shared.waits("the private link service", t),
            Came::Stays(t) => self.shared.waits("an end to what Azure refuses", t),
        })
    }

    async fn say(&self, seen: &DynamicObject, came: &Came) -> Result<(), Failure> {
        self.shared.say(seen, |o, now| status(o, came, now)).await
    }
}

const IN_USE: &str = "InUseSubnetCannotBeDeleted";

/// Our half of the status; pure.
fn status(o: &DynamicObject, came: &Came, now: Timestamp) -> Value {
    let mut status = status_of(o);
    let mut all = Conditions::of(&status);
    let good = |kind: &str, message: String| Finding::new(kind, Status::True, reason::AZURE_SUCCESS, message);
    let bad = |kind: &str, t: &Trouble| Finding::new(kind, Status::False, t.reason, t.message.clone());
    let found = |balancer: &str| {
        good(is::INTERNAL_LOAD_BALANCER_AVAILABLE, format!("load balancer {balancer} has the address"))
    };
    let findings = match came {
        Came::Good(made) => {
            status["internalLoadBalancerID"] = json!(made.balancer);
            status["privateLinkServiceID"] = json!(made.service);
            status["privateLinkServiceAlias"] = json!(made.alias);
            let message = format!("private link service {} is there", made.service);
            vec![found(&made.balancer), good(is::PLS_CREATED, message)]
        }
        Came::NoBalancer(t) => {
            let waits = "it waits for the internal load balancer";
            vec![
                bad(is::INTERNAL_LOAD_BALANCER_AVAILABLE, t),
                Finding::new(is::PLS_CREATED, Status::False, t.reason, waits),
            ]
        }
        Came::NoService(front, t) => {
            status["internalLoadBalancerID"] = json!(front.balancer);
            vec![found(front.balancer.as_str()), bad(is::PLS_CREATED, t)]
        }
        Came::Stays(t) => vec![bad(is::PLS_CREATED, t)],
    };
    for finding in findings {
        all.set(finding, o.metadata.generation, now);
    }
    status["conditions"] = all.to_value();
    status
}
