//! What waits for what.

use super::{Action, Observed, Plan, PlanError, Step};
use arm::ResourceId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a step needs, as ids; they may lie inside of what is planned.
pub struct Needs {
    pub ids: Vec<ResourceId>,
}

/// Fields by which a service shows who refers to a resource: not something that it needs. `*` is any type.
/// They are bare references; embedded resources in a field of the same name have properties.
const BACK: [(&str, &str); 11] = [
    ("*", "subnets"),
    ("*", "networkInterfaces"),
    ("*", "ipConfigurations"),
    ("*", "ipConfiguration"),
    ("*", "backendIPConfigurations"),
    ("*", "privateEndpoints"),
    ("*", "loadBalancingRules"),
    ("*", "inboundNatRules"),
    ("*", "outboundRules"),
    ("*", "virtualMachine"),
    ("Microsoft.Network/publicIPAddresses", "natGateway"),
];

/// All resource ids that a body needs.
pub fn references(id: &ResourceId, body: &Value) -> Vec<ResourceId> {
    let kind = id.resource_type();
    let back: Vec<&str> = BACK.iter().filter(|(k, _)| *k == "*" || kind.is(k)).map(|(_, f)| *f).collect();
    let mut out = Vec::new();
    collect(body, &back, &mut out);
    out
}

fn bare(v: &Value) -> bool {
    match v {
        Value::Object(m) => m.contains_key("id") && !m.contains_key("properties"),
        Value::Array(l) => l.iter().all(bare),
        _ => false,
    }
}

fn collect(v: &Value, back: &[&str], out: &mut Vec<ResourceId>) {
    match v {
        Value::String(s) if s.starts_with('/') => out.extend(ResourceId::parse(s)),
        Value::Array(l) => l.iter().for_each(|v| collect(v, back, out)),
        Value::Object(m) => {
            // A resource's own id is no reference; that of a bare one is.
            let own = m.contains_key("properties");
            for (k, v) in m {
                if (own && k == "id") || (back.contains(&k.as_str()) && bare(v)) {
                    continue;
                }
                // Maps such as `userAssignedIdentities` have ids for keys.
                if k.starts_with('/') {
                    out.extend(ResourceId::parse(k));
                }
                collect(v, back, out);
            }
        }
        _ => {}
    }
}

/// Something wanted must not need something unwanted, nor live in it.
pub fn contradictions(steps: &[Step], needs: &[Needs], absent: &[&ResourceId]) -> Result<(), PlanError> {
    for (step, needs) in steps.iter().zip(needs).filter(|(s, _)| s.action != Action::Delete) {
        let all = std::iter::once(&step.id).chain(&needs.ids);
        for id in all {
            if let Some(unwanted) = absent.iter().find(|a| a.contains(id)) {
                let (wanted, unwanted) = (step.id.clone(), (*unwanted).clone());
                return Err(PlanError::Contradiction { wanted, unwanted });
            }
        }
    }
    Ok(())
}

struct Graph<'a> {
    steps: &'a [Step],
    edges: BTreeSet<(usize, usize)>,
}

impl Graph<'_> {
    fn deletes(&self, i: usize) -> bool {
        self.steps[i].action == Action::Delete
    }

    /// `later` waits for `first`.
    fn add(&mut self, first: usize, later: usize) {
        if first != later {
            self.edges.insert((first, later));
        }
    }

    /// The step that makes `id`: its own, or that of the nearest thing around it.
    fn maker(&self, id: &ResourceId) -> Option<usize> {
        let around = |i: &usize| !self.deletes(*i) && self.steps[*i].id.contains(id);
        (0..self.steps.len()).filter(around).max_by_key(|i| self.steps[*i].id.as_str().len())
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let mut open = vec![from];
        let mut seen = BTreeSet::new();
        while let Some(i) = open.pop() {
            if i == to {
                return true;
            }
            if seen.insert(i) {
                open.extend(self.edges.range((i, 0)..(i + 1, 0)).map(|(_, l)| *l));
            }
        }
        false
    }
}

/// Finds all waits, and puts the steps into an order that keeps them.
pub fn sort(
    steps: Vec<Step>,
    needs: &[Needs],
    deletes: &[(ResourceId, ResourceId)],
    observed: &Observed,
) -> Result<Plan, PlanError> {
    let mut g = Graph { steps: &steps, edges: BTreeSet::new() };
    let deleted = |id: &ResourceId| steps.iter().position(|s| s.id == *id && s.action == Action::Delete);
    for (first, later) in deletes {
        if let (Some(first), Some(later)) = (deleted(first), deleted(later)) {
            g.add(first, later);
        }
    }
    for (i, step) in steps.iter().enumerate() {
        if g.deletes(i) {
            // What is inside, and what refers to it today, goes first (or changes first).
            for (j, other) in steps.iter().enumerate() {
                let inside = g.deletes(j) && j != i && step.id.contains(&other.id);
                let refers = !step.id.contains(&other.id)
                    && !other.id.contains(&step.id)
                    && observed
                        .get(&other.id)
                        .is_some_and(|b| references(&other.id, b).iter().any(|r| step.id.contains(r)));
                if inside || refers {
                    g.add(j, i);
                }
            }
            continue;
        }
        let parent = step.id.parent();
        for id in parent.iter().chain(&needs[i].ids) {
            if let Some(j) = g.maker(id).filter(|j| !step.id.contains(&steps[*j].id)) {
                g.add(j, i);
            }
        }
    }
    siblings(&mut g);
    let edges = g.edges;
    topological(steps, &edges)
}

/// One writer per tree: children of one resource go one after the other, where nothing else orders them.
fn siblings(g: &mut Graph<'_>) {
    let mut families: BTreeMap<(bool, ResourceId), Vec<usize>> = BTreeMap::new();
    for (i, s) in g.steps.iter().enumerate() {
        let root = s.id.root();
        if s.action != Action::Keep && s.id.namespace().is_some() && root != s.id {
            families.entry((g.deletes(i), root)).or_default().push(i);
        }
    }
    for family in families.into_values() {
        for pair in family.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if !g.reaches(a, b) {
                let (first, later) = if g.reaches(b, a) { (b, a) } else { (a, b) };
                g.add(first, later);
            }
        }
    }
}

fn topological(steps: Vec<Step>, edges: &BTreeSet<(usize, usize)>) -> Result<Plan, PlanError> {
    let n = steps.len();
    let mut waits = vec![0_usize; n];
    for (_, later) in edges {
        waits[*later] += 1;
    }
    let mut ready: BTreeSet<usize> = (0..n).filter(|i| waits[*i] == 0).collect();
    let mut order = Vec::with_capacity(n);
    while let Some(i) = ready.pop_first() {
        order.push(i);
        for (_, later) in edges.range((i, 0)..(i + 1, 0)) {
            waits[*later] -= 1;
            if waits[*later] == 0 {
                ready.insert(*later);
            }
        }
    }
    if order.len() < n {
        let stuck = (0..n).filter(|i| waits[*i] > 0).map(|i| steps[i].id.clone()).collect();
        return Err(PlanError::Cycle(stuck));
    }
    let mut place = vec![0; n];
    for (new, old) in order.iter().enumerate() {
        place[*old] = new;
    }
    let mut sorted: Vec<Step> = order.iter().map(|i| steps[*i].clone()).collect();
    for (first, later) in edges {
        sorted[place[*later]].after.push(place[*first]);
    }
    for s in &mut sorted {
        s.after.sort_unstable();
    }
    Ok(Plan { steps: sorted })
}
