//! A certificate for emergencies: asked for, approved, signed, used, and taken back while the operator is killed.

use crate::kit::{DEADLINE, Kit, POD, condition, is_true, says};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypershift::kinds;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use pki::{Private, Request};
use reconcile::Kind;
use serde_json::{Value, json};
use world::Flavour;

const REQUEST: Kind =
    Kind::new("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
        .cluster_wide();
const GROUP: &str = "certificates.hypershift.openshift.io";
const APPROVAL: Kind =
    Kind::new(GROUP, "v1alpha1", "CertificateSigningRequestApproval", "certificatesigningrequestapprovals");
const REVOCATION: Kind =
    Kind::new(GROUP, "v1alpha1", "CertificateRevocationRequest", "certificaterevocationrequests");
const PLANE: &str = "clusters-demo";

async fn create(kit: &Kit, kind: &Kind, namespace: &str, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    kit.api(kind, namespace).create(&PostParams::default(), &object).await.unwrap();
}

async fn until(
    kit: &Kit,
    kind: &Kind,
    namespace: &str,
    name: &str,
    what: &str,
    so: impl Fn(&DynamicObject) -> bool,
) -> DynamicObject {
    let wait =
        await_condition(kit.api(kind, namespace), name, |o: Option<&DynamicObject>| o.is_some_and(&so));
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(o) => o.unwrap().unwrap(),
        Err(_) => {
            let there = kit.api(kind, namespace).get_opt(name).await.unwrap().map(|o| o.data);
            panic!("never: {what}\n{there:#?}\n{}\n{}", operator_log(kit).await, kit.story("demo").await)
        }
    }
}

async fn operators(kit: &Kit) -> Vec<DynamicObject> {
    let ours = ListParams::default().labels("app=control-plane-pki-operator");
    kit.api(&POD, PLANE).list(&ours).await.unwrap().items
}

async fn operator_log(kit: &Kit) -> String {
    let mut text = String::new();
    for pod in operators(kit).await {
        let name = pod.metadata.name.unwrap_or_default();
        text += &kit.log(PLANE, &name, "control-plane-pki-operator").await;
    }
    text
}

fn request(name: &str, class: &str, pem: &str, usages: &[&str]) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": format!("hypershift.openshift.io/{PLANE}.{class}"), "request": STANDARD.encode(pem),
            "usages": usages, "expirationSeconds": 86400}})
}

async fn approve(kit: &Kit, name: &str) {
    let approval = json!({"apiVersion": "certificates.hypershift.openshift.io/v1alpha1",
        "kind": "CertificateSigningRequestApproval", "metadata": {"name": name, "namespace": PLANE}});
    create(kit, &APPROVAL, PLANE, approval).await;
}

/// Asks, approves, and waits for the certificate.
async fn obtain(kit: &Kit, name: &str, class: &str) -> (String, Private) {
    let (pem, key) = Request::make(&format!("system:{class}:{name}"), "system:masters", &[]).unwrap();
    create(kit, &REQUEST, "", request(name, class, &pem, &["client auth"])).await;
    approve(kit, name).await;
    (signed(kit, name).await, key)
}

async fn signed(kit: &Kit, name: &str) -> String {
    let has = |o: &DynamicObject| o.data["status"]["certificate"].is_string();
    let csr = until(kit, &REQUEST, "", name, "a certificate", has).await;
    assert!(is_true(&csr.data["status"], "Approved"));
    let cert = STANDARD.decode(csr.data["status"]["certificate"].as_str().unwrap()).unwrap();
    String::from_utf8(cert).unwrap()
}

/// Somebody with a certificate, and where the guest's API is published.
async fn client(kit: &Kit, cert: &str, key: &Private) -> kube::Client {
    let mut config = Kubeconfig::from_yaml(&kit.kubeconfig("demo").await).unwrap();
    config.auth_infos[0].auth_info = Some(AuthInfo {
        client_certificate_data: Some(STANDARD.encode(cert)),
        client_key_data: Some(STANDARD.encode(key.expose()).into()),
        ..AuthInfo::default()
    });
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Who the guest takes somebody for, or why it does not.
async fn whoami(client: &kube::Client) -> Result<(String, Vec<String>), u16> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => {
            let user = review.status.unwrap().user_info.unwrap();
            Ok((user.username.unwrap_or_default(), user.groups.unwrap_or_default()))
        }
        Err(kube::Error::Api(s)) => Err(s.code),
        Err(e) => panic!("{e}"),
    }
}

