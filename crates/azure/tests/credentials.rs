//! Every way to sign in, and the words for each way to fail.

use crate::server::{say, start};
use crate::support::simulator;
use arm::ResourceId;
use azure::credential::{Confidential, Entra, TokenRequest, TokenSource};
use azure::ops::ResourceGroups;
use azure::{
    Client, ClientOptions, Cloud, Connected, EntraFault, Env, Error, Http, HttpOptions, Timing, connect,
};
use azure_sim::{AzureSim, Profile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::path::Path;

const READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";

async fn works(env: &Env) -> Result<usize, Error> {
    let Connected { client, .. } = connect(env, ClientOptions::default()).await.unwrap();
    let subscription = ResourceId::subscription_scope(env.get("AZURE_SUBSCRIPTION_ID").unwrap()).unwrap();
    client.arm::<ResourceGroups>().list_all(&subscription).await.map(|l| l.len())
}

fn fault(result: Result<usize, Error>) -> (u32, EntraFault, String) {
    let Err(Error::Token { source, .. }) = result else { panic!("{result:?}") };
    let e = source.entra().unwrap_or_else(|| panic!("{source}"));
    (e.code, e.fault, e.to_string())
}

struct Pair {
    cert: rcgen::Certificate,
    key: rcgen::KeyPair,
}

fn pair() -> Pair {
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let cert = rcgen::CertificateParams::new(vec!["client".into()]).unwrap().self_signed(&key).unwrap();
    Pair { cert, key }
}

impl Pair {
    fn pem(&self) -> String {
        format!("{}{}", self.cert.pem(), self.key.serialize_pem())
    }

    fn pkcs12(&self, password: &str) -> Vec<u8> {
        use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
        let chain = PrivateKeyChain::new(
            b"id".to_vec(),
            PrivateKey::from_der(&self.key.serialize_der()).unwrap(),
            [Certificate::from_der(self.cert.der()).unwrap()],
        );
        let mut store = KeyStore::new();
        store.add_entry("client", KeyStoreEntry::PrivateKeyChain(chain));
        store.writer(password).write().unwrap()
    }
}

/// An application with a certificate, allowed to read, and an environment without secrets.
fn app(sim: &AzureSim, env: &Env, name: &str, pair: &Pair) -> Env {
    let (client, object) = sim.world().add_app(name, "unused", vec![pair.cert.der().to_vec()]);
    sim.world().assign(&object, READER, &format!("/subscriptions/{}", sim.world().subscription()));
    env.clone().without("AZURE_CLIENT_SECRET").with("AZURE_CLIENT_ID", client)
}

#[tokio::test]
async fn secrets_and_their_refusals() {
    let (sim, env, dir) = simulator(Profile::Instant, Vec::new()).await;
    assert_eq!(works(&env).await.unwrap(), 1);
    let (code, kind, text) = fault(works(&env.clone().with("AZURE_CLIENT_SECRET", "wrong")).await);
    assert_eq!((code, kind), (7_000_215, EntraFault::WrongSecret));
    assert!(text.contains("use the secret's value, not its id"), "{text}");
    let nobody = env.clone().with("AZURE_CLIENT_ID", "11111111-2222-4333-8444-555555555555");
    assert_eq!(fault(works(&nobody).await).1, EntraFault::UnknownApplication);
    let (code, kind, _) = fault(works(&env.clone().with("AZURE_TENANT_ID", "nowhere.test")).await);
    assert_eq!((code, kind), (90_002, EntraFault::UnknownTenant));
    let evil = works(&env.clone().with("AZURE_TENANT_ID", "../../x")).await.unwrap_err();
    assert!(matches!(evil, Error::Token { .. }), "{evil}");

    let file = dir.path().join("creds.json");
    std::fs::write(&file, sim.creds().file()).unwrap();
    let bare = ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_SUBSCRIPTION_ID"];
    let bare = bare.iter().fold(env.clone(), |e, n| e.without(n));
    let from_file =
        connect(&bare.clone().with("AZURE_AUTH_LOCATION", file.to_str().unwrap()), ClientOptions::default())
            .await
            .unwrap();
    assert_eq!(from_file.subscription.as_deref(), Some(sim.world().subscription()));
    assert_eq!(
        works(
            &bare
                .with("AZURE_AUTH_LOCATION", file.to_str().unwrap())
                .with("AZURE_SUBSCRIPTION_ID", sim.world().subscription())
        )
        .await
        .unwrap(),
        1
    );
    std::fs::write(&file, "{\"clientId\": 7}").unwrap();
    let half =
        connect(&env.clone().with("AZURE_AUTH_LOCATION", file.to_str().unwrap()), ClientOptions::default())
            .await
            .unwrap_err();
    assert!(format!("{:?}", half).contains("creds.json"), "{half:?}");
    let half = connect(&env.without("AZURE_TENANT_ID"), ClientOptions::default()).await.unwrap_err();
    assert!(
        std::error::Error::source(&half).unwrap().to_string().contains("AZURE_TENANT_ID is not"),
        "{half:?}"
    );
}

#[tokio::test]
async fn certificates() {
    let (sim, env, dir) = simulator(Profile::Instant, Vec::new()).await;
    let pair = pair();
    let env = app(&sim, &env, "certified", &pair);
    let at = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        env.clone().with("AZURE_CLIENT_CERTIFICATE_PATH", path.to_str().unwrap())
    };
    assert_eq!(works(&at("c.pem", pair.pem().as_bytes())).await.unwrap(), 1);
    assert_eq!(works(&at("c.pfx", &pair.pkcs12(""))).await.unwrap(), 1);
    let locked = at("locked.pfx", &pair.pkcs12("pass word"));
    assert_eq!(
        works(&locked.clone().with("AZURE_CLIENT_CERTIFICATE_PASSWORD", "pass word")).await.unwrap(),
        1
    );
    let wrong = works(&locked.with("AZURE_CLIENT_CERTIFICATE_PASSWORD", "no")).await.unwrap_err();
    assert!(format!("{wrong:?}").contains("Pkcs12"), "{wrong:?}");
    let stranger = self::pair();
    assert_eq!(
        fault(works(&at("stranger.pem", stranger.pem().as_bytes())).await).1,
        EntraFault::UnknownCertificate
    );
    for (name, args) in [
        ("modern", &[][..]),
        (
            "legacy",
            &["-legacy", "-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1"][..],
        ),
    ] {
        match openssl(dir.path(), name, &pair, args) {
            Some(pfx) => assert_eq!(works(&at(name, &pfx)).await.unwrap(), 1, "{name}"),
            None => println!("skipped: no openssl that writes {name} PKCS#12"),
        }
    }
}

