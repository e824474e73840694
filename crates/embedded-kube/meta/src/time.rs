//! Wire forms of time: seconds for `Time`, microseconds for `MicroTime`.

use jiff::Timestamp;

/// `2006-01-02T15:04:05Z`: what metav1.Time writes.
pub fn rfc3339(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2006-01-02T15:04:05.000000Z`: what metav1.MicroTime writes.
pub fn rfc3339_micro(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Parses any RFC 3339 time.
pub fn parse(s: &str) -> Option<Timestamp> {
    s.parse().ok()
}

/// How kubectl prints an age: the two largest units while young, one when old.
pub fn human_duration(seconds: i64) -> String {
    let s = seconds;
    if s < -1 {
        return "<invalid>".into();
    }
    let s = s.max(0);
    let (m, h, d) = (s / 60, s / 3600, s / 86400);
    let two = |a: i64, ua: &str, b: i64, ub: &str| {
        if b == 0 { format!("{a}{ua}") } else { format!("{a}{ua}{b}{ub}") }
    };
    match s {
        _ if s < 120 => format!("{s}s"),
        _ if m < 10 => two(m, "m", s % 60, "s"),
        _ if m < 180 => format!("{m}m"),
        _ if h < 8 => two(h, "h", m % 60, "m"),
        _ if h < 48 => format!("{h}h"),
        _ if d < 8 => two(d, "d", h % 24, "h"),
        _ if d < 730 => format!("{d}d"),
        _ if d < 365 * 8 => two(d / 365, "y", d % 365, "d"),
        _ => format!("{}y", d / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        for (s, want) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10800, "3h"),
            (10860, "3h1m"),
            (86400 * 2, "2d"),
            (86400 * 3 + 3600, "3d1h"),
            (86400 * 800, "2y70d"),
        ] {
            assert_eq!(human_duration(s), want, "{s}");
        }
    }

    #[test]
    fn wire_times() {
        let t: Timestamp = "2026-01-02T03:04:05.678901234Z".parse().unwrap();
        assert_eq!(rfc3339(t), "2026-01-02T03:04:05Z");
        assert_eq!(rfc3339_micro(t), "2026-01-02T03:04:05.678901Z");
    }
}
