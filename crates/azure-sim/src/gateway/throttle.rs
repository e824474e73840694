//! Token buckets: per principal and class of operation, per subscription, and those of single providers; and the
//! headers that tell how much is left.

use crate::entra::Caller;
use crate::profile::Pace;
use crate::wire::{Fault, Reply};
use http::{Method, StatusCode};
use jiff::Timestamp;
use std::collections::HashMap;

/// Bucket sizes and refills per second for reads, writes and deletes of one principal.
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

    fn of(&self, class: &str) -> (f64, f64) {
        match class {
            "reads" => self.reads,
            "deletes" => self.deletes,
            _ => self.writes,
        }
    }
}

/// All principals of a subscription together have so many times what one has.
const TOGETHER: f64 = 15.0;
/// Beyond so many buckets, those that are full again are forgotten.
const MAX_BUCKETS: usize = 50_000;

#[derive(Clone, Debug, Default)]
pub struct Buckets {
    limits: Option<Limits>,
    left: HashMap<String, (f64, Timestamp)>,
}

/// What a request takes from.
struct Bucket {
    key: String,
    size: f64,
    refill: f64,
    /// The code that refuses.
    code: &'static str,
    /// The least wait that is said, in seconds.
    wait: f64,
}

/// What is left after a request: names of headers and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    headers: Vec<(&'static str, String)>,
}

fn class(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "reads",
        "DELETE" => "deletes",
        _ => "writes",
    }
}

const MINUTES_5: f64 = 300.0;
const MINUTES_3: f64 = 180.0;

/// The buckets that a provider has of its own.
fn provider(kind: &str, class: &str, subscription: &str, path: &str) -> Vec<Bucket> {
    let kind = kind.to_lowercase();
    let bucket = |name: &str, size: f64, refill: f64| Bucket {
        key: format!("{subscription} {kind} {name}"),
        size,
        refill,
        code: arm::code::THROTTLED,
        wait: 1.0,
    };
    if kind.starts_with("microsoft.managedidentity/") {
        // Its refusals have the number for a code, and always the same wait.
        let (sub, own) = match class {
            "reads" => (10.0, 0.5),
            _ => (2.0, 0.25),
        };
        let of = |key: String, rate: f64| Bucket {
            key,
            size: (rate * 10.0_f64).max(2.0),
            refill: rate,
            code: "429",
            wait: 2.0,
        };
        return vec![
            of(format!("{subscription} msi {class}"), sub),
            of(format!("{} {class}", path.to_lowercase()), own),
        ];
    }
    if kind.starts_with("microsoft.network/privatednszones") {
        let size = if class == "reads" { 500.0 } else { 12_000.0 };
        return vec![bucket(class, size, size / MINUTES_5)];
    }
    if kind.starts_with("microsoft.network/") && !kind.starts_with("microsoft.network/dnszones") {
        let size = if class == "reads" { 10_000.0 } else { 1_000.0 };
        return vec![Bucket {
            key: format!("{subscription} network {class}"),
            ..bucket("", size, size / MINUTES_5)
        }];
    }
    if kind == "microsoft.compute/virtualmachines" {
        let (name, sub, own) = match class {
            "reads" => ("LowCostGet", 24_000.0, 36.0),
            "deletes" => ("DeleteVM", 1_500.0, 12.0),
            _ => ("PutVM", 1_500.0, 12.0),
        };
        let each =
            Bucket { key: format!("{} {name}", path.to_lowercase()), ..bucket("", own, own / MINUTES_3) };
        return vec![bucket(name, sub, sub / MINUTES_3), each];
    }
    Vec::new()
}

impl Buckets {
    /// Without limits nothing is refused.
    pub fn new(limits: Option<Limits>) -> Buckets {
        Buckets { limits, left: HashMap::new() }
    }

    /// Takes one of each; what is left, or who has none.
    pub fn take(
        &mut self,
        caller: &Caller,
        method: &Method,
        (subscription, kind, path): (&str, &str, &str),
        now: Timestamp,
        pace: Pace,
    ) -> Result<Left, Fault> {
        let class = class(method);
        let Some(limits) = self.limits else {
            return Ok(said(class, if class == "reads" { 16_499 } else { 11_999 }, None, kind, &[]));
        };
        if self.left.len() > MAX_BUCKETS {
            let day = |at: Timestamp| now.duration_since(at).as_hours() < 1;
            self.left.retain(|_, (_, at)| day(*at));
        }
        let (size, refill) = limits.of(class);
        let own = Bucket {
            key: format!("{subscription} {} {class}", caller.object_id),
            size,
            refill,
            code: arm::code::THROTTLED,
            wait: 1.0,
        };
        let all = Bucket {
            key: format!("{subscription} {class}"),
            size: size * TOGETHER,
            refill: refill * TOGETHER,
            ..Bucket { key: String::new(), ..own }
        };
        let mut buckets = vec![own, all];
        buckets.extend(provider(kind, class, subscription, path));
        // First all are looked at, then all are taken from: a refusal costs nothing.
        // Where operations take no time, buckets still do.
        let quick = pace.lasts(1.0).map_or(1.0, |d| d.as_secs_f64());
        let quick = if quick > 0.0 { quick } else { 1.0 };
        for b in &buckets {
            let (left, at) = self.left.entry(b.key.clone()).or_insert((b.size, now));
            // Where a second of Azure's passes in less, buckets fill in less.
            let passed = now.duration_since(*at).as_secs_f64().max(0.0) / quick;
            *left = (*left + passed * b.refill).min(b.size);
            *at = now.max(*at);
        }
        for b in &buckets {
            let left = self.left.get(&b.key).map_or(b.size, |(left, _)| *left);
            if left < 1.0 {
                let wait = ((1.0 - left) / b.refill.max(0.001)).ceil().clamp(b.wait, 3_600.0);
                let fault = Fault::gateway(
                    StatusCode::TOO_MANY_REQUESTS,
                    b.code,
                    format!(
                        "Number of '{class}' requests for subscription '{subscription}' exceeded the limit. Please try again after '{wait}' seconds."
                    ),
                );
                let (name, value) = pace.again_in(wait * quick);
                return Err(fault.header(name, value));
            }
        }
        let mut remaining = Vec::new();
        for b in &buckets {
            if let Some((left, _)) = self.left.get_mut(&b.key) {
                *left -= 1.0;
                // Not negative, and far below 2^53.
                remaining.push(left.floor() as u64);
            }
        }
        let more = remaining.get(2..).unwrap_or_default();
        Ok(said(class, remaining[0], remaining.get(1).copied(), kind, more))
    }
}

