//! Faults, the clock and lags, as those see them who make them.

use crate::client::ask;
use crate::support::{call, code, lab, lab_with};
use azure_sim::{AzureSim, Config, FetchError, Issuers, Profile};
use jiff::SignedDuration;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

async fn admin(sim: &AzureSim, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = ask("", method, &format!("{}{path}", sim.admin_url()), &[], body.to_owned()).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn rules_through_the_admin_api() {
    let sim = AzureSim::start(Config::local(3)).await.unwrap();
    let rule = r#"{"name":"off","match":{"host":"arm","method":"PUT"},"then":{"answer":{"status":503,"html":true}}}"#;
    assert_eq!(admin(&sim, "POST", "/faults", rule).await, (201, json!({"added": ["off"]})));
    let (status, said) = admin(&sim, "POST", "/faults", rule).await;
    assert!(status == 400 && said["error"].as_str().unwrap().contains("already"), "{said}");
    let token = sim.world().owner_token().await;
    let auth = format!("Bearer {token}");
    let url = format!(
        "{}/subscriptions/{}/resourceGroups/g?api-version=2021-04-01",
        sim.arm_url(),
        sim.world().subscription()
    );
    let put = async || {
        let headers = [("authorization", auth.as_str())];
        ask(sim.ca_pem(), "PUT", &url, &headers, r#"{"location":"westus2"}"#).await
    };
    let page = put().await;
    assert_eq!((page.status, page.header("content-type")), (503, Some("text/html")));
    assert!(page.header("x-ms-request-id").is_some());
    let entry = sim.world().journal().pop().unwrap();
    assert_eq!((entry.status, entry.fault.as_deref()), (503, Some("off")));
    let (_, list) = admin(&sim, "GET", "/faults", "").await;
    assert_eq!((&list["value"][0]["met"], &list["value"][0]["fired"]), (&json!(1), &json!(1)));
    assert_eq!(admin(&sim, "DELETE", "/faults/other", "").await.0, 404);
    assert_eq!(admin(&sim, "DELETE", "/faults/off", "").await, (200, json!({"removed": 1})));
    assert_eq!(put().await.status, 201);

    for (body, says) in [
        ("{", "not a fault rule"),
        (r#"{"then":"explode"}"#, "explode"),
        (r#"{"name":"x","match":{"probability":7},"then":"expireToken"}"#, "probability"),
    ] {
        let (status, said) = admin(&sim, "POST", "/faults", body).await;
        assert!(status == 400 && said["error"].as_str().unwrap().contains(says), "{said}");
    }
    let (status, said) = admin(&sim, "POST", "/faults?preset=sunshine", "").await;
    assert!(status == 400 && said["error"].as_str().unwrap().contains("presets"), "{said}");
    let (_, presets) = admin(&sim, "GET", "/faults/presets", "").await;
    for p in presets["value"].as_array().unwrap() {
        let name = p["name"].as_str().unwrap();
        assert_eq!(admin(&sim, "POST", &format!("/faults?preset={name}"), "").await.0, 201, "{name}");
    }
    let (_, gone) = admin(&sim, "DELETE", "/faults", "").await;
    assert!(gone["removed"].as_u64().unwrap() >= 20);
    // A fork meets what its origin meets, and counts for itself.
    admin(&sim, "POST", "/faults", rule).await;
    let fork = sim.fork().await.unwrap();
    assert_eq!(fork.world().faults()[0]["fired"], 0);
    sim.world().clear_faults();
    assert_eq!(fork.world().faults().len(), 1);
}

#[tokio::test]
async fn the_clock_through_the_admin_api() {
    let sim = AzureSim::start(Config { profile: Profile::Real, ..Config::local(3) }).await.unwrap();
    for (path, says) in [
        ("/clock", "say what"),
        ("/clock?scale=fast", "number"),
        ("/clock?scale=-1", "stands still"),
        ("/clock?mode=lunar", "lunar"),
        ("/clock?advance=soon", "whole seconds"),
        ("/clock/advance?seconds=x", "whole number"),
    ] {
        let (status, said) = admin(&sim, "POST", path, "").await;
        assert!(status == 400 && said["error"].as_str().unwrap().contains(says), "{path}: {said}");
    }
    assert_eq!(admin(&sim, "POST", "/clock/next", "").await.0, 409, "nothing happens by itself");
    let (_, still) = admin(&sim, "POST", "/clock?mode=virtual", "").await;
    assert_eq!((&still["mode"], &still["scale"]), (&json!("virtual"), &json!(0.0)));
    let world = sim.world();
    let token = world.owner_token().await;
    let group = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
    world.arm(&call(
        "PUT",
        &format!("{group}?api-version=2021-04-01"),
        &token,
        Some(&json!({"location": "westus2"})),
    ));
    let zone = format!("{group}/providers/Microsoft.Network/privateDnsZones/a.test?api-version=2024-06-01");
    let made = world.arm(&call("PUT", &zone, &token, Some(&json!({"location": "global"}))));
    assert_eq!(made.status, 202);
    let (before, wall) = (world.now(), std::time::Instant::now());
    let (_, next) = admin(&sim, "POST", "/clock/next", "").await;
    let took = world.now().duration_since(before).as_secs_f64();
    assert!((10.0..=38.0).contains(&took), "a private zone takes about 35 s, not {took}: {next}");
    assert!(wall.elapsed().as_secs() < 10);
    let zone = world.arm(&call("GET", &zone, &token, None));
    assert_eq!(zone.body.unwrap()["properties"]["provisioningState"], "Succeeded");
    let (_, body) = admin(&sim, "POST", "/clock", r#"{"mode":"scaled","scale":50,"advance":60}"#).await;
    assert_eq!((&body["mode"], &body["scale"]), (&json!("scaled"), &json!(50.0)));
    let (_, top) = admin(&sim, "GET", "/top", "").await;
    assert_eq!((&top["byStatus"]["202"], &top["operationsInFlight"]), (&json!(1), &json!(0)), "{top}");
}

/// The clock runs ahead of the machine's; tokens are dated for those who have only that one.
#[tokio::test]
async fn tokens_are_dated_by_the_wall() {
    let lab = lab(Profile::Instant).await;
    let claims = |token: &str| -> Value {
        use base64::Engine;
        let part = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap())
            .unwrap()
    };
    let wall = 1_700_000_000_i64;
    lab.world.run_clock_at(100.0).unwrap();
    lab.pass(60);
    assert_eq!(lab.world.now().as_second(), wall + 6_000);
    // An hour and more passed here, a minute there: a token of before is still good.
    let url = format!("/subscriptions/{}/resourceGroups/g?api-version=2021-04-01", lab.world.subscription());
    assert_eq!(lab.ask("GET", &url, None).status, 404);
    let c = claims(&lab.world.owner_token().await);
    assert_eq!((c["nbf"].as_i64(), c["exp"].as_i64()), (Some(wall + 60), Some(wall + 660)));
    // Moved by hand, it takes the time off what exists; new ones are as good as ever.
    let fresh = lab.world.owner_token().await;
    lab.world.advance(SignedDuration::from_secs(700));
    assert_eq!(code(&lab.ask_as(&fresh, "GET", &url, None)), "ExpiredAuthenticationToken");
    let after = lab.world.owner_token().await;
    assert_eq!(claims(&after)["nbf"].as_i64(), Some(wall + 60), "still the wall's time");
    assert_eq!(code(&lab.ask_as(&after, "GET", &url, None)), "ResourceGroupNotFound");
}

struct Published(Value);

impl Issuers for Published {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>> {
        let document = json!({"issuer": "https://issuer.test/", "jwks_uri": "https://issuer.test/keys"});
        let answer = if url.ends_with("/keys") { self.0.clone() } else { document };
        Box::pin(async move { Ok(answer) })
    }
}

/// Servers of Entra ID learn of a federated credential one by one: in between, it depends on whom one meets.
#[tokio::test]
async fn replicas_disagree_and_then_agree() {
    let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some("k".into());
    let lab = lab_with(Profile::Real, Arc::new(Published(json!({"keys": [jwk]})))).await;
    let g = lab.group("g");
    let at = format!("{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let made = lab.ask("PUT", &format!("{at}?api-version=2024-11-30"), Some(&json!({"location": "westus2"})));
    let client = made.body.unwrap()["properties"]["clientId"].as_str().unwrap().to_owned();
    let fic = json!({"properties": {"issuer": "https://issuer.test/", "subject": "sa:x", "audiences": ["openshift"]}});
    let made =
        lab.ask("PUT", &format!("{at}/federatedIdentityCredentials/fic?api-version=2024-11-30"), Some(&fic));
    assert_eq!(made.status, 201);
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some("k".into());
    let claims =
        json!({"iss": "https://issuer.test/", "sub": "sa:x", "aud": "openshift", "exp": 1_700_005_000_i64});
    let assertion = jsonwebtoken::encode(&header, &claims, &key).unwrap();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("grant_type", "client_credentials"),
            ("client_id", &client),
            ("scope", "https://management.azure.com/.default"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
        ])
        .finish();
    let mut story = Vec::new();
    for _ in 0..32 {
        let mut good = 0;
        for _ in 0..16 {
            let mut ask = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
            ask.body = form.clone().into();
            let reply = lab.world.login(&ask).await;
            if reply.status != 200 {
                let said = reply.body.unwrap();
                assert_eq!(said["error_codes"][0], 700_211, "{said}");
            }
            good += u32::from(reply.status == 200);
        }
        story.push(good);
        lab.pass(10);
    }
    assert_eq!((story[0], story[31]), (0, 16), "{story:?}");
    assert!(story.iter().any(|n| (1..16).contains(n)), "they flap in between: {story:?}");
}

/// Operations take the measured times, each its own, the same again with the same seed.
#[tokio::test]
async fn each_operation_takes_its_own_time() {
    let ends = async || {
        let lab = lab(Profile::Real).await;
        let g = lab.group("g");
        let mut spans = Vec::new();
        for i in 0..8 {
            let url = format!("{g}/providers/Microsoft.Network/virtualNetworks/n{i}?api-version=2024-03-01");
            let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
            let made = lab.ask("PUT", &url, Some(&body));
            assert_eq!(made.headers["retry-after"], "3");
            let before = lab.world.now();
            lab.world.advance_to_next().unwrap();
            spans.push(lab.world.now().duration_since(before).as_millis());
        }
        spans
    };
    let (a, b) = (ends().await, ends().await);
    assert_eq!(a, b);
    let mut distinct = a.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 4, "{a:?}");
    assert!(a.iter().all(|ms| (1_000..=11_000).contains(ms)), "{a:?}");
}
