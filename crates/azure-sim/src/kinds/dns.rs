//! Public and private DNS zones, their links and record sets.

use crate::kinds::{
    BASE, Etag, How, Kind, Located, Names, Operations, Prep, Ref, Rules, default, flow, kind, properties,
};
use crate::state::{Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ErrorDetail, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const PUBLIC_RECORDS: [&str; 10] = [
    "dnsZones/A",
    "dnsZones/AAAA",
    "dnsZones/CAA",
    "dnsZones/CNAME",
    "dnsZones/MX",
    "dnsZones/NS",
    "dnsZones/PTR",
    "dnsZones/SOA",
    "dnsZones/SRV",
    "dnsZones/TXT",
];
const PRIVATE_RECORDS: [&str; 8] = [
    "privateDnsZones/A",
    "privateDnsZones/AAAA",
    "privateDnsZones/CNAME",
    "privateDnsZones/MX",
    "privateDnsZones/PTR",
    "privateDnsZones/SOA",
    "privateDnsZones/SRV",
    "privateDnsZones/TXT",
];
const LINKS: &str = "privateDnsZones/virtualNetworkLinks";

pub fn rows() -> Vec<Kind> {
    let base = || Kind {
        since: "2015-05-04",
        located: Located::Global,
        etag: Etag::Plain,
        names: Names::Own,
        ..BASE
    };
    let private = || Kind { since: "2018-09-01", operations: Operations::ByGroup("privateDns"), ..base() };
    let slow = flow(How::Accepted, 30, 34.0);
    let mut rows = vec![
        Kind {
            path: "dnsZones",
            delete: flow(How::Accepted, 3, 10.0),
            operations: Operations::ByGroup("dns"),
            stateful: false,
            always_tags: true,
            rules: &PublicZone,
            ..base()
        },
        Kind {
            path: "privateDnsZones",
            create: slow,
            update: slow,
            delete: slow,
            rules: &PrivateZone,
            ..private()
        },
        Kind {
            path: LINKS,
            names: Names::Network(80),
            create: slow,
            update: slow,
            delete: slow,
            refs: &[Ref {
                at: &["properties", "virtualNetwork"],
                action: "Microsoft.Network/virtualNetworks/join/action",
                back: "",
                one: false,
                loose: false,
            }],
            rules: &Link,
            ..private()
        },
    ];
    let records = |path| Kind {
        path,
        located: Located::Nowhere,
        tracked: false,
        stateful: false,
        rules: &RecordSet,
        ..base()
    };
    rows.extend(PUBLIC_RECORDS.map(records));
    rows.extend(PRIVATE_RECORDS.map(|path| Kind { since: "2018-09-01", ..records(path) }));
    rows
}

/// Whether a type is a record set.
pub fn is_record_set(k: &Kind) -> bool {
    PUBLIC_RECORDS.contains(&k.path) || PRIVATE_RECORDS.contains(&k.path)
}

/// The public provider spells its type in lower case.
fn spell_public(id: &ResourceId) -> ResourceId {
    // In ASCII only: other letters change their length when lower-cased.
    let Some(at) = id.as_str().to_ascii_lowercase().find("/providers/microsoft.network/dnszones/") else {
        return id.clone();
    };
    let mut text = id.as_str().to_owned();
    let from = at + "/providers/microsoft.network/".len();
    text.replace_range(from..from + "dnszones".len(), "dnszones");
    ResourceId::parse(&text).unwrap_or_else(|_| id.clone())
}

fn record_sets(state: &State, zone: &Record) -> usize {
    state.below(zone.id.key()).filter(|r| is_record_set(r.kind)).count()
}

/// The record sets that a zone is born with.
fn seed_record(state: &mut State, zone: &Record, kind_path: &str, body: Value, now: Timestamp) {
    let Some(k) = kind(&format!("Microsoft.Network/{kind_path}")) else { return };
    let kind_name = kind_path.rsplit('/').next().unwrap_or_default();
    let Ok(id) = zone.id.child(kind_name, "@") else { return };
    let Value::Object(properties) = body else { return };
    let mut doc = Map::new();
    doc.insert("properties".into(), Value::Object(properties));
    let record = Record {
        etag: state.guid(id.key(), "etag"),
        changed_by: zone.changed_by.clone(),
        seeded: zone.seeded,
        ..Record::new(id, k, doc, zone.created_by.clone(), now)
    };
    state.put(record, Vec::new());
}

fn name_servers(state: &State, zone: &Record) -> Vec<String> {
    let n = state.derive(zone.id.key().as_ref(), "").to_be_bytes()[0] % 9 + 1;
    let fixed = zone.property("nameServers").and_then(Value::as_array);
    if let Some(list) = fixed {
        return list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    ["com", "net", "org", "info"]
        .iter()
        .enumerate()
        .map(|(i, tld)| format!("ns{}-{n:02}.azure-dns.{tld}.", i + 1))
        .collect()
}

struct PublicZone;

impl Rules for PublicZone {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        check_zone(prep.id.name())?;
        let p = properties(doc);
        for computed in ["numberOfRecordSets", "maxNumberOfRecordSets", "maxNumberOfRecordsPerRecordSet"] {
            p.remove(computed);
        }
        let n = prep.state.derive(prep.id.key(), "nameServers").to_be_bytes()[0] % 9 + 1;
        let servers: Vec<String> = ["com", "net", "org", "info"]
            .iter()
            .enumerate()
            .map(|(i, tld)| format!("ns{}-{n:02}.azure-dns.{tld}.", i + 1))
            .collect();
        let old = prep.old.and_then(|o| o.property("nameServers")).cloned();
        p.insert("nameServers".into(), old.unwrap_or_else(|| servers.into()));
        default(p, "zoneType", "Public");
        Ok(())
    }

    fn created(&self, state: &mut State, zone: &Record, now: Timestamp) {
        let servers = name_servers(state, zone);
        let records: Vec<Value> = servers.iter().map(|s| json!({"nsdname": s})).collect();
        seed_record(state, zone, "dnsZones/NS", json!({"TTL": 172_800, "NSRecords": records}), now);
        let first = servers.first().cloned().unwrap_or_default();
        seed_record(
            state,
            zone,
            "dnsZones/SOA",
            json!({"TTL": 3600, "SOARecord": soa("azuredns-hostmaster.microsoft.com", &first, "minimumTTL")}),
            now,
        );
    }

    fn show(&self, state: &State, zone: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        let p = properties(out);
        p.insert("maxNumberOfRecordSets".into(), 10_000.into());
        p.insert("maxNumberOfRecordsPerRecordSet".into(), Value::Null);
        p.insert("numberOfRecordSets".into(), record_sets(state, zone).into());
    }

    fn spell(&self, id: &ResourceId) -> ResourceId {
        spell_public(id)
    }
}

/// The providers disagree on how to spell the last of them.
fn soa(email: &str, host: &str, minimum: &str) -> Value {
    json!({
        "email": email, "expireTime": 2_419_200, "host": host, minimum: 300, "refreshTime": 3600,
        "retryTime": 300, "serialNumber": 1,
    })
}

fn check_zone(name: &str) -> Result<(), Fault> {
    let label = |l: &str| {
        !l.is_empty() && l.len() <= 63 && l.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    if name.len() > 253 || !name.contains('.') || !name.split('.').all(label) {
        return Err(Fault::plain(
            StatusCode::BAD_REQUEST,
            "BadRequest",
            format!("The domain name '{name}' is invalid. The provided labels are not a valid zone name."),
        ));
    }
    Ok(())
}

struct PrivateZone;

impl Rules for PrivateZone {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        check_zone(prep.id.name())?;
        let p = properties(doc);
        p.clear();
        let old = prep.old.and_then(|o| o.property("internalId")).cloned();
        use base64::Engine;
        let fresh = || {
            base64::engine::general_purpose::STANDARD.encode(format!(
                "SW1tdXRhYmxlWm9uZUlkZW50aXR5;{};0",
                prep.state.guid(prep.id.key(), "internalId")
            ))
        };
        p.insert("internalId".into(), old.unwrap_or_else(|| fresh().into()));
        Ok(())
    }

    fn created(&self, state: &mut State, zone: &Record, now: Timestamp) {
        seed_record(
            state,
            zone,
            "privateDnsZones/SOA",
            json!({"ttl": 3600, "soaRecord": soa("azureprivatedns-host.microsoft.com", "azureprivatedns.net", "minimumTtl")}),
            now,
        );
    }

    fn show(&self, state: &State, zone: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        let links: Vec<bool> = state
            .below(zone.id.key())
            .filter(|r| r.kind.path == LINKS)
            .map(|r| r.property("registrationEnabled").and_then(Value::as_bool).unwrap_or(false))
            .collect();
        let p = properties(out);
        p.insert("maxNumberOfRecordSets".into(), 25_000.into());
        p.insert("maxNumberOfVirtualNetworkLinks".into(), 1000.into());
        p.insert("maxNumberOfVirtualNetworkLinksWithRegistration".into(), 100.into());
        p.insert("numberOfRecordSets".into(), record_sets(state, zone).into());
        p.insert("numberOfVirtualNetworkLinks".into(), links.len().into());
        p.insert(
            "numberOfVirtualNetworkLinksWithRegistration".into(),
            links.iter().filter(|l| **l).count().into(),
        );
        if !version.at_least("2020-01-01") {
            p.remove("internalId");
        }
    }

    fn may_delete(&self, state: &State, zone: &Record) -> Result<(), Fault> {
        let Some(link) = state.below(zone.id.key()).find(|r| r.kind.path == LINKS) else { return Ok(()) };
        let nested = format!(
            "Microsoft.Network/privateDnsZones/{}/virtualNetworkLinks/{}",
            zone.id.name(),
            link.id.name()
        );
        Err(Fault::gateway(
            StatusCode::CONFLICT,
            "CannotDeleteResource",
            format!(
                "Cannot delete resource while nested resources exist. Some existing nested resource IDs include: '{nested}'. Please delete all nested resources before deleting this resource."
            ),
        ))
    }
}

struct Link;

impl Rules for Link {
    fn prepare(&self, _: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let p = properties(doc);
        default(p, "registrationEnabled", false);
        if p.get("virtualNetwork").and_then(|v| v.get("id")).and_then(Value::as_str).is_none() {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "The virtual network is required.",
            ));
        }
        p.insert("virtualNetworkLinkState".into(), "InProgress".into());
        Ok(())
    }

    fn settled(&self, _: &State, record: &mut Record) {
        properties(&mut record.doc).insert("virtualNetworkLinkState".into(), "Completed".into());
    }

    fn fails_late(&self, state: &State, id: &ResourceId, doc: &Map<String, Value>) -> Option<ErrorDetail> {
        let network = |p: Option<&Value>| Some(p?.get("virtualNetwork")?.get("id")?.as_str()?.to_lowercase());
        let own = network(doc.get("properties"))?;
        let zone = id.parent()?;
        let twin = state.below(zone.key()).find(|r| {
            r.kind.path == LINKS && r.id != *id && network(r.doc.get("properties")).as_ref() == Some(&own)
        })?;
        Some(ErrorDetail::new(
            "Conflict",
            format!(
                "A virtual network cannot be linked to multiple zones with overlapping namespaces. The zone '{}' is already linked to the virtual network '{own}' by '{}'.",
                zone.name(),
                twin.id.name()
            ),
        ))
    }

    fn show(&self, _: &State, _: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        match version.at_least("2024-06-01") {
            true => default(properties(out), "resolutionPolicy", "Default"),
            false => {
                properties(out).remove("resolutionPolicy");
            }
        }
        // Links have quoted etags.
        if let Some(e) = out.get("etag").and_then(Value::as_str) {
            let quoted = format!("\"{e}\"");
            out.insert("etag".into(), quoted.into());
        }
    }
}

