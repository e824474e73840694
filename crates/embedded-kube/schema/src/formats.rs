//! String formats, as lenient or strict as the API server's registry is.
//!
//! Unknown formats are documentation and always valid: a CRD may name any.

use crate::cel::parse_duration;
use base64::Engine;
use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// A pattern that is part of this file and therefore known to compile; if it did not, nothing would match.
fn fixed(p: &'static str) -> Option<Regex> {
    Regex::new(p).ok()
}

macro_rules! pattern {
    ($name:ident, $p:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| fixed($p));
    };
}

pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(UUID, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID3, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID4, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(UUID5, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(ISBN10, r"^(?:[0-9]{9}X|[0-9]{10})$");
pattern!(ISBN13, r"^(?:[0-9]{13})$");
pattern!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
);
pattern!(SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
);
pattern!(DATE, r"^\d{4}-\d{2}-\d{2}$");
pattern!(DATE_TIME, r"(?i)^\d{4}-\d{2}-\d{2}t\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:?\d{2})$");
pattern!(LOCAL, r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+$");

fn is(p: &LazyLock<Option<Regex>>, s: &str) -> bool {
    p.as_ref().is_some_and(|r| r.is_match(s))
}

/// Whether `s` is a valid value of the named string format. Dashes in names are ignored.
pub fn valid(format: &str, s: &str) -> bool {
    let plain;
    let name = if format.contains('-') {
        plain = format.replace('-', "");
        plain.as_str()
    } else {
        format
    };
    match name {
        "byte" => base64::engine::general_purpose::STANDARD.decode(s.replace(['\n', '\r'], "")).is_ok(),
        "date" => is(&DATE, s) && s.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => is(&DATE_TIME, s) && date_time(s),
        "duration" => parse_duration(s).is_some() || long_duration(s),
        "email" => email(s),
        "hostname" => {
            is(&HOSTNAME, s) && s.len() < 256 && s.split('.').all(|l| !l.is_empty() && l.len() < 64)
        }
        "ipv4" => s.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => s.contains(':') && s.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(s),
        "mac" => mac(s),
        "uri" => crate::cel::is_request_uri(s),
        "uuid" => is(&UUID, s),
        "uuid3" => is(&UUID3, s),
        "uuid4" => is(&UUID4, s),
        "uuid5" => is(&UUID5, s),
        "bsonobjectid" => s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => isbn(s),
        "isbn10" => isbn10(s),
        "isbn13" => isbn13(s),
        "creditcard" => {
            let digits: String = s.chars().filter(char::is_ascii_digit).collect();
            is(&CREDIT_CARD, &digits) && luhn(&digits)
        }
        "ssn" => is(&SSN, s),
        "hexcolor" => is(&HEX_COLOR, s),
        "rgbcolor" => is(&RGB_COLOR, s),
        "k8sshortname" => ek_meta::names::dns_label(s).is_empty(),
        "k8slongname" => ek_meta::names::dns_subdomain(s).is_empty(),
        _ => true,
    }
}

/// Whether an integer fits the named number format.
pub fn fits(format: &str, n: &serde_json::Number) -> bool {
    match format {
        "int32" => match n.as_i64() {
            Some(i) => i32::try_from(i).is_ok(),
            None => n.as_f64().is_some_and(|f| f.abs() <= 2_147_483_648.0),
        },
        "uint32" => n.as_i64().is_none_or(|i| u32::try_from(i).is_ok()),
        _ => true,
    }
}

fn date_time(s: &str) -> bool {
    // An offset may be written without its colon; the parser wants one.
    let b = s.as_bytes();
    let bare_offset = b.len() > 5 && matches!(b[b.len() - 5], b'+' | b'-');
    if bare_offset {
        let (head, minutes) = s.split_at(s.len() - 2);
        return format!("{head}:{minutes}").parse::<jiff::Timestamp>().is_ok();
    }
    s.to_uppercase().parse::<jiff::Timestamp>().is_ok()
}

/// Also `3 days`, `2 weeks`: units in words.
fn long_duration(s: &str) -> bool {
    let s = s.trim();
    let end = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let unit = s[end..].trim();
    end > 0
        && matches!(
            unit,
            "ns" | "nano"
                | "us"
                | "micro"
                | "ms"
                | "milli"
                | "s"
                | "sec"
                | "secs"
                | "second"
                | "seconds"
                | "m"
                | "min"
                | "mins"
                | "minute"
                | "minutes"
                | "h"
                | "hr"
                | "hrs"
                | "hour"
                | "hours"
                | "d"
                | "day"
                | "days"
                | "w"
                | "wk"
                | "week"
                | "weeks"
        )
}

fn email(s: &str) -> bool {
    // `Name <addr>` is an address too.
    let addr = match (s.rfind('<'), s.strip_suffix('>')) {
        (Some(i), Some(inner)) => &inner[i + 1..],
        _ => s.trim(),
    };
    let Some((local, domain)) = addr.rsplit_once('@') else { return false };
    let dots = |p: &str| !p.starts_with('.') && !p.ends_with('.') && !p.contains("..");
    is(&LOCAL, local)
        && dots(local)
        && !domain.is_empty()
        && dots(domain)
        && domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

fn cidr(s: &str) -> bool {
    let Some((addr, len)) = s.split_once('/') else { return false };
    let Ok(ip) = addr.parse::<std::net::IpAddr>() else { return false };
    let max = if ip.is_ipv4() { 32u8 } else { 128 };
    len.bytes().all(|b| b.is_ascii_digit()) && len.parse::<u8>().is_ok_and(|l| l <= max)
}

fn mac(s: &str) -> bool {
    let hex = |p: &str, n: usize| p.len() == n && p.bytes().all(|b| b.is_ascii_hexdigit());
    let groups = |sep: char, n: usize| {
        let parts: Vec<&str> = s.split(sep).collect();
        parts.iter().all(|p| hex(p, n)).then_some(parts.len())
    };
    matches!(groups(':', 2).or_else(|| groups('-', 2)), Some(6 | 8 | 20))
        || matches!(groups('.', 4), Some(3 | 4 | 10))
}

fn bare(s: &str) -> String {
    s.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn isbn(s: &str) -> bool {
    isbn10(s) || isbn13(s)
}

fn isbn10(s: &str) -> bool {
    let s = bare(s);
    is(&ISBN10, &s)
        && s.bytes()
            .enumerate()
            .map(|(i, b)| (10 - i as u32) * if b == b'X' { 10 } else { u32::from(b - b'0') })
            .sum::<u32>()
            .is_multiple_of(11)
}

fn isbn13(s: &str) -> bool {
    let s = bare(s);
    is(&ISBN13, &s)
        && s.bytes()
            .enumerate()
            .map(|(i, b)| u32::from(b - b'0') * if i.is_multiple_of(2) { 1 } else { 3 })
            .sum::<u32>()
            .is_multiple_of(10)
}

fn luhn(digits: &str) -> bool {
    digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| {
            let d = u32::from(b - b'0') * if i.is_multiple_of(2) { 1 } else { 2 };
            if d > 9 { d - 9 } else { d }
        })
        .sum::<u32>()
        .is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::valid;

    #[test]
    fn each_format_knows_its_values() {
        for (format, good, bad) in [
            ("byte", "aGk=", "a"),
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
            ("date-time", "2026-01-02T03:04:05.123+02:00", "yesterday"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "3 days", ""),
            ("email", "a.b@example.com", "a@"),
            ("hostname", "a.example.com", "-a"),
            ("hostname", "localhost", "a..b"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1a:2b:3c:4d:5e", "00:1a"),
            ("uri", "https://a/b?c", "a b"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("isbn10", "0-306-40615-2", "0-306-40615-3"),
            ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-22-3333", "1-2-3"),
            ("hexcolor", "#ffaa00", "#ff"),
            ("rgbcolor", "rgb(1, 2, 3)", "rgb(1,2)"),
        ] {
            assert!(valid(format, good), "{format} should take {good}");
            assert!(!valid(format, bad), "{format} should refuse {bad}");
        }
        assert!(valid("password", "anything"));
        assert!(valid("made-up", "anything"));
    }
}
