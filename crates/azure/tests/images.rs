//! Images in registries: Azure's, through the simulator, and such as misbehave.

use crate::faults::hasty;
use crate::server::{Reply, Seen, Server, say, start};
use crate::support::{Target, simulator, target};
use arm::ResourceId;
use azure::oci::{
    Descriptor, Digest, Image, Images, Index, Login, Logins, Mirror, Mirrors, OciError, Platform, Reference,
};
use azure::ops::*;
use azure::{Deleted, Http, HttpOptions, Secret};
use azure_sim::Profile;
use serde_json::json;

const PUSH: &str = "8311e382-0749-4cb8-b61a-304f252e45ec";
const PULL: &str = "7f951dda-4ed3-4680-a7ca-43fe172d538d";
const DELETE: &str = "c2f4ef07-c644-48eb-af81-4b1b4947fb11";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

async fn registry(t: &Target, g: &ResourceId, prefix: &str, admin: bool) -> (ResourceId, String) {
    let arm = t.client.arm::<Registries>();
    let id = arm.id(g, &t.unique(prefix)).unwrap();
    let body = json!({"location": t.location, "sku": {"name": "Standard"}, "properties": {"adminUserEnabled": admin}});
    let made = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    (id, made.properties.unwrap().login_server.unwrap())
}

fn http(t: &Target) -> Http {
    Http::new(&HttpOptions::from_env(&t.env)).unwrap()
}

fn azure(t: &Target) -> Images {
    Images::new(http(t), t.client.timing().clone()).azure(t.client.credential().clone(), t.client.cloud())
}

/// An image of a configuration and one layer.
async fn push(images: &Images, at: &Reference, layer: &[u8]) -> Descriptor {
    let config = images.push_blob(at, CONFIG, r#"{"os":"linux"}"#).await.unwrap();
    let layer = images.push_stream(at, LAYER, layer).await.unwrap();
    let image = Image {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        config,
        layers: vec![layer],
        annotations: Default::default(),
    };
    images.push_manifest(at, MANIFEST, serde_json::to_vec(&image).unwrap()).await.unwrap()
}

#[tokio::test]
async fn pushed_and_pulled() {
    let t = target().await;
    t.in_group("images", async |g: ResourceId| {
        let (id, host) = registry(&t, &g, "one", false).await;
        let images = azure(&t);
        let repository = Reference::repository(&host, "zaffre/release").unwrap();
        t.assign(&t.me().await, PUSH, &id).await;
        // More than a piece of an upload.
        let layer: Vec<u8> = (0..9_000_000_u32).map(|i| (i % 249) as u8).collect();
        let mut index = Index { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() };
        for (architecture, layer) in [("amd64", &layer[..]), ("arm64", b"small")] {
            let mut made = push(&images, &repository.with_tag(architecture), layer).await;
            made.platform = Some(Platform::linux(architecture));
            index.manifests.push(made);
        }
        let top = images.push_manifest(&repository.with_tag("4.17.0"), INDEX, serde_json::to_vec(&index).unwrap()).await.unwrap();
        let at = repository.with_tag("4.17.0");
        assert_eq!(images.resolve(&at).await.unwrap(), top.digest);
        assert_eq!(images.manifest(&at).await.unwrap().digest, top.digest);
        let (digest, image) = images.image(&at, &Platform::linux("amd64")).await.unwrap();
        assert_eq!(digest, index.manifests[0].digest);
        let got = images.blob(&repository, &image.layers[0], 10_000_000).await.unwrap();
        assert!(got == layer, "the same bytes");
        assert!(matches!(images.blob(&repository, &image.layers[0], 10).await, Err(OciError::TooLong { .. })));
        let config = images.blob(&repository, &image.config, 1_000).await.unwrap();
        assert_eq!(config, r#"{"os":"linux"}"#);
        let none = images.image(&at, &Platform::linux("s390x")).await.unwrap_err();
        assert!(none.to_string().contains("linux/arm64"), "{none}");
        assert_eq!(images.tags(&repository).await.unwrap(), ["4.17.0", "amd64", "arm64"]);
        let missing = images.manifest(&repository.with_tag("none")).await.unwrap_err();
        assert_eq!((missing.status(), missing.code()), (Some(404), Some("MANIFEST_UNKNOWN")));
        let wrong = Descriptor { size: image.config.size - 1, ..image.config.clone() };
        assert!(matches!(images.blob(&repository, &wrong, 1_000).await, Err(OciError::Size { .. })));
        // Names something that is not there: refused, nothing written.
        let lies = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, "size": 1, "digest": Digest::of(b"never pushed")}, "layers": []});
        let refused = images.push_manifest(&repository.with_tag("lies"), MANIFEST, lies.to_string()).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(400), Some("MANIFEST_BLOB_UNKNOWN")));
        let by_digest = repository.with_digest(&Digest::of(b"other"));
        assert!(matches!(images.push_manifest(&by_digest, MANIFEST, lies.to_string()).await, Err(OciError::Corrupt { .. })));

        // The registry itself copies what it is told to.
        let (to, other) = registry(&t, &g, "two", false).await;
        let import = ImageImport { from: ImportFrom::Registry(id.clone()), image: "zaffre/release:4.17.0".to_owned(), tags: vec!["copy:4.17.0".to_owned()], force: false };
        t.client.arm::<Registries>().import_image(&to, &import).await.unwrap();
        t.assign(&t.me().await, PULL, &to).await;
        let copy = Reference::repository(&other, "copy").unwrap().with_tag("4.17.0");
        assert_eq!(images.resolve(&copy).await.unwrap(), top.digest);

        t.assign(&t.me().await, DELETE, &id).await;
        let fresh = azure(&t);
        assert_eq!(fresh.delete(&repository.with_tag("arm64")).await.unwrap(), Deleted::Done);
        assert_eq!(fresh.delete(&repository.with_tag("arm64")).await.unwrap(), Deleted::Absent);
    })
    .await;
}

