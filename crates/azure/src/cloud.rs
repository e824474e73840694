//! Clouds: where Resource Manager, Entra ID and Graph are, and what tokens for them are called.

use crate::{Answer, Door, Env, Http, HttpError};
use bytes::Bytes;
use http::Request;
use serde::Deserialize;
use url::Url;

#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("{name} is '{value}', which is not an https:// URL")]
    Url { name: &'static str, value: String },
    #[error(
        "there is no cloud '{0}': use AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud, AzureGermanCloud or AzureBleuCloud, or set ZAFFRE_AZURE_ARM_URL"
    )]
    Unknown(String),
    #[error("cannot ask {url} for its endpoints")]
    Ask { url: String, source: HttpError },
    #[error("{url} answered {status} when asked for its endpoints")]
    Refused { url: String, status: u16 },
    #[error("the endpoints that {url} names cannot be read")]
    Read { url: String, source: serde_json::Error },
}

/// An https URL without a trailing slash: paths are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    pub fn parse(name: &'static str, value: &str) -> Result<Endpoint, CloudError> {
        let bad = || CloudError::Url { name, value: value.to_owned() };
        let url = Url::parse(value).map_err(|_| bad())?;
        // The bearer token goes there.
        if url.scheme() != "https" || url.host_str().is_none() || url.path().trim_matches('/').contains('/') {
            return Err(bad());
        }
        Ok(Endpoint(url))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Whether a URL that a service handed out lies there: the same host or a region of it, the same port.
    pub fn owns(&self, url: &Url) -> bool {
        let (Some(own), Some(host)) = (self.0.host_str(), url.host_str()) else { return false };
        let same = host == own || host.strip_suffix(own).is_some_and(|rest| rest.ends_with('.'));
        url.scheme() == "https"
            && same
            && url.port_or_known_default() == self.0.port_or_known_default()
            && url.username().is_empty()
            && url.password().is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    pub name: String,
    pub arm: Endpoint,
    pub login: Endpoint,
    pub graph: Endpoint,
    /// What tokens for Resource Manager are asked for, without `/.default`.
    pub arm_audience: String,
    pub graph_audience: String,
    /// `vault.azure.net` and the like.
    pub vault_suffix: String,
    pub storage_suffix: String,
    pub registry_suffix: String,
}

/// Graph, storage and registries of the last two are by analogy, not verified. Rows of the known clouds: name, ARM, login, Graph; suffixes of vaults, accounts and registries.
const KNOWN: [[&str; 7]; 5] = [
    [
        "AzurePublicCloud",
        "https://management.azure.com",
        "https://login.microsoftonline.com",
        "https://graph.microsoft.com",
        "vault.azure.net",
        "core.windows.net",
        "azurecr.io",
    ],
    [
        "AzureUSGovernmentCloud",
        "https://management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
        "https://graph.microsoft.us",
        "vault.usgovcloudapi.net",
        "core.usgovcloudapi.net",
        "azurecr.us",
    ],
    [
        "AzureChinaCloud",
        "https://management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
        "https://microsoftgraph.chinacloudapi.cn",
        "vault.azure.cn",
        "core.chinacloudapi.cn",
        "azurecr.cn",
    ],
    [
        "AzureGermanCloud",
        "https://management.microsoftazure.de",
        "https://login.microsoftonline.de",
        "https://graph.microsoft.de",
        "vault.microsoftazure.de",
        "core.cloudapi.de",
        "azurecr.de",
    ],
    [
        "AzureBleuCloud",
        "https://management.sovcloud-api.fr",
        "https://login.sovcloud-identity.fr",
        "https://graph.svc.sovcloud.fr",
        "vault.sovcloud-api.fr",
        "core.sovcloud-api.fr",
        "azurecr.fr",
    ],
];

