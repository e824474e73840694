//! What compute and private link answer beside their resources: actions, sizes, quota, the marketplace, health.

use crate::gateway::groups::LOCATIONS;
use crate::gateway::{Cx, checks, operations, tree};
use crate::kinds::{self, HIDDEN, How, Image, Kind, MACHINES, MARKET, Power, flow, power};
use crate::machines::{allow, usage};
use crate::state::{Effect, Phase, Record};
use crate::target::Target;
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether a full type, lower case, is one of these words rather than a type.
pub fn knows(full: &str) -> bool {
    const WORDS: [&str; 4] = [
        "microsoft.compute/skus",
        "microsoft.resourcehealth/availabilitystatuses",
        "microsoft.network/locations/usages",
        "microsoft.network/locations/checkprivatelinkservicevisibility",
    ];
    let action = full.rsplit_once('/').is_some_and(|(kind, word)| is_action(kind, word));
    WORDS.contains(&full) || full.starts_with("microsoft.compute/locations/") || action
}

fn is_action(kind: &str, word: &str) -> bool {
    match kind {
        "microsoft.compute/virtualmachines" => {
            operated(word).is_some()
                || matches!(word, "generalize" | "retrievebootdiagnosticsdata" | "instanceview" | "vmsizes")
        }
        "microsoft.compute/disks" | "microsoft.compute/snapshots" => {
            matches!(word, "begingetaccess" | "endgetaccess")
        }
        _ => false,
    }
}

/// How long an action takes.
fn operated(word: &str) -> Option<f64> {
    Some(match word {
        "start" => 12.0,
        "poweroff" => 15.0,
        "deallocate" => 30.0,
        "restart" | "reapply" => 10.0,
        "redeploy" => 60.0,
        _ => return None,
    })
}

/// The answer, if the path is one of ours.
pub fn serve(cx: &mut Cx<'_>, target: &Target) -> Option<Result<Reply, Fault>> {
    let words = target.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let get = cx.call.method == Method::GET;
    let id = target.of.as_ref()?;
    let full = id.resource_type().as_str().to_lowercase();
    match words.as_slice() {
        ["providers", "microsoft.compute", "skus"] if get => Some(Ok(skus(cx, id))),
        ["providers", "microsoft.resourcehealth", "availabilitystatuses"] if get => Some(healths(cx, id)),
        [] if full == "microsoft.resourcehealth/availabilitystatuses" && get => Some(health(cx, id)),
        [] if full == "microsoft.network/privatelinkservices/privateendpointconnections" => {
            connection(cx, id)
        }
        [word] if is_action(&full, word) => Some(action(cx, id, word)),
        rest if full.starts_with("microsoft.compute/locations") && get => Some(located(cx, id, rest)),
        ["usages"] if full == "microsoft.network/locations" && get => Some(Ok(network_usages(cx, id))),
        ["checkprivatelinkservicevisibility"]
            if full == "microsoft.network/locations" && cx.call.method == Method::POST =>
        {
            Some(visibility(cx, id))
        }
        _ => None,
    }
}

fn connection(cx: &mut Cx<'_>, id: &ResourceId) -> Option<Result<Reply, Fault>> {
    match cx.call.method.as_str() {
        "GET" => Some(kinds::connection(cx.state, id).map(Reply::ok)),
        "PUT" => {
            let body = match tree::body(cx) {
                Ok(b) => b,
                Err(e) => return Some(Err(e)),
            };
            Some(kinds::decide(cx.state, id, &body).map(Reply::ok))
        }
        "DELETE" => Some(Ok(match kinds::disconnect(cx.state, id) {
            false => Reply::empty(StatusCode::NO_CONTENT),
            true => {
                let root = id.root();
                let Some(record) = cx.state.get(root.key()).cloned() else {
                    return Some(Ok(Reply::empty(StatusCode::NO_CONTENT)));
                };
                begun(cx, &record, 3.0, 10, Effect::Nothing, "DeletePrivateEndpointConnectionOperation").0
            }
        })),
        _ => None,
    }
}

