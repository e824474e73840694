//! Accounts: blobs, and issuers whose documents lie in them.

use super::{ADMINISTRATOR, BLOB_CONTRIBUTOR, account, ask, error, exchange, json_as, make, owner, vault};
use crate::support::{Lab, code, lab};
use azure_sim::{FrontDoor, Profile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

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
