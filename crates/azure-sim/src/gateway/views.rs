//! Words after a network resource that show something computed, rather than children.

use crate::cidr::Cidr;
use crate::gateway::Cx;
use crate::kinds::show;
use crate::state::{Record, is_within};
use crate::wire::{Fault, Reply};
use http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Whether a word is one of these, lower case.
pub fn is_view(kind: &str, word: &str) -> bool {
    matches!(
        (kind, word),
        ("virtualNetworks", "usages" | "checkipaddressavailability") | ("loadBalancers", "networkinterfaces")
    )
}

pub fn serve(cx: &Cx<'_>, record: &Record, word: &str) -> Result<Reply, Fault> {
    match word {
        "usages" => Ok(Reply::ok(json!({"value": usages(cx, record)}))),
        "checkipaddressavailability" => available(cx, record),
        _ => Ok(Reply::ok(json!({"value": interfaces(cx, record)}))),
    }
}

fn subnets(record: &Record) -> impl Iterator<Item = (&str, Vec<Cidr>)> {
    record.property("subnets").and_then(Value::as_array).into_iter().flatten().map(|s| {
        let p = &s["properties"];
        let one = p["addressPrefix"].as_str().into_iter();
        let many = p["addressPrefixes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        (s["name"].as_str().unwrap_or_default(), one.chain(many).filter_map(Cidr::parse).collect())
    })
}

/// Addresses that somebody has in a network.
fn taken(cx: &Cx<'_>, record: &Record) -> BTreeSet<IpAddr> {
    let mut all = BTreeSet::new();
    for (name, _) in subnets(record) {
        let key = format!("{}/subnets/{name}", record.id.key()).to_lowercase();
        for edge in cx.state.edges_to(&key) {
            let of = || {
                let (rest, name) = edge.source.rsplit_once('/')?;
                let (root, list) = rest.rsplit_once('/')?;
                let user = cx.state.get(root)?;
                let part = user.kind.part(list)?;
                user.element(part.list, name)?["properties"]["privateIPAddress"]
                    .as_str()?
                    .parse::<IpAddr>()
                    .ok()
            };
            all.extend(of());
        }
    }
    all
}

fn usages(cx: &Cx<'_>, record: &Record) -> Vec<Value> {
    let taken = taken(cx, record);
    subnets(record)
        .map(|(name, ranges)| {
            let used = taken.iter().filter(|ip| ranges.iter().any(|r| r.has(**ip))).count();
            // Azure keeps five of each range.
            let limit: f64 = ranges.iter().map(|r| (r.addresses() - 5.0).max(0.0)).sum();
            json!({
                "currentValue": used, "id": format!("{}/subnets/{name}", record.id), "limit": limit, "unit": "Count",
                "name": {"localizedValue": "Subnet size and usage", "value": "SubnetSpace"},
            })
        })
        .collect()
}

fn available(cx: &Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    let text = cx.call.query("ipAddress").unwrap_or_default();
    let inside = |ip: IpAddr| subnets(record).find(|(_, r)| r.iter().any(|c| c.has(ip))).map(|(_, r)| r);
    let found = text.parse::<IpAddr>().ok().and_then(|ip| Some((ip, inside(ip)?)));
    let Some((ip, ranges)) = found else {
        return Err(Fault::service(
            StatusCode::BAD_REQUEST,
            "PrivateIPAddressNotInAnySubnet",
            format!(
                "Private static IP address {text} does not belong to the range of any subnet in the virtual network."
            ),
        ));
    };
    let taken = taken(cx, record);
    let free = !taken.contains(&ip) && ranges.iter().any(|r| r.gives(ip));
    let others: Vec<String> = match free {
        true => Vec::new(),
        false => {
            ranges.iter().filter_map(|r| r.free(&|i| taken.contains(&i))).map(|i| i.to_string()).collect()
        }
    };
    Ok(Reply::ok(json!({"available": free, "availableIPAddresses": others})))
}

/// Interfaces behind a load balancer.
fn interfaces(cx: &Cx<'_>, record: &Record) -> Vec<Value> {
    let mut keys = BTreeSet::new();
    for list in ["backendAddressPools", "inboundNatRules"] {
        let elements = record.property(list).and_then(Value::as_array);
        for name in elements.into_iter().flatten().filter_map(|e| e["name"].as_str()) {
            let target = format!("{}/{list}/{name}", record.id.key()).to_lowercase();
            let users = cx.state.edges_to(&target).filter(|e| !is_within(&e.source, record.id.key()));
            keys.extend(
                users
                    .filter_map(|e| e.source.split_once("/ipconfigurations/").map(|(nic, _)| nic.to_owned())),
            );
        }
    }
    keys.iter().filter_map(|k| cx.state.get(k)).map(|r| show(cx.state, r, &cx.version)).collect()
}
