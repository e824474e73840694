//! Private endpoints and their DNS zone groups.
//!
//! A connection's state lives in the endpoint: the service it leads to shows it from there, so that the two cannot
//! disagree. An endpoint makes an interface of its own in the subnet, which goes with it.

use crate::kinds::addresses::allocate;
use crate::kinds::compute_parts::{stable, text};
use crate::kinds::network::keep_guid;
use crate::kinds::{
    BASE, How, Kind, Located, Names, Part, Prep, Ref, Rules, SYNC, default, edges, flow, kind, private_link,
    properties, targets,
};
use crate::state::{Key, Phase, Record, State, guid};
use crate::wire::Fault;
use arm::{ApiVersion, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

pub const ENDPOINTS: &str = "privateEndpoints";
const GROUPS: &str = "privateEndpoints/privateDnsZoneGroups";
pub const LISTS: [&str; 2] = ["privateLinkServiceConnections", "manualPrivateLinkServiceConnections"];
/// The id that an alias stands for.
pub const TARGET: &str = "zaffreTarget";

fn nothing(_: &mut Map<String, Value>) {}

const fn inner(list: &'static str, refs: &'static [Ref]) -> Part {
    Part { list, verb: "", create: SYNC, delete: SYNC, refs, parts: &[], defaults: nothing, in_use: "" }
}

const fn loose(at: &'static [&'static str], back: &'static str) -> Ref {
    Ref { at, action: "", back, one: true, loose: true }
}

const CONNECTED: &[Ref] =
    &[loose(&["properties", "privateLinkServiceId"], ""), loose(&["properties", TARGET], "")];

const LINKS: &[Ref] = &[
    Ref {
        at: &["properties", "subnet"],
        action: "Microsoft.Network/virtualNetworks/subnets/join/action",
        back: "privateEndpoints",
        one: false,
        loose: false,
    },
    loose(&["properties", "networkInterfaces"], "privateEndpoint"),
];

const ZONES: &[Part] = &[inner(
    "privateDnsZoneConfigs",
    &[Ref {
        at: &["properties", "privateDnsZoneId"],
        action: "Microsoft.Network/privateDnsZones/join/action",
        back: "",
        one: false,
        loose: false,
    }],
)];

const CONFIGS: &[Part] =
    &[inner(LISTS[0], CONNECTED), inner(LISTS[1], CONNECTED), inner("ipConfigurations", &[])];

pub fn rows() -> Vec<Kind> {
    vec![
        Kind {
            path: ENDPOINTS,
            since: "2019-02-01",
            create: flow(How::Async, 10, 32.0),
            update: flow(How::Async, 10, 32.0),
            delete: flow(How::Async, 10, 11.0),
            parts: CONFIGS,
            refs: LINKS,
            verb: "PrivateEndpoint",
            rules: &Endpoint,
            ..BASE
        },
        Kind {
            path: GROUPS,
            since: "2020-03-01",
            located: Located::Nowhere,
            create: flow(How::Async, 10, 3.0),
            update: flow(How::Async, 10, 3.0),
            delete: flow(How::Async, 10, 3.0),
            parts: ZONES,
            names: Names::Network(80),
            tracked: false,
            verb: "PrivateDnsZoneGroup",
            rules: &ZoneGroup,
            ..BASE
        },
    ]
}

pub fn bad(code: &str, message: String) -> Fault {
    Fault::service(StatusCode::BAD_REQUEST, code, message)
}

/// Whether a reference comes from an endpoint that is still being made, or from its interface: a subnet does not
/// show those yet.
pub fn unborn(state: &State, source: &str) -> bool {
    let root = source.split_once("/ipconfigurations/").map_or(source, |(root, _)| root);
    let Some(record) = state.get(root) else { return false };
    let of = record.doc.get("managedBy").and_then(Value::as_str).and_then(|m| state.get(&m.to_lowercase()));
    let endpoint = of.unwrap_or(record);
    endpoint.kind.path == ENDPOINTS
        && endpoint.phase == Phase::Updating
        && endpoint.created == endpoint.changed
}

struct Endpoint;