/// PKCS#12 as others write it.
fn openssl(dir: &Path, name: &str, pair: &Pair, args: &[&str]) -> Option<Vec<u8>> {
    let (input, output) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.out")));
    std::fs::write(&input, pair.pem()).unwrap();
    let done = std::process::Command::new("openssl")
        .args(["pkcs12", "-export", "-passout", "pass:", "-in"])
        .arg(&input)
        .arg("-out")
        .arg(&output)
        .args(args)
        .output()
        .ok()?;
    if done.status.success() { std::fs::read(output).ok() } else { None }
}

#[tokio::test]
async fn msi_files_are_read_each_time() {
    let (sim, env, dir) = simulator(Profile::Instant, Vec::new()).await;
    let pair = pair();
    let env = app(&sim, &env, "msi", &pair);
    let path = dir.path().join("msi.json");
    let write = |secret: String, until: &str| {
        let file = json!({
            "client_id": env.get("AZURE_CLIENT_ID"), "client_secret": secret, "tenant_id": env.get("AZURE_TENANT_ID"),
            "object_id": "o", "resource_id": "/subscriptions/s", "authentication_endpoint": format!("{}/", sim.arm_url()),
            "not_before": "2024-01-01T00:00:00Z", "not_after": until, "renew_after": until, "custom_claims": {},
        });
        std::fs::write(&path, file.to_string()).unwrap();
    };
    let msi = env.clone().without("AZURE_CLIENT_ID").with("ZAFFRE_AZURE_MSI_FILE", path.to_str().unwrap());
    write(STANDARD.encode(pair.pkcs12("")), "2999-01-01T00:00:00Z");
    assert_eq!(works(&msi).await.unwrap(), 1);
    write(STANDARD.encode(pair.pem()), "2999-01-01T00:00:00Z");
    assert_eq!(works(&msi).await.unwrap(), 1);

    // One source, while the file changes under it.
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let cloud = Cloud::from_env(&http, &env).await.unwrap();
    let source = Confidential::msi_file(Entra { http, login: cloud.login, timing: Timing::system() }, &path);
    let ask = TokenRequest::new("https://management.azure.com/.default");
    source.token(&ask).await.unwrap();
    write(pair.pem(), "2020-01-01T00:00:00Z");
    let expired = source.token(&ask).await.unwrap_err().to_string();
    assert!(expired.contains("not_after") && expired.contains("expired"), "{expired}");
    write(pair.pem(), "2999-01-01T00:00:00Z");
    source.token(&ask).await.unwrap();
    write("nonsense".to_owned(), "2999-01-01T00:00:00Z");
    assert!(source.token(&ask).await.is_err());
    assert!(!format!("{:?}", source.describe()).contains("PRIVATE"));
}

