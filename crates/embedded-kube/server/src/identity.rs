//! Who is calling: client certificates, service-account tokens, other issuers, impersonation.

use crate::cluster::{Cluster, tables};
use crate::given::{Given, GivenError};
use crate::pipeline::Peer;
use crate::wire::respond::{self, Reply};
use ek_auth::User;
use ek_auth::oidc::JwtAuthenticator;
use ek_auth::pki::Authority;
use ek_auth::rbac::Attributes;
use ek_auth::token::{Claims, Issuer, unverified_issuer};
use ek_meta::{Status, object};
use ek_store::TableName;
use futures::future::BoxFuture;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use jsonwebtoken::jwk::JwkSet;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Fetches the key set of an outside issuer.
pub trait KeySource: Send + Sync + 'static {
    fn fetch<'a>(&'a self, issuer: &'a JwtAuthenticator) -> BoxFuture<'a, Result<JwkSet, String>>;
}

/// No outside issuer is reachable.
pub struct NoKeys;

impl KeySource for NoKeys {
    fn fetch<'a>(&'a self, issuer: &'a JwtAuthenticator) -> BoxFuture<'a, Result<JwkSet, String>> {
        Box::pin(async move { Err(format!("no way to reach issuer {}", issuer.url)) })
    }
}

/// A cluster's own identity and those it trusts.
pub struct Identity {
    /// Its own; a cluster whose identity is given by somebody else has one that nobody trusts.
    pub authority: Authority,
    pub issuer: RwLock<Issuer>,
    given: RwLock<Current>,
    /// Signs the requests of a cluster that was given its identity, once somebody has brought it.
    pub(crate) signer: RwLock<Option<Arc<Authority>>>,
    /// What was set apart from the identity, and outlasts it.
    root: RwLock<Option<Arc<str>>>,
    keys: Arc<dyn KeySource>,
    cached: RwLock<HashMap<String, Arc<JwkSet>>>,
    address: RwLock<String>,
    /// The certificate we show to those who ask for this cluster by name, and that name.
    pub(crate) serving: Mutex<Option<(String, Arc<rustls::sign::CertifiedKey>)>>,
    /// What trusts client certificates, made for the first.
    pub(crate) verifier: OnceLock<Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>>,
}

/// What may be replaced while requests are under way.
struct Current {
    /// Audiences that mean this API server.
    audiences: Arc<[String]>,
    authenticators: Arc<[JwtAuthenticator]>,
    /// What clients inside of the cluster are told to trust, when that is not our own authority.
    ca_pem: Option<Arc<str>>,
}

impl Identity {
    /// The identity of a cluster whose keys are made elsewhere.
    pub fn given(
        given: Given,
        now: jiff::Timestamp,
        keys: Arc<dyn KeySource>,
    ) -> Result<Identity, GivenError> {
        let authority = Authority::generate("unused", now).map_err(GivenError::Authority)?;
        let issuer = given.issuer()?;
        let identity = Identity::new(authority, issuer, Vec::new(), keys);
        identity.set(given);
        Ok(identity)
    }

    /// Takes on another identity; requests under way keep the one they began with.
    pub fn replace(&self, given: Given) -> Result<(), GivenError> {
        let issuer = given.issuer()?;
        *self.issuer.write() = issuer;
        self.set(given);
        Ok(())
    }

    fn set(&self, given: Given) {
        let before = self.given.read().authenticators.clone();
        *self.given.write() = Current {
            audiences: given.audiences.into(),
            authenticators: given.authenticators.into(),
            ca_pem: Some(given.ca_pem.into()),
        };
        // Keys of an issuer that is asked in another way now are asked for anew.
        self.cached.write().retain(|url, _| before.iter().any(|a| a.url == *url));
    }

    pub fn set_authenticators(&self, all: Vec<JwtAuthenticator>) {
        self.given.write().authenticators = all.into();
        self.cached.write().clear();
    }

    pub fn audiences(&self) -> Arc<[String]> {
        self.given.read().audiences.clone()
    }

    fn authenticators(&self) -> Arc<[JwtAuthenticator]> {
        self.given.read().authenticators.clone()
    }

    /// What clients inside of the cluster trust.
    pub fn ca_pem(&self) -> String {
        let given = self.root.read().clone().or_else(|| self.given.read().ca_pem.clone());
        given.map_or_else(|| self.authority.cert_pem().to_owned(), |c| c.to_string())
    }

    /// What clients inside of a guest trust from now on.
    pub fn set_ca(&self, pem: &str) {
        *self.root.write() = Some(pem.into());
    }

