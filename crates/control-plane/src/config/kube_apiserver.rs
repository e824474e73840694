//! The API server's own configuration.

use super::{audit, config_map, encryption, features, pretty, yaml};
use crate::pod::Pod;
use crate::scope::{Etcd, Scope};
use crate::{Error, tls};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CERTS: &str = "/etc/kubernetes/certs";

pub fn objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut objects = vec![
        config_map("kas-config", "config.json", pretty(&server(scope)?)),
        config_map("kas-egress-selector-config", "config.yaml", yaml(&egress())),
        audit::config(scope, "kas-audit-config")?,
        config_map("oauth-metadata", "oauthMetadata.json", pretty(&oauth_metadata(scope))),
        config_map("auth-config", "auth.json", pretty(&authentication(scope)?)),
    ];
    objects.extend(encryption::config(scope)?);
    Ok(objects)
}

fn etcd_servers(scope: &Scope) -> String {
    match &scope.etcd {
        Etcd::Managed { .. } => format!("https://etcd-client.{}.svc:2379", scope.namespace),
        Etcd::Unmanaged { endpoint, .. } => endpoint.clone(),
    }
}

fn number(scope: &Scope, annotation: &str, default: u64) -> Result<String, Error> {
    match scope.annotation(annotation) {
        None => Ok(default.to_string()),
        Some(text) => text.parse::<u64>().map(|n| n.to_string()).map_err(|_| Error::Configuration {
            field: format!("annotation hypershift.openshift.io/{annotation}"),
            why: format!("{text:?} is no whole number"),
        }),
    }
}

