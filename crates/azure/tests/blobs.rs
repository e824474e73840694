//! Accounts and their blobs through the client.

use crate::support::{Target, target};
use arm::ResourceId;
use azure::blob::{Access, Blobs, Container, Folder, PutOptions, UploadOptions, Website};
use azure::ops::*;
use azure::{Condition, Deleted, Error};
use bytes::Bytes;
use futures::TryStreamExt;
use serde_json::json;

const CONTRIBUTOR: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
const READER: &str = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1";

async fn account(t: &Target, g: &ResourceId, public: bool) -> (ResourceId, String) {
    let name = t.unique("zaffre");
    let arm = t.client.arm::<StorageAccounts>();
    let id = arm.id(g, &name).unwrap();
    let body = json!({"location": t.location, "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {
        "allowBlobPublicAccess": public, "allowSharedKeyAccess": false, "minimumTlsVersion": "TLS1_2",
    }});
    let made = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    let p = made.properties.unwrap();
    assert!(p.primary_endpoints.unwrap().blob.unwrap().starts_with(&format!("https://{name}.blob.")));
    assert_eq!(p.allow_shared_key_access, Some(false));
    (id, name)
}

async fn ready(t: &Target, g: &ResourceId, public: bool) -> (ResourceId, Blobs) {
    let (id, name) = account(t, g, public).await;
    let client = t.with_role(CONTRIBUTOR, &id).await;
    (id, client.blobs(&name).unwrap())
}

fn code(e: &Error) -> (Option<u16>, Option<&str>) {
    (e.status(), e.code())
}

#[tokio::test]
async fn accounts() {
    let t = target().await;
    t.in_group("accounts", async |g: ResourceId| {
        let arm = t.client.arm::<StorageAccounts>();
        let (id, name) = account(&t, &g, false).await;
        assert_eq!(arm.list_all(&g).await.unwrap().len(), 1);
        let patched = arm.patch(&id, &json!({"properties": {"allowSharedKeyAccess": true}})).await.unwrap();
        assert_eq!(patched.properties.unwrap().allow_shared_key_access, Some(true));
        let keys = arm.keys(&id).await.unwrap();
        assert_eq!(keys.len(), 2);
        assert!(!format!("{keys:?}").contains(keys[0].value.expose()));
        let again = arm.regenerate_key(&id, "key1").await.unwrap();
        assert!(again[0].value != keys[0].value && again[1].value == keys[1].value);

        let services = t.client.arm::<BlobServices>();
        let service = services.id(&id, "default").unwrap();
        let body = json!({"properties": {"deleteRetentionPolicy": {"enabled": true, "days": 7}}});
        services.put(&service, &serde_json::from_value(body).unwrap()).await.unwrap();
        let kept = services.get(&service).await.unwrap().properties.unwrap().delete_retention_policy.unwrap();
        assert_eq!(kept["days"], 7);
        let containers = t.client.arm::<BlobContainers>();
        let container = containers.id(&service, "oidc").unwrap();
        let body = json!({"properties": {"publicAccess": "None"}});
        containers.put(&container, &serde_json::from_value(body).unwrap()).await.unwrap();
        assert_eq!(containers.list_all(&service).await.unwrap().len(), 1);
        assert_eq!(containers.delete(&container).await.unwrap(), Deleted::Done);
        assert!(containers.find(&container).await.unwrap().is_none());
        let files = t.client.arm::<FileServices>().id(&id, "default").unwrap();
        let shares = t.client.arm::<FileShares>();
        let share = shares.id(&files, "share").unwrap();
        shares
            .put(&share, &serde_json::from_value(json!({"properties": {"shareQuota": 5}})).unwrap())
            .await
            .unwrap();
        assert_eq!(shares.get(&share).await.unwrap().properties.unwrap().share_quota, Some(5));
        assert_eq!(shares.delete(&share).await.unwrap(), Deleted::Done);

        let other = arm.id(&g, &name.replace("zaffre", "Zaffre_")).unwrap();
        let body = json!({"location": t.location, "sku": {"name": "Standard_LRS"}});
        let refused = arm.put(&other, &serde_json::from_value(body).unwrap()).await.unwrap_err();
        assert_eq!(code(&refused), (Some(400), Some("AccountNameInvalid")));
        assert!(matches!(t.client.blobs("Zaffre_").unwrap_err(), Error::Name { .. }));
        assert_eq!(arm.delete(&id).await.unwrap(), Deleted::Done);
        assert_eq!(arm.delete(&id).await.unwrap(), Deleted::Absent);
    })
    .await;
}

