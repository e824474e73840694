use super::*;
use crate::pipeline::Error;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn id(text: &str) -> ResourceId {
    ResourceId::parse(&format!("/subscriptions/s/resourceGroups/{text}")).unwrap()
}

fn net(kind: &str, name: &str) -> ResourceId {
    id(&format!("g/providers/Microsoft.Network/{kind}/{name}"))
}

fn landing() -> Goal {
    let (nsg, vnet, nat, pip) = (
        net("networkSecurityGroups", "n"),
        net("virtualNetworks", "v"),
        net("natGateways", "gw"),
        net("publicIPAddresses", "p"),
    );
    let identity = id("g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let assignment = vnet.provider("Microsoft.Authorization", "roleAssignments", "0").unwrap();
    // Written in the wrong order on purpose.
    Goal::default()
        .present(Desired::new(assignment, json!({"properties": {"principalId": reference(&identity, "/properties/principalId")}})))
        .present(Desired::new(net("virtualNetworks", "v/subnets/a"), json!({"properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}, "natGateway": {"id": nat}}})))
        .present(Desired::new(net("virtualNetworks", "v/subnets/b"), json!({"properties": {"addressPrefix": "10.0.1.0/24"}})))
        .present(Desired::new(nat, json!({"location": "westus2", "properties": {"publicIpAddresses": [{"id": pip}]}})))
        .present(Desired::new(vnet, json!({"location": "West US 2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}})))
        .present(Desired::new(pip, json!({"location": "westus2"})))
        .present(Desired::new(nsg, json!({"location": "westus2", "properties": {"securityRules": [{"name": "r", "properties": {"priority": 100}}]}})))
        .present(Desired::new(identity, json!({"location": "westus2"})))
        .present(Desired::new(id("g"), json!({"location": "westus2"})))
}

fn position(plan: &Plan, id: &ResourceId) -> usize {
    plan.steps.iter().position(|s| s.id == *id).unwrap()
}

#[test]
fn order_follows_parents_and_references() {
    let p = plan(&landing(), &Observed::new()).unwrap();
    assert_eq!(p.steps[0].id, id("g"));
    let before =
        |a: &ResourceId, b: &ResourceId| assert!(position(&p, a) < position(&p, b), "{a} before {b}\n{p}");
    let subnet = net("virtualNetworks", "v/subnets/a");
    before(&net("publicIPAddresses", "p"), &net("natGateways", "gw"));
    before(&net("natGateways", "gw"), &subnet);
    before(&net("networkSecurityGroups", "n"), &subnet);
    before(&net("virtualNetworks", "v"), &subnet);
    let assignment = net("virtualNetworks", "v/providers/Microsoft.Authorization/roleAssignments/0");
    before(&id("g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"), &assignment);
    let (a, b) = (position(&p, &subnet), position(&p, &net("virtualNetworks", "v/subnets/b")));
    assert!(p.steps[a].after.contains(&b) || p.steps[b].after.contains(&a), "one writer per network");
    let free = position(&p, &net("publicIPAddresses", "p"));
    assert_eq!(p.steps[free].after, [0], "waits for the group only");
    let text = serde_json::to_string(&p).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), p);
}

/// What a service would show of a body: more, in its own spelling.
fn shown(step: &Step, body: &Value) -> Value {
    let mut v = body.clone();
    apply::substitute(&mut v, &mut |_, _| Some(json!("principal")));
    v["id"] = json!(step.id.as_str().replace("resourceGroups", "resourcegroups"));
    v["name"] = json!(step.id.name());
    v["etag"] = json!("W/\"1\"");
    if let Some(l) = v.get("location").and_then(Value::as_str) {
        v["location"] = json!(l.replace(' ', "").to_lowercase());
    }
    let p = v.as_object_mut().unwrap().entry("properties").or_insert_with(|| json!({}));
    p["provisioningState"] = json!("Succeeded");
    p["resourceGuid"] = json!("guid");
    p["principalId"] = json!("principal");
    if let Some(rules) = p.get_mut("securityRules").and_then(Value::as_array_mut) {
        for r in rules {
            r["id"] = json!("/subscriptions/s/x");
            r["properties"]["access"] = json!("Allow");
        }
    }
    v
}

fn done(p: &Plan, mut world: Observed) -> Observed {
    for s in &p.steps {
        match &s.action {
            Action::Create { body } | Action::Change { body, .. } => {
                drop(world.insert(s.id.clone(), shown(s, body)))
            }
            Action::Delete => drop(world.remove(&s.id)),
            Action::Keep | Action::Await => {}
        }
    }
    world
}

#[test]
fn what_is_done_is_kept_and_only_differences_change() {
    let mut goal = landing();
    let world = done(&plan(&goal, &Observed::new()).unwrap(), Observed::new());
    let again = plan(&goal, &world).unwrap();
    assert!(again.is_empty(), "{again}");
    let nsg = net("networkSecurityGroups", "n");
    for d in &mut goal.present {
        if d.id == nsg {
            d.body["properties"]["securityRules"] = json!([{"name": "R", "properties": {"priority": 200}}, {"name": "new", "properties": {"priority": 300}}]);
            d.body["tags"] = json!({"a": "1"});
        }
    }
    let p = plan(&goal, &world).unwrap();
    let Action::Change { body, differences, etag } = &p.step(&nsg).unwrap().action else { panic!("{p}") };
    let at: Vec<&str> = differences.iter().map(|d| d.at.as_str()).collect();
    assert_eq!(
        at,
        ["/properties/securityRules/R/properties/priority", "/properties/securityRules/new", "/tags"]
    );
    assert_eq!(etag.as_deref(), Some("W/\"1\""));
    assert_eq!(
        body["properties"]["securityRules"][0]["properties"]["access"], "Allow",
        "what is there stays"
    );
    assert_eq!(body["properties"]["resourceGuid"], "guid");
    assert!(body.get("etag").is_none() && body["properties"].get("provisioningState").is_none());
    assert!(p.to_string().contains("/properties/securityRules/R/properties/priority: 100 → 200"), "{p}");
    assert_eq!(p.steps.iter().filter(|s| s.action != Action::Keep).count(), 1);
}

#[test]
fn differences_mean_something() {
    let vnet = net("virtualNetworks", "v");
    let keeps = |desired: Value, actual: Value| {
        let goal = Goal::default().present(Desired::new(vnet.clone(), json!({"properties": desired})));
        let world = [(vnet.clone(), json!({"properties": actual}))].into();
        plan(&goal, &world).unwrap().is_empty()
    };
    assert!(
        keeps(
            json!({"x": {"id": "/subscriptions/S/resourceGroups/G"}}),
            json!({"x": {"id": "/subscriptions/s/resourcegroups/g"}})
        ),
        "ids ignore case"
    );
    assert!(!keeps(json!({"x": "A"}), json!({"x": "a"})), "other text does not");
    assert!(
        keeps(json!({"x": ["b", "a"]}), json!({"x": ["a", "b"]}))
            && !keeps(json!({"x": ["a"]}), json!({"x": ["a", "b"]}))
    );
    assert!(
        keeps(json!({"x": []}), json!({}))
            && keeps(json!({"x": null}), json!({}))
            && keeps(json!({"x": 1}), json!({"x": 1.0}))
    );
    assert!(!keeps(json!({"x": []}), json!({"x": [{"name": "a"}]})), "an empty list empties");
    assert!(keeps(json!({"r": [{"id": "/subscriptions/s"}]}), json!({"r": [{"id": "/subscriptions/S"}]})));
    assert!(keeps(json!({"l": [{"a": 1}, {"a": 2}]}), json!({"l": [{"a": 1, "b": 0}, {"a": 2}]})));
    assert!(!keeps(json!({"l": [{"a": 1}]}), json!({"l": [{"a": 1}, {"a": 2}]})));
    assert!(keeps(
        json!({"roleDefinitionId": "/subscriptions/s/providers/A.B/roleDefinitions/x"}),
        json!({"roleDefinitionId": "/providers/A.B/roleDefinitions/X"})
    ));
}

#[test]
fn what_is_never_shown_is_not_compared() {
    let wanted = json!({"properties": {"size": 1, "osProfile": {"adminPassword": "x", "computerName": "c"}}});
    let shown = json!({"properties": {"size": 1, "osProfile": {"computerName": "c"}}});
    let id = net("natGateways", "n");
    let act = |desired: &Value, hidden| diff::action(&id, desired, &shown, &[], hidden);
    assert_eq!(act(&wanted, &["/properties/osProfile/adminPassword"]), Action::Keep);
    assert!(matches!(act(&wanted, &[]), Action::Change { .. }));
    let mut larger = wanted;
    larger["properties"]["size"] = json!(2);
    let Action::Change { body, differences, .. } = act(&larger, &["/properties/osProfile/adminPassword"])
    else {
        panic!()
    };
    assert_eq!(body["properties"]["osProfile"]["adminPassword"], "x", "but written");
    assert!(!format!("{differences:?}").contains("adminPassword"));
}

#[test]
fn children_that_are_wanted_by_themselves_are_not_extra() {
    let vnet = net("virtualNetworks", "v");
    let sub = net("virtualNetworks", "v/subnets/b");
    let goal = Goal::default()
        .present(Desired::new(
            vnet.clone(),
            json!({"properties": {"subnets": [{"name": "a", "properties": {"addressPrefix": "x"}}]}}),
        ))
        .present(Desired::new(sub.clone(), json!({"properties": {"addressPrefix": "y"}})));
    let both = json!({"properties": {"subnets": [{"name": "a", "properties": {"addressPrefix": "x"}}, {"name": "b", "properties": {"addressPrefix": "y"}}]}});
    let mut world: Observed =
        [(vnet.clone(), both), (sub, json!({"properties": {"addressPrefix": "y"}}))].into();
    assert!(plan(&goal, &world).unwrap().is_empty());
    world.get_mut(&vnet).unwrap()["properties"]["subnets"][0]["properties"]["addressPrefix"] = json!("z");
    let p = plan(&goal, &world).unwrap();
    let Action::Change { body, .. } = &p.step(&vnet).unwrap().action else { panic!() };
    assert_eq!(body["properties"]["subnets"].as_array().unwrap().len(), 2, "the other subnet survives");
}

#[test]
fn what_is_broken_is_mended_and_what_is_busy_is_awaited() {
    let pip = net("publicIPAddresses", "p");
    let goal = Goal::default().present(Desired::new(pip.clone(), json!({"location": "westus2"})));
    let action = |location: &str, state: &str| {
        let there = json!({"location": location, "properties": {"provisioningState": state}});
        plan(&goal, &[(pip.clone(), there)].into()).unwrap().steps.remove(0).action
    };
    assert_eq!(action("westus2", "Succeeded"), Action::Keep);
    assert_eq!(action("westus2", "Updating"), Action::Await);
    assert!(matches!(action("eastus", "Updating"), Action::Change { .. }));
    let Action::Change { differences, .. } = action("westus2", "Failed") else { panic!() };
    assert_eq!(differences[0].to_string(), "/properties/provisioningState: \"Failed\" → \"Succeeded\"");
}

#[test]
fn deletes_go_backwards() {
    let goal = landing();
    let mut world = done(&plan(&goal, &Observed::new()).unwrap(), Observed::new());
    // Azure shows on both sides who refers to whom.
    world.get_mut(&net("networkSecurityGroups", "n")).unwrap()["properties"]["subnets"] =
        json!([{"id": net("virtualNetworks", "v/subnets/a")}]);
    world.get_mut(&net("publicIPAddresses", "p")).unwrap()["properties"]["natGateway"] =
        json!({"id": net("natGateways", "gw")});
    let gone =
        Goal { absent: goal.present.iter().rev().map(|d| (d.id.clone(), None)).collect(), ..Goal::default() };
    let p = plan(&gone, &world).unwrap();
    assert_eq!(p.steps.len(), goal.present.len());
    assert_eq!(p.steps.last().unwrap().id, id("g"));
    let before =
        |a: &ResourceId, b: &ResourceId| assert!(position(&p, a) < position(&p, b), "{a} before {b}\n{p}");
    before(&net("virtualNetworks", "v/subnets/a"), &net("virtualNetworks", "v"));
    before(&net("virtualNetworks", "v/subnets/a"), &net("networkSecurityGroups", "n"));
    before(&net("virtualNetworks", "v/subnets/a"), &net("natGateways", "gw"));
    before(&net("natGateways", "gw"), &net("publicIPAddresses", "p"));
    assert!(plan(&gone, &Observed::new()).unwrap().steps.is_empty(), "what is gone needs no step");
}

#[test]
fn nonsense_is_refused() {
    let pip = net("publicIPAddresses", "p");
    let one = || Goal::default().present(Desired::new(pip.clone(), json!({})));
    let none = Observed::new();
    assert_eq!(plan(&one().absent(pip.clone()), &none), Err(PlanError::Twice(pip.clone())));
    assert!(matches!(plan(&one().absent(id("g")), &none), Err(PlanError::Contradiction { .. })));
    let odd = id("g/providers/Nobody.Knows/things/x");
    assert_eq!(
        plan(&Goal::default().present(Desired::new(odd.clone(), json!({}))), &none),
        Err(PlanError::Version(odd.clone()))
    );
    let given = Desired::new(odd, json!({})).at("2024-01-01".parse().unwrap());
    assert!(plan(&Goal::default().present(given), &none).is_ok());
    let (a, b) = (net("natGateways", "a"), net("natGateways", "b"));
    let circle = Goal::default()
        .present(Desired::new(a.clone(), json!({"x": {"id": b}})))
        .present(Desired::new(b.clone(), json!({"x": {"id": a}})));
    assert_eq!(plan(&circle, &none), Err(PlanError::Cycle(vec![a.clone(), b.clone()])));
    let dangling = Goal::default().present(Desired::new(a, json!({"x": reference(&b, "/y")})));
    assert!(matches!(plan(&dangling, &none), Err(PlanError::Reference { .. })));
    assert!(matches!(
        plan(&Goal::default().present(Desired::new(pip, json!([]))), &none),
        Err(PlanError::Body(_))
    ));
}

/// Hands that note what they did, and fail where told.
struct Noting {
    fail: BTreeSet<ResourceId>,
    done: Mutex<Vec<ResourceId>>,
    now: Mutex<(usize, usize)>,
}

impl Noting {
    fn failing(fail: BTreeSet<ResourceId>) -> Noting {
        Noting { fail, done: Mutex::default(), now: Mutex::default() }
    }
}

impl Hands for Noting {
    fn perform<'a>(
        &'a self,
        step: &'a Step,
        body: Option<Value>,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            {
                let mut now = self.now.lock();
                now.0 += 1;
                now.1 = now.1.max(now.0);
            }
            for _ in 0..step.id.as_str().len() % 7 {
                tokio::task::yield_now().await;
            }
            self.now.lock().0 -= 1;
            if self.fail.contains(&step.id) {
                return Err(Error::Url("told to fail".into()));
            }
            self.done.lock().push(step.id.clone());
            Ok(body.map(|b| shown(step, &b)))
        })
    }
}

#[tokio::test]
async fn a_failure_stops_what_waits_for_it_and_nothing_else() {
    let p = plan(&landing(), &Observed::new()).unwrap();
    for (i, failing) in p.steps.iter().enumerate() {
        let hands = Noting::failing([failing.id.clone()].into());
        let report = apply(&p, &hands, 3).await;
        assert_eq!(report.results.len(), p.steps.len());
        let mut stopped: BTreeSet<usize> = [i].into();
        for (j, s) in p.steps.iter().enumerate() {
            if s.after.iter().any(|a| stopped.contains(a)) {
                stopped.insert(j);
            }
        }
        for (j, (id, r)) in report.results.iter().enumerate() {
            assert_eq!(r.is_good(), !stopped.contains(&j), "{id} when {} fails", failing.id);
        }
        assert_eq!(report.failures().count(), 1);
    }
}

#[tokio::test]
async fn values_of_steps_reach_those_that_need_them() {
    let p = plan(&landing(), &Observed::new()).unwrap();
    let report = apply(&p, &Noting::failing(BTreeSet::new()), 4).await;
    assert!(report.is_good());
    let assignment = net("virtualNetworks", "v/providers/Microsoft.Authorization/roleAssignments/0");
    assert_eq!(report.value(&assignment, "/properties/principalId"), Some(&json!("principal")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random forests with random references: nothing starts before what it waits for, never too many at once, and
    /// when all is done there is nothing left to do.
    #[test]
    fn any_goal_is_reached(n in 1_usize..14, links in proptest::collection::vec((0_usize..14, 0_usize..14), 0..20), parallel in 1_usize..5, fails in proptest::collection::btree_set(0_usize..14, 0..3)) {
        let name = |i: usize| if i % 3 == 2 { net("virtualNetworks", &format!("v{}/subnets/s{i}", i / 3)) } else { net("natGateways", &format!("n{i}")) };
        let mut goal = Goal::default();
        for i in 0..n {
            // Only towards the left, so that there is no circle.
            let refs: Vec<Value> = links.iter().filter(|(a, b)| *a == i && b < a && a % 3 != 2 && b % 3 != 2).map(|(_, b)| json!({"id": name(*b)})).collect();
            goal = goal.present(Desired::new(name(i), json!({"properties": {"refs": refs}})));
        }
        let p = plan(&goal, &Observed::new()).unwrap();
        for (i, s) in p.steps.iter().enumerate() {
            prop_assert!(s.after.iter().all(|a| *a < i));
        }
        let failing: BTreeSet<ResourceId> = fails.iter().filter(|f| **f < n).map(|f| name(*f)).collect();
        let hands = Noting::failing(failing.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let report = runtime.block_on(apply(&p, &hands, parallel));
        prop_assert!(hands.now.lock().1 <= parallel);
        let order = hands.done.lock().clone();
        for (i, s) in p.steps.iter().enumerate() {
            if let Some(at) = order.iter().position(|d| *d == s.id) {
                for a in &p.steps[i].after {
                    prop_assert!(order[..at].contains(&p.steps[*a].id));
                }
            }
        }
        prop_assert_eq!(report.is_good(), failing.is_empty());
        let world = report.resources;
        let left = plan(&goal, &world).unwrap();
        prop_assert_eq!(left.is_empty(), failing.is_empty());
        prop_assert!(plan(&goal, &done(&left, world)).unwrap().is_empty());
    }
}
