//! The managed flavour: vault, applications, certificates, identities of nodes; used, renewed, taken away.

use crate::oidc::{publish, token};
use crate::support::{ACCESS, CONTRIBUTOR, OWNED_BY, World, options, pod, put, quiet, world};
use crate::working::{allowed, may};
use azure::credential::{Confidential, Entra};
use azure::graph::Application;
use azure::ops::{ResourceGroups, Vaults};
use azure::{Call, Client, Credential};
use futures::TryStreamExt;
use http::Method;
use landing_zone::identities::{
    ControlPlaneIdentities, DataPlaneIdentities, Identities, ManagedIdentity, subject,
};
use landing_zone::issuer::Rotation;
use landing_zone::managed::{COMPONENTS, Encoding, Made, Managed, create, survey};
use landing_zone::run::Options;
use landing_zone::{Cluster, Error, MadeBy};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn managed(w: &World) -> Managed {
    Managed {
        mark: Cluster::shared("aro").unwrap(),
        subscription: w.subscription.clone(),
        group: "aro-shared".to_owned(),
        location: "westus2".to_owned(),
        vault: "aro-vault".to_owned(),
        issuer: crate::support::ISSUER.to_owned(),
        encoding: Encoding::Utf8,
        validity: 90,
        renew: None,
        adopt: false,
        make: some_key,
    }
}

/// Keys take long to make: a few, in turns. One key at one time makes one certificate, and then runs at the same time
/// would have nothing to disagree on.
fn some_key() -> Result<rcgen::KeyPair, rcgen::Error> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static SOME: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..3).map(|_| landing_zone::managed::new_key().unwrap().serialize_pem()).collect());
    let pem = &SOME[NEXT.fetch_add(1, Ordering::Relaxed) % SOME.len()];
    rcgen::KeyPair::from_pem_and_sign_algo(pem, &rcgen::PKCS_RSA_SHA256)
}

pub fn good(made: &Made) -> bool {
    made.outcome.is_good() && made.failed.is_empty()
}

async fn make(w: &World, m: &Managed) -> (ControlPlaneIdentities, DataPlaneIdentities) {
    let made = create(&w.client, m, Options::default(), &quiet).await.unwrap();
    assert!(good(&made), "{:?} {:#?}", made.failed, made.outcome.report.failures().collect::<Vec<_>>());
    made.files.unwrap()
}

pub async fn applications(w: &World) -> Vec<Application> {
    let all: Vec<Application> = w.client.graph().applications(None).try_collect().await.unwrap();
    all.into_iter().filter(|a| a.display_name.starts_with("aro-")).collect()
}

async fn secret(w: &World, name: &str) -> String {
    let found = w.client.vault("aro-vault").unwrap().secrets().get(name).await.unwrap();
    found.value.unwrap().expose().to_owned()
}

fn parts(c: &ControlPlaneIdentities) -> [&ManagedIdentity; 8] {
    [
        &c.control_plane_operator,
        &c.node_pool_management,
        &c.cloud_provider,
        &c.disk,
        &c.file,
        &c.ingress,
        &c.network,
        c.image_registry.as_ref().unwrap(),
    ]
}

/// A client as a control plane's component has it: the mounted secret.
fn component(w: &World, text: &str, dir: &std::path::Path) -> Client {
    let file = dir.join("credentials.json");
    std::fs::write(&file, text).unwrap();
    let (http, cloud, timing) = w.parts();
    let entra = Entra { http, login: cloud.login, timing: timing.clone() };
    w.client_of(Credential::new(Confidential::msi_file(entra, file), timing))
}