/// Begins an operation that is answered with 202 and both headers.
fn begun(
    cx: &mut Cx<'_>,
    record: &Record,
    lasts: f64,
    retry: u32,
    effect: Effect,
    name: &str,
) -> (Reply, Arc<str>) {
    let place = record.location().unwrap_or("global").to_owned();
    let f = flow(How::Async, retry, lasts);
    let (token, status, result) = operations::begin(cx, record.kind, &record.id, &place, f, effect, name);
    let mut reply =
        Reply::empty(StatusCode::ACCEPTED).with("azure-asyncoperation", &status).with("location", &result);
    if let Some((name, value)) = cx.profile.retry_after(retry) {
        reply = reply.with(name, &value);
    }
    (reply, token)
}

fn action(cx: &mut Cx<'_>, id: &ResourceId, word: &str) -> Result<Reply, Fault> {
    let kind = kinds::kind(id.resource_type().as_str());
    let Some(record) = cx.state.get(id.key()).cloned() else {
        return Err(kind.map_or_else(|| super::not_allowed(cx), |k| tree::missing(k, id)));
    };
    let get = cx.call.method == Method::GET;
    match word {
        "instanceview" if get => Ok(Reply::ok(kinds::instance_view(cx.state, &record))),
        "vmsizes" if get => Ok(vm_sizes(record.location().unwrap_or_default())),
        _ if cx.call.method != Method::POST => Err(super::not_allowed(cx)),
        "retrievebootdiagnosticsdata" => boot_diagnostics(cx, &record),
        "generalize" => generalize(cx, &record),
        "begingetaccess" | "endgetaccess" => access(cx, &record, word),
        _ => operate(cx, &record, word),
    }
}

fn not_allowed(message: String) -> Fault {
    Fault::plain(StatusCode::CONFLICT, "OperationNotAllowed", message)
}

fn operate(cx: &mut Cx<'_>, record: &Record, word: &str) -> Result<Reply, Fault> {
    checks::idle(cx, Some(record))?;
    let name = record.id.name();
    let hidden = record.doc.get(HIDDEN).cloned().unwrap_or_default();
    if hidden["generalized"].as_bool() == Some(true) && word != "deallocate" {
        return Err(not_allowed(format!(
            "Operation '{word}' is not allowed on VM '{name}' since the VM is generalized."
        )));
    }
    if matches!(word, "restart" | "redeploy") && power(record) == Power::Deallocated {
        return Err(not_allowed(format!(
            "Operation '{word}' is not allowed on VM '{name}' since the VM is deallocated."
        )));
    }
    if word == "start" && power(record) == Power::Deallocated {
        let size =
            record.property("hardwareProfile").and_then(|h| h["vmSize"].as_str()).and_then(kinds::size);
        let (s, place) =
            (record.id.subscription().unwrap_or_default(), record.location().unwrap_or_default());
        if let Some(size) = size {
            allow(cx.state, s, place, size, record.id.key())?;
        }
    }
    let effect = Effect::Act(record.id.key().clone(), word.into());
    let (reply, token) =
        begun(cx, record, operated(word).unwrap_or(10.0), 10, effect, &format!("{word}Operation"));
    let mut busy = record.clone();
    busy.phase = Phase::Updating;
    busy.busy = Some(Box::new((token, None)));
    cx.state.replace(busy);
    Ok(reply)
}

fn generalize(cx: &mut Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    if power(record) == Power::Running {
        return Err(not_allowed(format!(
            "The Virtual Machine {} must be stopped or deallocated before it can be generalized.",
            record.id.name()
        )));
    }
    let mut next = record.clone();
    next.doc.entry(HIDDEN).or_insert_with(|| json!({}))["generalized"] = true.into();
    cx.state.replace(next);
    Ok(Reply::empty(StatusCode::OK))
}

