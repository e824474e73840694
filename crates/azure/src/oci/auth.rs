//! Who we are to a registry.

use super::challenge::Challenge;
use super::{Images, Login, OciError};
use crate::Secret;
use crate::credential::{Credential, TokenRequest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use url::Url;

/// Whom Azure's registries take tokens of.
const AUDIENCE: &str = "https://containerregistry.azure.net/.default";
/// Tokens are short.
const MAX_ANSWER: usize = 256 << 10;
/// What is about to end is not used any more.
const EARLY: SignedDuration = SignedDuration::from_secs(15);

pub struct Azure {
    pub credential: Credential,
    pub suffix: String,
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    Pull,
    Push,
    Delete,
}

impl Right {
    fn words(self) -> &'static str {
        match self {
            Right::Pull => "pull",
            Right::Push => "pull,push",
            Right::Delete => "pull,delete",
        }
    }
}

/// What was granted, by host, repository and right.
#[derive(Default)]
pub struct Tokens(Mutex<HashMap<(String, String, Right), (HeaderValue, Timestamp)>>);

impl Tokens {
    fn get(&self, at: &(String, String, Right), now: Timestamp) -> Option<HeaderValue> {
        self.0.lock().get(at).filter(|(_, until)| now < *until).map(|(h, _)| h.clone())
    }
}

#[derive(Deserialize)]
struct Granted {
    token: Option<Secret>,
    access_token: Option<Secret>,
    expires_in: Option<i64>,
}

#[derive(Deserialize)]
struct Exchanged {
    refresh_token: Secret,
}

enum Who<'a> {
    Login(&'a Login),
    Azure(&'a Azure),
    Anonymous,
}

impl Who<'_> {
    fn words(&self) -> String {
        match self {
            Who::Login(Login::Password { user, .. }) => format!("the login of {user}"),
            Who::Login(Login::Refresh(_)) => "the token of the pull secret".to_owned(),
            Who::Azure(a) => a.credential.describe(),
            Who::Anonymous => "to answer anybody: the pull secret has no login for it".to_owned(),
        }
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn basic(user: &str, password: &Secret) -> Option<HeaderValue> {
    sensitive(&format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose()))))
}

