//! What goes wrong on the way, from a server that makes it go wrong.

use crate::server::{Reply, Seen, Server, say, start};
use azure::credential::{Confidential, Entra, Proof};
use azure::{
    Budget, Budgets, Call, Client, ClientOptions, Cloud, Credential, Error, Http, HttpOptions, Pause, Secret,
    Timing,
};
use clock::{ManualClock, Random};
use futures::future::BoxFuture;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Waiting that moves the clock and is written down.
pub struct Hasty {
    clock: Arc<ManualClock>,
    pub waits: Mutex<Vec<Duration>>,
}

impl Pause for Hasty {
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.waits.lock().push(time);
        self.clock.advance(SignedDuration::try_from(time).unwrap());
        Box::pin(tokio::task::yield_now())
    }
}

fn slow_clock() -> (Timing, Arc<Hasty>) {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    let hasty = Arc::new(Hasty { clock: clock.clone(), waits: Mutex::default() });
    (Timing { clock, random: Random::seeded(3), pause: hasty.clone() }, hasty)
}

/// The machine's clock, but nothing waits.
pub fn hasty() -> Timing {
    let (timing, _) = slow_clock();
    Timing { pause: timing.pause, ..Timing::system() }
}

pub struct Lab {
    pub client: Client,
    server: Server,
    hasty: Arc<Hasty>,
}

const SECRET: &str = "hunter2-secret";

/// A server that gives tokens `t0`, `t1`… and else answers by the script; after its end, 200 `{}`.
async fn lab_with(script: Vec<Reply>, change: impl FnOnce(&mut ClientOptions)) -> Lab {
    let script = Mutex::new(VecDeque::from(script));
    let tokens = std::sync::atomic::AtomicUsize::new(0);
    let server = start(true, move |seen: &Seen| {
        if seen.path.ends_with("/oauth2/v2.0/token") {
            let n = tokens.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return say(
                200,
                json!({"token_type": "Bearer", "expires_in": 3599, "access_token": format!("t{n}")}),
            );
        }
        script.lock().pop_front().unwrap_or_else(|| say(200, "{}"))
    })
    .await;
    let (timing, hasty) = slow_clock();
    let mut options = ClientOptions { timing: timing.clone(), ..ClientOptions::default() };
    change(&mut options);
    let http =
        HttpOptions { extra_roots: vec![server.ca_pem.clone()], max_body: 100_000, ..HttpOptions::default() };
    let http = Http::new(&http).unwrap();
    let cloud = Cloud::custom(&server.url, &server.url, &server.url).unwrap();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let source = Confidential::new(entra, "tenant", "client", Proof::Secret(Secret::new(SECRET)));
    let client = Client::new(cloud, http, Credential::new(source, timing), options);
    Lab { client, server, hasty }
}

pub async fn lab(script: Vec<Reply>) -> Lab {
    lab_with(script, |_| {}).await
}

impl Lab {
    async fn get(&self) -> Result<azure::Answer, Error> {
        self.client.send(Call::get("/subscriptions/s/x?api-version=2024-01-01&sig=private")).await
    }

    pub fn calls(&self) -> Vec<Seen> {
        self.server.seen.lock().iter().filter(|s| !s.path.ends_with("/token")).cloned().collect()
    }

    pub fn waits(&self) -> Vec<Duration> {
        self.hasty.waits.lock().clone()
    }
}

const HTML: &str = "<html><body>Our services aren't available right now</body></html>";

