//! Operations that outlive whoever began them.

use crate::support::{Target, target_with};
use arm::ResourceId;
use azure::ops::VirtualNetworks;
use azure::{ClientOptions, Condition, Lro, Timing, connect};
use azure_sim::Profile;
use serde_json::json;
use std::time::Duration;

/// The simulator's operations end when it is told, so there is nothing to wait for; Azure's do not.
fn options(t: &Target) -> ClientOptions {
    let timing = if t.sim.is_some() { crate::faults::hasty() } else { Timing::system() };
    ClientOptions { timing, ..ClientOptions::default() }
}

fn net(location: &str) -> arm::types::VirtualNetwork {
    let body =
        json!({"location": location, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn a_new_process_goes_on_where_the_old_one_stopped() {
    let t = target_with(Profile::Manual).await;
    // A group's deletion waits for nobody in the manual profile, so this test makes its own.
    let client = connect(&t.env, options(&t)).await.unwrap().client;
    let groups = client.arm::<azure::ops::ResourceGroups>();
    let g = groups
        .id(&t.subscription, &format!("zaffre-contract-resume-{}", &t.client.timing().random.uuid()[..8]))
        .unwrap();
    groups.put(&g, &serde_json::from_value(json!({"location": t.location})).unwrap()).await.unwrap();
    let stored: String = {
        let first = connect(&t.env, options(&t)).await.unwrap().client;
        let arm = first.arm::<VirtualNetworks>();
        let id = arm.id(&g, "v").unwrap();
        let mut begun = arm.begin_put(&id, &net(&t.location), &Condition::Always).await.unwrap();
        assert!(!begun.is_done());
        if t.sim.is_some() {
            assert!(!begun.poll().await.unwrap(), "nothing ends by itself here");
        }
        serde_json::to_string(begun.token()).unwrap()
        // Operation and client are dropped here.
    };
    assert!(
        !stored.contains("Bearer") && !stored.contains("eyJ"),
        "a token to resume is no token to sign in: {stored}"
    );
    let lro: Lro = serde_json::from_str(&stored).unwrap();
    let second = connect(&t.env, options(&t)).await.unwrap().client;
    let mut resumed = second.arm::<VirtualNetworks>().resume(lro.clone());
    if let Some(sim) = &t.sim {
        assert!(!resumed.poll().await.unwrap());
        assert_eq!(sim.world().finish_operations(), 1);
    }
    let made = resumed.wait().await.unwrap();
    assert_eq!(made.properties.unwrap().provisioning_state, Some(arm::ProvisioningState::Succeeded));
    // Resuming what is long over gives the same.
    let again = second.arm::<VirtualNetworks>().resume(lro).wait().await.unwrap();
    assert_eq!(again.name.as_deref(), Some("v"));

    let arm = second.arm::<VirtualNetworks>();
    let mut gone = arm.begin_delete(&arm.id(&g, "v").unwrap(), &Condition::Always).await.unwrap();
    let lro: Lro = serde_json::from_str(&serde_json::to_string(gone.token()).unwrap()).unwrap();
    if let Some(sim) = &t.sim {
        assert!(!gone.poll().await.unwrap());
        sim.world().finish_operations();
    }
    second.resume::<serde_json::Value>(lro).wait_raw().await.unwrap();
    assert!(!arm.exists(&arm.id(&g, "v").unwrap()).await.unwrap());
    let mut deleting = groups.begin_delete(&g, &Condition::Always).await.unwrap();
    if let Some(sim) = &t.sim {
        sim.world().finish_operations();
    }
    deleting.wait_raw().await.unwrap();
}

#[tokio::test]
async fn patience_ends_and_the_operation_does_not() {
    let t = target_with(Profile::Manual).await;
    let Some(sim) = t.only_sim("an operation that never ends") else { return };
    let g = ResourceId::group_scope(t.subscription_id(), "zaffre-dns").unwrap();
    let options = ClientOptions { poll_patience: Duration::ZERO, ..ClientOptions::default() };
    let options = ClientOptions { timing: crate::faults::hasty(), ..options };
    let client = connect(&t.env, options).await.unwrap().client;
    let arm = client.arm::<VirtualNetworks>();
    let mut begun =
        arm.begin_put(&arm.id(&g, "v").unwrap(), &net("westus2"), &Condition::Always).await.unwrap();
    let still = begun.wait_raw().await.unwrap_err();
    assert!(matches!(still, azure::Error::StillRunning { .. }) && still.is_transient(), "{still}");
    sim.world().finish_operations();
    assert!(begun.poll().await.unwrap());
    assert!(begun.wait().await.is_ok());
}

#[tokio::test]
async fn every_style_ends() {
    // The measured times, a fiftieth of them: operations are really pending when they are looked at.
    let t = target_with(Profile::Fast).await;
    t.in_group("styles", async |g: ResourceId| {
        let arm = t.client.arm::<VirtualNetworks>();
        let id = arm.id(&g, "v").unwrap();
        let begun = arm.begin_put(&id, &net(&t.location), &Condition::Always).await.unwrap();
        assert!(!begun.is_done(), "a network takes a while");
        begun.wait().await.unwrap();
        let zones = t.client.arm::<azure::ops::PrivateDnsZones>();
        let zone = zones.id(&g, "x.local").unwrap();
        let body = serde_json::from_value(json!({"location": "global"})).unwrap();
        let begun = zones.begin_put(&zone, &body, &Condition::Always).await.unwrap();
        assert_eq!((begun.status, begun.is_done()), (202, false));
        assert_eq!(begun.wait().await.unwrap().name.as_deref(), Some("x.local"));
        zones.delete(&zone).await.unwrap();
        arm.delete(&id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_plan_waits_for_what_an_earlier_run_began() {
    use azure::plan::{Action, Desired, Goal, apply, observe, plan};
    let t = target_with(Profile::Fast).await;
    t.in_group("await", async |g: ResourceId| {
        let arm = t.client.arm::<VirtualNetworks>();
        let id = arm.id(&g, "v").unwrap();
        // An earlier run that died right after its first request.
        drop(arm.begin_put(&id, &net(&t.location), &Condition::Always).await.unwrap());
        let subnet = json!({"properties": {"addressPrefix": "10.0.0.0/24"}});
        let goal = Goal::default()
            .present(Desired::typed::<VirtualNetworks>(id.clone(), &net(&t.location)).unwrap())
            .present(Desired::new(id.child("subnets", "a").unwrap(), subnet));
        let p = plan(&goal, &observe(&t.client, &goal, 4).await.unwrap()).unwrap();
        // Elsewhere it may be over before it is looked at.
        let busy = p.steps[0].action == Action::Await;
        assert!(busy || (t.sim.is_none() && p.steps[0].action == Action::Keep), "{p}");
        // Five seconds between looks are five seconds too many for a simulator.
        let client = connect(&t.env, options(&t)).await.unwrap().client;
        let report = apply(&p, &client, 4).await;
        assert!(report.is_good(), "{report:#?}");
    })
    .await;
}

#[tokio::test]
async fn throttled_clients_slow_down_and_finish() {
    use azure_sim::{AzureSim, Config};
    if azure::Env::of_process().get("ZAFFRE_CONTRACT").is_some() {
        println!("skipped against Azure: it would use up the subscription's budget");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::local(9);
    config.limits = Some(azure_sim::Limits { reads: (5.0, 50.0), ..azure_sim::Limits::DOCUMENTED });
    config.ca_file = Some(dir.path().join("ca.pem"));
    let sim = AzureSim::start(config).await.unwrap();
    let env = azure::Env::parse(&sim.env());
    let client = connect(&env, ClientOptions::default()).await.unwrap().client;
    let scope = ResourceId::subscription_scope(sim.world().subscription()).unwrap();
    let groups = client.arm::<azure::ops::ResourceGroups>();
    let all = futures::future::join_all((0..30).map(|_| groups.list_all(&scope))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let refused = sim.world().journal().iter().filter(|e| e.status == 429).count();
    assert!(refused > 0, "the budget was really spent");
}
