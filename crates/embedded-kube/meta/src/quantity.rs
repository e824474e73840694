//! Resource quantities (`100m`, `1Gi`, `1e3`): exact, canonical, comparable.

use std::cmp::Ordering;
use std::fmt;

/// How a quantity is written: the suffix family survives canonicalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// An exact decimal: `value × 10^-9` (nano), which is all the precision Kubernetes keeps.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct ParseQuantityError;

const NANO: i128 = 1_000_000_000;

impl std::str::FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(s: &str) -> Result<Self, ParseQuantityError> {
        let err = ParseQuantityError;
        if s.len() > 64 {
            return Err(err);
        }
        let (negative, rest) = match s.as_bytes().first() {
            Some(b'-') => (true, &s[1..]),
            Some(b'+') => (false, &s[1..]),
            Some(_) => (false, s),
            None => return Err(err),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, frac) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && frac.is_empty()) || frac.contains('.') {
            return Err(err);
        }
        let (format, factor) = suffix_factor(suffix).ok_or(err)?;
        let mut digits: i128 = 0;
        for c in whole.bytes().chain(frac.bytes()) {
            digits = digits.checked_mul(10).and_then(|d| d.checked_add(i128::from(c - b'0'))).ok_or(err)?;
        }
        let (num, den) = factor;
        let scale = 10i128.checked_pow(frac.len() as u32).ok_or(err)?.checked_mul(den).ok_or(err)?;
        let scaled = digits.checked_mul(num).and_then(|v| v.checked_mul(NANO)).ok_or(err)?;
        // Finer than nano rounds up, away from zero, as Kubernetes does.
        let nano = scaled.checked_add(scale - 1).ok_or(err)? / scale;
        Ok(Quantity { nano: if negative { -nano } else { nano }, format })
    }
}

/// Suffix → (format, numerator, denominator).
fn suffix_factor(s: &str) -> Option<(Format, (i128, i128))> {
    let dec = |n: i128, d: i128| Some((Format::Decimal, (n, d)));
    let bin = |p: u32| Some((Format::Binary, (1i128 << (10 * p), 1)));
    match s {
        "n" => dec(1, 1_000_000_000),
        "u" => dec(1, 1_000_000),
        "m" => dec(1, 1_000),
        "" => dec(1, 1),
        "k" => dec(1_000, 1),
        "M" => dec(1_000_000, 1),
        "G" => dec(1_000_000_000, 1),
        "T" => dec(1_000_000_000_000, 1),
        "P" => dec(1_000_000_000_000_000, 1),
        "E" => dec(1_000_000_000_000_000_000, 1),
        "Ki" => bin(1),
        "Mi" => bin(2),
        "Gi" => bin(3),
        "Ti" => bin(4),
        "Pi" => bin(5),
        "Ei" => bin(6),
        _ => {
            let exp = s.strip_prefix('e').or_else(|| s.strip_prefix('E'))?;
            let e: i32 = exp.parse().ok()?;
            let pow = 10i128.checked_pow(e.unsigned_abs())?;
            Some((Format::Exponent, if e >= 0 { (pow, 1) } else { (1, pow) }))
        }
    }
}

impl Quantity {
    pub fn from_int(v: i64) -> Quantity {
        Quantity { nano: i128::from(v) * NANO, format: Format::Decimal }
    }

    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i64 {
        self.nano.signum() as i64
    }

    /// The whole number, when it is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        (self.nano % NANO == 0).then(|| i64::try_from(self.nano / NANO).ok()).flatten()
    }

    pub fn as_f64(&self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Rounded up to whole units.
    pub fn ceil(&self) -> i64 {
        let v = self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0);
        v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Sums saturate, far beyond what a quantity may hold, and keep the suffix family of the first operand.
impl std::ops::Add for Quantity {
    type Output = Quantity;

    fn add(self, o: Quantity) -> Quantity {
        let format = if self.nano == 0 { o.format } else { self.format };
        Quantity { nano: self.nano.saturating_add(o.nano), format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Quantity;

    fn sub(self, o: Quantity) -> Quantity {
        let format = if self.nano == 0 { o.format } else { self.format };
        Quantity { nano: self.nano.saturating_sub(o.nano), format }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, o: &Self) -> bool {
        self.nano == o.nano
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Quantity {
    fn cmp(&self, o: &Self) -> Ordering {
        self.nano.cmp(&o.nano)
    }
}

impl fmt::Display for Quantity {
    /// Canonical: no fraction, the largest suffix that keeps it exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let sign = if self.nano < 0 { "-" } else { "" };
        let nano = self.nano.unsigned_abs();
        let unit = NANO as u128;
        if self.format == Format::Binary && nano.is_multiple_of(unit) && nano / unit >= 1024 {
            let mut v = nano / unit;
            let mut p = 0usize;
            while v.is_multiple_of(1024) && p < 6 {
                v /= 1024;
                p += 1;
            }
            return write!(f, "{sign}{v}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][p]);
        }
        let mut v = nano;
        let mut e = -9i32;
        while v.is_multiple_of(1000) && e < 18 {
            v /= 1000;
            e += 3;
        }
        match self.format {
            Format::Exponent if e != 0 => write!(f, "{sign}{v}e{e}"),
            _ => {
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((e + 9) / 3) as usize];
                write!(f, "{sign}{v}{suffix}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        for (input, want) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("100", "100"),
            ("0.1Ki", "102400m"),
            ("-5", "-5"),
            ("12e6", "12e6"),
            ("1n", "1n"),
        ] {
            assert_eq!(input.parse::<Quantity>().unwrap().to_string(), want, "{input}");
        }
        for bad in ["", "x", "1.2.3", "1Q", "1 Gi", "--1", "."] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn compares_across_suffixes() {
        let q = |s: &str| s.parse::<Quantity>().unwrap();
        assert_eq!(q("1000m"), q("1"));
        assert!(q("1Gi") > q("1G"));
        assert_eq!((q("1") + q("500m")).to_string(), "1500m");
        assert_eq!(q("1.1").ceil(), 2);
    }
}
