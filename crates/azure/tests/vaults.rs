//! Vaults and what they hold, through the client.

use crate::support::{Target, target};
use arm::ResourceId;
use arm::types::AccessPolicy;
use azure::ops::Vaults;
use azure::vault::{Algorithm, Attributes, CertificatePolicy, Import, KeyKind, NewKey, SetSecret, Vault};
use azure::{Deleted, Error, Secret};
use futures::TryStreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
const SECRETS_USER: &str = "4633458b-17de-408a-b874-0445c86b69e6";

fn tenant(t: &Target) -> String {
    t.env.get("AZURE_TENANT_ID").unwrap().to_owned()
}

async fn vault(t: &Target, g: &ResourceId, extra: Value) -> (ResourceId, String) {
    let name = t.unique("zaffre");
    let arm = t.client.arm::<Vaults>();
    let id = arm.id(g, &name).unwrap();
    let mut p = json!({
        "tenantId": tenant(t), "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true,
        "softDeleteRetentionInDays": 7,
    });
    p.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let body = json!({"location": t.location, "properties": p});
    let made = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    let uri = made.properties.unwrap().vault_uri.unwrap();
    assert!(uri.starts_with(&format!("https://{name}.vault.")), "{uri}");
    (id, uri)
}

async fn ready(t: &Target, g: &ResourceId) -> (ResourceId, Vault) {
    let (id, uri) = vault(t, g, json!({})).await;
    let client = t.with_role(ADMINISTRATOR, &id).await;
    (id, client.vault_at(&uri).unwrap())
}

/// Vaults outlive their group.
async fn bury(t: &Target, id: &ResourceId) {
    assert_eq!(t.client.arm::<Vaults>().delete(id).await.unwrap(), Deleted::Done);
    let purged = t.client.purge_vault(t.subscription_id(), &t.location, id.name()).await;
    assert_eq!(purged.unwrap(), Deleted::Done);
}

fn code(e: &Error) -> (Option<u16>, Option<&str>) {
    (e.status(), e.reason())
}

#[tokio::test]
async fn deleted_recovered_purged() {
    let t = target().await;
    t.in_group("vaults", async |g: ResourceId| {
        let arm = t.client.arm::<Vaults>();
        let (id, vault) = ready(&t, &g).await;
        vault.secrets().set("kept", &SetSecret::new("x")).await.unwrap();
        assert_eq!(arm.list_all(&g).await.unwrap().len(), 1);
        assert_eq!(arm.delete(&id).await.unwrap(), Deleted::Done);
        let (s, l) = (t.subscription_id(), t.location.as_str());
        let gone = t.client.deleted_vault(s, l, id.name()).await.unwrap().unwrap();
        assert_eq!(gone.properties.unwrap().vault_id, Some(id.clone()));
        let all: Vec<_> = t.client.deleted_vaults(s).try_collect().await.unwrap();
        assert!(all.iter().any(|v| v.name.as_deref() == Some(id.name())));
        let body = json!({"location": l, "properties": {"tenantId": tenant(&t), "sku": {"family": "A", "name": "standard"}}});
        let taken = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap_err();
        assert_eq!(code(&taken), (Some(409), Some("ConflictError")));
        let back = arm.recover(&id, l, &tenant(&t)).await.unwrap();
        assert_eq!(back.properties.unwrap().enable_rbac_authorization, Some(true));
        assert!(t.client.deleted_vault(s, l, id.name()).await.unwrap().is_none());
        let again = t.with_role(ADMINISTRATOR, &id).await.vault(id.name()).unwrap();
        let kept = again.secrets().get("kept").await.unwrap();
        assert_eq!(kept.value.unwrap().expose(), "x");
        bury(&t, &id).await;
        assert_eq!(t.client.purge_vault(s, l, id.name()).await.unwrap(), Deleted::Absent);
        let nothing = arm.recover(&id, l, &tenant(&t)).await.unwrap_err();
        assert_eq!(nothing.status(), Some(400), "{nothing}");
    })
    .await;
}

