//! Private link services: what others may reach through endpoints of their own.

use crate::kinds::addresses::allocate;
use crate::kinds::compute_parts::{stable, text};
use crate::kinds::network::keep_guid;
use crate::kinds::private_endpoint::{ENDPOINTS, LISTS, bad, common, put_interface, remove_interfaces};
use crate::kinds::{BASE, How, Kind, Part, Prep, Ref, Rules, SYNC, default, flow, kind, properties};
use crate::state::{Key, Record, State, guid};
use crate::wire::Fault;
use arm::{ApiVersion, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub const SERVICES: &str = "privateLinkServices";
const CONNECTIONS: &str = "privateEndpointConnections";

fn nothing(_: &mut Map<String, Value>) {}

fn configuration(e: &mut Map<String, Value>) {
    let p = properties(e);
    default(p, "privateIPAllocationMethod", "Dynamic");
    default(p, "privateIPAddressVersion", "IPv4");
}

const fn inner(list: &'static str) -> Part {
    Part { list, verb: "", create: SYNC, delete: SYNC, refs: &[], parts: &[], defaults: nothing, in_use: "" }
}

const PARTS: &[Part] = &[
    Part {
        refs: &[Ref {
            at: &["properties", "subnet"],
            action: "Microsoft.Network/virtualNetworks/subnets/join/action",
            back: "",
            one: false,
            loose: false,
        }],
        defaults: configuration,
        ..inner("ipConfigurations")
    },
    // Shown, never written here: see [`decide`].
    inner(CONNECTIONS),
];

pub fn rows() -> Vec<Kind> {
    vec![Kind {
        path: SERVICES,
        since: "2019-04-01",
        create: flow(How::Async, 10, 14.0),
        update: flow(How::Async, 10, 14.0),
        delete: flow(How::Async, 10, 11.0),
        parts: PARTS,
        refs: &[
            Ref {
                at: &["properties", "loadBalancerFrontendIpConfigurations"],
                action: "Microsoft.Network/loadBalancers/frontendIPConfigurations/join/action",
                back: "privateLinkService",
                one: true,
                loose: false,
            },
            Ref {
                at: &["properties", "networkInterfaces"],
                action: "",
                back: "privateLinkService",
                one: true,
                loose: true,
            },
        ],
        verb: "PrivateLinkService",
        rules: &Service,
        ..BASE
    }]
}

struct Service;

fn listed(record: &Record, list: &str, subscription: &str) -> bool {
    let given = record.property(list).and_then(|v| v["subscriptions"].as_array());
    given
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .any(|s| s == "*" || s.eq_ignore_ascii_case(subscription))
}

/// Whether whoever connects from a subscription needs nobody's approval.
pub fn approves(service: &Record, subscription: &str) -> bool {
    listed(service, "autoApproval", subscription)
}

/// Whether a subscription may know of the service; its own always does.
pub fn visible(service: &Record, subscription: &str, named: &str) -> Result<(), Fault> {
    let own = service.id.subscription().is_some_and(|s| s.eq_ignore_ascii_case(subscription));
    match own || listed(service, "visibility", subscription) {
        true => Ok(()),
        false => Err(bad(
            "PrivateLinkServiceNotVisible",
            format!("The private link service {named} is not visible to subscription {subscription}."),
        )),
    }
}

pub fn by_alias<'a>(state: &'a State, alias: &str) -> Option<&'a Record> {
    let all = kind("Microsoft.Network/privateLinkServices")?;
    let same = |r: &&Arc<Record>| {
        r.property("alias").and_then(Value::as_str).is_some_and(|a| a.eq_ignore_ascii_case(alias))
    };
    state.of_kind(all, "", None).find(same).map(|r| &**r)
}

/// Whether an alias leads somewhere that a subscription may know of.
pub fn visible_alias(state: &State, alias: &str, subscription: &str) -> bool {
    by_alias(state, alias).is_some_and(|s| visible(s, subscription, alias).is_ok())
}

