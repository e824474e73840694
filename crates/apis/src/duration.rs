//! Durations as annotations, fields and flags write them.

use jiff::SignedDuration;

/// `1h30m`, `10m`, `45s`, `1.5h`, `300ms`. Nothing for what is none.
pub fn go_duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units =
            [("ms", 0.001), ("us", 0.000_001), ("ns", 0.000_000_001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, seconds) = units.into_iter().find(|(u, _)| rest.starts_with(u))?;
        total += number * seconds;
        rest = &rest[unit.len()..];
    }
    SignedDuration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go() {
        for (text, seconds) in
            [("10m", 600), ("1h30m", 5400), ("45s", 45), ("1.5h", 5400), ("0", 0), ("0s", 0)]
        {
            assert_eq!(go_duration(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "ten", "10", "10x", "m", "-5m"] {
            assert_eq!(go_duration(bad), None, "{bad}");
        }
    }
}