/// What a connection leads to: the id in lower case, and the service if it is one of ours.
fn target<'a>(prep: &'a Prep<'_>, id: &str, manual: bool) -> Result<(String, Option<&'a Record>), Fault> {
    let unknown = || {
        bad(
            arm::code::INVALID_RESOURCE_REFERENCE,
            format!(
                "Resource {id} referenced by resource {} was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.",
                prep.id
            ),
        )
    };
    if !id.starts_with('/') {
        let service = private_link::by_alias(prep.state, id).ok_or_else(unknown)?;
        if !manual {
            return Err(bad(
                "AliasRequiresManualConnection",
                format!(
                    "The private endpoint {} refers to a private link service by its alias; this needs manualPrivateLinkServiceConnections.",
                    prep.id
                ),
            ));
        }
        return Ok((service.id.key().to_string(), Some(service)));
    }
    let key = id.trim_end_matches('/').to_lowercase();
    let parsed = ResourceId::parse(id).map_err(|_| unknown())?;
    // Services of types that are not served here are taken as they are named.
    match (kind(parsed.resource_type().as_str()), prep.state.get(&key)) {
        (Some(_), None) => Err(unknown()),
        (_, r) => Ok((key, r.map(|r| &**r).filter(|r| r.kind.path == private_link::SERVICES))),
    }
}

impl Rules for Endpoint {
    /// A connection that is there at once needs the right to approve it; one by hand needs none, and waits.
    fn links(&self, doc: &Map<String, Value>) -> Vec<(Cow<'static, str>, String)> {
        let list = doc.get("properties").and_then(|p| p.get(LISTS[0])).and_then(Value::as_array);
        let ids = list.into_iter().flatten().filter_map(|c| text(c, &["properties", "privateLinkServiceId"]));
        let need = |id: &str| {
            let target = ResourceId::parse(id.trim_end_matches('/')).ok()?;
            let action = format!("{}/PrivateEndpointConnectionsApproval/action", target.resource_type());
            Some((Cow::Owned(action), target.as_str().to_owned()))
        };
        ids.filter_map(need).collect()
    }

    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        keep_guid(prep, doc);
        let subscription = prep.id.subscription().unwrap_or_default().to_owned();
        let p = properties(doc);
        if p.get("subnet").and_then(|s| text(s, &["id"])).is_none() {
            return Err(bad(
                "SubnetIsRequired",
                format!("A subnet is required for private endpoint {}.", prep.id),
            ));
        }
        for list in LISTS.iter().chain(&["ipConfigurations"]) {
            default(p, list, json!([]));
        }
        let mut count = 0;
        for list in LISTS {
            for c in p.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                count += 1;
                connection(prep, list, c, &subscription)?;
            }
        }
        if count != 1 {
            return Err(bad(
                "PrivateEndpointMustHaveOneConnection",
                format!(
                    "Private endpoint {} must have exactly one private link service connection.",
                    prep.id
                ),
            ));
        }
        default(p, "customNetworkInterfaceName", "");
        default(p, "isIPv6EnabledPrivateEndpoint", false);
        p.remove("customDnsConfigs");
        p.remove("networkInterfaces");
        let kept = |f: &str| prep.old.and_then(|o| o.property(f)).cloned();
        p.insert("customDnsConfigs".into(), kept("customDnsConfigs").unwrap_or_else(|| json!([])));
        let nic = match kept("networkInterfaces") {
            Some(n) => n,
            None => json!([{"id": interface_id(prep, p)?.as_str()}]),
        };
        p.insert("networkInterfaces".into(), nic);
        // The address is given when the interface is made; that there is one is known now.
        if prep.old.is_none() {
            interface(prep.state, prep.id, p, prep.version)?;
        }
        Ok(())
    }

    fn created(&self, state: &mut State, record: &Record, now: Timestamp) {
        let Some(p) = record.properties() else { return };
        let Ok(version) = "2024-03-01".parse() else { return };
        if let Ok((id, doc)) = interface(state, &record.id, p, &version) {
            put_interface(state, record, id, doc, now);
        }
    }

    fn settled(&self, state: &State, record: &mut Record) {
        let ip = address(state, record);
        let names = names(state, record);
        let Some(ip) = ip else { return };
        let configs: Vec<Value> = names.iter().map(|n| json!({"fqdn": n, "ipAddresses": [ip]})).collect();
        properties(&mut record.doc).insert("customDnsConfigs".into(), configs.into());
    }

    fn removed(&self, state: &mut State, record: &Record, at: Timestamp) {
        remove_interfaces(state, record, at);
    }

    fn show(&self, _: &State, _: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        let p = properties(out);
        for list in LISTS {
            for c in p.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) {
                    q.remove(TARGET);
                    q.insert("provisioningState".into(), "Succeeded".into());
                }
            }
        }
        if !version.at_least("2021-05-01") {
            p.remove("customNetworkInterfaceName");
            p.remove("ipConfigurations");
        }
        if !version.at_least("2024-03-01") {
            p.remove("isIPv6EnabledPrivateEndpoint");
        }
    }

    fn expand(
        &self,
        state: &State,
        record: &Record,
        version: &ApiVersion,
        what: &str,
        out: &mut Map<String, Value>,
    ) {
        if !what.contains("networkinterfaces") {
            return;
        }
        let nics = record.property("networkInterfaces").and_then(Value::as_array);
        let whole: Vec<Value> = nics
            .into_iter()
            .flatten()
            .filter_map(|n| state.get(&text(n, &["id"])?.to_lowercase()))
            .map(|r| crate::kinds::show(state, r, version))
            .collect();
        properties(out).insert("networkInterfaces".into(), whole.into());
    }
}

