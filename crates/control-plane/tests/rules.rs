//! Rules that hold for all components.

use crate::world::{Names, managed, self_managed};
use apis::hypershift::settings::{Capability, Expander, IgnoredLabel, ScaleDown, Scaling};
use control_plane::operate::{Rollout, Turn, progress};
use control_plane::scope::*;
use control_plane::{Error, Scope, config, render, table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn workload<'a>(rendered: &'a [control_plane::Rendered], name: &str) -> &'a Value {
    rendered.iter().find(|r| r.name == name).unwrap().objects.last().unwrap()
}

#[test]
fn dependencies_exist_and_have_no_cycle() {
    let all: BTreeMap<&str, Vec<&str>> =
        table::all().iter().map(|c| (c.name, c.dependencies().collect())).collect();
    assert_eq!(all.len(), table::all().len(), "names are unique");
    let mut done: Vec<&str> = Vec::new();
    while done.len() < all.len() {
        let next: Vec<&str> = all
            .iter()
            .filter(|(n, deps)| !done.contains(n) && deps.iter().all(|d| done.contains(d)))
            .map(|(n, _)| *n)
            .collect();
        assert!(
            !next.is_empty(),
            "these wait for each other or for nobody: {:?}",
            all.keys().filter(|k| !done.contains(k)).collect::<Vec<_>>()
        );
        done.extend(next);
    }
}

#[test]
fn every_pod_is_hardened_and_placed() {
    for scope in [self_managed(), managed()] {
        for r in render(&scope, &Names).unwrap() {
            let w = r.objects.last().unwrap();
            let at =
                if w["kind"] == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
            let pod = w.pointer(at).unwrap();
            let component = table::find(r.name).unwrap();
            // The package server's image expects a token, though not what it is for.
            let token = component.management || r.name == "packageserver";
            assert_eq!(pod["spec"]["automountServiceAccountToken"], token, "{}", r.name);
            assert!(pod["spec"]["priorityClassName"].as_str().unwrap().starts_with("hypershift-"));
            assert!(
                pod["metadata"]["annotations"]["component.hypershift.openshift.io/config-hash"].is_string()
            );
            for list in ["containers", "initContainers"] {
                for c in pod["spec"][list].as_array().into_iter().flatten() {
                    assert_eq!(
                        c["securityContext"]["readOnlyRootFilesystem"], true,
                        "{} {}",
                        r.name, c["name"]
                    );
                    assert!(
                        c["image"].as_str().unwrap().contains('/'),
                        "{} {}: {}",
                        r.name,
                        c["name"],
                        c["image"]
                    );
                }
            }
            let text = w.to_string();
            assert!(!text.contains("{{") || r.name == "oauth-openshift", "{} has a word left", r.name);
        }
    }
}

#[test]
fn flavours_never_mix() {
    let own = render(&self_managed(), &Names).unwrap();
    let aro = render(&managed(), &Names).unwrap();
    let text = |r: &[control_plane::Rendered]| {
        r.iter().flat_map(|r| &r.objects).map(Value::to_string).collect::<String>()
    };
    let (own, aro) = (text(&own), text(&aro));
    assert!(!own.contains("SecretProviderClass") && !own.contains("MANAGED_") && !own.contains("ARO_HCP"));
    assert!(own.contains("cloud-token-minter") && own.contains("AZURE_FEDERATED_TOKEN_FILE"));
    assert!(!aro.contains("cloud-token-minter") && !aro.contains("AZURE_FEDERATED_TOKEN_FILE"));
    assert!(aro.contains("SecretProviderClass"));
}

#[test]
fn replicas_follow_the_availability() {
    let ha = render(&managed(), &Names).unwrap();
    assert_eq!(workload(&ha, "etcd")["spec"]["replicas"], 3);
    assert_eq!(workload(&ha, "kube-controller-manager")["spec"]["replicas"], 2);
    assert_eq!(workload(&ha, "cluster-version-operator")["spec"]["replicas"], 1);
    assert_eq!(
        workload(&ha, "kube-apiserver")["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": 0, "maxUnavailable": 1})
    );
    let one = render(&self_managed(), &Names).unwrap();
    assert!(one.iter().all(|r| r.objects.last().unwrap()["spec"]["replicas"].as_u64().unwrap_or(1) == 1));
}

#[test]
fn a_swapped_value_changes_the_hash() {
    struct Two(bool);
    impl control_plane::Materials for Two {
        fn data(&self, _: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
            let (a, b) = if self.0 && name == "kas-server-crt" { ("y", "x") } else { ("x", "y") };
            Some([("a".to_owned(), a.into()), ("b".to_owned(), b.into())].into())
        }
    }
    let hash = |m: &Two| {
        let r = render(&self_managed(), m).unwrap();
        workload(&r, "kube-apiserver")["spec"]["template"]["metadata"]["annotations"].clone()
    };
    assert_ne!(hash(&Two(false)), hash(&Two(true)));
    assert_eq!(hash(&Two(false)), hash(&Two(false)));
}

