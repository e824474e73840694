//! `kubectl proxy` paths: one HTTP request passed on to a pod or Service.

use crate::cluster::tables;
use crate::fetch::connect_loopback;
use crate::registry::table_name;
use crate::verbs::Call;
use crate::wire::respond::{Body, Reply};
use bytes::Bytes;
use ek_meta::Status;
use futures::StreamExt;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, Response};
use http_body_util::{BodyStream, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// Until the first byte of the answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Headers that concern one connection only.
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::HOST,
];

/// `[scheme:]name[:port]`.
fn parts(name: &str) -> (&str, &str, &str) {
    let all: Vec<&str> = name.split(':').collect();
    match all.as_slice() {
        [scheme, name, port] => (scheme, name, port),
        [name, port] => ("", name, port),
        _ => ("", name, ""),
    }
}

fn port_of_pod(pod: &Value, port: &str) -> Option<u16> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|c| c["ports"].as_array().into_iter().flatten());
    let found = match port {
        "" => ports.next().and_then(|p| p["containerPort"].as_u64()),
        _ => match port.parse::<u64>() {
            Ok(n) => Some(n),
            Err(_) => ports.find(|p| p["name"] == port).and_then(|p| p["containerPort"].as_u64()),
        },
    };
    u16::try_from(found.unwrap_or(80)).ok()
}

fn port_of_service(service: &Value, port: &str) -> Option<u16> {
    let ports = service["spec"]["ports"].as_array()?;
    let one = match port {
        "" => ports.first().filter(|_| ports.len() == 1)?,
        _ => ports.iter().find(|p| p["name"] == port || p["port"].as_u64() == port.parse().ok())?,
    };
    u16::try_from(one["port"].as_u64()?).ok()
}

/// Where to, and whether with TLS.
fn target(call: &Call) -> Result<(SocketAddr, bool), Status> {
    let (scheme, name, port) = parts(&call.info.name);
    let (ns, id, runtime) = (&call.info.namespace, &call.cluster.id, call.cluster.pods.get());
    let table = if call.res.plural == "pods" { tables::PODS.clone() } else { table_name("", "services") };
    let object = call.cluster.object(&table, ns, name).ok_or_else(|| call.res.not_found(name))?;
    let found = if call.res.plural == "pods" {
        port_of_pod(&object, port).and_then(|p| runtime.port(id, ns, name, p))
    } else {
        let number = port_of_service(&object, port);
        let number = number.ok_or_else(|| {
            Status::unavailable(format!("no service port {port:?} found for service {name:?}"))
        })?;
        runtime.service(id, ns, name, number)
    };
    let found = found.map(|address| (address, scheme == "https"));
    found.ok_or_else(|| {
        Status::unavailable(format!("no endpoints available for service {:?}", call.info.name))
    })
}

pub(super) async fn run(call: &Call) -> Result<Reply, Status> {
    let (address, tls) = target(call)?;
    let method = match call.info.verb {
        "create" => Method::POST,
        "update" => Method::PUT,
        "patch" => Method::PATCH,
        "delete" => Method::DELETE,
        _ => Method::GET,
    };
    const PATH: &percent_encoding::AsciiSet =
        &percent_encoding::CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'%');
    let mut path = format!("/{}", percent_encoding::utf8_percent_encode(&call.info.rest, PATH));
    let query =
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(call.params.iter()).finish();
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(|e| Status::bad_request(format!("path {path:?}: {e}")))?;
    copy(&call.headers, request.headers_mut());
    // Whoever is asked there must not be able to act as whoever asks here.
    request.headers_mut().remove(header::AUTHORIZATION);
    let host = http::HeaderValue::from_str(&address.to_string()).map_err(Status::internal)?;
    request.headers_mut().insert(header::HOST, host);
    let failed = |why: String| Status::unavailable(format!("error trying to reach service: {why}"));
    let stream = connect_loopback(address, tls).await.map_err(|e| failed(e.to_string()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(e.to_string()))?;
    // Ends with the answer's body, or when nobody reads that any more.
    tokio::spawn(connection);
    let answer = match tokio::time::timeout(PATIENCE, sender.send_request(request)).await {
        Ok(r) => r.map_err(|e| failed(e.to_string()))?,
        Err(_) => return Err(failed(format!("no answer within {} seconds", PATIENCE.as_secs()))),
    };
    let (parts, body) = answer.into_parts();
    let frames = BodyStream::new(body).map(|f| f.ok().and_then(|f| f.into_data().ok()));
    let chunks = frames.take_while(|c| std::future::ready(c.is_some())).map(Option::unwrap_or_default);
    let chunks = chunks.filter(|c: &Bytes| std::future::ready(!c.is_empty()));
    let mut reply = Response::new(Body::stream(chunks.take_until(call.ending())));
    *reply.status_mut() = parts.status;
    copy(&parts.headers, reply.headers_mut());
    Ok(reply)
}

fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    for (k, v) in from {
        if !HOP.contains(k) && *k != header::CONTENT_LENGTH {
            to.append(k.clone(), v.clone());
        }
    }
}
