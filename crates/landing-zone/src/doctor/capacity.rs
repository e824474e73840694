//! Is there room: addresses, processors, and the size of machines in its zones.

use super::{Examination, For, Nodes, Report};
use arm::types::ComputeSku;
use azure::ops::PublicIpAddresses;
use azure::{ArmType, Call, Client};
use futures::TryStreamExt;
use serde_json::Value;

/// Of the load balancer of the nodes' way out, and of the ingress that the cluster makes.
const ADDRESSES: u64 = 2;

pub(super) async fn examine(client: &Client, x: &Examination, r: &mut Report) {
    if x.purpose != For::Iam {
        let version = PublicIpAddresses::ROW.api_version;
        let needs = [("PublicIPAddresses".to_owned(), ADDRESSES)];
        quota(client, x, ("Microsoft.Network", version), &needs, r).await;
    }
    if matches!(x.purpose, For::Cluster | For::Managed) {
        machines(client, x, r).await;
    }
}

/// Quotas where the provider answers; not every cloud serves them to everybody.
async fn quota(
    client: &Client,
    x: &Examination,
    (ns, version): (&str, &str),
    needs: &[(String, u64)],
    r: &mut Report,
) {
    let scope = format!("{}/providers/{ns}/locations/{}", x.subscription, x.location);
    let body = match client.send(Call::get(format!("{scope}/usages?api-version={version}"))).await {
        Ok(answer) => answer.json().unwrap_or_default(),
        // A region that does not exist is found elsewhere.
        Err(e) if e.is_not_found() => return,
        Err(e) => return r.unknown("quota", &e),
    };
    let usages = body["value"].as_array().cloned().unwrap_or_default();
    for (name, need) in needs {
        let of = |u: &&Value| u["name"]["value"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name));
        let Some(u) = usages.iter().find(of) else { continue };
        let used = u["currentValue"].as_u64().unwrap_or(0);
        let limit = u["limit"].as_u64().unwrap_or(u64::MAX);
        let wanted = used.saturating_add(*need);
        if wanted > limit {
            let fix = format!(
                "az quota update --resource-name {name} --scope {scope} --limit-object value={wanted}, or another --location"
            );
            r.blocker("quota", format!("{name}: {used} of {limit} are used, {need} more are needed"), fix);
        } else {
            r.good("quota", format!("{name}: {used} of {limit} are used, {need} more are needed"));
        }
    }
}

fn has(list: Option<&Vec<String>>, value: &str) -> bool {
    list.into_iter().flatten().any(|v| v.eq_ignore_ascii_case(value))
}

/// Zones of a region in which the subscription may use a size.
fn open_zones(sku: &ComputeSku, location: &str) -> Vec<String> {
    let here = |l: &&arm::types::SkuLocation| {
        l.location.as_deref().is_some_and(|l| l.eq_ignore_ascii_case(location))
    };
    let all = sku.location_info.iter().flatten().find(here).and_then(|l| l.zones.clone()).unwrap_or_default();
    let closed = restricted(sku, "Zone");
    if closed { Vec::new() } else { all }
}

fn restricted(sku: &ComputeSku, kind: &str) -> bool {
    sku.restrictions.iter().flatten().any(|r| r.kind.as_deref().is_some_and(|k| k.eq_ignore_ascii_case(kind)))
}

async fn machines(client: &Client, x: &Examination, r: &mut Report) {
    let Nodes { size, count, zones } = &x.nodes;
    let subscription = x.subscription.subscription().unwrap_or_default();
    let all: Result<Vec<ComputeSku>, _> = client.compute_skus(subscription, &x.location).try_collect().await;
    let all = match all {
        Ok(all) => all,
        Err(e) => return r.unknown("size", &e),
    };
    let list =
        format!("az vm list-skus -l {} -r virtualMachines --zone -o table, then --instance-type", x.location);
    let named = |s: &&ComputeSku| {
        s.resource_type.as_deref() == Some("virtualMachines")
            && s.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(size))
            && has(s.locations.as_ref(), &x.location)
    };
    let Some(sku) = all.iter().find(named) else {
        return r.blocker("size", format!("{size} is not offered in {}", x.location), list);
    };
    if restricted(sku, "Location") {
        return r.blocker("size", format!("{size} in {} is closed to the subscription", x.location), list);
    }
    let open = open_zones(sku, &x.location);
    let closed: Vec<&str> = zones.iter().filter(|z| !open.contains(z)).map(String::as_str).collect();
    if closed.is_empty() {
        let shown =
            if open.is_empty() { "without zones".to_owned() } else { format!("zones {}", open.join(", ")) };
        r.good("size", format!("{size} in {}: {shown}", x.location));
    } else {
        let found = format!(
            "{size} is not to be had in zone {} of {} (it is in: {})",
            closed.join(", "),
            x.location,
            if open.is_empty() { "none".to_owned() } else { open.join(", ") }
        );
        r.blocker("size", found, list);
    }
    let cpus: u64 = sku.capability("vCPUs").and_then(|n| n.parse().ok()).unwrap_or(0);
    let need = cpus.saturating_mul(*count);
    let mut needs = vec![("cores".to_owned(), need)];
    needs.extend(sku.family.clone().map(|f| (f, need)));
    quota(client, x, ("Microsoft.Compute", "2024-03-01"), &needs, r).await;
}