struct RecordSet;

impl Rules for RecordSet {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
        if name != "@" && (name.len() > 253 || !name.chars().all(legal)) {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                format!("The record set name '{name}' is invalid."),
            ));
        }
        if prep.id.resource_type().path().to_uppercase().ends_with("/SOA") && prep.old.is_none() {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "Record sets of type 'SOA' cannot be created.",
            ));
        }
        let public = prep.id.key().contains("/dnszones/");
        let p = properties(doc);
        for computed in ["fqdn", "isAutoRegistered", "provisioningState"] {
            p.remove(computed);
        }
        if public {
            // Clients write `ttl` and `ARecords` in several casings; the provider answers in its own.
            recase(
                p,
                &[
                    "TTL",
                    "ARecords",
                    "AAAARecords",
                    "CNAMERecord",
                    "MXRecords",
                    "NSRecords",
                    "PTRRecords",
                    "SRVRecords",
                    "TXTRecords",
                    "SOARecord",
                    "caaRecords",
                    "targetResource",
                    "metadata",
                ],
            );
            default(p, "targetResource", json!({}));
        } else {
            recase(
                p,
                &[
                    "ttl",
                    "aRecords",
                    "aaaaRecords",
                    "cnameRecord",
                    "mxRecords",
                    "ptrRecords",
                    "srvRecords",
                    "txtRecords",
                    "soaRecord",
                    "metadata",
                ],
            );
        }
        check_record(prep, p)
    }

    fn show(&self, _: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        let pairs = record.id.pairs();
        let zone = pairs.first().map_or("", |(_, n)| n);
        let name = record.id.name();
        let fqdn = if name == "@" { format!("{zone}.") } else { format!("{name}.{zone}.") };
        let p = properties(out);
        p.insert("fqdn".into(), fqdn.into());
        if record.id.key().contains("/privatednszones/") {
            p.insert("isAutoRegistered".into(), false.into());
        } else {
            p.insert("provisioningState".into(), "Succeeded".into());
        }
    }

    fn may_delete(&self, _: &State, record: &Record) -> Result<(), Fault> {
        let apex = record.id.name() == "@"
            && (record.kind.path.ends_with("/SOA") || record.kind.path.ends_with("/NS"));
        if apex {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "The SOA and NS record sets at the zone apex cannot be deleted.",
            ));
        }
        Ok(())
    }

    fn spell(&self, id: &ResourceId) -> ResourceId {
        spell_public(id)
    }
}

