//! Whether a machine gets through to somewhere: outbound rules of the security groups of its interface and its subnet.
//!
//! Both groups must let it through, the interface's first. Of a group the rule with the lowest number that fits decides, and
//! after all others those that every group has, which let everything out to the network and the Internet. A machine without
//! any group gets everywhere. What was let through stays so: a rule is asked when somebody dials.
//!
//! An address is in `VirtualNetwork` if the network or a peer of it has it, and otherwise in `Internet` and, since everybody who
//! is dialled here lives in Azure, in `AzureCloud`. Names are looked up in the private zones that are linked to the
//! network, then in public ones; a name that is in none of them is somewhere in the Internet. Other service tags and
//! application security groups fit nothing.

use crate::cidr::Cidr;
use crate::kinds::{compute_text as text, kind};
use crate::machines::find;
use crate::state::{Record, State};
use crate::world::World;
use serde_json::Value;
use std::net::IpAddr;

/// Who stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule} of network security group {group} denies it")]
pub struct Denied {
    pub group: String,
    pub rule: String,
}

/// Where health probes come from and Azure's own name server is.
const PLATFORM: &str = "168.63.129.16";

/// Somebody who is dialled.
struct Called {
    /// Nothing: a name that only the Internet knows.
    ip: Option<IpAddr>,
    inside: bool,
    port: u16,
}

impl Called {
    fn is_platform(&self) -> bool {
        self.ip.is_some_and(|ip| ip.to_string() == PLATFORM)
    }

    fn is_at(&self, prefix: &str) -> bool {
        let lower = prefix.to_lowercase();
        match lower.as_str() {
            "*" | "any" => true,
            "virtualnetwork" => self.inside,
            "internet" => !self.inside && !self.is_platform(),
            "azureloadbalancer" => self.is_platform(),
            _ if lower == "azurecloud" || lower.starts_with("azurecloud.") => !self.inside,
            // Whoever has no address known here has one nevertheless.
            "0.0.0.0/0" => self.ip.is_none_or(|ip| ip.is_ipv4()),
            _ => self.ip.is_some_and(|ip| within(&lower, ip)),
        }
    }
}

fn within(prefix: &str, ip: IpAddr) -> bool {
    prefix.parse() == Ok(ip) || Cidr::parse(prefix).is_some_and(|c| c.has(ip))
}

/// A field of a rule that comes as one and as several.
fn both<'a>(rule: &'a Value, one: &str, several: &str) -> Vec<&'a str> {
    let many = rule[several].as_array().into_iter().flatten();
    rule[one].as_str().into_iter().chain(many.filter_map(Value::as_str)).filter(|t| !t.is_empty()).collect()
}

fn has_port(range: &str, port: u16) -> bool {
    let number = |t: &str| t.trim().parse::<u16>().ok();
    match range.split_once('-') {
        _ if range == "*" => true,
        Some((low, high)) => {
            number(low).zip(number(high)).is_some_and(|(low, high)| (low..=high).contains(&port))
        }
        None => number(range) == Some(port),
    }
}

fn fits(rule: &Value, from: &[IpAddr], to: &Called) -> bool {
    let is = |field: &str, wanted: &str| rule[field].as_str().is_some_and(|v| v.eq_ignore_ascii_case(wanted));
    let ours = |prefix: &&str| {
        matches!(prefix.to_lowercase().as_str(), "*" | "any" | "virtualnetwork" | "0.0.0.0/0")
            || from.iter().any(|ip| within(prefix, *ip))
    };
    is("direction", "Outbound")
        && (is("protocol", "*") || is("protocol", "Tcp"))
        && both(rule, "sourceAddressPrefix", "sourceAddressPrefixes").iter().any(ours)
        && both(rule, "destinationAddressPrefix", "destinationAddressPrefixes").iter().any(|p| to.is_at(p))
        && both(rule, "destinationPortRange", "destinationPortRanges").iter().any(|p| has_port(p, to.port))
}

/// What a group says of somebody.
fn judge(group: &Record, from: &[IpAddr], to: &Called) -> Result<(), Denied> {
    let rules = group.property("securityRules").and_then(Value::as_array).into_iter().flatten();
    let mut rules: Vec<&Value> = rules.filter(|r| fits(&r["properties"], from, to)).collect();
    rules.sort_by_key(|r| r["properties"]["priority"].as_u64());
    match rules.first() {
        Some(r) if r["properties"]["access"].as_str().is_some_and(|a| a.eq_ignore_ascii_case("Allow")) => {
            Ok(())
        }
        Some(r) => Err(Denied {
            group: group.id.to_string(),
            rule: r["name"].as_str().unwrap_or_default().to_owned(),
        }),
        // AllowVnetOutBound, AllowInternetOutBound; the platform itself is above all rules. Nobody is left for DenyAllOutBound.
        None => Ok(()),
    }
}

