//! The part of Microsoft Graph that infrastructure needs: applications and service principals.
//!
//! Graph reads lag behind its writes: an application made a moment ago may not be found when its service principal
//! is made. Those calls are repeated for a while; the refusals that mean it are listed in [`lags`].

use crate::Secret;
use crate::pipeline::{Call, Client, Error, Service};
use futures::stream::{BoxStream, StreamExt};
use http::Method;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePrincipal {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub app_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_principal_type: Option<String>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Application {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_id: String,
    pub display_name: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A password as Graph shows it: once.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPassword {
    pub key_id: String,
    pub secret_text: Secret,
    #[serde(default)]
    pub end_date_time: Option<Timestamp>,
}

const ATTEMPTS: u32 = 10;

/// Whether a refusal may only mean that another replica has not heard yet.
fn lags(e: &Error) -> bool {
    match e.status() {
        Some(404) => true,
        Some(400) => e.has_code("NoBackingApplicationObject"),
        Some(403) => e.has_code("Authorization_RequestDenied"),
        _ => false,
    }
}

#[derive(Clone, Debug)]
pub struct Graph(Client);

impl Client {
    pub fn graph(&self) -> Graph {
        Graph(self.clone())
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn filtered(collection: &str, filter: Option<&str>) -> String {
    match filter {
        None => format!("/v1.0/{collection}"),
        Some(f) => format!("/v1.0/{collection}?$filter={}", utf8_percent_encode(f, NON_ALPHANUMERIC)),
    }
}

/// Ids go into paths.
fn segment(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}

impl Graph {
    fn call(method: Method, target: String, body: Option<Value>) -> Call {
        let mut call = Call::new(method, target);
        call.service = Service::Graph;
        call.body = body;
        call
    }

    async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let (method, path) = (call.method.to_string(), call.target.clone());
        let answer = self.0.send(call).await?;
        serde_json::from_slice(&answer.body).map_err(|source| Error::Read { method, path, source })
    }

    /// Repeats a write until Graph has heard of what it builds on.
    async fn settled<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let mut wait = Duration::from_secs(1);
        for _ in 1..ATTEMPTS {
            match self.ask(call.clone()).await {
                Err(e) if lags(&e) => {
                    self.0.timing().pause.pause(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(15));
                }
                other => return other,
            }
        }
        self.ask(call).await
    }

    pub fn service_principals(
        &self,
        filter: Option<&str>,
    ) -> BoxStream<'static, Result<ServicePrincipal, Error>> {
        self.0.pages(Service::Graph, filtered("servicePrincipals", filter))
    }

    pub async fn service_principal(&self, id: &str) -> Result<ServicePrincipal, Error> {
        self.ask(Graph::call(Method::GET, format!("/v1.0/servicePrincipals/{}", segment(id)), None)).await
    }

    /// The service principal of an application in this tenant.
    pub async fn service_principal_of(&self, app_id: &str) -> Result<Option<ServicePrincipal>, Error> {
        let filter = format!("appId eq {}", quoted(app_id));
        self.service_principals(Some(&filter)).next().await.transpose()
    }

    pub async fn create_service_principal(&self, app_id: &str) -> Result<ServicePrincipal, Error> {
        let body = json!({"appId": app_id});
        self.settled(Graph::call(Method::POST, "/v1.0/servicePrincipals".to_owned(), Some(body))).await
    }

    pub async fn delete_service_principal(&self, id: &str) -> Result<(), Error> {
        self.delete(format!("/v1.0/servicePrincipals/{}", segment(id))).await
    }

    pub fn applications(&self, filter: Option<&str>) -> BoxStream<'static, Result<Application, Error>> {
        self.0.pages(Service::Graph, filtered("applications", filter))
    }

    pub async fn application(&self, id: &str) -> Result<Application, Error> {
        self.ask(Graph::call(Method::GET, format!("/v1.0/applications/{}", segment(id)), None)).await
    }

    pub async fn create_application(&self, application: &Application) -> Result<Application, Error> {
        let target = "/v1.0/applications".to_owned();
        let body = serde_json::to_value(application).map_err(|source| Error::Write {
            method: "POST".to_owned(),
            path: target.clone(),
            source,
        })?;
        self.ask(Graph::call(Method::POST, target, Some(body))).await
    }

    pub async fn patch_application(&self, id: &str, patch: Value) -> Result<(), Error> {
        let target = format!("/v1.0/applications/{}", segment(id));
        self.0.send(Graph::call(Method::PATCH, target, Some(patch)).repeatable()).await.map(drop)
    }

    pub async fn delete_application(&self, id: &str) -> Result<(), Error> {
        self.delete(format!("/v1.0/applications/{}", segment(id))).await
    }

    /// Gives an application a password that Graph makes up.
    pub async fn add_password(
        &self,
        id: &str,
        name: &str,
        until: Option<Timestamp>,
    ) -> Result<NewPassword, Error> {
        let mut credential = json!({"displayName": name});
        if let Some(t) = until {
            credential["endDateTime"] = t.to_string().into();
        }
        let target = format!("/v1.0/applications/{}/addPassword", segment(id));
        self.settled(Graph::call(Method::POST, target, Some(json!({"passwordCredential": credential})))).await
    }

    /// The applications that a service principal owns.
    pub fn owned_applications(
        &self,
        service_principal: &str,
    ) -> BoxStream<'static, Result<Application, Error>> {
        let at = format!(
            "servicePrincipals/{}/ownedObjects/microsoft.graph.application",
            segment(service_principal)
        );
        self.0.pages(Service::Graph, filtered(&at, None))
    }

    /// Whatever has these ids.
    pub async fn objects(&self, ids: &[String]) -> Result<Vec<Value>, Error> {
        let target = "/v1.0/directoryObjects/getByIds".to_owned();
        let call = Graph::call(Method::POST, target, Some(json!({"ids": ids}))).repeatable();
        let mut found: Value = self.ask(call).await?;
        match found["value"].take() {
            Value::Array(list) => Ok(list),
            _ => Ok(Vec::new()),
        }
    }

    /// What is not there is deleted already.
    async fn delete(&self, target: String) -> Result<(), Error> {
        match self.0.send(Graph::call(Method::DELETE, target, None)).await {
            Err(e) if e.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }
}