#[tokio::test]
async fn troubles_pass() {
    let date = "Tue, 14 Nov 2023 22:13:30 GMT";
    let lab = lab(vec![
        Reply::Say { status: 503, headers: vec![("content-type", "text/html".into())], body: HTML.into() },
        say(429, json!({"error": {"code": "SubscriptionRequestsThrottled", "message": "m"}}))
            .with("retry-after", "7"),
        Reply::Drop,
        Reply::Half,
        say(500, ""),
        say(429, json!({"error": {"code": "429", "message": "m"}})).with("x-ms-retry-after-ms", "1500"),
    ])
    .await;
    lab.get().await.unwrap();
    let calls = lab.calls();
    assert_eq!(calls.len(), 7);
    let waits = lab.waits();
    let within = |w: Duration, s: f64| {
        assert!((w.as_secs_f64() - s).abs() <= 0.25 * s + 0.01, "{waits:?}: {w:?} is not about {s} s")
    };
    within(waits[0], 0.8);
    assert!(waits[1] >= Duration::from_secs(7) && waits[1] <= Duration::from_millis(7700), "{waits:?}");
    within(waits[2], 3.2);
    assert!(waits.last().unwrap() >= &Duration::from_millis(1500));
    // One operation, seven requests.
    let correlations: std::collections::BTreeSet<_> =
        calls.iter().map(|c| c.header("x-ms-correlation-request-id").unwrap().to_owned()).collect();
    let requests: std::collections::BTreeSet<_> =
        calls.iter().map(|c| c.header("x-ms-client-request-id").unwrap().to_owned()).collect();
    assert_eq!((correlations.len(), requests.len()), (1, 7));
    assert!(calls[0].header("user-agent").unwrap().starts_with("zaffre/"));
    assert_eq!(calls[0].header("authorization"), Some("Bearer t0"));

    let by_date = self::lab(vec![say(503, "").with("retry-after", date)]).await;
    by_date.get().await.unwrap();
    let wait = by_date.waits()[0];
    assert!(wait >= Duration::from_secs(10) && wait <= Duration::from_secs(11), "{wait:?}");
}

#[tokio::test]
async fn trouble_that_stays_is_an_error_after_a_bounded_while() {
    let page =
        || Reply::Say { status: 503, headers: vec![("x-ms-request-id", "r1".into())], body: HTML.into() };
    let lab = lab((0..50).map(|_| page()).collect()).await;
    let error = lab.get().await.unwrap_err();
    assert_eq!(lab.calls().len(), 7);
    assert!(error.is_transient());
    let refused = error.refused().unwrap();
    assert_eq!((refused.status, refused.attempts, refused.request_id.as_str()), (503, 7, "r1"));
    let text = error.to_string();
    assert!(
        text.contains("ServiceUnavailable") && !text.contains("<html>") && !text.contains("sig=private"),
        "{text}"
    );

    let long = self::lab(vec![say(429, "").with("retry-after", "3600")]).await;
    let error = long.get().await.unwrap_err();
    assert_eq!(
        (long.calls().len(), error.refused().unwrap().retry_after),
        (1, Some(Duration::from_secs(600))),
        "nobody waits that long"
    );

    let dropped = self::lab((0..50).map(|_| Reply::Drop).collect()).await;
    assert!(matches!(dropped.get().await.unwrap_err(), Error::Send { attempts: 7, .. }));
}

#[tokio::test]
async fn what_may_have_happened_is_not_repeated() {
    let post = || Call::new(Method::POST, "/subscriptions/s/x/act").body(json!({}));
    let lab = lab(vec![Reply::Drop]).await;
    assert!(lab.client.send(post()).await.is_err());
    assert_eq!(lab.calls().len(), 1);
    let refused = self::lab(vec![say(503, ""), say(504, "")]).await;
    assert_eq!(refused.client.send(post()).await.unwrap_err().status(), Some(504));
    assert_eq!(refused.calls().len(), 2, "refused is safe to repeat, a timeout is not");
    let told = self::lab(vec![Reply::Drop]).await;
    told.client.send(post().repeatable()).await.unwrap();
    assert_eq!(told.calls().len(), 2);
}