#[tokio::test]
async fn made_kept_used_and_gone() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let issuer = publish(&w, dir.path(), Rotation::Keep).await.unwrap();
    let before = w.left();
    let mut m = managed(&w);
    m.issuer = issuer.url.clone();
    let (cp, dp) = make(&w, &m).await;
    assert_eq!(
        (cp.managed_identities_key_vault.name.as_str(), &cp.managed_identities_key_vault.tenant_id),
        ("aro-vault", &w.sim.creds().tenant_id)
    );
    let names: Vec<&str> = parts(&cp).iter().map(|p| p.credentials_secret_name.as_str()).collect();
    assert_eq!(
        names,
        [
            "aro-cpo",
            "aro-nodepool-mgmt",
            "aro-cloud-provider",
            "aro-disk",
            "aro-file",
            "aro-ingress",
            "aro-network",
            "aro-image-registry"
        ]
    );

    // Again: nothing to do.
    let from = w.calls().len();
    assert_eq!(make(&w, &m).await, (cp.clone(), dp.clone()));
    assert!(w.calls()[from..].iter().all(|c| c.method == "GET" || c.path.contains("/oauth2/")));
    let seen = survey(&w.client, &m, &|_, _, _| {}).await.unwrap();
    assert!(!landing_zone::extras::changes(&seen.extras), "{:?}", seen.extras);

    // A cluster's infrastructure gives them roles, with which each does what it may and nothing else.
    let identities = Identities::Managed { control_plane: cp.clone(), data_plane: dp.clone() };
    let infra = w.infra("demo", identities);
    let (_, facts) = w.make_infra(&infra).await;
    let at = infra.layout().unwrap();
    for (part, (key, suffix)) in parts(&cp).into_iter().zip(COMPONENTS) {
        assert_eq!(part.object_encoding, "utf-8");
        let text = secret(&w, &format!("aro-{suffix}")).await;
        let v: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v["client_id"], part.client_id);
        let client = component(&w, &text, dir.path());
        let calls = allowed(&at, facts.zone.as_ref().unwrap());
        let (_, method, path, body) = calls.into_iter().find(|(k, ..)| *k == key).unwrap();
        let status = may(&client, method, path, body).await;
        assert!((200..300).contains(&status), "{key} got {status}");
        let more = format!("{}/resourceGroups/more?api-version=2021-04-01", w.subscription);
        assert_eq!(
            may(&client, Method::PUT, more, Some(json!({"location": "westus2"}))).await,
            403,
            "{key} may make groups"
        );
    }
    let csi = "openshift-cluster-csi-drivers";
    for (client_id, who) in [
        (&dp.disk, subject(csi, "azure-disk-csi-driver-node-sa")),
        (&dp.file, subject(csi, "azure-file-csi-driver-node-sa")),
        (&dp.image_registry, subject("openshift-image-registry", "registry")),
    ] {
        let file = dir.path().join("token");
        let private = dir.path().join("serviceaccount-signer.private");
        std::fs::write(&file, token(&w, &private, &issuer.url, &who)).unwrap();
        let client = pod(&w, client_id, &file);
        let id = if *client_id != dp.disk {
            format!("{}?api-version=2024-06-01", at.private_zone)
        } else {
            format!("{}?api-version=2021-04-01", at.main)
        };
        assert_eq!(may(&client, Method::GET, id, None).await, 200, "{who}");
        let more = format!("{}/resourceGroups/more?api-version=2021-04-01", w.subscription);
        assert_eq!(
            may(&client, Method::PUT, more, Some(json!({"location": "westus2"}))).await,
            403,
            "{who} may make groups"
        );
    }
    // The cluster takes its records away itself.
    let record = format!("{}/A/apps.demo?api-version=2018-05-01", facts.zone.unwrap());
    w.client.send(Call::new(Method::DELETE, record)).await.unwrap();
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    w.remove(&w.shared("aro", MadeBy::ManagedIdentities)).await;
    assert_eq!(w.left(), before);
    assert!(applications(&w).await.is_empty());
    // The name of the vault is free: it can be made again at once.
    let (again, _) = make(&w, &m).await;
    assert_ne!(again.disk.client_id, cp.disk.client_id);
    w.remove(&w.shared("aro", MadeBy::ManagedIdentities)).await;
    w.remove(&w.shared("demooidc", MadeBy::OidcIssuer)).await;
    assert_eq!(w.left(), Vec::<String>::new());
}

