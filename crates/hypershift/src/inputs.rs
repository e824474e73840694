//! What a user gives to a cluster besides its object: Secrets and ConfigMaps that the spec names.
//!
//! One list says what each is for, which keys it must have and where its copy goes; validation, copying, waking and the
//! marks on the originals all read that list, so that a reference cannot be copied and not be watched.

use apis::hypershift::HostedCluster;
use apis::names::annotation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys and bytes of a Secret or ConfigMap.
pub type Data = BTreeMap<String, Vec<u8>>;

/// The two kinds that hold data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    Secret,
    ConfigMap,
}

impl Sort {
    pub fn kind(self) -> &'static str {
        match self {
            Sort::Secret => "Secret",
            Sort::ConfigMap => "ConfigMap",
        }
    }
}

/// What an input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    PullSecret,
    SshKey,
    TrustBundle,
    SigningKey,
    AuditWebhook,
    EncryptionKey,
    /// Client certificate for an etcd that somebody else runs.
    EtcdClient,
    ProxyTrust,
    /// Whatever else `spec.configuration` names.
    Configuration,
}

/// One reference of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub purpose: Purpose,
    /// The field that names it.
    pub field: String,
    pub sort: Sort,
    pub name: String,
    /// Keys that must be there.
    pub keys: &'static [&'static str],
    /// The copy's name.
    pub target: String,
}

/// Something read: what it holds, and its type and marks.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    pub data: Arc<Data>,
    /// Of a Secret.
    pub type_: String,
    /// The managed service fills this one in the guest; here it must be empty.
    pub placeholder: bool,
}

/// Data may be secret; what is there is not.
impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given")
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .field("type", &self.type_)
            .finish()
    }
}

/// What was found of the inputs of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Found(pub BTreeMap<(Sort, String), Given>);

impl Found {
    pub fn get(&self, input: &Input) -> Option<&Given> {
        self.0.get(&(input.sort, input.name.clone()))
    }
}

/// What a reference in `spec.configuration` is: path (`*` is every element), sort, keys.
const CONFIGURATION: &[(&str, Sort, &[&str])] = &[
    ("apiServer.clientCA", Sort::ConfigMap, &["ca-bundle.crt"]),
    ("apiServer.servingCerts.namedCertificates.*.servingCertificate", Sort::Secret, &["tls.crt", "tls.key"]),
    ("authentication.oauthMetadata", Sort::ConfigMap, &["oauthMetadata"]),
    ("authentication.oidcProviders.*.issuer.issuerCertificateAuthority", Sort::ConfigMap, &["ca-bundle.crt"]),
    ("authentication.oidcProviders.*.oidcClients.*.clientSecret", Sort::Secret, &["clientSecret"]),
    ("image.additionalTrustedCA", Sort::ConfigMap, &[]),
    ("ingress.componentRoutes.*.servingCertKeyPairSecret", Sort::Secret, &["tls.crt", "tls.key"]),
    ("oauth.identityProviders.*.*.ca", Sort::ConfigMap, &["ca.crt"]),
    ("oauth.identityProviders.*.*.clientSecret", Sort::Secret, &["clientSecret"]),
    ("oauth.identityProviders.*.*.bindPassword", Sort::Secret, &["bindPassword"]),
    ("oauth.identityProviders.*.*.fileData", Sort::Secret, &["htpasswd"]),
    ("oauth.identityProviders.*.*.tlsClientCert", Sort::Secret, &["tls.crt"]),
    ("oauth.identityProviders.*.*.tlsClientKey", Sort::Secret, &["tls.key"]),
    ("oauth.templates.login", Sort::Secret, &["login.html"]),
    ("oauth.templates.providerSelection", Sort::Secret, &["providers.html"]),
    ("oauth.templates.error", Sort::Secret, &["errors.html"]),
    ("scheduler.policy", Sort::ConfigMap, &[]),
];

