//! A token issuer: made, rotated, retired, taken away; and Entra ID believes it.

use crate::support::{World, pod, quiet, world};
use arm::ResourceId;
use azure::Call;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use landing_zone::identities::subject;
use landing_zone::issuer::{
    Decision, Issuer, KeyDir, KeyError, Keys, Published, Rotation, SigningKey, create, survey,
};
use landing_zone::run::Options;
use landing_zone::{Error, MadeBy};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn issuer(w: &World) -> Issuer {
    Issuer::new("demooidc", w.subscription.clone(), "demo-oidc", "westus2").unwrap()
}

/// Keys take long to make: a few, in turns, so that one differs from the one before.
fn some_key() -> Result<SigningKey, KeyError> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static SOME: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..4).map(|_| landing_zone::managed::new_key().unwrap().serialize_pem()).collect());
    SigningKey::from_pem(&SOME[NEXT.fetch_add(1, Ordering::Relaxed) % SOME.len()])
}

pub fn keys(dir: &Path, rotation: Rotation) -> Keys {
    Keys { dir: KeyDir::open(dir).unwrap(), given: None, rotation, make: some_key }
}

pub async fn publish(w: &World, dir: &Path, rotation: Rotation) -> Result<Published, Error> {
    let (outcome, published) =
        create(&w.client, &issuer(w), &keys(dir, rotation), Options::default(), &quiet).await?;
    assert!(outcome.is_good(), "{:#?}", outcome.report.failures().collect::<Vec<_>>());
    Ok(published.unwrap())
}

pub fn kid_in(dir: &Path) -> String {
    KeyDir::look(dir).current().unwrap().unwrap().kid()
}