impl Rules for Service {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let place = doc.get("location").and_then(Value::as_str).unwrap_or_default().to_owned();
        let p = properties(doc);
        for owned in [CONNECTIONS, "alias", "networkInterfaces"] {
            p.remove(owned);
        }
        let kept = |f: &str| prep.old.and_then(|o| o.property(f)).cloned();
        let alias = format!(
            "{}.{}.{place}.azure.privatelinkservice",
            prep.id.name(),
            prep.state.guid(prep.id.key(), "alias")
        );
        p.insert("alias".into(), kept("alias").unwrap_or_else(|| alias.into()));
        default(p, "fqdns", json!([]));
        default(p, "enableProxyProtocol", false);
        for list in ["visibility", "autoApproval"] {
            default(p, list, json!({"subscriptions": []}));
        }
        balanced(prep, p)?;
        addressed(prep, p)?;
        let nic = match kept("networkInterfaces") {
            Some(n) => n,
            None => {
                let name = format!("{}.nic.{}", prep.id.name(), prep.state.guid(prep.id.key(), "nic"));
                let (s, g) =
                    (prep.id.subscription().unwrap_or_default(), prep.id.group().unwrap_or_default());
                json!([{"id": format!("/subscriptions/{s}/resourceGroups/{g}/providers/Microsoft.Network/networkInterfaces/{name}")}])
            }
        };
        p.insert("networkInterfaces".into(), nic);
        if prep.old.is_none() {
            interface(prep.state, prep.id, p, prep.version)?;
        }
        Ok(())
    }

    fn created(&self, state: &mut State, record: &Record, now: Timestamp) {
        let (Some(p), Ok(version)) = (record.properties(), "2024-03-01".parse()) else { return };
        if let Ok((id, doc)) = interface(state, &record.id, p, &version) {
            put_interface(state, record, id, doc, now);
        }
    }

    fn removed(&self, state: &mut State, record: &Record, at: Timestamp) {
        remove_interfaces(state, record, at);
    }

    fn show(&self, state: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        let etag = out.get("etag").cloned().unwrap_or_default();
        let all: Vec<Value> = connections(state, record).iter().map(|c| c.shown(record, &etag)).collect();
        let p = properties(out);
        for c in p.get_mut("ipConfigurations").and_then(Value::as_array_mut).into_iter().flatten() {
            c["properties"]["provisioningState"] = "Succeeded".into();
        }
        p.insert(CONNECTIONS.into(), all.into());
    }

    fn may_delete(&self, state: &State, record: &Record) -> Result<(), Fault> {
        match connections(state, record).first() {
            None => Ok(()),
            Some(c) => Err(bad(
                "PrivateLinkServiceHasConnections",
                format!(
                    "Private link service {} cannot be deleted: the private endpoint {} is connected to it.",
                    record.id, c.endpoint.id
                ),
            )),
        }
    }
}

/// A frontend of a Standard load balancer is what it leads to.
fn balanced(prep: &Prep<'_>, p: &Map<String, Value>) -> Result<(), Fault> {
    let list = p.get("loadBalancerFrontendIpConfigurations").and_then(Value::as_array);
    let Some(list) = list.filter(|l| !l.is_empty()) else {
        return match p.get("destinationIPAddress") {
            Some(_) => Ok(()),
            None => Err(bad(
                "PrivateLinkServiceMustHaveLoadBalancerFrontend",
                format!(
                    "Private link service {} must have at least one load balancer frontend IP configuration.",
                    prep.id
                ),
            )),
        };
    };
    for f in list {
        let id = text(f, &["id"]).unwrap_or_default();
        let balancer = ResourceId::parse(id).ok().and_then(|i| prep.state.get(i.root().key()).cloned());
        // That it is there is looked at with all references.
        let Some(b) = balancer else { continue };
        if b.doc.get("sku").and_then(|s| text(s, &["name"])) != Some("Standard") {
            return Err(bad(
                "PrivateLinkServiceRequiresStandardLoadBalancer",
                format!(
                    "Private link service {} requires a load balancer of SKU Standard; {} is not.",
                    prep.id, b.id
                ),
            ));
        }
    }
    Ok(())
}