/// Every place a path leads to, with the path as it went.
fn places<'a>(document: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let mut open = vec![("spec.configuration".to_owned(), document)];
    for part in path.split('.') {
        let mut next = Vec::new();
        for (at, value) in open {
            match (part, value) {
                ("*", Value::Array(items)) => {
                    next.extend(items.iter().enumerate().map(|(i, v)| (format!("{at}[{i}]"), v)));
                }
                ("*", Value::Object(fields)) => {
                    next.extend(fields.iter().map(|(k, v)| (format!("{at}.{k}"), v)));
                }
                (key, value) => next.extend(value.get(key).map(|v| (format!("{at}.{key}"), v))),
            }
        }
        open = next;
    }
    open
}

/// Everything a cluster's spec names, each once.
pub fn of(hc: &HostedCluster) -> Vec<Input> {
    use Purpose::*;
    let (spec, shared) = (&hc.spec, &hc.spec.shared);
    let mut all: Vec<Input> = Vec::new();
    let mut add = |purpose, field: String, sort, name: &str, keys, target: &str| {
        let doubled = |i: &Input| i.sort == sort && i.name == name && i.target == target;
        if !name.is_empty() && !all.iter().any(doubled) {
            let (name, target) = (name.to_owned(), target.to_owned());
            all.push(Input { purpose, field, sort, name, keys, target });
        }
    };
    let f = |s: &str| format!("spec.{s}");
    add(
        PullSecret,
        f("pullSecret"),
        Sort::Secret,
        &shared.pull_secret.name,
        &[".dockerconfigjson"],
        "pull-secret",
    );
    if let Some(r) = &spec.ssh_key {
        add(SshKey, f("sshKey"), Sort::Secret, &r.name, &["id_rsa.pub"], "ssh-key");
    }
    if let Some(r) = &shared.additional_trust_bundle {
        let field = f("additionalTrustBundle");
        add(TrustBundle, field, Sort::ConfigMap, &r.name, &["ca-bundle.crt"], "user-ca-bundle");
    }
    if let Some(r) = &shared.service_account_signing_key {
        add(SigningKey, f("serviceAccountSigningKey"), Sort::Secret, &r.name, &["key"], "sa-signing-key");
    }
    if let Some(r) = &shared.audit_webhook {
        add(AuditWebhook, f("auditWebhook"), Sort::Secret, &r.name, &["webhook-kubeconfig"], &r.name);
    }
    if let Some(keys) = shared.secret_encryption.as_ref().and_then(|e| e.aescbc.as_ref()) {
        let field = |k: &str| f(&format!("secretEncryption.aescbc.{k}"));
        let name = &keys.active_key.name;
        add(EncryptionKey, field("activeKey"), Sort::Secret, name, &["key"], name);
        if let Some(r) = &keys.backup_key {
            add(EncryptionKey, field("backupKey"), Sort::Secret, &r.name, &["key"], &r.name);
        }
    }
    if let Some(unmanaged) = &spec.etcd.unmanaged {
        let name = &unmanaged.tls.client_secret.name;
        const KEYS: &[&str] = &["etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"];
        add(EtcdClient, f("etcd.unmanaged.tls.clientSecret"), Sort::Secret, name, KEYS, name);
    }
    let document = shared.configuration.as_ref().and_then(|c| serde_json::to_value(c).ok());
    let document = document.unwrap_or_default();
    if let Some(name) = document["proxy"]["trustedCA"]["name"].as_str() {
        let field = f("configuration.proxy.trustedCA");
        add(ProxyTrust, field, Sort::ConfigMap, name, &["ca-bundle.crt"], name);
    }
    for (path, sort, keys) in CONFIGURATION {
        for (field, value) in places(&document, path) {
            if let Some(name) = value["name"].as_str() {
                add(Configuration, field, *sort, name, keys, name);
            }
        }
    }
    all
}

/// The mark on an original that a cluster uses it.
pub fn mark(cluster: &str) -> String {
    format!("{}/{cluster}", annotation::REFERENCED_RESOURCE_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_every_place() {
        let document = json!({"oauth": {"identityProviders": [
            {"name": "a", "openID": {"ca": {"name": "one"}, "clientSecret": {"name": "s"}}},
            {"name": "b", "ldap": {"ca": {"name": "two"}}}]}});
        let found = places(&document, "oauth.identityProviders.*.*.ca");
        let fields: Vec<&str> = found.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.configuration.oauth.identityProviders[0].openID.ca",
                "spec.configuration.oauth.identityProviders[1].ldap.ca"
            ]
        );
    }
}
