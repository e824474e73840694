//! Identity providers of a cluster, in the words of OpenShift's OAuth server.
//!
//! Users name an issuer of OpenID tokens; the server wants to be told where to send people, and that only the issuer knows.
//! What it says is read by whoever renders, before ([`crate::scope::Scope::openid`]): nothing here asks anybody. Annotation
//! `idpoverrides.hypershift.openshift.io/<name of the provider>` says it in the issuer's place: `{"urls": {"authorize", "token",
//! "userInfo"}, "claims": {…}, "challenge": bool}`.

use crate::Error;
use crate::pod::Pod;
use crate::scope::Scope;
use serde_json::{Value, json};

const OVERRIDES: &str = "idpoverrides.hypershift.openshift.io";

/// Where an issuer of OpenID tokens sends people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenId {
    pub authorize: String,
    pub token: String,
    /// Not every issuer has one.
    pub user_info: String,
}

impl OpenId {
    /// From the document that an issuer publishes.
    pub fn read(document: &Value) -> Result<OpenId, String> {
        let url = |key: &str, needed: bool| {
            let url = document[key].as_str().unwrap_or_default();
            let host = url.strip_prefix("https://").unwrap_or_default();
            let good = !host.is_empty() && !host.starts_with('/') && !url.contains('#');
            match good || (url.is_empty() && !needed) {
                true => Ok(url.to_owned()),
                false => Err(format!("its {key} {url:?} is no https URL")),
            }
        };
        Ok(OpenId {
            authorize: url("authorization_endpoint", true)?,
            token: url("token_endpoint", true)?,
            user_info: url("userinfo_endpoint", false)?,
        })
    }
}

fn asked(scope: &Scope) -> impl Iterator<Item = &Value> {
    scope.configuration["oauth"]["identityProviders"].as_array().into_iter().flatten()
}

fn override_of(scope: &Scope, p: &Value) -> Option<String> {
    scope.annotations.get(&format!("{OVERRIDES}/{}", p["name"].as_str()?)).cloned()
}

/// Issuers that must be asked, each with the ConfigMap of who signed its certificate.
pub fn issuers(scope: &Scope) -> Vec<(String, Option<String>)> {
    let openid = asked(scope).filter(|p| p["type"] == "OpenID" && override_of(scope, p).is_none());
    openid
        .filter_map(|p| {
            let ca = p["openID"]["ca"]["name"].as_str().filter(|n| !n.is_empty());
            Some((p["openID"]["issuer"].as_str()?.to_owned(), ca.map(str::to_owned)))
        })
        .collect()
}

pub fn all(scope: &Scope) -> Result<Vec<Value>, Error> {
    asked(scope).enumerate().map(|(i, p)| provider(scope, i, p)).collect()
}

/// One provider, and where it stands among the others.
struct Asked<'a> {
    i: usize,
    of: &'a Value,
}

impl Asked<'_> {
    /// Where a Secret or bundle is mounted; nothing if there is none.
    fn file(&self, what: &str, key: &str) -> String {
        match named(&self.of[what]) {
            Some(_) => format!("/etc/kubernetes/secrets/idp/{}/{}/{key}", self.i, mount(what)),
            None => String::new(),
        }
    }

    fn secret(&self, what: &str, key: &str) -> Value {
        json!({"file": self.file(what, key), "env": "", "keyFile": "", "value": ""})
    }

    fn ca(&self) -> String {
        self.file("ca", "ca.crt")
    }

    /// How a server behind HTTPS is reached, with a certificate of our own if it wants one.
    fn remote(&self, kind: &str) -> Value {
        json!({"kind": kind, "url": self.of["url"], "ca": self.ca(),
            "certFile": self.file("tlsClientCert", "tls.crt"), "keyFile": self.file("tlsClientKey", "tls.key")})
    }

    fn client(&self, kind: &str) -> Value {
        json!({"kind": kind, "clientID": self.of["clientID"], "clientSecret": self.secret("clientSecret", "clientSecret")})
    }
}

