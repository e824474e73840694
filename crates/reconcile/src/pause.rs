//! `pausedUntil`: a date, or yes or no.

use jiff::Timestamp;

/// Whether somebody asked us to leave things alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    No,
    /// And look again then.
    Until(Timestamp),
    Forever,
}

impl Pause {
    /// Reads `pausedUntil`. What is neither a date nor a boolean pauses nothing, as the API it comes from has it;
    /// `Err` says that it was not understood, for a condition.
    pub fn read(text: Option<&str>, now: Timestamp) -> Result<Pause, String> {
        let Some(text) = text.map(str::trim).filter(|t| !t.is_empty()) else { return Ok(Pause::No) };
        if let Ok(until) = text.parse::<Timestamp>() {
            return Ok(if until > now { Pause::Until(until) } else { Pause::No });
        }
        match text {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(Pause::Forever),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(Pause::No),
            _ => Err(format!(
                "pausedUntil {:?} is neither a date like 2026-01-31T12:00:00Z nor true or false",
                crate::wait::bounded(text.to_owned(), 64)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_booleans() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let read = |t| Pause::read(Some(t), now);
        assert_eq!(Pause::read(None, now), Ok(Pause::No));
        assert_eq!(read("true"), Ok(Pause::Forever));
        assert_eq!(read("False"), Ok(Pause::No));
        assert_eq!(read("2025-12-31T00:00:00Z"), Ok(Pause::No));
        let until = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(read("2026-01-01T02:00:00+01:00"), Ok(Pause::Until(until)));
        assert!(read("tomorrow").unwrap_err().contains("2026-01-31T12:00:00Z"));
    }
}