#[tokio::test]
async fn rights_and_logins() {
    let t = target().await;
    t.in_group("logins", async |g: ResourceId| {
        let (id, host) = registry(&t, &g, "three", true).await;
        let repository = Reference::repository(&host, "a/b").unwrap();
        let images = azure(&t);
        let login = t.client.arm::<Registries>().login(&id).await.unwrap();
        let password = login.passwords[0].value.clone();
        // A pull secret with the admin user: basic at the token service.
        use base64::Engine;
        let auth = base64::engine::general_purpose::STANDARD.encode(format!(
            "{}:{}",
            login.username,
            password.expose()
        ));
        let secret = json!({"auths": {(host.as_str()): {"auth": auth}}}).to_string();
        let by_secret =
            Images::new(http(&t), t.client.timing().clone()).logins(Logins::parse(&secret).unwrap());
        let made = push(&by_secret, &repository.with_tag("1"), b"layer").await;
        assert_eq!(by_secret.resolve(&repository.with_tag("1")).await.unwrap(), made.digest);
        let wrong = Login::Password { user: login.username, password: Secret::new("hunter2") };
        let wrong =
            Images::new(http(&t), t.client.timing().clone()).logins(Logins::default().with(&host, wrong));
        let refused = wrong.manifest(&repository.with_tag("1")).await.unwrap_err();
        assert!(
            matches!(refused, OciError::Unauthorized { .. }) && !refused.to_string().contains("hunter2"),
            "{refused}"
        );
        let nobody = Images::new(http(&t), t.client.timing().clone());
        let refused = nobody.manifest(&repository.with_tag("1")).await.unwrap_err();
        assert!(refused.to_string().contains("no login"), "{refused}");
        t.client
            .arm::<Registries>()
            .patch(&id, &json!({"properties": {"anonymousPullEnabled": true}}))
            .await
            .unwrap();
        assert_eq!(nobody.resolve(&repository.with_tag("1")).await.unwrap(), made.digest);

        // A principal that may pull may not push.
        let Some(sim) = t.only_sim("a second principal") else { return };
        let (app, object) = sim.world().add_app("puller", "hunter3-secret", Vec::new());
        let env = t.env.clone().with("AZURE_CLIENT_ID", app).with("AZURE_CLIENT_SECRET", "hunter3-secret");
        let other = azure::connect(&env, azure::ClientOptions::default()).await.unwrap().client;
        let puller = images.clone().azure(other.credential().clone(), other.cloud());
        let at = repository.with_tag("1");
        t.client
            .arm::<Registries>()
            .patch(&id, &json!({"properties": {"anonymousPullEnabled": false}}))
            .await
            .unwrap();
        assert!(matches!(puller.resolve(&at).await, Err(OciError::Unauthorized { .. })));
        sim.world().assign(&object, PULL, id.as_str());
        assert_eq!(puller.resolve(&at).await.unwrap(), made.digest);
        let refused = puller.push_blob(&repository, LAYER, "new").await.unwrap_err();
        assert_eq!(refused.status(), Some(401), "{refused}");
    })
    .await;
}