/// Takes over what a change mentions, whatever its casing.
pub fn merge_record(into: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (name, value) in change {
        into.retain(|k, _| !k.eq_ignore_ascii_case(name));
        if !value.is_null() {
            into.insert(name.clone(), value.clone());
        }
    }
}

fn wrong(message: String) -> Fault {
    Fault::plain(StatusCode::BAD_REQUEST, "BadRequest", message)
}

/// A field by its name, whatever its casing.
fn named<'a>(p: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    p.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v)
}

/// What a record set of each type must hold, and what it cannot stand beside.
fn check_record(prep: &Prep<'_>, p: &Map<String, Value>) -> Result<(), Fault> {
    let path = prep.id.resource_type().path().to_uppercase();
    let kind = path.rsplit('/').next().unwrap_or_default();
    if let Some(ttl) = named(p, "ttl")
        && !ttl.as_i64().is_some_and(|t| (1..=2_147_483_647).contains(&t))
    {
        return Err(wrong(format!(
            "The value '{ttl}' of the TTL is not valid: it must be between 1 and 2147483647."
        )));
    }
    let records = |name: &str| named(p, name).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |r: &Value, f: &str| r.get(f).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        "A" => {
            for r in records("ARecords") {
                let ip = text(&r, "ipv4Address");
                if ip.parse::<std::net::Ipv4Addr>().is_err() {
                    return Err(wrong(format!("The value '{ip}' is not a valid IPv4 address.")));
                }
            }
        }
        "AAAA" => {
            for r in records("AAAARecords") {
                let ip = text(&r, "ipv6Address");
                if ip.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(wrong(format!("The value '{ip}' is not a valid IPv6 address.")));
                }
            }
        }
        "CNAME" => {
            if prep.id.name() == "@" {
                return Err(wrong("A CNAME record set cannot be created at the zone apex.".into()));
            }
            if let Some(r) = named(p, "CNAMERecord") {
                let to = text(r, "cname");
                if to.is_empty() || to.len() > 254 || to.contains(' ') {
                    return Err(wrong(format!("The canonical name '{to}' is not valid.")));
                }
            }
        }
        "MX" => {
            for r in records("MXRecords") {
                let preference = r.get("preference").and_then(Value::as_i64).unwrap_or(-1);
                if text(&r, "exchange").is_empty() || !(0..=65535).contains(&preference) {
                    return Err(wrong(
                        "An MX record has an exchange and a preference between 0 and 65535.".into(),
                    ));
                }
            }
        }
        "SRV" => {
            for r in records("SRVRecords") {
                let fits =
                    |f: &str| r.get(f).and_then(Value::as_i64).is_some_and(|n| (0..=65535).contains(&n));
                if text(&r, "target").is_empty() || !["priority", "weight", "port"].iter().all(|f| fits(f)) {
                    return Err(wrong("An SRV record has a target, a priority, a weight and a port.".into()));
                }
            }
        }
        "TXT" => {
            for r in records("TXTRecords") {
                let value = r.get("value").and_then(Value::as_array).cloned().unwrap_or_default();
                if value.is_empty() || value.iter().any(|v| v.as_str().is_none_or(|t| t.len() > 1024)) {
                    return Err(wrong(
                        "A TXT record's value is a list of texts of up to 1024 characters.".into(),
                    ));
                }
            }
        }
        "PTR" if records("PTRRecords").iter().any(|r| text(r, "ptrdname").is_empty()) => {
            return Err(wrong("A PTR record has a ptrdname.".into()));
        }
        _ => {}
    }
    alone(prep, kind)
}

/// A name with a CNAME has nothing else.
fn alone(prep: &Prep<'_>, kind: &str) -> Result<(), Fault> {
    let (None, Some(zone)) = (prep.old, prep.id.parent()) else { return Ok(()) };
    let name = prep.id.name().to_lowercase();
    let twins =
        prep.state.below(zone.key()).filter(|r| is_record_set(r.kind) && r.id.name().to_lowercase() == name);
    for other in twins {
        let theirs = other.kind.path.rsplit('/').next().unwrap_or_default();
        if (theirs == "CNAME") != (kind == "CNAME") {
            let what = if theirs == "CNAME" {
                "a CNAME record with the same name already exists in this zone"
            } else {
                "a record with the same name already exists in this zone"
            };
            return Err(wrong(format!("The record could not be created because {what}.")));
        }
    }
    Ok(())
}

fn recase(p: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        let other = p.keys().find(|k| k.eq_ignore_ascii_case(name) && k.as_str() != *name).cloned();
        if let Some(v) = other.and_then(|k| p.remove(&k)) {
            p.insert((*name).to_owned(), v);
        }
    }
}
