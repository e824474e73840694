//! How long an answer is under way: measured medians and 95th percentiles of plain reads and writes.

use crate::profile::log_normal;
use http::Method;

/// Seconds: the median and the 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency(f64, f64);

/// Type, read, write. The first whose name is how the type begins.
const ROWS: [(&str, Latency, Latency); 9] = [
    ("microsoft.network/privateendpoints", Latency(0.09, 0.62), Latency(8.0, 19.0)),
    ("microsoft.network/", Latency(0.089, 0.614), Latency(0.9, 3.0)),
    ("microsoft.resources/", Latency(0.24, 0.872), Latency(0.8, 1.4)),
    ("microsoft.compute/", Latency(0.389, 0.869), Latency(1.2, 3.0)),
    ("microsoft.managedidentity/", Latency(0.34, 1.003), Latency(1.2, 4.7)),
    ("microsoft.keyvault/", Latency(0.386, 1.675), Latency(3.3, 9.2)),
    ("microsoft.authorization/", Latency(0.3, 0.9), Latency(1.7, 4.2)),
    ("microsoft.storage/", Latency(0.3, 0.9), Latency(1.2, 3.0)),
    ("", Latency(0.2, 0.8), Latency(0.8, 2.0)),
];

/// Entra ID, Graph and everything else that is not Resource Manager.
const ENTRA: Latency = Latency(0.12, 0.3);
const DATA: Latency = Latency(0.02, 0.08);

impl Latency {
    pub fn of(service: &str, method: &Method, kind: &str) -> Latency {
        match service {
            "arm" => {}
            "login" | "graph" | "access" => return ENTRA,
            _ => return DATA,
        }
        let kind = kind.to_lowercase();
        let row = ROWS.iter().find(|(begins, ..)| kind.starts_with(begins));
        let (_, read, write) = row.unwrap_or(&ROWS[ROWS.len() - 1]);
        if matches!(*method, Method::GET | Method::HEAD) { *read } else { *write }
    }

    pub fn sample(self, bits: u128) -> f64 {
        // The 95th percentile lies 1.645 deviations out, the 90th 1.2816.
        let p90 = self.0 * (self.1 / self.0).powf(1.281_6 / 1.645);
        log_normal(self.0, p90, bits).min(self.1 * 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_row() {
        let of = |m: Method, kind: &str| Latency::of("arm", &m, kind);
        assert_eq!(of(Method::GET, "Microsoft.Network/virtualNetworks"), Latency(0.089, 0.614));
        assert_eq!(of(Method::PUT, "Microsoft.Authorization/roleAssignments"), Latency(1.7, 4.2));
        assert_eq!(of(Method::GET, "Other/thing"), Latency(0.2, 0.8));
        assert_eq!(Latency::of("login", &Method::POST, ""), ENTRA);
        assert!(Latency(1.0, 4.0).sample(7) <= 8.0);
    }
}
