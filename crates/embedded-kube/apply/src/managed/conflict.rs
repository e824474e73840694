//! What stands in the way of an apply, and how it is told.

use super::entries::{ManagedEntry, Operation};
use ek_meta::{Reason, Status};

/// One field another manager holds with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    /// As printed: `.spec.replicas`.
    pub path: String,
}

impl Conflict {
    pub(super) fn new(entry: &ManagedEntry, path: String) -> Conflict {
        Conflict {
            manager: entry.manager.clone(),
            operation: entry.operation,
            api_version: entry.api_version.clone(),
            subresource: entry.subresource.clone(),
            time: entry.time.clone(),
            path,
        }
    }

    /// An applier is known by its name; an updater also by the version it used. The time is left out: it is
    /// no part of who the manager is.
    fn who(&self) -> String {
        let mut who = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            who.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            who.push_str(&format!(" using {}", self.api_version));
        }
        who
    }
}

/// The message of the 409, managers in order, their fields below them.
pub fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.who(), one.path);
    }
    let key = |c: &Conflict| (c.manager.clone(), c.operation, c.api_version.clone(), c.subresource.clone());
    let mut order: Vec<&Conflict> = conflicts.iter().collect();
    order.sort_by_cached_key(|c| key(c));
    let mut lines = Vec::new();
    for same in order.chunk_by(|a, b| key(a) == key(b)) {
        lines.extend(same.first().map(|c| format!("conflicts with {}:", c.who())));
        lines.extend(same.iter().map(|c| format!("- {}", c.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// 409 with one cause per field.
pub fn conflict_status(conflicts: &[Conflict]) -> Status {
    conflicts.iter().fold(Status::failure(409, Reason::Conflict, conflict_message(conflicts)), |s, c| {
        s.with_cause("FieldManagerConflict", &format!("conflict with {}", c.who()), &c.path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(manager: &str, operation: Operation, subresource: &str, path: &str) -> Conflict {
        Conflict {
            manager: manager.into(),
            operation,
            api_version: "apps/v1".into(),
            subresource: subresource.into(),
            time: Some("2024-01-01T00:00:00Z".into()),
            path: path.into(),
        }
    }

    #[test]
    fn texts() {
        let one = conflict("kubectl-client-side-apply", Operation::Update, "", ".spec.replicas");
        assert_eq!(
            conflict_message(std::slice::from_ref(&one)),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
        );
        let many = [
            conflict("x", Operation::Update, "", ".spec.a"),
            conflict("b", Operation::Apply, "", ".spec.c"),
            conflict("x", Operation::Update, "", ".spec.b"),
            conflict("x", Operation::Update, "status", ".status.a"),
        ];
        assert_eq!(
            conflict_message(&many),
            "Apply failed with 4 conflicts: conflicts with \"b\":\n- .spec.c\nconflicts with \"x\" using apps/v1:\n- .spec.a\n- .spec.b\n\
             conflicts with \"x\" with subresource \"status\" using apps/v1:\n- .status.a"
        );
        let status = conflict_status(&many);
        assert_eq!((status.code, status.reason), (409, Some(Reason::Conflict)));
        let cause = &status.details.unwrap().causes[3];
        assert_eq!(cause.reason.as_deref(), Some("FieldManagerConflict"));
        assert_eq!(cause.field.as_deref(), Some(".status.a"));
        assert_eq!(
            cause.message.as_deref(),
            Some("conflict with \"x\" with subresource \"status\" using apps/v1")
        );
    }
}
