//! Vaults: secrets, keys, certificates.

use super::{ADMINISTRATOR, SECRETS_USER, error, exchange, json_as, make, owner, token, vault};
use crate::support::{code, lab};
use azure_sim::{Profile, Reply};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

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
