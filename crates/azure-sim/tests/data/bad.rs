//! What nobody should send: the real error, and nothing is written.

use super::{ADMINISTRATOR, account, ask, error, json_as, make, owner, vault};
use crate::support::{Lab, code, lab};
use azure_sim::{Profile, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

/// With tags.
const BLOB_OWNER: &str = "b7e6dc6d-f1e8-4753-8033-0f276bb0955b";
const BLOB: &str = "https://acct.blob.core.windows.net";
const VAULT: &str = "https://kv-bad.vault.azure.net";
const REGISTRY: &str = "https://regbad.azurecr.io";

struct Doors {
    lab: Lab,
    account: String,
    key: String,
    blob: String,
    vault: String,
    registry: String,
}

impl Doors {
    async fn new() -> Doors {
        let lab = lab(Profile::Instant).await;
        let account = account(&lab, "acct", json!({}));
        let v = vault(&lab, "kv-bad", json!({}));
        let s = format!("/subscriptions/{}", lab.world.subscription());
        lab.ask(
            "POST",
            &format!("{s}/providers/Microsoft.ContainerRegistry/register?api-version=2021-04-01"),
            None,
        );
        let id = format!("{s}/resourceGroups/g/providers/Microsoft.ContainerRegistry/registries/regbad");
        make(
            &lab,
            &id,
            "2023-07-01",
            json!({"location": "westus2", "sku": {"name": "Premium"}, "properties": {"adminUserEnabled": true}}),
        );
        for (role, at) in [(BLOB_OWNER, &account), (ADMINISTRATOR, &v)] {
            lab.world.assign(lab.world.owner_object(), role, at);
        }
        let keys = lab.ask("POST", &format!("{account}/listKeys?api-version=2023-05-01"), None).body.unwrap();
        let key = keys["keys"][0]["value"].as_str().unwrap().to_owned();
        let admin =
            lab.ask("POST", &format!("{id}/listCredentials?api-version=2023-07-01"), None).body.unwrap();
        let password = admin["passwords"][0]["value"].as_str().unwrap();
        let registry = format!("Basic {}", STANDARD.encode(format!("regbad:{password}")));
        let blob = format!("Bearer {}", owner(&lab, "https://storage.azure.com").await);
        let vault = owner(&lab, "https://vault.azure.net").await;
        let doors = Doors { lab, account, key, blob, vault, registry };
        assert_eq!(doors.blob("PUT", "/box?restype=container", "").status, 201);
        assert_eq!(doors.blob("PUT", "/box/good", "good").status, 201);
        assert_eq!(doors.blob("PUT", "/box/good?comp=block&blockid=QQ==", "block").status, 201);
        let ec = json!({"kty": "EC", "crv": "P-256"});
        assert_eq!(doors.vault("POST", "keys/ec/create", ec).status, 200);
        let rsa = json!({"kty": "RSA", "key_size": 2048, "key_ops": ["sign", "verify"]});
        assert_eq!(doors.vault("POST", "keys/signs/create", rsa).status, 200);
        doors
    }

    fn blob(&self, method: &str, path: &str, body: impl Into<bytes::Bytes>) -> Reply {
        let by = [
            ("authorization", self.blob.as_str()),
            ("x-ms-version", "2024-11-04"),
            ("x-ms-blob-type", "BlockBlob"),
        ];
        ask(&self.lab, method, &format!("{BLOB}{path}"), &by, body)
    }

    fn vault(&self, method: &str, path: &str, body: Value) -> Reply {
        json_as(&self.lab, &self.vault, method, &format!("{VAULT}/{path}?api-version=7.4"), Some(body))
    }

    fn registry(&self, method: &str, path: &str, kind: &str, body: impl Into<bytes::Bytes>) -> Reply {
        let by = [("authorization", self.registry.as_str()), ("content-type", kind)];
        ask(&self.lab, method, &format!("{REGISTRY}{path}"), &by, body)
    }

    /// Everything that is kept, as its readers see it.
    fn kept(&self) -> Vec<String> {
        let text = |r: Reply| String::from_utf8_lossy(&r.bytes()).into_owned();
        let list = |p: &str| {
            text(json_as(&self.lab, &self.vault, "GET", &format!("{VAULT}/{p}?api-version=7.4"), None))
        };
        vec![
            text(self.blob("GET", "/?comp=list", "")),
            text(self.blob(
                "GET",
                "/box?restype=container&comp=list&include=metadata,tags,uncommittedblobs",
                "",
            )),
            text(self.blob("GET", "/box/good", "")),
            text(self.blob("GET", "/box/good?comp=blocklist&blocklisttype=all", "")),
            text(self.blob("GET", "/?restype=service&comp=properties", "")),
            list("secrets"),
            list("keys"),
            list("certificates"),
            text(self.registry("GET", "/v2/_catalog", "", "")),
            self.lab.world.leaks().to_string(),
        ]
    }
}

fn sha(b: &[u8]) -> String {
    let d = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b);
    format!("sha256:{}", d.as_ref().iter().map(|x| format!("{x:02x}")).collect::<String>())
}