/// A registry that is a script: what it answers to a path.
async fn scripted(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Server, Images, Reference) {
    let server = start(true, answer).await;
    let options = HttpOptions { extra_roots: vec![server.ca_pem.clone()], ..HttpOptions::default() };
    let images = Images::new(Http::new(&options).unwrap(), hasty());
    let host = server.url.strip_prefix("https://").unwrap().to_owned();
    let at = Reference::repository(&host, "a/b").unwrap();
    (server, images, at)
}

fn of(content: &str) -> Descriptor {
    let (digest, size) = (Digest::of(content.as_bytes()), content.len() as u64);
    Descriptor { media_type: LAYER.to_owned(), digest, size, platform: None, annotations: Default::default() }
}

#[tokio::test]
async fn what_is_not_what_it_should_be_is_refused() {
    let (_server, images, at) = scripted(|seen| match seen.path.as_str() {
        p if p.contains("/blobs/") => say(200, "evil!"),
        p if p.contains("/manifests/") => say(200, "{}").with("content-type", MANIFEST),
        _ => say(200, "{}"),
    })
    .await;
    assert!(matches!(images.blob(&at, &of("good!"), 100).await, Err(OciError::Corrupt { .. })));
    assert!(matches!(images.blob(&at, &of("go"), 100).await, Err(OciError::Size { .. })));
    let named = at.with_digest(&Digest::of(b"something else"));
    assert!(matches!(images.manifest(&named).await, Err(OciError::Corrupt { .. })));
    assert!(matches!(images.manifest(&at.with_tag("t")).await, Err(OciError::Media { .. })));
}

#[tokio::test]
async fn challenges_that_would_lead_secrets_astray_are_refused() {
    let secret = || Login::Password { user: "u".to_owned(), password: Secret::new("hunter2") };
    for realm in ["http://evil.test/token", "ftp://x", "rubbish", "https://me@evil.test/"] {
        let (server, images, at) = scripted(move |_| {
            say(401, "{}").with("www-authenticate", format!("Bearer realm=\"{realm}\",service=\"s\""))
        })
        .await;
        let refused =
            images.logins(Logins::default().with(&at.host, secret())).manifest(&at).await.unwrap_err();
        assert!(matches!(refused, OciError::Challenge { .. }), "{realm}: {refused:?}");
        assert!(server.seen.lock().iter().all(|s| s.header("authorization").is_none()), "{realm}");
    }
    // An upload that is to go on elsewhere.
    let (_server, images, at) = scripted(|seen| match seen.path.ends_with("/uploads/") {
        true => say(202, "").with("location", "https://evil.test/v2/x"),
        false => say(404, "{}"),
    })
    .await;
    assert!(matches!(images.push_blob(&at, LAYER, "x").await, Err(OciError::Foreign { .. })));
}

#[tokio::test]
async fn redirects_carry_nothing_of_ours() {
    let store = start(true, |_| say(200, "layer")).await;
    let elsewhere = store.url.clone();
    let (server, images, at) = scripted(move |seen| match seen.header("authorization") {
        None => say(401, "{}").with("www-authenticate", "Basic realm=\"x\""),
        Some(_) => say(307, "").with("location", format!("{elsewhere}/signed?sig=1")),
    })
    .await;
    // Two authorities: a client that knows both.
    let roots = vec![server.ca_pem.clone(), store.ca_pem.clone()];
    let http = Http::new(&HttpOptions { extra_roots: roots, ..HttpOptions::default() }).unwrap();
    let login = Login::Password { user: "u".to_owned(), password: Secret::new("hunter2") };
    let images2 = Images::new(http, hasty()).logins(Logins::default().with(&at.host, login));
    drop(images);
    assert_eq!(images2.blob(&at, &of("layer"), 100).await.unwrap(), "layer");
    let seen = store.seen.lock();
    assert!(seen.len() == 1 && seen[0].header("authorization").is_none());
    assert_eq!(seen[0].path, "/signed?sig=1");
}