fn said(class: &str, own: u64, all: Option<u64>, kind: &str, provider: &[u64]) -> Left {
    let mut headers = Vec::new();
    let kind = kind.to_lowercase();
    if let ([left, ..], true) = (provider, kind.starts_with("microsoft.network/privatednszones")) {
        // A provider with limits of its own says those in place of the common ones.
        return Left {
            headers: vec![("x-ms-ratelimit-remaining-subscription-resource-requests", left.to_string())],
        };
    }
    if let ([sub, each], "microsoft.compute/virtualmachines") = (provider, kind.as_str()) {
        let name = match class {
            "reads" => "LowCostGet",
            "deletes" => "DeleteVM",
            _ => "PutVM",
        };
        headers.push((
            "x-ms-ratelimit-remaining-resource",
            format!(
                "Microsoft.Compute/{name}SubscriptionMaximum;{sub},Microsoft.Compute/{name}Resource;{each}"
            ),
        ));
    }
    let names = match class {
        "reads" => [
            "x-ms-ratelimit-remaining-subscription-reads",
            "x-ms-ratelimit-remaining-subscription-global-reads",
        ],
        "deletes" => [
            "x-ms-ratelimit-remaining-subscription-deletes",
            "x-ms-ratelimit-remaining-subscription-global-deletes",
        ],
        _ => [
            "x-ms-ratelimit-remaining-subscription-writes",
            "x-ms-ratelimit-remaining-subscription-global-writes",
        ],
    };
    headers.push((names[0], own.to_string()));
    headers.push((names[1], all.unwrap_or(own).to_string()));
    Left { headers }
}

/// Says what is left of which budget.
pub fn headers(reply: Reply, left: Option<Left>) -> Reply {
    let (Some(left), true) = (left, reply.headers.get("x-ms-failure-cause").is_none()) else {
        return reply;
    };
    left.headers.into_iter().fold(reply, |reply, (name, value)| reply.with(name, &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn caller(name: &str) -> Caller {
        Caller { object_id: name.into(), client_id: name.into(), tenant: "t".into() }
    }

    fn take(b: &mut Buckets, who: &str, kind: &str, at: i64) -> Result<Left, Fault> {
        let pace = Pace { profile: Profile::Real, scale: 1.0 };
        let now = Timestamp::from_second(at).unwrap();
        b.take(&caller(who), &Method::PUT, ("s", kind, "/p"), now, pace)
    }

    #[test]
    fn principals_subscriptions_and_providers_have_their_own() {
        let limits = Limits { writes: (3.0, 1.0), ..Limits::DOCUMENTED };
        let mut b = Buckets::new(Some(limits));
        for left in [2, 1, 0] {
            let said = take(&mut b, "a", "x/y", 100).unwrap().headers;
            assert_eq!(said[0].1, left.to_string());
        }
        let refused = take(&mut b, "a", "x/y", 100).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.headers[0].clone()), (429, ("retry-after", "1".into())));
        assert!(take(&mut b, "b", "x/y", 100).is_ok(), "another principal has its own");
        assert!(take(&mut b, "a", "x/y", 101).is_ok(), "a second later there is one more");
        // 45 in all for the subscription, whoever asks; three each.
        let mut b = Buckets::new(Some(limits));
        let good = (0..60).filter(|i| take(&mut b, &format!("p{i}"), "x/y", 100).is_ok()).count();
        assert_eq!(good, 45);
    }

    #[test]
    fn managed_identity_says_its_number() {
        let mut b = Buckets::new(Some(Limits::DOCUMENTED));
        let kind = "Microsoft.ManagedIdentity/userAssignedIdentities";
        let results: Vec<_> = (0..4).map(|_| take(&mut b, "a", kind, 100)).collect();
        let refused = results.into_iter().find_map(Result::err).unwrap();
        assert_eq!((refused.detail.code.as_str(), refused.headers[0].1.as_str()), ("429", "2"));
        let left = take(&mut b, "a", "Microsoft.Compute/virtualMachines", 100).unwrap();
        let want = "Microsoft.Compute/PutVMSubscriptionMaximum;1499,Microsoft.Compute/PutVMResource;11";
        assert_eq!(left.headers[0], ("x-ms-ratelimit-remaining-resource", want.to_owned()));
        let left = take(&mut b, "a", "Microsoft.Network/privateDnsZones", 100).unwrap();
        assert_eq!(left.headers.len(), 1);
    }
}