fn server(scope: &Scope) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    let goaway = scope.annotation("kube-apiserver-goaway-chance");
    let goaway = goaway.unwrap_or_else(|| if scope.ha() { "0.001" } else { "0" });
    let mut gates: Vec<String> = features::FORCED.map(str::to_owned).into();
    gates.extend(features::custom(scope));
    let mut arguments = fixed_arguments();
    arguments["advertise-address"] = json!([scope.network.advertise.to_string()]);
    arguments["api-audiences"] = json!([scope.issuer]);
    arguments["authorization-mode"] = json!(["Scope", "SystemMasters", "RBAC", "Node"]);
    arguments["client-ca-file"] = json!([format!("{CERTS}/client-ca/ca.crt")]);
    arguments["enable-admission-plugins"] = json!(ADMISSION);
    arguments["etcd-cafile"] = json!([format!("{CERTS}/etcd-ca/ca.crt")]);
    arguments["etcd-certfile"] = json!([format!("{CERTS}/etcd/etcd-client.crt")]);
    arguments["etcd-keyfile"] = json!([format!("{CERTS}/etcd/etcd-client.key")]);
    arguments["etcd-servers"] = json!([etcd_servers(scope)]);
    arguments["feature-gates"] = json!(gates);
    arguments["goaway-chance"] = json!([goaway]);
    arguments["kubelet-certificate-authority"] = json!([format!("{CERTS}/kubelet-ca/ca.crt")]);
    arguments["kubelet-client-certificate"] = json!([format!("{CERTS}/kubelet/tls.crt")]);
    arguments["kubelet-client-key"] = json!([format!("{CERTS}/kubelet/tls.key")]);
    arguments["max-mutating-requests-inflight"] =
        json!([number(scope, "kube-apiserver-max-mutating-requests-inflight", 1000)?]);
    arguments["max-requests-inflight"] =
        json!([number(scope, "kube-apiserver-max-requests-inflight", 3000)?]);
    arguments["proxy-client-cert-file"] = json!([format!("{CERTS}/aggregator/tls.crt")]);
    arguments["proxy-client-key-file"] = json!([format!("{CERTS}/aggregator/tls.key")]);
    arguments["requestheader-allowed-names"] =
        json!(["kube-apiserver-proxy", "system:kube-apiserver-proxy", "system:openshift-aggregator"]);
    arguments["requestheader-client-ca-file"] = json!([format!("{CERTS}/aggregator-ca/ca.crt")]);
    arguments["service-account-issuer"] = json!([scope.issuer]);
    arguments["service-account-jwks-uri"] =
        json!([format!("{}/openid/v1/jwks", scope.issuer.trim_end_matches('/'))]);
    arguments["service-node-port-range"] = json!([node_ports(scope)]);
    arguments["tls-cert-file"] = json!([format!("{CERTS}/server/tls.crt")]);
    arguments["tls-private-key-file"] = json!([format!("{CERTS}/server/tls.key")]);
    if scope.oauth() {
        arguments["authentication-token-webhook-config-file"] =
            json!(["/etc/kubernetes/auth-token-webhook/kubeconfig"]);
        arguments["authentication-token-webhook-version"] = json!(["v1"]);
    } else {
        arguments["authentication-config"] = json!(["/etc/kubernetes/auth/auth.json"]);
    }
    if scope.audit_webhook.is_some() {
        arguments["audit-webhook-config-file"] = json!(["/etc/kubernetes/auditwebhook/webhook-kubeconfig"]);
        arguments["audit-webhook-mode"] = json!(["batch"]);
    }
    if let Some(life) = scope.annotation("kube-apiserver-service-account-token-max-expiration") {
        arguments["service-account-max-token-expiration"] = json!([life]);
    }
    if !super::profiled(scope, "kube-apiserver") {
        arguments["profiling"] = json!(["false"]);
    }
    let named = named_certificates(scope);
    Ok(json!({
        "apiVersion": "kubecontrolplane.config.openshift.io/v1",
        "kind": "KubeAPIServerConfig",
        "admission": {"pluginConfig": admission(scope)},
        "apiServerArguments": arguments,
        "authConfig": {"oauthMetadataFile": if scope.oauth() { "/etc/kubernetes/oauth/oauthMetadata.json" } else { "" }},
        "consolePublicURL": format!("https://console-openshift-console.{}", apps(scope)),
        "corsAllowedOrigins": origins(scope),
        "imagePolicyConfig": {
            "internalRegistryHostname": "image-registry.openshift-image-registry.svc:5000",
            "externalRegistryHostnames": scope.configuration["image"]["externalRegistryHostnames"],
        },
        "projectConfig": {"defaultNodeSelector": scope.configuration["scheduler"]["defaultNodeSelector"].as_str().unwrap_or("")},
        "serviceAccountPublicKeyFiles": ["/etc/kubernetes/secrets/svcacct-key/service-account.pub"],
        "servicesSubnet": scope.network.service.join(","),
        "servingInfo": {
            "bindAddress": format!("0.0.0.0:{}", scope.network.api_port),
            "bindNetwork": "tcp",
            "certFile": format!("{CERTS}/server/tls.crt"),
            "keyFile": format!("{CERTS}/server/tls.key"),
            "minTLSVersion": profile.minimum,
            "cipherSuites": profile.ciphers,
            "namedCertificates": named,
        },
    }))
}

/// Arguments that are the same for every cluster.
const FIXED: [(&str, &str); 29] = [
    ("allow-privileged", "true"),
    ("anonymous-auth", "true"),
    ("audit-log-format", "json"),
    ("audit-log-maxbackup", "1"),
    ("audit-log-maxsize", "10"),
    ("audit-log-path", "/var/log/kube-apiserver/audit.log"),
    ("audit-policy-file", "/etc/kubernetes/audit/policy.yaml"),
    ("egress-selector-config-file", "/etc/kubernetes/egress-selector/config.yaml"),
    ("enable-aggregator-routing", "true"),
    ("enable-bootstrap-token-auth", "false"),
    ("enable-logs-handler", "false"),
    ("endpoint-reconciler-type", "none"),
    ("etcd-prefix", "kubernetes.io"),
    ("event-ttl", "3h"),
    ("http2-max-streams-per-connection", "2000"),
    ("kubelet-preferred-address-types", "InternalIP"),
    ("min-request-timeout", "3600"),
    ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    ("requestheader-group-headers", "X-Remote-Group"),
    ("requestheader-username-headers", "X-Remote-User"),
    ("runtime-config", "admissionregistration.k8s.io/v1beta1=true"),
    ("service-account-lookup", "true"),
    ("service-account-signing-key-file", "/etc/kubernetes/secrets/svcacct-key/service-account.key"),
    ("shutdown-delay-duration", "70s"),
    ("shutdown-send-retry-after", "true"),
    ("shutdown-watch-termination-grace-period", "25s"),
    ("storage-backend", "etcd3"),
    ("storage-media-type", "application/vnd.kubernetes.protobuf"),
    ("strict-transport-security-directives", "max-age=31536000"),
];

