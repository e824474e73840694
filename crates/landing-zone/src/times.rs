//! How long things take in Azure, as measured (seconds); for plans and progress, never for decisions.

use arm::ResourceId;
use azure::plan::{Action, Plan, Step};
use std::time::Duration;

/// Type, to create or change, to delete.
const SECONDS: [(&str, f64, f64); 14] = [
    ("Microsoft.Resources/resourceGroups", 1.0, 68.0),
    ("Microsoft.Network/virtualNetworks", 4.0, 11.0),
    ("Microsoft.Network/virtualNetworks/subnets", 4.0, 11.0),
    ("Microsoft.Network/networkSecurityGroups", 4.0, 2.0),
    ("Microsoft.Network/publicIPAddresses", 4.0, 11.0),
    ("Microsoft.Network/loadBalancers", 4.0, 11.0),
    ("Microsoft.Network/privateDnsZones", 36.0, 32.0),
    ("Microsoft.Network/privateDnsZones/virtualNetworkLinks", 36.0, 32.0),
    ("Microsoft.ManagedIdentity/userAssignedIdentities", 1.2, 2.0),
    ("Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials", 1.5, 0.5),
    ("Microsoft.Authorization/roleAssignments", 1.7, 1.1),
    ("Microsoft.Storage/storageAccounts", 27.0, 5.0),
    ("Microsoft.Storage/storageAccounts/blobServices/containers", 1.2, 1.2),
    ("Microsoft.KeyVault/vaults", 10.0, 1.0),
];

fn row(id: &ResourceId) -> (f64, f64) {
    let kind = id.resource_type();
    SECONDS.iter().find(|r| kind.is(r.0)).map_or((10.0, 10.0), |r| (r.1, r.2))
}

pub fn of(step: &Step) -> Duration {
    let (write, delete) = row(&step.id);
    Duration::from_secs_f64(match step.action {
        Action::Keep => 0.0,
        Action::Delete => delete,
        _ => write,
    })
}

/// The longest chain of steps that wait for each other: no run can be faster.
pub fn critical_path(plan: &Plan, of: impl Fn(&Step) -> Duration) -> Duration {
    let mut ends: Vec<Duration> = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let begin = step.after.iter().filter_map(|j| ends.get(*j)).max().copied().unwrap_or_default();
        ends.push(begin + of(step));
    }
    ends.into_iter().max().unwrap_or_default()
}

pub fn expected(plan: &Plan) -> Duration {
    critical_path(plan, of)
}

/// The same, one after the other.
pub fn one_by_one(plan: &Plan) -> Duration {
    plan.steps.iter().map(of).sum()
}

/// `1m 15s`.
pub fn words(d: Duration) -> String {
    let s = d.as_secs_f64().round() as u64;
    if s < 60 { format!("{s}s") } else { format!("{}m {:02}s", s / 60, s % 60) }
}
