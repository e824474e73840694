//! From an environment to a client.

use crate::credential::{Credential, CredentialError, Entra, from_env};
use crate::pipeline::{Client, ClientOptions};
use crate::{Cloud, CloudError, Env, Http, HttpError, HttpOptions};

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot set up the HTTP client")]
    Http(#[source] HttpError),
    #[error("cannot tell which cloud to talk to")]
    Cloud(#[source] CloudError),
    #[error("cannot tell which credential to use")]
    Credential(#[source] CredentialError),
}

/// A client, and the subscription that the environment names.
#[derive(Clone, Debug)]
pub struct Connected {
    pub client: Client,
    pub subscription: Option<String>,
}

/// Makes a client from what the environment says about cloud, network and credential. No token is asked for yet.
pub async fn connect(env: &Env, options: ClientOptions) -> Result<Connected, ConnectError> {
    let http = Http::new(&HttpOptions::from_env(env)).map_err(ConnectError::Http)?;
    let cloud = Cloud::from_env(&http, env).await.map_err(ConnectError::Cloud)?;
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: options.timing.clone() };
    let found = from_env(env, entra).await.map_err(ConnectError::Credential)?;
    let credential = Credential::new(found.source, options.timing.clone());
    Ok(Connected { client: Client::new(cloud, http, credential, options), subscription: found.subscription })
}
