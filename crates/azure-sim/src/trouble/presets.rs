//! Troubles with names: everything that was seen in recorded traffic, and whole bad days.

use crate::trouble::rule::{Rule, read};

/// Name, what it is, and its rules as JSON.
pub const PRESETS: [(&str, &str, &str); 22] = [
    (
        "another-operation",
        "409 AnotherOperationInProgress on every third write of a network resource",
        include_str!("presets/another-operation.json"),
    ),
    ("bad-day", "everything at once, seldom enough that patience wins", include_str!("presets/bad-day.json")),
    (
        "data-throttled",
        "vaults and storage throttle, each in its words",
        include_str!("presets/data-throttled.json"),
    ),
    (
        "dropped-answers",
        "writes that are done while the connection breaks",
        include_str!("presets/dropped-answers.json"),
    ),
    (
        "dropped-requests",
        "connections that break before anything is done",
        include_str!("presets/dropped-requests.json"),
    ),
    (
        "gateway-timeout",
        "504 GatewayTimeout from the front door",
        include_str!("presets/gateway-timeout.json"),
    ),
    (
        "half-deleted",
        "the first deletion of each group leaves some of it behind",
        include_str!("presets/half-deleted.json"),
    ),
    ("html-503", "a page in place of the status of an operation", include_str!("presets/html-503.json")),
    (
        "identity-late",
        "400 FailedIdentityOperation: an identity that is not known yet",
        include_str!("presets/identity-late.json"),
    ),
    (
        "imds-busy",
        "the metadata service throttles every third call of machines",
        include_str!("presets/imds-busy.json"),
    ),
    (
        "key-rotation",
        "Entra ID signs with a new key and forgets the old one",
        include_str!("presets/key-rotation.json"),
    ),
    (
        "late-failures",
        "the first creation of each network resource fails at its end",
        include_str!("presets/late-failures.json"),
    ),
    (
        "msi-429",
        "managed identity throttles, with its number for a code",
        include_str!("presets/msi-429.json"),
    ),
    (
        "partial-writes",
        "writes that are done but answered with 500",
        include_str!("presets/partial-writes.json"),
    ),
    (
        "quota",
        "quota exhausted: 409 OperationNotAllowed for machines and addresses",
        include_str!("presets/quota.json"),
    ),
    ("retryable", "429 RetryableError: a dependency is not ready", include_str!("presets/retryable.json")),
    ("service-unavailable", "503 ServiceUnavailable", include_str!("presets/service-unavailable.json")),
    ("slow", "every answer takes two seconds more", include_str!("presets/slow.json")),
    (
        "stale-reads",
        "every third read sees the state before the last write",
        include_str!("presets/stale-reads.json"),
    ),
    ("throttled", "every fourth call is throttled", include_str!("presets/throttled.json")),
    ("token-expiry", "tokens expire long before they say", include_str!("presets/token-expiry.json")),
    ("zone-outage", "machines cannot be allocated in zone 1", include_str!("presets/zone-outage.json")),
];

/// The rules of a preset; `None` if there is none of that name.
pub fn preset(name: &str) -> Option<Vec<Rule>> {
    let (_, _, text) = PRESETS.iter().find(|(n, ..)| *n == name)?;
    // Checked by a test.
    Some(read(text.as_bytes()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::Trouble;

    #[test]
    fn all_are_good_and_in_order() {
        let names: Vec<&str> = PRESETS.iter().map(|(n, ..)| *n).collect();
        assert!(names.is_sorted());
        let together = Trouble::default();
        for (name, _, text) in PRESETS {
            let rules = read(text.as_bytes()).unwrap();
            assert!(!rules.is_empty(), "{name}");
            together
                .add(rules)
                .unwrap_or_else(|e| panic!("{name}: {e}: {:?}", std::error::Error::source(&e)));
        }
        assert!(preset("sunshine").is_none());
    }
}
