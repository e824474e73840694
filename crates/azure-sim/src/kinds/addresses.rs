//! Addresses inside of networks: what a subnet has, who has what, and who gets the next.

use crate::cidr::Cidr;
use crate::kinds::Prep;
use crate::state::State;
use crate::wire::Fault;
use http::StatusCode;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::net::IpAddr;

fn refuse(code: &str, message: String) -> Fault {
    Fault::service(StatusCode::BAD_REQUEST, code, message)
}

/// The texts of a list.
pub fn prefixes(v: Option<&Value>) -> Vec<&str> {
    v.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// All ranges of a subnet, however they are written.
pub fn subnet_prefixes(subnet: &Value) -> Vec<&str> {
    let p = &subnet["properties"];
    let mut all: Vec<&str> = p["addressPrefix"].as_str().into_iter().collect();
    all.extend(prefixes(p.get("addressPrefixes")));
    all.dedup();
    all
}

/// Gives every configuration in a subnet its private address.
pub fn allocate(prep: &Prep<'_>, p: &mut Map<String, Value>, list: &str) -> Result<(), Fault> {
    let old = |name: &str| {
        let e = prep.old?.element(list, name)?;
        Some((
            e["properties"]["subnet"]["id"].as_str()?.to_lowercase(),
            e["properties"]["privateIPAddress"].as_str()?.to_owned(),
        ))
    };
    let mut given: Vec<IpAddr> = Vec::new();
    for c in p.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        let name = c["name"].as_str().unwrap_or_default().to_owned();
        let Some(subnet) = c["properties"]["subnet"]["id"].as_str().map(str::to_lowercase) else { continue };
        let Some(ranges) = subnet_ranges(prep.state, &subnet) else { continue };
        let v6 = c["properties"]["privateIPAddressVersion"].as_str() == Some("IPv6");
        let Some(range) = ranges.into_iter().find(|r| r.is_v6() == v6) else { continue };
        let own = format!("{}/", prep.id.key());
        let used = used_addresses(prep.state, &subnet, &own);
        let taken = |ip: IpAddr| used.contains(&ip) || given.contains(&ip);
        let fixed = c["properties"]["privateIPAllocationMethod"].as_str() == Some("Static");
        let asked = c["properties"]["privateIPAddress"].as_str().and_then(|s| s.parse::<IpAddr>().ok());
        let kept = old(&name).filter(|(s, _)| *s == subnet).and_then(|(_, ip)| ip.parse().ok());
        let ip = match (fixed, asked, kept) {
            (true, Some(ip), _) if !range.has(ip) => {
                return Err(refuse(
                    "PrivateIPAddressNotInSubnet",
                    format!("Private static IP address {ip} does not belong to the range of subnet prefix."),
                ));
            }
            (true, Some(ip), _) if taken(ip) => {
                return Err(refuse(
                    "PrivateIPAddressInUse",
                    format!("IP configuration {name} cannot use IP address {ip}: it is in use."),
                ));
            }
            (true, Some(ip), _) => ip,
            (_, _, Some(ip)) => ip,
            _ => range.free(&taken).ok_or_else(|| {
                refuse(
                    "SubnetIsFull",
                    format!("Subnet {subnet} does not have enough capacity for 1 IP addresses."),
                )
            })?,
        };
        given.push(ip);
        if let Some(q) = c.get_mut("properties").and_then(Value::as_object_mut) {
            q.insert("privateIPAddress".into(), ip.to_string().into());
        }
    }
    Ok(())
}

fn subnet_ranges(state: &State, subnet: &str) -> Option<Vec<Cidr>> {
    let (vnet, name) = subnet.rsplit_once("/subnets/")?;
    let element = state.get(vnet)?.element("subnets", name)?;
    Some(subnet_prefixes(element).into_iter().filter_map(Cidr::parse).collect())
}

/// Addresses taken in a subnet by others than `own`.
fn used_addresses(state: &State, subnet: &str, own: &str) -> HashSet<IpAddr> {
    let of = |source: &str| {
        let (rest, name) = source.rsplit_once('/')?;
        let (root, list) = rest.rsplit_once('/')?;
        let record = state.get(root)?;
        let part = record.kind.part(list)?;
        record.element(part.list, name)?["properties"]["privateIPAddress"].as_str()?.parse().ok()
    };
    state.edges_to(subnet).filter(|e| !e.source.starts_with(own)).filter_map(|e| of(&e.source)).collect()
}