fn known(row: &[&str; 7]) -> Cloud {
    let [name, arm, login, graph, vault, storage, registry] = *row;
    let at = |url: &str| Endpoint(Url::parse(url).unwrap_or_else(|_| unreachable!("KNOWN holds URLs")));
    Cloud {
        name: name.to_owned(),
        arm: at(arm),
        login: at(login),
        graph: at(graph),
        arm_audience: arm.to_owned(),
        graph_audience: graph.to_owned(),
        vault_suffix: vault.to_owned(),
        storage_suffix: storage.to_owned(),
        registry_suffix: registry.to_owned(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    resource_manager: String,
    #[serde(default)]
    microsoft_graph_resource_id: Option<String>,
    authentication: Authentication,
    #[serde(default)]
    suffixes: Suffixes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authentication {
    login_endpoint: String,
    #[serde(default)]
    audiences: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Suffixes {
    storage: Option<String>,
    key_vault_dns: Option<String>,
    acr_login_server: Option<String>,
}

impl Cloud {
    pub fn public() -> Cloud {
        known(&KNOWN[0])
    }

    pub fn us_government() -> Cloud {
        known(&KNOWN[1])
    }

    pub fn china() -> Cloud {
        known(&KNOWN[2])
    }

    /// A cloud that is not public Azure but speaks for it: audiences and suffixes stay, addresses change.
    pub fn custom(arm: &str, login: &str, graph: &str) -> Result<Cloud, CloudError> {
        Ok(Cloud {
            name: "Custom".to_owned(),
            arm: Endpoint::parse("the Resource Manager URL", arm)?,
            login: Endpoint::parse("the login URL", login)?,
            graph: Endpoint::parse("the Graph URL", graph)?,
            ..Cloud::public()
        })
    }

    /// Asks a Resource Manager which cloud it belongs to (`/metadata/endpoints`).
    pub async fn from_metadata(http: &Http, arm: &str) -> Result<Cloud, CloudError> {
        let at = Endpoint::parse("the Resource Manager URL", arm)?;
        let url = format!("{}/metadata/endpoints?api-version=2022-09-01", at.as_str());
        let bad = || CloudError::Url { name: "the Resource Manager URL", value: arm.to_owned() };
        let request = Request::get(&url).body(Bytes::new()).map_err(|_| bad())?;
        let answer =
            http.send(request).await.map_err(|source| CloudError::Ask { url: url.clone(), source })?;
        if !answer.status.is_success() {
            return Err(CloudError::Refused { url, status: answer.status.as_u16() });
        }
        Cloud::read(&url, &answer)
    }

    fn read(url: &str, answer: &Answer) -> Result<Cloud, CloudError> {
        let read = |source| CloudError::Read { url: url.to_owned(), source };
        let m: Metadata = serde_json::from_slice(&answer.body).map_err(read)?;
        let base = Cloud::public();
        let graph = m.microsoft_graph_resource_id.unwrap_or(base.graph_audience);
        let audience = m.authentication.audiences.first().unwrap_or(&m.resource_manager);
        Ok(Cloud {
            name: m.name,
            arm: Endpoint::parse("resourceManager", &m.resource_manager)?,
            login: Endpoint::parse("authentication.loginEndpoint", &m.authentication.login_endpoint)?,
            graph: Endpoint::parse("microsoftGraphResourceId", &graph)?,
            arm_audience: audience.trim_end_matches('/').to_owned(),
            graph_audience: graph.trim_end_matches('/').to_owned(),
            vault_suffix: m.suffixes.key_vault_dns.unwrap_or(base.vault_suffix),
            storage_suffix: m.suffixes.storage.unwrap_or(base.storage_suffix),
            registry_suffix: m.suffixes.acr_login_server.unwrap_or(base.registry_suffix),
        })
    }

    /// `ZAFFRE_AZURE_ARM_URL` (with `ZAFFRE_AZURE_LOGIN_URL` and `ZAFFRE_AZURE_GRAPH_URL`, or asked for), else
    /// `AZURE_ENVIRONMENT`, else public. `AZURE_AUTHORITY_HOST` replaces the login address of any of them.
    pub async fn from_env(http: &Http, env: &Env) -> Result<Cloud, CloudError> {
        let mut cloud = match (env.get("ZAFFRE_AZURE_ARM_URL"), env.get("ZAFFRE_AZURE_LOGIN_URL")) {
            (Some(arm), Some(login)) => {
                Cloud::custom(arm, login, env.get("ZAFFRE_AZURE_GRAPH_URL").unwrap_or(arm))?
            }
            (Some(arm), None) => Cloud::from_metadata(http, arm).await?,
            (None, _) => Cloud::named(env.get("AZURE_ENVIRONMENT").unwrap_or("AzurePublicCloud"))?,
        };
        if let Some(host) = env.get("AZURE_AUTHORITY_HOST") {
            let url = if host.contains("://") { host.to_owned() } else { format!("https://{host}") };
            cloud.login = Endpoint::parse("AZURE_AUTHORITY_HOST", &url)?;
        }
        Ok(cloud)
    }

    /// By the names that Azure's tools use; the short ones of `az cloud list` too.
    pub fn named(name: &str) -> Result<Cloud, CloudError> {
        let short = [["AzureCloud", "public"], ["AzureUSGovernment", "usgov"], ["AzureChinaCloud", "china"]];
        let of = |i: usize| {
            let short = short.get(i).into_iter().flatten();
            KNOWN[i][0].eq_ignore_ascii_case(name) || short.into_iter().any(|s| s.eq_ignore_ascii_case(name))
        };
        (0..KNOWN.len())
            .find(|i| of(*i))
            .map(|i| known(&KNOWN[i]))
            .ok_or_else(|| CloudError::Unknown(name.chars().take(64).collect()))
    }

    pub(crate) fn arm_scope(&self) -> String {
        format!("{}/.default", self.arm_audience)
    }

    /// The host of a data plane, and what tokens for it are asked for. The name was made sure of by the caller.
    fn door(&self, what: &'static str, name: &str, suffix: &str, audience: &str) -> Result<Door, CloudError> {
        let endpoint = Endpoint::parse(what, &format!("https://{name}.{suffix}"))?;
        Ok(Door { endpoint, scope: format!("{audience}/.default") })
    }

    /// Accounts of all clouds share an audience.
    pub(crate) fn account(&self, name: &str) -> Result<Door, CloudError> {
        let suffix = format!("blob.{}", self.storage_suffix);
        self.door("the account's URL", name, &suffix, "https://storage.azure.com")
    }

    pub(crate) fn vault(&self, name: &str) -> Result<Door, CloudError> {
        let audience = format!("https://{}", self.vault_suffix);
        self.door("the vault's URL", name, &self.vault_suffix, &audience)
    }

    /// Managed HSMs are beside vaults: `managedhsm.` where those have `vault.`.
    pub(crate) fn managed_hsm(&self, name: &str) -> Result<Door, CloudError> {
        let domain = self.vault_suffix.strip_prefix("vault.").unwrap_or(&self.vault_suffix);
        let suffix = format!("managedhsm.{domain}");
        self.door("the managed HSM's URL", name, &suffix, &format!("https://{suffix}"))
    }

    pub(crate) fn graph_scope(&self) -> String {
        format!("{}/.default", self.graph_audience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_clouds_and_their_names() {
        assert_eq!(Cloud::named("usgov").unwrap(), Cloud::us_government());
        assert_eq!(Cloud::named("azurecloud").unwrap(), Cloud::public());
        assert_eq!(Cloud::china().login.as_str(), "https://login.chinacloudapi.cn");
        assert_eq!(
            Cloud::named("AzureGermanCloud").unwrap().arm.as_str(),
            "https://management.microsoftazure.de"
        );
        assert!(matches!(Cloud::named("moon"), Err(CloudError::Unknown(_))));
        assert_eq!(Cloud::public().arm_scope(), "https://management.azure.com/.default");
    }

    #[test]
    fn tokens_go_home_only() {
        let arm = Endpoint::parse("x", "https://management.azure.com/").unwrap();
        let owns = |u: &str| arm.owns(&Url::parse(u).unwrap());
        assert!(owns("https://management.azure.com/a?b"));
        assert!(owns("https://westus2.management.azure.com/a"));
        for foreign in [
            "http://management.azure.com/",
            "https://evilmanagement.azure.com/",
            "https://management.azure.com.evil.test/",
            "https://management.azure.com:444/",
            "https://u:p@management.azure.com/",
            "https://azure.com/",
        ] {
            assert!(!owns(foreign), "{foreign}");
        }
        assert!(Endpoint::parse("x", "http://a").is_err() && Endpoint::parse("x", "a b").is_err());
    }

    #[test]
    fn metadata_is_read_and_checked() {
        let answer = |body: &str| Answer { body: Bytes::from(body.to_owned()), ..Answer::default() };
        let good = answer(
            r#"{"name":"X","resourceManager":"https://arm.x","microsoftGraphResourceId":"https://graph.x/",
            "authentication":{"loginEndpoint":"https://login.x/","audiences":["https://mgmt.x/"]},
            "suffixes":{"keyVaultDns":"vault.x"}}"#,
        );
        let cloud = Cloud::read("u", &good).unwrap();
        assert_eq!(
            (cloud.arm_scope().as_str(), cloud.vault_suffix.as_str()),
            ("https://mgmt.x/.default", "vault.x")
        );
        let plain =
            answer(r#"{"resourceManager":"http://arm.x","authentication":{"loginEndpoint":"https://l.x"}}"#);
        assert!(matches!(Cloud::read("u", &plain), Err(CloudError::Url { name: "resourceManager", .. })));
        assert!(matches!(Cloud::read("u", &answer("<html>")), Err(CloudError::Read { .. })));
    }
}