#[tokio::test]
async fn bad_days_of_registries() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let (server, images, at) = scripted(move |seen| {
        let range = seen.header("range").map(str::to_owned);
        match (calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst), range) {
            (0, _) => say(503, "<html>").with("retry-after", "1"),
            (1, _) => say(429, "{}"),
            (2, _) => Reply::Drop,
            // Breaks off after eight bytes of a hundred.
            (3, None) => Reply::Half,
            (4, Some(r)) if r == "bytes=8-" => {
                say(206, "x".repeat(92)).with("content-range", "bytes 8-99/100")
            }
            (n, r) => say(500, format!("unexpected {n} {r:?}")),
        }
    })
    .await;
    let whole = format!("{{\"half\":{}", "x".repeat(92));
    assert_eq!(images.blob(&at, &of(&whole), 1_000).await.unwrap(), whole);
    assert_eq!(server.seen.lock().len(), 5);
}

#[tokio::test]
async fn mirrors_are_asked_first_and_need_no_trust() {
    let (good, images, source) = scripted(|_| say(200, "layer")).await;
    let bad = start(true, |_| say(200, "lyaer")).await;
    let gone = start(true, |_| say(404, "{}")).await;
    let roots = [&good, &bad, &gone].iter().map(|s| s.ca_pem.clone()).collect();
    let http = Http::new(&HttpOptions { extra_roots: roots, ..HttpOptions::default() }).unwrap();
    drop(images);
    let place = |s: &Server| format!("{}/mirror", s.url.strip_prefix("https://").unwrap());
    let rule = |never_source| Mirror {
        source: format!("{}/a", source.host),
        mirrors: vec![place(&gone), place(&bad)],
        never_source,
        tags: false,
    };
    let with = |never| Images::new(http.clone(), hasty()).mirrors(Mirrors::default().mirror(rule(never)));
    assert_eq!(with(false).blob(&source, &of("layer"), 100).await.unwrap(), "layer");
    assert_eq!(gone.seen.lock()[0].path, format!("/v2/mirror/b/blobs/{}", of("layer").digest));
    assert_eq!((bad.seen.lock().len(), good.seen.lock().len()), (1, 1));
    let nowhere = with(true).blob(&source, &of("layer"), 100).await.unwrap_err();
    assert!(nowhere.to_string().contains("nowhere") && nowhere.to_string().contains("digest"), "{nowhere}");
    assert_eq!(good.seen.lock().len(), 1, "the source was not asked");
}

#[tokio::test]
async fn answers_of_uploads_may_be_lost() {
    let (sim, env, _dir) = simulator(Profile::Instant, Vec::new()).await;
    let t = azure::connect(&env, azure::ClientOptions::default()).await.unwrap();
    let group = format!("/subscriptions/{}/resourceGroups/g", sim.world().subscription());
    let groups = t.client.arm::<ResourceGroups>();
    let g: ResourceId = group.parse().unwrap();
    groups.put(&g, &serde_json::from_value(json!({"location": "westus2"})).unwrap()).await.unwrap();
    let registries = t.client.arm::<Registries>();
    let id = registries.id(&g, "lossy").unwrap();
    let body = json!({"location": "westus2", "sku": {"name": "Basic"}});
    registries.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    sim.world().assign(sim.world().owner_object(), PUSH, id.as_str());
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let images = Images::new(http, hasty()).azure(t.client.credential().clone(), t.client.cloud());
    let at = Reference::repository("lossy.azurecr.io", "a").unwrap();
    let rule = json!({"name": "lost", "match": {"host": "lossy.azurecr.io", "method": "PATCH", "nth": 2}, "then": {"drop": "after"}});
    match serde_json::from_value(rule) {
        Ok(rule) => drop(sim.world().add_faults(vec![rule]).unwrap()),
        Err(e) => panic!("the rule cannot be read: {e}"),
    }
    let layer: Vec<u8> = (0..10_000_000_u32).map(|i| (i % 241) as u8).collect();
    let made = images.push_stream(&at, LAYER, &layer[..]).await.unwrap();
    assert_eq!(made.digest, Digest::of(&layer));
    assert_eq!(sim.world().faults()[0]["fired"], 1, "{:?}", sim.world().faults());
    assert!(images.blob(&at, &made, 20_000_000).await.unwrap() == layer);
}