/// What anybody sees, without a token.
async fn public(w: &World, path: &str) -> Value {
    let (http, ..) = w.parts();
    let url = format!("https://demooidc.blob.core.windows.net/demooidc/{path}");
    let request = http::Request::get(url).body(bytes::Bytes::new()).unwrap();
    let answer = http.send(request).await.unwrap();
    assert_eq!(answer.status, 200, "{path}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json().unwrap()
}

/// A service account's token, signed by the key in a file.
pub fn token(w: &World, private: &Path, url: &str, who: &str) -> String {
    let text = std::fs::read_to_string(private).unwrap();
    let kid = SigningKey::from_pem(&text).unwrap().kid();
    let now = w.sim.world().now().as_second();
    let claims =
        json!({"iss": url, "sub": who, "aud": ["openshift"], "iat": now, "nbf": now, "exp": now + 600});
    let header = Header { kid: Some(kid), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, &claims, &EncodingKey::from_rsa_pem(text.as_bytes()).unwrap()).unwrap()
}

#[tokio::test]
async fn made_rotated_retired_and_gone() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let first = publish(&w, dir.path(), Rotation::Keep).await.unwrap();
    assert_eq!(first.url, "https://demooidc.blob.core.windows.net/demooidc");
    let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("serviceaccount-signer.private"), 0o600);
    assert!(
        std::fs::read_to_string(at("serviceaccount-signer.private"))
            .unwrap()
            .starts_with("-----BEGIN RSA PRIVATE KEY-----")
    );
    assert!(
        std::fs::read_to_string(at("serviceaccount-signer.public"))
            .unwrap()
            .starts_with("-----BEGIN PUBLIC KEY-----")
    );
    assert_eq!(std::fs::read_to_string(at("issuer-url")).unwrap(), format!("{}\n", first.url));
    assert_eq!(
        public(&w, ".well-known/openid-configuration").await,
        json!({
        "issuer": first.url, "jwks_uri": format!("{}/openid/v1/jwks", first.url),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"]})
    );
    let key = &public(&w, "openid/v1/jwks").await["keys"][0];
    let names: Vec<&String> = key.as_object().unwrap().keys().collect();
    assert_eq!(names, ["use", "kty", "kid", "alg", "n", "e"]);
    assert_eq!(key["kid"], first.kid);

    // Again: nothing to do.
    let from = w.calls().len();
    assert_eq!(
        publish(&w, dir.path(), Rotation::Keep).await.unwrap(),
        Published { decision: Decision::Keep, ..first.clone() }
    );
    assert!(w.calls()[from..].iter().all(|c| c.method == "GET" || c.path.contains("/oauth2/")));
    let seen =
        survey(&w.client, &issuer(&w), &keys(dir.path(), Rotation::Keep), &|_, _, _| {}).await.unwrap();
    assert!(!landing_zone::extras::changes(&seen.extras), "{:?}", seen.extras);
    // Another machine without the key does not push it aside, nor does another key.
    let other = tempfile::tempdir().unwrap();
    for rotation in [Rotation::Keep, Rotation::Rotate] {
        let refused = publish(&w, other.path(), rotation).await.unwrap_err();
        assert!(matches!(refused, Error::OtherKeysPublished(_) | Error::NoKeyHere), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0, "no key is made for nothing");
    // With it, it does the same.
    let key =
        SigningKey::from_pem(&std::fs::read_to_string(at("serviceaccount-signer.private")).unwrap()).unwrap();
    let brought = Keys { given: Some(key), ..keys(other.path(), Rotation::Keep) };
    let (_, same) = create(&w.client, &issuer(&w), &brought, Options::default(), &quiet).await.unwrap();
    assert_eq!(same.unwrap().kid, first.kid);
    assert_eq!(kid_in(other.path()), first.kid);

    let second = publish(&w, dir.path(), Rotation::Rotate).await.unwrap();
    assert_ne!(second.kid, first.kid);
    assert_eq!(second.kids, [second.kid.clone(), first.kid.clone()]);
    assert_eq!(kid_in(dir.path()), second.kid);
    let archived: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(archived.len(), 5, "the old pair is kept: {archived:?}");
    // Twice is once: the old key is not retired yet.
    let again = publish(&w, dir.path(), Rotation::Rotate).await.unwrap();
    assert_eq!((again.decision, again.kids), (Decision::Rotated, second.kids.clone()));
    let third = publish(&w, dir.path(), Rotation::RetireOld).await.unwrap();
    assert_eq!(third.kids, std::slice::from_ref(&second.kid));
    assert_eq!(public(&w, "openid/v1/jwks").await["keys"].as_array().unwrap().len(), 1);
    w.remove(&w.shared("demooidc", MadeBy::OidcIssuer)).await;
    assert_eq!(w.left(), Vec::<String>::new());
    assert_eq!(kid_in(dir.path()), second.kid, "key files stay");
}

/// Tokens of the old key are good until it is retired, those of the new one from the beginning.
#[tokio::test]
async fn entra_believes_it_through_a_rotation() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let made = publish(&w, dir.path(), Rotation::Keep).await.unwrap();
    let mut iam = w.iam("demo");
    iam.issuer = made.url.clone();
    let ids = w.make_iam(&iam).await;
    let who = subject("kube-system", "azure-cloud-provider");
    let private = dir.path().join("serviceaccount-signer.private");
    let old = dir.path().join("old");
    std::fs::copy(&private, &old).unwrap();
    let file = dir.path().join("token");
    let accepted = async |private: &Path| {
        std::fs::write(&file, token(&w, private, &made.url, &who)).unwrap();
        let group = iam.group_id().unwrap();
        match pod(&w, &ids.cloud_provider.client_id, &file)
            .send(Call::get(format!("{group}?api-version=2021-04-01")))
            .await
        {
            // It has a token, and no role.
            Err(e) if e.status() == Some(403) => true,
            Err(azure::Error::Token { .. }) => false,
            other => panic!("{other:?}"),
        }
    };
    assert!(accepted(&private).await);
    publish(&w, dir.path(), Rotation::Rotate).await.unwrap();
    assert!(accepted(&private).await && accepted(&old).await);
    publish(&w, dir.path(), Rotation::RetireOld).await.unwrap();
    assert!(accepted(&private).await && !accepted(&old).await);
}

#[tokio::test]
async fn what_is_not_ours_is_not_taken_over() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let i = issuer(&w);
    let group: ResourceId = i.group_id().unwrap();
    crate::support::put::<azure::ops::ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {}});
    crate::support::put::<azure::ops::StorageAccounts>(&w, &i.account().unwrap(), body).await;
    let before = w.left();
    assert!(matches!(publish(&w, dir.path(), Rotation::Keep).await, Err(Error::Clash(_))));
    w.remove(&w.shared("demooidc", MadeBy::OidcIssuer)).await;
    assert_eq!(w.left(), before);
    let adopted = Issuer { adopt: true, ..i };
    let (outcome, _) =
        create(&w.client, &adopted, &keys(dir.path(), Rotation::Keep), Options::default(), &quiet)
            .await
            .unwrap();
    assert!(outcome.is_good());
    w.remove(&w.shared("demooidc", MadeBy::OidcIssuer)).await;
    assert_eq!(w.left(), [group.key().to_string()], "the group is not ours");
}

/// Two publish at once with the same key: both are content, nothing is lost.
#[tokio::test]
async fn two_at_once() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    KeyDir::open(dir.path()).unwrap().write_first(&some_key().unwrap()).unwrap();
    let (a, b) =
        futures::join!(publish(&w, dir.path(), Rotation::Keep), publish(&w, dir.path(), Rotation::Keep));
    assert_eq!(a.unwrap().kids, b.unwrap().kids);
    for bad in ["Demo", "ab", "with-dash", &"a".repeat(25)] {
        assert!(Issuer::new(bad, w.subscription.clone(), "g", "westus2").is_err(), "{bad}");
    }
}