fn connection(prep: &Prep<'_>, list: &str, c: &mut Value, subscription: &str) -> Result<(), Fault> {
    let manual = list == LISTS[1];
    let name = c["name"].as_str().unwrap_or_default().to_owned();
    let Some(id) = text(c, &["properties", "privateLinkServiceId"]).map(str::to_owned) else {
        return Err(bad("InvalidRequestFormat", format!("Connection '{name}' has no privateLinkServiceId.")));
    };
    let (key, service) = target(prep, &id, manual)?;
    let message = text(c, &["properties", "requestMessage"]).unwrap_or_default();
    if message.len() > 140 {
        return Err(bad("RequestMessageTooLong", "The request message has at most 140 characters.".into()));
    }
    if let Some(s) = service.filter(|_| prep.old.is_none()) {
        private_link::visible(s, subscription, &id)?;
    }
    let old = prep.old.and_then(|o| o.element(list, &name)).filter(|o| {
        text(o, &["properties", "privateLinkServiceId"]).is_some_and(|i| i.eq_ignore_ascii_case(&id))
    });
    let fresh = || match (manual, service) {
        (false, _) => ("Approved", "Auto-Approved"),
        (true, Some(s)) if private_link::approves(s, subscription) => ("Approved", "Auto-Approved"),
        (true, _) => ("Pending", "Awaiting Approval"),
    };
    let state =
        old.map(|o| o["properties"]["privateLinkServiceConnectionState"].clone()).unwrap_or_else(|| {
            let (status, description) = fresh();
            json!({"status": status, "description": description, "actionsRequired": "None"})
        });
    let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) else { return Ok(()) };
    default(q, "groupIds", json!([]));
    q.insert("privateLinkServiceConnectionState".into(), state);
    q.remove(TARGET);
    if !id.starts_with('/') {
        q.insert(TARGET.into(), key.into());
    }
    Ok(())
}

fn interface_id(prep: &Prep<'_>, p: &Map<String, Value>) -> Result<ResourceId, Fault> {
    let named = p.get("customNetworkInterfaceName").and_then(Value::as_str).filter(|n| !n.is_empty());
    let name = named.map_or_else(
        || format!("{}.nic.{}", prep.id.name(), prep.state.guid(prep.id.key(), "nic")),
        str::to_owned,
    );
    let (s, g) = (prep.id.subscription().unwrap_or_default(), prep.id.group().unwrap_or_default());
    let id = ResourceId::group_scope(s, g)
        .and_then(|g| g.provider("Microsoft.Network", "networkInterfaces", &name));
    let id = id.map_err(|e| bad("InvalidResourceName", e.to_string()))?;
    match prep.state.get(id.key()) {
        Some(_) => {
            Err(bad("NetworkInterfaceAlreadyExists", format!("The network interface {id} already exists.")))
        }
        None => Ok(id),
    }
}

