//! Token buckets per principal and class of operation, and the headers that tell how much is left.

use crate::entra::Caller;
use crate::wire::{Fault, Reply};
use http::{Method, StatusCode};
use jiff::Timestamp;
use std::collections::HashMap;

/// Bucket sizes and refills per second for reads, writes and deletes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub reads: (f64, f64),
    pub writes: (f64, f64),
    pub deletes: (f64, f64),
}

impl Limits {
    /// What Azure documents.
    pub const DOCUMENTED: Limits =
        Limits { reads: (250.0, 25.0), writes: (200.0, 10.0), deletes: (200.0, 10.0) };
}

#[derive(Clone, Debug, Default)]
pub struct Buckets {
    limits: Option<Limits>,
    left: HashMap<(String, &'static str), (f64, Timestamp)>,
}

fn class(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "reads",
        "DELETE" => "deletes",
        _ => "writes",
    }
}

impl Buckets {
    /// Without limits nothing is refused.
    pub fn new(limits: Option<Limits>) -> Buckets {
        Buckets { limits, left: HashMap::new() }
    }

    /// Takes one; returns what is left.
    pub fn take(&mut self, caller: &Caller, method: &Method, now: Timestamp) -> Result<u64, Fault> {
        let class = class(method);
        let Some(limits) = self.limits else { return Ok(if class == "reads" { 16_499 } else { 11_999 }) };
        let (size, refill) = match class {
            "reads" => limits.reads,
            "deletes" => limits.deletes,
            _ => limits.writes,
        };
        let (left, at) = self.left.entry((caller.object_id.clone(), class)).or_insert((size, now));
        let passed = now.duration_since(*at).as_secs_f64().max(0.0);
        *left = (*left + passed * refill).min(size);
        *at = now;
        if *left < 1.0 {
            let wait = ((1.0 - *left) / refill.max(0.001)).ceil().max(1.0);
            return Err(Fault::gateway(
                StatusCode::TOO_MANY_REQUESTS,
                arm::code::THROTTLED,
                format!("Number of '{class}' requests for subscription exceeded the limit. Please try again after '{wait}' seconds."),
            )
            .header("retry-after", format!("{wait}")));
        }
        *left -= 1.0;
        // Not negative, and far below 2^53.
        Ok(left.floor() as u64)
    }
}

/// Says what is left of which budget.
pub fn headers(reply: Reply, method: &Method, remaining: Option<u64>) -> Reply {
    let (Some(n), true) = (remaining, reply.headers.get("x-ms-failure-cause").is_none()) else {
        return reply;
    };
    let (own, global) = match class(method) {
        "reads" => (
            "x-ms-ratelimit-remaining-subscription-reads",
            "x-ms-ratelimit-remaining-subscription-global-reads",
        ),
        "deletes" => (
            "x-ms-ratelimit-remaining-subscription-deletes",
            "x-ms-ratelimit-remaining-subscription-global-deletes",
        ),
        _ => (
            "x-ms-ratelimit-remaining-subscription-writes",
            "x-ms-ratelimit-remaining-subscription-global-writes",
        ),
    };
    reply.with(own, &n.to_string()).with(global, &n.to_string())
}
