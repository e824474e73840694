//! Vaults, accounts, registries and a front door, by the protocols their clients speak.

use crate::support::{Lab, call, code, lab};
use azure_sim::{FrontDoor, Profile, Reply};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

const ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
const SECRETS_USER: &str = "4633458b-17de-408a-b874-0445c86b69e6";
const BLOB_CONTRIBUTOR: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
const PULL: &str = "7f951dda-4ed3-4680-a7ca-43fe172d538d";

async fn token(lab: &Lab, client: &str, secret: &str, audience: &str) -> String {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("client_secret", secret)
        .append_pair("scope", &format!("{audience}/.default"))
        .finish();
    let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
    c.body = form.into();
    let reply = lab.world.login(&c).await;
    reply.body.unwrap()["access_token"].as_str().unwrap().to_owned()
}

async fn owner(lab: &Lab, audience: &str) -> String {
    let (client, secret) = lab.world.owner_login();
    token(lab, &client, &secret, audience).await
}

fn ask(lab: &Lab, method: &str, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
    let mut map = HeaderMap::new();
    for (k, v) in headers {
        map.insert(HeaderName::from_bytes(k.as_bytes()).unwrap(), v.parse().unwrap());
    }
    lab.world.ask_plane(&method.parse::<Method>().unwrap(), url, map, body.into()).unwrap()
}

fn json_as(lab: &Lab, token: &str, method: &str, url: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
    ask(lab, method, url, headers, body.map_or_else(String::new, |b| b.to_string()))
}

fn error(reply: &Reply) -> String {
    match reply.headers.get("x-ms-error-code") {
        Some(v) => v.to_str().unwrap().to_owned(),
        None => {
            let body = reply.body.clone().unwrap_or_default();
            body["errors"][0]["code"].as_str().map_or_else(|| code(reply), str::to_owned)
        }
    }
}

fn make(lab: &Lab, id: &str, version: &str, body: Value) -> Reply {
    let made = lab.ask("PUT", &format!("{id}?api-version={version}"), Some(&body));
    assert!(made.status.is_success(), "{made:?}");
    made
}