fn named(reference: &Value) -> Option<&str> {
    reference["name"].as_str().filter(|n| !n.is_empty())
}

/// The directory of what a field names.
fn mount(field: &str) -> &'static str {
    match field {
        "ca" => "ca",
        "tlsClientCert" => "tls-client-cert",
        "tlsClientKey" => "tls-client-key",
        _ => "secret",
    }
}

/// Which part of a provider's object says more about it.
fn part(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "BasicAuth" => "basicAuth",
        "GitHub" => "github",
        "GitLab" => "gitlab",
        "Google" => "google",
        "HTPasswd" => "htpasswd",
        "Keystone" => "keystone",
        "LDAP" => "ldap",
        "OpenID" => "openID",
        "RequestHeader" => "requestHeader",
        _ => return None,
    })
}

fn provider(scope: &Scope, i: usize, p: &Value) -> Result<Value, Error> {
    let kind = p["type"].as_str().unwrap_or_default();
    let wrong = |field: &str, why: String| Error::Configuration {
        field: format!("configuration.oauth.identityProviders[{i}].{field}"),
        why,
    };
    let part = part(kind).ok_or_else(|| {
        let all = "BasicAuth, GitHub, GitLab, Google, HTPasswd, Keystone, LDAP, OpenID, RequestHeader";
        wrong("type", format!("{kind:?} is none of {all}"))
    })?;
    if !p[part].is_object() {
        return Err(wrong(part, format!("a provider of type {kind} says here how it is reached")));
    }
    let asked = Asked { i, of: &p[part] };
    let o = asked.of;
    let text = |key: &str| o[key].as_str().unwrap_or_default();
    // Whether programs are asked for a password, and people are shown a page.
    let (mut challenge, mut login) = (false, true);
    let mut inner = match kind {
        "BasicAuth" => {
            challenge = true;
            asked.remote("BasicAuthPasswordIdentityProvider")
        }
        "Keystone" => {
            challenge = true;
            let mut keystone = asked.remote("KeystonePasswordIdentityProvider");
            (keystone["domainName"], keystone["useKeystoneIdentity"]) =
                (o["domainName"].clone(), json!(true));
            keystone
        }
        "HTPasswd" => {
            challenge = true;
            json!({"kind": "HTPasswdPasswordIdentityProvider", "file": asked.file("fileData", "htpasswd")})
        }
        "LDAP" => {
            challenge = true;
            json!({
                "kind": "LDAPPasswordIdentityProvider", "url": o["url"], "bindDN": o["bindDN"],
                "bindPassword": asked.secret("bindPassword", "bindPassword"), "insecure": o["insecure"],
                "attributes": o["attributes"], "ca": asked.ca(),
            })
        }
        "GitHub" => {
            let mut github = asked.client("GitHubIdentityProvider");
            for key in ["organizations", "teams", "hostname"] {
                github[key] = o[key].clone();
            }
            github["ca"] = json!(asked.ca());
            github
        }
        "GitLab" => {
            challenge = true;
            let mut gitlab = asked.client("GitLabIdentityProvider");
            // By OpenID Connect; the older way is gone.
            (gitlab["url"], gitlab["ca"], gitlab["legacy"]) =
                (o["url"].clone(), json!(asked.ca()), json!(false));
            gitlab
        }
        "Google" => {
            let mut google = asked.client("GoogleIdentityProvider");
            google["hostedDomain"] = o["hostedDomain"].clone();
            google
        }
        "RequestHeader" => {
            (challenge, login) = (!text("challengeURL").is_empty(), !text("loginURL").is_empty());
            let mut header = json!({"kind": "RequestHeaderIdentityProvider", "clientCA": asked.ca()});
            for key in [
                "loginURL",
                "challengeURL",
                "clientCommonNames",
                "headers",
                "preferredUsernameHeaders",
                "nameHeaders",
                "emailHeaders",
            ] {
                header[key] = o[key].clone();
            }
            header
        }
        _ => {
            let mut openid = asked.client("OpenIDIdentityProvider");
            for key in ["extraScopes", "extraAuthorizeParameters"] {
                openid[key] = o[key].clone();
            }
            openid["ca"] = json!(asked.ca());
            let (urls, claims, asks) = found(scope, p, o).map_err(|why| wrong("openID.issuer", why))?;
            (openid["urls"], openid["claims"], challenge) = (urls, claims, asks);
            openid
        }
    };
    inner["apiVersion"] = json!("osin.config.openshift.io/v1");
    Ok(json!({
        "name": p["name"], "challenge": challenge, "login": login,
        "mappingMethod": p["mappingMethod"].as_str().unwrap_or("claim"), "provider": inner,
    }))
}

