//! Whatever goes wrong, what is left is whole.

use crate::profile::Profile;
use crate::trouble::{Each, Match, Rule, Stale, Then, When, Why, preset};
use crate::wire::Call;
use crate::world::{Setup, World};
use clock::ManualClock;
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Ask(&'static str, String, Value),
    Pass(u16),
    Finish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let make = prop_oneof![
        (0..2_u8, 0..2_u8).prop_map(|(g, n)| {
            let rules = json!([{"name": "r", "properties": {"priority": 100, "direction": "Inbound", "access": "Allow", "protocol": "*", "sourceAddressPrefix": "*", "sourcePortRange": "*", "destinationAddressPrefix": "*", "destinationPortRange": "80"}}]);
            (format!("g{g}/providers/Microsoft.Network/networkSecurityGroups/s{n}"), json!({"location": "westus2", "properties": {"securityRules": rules}}))
        }),
        (0..2_u8, 0..2_u8, 0..3_u8).prop_map(|(g, n, s)| {
            let mut subnet = json!({"name": "a", "properties": {"addressPrefix": "10.0.0.0/24"}});
            if s < 2 {
                subnet["properties"]["networkSecurityGroup"]["id"] = format!("SUB/resourceGroups/g{g}/providers/Microsoft.Network/networkSecurityGroups/s{s}").into();
            }
            (format!("g{g}/providers/Microsoft.Network/virtualNetworks/n{n}"), json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [subnet]}}))
        }),
        (0..2_u8, 0..2_u8).prop_map(|(g, n)| {
            let subnet = format!("SUB/resourceGroups/g{g}/providers/Microsoft.Network/virtualNetworks/n{n}/subnets/a");
            (format!("g{g}/providers/Microsoft.Network/networkInterfaces/i{n}"), json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet}}}]}}))
        }),
        (0..2_u8).prop_map(|g| (format!("g{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/u"), json!({"location": "westus2"}))),
        (0..2_u8).prop_map(|g| (format!("g{g}"), json!({"location": "westus2"}))),
    ];
    let method = prop::sample::select(vec!["PUT", "PUT", "PUT", "GET", "DELETE"]);
    let ask = (method, make).prop_map(|(m, (path, body))| Step::Ask(m, path, body));
    let step = prop_oneof![9 => ask, 3 => (0..30_u16).prop_map(Step::Pass), 1 => Just(Step::Finish)];
    prop::collection::vec(step, 10..80)
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let why = || Why { code: "Broken".into(), message: None };
    let then = prop::sample::select(vec![
        Then::Drop(When::Before),
        Then::Drop(When::After),
        Then::FailLate(why()),
        Then::Partial(why()),
        Then::Stale(Stale::Versions(2)),
        Then::Stale(Stale::Seconds(20)),
        Then::Throttle(1),
    ]);
    let rule = (then, 0.05..0.6_f64, any::<bool>()).prop_map(|(then, p, id)| {
        let each = if id { Each::Id } else { Each::Rule };
        Rule::new("", Match { probability: Some(p), each, ..Match::default() }, then)
    });
    prop::collection::vec(rule, 0..5)
}

struct Lab {
    world: Arc<World>,
    token: String,
}

async fn lab(keys: &World, rules: Vec<Rule>) -> Lab {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    // An RSA key takes longer to make than a run: all worlds here are forks of one.
    let world = Arc::new(keys.fork_at(clock));
    // In virtual time nothing waits: times are as measured, and the test takes none.
    world.run_clock_at(0.0).unwrap();
    let token = world.owner_token().await;
    world.add_faults(rules).unwrap();
    Lab { world, token }
}

impl Lab {
    fn call(&self, method: &str, path: &str, body: &Value) -> Call {
        let sub = format!("/subscriptions/{}", self.world.subscription());
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        Call {
            method: method.parse().unwrap(),
            path: format!("{sub}/resourceGroups/{path}"),
            query: vec![("api-version".into(), "2024-03-01".into())],
            headers,
            body: body.to_string().replace("SUB", &sub).into(),
            base: "https://management.azure.com".into(),
        }
    }

