//! Every kind of trouble that the simulator can make: a client that asks once comes to grief, ours does not.
//!
//! Waiting moves the simulator's clock, so that `real` times pass in none.

use arm::ResourceId;
use azure::credential::{Confidential, Entra, Proof};
use azure::ops::{
    PublicIpAddresses, ResourceGroups, RoleAssignments, UserAssignedIdentities, VirtualNetworks,
};
use azure::{
    Client, ClientOptions, Cloud, Credential, Deleted, Error, Http, HttpError, HttpOptions, Pause, Secret,
    Timing,
};
use azure_sim::{AzureSim, Config, Each, FaultAnswer, Match, Profile, Rule, Stale, Then, When, Why, World};
use bytes::Bytes;
use clock::Random;
use futures::future::BoxFuture;
use http::Request;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Waiting that moves the simulator's clock.
struct Moves(Arc<World>);

impl Pause for Moves {
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.0.advance(SignedDuration::try_from(time).unwrap());
        Box::pin(tokio::task::yield_now())
    }
}

struct Lab {
    sim: AzureSim,
    http: Http,
    client: Client,
    group: ResourceId,
    token: String,
}

const READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";

impl Lab {
    async fn new(profile: Profile) -> Lab {
        let sim = AzureSim::start(Config { profile, ..Config::local(11) }).await.unwrap();
        let options = HttpOptions { extra_roots: vec![sim.ca_pem().to_owned()], ..HttpOptions::default() };
        let http = Http::new(&options).unwrap();
        let owner = sim.world().owner_login();
        let client = client(&sim, &http, &owner.0, &owner.1);
        let subscription = ResourceId::subscription_scope(sim.world().subscription()).unwrap();
        let groups = client.arm::<ResourceGroups>();
        let group = groups.id(&subscription, "g").unwrap();
        groups.put(&group, &body(json!({"location": "westus2"}))).await.unwrap();
        let token = sim.world().owner_token().await;
        Lab { sim, http, client, group, token }
    }

    /// With these troubles from now on.
    fn meets(&self, on: Match, then: Then) {
        self.sim.world().add_faults(vec![Rule::new("trouble", on, then)]).unwrap();
    }

    fn fired(&self) -> u64 {
        self.sim.world().faults().iter().filter_map(|f| f["fired"].as_u64()).sum()
    }

    /// Once, as it is, with a token that was good a moment ago.
    async fn naive(&self, method: &str, target: &str, body: Value) -> Result<(u16, Value), HttpError> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{target}", self.sim.arm_url()))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let answer = self.http.send(request).await?;
        Ok((answer.status.as_u16(), answer.json().unwrap_or_default()))
    }

    fn net(&self, name: &str) -> ResourceId {
        self.client.arm::<VirtualNetworks>().id(&self.group, name).unwrap()
    }

    async fn naive_put(&self, name: &str) -> Result<(u16, Value), HttpError> {
        self.naive("PUT", &format!("{}?api-version=2024-05-01", self.net(name)), network()).await
    }

    async fn put(&self, name: &str) -> Result<Value, Error> {
        let made = self.client.arm::<VirtualNetworks>().put(&self.net(name), &body(network())).await?;
        Ok(serde_json::to_value(made).unwrap())
    }

    /// All requests of ours come through: the network is there, once, and as it should be.
    async fn survives(&self) {
        let made = self.put("ours").await.unwrap();
        assert_eq!(made["properties"]["provisioningState"], "Succeeded", "{made}");
        self.sim.world().clear_faults();
        let all = self.client.arm::<VirtualNetworks>().list_all(&self.group).await.unwrap();
        let named: Vec<_> = all.iter().filter(|n| n.name.as_deref() == Some("ours")).collect();
        assert_eq!(named.len(), 1);
    }
}

fn client(sim: &AzureSim, http: &Http, id: &str, secret: &str) -> Client {
    let pause = Arc::new(Moves(sim.world().clone()));
    let timing = Timing { clock: clock::system(), random: Random::seeded(5), pause };
    let url = sim.arm_url();
    let cloud = Cloud::custom(&url, &url, &url).unwrap();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let source = Confidential::new(entra, sim.world().tenant(), id, Proof::Secret(Secret::new(secret)));
    let options = ClientOptions { timing: timing.clone(), ..ClientOptions::default() };
    Client::new(cloud, http.clone(), Credential::new(source, timing), options)
}

