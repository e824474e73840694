//! Fetching what an issuer publishes.

use crate::outbound::{Outbound, OutboundError};
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("'{0}' is not an https URL")]
    Url(String),
    #[error("cannot ask {0}")]
    Ask(String, #[source] OutboundError),
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    #[error("{0} did not answer with a small JSON document")]
    Body(String),
    #[error("{0} did not answer in time")]
    Late(String),
}

/// Where discovery documents and keys come from.
pub trait Issuers: Send + Sync {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>>;
}

const PATIENCE: Duration = Duration::from_secs(5);
const MAX_BODY: usize = 256 << 10;

/// Over HTTPS, trusting the given authorities.
pub struct HttpsIssuers {
    outbound: Outbound,
}

impl HttpsIssuers {
    pub fn new(trusted_pem: &[String]) -> HttpsIssuers {
        HttpsIssuers { outbound: Outbound::new(trusted_pem) }
    }

    async fn fetch(&self, text: &str) -> Result<Value, FetchError> {
        let not_url = || FetchError::Url(text.chars().take(200).collect());
        let url = url::Url::parse(text).map_err(|_| not_url())?;
        if url.scheme() != "https" {
            return Err(not_url());
        }
        let request = http::Request::get("/").header("accept", "application/json");
        let answer = self.outbound.send(&url, request, bytes::Bytes::new(), PATIENCE, MAX_BODY).await;
        let answer = answer.map_err(|e| match e {
            OutboundError::Late(_) => FetchError::Late(text.to_owned()),
            OutboundError::Body(_) => FetchError::Body(text.to_owned()),
            other => FetchError::Ask(text.to_owned(), other),
        })?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(FetchError::Status { url: text.to_owned(), status });
        }
        serde_json::from_slice(answer.body()).map_err(|_| FetchError::Body(text.to_owned()))
    }
}

impl Issuers for HttpsIssuers {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>> {
        Box::pin(self.fetch(url))
    }
}
