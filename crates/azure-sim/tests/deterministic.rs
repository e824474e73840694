//! The same seed and the same script give the same answers and the same journal, byte for byte.

use crate::support::{call, lab};
use azure_sim::Profile;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a script can do; names are few, so that steps meet.
#[derive(Clone, Debug)]
enum Step {
    Arm(&'static str, String, Value),
    Pass(u8),
    Finish,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kinds = prop::sample::select(vec![
        "Microsoft.Network/virtualNetworks",
        "Microsoft.Network/networkSecurityGroups",
        "Microsoft.Network/publicIPAddresses",
        "Microsoft.Network/privateDnsZones",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
    ]);
    let methods = prop::sample::select(vec!["PUT", "PUT", "GET", "DELETE", "PATCH"]);
    let arm = (methods, kinds, 0..3_u8, 0..2_u8).prop_map(|(m, k, n, g)| {
        let body = json!({"location": "westus2", "tags": {"n": n.to_string()}, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
        Step::Arm(m, format!("g{g}/providers/{k}/n{n}.test"), body)
    });
    let step = prop_oneof![8 => arm, 2 => (0..60_u8).prop_map(Step::Pass), 1 => Just(Step::Finish)];
    prop::collection::vec(step, 1..60)
}

async fn run(steps: &[Step]) -> String {
    let lab = lab(Profile::Real).await;
    for g in ["g0", "g1"] {
        lab.group(g);
    }
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Pass(s) => lab.pass(i64::from(*s)),
            Step::Finish => out.push(lab.world.finish_operations().to_string()),
            Step::Arm(method, path, body) => {
                let url = format!(
                    "/subscriptions/{}/resourceGroups/{path}?api-version=2024-03-01",
                    lab.world.subscription()
                );
                let reply = lab.world.arm(&call(method, &url, &lab.token, Some(body)));
                let headers: Vec<String> =
                    reply.headers.iter().map(|(k, v)| format!("{k}: {}", v.to_str().unwrap())).collect();
                out.push(format!("{} {headers:?} {:?}", reply.status, reply.body));
            }
        }
    }
    out.push(serde_json::to_string(&lab.world.journal()).unwrap());
    out.push(lab.world.leaks().to_string());
    out.join("\n")
}

#[test]
fn same_script_same_story() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // A world makes an RSA key, which is slow without optimisation: few cases, long scripts.
    let config = ProptestConfig {
        cases: 6,
        failure_persistence: None,
        max_shrink_iters: 20,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| {
        let (a, b) = runtime.block_on(async { (run(&steps).await, run(&steps).await) });
        prop_assert_eq!(a, b);
    });
}
