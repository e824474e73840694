//! Which machines of a set go first: pure.

use jiff::Timestamp;

/// Among equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Random,
    Newest,
    Oldest,
}

impl Policy {
    pub fn read(text: Option<&str>) -> Policy {
        match text {
            Some("Newest") => Policy::Newest,
            Some("Oldest") => Policy::Oldest,
            _ => Policy::Random,
        }
    }
}

/// A machine as the order sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub created: Timestamp,
    /// Somebody asked for it by annotation.
    pub marked: bool,
    /// It does not work: failed, without a node, or found unhealthy.
    pub broken: bool,
}

/// The names that go when there are `excess` too many: those that are asked for, then those that do not work, then by
/// policy. The same machines are chosen however often it is asked.
pub fn victims(members: &[Member], excess: usize, policy: Policy) -> Vec<String> {
    let mut all: Vec<&Member> = members.iter().collect();
    all.sort_by(|a, b| {
        let rank = |m: &Member| (!m.marked, !m.broken);
        let age = match policy {
            Policy::Random => std::cmp::Ordering::Equal,
            Policy::Newest => b.created.cmp(&a.created),
            Policy::Oldest => a.created.cmp(&b.created),
        };
        rank(a).cmp(&rank(b)).then(age).then_with(|| a.name.cmp(&b.name))
    });
    all.into_iter().take(excess).map(|m| m.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_then_broken_then_by_age() {
        let m = |name: &str, at: i64, marked, broken| Member {
            name: name.into(),
            created: Timestamp::from_second(at).unwrap(),
            marked,
            broken,
        };
        let all = [
            m("a", 1, false, false),
            m("b", 2, false, true),
            m("c", 3, true, false),
            m("d", 4, false, false),
        ];
        assert_eq!(victims(&all, 3, Policy::Newest), ["c", "b", "d"]);
        assert_eq!(victims(&all, 3, Policy::Oldest), ["c", "b", "a"]);
        assert_eq!(victims(&all, 9, Policy::Random), ["c", "b", "a", "d"]);
        assert!(victims(&all, 0, Policy::Random).is_empty());
    }
}
