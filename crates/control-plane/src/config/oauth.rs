//! OpenShift's OAuth server.

use super::{audit, config_map, kube_apiserver, yaml};
use crate::pod::Pod;
use crate::scope::Scope;
use crate::{Error, tls};
use serde_json::{Value, json};

pub fn objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![
        config_map("oauth-openshift", "config.yaml", yaml(&config(scope)?)),
        audit::config(scope, "oauth-openshift-audit")?,
        page("oauth-openshift-default-login-template", "login.html", LOGIN),
        page("oauth-openshift-default-provider-selection-template", "providers.html", PROVIDERS),
        page("oauth-openshift-default-error-template", "errors.html", ERRORS),
    ])
}

fn page(name: &str, key: &str, html: &str) -> Value {
    super::secret(name, key, html.to_owned())
}

// Plain pages that work; the server fills them in. A cluster may bring its own (`configuration.oauth.templates`).
const LOGIN: &str = "<!DOCTYPE html>\n<title>Log in</title>\n<h1>Log in</h1>\n{{ if .Error }}<p role=\"alert\">{{ .Error }}</p>{{ end }}\n<form action=\"{{ .Action }}\" method=\"POST\">\n<input type=\"hidden\" name=\"{{ .Names.Then }}\" value=\"{{ .Values.Then }}\">\n<input type=\"hidden\" name=\"{{ .Names.CSRF }}\" value=\"{{ .Values.CSRF }}\">\n<label>User name <input name=\"{{ .Names.Username }}\" value=\"{{ .Values.Username }}\" autocomplete=\"username\" required autofocus></label>\n<label>Password <input type=\"password\" name=\"{{ .Names.Password }}\" autocomplete=\"current-password\" required></label>\n<button>Log in</button>\n</form>\n";
const PROVIDERS: &str = "<!DOCTYPE html>\n<title>Log in</title>\n<h1>Log in with</h1>\n<ul>{{ range $provider := .Providers }}<li><a href=\"{{ $provider.URL }}\">{{ $provider.Name }}</a></li>{{ end }}</ul>\n";
const ERRORS: &str = "<!DOCTYPE html>\n<title>Error</title>\n<h1>That did not work</h1>\n<p role=\"alert\">{{ .Error }}</p>\n<p>Code: {{ .ErrorCode }}</p>\n";

fn config(scope: &Scope) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    let e = &scope.endpoints;
    let inside = format!("https://oauth-openshift.{}.svc.cluster.local:6443", scope.namespace);
    let life = &scope.configuration["oauth"]["tokenConfig"]["accessTokenMaxAgeSeconds"];
    let templates = "/etc/kubernetes/secrets/templates";
    Ok(json!({
        "apiVersion": "osin.config.openshift.io/v1",
        "kind": "OsinServerConfig",
        "kubeClientConfig": {
            "kubeConfig": "/etc/kubernetes/secrets/svc-kubeconfig/kubeconfig",
            "connectionOverrides": {"acceptContentTypes": "", "contentType": "", "qps": 400, "burst": 400},
        },
        "oauthConfig": {
            "masterCA": "/etc/kubernetes/certs/master-ca/ca.crt",
            "masterURL": inside,
            "masterPublicURL": format!("https://{}:{}", e.oauth.host, e.oauth.port),
            "loginURL": format!("https://{}:{}", e.api.host, e.api.port),
            "assetPublicURL": format!("https://console-openshift-console.apps.{}", kube_apiserver::domain(scope)),
            "alwaysShowProviderSelection": false,
            "grantConfig": {"method": "deny", "serviceAccountMethod": "prompt"},
            "identityProviders": providers(scope)?,
            "sessionConfig": {
                "sessionName": "ssn", "sessionMaxAgeSeconds": 300,
                "sessionSecretsFile": "/etc/kubernetes/secrets/session/v4-0-config-system-session",
            },
            "templates": {
                "login": format!("{templates}/login/login.html"),
                "providerSelection": format!("{templates}/providers/providers.html"),
                "error": format!("{templates}/error/errors.html"),
            },
            "tokenConfig": {
                "accessTokenMaxAgeSeconds": life.as_u64().unwrap_or(86_400),
                "authorizeTokenMaxAgeSeconds": 300,
            },
        },
        "servingInfo": {
            "bindAddress": "0.0.0.0:6443",
            "certFile": "/etc/kubernetes/certs/serving-cert/tls.crt",
            "keyFile": "/etc/kubernetes/certs/serving-cert/tls.key",
            "minTLSVersion": profile.minimum,
            "cipherSuites": profile.ciphers,
        },
    }))
}

