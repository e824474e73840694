//! Numbers of the server.

use reconcile::metrics::{Family, Sort};

pub static REQUESTS: Family = Family {
    name: "ign_server_get_request",
    help: "Requests for payloads by pool (as the machine says) and answer.",
    labels: &["nodePool", "code"],
    sort: Sort::Counter,
};
pub static GENERATION: Family = Family {
    name: "ign_server_payload_generation_seconds",
    help: "How long payloads take to make.",
    labels: &[],
    sort: Sort::Histogram,
};
pub static FAILURES: Family = Family {
    name: "ign_server_payload_generation_failure_total",
    help: "Payloads that could not be made, by reason.",
    labels: &["reason"],
    sort: Sort::Counter,
};
pub static MISSES: Family = Family {
    name: "ign_server_payload_cache_miss_total",
    help: "Payloads that had to be made.",
    labels: &[],
    sort: Sort::Counter,
};
pub static CACHED: Family = Family {
    name: "ign_server_payload_cache_bytes",
    help: "Bytes of payloads in memory.",
    labels: &[],
    sort: Sort::Gauge,
};
pub static ROTATIONS: Family = Family {
    name: "ign_server_token_rotation_total",
    help: "Tokens that were replaced by new ones.",
    labels: &[],
    sort: Sort::Counter,
};
pub static EXPIRED: Family = Family {
    name: "ign_server_token_expired_total",
    help: "Secrets of tokens that were deleted because their time was over.",
    labels: &[],
    sort: Sort::Counter,
};