#[tokio::test]
async fn odd_names_and_documents_of_blobs() {
    let doors = Doors::new().await;
    let before = doors.kept();
    let long = "a".repeat(1_025);
    let deep = vec!["a"; 300].join("/");
    for path in [
        "/box/%2e%2e/x",
        "/box/..%2fx",
        "/box/a/%2e%2e/%2e%2e/x",
        "/box/..",
        "/box/a%5c..%5cx",
        "/box/x%00y",
        "/box/%c0%ae%c0%ae/x",
        "/box/%ff",
        "/box/%zz",
        "/box/%ed%a0%80",
        "/..%2f..%2fetc/passwd",
        "/box%2f..%2fother/x",
        &format!("/box/{long}"),
        &format!("/box/{deep}"),
        "/BOX/x",
        "/b/x",
        "/$root/../x",
    ] {
        let said = doors.blob("PUT", path, "x");
        assert!((400..500).contains(&said.status.as_u16()), "{path}: {said:?}");
        assert!(
            [
                "InvalidUri",
                "InvalidResourceName",
                "OutOfRangeInput",
                "ContainerNotFound",
                "InvalidQueryParameterValue"
            ]
            .contains(&error(&said).as_str()),
            "{path}: {}",
            error(&said)
        );
    }
    let bomb = format!(
        "<!DOCTYPE z [<!ENTITY a \"{}\"><!ENTITY b \"&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;\">]><BlockList><Latest>&c;</Latest></BlockList>",
        "lol".repeat(10)
    );
    let nested = format!("{}{}", "<a>".repeat(2_000), "</a>".repeat(2_000));
    let wide = format!("<BlockList>{}</BlockList>", "<Latest>QQ==</Latest>".repeat(60_001));
    let outside = "<!DOCTYPE z SYSTEM \"file:///etc/passwd\"><BlockList/>";
    for document in [
        bomb.as_str(),
        nested.as_str(),
        wide.as_str(),
        outside,
        "<a>&unknown;</a>",
        "<a",
        "\u{1}",
        "<a></b>",
        "",
    ] {
        for path in [
            "/box/good?comp=blocklist",
            "/box/good?comp=tags",
            "/?restype=service&comp=properties",
            "/box?restype=container&comp=acl",
        ] {
            if document.is_empty() && path.ends_with("acl") {
                continue;
            }
            let said = doors.blob("PUT", path, document.to_owned());
            assert_eq!(said.status, 400, "{path}: {:?}", document.get(..40));
            assert!(
                [
                    "InvalidXmlDocument",
                    "InvalidXmlNodeValue",
                    "InvalidBlockList",
                    "InvalidInput",
                    "RequestBodyTooLarge"
                ]
                .contains(&error(&said).as_str()),
                "{path}: {}",
                error(&said)
            );
        }
    }
    assert_eq!(doors.blob("PUT", "/box/good?comp=blocklist", vec![0xff, 0xfe, b'<']).status, 400);
    assert_eq!(before, doors.kept());
}

