//! Nodes: where they are, and what they keep away.

use super::path::{Errors, Path};
use super::spec;
use crate::json::{list, str_of};
use ek_meta::names;
use serde_json::{Value, json};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn node(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let meta = Path::ROOT.child("metadata");
    // Where upstream says they are.
    let tp = meta.child("taints");
    taints(e, &tp, list(s, "taints"));
    let cp = p.child("podCIDRs");
    for (i, c) in list(s, "podCIDRs").iter().enumerate() {
        let c = c.as_str().unwrap_or_default();
        if !is_cidr(c) {
            e.invalid(&cp.index(i), c, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        }
    }
    let Some(old) = old else { return };
    let o = spec(old);
    if !list(o, "podCIDRs").is_empty() && list(o, "podCIDRs") != list(s, "podCIDRs") {
        e.forbidden(&cp, "node updates may not change podCIDR except from \"\" to valid");
    }
    if !str_of(o, "providerID").is_empty() && str_of(o, "providerID") != str_of(s, "providerID") {
        e.forbidden(
            &p.child("providerID"),
            "node updates may not change providerID except from \"\" to valid",
        );
    }
}

fn taints(e: &mut Errors, p: &Path<'_>, all: &[Value]) {
    for (i, t) in all.iter().enumerate() {
        let p = p.index(i);
        let (key, effect) = (str_of(t, "key"), str_of(t, "effect"));
        e.named(&p.child("key"), key, names::qualified_name);
        e.named(&p.child("value"), str_of(t, "value"), names::label_value);
        match effect {
            "" => e.required(&p.child("effect"), ""),
            other if !EFFECTS.contains(&other) => e.not_supported(&p.child("effect"), other, &EFFECTS),
            _ => {}
        }
        let same = |o: &&Value| str_of(o, "key") == key && str_of(o, "effect") == effect;
        if all.iter().take(i).any(|o| same(&o)) {
            let shown = json!({"Key": key, "Value": str_of(t, "value"), "Effect": effect,
                "TimeAdded": t.get("timeAdded")});
            let mut twice = ek_meta::FieldError::duplicate(&p.text(), shown);
            twice.detail = "taints must be unique by key and effect pair".to_owned();
            e.0.push(twice);
        }
    }
}

fn is_cidr(s: &str) -> bool {
    let Some((ip, bits)) = s.split_once('/') else { return false };
    let max = match ip.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|b| b <= max)
}