fn vault(lab: &Lab, name: &str, extra: Value) -> String {
    let id = format!("{}/providers/Microsoft.KeyVault/vaults/{name}", lab.group("g"));
    let mut p = json!({"tenantId": lab.world.tenant(), "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true});
    p.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    make(lab, &id, "2023-07-01", json!({"location": "westus2", "properties": p}));
    id
}

#[tokio::test]
async fn a_vault_registers_its_name_and_keeps_what_was_deleted() {
    let lab = lab(Profile::Real).await;
    let id = vault(&lab, "kv-one", json!({}));
    let at = |v: &str| format!("{v}?api-version=2023-07-01");
    let state =
        |r: &Reply| r.body.as_ref().unwrap()["properties"]["provisioningState"].as_str().unwrap().to_owned();
    assert_eq!(state(&lab.ask("GET", &at(&id), None)), "RegisteringDns");
    lab.pass(20);
    assert_eq!(state(&lab.ask("GET", &at(&id), None)), "Succeeded");
    let body = json!({"location": "westus2", "properties": {"tenantId": lab.world.tenant(), "sku": {"family": "A", "name": "standard"}}});
    let other = id.replace("/g/", "/h/");
    lab.group("h");
    assert_eq!(code(&lab.ask("PUT", &at(&other), Some(&body))), "VaultAlreadyExists");
    assert_eq!(
        code(&lab.ask("PUT", &at(&other.replace("kv-one", "9bad")), Some(&body))),
        "VaultNameNotValid"
    );
    lab.world.assign(lab.world.owner_object(), ADMINISTRATOR, &id);
    let token = owner(&lab, "https://vault.azure.net").await;
    let secret = "https://kv-one.vault.azure.net/secrets/s?api-version=7.4";
    assert_eq!(json_as(&lab, &token, "PUT", secret, Some(json!({"value": "x"}))).status, 200);
    assert_eq!(lab.ask("DELETE", &at(&id), None).status, 200);
    assert_eq!(error(&json_as(&lab, &token, "GET", secret, None)), "VaultNotFound");
    assert_eq!(code(&lab.ask("PUT", &at(&id), Some(&body))), "ConflictError");
    let s = format!("/subscriptions/{}/providers/Microsoft.KeyVault", lab.world.subscription());
    let gone = format!("{s}/locations/westus2/deletedVaults/kv-one");
    assert_eq!(lab.ask("GET", &at(&gone), None).status, 200);
    assert_eq!(
        lab.ask("GET", &at(&format!("{s}/deletedVaults")), None).body.unwrap()["value"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(lab.world.leaks().to_string().contains("deletedVaults/kv-one"));
    let mut back = body.clone();
    back["properties"]["createMode"] = "recover".into();
    assert_eq!(lab.ask("PUT", &at(&id), Some(&back)).status, 200);
    assert_eq!(code(&lab.ask("GET", &at(&gone), None)), "DeletedVaultNotFound");
    assert_eq!(json_as(&lab, &token, "GET", secret, None).status, 403, "role assignments do not come back");
    lab.world.assign(lab.world.owner_object(), ADMINISTRATOR, &id);
    assert_eq!(json_as(&lab, &token, "GET", secret, None).status, 200, "what it held is back");
    lab.ask("DELETE", &at(&id), None);
    let purged = lab.ask("POST", &at(&format!("{gone}/purge")), None);
    assert_eq!(purged.status, 202);
    assert!(purged.headers.contains_key("location"));
    lab.pass(60);
    assert_eq!(code(&lab.ask("GET", &at(&gone), None)), "DeletedVaultNotFound");
    make(&lab, &id, "2023-07-01", body);
    lab.pass(20);
    lab.world.assign(lab.world.owner_object(), ADMINISTRATOR, &id);
    assert!(!lab.world.leaks().to_string().contains("deletedVaults"));
}

#[tokio::test]
async fn secrets_by_challenge_role_and_policy() {
    let lab = lab(Profile::Instant).await;
    let id = vault(&lab, "kvs", json!({"softDeleteRetentionInDays": 7}));
    let url = |p: &str| format!("https://kvs.vault.azure.net/{p}?api-version=7.5");
    let none = json_as(&lab, "", "GET", &url("secrets/"), None);
    assert_eq!(none.status, 401);
    let challenge = none.headers["www-authenticate"].to_str().unwrap();
    assert!(
        challenge.contains("resource=\"https://vault.azure.net\"") && challenge.contains(lab.world.tenant()),
        "{challenge}"
    );
    let wrong = owner(&lab, "https://management.azure.com").await;
    assert_eq!(json_as(&lab, &wrong, "GET", &url("secrets"), None).status, 401, "a token for somebody else");
    let (client, object) = lab.world.add_app("reader", "pw", Vec::new());
    let reader = token(&lab, &client, "pw", "https://vault.azure.net").await;
    let refused = json_as(&lab, &reader, "GET", &url("secrets/s"), None);
    assert_eq!((refused.status.as_u16(), error(&refused).as_str()), (403, "Forbidden"));
    lab.world.assign(lab.world.owner_object(), ADMINISTRATOR, &id);
    lab.world.assign(&object, SECRETS_USER, &format!("{id}/secrets/s"));
    let admin = owner(&lab, "https://vault.azure.net").await;
    for value in ["one", "two"] {
        let body = json!({"value": value, "tags": {"t": value}, "contentType": "text/plain", "attributes": {"exp": 2_000_000_000}});
        assert_eq!(json_as(&lab, &admin, "PUT", &url("secrets/S"), Some(body)).status, 200);
    }
    let got = json_as(&lab, &reader, "GET", &url("secrets/s/"), None).body.unwrap();
    assert_eq!(
        (got["value"].as_str(), got["tags"]["t"].as_str(), got["attributes"]["recoverableDays"].as_i64()),
        (Some("two"), Some("two"), Some(7))
    );
    assert_eq!(
        json_as(&lab, &reader, "GET", &url("secrets/other"), None).status,
        403,
        "the role is for one secret"
    );
    let versions = json_as(&lab, &admin, "GET", &url("secrets/s/versions"), None).body.unwrap();
    assert_eq!(versions["value"].as_array().unwrap().len(), 2);
    let first = versions["value"][0]["id"].as_str().unwrap().to_owned();
    let old = json_as(&lab, &admin, "GET", &format!("{first}?api-version=7.5"), None).body.unwrap();
    assert_eq!(old["value"], "one");
    for i in 0..30 {
        json_as(&lab, &admin, "PUT", &url(&format!("secrets/n{i:02}")), Some(json!({"value": "v"})));
    }
    let (mut at, mut seen) = (Some(format!("{}&maxresults=10", url("secrets"))), 0);
    while let Some(url) = at {
        let page = json_as(&lab, &admin, "GET", &url, None).body.unwrap();
        assert!(
            page["value"].as_array().unwrap().iter().all(|v| v.get("value").is_none()),
            "lists hold no values"
        );
        seen += page["value"].as_array().unwrap().len();
        at = page["nextLink"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, 31);
    assert_eq!(json_as(&lab, &admin, "DELETE", &url("secrets/s"), None).status, 200);
    assert_eq!(error(&json_as(&lab, &admin, "GET", &url("secrets/s"), None)), "SecretNotFound");
    assert_eq!(
        error(&json_as(&lab, &admin, "PUT", &url("secrets/s"), Some(json!({"value": "x"})))),
        "Conflict"
    );
    assert_eq!(json_as(&lab, &admin, "POST", &url("deletedsecrets/s/recover"), None).status, 200);
    assert_eq!(json_as(&lab, &admin, "GET", &url("secrets/s"), None).body.unwrap()["value"], "two");
    json_as(&lab, &admin, "DELETE", &url("secrets/s"), None);
    assert_eq!(json_as(&lab, &admin, "DELETE", &url("deletedsecrets/s"), None).status, 204);
    assert_eq!(error(&json_as(&lab, &admin, "GET", &url("deletedsecrets/s"), None)), "SecretNotFound");
    let big = json!({"value": "x".repeat(30_000)});
    assert_eq!(error(&json_as(&lab, &admin, "PUT", &url("secrets/b"), Some(big))), "BadParameter");
    // The journal knows who did what, and by which right; and nothing of values.
    let entry = lab.world.journal().into_iter().rfind(|e| e.path.ends_with("/secrets/other")).unwrap();
    assert_eq!(entry.action.as_deref(), Some("Microsoft.KeyVault/vaults/secrets/getSecret/action"));
    assert_eq!((entry.principal.as_deref(), entry.granted_by), (Some(object.as_str()), None));
    assert!(lab.world.least_privilege().to_string().contains("secrets/getSecret/action"));
    // Access policies instead of roles.
    let id = vault(&lab, "kvp", json!({"enableRbacAuthorization": false}));
    let url = "https://kvp.vault.azure.net/secrets/s?api-version=7.5";
    assert_eq!(json_as(&lab, &reader, "GET", url, None).status, 403);
    let policy = json!({"properties": {"accessPolicies": [{"tenantId": lab.world.tenant(), "objectId": object, "permissions": {"secrets": ["get", "set"]}}]}});
    let put = |verb: &str| {
        lab.ask("PUT", &format!("{id}/accessPolicies/{verb}?api-version=2023-07-01"), Some(&policy)).status
    };
    assert_eq!(put("add"), 200);
    assert_eq!(json_as(&lab, &reader, "PUT", url, Some(json!({"value": "p"}))).status, 200);
    assert_eq!(json_as(&lab, &reader, "GET", url, None).body.unwrap()["value"], "p");
    assert_eq!(put("remove"), 200);
    assert_eq!(json_as(&lab, &reader, "GET", url, None).status, 403);
}

#[tokio::test]
async fn keys_and_certificates() {
    let lab = lab(Profile::Real).await;
    let id = vault(&lab, "kvc", json!({}));
    lab.pass(20);
    lab.world.assign(lab.world.owner_object(), ADMINISTRATOR, &id);
    let t = owner(&lab, "https://vault.azure.net").await;
    let url = |p: &str| format!("https://kvc.vault.azure.net/{p}?api-version=2025-07-01");
    let made =
        json_as(&lab, &t, "POST", &url("keys/k/create"), Some(json!({"kty": "RSA", "key_size": 2048})));
    assert_eq!(made.status, 200, "{made:?}");
    let secret = URL_SAFE_NO_PAD.encode(b"data key");
    let locked = json_as(
        &lab,
        &t,
        "POST",
        &url("keys/k//encrypt"),
        Some(json!({"alg": "RSA-OAEP-256", "value": secret})),
    )
    .body
    .unwrap();
    let open = json_as(
        &lab,
        &t,
        "POST",
        &url("keys/k//decrypt"),
        Some(json!({"alg": "RSA-OAEP-256", "value": locked["value"]})),
    )
    .body
    .unwrap();
    assert_eq!(open["value"].as_str(), Some(secret.as_str()));
    assert_eq!(
        error(&json_as(
            &lab,
            &t,
            "POST",
            &url("keys/k//sign"),
            Some(json!({"alg": "ES256", "value": secret}))
        )),
        "BadParameter"
    );
    assert_eq!(
        error(&json_as(&lab, &t, "POST", &url("keys/o/create"), Some(json!({"kty": "oct"})))),
        "BadParameter"
    );
    let before = made.body.unwrap()["key"]["kid"].clone();
    let rotated = json_as(&lab, &t, "POST", &url("keys/k/rotate"), None).body.unwrap();
    assert_ne!(rotated["key"]["kid"], before);
    // The old version still opens what it locked.
    let at = format!("{}/decrypt?api-version=7.4", before.as_str().unwrap());
    assert_eq!(
        json_as(&lab, &t, "POST", &at, Some(json!({"alg": "RSA-OAEP-256", "value": locked["value"]})))
            .body
            .unwrap()["value"]
            .as_str(),
        Some(secret.as_str())
    );

    let policy = json!({"issuer": {"name": "Self"}, "x509_props": {"subject": "CN=app", "validity_months": 6}, "key_props": {"kty": "RSA", "key_size": 2048, "exportable": true}, "secret_props": {"contentType": "application/x-pem-file"}});
    let begun = json_as(&lab, &t, "POST", &url("certificates/c/create"), Some(json!({"policy": policy})));
    assert_eq!((begun.status.as_u16(), begun.body.unwrap()["status"].as_str()), (202, Some("inProgress")));
    assert_eq!(error(&json_as(&lab, &t, "GET", &url("certificates/c"), None)), "CertificateNotFound");
    lab.pass(15);
    let t = owner(&lab, "https://vault.azure.net").await;
    assert_eq!(
        json_as(&lab, &t, "GET", &url("certificates/c/pending"), None).body.unwrap()["status"],
        "completed"
    );
    let cert = json_as(&lab, &t, "GET", &url("certificates/c"), None).body.unwrap();
    let pem =
        json_as(&lab, &t, "GET", &url("secrets/c"), None).body.unwrap()["value"].as_str().unwrap().to_owned();
    assert!(pem.contains("PRIVATE KEY") && pem.contains("CERTIFICATE"));
    assert_eq!(
        error(&json_as(&lab, &t, "PUT", &url("secrets/c"), Some(json!({"value": "x"})))),
        "Forbidden",
        "it is the certificate's"
    );
    assert_eq!(
        error(&json_as(
            &lab,
            &t,
            "POST",
            &url("certificates/i/import"),
            Some(json!({"value": STANDARD.encode(b"not a pfx")}))
        )),
        "BadParameter"
    );
    assert_eq!(
        json_as(&lab, &t, "POST", &url("certificates/i/import"), Some(json!({"value": pem}))).status,
        200
    );
    assert_eq!(json_as(&lab, &t, "GET", &url("certificates/i"), None).body.unwrap()["x5t"], cert["x5t"]);
    // The certificate logs an application in.
    let der = STANDARD.decode(cert["cer"].as_str().unwrap()).unwrap();
    let (client, _) = lab.world.add_app("by-certificate", "unused", vec![der]);
    let key = EncodingKey::from_rsa_pem(&pem.as_bytes()[..pem.find("-----BEGIN CERT").unwrap()]).unwrap();
    let now = 1_700_000_000 + 35;
    let claims = json!({"aud": "x", "iss": client, "sub": client, "jti": "1", "nbf": now, "exp": now + 600});
    let assertion = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key).unwrap();
    let reply = exchange(&lab, &client, &assertion).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    assert_eq!(json_as(&lab, &t, "DELETE", &url("certificates/c"), None).status, 200);
    assert_eq!(
        error(&json_as(&lab, &t, "GET", &url("secrets/c"), None)),
        "SecretNotFound",
        "its secret went with it"
    );
}

async fn exchange(lab: &Lab, client: &str, assertion: &str) -> Reply {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("scope", "https://management.azure.com/.default")
        .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        .append_pair("client_assertion", assertion)
        .finish();
    let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
    c.body = form.into();
    lab.world.login(&c).await
}

fn account(lab: &Lab, name: &str, extra: Value) -> String {
    let id = format!("{}/providers/Microsoft.Storage/storageAccounts/{name}", lab.group("g"));
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": extra});
    let made = make(lab, &id, "2023-05-01", body);
    assert_eq!((made.status.as_u16(), made.body.is_none()), (202, true));
    lab.pass(60);
    id
}

#[tokio::test]
async fn blobs_by_token_key_signature_and_by_nobody() {
    let lab = lab(Profile::Real).await;
    let id = format!("{}/providers/Microsoft.Storage/storageAccounts/acct", lab.group("g"));
    let body = json!({"location": "westus2", "sku": {"name": "Standard_LRS"}, "properties": {"allowBlobPublicAccess": true}});
    make(&lab, &id, "2023-05-01", body.clone());
    let keys = format!("{id}/listKeys?api-version=2023-05-01");
    assert_eq!(code(&lab.ask("POST", &keys, None)), "StorageAccountIsNotProvisioned");
    lab.pass(60);
    let key = lab.ask("POST", &keys, None).body.unwrap()["keys"][0]["value"].as_str().unwrap().to_owned();
    let taken = id.replace("/g/", "/h/");
    lab.group("h");
    assert_eq!(
        code(&lab.ask("PUT", &format!("{taken}?api-version=2023-05-01"), Some(&body))),
        "StorageAccountAlreadyTaken"
    );
    assert_eq!(
        code(&lab.ask("PUT", &format!("{taken}-?api-version=2023-05-01"), Some(&body))),
        "AccountNameInvalid"
    );
    let t = owner(&lab, "https://storage.azure.com").await;
    let bearer = format!("Bearer {t}");
    let by: &[(&str, &str)] =
        &[("authorization", &bearer), ("x-ms-version", "2024-11-04"), ("x-ms-blob-type", "BlockBlob")];
    let at = "https://acct.blob.core.windows.net";
    assert_eq!(
        ask(&lab, "PUT", &format!("{at}/docs?restype=container"), by, "").status,
        201,
        "a control action"
    );
    assert_eq!(
        error(&ask(&lab, "PUT", &format!("{at}/docs/a"), by, "x")),
        "AuthorizationPermissionMismatch",
        "Owner has no data actions"
    );
    lab.world.assign(lab.world.owner_object(), BLOB_CONTRIBUTOR, &id);
    assert_eq!(ask(&lab, "PUT", &format!("{at}/docs/dir/a%20b"), by, "hello world").status, 201);
    let got = ask(&lab, "GET", &format!("{at}/docs/dir/a%20b"), by, "");
    assert_eq!((got.status.as_u16(), &got.bytes()[..]), (200, &b"hello world"[..]));
    let part = [by, &[("range", "bytes=6-8")]].concat();
    let got = ask(&lab, "GET", &format!("{at}/docs/dir/a%20b"), &part, "");
    assert_eq!(
        (got.status.as_u16(), &got.bytes()[..], got.headers["content-range"].to_str().unwrap()),
        (206, &b"wor"[..], "bytes 6-8/11")
    );
    let beyond = [by, &[("range", "bytes=99-")]].concat();
    assert_eq!(error(&ask(&lab, "GET", &format!("{at}/docs/dir/a%20b"), &beyond, "")), "InvalidRange");
    let fresh = [by, &[("if-none-match", "*")]].concat();
    assert_eq!(error(&ask(&lab, "PUT", &format!("{at}/docs/dir/a%20b"), &fresh, "x")), "BlobAlreadyExists");
    let stale = [by, &[("if-match", "\"0x0\"")]].concat();
    assert_eq!(error(&ask(&lab, "DELETE", &format!("{at}/docs/dir/a%20b"), &stale, "")), "ConditionNotMet");
    let torn = [by, &[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")]].concat();
    assert_eq!(error(&ask(&lab, "PUT", &format!("{at}/docs/torn"), &torn, "x")), "Md5Mismatch");
    assert_eq!(error(&ask(&lab, "PUT", &format!("{at}/docs/%2e%2e/x"), by, "x")), "InvalidUri");
    // Blocks.
    for (block, text) in [("QQ==", "one "), ("Qg==", "two")] {
        assert_eq!(
            ask(&lab, "PUT", &format!("{at}/docs/blocks?comp=block&blockid={block}"), by, text).status,
            201
        );
    }
    assert_eq!(error(&ask(&lab, "GET", &format!("{at}/docs/blocks"), by, "")), "BlobNotFound");
    let list = |ids: &[&str]| {
        format!(
            "<BlockList>{}</BlockList>",
            ids.iter().map(|i| format!("<Latest>{i}</Latest>")).collect::<String>()
        )
    };
    let commit = format!("{at}/docs/blocks?comp=blocklist");
    assert_eq!(error(&ask(&lab, "PUT", &commit, by, list(&["Qw=="]))), "InvalidBlockList");
    let bomb = r#"<!DOCTYPE x [<!ENTITY a "aa">]><BlockList><Latest>&a;</Latest></BlockList>"#;
    assert_eq!(error(&ask(&lab, "PUT", &commit, by, bomb)), "InvalidXmlDocument");
    assert_eq!(ask(&lab, "PUT", &commit, by, list(&["Qg==", "QQ=="])).status, 201);
    assert_eq!(&ask(&lab, "GET", &format!("{at}/docs/blocks"), by, "").bytes()[..], b"twoone ");
    // Lists, with folders and pages.
    for n in ["dir/c", "dir/sub/d", "z"] {
        ask(&lab, "PUT", &format!("{at}/docs/{n}"), by, "x");
    }
    let names = |query: &str| {
        let text = String::from_utf8(
            ask(&lab, "GET", &format!("{at}/docs?restype=container&comp=list{query}"), by, "")
                .bytes()
                .to_vec(),
        )
        .unwrap();
        let names: Vec<String> =
            text.split("<Name>").skip(1).map(|p| p.split("</Name>").next().unwrap().to_owned()).collect();
        let next = text.split("<NextMarker>").nth(1).map(|p| p.split('<').next().unwrap().to_owned());
        (names, next.unwrap_or_default())
    };
    assert_eq!(names("").0, ["blocks", "dir/a b", "dir/c", "dir/sub/d", "z"]);
    assert_eq!(names("&delimiter=/").0, ["blocks", "dir/", "z"]);
    assert_eq!(names("&delimiter=/&prefix=dir/").0, ["dir/a b", "dir/c", "dir/sub/"]);
    let (mut all, mut marker) = (Vec::new(), String::new());
    loop {
        let (page, next) = names(&format!("&maxresults=1&delimiter=/&marker={marker}"));
        all.extend(page);
        if next.is_empty() {
            break;
        }
        marker = next;
    }
    assert_eq!(all, ["blocks", "dir/", "z"]);
    // The account's key, and what is signed with it.
    let date = "Tue, 14 Nov 2023 22:13:20 GMT";
    let text = format!("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2024-11-04\n/acct/docs/z");
    let sign = |text: &str| {
        let k = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &STANDARD.decode(&key).unwrap());
        STANDARD.encode(aws_lc_rs::hmac::sign(&k, text.as_bytes()))
    };
    let shared = |s: &str| {
        let a = format!("SharedKey acct:{s}");
        ask(
            &lab,
            "GET",
            &format!("{at}/docs/z"),
            &[("authorization", &a), ("x-ms-date", date), ("x-ms-version", "2024-11-04")],
            "",
        )
    };
    assert_eq!(shared(&sign(&text)).status, 200);
    assert_eq!(error(&shared(&sign("forged"))), "AuthenticationFailed");
    let sas = |sp: &str, se: &str, tamper: &str| {
        let sv = "2022-11-02";
        let text =
            [sp, "", se, "/blob/acct/docs", "", "", "https", sv, "c", "", "", "", "", "", "", ""].join("\n");
        let sig = url::form_urlencoded::byte_serialize(sign(&text).as_bytes()).collect::<String>();
        let sp = if tamper.is_empty() { sp } else { tamper };
        format!("sv={sv}&sr=c&sp={sp}&se={se}&spr=https&sig={sig}")
    };
    let with = |method: &str, q: String| {
        ask(
            &lab,
            method,
            &format!("{at}/docs/z?{q}"),
            &[("x-ms-version", "2024-11-04"), ("x-ms-blob-type", "BlockBlob")],
            "y",
        )
    };
    assert_eq!(with("GET", sas("r", "2030-01-01T00:00:00Z", "")).status, 200);
    assert_eq!(error(&with("PUT", sas("r", "2030-01-01T00:00:00Z", ""))), "AuthorizationPermissionMismatch");
    assert_eq!(error(&with("PUT", sas("r", "2030-01-01T00:00:00Z", "rw"))), "AuthenticationFailed", "forged");
    assert_eq!(error(&with("GET", sas("r", "2023-01-01T00:00:00Z", ""))), "AuthenticationFailed", "expired");
    // Nobody.
    assert_eq!(error(&ask(&lab, "GET", &format!("{at}/docs/z"), &[], "")), "ResourceNotFound");
    assert_eq!(
        error(&ask(&lab, "GET", &format!("{at}/docs/z"), &[("x-ms-version", "2024-11-04")], "")),
        "NoAuthenticationInformation"
    );
    let container = format!("{id}/blobServices/default/containers/docs?api-version=2023-05-01");
    assert_eq!(
        lab.ask("PUT", &container, Some(&json!({"properties": {"publicAccess": "Blob"}}))).status,
        200
    );
    assert_eq!(ask(&lab, "GET", &format!("{at}/docs/z"), &[], "").status, 200);
    assert_eq!(
        error(&ask(&lab, "GET", &format!("{at}/docs?restype=container&comp=list"), &[], "")),
        "ResourceNotFound",
        "blobs, not the list"
    );
    // A copy, a rotated key, the end.
    let source = [by, &[("x-ms-copy-source", "https://acct.blob.core.windows.net/docs/blocks")]].concat();
    assert_eq!(ask(&lab, "PUT", &format!("{at}/docs/copy"), &source, "").status, 202);
    assert_eq!(&ask(&lab, "GET", &format!("{at}/docs/copy"), by, "").bytes()[..], b"twoone ");
    let leak = lab.world.leaks().to_string();
    assert!(leak.contains("\"blobs\":6"), "{leak}");
    assert_eq!(
        lab.ask(
            "POST",
            &format!("{id}/regenerateKey?api-version=2023-05-01"),
            Some(&json!({"keyName": "key1"}))
        )
        .status,
        200
    );
    assert_eq!(error(&shared(&sign(&text))), "AuthenticationFailed");
    assert_eq!(lab.ask("DELETE", &format!("{id}?api-version=2023-05-01"), None).status, 200);
    assert_eq!(error(&ask(&lab, "GET", &format!("{at}/docs/z"), &[], "")), "HostNotFound");
}

/// A cluster's issuer published in `$web`, fetched by the exchange itself: directly, and behind the front door.
#[tokio::test]
async fn an_issuer_in_the_simulators_own_storage() {
    let lab = lab(Profile::Instant).await;
    let id = account(&lab, "oidc", json!({}));
    account(&lab, "spare", json!({}));
    lab.world.assign(lab.world.owner_object(), BLOB_CONTRIBUTOR, &lab.group("g"));
    let t = owner(&lab, "https://storage.azure.com").await;
    let bearer = format!("Bearer {t}");
    let by: &[(&str, &str)] =
        &[("authorization", &bearer), ("x-ms-version", "2024-11-04"), ("x-ms-blob-type", "BlockBlob")];
    let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some("k".into());
    let door = "westus2.oic.example.zaffre.test";
    let site = "oidc.z5.web.core.windows.net";
    for (n, host) in [("a", site), ("b", door)] {
        let issuer = format!("https://{host}/{uuid}/{n}");
        for account in ["oidc", "spare"] {
            let at = format!("https://{account}.blob.core.windows.net");
            let on = "<StorageServiceProperties><StaticWebsite><Enabled>true</Enabled><IndexDocument>index.html</IndexDocument></StaticWebsite></StorageServiceProperties>";
            assert_eq!(
                error(&ask(&lab, "PUT", &format!("{at}/?restype=service&comp=properties"), by, on)),
                ""
            );
            let put = |path: &str, body: Value| {
                assert_eq!(
                    ask(&lab, "PUT", &format!("{at}/$web/{uuid}/{n}/{path}"), by, body.to_string()).status,
                    201
                )
            };
            put(
                ".well-known/openid-configuration",
                json!({"issuer": issuer, "jwks_uri": format!("{issuer}/openid/v1/jwks")}),
            );
            put("openid/v1/jwks", json!({"keys": [jwk]}));
        }
        let robot =
            format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i{n}", lab.group("g"));
        let made = make(&lab, &robot, "2024-11-30", json!({"location": "westus2"}));
        let client = made.body.unwrap()["properties"]["clientId"].as_str().unwrap().to_owned();
        let fic = json!({"properties": {"issuer": issuer, "subject": "sa", "audiences": ["openshift"]}});
        make(&lab, &format!("{robot}/federatedIdentityCredentials/fic"), "2024-11-30", fic);
        let now = lab.world.now().as_second();
        let claims = json!({"iss": issuer, "sub": "sa", "aud": "openshift", "exp": now + 600, "nbf": now});
        let mut h = Header::new(Algorithm::RS256);
        h.kid = Some("k".into());
        let assertion = jsonwebtoken::encode(&h, &claims, &key).unwrap();
        let outcome = async || exchange(&lab, &client, &assertion).await;
        if n == "a" {
            assert_eq!(outcome().await.status, 200);
            continue;
        }
        assert_eq!(outcome().await.body.unwrap()["error_codes"][0], 50166, "there is no front door yet");
        let mut config = FrontDoor::oidc(&[site, "spare.z5.web.core.windows.net"]);
        lab.world.set_front_door(door, config.clone()).unwrap();
        assert_eq!(outcome().await.status, 200);
        let get = |path: &str| ask(&lab, "GET", &format!("https://{door}{path}"), &[], "").status.as_u16();
        assert_eq!(get(&format!("/{uuid}/b/openid/v1/jwks")), 200);
        assert_eq!(get("/index.html"), 403, "not on the list");
        assert_eq!(get(&format!("/{uuid}/c/openid/v1/jwks")), 404);
        // An origin goes down: the other answers. Both: nobody does.
        lab.ask("DELETE", &format!("{id}?api-version=2023-05-01"), None);
        assert_eq!(outcome().await.status, 200);
        config.origins[1].down = true;
        lab.world.set_front_door(door, config).unwrap();
        assert_eq!(get(&format!("/{uuid}/b/openid/v1/jwks")), 503);
        assert_eq!(outcome().await.body.unwrap()["error_codes"][0], 50166);
        assert!(lab.world.set_front_door("evil.test", FrontDoor::oidc(&[site])).is_err());
    }
}

#[tokio::test]
async fn a_registry_takes_only_what_it_can_verify() {
    let lab = lab(Profile::Instant).await;
    let s = format!("/subscriptions/{}", lab.world.subscription());
    assert_eq!(
        lab.ask(
            "POST",
            &format!("{s}/providers/Microsoft.ContainerRegistry/register?api-version=2021-04-01"),
            None
        )
        .status,
        200
    );
    let g = lab.group("g");
    let id = |n: &str| format!("{g}/providers/Microsoft.ContainerRegistry/registries/{n}");
    for n in ["regone", "regtwo"] {
        make(&lab, &id(n), "2023-07-01", json!({"location": "westus2", "sku": {"name": "Premium"}}));
    }
    let at = "https://regone.azurecr.io";
    let open = ask(&lab, "GET", &format!("{at}/v2/"), &[], "");
    assert_eq!(open.status, 401);
    assert!(
        open.headers["www-authenticate"].to_str().unwrap().contains("https://regone.azurecr.io/oauth2/token")
    );
    let form = |pairs: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    };
    let access = |aad: &str, scope: &str| {
        let got = ask(
            &lab,
            "POST",
            &format!("{at}/oauth2/exchange"),
            &[],
            form(&[("grant_type", "access_token"), ("service", "regone.azurecr.io"), ("access_token", aad)]),
        );
        let refresh = got.body.unwrap()["refresh_token"].as_str()?.to_owned();
        let got = ask(
            &lab,
            "POST",
            &format!("{at}/oauth2/token"),
            &[],
            form(&[
                ("grant_type", "refresh_token"),
                ("service", "regone.azurecr.io"),
                ("scope", scope),
                ("refresh_token", &refresh),
            ]),
        );
        got.body.unwrap()["access_token"].as_str().map(str::to_owned)
    };
    let t = access(&lab.token, "repository:team/app:pull,push,delete").unwrap();
    let bearer = format!("Bearer {t}");
    let by: &[(&str, &str)] = &[("authorization", &bearer)];
    let sum = |b: &[u8]| {
        let d = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b);
        format!("sha256:{}", d.as_ref().iter().map(|x| format!("{x:02x}")).collect::<String>())
    };
    let repo = format!("{at}/v2/team/app");
    let begin = || {
        ask(&lab, "POST", &format!("{repo}/blobs/uploads/"), by, "").headers["location"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    let (config, layer) = (b"{}".as_slice(), b"layer bytes".as_slice());
    // In pieces, with a wrong digest first: nothing is there afterwards.
    let to = begin();
    assert_eq!(
        ask(
            &lab,
            "PATCH",
            &format!("{at}{to}"),
            &[("authorization", &bearer), ("content-range", "0-4")],
            &layer[..5]
        )
        .status,
        202
    );
    assert_eq!(
        ask(
            &lab,
            "PATCH",
            &format!("{at}{to}"),
            &[("authorization", &bearer), ("content-range", "9-10")],
            &layer[9..]
        )
        .status,
        416
    );
    assert_eq!(ask(&lab, "PATCH", &format!("{at}{to}"), by, &layer[5..]).status, 202);
    assert_eq!(
        error(&ask(&lab, "PUT", &format!("{at}{to}?digest={}", sum(b"other")), by, "")),
        "DIGEST_INVALID"
    );
    assert_eq!(error(&ask(&lab, "GET", &format!("{repo}/blobs/{}", sum(layer)), by, "")), "BLOB_UNKNOWN");
    assert_eq!(ask(&lab, "PUT", &format!("{at}{to}?digest={}", sum(layer)), by, "").status, 201);
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": media, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sum(config), "size": 2}, "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": sum(layer), "size": 11}]}).to_string();
    let put = |reference: &str| {
        ask(
            &lab,
            "PUT",
            &format!("{repo}/manifests/{reference}"),
            &[("authorization", &bearer), ("content-type", media)],
            manifest.clone(),
        )
    };
    assert_eq!(error(&put("v1")), "MANIFEST_BLOB_UNKNOWN");
    assert_eq!(
        ask(&lab, "POST", &format!("{repo}/blobs/uploads/?digest={}", sum(config)), by, config).status,
        201
    );
    assert_eq!(error(&put(&sum(b"no"))), "DIGEST_INVALID");
    assert_eq!(error(&put("bad%20tag")), "TAG_INVALID");
    assert_eq!(put("v1").status, 201);
    let got = ask(&lab, "GET", &format!("{repo}/manifests/v1"), by, "");
    assert_eq!(
        (got.bytes(), got.headers["docker-content-digest"].to_str().unwrap()),
        (Bytes::from(manifest.clone()), sum(manifest.as_bytes()).as_str())
    );
    assert_eq!(ask(&lab, "GET", &format!("{repo}/tags/list"), by, "").body.unwrap()["tags"], json!(["v1"]));
    assert_eq!(&ask(&lab, "GET", &format!("{repo}/blobs/{}", sum(layer)), by, "").bytes()[..], layer);
    for bad in ["v2/Team/app/tags/list", "v2/a/../b/manifests/x", "v2/team/app/blobs/uploads/none"] {
        assert!(!ask(&lab, "GET", &format!("{at}/{bad}"), by, "").status.is_success(), "{bad}");
    }
    // Another may pull, and not push; a third nothing.
    let (client, object) = lab.world.add_app("puller", "pw", Vec::new());
    let aad = token(&lab, &client, "pw", "https://management.azure.com").await;
    assert_eq!(access(&aad, "repository:team/app:pull"), None);
    lab.world.assign(&object, PULL, &id("regone"));
    let pull = format!("Bearer {}", access(&aad, "repository:team/app:pull,push").unwrap());
    assert_eq!(
        ask(&lab, "GET", &format!("{repo}/manifests/v1"), &[("authorization", &pull)], "").status,
        200
    );
    assert_eq!(
        error(&ask(&lab, "POST", &format!("{repo}/blobs/uploads/"), &[("authorization", &pull)], "")),
        "UNAUTHORIZED"
    );
    assert_eq!(access(&aad, "repository:team/app:push"), None);
    // Import, and the admin user.
    let import = json!({"source": {"resourceId": id("regone"), "sourceImage": "team/app:v1"}, "targetTags": ["copy/app:v1"]});
    let importing = format!("{}/importImage?api-version=2023-07-01", id("regtwo"));
    assert_eq!(lab.ask("POST", &importing, Some(&import)).status, 202);
    let creds = format!("{}/listCredentials?api-version=2023-07-01", id("regtwo"));
    assert_eq!(code(&lab.ask("POST", &creds, None)), "UnauthorizedForCredentialOperations");
    assert!(
        lab.ask(
            "PATCH",
            &format!("{}?api-version=2023-07-01", id("regtwo")),
            Some(&json!({"properties": {"adminUserEnabled": true}}))
        )
        .status
        .is_success()
    );
    let c = lab.ask("POST", &creds, None).body.unwrap();
    let basic = format!(
        "Basic {}",
        STANDARD.encode(format!("regtwo:{}", c["passwords"][0]["value"].as_str().unwrap()))
    );
    let two = "https://regtwo.azurecr.io/v2";
    assert_eq!(
        ask(&lab, "GET", &format!("{two}/copy/app/manifests/v1"), &[("authorization", &basic)], "").bytes(),
        manifest
    );
    assert_eq!(
        ask(&lab, "GET", &format!("{two}/copy/app/blobs/{}", sum(layer)), &[("authorization", &basic)], "")
            .status,
        200
    );
    assert_eq!(
        ask(&lab, "DELETE", &format!("{repo}/manifests/{}", sum(manifest.as_bytes())), by, "").status,
        202
    );
    assert_eq!(error(&ask(&lab, "GET", &format!("{repo}/manifests/v1"), by, "")), "MANIFEST_UNKNOWN");
}

#[tokio::test]
async fn data_is_there_after_a_restart_and_not_in_a_fork() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock::ManualClock::new(jiff::Timestamp::from_second(1_700_000_000).unwrap());
    let setup = || azure_sim::Setup {
        seed: 7,
        profile: Profile::Instant,
        limits: None,
        roles: Vec::new(),
        issuers: std::sync::Arc::new(azure_sim::HttpsIssuers::new(&[])),
        clock: clock.clone(),
        proxied: Vec::new(),
        trust: Vec::new(),
    };
    let open = async || {
        let world = azure_sim::World::open(setup(), dir.path()).unwrap();
        let token = world.owner_token().await;
        Lab { world, clock: clock.clone(), token }
    };
    let first = open().await;
    let (vault, store) = (vault(&first, "kvr", json!({})), account(&first, "kept", json!({})));
    first.world.assign(first.world.owner_object(), ADMINISTRATOR, &vault);
    first.world.assign(first.world.owner_object(), BLOB_CONTRIBUTOR, &store);
    let secret = "https://kvr.vault.azure.net/secrets/s?api-version=7.4";
    let token = owner(&first, "https://vault.azure.net").await;
    assert_eq!(json_as(&first, &token, "PUT", secret, Some(json!({"value": "v"}))).status, 200);
    let bearer = format!("Bearer {}", owner(&first, "https://storage.azure.com").await);
    let by: &[(&str, &str)] = &[("authorization", &bearer), ("x-ms-blob-type", "BlockBlob")];
    let blob = "https://kept.blob.core.windows.net/docs/a";
    assert_eq!(
        ask(&first, "PUT", "https://kept.blob.core.windows.net/docs?restype=container", by, "").status,
        201
    );
    let bytes = Bytes::from(vec![7_u8; 300_000]);
    assert_eq!(ask(&first, "PUT", blob, by, bytes.clone()).status, 201);
    assert_eq!(ask(&first, "PUT", "https://kept.blob.core.windows.net/none/a", by, "refused").status, 404);
    let files = || std::fs::read_dir(dir.path().join("contents")).unwrap().count();
    assert_eq!(files(), 1, "a refused upload leaves nothing");
    let fork = Lab { world: first.world.fork(), clock: clock.clone(), token: first.token.clone() };
    assert_eq!(ask(&fork, "PUT", "https://kept.blob.core.windows.net/docs/b", by, "fork").status, 201);
    assert_eq!(ask(&first, "GET", "https://kept.blob.core.windows.net/docs/b", by, "").status, 404);
    first.world.close();
    drop(fork);
    drop(first);
    let again = open().await;
    assert_eq!(json_as(&again, &token, "GET", secret, None).body.unwrap()["value"], "v");
    assert_eq!(ask(&again, "GET", blob, by, "").bytes(), bytes);
    assert_eq!(files(), 1, "what only the fork held is gone");
    assert_eq!(ask(&again, "DELETE", blob, by, "").status, 202);
    again.world.close();
    drop(again);
    let last = open().await;
    assert_eq!(files(), 0);
    assert!(!format!("{:?}", last.world.journal()).contains("Bearer"));
}