#[tokio::test]
async fn forged_signatures() {
    let doors = Doors::new().await;
    let before = doors.kept();
    let sign = |key: &str, text: &str| {
        let k = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &STANDARD.decode(key).unwrap());
        let sig = STANDARD.encode(aws_lc_rs::hmac::sign(&k, text.as_bytes()));
        url::form_urlencoded::byte_serialize(sig.as_bytes()).collect::<String>()
    };
    let sv = "2022-11-02";
    let text = |sp: &str, se: &str, at: &str| {
        [sp, "", se, at, "", "", "https", sv, "b", "", "", "", "", "", "", ""].join("\n")
    };
    let until = "2030-01-01T00:00:00Z";
    let good = sign(&doors.key, &text("r", until, "/blob/acct/box/good"));
    let of = |sp: &str, se: &str, sig: &str| format!("sv={sv}&sr=b&sp={sp}&se={se}&spr=https&sig={sig}");
    let by = [("x-ms-version", "2024-11-04"), ("x-ms-blob-type", "BlockBlob")];
    let use_it = |method: &str, path: &str, query: &str| {
        ask(&doors.lab, method, &format!("{BLOB}{path}?{query}"), &by, "forged")
    };
    assert_eq!(use_it("GET", "/box/good", &of("r", until, &good)).status, 200);
    let other = STANDARD.encode([7_u8; 64]);
    let cases = [
        ("more rights", "PUT", "/box/good", of("rw", until, &good)),
        ("another name", "GET", "/box/good2", of("r", until, &good)),
        ("another end", "GET", "/box/good", of("r", "2031-01-01T00:00:00Z", &good)),
        (
            "another key",
            "PUT",
            "/box/good",
            of("w", until, &sign(&other, &text("w", until, "/blob/acct/box/good"))),
        ),
        (
            "over",
            "GET",
            "/box/good",
            of(
                "r",
                "2020-01-01T00:00:00Z",
                &sign(&doors.key, &text("r", "2020-01-01T00:00:00Z", "/blob/acct/box/good")),
            ),
        ),
        ("no end", "GET", "/box/good", format!("sv={sv}&sr=b&sp=r&sig={good}")),
        ("cut off", "GET", "/box/good", of("r", until, &good[..10])),
        ("no signature", "GET", "/box/good", of("r", until, "")),
        ("not base64", "GET", "/box/good", of("r", until, "%25%25%25")),
        ("twice", "PUT", "/box/good", format!("{}&sp=rw", of("r", until, &good))),
        ("a container's", "PUT", "/box/x", of("r", until, &good).replace("sr=b", "sr=c")),
        ("unencrypted only", "GET", "/box/good", of("r", until, &good).replace("spr=https", "spr=http")),
        ("another version", "GET", "/box/good", of("r", until, &good).replace(sv, "2019-12-12")),
    ];
    for (what, method, path, query) in cases {
        let said = use_it(method, path, &query);
        assert!([401, 403].contains(&said.status.as_u16()), "{what}: {said:?}");
        assert!(
            ["AuthenticationFailed", "AuthorizationPermissionMismatch", "NoAuthenticationInformation"]
                .contains(&error(&said).as_str()),
            "{what}: {}",
            error(&said)
        );
    }
    assert_eq!(before, doors.kept());
}

#[tokio::test]
async fn odd_keys_and_certificates() {
    let doors = Doors::new().await;
    let before = doors.kept();
    for (what, body) in [
        ("no type", json!({})),
        ("symmetric", json!({"kty": "oct"})),
        ("unknown", json!({"kty": "DSA"})),
        ("short", json!({"kty": "RSA", "key_size": 1024})),
        ("long", json!({"kty": "RSA", "key_size": 1_000_000})),
        ("odd", json!({"kty": "RSA", "key_size": "big"})),
        ("curve", json!({"kty": "EC", "crv": "P-999"})),
        ("both", json!({"kty": "EC", "crv": 7})),
    ] {
        let said = doors.vault("POST", "keys/bad/create", body);
        assert_eq!((said.status.as_u16(), error(&said).as_str()), (400, "BadParameter"), "{what}");
    }
    for (path, body, want) in [
        ("keys/ec//encrypt", json!({"alg": "RSA-OAEP-256", "value": "YQ"}), (403, "Forbidden")),
        ("keys/signs//encrypt", json!({"alg": "RSA-OAEP-256", "value": "YQ"}), (403, "Forbidden")),
        ("keys/signs//sign", json!({"alg": "ES256", "value": "YQ"}), (400, "BadParameter")),
        ("keys/signs//sign", json!({"alg": "RS256", "value": "YQ"}), (400, "BadParameter")),
        ("keys/signs//sign", json!({"alg": "RS256", "value": "%%"}), (400, "BadParameter")),
        ("keys/none//sign", json!({"alg": "RS256", "value": "YQ"}), (404, "KeyNotFound")),
    ] {
        let said = doors.vault("POST", path, body.clone());
        assert_eq!((said.status.as_u16(), error(&said).as_str()), want, "{path} {body}");
    }
    // A good one, then all its prefixes and a flipped byte everywhere: none is taken.
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let cert = params.self_signed(&key).unwrap();
    let other = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let import = |value: String, more: Value| {
        let mut body = json!({"value": value});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        doors.vault("POST", "certificates/bad/import", body)
    };
    let pem = |c: &str, k: &str| format!("{c}{k}");
    let good = pem(&cert.pem(), &key.serialize_pem());
    for (what, value, more) in [
        ("nothing", String::new(), json!({})),
        ("not base64", "%%%".to_owned(), json!({})),
        ("noise", STANDARD.encode([7_u8; 300]), json!({})),
        ("no key", cert.pem(), json!({})),
        ("no certificate", key.serialize_pem(), json!({})),
        ("another's key", pem(&cert.pem(), &other.serialize_pem()), json!({})),
        ("cut off", good[..good.len() / 2].to_owned(), json!({})),
        ("a number", "7".to_owned(), json!({"value": 7})),
        ("wrong password", STANDARD.encode(b"\x30\x82\x01\x00"), json!({"pwd": "x"})),
    ] {
        let said = import(value, more);
        assert_eq!((said.status.as_u16(), error(&said).as_str()), (400, "BadParameter"), "{what}");
    }
    for policy in [
        json!({}),
        json!({"policy": 7}),
        json!({"policy": {"x509_props": {"subject": "no"}}}),
        json!({"policy": {"issuer": {"name": "DigiCert"}, "x509_props": {"subject": "CN=x"}}}),
        json!({"policy": {"issuer": {"name": "Self"}, "x509_props": {"subject": "CN=x", "validity_months": 100_000}}}),
    ] {
        let said = doors.vault("POST", "certificates/bad/create", policy.clone());
        assert_eq!((said.status.as_u16(), error(&said).as_str()), (400, "BadParameter"), "{policy}");
    }
    for name in ["a_b", "a.b", &"a".repeat(128), "..", "a%2fb"] {
        let said = doors.vault("PUT", &format!("secrets/{name}"), json!({"value": "x"}));
        assert!((400..500).contains(&said.status.as_u16()), "{name}: {said:?}");
    }
    let huge = doors.vault("PUT", "secrets/huge", json!({"value": "x".repeat(25 * 1024 + 1)}));
    assert_eq!((huge.status.as_u16(), error(&huge).as_str()), (400, "BadParameter"));
    assert_eq!(before, doors.kept());
}

