//! The measured times of `real`, per type.

use crate::profile::log_normal;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Seconds: the median, the 90th percentile, and the most that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    median: f64,
    p90: f64,
    most: f64,
}

type Row = (Option<Span>, Option<Span>);

static TABLE: LazyLock<HashMap<String, Row>> = LazyLock::new(|| read(include_str!("times.txt")));

fn read(text: &str) -> HashMap<String, Row> {
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    lines
        .filter_map(|l| {
            let words: Vec<&str> = l.split_whitespace().collect();
            let span = |at: usize| -> Option<Span> {
                let n = |i: usize| words.get(at + i)?.parse::<f64>().ok();
                Some(Span { median: n(0)?, p90: n(1)?, most: n(2)? })
            };
            Some((words.first()?.to_lowercase(), (span(1), span(4))))
        })
        .collect()
}

impl Span {
    /// What is known of a type; without a row, a narrow one around what is typical. A row whose median is 0 has
    /// only its shape: how long a group's deletion takes depends on what is in it.
    pub fn of(kind: &str, deletes: bool, typical: f64) -> Span {
        let row = TABLE.get(&kind.to_lowercase()).copied();
        let span = row.and_then(|(create, delete)| if deletes { delete } else { create });
        match span {
            None => Span { median: typical, p90: typical * 1.25, most: typical * 2.0 },
            Some(s) if s.median == 0.0 => {
                Span { median: typical, p90: typical * s.p90, most: s.most.max(typical) }
            }
            Some(s) => s,
        }
    }

    pub fn sample(self, bits: u128) -> f64 {
        // Nothing is quicker than a third of the median: even the quickest has to be written down.
        log_normal(self.median, self.p90, bits).clamp(self.median / 3.0, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::hash;

    #[test]
    fn rows_are_in_order_and_used() {
        assert!(TABLE.len() > 20);
        for (kind, (create, delete)) in TABLE.iter() {
            for s in [create, delete].into_iter().flatten() {
                assert!(s.most >= s.p90 && (s.median == 0.0 || s.p90 >= s.median), "{kind}: {s:?}");
            }
        }
        let s = Span::of("Microsoft.Network/VIRTUALNETWORKS", false, 99.0);
        assert_eq!(s, Span { median: 3.0, p90: 8.0, most: 11.0 });
        let (a, b) = (s.sample(hash(1, &["a"])), s.sample(hash(1, &["b"])));
        assert!(a != b && a == s.sample(hash(1, &["a"])));
        assert_eq!(Span::of("Some/thing", false, 10.0).median, 10.0);
        assert_eq!(Span::of("Microsoft.Resources/resourceGroups", true, 29.0).median, 29.0);
    }
}
