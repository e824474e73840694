//! Address ranges: none overlap, both families are complete, and the API's own address is outside of all.

use apis::hypershift::networking::Networking;
use std::net::IpAddr;

/// A range as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    six: bool,
    first: u128,
    last: u128,
}

fn number(ip: IpAddr) -> (bool, u128) {
    match ip {
        IpAddr::V4(v4) => (false, u128::from(u32::from(v4))),
        IpAddr::V6(v6) => (true, u128::from(v6)),
    }
}

fn range(text: &str) -> Option<Range> {
    let (address, length) = text.split_once('/')?;
    let (six, at) = number(address.parse().ok()?);
    let bits: u32 = if six { 128 } else { 32 };
    let length: u32 = length.parse().ok().filter(|l| *l <= bits)?;
    let size = if length == 0 && six { u128::MAX } else { (1_u128 << (bits - length)) - 1 };
    let first = at & !size;
    Some(Range { six, first, last: first | size })
}

impl Range {
    fn meets(&self, other: &Range) -> bool {
        self.six == other.six && self.first <= other.last && other.first <= self.last
    }
}

/// Whether a text is a range.
pub fn is_range(cidr: &str) -> bool {
    range(cidr).is_some()
}

/// Whether an address lies in a range.
pub fn contains(cidr: &str, address: &str) -> bool {
    let (Some(r), Ok(ip)) = (range(cidr), address.parse::<IpAddr>()) else { return false };
    let (six, at) = number(ip);
    r.six == six && (r.first..=r.last).contains(&at)
}

/// Everything that is wrong with the ranges.
pub fn problems(networking: &Networking) -> Vec<String> {
    let mut out = Vec::new();
    let mut all: Vec<(String, &str, Range)> = Vec::new();
    let cluster = networking.cluster_network.iter().map(|n| n.cidr.0.as_str());
    let service = networking.service_network.iter().map(|n| n.cidr.0.as_str());
    let machine = networking.machine_network.iter().flatten().map(|n| n.cidr.0.as_str());
    let lists: [(&str, Vec<&str>); 3] = [
        ("clusterNetwork", cluster.collect()),
        ("serviceNetwork", service.collect()),
        ("machineNetwork", machine.collect()),
    ];
    for (list, cidrs) in &lists {
        for (i, cidr) in cidrs.iter().enumerate() {
            let field = format!("spec.networking.{list}[{i}].cidr");
            match range(cidr) {
                Some(r) => all.push((field, cidr, r)),
                None => {
                    out.push(format!("{field} {cidr:?} is no address range: write one such as 10.132.0.0/14"))
                }
            }
        }
    }
    for (i, (field, cidr, r)) in all.iter().enumerate() {
        for (other, theirs, o) in &all[i + 1..] {
            if r.meets(o) {
                out.push(format!("{other} {theirs} overlaps {field} {cidr}: choose ranges that do not"));
            }
        }
    }
    out.extend(stacks(&lists));
    out.extend(advertised(networking, &all));
    out
}

/// Whoever has two families of pods has two of services.
fn stacks(lists: &[(&str, Vec<&str>); 3]) -> Option<String> {
    let families = |i: usize| {
        let sixes = lists[i].1.iter().filter_map(|c| range(c)).map(|r| r.six);
        let mut all: Vec<bool> = sixes.collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (pods, services) = (families(0), families(1));
    if pods != services && !pods.is_empty() && !services.is_empty() {
        return Some(
            "spec.networking.clusterNetwork and spec.networking.serviceNetwork must be of the same address families: give both an IPv4 range, both an IPv6 range, or both one of each"
                .to_owned(),
        );
    }
    for (i, (list, cidrs)) in lists.iter().enumerate().take(2) {
        if cidrs.len() == 2 && families(i).len() == 1 {
            return Some(format!(
                "spec.networking.{list} has two ranges of one address family: keep one, or make one of them IPv6"
            ));
        }
    }
    None
}

/// Nodes answer this address themselves, so that it must be nobody else's.
fn advertised(networking: &Networking, all: &[(String, &str, Range)]) -> Option<String> {
    let own = networking.api_server.as_ref().and_then(|a| a.advertise_address.as_deref());
    let six = all.iter().find(|(f, ..)| f.contains("serviceNetwork")).is_some_and(|(.., r)| r.six);
    let address = own.unwrap_or(if six { "fd00::1" } else { "172.20.0.1" });
    let Ok(ip) = address.parse::<IpAddr>() else {
        return Some(format!(
            "spec.networking.apiServer.advertiseAddress {address:?} is no IP address: write one such as 172.20.0.1"
        ));
    };
    let (six, at) = number(ip);
    let here = Range { six, first: at, last: at };
    let (field, cidr, _) = all.iter().find(|(.., r)| r.meets(&here))?;
    Some(format!(
        "{field} {cidr} contains {address}, at which nodes reach the API: choose another range, or set spec.networking.apiServer.advertiseAddress to an address outside of all"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(networking: serde_json::Value) -> String {
        problems(&serde_json::from_value(networking).unwrap()).join("; ")
    }

    #[test]
    fn ranges_are_apart() {
        assert_eq!(said(json!({})), "");
        let overlap = said(
            json!({"clusterNetwork": [{"cidr": "10.0.0.0/8"}], "machineNetwork": [{"cidr": "10.1.0.0/16"}]}),
        );
        assert!(
            overlap.contains(
                "machineNetwork[0].cidr 10.1.0.0/16 overlaps spec.networking.clusterNetwork[0].cidr"
            ),
            "{overlap}"
        );
        assert!(said(json!({"serviceNetwork": [{"cidr": "172.20.0.0/16"}]})).contains("172.20.0.1"));
        assert!(said(json!({"serviceNetwork": [{"cidr": "fd01::/48"}]})).contains("same address families"));
        assert!(
            said(json!({"clusterNetwork": [{"cidr": "10.0.0.0/16"}, {"cidr": "10.1.0.0/16"}]}))
                .contains("two ranges")
        );
        assert!(said(json!({"apiServer": {"advertiseAddress": "nine"}})).contains("no IP address"));
        assert!(said(json!({"clusterNetwork": [{"cidr": "10.0.0.0/40"}]})).contains("no address range"));
    }

    #[test]
    fn everything_meets_everything() {
        let all = range("::/0").unwrap();
        assert!(all.meets(&range("fd00::/8").unwrap()) && !all.meets(&range("0.0.0.0/0").unwrap()));
    }
}