#[tokio::test]
async fn secrets() {
    let t = target().await;
    t.in_group("secrets", async |g: ResourceId| {
        let (id, vault) = ready(&t, &g).await;
        let secrets = vault.secrets();
        assert!(secrets.find("s").await.unwrap().is_none());
        assert_eq!(code(&secrets.get("s").await.unwrap_err()), (Some(404), Some("SecretNotFound")));
        let mut new = SetSecret::new("hunter2").content_type("text/plain").tag("owner", "zaffre");
        let (from, until) =
            (Timestamp::from_second(1_700_000_000).unwrap(), Timestamp::from_second(4_000_000_000).unwrap());
        new.attributes = Attributes { not_before: Some(from), expires: Some(until), ..Attributes::default() };
        let first = secrets.set("s", &new).await.unwrap();
        assert!(!format!("{new:?} {first:?}").contains("hunter2"));
        let second = secrets.set("s", &SetSecret::new("two")).await.unwrap();
        assert_ne!(first.version(), second.version());
        assert_eq!(secrets.get("s").await.unwrap().value.unwrap().expose(), "two");
        let old = secrets.get_version("s", first.version()).await.unwrap();
        assert_eq!(old.value.unwrap().expose(), "hunter2");
        assert_eq!((old.content_type.as_deref(), old.tags["owner"].as_str()), (Some("text/plain"), "zaffre"));
        assert_eq!((old.attributes.not_before, old.attributes.expires), (Some(from), Some(until)));
        assert_eq!(old.attributes.recoverable_days, Some(7));
        let versions: Vec<_> = secrets.versions("s").unwrap().try_collect().await.unwrap();
        assert_eq!(versions.len(), 2);
        assert!(versions.iter().any(|v| v.version() == Some(first.version())));
        let off = Attributes { enabled: Some(false), ..Attributes::default() };
        secrets
            .update("s", second.version(), &off, Some(&BTreeMap::from([("a".to_owned(), "b".to_owned())])))
            .await
            .unwrap();
        assert_eq!(code(&secrets.get("s").await.unwrap_err()), (Some(403), Some("SecretDisabled")));
        for i in 0..30 {
            secrets.set(&format!("many-{i}"), &SetSecret::new(i.to_string())).await.unwrap();
        }
        let all = secrets.list_all().await.unwrap();
        assert_eq!(all.len(), 31, "more than a page");
        assert!(all.iter().any(|i| i.name() == "many-29"));
        assert!(matches!(secrets.get("../keys/k").await, Err(Error::Name { .. })));
        let long = secrets.set("long", &SetSecret::new("x".repeat(26_000))).await.unwrap_err();
        assert_eq!(long.status(), Some(400));

        assert_eq!(secrets.delete("s").await.unwrap(), Deleted::Done);
        assert_eq!(secrets.delete("s").await.unwrap(), Deleted::Absent);
        assert_eq!(secrets.deleted("s").await.unwrap().unwrap().name(), "s");
        assert_eq!(secrets.list_deleted().try_collect::<Vec<_>>().await.unwrap().len(), 1);
        let taken = secrets.set("s", &SetSecret::new("x")).await.unwrap_err();
        assert_eq!((taken.status(), taken.code()), (Some(409), Some("Conflict")));
        secrets.recover("s").await.unwrap();
        assert_eq!(
            secrets.get_version("s", first.version()).await.unwrap().value.unwrap().expose(),
            "hunter2"
        );
        secrets.delete("s").await.unwrap();
        assert_eq!(secrets.purge("s").await.unwrap(), Deleted::Done);
        assert_eq!(secrets.purge("s").await.unwrap(), Deleted::Absent);
        assert!(secrets.deleted("s").await.unwrap().is_none());
        bury(&t, &id).await;
    })
    .await;
}

