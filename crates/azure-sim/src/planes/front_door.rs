//! A global front door: hosts that serve the OIDC sites of several regions from their accounts.
//!
//! A host has origins in order of priority, each the static website of an account, and a list of paths that may be
//! asked for; anything else is refused as the firewall of a real front door does it. The first healthy origin answers:
//! healthy means that it is not marked down, its account exists and its website is on. There is no cache, so a change
//! is seen at once, and no latency-based routing. Configured through the admin API and [`crate::World`]; the surface
//! of `Microsoft.Cdn` in Resource Manager is absent.

use crate::planes::{Ask, Datum, Plane, blob};
use crate::state::State;
use crate::wire::Reply;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// `{account}.z{n}.web.core.windows.net`.
    pub host: String,
    /// The lowest answers.
    #[serde(default = "first")]
    pub priority: u32,
    /// Marked down by hand.
    #[serde(default)]
    pub down: bool,
}

fn first() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    pub origins: Vec<Origin>,
    /// Paths that may be asked for: `{uuid}`, `{id}` and `{n}` stand for what they say.
    #[serde(default = "oidc")]
    pub allow: Vec<String>,
}

fn oidc() -> Vec<String> {
    ["/{uuid}/{id}/.well-known/openid-configuration", "/{uuid}/{id}/openid/v{n}/jwks"]
        .map(str::to_owned)
        .to_vec()
}

impl Config {
    /// For the OIDC documents of these origins, the first preferred.
    pub fn oidc(origins: &[&str]) -> Config {
        let origins = origins
            .iter()
            .zip(1..)
            .map(|(h, priority)| Origin { host: (*h).to_owned(), priority, down: false })
            .collect();
        Config { origins, allow: oidc() }
    }