    /// Who signs requests for certificates here, if anybody does.
    pub fn signer(&self) -> Option<Arc<Authority>> {
        match self.given.read().ca_pem.is_some() {
            true => self.signer.read().clone(),
            false => Some(Arc::new(self.authority.clone())),
        }
    }

    pub fn new(
        authority: Authority,
        issuer: Issuer,
        authenticators: Vec<JwtAuthenticator>,
        keys: Arc<dyn KeySource>,
    ) -> Identity {
        let given = Current {
            audiences: Arc::from([issuer.url().to_owned()]),
            authenticators: authenticators.into(),
            ca_pem: None,
        };
        Identity {
            authority,
            issuer: RwLock::new(issuer),
            given: RwLock::new(given),
            signer: RwLock::default(),
            root: RwLock::default(),
            keys,
            cached: RwLock::default(),
            address: RwLock::default(),
            serving: Mutex::default(),
            verifier: OnceLock::new(),
        }
    }

    /// `host:port` clients reach us at.
    pub fn address(&self) -> String {
        self.address.read().clone()
    }

    pub fn set_address(&self, a: String) {
        *self.address.write() = a;
    }

    /// The issuer's discovery document and keys.
    pub fn well_known(&self, path: &str) -> Option<Reply> {
        let issuer = self.issuer.read();
        match path.trim_end_matches('/') {
            "/.well-known/openid-configuration" => Some(respond::json(200, &issuer.discovery())),
            "/openid/v1/jwks" => {
                let mut r = respond::json(200, &issuer.jwks());
                r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
                Some(r)
            }
            _ => None,
        }
    }

    /// The user behind an outside token. Unknown keys cause one fetch, so rotation needs no restart.
    async fn outside(&self, token: &str, now: i64) -> Result<User, String> {
        let iss = unverified_issuer(token).ok_or("not a JWT")?;
        let all = self.authenticators();
        let a = all.iter().find(|a| a.url == iss).ok_or("unknown issuer")?;
        let known = self.cached.read().get(&iss).cloned();
        if let Some(keys) = known {
            match a.authenticate(token, &keys, now) {
                Err(ek_auth::oidc::TokenError::UnknownKey) => {}
                other => return other.map_err(|e| e.to_string()),
            }
        }
        let keys = Arc::new(self.keys.fetch(a).await?);
        self.cached.write().insert(iss, keys.clone());
        a.authenticate(token, &keys, now).map_err(|e| e.to_string())
    }
}