#[test]
fn annotations_reach_the_programs() {
    let set = |pairs: &[(&str, &str)]| Scope {
        annotations: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..self_managed()
    };
    let scope = set(&[
        ("hypershift.openshift.io/restart-date", "today"),
        ("hypershift.openshift.io/kube-apiserver-gomemlimit", "2GiB"),
        ("hypershift.openshift.io/image-overrides", "etcd=quay.example/mine:1"),
        ("hypershift.openshift.io/etcd-priority-class", "hypershift-mine"),
        (
            "resource-request-override.hypershift.openshift.io/kube-apiserver.kube-apiserver",
            "memory=3Gi,cpu=2",
        ),
    ]);
    let r = render(&scope, &Names).unwrap();
    let api = workload(&r, "kube-apiserver").to_string();
    assert!(api.contains("\"restart-date\"") || api.contains("restart-date\":\"today"));
    assert!(api.contains("{\"name\":\"GOMEMLIMIT\",\"value\":\"2GiB\"}"));
    assert!(api.contains("\"memory\":\"3Gi\""));
    let etcd = workload(&r, "etcd").to_string();
    assert!(etcd.contains("quay.example/mine:1") && etcd.contains("hypershift-mine"));
}

#[test]
fn what_cannot_be_rendered_says_why() {
    let said = |scope: Scope| render(&scope, &Names).unwrap_err().to_string();
    let mut scope = self_managed();
    Arc::make_mut(&mut scope.release.images).remove("hyperkube");
    assert!(said(scope).contains("the release 4.19.3 has no image \"hyperkube\", which kube-apiserver runs"));
    let wrong = |configuration: Value| Scope { configuration, ..self_managed() };
    for (configuration, words) in [
        (json!({"apiServer": {"audit": {"profile": "Loud"}}}), "configuration.apiServer.audit.profile"),
        (json!({"apiServer": {"tlsSecurityProfile": {"type": "Ancient"}}}), "tlsSecurityProfile.type"),
        (
            json!({"apiServer": {"tlsSecurityProfile": {"type": "Custom", "custom": {"ciphers": ["x"]}}}}),
            "custom.ciphers",
        ),
        (json!({"scheduler": {"profile": "Best"}}), "configuration.scheduler.profile"),
        (
            json!({"oauth": {"identityProviders": [{"name": "x", "type": "Carrier"}]}}),
            "identityProviders[0].type",
        ),
        (
            json!({"authentication": {"type": "OIDC", "oidcProviders": [{"name": "x", "issuer": {"issuerURL": "http://x"}}]}}),
            "does not begin with https://",
        ),
        (
            json!({"authentication": {"type": "OIDC", "oidcProviders": [{"name": "x", "issuer": {"issuerURL": "https://x",
                "issuerCertificateAuthority": {"name": "absent"}}}]}}),
            "issuerCertificateAuthority",
        ),
        (
            json!({"authentication": {"type": "OIDC", "oidcProviders": [{"name": "x", "issuer": {"issuerURL": "https://x"},
                "claimValidationRules": [{"type": "Later"}]}]}}),
            "claimValidationRules[0].type",
        ),
    ] {
        let text = said(wrong(configuration));
        assert!(text.contains(words), "{text}");
    }
    let mut scope = self_managed();
    scope
        .annotations
        .insert("hypershift.openshift.io/kube-apiserver-max-requests-inflight".into(), "many".into());
    assert!(said(scope).contains("is no whole number"));
    let broken = Error::Word { place: "x".into(), word: "y".into() };
    assert!(broken.to_string().contains("no word we know"));
}

