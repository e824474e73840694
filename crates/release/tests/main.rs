//! Releases through a real registry protocol.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use arm::ResourceId;
use azure::oci::{Images, Mirror, Mirrors, Reference};
use azure::ops::{Registries, ResourceGroups, RoleAssignments};
use azure::{ClientOptions, Env, Http, HttpOptions, connect};
use azure_sim::{AzureSim, Config};
use release::{BootImages, Error, Marketplace, Payload, PayloadError, Releases, make};
use serde_json::json;
use std::sync::Arc;

const PUSH: &str = "8311e382-0749-4cb8-b61a-304f252e45ec";

struct World {
    images: Images,
    host: String,
    _sim: AzureSim,
    _dir: tempfile::TempDir,
}

/// A registry that we may push to.
async fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::local(7);
    config.ca_file = Some(dir.path().join("ca.pem"));
    let sim = AzureSim::start(config).await.unwrap();
    let env = Env::parse(&sim.env());
    let connected = connect(&env, ClientOptions::default()).await.unwrap();
    let client = connected.client;
    let subscription = ResourceId::subscription_scope(&connected.subscription.unwrap()).unwrap();
    let groups = client.arm::<ResourceGroups>();
    let group = groups.id(&subscription, "releases").unwrap();
    groups.put(&group, &serde_json::from_value(json!({"location": "westus2"})).unwrap()).await.unwrap();
    let registries = client.arm::<Registries>();
    let id = registries.id(&group, "zaffrereleases").unwrap();
    let body = json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {}});
    let made = registries.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    let me =
        client.graph().service_principal_of(env.get("AZURE_CLIENT_ID").unwrap()).await.unwrap().unwrap().id;
    let role = format!("{subscription}/providers/Microsoft.Authorization/roleDefinitions/{PUSH}");
    let body = json!({"properties": {"roleDefinitionId": role, "principalId": me, "principalType": "ServicePrincipal"}});
    let assignments = client.arm::<RoleAssignments>();
    let at = assignments.id(&id, &client.timing().random.uuid()).unwrap();
    assignments.put(&at, &serde_json::from_value(body).unwrap()).await.unwrap();
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let images =
        Images::new(http, client.timing().clone()).azure(client.credential().clone(), client.cloud());
    World { images, host: made.properties.unwrap().login_server.unwrap(), _sim: sim, _dir: dir }
}

fn payload(version: &str) -> Payload {
    let image = |name: &str| (name.to_owned(), format!("quay.example/release@sha256:{}", name.len()));
    let coreos = Marketplace {
        publisher: "azureopenshift".into(),
        offer: "aro4".into(),
        sku: "419-v2".into(),
        version: "419.96.1".into(),
    };
    let generations = serde_json::json!({"architectures": {"x86_64": {"rhel-coreos-extensions": {"marketplace": {"azure":
        {"no-purchase-plan": {"hyperVGen2": coreos}}}}}}});
    let map = json!({"data": {"stream": generations.to_string()}});
    Payload {
        version: version.into(),
        kubernetes: "1.32.6".into(),
        images: ["hyperkube", "etcd", "cli"].into_iter().map(image).collect(),
        boot: BootImages::read(map.to_string().as_bytes()).unwrap(),
        architectures: ["amd64", "arm64"].map(str::to_owned).into(),
    }
}

#[tokio::test]
async fn a_release_comes_back_as_it_was_made_and_is_fetched_once() {
    let w = world().await;
    let at = Reference::repository(&w.host, "openshift/release").unwrap().with_tag("4.19.3");
    let digest = make::push(&w.images, &at, &payload("4.19.3")).await.unwrap();
    let releases = Releases::new();
    let name = format!("{}/openshift/release:4.19.3", w.host);
    let many = (0..20).map(|_| {
        let (releases, images, name) = (releases.clone(), w.images.clone(), name.clone());
        tokio::spawn(async move { releases.payload(&images, &name).await.unwrap() })
    });
    let mut all = Vec::new();
    for one in many.collect::<Vec<_>>() {
        all.push(one.await.unwrap());
    }
    assert_eq!(*all[0], payload("4.19.3"));
    assert!(all.iter().all(|p| Arc::ptr_eq(p, &all[0])), "one fetch for all");
    let by_digest =
        releases.payload(&w.images, &format!("{}/openshift/release@{digest}", w.host)).await.unwrap();
    assert!(Arc::ptr_eq(&by_digest, &all[0]), "a tag and its digest are one release");
    assert_eq!(releases.len(), 1);
    // A tag that moves is a new release.
    make::push(&w.images, &at, &payload("4.19.4")).await.unwrap();
    assert_eq!(releases.payload(&w.images, &name).await.unwrap().version, "4.19.4");
}

