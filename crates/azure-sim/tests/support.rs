//! A world on a clock that stands still, and short ways to ask it things.

use azure_sim::{Call, HttpsIssuers, Issuers, Profile, Reply, World};
use bytes::Bytes;
use clock::ManualClock;
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::sync::Arc;

pub struct Lab {
    pub world: World,
    pub clock: Arc<ManualClock>,
    pub token: String,
}

pub const BASE: &str = "https://management.azure.com";

pub async fn lab(profile: Profile) -> Lab {
    lab_with(profile, Arc::new(HttpsIssuers::new(&[]))).await
}

pub async fn lab_with(profile: Profile, issuers: Arc<dyn Issuers>) -> Lab {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    let world = World::new(7, profile, None, &[], issuers, clock.clone()).unwrap();
    let token = world.owner_token().await;
    Lab { world, clock, token }
}

pub fn call(method: &str, url: &str, token: &str, body: Option<&Value>) -> Call {
    let url = if url.starts_with("https:") { url.to_owned() } else { format!("{BASE}{url}") };
    let url = url::Url::parse(&url).unwrap();
    let mut headers = HeaderMap::new();
    if !token.is_empty() {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let path = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy().into_owned();
    Call {
        method: method.parse().unwrap(),
        path,
        query: url.query_pairs().into_owned().collect(),
        headers,
        body: body.map_or_else(Bytes::new, |b| serde_json::to_vec(b).unwrap().into()),
        base: BASE.to_owned(),
    }
}

impl Lab {
    pub fn ask(&self, method: &str, url: &str, body: Option<&Value>) -> Reply {
        self.world.arm(&call(method, url, &self.token, body))
    }

    pub fn ask_as(&self, token: &str, method: &str, url: &str, body: Option<&Value>) -> Reply {
        self.world.arm(&call(method, url, token, body))
    }

    pub fn group(&self, name: &str) -> String {
        let id = format!("/subscriptions/{}/resourceGroups/{name}", self.world.subscription());
        let made = self.ask(
            "PUT",
            &format!("{id}?api-version=2021-04-01"),
            Some(&serde_json::json!({"location": "westus2"})),
        );
        assert!(made.status.is_success(), "{made:?}");
        id
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }
}

pub fn code(reply: &Reply) -> String {
    let body = reply.body.as_ref();
    body.and_then(|b| b["error"]["code"].as_str()).unwrap_or_default().to_owned()
}