fn fixed_arguments() -> Value {
    FIXED
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!([value])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

const ADMISSION: [&str; 27] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "authorization.openshift.io/RestrictSubjectBindings",
    "authorization.openshift.io/ValidateRoleBindingRestriction",
    "image.openshift.io/ImagePolicy",
    "security.openshift.io/SCCExecRestrictions",
    "security.openshift.io/SecurityContextConstraint",
];

/// Pages of other places that may use the API: this machine's, and those that the user names, as regular expressions.
fn origins(scope: &Scope) -> Vec<&str> {
    let more = scope.configuration["apiServer"]["additionalCORSAllowedOrigins"].as_array();
    let more = more.into_iter().flatten().filter_map(Value::as_str);
    ["//127\\.0\\.0\\.1(:|$)", "//localhost(:|$)"].into_iter().chain(more).collect()
}

/// Addresses from outside that Services may ask for; those that are refused have a mark, and come first.
fn external_ips(scope: &Scope) -> Value {
    let asked = &scope.configuration["network"]["externalIP"];
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let refused = list(&asked["policy"]["rejectedCIDRs"]);
    let refused = refused.iter().filter_map(Value::as_str).map(|c| json!(format!("!{c}")));
    let ranges: Vec<Value> = refused.chain(list(&asked["policy"]["allowedCIDRs"])).collect();
    json!({"apiVersion": "network.openshift.io/v1", "kind": "ExternalIPRangerAdmissionConfig",
        "externalIPNetworkCIDRs": ranges, "allowIngressIP": !list(&asked["autoAssignCIDRs"]).is_empty()})
}

fn admission(scope: &Scope) -> Value {
    let mut subnets = scope.network.service.clone();
    subnets.extend(scope.network.cluster.iter().cloned());
    json!({
        "network.openshift.io/ExternalIPRanger": {"configuration": external_ips(scope)},
        "network.openshift.io/RestrictedEndpointsAdmission": {"configuration": {
            "apiVersion": "network.openshift.io/v1", "kind": "RestrictedEndpointsAdmissionConfig",
            "restrictedCIDRs": subnets}},
        "PodSecurity": {"configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "privileged", "enforce-version": "latest", "audit": "restricted",
                "audit-version": "latest", "warn": "restricted", "warn-version": "latest"},
            "exemptions": {"usernames": ["system:serviceaccount:openshift-infra:build-controller"]}}},
    })
}

/// The user's own certificates for further names.
fn named_certificates(scope: &Scope) -> Value {
    let asked = scope.configuration["apiServer"]["servingCerts"]["namedCertificates"].as_array();
    let mut list: Vec<Value> = asked
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(i, c)| {
            let directory = format!("{CERTS}/named-{}", i + 1);
            json!({"names": c["names"], "certFile": format!("{directory}/tls.crt"), "keyFile": format!("{directory}/tls.key")})
        })
        .collect();
    if let Some(private) = &scope.endpoints.private_api {
        list.push(json!({"names": [private], "certFile": format!("{CERTS}/server-private/tls.crt"),
            "keyFile": format!("{CERTS}/server-private/tls.key")}));
    }
    json!(list)
}

fn node_ports(scope: &Scope) -> &str {
    scope.configuration["network"]["serviceNodePortRange"].as_str().unwrap_or("30000-32767")
}

/// The domain the cluster's applications live under, as the ingress and its certificate have it.
pub fn apps(scope: &Scope) -> &str {
    scope.configuration["ingress"]["domain"].as_str().unwrap_or_default()
}