/// The guest's API server must understand whom it is to believe.
#[test]
fn issuers_are_told_in_words_an_api_server_knows() {
    let mut scope = self_managed();
    scope.authorities.insert("entra-ca".into(), "-----BEGIN CERTIFICATE-----".into());
    scope.configuration = json!({"authentication": {"type": "OIDC", "oidcProviders": [{"name": "entra",
        "issuer": {"issuerURL": "https://login.example.com", "audiences": ["app"], "issuerCertificateAuthority": {"name": "entra-ca"}},
        "claimMappings": {"username": {"expression": "claims.email"}, "groups": {"expression": "claims.roles"},
            "uid": {"claim": "oid"}, "extra": [{"key": "example.com/t", "valueExpression": "claims.tid"}]},
        "claimValidationRules": [{"type": "CEL", "cel": {"expression": "claims.verified == true"}}],
        "userValidationRules": [{"expression": "user.username != 'root'", "message": "nobody is root"}]}]}});
    let objects = control_plane::config::kube_apiserver::objects(&scope).unwrap();
    let map = objects.iter().find(|o| o["metadata"]["name"] == "auth-config").unwrap();
    let document: serde_json::Value =
        serde_json::from_str(map["data"]["auth.json"].as_str().unwrap()).unwrap();
    let read = ek_auth::oidc::parse(&document).unwrap();
    assert_eq!(read[0].certificate_authority.as_deref(), Some("-----BEGIN CERTIFICATE-----"));
    let jwt = &document["jwt"][0];
    assert_eq!(jwt["claimMappings"]["username"], json!({"expression": "claims.email"}));
    assert_eq!(jwt["claimMappings"]["uid"], json!({"claim": "oid"}));
    assert_eq!(jwt["claimValidationRules"], json!([{"expression": "claims.verified == true"}]));
    assert_eq!(jwt["userValidationRules"][0]["message"], "nobody is root");
}

#[test]
fn an_image_only_named_in_a_variable_may_be_absent() {
    let mut scope = self_managed();
    Arc::make_mut(&mut scope.release.images).remove("metallb-frr");
    let r = render(&scope, &Names).unwrap();
    assert!(!workload(&r, "cluster-network-operator").to_string().contains("FRR_K8S_IMAGE"));
}

#[test]
fn a_key_has_its_own_name() {
    let key = |version: &str, hsm| KmsKey {
        vault: "v".into(),
        name: "n".into(),
        version: version.into(),
        managed_hsm: hsm,
    };
    let name = control_plane::config::encryption::provider_name;
    assert_ne!(name(&key("1", false)), name(&key("2", false)));
    assert_ne!(name(&key("1", false)), name(&key("1", true)));
    assert!(name(&key("1", false)).starts_with("azure-"));
}

/// Every sort of provider, in the words of OpenShift's OAuth server, with what it refers to mounted where it says.
#[test]
fn identity_providers_are_said_as_the_server_wants_them() {
    let name = |n: &str| json!({"name": n});
    let providers = json!([
        {"name": "files", "type": "HTPasswd", "htpasswd": {"fileData": name("users")}},
        {"name": "entra", "type": "OpenID", "mappingMethod": "add", "openID": {"clientID": "id", "clientSecret": name("entra"),
            "issuer": "https://login.example/tenant/v2.0", "ca": name("corp"), "extraScopes": ["email"],
            "claims": {"preferredUsername": ["upn"], "name": ["name"], "email": ["email"], "groups": ["groups"]}}},
        {"name": "own", "type": "OpenID", "openID": {"clientID": "id", "clientSecret": name("own"), "issuer": "https://own"}},
        {"name": "hub", "type": "GitHub", "github": {"clientID": "id", "clientSecret": name("hub"), "teams": ["o/t"]}},
        {"name": "lab", "type": "GitLab", "gitlab": {"clientID": "id", "clientSecret": name("lab"), "url": "https://lab"}},
        {"name": "goo", "type": "Google", "google": {"clientID": "id", "clientSecret": name("goo"), "hostedDomain": "x.example"}},
        {"name": "dir", "type": "LDAP", "ldap": {"url": "ldaps://d/o", "attributes": {"id": ["dn"]}}},
        {"name": "basic", "type": "BasicAuth", "basicAuth": {"url": "https://b", "ca": name("corp"),
            "tlsClientCert": name("cert"), "tlsClientKey": name("key")}},
        {"name": "stack", "type": "Keystone", "keystone": {"url": "https://k", "domainName": "d"}},
        {"name": "proxy", "type": "RequestHeader", "requestHeader": {"ca": name("front"), "headers": ["X-User"],
            "loginURL": "https://p/login?${query}"}},
    ]);
    let at = OpenId {
        authorize: "https://login.example/a".into(),
        token: "https://login.example/t".into(),
        user_info: String::new(),
    };
    let own = json!({"urls": {"authorize": "https://own/a"}, "claims": {"id": ["uid"]}, "challenge": true});
    let mut scope = self_managed();
    scope.configuration = json!({"oauth": {"identityProviders": providers}});
    scope.openid = [("https://login.example/tenant/v2.0".to_owned(), Ok(at))].into();
    scope.annotations.insert("idpoverrides.hypershift.openshift.io/own".into(), own.to_string());
    let r = render(&scope, &Names).unwrap();
    let objects = &r.iter().find(|r| r.name == "oauth-openshift").unwrap().objects;
    let map = objects.iter().find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == "oauth-openshift");
    let map = map.unwrap();
    let config: Value = serde_saphyr::from_str(map["data"]["config.yaml"].as_str().unwrap()).unwrap();
    let all = config["oauthConfig"]["identityProviders"].as_array().unwrap();
    let flags: Vec<_> = all.iter().map(|p| (p["challenge"] == true, p["login"] == true)).collect();
    let (both, page) = ((true, true), (false, true));
    assert_eq!(flags, [both, page, both, page, both, page, both, both, both, page]);
    let p = |i: usize| &all[i]["provider"];
    assert_eq!(p(0)["file"], "/etc/kubernetes/secrets/idp/0/secret/htpasswd");
    assert_eq!(p(1)["urls"]["token"], "https://login.example/t");
    assert_eq!(
        p(1)["claims"],
        json!({"id": ["sub"], "preferredUsername": ["upn"], "name": ["name"], "email": ["email"], "groups": ["groups"]})
    );
    assert_eq!(
        (&p(1)["issuer"], &p(1)["ca"]),
        (&Value::Null, &json!("/etc/kubernetes/secrets/idp/1/ca/ca.crt"))
    );
    assert_eq!(
        (&p(2)["urls"]["authorize"], &p(2)["claims"]["id"]),
        (&json!("https://own/a"), &json!(["uid"]))
    );
    assert_eq!((&p(4)["legacy"], &p(4)["ca"]), (&json!(false), &json!("")));
    assert_eq!(p(6)["bindPassword"]["file"], "", "nobody gave one");
    assert_eq!(p(7)["certFile"], "/etc/kubernetes/secrets/idp/7/tls-client-cert/tls.crt");
    assert_eq!(
        (&p(8)["kind"], &p(8)["useKeystoneIdentity"]),
        (&json!("KeystonePasswordIdentityProvider"), &json!(true))
    );
    assert_eq!(p(9)["clientCA"], "/etc/kubernetes/secrets/idp/9/ca/ca.crt");
    let pod = workload(&r, "oauth-openshift")["spec"]["template"]["spec"].to_string();
    for volume in ["idp-0-secret", "idp-1-ca", "idp-7-tls-client-key", "idp-9-ca"] {
        assert_eq!(
            pod.matches(&format!("\"name\":\"{volume}\"")).count(),
            2,
            "{volume}: a volume and its mount"
        );
    }
    // Who was not heard is not guessed.
    scope.openid =
        [("https://login.example/tenant/v2.0".to_owned(), Err("dial tcp: refused".to_owned()))].into();
    let why = render(&scope, &Names).unwrap_err().to_string();
    assert!(why.contains("identityProviders[1].openID.issuer") && why.contains("refused"), "{why}");
}

