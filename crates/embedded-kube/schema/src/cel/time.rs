//! Timestamps, durations, and the texts of both.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method, text};
use super::value::Val;
use base64::Engine;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

pub(super) const TABLE: &[Entry] = &[
    function("timestamp", 1, 1, timestamp).returning("google.protobuf.Timestamp"),
    function("duration", 1, 1, duration).returning("google.protobuf.Duration"),
    method("getFullYear", 0, 1, part).returning("int"),
    method("getMonth", 0, 1, part).returning("int"),
    method("getDate", 0, 1, part).returning("int"),
    method("getDayOfMonth", 0, 1, part).returning("int"),
    method("getDayOfWeek", 0, 1, part).returning("int"),
    method("getDayOfYear", 0, 1, part).returning("int"),
    method("getHours", 0, 1, part).returning("int"),
    method("getMinutes", 0, 1, part).returning("int"),
    method("getSeconds", 0, 1, part).returning("int"),
    method("getMilliseconds", 0, 1, part).returning("int"),
];

/// A string property whose format gives it a CEL type of its own. `None` leaves it a string.
pub(super) fn typed_string<'a>(format: &str, s: &str) -> Option<Val<'a>> {
    match format {
        "date-time" => s.parse().ok().map(Val::Timestamp),
        "date" => format!("{s}T00:00:00Z").parse().ok().map(Val::Timestamp),
        "duration" => parse_duration(s).map(Val::Duration),
        "byte" => base64::engine::general_purpose::STANDARD.decode(s).ok().map(|b| Val::Bytes(b.into())),
        _ => None,
    }
}

/// Go's notation: `1h30m`, `-1.5s`, `100ms`.
pub fn parse_duration(s: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match s.as_bytes().first()? {
        b'-' => (true, &s[1..]),
        b'+' => (false, &s[1..]),
        _ => (false, s),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, frac) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && frac.is_empty()) || frac.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(scale)?)?;
        // Digits below a nanosecond are dropped.
        let frac = &frac[..frac.len().min(18)];
        if !frac.is_empty() {
            let digits: i128 = frac.parse().ok()?;
            nanos = nanos.checked_add(digits * scale / 10i128.pow(frac.len() as u32))?;
        }
        rest = tail;
    }
    let nanos = if negative { -nanos } else { nanos };
    i64::try_from(nanos).ok().map(SignedDuration::from_nanos)
}

/// `3600s`, `1.5s`: seconds, as protobuf writes durations.
pub(super) fn duration_text(d: SignedDuration) -> String {
    let nanos = d.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (whole, frac) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if frac == 0 {
        return format!("{sign}{whole}s");
    }
    format!("{sign}{whole}.{}s", format!("{frac:09}").trim_end_matches('0'))
}

/// Shortest form; large and small magnitudes with an exponent.
pub(super) fn double_text(d: f64) -> String {
    if d.is_nan() {
        return "NaN".to_owned();
    }
    if d.is_infinite() {
        return if d > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = d.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{d:e}");
        return match text.split_once('e') {
            Some((m, e)) => {
                let (sign, digits) = e.strip_prefix('-').map_or(('+', e), |x| ('-', x));
                format!("{m}e{sign}{digits:0>2}")
            }
            None => text,
        };
    }
    format!("{d}")
}

fn timestamp<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        t @ Val::Timestamp(_) => Ok(t.clone()),
        Val::Int(i) => Timestamp::from_second(*i).map(Val::Timestamp).map_err(|_| EvalError::Overflow),
        Val::Str(s) => s.as_str().parse().map(Val::Timestamp).map_err(|_| {
            EvalError::Function(format!(
                "type conversion error from '{}' to 'google.protobuf.Timestamp'",
                s.as_str()
            ))
        }),
        _ => site.no_overload(args),
    }
}

fn duration<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    match &args[0] {
        d @ Val::Duration(_) => Ok(d.clone()),
        Val::Int(i) => Ok(Val::Duration(SignedDuration::from_nanos(*i))),
        Val::Str(s) => parse_duration(s.as_str()).map(Val::Duration).ok_or_else(|| {
            EvalError::Function(format!(
                "type conversion error from '{}' to 'google.protobuf.Duration'",
                s.as_str()
            ))
        }),
        _ => site.no_overload(args),
    }
}

fn zone(name: &str) -> Res<TimeZone> {
    let bad = || EvalError::Function(format!("unknown time zone {name}"));
    if matches!(name, "" | "UTC" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let (sign, rest) = match name.as_bytes()[0] {
        b'-' => (-1, &name[1..]),
        b'+' => (1, &name[1..]),
        _ => (1, name),
    };
    if let Some((h, m)) = rest.split_once(':') {
        let (h, m): (i32, i32) = (h.parse().map_err(|_| bad())?, m.parse().map_err(|_| bad())?);
        if !(0..24).contains(&h) || !(0..60).contains(&m) {
            return Err(bad());
        }
        let offset = Offset::from_seconds(sign * (h * 3600 + m * 60)).map_err(|_| bad())?;
        return Ok(TimeZone::fixed(offset));
    }
    TimeZone::get(name).map_err(|_| bad())
}

/// All `get…` methods: a timestamp in a zone, or a duration in whole units.
fn part<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let n = match &args[0] {
        Val::Timestamp(t) => {
            let tz = if args.len() > 1 { zone(text(site, args, 1)?)? } else { TimeZone::UTC };
            time_part(site.name, &t.to_zoned(tz))
        }
        Val::Duration(d) if args.len() == 1 => match site.name {
            "getHours" => d.as_hours(),
            "getMinutes" => d.as_mins(),
            "getSeconds" => d.as_secs(),
            "getMilliseconds" => i64::try_from(d.as_millis()).map_err(|_| EvalError::Overflow)?,
            _ => return site.no_overload(args),
        },
        _ => return site.no_overload(args),
    };
    Ok(Val::Int(n))
}

fn time_part(name: &str, z: &Zoned) -> i64 {
    match name {
        "getFullYear" => i64::from(z.year()),
        "getMonth" => i64::from(z.month()) - 1,
        "getDate" => i64::from(z.day()),
        "getDayOfMonth" => i64::from(z.day()) - 1,
        "getDayOfWeek" => i64::from(z.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(z.day_of_year()) - 1,
        "getHours" => i64::from(z.hour()),
        "getMinutes" => i64::from(z.minute()),
        "getSeconds" => i64::from(z.second()),
        _ => i64::from(z.millisecond()),
    }
}