#[tokio::test]
async fn federated_tokens_rotate() {
    let key = |kid: &str| {
        let key = EncodingKey::from_rsa_pem(pair().key.serialize_pem().as_bytes()).unwrap();
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
        jwk.common.key_id = Some(kid.to_owned());
        (key, jwk)
    };
    let ((first, first_jwk), (second, _)) = (key("one"), key("two"));
    let keys = json!({"keys": [first_jwk]});
    let base = std::sync::Arc::new(parking_lot::Mutex::new(String::new()));
    let url = base.clone();
    let issuer = start(true, move |seen| match seen.path.as_str() {
        "/keys" => say(200, &keys),
        _ => say(200, json!({"issuer": *url.lock(), "jwks_uri": format!("{}/keys", url.lock())})),
    })
    .await;
    *base.lock() = issuer.url.clone();
    let (sim, env, dir) = simulator(Profile::Instant, vec![issuer.ca_pem.clone()]).await;

    // An identity that trusts the issuer, made with the client itself.
    let owner = connect(&env, ClientOptions::default()).await.unwrap().client;
    let client_id = trusted_identity(&owner, sim.world().subscription(), &issuer.url).await;
    let path = dir.path().join("token");
    let iss = issuer.url.clone();
    let now = clock::system().now().as_second();
    let write = |subject: &str, audience: &str, until: i64, signer: &EncodingKey, kid: &str| {
        let claims =
            json!({"iss": iss, "sub": subject, "aud": [audience], "exp": now + until, "nbf": now - 1000});
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::RS256) };
        std::fs::write(&path, format!("{}\n", jsonwebtoken::encode(&header, &claims, signer).unwrap()))
            .unwrap();
    };
    let env = env
        .without("AZURE_CLIENT_SECRET")
        .with("AZURE_CLIENT_ID", client_id)
        .with("AZURE_FEDERATED_TOKEN_FILE", path.to_str().unwrap());
    write("sa:x", "openshift", 600, &first, "one");
    assert_eq!(works(&env).await.unwrap(), 1);

    let client = connect(&env, ClientOptions::default()).await.unwrap().client;
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let entra = Entra { http, login: client.cloud().login.clone(), timing: Timing::system() };
    let source = azure::credential::from_env(&env, entra).await.unwrap().source;
    let ask = TokenRequest::new("https://management.azure.com/.default");
    source.token(&ask).await.unwrap();
    for (subject, audience, until, signer, kid, want) in [
        ("sa:y", "openshift", 600, &first, "one", EntraFault::FederationSubject),
        ("SA:X", "openshift", 600, &first, "one", EntraFault::FederationSubject),
        ("sa:x", "other", 600, &first, "one", EntraFault::FederationAudience),
        ("sa:x", "openshift", -600, &first, "one", EntraFault::AssertionTime),
        ("sa:x", "openshift", 600, &second, "two", EntraFault::UnknownCertificate),
    ] {
        write(subject, audience, until, signer, kid);
        let e = source.token(&ask).await.unwrap_err();
        assert_eq!(e.entra().map(|e| e.fault), Some(want), "{e:?}");
    }
    write("sa:x", "openshift", 600, &first, "one");
    source.token(&ask).await.unwrap();
    std::fs::write(&path, "").unwrap();
    assert!(
        source
            .token(&ask)
            .await
            .unwrap_err()
            .to_string()
            .contains("is the service account's token volume mounted")
    );
    drop(issuer);
    write("sa:x", "openshift", 600, &first, "one");
    assert_eq!(
        source.token(&ask).await.unwrap_err().entra().map(|e| e.fault),
        Some(EntraFault::IssuerUnreachable)
    );
}