/// The guest's network is behind a tunnel; etcd and the rest are not.
fn egress() -> Value {
    let files = |name: &str| format!("/etc/kubernetes/certs/{name}");
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {"name": "controlplane", "connection": {"proxyProtocol": "Direct"}},
            {"name": "etcd", "connection": {"proxyProtocol": "Direct"}},
            {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": {"tcp": {
                "url": "https://konnectivity-server-local:8090",
                "tlsConfig": {
                    "caBundle": format!("{}/ca.crt", files("konnectivity-ca")),
                    "clientCert": format!("{}/tls.crt", files("konnectivity-client")),
                    "clientKey": format!("{}/tls.key", files("konnectivity-client")),
                }}}}},
        ],
    })
}

fn oauth_metadata(scope: &Scope) -> Value {
    let e = &scope.endpoints.oauth;
    let base = format!("https://{}:{}", e.host, e.port);
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/oauth/authorize"),
        "token_endpoint": format!("{base}/oauth/token"),
        "scopes_supported": ["user:check-access", "user:full", "user:info", "user:list-projects", "user:list-scoped-projects"],
        "response_types_supported": ["code", "token"],
        "grant_types_supported": ["authorization_code", "implicit"],
        "code_challenge_methods_supported": ["plain", "S256"],
    })
}

