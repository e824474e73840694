//! Address ranges: containment, overlap, and the addresses a subnet gives out.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: u128,
    prefix: u8,
    v6: bool,
}

fn number(ip: IpAddr) -> (u128, bool) {
    match ip {
        IpAddr::V4(a) => (u128::from(a.to_bits()), false),
        IpAddr::V6(a) => (a.to_bits(), true),
    }
}

impl Cidr {
    pub fn parse(text: &str) -> Option<Cidr> {
        let (ip, prefix) = text.split_once('/')?;
        let (bits, v6) = number(ip.parse().ok()?);
        let prefix: u8 = prefix.parse().ok()?;
        let width = if v6 { 128 } else { 32 };
        if prefix > width {
            return None;
        }
        let size = width - prefix;
        let mask = if size == 128 { 0 } else { u128::MAX << size };
        (bits & mask == bits).then_some(Cidr { base: bits, prefix, v6 })
    }

    fn size(self) -> u8 {
        (if self.v6 { 128 } else { 32 }) - self.prefix
    }

    fn last(self) -> u128 {
        self.base | if self.size() == 128 { u128::MAX } else { (1 << self.size()) - 1 }
    }

    pub fn contains(self, other: Cidr) -> bool {
        self.v6 == other.v6 && self.base <= other.base && other.last() <= self.last()
    }

    pub fn overlaps(self, other: Cidr) -> bool {
        self.v6 == other.v6 && self.base <= other.last() && other.base <= self.last()
    }

    pub fn has(self, ip: IpAddr) -> bool {
        let (n, v6) = number(ip);
        v6 == self.v6 && self.base <= n && n <= self.last()
    }

    /// How many addresses it has; more than a float holds exactly are not counted exactly.
    pub fn addresses(self) -> f64 {
        2_f64.powi(i32::from(self.size()))
    }

    /// Whether the address is one that is given out.
    pub fn gives(self, ip: IpAddr) -> bool {
        let (n, _) = number(ip);
        self.has(ip) && n >= self.base.saturating_add(4) && n < self.last()
    }

    pub fn is_v6(self) -> bool {
        self.v6
    }

    /// The first address that is free: Azure keeps the first four and the last.
    pub fn free(self, taken: &dyn Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let end = self.last();
        let first = self.base.checked_add(4)?;
        // A subnet larger than this is never filled by a simulator.
        for n in first..first.saturating_add(70_000) {
            if n >= end {
                return None;
            }
            let ip = match self.v6 {
                true => IpAddr::from(n.to_be_bytes()),
                false => IpAddr::from(u32::try_from(n).ok()?.to_be_bytes()),
            };
            if !taken(ip) {
                return Some(ip);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges() {
        let c = |s: &str| Cidr::parse(s).unwrap();
        assert!(c("10.0.0.0/8").contains(c("10.1.0.0/16")) && !c("10.1.0.0/16").contains(c("10.0.0.0/8")));
        assert!(
            c("10.0.0.0/24").overlaps(c("10.0.0.128/25")) && !c("10.0.0.0/24").overlaps(c("10.0.1.0/24"))
        );
        assert!(c("::/0").contains(c("fd00::/8")) && !c("0.0.0.0/0").contains(c("::/0")));
        assert_eq!(c("10.0.0.0/24").free(&|_| false), Some("10.0.0.4".parse().unwrap()));
        assert_eq!(
            c("10.0.0.0/29").free(&|ip| ip < IpAddr::from([10, 0, 0, 6])),
            Some("10.0.0.6".parse().unwrap())
        );
        assert_eq!(c("10.0.0.0/30").free(&|_| false), None);
        for bad in ["", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "x/1", "::/129"] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(s in "[0-9a-f.:/]{0,20}") {
            if let Some(c) = Cidr::parse(&s) {
                prop_assert!(c.contains(c) && c.overlaps(c));
                let _ = c.free(&|_| false);
            }
        }
    }
}
