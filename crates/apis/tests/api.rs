//! A client as small as can be, over a server in memory that has every definition.

use ek_auth::User;
use ek_server::{ApiServer, Config};
use http::Request;
use http_body_util::{BodyExt, Full};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tower::ServiceExt;

pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Made once: schemas are made from types, which takes a while without optimisation.
pub static ALL: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(apis::crds);

pub struct Api(ApiServer);

pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {:#}", self.code, self.body);
        self.body
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A server with every definition installed, and the namespace `clusters`.
pub async fn start() -> Api {
    let api = Api(ApiServer::start(Config::memory()).await.unwrap());
    for crd in ALL.iter() {
        api.post(CRDS, &serde_json::to_value(crd).unwrap()).await.ok();
    }
    api.post(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "clusters"}}),
    )
    .await
    .ok();
    api
}

impl Api {
    pub async fn send(
        &self,
        method: &str,
        uri: &str,
        accept: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Answer {
        let bytes = body.map(|b| serde_json::to_vec(b).unwrap()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("accept", accept)
            .header("content-type", kind)
            .body(Full::new(bytes::Bytes::from(bytes)))
            .unwrap();
        let (parts, body) = self.0.service(User::loopback()).oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), body: serde_json::from_slice(&bytes).unwrap_or_default() }
    }

    pub async fn post(&self, uri: &str, body: &Value) -> Answer {
        self.send("POST", uri, "application/json", "application/json", Some(body)).await
    }

    pub async fn put(&self, uri: &str, body: &Value) -> Answer {
        self.send("PUT", uri, "application/json", "application/json", Some(body)).await
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, "application/json", "", None).await
    }

    /// What `kubectl get` prints: the names of the columns and the cells of the first row.
    pub async fn table(&self, uri: &str) -> Vec<(String, Value)> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = self.send("GET", uri, accept, "", None).await.ok();
        let columns = table["columnDefinitions"].as_array().unwrap().clone();
        let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
        columns.into_iter().map(|c| c["name"].as_str().unwrap().to_owned()).zip(cells).collect()
    }
}

/// The collection that holds an object of one of our kinds.
pub fn collection(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let crd = ALL
        .iter()
        .find(|c| c.spec.names.kind == kind && api_version.starts_with(&format!("{}/", c.spec.group)))
        .unwrap_or_else(|| panic!("no definition of {kind}"));
    let place = if crd.spec.scope == "Namespaced" { "namespaces/clusters/" } else { "" };
    format!("/apis/{api_version}/{place}{}", crd.spec.names.plural)
}