/// Whom the API server believes directly, where OpenShift's OAuth is not used.
fn authentication(scope: &Scope) -> Result<Value, Error> {
    let providers = scope.configuration["authentication"]["oidcProviders"].as_array();
    let jwt: Result<Vec<Value>, Error> =
        providers.into_iter().flatten().map(|p| provider(p, &scope.authorities)).collect();
    Ok(
        json!({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": jwt?}),
    )
}

/// The ConfigMaps with the authorities of issuers that tokens are taken from directly.
pub fn authorities(configuration: &Value) -> Vec<String> {
    let providers = configuration["authentication"]["oidcProviders"].as_array().into_iter().flatten();
    let named = providers.filter_map(|p| p["issuer"]["issuerCertificateAuthority"]["name"].as_str());
    named.filter(|n| !n.is_empty()).map(str::to_owned).collect()
}

/// One issuer: everything that OpenShift's type has, in the words of Kubernetes. What is not understood is refused: a rule
/// that is left out lets in whom somebody meant to keep out.
fn provider(p: &Value, authorities: &BTreeMap<String, String>) -> Result<Value, Error> {
    let url = p["issuer"]["issuerURL"].as_str().unwrap_or_default();
    if !url.starts_with("https://") {
        return Err(Error::Configuration {
            field: format!("configuration.authentication.oidcProviders[{}].issuer.issuerURL", p["name"]),
            why: format!("{url:?} does not begin with https://"),
        });
    }
    let field = |rest: &str| format!("configuration.authentication.oidcProviders[{}].{rest}", p["name"]);
    let given = |v: &Value| v.as_str().is_some_and(|t| !t.is_empty());
    let mapping = |m: &Value, default: &str| {
        if given(&m["expression"]) {
            return json!({"expression": m["expression"]});
        }
        let prefix = match m["prefixPolicy"].as_str() {
            Some("NoPrefix") => String::new(),
            Some("Prefix") => m["prefix"]["prefixString"].as_str().unwrap_or_default().to_owned(),
            _ => m["prefix"].as_str().unwrap_or(default).to_owned(),
        };
        json!({"claim": m["claim"], "prefix": prefix})
    };
    let claims = &p["claimMappings"];
    let user = &claims["username"];
    // Unless it is an e-mail address, a user name carries its issuer, so that two issuers never make the same user.
    let default = if user["claim"] == "email" { String::new() } else { format!("{url}#") };
    let mut out = json!({
        "issuer": {"url": url, "audiences": p["issuer"]["audiences"], "audienceMatchPolicy": "MatchAny"},
        "claimMappings": {"username": mapping(user, &default)},
    });
    if given(&p["issuer"]["discoveryURL"]) {
        out["issuer"]["discoveryURL"] = p["issuer"]["discoveryURL"].clone();
    }
    if let Some(name) = p["issuer"]["issuerCertificateAuthority"]["name"].as_str().filter(|n| !n.is_empty()) {
        let pem = authorities.get(name).ok_or_else(|| Error::Configuration {
            field: field("issuer.issuerCertificateAuthority"),
            why: format!("ConfigMap {name:?} has no key \"ca-bundle.crt\""),
        })?;
        out["issuer"]["certificateAuthority"] = json!(pem);
    }
    if given(&claims["groups"]["claim"]) || given(&claims["groups"]["expression"]) {
        out["claimMappings"]["groups"] = mapping(&claims["groups"], "");
    }
    for way in ["claim", "expression"] {
        if given(&claims["uid"][way]) {
            out["claimMappings"]["uid"] = json!({way: claims["uid"][way]});
        }
    }
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let extra: Vec<Value> = list(&claims["extra"])
        .iter()
        .map(|e| json!({"key": e["key"], "valueExpression": e["valueExpression"]}))
        .collect();
    if !extra.is_empty() {
        out["claimMappings"]["extra"] = json!(extra);
    }
    let expression = |r: &Value| match given(&r["message"]) {
        true => json!({"expression": r["expression"], "message": r["message"]}),
        false => json!({"expression": r["expression"]}),
    };
    let rules = list(&p["claimValidationRules"]);
    let rules: Result<Vec<Value>, Error> = rules
        .iter()
        .enumerate()
        .map(|(i, r)| match r["type"].as_str() {
            Some("RequiredClaim") => {
                let r = &r["requiredClaim"];
                Ok(json!({"claim": r["claim"], "requiredValue": r["requiredValue"]}))
            }
            Some("CEL") => Ok(expression(&r["cel"])),
            other => Err(Error::Configuration {
                field: field(&format!("claimValidationRules[{i}].type")),
                why: format!(
                    "{:?} is none that we know: use RequiredClaim or CEL",
                    other.unwrap_or_default()
                ),
            }),
        })
        .collect();
    let rules = rules?;
    if !rules.is_empty() {
        out["claimValidationRules"] = json!(rules);
    }
    let users: Vec<Value> = list(&p["userValidationRules"]).iter().map(expression).collect();
    if !users.is_empty() {
        out["userValidationRules"] = json!(users);
    }
    Ok(out)
}

/// What of the pod depends on the cluster.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let profile = tls::of(scope)?;
    if let Some(mut api) = pod.container("kube-apiserver") {
        api.port("client", scope.network.api_port);
        // The last one counts.
        let level = "kube-apiserver-verbosity-level";
        if scope.annotation(level).is_some() {
            api.args([format!("--v={}", number(scope, level, 2)?)]);
        }
        for (annotation, variable) in
            [("kube-apiserver-gogc", "GOGC"), ("kube-apiserver-gomemlimit", "GOMEMLIMIT")]
        {
            if let Some(value) = scope.annotation(annotation) {
                api.env(variable, value);
            }
        }
    }
    if let Some(mut tunnel) = pod.container("konnectivity-server") {
        let count = crate::table::find("kube-apiserver").map_or(1, |c| c.replicas(scope));
        tunnel.args([format!("--server-count={count}")]);
        tunnel.args(profile.flags("--tls-min-version", "--cipher-suites"));
    }
    pod.spec().insert("terminationGracePeriodSeconds".into(), json!(135));
    if !scope.oauth() {
        pod.remove_volume("auth-token-webhook-config");
        pod.remove_volume("oauth-metadata");
    }
    if scope.endpoints.private_api.is_none() {
        pod.remove_volume("server-private-crt");
    }
    if let Some(name) = &scope.audit_webhook {
        pod.volume(json!({"name": "audit-webhook", "secret": {"secretName": name}}));
        if let Some(mut api) = pod.container("kube-apiserver") {
            api.mount("audit-webhook", "/etc/kubernetes/auditwebhook");
        }
    }
    let certificates = scope.configuration["apiServer"]["servingCerts"]["namedCertificates"].as_array();
    for (i, c) in certificates.into_iter().flatten().enumerate() {
        let Some(secret) = c["servingCertificate"]["name"].as_str() else { continue };
        let volume = format!("named-cert-{}", i + 1);
        pod.volume(json!({"name": volume, "secret": {"secretName": secret}}));
        if let Some(mut api) = pod.container("kube-apiserver") {
            api.mount(&volume, &format!("{CERTS}/named-{}", i + 1));
        }
    }
    encryption::adapt(scope, pod);
    Ok(())
}