#[tokio::test]
async fn keys() {
    let t = target().await;
    t.in_group("keys", async |g: ResourceId| {
        let (id, vault) = ready(&t, &g).await;
        let keys = vault.keys();
        let made = keys.create("k", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
        assert_eq!((made.key.kty.as_str(), made.key.n.as_ref().map(Vec::len)), ("RSA", Some(256)));
        let locked = keys.encrypt("k", "", Algorithm::RsaOaep256, b"hello").await.unwrap();
        assert_eq!(locked.version(), made.version());
        assert_ne!(locked.value, b"hello");
        let rotated = keys.rotate("k").await.unwrap();
        assert_ne!(rotated.version(), made.version());
        // The old version still opens what it locked; the new one does not.
        let open = keys.decrypt("k", locked.version(), Algorithm::RsaOaep256, &locked.value).await.unwrap();
        assert_eq!(open.value, b"hello");
        let wrong =
            keys.decrypt("k", rotated.version(), Algorithm::RsaOaep256, &locked.value).await.unwrap_err();
        assert_eq!(wrong.status(), Some(400));
        let wrapped = keys.wrap("k", "", Algorithm::RsaOaep256, &[7; 32]).await.unwrap();
        assert_eq!(
            keys.unwrap_key("k", wrapped.version(), Algorithm::RsaOaep256, &wrapped.value)
                .await
                .unwrap()
                .value,
            [7; 32]
        );
        let signed = keys.sign("k", "", Algorithm::Ps256, &[1; 32]).await.unwrap();
        assert!(keys.verify("k", signed.version(), Algorithm::Ps256, &[1; 32], &signed.value).await.unwrap());
        assert!(
            !keys.verify("k", signed.version(), Algorithm::Ps256, &[2; 32], &signed.value).await.unwrap()
        );
        keys.create("ec", &NewKey::new(KeyKind::Ec("P-256"))).await.unwrap();
        let signed = keys.sign("ec", "", Algorithm::Es256, &[1; 32]).await.unwrap();
        assert_eq!(signed.value.len(), 64);
        assert_eq!(
            keys.encrypt("ec", "", Algorithm::RsaOaep256, b"x").await.unwrap_err().status(),
            Some(403)
        );
        let only = NewKey { ops: vec!["sign".to_owned()], ..NewKey::new(KeyKind::Rsa(2048)) };
        keys.create("only", &only).await.unwrap();
        let refused = keys.encrypt("only", "", Algorithm::RsaOaep256, b"x").await.unwrap_err();
        assert_eq!(refused.status(), Some(403), "{refused}");
        assert_eq!(keys.versions("k").unwrap().try_collect::<Vec<_>>().await.unwrap().len(), 2);
        assert_eq!(keys.list_all().await.unwrap().len(), 3);
        assert_eq!(keys.delete("only").await.unwrap(), Deleted::Done);
        assert_eq!(keys.purge("only").await.unwrap(), Deleted::Done);
        assert!(keys.find("only").await.unwrap().is_none());
        bury(&t, &id).await;
    })
    .await;
}

#[tokio::test]
async fn certificates() {
    let t = target().await;
    t.in_group("certificates", async |g: ResourceId| {
        let (id, vault) = ready(&t, &g).await;
        let certificates = vault.certificates();
        let made = certificates.create("c", &CertificatePolicy::self_signed("CN=zaffre")).await.unwrap();
        let thumbprint = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, &made.der);
        assert_eq!(made.thumbprint, thumbprint.as_ref());
        assert_eq!(certificates.pending("c").await.unwrap().status, "completed");
        let (name, version) = made.secret().unwrap();
        let held = vault.secrets().get_version(name, version).await.unwrap();
        assert!(held.managed && held.content_type.as_deref() == Some("application/x-pkcs12"));
        use base64::Engine;
        let pfx = base64::engine::general_purpose::STANDARD.decode(held.value.unwrap().expose()).unwrap();

        let import = Import::Pkcs12 { content: pfx, password: Secret::new("") };
        let copied = certificates.import("copy", &import).await.unwrap();
        assert_eq!(copied.der, made.der);
        let junk = Import::Pkcs12 { content: b"not a pfx".to_vec(), password: Secret::new("hunter2") };
        assert!(!format!("{junk:?}").contains("hunter2"));
        assert_eq!(certificates.import("junk", &junk).await.unwrap_err().status(), Some(400));
        assert!(certificates.find("junk").await.unwrap().is_none());
        let pem = certificates.create("pem", &CertificatePolicy::self_signed("CN=pem").pem()).await.unwrap();
        let (name, version) = pem.secret().unwrap();
        let text = vault.secrets().get_version(name, version).await.unwrap().value.unwrap();
        assert!(text.expose().contains("PRIVATE KEY") && text.expose().contains("BEGIN CERTIFICATE"));
        let copied = certificates.import("pem-copy", &Import::Pem(text)).await.unwrap();
        assert_eq!(copied.der, pem.der);

        let waits =
            CertificatePolicy { issuer: "Unknown".to_owned(), ..CertificatePolicy::self_signed("CN=waits") };
        let order = certificates.begin_create("waits", &waits, &BTreeMap::new()).await.unwrap();
        assert!(order.status == "inProgress" && !order.csr.is_empty());
        certificates.cancel("waits").await.unwrap();
        let cancelled = certificates.wait("waits").await.unwrap_err();
        assert!(
            matches!(&cancelled, Error::Operation { detail, .. } if detail.code == "cancelled"),
            "{cancelled:?}"
        );
        assert_eq!(certificates.delete("c").await.unwrap(), Deleted::Done);
        assert!(vault.secrets().find("c").await.unwrap().is_none(), "its secret goes with it");
        assert_eq!(certificates.purge("c").await.unwrap(), Deleted::Done);
        assert_eq!(certificates.list_all().await.unwrap().len(), 3);
        bury(&t, &id).await;
    })
    .await;
}