fn boot_diagnostics(cx: &Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    let diagnosed = record
        .property("diagnosticsProfile")
        .is_some_and(|d| d["bootDiagnostics"]["enabled"].as_bool() == Some(true));
    if !diagnosed {
        return Err(not_allowed(format!("Boot diagnostics is not enabled for VM '{}'.", record.id.name())));
    }
    let vm = crate::machines::vm_id(record);
    let at = format!("{}/bootdiagnostics/{vm}", cx.call.base);
    let sig = crate::machines::signature(cx.state, vm);
    Ok(Reply::ok(json!({
        "consoleScreenshotBlobUri": format!("{at}/screenshot.bmp?sig={sig}"),
        "serialConsoleLogBlobUri": format!("{at}/serialconsole.log?sig={sig}"),
    })))
}

fn access(cx: &mut Cx<'_>, record: &Record, word: &str) -> Result<Reply, Fault> {
    checks::idle(cx, Some(record))?;
    let grants = word == "begingetaccess";
    if grants {
        let body = tree::body(cx)?;
        let how = body.get("access").and_then(Value::as_str).unwrap_or_default();
        let seconds = body.get("durationInSeconds").and_then(Value::as_u64).unwrap_or(0);
        if !matches!(how, "Read" | "Write") || seconds == 0 {
            let why = "Access is 'Read' or 'Write' and durationInSeconds is positive.";
            return Err(Fault::plain(StatusCode::BAD_REQUEST, "InvalidParameter", why));
        }
        let taken = kinds::disk_owner(cx.state, record.id.key())
            .is_some_and(|e| cx.state.get(&e.source).is_some_and(|vm| power(vm) != Power::Deallocated));
        if taken {
            return Err(not_allowed(format!(
                "Disk {} is attached to a running VM; its access cannot be granted.",
                record.id.name()
            )));
        }
    }
    let effect = Effect::Act(record.id.key().clone(), word.into());
    let (reply, token) = begun(cx, record, 1.0, 2, effect, &format!("{word}Operation"));
    let said = grants.then(|| {
        let disk = record.property("uniqueId").and_then(Value::as_str).unwrap_or_default();
        json!({"accessSAS": format!("https://md-{disk}.z1.blob.storage.azure.net/{disk}/abcd?sv=2018-03-28&sr=b&sig={:032x}", cx.state.derive(record.id.key(), "sas"))})
    });
    cx.state.says(&token, said);
    let mut busy = record.clone();
    busy.phase = Phase::Updating;
    busy.busy = Some(Box::new((token, None)));
    cx.state.replace(busy);
    Ok(reply)
}

fn vm_sizes(place: &str) -> Reply {
    let value: Vec<Value> = kinds::sizes()
        .iter()
        .filter(|s| !s.restricted(place))
        .map(|s| {
            json!({
                "name": s.name, "numberOfCores": s.cpus, "osDiskSizeInMB": 1_047_552, "resourceDiskSizeInMB": s.local * s.cpus * 1024,
                "memoryInMB": s.memory * 1024.0, "maxDataDiskCount": s.disks(),
            })
        })
        .collect();
    Reply::ok(json!({"value": value}))
}