async fn trusted_identity(owner: &Client, subscription: &str, issuer: &str) -> String {
    use azure::ops::{FederatedCredentials, RoleAssignments, UserAssignedIdentities};
    let of = |v: Value| v;
    let group = ResourceId::group_scope(subscription, "zaffre-dns").unwrap();
    let identities = owner.arm::<UserAssignedIdentities>();
    let id = identities.id(&group, "i").unwrap();
    let made = identities
        .put(&id, &serde_json::from_value(of(json!({"location": "westus2"}))).unwrap())
        .await
        .unwrap()
        .properties
        .unwrap();
    let fics = owner.arm::<FederatedCredentials>();
    let fic = json!({"properties": {"issuer": issuer, "subject": "sa:x", "audiences": ["openshift"]}});
    fics.put(&fics.id(&id, "fic").unwrap(), &serde_json::from_value(fic).unwrap()).await.unwrap();
    let assignments = owner.arm::<RoleAssignments>();
    let scope = ResourceId::subscription_scope(subscription).unwrap();
    let body = json!({"properties": {"roleDefinitionId": format!("{scope}/providers/Microsoft.Authorization/roleDefinitions/{READER}"), "principalId": made.principal_id, "principalType": "ServicePrincipal"}});
    let at = assignments.id(&scope, "7d0bcd41-94d1-4f0b-9f0a-3c5f6c1f8f10").unwrap();
    assignments.put(&at, &serde_json::from_value(body).unwrap()).await.unwrap();
    made.client_id.unwrap()
}