#[tokio::test]
async fn bodies_are_bounded_and_may_be_empty() {
    let lab = lab(vec![say(200, "x".repeat(200_000)), say(200, "")]).await;
    let large = lab.get().await.unwrap_err();
    assert!(matches!(large, Error::Send { attempts: 1, .. }) && !large.is_transient(), "{large}");
    assert!(lab.get().await.unwrap().body.is_empty());
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let expired = || say(401, json!({"error": {"code": "ExpiredAuthenticationToken", "message": "m"}}));
    let lab = lab(vec![expired()]).await;
    lab.get().await.unwrap();
    let used: Vec<String> =
        lab.calls().iter().map(|c| c.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(used, ["Bearer t0", "Bearer t1"]);
    lab.get().await.unwrap();
    assert_eq!(lab.calls()[2].header("authorization"), Some("Bearer t1"), "and kept");

    let stays = self::lab(vec![expired(), expired(), expired()]).await;
    assert_eq!(stays.get().await.unwrap_err().status(), Some(401));
    assert_eq!(stays.calls().len(), 2);

    // Continuous access evaluation: the claims that the service demands go to the token endpoint.
    let claims = "eyJhY2Nlc3NfdG9rZW4iOnsibmJmIjp7ImVzc2VudGlhbCI6dHJ1ZSwidmFsdWUiOiI0MiJ9fX0=";
    let challenge = format!(r#"Bearer realm="", error="insufficient_claims", claims="{claims}""#);
    let cae = self::lab(vec![say(401, "").with("www-authenticate", challenge)]).await;
    cae.get().await.unwrap();
    let asked: Vec<Seen> =
        cae.server.seen.lock().iter().filter(|s| s.path.ends_with("/token")).cloned().collect();
    assert_eq!(asked.len(), 2);
    assert!(!asked[0].body.contains("nbf") && asked[0].body.contains("cp1"));
    assert!(asked[1].body.contains("nbf") && asked[1].body.contains("42") && asked[1].body.contains("cp1"));
}

#[tokio::test]
async fn budgets_are_kept_and_shared() {
    let budgets = Budgets::new(Budget { reads: (2.0, 1.0), ..Budget::default() });
    let lab = lab_with(Vec::new(), |o| o.budgets = budgets).await;
    let other = lab.client.clone();
    for _ in 0..2 {
        lab.get().await.unwrap();
        other.send(Call::get("/subscriptions/S/y")).await.unwrap();
    }
    assert_eq!(lab.waits().len(), 2, "two at once, then one a second: {:?}", lab.waits());

    // Others use the same budget: what an answer says is left, is left.
    let told = self::lab(vec![say(200, "{}").with("x-ms-ratelimit-remaining-subscription-reads", "0")]).await;
    told.get().await.unwrap();
    told.get().await.unwrap();
    assert_eq!(told.waits(), [Duration::from_millis(40)]);
    told.client.send(Call::get("/subscriptions/another/x")).await.unwrap();
    assert_eq!(told.waits().len(), 1);
}

#[tokio::test]
async fn the_token_endpoint_has_bad_days_too() {
    let answers = Mutex::new(VecDeque::from([
        say(503, HTML),
        Reply::Drop,
        say(429, json!({"error": "temporarily_unavailable"})).with("retry-after", "2"),
        say(200, json!({"expires_in": 10, "access_token": "t"})),
    ]));
    let server = start(true, move |_| answers.lock().pop_front().unwrap_or(Reply::Drop)).await;
    let (timing, hasty) = slow_clock();
    let http = Http::new(&HttpOptions { extra_roots: vec![server.ca_pem.clone()], ..HttpOptions::default() })
        .unwrap();
    let cloud = Cloud::custom(&server.url, &server.url, &server.url).unwrap();
    let entra = Entra { http, login: cloud.login, timing: timing.clone() };
    let credential =
        Credential::new(Confidential::new(entra, "t", "c", Proof::Secret(Secret::new(SECRET))), timing);
    let ask = azure::credential::TokenRequest::new("https://management.azure.com/.default");
    credential.token(&ask).await.unwrap();
    assert_eq!(hasty.waits.lock().len(), 3);
    assert!(server.seen.lock()[0].body.contains(SECRET), "it is sent");
    assert!(!format!("{credential:?}").contains(SECRET), "and not shown");
}

#[tokio::test]
async fn foreign_operations_get_no_token() {
    let lab = lab(vec![say(202, "").with("location", "https://evil.test/steal")]).await;
    let begun =
        lab.client.begin::<serde_json::Value>(Call::new(Method::DELETE, "/subscriptions/s/x")).await.unwrap();
    let mut begun = begun;
    let error = begun.wait_raw().await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let silent = self::lab(vec![say(202, "")]).await;
    let error = silent
        .client
        .begin::<serde_json::Value>(Call::new(Method::DELETE, "/subscriptions/s/x"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoPolling { .. }));
    let circle = say(200, json!({"value": [1], "nextLink": "/subscriptions?api-version=2022-12-01"}));
    let round = self::lab(vec![circle.clone(), circle]).await;
    let all: Result<Vec<_>, _> = futures::TryStreamExt::try_collect(round.client.subscriptions()).await;
    assert!(matches!(all.unwrap_err(), Error::Pages { .. }));
}

/// What is written while a call goes wrong in every way.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_have_no_secrets() {
    let sink = Sink::default();
    let writer = sink.clone();
    // For the whole process: a subscriber of one thread misses events that another thread saw first.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("azure=trace")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let lab = lab(vec![
        say(503, HTML),
        say(401, ""),
        Reply::Drop,
        say(404, json!({"error": {"code": "x", "message": "m"}})),
    ])
    .await;
    lab.get().await.unwrap_err();
    let text = String::from_utf8(sink.0.lock().clone()).unwrap();
    assert!(
        text.contains("/subscriptions/s/x") && text.contains("trying again") && text.contains("status=404"),
        "{text}"
    );
    for secret in [SECRET, "Bearer", "sig=private", "client_secret"] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
}