/// The interface of an endpoint as it will be made.
fn interface(
    state: &State,
    of: &ResourceId,
    p: &Map<String, Value>,
    version: &ApiVersion,
) -> Result<(ResourceId, Map<String, Value>), Fault> {
    let first =
        p.get("networkInterfaces").and_then(|n| n.get(0)).and_then(|n| text(n, &["id"])).unwrap_or_default();
    let id = ResourceId::parse(first).map_err(|e| bad("InvalidResourceName", e.to_string()))?;
    let group = LISTS.iter().flat_map(|l| p.get(*l).and_then(Value::as_array).into_iter().flatten()).next();
    let group = group
        .and_then(|c| {
            text(c, &["properties", "groupIds"]).or_else(|| c["properties"]["groupIds"].get(0)?.as_str())
        })
        .unwrap_or_default();
    let mut config = json!({
        "name": format!("privateEndpointIpConfig.{}", guid(stable(state, of.key(), "ipConfig"))),
        "properties": {
            "privateIPAllocationMethod": "Dynamic", "privateIPAddressVersion": "IPv4", "primary": true,
            "subnet": p.get("subnet").cloned().unwrap_or_default(),
        },
    });
    let fixed = p
        .get("ipConfigurations")
        .and_then(|c| c.get(0))
        .and_then(|c| text(c, &["properties", "privateIPAddress"]));
    if let Some(ip) = fixed {
        config["properties"]["privateIPAllocationMethod"] = "Static".into();
        config["properties"]["privateIPAddress"] = ip.into();
    }
    if !group.is_empty() {
        config["properties"]["privateLinkConnectionProperties"] =
            json!({"groupId": group, "requiredMemberName": group, "fqdns": connection_names(state, p)});
    }
    let mut q = Map::new();
    q.insert("resourceGuid".into(), guid(stable(state, id.key(), "resourceGuid")).into());
    q.insert("ipConfigurations".into(), json!([config]));
    let prep = Prep { state, id: &id, old: None, version, now: Timestamp::UNIX_EPOCH };
    allocate(&prep, &mut q, "ipConfigurations")?;
    common(state, &id, &mut q);
    let mut doc = Map::new();
    doc.insert("managedBy".into(), of.as_str().into());
    doc.insert("kind".into(), "Regular".into());
    doc.insert("properties".into(), Value::Object(q));
    Ok((id, doc))
}

/// What interfaces that services make have.
pub fn common(state: &State, id: &ResourceId, q: &mut Map<String, Value>) {
    let suffix = format!("{:025x}.ax.internal.cloudapp.net", stable(state, id.key(), "suffix") >> 28);
    q.insert(
        "dnsSettings".into(),
        json!({"dnsServers": [], "appliedDnsServers": [], "internalDomainNameSuffix": suffix}),
    );
    q.insert("macAddress".into(), "".into());
    for flag in ["enableAcceleratedNetworking", "vnetEncryptionSupported", "enableIPForwarding"] {
        q.insert(flag.into(), false.into());
    }
    q.insert("hostedWorkloads".into(), json!([]));
    q.insert("tapConfigurations".into(), json!([]));
    q.insert("nicType".into(), "Standard".into());
}

pub fn put_interface(
    state: &mut State,
    of: &Record,
    id: ResourceId,
    mut doc: Map<String, Value>,
    now: Timestamp,
) {
    let Some(k) = kind("Microsoft.Network/networkInterfaces") else { return };
    doc.insert("location".into(), of.location().unwrap_or_default().into());
    let edges = edges(k, &id, &doc);
    let record = Record {
        etag: state.guid(id.key(), "etag"),
        targets: targets(&edges),
        ..Record::new(id, k, doc, of.created_by.clone(), now)
    };
    state.put(record, edges);
}

pub fn remove_interfaces(state: &mut State, record: &Record, at: Timestamp) {
    let nics = record.property("networkInterfaces").and_then(Value::as_array).cloned().unwrap_or_default();
    for id in nics.iter().filter_map(|n| text(n, &["id"])) {
        state.remove(&id.to_lowercase(), at);
    }
}

/// The address of an endpoint's interface.
fn address(state: &State, record: &Record) -> Option<String> {
    let id = record.property("networkInterfaces")?.get(0).and_then(|n| text(n, &["id"]))?;
    let configs = state.get(&id.to_lowercase())?.property("ipConfigurations")?.as_array()?;
    text(configs.first()?, &["properties", "privateIPAddress"]).map(str::to_owned)
}

fn names(state: &State, record: &Record) -> Vec<String> {
    record.properties().map(|p| connection_names(state, p)).unwrap_or_default()
}