/// `skus`, of one region if the filter says so.
fn skus(cx: &Cx<'_>, _: &ResourceId) -> Reply {
    let filter = cx.call.query("$filter").unwrap_or_default();
    let only = super::lists::comparison(filter, "location").map(|l| l.replace(' ', "").to_lowercase());
    let mut value = Vec::new();
    for (place, _) in LOCATIONS.iter().filter(|(l, _)| only.as_ref().is_none_or(|o| o == l)) {
        for name in ["Classic", "Aligned"] {
            value.push(json!({
                "resourceType": "availabilitySets", "name": name, "locations": [place],
                "locationInfo": [{"location": place, "zones": [], "zoneDetails": []}],
                "capabilities": [{"name": "MaximumPlatformFaultDomainCount", "value": "3"}], "restrictions": [],
            }));
        }
        for (name, tier, size) in [
            ("Premium_LRS", "Premium", "P10"),
            ("StandardSSD_LRS", "Standard", "E10"),
            ("Standard_LRS", "Standard", "S10"),
            ("UltraSSD_LRS", "Ultra", "U"),
            ("PremiumV2_LRS", "Premium", "PV2"),
        ] {
            value.push(json!({
                "resourceType": "disks", "name": name, "tier": tier, "size": size, "locations": [place],
                "locationInfo": [{"location": place, "zones": ["1", "2", "3"], "zoneDetails": []}],
                "capabilities": [{"name": "MaxSizeGiB", "value": "32767"}], "restrictions": [],
            }));
        }
        value.extend(kinds::sizes().iter().map(|s| sku(s, place)));
    }
    Reply::ok(json!({"value": value}))
}

fn sku(s: &kinds::Size, place: &str) -> Value {
    let zones = s.zones(place);
    let short = s.name.trim_start_matches("Standard_");
    let capabilities: Vec<Value> =
        s.capabilities().into_iter().map(|(n, v)| json!({"name": n, "value": v})).collect();
    let details = match zones.is_empty() || !s.ultra() {
        true => json!([]),
        false => {
            json!([{"Name": zones, "capabilities": [{"name": "UltraSSDAvailable", "value": "True"}], "name": zones}])
        }
    };
    let restrictions = match s.restricted(place) {
        false => json!([]),
        true => json!([
            {"type": "Location", "values": [place], "restrictionInfo": {"locations": [place]}, "reasonCode": "NotAvailableForSubscription"},
            {"type": "Zone", "values": [place], "restrictionInfo": {"locations": [place], "zones": zones}, "reasonCode": "NotAvailableForSubscription"},
        ]),
    };
    json!({
        "resourceType": "virtualMachines", "name": s.name, "tier": "Standard", "size": short, "family": s.family, "locations": [place],
        "locationInfo": [{"location": place, "zones": zones, "zoneDetails": details}], "capabilities": capabilities,
        "restrictions": restrictions,
    })
}

/// `locations/{l}/...` of compute.
fn located(cx: &Cx<'_>, id: &ResourceId, rest: &[&str]) -> Result<Reply, Fault> {
    let pairs = id.pairs();
    let place = pairs.first().map_or("", |(_, n)| *n).replace(' ', "").to_lowercase();
    let subscription = id.subscription().unwrap_or_default();
    let named = |word: &str| pairs.iter().find(|(k, _)| k.eq_ignore_ascii_case(word)).map(|(_, n)| *n);
    let publisher = named("publishers");
    let (offer, sku, version) = (named("offers"), named("skus"), named("versions"));
    match (publisher, rest) {
        (None, ["usages"]) => Ok(Reply::ok(
            json!({"value": usage(cx.state, subscription, &place).into_iter().map(usage_shown).collect::<Vec<_>>()}),
        )),
        (None, ["vmsizes"]) => Ok(vm_sizes(&place)),
        (None, ["virtualmachines"]) => {
            let k = kinds::kind("Microsoft.Compute/virtualMachines");
            let scope = format!("/subscriptions/{subscription}/").to_lowercase();
            let all = k
                .into_iter()
                .flat_map(|k| cx.state.of_kind(k, &scope, None))
                .filter(|r| r.location() == Some(place.as_str()));
            let value: Vec<Value> = all.map(|r| tree::expanded(cx, r)).collect();
            Ok(Reply::ok(json!({"value": value})))
        }
        (None, ["publishers"]) => Ok(names(cx, id, "Publishers", MARKET.iter().map(|i| i.publisher), &place)),
        (Some(p), ["offers"]) => {
            let of = MARKET.iter().filter(|i| i.publisher.eq_ignore_ascii_case(p));
            Ok(names(cx, id, "Offers", of.map(|i| i.offer), &place))
        }
        (Some(p), ["skus"]) => {
            let of = MARKET.iter().filter(|i| {
                i.publisher.eq_ignore_ascii_case(p) && offer.is_some_and(|o| i.offer.eq_ignore_ascii_case(o))
            });
            Ok(names(cx, id, "Skus", of.map(|i| i.sku), &place))
        }
        (Some(p), ["versions"]) => versions(cx, id, (p, offer, sku), &place),
        (Some(p), []) if version.is_some() => {
            version_shown(id, (p, offer, sku), version.unwrap_or_default(), &place)
        }
        (Some(_), ["types"]) => Ok(Reply::ok(json!([]))),
        _ => Err(super::not_allowed(cx)),
    }
}

