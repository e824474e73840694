//! What is to be done with an object, given what has become of its owners.

use super::{FOREGROUND, ORPHAN};
use crate::objects::has_finalizer;
use serde_json::Value;

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    There,
    /// It is being deleted and waits for its dependents.
    Waits,
    Gone,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    /// Take out the references to these uids.
    Drop(Vec<String>),
    Delete {
        propagation: &'static str,
        /// Something it owns waits for it: a circle, opened here by no longer blocking its owners.
        unblock: bool,
    },
}

pub(super) fn decide(
    owners: &[(String, Owner)],
    obj: &Value,
    has_dependents: bool,
    dependent_waits: impl Fn() -> bool,
) -> Step {
    if owners.is_empty() {
        return Step::Keep;
    }
    let there = owners.iter().any(|(_, o)| *o == Owner::There);
    if there {
        let going: Vec<String> =
            owners.iter().filter(|(_, o)| *o != Owner::There).map(|(u, _)| u.clone()).collect();
        return if going.is_empty() { Step::Keep } else { Step::Drop(going) };
    }
    if has_dependents && owners.iter().any(|(_, o)| *o == Owner::Waits) {
        return Step::Delete { propagation: "Foreground", unblock: dependent_waits() };
    }
    // What was decided for its own dependents before stands.
    let propagation = if has_finalizer(obj, ORPHAN) {
        "Orphan"
    } else if has_finalizer(obj, FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    Step::Delete { propagation, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owners(all: &[Owner]) -> Vec<(String, Owner)> {
        all.iter().enumerate().map(|(i, o)| (i.to_string(), *o)).collect()
    }

    #[test]
    fn one_living_owner_is_enough() {
        let obj = json!({});
        let no = || false;
        assert_eq!(decide(&[], &obj, false, no), Step::Keep);
        assert_eq!(decide(&owners(&[Owner::There]), &obj, false, no), Step::Keep);
        let mixed = owners(&[Owner::There, Owner::Gone, Owner::Waits]);
        assert_eq!(decide(&mixed, &obj, true, no), Step::Drop(vec!["1".into(), "2".into()]));
    }

    #[test]
    fn without_one_it_goes_as_its_own_dependents_need() {
        let background = Step::Delete { propagation: "Background", unblock: false };
        assert_eq!(decide(&owners(&[Owner::Gone]), &json!({}), true, || true), background);
        assert_eq!(decide(&owners(&[Owner::Waits]), &json!({}), false, || true), background);
        let circle = Step::Delete { propagation: "Foreground", unblock: true };
        assert_eq!(decide(&owners(&[Owner::Waits, Owner::Gone]), &json!({}), true, || true), circle);
        let orphaning = json!({"metadata": {"finalizers": ["orphan"]}});
        let step = decide(&owners(&[Owner::Gone]), &orphaning, false, || false);
        assert_eq!(step, Step::Delete { propagation: "Orphan", unblock: false });
    }
}
