//! Conditions, pages, refusals.

use crate::support::target;
use arm::ResourceId;
use azure::ops::{DnsA, DnsZones, SecurityGroups, VirtualNetworks};
use azure::{Client, ClientOptions, Condition, Env, connect};
use futures::TryStreamExt;
use serde_json::json;

#[tokio::test]
async fn writes_depend_on_what_was_seen() {
    let t = target().await;
    t.in_group("etags", async |g: ResourceId| {
        let arm = t.client.arm::<SecurityGroups>();
        let id = arm.id(&g, "n").unwrap();
        let body =
            |tag: &str| serde_json::from_value(json!({"location": t.location, "tags": {"t": tag}})).unwrap();
        let first = arm.put(&id, &body("1")).await.unwrap();
        let seen = Condition::Match(first.etag.unwrap());
        let second = arm.put_if(&id, &body("2"), &seen).await.unwrap();
        let late = arm.put_if(&id, &body("3"), &seen).await.unwrap_err();
        assert!(late.is_precondition() && !late.is_transient(), "{late}");
        assert_eq!(late.code(), Some("PreconditionFailed"));
        assert_eq!(arm.get(&id).await.unwrap().tags, second.tags, "the late write left nothing");

        let zones = t.client.arm::<DnsZones>();
        let zone = zones.id(&g, &format!("{}.test", g.name())).unwrap();
        zones.put(&zone, &serde_json::from_value(json!({"location": "global"})).unwrap()).await.unwrap();
        let records = t.client.arm::<DnsA>();
        let record = records.id(&zone, "a").unwrap();
        let body = serde_json::from_value(
            json!({"properties": {"TTL": 1, "ARecords": [{"ipv4Address": "1.2.3.4"}]}}),
        )
        .unwrap();
        records.put_if(&record, &body, &Condition::Absent).await.unwrap();
        assert!(records.put_if(&record, &body, &Condition::Absent).await.unwrap_err().is_precondition());
    })
    .await;
}

#[tokio::test]
async fn pages_follow_each_other() {
    let t = target().await;
    t.in_group("pages", async |g: ResourceId| {
        let arm = t.client.arm::<SecurityGroups>();
        for i in 0..5 {
            let body = serde_json::from_value(json!({"location": t.location})).unwrap();
            arm.put(&arm.id(&g, &format!("n{i}")).unwrap(), &body).await.unwrap();
        }
        let before = t.sim.as_ref().map(|s| s.world().journal().len());
        let all: Vec<_> = arm.list_with(&g, &[("$top", "2")]).try_collect().await.unwrap();
        assert_eq!(all.len(), 5);
        if let (Some(sim), Some(before)) = (&t.sim, before) {
            assert_eq!(sim.world().journal().len() - before, 3, "three pages");
        }
        // A stream that is not read to the end does not fetch the rest.
        let before = t.sim.as_ref().map(|s| s.world().journal().len());
        let mut some = arm.list_with(&g, &[("$top", "2")]);
        assert!(some.try_next().await.unwrap().is_some());
        drop(some);
        if let (Some(sim), Some(before)) = (&t.sim, before) {
            assert_eq!(sim.world().journal().len() - before, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn refusals_say_who_what_and_where() {
    let t = target().await;
    let arm = t.client.arm::<VirtualNetworks>();
    let nowhere = ResourceId::group_scope(t.subscription_id(), "zaffre-contract-nowhere").unwrap();
    let id = arm.id(&nowhere, "v").unwrap();
    let gone = arm.get(&id).await.unwrap_err();
    assert_eq!((gone.status(), gone.code()), (Some(404), Some("ResourceGroupNotFound")));
    let refused = gone.refused().unwrap();
    assert!(!refused.request_id.is_empty() && refused.attempts == 1 && refused.path == id.as_str());
    assert!(arm.find(&id).await.unwrap().is_none());
    let foreign = ResourceId::group_scope("11111111-2222-4333-8444-555555555555", "g").unwrap();
    let wrong = arm.delete(&arm.id(&foreign, "v").unwrap()).await.unwrap_err();
    assert_eq!(wrong.code(), Some("SubscriptionNotFound"), "a wrong subscription is not an absent resource");
    let kind = arm.get(&nowhere).await.unwrap_err();
    assert!(kind.to_string().contains("is not a Microsoft.Network/virtualNetworks"), "{kind}");
    let elsewhere = t.client.send(azure::Call::get("https://evil.test/x")).await.unwrap_err();
    assert!(matches!(elsewhere, azure::Error::Foreign { .. }), "{elsewhere}");
}

async fn as_app(env: &Env, client: &str, secret: &str) -> Client {
    let env = env.clone().with("AZURE_CLIENT_ID", client).with("AZURE_CLIENT_SECRET", secret);
    connect(&env, ClientOptions::default()).await.unwrap().client
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let t = target().await;
    let Some(sim) = t.only_sim("it needs a second principal") else { return };
    let (client, _) = sim.world().add_app("poor", "secret", Vec::new());
    let poor = as_app(&t.env, &client, "secret").await;
    let arm = poor.arm::<VirtualNetworks>();
    let group = ResourceId::group_scope(t.subscription_id(), "zaffre-dns").unwrap();
    let denied = arm.get(&arm.id(&group, "v").unwrap()).await.unwrap_err();
    assert_eq!((denied.status(), denied.code()), (Some(403), Some("AuthorizationFailed")));
    assert!(denied.to_string().contains("Microsoft.Network/virtualNetworks/read"), "{denied}");
}

#[tokio::test]
async fn providers_are_registered_when_needed() {
    let t = target().await;
    let Some(sim) = t.only_sim("it unregisters a provider") else { return };
    let s = t.subscription_id().to_owned();
    let unregister =
        format!("/subscriptions/{s}/providers/Microsoft.ManagedIdentity/unregister?api-version=2021-04-01");
    let post = |target: String| t.client.send(azure::Call::new(http::Method::POST, target));
    let state = async || t.client.provider(&s, "Microsoft.ManagedIdentity").await.unwrap().registration_state;
    post(unregister.clone()).await.unwrap();
    assert_eq!(state().await.as_deref(), Some("NotRegistered"));
    let body = || serde_json::from_value(json!({"location": "westus2"})).unwrap();
    t.in_group("register", async |g: ResourceId| {
        let shy = ClientOptions { auto_register: false, ..ClientOptions::default() };
        let shy = connect(&t.env, shy).await.unwrap().client;
        let arm = shy.arm::<azure::ops::UserAssignedIdentities>();
        let refused = arm.put(&arm.id(&g, "i").unwrap(), &body()).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(409), Some("MissingSubscriptionRegistration")));
        let arm = t.client.arm::<azure::ops::UserAssignedIdentities>();
        let (a, b) = (arm.id(&g, "a").unwrap(), arm.id(&g, "b").unwrap());
        let (x, y) = (body(), body());
        let (a, b) = futures::join!(arm.put(&a, &x), arm.put(&b, &y));
        a.unwrap();
        b.unwrap();
        let registrations = sim
            .world()
            .journal()
            .iter()
            .filter(|e| {
                serde_json::to_string(e).unwrap().contains("Microsoft.ManagedIdentity/register/action")
            })
            .count();
        assert_eq!(registrations, 1, "once for both");
    })
    .await;
    assert_eq!(state().await.as_deref(), Some("Registered"));
}