fn form(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

impl Images {
    fn who(&self, host: &str, repository: &str) -> Who<'_> {
        if let Some(login) = self.logins.of(host, repository) {
            return Who::Login(login);
        }
        let own = |a: &&std::sync::Arc<Azure>| {
            host.strip_suffix(&a.suffix).is_some_and(|n| n.ends_with('.') && n.matches('.').count() == 1)
        };
        match self.azure.as_ref().filter(own) {
            Some(a) => Who::Azure(a),
            None => Who::Anonymous,
        }
    }

    pub(super) fn refused(&self, host: &str, repository: &str) -> OciError {
        OciError::Unauthorized { host: host.to_owned(), who: self.who(host, repository).words() }
    }

    /// What was granted before and still holds.
    pub(super) fn known(&self, host: &str, repository: &str, right: Right) -> Option<HeaderValue> {
        let at = (host.to_owned(), repository.to_owned(), right);
        self.tokens.get(&at, self.timing.clock.now())
    }

    pub(super) fn forget(&self, host: &str, repository: &str, right: Right) {
        self.tokens.0.lock().remove(&(host.to_owned(), repository.to_owned(), right));
    }

    /// Answers a challenge; what comes of it is remembered.
    pub(super) async fn authorize(
        &self,
        host: &str,
        repository: &str,
        right: Right,
        challenge: Option<Challenge>,
    ) -> Result<HeaderValue, OciError> {
        let strange = |why| OciError::Challenge { host: host.to_owned(), why };
        let who = self.who(host, repository);
        let scope = format!("repository:{repository}:{}", right.words());
        let now = self.timing.clock.now();
        let keep = |header: HeaderValue, lasts: i64| {
            let until =
                now.checked_add(SignedDuration::from_secs(lasts.clamp(1, 86_400)) - EARLY).unwrap_or(now);
            let at = (host.to_owned(), repository.to_owned(), right);
            self.tokens.0.lock().insert(at, (header.clone(), until));
            header
        };
        let bad = || strange("the token cannot be in a header");
        let (realm, service) = match (challenge.ok_or_else(|| strange("it does not say how"))?, &who) {
            (Challenge::Basic, Who::Login(Login::Password { user, password })) => {
                return Ok(keep(basic(user, password).ok_or_else(bad)?, 3_600));
            }
            (Challenge::Basic, _) => return Err(self.refused(host, repository)),
            (Challenge::Bearer { realm, service, .. }, _) => (realm, service.unwrap_or_default()),
        };
        let granted = match &who {
            Who::Azure(azure) => self.by_exchange(azure, host, &scope).await?,
            Who::Login(Login::Refresh(token)) => {
                let at = self.realm(host, &realm)?;
                let pairs = [
                    ("grant_type", "refresh_token"),
                    ("service", service.as_str()),
                    ("client_id", "zaffre"),
                    ("scope", scope.as_str()),
                    ("refresh_token", token.expose()),
                ];
                self.posted(host, at.as_str(), &pairs).await?
            }
            Who::Login(Login::Password { user, password }) => {
                let header = basic(user, password).ok_or_else(bad)?;
                self.by_get(host, &realm, &service, &scope, Some(header)).await?
            }
            Who::Anonymous => self.by_get(host, &realm, &service, &scope, None).await?,
        };
        let Some(granted) = granted else { return Err(self.refused(host, repository)) };
        let token =
            granted.access_token.or(granted.token).ok_or_else(|| strange("its answer has no token"))?;
        let header = sensitive(&format!("Bearer {}", token.expose())).ok_or_else(bad)?;
        Ok(keep(header, granted.expires_in.unwrap_or(60)))
    }

    /// Where passwords may go: over TLS, or to the machine that was named as plain.
    fn realm(&self, host: &str, realm: &str) -> Result<Url, OciError> {
        let strange = |why| OciError::Challenge { host: host.to_owned(), why };
        let url = Url::parse(realm).map_err(|_| strange("its realm is not a URL"))?;
        let local = self.plain.contains(host) && self.plain.contains(url.authority());
        match url.scheme() {
            "https" if url.username().is_empty() => Ok(url),
            "http" if local => Ok(url),
            _ => Err(strange("its realm is not https")),
        }
    }

    async fn by_get(
        &self,
        host: &str,
        realm: &str,
        service: &str,
        scope: &str,
        auth: Option<HeaderValue>,
    ) -> Result<Option<Granted>, OciError> {
        let mut url = self.realm(host, realm)?;
        url.query_pairs_mut().append_pair("service", service).append_pair("scope", scope);
        let request = || {
            let mut r = Request::get(url.as_str()).body(Bytes::new()).ok()?;
            if let Some(a) = &auth {
                r.headers_mut().insert("authorization", a.clone());
            }
            Some(r)
        };
        self.token(host, url.as_str(), request).await
    }

    /// A token of Entra ID for one of the registry's, for one with rights. A token that was kept may have been
    /// revoked since: it is replaced once.
    async fn by_exchange(&self, azure: &Azure, host: &str, scope: &str) -> Result<Option<Granted>, OciError> {
        for last in [false, true] {
            let own = azure.credential.token(&TokenRequest::new(AUDIENCE)).await;
            let own = own.map_err(|source| OciError::Credential { host: host.to_owned(), source })?;
            let granted = self.exchanged(host, scope, own.secret.expose()).await?;
            if granted.is_some() || last {
                return Ok(granted);
            }
            azure.credential.refused(AUDIENCE, &own).await;
        }
        Ok(None)
    }

    async fn exchanged(&self, host: &str, scope: &str, own: &str) -> Result<Option<Granted>, OciError> {
        let at = format!("{}/oauth2/exchange", self.base(host));
        let pairs = [("grant_type", "access_token"), ("service", host), ("access_token", own)];
        let Some(exchanged) = self.posted::<Exchanged>(host, &at, &pairs).await? else { return Ok(None) };
        let at = format!("{}/oauth2/token", self.base(host));
        let pairs = [
            ("grant_type", "refresh_token"),
            ("service", host),
            ("scope", scope),
            ("refresh_token", exchanged.refresh_token.expose()),
        ];
        self.posted(host, &at, &pairs).await
    }

    async fn posted<T: serde::de::DeserializeOwned>(
        &self,
        host: &str,
        url: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Option<T>, OciError> {
        let body = Bytes::from(form(pairs));
        let request = || {
            let r = Request::post(url).header("content-type", "application/x-www-form-urlencoded");
            r.body(body.clone()).ok()
        };
        self.token(host, url, request).await
    }

    /// `None`: whoever asked gets none.
    async fn token<T: serde::de::DeserializeOwned>(
        &self,
        host: &str,
        url: &str,
        request: impl Fn() -> Option<Request<Bytes>>,
    ) -> Result<Option<T>, OciError> {
        let url = url.split('?').next().unwrap_or_default();
        let strange = || OciError::Challenge { host: host.to_owned(), why: "its realm is not a URL" };
        let answer = self.answered(url, true, || request().ok_or_else(strange)).await?;
        if matches!(answer.status.as_u16(), 400 | 401 | 403) {
            return Ok(None);
        }
        let answer = self.good("POST", url, answer).await?;
        let body = answer.whole(MAX_ANSWER).await.map_err(|source| OciError::Send {
            method: "POST".to_owned(),
            url: url.to_owned(),
            attempts: 1,
            source,
        })?;
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|source| OciError::Read { url: url.to_owned(), source })
    }
}