#[tokio::test]
async fn renewed_before_they_end_while_the_old_ones_work() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let mut m = managed(&w);
    let (cp, _) = make(&w, &m).await;
    let old = secret(&w, "aro-cpo").await;
    // Ninety days are more than thirty: there is nothing to renew.
    m.renew = Some(30);
    make(&w, &m).await;
    assert_eq!(secret(&w, "aro-cpo").await, old);
    m.renew = Some(90);
    m.validity = 180;
    let (same, _) = make(&w, &m).await;
    assert_eq!(same, cp, "the applications stay");
    let new = secret(&w, "aro-cpo").await;
    assert_ne!(new, old);
    for text in [&old, &new] {
        let client = component(&w, text, dir.path());
        let subscription = format!("{}?api-version=2022-12-01", w.subscription);
        // It has a token, and no role.
        assert!(
            matches!(may(&client, Method::GET, subscription, None).await, 403 | 404),
            "both certificates are good"
        );
    }
    let registered = |a: &Application| a.other["keyCredentials"].as_array().unwrap().len();
    assert!(applications(&w).await.iter().all(|a| registered(a) == 2));
    // The next renewal drops the one before.
    m.renew = Some(180);
    m.validity = 365;
    make(&w, &m).await;
    assert!(applications(&w).await.iter().all(|a| registered(a) == 2));
    // What somebody broke is mended.
    let secrets = w.client.vault("aro-vault").unwrap().secrets();
    secrets.set("aro-disk", &azure::vault::SetSecret::new("rubbish")).await.unwrap();
    secrets.delete("aro-file").await.unwrap();
    m.renew = None;
    make(&w, &m).await;
    for name in ["aro-disk", "aro-file"] {
        let v: Value = serde_json::from_str(&secret(&w, name).await).unwrap();
        assert!(v["client_secret"].is_string(), "{name}");
    }
}