#[tokio::test]
async fn an_operation_outlasts_an_outage() {
    let mut script = vec![say(202, "").with("location", "/op").with("retry-after", "1")];
    // Three whole rounds of retries fail before the service is back.
    script.extend((0..21).map(|_| say(503, HTML)));
    script.push(say(202, "").with("retry-after", "1"));
    script.push(say(200, json!({"id": "/x", "properties": {"provisioningState": "Succeeded"}})));
    let lab = lab(script).await;
    let call = Call::new(Method::PUT, "/subscriptions/s/x").body(json!({}));
    let mut begun = lab.client.begin::<serde_json::Value>(call).await.unwrap();
    assert!(begun.wait_raw().await.unwrap().is_some());
    let gone = self::lab(
        [vec![say(202, "").with("location", "/op")], (0..200).map(|_| say(503, HTML)).collect()].concat(),
    )
    .await;
    let call = Call::new(Method::PUT, "/subscriptions/s/x").body(json!({}));
    let mut begun = gone.client.begin::<serde_json::Value>(call).await.unwrap();
    assert!(begun.wait_raw().await.unwrap_err().is_transient());
    assert!(!begun.is_done(), "and can be resumed");
}

#[tokio::test]
async fn actions_go_to_their_name_and_wait() {
    let lab = lab(vec![
        say(202, "").with("location", "/subscriptions/s/result").with("retry-after", "1"),
        say(202, ""),
        say(200, json!({"answer": 42})),
    ])
    .await;
    let arm = lab.client.arm::<azure::ops::PublicIpAddresses>();
    let group = arm::ResourceId::group_scope("s", "g").unwrap();
    let id = arm.id(&group, "p").unwrap();
    let got: serde_json::Value =
        arm.action(&id, "ddosProtectionStatus", Some(json!({"q": 1}))).await.unwrap();
    assert_eq!(got["answer"], 42);
    let calls = lab.calls();
    assert_eq!(calls[0].path, format!("{id}/ddosProtectionStatus?api-version=2024-05-01"));
    assert_eq!((calls[0].body.as_str(), calls[2].path.as_str()), (r#"{"q":1}"#, "/subscriptions/s/result"));
    assert_eq!(
        calls[0].header("x-ms-correlation-request-id"),
        calls[2].header("x-ms-correlation-request-id")
    );
}