/// The marketplace lists bare arrays.
fn names<'a>(
    _: &Cx<'_>,
    id: &ResourceId,
    word: &str,
    all: impl Iterator<Item = &'a str>,
    place: &str,
) -> Reply {
    let all: BTreeSet<&str> = all.collect();
    let value: Vec<Value> = all
        .into_iter()
        .map(|n| json!({"location": place, "name": n, "id": format!("{id}/{word}/{n}")}))
        .collect();
    Reply::ok(value.into())
}

type Chosen<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

fn chosen((p, offer, sku): Chosen<'_>) -> Result<&'static Image, Fault> {
    let (offer, sku) = (offer.unwrap_or_default(), sku.unwrap_or_default());
    Image::find(p, offer, sku).ok_or_else(|| {
        Fault::plain(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("Artifact: VMImage was not found. Publisher: {p}, Offer: {offer}, Sku: {sku}."),
        )
    })
}

fn versions(cx: &Cx<'_>, id: &ResourceId, of: Chosen<'_>, place: &str) -> Result<Reply, Fault> {
    let image = chosen(of)?;
    let mut all: Vec<&str> = image.versions.to_vec();
    if cx.call.query("$orderby").is_some_and(|o| o.contains("desc")) {
        all.reverse();
    }
    let top = cx.call.query("$top").and_then(|t| t.parse().ok()).unwrap_or(usize::MAX);
    let value: Vec<Value> = all
        .into_iter()
        .take(top)
        .map(|n| json!({"location": place, "name": n, "id": format!("{id}/Versions/{n}")}))
        .collect();
    Ok(Reply::ok(value.into()))
}

fn version_shown(id: &ResourceId, of: Chosen<'_>, version: &str, place: &str) -> Result<Reply, Fault> {
    let image = chosen(of)?;
    let Some(exact) = image.exact(version) else {
        return chosen((of.0, of.1, Some("?"))).map(|_| Reply::empty(StatusCode::NOT_FOUND));
    };
    Ok(Reply::ok(json!({
        "location": place, "name": exact, "id": id.as_str(),
        "properties": {
            "hyperVGeneration": image.generation, "architecture": if image.arm { "Arm64" } else { "x64" }, "replicaType": "Managed",
            "replicaCount": 10, "disallowed": {"vmDiskType": "None"}, "automaticOSUpgradeProperties": {"automaticOSUpgradeSupported": false},
            "imageDeprecationStatus": {"imageState": "Active"}, "features": [], "osDiskImage": {"operatingSystem": image.system, "sizeInGb": image.disk},
            "dataDiskImages": [],
        },
    })))
}

fn usage_shown((name, label, used, limit): (String, String, u64, u64)) -> Value {
    json!({"currentValue": used, "limit": limit, "unit": "Count", "name": {"value": name, "localizedValue": label}})
}

fn network_usages(cx: &Cx<'_>, id: &ResourceId) -> Reply {
    let place = id.name().replace(' ', "").to_lowercase();
    let scope = format!("/subscriptions/{}/", id.subscription().unwrap_or_default()).to_lowercase();
    let rows = [
        ("VirtualNetworks", "Virtual Networks", "virtualNetworks", 1000),
        ("NetworkSecurityGroups", "Network Security Groups", "networkSecurityGroups", 5000),
        ("PublicIPAddresses", "Public IP Addresses", "publicIPAddresses", 1000),
        ("NetworkInterfaces", "Network Interfaces", "networkInterfaces", 65_536),
        ("LoadBalancers", "Load Balancers", "loadBalancers", 1000),
        ("PrivateEndpoints", "Private Endpoints", "privateEndpoints", 65_536),
        ("PrivateLinkServices", "Private Link Services", "privateLinkServices", 32),
        ("RouteTables", "Route Tables", "routeTables", 200),
        ("NatGateways", "NAT gateways", "natGateways", 1000),
    ];
    let count = |k: &'static Kind| {
        cx.state.of_kind(k, &scope, None).filter(|r| r.location() == Some(place.as_str())).count()
    };
    let value: Vec<Value> = rows
        .into_iter()
        .map(|(name, label, path, usual)| {
            let used = kinds::kind(&format!("Microsoft.Network/{path}")).map_or(0, count);
            let key = format!("{scope}{place}/{name}").trim_start_matches("/subscriptions/").to_lowercase();
            let limit = cx.state.machines.quotas.get(&key).copied().unwrap_or(usual);
            let mut v = usage_shown((name.to_owned(), label.to_owned(), used as u64, limit));
            v["id"] = format!("{id}/usages/{name}").into();
            v
        })
        .collect();
    Reply::ok(json!({"value": value}))
}