#[tokio::test]
async fn odd_uploads_to_a_registry() {
    let doors = Doors::new().await;
    let before = doors.kept();
    let octets = "application/octet-stream";
    let begin = || {
        doors.registry("POST", "/v2/app/blobs/uploads/", "", "").headers["location"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    for (what, digest) in [
        ("another's", sha(b"other")),
        ("short", sha(b"content")[..20].to_owned()),
        ("none", String::new()),
        ("unknown", format!("md5:{}", "0".repeat(32))),
        ("odd", "sha256:..%2f..%2fx".to_owned()),
        ("capital", sha(b"content").to_uppercase()),
    ] {
        let at = begin();
        let said = doors.registry("PUT", &format!("{at}?digest={digest}"), octets, "content");
        assert_eq!((said.status.as_u16(), error(&said).as_str()), (400, "DIGEST_INVALID"), "{what}");
        let all =
            doors.registry("POST", &format!("/v2/app/blobs/uploads/?digest={digest}"), octets, "content");
        assert!(all.status == 400 || (digest.is_empty() && all.status == 202), "{what}: {all:?}");
    }
    assert_eq!(doors.registry("GET", &format!("/v2/app/blobs/{}", sha(b"content")), "", "").status, 404);
    let oci = "application/vnd.oci.image.manifest.v1+json";
    let missing = json!({"schemaVersion": 2, "mediaType": oci, "config": {"mediaType": "x", "digest": sha(b"no"), "size": 2}, "layers": []}).to_string();
    for (what, reference, body, want) in [
        ("what is not there", "v1", missing.clone(), "MANIFEST_BLOB_UNKNOWN"),
        ("not JSON", "v1", "{".to_owned(), "MANIFEST_INVALID"),
        ("a list", "v1", "[]".to_owned(), "MANIFEST_INVALID"),
        ("empty", "v1", String::new(), "MANIFEST_INVALID"),
        ("another digest", &sha(b"other"), missing.clone(), "DIGEST_INVALID"),
        ("an odd tag", "..%2fv1", missing.clone(), "TAG_INVALID"),
        ("a long tag", &"t".repeat(129), missing, "TAG_INVALID"),
    ] {
        let said = doors.registry("PUT", &format!("/v2/app/manifests/{reference}"), oci, body);
        assert!((400..500).contains(&said.status.as_u16()), "{what}: {said:?}");
        assert_eq!(error(&said), want, "{what}");
    }
    for name in ["App", "a/../b", "a//b", ".a", "a/", "%2e%2e", "-a", &"a".repeat(300)] {
        let said = doors.registry("POST", &format!("/v2/{name}/blobs/uploads/"), "", "");
        assert!((400..500).contains(&said.status.as_u16()), "{name}: {said:?}");
    }
    assert_eq!(before, doors.kept());
}

/// 64 KiB of custom data: 87,380 characters, which is a byte less.
#[tokio::test]
async fn custom_data_has_its_limit() {
    let site = crate::machines::Site::new(Profile::Instant).await;
    let nic = site.nic("n");
    let vm = "Microsoft.Compute/virtualMachines/big";
    let with = |data: String| {
        let mut body = site.machine(&nic);
        body["properties"]["osProfile"]["customData"] = data.into();
        site.ask("PUT", vm, Some(&body))
    };
    for (what, data) in
        [("too long", STANDARD.encode(vec![b'x'; 64 << 10])), ("not base64", "hello %%".to_owned())]
    {
        let said = with(data);
        assert_eq!((said.status.as_u16(), code(&said).as_str()), (400, "InvalidParameter"), "{what}");
        assert_eq!(site.ask("GET", vm, None).status, 404, "{what}");
    }
    let disks = site.lab.ask(
        "GET",
        &format!("{}/providers/Microsoft.Compute/disks?api-version=2023-10-02", site.group),
        None,
    );
    assert_eq!(disks.body.unwrap()["value"], json!([]), "no disk of a machine that was refused");
    assert_eq!(with(STANDARD.encode(vec![b'x'; (64 << 10) - 1])).status, 201);
}

/// Whatever is asked of a data plane, something is answered; what is refused changes nothing.
#[test]
fn junk_at_every_data_plane() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let doors = runtime.block_on(Doors::new());
    let methods = ["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", "OPTIONS"];
    let piece = prop_oneof![
        prop::sample::select(vec![
            "box",
            "good",
            "$web",
            "%2e%2e",
            "..",
            "%2f",
            "%5c",
            "%00",
            "%ff",
            "",
            "v2",
            "app",
            "blobs",
            "uploads",
            "manifests",
            "tags",
            "list",
            "_catalog",
            "acr",
            "v1",
            "oauth2",
            "token",
            "exchange",
            "secrets",
            "keys",
            "certificates",
            "ec",
            "signs",
            "create",
            "import",
            "pending",
            "deletedsecrets",
            "sign",
            "encrypt",
            "İ",
            "referrers",
        ])
        .prop_map(str::to_owned),
        "[a-zA-Z0-9%._~:@-]{0,12}",
    ];
    let query = prop::sample::select(vec![
        "",
        "comp=list",
        "restype=container",
        "restype=container&comp=list",
        "restype=container&comp=acl",
        "comp=blocklist",
        "comp=block&blockid=QQ==",
        "comp=tags",
        "comp=metadata",
        "comp=lease",
        "comp=properties&restype=service",
        "api-version=7.4",
        "api-version=x",
        "digest=sha256:00",
        "digest=",
        "mount=sha256:00&from=app",
        "n=1&last=%ff",
        "sv=2022-11-02&sr=b&sp=r&se=2030-01-01&sig=x",
        "ss=b&srt=sco&sp=rwl&se=2030&sv=2022-11-02&sig=%25",
        "maxresults=-1&comp=list",
        "prefix=%ff&comp=list&restype=container",
        "snapshot=x",
        "marker=%00&comp=list",
    ]);
    let body = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..64),
        "(<|>|/|BlockList|Latest|TagSet|Tag|&|;|a|=|\"| ){0,30}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            r#"{"value":"x"}"#,
            r#"{"kty":"EC","crv":"P-256"}"#,
            r#"{"alg":"ES256","value":"YQ"}"#,
            r#"{"value":[]}"#,
            "[]",
            "{",
            "grant_type=refresh_token&service=x"
        ])
        .prop_map(|s| s.as_bytes().to_vec()),
    ];
    let config = ProptestConfig { cases: 700, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(plane in 0..3_usize, m in 0..methods.len(), path in prop::collection::vec(piece, 0..6), query in query, body in body, known in any::<bool>())| {
        let host = [BLOB, VAULT, REGISTRY][plane];
        let auth = match (known, plane) {
            (false, _) => String::new(),
            (_, 0) => doors.blob.clone(),
            (_, 1) => format!("Bearer {}", doors.vault),
            (_, _) => doors.registry.clone(),
        };
        let mut by = vec![("x-ms-version", "2024-11-04"), ("x-ms-blob-type", "BlockBlob")];
        if known {
            by.push(("authorization", auth.as_str()));
        }
        let before = (!known).then(|| doors.kept());
        let url = format!("{host}/{}?{query}", path.join("/"));
        let said = ask(&doors.lab, methods[m], &url, &by, body);
        prop_assert!(said.status.as_u16() < 500, "{} {url}: {said:?}", methods[m]);
        if let Some(before) = before {
            prop_assert_eq!(before, doors.kept(), "nobody wrote something: {} {}", methods[m], url);
        }
    });
    assert!(doors.account.ends_with("/acct"));
}
