//! Schedules: minute, hour, day of the month, month, day of the week, in some time zone.
//!
//! When both days are restricted either is enough, as cron has always had it. A time that a change of the clocks
//! skips does not happen; one that happens twice counts the first time.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Fields(Box<Fields>),
    Every(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    pub(super) fn parse(s: &str) -> Option<Schedule> {
        let s = s.trim();
        let fields = match s {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => match s.strip_prefix("@every ") {
                Some(every) => return Some(Schedule::Every(every_seconds(every.trim())?)),
                None => s,
            },
        };
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else { return None };
        let is_any = |f: &str| f.starts_with('*') || f.starts_with('?');
        let mut weekdays = field(weekday, 0, 7, &WEEKDAYS, 0)?;
        // Seven is Sunday, too.
        if weekdays & (1 << 7) != 0 {
            weekdays = (weekdays | 1) & 0x7f;
        }
        Some(Schedule::Fields(Box::new(Fields {
            minutes: field(minute, 0, 59, &[], 0)?,
            hours: field(hour, 0, 23, &[], 0)?,
            days: field(day, 1, 31, &[], 0)?,
            months: field(month, 1, 12, &MONTHS, 1)?,
            weekdays,
            any_day: is_any(day),
            any_weekday: is_any(weekday),
        })))
    }

    /// The first time after `after`; none if there is none within five years.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let fields = match self {
            Schedule::Every(seconds) => return after.checked_add(SignedDuration::from_secs(*seconds)).ok(),
            Schedule::Fields(f) => f,
        };
        let mut at = zone.to_datetime(after);
        at = at.with().second(0).subsec_nanosecond(0).build().ok()?;
        at = at.checked_add(SignedDuration::from_mins(1)).ok()?;
        let last = i32::from(at.year()) + 5;
        while i32::from(at.year()) <= last {
            if let Some(next) = fields.skip(at) {
                at = next;
                continue;
            }
            // A time the clocks skip is moved by the zone; then it is not the one meant.
            let real = zone.to_ambiguous_timestamp(at).earlier().ok()?;
            if real > after && zone.to_datetime(real) == at {
                return Some(real);
            }
            at = at.checked_add(SignedDuration::from_mins(1)).ok()?;
        }
        None
    }
}

impl Fields {
    /// Where to look next if `at` does not fit.
    fn skip(&self, at: DateTime) -> Option<DateTime> {
        let has = |set: u64, n: i8| set & (1 << n) != 0;
        let midnight = |d: DateTime| d.with().hour(0).minute(0).build().ok();
        let next_day = || midnight(at.checked_add(SignedDuration::from_hours(24)).ok()?);
        if !has(self.months, at.month()) {
            let first = at.first_of_month();
            return midnight(first.checked_add(jiff::Span::new().months(1)).ok()?);
        }
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        let fits = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        if !fits {
            return next_day();
        }
        if !has(self.hours, at.hour()) {
            return at.with().minute(0).build().ok()?.checked_add(SignedDuration::from_hours(1)).ok();
        }
        if !has(self.minutes, at.minute()) {
            return at.checked_add(SignedDuration::from_mins(1)).ok();
        }
        None
    }
}

fn field(s: &str, min: u32, max: u32, names: &[&str], base: u32) -> Option<u64> {
    let number = |t: &str| -> Option<u32> {
        let t = t.to_ascii_lowercase();
        let named = names.iter().position(|n| *n == t).map(|i| i as u32 + base);
        named.or_else(|| t.parse().ok()).filter(|n| (min..=max).contains(n))
    };
    let mut set = 0;
    for part in s.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((r, s)) => (r, s.parse::<u32>().ok().filter(|s| *s > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range {
            "*" | "?" => (min, if max == 7 { 6 } else { max }),
            _ => match range.split_once('-') {
                Some((a, b)) => (number(a)?, number(b)?),
                // From there on, when there is a step.
                None if part.contains('/') => (number(range)?, max),
                None => (number(range)?, number(range)?),
            },
        };
        if from > to {
            return None;
        }
        for n in (from..=to).step_by(step as usize) {
            set |= 1 << n;
        }
    }
    Some(set)
}

/// `1h30m`, in seconds.
fn every_seconds(s: &str) -> Option<i64> {
    let mut total = 0_f64;
    let mut rest = s;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let n: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| end + i);
        total += n * match &rest[end..unit_end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        rest = &rest[unit_end..];
    }
    (total >= 1.0).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str, zone: &str) -> String {
        let zone = if zone == "UTC" { TimeZone::UTC } else { TimeZone::get(zone).unwrap() };
        let next = Schedule::parse(schedule).unwrap().next(after.parse().unwrap(), &zone);
        next.map(ek_meta::time::rfc3339).unwrap_or_default()
    }

    #[test]
    fn schedules_as_people_write_them() {
        for (s, after, want) in [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 3 * * *", "2026-01-01T03:45:00Z", "2026-01-02T03:00:00Z"),
            ("0 12 * * MON-FRI", "2026-11-13T12:00:00Z", "2026-11-16T12:00:00Z"),
            ("0 0 13 * 5", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 * jan sun,7", "2026-02-01T00:00:00Z", "2027-01-03T00:00:00Z"),
            ("5/20 * * * *", "2026-01-01T00:26:00Z", "2026-01-01T00:45:00Z"),
            ("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"),
            ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("0 0 31 2 *", "2026-01-01T00:00:00Z", ""),
        ] {
            assert_eq!(next(s, after, "UTC"), want, "{s} after {after}");
        }
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "x * * * *",
            "@sometimes",
            "@every 1y",
        ] {
            assert_eq!(Schedule::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn clocks_that_change() {
        if TimeZone::get("Europe/Berlin").is_err() {
            return; // no zone database on this machine
        }
        let zone = "Europe/Berlin";
        assert_eq!(
            next("30 2 * * *", "2026-03-28T12:00:00Z", zone),
            "2026-03-30T00:30:00Z",
            "02:30 does not exist that night"
        );
        assert_eq!(next("30 2 * * *", "2026-10-24T12:00:00Z", zone), "2026-10-25T00:30:00Z");
        assert_eq!(
            next("30 2 * * *", "2026-10-25T00:30:00Z", zone),
            "2026-10-26T01:30:00Z",
            "once is enough"
        );
    }
}
