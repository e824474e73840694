//! A plan against the real thing: everything at once, then nothing, then one change, then all of it away.

use crate::support::{Target, target, target_with};
use arm::ResourceId;
use azure::plan::{Action, Desired, Goal, Hands, Step, apply, observe, plan, reference};
use azure::{ClientOptions, connect};
use azure_sim::Profile;
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

fn landing(t: &Target, g: &ResourceId) -> Goal {
    let l = &t.location;
    let net = |kind: &str, name: &str| g.provider("Microsoft.Network", kind, name).unwrap();
    let (nsg, vnet, pip, nat) = (
        net("networkSecurityGroups", "nsg"),
        net("virtualNetworks", "vnet"),
        net("publicIPAddresses", "pip"),
        net("natGateways", "nat"),
    );
    let identity = g.provider("Microsoft.ManagedIdentity", "userAssignedIdentities", "id").unwrap();
    let zone = net("privateDnsZones", "x.local");
    let network = format!(
        "{}/providers/Microsoft.Authorization/roleDefinitions/4d97b98b-1d4f-4787-a291-c67834d212e7",
        t.subscription
    );
    let assignment = vnet
        .provider("Microsoft.Authorization", "roleAssignments", "5b6f3a1e-7a34-4c1a-9d57-0d3a8a9f0c11")
        .unwrap();
    let subnet = |name: &str, prefix: &str| {
        Desired::new(
            vnet.child("subnets", name).unwrap(),
            json!({"properties": {
                "addressPrefix": prefix, "networkSecurityGroup": {"id": nsg}, "natGateway": {"id": nat},
            }}),
        )
    };
    let fic = |name: &str| {
        Desired::new(
            identity.child("federatedIdentityCredentials", name).unwrap(),
            json!({"properties": {
                "issuer": "https://issuer.test/", "subject": format!("system:serviceaccount:x:{name}"), "audiences": ["openshift"],
            }}),
        )
    };
    Goal::default()
        .present(Desired::new(assignment, json!({"properties": {
            "roleDefinitionId": network, "principalId": reference(&identity, "/properties/principalId"), "principalType": "ServicePrincipal",
        }})))
        .present(fic("aaa"))
        .present(fic("bbb"))
        .present(Desired::new(zone.child("virtualNetworkLinks", "link").unwrap(), json!({"location": "global", "properties": {"registrationEnabled": false, "virtualNetwork": {"id": vnet}}})))
        .present(Desired::new(zone, json!({"location": "global"})))
        .present(subnet("a", "10.0.0.0/24"))
        .present(subnet("b", "10.0.1.0/24"))
        .present(subnet("c", "10.0.2.0/24"))
        .present(Desired::new(nat.clone(), json!({"location": l, "sku": {"name": "Standard"}, "properties": {"publicIpAddresses": [{"id": pip}]}})))
        .present(Desired::new(pip, json!({"location": l, "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}})))
        .present(Desired::new(vnet.clone(), json!({"location": l, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}})))
        .present(Desired::new(nsg.clone(), json!({"location": l})))
        .present(Desired::new(identity.clone(), json!({"location": l})))
}

#[tokio::test]
async fn make_keep_change_and_remove_a_landing_zone() {
    let t = target().await;
    t.in_group("plan", async |g: ResourceId| {
        let mut goal = landing(&t, &g);
        let first = plan(&goal, &observe(&t.client, &goal, 8).await.unwrap()).unwrap();
        assert!(first.steps.iter().all(|s| matches!(s.action, Action::Create { .. })), "{first}");
        let report = apply(&first, &t.client, 4).await;
        assert!(report.is_good(), "{:#?}", report.failures().collect::<Vec<_>>());

        let again = plan(&goal, &observe(&t.client, &goal, 8).await.unwrap()).unwrap();
        assert!(again.is_empty(), "{again}");
        assert!(apply(&again, &t.client, 4).await.is_good());
        // The first plan once more: everything is written twice and nothing breaks.
        let twice = apply(&first, &t.client, 4).await;
        assert!(twice.is_good(), "{:#?}", twice.failures().collect::<Vec<_>>());

        let nsg = g.provider("Microsoft.Network", "networkSecurityGroups", "nsg").unwrap();
        for d in goal.present.iter_mut().filter(|d| d.id == nsg) {
            d.body["tags"] = json!({"owner": "zaffre"});
        }
        let change = plan(&goal, &observe(&t.client, &goal, 8).await.unwrap()).unwrap();
        let changed: Vec<_> = change.steps.iter().filter(|s| s.action != Action::Keep).collect();
        assert_eq!((changed.len(), &changed[0].id), (1, &nsg), "{change}");
        // Somebody is quicker: the plan is out of date and says so, and a new one is right.
        let arm = t.client.arm::<azure::ops::SecurityGroups>();
        arm.put(
            &nsg,
            &serde_json::from_value(json!({"location": t.location, "tags": {"who": "else"}})).unwrap(),
        )
        .await
        .unwrap();
        let late = apply(&change, &t.client, 4).await;
        assert!(late.failures().all(|(id, e)| *id == nsg && e.is_precondition()) && !late.is_good());
        let change = plan(&goal, &observe(&t.client, &goal, 8).await.unwrap()).unwrap();
        assert!(apply(&change, &t.client, 4).await.is_good());
        let tags = arm.get(&nsg).await.unwrap().tags.unwrap().0;
        assert_eq!(tags.len(), 2, "tags of others stay: {tags:?}");

        let away =
            Goal { absent: goal.present.iter().map(|d| (d.id.clone(), None)).collect(), ..Goal::default() };
        let p = plan(&away, &observe(&t.client, &away, 8).await.unwrap()).unwrap();
        let report = apply(&p, &t.client, 4).await;
        assert!(report.is_good(), "{p}\n{:#?}", report.failures().collect::<Vec<_>>());
        assert!(observe(&t.client, &away, 8).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_collected() {
    let t = target().await;
    t.in_group("errors", async |g: ResourceId| {
        let net = |kind: &str, name: &str| g.provider("Microsoft.Network", kind, name).unwrap();
        let vnet = net("virtualNetworks", "v");
        let goal = Goal::default()
            .present(Desired::new(vnet.clone(), json!({"location": t.location, "properties": {"addressSpace": {"addressPrefixes": ["nonsense"]}}})))
            .present(Desired::new(vnet.child("subnets", "a").unwrap(), json!({"properties": {"addressPrefix": "10.0.0.0/24"}})))
            .present(Desired::new(net("natGateways", "bad"), json!({"sku": {"name": "Standard"}})))
            .present(Desired::new(net("networkSecurityGroups", "good"), json!({"location": t.location})));
        let p = plan(&goal, &observe(&t.client, &goal, 8).await.unwrap()).unwrap();
        let report = apply(&p, &t.client, 4).await;
        let failed: Vec<_> = report.failures().map(|(id, _)| id.name().to_owned()).collect();
        assert_eq!((failed.len(), failed.contains(&"v".to_owned()), failed.contains(&"bad".to_owned())), (2, true, true), "{report:#?}");
        let skipped = report.results.iter().find(|(id, _)| id.name() == "a").unwrap();
        assert!(matches!(&skipped.1, azure::plan::StepResult::Skipped { because } if *because == vnet));
        assert!(report.results.iter().find(|(id, _)| id.name() == "good").unwrap().1.is_good());
    })
    .await;
}

/// The client, until it dies: after some steps, in the middle of one.
struct Mortal {
    client: azure::Client,
    left: AtomicUsize,
    died: Notify,
}

impl Hands for Mortal {
    fn perform<'a>(
        &'a self,
        step: &'a Step,
        body: Option<serde_json::Value>,
    ) -> BoxFuture<'a, Result<Option<serde_json::Value>, azure::Error>> {
        Box::pin(async move {
            let one = |n: usize| n.checked_sub(1);
            if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one).is_ok() {
                return self.client.perform(step, body).await;
            }
            // Somewhere between sending the request and seeing the operation end.
            let _ = tokio::time::timeout(Duration::from_millis(15), self.client.perform(step, body)).await;
            self.died.notify_one();
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_run_that_dies_anywhere_is_completed_by_the_next() {
    let t = target_with(Profile::Fast).await;
    if t.only_sim("it takes long").is_none() {
        return;
    }
    // Nothing is gained by waiting in real time for operations that last milliseconds.
    let options = ClientOptions { poll_default: Duration::from_millis(20), ..ClientOptions::default() };
    let client = connect(&t.env, options).await.unwrap().client;
    for steps in [1, 6, 10] {
        t.in_group("dies", async |g: ResourceId| {
            let goal = landing(&t, &g);
            let first = plan(&goal, &observe(&client, &goal, 8).await.unwrap()).unwrap();
            let hands = Mortal { client: client.clone(), left: steps.into(), died: Notify::new() };
            tokio::select! {
                report = apply(&first, &hands, 3) => panic!("it should have died: {report:?}"),
                () = hands.died.notified() => {}
            }
            let next = plan(&goal, &observe(&client, &goal, 8).await.unwrap()).unwrap();
            let report = apply(&next, &client, 3).await;
            assert!(
                report.is_good(),
                "after {steps} steps:\n{next}{:#?}",
                report.failures().collect::<Vec<_>>()
            );
            let last = plan(&goal, &observe(&client, &goal, 8).await.unwrap()).unwrap();
            assert!(last.steps.iter().all(|s| s.action == Action::Keep), "{last}");
        })
        .await;
    }
}
