//! Reading what kube-apiserver is told: a KubeAPIServerConfig, arguments, and the files both name.

use crate::readyz::flag;
use crate::tls::{self, ClientFiles, FileError};
use ek_auth::pki::{Pair, Secret};
use ek_node::ProgramContext;
use ek_server::{
    Encryption, EncryptionConfig, Facing, FacingError, FrontProxyConfig, Given, KmsPlugins, Served,
};
use serde_json::Value;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("--openshift-config is missing")]
    NoConfig,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is no JSON or YAML: {why}")]
    Syntax { path: String, why: String },
    #[error("{path}: kind must be KubeAPIServerConfig, not {kind}")]
    Kind { path: String, kind: String },
    #[error("apiServerArguments.{0} is missing")]
    Missing(&'static str),
    #[error("apiServerArguments.etcd-servers: {0:?} is no https://host:port")]
    Etcd(String),
    #[error("authentication-config")]
    Authentication(#[source] ek_auth::oidc::ConfigError),
    #[error("encryption-provider-config")]
    Encryption(#[source] ek_server::EncryptionError),
    #[error("certificates")]
    Facing(#[from] FacingError),
}

/// What is told, before any file but the configuration itself is read.
pub(crate) struct Config {
    document: Value,
    pub(crate) port: u16,
    pub(crate) etcd_host: String,
    pub(crate) etcd_port: u16,
    pub(crate) etcd: ClientFiles,
    encryption: Option<String>,
    pub(crate) reload_encryption: bool,
}

fn document(ctx: &ProgramContext, path: &str) -> Result<Value, ConfigError> {
    let text = tls::read(ctx, path)?;
    // JSON is YAML.
    serde_saphyr::from_str(&text)
        .map_err(|e| ConfigError::Syntax { path: path.to_owned(), why: e.to_string() })
}

/// An argument of a component that is configured by flags or by an `extendedArguments` file.
pub(crate) fn argument(ctx: &ProgramContext, name: &str) -> Option<String> {
    let given = flag(ctx, &format!("--{name}"));
    given.or_else(|| {
        let file = document(ctx, &flag(ctx, "--openshift-config")?).ok()?;
        file["extendedArguments"][name][0].as_str().map(str::to_owned)
    })
}

impl Config {
    pub(crate) fn read(ctx: &ProgramContext) -> Result<Config, ConfigError> {
        let path = flag(ctx, "--openshift-config").ok_or(ConfigError::NoConfig)?;
        let document = document(ctx, &path)?;
        if document["kind"] != "KubeAPIServerConfig" {
            return Err(ConfigError::Kind { path, kind: document["kind"].to_string() });
        }
        let one = |name: &str| document["apiServerArguments"][name][0].as_str().filter(|v| !v.is_empty());
        let need = |name: &'static str| one(name).map(str::to_owned).ok_or(ConfigError::Missing(name));
        let server = need("etcd-servers")?;
        let at = server.strip_prefix("https://").and_then(|s| s.trim_end_matches('/').rsplit_once(':'));
        let at = at.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
        let (etcd_host, etcd_port) = at.ok_or_else(|| ConfigError::Etcd(server.clone()))?;
        let bind = document["servingInfo"]["bindAddress"].as_str().and_then(|b| b.rsplit(':').next());
        let port = one("secure-port").or(bind).and_then(|p| p.parse().ok()).unwrap_or(6443);
        Ok(Config {
            port,
            etcd_host,
            etcd_port,
            etcd: ClientFiles {
                ca: need("etcd-cafile")?,
                cert: need("etcd-certfile")?,
                key: need("etcd-keyfile")?,
            },
            encryption: flag(ctx, "--encryption-provider-config")
                .or_else(|| one("encryption-provider-config").map(str::to_owned)),
            reload_encryption: flag(ctx, "--encryption-provider-config-automatic-reload")
                .or_else(|| one("encryption-provider-config-automatic-reload").map(str::to_owned))
                .is_some_and(|v| v == "true"),
            document,
        })
    }

    fn all(&self, name: &str) -> Vec<String> {
        let list = self.document["apiServerArguments"][name].as_array().into_iter().flatten();
        list.filter_map(Value::as_str)
            .flat_map(|v| v.split(','))
            .filter(|v| !v.is_empty())
            .map(str::to_owned)
            .collect()
    }

    fn one(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    fn at(&self, pointer: &str) -> Option<String> {
        self.document.pointer(pointer)?.as_str().filter(|v| !v.is_empty()).map(str::to_owned)
    }

    fn client_ca(&self) -> Option<String> {
        self.one("client-ca-file").or_else(|| self.at("/servingInfo/clientCA"))
    }

    /// What clients see, from files as they are now.
    pub(crate) fn facing(&self, ctx: &ProgramContext) -> Result<Facing, ConfigError> {
        let served = |cert: String, key: String, names: Vec<String>| -> Result<Served, ConfigError> {
            let pair = Pair { cert_pem: tls::read(ctx, &cert)?, key_pem: Secret::new(tls::read(ctx, &key)?) };
            Ok(Served { what: cert, pair, names })
        };
        let cert = self.at("/servingInfo/certFile").or_else(|| self.one("tls-cert-file"));
        let key = self.at("/servingInfo/keyFile").or_else(|| self.one("tls-private-key-file"));
        let default = served(
            cert.ok_or(ConfigError::Missing("tls-cert-file"))?,
            key.ok_or(ConfigError::Missing("tls-private-key-file"))?,
            Vec::new(),
        )?;
        let mut named = Vec::new();
        for n in self.document["servingInfo"]["namedCertificates"].as_array().into_iter().flatten() {
            let file = |f: &str| n[f].as_str().map(str::to_owned);
            let names = n["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let (Some(cert), Some(key)) = (file("certFile"), file("keyFile")) {
                named.push(served(cert, key, names.map(str::to_owned).collect())?);
            }
        }
        let client_ca = self.client_ca().ok_or(ConfigError::Missing("client-ca-file"))?;
        let or =
            |list: Vec<String>, default: &str| if list.is_empty() { vec![default.to_owned()] } else { list };
        let front = match self
            .one("requestheader-client-ca-file")
            .or_else(|| self.at("/authConfig/requestHeader/clientCA"))
        {
            None => None,
            Some(path) => Some(FrontProxyConfig {
                ca_pem: tls::read(ctx, &path)?,
                allowed_names: self.all("requestheader-allowed-names"),
                username_headers: or(self.all("requestheader-username-headers"), "X-Remote-User"),
                group_headers: or(self.all("requestheader-group-headers"), "X-Remote-Group"),
                extra_prefixes: or(self.all("requestheader-extra-headers-prefix"), "X-Remote-Extra-"),
            }),
        };
        let number = |name: &str| self.one(name).and_then(|n| n.parse().ok()).unwrap_or(0);
        let facing = Facing::new(&default, &named, &tls::read(ctx, &client_ca)?, front)?;
        Ok(facing.limited(number("max-requests-inflight"), number("max-mutating-requests-inflight")))
    }

    /// What tokens and objects mean, from files as they are now.
    pub(crate) fn given(
        &self,
        ctx: &ProgramContext,
        plugins: Arc<dyn KmsPlugins>,
    ) -> Result<Given, ConfigError> {
        let need = |name: &'static str| self.one(name).ok_or(ConfigError::Missing(name));
        let issuer_url = need("service-account-issuer")?;
        let signing = tls::read(ctx, &need("service-account-signing-key-file")?)?;
        let mut public = self.all("service-account-key-file");
        let listed = self.document["serviceAccountPublicKeyFiles"].as_array().into_iter().flatten();
        public.extend(listed.filter_map(Value::as_str).map(str::to_owned));
        let public_keys = public.iter().map(|p| tls::read(ctx, p)).collect::<Result<_, _>>()?;
        let mut audiences = self.all("api-audiences");
        if audiences.is_empty() {
            audiences.push(issuer_url.clone());
        }
        let authenticators = match self.one("authentication-config") {
            Some(path) => {
                ek_auth::oidc::parse(&document(ctx, &path)?).map_err(ConfigError::Authentication)?
            }
            None => Vec::new(),
        };
        let encryption = match &self.encryption {
            Some(path) => {
                let config =
                    EncryptionConfig::parse(&document(ctx, path)?).map_err(ConfigError::Encryption)?;
                Some(Encryption { config: Arc::new(config), plugins })
            }
            None => None,
        };
        // Until a kube-controller-manager brings the root certificate: what is known of it here.
        let cert = self.at("/servingInfo/certFile").or_else(|| self.one("tls-cert-file"));
        let mut ca_pem = cert.map(|c| tls::read(ctx, &c)).transpose()?.unwrap_or_default();
        if let Some(path) = self.client_ca() {
            ca_pem.push_str(&tls::read(ctx, &path)?);
        }
        Ok(Given {
            ca_pem,
            issuer_url,
            jwks_uri: self.one("service-account-jwks-uri"),
            signing_key: Secret::new(signing),
            public_keys,
            audiences,
            authenticators,
            encryption,
        })
    }
}