/// Waits until the certificate in a Secret is one that the guest believes, and says whose it is.
async fn kept(kit: &Kit, secret: &str) -> (String, String) {
    let o = until(kit, &kinds::SECRET, PLANE, secret, "a client certificate", |_| true).await;
    let part = |key: &str| {
        String::from_utf8(STANDARD.decode(o.data["data"][key].as_str().unwrap()).unwrap()).unwrap()
    };
    let client = client(kit, &part("tls.crt"), &Private::new(part("tls.key"))).await;
    let ask = async {
        loop {
            if let Ok((user, groups)) = whoami(&client).await {
                assert!(groups.iter().any(|g| g == "system:masters"), "{groups:?}");
                return user;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    (tokio::time::timeout(DEADLINE, ask).await.unwrap(), part("tls.crt"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_emergencies_is_given_and_taken_back() {
    let kit = Kit::start(Flavour::Workload).await;
    kit.sample("demo").create(&kit.world).await.unwrap();
    kit.available("demo").await;

    // Somebody asks, and nobody has approved it yet.
    let (pem, key) = Request::make("system:customer-break-glass:me", "system:masters", &[]).unwrap();
    create(&kit, &REQUEST, "", request("me", "customer-break-glass", &pem, &["client auth"])).await;

    // What does not fit is refused by its field, though it is approved.
    let make = |name: &str, group: &str| Request::make(name, group, &[]).unwrap().0;
    let wrong = [
        (
            "root",
            make("system:admin", "system:masters"),
            vec!["client auth"],
            "spec.request is for user \"system:admin\"",
        ),
        (
            "devs",
            make("system:customer-break-glass:me", "devs"),
            vec!["client auth"],
            "must be exactly [\"system:masters\"]",
        ),
        (
            "serves",
            make("system:customer-break-glass:me", "system:masters"),
            vec!["server auth"],
            "spec.usages has no \"client auth\"",
        ),
    ];
    for (name, pem, usages, words) in &wrong {
        create(&kit, &REQUEST, "", request(name, "customer-break-glass", pem, usages)).await;
        approve(&kit, name).await;
        let failed = until(&kit, &REQUEST, "", name, words, |o| is_true(&o.data["status"], "Failed")).await;
        let c = condition(&failed.data["status"], "Failed");
        assert_eq!(c["reason"], "SignerValidationFailure");
        assert!(c["message"].as_str().unwrap().contains(words), "{c}");
        assert!(failed.data["status"]["certificate"].is_null());
    }
    let waiting = kit.api(&REQUEST, "").get("me").await.unwrap();
    assert!(waiting.data["status"]["conditions"].is_null(), "without an approval nothing happens");

    // Approved, it is signed, and the guest knows who that is.
    approve(&kit, "me").await;
    let cert = signed(&kit, "me").await;
    let life = pki::Facts::of(&cert).unwrap();
    assert_eq!(life.not_after.duration_since(life.not_before).as_secs(), 86400 + 300, "as long as asked");
    let me = client(&kit, &cert, &key).await;
    let (user, groups) = whoami(&me).await.unwrap();
    assert_eq!(user, "system:customer-break-glass:me");
    assert!(groups.iter().any(|g| g == "system:masters"), "{groups:?}");
    let sre = obtain(&kit, "engineer", "sre-break-glass").await;
    let sre = client(&kit, &sre.0, &sre.1).await;
    assert_eq!(whoami(&sre).await.unwrap().0, "system:sre-break-glass:engineer");
    let (user, of_before) = kept(&kit, "customer-system-admin-client-cert-key").await;
    assert!(user.starts_with("system:customer-break-glass:"), "{user}");
    assert!(kept(&kit, "sre-system-admin-client-cert-key").await.0.starts_with("system:sre-break-glass:"));

    // While nobody tells the API server of new authorities, a revocation stands still.
    kit.patch("demo", json!({"spec": {"pausedUntil": "true"}})).await;
    until(&kit, &kinds::PLANE, PLANE, "demo", "a pause", |o| o.data["spec"]["pausedUntil"] == "true").await;
    let revocation = json!({"apiVersion": "certificates.hypershift.openshift.io/v1alpha1",
        "kind": "CertificateRevocationRequest", "metadata": {"name": "lost", "namespace": PLANE},
        "spec": {"signerClass": "customer-break-glass"}});
    create(&kit, &REVOCATION, PLANE, revocation).await;
    let half = |o: &DynamicObject| {
        let s = &o.data["status"];
        is_true(s, "RootCertificatesRegenerated")
            && says(s, "NewCertificatesTrusted", "False", &["WaitingForAvailable"])
    };
    let stuck = until(&kit, &REVOCATION, PLANE, "lost", "half of a revocation", half).await;
    assert!(says(&stuck.data["status"], "PreviousCertificatesRevoked", "False", &["WaitingForAvailable"]));
    assert!(whoami(&me).await.is_ok(), "nothing is taken before the new one is believed");

    // The operator is killed there; its successor brings it to an end.
    let before = operators(&kit).await;
    assert_eq!(before.len(), 1);
    let pod = before[0].metadata.name.as_deref().unwrap();
    kit.api(&POD, PLANE).delete(pod, &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    kit.patch("demo", json!({"spec": {"pausedUntil": null}})).await;
    let over = |o: &DynamicObject| is_true(&o.data["status"], "PreviousCertificatesRevoked");
    let done = until(&kit, &REVOCATION, PLANE, "lost", "the end of a revocation", over).await;
    for kind in [
        "SignerClassValid",
        "RootCertificatesRegenerated",
        "NewCertificatesTrusted",
        "LeafCertificatesRegenerated",
    ] {
        assert!(is_true(&done.data["status"], kind), "{kind}: {}", done.data["status"]);
    }
    let cut = |o: &DynamicObject| o.data["status"]["revocationTimestamp"].clone();
    assert_eq!(cut(&done), cut(&stuck), "the successor goes on and does not begin again");
    assert!(!operators(&kit).await.iter().any(|p| p.metadata.name.as_deref() == Some(pod)));

    // On the open connection and on a new one.
    assert_eq!(whoami(&me).await, Err(401));
    assert_eq!(whoami(&client(&kit, &cert, &key).await).await, Err(401));
    assert!(whoami(&sre).await.is_ok(), "another class is not touched");
    let (_, after) = kept(&kit, "customer-system-admin-client-cert-key").await;
    assert_ne!(after, of_before);
    let (cert, key) = obtain(&kit, "me-again", "customer-break-glass").await;
    assert_eq!(
        whoami(&client(&kit, &cert, &key).await).await.unwrap().0,
        "system:customer-break-glass:me-again"
    );
    kit.world.stop().await;
}