impl Cluster {
    /// The caller, or 401. No credentials at all is the anonymous user; what they may see is RBAC's to say.
    pub async fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Status> {
        if let Some(u) = peer.front.as_ref().and_then(|f| f.user(headers)) {
            return Ok(u);
        }
        if let Some(u) = &peer.user {
            return Ok(u.clone());
        }
        let Some(header) = headers.get(AUTHORIZATION) else {
            return if peer.untrusted { Err(Status::unauthorized()) } else { Ok(User::anonymous()) };
        };
        let token = header
            .to_str()
            .ok()
            .and_then(|h| h.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, t)| t.trim())
            .filter(|t| !t.is_empty());
        let Some(token) = token else { return Err(Status::unauthorized()) };
        match self.user_of_token(token, &self.identity.audiences()).await {
            Ok((user, _)) => Ok(user),
            Err(e) => {
                tracing::debug!(error = e, "a bearer token was refused");
                Err(Status::unauthorized())
            }
        }
    }

    /// The user a token stands for, and the audiences it has in common with `audiences`.
    pub async fn user_of_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), String> {
        let now = self.now().as_second();
        let ours = unverified_issuer(token).is_some_and(|i| i == self.identity.issuer.read().url());
        if !ours && !self.identity.authenticators().is_empty() {
            return self.identity.outside(token, now).await.map(|u| (u, Vec::new()));
        }
        let claims = {
            let issuer = self.identity.issuer.read();
            issuer.verify(token, audiences, now).map_err(|e| e.to_string())?
        };
        self.bound_objects_exist(&claims)?;
        let shared = claims.aud.iter().filter(|a| audiences.contains(a)).cloned().collect();
        Ok((claims.user(), shared))
    }

    /// A token dies with what it was bound to.
    fn bound_objects_exist(&self, c: &Claims) -> Result<(), String> {
        let k = &c.kubernetes;
        let check = |table: &TableName, ns: &str, name: &str, uid: &str, what: &str| match self
            .entry(table, ns, name)
        {
            Some(e) if uid.is_empty() || &*e.meta.uid == uid => Ok(()),
            Some(_) => Err(format!("{what} {name:?} was replaced")),
            None => Err(format!("{what} {name:?} is gone")),
        };
        let ns = &k.namespace;
        let sa = &k.serviceaccount;
        check(&tables::SERVICE_ACCOUNTS, ns, &sa.name, &sa.uid, "service account")?;
        if let Some(p) = &k.pod {
            check(&tables::PODS, ns, &p.name, &p.uid, "pod")?;
        }
        if let Some(s) = &k.secret {
            check(&tables::SECRETS, ns, &s.name, &s.uid, "secret")?;
        }
        if let Some(n) = k.node.as_ref().filter(|_| k.pod.is_none()) {
            check(&tables::NODES, "", &n.name, &n.uid, "node")?;
        }
        Ok(())
    }

    /// Whom the caller asks to be taken for, if it may.
    pub fn impersonate(&self, user: &User, headers: &HeaderMap) -> Result<Option<User>, Status> {
        // Nearly no request does; one look at the names says so.
        if !headers.keys().any(|k| k.as_str().starts_with("impersonate-")) {
            return Ok(None);
        }
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let name = text("impersonate-user");
        let groups: Vec<String> = headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        let uid = text("impersonate-uid");
        let extra: Vec<(String, String)> = (headers.iter())
            .filter_map(|(k, v)| Some((k.as_str().strip_prefix("impersonate-extra-")?, v.to_str().ok()?)))
            .map(|(k, v)| {
                (percent_encoding::percent_decode_str(k).decode_utf8_lossy().into_owned(), v.to_owned())
            })
            .collect();
        let Some(name) = name.filter(|n| !n.is_empty()) else {
            if !groups.is_empty() || uid.is_some() || !extra.is_empty() {
                return Err(Status::bad_request(
                    "requested impersonation without impersonating a user: set Impersonate-User",
                ));
            }
            return Ok(None);
        };
        let may = |group: &str, resource: &str, sub: &str, ns: &str, what: &str| -> Result<(), Status> {
            let a = Attributes {
                verb: "impersonate",
                namespace: ns,
                group,
                resource,
                subresource: sub,
                name: what,
                path: None,
            };
            if self.authorizer(ns).authorize(user, &a).allowed {
                return Ok(());
            }
            let why = format!(
                "User {:?} cannot impersonate resource {resource:?} in API group {group:?} at the cluster scope",
                user.name
            );
            Err(Status::forbidden(group, resource, what, &why))
        };
        let mut out = match name.strip_prefix("system:serviceaccount:").and_then(|r| r.split_once(':')) {
            Some((ns, sa)) => {
                may("", "serviceaccounts", "", ns, sa)?;
                let mut u = User::service_account(ns, sa);
                if !groups.is_empty() {
                    u.groups = groups.clone();
                }
                u
            }
            None => {
                may("", "users", "", "", &name)?;
                User { name: name.clone(), groups: groups.clone(), ..User::default() }
            }
        };
        for g in &groups {
            may("", "groups", "", "", g)?;
        }
        if let Some(uid) = uid {
            may("authentication.k8s.io", "uids", "", "", &uid)?;
            out.uid = uid;
        }
        for (k, v) in extra {
            may("authentication.k8s.io", "userextras", &k, "", &v)?;
            out.extra.entry(k).or_default().push(v);
        }
        if name == "system:anonymous" {
            if !out.in_group(ek_auth::UNAUTHENTICATED) {
                out.groups.push(ek_auth::UNAUTHENTICATED.to_owned());
            }
            return Ok(Some(out));
        }
        Ok(Some(out.authenticated()))
    }

    /// The uid of a stored object, for binding tokens.
    pub(crate) fn uid_of(&self, table: &TableName, ns: &str, name: &str) -> Option<String> {
        self.object(table, ns, name).map(|o| object::uid(&o).to_owned())
    }
}

/// Fetches key sets over HTTPS: the issuer's discovery document, then its `jwks_uri`.
pub struct HttpKeys;

impl KeySource for HttpKeys {
    fn fetch<'a>(&'a self, issuer: &'a JwtAuthenticator) -> BoxFuture<'a, Result<JwkSet, String>> {
        Box::pin(async move {
            let ca = issuer.certificate_authority.as_deref();
            let document = crate::fetch::get_json(&issuer.discovery_document(), ca).await?;
            if document["issuer"] != issuer.url.as_str() {
                return Err(format!("the discovery document names issuer {}", document["issuer"]));
            }
            let uri = document["jwks_uri"].as_str().ok_or("the discovery document has no jwks_uri")?;
            let keys = crate::fetch::get_json(uri, ca).await?;
            serde_json::from_value(keys).map_err(|e| format!("the key set cannot be read: {e}"))
        })
    }
}
