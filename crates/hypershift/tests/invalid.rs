//! What is wrong is said, each with its condition, reason and way out, and nothing is made.

use crate::samples;
use crate::world::{World, condition};
use clock::Clock as _;
use hypershift::kinds;
use hypershift::preflight::Verdict;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

struct Bad {
    what: &'static str,
    change: fn(&mut Value),
    condition: &'static str,
    reason: &'static str,
    /// What the message must have: the field and the fix.
    says: &'static [&'static str],
}

const CONFIGURATION: (&str, &str) = ("ValidConfiguration", "InvalidConfiguration");

const fn bad(what: &'static str, change: fn(&mut Value), says: &'static [&'static str]) -> Bad {
    Bad { what, change, condition: CONFIGURATION.0, reason: CONFIGURATION.1, says }
}

const TABLE: &[Bad] = &[
    Bad {
        what: "another platform",
        change: |o| o["spec"]["platform"] = json!({"type": "KubeVirt", "kubevirt": {}}),
        condition: "SupportedHostedCluster",
        reason: "UnsupportedHostedCluster",
        says: &["spec.platform.type is KubeVirt", "use Azure"],
    },
    Bad {
        what: "no pull secret",
        change: |o| o["spec"]["pullSecret"]["name"] = json!("absent"),
        condition: "ValidReleaseImage",
        reason: "SecretNotFound",
        says: &[
            "spec.pullSecret",
            "clusters/absent",
            "kubectl -n clusters create secret generic absent --from-file=.dockerconfigjson=",
        ],
    },
    Bad {
        what: "a pull secret without its key",
        change: |o| o["spec"]["pullSecret"]["name"] = json!("empty"),
        condition: "ValidReleaseImage",
        reason: "SecretNotFound",
        says: &["no key \".dockerconfigjson\"", "it has other"],
    },
    bad(
        "an API that nobody outside could reach",
        |o| {
            o["spec"]["services"][0]["servicePublishingStrategy"] =
                json!({"type": "NodePort", "nodePort": {"address": "10.0.0.1"}})
        },
        &["spec.services[0].servicePublishingStrategy.type", "NodePort", "use Route or LoadBalancer"],
    ),
    Bad {
        what: "a release that is none",
        change: |o| o["spec"]["release"]["image"] = json!("quay.example/ocp-release:none"),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &[
            "spec.release.image quay.example/ocp-release:none",
            "there is no such image",
            "check the pull spec",
        ],
    },
    Bad {
        what: "a release that is too old",
        change: |o| o["spec"]["release"]["image"] = json!("quay.example/ocp-release:4.13.9"),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &["4.13.9", "4.14"],
    },
    Bad {
        what: "a release that is too new",
        change: |o| o["spec"]["release"]["image"] = json!("quay.example/ocp-release:5.2.0"),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &["5.2.0", "upgrade the operator first"],
    },
    Bad {
        what: "a release that does not say for which processors it is",
        change: |o| o["spec"]["release"]["image"] = json!("quay.example/ocp-release:4.19.66"),
        condition: "ValidReleaseImage",
        reason: "PayloadArchNotFound",
        says: &["spec.release.image quay.example/ocp-release:4.19.66", "neither its index"],
    },
    Bad {
        what: "a control plane's release that is none",
        change: |o| o["spec"]["controlPlaneRelease"] = json!({"image": "quay.example/ocp-release:none"}),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &["spec.controlPlaneRelease.image quay.example/ocp-release:none", "there is no such image"],
    },
    Bad {
        what: "a control plane's release that is too new",
        change: |o| o["spec"]["controlPlaneRelease"] = json!({"image": "quay.example/ocp-release:5.2.0"}),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &["spec.controlPlaneRelease.image", "5.2.0", "upgrade the operator first"],
    },
    Bad {
        what: "a proxy bundle that is none",
        change: |o| {
            o["spec"]["configuration"] =
                json!({"proxy": {"httpsProxy": "http://p", "trustedCA": {"name": "no-bundle"}}})
        },
        condition: "ValidProxyConfiguration",
        reason: "ProxyCABundleInvalid",
        says: &["spec.configuration.proxy.trustedCA", "it holds no certificate"],
    },
    bad(
        "networks that overlap",
        |o| o["spec"]["networking"]["machineNetwork"] = json!([{"cidr": "10.133.0.0/16"}]),
        &["spec.networking.machineNetwork[0].cidr 10.133.0.0/16 overlaps", "choose ranges"],
    ),
    bad(
        "a host name twice",
        |o| {
            o["spec"]["services"][2]["servicePublishingStrategy"]["route"]["hostname"] =
                json!("oauth-demo.hc.example.com")
        },
        &["oauth-demo.hc.example.com is used by OAuthServer and Konnectivity"],
    ),
    bad(
        "a key without an issuer",
        |o| {
            o["spec"].as_object_mut().unwrap().remove("issuerURL");
        },
        &["spec.serviceAccountSigningKey is set and spec.issuerURL is not"],
    ),
    bad(
        "an issuer without its key",
        |o| {
            o["spec"].as_object_mut().unwrap().remove("serviceAccountSigningKey");
        },
        &["spec.serviceAccountSigningKey is missing"],
    ),
    bad(
        "a signing key that is none",
        |o| o["spec"]["serviceAccountSigningKey"]["name"] = json!("no-key"),
        &["spec.serviceAccountSigningKey", "RSA PRIVATE KEY"],
    ),
    bad(
        "a trust bundle that is not there",
        |o| o["spec"]["additionalTrustBundle"] = json!({"name": "absent"}),
        &[
            "spec.additionalTrustBundle names ConfigMap clusters/absent",
            "kubectl -n clusters create configmap absent",
        ],
    ),
    bad(
        "a trust bundle that is none",
        |o| o["spec"]["additionalTrustBundle"] = json!({"name": "no-bundle"}),
        &["it holds no certificate"],
    ),
    bad(
        "an encryption key that is too short",
        |o| {
            o["spec"]["secretEncryption"] =
                json!({"type": "aescbc", "aescbc": {"activeKey": {"name": "no-key"}}})
        },
        &["the key has 5 bytes and must have 32"],
    ),
    bad(
        "an identity provider's secret that is not there",
        |o| {
            o["spec"]["configuration"] = json!({"oauth": {"identityProviders": [{"name": "a", "mappingMethod": "claim",
            "type": "GitHub", "github": {"clientID": "x", "clientSecret": {"name": "absent"}}}]}})
        },
        &["spec.configuration.oauth.identityProviders[0].github.clientSecret names Secret clusters/absent"],
    ),
    bad(
        "a copy that would take a name of ours",
        |o| o["spec"]["configuration"] = json!({"apiServer": {"clientCA": {"name": "root-ca"}}}),
        &["the control plane has an object of that name: rename yours"],
    ),
    bad(
        "a network of another subscription",
        |o| o["spec"]["platform"]["azure"]["subscriptionID"] = json!("33333333-3333-3333-3333-333333333333"),
        &["spec.platform.azure.vnetID lies in subscription 22222222"],
    ),
    bad(
        "a security group that is a network",
        |o| {
            o["spec"]["platform"]["azure"]["securityGroupID"] =
                o["spec"]["platform"]["azure"]["vnetID"].clone()
        },
        &["spec.platform.azure.securityGroupID", "networkSecurityGroups"],
    ),
    bad(
        "a subnet of another network",
        |o| {
            o["spec"]["platform"]["azure"]["subnetID"] = json!(
                "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/other/subnets/default"
            )
        },
        &["spec.platform.azure.subnetID", "lies outside the virtual network"],
    ),
    bad(
        "a name of the API inside a certificate",
        |o| o["spec"]["configuration"] = json!({"apiServer": {"servingCerts": {"namedCertificates": [{"names": ["kubernetes.default.svc"]}]}}}),
        &["namedCertificates[0].names has kubernetes.default.svc", "remove it"],
    ),
    bad(
        "OIDC without a provider",
        |o| o["spec"]["configuration"] = json!({"authentication": {"type": "OIDC"}}),
        &["oidcProviders is empty"],
    ),
    bad(
        "ports that are none",
        |o| o["spec"]["configuration"] = json!({"network": {"serviceNodePortRange": "many"}}),
        &["serviceNodePortRange \"many\"", "30000-32767"],
    ),
    bad(
        "an HSM before its time",
        |o| {
            o["spec"]["secretEncryption"] = json!({"type": "kms", "kms": {"provider": "Azure", "azure": {"keyVaultType": "ManagedHSM",
            "activeKey": {"keyVaultName": "v", "keyName": "k", "keyVersion": "1"}, "workloadIdentity": {"clientID": "00000000-0000-0000-0000-000000000009"}}}})
        },
        &["needs release 4.22"],
    ),
    Bad {
        what: "a pull secret that is none",
        change: |o| o["spec"]["pullSecret"]["name"] = json!("no-docker"),
        condition: "ValidReleaseImage",
        reason: "SecretNotFound",
        says: &["Secret clusters/no-docker cannot be used", "it must be JSON with \"auths\""],
    },
    Bad {
        what: "an etcd of others without its certificate",
        change: |o| {
            o["spec"]["etcd"] = json!({"managementType": "Unmanaged", "unmanaged": {
                "endpoint": "https://etcd.example.com:2379", "tls": {"clientSecret": {"name": "absent"}}}})
        },
        condition: "UnmanagedEtcdAvailable",
        reason: "UnmanagedEtcdMisconfigured",
        says: &[
            "spec.etcd.unmanaged.tls.clientSecret names Secret clusters/absent",
            "--from-file=etcd-client.crt=<file> --from-file=etcd-client.key=<file> --from-file=etcd-client-ca.crt=<file>",
        ],
    },
    bad(
        "a name that is too long for a namespace",
        |o| o["metadata"]["name"] = json!("a-name-of-sixty-characters-that-cannot-be-part-of-a-namespace"),
        &["longer than the 63 characters a namespace may have: use a shorter name"],
    ),
    bad(
        "Swift with workload identities",
        |o| {
            o["spec"]["platform"]["azure"]["topology"] = json!("Private");
            o["spec"]["platform"]["azure"]["private"] =
                json!({"type": "Swift", "swift": {"podNetworkInstance": "demo"}});
        },
        &["private.type is Swift, which only clusters with ManagedIdentities have: use PrivateLink"],
    ),
    bad(
        "a provider of identities without its type",
        |o| {
            o["spec"]["configuration"] = json!({"authentication": {"oidcProviders": [
                {"name": "a", "issuer": {"issuerURL": "https://a.example", "audiences": ["x"]}}]}})
        },
        &["oidcProviders is set and type is not OIDC: set type to OIDC"],
    ),
    bad(
        "a provider of identities without TLS",
        |o| {
            o["spec"]["configuration"] = json!({"authentication": {"type": "OIDC", "oidcProviders": [
                {"name": "a", "issuer": {"issuerURL": "http://a.example", "audiences": ["x"]}}]}})
        },
        &["oidcProviders[0].issuer.issuerURL \"http://a.example\" must be an https:// URL"],
    ),
    bad(
        "a provider of identities for nobody",
        |o| {
            o["spec"]["configuration"] = json!({"authentication": {"type": "OIDC", "oidcProviders": [
                {"name": "a", "issuer": {"issuerURL": "https://a.example", "audiences": []}}]}})
        },
        &["oidcProviders[0].issuer.audiences is empty: name the audience"],
    ),
    Bad {
        what: "a network of former times",
        change: |o| o["spec"]["networking"]["networkType"] = json!("OpenShiftSDN"),
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        says: &["spec.networking.networkType is OpenShiftSDN", "use OVNKubernetes"],
    },
    bad(
        "a placeholder that is full",
        |o| {
            o["spec"]["configuration"] = json!({"oauth": {"identityProviders": [{"name": "a", "mappingMethod": "claim",
            "type": "GitHub", "github": {"clientID": "x", "clientSecret": {"name": "sourced"}}}]}})
        },
        &[
            "clusters/sourced, which is marked hypershift.openshift.io/hosted-cluster-sourced",
            "remove its data",
        ],
    ),
    bad(
        "a service twice",
        |o| {
            let doubled = json!({"service": "OAuthServer", "servicePublishingStrategy": {"type": "Route"}});
            o["spec"]["services"].as_array_mut().unwrap().push(doubled);
        },
        &["spec.services[4]: OAuthServer is there twice: remove one"],
    ),
    bad(
        "a certificate for the published name of the API",
        |o| {
            o["spec"]["services"][0]["servicePublishingStrategy"] =
                json!({"type": "Route", "route": {"hostname": "api-demo.hc.example.com"}});
            o["spec"]["configuration"] = json!({"apiServer": {"servingCerts": {"namedCertificates": [{"names": ["API-demo.hc.example.com"]}]}}});
        },
        &["namedCertificates[0].names has API-demo.hc.example.com", "spec.kubeAPIServerDNSName"],
    ),
    bad(
        "a certificate that is itself for a name of the API",
        |o| {
            o["spec"]["configuration"] = json!({"apiServer": {"servingCerts": {"namedCertificates": [
                {"servingCertificate": {"name": "for-kubernetes"}}]}}})
        },
        &["the certificate in Secret for-kubernetes is for kubernetes.default.svc", "list in names"],
    ),
    bad(
        "a certificate that is none",
        |o| served_by(o, "no-certificate"),
        &["namedCertificates[0].servingCertificate", "clusters/no-certificate", "put a certificate there"],
    ),
    bad(
        "a certificate with another one's key",
        |o| served_by(o, "mixed"),
        &["clusters/mixed", "the private key is not the certificate's", "of one pair"],
    ),
    Bad {
        what: "a certificate that has ended",
        change: |o| served_by(o, "ended"),
        condition: "ValidConfiguration",
        reason: "CertificateExpired",
        says: &["clusters/ended has ended at 2020-01-02", "put one there that is valid"],
    },
];

/// A certificate for some names, with its key.
pub fn certificate(names: &[&str]) -> (String, String) {
    certificate_at(clock::system().now(), names)
}

/// The same from then on, for a day.
fn certificate_at(now: jiff::Timestamp, names: &[&str]) -> (String, String) {
    let life = jiff::SignedDuration::from_hours(24);
    let ca = pki::Authority::generate("somebody", "o", pki::KeyKind::P256, now, life).unwrap();
    let leaf = pki::Leaf::server("somebody", names.iter().map(|n| (*n).to_owned()));
    let made = ca.issue(&leaf.living(life, jiff::SignedDuration::from_hours(1)), now).unwrap();
    (made.cert.clone(), made.key.expose().to_owned())
}

fn served_by(o: &mut Value, secret: &str) {
    o["spec"]["configuration"] = json!({"apiServer": {"servingCerts": {"namedCertificates": [
        {"names": ["mine.example.com"], "servingCertificate": {"name": secret}}]}}});
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_says_what_to_do_and_nothing_is_made() {
    let w = World::start().await.with_inputs().await;
    let map = json!({"metadata": {"name": "no-bundle", "namespace": "clusters"}, "data": {"ca-bundle.crt": "hello"}});
    w.create(&kinds::CONFIG_MAP, map).await;
    let root = json!({"metadata": {"name": "root-ca", "namespace": "clusters"},
        "data": {"ca-bundle.crt": "-----BEGIN CERTIFICATE-----\nx"}});
    w.create(&kinds::CONFIG_MAP, root).await;
    for (name, key) in [("empty", "other"), ("no-key", "key")] {
        let secret =
            json!({"metadata": {"name": name, "namespace": "clusters"}, "stringData": {key: "hello"}});
        w.create(&kinds::SECRET, secret).await;
    }
    let docker = json!({"metadata": {"name": "no-docker", "namespace": "clusters"}, "stringData": {".dockerconfigjson": "{\"auths\":"}});
    w.create(&kinds::SECRET, docker).await;
    let sourced = json!({"metadata": {"name": "sourced", "namespace": "clusters",
        "annotations": {"hypershift.openshift.io/hosted-cluster-sourced": "true"}}, "stringData": {"clientSecret": "x"}});
    w.create(&kinds::SECRET, sourced).await;
    let (cert, key) = certificate(&["mine.example.com", "kubernetes.default.svc"]);
    let tls = json!({"metadata": {"name": "for-kubernetes", "namespace": "clusters"}, "stringData": {"tls.crt": cert, "tls.key": key}});
    w.create(&kinds::SECRET, tls).await;
    let (good, other) = (certificate(&["mine.example.com"]), certificate(&["mine.example.com"]));
    let ended = certificate_at("2020-01-01T00:00:00Z".parse().unwrap(), &["mine.example.com"]);
    let none = ("hello".to_owned(), good.1.clone());
    for (name, (cert, key)) in [("no-certificate", none), ("mixed", (good.0, other.1)), ("ended", ended)] {
        let tls = json!({"metadata": {"name": name, "namespace": "clusters"}, "stringData": {"tls.crt": cert, "tls.key": key}});
        w.create(&kinds::SECRET, tls).await;
    }
    // A mark that the second of two clusters with one namespace has left, and a right of the first.
    let marked = json!({"metadata": {"name": "marked", "namespace": "clusters",
        "annotations": {"referenced-resource.hypershift.openshift.io/a-b": "true"}}});
    w.create(&kinds::SECRET, marked).await;
    let role = "clusters-a-b-csr-approver";
    w.create(&kinds::CLUSTER_ROLE, json!({"metadata": {"name": role}, "rules": []})).await;
    let _running = w.operate();
    for (i, b) in TABLE.iter().enumerate() {
        let mut o = samples::self_managed();
        (b.change)(&mut o);
        let mut name = o["metadata"]["name"].as_str().unwrap().to_owned();
        if name == "demo" {
            name = format!("bad-{i}");
            o["metadata"]["name"] = json!(name);
        }
        w.create(&kinds::CLUSTER, o).await;
        let wanted = |o: Option<&kube::core::DynamicObject>| {
            o.is_some_and(|o| condition(o, b.condition)["status"] == "False")
        };
        let o = w.until(&kinds::CLUSTER, "clusters", &name, b.what, wanted).await.unwrap();
        let found = condition(&o, b.condition);
        assert_eq!(found["reason"], b.reason, "{}", b.what);
        let message = found["message"].as_str().unwrap();
        for part in b.says {
            assert!(message.contains(part), "{}: {part:?} is not in {message:?}", b.what);
        }
        assert_eq!(condition(&o, "Progressing")["reason"], "Blocked", "{}", b.what);
        assert_eq!(condition(&o, "Available")["status"], "False", "{}", b.what);
        let space = w.api(&kinds::NAMESPACE, "").get_opt(&format!("clusters-{name}")).await.unwrap();
        assert!(space.is_none(), "{}: something was made", b.what);
    }
    // Two clusters that mean one namespace: the second is told whose it is.
    w.create(&kinds::NAMESPACE, json!({"metadata": {"name": "clusters-a"}})).await;
    let space = json!({"metadata": {"name": "clusters-a-b", "annotations": {"hypershift.openshift.io/cluster": "clusters-a/b"}}});
    w.create(&kinds::NAMESPACE, space).await;
    let mut o = samples::self_managed();
    o["metadata"]["name"] = json!("a-b");
    w.create(&kinds::CLUSTER, o).await;
    let wanted = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| condition(o, "ValidConfiguration")["status"] == "False")
    };
    let o = w.until(&kinds::CLUSTER, "clusters", "a-b", "a tenant", wanted).await.unwrap();
    assert!(
        condition(&o, "ValidConfiguration")["message"]
            .as_str()
            .unwrap()
            .contains("belongs to HostedCluster clusters-a/b")
    );
    w.api(&kinds::CLUSTER, "clusters").delete("a-b", &Default::default()).await.unwrap();
    w.until(&kinds::CLUSTER, "clusters", "a-b", "its end", |o| o.is_none()).await;
    let space = w.api(&kinds::NAMESPACE, "").get("clusters-a-b").await.unwrap();
    assert!(space.metadata.deletion_timestamp.is_none(), "a foreign namespace is left alone");
    assert!(w.api(&kinds::CLUSTER_ROLE, "").get_opt(role).await.unwrap().is_some(), "and so are its rights");
    let o = w.api(&kinds::SECRET, "clusters").get("marked").await.unwrap();
    assert!(o.metadata.annotations.unwrap_or_default().is_empty(), "its own mark goes");
}

