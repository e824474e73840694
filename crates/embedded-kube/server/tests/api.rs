//! A client as small as can be: what is sent and what comes back is in plain sight.

use clock::ManualClock;
use ek_auth::User;
use ek_server::wire::respond::Body;
use ek_server::{ApiServer, Config};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Api {
    pub server: ApiServer,
    user: User,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The body as JSON, `null` if it is none.
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    pub fn message(&self) -> String {
        self.body()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The body, if the code is as expected.
    #[track_caller]
    pub fn ok(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.body()
    }

    /// Asserts a failure with this code and reason; gives its message.
    #[track_caller]
    pub fn fails(self, code: u16, reason: &str) -> String {
        let b = self.body();
        assert_eq!((self.code, b["reason"].as_str().unwrap_or_default()), (code, reason), "{}", self.text());
        assert_eq!(
            (&b["kind"], &b["status"], &b["code"]),
            (&json!("Status"), &json!("Failure"), &json!(code))
        );
        self.message()
    }
}

/// A server in memory and all rights on it.
pub async fn start() -> Api {
    start_with(Config::memory()).await
}

/// A server whose clock stands still until told otherwise.
pub async fn start_manual() -> (Api, Arc<ManualClock>) {
    let clock = ManualClock::new("2026-01-02T03:04:05Z".parse().unwrap());
    let api = start_with(Config { clock: clock.clone(), ..Config::memory() }).await;
    (api, clock)
}

pub async fn start_with(config: Config) -> Api {
    Api { server: ApiServer::start(config).await.unwrap(), user: User::loopback(), headers: Vec::new() }
}

impl Api {
    pub fn as_user(&self, user: User) -> Api {
        Api { user, ..self.clone() }
    }

    /// The same client with one more header on every request.
    pub fn with(&self, name: &str, value: &str) -> Api {
        let mut api = self.clone();
        api.headers.push((name.to_owned(), value.to_owned()));
        api
    }

    pub async fn open(
        &self,
        method: &str,
        uri: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> http::Response<Body> {
        let mut req = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(uri);
        if !content_type.is_empty() {
            req = req.header("content-type", content_type);
        }
        for (k, v) in &self.headers {
            req = req.header(k, v);
        }
        let req = req.body(Full::new(bytes::Bytes::from(body.into()))).unwrap();
        self.server.service(self.user.clone()).oneshot(req).await.unwrap()
    }

    pub async fn send(
        &self,
        method: &str,
        uri: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let (parts, body) = self.open(method, uri, content_type, body).await.into_parts();
        let bytes =
            tokio::time::timeout(DEADLINE, body.collect()).await.expect("a whole answer").unwrap().to_bytes();
        Answer { code: parts.status.as_u16(), headers: parts.headers, bytes: bytes.to_vec() }
    }

    pub async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, "", "").await
    }

    pub async fn post(&self, uri: &str, body: Value) -> Answer {
        self.send("POST", uri, JSON, body.to_string()).await
    }

    pub async fn put(&self, uri: &str, body: Value) -> Answer {
        self.send("PUT", uri, JSON, body.to_string()).await
    }

    pub async fn patch(&self, content_type: &str, uri: &str, body: Value) -> Answer {
        self.send("PATCH", uri, content_type, body.to_string()).await
    }

    pub async fn delete(&self, uri: &str) -> Answer {
        self.send("DELETE", uri, "", "").await
    }

    pub async fn delete_with(&self, uri: &str, options: Value) -> Answer {
        self.send("DELETE", uri, JSON, options.to_string()).await
    }

    pub async fn watch(&self, uri: &str) -> Watch {
        let r = self.open("GET", uri, "", "").await;
        assert_eq!(r.status(), 200, "{uri}");
        Watch { body: r.into_body(), buffer: Vec::new() }
    }

    /// A watch on config maps after `version`.
    pub async fn watch_from(&self, version: &str) -> Watch {
        self.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await
    }

    /// Waits until the object at `uri` satisfies `done`, woken by its changes.
    pub async fn until(&self, list: &str, name: &str, done: impl Fn(&str, &Value) -> bool) -> Value {
        let mut w = self.watch(&format!("{list}?watch=1&fieldSelector=metadata.name={name}")).await;
        loop {
            let e = w.next().await.expect("the watch goes on");
            if done(e["type"].as_str().unwrap(), &e["object"]) {
                return e["object"].clone();
            }
        }
    }
}

pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the server ended the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("an event in time")?;
            self.buffer.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
    }

    pub async fn take(&mut self, n: usize) -> Vec<Value> {
        let mut out = Vec::new();
        while out.len() < n {
            out.push(self.next().await.expect("more events"));
        }
        out
    }

    /// `TYPE name` of the next `n` events.
    pub async fn names(&mut self, n: usize) -> Vec<String> {
        let text = |e: &Value| {
            format!(
                "{} {}",
                e["type"].as_str().unwrap(),
                e["object"]["metadata"]["name"].as_str().unwrap_or("-")
            )
        };
        self.take(n).await.iter().map(text).collect()
    }
}

pub fn rv(v: &Value) -> String {
    v["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

pub fn names(list: &Value) -> Vec<String> {
    let name = |o: &Value| o["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

pub fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub fn labelled(name: &str, labels: Value) -> Value {
    let mut m = map(name);
    m["metadata"]["labels"] = labels;
    m
}

pub fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub fn deployment(name: &str) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/x.io/v1/namespaces/default/widgets";

/// A CRD `widgets.x.io` with status, scale, columns and a rule.
pub fn widget_crd() -> Value {
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1, "default": 3},
                        "replicas": {"type": "integer"}, "color": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": "!has(self.color) || self.color != 'beige'",
                            "message": "beige is no color"}]},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"},
                        "selector": {"type": "string"}, "phase": {"type": "string"}}}}}}}]}})
}

pub fn widget(name: &str) -> Value {
    json!({"kind": "Widget", "apiVersion": "x.io/v1", "metadata": {"name": name}, "spec": {"size": 5}})
}

/// A server that serves widgets.
pub async fn start_widgets() -> Api {
    let api = start().await;
    api.post(CRDS, widget_crd()).await.ok(201);
    api
}
