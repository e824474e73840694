//! Sets of completion indexes, written as `0-3,5`.

use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<i64>);

impl Indexes {
    pub(super) fn parse(s: &str) -> Indexes {
        // A range nobody could have written is not worth the memory.
        const MOST: i64 = 1_000_000;
        let mut out = Indexes::default();
        for part in s.split(',').filter(|p| !p.is_empty()) {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(a), Ok(b)) = (a.trim().parse::<i64>(), b.trim().parse::<i64>()) {
                out.0.extend(a..=b.min(a.saturating_add(MOST)));
            }
        }
        out
    }

    pub(super) fn insert(&mut self, i: i64) {
        self.0.insert(i);
    }

    pub(super) fn contains(&self, i: i64) -> bool {
        self.0.contains(&i)
    }

    pub(super) fn len(&self) -> i64 {
        self.0.len() as i64
    }

    pub(super) fn among(&self, others: &Indexes) -> i64 {
        self.0.intersection(&others.0).count() as i64
    }

    pub(super) fn write(&self) -> String {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for &i in &self.0 {
            match runs.last_mut() {
                Some((_, end)) if *end + 1 == i => *end = i,
                _ => runs.push((i, i)),
            }
        }
        let text = |(a, b): &(i64, i64)| match b - a {
            0 => a.to_string(),
            1 => format!("{a},{b}"),
            _ => format!("{a}-{b}"),
        };
        runs.iter().map(text).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_ranges_and_read_back() {
        for s in ["", "0", "0,1", "0-2", "0-3,5,7,8,10-12"] {
            assert_eq!(Indexes::parse(s).write(), s);
        }
        assert_eq!(Indexes::parse("3,1,2").write(), "1-3");
    }
}
