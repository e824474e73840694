//! IP addresses and networks, strict as Kubernetes is: no leading zeros, no zones, no IPv4-mapped IPv6.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method, text};
use super::value::Val;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const TABLE: &[Entry] = &[
    function("isIP", 1, 1, is_ip).returning("bool"),
    function("ip", 1, 1, ip).returning("net.IP"),
    function("ip.isCanonical", 1, 1, is_canonical).returning("bool"),
    method("family", 0, 0, family).returning("int"),
    method("isUnspecified", 0, 0, ip_class).returning("bool"),
    method("isLoopback", 0, 0, ip_class).returning("bool"),
    method("isLinkLocalMulticast", 0, 0, ip_class).returning("bool"),
    method("isLinkLocalUnicast", 0, 0, ip_class).returning("bool"),
    method("isGlobalUnicast", 0, 0, ip_class).returning("bool"),
    function("isCIDR", 1, 1, is_cidr).returning("bool"),
    function("cidr", 1, 1, cidr).returning("net.CIDR"),
    method("containsIP", 1, 1, contains_ip).returning("bool"),
    method("containsCIDR", 1, 1, contains_cidr).returning("bool"),
    method("ip", 0, 0, cidr_ip).returning("net.IP"),
    method("masked", 0, 0, masked).returning("net.CIDR"),
    method("prefixLength", 0, 0, prefix_length).returning("int"),
];

/// An address with a prefix length; host bits are kept until `masked()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub addr: IpAddr,
    pub prefix: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v) => u128::from(v.to_bits()),
        IpAddr::V6(v) => v.to_bits(),
    }
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The network part of an address as a number; everything is in a /0.
fn network(ip: IpAddr, prefix: u8) -> u128 {
    let drop = u32::from(width(ip).saturating_sub(prefix));
    bits(ip).checked_shr(drop).unwrap_or(0)
}

impl Cidr {
    fn contains(self, ip: IpAddr) -> bool {
        self.addr.is_ipv4() == ip.is_ipv4() && network(self.addr, self.prefix) == network(ip, self.prefix)
    }

    fn masked(self) -> Cidr {
        let drop = u32::from(width(self.addr).saturating_sub(self.prefix));
        let n = network(self.addr, self.prefix).checked_shl(drop).unwrap_or(0);
        let addr = match self.addr {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(n as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(n)),
        };
        Cidr { addr, prefix: self.prefix }
    }
}

pub(crate) fn parse_ip(s: &str) -> Result<IpAddr, String> {
    if s.contains('%') {
        return Err(format!("IP address \"{s}\" with zone value is not allowed"));
    }
    match s.parse::<IpAddr>() {
        Ok(IpAddr::V6(v)) if v.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address \"{s}\" is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => {
            Err(format!("IP Address \"{s}\" parse error during conversion from string: unable to parse IP"))
        }
    }
}

pub(crate) fn parse_cidr(s: &str) -> Result<Cidr, String> {
    let bad = || format!("network address parse error during conversion from string: invalid CIDR \"{s}\"");
    let (addr, len) = s.split_once('/').ok_or_else(bad)?;
    let addr = parse_ip(addr)?;
    let plain =
        !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit()) && (len == "0" || !len.starts_with('0'));
    let prefix: u8 = len.parse().ok().filter(|p| plain && *p <= width(addr)).ok_or_else(bad)?;
    Ok(Cidr { addr, prefix })
}

fn is_ip<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(parse_ip(text(site, args, 0)?).is_ok()))
}

fn ip<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    parse_ip(text(site, args, 0)?).map(Val::Ip).map_err(EvalError::Function)
}

fn is_canonical<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    let ip = parse_ip(s).map_err(EvalError::Function)?;
    Ok(Val::Bool(ip.to_string() == s))
}

fn family<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Ip(ip) => Ok(Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => site.no_overload(args),
    }
}

fn ip_class<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Ip(ip) = &args[0] else { return site.no_overload(args) };
    let link_local = match ip {
        IpAddr::V4(v) => v.is_link_local(),
        IpAddr::V6(v) => v.is_unicast_link_local(),
    };
    Ok(Val::Bool(match site.name {
        "isUnspecified" => ip.is_unspecified(),
        "isLoopback" => ip.is_loopback(),
        "isLinkLocalUnicast" => link_local,
        "isLinkLocalMulticast" => match ip {
            IpAddr::V4(v) => v.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v) => v.segments()[0] & 0xff0f == 0xff02,
        },
        _ => {
            let broadcast = matches!(ip, IpAddr::V4(v) if v.is_broadcast());
            !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local)
        }
    }))
}

fn is_cidr<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    Ok(Val::Bool(parse_cidr(text(site, args, 0)?).is_ok()))
}

fn cidr<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    parse_cidr(text(site, args, 0)?).map(Val::Cidr).map_err(EvalError::Function)
}

fn contains_ip<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Cidr(c) = &args[0] else { return site.no_overload(args) };
    let ip = match &args[1] {
        Val::Ip(ip) => *ip,
        _ => parse_ip(text(site, args, 1)?).map_err(EvalError::Function)?,
    };
    Ok(Val::Bool(c.contains(ip)))
}

fn contains_cidr<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Cidr(c) = &args[0] else { return site.no_overload(args) };
    let inner = match &args[1] {
        Val::Cidr(i) => *i,
        _ => parse_cidr(text(site, args, 1)?).map_err(EvalError::Function)?,
    };
    Ok(Val::Bool(c.prefix <= inner.prefix && c.contains(inner.addr)))
}

fn cidr_ip<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Cidr(c) => Ok(Val::Ip(c.addr)),
        _ => site.no_overload(args),
    }
}

fn masked<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Cidr(c) => Ok(Val::Cidr(c.masked())),
        _ => site.no_overload(args),
    }
}

fn prefix_length<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        Val::Cidr(c) => Ok(Val::Int(i64::from(c.prefix))),
        _ => site.no_overload(args),
    }
}
