//! Which nodes a pod may be on, as far as the pod and the node alone decide.

use crate::objects::{int, list, members, text};
use ek_meta::object;
use ek_meta::quantity::Quantity;
use serde_json::Value;

/// The node selector and the required node affinity of a pod's spec.
pub fn wants_node(spec: &Value, node: &Value) -> bool {
    let labels = |k: &str| node.pointer("/metadata/labels").and_then(|l| l.get(k)).and_then(Value::as_str);
    if !members(spec, "/nodeSelector").all(|(k, v)| labels(k) == v.as_str()) {
        return false;
    }
    let required = spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    required.and_then(Value::as_array).is_none_or(|terms| any_term(terms, node))
}

/// One of the terms holds. A term without expressions never does.
pub fn any_term(terms: &[Value], node: &Value) -> bool {
    terms.iter().any(|t| term(t, node))
}

pub fn term(term: &Value, node: &Value) -> bool {
    let (by_label, by_field) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
    let label = |k: &str| node.pointer("/metadata/labels").and_then(|l| l.get(k)).and_then(Value::as_str);
    let field = |k: &str| (k == "metadata.name").then(|| object::name(node));
    !(by_label.is_empty() && by_field.is_empty())
        && by_label.iter().all(|e| expression(e, label(text(e, "/key"))))
        && by_field.iter().all(|e| expression(e, field(text(e, "/key"))))
}

fn expression(e: &Value, value: Option<&str>) -> bool {
    let values = list(e, "/values");
    let is_in = |v: &str| values.iter().any(|x| x == v);
    let number = || {
        let bound = values.first().and_then(Value::as_str).and_then(|s| s.parse::<i64>().ok());
        Some((value?.parse::<i64>().ok()?, bound?))
    };
    match text(e, "/operator") {
        "In" => value.is_some_and(is_in),
        "NotIn" => !value.is_some_and(is_in),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().is_some_and(|(v, b)| v > b),
        "Lt" => number().is_some_and(|(v, b)| v < b),
        _ => false,
    }
}

pub fn tolerates(tolerations: &[Value], taint: &Value) -> bool {
    tolerations.iter().any(|t| toleration_fits(t, taint))
}

pub fn toleration_fits(t: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(t, "/key"), text(t, "/effect"));
    (effect.is_empty() || effect == text(taint, "/effect"))
        && (key.is_empty() || key == text(taint, "/key"))
        && match text(t, "/operator") {
            "Exists" => true,
            "" | "Equal" => !key.is_empty() && text(t, "/value") == text(taint, "/value"),
            _ => false,
        }
}

/// The first taint of these effects that nothing tolerates.
pub fn untolerated<'a>(tolerations: &[Value], node: &'a Value, effects: &[&str]) -> Option<&'a Value> {
    let taints = list(node, "/spec/taints").iter();
    taints.filter(|t| effects.contains(&text(t, "/effect"))).find(|t| !tolerates(tolerations, t))
}

/// Amounts of resources: cpu in thousandths, everything else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu: i64,
    pub memory: i64,
    pub others: Vec<(String, i64)>,
}

impl Amounts {
    pub fn read(v: Option<&Value>) -> Amounts {
        let mut out = Amounts::default();
        for (name, amount) in v.and_then(Value::as_object).into_iter().flatten() {
            let Some(q) = amount.as_str().and_then(|s| s.parse::<Quantity>().ok()) else { continue };
            match name.as_str() {
                "cpu" => out.cpu = (q.as_f64() * 1000.0).ceil() as i64,
                "memory" => out.memory = q.ceil(),
                _ => out.others.push((name.clone(), q.ceil())),
            }
        }
        out
    }

    pub fn other(&self, name: &str) -> i64 {
        self.others.iter().find(|(n, _)| n == name).map_or(0, |(_, a)| *a)
    }

    fn combine(&mut self, o: &Amounts, f: fn(i64, i64) -> i64) {
        self.cpu = f(self.cpu, o.cpu);
        self.memory = f(self.memory, o.memory);
        for (name, amount) in &o.others {
            match self.others.iter_mut().find(|(n, _)| n == name) {
                Some((_, a)) => *a = f(*a, *amount),
                None => self.others.push((name.clone(), f(0, *amount))),
            }
        }
    }

    pub fn add(&mut self, o: &Amounts) {
        self.combine(o, i64::saturating_add);
    }

    pub fn take(&mut self, o: &Amounts) {
        self.combine(o, i64::saturating_sub);
    }
}

/// What a pod needs reserved: its containers together, or the greediest step of its start.
pub fn requests(spec: &Value) -> Amounts {
    let of = |c: &Value| Amounts::read(c.pointer("/resources/requests"));
    let mut sum = Amounts::default();
    for c in list(spec, "/containers") {
        sum.add(&of(c));
    }
    let (mut sidecars, mut start) = (Amounts::default(), Amounts::default());
    for c in list(spec, "/initContainers") {
        let mut here = of(c);
        if text(c, "/restartPolicy") == "Always" {
            sidecars.add(&here);
            here = sidecars.clone();
        } else {
            here.add(&sidecars);
        }
        start.combine(&here, i64::max);
    }
    sum.add(&sidecars);
    sum.combine(&start, i64::max);
    if spec.get("resources").is_some() {
        let whole = Amounts::read(spec.pointer("/resources/requests"));
        sum.combine(&whole, i64::max);
    }
    sum.add(&Amounts::read(spec.get("overhead")));
    sum
}

/// Ports a pod takes of its node.
pub fn host_ports(spec: &Value) -> Vec<(String, i64)> {
    let containers = list(spec, "/containers").iter();
    let ports = containers.flat_map(|c| list(c, "/ports"));
    ports
        .filter_map(|p| {
            let port = int(p, "/hostPort").filter(|n| *n > 0)?;
            let protocol = Some(text(p, "/protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP");
            Some((protocol.to_owned(), port))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_affinity_terms() {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}});
        let spec = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let e = |k: &str, op: &str, v: Value| json!({"key": k, "operator": op, "values": v});
        for (terms, want) in [
            (json!([{"matchExpressions": [e("zone", "In", json!(["a", "b"]))]}]), true),
            (
                json!([{"matchExpressions": [e("zone", "NotIn", json!(["a"]))]}, {"matchExpressions": [e("gpu", "Exists", json!([]))]}]),
                false,
            ),
            (
                json!([{"matchExpressions": [e("cores", "Gt", json!(["4"])), e("gpu", "DoesNotExist", json!([]))]}]),
                true,
            ),
            (json!([{"matchFields": [e("metadata.name", "In", json!(["n1"]))]}]), true),
            (json!([{}]), false),
        ] {
            assert_eq!(wants_node(&spec(terms.clone()), &node), want, "{terms}");
        }
        assert!(wants_node(&json!({"nodeSelector": {"zone": "a"}}), &node));
        assert!(!wants_node(&json!({"nodeSelector": {"zone": "b"}}), &node));
    }

    #[test]
    fn tolerations() {
        let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        for (t, want) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
        ] {
            assert_eq!(tolerates(std::slice::from_ref(&t), &taint), want, "{t}");
        }
    }

    #[test]
    fn the_start_of_a_pod_may_need_more_than_its_run() {
        let c = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut side = c("200m");
        side["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [c("1"), c("500m")], "initContainers": [side, c("2")], "overhead": {"cpu": "100m"}});
        assert_eq!(requests(&spec).cpu, 2300);
    }
}