#[tokio::test]
async fn containers_and_blobs() {
    let t = target().await;
    t.in_group("blobs", async |g: ResourceId| {
        let (_, blobs) = ready(&t, &g, false).await;
        let c = blobs.container("first").unwrap();
        assert!(c.properties().await.unwrap().is_none());
        assert_eq!(
            code(&c.put("a", "x", &PutOptions::default()).await.unwrap_err()),
            (Some(404), Some("ContainerNotFound"))
        );
        assert!(c.create(Access::Private).await.unwrap());
        assert!(!c.create(Access::Private).await.unwrap());
        let refused = blobs.container("public").unwrap().create(Access::Blob).await.unwrap_err();
        assert_eq!(code(&refused), (Some(409), Some("PublicAccessNotPermitted")));
        assert_eq!(c.properties().await.unwrap().unwrap().access, Access::Private);
        let names: Vec<String> = blobs.containers().try_collect().await.unwrap();
        assert_eq!(names, ["first"]);
        one_blob(&c).await;
        conditions(&c).await;
        assert_eq!(c.delete().await.unwrap(), Deleted::Done);
        assert_eq!(c.delete().await.unwrap(), Deleted::Absent);
    })
    .await;
}

async fn one_blob(c: &Container) {
    let odd = "a b/ü%2f?#&+/.well-known";
    let mut options = PutOptions::of_type("application/json");
    options.cache_control = Some("max-age=60".to_owned());
    options.metadata.insert("owner".to_owned(), "zaffre".to_owned());
    let made = c.put(odd, "{}", &options).await.unwrap();
    let head = c.head(odd).await.unwrap().unwrap();
    assert_eq!((head.etag.as_str(), head.size), (made.etag.as_str(), 2));
    assert_eq!(head.content_type.as_deref(), Some("application/json"));
    assert_eq!(head.cache_control.as_deref(), Some("max-age=60"));
    assert_eq!(head.metadata["owner"], "zaffre");
    let got = c.get(odd, 10).await.unwrap();
    assert_eq!((&got.content[..], got.properties.etag.as_str()), (&b"{}"[..], made.etag.as_str()));
    assert!(matches!(c.get(odd, 1).await.unwrap_err(), Error::TooLong { size: 2, limit: 1, .. }));
    c.put("empty", Bytes::new(), &PutOptions::default()).await.unwrap();
    assert_eq!(c.get("empty", 10).await.unwrap().content.len(), 0);
    assert!(c.find("none", 10).await.unwrap().is_none() && c.head("none").await.unwrap().is_none());
    assert!(matches!(c.put("a/../../other/x", "x", &PutOptions::default()).await, Err(Error::Name { .. })));
    assert_eq!(c.delete_blob("empty", &Condition::Always).await.unwrap(), Deleted::Done);
    assert_eq!(c.delete_blob("empty", &Condition::Always).await.unwrap(), Deleted::Absent);
    let all: Vec<_> = c.list("").try_collect().await.unwrap();
    assert_eq!(
        (all.len(), all[0].name.as_str(), all[0].properties.etag.as_str()),
        (1, odd, made.etag.as_str())
    );
    assert_eq!(all[0].properties.metadata["owner"], "zaffre");
    c.delete_blob(odd, &Condition::Always).await.unwrap();
}

async fn conditions(c: &Container) {
    let put = async |text: &'static str, on: Condition| c.put("c", text, &PutOptions::default().on(on)).await;
    let first = put("1", Condition::Absent).await.unwrap().etag;
    assert_eq!(code(&put("2", Condition::Absent).await.unwrap_err()), (Some(409), Some("BlobAlreadyExists")));
    assert!(c.get_if_changed("c", 10, &first).await.unwrap().is_none());
    let second = put("2", Condition::Match(first.clone())).await.unwrap().etag;
    let stale = put("3", Condition::Match(first.clone())).await.unwrap_err();
    assert!(stale.is_precondition(), "{stale:?}");
    assert_eq!(code(&stale), (Some(412), Some("ConditionNotMet")));
    assert_eq!(c.get_if_changed("c", 10, &first).await.unwrap().unwrap().content, "2");
    assert!(c.delete_blob("c", &Condition::Match(first)).await.unwrap_err().is_precondition());
    assert_eq!(c.delete_blob("c", &Condition::Match(second)).await.unwrap(), Deleted::Done);
}

