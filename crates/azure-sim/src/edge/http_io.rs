//! Between hyper and our request values.

use crate::access;
use crate::edge::authority::{Service, serves};
use crate::edge::body::Body;
use crate::planes::{Ask, Plane};
use crate::trouble::{Due, around};
use crate::wire::{Call, Reply};
use crate::world::World;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
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

pub fn write(reply: Reply) -> Response<Body> {
    let mut out = Response::new(Body::default());
    *out.status_mut() = reply.status;
    *out.headers_mut() = reply.headers;
    if let Some(raw) = reply.raw {
        *out.body_mut() = Body::of(raw);
    } else if !reply.parts.is_empty() {
        *out.body_mut() = Body::parts(reply.parts);
    } else if let Some(body) = reply.body {
        let kind = http::HeaderValue::from_static("application/json; charset=utf-8");
        out.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        *out.body_mut() = Body::of(serde_json::to_vec(&body).unwrap_or_default().into());
    }
    out
}

/// Routes a request by the host it names.
/// `None`: the connection breaks.
pub async fn serve(world: &Arc<World>, req: Request<Incoming>) -> Option<Response<Body>> {
    let authority = req.uri().authority().map(|a| a.as_str().to_owned());
    let header = req.headers().get("host").and_then(|h| h.to_str().ok()).map(str::to_owned);
    let authority = authority.or(header).unwrap_or_else(|| "localhost".to_owned());
    let host = authority.rsplit_once(':').map_or(authority.as_str(), |(h, _)| h).to_owned();
    let Some(service) = serves(&host) else {
        let body = json!({"error": {"code": "InvalidHostName", "message": format!("The host '{host}' is not served here.")}});
        return Some(write(Reply::json(StatusCode::MISDIRECTED_REQUEST, body)));
    };
    if let Service::Plane(plane) = service {
        return plane_answer(world, plane, host.to_ascii_lowercase(), req).await;
    }
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
        if first == "bootdiagnostics" {
            return Some(write(world.console(&call)));
        }
        let inner = async |call: Call, _: Due| world.identity(&call).await;
        return around(world, "msi", call, inner).await.map(write);
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
        Service::Plane(_) => Reply::empty(StatusCode::MISDIRECTED_REQUEST),
    };
    around(world, &name, call, inner).await.map(write)
}

/// A request to a data plane: what it stores goes to the store as it arrives.
async fn plane_answer(
    world: &Arc<World>,
    plane: Plane,
    host: String,
    req: Request<Incoming>,
) -> Option<Response<Body>> {
    let uri = req.uri().clone();
    let (raw_path, raw_query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
    let head = req.method() == http::Method::HEAD;
    let (call, upload) = if Ask::stores(plane, req.method(), &raw_path, &raw_query) {
        let (parts, body) = req.into_parts();
        let upload = match world.contents().receive(body).await {
            Ok(upload) => upload,
            Err(e) => {
                let status = match e {
                    crate::planes::contents::ContentError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    crate::planes::contents::ContentError::Cut => StatusCode::BAD_REQUEST,
                    crate::planes::contents::ContentError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
                };
                let body = json!({"error": {"code": "RequestBodyTooLarge", "message": e.to_string()}});
                let reply = Reply::json(status, body).with("x-ms-error-code", "RequestBodyTooLarge");
                return Some(write(reply));
            }
        };
        let path = percent_encoding::percent_decode_str(&raw_path).decode_utf8_lossy().into_owned();
        let query = url::form_urlencoded::parse(raw_query.as_bytes()).into_owned().collect();
        let base = format!("https://{host}");
        let call = Call {
            method: parts.method,
            path,
            query,
            headers: parts.headers,
            body: bytes::Bytes::new(),
            base,
        };
        (call, Some(upload))
    } else {
        match read(req, format!("https://{host}")).await {
            Ok(call) => (call, None),
            Err(reply) => return Some(write(reply)),
        }
    };
    let name = format!("{plane:?}").to_lowercase();
    let inner = async |call: Call, due: Due| {
        let mut reply = world.plane_under(&Ask { plane, host, raw_path, raw_query, call, upload }, &due);
        if head {
            (reply.body, reply.raw) = (None, None);
            reply.parts.clear();
        }
        reply
    };
    around(world, &name, call, inner).await.map(write)
}
