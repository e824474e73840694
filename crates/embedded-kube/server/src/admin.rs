//! Clusters as things to be made and removed over HTTP, by whoever the main cluster lets.
//!
//! `GET /clusters` lists them, `POST /clusters` with `{"name": "…"}` makes one and answers with its kubeconfig,
//! `GET` and `DELETE /clusters/<name>` show and remove one. Rights are RBAC's of the main cluster, on these
//! paths as `nonResourceURLs`.

use crate::cluster::Cluster;
use crate::host::{ClusterConfig, Host, MAIN};
use crate::pipeline::{self, Peer};
use crate::wire::info::RequestInfo;
use crate::wire::respond::{self, Reply};
use ek_meta::{Reason, Status};
use http::{Method, Request};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

/// A name and a few words: nothing here is long.
const MAX_BODY: usize = 64 << 10;

pub async fn serve<B>(host: &Host, main: &Cluster, peer: &Peer, url: &str, req: Request<B>) -> Reply
where
    B: HttpBody,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match answer(host, main, peer, url, req).await {
        Ok((code, body)) => respond::json(code, &body),
        Err(s) => respond::status(&s),
    }
}

async fn answer<B>(
    host: &Host,
    main: &Cluster,
    peer: &Peer,
    url: &str,
    req: Request<B>,
) -> Result<(u16, Value), Status>
where
    B: HttpBody,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = req.into_parts();
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    let info = RequestInfo::parse(&parts.method, &path, false);
    pipeline::admit(main, peer, &parts.headers, &info).await?;
    let name = path.strip_prefix("/clusters/");
    let missing =
        |name: &str| Status::failure(404, Reason::NotFound, format!("there is no cluster {name:?}"));
    match (&parts.method, name) {
        (&Method::GET, None) => {
            let items: Vec<Value> = host.names().iter().map(|n| shown(url, n)).collect();
            Ok((200, json!({"kind": "ClusterList", "items": items})))
        }
        (&Method::POST, None) => {
            let bytes = Limited::new(body, MAX_BODY).collect().await;
            let bytes = bytes.map_err(|e| Status::bad_request(format!("the body cannot be read: {e}")))?;
            let wanted: Value = serde_json::from_slice(&bytes.to_bytes())
                .map_err(|e| Status::bad_request(format!("the body is not JSON: {e}")))?;
            let Some(name) = wanted["name"].as_str() else {
                return Err(Status::bad_request("the body must be {\"name\": \"…\"}"));
            };
            if host.cluster(name).is_some() {
                return Err(Status::failure(409, Reason::AlreadyExists, format!("cluster {name:?} exists")));
            }
            let mut config = ClusterConfig::default();
            if let Some(issuer) = wanted["issuer"].as_str() {
                config.issuer_url = issuer.to_owned();
            }
            let made = host.ensure(name, config).await.map_err(|e| Status::bad_request(e.to_string()))?;
            let mut answer = shown(url, name);
            let config = made.kubeconfig_below(url, main.identity.authority.cert_pem());
            answer["kubeconfig"] = config.map_err(Status::internal)?;
            Ok((201, answer))
        }
        (&Method::GET, Some(name)) => {
            host.cluster(name).ok_or_else(|| missing(name))?;
            Ok((200, shown(url, name)))
        }
        (&Method::DELETE, Some(MAIN)) => {
            let text = "the main cluster is this server; stop the server instead";
            Err(Status::failure(403, Reason::Forbidden, text))
        }
        (&Method::DELETE, Some(name)) => {
            if !host.delete(name).await.map_err(Status::internal)? {
                return Err(missing(name));
            }
            Ok((200, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})))
        }
        _ => Err(Status::method_not_allowed()),
    }
}

fn shown(url: &str, name: &str) -> Value {
    let server = if name == MAIN { url.to_owned() } else { format!("{url}/clusters/{name}") };
    json!({"kind": "Cluster", "name": name, "server": server})
}