#[tokio::test]
async fn rights_in_vaults() {
    let t = target().await;
    t.in_group("vaultrights", async |g: ResourceId| {
        let (id, uri) = vault(&t, &g, json!({})).await;
        let plain = t.client.vault_at(&uri).unwrap();
        let refused = plain.secrets().get("s").await.unwrap_err();
        assert_eq!(code(&refused), (Some(403), Some("ForbiddenByRbac")));
        let user = t.with_role(SECRETS_USER, &id).await.vault_at(&uri).unwrap();
        assert!(user.secrets().find("s").await.unwrap().is_none());
        let refused = t.client.vault_at(&uri).unwrap().secrets().set("s", &SetSecret::new("x")).await.unwrap_err();
        assert_eq!(code(&refused), (Some(403), Some("ForbiddenByRbac")));
        bury(&t, &id).await;

        let (id, uri) = vault(&t, &g, json!({"enableRbacAuthorization": false})).await;
        let vault = t.client.vault_at(&uri).unwrap();
        assert_eq!(code(&vault.secrets().get("s").await.unwrap_err()), (Some(403), Some("AccessDenied")));
        let policy = json!({"tenantId": tenant(&t), "objectId": t.me().await, "permissions": {"secrets": ["get", "set"]}});
        let policy: AccessPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(t.client.arm::<Vaults>().add_policies(&id, &[policy]).await.unwrap().len(), 1);
        vault.secrets().set("s", &SetSecret::new("x")).await.unwrap();
        assert_eq!(code(&vault.secrets().list_all().await.unwrap_err()), (Some(403), Some("AccessDenied")));
        bury(&t, &id).await;

        for foreign in ["https://evil.test/", "http://a.vault.azure.net/", "https://a.b.vault.azure.net/", "https://vault.azure.net.evil.test/"] {
            let e = t.client.vault_at(foreign).unwrap_err();
            assert!(matches!(e, Error::Foreign { .. } | Error::Name { .. }), "{foreign}: {e:?}");
        }
    })
    .await;
}