#[tokio::test]
async fn many_and_large() {
    let t = target().await;
    t.in_group("large", async |g: ResourceId| {
        let (_, blobs) = ready(&t, &g, false).await;
        let c = blobs.container("large").unwrap();
        c.create(Access::Private).await.unwrap();
        for i in 0..23 {
            c.put(&format!("p{}/n{i:02}", i % 3), i.to_string(), &PutOptions::default()).await.unwrap();
        }
        let all: Vec<_> = c.list_by("", 5).try_collect().await.unwrap();
        assert_eq!(all.len(), 23);
        assert!(all.is_sorted_by_key(|e| e.name.clone()));
        assert_eq!(c.list("p1/").try_collect::<Vec<_>>().await.unwrap().len(), 8);
        c.put("top", "", &PutOptions::default()).await.unwrap();
        let folder: Vec<_> = c.folder("").try_collect().await.unwrap();
        assert_eq!(folder.len(), 4);
        assert_eq!(folder[0], Folder::Prefix("p0/".to_owned()));
        assert!(matches!(&folder[3], Folder::Blob(e) if e.name == "top"));

        // Longer than a part of a download, and than a block of an upload.
        let content: Vec<u8> = (0..9_500_000_u32).map(|i| (i % 251) as u8).collect();
        let options =
            UploadOptions { blob: PutOptions::of_type("application/x-tar"), block: 1 << 20, at_once: 3 };
        let made = c.upload("big", &content[..], &options).await.unwrap();
        let got = c.get("big", 10_000_000).await.unwrap();
        assert!(got.content == content, "the same bytes");
        assert_eq!(
            (got.properties.etag, got.properties.content_type.as_deref()),
            (made.etag, Some("application/x-tar"))
        );
        let none = c.upload("nothing", &b""[..], &UploadOptions::default()).await.unwrap();
        assert_eq!(c.head("nothing").await.unwrap().unwrap().etag, none.etag);
        // Blocks are nothing before their list: an upload that breaks changes nothing.
        let broken = tape_that_tears();
        assert!(matches!(c.upload("big", broken, &options).await, Err(Error::Source { .. })));
        assert_eq!(c.head("big").await.unwrap().unwrap().size, 9_500_000);
        let absent = UploadOptions { blob: PutOptions::default().on(Condition::Absent), ..options };
        assert_eq!(c.upload("big", &b"x"[..], &absent).await.unwrap_err().status(), Some(409));
    })
    .await;
}

/// A few bytes, then an error.
fn tape_that_tears() -> impl tokio::io::AsyncRead + Unpin + Send {
    struct Breaks(u8);
    impl tokio::io::AsyncRead for Breaks {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buf: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.0 += 1;
            if self.0 > 3 {
                return std::task::Poll::Ready(Err(std::io::Error::other("the tape tore")));
            }
            let n = buf.remaining().min(1 << 20);
            buf.put_slice(&vec![7; n]);
            std::task::Poll::Ready(Ok(()))
        }
    }
    Breaks(0)
}

#[tokio::test]
async fn websites_and_the_public() {
    let t = target().await;
    t.in_group("sites", async |g: ResourceId| {
        let (id, blobs) = ready(&t, &g, true).await;
        assert_eq!(blobs.website().await.unwrap(), None);
        let site = Website { index: Some("index.html".to_owned()), error_404: Some("404.html".to_owned()) };
        blobs.set_website(Some(&site)).await.unwrap();
        assert_eq!(blobs.website().await.unwrap(), Some(site));
        let web = blobs.container("$web").unwrap();
        let json = PutOptions::of_type("application/json");
        web.put(".well-known/openid-configuration", "{\"issuer\":1}", &json).await.unwrap();
        let http = azure::Http::new(&azure::HttpOptions::from_env(&t.env)).unwrap();
        let anonymous = async |url: String| {
            let request = http::Request::get(url).body(Bytes::new()).unwrap();
            http.send(request).await.unwrap()
        };
        let shown = t.client.arm::<StorageAccounts>().get(&id).await.unwrap().properties.unwrap();
        let root = shown.primary_endpoints.unwrap().web.unwrap();
        let answer = anonymous(format!("{root}.well-known/openid-configuration")).await;
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"{\"issuer\":1}"[..]));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(anonymous(format!("{root}none")).await.status.as_u16(), 404);

        let c = blobs.container("open").unwrap();
        assert!(c.create(Access::Blob).await.unwrap());
        assert_eq!(c.properties().await.unwrap().unwrap().access, Access::Blob);
        c.put("x", "public", &PutOptions::default()).await.unwrap();
        let at = format!("{}/open/x", blobs.endpoint());
        assert_eq!(anonymous(at.clone()).await.body, "public");
        c.set_access(Access::Private).await.unwrap();
        assert!(matches!(anonymous(at).await.status.as_u16(), 401 | 404 | 409));
        blobs.set_website(None).await.unwrap();
        assert_eq!(blobs.website().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn rights_in_accounts() {
    let t = target().await;
    t.in_group("rights", async |g: ResourceId| {
        let (id, name) = account(&t, &g, false).await;
        let blobs = t.client.blobs(&name).unwrap();
        let c = blobs.container("mine").unwrap();
        // Who owns the subscription may make containers, not read what is in them.
        assert!(c.create(Access::Private).await.unwrap());
        let refused = c.find("x", 10).await.unwrap_err();
        assert_eq!(code(&refused), (Some(403), Some("AuthorizationPermissionMismatch")));
        assert_eq!(c.head("x").await.unwrap_err().code(), Some("AuthorizationPermissionMismatch"));
        let reader = t.with_role(READER, &id).await.blobs(&name).unwrap().container("mine").unwrap();
        assert!(reader.find("x", 10).await.unwrap().is_none());
        let refused = c.put("x", "", &PutOptions::default()).await.unwrap_err();
        assert_eq!(code(&refused), (Some(403), Some("AuthorizationPermissionMismatch")));
        let gone = t.client.blobs(&t.unique("nobody")).unwrap();
        let refused = gone.website().await.unwrap_err();
        assert!(matches!(refused, Error::Send { .. } | Error::Refused(_)), "{refused:?}");
    })
    .await;
}
