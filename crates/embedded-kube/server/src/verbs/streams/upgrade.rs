//! From HTTP to something else: the handshakes of WebSocket and SPDY.

use crate::verbs::Call;
use crate::wire::respond::{Body, Reply};
use ek_meta::Status;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The end of a conversation that went well; clients take a close without a code for a failure.
pub(super) fn goodbye() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() }))
}

/// No message of a client may be larger.
const MAX_MESSAGE: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    WebSocket,
    Spdy,
}

fn has(call: &Call, name: HeaderName, word: &str) -> bool {
    let values = call.headers.get_all(name);
    values.iter().filter_map(|v| v.to_str().ok()).any(|v| v.to_ascii_lowercase().contains(word))
}

/// What the client wants the connection to become.
pub(super) fn kind(call: &Call) -> Result<Kind, Status> {
    let required = || Status::bad_request("Upgrade request required");
    if !has(call, CONNECTION, "upgrade") {
        return Err(required());
    }
    if has(call, UPGRADE, "websocket") {
        Ok(Kind::WebSocket)
    } else if has(call, UPGRADE, "spdy/3.1") {
        Ok(Kind::Spdy)
    } else {
        Err(required())
    }
}

/// The first protocol of ours that the client offers in a header, in our order.
pub(super) fn choose(call: &Call, header: &str, ours: &[&'static str]) -> Option<&'static str> {
    let offered: Vec<&str> = (call.headers.get_all(header).iter())
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(str::trim)
        .collect();
    ours.iter().find(|o| offered.contains(*o)).copied()
}

fn switching(to: &'static str) -> Reply {
    let mut r = Response::new(Body::empty());
    *r.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    r.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    r.headers_mut().insert(UPGRADE, HeaderValue::from_static(to));
    r
}

fn taken(call: &Call) -> Result<OnUpgrade, Status> {
    call.upgrade
        .clone()
        .ok_or_else(|| Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"))
}

/// Answers the handshake; `then` is given the socket once the client has read the answer.
pub(super) fn websocket<F, R>(call: &Call, protocol: &'static str, then: F) -> Result<Reply, Status>
where
    F: FnOnce(Socket) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let upgrade = taken(call)?;
    let key = call
        .headers
        .get("sec-websocket-key")
        .ok_or_else(|| Status::bad_request("Sec-WebSocket-Key is missing"))?;
    let mut reply = switching("websocket");
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Status::internal)?;
    reply.headers_mut().insert("sec-websocket-accept", accept);
    reply.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(protocol));
    let stop = call.ending();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
        tokio::select! {
            () = stop => {}
            () = then(socket) => {}
        }
    });
    Ok(reply)
}

/// The same for SPDY, whose inner protocol has a header of its own.
pub(super) fn spdy<F, R>(call: &Call, protocol: &'static str, then: F) -> Result<Reply, Status>
where
    F: FnOnce(TokioIo<Upgraded>) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let upgrade = taken(call)?;
    let mut reply = switching("SPDY/3.1");
    reply.headers_mut().insert("x-stream-protocol-version", HeaderValue::from_static(protocol));
    let stop = call.ending();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        tokio::select! {
            () = stop => {}
            () = then(TokioIo::new(upgraded)) => {}
        }
    });
    Ok(reply)
}
