//! OpenShift's OAuth server.

use super::{audit, config_map, kube_apiserver, providers, yaml};
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
            "assetPublicURL": format!("https://console-openshift-console.{}", kube_apiserver::apps(scope)),
            "alwaysShowProviderSelection": false,
            "grantConfig": {"method": "deny", "serviceAccountMethod": "prompt"},
            "identityProviders": providers::all(scope)?,
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
