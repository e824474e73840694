//! Logins as a pull secret (`.dockerconfigjson`) has them.

use crate::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum LoginsError {
    #[error("the pull secret is not JSON with 'auths'")]
    Read(#[source] serde_json::Error),
    #[error(
        "the login for '{0}' in the pull secret has no user name and password: 'auth' is base64 of user:password"
    )]
    Login(String),
}

/// What a registry knows us by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    Password {
        user: String,
        password: Secret,
    },
    /// A refresh token of the registry's own.
    Refresh(Secret),
}

/// Logins by host, or by host and the beginning of a path.
#[derive(Clone, Debug, Default)]
pub struct Logins(BTreeMap<String, Login>);

#[derive(Deserialize)]
struct File {
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: Option<Secret>,
    username: Option<String>,
    password: Option<Secret>,
    identitytoken: Option<Secret>,
}

/// Old files have `https://host/v1/`.
fn place(key: &str) -> String {
    let key = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key).to_lowercase();
    if matches!(key.as_str(), "index.docker.io" | "registry-1.docker.io") {
        "docker.io".to_owned()
    } else {
        key
    }
}

fn login(key: &str, entry: Entry) -> Result<Option<Login>, LoginsError> {
    if let Some(token) = entry.identitytoken.filter(|t| !t.is_empty()) {
        return Ok(Some(Login::Refresh(token)));
    }
    if let (Some(user), Some(password)) = (entry.username.filter(|u| !u.is_empty()), entry.password) {
        return Ok(Some(Login::Password { user, password }));
    }
    let Some(auth) = entry.auth.filter(|a| !a.is_empty()) else { return Ok(None) };
    let bad = || LoginsError::Login(key.chars().take(100).collect());
    let bytes = STANDARD.decode(auth.expose().trim()).map_err(|_| bad())?;
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    let (user, password) = text.split_once(':').filter(|(u, _)| !u.is_empty()).ok_or_else(bad)?;
    Ok(Some(Login::Password { user: user.to_owned(), password: Secret::new(password) }))
}

impl Logins {
    pub fn parse(pull_secret: &str) -> Result<Logins, LoginsError> {
        let file: File = serde_json::from_str(pull_secret).map_err(LoginsError::Read)?;
        let mut all = BTreeMap::new();
        for (key, entry) in file.auths {
            if let Some(l) = login(&key, entry)? {
                all.insert(place(&key), l);
            }
        }
        Ok(Logins(all))
    }

    #[must_use]
    pub fn with(mut self, place_: &str, login: Login) -> Logins {
        self.0.insert(place(place_), login);
        self
    }

    /// The login that says most about a repository: its own, that of what it lies below, that of the host.
    pub fn of(&self, host: &str, repository: &str) -> Option<&Login> {
        let mut at = format!("{host}/{repository}");
        loop {
            if let Some(l) = self.0.get(&at) {
                return Some(l);
            }
            at.truncate(at.rfind('/')?);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_secret_has_logins_by_place() {
        let auth = |text: &str| STANDARD.encode(text);
        let text = format!(
            r#"{{"auths":{{"quay.io":{{"auth":"{}"}},"quay.io/org/team":{{"username":"u","password":"p:q"}},"https://index.docker.io/v1/":{{"auth":"{}"}},"x.azurecr.io":{{"identitytoken":"t"}},"none":{{}}}}}}"#,
            auth("robot:hunter2:x"),
            auth("d:e"),
        );
        let all = Logins::parse(&text).unwrap();
        let user = |h: &str, r: &str| match all.of(h, r) {
            Some(Login::Password { user, password }) => format!("{user}/{}", password.expose()),
            Some(Login::Refresh(t)) => format!("refresh {}", t.expose()),
            None => "nobody".to_owned(),
        };
        assert_eq!(user("quay.io", "a/b"), "robot/hunter2:x");
        assert_eq!(user("quay.io", "org/team/x"), "u/p:q");
        assert_eq!(user("quay.io", "org/teams"), "robot/hunter2:x");
        assert_eq!(user("docker.io", "library/x"), "d/e");
        assert_eq!(user("x.azurecr.io", "a"), "refresh t");
        assert_eq!(user("none", "a"), "nobody");
        assert!(!format!("{all:?}").contains("hunter2"));
        assert!(matches!(Logins::parse("{}"), Err(LoginsError::Read(_))));
        let bad = Logins::parse(r#"{"auths":{"quay.io":{"auth":"%%"}}}"#).unwrap_err();
        assert!(bad.to_string().contains("quay.io"), "{bad}");
    }
}
