//! How many processors and machines a subscription may have in a region.

use crate::kinds::{Power, Prep, Size, kind, power};
use crate::state::{Record, State};
use crate::wire::Fault;
use http::StatusCode;
use serde_json::Value;

/// What a new subscription gets, in every region.
const CORES: u64 = 10_000;
const FAMILY: u64 = 5_000;
const MACHINES: u64 = 25_000;

fn limit(state: &State, subscription: &str, place: &str, name: &str, usual: u64) -> u64 {
    let key = format!("{subscription}/{place}/{name}").to_lowercase();
    state.machines.quotas.get(&key).copied().unwrap_or(usual)
}

fn size_of(record: &Record) -> Option<&'static Size> {
    let named = record.property("hardwareProfile")?.get("vmSize").and_then(Value::as_str)?;
    crate::kinds::size(named)
}

/// Machines in a region that count: what is deallocated does not.
fn counted<'a>(
    state: &'a State,
    subscription: &str,
    place: &'a str,
) -> impl Iterator<Item = (&'a Record, &'static Size)> {
    let scope = format!("/subscriptions/{subscription}/").to_lowercase();
    kind("Microsoft.Compute/virtualMachines")
        .into_iter()
        .flat_map(move |k| state.of_kind(k, &scope, None))
        .filter(move |r| r.location() == Some(place) && power(r) != Power::Deallocated)
        .filter_map(|r| Some((&**r, size_of(r)?)))
}

/// Refuses a machine that is one too many.
pub fn within_quota(prep: &Prep<'_>, size: &Size, place: &str) -> Result<(), Fault> {
    if prep.old.and_then(size_of).is_some_and(|was| was.name == size.name) {
        return Ok(());
    }
    let subscription = prep.id.subscription().unwrap_or_default();
    allow(prep.state, subscription, place, size, prep.id.key())
}

/// Whether one more of a size fits; `own` is not counted twice.
pub fn allow(state: &State, subscription: &str, place: &str, size: &Size, own: &str) -> Result<(), Fault> {
    let (mut cores, mut family) = (0, 0);
    for (r, s) in counted(state, subscription, place).filter(|(r, _)| r.id.key().as_ref() != own) {
        let _ = r;
        cores += u64::from(s.cpus);
        family += if s.family == size.family { u64::from(s.cpus) } else { 0 };
    }
    let more = u64::from(size.cpus);
    for (name, used, usual) in [("cores", cores, CORES), (size.family, family, FAMILY)] {
        let most = limit(state, subscription, place, name, usual);
        if used + more > most {
            let what =
                if name == "cores" { "Total Regional Cores".to_owned() } else { format!("{name} Cores") };
            return Err(Fault::plain(
                StatusCode::CONFLICT,
                "OperationNotAllowed",
                format!(
                    "Operation could not be completed as it results in exceeding approved {what} quota. Additional details - Deployment Model: Resource Manager, Location: {place}, Current Limit: {most}, Current Usage: {used}, Additional Required: {more}, (Minimum) New Limit Required: {}.",
                    used + more
                ),
            ));
        }
    }
    Ok(())
}

/// Name, what people call it, how much is used, and how much there may be.
pub fn usage(state: &State, subscription: &str, place: &str) -> Vec<(String, String, u64, u64)> {
    let mut families: std::collections::BTreeMap<&str, u64> =
        crate::kinds::sizes().iter().map(|s| (s.family, 0)).collect();
    let (mut cores, mut machines) = (0, 0);
    for (_, s) in counted(state, subscription, place) {
        cores += u64::from(s.cpus);
        machines += 1;
        *families.entry(s.family).or_default() += u64::from(s.cpus);
    }
    let of = |name: &str, label: String, used: u64, usual: u64| {
        (name.to_owned(), label, used, limit(state, subscription, place, name, usual))
    };
    let mut all = vec![
        of("availabilitySets", "Availability Sets".into(), 0, 2_500),
        of("cores", "Total Regional vCPUs".into(), cores, CORES),
        of("virtualMachines", "Virtual Machines".into(), machines, MACHINES),
        of("lowPriorityCores", "Total Regional Low-priority vCPUs".into(), 0, CORES),
    ];
    all.extend(
        families
            .into_iter()
            .map(|(f, n)| of(f, format!("{} vCPUs", f.replace("Family", " Family")), n, FAMILY)),
    );
    all
}