/// The public names that lead to what is connected.
fn connection_names(state: &State, p: &Map<String, Value>) -> Vec<String> {
    let all = LISTS.iter().flat_map(|l| p.get(*l).and_then(Value::as_array).into_iter().flatten());
    let mut out = Vec::new();
    for c in all {
        let q = &c["properties"];
        let id = text(q, &[TARGET]).or_else(|| text(q, &["privateLinkServiceId"])).unwrap_or_default();
        let name = id.rsplit('/').next().unwrap_or_default();
        if let Some(service) = state.get(&id.to_lowercase()).filter(|r| r.kind.path == private_link::SERVICES)
        {
            let given = service.property("fqdns").and_then(Value::as_array);
            out.extend(given.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
            continue;
        }
        for group in q["groupIds"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            out.extend(match group {
                "blob" | "file" | "queue" | "table" | "dfs" => {
                    Some(format!("{name}.{group}.core.windows.net"))
                }
                "vault" => Some(format!("{name}.vault.azure.net")),
                "registry" => Some(format!("{name}.azurecr.io")),
                _ => None,
            });
        }
    }
    out
}

struct ZoneGroup;

impl Rules for ZoneGroup {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let endpoint = prep.id.parent().and_then(|p| prep.state.get(p.key()).cloned());
        let Some(endpoint) = endpoint else { return Ok(()) };
        let configs =
            endpoint.property("customDnsConfigs").and_then(Value::as_array).cloned().unwrap_or_default();
        let p = properties(doc);
        default(p, "privateDnsZoneConfigs", json!([]));
        for c in p.get_mut("privateDnsZoneConfigs").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(zone) = text(c, &["properties", "privateDnsZoneId"]).map(str::to_owned) else {
                return Err(bad(
                    "InvalidRequestFormat",
                    "A DNS zone configuration needs a privateDnsZoneId.".into(),
                ));
            };
            let zone = zone.rsplit('/').next().unwrap_or_default().to_owned();
            let sets: Vec<Value> = configs
                .iter()
                .filter_map(|d| {
                    let name = label(text(d, &["fqdn"])?, &zone)?;
                    Some(json!({"recordType": "A", "recordSetName": name, "fqdn": format!("{name}.{zone}"), "ttl": 10, "ipAddresses": d["ipAddresses"]}))
                })
                .collect();
            if let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) {
                q.insert("recordSets".into(), sets.into());
            }
        }
        Ok(())
    }

    fn after(&self, state: &mut State, key: &Key, at: Timestamp) {
        let Some(group) = state.get(key).cloned() else { return };
        for (id, set) in written(&group) {
            let Some(k) = kind("Microsoft.Network/privateDnsZones/A") else { return };
            let records: Vec<Value> = set["ipAddresses"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|ip| json!({"ipv4Address": ip}))
                .collect();
            let endpoint = group.id.parent().map(|p| p.name().to_owned()).unwrap_or_default();
            let body = json!({"ttl": set["ttl"], "aRecords": records, "metadata": {"creator": format!("created by private endpoint {endpoint}")}});
            let mut doc = Map::new();
            doc.insert("properties".into(), body);
            state.bump(id.key());
            let record = Record {
                etag: state.guid(id.key(), "etag"),
                ..Record::new(id, k, doc, group.created_by.clone(), at)
            };
            state.put(record, Vec::new());
        }
    }

    fn removed(&self, state: &mut State, record: &Record, at: Timestamp) {
        for (id, _) in written(record) {
            state.remove(id.key(), at);
        }
    }

    fn show(&self, _: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        for c in properties(out)
            .get_mut("privateDnsZoneConfigs")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            for set in
                c["properties"].get_mut("recordSets").and_then(Value::as_array_mut).into_iter().flatten()
            {
                set["provisioningState"] = record.phase.as_str().into();
            }
        }
    }
}

/// How a name is called in a zone: `a.blob.core.windows.net` is `a` in `privatelink.blob.core.windows.net`.
fn label(name: &str, zone: &str) -> Option<String> {
    let public = zone.strip_prefix("privatelink.").unwrap_or(zone);
    let found =
        name.strip_suffix(public).or_else(|| name.strip_suffix(&public.replace("vaultcore", "vault")));
    let label = found?.trim_end_matches('.');
    Some(if label.is_empty() { "@".to_owned() } else { label.to_owned() })
}

/// The record sets that a group writes.
fn written(group: &Record) -> Vec<(ResourceId, Value)> {
    let configs =
        group.property("privateDnsZoneConfigs").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut out = Vec::new();
    for c in configs {
        let zone = text(&c, &["properties", "privateDnsZoneId"]).and_then(|z| ResourceId::parse(z).ok());
        for set in c["properties"]["recordSets"].as_array().into_iter().flatten() {
            let id = zone.as_ref().zip(text(set, &["recordSetName"])).and_then(|(z, n)| z.child("A", n).ok());
            out.extend(id.map(|id| (id, set.clone())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_zones() {
        let l = |n: &str, z: &str| label(n, z);
        assert_eq!(l("a.blob.core.windows.net", "privatelink.blob.core.windows.net").as_deref(), Some("a"));
        assert_eq!(l("v.vault.azure.net", "privatelink.vaultcore.azure.net").as_deref(), Some("v"));
        assert_eq!(l("api.x.test", "x.test").as_deref(), Some("api"));
        assert_eq!(l("x.test", "x.test").as_deref(), Some("@"));
        assert_eq!(l("a.other.net", "x.test"), None);
    }
}