/// An interface, as far as it decides.
struct Way<'a> {
    groups: Vec<&'a Record>,
    addresses: Vec<IpAddr>,
    network: Option<&'a Record>,
}

fn record<'a>(state: &'a State, id: Option<&str>) -> Option<&'a Record> {
    state.get(&id?.to_lowercase()).map(AsRef::as_ref)
}

fn way<'a>(state: &'a State, nic: &'a Record) -> Way<'a> {
    let group = |p: &Value| record(state, text(p, &["networkSecurityGroup", "id"]));
    let mut way = Way { groups: Vec::new(), addresses: Vec::new(), network: None };
    let own = nic.property("networkSecurityGroup").and_then(|g| g["id"].as_str());
    way.groups.extend(record(state, own));
    for c in nic.property("ipConfigurations").and_then(Value::as_array).into_iter().flatten() {
        let p = &c["properties"];
        way.addresses.extend(text(p, &["privateIPAddress"]).and_then(|a| a.parse::<IpAddr>().ok()));
        let Some((network, name)) = text(p, &["subnet", "id"]).and_then(|id| id.rsplit_once("/subnets/"))
        else {
            continue;
        };
        way.network = record(state, Some(network));
        let subnets = way.network.and_then(|n| n.property("subnets")).and_then(Value::as_array);
        let mut subnets = subnets.into_iter().flatten();
        let subnet = subnets.find(|s| s["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)));
        way.groups.extend(subnet.and_then(|s| group(&s["properties"])));
    }
    way
}

fn spaces(space: &Value) -> impl Iterator<Item = Cidr> {
    let all = space["addressPrefixes"].as_array().into_iter().flatten();
    all.filter_map(|p| Cidr::parse(p.as_str()?))
}

fn inside(network: &Record, ip: IpAddr) -> bool {
    let own = network.property("addressSpace").into_iter().flat_map(spaces);
    let peers = network.property("virtualNetworkPeerings").and_then(Value::as_array).into_iter().flatten();
    let peers = peers.flat_map(|p| spaces(&p["properties"]["remoteAddressSpace"]));
    own.chain(peers).any(|c| c.has(ip))
}

/// The first address of a record set of this name, in a zone that may be asked.
fn named(state: &State, records: &str, host: &str, asked: impl Fn(&str) -> bool) -> Option<IpAddr> {
    let kind = kind(records)?;
    state.of_kind(kind, "", None).find_map(|r| {
        let (zone_id, name) = r.id.as_str().rsplit_once("/A/")?;
        let zone = zone_id.rsplit_once('/')?.1;
        let whole = if name == "@" { zone.to_owned() } else { format!("{name}.{zone}") };
        let found = whole.eq_ignore_ascii_case(host) && asked(zone_id);
        let list = r.property("aRecords").or_else(|| r.property("ARecords")).filter(|_| found)?;
        list.get(0)?["ipv4Address"].as_str()?.parse().ok()
    })
}

fn called(state: &State, network: Option<&Record>, host: &str, port: u16) -> Called {
    let linked = |zone: &str| {
        let links = kind("Microsoft.Network/privateDnsZones/virtualNetworkLinks");
        let scope = format!("{}/", zone.to_lowercase());
        let mut links = links.into_iter().flat_map(|k| state.of_kind(k, &scope, None));
        let ours = |id: &str| network.is_some_and(|n| n.id.as_str().eq_ignore_ascii_case(id));
        links.any(|l| l.property("virtualNetwork").and_then(|v| v["id"].as_str()).is_some_and(ours))
    };
    let ip = host.parse().ok();
    let ip = ip.or_else(|| named(state, "Microsoft.Network/privateDnsZones/A", host, linked));
    let ip = ip.or_else(|| named(state, "Microsoft.Network/dnsZones/A", host, |_| true));
    let inside = ip.zip(network).is_some_and(|(ip, n)| inside(n, ip));
    Called { ip, inside, port }
}

impl World {
    /// Whether a machine, by its resource id or its own, gets through to a name or an address.
    pub fn lets_out(&self, machine: &str, host: &str, port: u16) -> Result<(), Denied> {
        self.look(|state| {
            let Some(vm) = find(state, machine) else { return Ok(()) };
            let nics = vm.property("networkProfile").and_then(|n| n["networkInterfaces"].as_array());
            let nics: Vec<&Value> = nics.into_iter().flatten().collect();
            // The primary one is who dials.
            let primary = nics.iter().find(|n| n["properties"]["primary"] == true).or_else(|| nics.first());
            let Some(nic) = record(state, primary.and_then(|n| n["id"].as_str())) else { return Ok(()) };
            let way = way(state, nic);
            let to = called(state, way.network, host, port);
            way.groups.iter().try_for_each(|g| judge(g, &way.addresses, &to))
        })
    }
}