/// Whether a private link service can be reached from here, by its alias.
fn visibility(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let body = tree::body(cx)?;
    let alias = body.get("privateLinkServiceAlias").and_then(Value::as_str).unwrap_or_default();
    let seen = kinds::visible_alias(cx.state, alias, id.subscription().unwrap_or_default());
    Ok(Reply::ok(json!({"visible": seen})))
}

fn health_of(record: &Record, now: &str) -> Value {
    let (state, summary) = match (power(record), &record.phase) {
        (_, Phase::Failed) => ("Unavailable", "This virtual machine failed to provision."),
        (Power::Running, _) => {
            ("Available", "There aren't any known Azure platform problems affecting this virtual machine.")
        }
        _ => (
            "Unavailable",
            "This virtual machine is stopped and deallocated as requested by an authorized user or process.",
        ),
    };
    let running = state == "Available";
    json!({
        "id": format!("{}/providers/Microsoft.ResourceHealth/availabilityStatuses/current", record.id), "name": "current",
        "type": "Microsoft.ResourceHealth/AvailabilityStatuses", "location": record.location(),
        "properties": {
            "availabilityState": state, "title": state, "summary": summary, "reasonType": if running { "" } else { "Customer Initiated" },
            "reasonChronicity": "Persistent", "occuredTime": record.changed.to_string(), "reportedTime": now, "detailedStatus": "",
        },
    })
}

fn health(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let of = id.extended().and_then(|e| cx.state.get(e.key()).cloned());
    match of.filter(|_| id.name().eq_ignore_ascii_case("current")) {
        Some(r) => Ok(Reply::ok(health_of(&r, &cx.now.to_string()))),
        None => Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            arm::code::RESOURCE_NOT_FOUND,
            format!("The Resource '{}' was not found.", id),
        )),
    }
}

fn healths(cx: &Cx<'_>, scope: &ResourceId) -> Result<Reply, Fault> {
    let now = cx.now.to_string();
    let own = cx.state.get(scope.key()).filter(|r| r.kind.path == MACHINES);
    let below = cx.state.below(scope.key()).filter(|r| r.kind.path == MACHINES);
    let value: Vec<Value> = own.into_iter().chain(below).map(|r| health_of(r, &now)).collect();
    Ok(Reply::ok(json!({"value": value})))
}
