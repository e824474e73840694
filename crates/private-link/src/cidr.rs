//! Room for one more subnet in a network.

use std::net::Ipv4Addr;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
}

fn range(text: &str) -> Option<Range> {
    let (ip, bits) = text.split_once('/')?;
    let (ip, bits): (Ipv4Addr, u32) = (ip.parse().ok()?, bits.parse().ok()?);
    let size = 32_u32.checked_sub(bits)?;
    let mask = u32::MAX.checked_shl(size).unwrap_or(0);
    let first = ip.to_bits() & mask;
    Some(Range { first, last: first | !mask })
}

/// The first range of `bits` within `spaces` that overlaps none of `taken`. IPv6 is not looked at.
pub fn free<'a>(
    spaces: impl IntoIterator<Item = &'a str>,
    taken: impl IntoIterator<Item = &'a str>,
    bits: u32,
) -> Option<String> {
    let mut taken: Vec<Range> = taken.into_iter().filter_map(range).collect();
    taken.sort_unstable_by_key(|r| r.first);
    let size = 1_u64 << 32_u32.checked_sub(bits)?;
    for space in spaces.into_iter().filter_map(range) {
        let up = |n: u64| n.div_ceil(size) * size;
        let mut at = up(u64::from(space.first));
        for t in &taken {
            if at + size <= u64::from(t.first) {
                break;
            }
            at = at.max(up(u64::from(t.last) + 1));
        }
        if at + size - 1 <= u64::from(space.last) {
            return Some(format!("{}/{bits}", Ipv4Addr::from_bits(u32::try_from(at).ok()?)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::free;

    #[test]
    fn the_first_gap_that_is_wide_enough() {
        let of = |spaces: &[&'static str], taken: &[&'static str]| {
            free(spaces.iter().copied(), taken.iter().copied(), 28)
        };
        assert_eq!(of(&["10.0.0.0/16"], &[]).as_deref(), Some("10.0.0.0/28"));
        assert_eq!(of(&["10.0.0.0/16"], &["10.0.0.0/24"]).as_deref(), Some("10.0.1.0/28"));
        // Between two, in whatever order they are told.
        assert_eq!(of(&["10.0.0.0/16"], &["10.0.2.0/24", "10.0.0.0/24"]).as_deref(), Some("10.0.1.0/28"));
        // A gap that is too narrow is passed over; what lies inside another changes nothing.
        let narrow = ["10.0.0.0/29", "10.0.0.16/28", "10.0.0.16/30"];
        assert_eq!(of(&["10.0.0.0/16"], &narrow).as_deref(), Some("10.0.0.32/28"));
        assert_eq!(of(&["10.0.0.0/16"], &["10.0.0.8/29"]).as_deref(), Some("10.0.0.16/28"));
        // The next space, when the first is full.
        assert_eq!(of(&["10.0.0.0/24", "10.9.0.0/24"], &["10.0.0.0/24"]).as_deref(), Some("10.9.0.0/28"));
        assert_eq!(of(&["10.0.0.0/24"], &["10.0.0.0/24"]), None);
        assert_eq!(of(&["10.0.0.0/29"], &[]), None);
        assert_eq!(of(&["255.255.255.0/24"], &["255.255.255.0/25", "255.255.255.128/25"]), None);
        assert_eq!(of(&["fd00::/64", "rubbish"], &[]), None);
    }
}
