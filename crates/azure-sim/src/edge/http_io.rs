//! Between hyper and our request values.

use crate::access;
use crate::edge::authority::{Service, serves};
use crate::trouble::{Due, around};
use crate::wire::{Call, Reply};
use crate::world::World;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::json;
use std::sync::Arc;

/// Azure's own limit for a request to Resource Manager.
const MAX_BODY: usize = 4 << 20;

pub async fn read(req: Request<Incoming>, base: String) -> Result<Call, Reply> {
    let (head, body) = req.into_parts();
    let too_large = |_| {
        let body = json!({"error": {"code": "RequestContentTooLarge", "message": "The request content size exceeds the maximum size of 4 MB."}});
        Reply::json(StatusCode::PAYLOAD_TOO_LARGE, body)
    };
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(too_large)?.to_bytes();
    let path = percent_encoding::percent_decode_str(head.uri.path()).decode_utf8_lossy().into_owned();
    let query =
        url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    Ok(Call { method: head.method, path, query, headers: head.headers, body, base })
}

pub fn write(reply: Reply) -> Response<Full<Bytes>> {
    let mut out = Response::new(Full::default());
    *out.status_mut() = reply.status;
    *out.headers_mut() = reply.headers;
    if let Some(raw) = reply.raw {
        *out.body_mut() = Full::new(raw);
    } else if let Some(body) = reply.body {
        let kind = http::HeaderValue::from_static("application/json; charset=utf-8");
        out.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        *out.body_mut() = Full::new(serde_json::to_vec(&body).unwrap_or_default().into());
    }
    out
}

/// Routes a request by the host it names.
/// `None`: the connection breaks.
pub async fn serve(world: &Arc<World>, req: Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let authority = req.uri().authority().map(|a| a.as_str().to_owned());
    let header = req.headers().get("host").and_then(|h| h.to_str().ok()).map(str::to_owned);
    let authority = authority.or(header).unwrap_or_else(|| "localhost".to_owned());
    let host = authority.rsplit_once(':').map_or(authority.as_str(), |(h, _)| h).to_owned();
    let Some(service) = serves(&host) else {
        let body = json!({"error": {"code": "InvalidHostName", "message": format!("The host '{host}' is not served here.")}});
        return Some(write(Reply::json(StatusCode::MISDIRECTED_REQUEST, body)));
    };
    let call = match read(req, format!("https://{authority}")).await {
        Ok(c) => c,
        Err(reply) => return Some(write(reply)),
    };
    let first = call.path.trim_matches('/').split('/').next().unwrap_or_default().to_ascii_lowercase();
    let service = match (service, first.as_str()) {
        (Service::ByPath, "subscriptions" | "providers" | "tenants" | "metadata" | "") => Service::Arm,
        (Service::ByPath, "v1.0" | "beta") => Service::Graph,
        (Service::ByPath, _) => Service::Login,
        (s, _) => s,
    };
    if matches!(service, Service::Arm | Service::Login)
        && matches!(first.as_str(), "identity" | "bootdiagnostics")
    {
        return Some(write(match first.as_str() {
            "identity" => world.identity(&call).await,
            _ => world.console(&call),
        }));
    }
    // On the loopback and at Resource Manager the decision point is known by its path.
    let asks = call.path.trim_end_matches('/').to_ascii_lowercase().ends_with(access::PATH);
    let service = if asks && service == Service::Arm { Service::Access } else { service };
    let name = format!("{service:?}").to_lowercase();
    let inner = async |call: Call, due: Due| match service {
        Service::Access => world.check_access(&call),
        Service::Arm | Service::ByPath => world.serve_under(&call, &due).await,
        Service::Login => world.login_under(&call, &due).await,
        Service::Graph => world.graph_under(&call, &due),
    };
    around(world, &name, call, inner).await.map(write)
}