/// Where an issuer of OpenID tokens is, which claims say who somebody is, and whether it takes passwords.
fn found(scope: &Scope, p: &Value, o: &Value) -> Result<(Value, Value, bool), String> {
    if let Some(text) = override_of(scope, p) {
        let name = p["name"].as_str().unwrap_or_default();
        let said: Value = serde_json::from_str(&text)
            .map_err(|e| format!("annotation {OVERRIDES}/{name} is no JSON: {e}"))?;
        return Ok((said["urls"].clone(), said["claims"].clone(), said["challenge"] == true));
    }
    let issuer = o["issuer"].as_str().unwrap_or_default();
    let at = match scope.openid.get(issuer) {
        Some(Ok(at)) => at,
        Some(Err(why)) => return Err(format!("{issuer:?} did not say where it sends people: {why}")),
        None => return Err(format!("{issuer:?} was not asked yet where it sends people")),
    };
    let claims = &o["claims"];
    Ok((
        json!({"authorize": at.authorize, "token": at.token, "userInfo": at.user_info}),
        // Who somebody is, is what the issuer promises never to give to another.
        json!({"id": ["sub"], "preferredUsername": claims["preferredUsername"], "name": claims["name"],
            "email": claims["email"], "groups": claims["groups"]}),
        false,
    ))
}

/// Mounts what the providers refer to, and the user's own pages in place of ours.
pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let pages = &scope.configuration["oauth"]["templates"];
    for (page, volume) in [
        ("login", "login-template"),
        ("providerSelection", "providers-template"),
        ("error", "error-template"),
    ] {
        if let Some(name) = named(&pages[page]) {
            pod.replace_volume(json!({"name": volume, "secret": {"secretName": name}}));
        }
    }
    for (i, p) in asked(scope).enumerate() {
        let Some(of) = part(p["type"].as_str().unwrap_or_default()).map(|part| &p[part]) else { continue };
        for field in ["fileData", "clientSecret", "bindPassword", "tlsClientCert", "tlsClientKey", "ca"] {
            let Some(name) = named(&of[field]) else { continue };
            let what = mount(field);
            let volume = match what {
                "ca" => json!({"configMap": {"name": name}}),
                _ => json!({"secret": {"secretName": name}}),
            };
            let mut volume = volume;
            let called = format!("idp-{i}-{what}");
            volume["name"] = json!(called);
            pod.volume(volume);
            if let Some(mut main) = pod.main() {
                main.mount(&called, &format!("/etc/kubernetes/secrets/idp/{i}/{what}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_says_where_it_is_or_what_is_wrong() {
        let good = json!({"authorization_endpoint": "https://x/a", "token_endpoint": "https://x/t"});
        let read = OpenId::read(&good).unwrap();
        assert_eq!((read.token.as_str(), read.user_info.as_str()), ("https://x/t", ""));
        for (key, url) in [
            ("authorization_endpoint", ""),
            ("token_endpoint", "http://x/t"),
            ("token_endpoint", "https:///t"),
            ("userinfo_endpoint", "https://x/u#f"),
        ] {
            let mut bad = good.clone();
            bad[key] = json!(url);
            assert!(OpenId::read(&bad).unwrap_err().contains(key), "{url}");
        }
    }
}