fn addressed(prep: &Prep<'_>, p: &mut Map<String, Value>) -> Result<(), Fault> {
    let Some(list) = p.get_mut("ipConfigurations").and_then(Value::as_array_mut).filter(|l| !l.is_empty())
    else {
        return Err(bad(
            "PrivateLinkServiceMustHaveAtLeastOneIpConfiguration",
            format!("Private link service {} must have at least one IP configuration.", prep.id),
        ));
    };
    let explicit = list.iter().any(|c| c["properties"]["primary"].as_bool() == Some(true));
    for (i, c) in list.iter_mut().enumerate() {
        let Some(id) = text(c, &["properties", "subnet", "id"]).map(str::to_owned) else {
            return Err(bad(
                "SubnetIsRequired",
                format!("A subnet is required for IP configuration {}.", c["name"]),
            ));
        };
        if let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) {
            default(q, "primary", i == 0 && !explicit);
        }
        let lower = id.to_lowercase();
        let found = lower
            .rsplit_once("/subnets/")
            .and_then(|(vnet, name)| prep.state.get(vnet)?.element("subnets", name));
        if found
            .is_some_and(|s| text(s, &["properties", "privateLinkServiceNetworkPolicies"]) == Some("Enabled"))
        {
            return Err(bad(
                "PrivateLinkServiceCannotBeCreatedInSubnetThatHasNetworkPoliciesEnabled",
                format!(
                    "Private link service {} cannot be created in a subnet {id} since it has private link service network policies enabled.",
                    prep.id
                ),
            ));
        }
    }
    Ok(())
}

fn interface(
    state: &State,
    of: &ResourceId,
    p: &Map<String, Value>,
    version: &ApiVersion,
) -> Result<(ResourceId, Map<String, Value>), Fault> {
    let first =
        p.get("networkInterfaces").and_then(|n| n.get(0)).and_then(|n| text(n, &["id"])).unwrap_or_default();
    let id = ResourceId::parse(first).map_err(|e| bad("InvalidResourceName", e.to_string()))?;
    let configs = p.get("ipConfigurations").cloned().unwrap_or_else(|| json!([]));
    let mut q = Map::new();
    q.insert("resourceGuid".into(), guid(stable(state, id.key(), "resourceGuid")).into());
    q.insert("ipConfigurations".into(), configs);
    let prep = Prep { state, id: &id, old: None, version, now: Timestamp::UNIX_EPOCH };
    allocate(&prep, &mut q, "ipConfigurations")?;
    common(state, &id, &mut q);
    let mut doc = Map::new();
    doc.insert("managedBy".into(), of.as_str().into());
    doc.insert("kind".into(), "Regular".into());
    doc.insert("properties".into(), Value::Object(q));
    Ok((id, doc))
}

/// A connection as the service sees it: the endpoint, and where in it.
struct Connection<'a> {
    name: String,
    endpoint: &'a Record,
    list: &'static str,
    element: &'a Value,
    number: u128,
}

impl Connection<'_> {
    fn shown(&self, service: &Record, etag: &Value) -> Value {
        let state = &self.element["properties"]["privateLinkServiceConnectionState"];
        json!({
            "name": self.name, "id": format!("{}/{CONNECTIONS}/{}", service.id, self.name), "etag": etag,
            "type": "Microsoft.Network/privateLinkServices/privateEndpointConnections",
            "properties": {
                "provisioningState": "Succeeded", "privateEndpoint": {"id": self.endpoint.id.as_str()},
                "privateLinkServiceConnectionState": state, "linkIdentifier": (self.number >> 96).to_string(),
                "privateEndpointLocation": self.endpoint.location(),
            },
        })
    }
}

