//! Registries.

use super::{PULL, ask, error, make, token};
use crate::support::{code, lab};
use azure_sim::Profile;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;

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