    fn check(&self) -> Result<(), FrontDoorError> {
        if self.origins.is_empty() || self.origins.len() > 50 {
            return Err(FrontDoorError::Origins);
        }
        for o in &self.origins {
            if Plane::of(&o.host.to_lowercase()) != Some(Plane::Web) {
                return Err(FrontDoorError::Origin(o.host.chars().take(100).collect()));
            }
        }
        match self.allow.iter().find(|a| !a.starts_with('/')) {
            Some(bad) => Err(FrontDoorError::Path(bad.chars().take(100).collect())),
            None => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FrontDoorError {
    #[error("'{0}' cannot be the host of a front door: use a name in azurefd.net or zaffre.test")]
    Host(String),
    #[error("origins: one to fifty are needed")]
    Origins,
    #[error("origins: '{0}' is not the website of an account (ACCOUNT.zN.web.core.windows.net)")]
    Origin(String),
    #[error("allow: '{0}' is not a path: begin it with '/'")]
    Path(String),
    #[error("the change cannot be remembered")]
    Memory(#[source] crate::memory::MemoryError),
}

fn is_uuid(s: &str) -> bool {
    s.len() == 36
        && s.bytes()
            .enumerate()
            .all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

/// Whether one segment of a path fits one of a pattern.
fn segment(pattern: &str, given: &str) -> bool {
    match pattern {
        "{uuid}" => is_uuid(given),
        "{id}" => {
            !given.is_empty()
                && given.len() <= 128
                && given.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        }
        p => match p.split_once("{n}") {
            Some((before, after)) => given
                .strip_prefix(before)
                .and_then(|g| g.strip_suffix(after))
                .is_some_and(|n| !n.is_empty() && n.len() <= 9 && n.bytes().all(|b| b.is_ascii_digit())),
            None => p == given,
        },
    }
}

fn allowed(config: &Config, path: &str) -> bool {
    config.allow.iter().any(|a| {
        let (p, g): (Vec<&str>, Vec<&str>) = (a.split('/').collect(), path.split('/').collect());
        p.len() == g.len() && p.iter().zip(&g).all(|(p, g)| segment(p, g))
    })
}

pub fn get<'a>(state: &'a State, host: &str) -> Option<&'a Config> {
    match state.data.get(&format!("fd/{host}")) {
        Some(Datum::FrontDoor(c)) => Some(c),
        _ => None,
    }
}

fn text(status: StatusCode, title: &str) -> Reply {
    let mut reply = Reply::empty(status).with("content-type", "text/html").with("x-azure-ref", "simulated");
    reply.raw = Some(
        format!(
            "<!DOCTYPE html><html><head><title>{title}</title></head><body><h2>{title}</h2></body></html>"
        )
        .into(),
    );
    reply
}

pub fn serve(state: &State, ask: &Ask) -> Reply {
    let Some(config) = get(state, &ask.host) else {
        return text(StatusCode::NOT_FOUND, "Our services aren't available right now");
    };
    // Judged as it was sent: what would have to be decoded first is not on the list.
    if !matches!(ask.call.method, Method::GET | Method::HEAD)
        || !ask.raw_query.is_empty()
        || !allowed(config, &ask.raw_path)
    {
        return text(StatusCode::FORBIDDEN, "The request is blocked.");
    }
    let mut origins: Vec<&Origin> = config.origins.iter().filter(|o| !o.down).collect();
    origins.sort_by_key(|o| o.priority);
    for o in origins {
        let Some(record) = blob::account_of_web(state, &o.host.to_lowercase()) else { continue };
        let account = record.id.name().to_lowercase();
        if !blob::has_website(state, &account) {
            continue;
        }
        return blob::site(state, &account, ask)
            .with("x-azure-ref", "simulated")
            .with("x-cache", "CONFIG_NOCACHE");
    }
    text(StatusCode::SERVICE_UNAVAILABLE, "Our services aren't available right now")
}

impl crate::World {
    /// Sets up a front door, or replaces it.
    pub fn set_front_door(&self, host: &str, config: Config) -> Result<(), FrontDoorError> {
        let host = host.to_lowercase();
        if Plane::of(&host) != Some(Plane::FrontDoor) {
            return Err(FrontDoorError::Host(host.chars().take(100).collect()));
        }
        config.check()?;
        self.change(|s| s.data.put(&format!("fd/{host}"), Datum::FrontDoor(Box::new(config))))
            .map_err(FrontDoorError::Memory)
    }

    /// Whether there was one.
    pub fn remove_front_door(&self, host: &str) -> Result<bool, FrontDoorError> {
        let key = format!("fd/{}", host.to_lowercase());
        self.change(|s| s.data.remove(&key).is_some()).map_err(FrontDoorError::Memory)
    }

    pub fn front_doors(&self) -> Vec<(String, Config)> {
        self.look(|s| {
            let all = s.data.range("fd/", None);
            all.filter_map(|(k, d)| match d {
                Datum::FrontDoor(c) => Some((k.strip_prefix("fd/")?.to_owned(), (**c).clone())),
                _ => None,
            })
            .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn only_what_is_listed_passes() {
        let c = Config::oidc(&["a.z5.web.core.windows.net"]);
        for good in [
            format!("/{ID}/abc-1/.well-known/openid-configuration"),
            format!("/{ID}/x/openid/v1/jwks"),
            format!("/{ID}/x/openid/v12/jwks"),
        ] {
            assert!(allowed(&c, &good), "{good}");
        }
        for bad in [
            "/".to_owned(),
            format!("/{ID}/x/openid/v/jwks"),
            format!("/{ID}/../openid/v1/jwks"),
            format!("/{ID}/x/openid/v1/jwks/"),
            format!("/{ID}/%2e/openid/v1/jwks"),
            format!("/x/{ID}/.well-known/openid-configuration"),
            format!("//{ID}/x/openid/v1/jwks"),
        ] {
            assert!(!allowed(&c, &bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(path in "(/|\\.|%|[a-f0-9-]{1,36}|v|jwks|openid){0,12}") {
            let _ = allowed(&Config::oidc(&[]), &path);
        }
    }
}