/// Names of the user's own are the user's to certify, and whoever insists is heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_for_names_of_ones_own_are_fine() {
    let w = World::start().await.with_inputs().await;
    let (cert, key) = certificate(&["kubernetes.default.svc", "api.mine.example.com"]);
    let tls = json!({"metadata": {"name": "mine", "namespace": "clusters"}, "stringData": {"tls.crt": cert, "tls.key": key}});
    w.create(&kinds::SECRET, tls).await;
    let _running = w.operate();
    let mut hc = samples::self_managed();
    hc["spec"]["kubeAPIServerDNSName"] = json!("api.mine.example.com");
    hc["spec"]["configuration"] = json!({"apiServer": {"servingCerts": {"namedCertificates": [
        {"names": ["api.mine.example.com"], "servingCertificate": {"name": "mine"}}]}}});
    w.create(&kinds::CLUSTER, hc.clone()).await;
    w.condition("ValidConfiguration", "True").await;
    hc["metadata"]["name"] = json!("insists");
    hc["metadata"]["annotations"] =
        json!({"hypershift.openshift.io/skip-kas-conflict-san-validation": "true"});
    hc["spec"]["configuration"]["apiServer"]["servingCerts"]["namedCertificates"] =
        json!([{"names": ["kubernetes"]}, {"servingCertificate": {"name": "mine"}}]);
    w.create(&kinds::CLUSTER, hc).await;
    w.until(&kinds::CLUSTER, "clusters", "insists", "being valid", |o| {
        o.is_some_and(|o| condition(o, "ValidConfiguration")["status"] == "True")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_management_cluster_without_routes_has_no_clusters_that_need_them() {
    let w = World::start().await.with_inputs().await;
    w.told.routeless.store(true, std::sync::atomic::Ordering::SeqCst);
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    let c = w.condition("ValidConfiguration", "False").await;
    let text = c["message"].as_str().unwrap();
    assert!(
        text.contains(
            "spec.services[1]: OAuthServer is published by Route, and this management cluster serves none"
        ),
        "{text}"
    );
    assert!(text.contains("`zaffre install` does"), "{text}");
    assert!(w.api(&kinds::NAMESPACE, "").get_opt("clusters-demo").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_mended_goes_on_by_itself() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.condition("ValidReleaseImage", "False").await;
    for input in samples::inputs() {
        w.create(&kinds::SECRET, input).await;
    }
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", |o| o.is_some()).await;
    w.condition("ValidReleaseImage", "True").await;
    w.condition("ValidConfiguration", "True").await;
}

/// A cluster that runs has a copy of its pull secret: without the original it says so, is looked after, and keeps the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_cluster_lives_without_the_original_of_its_pull_secret() {
    let w = World::start().await.with_inputs().await;
    let running = w.operate();
    let o = w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    let secret = o.data["spec"]["pullSecret"]["name"].as_str().unwrap().to_owned();
    w.api(&kinds::SECRET, "clusters").delete(&secret, &Default::default()).await.unwrap();
    let c = w.condition("ValidReleaseImage", "False").await;
    assert_eq!(c["reason"], "SecretNotFound");
    let change = json!({"spec": {"channel": "stable-4.19"}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", change).await;
    let followed =
        |o: Option<&kube::core::DynamicObject>| o.is_some_and(|o| o.data["spec"]["channel"] == "stable-4.19");
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the change", followed).await;
    running.handle.poke("clusters/demo");
    w.api(&kinds::SECRET, "clusters-demo").get("pull-secret").await.unwrap();
    w.condition("Available", "True").await;
    // A new operator knows as much.
    drop(running);
    let _running = w.operate();
    let change = json!({"spec": {"channel": "fast-4.19"}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", change).await;
    let followed =
        |o: Option<&kube::core::DynamicObject>| o.is_some_and(|o| o.data["spec"]["channel"] == "fast-4.19");
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the change", followed).await;
    w.api(&kinds::SECRET, "clusters-demo").get("pull-secret").await.unwrap();
}

/// A certificate ends while its cluster runs: that is said when it happens, and the cluster is looked after all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_cluster_says_that_a_certificate_has_ended() {
    let w = World::start().await.with_inputs().await;
    let (cert, key) = certificate_at(w.clock.now(), &["mine.example.com"]);
    let tls = json!({"metadata": {"name": "mine", "namespace": "clusters"}, "stringData": {"tls.crt": cert, "tls.key": key}});
    w.create(&kinds::SECRET, tls).await;
    let running = w.operate();
    let mut hc = samples::self_managed();
    served_by(&mut hc, "mine");
    w.create(&kinds::CLUSTER, hc).await;
    w.report_available().await;
    w.condition("ValidConfiguration", "True").await;
    w.clock.advance(jiff::SignedDuration::from_hours(25));
    running.handle.poke("clusters/demo");
    let c = w.condition("ValidConfiguration", "False").await;
    assert_eq!(c["reason"], "CertificateExpired", "{c}");
    w.patch(&kinds::CLUSTER, "clusters", "demo", json!({"spec": {"channel": "stable-4.19"}})).await;
    let followed =
        |o: Option<&kube::core::DynamicObject>| o.is_some_and(|o| o.data["spec"]["channel"] == "stable-4.19");
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the change", followed).await;
    let o = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert_ne!(condition(&o, "Progressing")["reason"], "Blocked");
    let (cert, key) = certificate_at(w.clock.now(), &["mine.example.com"]);
    w.patch(&kinds::SECRET, "clusters", "mine", json!({"stringData": {"tls.crt": cert, "tls.key": key}}))
        .await;
    w.condition("ValidConfiguration", "True").await;
}

/// A pause stops hands, not eyes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_cluster_says_when_its_control_plane_dies() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    w.patch(&kinds::CLUSTER, "clusters", "demo", json!({"spec": {"pausedUntil": "true"}})).await;
    w.condition("ReconciliationActive", "False").await;
    let mut status = crate::world::available("4.19.3");
    status["conditions"][0]["status"] = json!("False");
    status["conditions"][0]["reason"] = json!("KASLoadBalancerNotReachable");
    w.report(status).await;
    let c = w.condition("Available", "False").await;
    assert_eq!(c["reason"], "KASLoadBalancerNotReachable");
    let o = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert_eq!(o.data["status"]["kubeconfig"]["name"], "demo-admin-kubeconfig", "who may come in still may");
    assert!(condition(&o, "Progressing")["message"].as_str().unwrap().contains("ReconciliationActive"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_is_asked_before_anything_is_made_and_never_hurts_what_runs() {
    let w = World::start().await.with_inputs().await;
    let away = Verdict { unknown: vec!["Azure does not answer".into()], ..Verdict::default() };
    *w.told.verdict.lock() = Some(away.clone());
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    let c = w.condition("PlatformCredentialsFound", "Unknown").await;
    assert!(c["message"].as_str().unwrap().contains("Azure does not answer"), "{c}");
    assert!(w.api(&kinds::NAMESPACE, "").get_opt("clusters-demo").await.unwrap().is_none());
    let wrong = Verdict {
        places: vec!["spec.platform.azure.vnetID x does not exist".into()],
        identities: vec!["the identity disk may not do Microsoft.Compute/disks/write".into()],
        ..Verdict::default()
    };
    *w.told.verdict.lock() = Some(wrong.clone());
    w.clock.advance(jiff::SignedDuration::from_secs(60));
    running.handle.poke("clusters/demo");
    let c = w.condition("PlatformCredentialsFound", "False").await;
    assert_eq!(c["reason"], "PlatformCredentialsNotFound");
    assert_eq!(w.condition("Progressing", "False").await["reason"], "Blocked", "nothing is on its way");
    let c = w.condition("ValidConfiguration", "False").await;
    assert!(c["message"].as_str().unwrap().contains("vnetID"), "{c}");
    assert!(w.api(&kinds::NAMESPACE, "").get_opt("clusters-demo").await.unwrap().is_none());
    *w.told.verdict.lock() = Some(Verdict::default());
    w.clock.advance(jiff::SignedDuration::from_secs(60));
    running.handle.poke("clusters/demo");
    w.report_available().await;
    w.condition("Available", "True").await;
    // It runs. Azure goes away, then says no: both are only said.
    for verdict in [away, wrong] {
        *w.told.verdict.lock() = Some(verdict);
        w.clock.advance(jiff::SignedDuration::from_hours(1));
        let change =
            json!({"spec": {"channel": format!("stable-{}", clock::Clock::now(&*w.clock).as_second())}});
        w.patch(&kinds::CLUSTER, "clusters", "demo", change.clone()).await;
        let followed = |o: Option<&kube::core::DynamicObject>| {
            o.is_some_and(|o| o.data["spec"]["channel"] == change["spec"]["channel"])
        };
        w.until(&kinds::PLANE, "clusters-demo", "demo", "the change", followed).await;
        w.condition("Available", "True").await;
    }
    w.condition("ValidConfiguration", "False").await;
    let o = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert_ne!(condition(&o, "Progressing")["reason"], "Blocked", "nothing is held by what Azure says");
}

/// An issuer that cannot be read holds nobody; it is said, and asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_azure_only_remarks_is_said_and_holds_nobody() {
    let w = World::start().await.with_inputs().await;
    let remarks = Verdict {
        notes: vec!["the subnet has no security group".into()],
        unread: Some("the issuer cannot be read from here".into()),
        ..Verdict::default()
    };
    *w.told.verdict.lock() = Some(remarks);
    let running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", |o| o.is_some()).await;
    let c = w.condition("ValidConfiguration", "True").await;
    let text = c["message"].as_str().unwrap();
    assert!(text.contains("no security group") && text.contains("the issuer cannot be read"), "{text}");
    // The key that tokens are signed with is part of the question.
    let asked = w.told.last.lock().clone().unwrap().issuer.unwrap();
    assert_eq!(asked.url, "https://demooidc.blob.core.windows.net/demooidc");
    assert_eq!(asked.kid, hypershift::signing::kid(&samples::KEY.1).unwrap());
    *w.told.verdict.lock() = Some(Verdict::default());
    w.clock.advance(jiff::SignedDuration::from_mins(3));
    running.handle.poke("clusters/demo");
    w.until(&kinds::CLUSTER, "clusters", "demo", "no remark", |o| {
        o.is_some_and(|o| condition(o, "ValidConfiguration")["message"] == "the configuration makes sense")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minors_wait_until_the_guest_is_ready_or_somebody_insists() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    let mut status = crate::world::available("4.19.3");
    let conditions = status["conditions"].as_array_mut().unwrap();
    let blocked = conditions.iter_mut().find(|c| c["type"] == "ClusterVersionUpgradeable").unwrap();
    (blocked["status"], blocked["message"]) = (json!("False"), json!("an operator needs an acknowledgement"));
    w.report(status).await;
    w.condition("ClusterVersionUpgradeable", "False").await;
    let image = |v: &str| json!({"spec": {"release": {"image": format!("quay.example/ocp-release:{v}")}}});
    let runs = |v: &'static str| {
        move |o: Option<&kube::core::DynamicObject>| {
            o.is_some_and(|o| o.data["spec"]["releaseImage"] == format!("quay.example/ocp-release:{v}"))
        }
    };
    // A patch goes through.
    w.patch(&kinds::CLUSTER, "clusters", "demo", image("4.19.9")).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the patch", runs("4.19.9")).await;
    // A minor does not.
    w.patch(&kinds::CLUSTER, "clusters", "demo", image("4.20.1")).await;
    let is_blocked = |o: Option<&kube::core::DynamicObject>| {
        o.is_some_and(|o| condition(o, "Progressing")["reason"] == "Blocked")
    };
    let o = w.until(&kinds::CLUSTER, "clusters", "demo", "Blocked", is_blocked).await.unwrap();
    let message = condition(&o, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("an operator needs an acknowledgement")
            && message.contains("force-upgrade-to=quay.example/ocp-release:4.20.1"),
        "{message}"
    );
    assert!(runs("4.19.9")(Some(&w.api(&kinds::PLANE, "clusters-demo").get("demo").await.unwrap())));
    // Minors never go back.
    w.patch(&kinds::CLUSTER, "clusters", "demo", image("4.18.9")).await;
    let c = w.condition("ValidReleaseImage", "False").await;
    assert!(c["message"].as_str().unwrap().contains("minors cannot go back"), "{c}");
    // Somebody insists.
    let mut forced = image("4.20.1");
    forced["metadata"]["annotations"]["hypershift.openshift.io/force-upgrade-to"] =
        json!("quay.example/ocp-release:4.20.1");
    w.patch(&kinds::CLUSTER, "clusters", "demo", forced).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the minor", runs("4.20.1")).await;
    // Whoever is on the way is not ready for anything, and may be mended all the same.
    let mut mended = image("4.20.2");
    mended["metadata"]["annotations"]["hypershift.openshift.io/force-upgrade-to"] = Value::Null;
    w.patch(&kinds::CLUSTER, "clusters", "demo", mended).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the patch", runs("4.20.2")).await;
    let c = w.condition("Progressing", "True").await;
    assert_eq!(c["reason"], "Progressing", "{c}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_come_and_go_and_copies_follow_their_originals() {
    let w = World::start().await.with_inputs().await;
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "being", |o| o.is_some()).await;
    let restart = "hypershift.openshift.io/restart-date";
    let annotate = |v: Value| json!({"metadata": {"annotations": {restart: v, "example.com/mine": "x"}}});
    w.patch(&kinds::CLUSTER, "clusters", "demo", annotate(json!("2026-03-01"))).await;
    let has = |yes: bool| {
        move |o: Option<&kube::core::DynamicObject>| {
            o.and_then(|o| o.metadata.annotations.as_ref())
                .is_some_and(|a| a.contains_key(restart) == yes && !a.contains_key("example.com/mine"))
        }
    };
    w.until(&kinds::PLANE, "clusters-demo", "demo", "the annotation", has(true)).await;
    w.patch(&kinds::CLUSTER, "clusters", "demo", annotate(Value::Null)).await;
    w.until(&kinds::PLANE, "clusters-demo", "demo", "no annotation", has(false)).await;
    // The original changes, and its copy with it.
    let new = json!({"stringData": {"id_rsa.pub": "ssh-ed25519 BBBB demo"}});
    w.api(&kinds::SECRET, "clusters")
        .patch("demo-ssh-key", &PatchParams::default(), &Patch::Merge(&new))
        .await
        .unwrap();
    w.until(&kinds::SECRET, "clusters-demo", "ssh-key", "the new key", |o| {
        o.is_some_and(|o| o.data["data"]["id_rsa.pub"] == "c3NoLWVkMjU1MTkgQkJCQiBkZW1v")
    })
    .await;
    // Nobody names it any more.
    w.patch(&kinds::CLUSTER, "clusters", "demo", json!({"spec": {"sshKey": null}})).await;
    w.until(&kinds::SECRET, "clusters-demo", "ssh-key", "its end", |o| o.is_none()).await;
    // Somebody changes a copy: it is put right.
    let wrong = json!({"data": {".dockerconfigjson": "e30="}});
    w.api(&kinds::SECRET, "clusters-demo")
        .patch("pull-secret", &PatchParams::default(), &Patch::Merge(&wrong))
        .await
        .unwrap();
    w.until(&kinds::SECRET, "clusters-demo", "pull-secret", "its content", |o| {
        o.is_some_and(|o| o.data["data"][".dockerconfigjson"] != "e30=")
    })
    .await;
}