fn connections<'a>(state: &'a State, service: &Record) -> Vec<Connection<'a>> {
    let of = |source: &str| {
        let (rest, name) = source.rsplit_once('/')?;
        let (root, list) = rest.rsplit_once('/')?;
        let endpoint = state.get(root).filter(|r| r.kind.path == ENDPOINTS)?;
        let list = *LISTS.iter().find(|l| l.eq_ignore_ascii_case(list))?;
        let element = endpoint.element(list, name)?;
        if text(element, &["properties", "privateLinkServiceConnectionState", "status"])
            == Some("Disconnected")
        {
            return None;
        }
        let number = stable(state, source, "connection");
        Some(Connection {
            name: format!("{}.{}", endpoint.id.name(), guid(number)),
            endpoint,
            list,
            element,
            number,
        })
    };
    state.edges_to(service.id.key()).filter_map(|e| of(&e.source)).collect()
}

fn missing(id: &ResourceId) -> Fault {
    Fault::service(StatusCode::NOT_FOUND, "NotFound", format!("Resource {id} not found."))
}

fn set(state: &mut State, endpoint: &Key, list: &str, element: &str, to: Value) {
    let Some(old) = state.get(endpoint).cloned() else { return };
    let mut record = (*old).clone();
    let elements = properties(&mut record.doc).get_mut(list).and_then(Value::as_array_mut);
    for e in elements.into_iter().flatten().filter(|e| e["name"].as_str() == Some(element)) {
        e["properties"]["privateLinkServiceConnectionState"] = to.clone();
    }
    state.bump(endpoint);
    record.etag = state.guid(endpoint, "etag");
    state.replace(record);
}

/// The service, and one of its connections: whose, and which.
fn found(state: &State, id: &ResourceId) -> Option<(Key, &'static str, String, Value)> {
    let service = state.get(id.root().key())?;
    let c = connections(state, service).into_iter().find(|c| c.name.eq_ignore_ascii_case(id.name()))?;
    let element = c.element["name"].as_str().unwrap_or_default().to_owned();
    Some((
        c.endpoint.id.key().clone(),
        c.list,
        element,
        c.element["properties"]["privateLinkServiceConnectionState"].clone(),
    ))
}

/// A connection as it is shown.
pub fn connection(state: &State, id: &ResourceId) -> Result<Value, Fault> {
    let service = state.get(id.root().key()).ok_or_else(|| missing(id))?;
    let etag = json!(format!("W/\"{}\"", service.etag));
    let all = connections(state, service);
    let c = all.iter().find(|c| c.name.eq_ignore_ascii_case(id.name())).ok_or_else(|| missing(id))?;
    Ok(c.shown(service, &etag))
}

/// The service's owner approves or rejects a connection.
pub fn decide(state: &mut State, id: &ResourceId, body: &Map<String, Value>) -> Result<Value, Fault> {
    let (endpoint, list, element, was) = found(state, id).ok_or_else(|| missing(id))?;
    let given =
        body.get("properties").map(|p| p["privateLinkServiceConnectionState"].clone()).unwrap_or_default();
    let status = text(&given, &["status"]).unwrap_or_default();
    let before = text(&was, &["status"]).unwrap_or_default();
    let allowed = matches!(
        (before, status),
        ("Pending", "Approved" | "Rejected")
            | ("Approved", "Approved" | "Rejected")
            | ("Rejected", "Rejected" | "Approved")
    );
    if !allowed {
        return Err(bad(
            "InvalidPrivateLinkServiceConnectionState",
            format!("The connection {id} is {before}; it cannot become '{status}': Approved or Rejected."),
        ));
    }
    let words = text(&given, &["description"]).unwrap_or_default();
    set(
        state,
        &endpoint,
        list,
        &element,
        json!({"status": status, "description": words, "actionsRequired": "None"}),
    );
    connection(state, id)
}

/// The service's owner ends a connection; the endpoint stays, disconnected. `false`: there is none.
pub fn disconnect(state: &mut State, id: &ResourceId) -> bool {
    let Some((endpoint, list, element, _)) = found(state, id) else { return false };
    let to = json!({"status": "Disconnected", "description": "Deleted state", "actionsRequired": ""});
    set(state, &endpoint, list, &element, to);
    true
}