fn body<T: serde::de::DeserializeOwned>(v: Value) -> T {
    serde_json::from_value(v).unwrap()
}

fn network() -> Value {
    json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}})
}

/// The first request for each network.
fn first() -> Match {
    Match {
        method: Some("PUT".into()),
        kind: Some("Microsoft.Network/virtualNetworks".into()),
        nth: Some(1),
        each: Each::Id,
        ..Match::default()
    }
}

fn says(status: u16, code: &str) -> Then {
    Then::Answer(FaultAnswer {
        status,
        code: Some(code.to_owned()),
        message: None,
        detail: None,
        html: false,
        body: None,
        retry_after: None,
        headers: Default::default(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_that_pass() {
    let lab = Lab::new(Profile::Instant).await;
    for (status, code) in [
        (503, "ServiceUnavailable"),
        (504, "GatewayTimeout"),
        (500, "InternalServerError"),
        (409, "AnotherOperationInProgress"),
        (429, "RetryableError"),
    ] {
        lab.meets(first(), says(status, code));
        let (got, said) = lab.naive_put("naive").await.unwrap();
        assert_eq!((got, said["error"]["code"].as_str()), (status, Some(code)));
        lab.survives().await;
        lab.client.arm::<VirtualNetworks>().delete(&lab.net("ours")).await.unwrap();
    }
    lab.meets(first(), Then::Throttle(3));
    assert_eq!(lab.naive_put("naive").await.unwrap().0, 429);
    lab.survives().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_where_the_status_should_be() {
    let lab = Lab::new(Profile::Real).await;
    let html = FaultAnswer {
        html: true,
        ..match says(503, "") {
            Then::Answer(a) => a,
            other => panic!("{other:?}"),
        }
    };
    let poll = Match { id: Some("*/operations/*".into()), every: Some(2), ..Match::default() };
    lab.meets(poll, Then::Answer(html));
    lab.survives().await;
    lab.meets(Match { method: Some("GET".into()), ..Match::default() }, says(503, "ServiceUnavailable"));
    let target = format!("{}?api-version=2024-05-01", lab.net("ours"));
    assert_eq!(lab.naive("GET", &target, Value::Null).await.unwrap().0, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections() {
    let lab = Lab::new(Profile::Instant).await;
    for (when, done) in [(When::Before, false), (When::After, true)] {
        lab.meets(first(), Then::Drop(when));
        let naive = format!("naive{done}");
        assert!(lab.naive_put(&naive).await.unwrap_err().is_transient());
        assert_eq!(lab.client.arm::<VirtualNetworks>().exists(&lab.net(&naive)).await.unwrap(), done);
        lab.survives().await;
    }
    // What is deleted while nobody hears of it is deleted, not missing.
    let delete = Match { method: Some("DELETE".into()), nth: Some(1), ..Match::default() };
    lab.meets(delete, Then::Drop(When::After));
    let vnets = lab.client.arm::<VirtualNetworks>();
    vnets.delete(&lab.net("ours")).await.unwrap();
    assert_eq!(lab.fired(), 1);
    assert!(!vnets.exists(&lab.net("ours")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_die() {
    for then in [Then::ExpireToken, Then::RotateKeys(true)] {
        let lab = Lab::new(Profile::Instant).await;
        let on = Match { host: Some("arm".into()), nth: Some(1), ..Match::default() };
        lab.meets(on.clone(), then.clone());
        // Neither the request nor a repetition with the same token gets through.
        for _ in 0..2 {
            assert_eq!(lab.naive_put("naive").await.unwrap().0, 401, "{then:?}");
        }
        lab.sim.world().clear_faults();
        lab.meets(on, then);
        lab.survives().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_passes_takes_tokens_with_it() {
    let lab = Lab::new(Profile::Instant).await;
    lab.sim.world().advance(SignedDuration::from_hours(2));
    let (status, said) = lab.naive_put("naive").await.unwrap();
    assert_eq!((status, said["error"]["code"].as_str()), (401, Some("ExpiredAuthenticationToken")));
    lab.survives().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_yesterday() {
    let lab = Lab::new(Profile::Real).await;
    let reads = Match {
        method: Some("GET".into()),
        kind: Some("Microsoft.Network/virtualNetworks".into()),
        times: Some(2),
        ..Match::default()
    };
    lab.meets(reads.clone(), Then::Stale(Stale::Versions(1)));
    assert_eq!(lab.naive_put("naive").await.unwrap().0, 201);
    let target = format!("{}?api-version=2024-05-01", lab.net("naive"));
    assert_eq!(lab.naive("GET", &target, Value::Null).await.unwrap().0, 404, "it does not see its own write");
    lab.sim.world().clear_faults();
    lab.meets(reads, Then::Stale(Stale::Versions(1)));
    lab.survives().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_fail_at_their_end() {
    let lab = Lab::new(Profile::Real).await;
    lab.meets(
        first(),
        Then::FailLate(Why { code: "AllocationFailed".into(), message: Some("no room".into()) }),
    );
    assert_eq!(lab.naive_put("naive").await.unwrap().0, 201, "all is well, it thinks");
    let why = lab.put("ours").await.unwrap_err();
    assert!(matches!(&why, Error::Operation { detail, .. } if detail.code == "AllocationFailed"), "{why}");
    let left = lab.client.arm::<VirtualNetworks>().get(&lab.net("ours")).await.unwrap();
    assert_eq!(serde_json::to_value(left).unwrap()["properties"]["provisioningState"], "Failed");
    // What is left can be repaired by the same call.
    lab.survives().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_done() {
    let lab = Lab::new(Profile::Instant).await;
    let why = || Why { code: "InternalServerError".into(), message: None };
    lab.meets(first(), Then::Partial(why()));
    assert_eq!(lab.naive_put("naive").await.unwrap().0, 500);
    lab.survives().await;
    for i in 0..4 {
        lab.put(&format!("n{i}")).await.unwrap();
    }
    let delete = Match {
        method: Some("DELETE".into()),
        kind: Some("Microsoft.Resources/resourceGroups".into()),
        nth: Some(1),
        ..Match::default()
    };
    lab.meets(delete, Then::Partial(why()));
    let groups = lab.client.arm::<ResourceGroups>();
    let refused = groups.delete(&lab.group).await.unwrap_err();
    assert_eq!(refused.code(), Some("InternalServerError"), "{refused}");
    let left = lab.client.arm::<VirtualNetworks>().list_all(&lab.group).await.unwrap().len();
    assert!((1..6).contains(&left), "{left} are left");
    assert_eq!(groups.delete(&lab.group).await.unwrap(), Deleted::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers() {
    let lab = Lab::new(Profile::Instant).await;
    lab.meets(first(), Then::Delay(300));
    let hasty = Lab { http: lab.http.with_timeout(Duration::from_millis(50)), ..lab };
    assert!(matches!(hasty.naive_put("naive").await, Err(HttpError::Timeout { .. })));
    hasty.survives().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_patience_helps_against_is_said_at_once() {
    let lab = Lab::new(Profile::Real).await;
    let addresses = lab.client.arm::<PublicIpAddresses>();
    let address = |zone: &str| -> <PublicIpAddresses as azure::ops::ArmType>::Body {
        body(
            json!({"location": "westus2", "sku": {"name": "Standard"}, "zones": [zone], "properties": {"publicIPAllocationMethod": "Static"}}),
        )
    };
    let kind = Some("Microsoft.Network/publicIPAddresses".to_owned());
    let zone = Match { kind: kind.clone(), zone: Some("1".into()), ..Match::default() };
    lab.meets(zone, Then::FailLate(Why { code: "ZonalAllocationFailed".into(), message: None }));
    let id = |name: &str| addresses.id(&lab.group, name).unwrap();
    let out = addresses.put(&id("one"), &address("1")).await.unwrap_err();
    assert!(out.has_code("ZonalAllocationFailed"), "{out}");
    addresses.put(&id("two"), &address("2")).await.unwrap();
    lab.sim.world().clear_faults();
    lab.meets(Match { kind, ..Match::default() }, says(400, "PublicIPCountLimitReached"));
    let full = addresses.put(&id("three"), &address("2")).await.unwrap_err();
    assert_eq!(full.refused().map(|r| (r.status, r.attempts)), Some((400, 1)), "{full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_arrive_late() {
    let lab = Lab::new(Profile::Real).await;
    let world = lab.sim.world();
    // Time passes only while the client waits: however slow this machine is, the right has not arrived before.
    world.run_clock_at(0.0).unwrap();
    let (app, object) = world.add_app("robot", "s3cret", Vec::new());
    let role = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/{READER}",
        world.subscription()
    );
    let given = json!({"properties": {"roleDefinitionId": role, "principalId": object, "principalType": "ServicePrincipal"}});
    let assignments = lab.client.arm::<RoleAssignments>();
    let id = assignments.id(&lab.group, "11111111-1111-4111-8111-111111111111").unwrap();
    assignments.put(&id, &body(given)).await.unwrap();
    // The list knows at once, enforcement does not.
    assert!(assignments.find(&id).await.unwrap().is_some());
    let robot = client(&lab.sim, &lab.http, &app, "s3cret");
    let refused = robot.arm::<ResourceGroups>().get(&lab.group).await.unwrap_err();
    assert_eq!(refused.code(), Some("AuthorizationFailed"), "{refused}");
    let patient = robot.settling(Duration::from_secs(600));
    patient.arm::<ResourceGroups>().get(&lab.group).await.unwrap();
    // What was never given is not waited for beyond the window.
    let lock = patient.settling(Duration::from_secs(20)).arm::<VirtualNetworks>();
    let refused = lock.put(&lab.net("ours"), &body(network())).await.unwrap_err();
    assert_eq!(refused.status(), Some(403));
}

#[tokio::test(flavor = "multi_thread")]
async fn principals_that_arrive_late() {
    let lab = Lab::new(Profile::Real).await;
    let identities = lab.client.arm::<UserAssignedIdentities>();
    let id = identities.id(&lab.group, "robot").unwrap();
    let made = identities.put(&id, &body(json!({"location": "westus2"}))).await.unwrap();
    let made = serde_json::to_value(made).unwrap();
    let role = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/{READER}",
        lab.sim.world().subscription()
    );
    // Without a principalType the directory is asked, and does not know yet.
    let given =
        json!({"properties": {"roleDefinitionId": role, "principalId": made["properties"]["principalId"]}});
    let target = |n: &str| {
        format!("{}/providers/Microsoft.Authorization/roleAssignments/{n}?api-version=2022-04-01", lab.group)
    };
    let name = "22222222-2222-4222-8222-222222222222";
    let (status, said) = lab.naive("PUT", &target(name), given.clone()).await.unwrap();
    assert_eq!((status, said["error"]["code"].as_str()), (400, Some("PrincipalNotFound")), "{said}");
    let call = azure::Call::new(http::Method::PUT, target(name)).body(given);
    lab.client.settling(Duration::from_secs(120)).send(call).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_has_not_heard() {
    let lab = Lab::new(Profile::Real).await;
    let graph = lab.client.graph();
    let app = graph.create_application(&body(json!({"displayName": "robot"}))).await.unwrap();
    let app = serde_json::to_value(app).unwrap();
    let id = app["appId"].as_str().unwrap();
    assert!(graph.service_principal_of(id).await.unwrap().is_none());
    // Ours tries until Graph has heard of the application.
    graph.create_service_principal(id).await.unwrap();
}

/// A whole day of it: networks, groups, an identity, and everything gone in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_day() {
    let lab = Lab::new(Profile::BadDay).await;
    let made = futures::future::join_all((0..12).map(|i| {
        let lab = &lab;
        async move { lab.put(&format!("n{i}")).await }
    }))
    .await;
    for (i, m) in made.into_iter().enumerate() {
        assert_eq!(m.unwrap_or_else(|e| panic!("n{i}: {e}"))["properties"]["provisioningState"], "Succeeded");
    }
    assert!(lab.fired() > 5, "{:?}", lab.sim.world().faults());
    assert_eq!(lab.client.arm::<ResourceGroups>().delete(&lab.group).await.unwrap(), Deleted::Done);
    let leaks = lab.sim.world().leaks();
    assert_eq!(leaks["value"].as_array().map(Vec::len), Some(0), "{leaks}");
    let named = lab.sim.world().journal().iter().filter(|e| e.fault.is_some()).count();
    assert!(named > 5);
}