fn annotated(pairs: &[(&str, &str)]) -> Scope {
    let mut scope = self_managed();
    for (name, value) in pairs {
        scope.annotations.insert(format!("hypershift.openshift.io/{name}"), (*value).to_owned());
    }
    scope
}

/// The text of a ConfigMap.
fn text(rendered: &[control_plane::Rendered], map: &str, key: &str) -> String {
    let mut all = rendered.iter().flat_map(|r| &r.objects);
    let found = all.find(|o| o["kind"] == "ConfigMap" && o["metadata"]["name"] == map).unwrap();
    found["data"][key].as_str().unwrap().to_owned()
}

#[test]
fn annotations_reach_the_programs_they_are_for() {
    let arguments = |r: &[control_plane::Rendered], name: &str| {
        workload(r, name)["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().clone()
    };
    let no_profiling = json!("--profiling=false");
    let plain = render(&self_managed(), &Names).unwrap();
    assert!(!arguments(&plain, "kube-controller-manager").contains(&no_profiling));
    let r = render(
        &annotated(&[
            ("kube-apiserver-verbosity-level", "6"),
            ("disable-profiling", "kube-apiserver, kube-scheduler,kube-controller-manager"),
            ("cluster-autoscaler-image", "quay.example/mine:1"),
        ]),
        &Names,
    )
    .unwrap();
    assert!(arguments(&r, "kube-apiserver").contains(&json!("--v=6")));
    assert!(arguments(&r, "kube-controller-manager").contains(&no_profiling));
    assert!(text(&r, "kas-config", "config.json").contains("\"profiling\": [\n      \"false\""));
    let scheduler = text(&r, "kube-scheduler", "config.json");
    assert!(scheduler.contains("enableProfiling"), "{scheduler}");
    let autoscaler = &workload(&r, "cluster-autoscaler")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(autoscaler["image"], "quay.example/mine:1");
    let wrong = render(&annotated(&[("kube-apiserver-verbosity-level", "much")]), &Names);
    assert!(matches!(wrong, Err(Error::Configuration { field, .. }) if field.contains("verbosity-level")));
}

/// A vault that only the guest's network reaches is reached through the router in it.
#[test]
fn a_private_vault_is_behind_the_private_router() {
    let mut scope = managed();
    let aliases = |s: &Scope| {
        let r = render(s, &Names).unwrap();
        let pod = workload(&r, "kube-apiserver")["spec"]["template"]["spec"].clone();
        (pod["hostAliases"].clone(), text(&r, "router", "haproxy.cfg"))
    };
    scope.endpoints.private_router = Some("10.96.0.7".into());
    assert_eq!(aliases(&scope).0, Value::Null, "this vault is public");
    if let Some(Encryption::Kms { private, active, .. }) = &mut scope.encryption {
        *private = true;
        active.managed_hsm = true;
    }
    let (found, router) = aliases(&scope);
    assert_eq!(found, json!([{"ip": "10.96.0.7", "hostnames": ["demo-kms.managedhsm.azure.net"]}]));
    assert!(router.contains("use_backend vault-0 if { req_ssl_sni -i demo-kms.managedhsm.azure.net }"));
    assert!(router.contains("server vault demo-kms.managedhsm.azure.net:443"), "{router}");
}

/// What a ConfigMap says, and nothing else.
struct Own(Option<&'static str>);

impl control_plane::Materials for Own {
    fn data(&self, _: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let text = self.0.filter(|_| name == "sre-metric-set")?;
        Some([("config".to_owned(), text.as_bytes().to_vec())].into())
    }
}

#[test]
fn monitors_scrape_what_the_set_of_metrics_says() {
    let rules = |set: MetricsSet, own: Option<&'static str>| {
        let all = render(&Scope { metrics: set, ..self_managed() }, &Own(own)).unwrap();
        move |component: &str| -> Vec<(String, String)> {
            let rendered = all.iter().find(|r| r.name == component).unwrap();
            let monitor = |o: &&Value| o["kind"].as_str().unwrap().ends_with("Monitor");
            let spec = &rendered.objects.iter().find(monitor).unwrap()["spec"];
            let place = [&spec["endpoints"][0], &spec["podMetricsEndpoints"][0]];
            let rules = place.iter().find_map(|p| p["metricRelabelings"].as_array()).cloned();
            let text = |v: &Value| v.as_str().unwrap().to_owned();
            rules.unwrap_or_default().iter().map(|r| (text(&r["action"]), text(&r["regex"]))).collect()
        }
    };
    let (keep, drop) =
        (|r: &str| ("keep".to_owned(), r.to_owned()), |r: &str| ("drop".to_owned(), r.to_owned()));
    let few = rules(MetricsSet::Telemetry, None);
    assert_eq!(few("olm-operator"), [keep("(csv_succeeded|csv_abnormal)")]);
    assert_eq!(few("openshift-route-controller-manager"), [drop("(.*)")]);
    assert_eq!(few("cluster-image-registry-operator"), [drop("(.*)")]);
    assert_eq!(few("ignition-server"), []);
    let all = rules(MetricsSet::All, None);
    assert_eq!((all("etcd"), all("olm-operator")), (vec![], vec![drop("etcd_(debugging|disk|server).*")]));
    assert_eq!(all("kube-apiserver").len(), 11);
    let text =
        "etcd: [{action: keep, regex: etcd_server_has_leader, sourceLabels: [__name__]}]\nunknown: []\n";
    let own = rules(MetricsSet::Sre, Some(text));
    assert_eq!((own("etcd"), own("kube-apiserver")), (vec![keep("etcd_server_has_leader")], vec![]));
    // What is not there or cannot be read is worth no more than telemetry.
    for unreadable in [None, Some("etcd: yes"), Some("[")] {
        assert_eq!(rules(MetricsSet::Sre, unreadable)("olm-operator"), few("olm-operator"));
    }
    let read = render(&Scope { metrics: MetricsSet::Sre, ..self_managed() }, &Own(None)).unwrap();
    let etcd = read.iter().find(|r| r.name == "etcd").unwrap();
    assert!(etcd.mounts.contains(&("ConfigMap", "sre-metric-set".to_owned())), "it is followed");
}

#[test]
fn a_day_of_certificates_for_emergencies_is_what_the_operator_was_told() {
    let mut scope = self_managed();
    scope.management.settings.certificate_day = "30m".to_owned();
    let rendered = render(&scope, &Names).unwrap();
    let env = &workload(&rendered, "control-plane-pki-operator")["spec"]["template"]["spec"]["containers"][0]
        ["env"];
    assert!(
        env.as_array().unwrap().contains(&json!({"name": "CERT_ROTATION_SCALE", "value": "30m"})),
        "{env}"
    );
}

/// What users write in `configuration` reaches who reads it.
#[test]
fn configuration_reaches_the_programs_it_is_for() {
    let mut scope = self_managed();
    scope.network.api_port = 8443;
    scope.configuration = json!({
        "ingress": {"domain": "web.example.com", "appsDomain": "routes.example.com"},
        "apiServer": {"additionalCORSAllowedOrigins": ["//console\\.example\\.com(:|$)"], "clientCA": {"name": "mine"}},
        "network": {"externalIP": {"policy": {"allowedCIDRs": ["10.1.0.0/16"], "rejectedCIDRs": ["10.1.2.0/24"]},
            "autoAssignCIDRs": ["10.1.0.0/16"]}},
        "featureGate": {"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["Mine"]}},
        "oauth": {"templates": {"login": {"name": "my-login"}}},
    });
    let r = render(&scope, &Names).unwrap();
    let kas: Value = serde_json::from_str(&text(&r, "kas-config", "config.json")).unwrap();
    let gates = ["StructuredAuthenticationConfiguration=true", "ValidatingAdmissionPolicy=true", "Mine=true"];
    assert_eq!(kas["apiServerArguments"]["feature-gates"], json!(gates));
    assert_eq!(kas["consolePublicURL"], "https://console-openshift-console.web.example.com");
    assert_eq!(kas["corsAllowedOrigins"].as_array().unwrap().len(), 3);
    let ranger = &kas["admission"]["pluginConfig"]["network.openshift.io/ExternalIPRanger"]["configuration"];
    assert_eq!(ranger["externalIPNetworkCIDRs"], json!(["!10.1.2.0/24", "10.1.0.0/16"]));
    assert_eq!(ranger["allowIngressIP"], true);
    assert!(text(&r, "openshift-apiserver", "config.yaml").contains("subdomain: routes.example.com"));
    let api = &workload(&r, "kube-apiserver")["spec"]["template"]["spec"]["containers"][0];
    assert!(api["ports"].as_array().unwrap().contains(&json!({"name": "client", "containerPort": 8443})));
    let services = control_plane::publish::objects(&scope);
    let inside = services.iter().find(|s| s["metadata"]["name"] == "kube-apiserver").unwrap();
    assert_eq!(inside["spec"]["ports"][0]["port"], 6443, "who asks inside knows no other");
    let volumes = &workload(&r, "oauth-openshift")["spec"]["template"]["spec"]["volumes"];
    let login = json!({"name": "login-template", "secret": {"secretName": "my-login"}});
    let login = volumes.as_array().unwrap().iter().find(|v| v["name"] == login["name"]).unwrap();
    assert_eq!(login["secret"]["secretName"], "my-login");
}

/// An etcd of somebody else's is spoken to with their certificates, and nobody waits for one of ours.
#[test]
fn a_foreign_etcd_is_spoken_to_as_it_wants() {
    let etcd =
        Etcd::Unmanaged { endpoint: "https://etcd.example.com:2379".into(), client_secret: "theirs".into() };
    let r = render(&Scope { etcd, ..self_managed() }, &Names).unwrap();
    for name in ["kube-apiserver", "openshift-apiserver", "openshift-oauth-apiserver"] {
        let pod = workload(&r, name)["spec"]["template"]["spec"].to_string();
        for ours in ["etcd-client-tls", "wait-for-etcd", "\"configMap\":{\"name\":\"etcd-ca\"}"] {
            assert!(!pod.contains(ours), "{name}: {ours}");
        }
        assert_eq!(pod.matches("\"secretName\":\"theirs\"").count(), 2, "{name}: {pod}");
        assert!(pod.contains("etcd-client-ca.crt"), "{name}");
    }
}

/// The importer of images looks for `config.json` in the kubelet's directory.
#[test]
fn the_pull_secret_lies_where_images_are_imported() {
    let r = render(&self_managed(), &Names).unwrap();
    let pod = &workload(&r, "openshift-apiserver")["spec"]["template"]["spec"];
    let volume = pod["volumes"].as_array().unwrap().iter().find(|v| v["name"] == "pull-secret").unwrap();
    assert_eq!(volume["secret"]["items"], json!([{"key": ".dockerconfigjson", "path": "config.json"}]));
}

/// Whether several defragmenters work is decided by a Lease; without the right to it none does.
#[test]
fn defragmenters_may_elect_one_of_them() {
    let rights = |scope: &Scope| {
        let r = render(scope, &Names).unwrap();
        let etcd = r.into_iter().find(|r| r.name == "etcd").unwrap();
        let defragments = etcd.objects.last().unwrap().to_string().contains("etcd-defrag-controller");
        let own = etcd.objects.into_iter().filter(|o| o["metadata"]["name"] == "etcd-defrag-controller");
        (defragments, own.collect::<Vec<_>>())
    };
    let (defragments, own) = rights(&managed());
    assert!(defragments);
    let kinds: Vec<&Value> = own.iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["Role", "RoleBinding"]);
    assert!(
        own[0]["rules"].to_string().contains("\"leases\"")
            && own[0]["rules"].to_string().contains("\"events\"")
    );
    let r = render(&managed(), &Names).unwrap();
    let account = &workload(&r, "etcd")["spec"]["template"]["spec"]["serviceAccountName"];
    assert_eq!(
        own[1]["subjects"],
        json!([{"kind": "ServiceAccount", "name": account, "namespace": managed().namespace}])
    );
    assert_eq!(rights(&self_managed()), (false, vec![]), "one member is never defragmented");
}

/// The arguments of a component's main container.
fn args(scope: &Scope, name: &str) -> Vec<String> {
    let rendered = render(scope, &Names).unwrap();
    let all = &workload(&rendered, name)["spec"]["template"]["spec"]["containers"][0]["args"];
    all.as_array().unwrap().iter().map(|a| a.as_str().unwrap().to_owned()).collect()
}

/// Konnectivity picks an agent by the host that is dialled, and the API server dials addresses of Services.
#[test]
fn the_agent_answers_for_the_addresses_that_are_dialled() {
    let identifiers = |scope: &Scope| {
        let args = args(scope, "konnectivity-agent");
        let at = args.iter().position(|a| a == "--agent-identifiers").unwrap();
        assert_eq!(args.iter().filter(|a| *a == "--agent-identifiers").count(), 1, "{args:?}");
        args[at + 1].clone()
    };
    let mut scope = self_managed();
    assert_eq!(identifiers(&scope), "ipv4=10.96.0.11&ipv4=10.96.0.12&ipv4=10.96.0.13");
    scope.endpoints.aggregated.insert("packageserver", "fd00::c".parse().unwrap());
    assert_eq!(identifiers(&scope), "ipv4=10.96.0.11&ipv6=fd00::c&ipv4=10.96.0.13");
    scope.configuration["authentication"] = json!({"type": "None"});
    assert_eq!(identifiers(&scope), "ipv4=10.96.0.11&ipv6=fd00::c", "there is no such server");
}

/// It is not made before they are known, and not made anew without them.
#[test]
fn the_agent_waits_for_the_addresses_it_answers_for() {
    let done = |scope: &Scope| {
        let version = scope.release.version.clone();
        move |_: &str| Rollout {
            there: true,
            available: true,
            complete: true,
            version: version.clone(),
            ..Rollout::default()
        }
    };
    let mut scope = self_managed();
    assert_eq!(progress(&scope, &done(&scope)).turn("konnectivity-agent"), Turn::Now);
    scope.endpoints.aggregated.remove("openshift-oauth-apiserver");
    let p = progress(&scope, &done(&scope));
    assert_eq!(p.turn("konnectivity-agent"), Turn::Waits);
    assert_eq!(p.after("konnectivity-agent"), ["an address of Service openshift-oauth-apiserver"]);
    assert_eq!(p.turn("openshift-apiserver"), Turn::Now, "nobody else waits");
    scope.configuration["authentication"] = json!({"type": "None"});
    assert_eq!(progress(&scope, &done(&scope)).turn("konnectivity-agent"), Turn::Now);
}

#[test]
fn the_autoscaler_does_what_the_cluster_says() {
    let plain = args(&self_managed(), "cluster-autoscaler");
    let more = |autoscaling: Autoscaling| {
        let args = args(&Scope { autoscaling, ..self_managed() }, "cluster-autoscaler");
        args.into_iter().filter(|a| !plain.contains(a)).collect::<Vec<_>>()
    };
    assert!(plain.contains(&"--expander=priority,least-waste".to_owned()), "{plain:?}");
    assert!(!plain.iter().any(|a| a.starts_with("--scale-down")), "{plain:?}");
    assert_eq!(
        more(Autoscaling { scaling: Scaling::UpOnly, ..Autoscaling::default() }),
        ["--scale-down-enabled=false"]
    );
    let all = Autoscaling {
        scaling: Scaling::UpAndDown,
        scale_down: Some(ScaleDown {
            delay_after_add_seconds: Some(600),
            delay_after_delete_seconds: Some(0),
            delay_after_failure_seconds: Some(180),
            unneeded_duration_seconds: Some(300),
            utilization_threshold_percent: Some(5),
        }),
        max_nodes_total: Some(20),
        max_pod_grace_period: Some(0),
        max_node_provision_time: Some("15m".into()),
        max_free_difference_ratio_percent: Some(100),
        pod_priority_threshold: Some(-10),
        expanders: Some(vec![Expander::Random, Expander::LeastWaste]),
        balancing_ignored_labels: Some(vec![IgnoredLabel("example.com/rack".into())]),
    };
    let expected = [
        "--scale-down-enabled=true",
        "--scale-down-delay-after-add=600s",
        "--scale-down-delay-after-delete=0s",
        "--scale-down-delay-after-failure=180s",
        "--scale-down-unneeded-time=300s",
        "--scale-down-utilization-threshold=0.05",
        "--max-nodes-total=20",
        "--max-graceful-termination-sec=0",
        "--max-node-provision-time=15m",
        "--max-free-difference-ratio=1.00",
        "--expendable-pods-priority-cutoff=-10",
        "--balancing-ignore-label=example.com/rack",
        "--expander=random,least-waste",
    ];
    assert_eq!(more(all.clone()), expected);
    let args = args(&Scope { autoscaling: all, ..self_managed() }, "cluster-autoscaler");
    assert_eq!(args.iter().filter(|a| a.starts_with("--expander")).count(), 1);
    assert!(args.contains(&"--balancing-ignore-label=agentpool".to_owned()), "ours stay");
}

/// A release takes the capabilities that it knows, and turns on all of them unless they are named.
#[test]
fn capabilities_are_named_one_by_one() {
    let named = |version: &str, enabled: &[Capability], disabled: &[Capability]| {
        let capabilities =
            Capabilities { enabled: Some(enabled.to_vec()), disabled: Some(disabled.to_vec()) }.on();
        let scope = Scope { capabilities, release: crate::world::release(version), ..self_managed() };
        let document: Value = serde_json::from_str(&config::version::document(&scope)).unwrap();
        let set = &document["spec"]["capabilities"];
        assert_eq!(set["baselineCapabilitySet"], "None");
        serde_json::from_value::<Vec<String>>(set["additionalEnabledCapabilities"].clone()).unwrap()
    };
    let usual = [
        "Build",
        "CSISnapshot",
        "CloudControllerManager",
        "CloudCredential",
        "Console",
        "DeploymentConfig",
        "ImageRegistry",
        "Ingress",
        "Insights",
        "MachineAPI",
        "NodeTuning",
        "OperatorLifecycleManager",
        "OperatorLifecycleManagerV1",
        "Storage",
        "marketplace",
        "openshift-samples",
    ];
    assert_eq!(named("4.19.3", &[], &[]), usual, "all but baremetal");
    assert_eq!(named("5.0.1", &[], &[]), usual);
    assert_eq!(named("0.0.0-dev", &[], &[]), usual);
    let without = |off: &str| usual.into_iter().filter(|c| *c != off).collect::<Vec<_>>();
    assert_eq!(named("4.17.9", &[], &[]), without("OperatorLifecycleManagerV1"));
    assert_eq!(named("4.19.3", &[], &[Capability::Insights]), without("Insights"));
    let with = named("4.19.3", &[Capability::Baremetal], &[]);
    assert_eq!((with.len(), with.contains(&"baremetal".to_owned())), (17, true));
    // What is optional only in later releases is there in earlier ones all the same.
    let old = Scope { release: crate::world::release("4.14.1"), ..self_managed() };
    assert!(old.capable("Ingress") && !named("4.14.1", &[], &[]).contains(&"Ingress".to_owned()));
}

/// A router looks for a port that a Route names among those of the pods, and every one of these Services has one only.
#[test]
fn routes_name_no_port() {
    let own = Network { api_port: 8443, ..managed().network };
    for scope in [self_managed(), managed(), Scope { network: own, ..managed() }] {
        let rendered = render(&scope, &Names).unwrap();
        let published = control_plane::publish::objects(&scope);
        let all = || rendered.iter().flat_map(|r| &r.objects).chain(&published);
        for route in all().filter(|o| o["kind"] == "Route") {
            assert_eq!(route["spec"]["port"], Value::Null, "{}", route["metadata"]["name"]);
            let to = &route["spec"]["to"]["name"];
            let service = all().find(|o| o["kind"] == "Service" && o["metadata"]["name"] == *to).unwrap();
            assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 1, "{to}");
        }
    }
}

/// Its library looks for a pair of its own names, and would make one where nothing can be written.
#[test]
fn the_package_server_finds_its_certificate() {
    let r = render(&self_managed(), &Names).unwrap();
    let pod = &workload(&r, "packageserver")["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let pair = volumes.iter().find(|v| v["name"] == "apiservice-cert").unwrap();
    let paths: Vec<&Value> = pair["secret"]["items"].as_array().unwrap().iter().map(|i| &i["path"]).collect();
    assert_eq!(paths, ["apiserver.crt", "apiserver.key"]);
}