#[tokio::test]
async fn in_any_encoding() {
    for encoding in [Encoding::Hex, Encoding::Base64] {
        let w = world().await;
        let mut m = managed(&w);
        m.encoding = encoding;
        let (cp, _) = make(&w, &m).await;
        assert_eq!(cp.disk.object_encoding, encoding.as_str());
        let text = secret(&w, "aro-disk").await;
        let bytes: Vec<u8> = match encoding {
            Encoding::Hex => {
                (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
            }
            _ => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap(),
        };
        let v: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(v["client_id"], cp.disk.client_id);
        let from = w.calls().len();
        make(&w, &m).await;
        assert!(w.calls()[from..].iter().all(|c| c.method == "GET" || c.path.contains("/oauth2/")));
    }
}

/// Somebody else's deleted vault holds the name: it is said, and nothing is begun.
#[tokio::test]
async fn a_name_that_somebody_deleted() {
    let w = world().await;
    let m = managed(&w);
    let group = m.group_id().unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    let vault = m.vault_id().unwrap();
    let body = json!({"location": "westus2", "properties": {"tenantId": w.sim.creds().tenant_id,
        "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}});
    put::<Vaults>(&w, &vault, body).await;
    w.client.arm::<Vaults>().delete(&vault).await.unwrap();
    let before = w.left();
    match create(&w.client, &m, Options::default(), &quiet).await.map(drop) {
        Err(Error::VaultGone(name)) => assert_eq!(name, "aro-vault"),
        other => panic!("{other:?}"),
    }
    assert_eq!(w.left(), before);
    let bad = Managed { vault: "9".to_owned(), ..m };
    assert!(matches!(bad.check(), Err(Error::VaultName(_))));
}

/// Rights in Azure and rights in the directory are different things; without either nothing is begun.
#[tokio::test]
async fn too_few_rights_change_nothing() {
    let w = world().await;
    let m = managed(&w);
    let before = w.left();
    let weak = w.principal("weak", &[CONTRIBUTOR]);
    match create(&weak, &m, Options::default(), &quiet).await.map(drop) {
        Err(Error::Rights(missing)) => {
            assert!(missing.iter().all(|r| r.role() == "User Access Administrator"))
        }
        other => panic!("{other:?}"),
    }
    let enough = w.principal("enough", &[CONTRIBUTOR, ACCESS]);
    match create(&enough, &m, Options::default(), &quiet).await.map(drop) {
        Err(e @ Error::Directory(_)) => assert!(e.to_string().contains("Application.ReadWrite.OwnedBy")),
        other => panic!("{other:?}"),
    }
    assert_eq!(w.left(), before);
    assert!(applications(&w).await.is_empty());
    // An issuer needs nothing of the directory.
    let dir = tempfile::tempdir().unwrap();
    let keys = crate::oidc::keys(dir.path(), Rotation::Keep);
    let issuer = crate::oidc::issuer(&w);
    let weak = landing_zone::issuer::create(&weak, &issuer, &keys, Options::default(), &quiet).await;
    assert!(matches!(weak.map(drop), Err(Error::Rights(_))));
    assert_eq!(w.left(), before);
    let (made, _) =
        landing_zone::issuer::create(&enough, &issuer, &keys, Options::default(), &quiet).await.unwrap();
    assert!(made.is_good());
}

/// Exactly what is documented is enough: two roles, and one permission of the directory.
#[tokio::test]
async fn least_privilege() {
    let w = world().await;
    let mut m = managed(&w);
    let least = w.principal_with("least", &[CONTRIBUTOR, ACCESS], &[OWNED_BY], options());
    let run = async |m: &Managed| {
        let made = create(&least, m, Options::default(), &quiet).await.unwrap();
        assert!(good(&made), "{:?}", made.failed);
        made.files.unwrap()
    };
    // What others made it can neither see as its own nor delete.
    let theirs = Application { display_name: "theirs".to_owned(), ..Application::default() };
    let theirs = w.client.graph().create_application(&theirs).await.unwrap();
    assert_eq!(least.graph().delete_application(&theirs.id).await.unwrap_err().status(), Some(403));
    let (cp, dp) = run(&m).await;
    let all = w.client.vault("aro-vault").unwrap().secrets().list_all().await;
    assert_eq!(all.unwrap_err().status(), Some(403), "only who made it may read the secrets");
    assert_eq!(applications(&w).await.len(), COMPONENTS.len());
    (m.renew, m.validity) = (Some(90), 180);
    assert_eq!(run(&m).await, (cp, dp), "renewed");
    let d = w.shared("aro", MadeBy::ManagedIdentities);
    let gone = landing_zone::destroy::destroy(&least, &d, Options::default(), &quiet).await.unwrap();
    assert!(gone.outcome.is_good() && gone.failed.is_empty(), "{gone:?}");
    assert_eq!(w.left(), Vec::<String>::new());
    assert!(applications(&w).await.is_empty());
}

/// Every secret opens its application, of which there is one; the files say the same.
pub async fn fits(w: &World, files: &[&ControlPlaneIdentities]) {
    let dir = tempfile::tempdir().unwrap();
    let apps = applications(w).await;
    assert_eq!(
        apps.len(),
        COMPONENTS.len(),
        "{:?}",
        apps.iter().map(|a| &a.display_name).collect::<Vec<_>>()
    );
    for (i, (_, suffix)) in COMPONENTS.iter().enumerate() {
        let name = format!("aro-{suffix}");
        let app = apps.iter().find(|a| a.display_name == name).unwrap();
        assert!(files.iter().all(|f| parts(f)[i].client_id == app.app_id), "{name}");
        let text = secret(w, &name).await;
        let v: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v["client_id"], app.app_id);
        let subscription = format!("{}?api-version=2022-12-01", w.subscription);
        // It has a token, and no role.
        let status = may(&component(w, &text, dir.path()), Method::GET, subscription, None).await;
        assert!(matches!(status, 403 | 404), "{name}: {status}");
    }
}

/// A second run begins when the first one has made so many calls.
async fn two(w: &World, m: &Managed, after: u64) -> [(ControlPlaneIdentities, DataPlaneIdentities); 2] {
    let later = async {
        let mut news = w.sim.world().journal_news();
        while *news.borrow_and_update() < after {
            news.changed().await.unwrap();
        }
        make(w, m).await
    };
    let (a, b) = futures::join!(make(w, m), later);
    [a, b]
}

/// Nothing is left to do; and then all of it goes, twice at once.
async fn settled_and_gone(w: &World, m: &Managed, want: &(ControlPlaneIdentities, DataPlaneIdentities)) {
    let from = w.calls().len();
    assert_eq!(make(w, m).await, *want);
    assert!(w.calls()[from..].iter().all(|c| c.method == "GET" || c.path.contains("/oauth2/")));
    let d = w.shared("aro", MadeBy::ManagedIdentities);
    let (_, _) = futures::join!(w.remove(&d), w.remove(&d));
    assert_eq!(w.left(), Vec::<String>::new());
    assert!(applications(w).await.is_empty());
}

fn posts(w: &World) -> usize {
    w.calls().iter().filter(|c| c.method == "POST" && c.path == "/v1.0/applications").count()
}

/// Names in the directory are not unique: two runs make one of each nevertheless, wherever the second one begins.
#[tokio::test]
async fn two_at_once() {
    let mut met = 0;
    for after in [0, 1, 8, 16, 24, 32, 40, 60, 90] {
        let w = world().await;
        let m = managed(&w);
        let [a, b] = two(&w, &m, after).await;
        assert_eq!(a, b, "second after {after} calls");
        fits(&w, &[&a.0, &b.0]).await;
        met += posts(&w) - COMPONENTS.len();
        settled_and_gone(&w, &m, &a).await;
    }
    assert!(met > 8, "they hardly met: {met} duplicates were made");
}

/// One of the two is slow just where the other can pass it: what is stored is registered nevertheless.
#[tokio::test]
async fn two_at_once_that_pass_each_other() {
    for (host, method, id) in
        [("vault", "PUT", "/secrets/*"), ("graph", "PATCH", "/v1.0/applications/*"), ("graph", "POST", "*")]
    {
        let w = world().await;
        let m = managed(&w);
        let rule = json!({"name": "slow", "match": {"host": host, "method": method, "id": id, "nth": 1, "each": "id"},
            "then": {"delay": 700}});
        w.sim.world().add_faults(azure_sim::read_faults(rule.to_string().as_bytes()).unwrap()).unwrap();
        let [a, b] = two(&w, &m, 0).await;
        assert!(w.sim.world().faults()[0]["fired"].as_u64().unwrap() > 0, "{method} {id}");
        w.sim.world().clear_faults();
        assert_eq!(a, b, "{method} {id}");
        fits(&w, &[&a.0, &b.0]).await;
        settled_and_gone(&w, &m, &a).await;
    }
}

/// A run that died may leave a second application: the next one takes it away, whichever is older, and so does destroy.
#[tokio::test]
async fn duplicates_are_cleaned_up() {
    let w = world().await;
    let m = managed(&w);
    let twin = async || {
        let ours = applications(&w).await.into_iter().find(|a| a.display_name == "aro-cpo").unwrap();
        let tags = ours.other["tags"].clone();
        let app = Application {
            display_name: "aro-disk".to_owned(),
            other: [("tags".to_owned(), tags)].into_iter().collect(),
            ..Application::default()
        };
        w.client.graph().create_application(&app).await.unwrap()
    };
    let (cp, dp) = make(&w, &m).await;
    twin().await;
    let seen = survey(&w.client, &m, &|_, _, _| {}).await.unwrap();
    assert!(landing_zone::extras::changes(&seen.extras), "the plan says so");
    assert_eq!(make(&w, &m).await, (cp.clone(), dp.clone()));
    fits(&w, &[&cp]).await;
    // The older one is the one that nobody uses: the one in use stays.
    let old = cp.disk.client_id.clone();
    let used = twin().await;
    let vault = w.client.vault("aro-vault").unwrap().secrets();
    let text = secret(&w, "aro-disk").await.replace(&old, &used.app_id);
    vault.set("aro-disk", &azure::vault::SetSecret::new(text)).await.unwrap();
    let (changed, _) = make(&w, &m).await;
    assert_eq!(changed.disk.client_id, used.app_id);
    fits(&w, &[&changed]).await;
    // One of the name without our mark is somebody else's.
    let theirs = Application { display_name: "aro-disk".to_owned(), ..Application::default() };
    let theirs = w.client.graph().create_application(&theirs).await.unwrap();
    twin().await;
    twin().await;
    assert_eq!(make(&w, &m).await.0, changed);
    twin().await;
    w.remove(&w.shared("aro", MadeBy::ManagedIdentities)).await;
    let left: Vec<String> = applications(&w).await.into_iter().map(|a| a.id).collect();
    assert_eq!(left, [theirs.id]);
    assert_eq!(w.left(), Vec::<String>::new());
}