/// For which processors a release is, its image says: as an index of several, or in its own configuration.
#[tokio::test]
async fn processors_are_those_of_the_image() {
    let w = world().await;
    let cases: [&[&str]; 4] = [&["amd64", "arm64", "s390x"], &["arm64"], &["ppc64le", "s390x"], &["amd64"]];
    for (i, architectures) in cases.into_iter().enumerate() {
        let at = Reference::repository(&w.host, "openshift/release").unwrap().with_tag(&format!("arch-{i}"));
        let made = Payload {
            architectures: architectures.iter().map(|a| (*a).to_owned()).collect(),
            ..payload("4.20.1")
        };
        make::push(&w.images, &at, &made).await.unwrap();
        let found = Releases::new().payload(&w.images, &at.to_string()).await.unwrap();
        assert_eq!(found.architectures, made.architectures);
    }
}

#[tokio::test]
async fn a_mirror_serves_what_the_release_names() {
    let w = world().await;
    let at = Reference::repository(&w.host, "mirror/ocp").unwrap().with_tag("x");
    let digest = make::push(&w.images, &at, &payload("4.20.1")).await.unwrap();
    let mirror = Mirror {
        source: "quay.example/openshift-release-dev/ocp-release".into(),
        mirrors: vec![format!("{}/mirror/ocp", w.host)],
        never_source: false,
        tags: false,
    };
    let images = w.images.clone().mirrors(Mirrors::default().mirror(mirror));
    let name = format!("quay.example/openshift-release-dev/ocp-release@{digest}");
    assert_eq!(Releases::new().payload(&images, &name).await.unwrap().version, "4.20.1");
}

#[tokio::test]
async fn what_is_no_release_says_so() {
    let w = world().await;
    let releases = Releases::new();
    let missing = releases.payload(&w.images, &format!("{}/openshift/none:1", w.host)).await.unwrap_err();
    assert!(matches!(missing, Error::Fetch { .. }), "{missing:?}");
    assert!(matches!(releases.payload(&w.images, "Not An Image").await, Err(Error::Name(_))));
    // An image with a layer that has something else in it.
    let at = Reference::repository(&w.host, "openshift/other").unwrap().with_tag("1");
    let layer = make::compress(&make::archive(&[("etc/hosts", b"127.0.0.1")]).unwrap()).unwrap();
    let layer = w.images.push_blob(&at, "application/vnd.oci.image.layer.v1.tar+gzip", layer).await.unwrap();
    let config = w.images.push_blob(&at, "application/vnd.oci.image.config.v1+json", "{}").await.unwrap();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]});
    w.images.push_manifest(&at, kind, manifest.to_string()).await.unwrap();
    let said = releases.payload(&w.images, &format!("{}/openshift/other:1", w.host)).await.unwrap_err();
    let Error::Payload { source, .. } = said else { panic!("{said:?}") };
    assert!(source.to_string().contains("this is no release image"));
}

#[test]
fn files_that_say_too_little_are_refused() {
    let read =
        |references: &str, boot: &str| Payload::read(Some(references.as_bytes()), Some(boot.as_bytes()));
    let boot = json!({"data": {"stream": "{\"architectures\": {}}"}}).to_string();
    let stream = |annotations: serde_json::Value, tags: serde_json::Value| {
        json!({"metadata": {"name": "4.19.3", "annotations": annotations}, "spec": {"tags": tags}})
            .to_string()
    };
    let versions = json!({"io.openshift.build.versions": "kubernetes=1.32.6"});
    let tags = json!([{"name": "cli", "from": {"kind": "DockerImage", "name": "q/x@sha256:1"}}]);
    assert!(read(&stream(versions.clone(), tags.clone()), &boot).is_ok());
    // On a tag, as in real releases.
    let tagged = json!([{"name": "hyperkube", "annotations": {"io.openshift.build.versions": "kubernetes=1.32.6"}, "from": {"name": "x"}}]);
    assert_eq!(read(&stream(json!({}), tagged), &boot).unwrap().kubernetes, "1.32.6");
    let said = |r: Result<Payload, PayloadError>| r.unwrap_err().to_string();
    assert!(said(read("{", &boot)).contains("cannot be read"));
    assert!(said(read(&stream(json!({}), tags.clone()), &boot)).contains("version of Kubernetes"));
    assert!(said(read(&stream(versions.clone(), json!([])), &boot)).contains("any image"));
    assert!(said(read(&stream(versions.clone(), tags.clone()), "data: {}")).contains("a stream"));
    let streams =
        json!({"data": {"streams": json!({"rhel-9": {"architectures": {"x86_64": {}}}}).to_string()}})
            .to_string();
    assert_eq!(read(&stream(versions, tags), &streams).unwrap().boot.0.len(), 1);
}