    async fn run(&self, steps: &[Step]) -> Result<String, String> {
        let mut said = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            match step {
                Step::Pass(s) => self.world.advance(SignedDuration::from_secs(i64::from(*s))),
                Step::Finish => said.push(self.world.finish_operations().to_string()),
                Step::Ask(method, path, body) => {
                    let reply = self.world.meet(self.call(method, path, body)).await;
                    said.push(
                        reply.map_or_else(|| "dropped".to_owned(), |r| format!("{} {:?}", r.status, r.body)),
                    );
                }
            }
            let now = self.world.now();
            self.world
                .look(|s| {
                    let mut s = s.clone();
                    s.settle(now);
                    s.check()
                })
                .map_err(|why| format!("after step {i} {step:?}: {why}"))?;
        }
        said.push(serde_json::to_string(&self.world.journal()).unwrap());
        said.push(self.world.leaks().to_string());
        Ok(said.join("\n"))
    }
}

fn keys() -> World {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    World::fresh(Setup {
        seed: 7,
        profile: Profile::Manual,
        limits: None,
        roles: Vec::new(),
        issuers: Arc::new(crate::entra::HttpsIssuers::new(&[])),
        clock,
        proxied: Vec::new(),
        trust: Vec::new(),
    })
}

#[test]
fn faults_never_break_what_is_kept_and_repeat_with_the_seed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let keys = keys();
    proptest!(config, |(steps in steps(), rules in rules())| {
        let (a, b) = runtime.block_on(async {
            let one = lab(&keys, rules.clone()).await;
            let two = lab(&keys, rules).await;
            (one.run(&steps).await, two.run(&steps).await)
        });
        prop_assert!(a.is_ok(), "{:?}", a);
        prop_assert_eq!(a, b);
    });
}

/// The same requests in another order meet the same faults.
#[tokio::test]
async fn chance_does_not_depend_on_who_was_faster() {
    let keys = keys();
    let rules = || {
        let all = preset("bad-day").unwrap().into_iter();
        // What counts requests depends on their order, and says so.
        all.filter(|r| r.on.probability.is_some() && r.then.name() != "delay").collect::<Vec<_>>()
    };
    let fates = |order: Vec<usize>| {
        let (keys, rules) = (&keys, rules());
        async move {
            let lab = lab(keys, rules).await;
            let mut fates = vec![None; order.len()];
            for i in order {
                let body = json!({"location": "westus2"});
                let met = lab.world.meet(lab.call("PUT", &format!("g{i}"), &body)).await;
                fates[i] = Some(met.map(|r| r.status.as_u16()));
            }
            fates
        }
    };
    let forwards = fates((0..200).collect()).await;
    let backwards = fates((0..200).rev().collect()).await;
    assert_eq!(forwards, backwards);
    let bad = forwards.iter().filter(|f| **f != Some(Some(201))).count();
    assert!((10..80).contains(&bad), "{bad} of 200 went wrong");
}

#[test]
fn counting() {
    let fired = |on: Match, paths: &[&str]| {
        let t = crate::trouble::Trouble::default();
        t.add(vec![Rule::new("r", on, Then::Drop(When::After))]).unwrap();
        let pace = crate::profile::Pace { profile: Profile::Instant, scale: 1.0 };
        let of = |p: &&str| {
            let call = Call {
                method: http::Method::GET,
                path: (*p).to_owned(),
                query: Vec::new(),
                headers: HeaderMap::new(),
                body: bytes::Bytes::new(),
                base: String::new(),
            };
            let about = crate::trouble::meet::About {
                service: "graph",
                host: "h",
                call: &call,
                principal: vec!["me".into()],
            };
            t.meet(&about, 1, pace).drop_after
        };
        paths.iter().map(of).collect::<Vec<_>>()
    };
    let (y, n) = (true, false);
    let all = || Match::default();
    let five = ["/a", "/b", "/a", "/b", "/a"];
    assert_eq!(fired(Match { nth: Some(2), ..all() }, &five), [n, y, n, n, n]);
    assert_eq!(fired(Match { nth: Some(2), each: Each::Id, ..all() }, &five), [n, n, y, y, n]);
    assert_eq!(fired(Match { every: Some(2), ..all() }, &five), [n, y, n, y, n]);
    assert_eq!(fired(Match { times: Some(2), ..all() }, &five), [y, y, n, n, n]);
    assert_eq!(fired(Match { times: Some(1), each: Each::Id, ..all() }, &five), [y, y, n, n, n]);
    assert_eq!(fired(Match { id: Some("/A*".into()), ..all() }, &five), [y, n, y, n, y]);
    assert_eq!(
        fired(Match { host: Some("graph".into()), principal: Some("ME".into()), ..all() }, &["/a"]),
        [y]
    );
    assert_eq!(fired(Match { host: Some("arm".into()), ..all() }, &["/a"]), [n]);
    assert_eq!(fired(Match { zone: Some("1".into()), ..all() }, &["/a"]), [n]);
}
