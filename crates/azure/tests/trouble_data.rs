//! The same troubles at the doors of vaults, accounts and registries: whoever asks once comes to grief, ours does not.

use crate::support::{Target, target};
use azure::blob::{Access, Container, PutOptions, UploadOptions};
use azure::credential::TokenRequest;
use azure::oci::{Digest, Images, Reference};
use azure::ops::*;
use azure::vault::{Algorithm, KeyKind, NewKey, SetSecret, Vault};
use azure::{
    Call, Client, ClientOptions, Error, Http, HttpError, HttpOptions, Pause, RetryPolicy, Timing, connect,
};
use azure_sim::{FaultAnswer, Match, Rule, Then, When, Why};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const VAULT_ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
const BLOB_CONTRIBUTOR: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
const PUSH: &str = "8311e382-0749-4cb8-b61a-304f252e45ec";

/// Waits a moment, whatever is asked: the simulator's own waits are short already.
struct Brief;

impl Pause for Brief {
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time.min(Duration::from_millis(2))))
    }
}

struct Lab {
    t: Target,
    client: Client,
    http: Http,
    container: Container,
    vault: Vault,
    images: Images,
    repository: Reference,
}

async fn lab() -> Option<Lab> {
    let t = target().await;
    let sim = t.only_sim("trouble is made by hand")?;
    let group: arm::ResourceId = format!("{}/resourceGroups/g", t.subscription).parse().unwrap();
    let body = |v: Value| serde_json::from_value(v).unwrap();
    t.client
        .arm::<ResourceGroups>()
        .put(&group, &serde_json::from_value(json!({"location": "westus2"})).unwrap())
        .await
        .unwrap();
    let accounts = t.client.arm::<StorageAccounts>();
    let account = accounts.id(&group, "troubled").unwrap();
    accounts
        .put(&account, &body(json!({"location": "westus2", "sku": {"name": "Standard_LRS"}})))
        .await
        .unwrap();
    let vaults = t.client.arm::<Vaults>();
    let vault = vaults.id(&group, "troubled").unwrap();
    let tenant = sim.world().tenant();
    let shape = json!({"location": "westus2", "properties": {"tenantId": tenant, "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}});
    vaults.put(&vault, &serde_json::from_value(shape).unwrap()).await.unwrap();
    let registries = t.client.arm::<Registries>();
    let registry = registries.id(&group, "troubled").unwrap();
    registries
        .put(
            &registry,
            &serde_json::from_value(json!({"location": "westus2", "sku": {"name": "Basic"}})).unwrap(),
        )
        .await
        .unwrap();
    for (role, scope) in [(BLOB_CONTRIBUTOR, &account), (VAULT_ADMINISTRATOR, &vault), (PUSH, &registry)] {
        sim.world().assign(sim.world().owner_object(), role, scope.as_str());
    }
    let timing = Timing { pause: Arc::new(Brief), ..Timing::system() };
    let options = ClientOptions { timing: timing.clone(), ..ClientOptions::default() };
    let client = connect(&t.env, options).await.unwrap().client;
    let http = Http::new(&HttpOptions::from_env(&t.env)).unwrap();
    let container = client.blobs("troubled").unwrap().container("box").unwrap();
    container.create(Access::Private).await.unwrap();
    let vault = client.vault("troubled").unwrap();
    let images = Images::new(http.clone(), timing).azure(client.credential().clone(), client.cloud());
    let repository = Reference::repository("troubled.azurecr.io", "r").unwrap();
    Some(Lab { t, client, http, container, vault, images, repository })
}

impl Lab {
    fn meets(&self, on: Match, then: Then) {
        let world = self.t.sim.as_ref().unwrap().world();
        world.clear_faults();
        world.add_faults(vec![Rule::new("trouble", on, then)]).unwrap();
    }

    fn fired(&self) -> u64 {
        let world = self.t.sim.as_ref().unwrap().world();
        world.faults().iter().filter_map(|f| f["fired"].as_u64()).sum()
    }

    /// Once, with a good token.
    async fn naive(
        &self,
        method: &str,
        url: &str,
        audience: &str,
        token: Option<&str>,
    ) -> Result<u16, HttpError> {
        let good =
            self.client.credential().token(&TokenRequest::new(format!("{audience}/.default"))).await.unwrap();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("authorization", format!("Bearer {}", token.unwrap_or_else(|| good.secret.expose())))
            .header("x-ms-version", "2023-11-03")
            .header("x-ms-blob-type", "BlockBlob")
            .header("content-type", "application/json")
            .body(Bytes::from_static(b"{\"value\":\"naive\"}"))
            .unwrap();
        Ok(self.http.send(request).await?.status.as_u16())
    }

    async fn naive_blob(&self) -> Result<u16, HttpError> {
        self.naive(
            "PUT",
            "https://troubled.blob.core.windows.net/box/naive",
            "https://storage.azure.com",
            None,
        )
        .await
    }

    async fn naive_secret(&self) -> Result<u16, HttpError> {
        self.naive(
            "PUT",
            "https://troubled.vault.azure.net/secrets/naive?api-version=7.5",
            "https://vault.azure.net",
            None,
        )
        .await
    }

    /// Everything we do there comes through.
    async fn survives(&self, what: &str) {
        let content = Bytes::from(vec![3; 3 << 20]);
        self.container
            .put("ours", "ours", &PutOptions::default())
            .await
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
        let options = UploadOptions { block: 1 << 20, ..UploadOptions::default() };
        self.container
            .upload("large", &content[..], &options)
            .await
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(self.container.get("large", 4 << 20).await.unwrap().content, content, "{what}");
        self.vault
            .secrets()
            .set("ours", &SetSecret::new("ours"))
            .await
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(self.vault.secrets().get("ours").await.unwrap().value.unwrap().expose(), "ours", "{what}");
        let locked = self.vault.keys().encrypt("k", "", Algorithm::RsaOaep256, b"x").await.unwrap();
        let open = self
            .vault
            .keys()
            .decrypt("k", locked.version(), Algorithm::RsaOaep256, &locked.value)
            .await
            .unwrap();
        assert_eq!(open.value, b"x", "{what}");
    }

    async fn survives_in_registries(&self, what: &str) {
        let layer = Bytes::from(format!("layer of {what}"));
        let made = self
            .images
            .push_blob(&self.repository, "application/octet-stream", layer.clone())
            .await
            .unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_eq!(made.digest, Digest::of(&layer));
        assert_eq!(self.images.blob(&self.repository, &made, 1_000).await.unwrap(), layer, "{what}");
    }
}

/// Every second request to a data plane, for a while.
fn every_second() -> Match {
    Match { host: Some("troubled.*".into()), every: Some(2), times: Some(10), ..Match::default() }
}

/// The same with registries; three, because an upload is three requests and must not fall into step.
fn registry_too() -> Match {
    Match { host: Some("troubled.azurecr.io".into()), every: Some(2), times: Some(3), ..Match::default() }
}

fn first_write(host: &str) -> Match {
    Match { host: Some(host.to_owned()), method: Some("PUT".into()), nth: Some(1), ..Match::default() }
}

fn answer(status: u16, html: bool) -> Then {
    Then::Answer(FaultAnswer {
        status,
        code: Some("ServerBusy".to_owned()),
        message: None,
        detail: None,
        html,
        body: None,
        retry_after: Some(1),
        headers: Default::default(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_pages_and_throttles() {
    let Some(lab) = lab().await else { return };
    lab.vault.keys().create("k", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
    for (what, then) in [
        ("503 as a page", answer(503, true)),
        ("500", answer(500, false)),
        ("504", answer(504, false)),
        ("429", Then::Throttle(2)),
    ] {
        for (host, blob) in [("troubled.blob.*", true), ("troubled.vault.*", false)] {
            lab.meets(first_write(host), then.clone());
            let status = if blob { lab.naive_blob().await } else { lab.naive_secret().await }.unwrap();
            assert!(status >= 429, "{what} at {host}: {status}");
        }
        lab.meets(every_second(), then.clone());
        lab.survives(what).await;
        assert!(lab.fired() >= 5, "{what}: {}", lab.fired());
        lab.meets(registry_too(), then);
        lab.survives_in_registries(what).await;
        assert!(lab.fired() >= 2, "{what}: {}", lab.fired());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_and_slow_answers() {
    let Some(lab) = lab().await else { return };
    lab.vault.keys().create("k", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
    for (what, when) in [("before", When::Before), ("after", When::After)] {
        lab.meets(first_write("troubled.blob.*"), Then::Drop(when));
        assert!(lab.naive_blob().await.unwrap_err().is_transient());
        lab.meets(first_write("troubled.vault.*"), Then::Drop(when));
        assert!(lab.naive_secret().await.unwrap_err().is_transient());
        lab.meets(every_second(), Then::Drop(when));
        lab.survives(what).await;
        assert!(lab.fired() >= 5, "{what}: {}", lab.fired());
        lab.meets(registry_too(), Then::Drop(when));
        lab.survives_in_registries(what).await;
        assert!(lab.fired() >= 2, "{what}: {}", lab.fired());
    }
    // A conditional write that finds itself is refused, honestly: somebody was there.
    lab.meets(first_write("troubled.blob.*"), Then::Drop(When::After));
    let absent = PutOptions::default().on(azure::Condition::Absent);
    let again = lab.container.put("once", "mine", &absent).await.unwrap_err();
    assert_eq!((again.status(), again.code()), (Some(409), Some("BlobAlreadyExists")));
    assert_eq!(lab.container.get("once", 10).await.unwrap().content, "mine");
    // What cannot be repeated safely is not: a lost answer to the making of a key is said.
    let create = Match {
        host: Some("troubled.vault.*".into()),
        method: Some("POST".into()),
        nth: Some(1),
        ..Match::default()
    };
    lab.meets(create, Then::Drop(When::After));
    let lost = lab.vault.keys().create("lost", &NewKey::new(KeyKind::Ec("P-256"))).await.unwrap_err();
    assert!(matches!(lost, Error::Send { .. }) && lost.is_transient(), "{lost:?}");
    assert!(lab.vault.keys().find("lost").await.unwrap().is_some());

    lab.meets(first_write("troubled.blob.*"), Then::Delay(400));
    let hasty = lab.http.with_timeout(Duration::from_millis(60));
    let Lab { client, container: _, .. } = &lab;
    let options = ClientOptions {
        timing: client.timing().clone(),
        retry: RetryPolicy::default(),
        ..ClientOptions::default()
    };
    let impatient = Client::new(client.cloud().clone(), hasty.clone(), client.credential().clone(), options);
    let slow = Lab { http: hasty, ..lab };
    assert!(matches!(slow.naive_blob().await, Err(HttpError::Timeout { .. })));
    slow.meets(first_write("troubled.blob.*"), Then::Delay(400));
    let container = impatient.blobs("troubled").unwrap().container("box").unwrap();
    container.put("slow", "ours", &PutOptions::default()).await.unwrap();
    assert_eq!(slow.fired(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_die() {
    for then in [Then::ExpireToken, Then::RotateKeys(true)] {
        let Some(lab) = lab().await else { return };
        lab.vault.keys().create("k", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
        for (host, audience) in [("blob", "https://storage.azure.com"), ("vault", "https://vault.azure.net")]
        {
            // Of its own: ours knows nothing of its death.
            let other = connect(&lab.t.env, ClientOptions::default()).await.unwrap().client;
            let ask = TokenRequest::new(format!("{audience}/.default"));
            let old = other.credential().token(&ask).await.unwrap();
            let url = match host {
                "blob" => "https://troubled.blob.core.windows.net/box/naive",
                _ => "https://troubled.vault.azure.net/secrets/naive?api-version=7.5",
            };
            lab.meets(first_write(&format!("troubled.{host}.*")), then.clone());
            for _ in 0..2 {
                let status = lab.naive("PUT", url, audience, Some(old.secret.expose())).await.unwrap();
                assert_eq!(status, 401, "{then:?} at {host}");
            }
        }
        let on =
            Match { host: Some("troubled.*".into()), every: Some(4), times: Some(2), ..Match::default() };
        lab.meets(on, then.clone());
        lab.survives(&format!("{then:?}")).await;
        assert!(lab.fired() >= 2, "{then:?}");
        let what = format!("{then:?}");
        lab.survives_in_registries(&what).await;
        // The registry's own tokens and those they were exchanged for die together.
        let on = Match { host: Some("troubled.azurecr.io".into()), nth: Some(2), ..Match::default() };
        lab.meets(on, then);
        lab.survives_in_registries(&format!("{what} again")).await;
        assert_eq!(lab.fired(), 1, "{what}");
    }
}

/// What goes wrong with the resources themselves is told as it is.
#[tokio::test(flavor = "multi_thread")]
async fn resources_that_fail_late_or_have_no_room() {
    let Some(lab) = lab().await else { return };
    let group: arm::ResourceId = format!("{}/resourceGroups/g", lab.t.subscription).parse().unwrap();
    let disks = lab.client.arm::<Disks>();
    let body = |zone: &str| {
        serde_json::from_value(json!({"location": "westus2", "zones": [zone], "sku": {"name": "Premium_LRS"}, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8}})).unwrap()
    };
    let id = |n: &str| disks.id(&group, n).unwrap();
    let on = |zone: Option<&str>| Match {
        kind: Some("Microsoft.Compute/disks".into()),
        method: Some("PUT".into()),
        zone: zone.map(str::to_owned),
        ..Match::default()
    };
    lab.meets(on(Some("1")), Then::FailLate(Why { code: "ZonalAllocationFailed".into(), message: None }));
    let url = format!("{}?api-version=2023-10-02", id("naive"));
    let naive = lab
        .client
        .send(
            Call::new(http::Method::PUT, url)
                .body(serde_json::to_value::<arm::types::Disk>(body("1")).unwrap()),
        )
        .await
        .unwrap();
    assert!(naive.status.is_success(), "all is well, it thinks");
    let failed = disks.put(&id("one"), &body("1")).await.unwrap_err();
    assert!(
        matches!(&failed, Error::Operation { detail, .. } if detail.code == "ZonalAllocationFailed"),
        "{failed:?}"
    );
    disks.put(&id("two"), &body("2")).await.unwrap();
    lab.meets(on(None), answer_code(409, "OperationNotAllowed"));
    let full = disks.put(&id("three"), &body("2")).await.unwrap_err();
    assert_eq!(full.refused().map(|r| (r.status, r.attempts)), Some((409, 1)), "{full}");
    // A vault that is half made: the write is done, but answered with an error. Asked again, it is there.
    let partial = Match {
        kind: Some("Microsoft.KeyVault/vaults".into()),
        method: Some("PUT".into()),
        nth: Some(1),
        ..Match::default()
    };
    lab.meets(partial, Then::Partial(Why { code: "InternalServerError".into(), message: None }));
    let vaults = lab.client.arm::<Vaults>();
    let tenant = lab.t.env.get("AZURE_TENANT_ID").unwrap();
    let shape = json!({"location": "westus2", "properties": {"tenantId": tenant, "sku": {"family": "A", "name": "standard"}}});
    let made = vaults
        .put(&vaults.id(&group, "half-made").unwrap(), &serde_json::from_value(shape).unwrap())
        .await
        .unwrap();
    assert!(made.properties.unwrap().vault_uri.is_some());
    assert_eq!(lab.fired(), 1);
}

fn answer_code(status: u16, code: &str) -> Then {
    match answer(status, false) {
        Then::Answer(a) => Then::Answer(FaultAnswer { code: Some(code.to_owned()), retry_after: None, ..a }),
        other => other,
    }
}