/// Where a provider's secret or bundle is mounted.
fn file(index: usize, what: &str, key: &str) -> String {
    format!("/etc/kubernetes/secrets/idp/{index}/{what}/{key}")
}

/// The user's identity providers, in the words of the server; the kinds that people run on Azure.
fn providers(scope: &Scope) -> Result<Vec<Value>, Error> {
    let asked = scope.configuration["oauth"]["identityProviders"].as_array();
    asked.into_iter().flatten().enumerate().map(|(i, p)| provider(i, p)).collect()
}

fn provider(i: usize, p: &Value) -> Result<Value, Error> {
    let kind = p["type"].as_str().unwrap_or_default();
    let secret = |key: &str| json!({"file": file(i, "secret", key), "env": "", "keyFile": "", "value": ""});
    let (inner, challenge, login) = match kind {
        "HTPasswd" => (
            json!({"kind": "HTPasswdPasswordIdentityProvider", "file": file(i, "secret", "htpasswd")}),
            true,
            true,
        ),
        "OpenID" => {
            let o = &p["openID"];
            (
                json!({
                    "kind": "OpenIDIdentityProvider", "clientID": o["clientID"], "clientSecret": secret("clientSecret"),
                    "ca": if o["ca"]["name"].is_string() { file(i, "ca", "ca.crt") } else { String::new() },
                    "extraScopes": o["extraScopes"], "extraAuthorizeParameters": o["extraAuthorizeParameters"],
                    "issuer": o["issuer"], "claims": o["claims"],
                }),
                false,
                true,
            )
        }
        "GitHub" => {
            let g = &p["github"];
            (
                json!({
                    "kind": "GitHubIdentityProvider", "clientID": g["clientID"], "clientSecret": secret("clientSecret"),
                    "organizations": g["organizations"], "teams": g["teams"], "hostname": g["hostname"],
                    "ca": if g["ca"]["name"].is_string() { file(i, "ca", "ca.crt") } else { String::new() },
                }),
                false,
                true,
            )
        }
        "LDAP" => {
            let l = &p["ldap"];
            (
                json!({
                    "kind": "LDAPPasswordIdentityProvider", "url": l["url"], "bindDN": l["bindDN"],
                    "bindPassword": secret("bindPassword"), "insecure": l["insecure"], "attributes": l["attributes"],
                    "ca": if l["ca"]["name"].is_string() { file(i, "ca", "ca.crt") } else { String::new() },
                }),
                true,
                true,
            )
        }
        other => {
            return Err(Error::Configuration {
                field: format!("configuration.oauth.identityProviders[{i}].type"),
                why: format!("{other:?} is none of HTPasswd, OpenID, GitHub, LDAP"),
            });
        }
    };
    let mut inner = inner;
    inner["apiVersion"] = json!("osin.config.openshift.io/v1");
    Ok(json!({
        "name": p["name"], "challenge": challenge, "login": login,
        "mappingMethod": p["mappingMethod"].as_str().unwrap_or("claim"), "provider": inner,
    }))
}

/// Mounts what the providers refer to.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let asked = scope.configuration["oauth"]["identityProviders"].as_array().cloned().unwrap_or_default();
    for (i, p) in asked.iter().enumerate() {
        let of = ["htpasswd", "openID", "github", "ldap"].into_iter().map(|k| &p[k]).find(|v| v.is_object());
        let Some(of) = of else { continue };
        let secret =
            ["fileData", "clientSecret", "bindPassword"].into_iter().find_map(|k| of[k]["name"].as_str());
        for (what, volume) in [
            ("secret", secret.map(|s| json!({"secret": {"secretName": s}}))),
            ("ca", of["ca"]["name"].as_str().map(|c| json!({"configMap": {"name": c}}))),
        ] {
            let Some(mut volume) = volume else { continue };
            let name = format!("idp-{i}-{what}");
            volume["name"] = json!(name);
            pod.volume(volume);
            if let Some(mut main) = pod.main() {
                main.mount(&name, &format!("/etc/kubernetes/secrets/idp/{i}/{what}"));
            }
        }
    }
    Ok(())
}