#[tokio::test]
async fn managed_identities() {
    let (sim, env, _dir) = simulator(Profile::Instant, Vec::new()).await;
    let token = sim.world().owner_token().await;
    let until = clock::system().now().as_second() + 3000;
    let busy = std::sync::atomic::AtomicBool::new(true);
    let metadata = start(false, move |seen| {
        let fits = seen.header("metadata") == Some("true") && seen.path.contains("api-version=2018-02-01") && seen.path.contains("resource=https%3A%2F%2Fmanagement.azure.com");
        if !seen.path.starts_with("/metadata/identity/oauth2/token?") || !fits {
            return say(400, json!({"error": "invalid_request", "error_description": "Required metadata header not specified"}));
        }
        if seen.path.contains("client_id=unknown") {
            return say(400, json!({"error": "invalid_request", "error_description": "Identity not found"}));
        }
        if busy.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return say(410, "");
        }
        say(200, json!({"access_token": token, "expires_on": until.to_string(), "expires_in": "3000", "resource": "r", "token_type": "Bearer"}))
    })
    .await;
    let bare = env
        .without("AZURE_CLIENT_SECRET")
        .without("AZURE_CLIENT_ID")
        .without("AZURE_TENANT_ID")
        .with("PATH", "");
    let imds = bare.clone().with("AZURE_POD_IDENTITY_AUTHORITY_HOST", metadata.url.clone());
    assert_eq!(works(&imds).await.unwrap(), 1);
    let unknown = works(&imds.with("AZURE_CLIENT_ID", "unknown")).await.unwrap_err();
    assert!(format!("{unknown:?}").contains("Identity not found"), "{unknown:?}");

    let token = sim.world().owner_token().await;
    let service = start(false, move |seen| {
        if seen.header("x-identity-header") != Some("shibboleth")
            || !seen.path.contains("api-version=2019-08-01")
        {
            return say(401, json!({"statusCode": "401", "message": "no"}));
        }
        say(200, json!({"access_token": token, "expires_on": until.to_string()}))
    })
    .await;
    let app = bare
        .clone()
        .with("IDENTITY_ENDPOINT", format!("{}/msi/token", service.url))
        .with("IDENTITY_HEADER", "shibboleth");
    assert_eq!(works(&app).await.unwrap(), 1);
    let wrong = works(&app.with("IDENTITY_HEADER", "x")).await.unwrap_err();
    assert!(format!("{wrong:?}").contains("401"), "{wrong:?}");

    // Nothing anywhere: every try is listed, with what to do.
    let nowhere = bare.with("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://localhost:1");
    let none = works(&nowhere).await.unwrap_err();
    let text = std::error::Error::source(&none).unwrap().to_string();
    assert!(
        text.contains("of this machine")
            && text.contains("'az' is not on the PATH")
            && text.contains("set AZURE_CLIENT_ID"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_azure_cli() {
    use std::os::unix::fs::PermissionsExt;
    let (sim, env, dir) = simulator(Profile::Instant, Vec::new()).await;
    let az = dir.path().join("az");
    let script = |text: &str| {
        std::fs::write(&az, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&az, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let token = sim.world().owner_token().await;
    let until = clock::system().now().as_second() + 3000;
    let printed = json!({"accessToken": token, "expires_on": until, "expiresOn": "2024-01-01 00:00:00.000000", "tokenType": "Bearer"});
    script(&format!(
        "[ \"$*\" = 'account get-access-token --output json --scope https://management.azure.com/.default' ] || {{ echo \"unexpected: $*\" >&2; exit 2; }}\necho '{printed}'"
    ));
    let env = env
        .without("AZURE_CLIENT_SECRET")
        .without("AZURE_CLIENT_ID")
        .without("AZURE_TENANT_ID")
        .with("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://localhost:1")
        .with("PATH", dir.path().to_str().unwrap());
    assert_eq!(works(&env).await.unwrap(), 1);
    script("echo 'ERROR: Please run az login to setup account.' >&2; exit 1");
    let out = works(&env).await.unwrap_err();
    assert!(std::error::Error::source(&out).unwrap().to_string().contains("Please run az login"), "{out:?}");
    script("echo junk");
    assert!(works(&env).await.is_err());
}

#[tokio::test]
async fn clouds_by_metadata_and_through_the_proxy() {
    let (_sim, env, _dir) = simulator(Profile::Instant, Vec::new()).await;
    assert_eq!(
        works(&env.clone().without("ZAFFRE_AZURE_LOGIN_URL")).await.unwrap(),
        1,
        "by /metadata/endpoints"
    );
    let custom =
        connect(&env.clone().without("ZAFFRE_AZURE_LOGIN_URL"), ClientOptions::default()).await.unwrap();
    let own = custom.client.graph().service_principal_of(env.get("AZURE_CLIENT_ID").unwrap()).await.unwrap();
    assert!(own.is_some(), "Graph too");
    // Public Azure, unmodified, by the proxy and the authority that the environment names.
    let public = env.without("ZAFFRE_AZURE_ARM_URL").without("ZAFFRE_AZURE_LOGIN_URL");
    let connected = connect(&public, ClientOptions::default()).await.unwrap();
    assert_eq!(connected.client.cloud(), &Cloud::public());
    assert_eq!(works(&public).await.unwrap(), 1);
    let graph = connected.client.graph();
    assert!(graph.service_principal_of(public.get("AZURE_CLIENT_ID").unwrap()).await.unwrap().is_some());
    let untrusted = works(&public.clone().without("SSL_CERT_FILE")).await.unwrap_err();
    assert!(format!("{untrusted:?}").contains("Untrusted") && !untrusted.is_transient(), "{untrusted:?}");
    let gov = connect(&public.with("AZURE_ENVIRONMENT", "AzureUSGovernmentCloud"), ClientOptions::default())
        .await
        .unwrap();
    assert_eq!(gov.client.cloud().arm.as_str(), "https://management.usgovcloudapi.net");
}

/// What an issuer of tokens says of itself is read, by who trusts it, and no other.
#[tokio::test]
async fn an_issuer_says_where_it_is() {
    let (sim, env, _dir) = simulator(Profile::Instant, Vec::new()).await;
    let [host, tenant] =
        ["ZAFFRE_AZURE_LOGIN_URL", "AZURE_TENANT_ID"].map(|n| env.get(n).unwrap().to_owned());
    let issuer = format!("{}/{tenant}/v2.0/", host.trim_end_matches('/'));
    let nothing = Env::new([("NO_PROXY", "*")]);
    let said = azure::openid::discover(&nothing, &issuer, Some(sim.ca_pem())).await.unwrap();
    assert!(said["token_endpoint"].as_str().unwrap().ends_with("/oauth2/v2.0/token"), "{said}");
    let why = azure::openid::discover(&nothing, &issuer, None).await.unwrap_err();
    assert!(why.to_lowercase().contains("certificate"), "{why}");
    let elsewhere = format!("{}/nobody", host.trim_end_matches('/'));
    let why = azure::openid::discover(&nothing, &elsewhere, Some(sim.ca_pem())).await.unwrap_err();
    assert!(why.contains("/nobody/.well-known/openid-configuration: 4"), "{why}");
    let why = azure::openid::discover(&nothing, "http://plain.example", None).await.unwrap_err();
    assert!(why.contains("is no https URL"), "{why}");
}
