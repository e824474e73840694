//! The way of a request: who is it → which cluster → what does it ask → may it → do it → answer.
//!
//! The pipeline is a function from a request with a bounded body to a response; sockets, TLS and the
//! in-process client are all outside of it.

use crate::audit::Record;
use crate::cluster::Cluster;
use crate::route::Mounted;
use crate::verbs::{self, Call};
use crate::wire::body::MAX_BODY;
use crate::wire::info::RequestInfo;
use crate::wire::params::Params;
use crate::wire::respond::{self, Reply};
use crate::{discovery, health, openapi};
use bytes::Bytes;
use ek_auth::User;
use ek_auth::rbac::{Attributes, Decision};
use ek_meta::Status;
use http::header::{HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A client that sends its body more slowly than this holds a connection for nothing.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// What the transport knows of the caller.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Proven by a client certificate that our CA signed, or given by the in-process client.
    pub user: Option<User>,
    /// It showed a certificate that this cluster does not trust.
    pub untrusted: bool,
    pub address: Option<IpAddr>,
    /// A proxy that is trusted to say whom it speaks for.
    pub front: Option<Arc<crate::door::FrontProxy>>,
    /// Ends the streams of its socket, where that is not the end of the cluster.
    pub stop: Option<tokio_util::sync::CancellationToken>,
}

/// Reads the body, bounded, and runs the request.
pub async fn serve<B>(cluster: &Arc<Cluster>, peer: &Peer, req: Request<B>) -> Reply
where
    B: HttpBody,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = req.into_parts();
    // A body that declares itself too large is refused before a byte of it is read.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return respond::status(&too_large());
    }
    let body = match Limited::new(body, MAX_BODY) {
        none if none.is_end_stream() => Ok(Ok(Bytes::new())),
        some => {
            let read = async { some.collect().await.map(http_body_util::Collected::to_bytes) };
            tokio::time::timeout(BODY_PATIENCE, read).await
        }
    };
    let body = match body {
        Ok(Ok(b)) => b,
        Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => return respond::status(&too_large()),
        Ok(Err(e)) => {
            return respond::status(&Status::bad_request(format!("the request body could not be read: {e}")));
        }
        Err(_) => {
            let text = format!("the request body did not arrive within {} seconds", BODY_PATIENCE.as_secs());
            return respond::status(&Status::timeout(text, 1));
        }
    };
    run(cluster, peer, parts, body).await
}

fn too_large() -> Status {
    Status::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
}

async fn run(cluster: &Arc<Cluster>, peer: &Peer, mut parts: http::request::Parts, body: Bytes) -> Reply {
    let received = cluster.now();
    let id = cluster.random.uuid();
    let path = parts.uri.path();
    let params = Params::parse(parts.uri.query());
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
    let info = RequestInfo::parse(&parts.method, &path, params.flag("watch"));
    let mut trail = Trail::default();
    let pretty = params.flag("pretty");
    let verb = info.verb;
    // Only the audit log wants to know afterwards what was asked; without one nothing is kept for it.
    let asked = cluster.audit.is_on().then(|| Asked {
        // Without the scheme and host that HTTP/2 repeats.
        uri: parts.uri.path_and_query().map_or_else(|| path.clone(), ToString::to_string),
        info: info.clone(),
        agent: parts.headers.get(USER_AGENT).cloned(),
    });
    if asked.is_some() {
        trail.user = User::anonymous();
    }
    let base = parts.extensions.get::<Mounted>().map(|m| m.0.clone()).unwrap_or_default();
    let upgrade = parts.extensions.remove();
    let req = Incoming { method: parts.method, info, params, headers: parts.headers, body, base, upgrade };
    let result = match deadline(&req) {
        Ok(()) => handle(cluster, peer, req, &mut trail).await,
        Err(s) => Err(s),
    };
    let (mut reply, message) = match result {
        Ok(r) => (r, None),
        Err(s) => (respond::status(&s), Some(s.message)),
    };
    if pretty {
        respond::indent(&mut reply);
    }
    if let Ok(v) = HeaderValue::from_str(&id) {
        reply.headers_mut().insert("audit-id", v);
    }
    if let Some(Asked { uri, info, agent }) = &asked {
        let record = Record {
            id: &id,
            uri,
            info,
            user: &trail.user,
            impersonated: trail.impersonated.as_ref(),
            user_agent: agent.as_ref().and_then(|a| a.to_str().ok()).unwrap_or_default(),
            source: peer.address,
            code: reply.status().as_u16(),
            message: message.as_deref(),
            decision: trail.decision.as_ref().map(|(a, b)| (*a, b.as_str())),
            annotations: &trail.annotations,
            received,
            finished: cluster.now(),
        };
        cluster.audit.record(record.line()).await;
    }
    cluster.metrics.observe(verb, reply.status().as_u16());
    reply
}

struct Incoming {
    method: Method,
    info: RequestInfo,
    params: Params,
    headers: HeaderMap,
    body: Bytes,
    /// What stands before our paths where the client sees them.
    base: String,
    /// Where the connection can become something else.
    upgrade: Option<hyper::upgrade::OnUpgrade>,
}

/// `?timeout=` must be a duration; streams have none.
fn deadline(req: &Incoming) -> Result<(), Status> {
    let long = req.info.verb == "watch"
        || matches!(req.info.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward");
    match req.params.get("timeout").filter(|t| !t.is_empty() && !long) {
        Some(t) if ek_schema::cel::parse_duration(t).is_none() => Err(Status::bad_request(format!(
            "invalid timeout specified in the request URL - time: invalid duration {t:?}"
        ))),
        _ => Ok(()),
    }
}

/// What the audit log says of the request.
struct Asked {
    uri: String,
    info: RequestInfo,
    agent: Option<HeaderValue>,
}

/// What the audit log wants to know even of requests that fail.
#[derive(Default)]
struct Trail {
    user: User,
    impersonated: Option<User>,
    decision: Option<(&'static str, String)>,
    annotations: Vec<(String, String)>,
}

async fn handle(
    cluster: &Arc<Cluster>,
    peer: &Peer,
    req: Incoming,
    trail: &mut Trail,
) -> Result<Reply, Status> {
    let user = cluster.authenticate(peer, &req.headers).await?;
    let audited = cluster.audit.is_on();
    if audited {
        trail.user = user.clone();
    }
    let user = match cluster.impersonate(&user, &req.headers)? {
        Some(other) => {
            trail.impersonated = audited.then(|| other.clone());
            other
        }
        None => user,
    };
    authorize(cluster, &user, &req.info, trail)?;
    if !req.info.is_resource {
        return other_path(cluster, &req).await;
    }
    let registry = cluster.registry();
    let i = &req.info;
    let Some(res) = registry.find(&i.group, &i.version, &i.resource) else {
        return if builtin_group(&i.group) { Err(not_found()) } else { Ok(not_found_text()) };
    };
    if matches!(req.method, Method::HEAD | Method::OPTIONS) {
        return Err(Status::method_not_allowed());
    }
    // Namespaced paths of cluster-scoped kinds do not exist, and the other way round for single objects.
    if (!i.namespace.is_empty() && !res.namespaced)
        || (res.namespaced && i.namespace.is_empty() && !i.name.is_empty())
    {
        return if res.is_custom() { Ok(not_found_text()) } else { Err(not_found()) };
    }
    let call = Call {
        cluster: cluster.clone(),
        res: res.clone(),
        info: req.info,
        params: req.params,
        headers: req.headers,
        body: req.body,
        user,
        upgrade: req.upgrade,
        warnings: Arc::new(Mutex::new(Vec::new())),
        annotations: Arc::default(),
        stop: peer.stop.clone(),
    };
    drop(registry);
    // The verbs' future is large; boxing keeps that off the connection's own.
    let result = Box::pin(verbs::run(&call)).await;
    trail.annotations = std::mem::take(&mut *call.annotations.lock());
    let warnings = std::mem::take(&mut *call.warnings.lock());
    let mut reply = match result {
        Ok(r) => r,
        Err(s) if warnings.is_empty() => return Err(s),
        Err(s) => respond::status(&s),
    };
    respond::add_warnings(&mut reply, &warnings);
    Ok(reply)
}

/// Who asks, if they may: for paths that are not of the resource API.
pub async fn admit(
    cluster: &Cluster,
    peer: &Peer,
    headers: &HeaderMap,
    info: &RequestInfo,
) -> Result<User, Status> {
    let user = cluster.authenticate(peer, headers).await?;
    let user = cluster.impersonate(&user, headers)?.unwrap_or(user);
    authorize(cluster, &user, info, &mut Trail::default())?;
    Ok(user)
}

/// Below the groups every server has, what is unknown is said as a Status.
fn not_found() -> Status {
    let text = "the server could not find the requested resource";
    Status::failure(404, ek_meta::Reason::NotFound, text).about("", "", "")
}

fn builtin_group(name: &str) -> bool {
    ek_data::GROUPS.iter().any(|g| g.name == name)
}

/// Unknown paths are answered in plain text, which is how clients tell them from missing objects.
fn not_found_text() -> Reply {
    respond::text(404, "404 page not found\n")
}

fn authorize(cluster: &Cluster, user: &User, i: &RequestInfo, trail: &mut Trail) -> Result<(), Status> {
    let attributes = Attributes {
        verb: i.verb,
        namespace: &i.namespace,
        group: &i.group,
        resource: &i.resource,
        subresource: &i.subresource,
        name: &i.name,
        path: (!i.is_resource).then_some(i.path.as_str()),
    };
    // Who may do anything is not looked up in any table.
    let decision = match user.in_group(ek_auth::MASTERS) {
        true => Decision { allowed: true, reason: String::new() },
        false => cluster.authorizer(&i.namespace).authorize(user, &attributes),
    };
    trail.decision = Some((if decision.allowed { "allow" } else { "forbid" }, decision.reason));
    if decision.allowed {
        return Ok(());
    }
    if user.name == "system:anonymous" && !i.is_resource {
        return Err(deny_path(user, i));
    }
    Err(if i.is_resource { deny_resource(user, i) } else { deny_path(user, i) })
}

fn deny_path(user: &User, i: &RequestInfo) -> Status {
    let mut s =
        Status::forbidden("", "", "", &format!("User {:?} cannot {} path {:?}", user.name, i.verb, i.path));
    s.details = Some(Box::default());
    s
}

fn deny_resource(user: &User, i: &RequestInfo) -> Status {
    let resource = if i.subresource.is_empty() {
        i.resource.clone()
    } else {
        format!("{}/{}", i.resource, i.subresource)
    };
    let whole = if i.namespace.is_empty() {
        " at the cluster scope".to_owned()
    } else {
        format!(" in the namespace {:?}", i.namespace)
    };
    let why = format!(
        "User {:?} cannot {} resource {resource:?} in API group {:?}{whole}",
        user.name, i.verb, i.group
    );
    Status::forbidden(&i.group, &i.resource, &i.name, &why)
}

async fn other_path(cluster: &Arc<Cluster>, req: &Incoming) -> Result<Reply, Status> {
    let path = req.info.path.as_str();
    if !matches!(req.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    if let Some(r) = health::answer(cluster, path, &req.params) {
        return Ok(r);
    }
    if path == "/version" || path == "/version/" {
        return Ok(respond::json(200, &crate::version::info()));
    }
    if path == "/metrics" {
        return Ok(respond::text(200, cluster.metrics.text(cluster)));
    }
    if let Some(r) = cluster.identity.well_known(path) {
        return Ok(r);
    }
    let registry = cluster.registry();
    if let Some(r) = discovery::answer(&registry, path, &req.headers, &cluster.identity.address()) {
        return r;
    }
    if let Some(r) = openapi::answer(cluster, &registry, path, &req.base, &req.params, &req.headers) {
        return r;
    }
    if path == "/" {
        return Ok(respond::json(200, &health::paths(&registry)));
    }
    let group = match path.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/').map(|(group, _)| group),
        None => path.starts_with("/api/").then_some(""),
    };
    if group.is_some_and(builtin_group) {
        return Err(not_found());
    }
    Ok(not_found_text())
}

#[cfg(test)]
mod tests {
    use crate::{ApiServer, Config};
    use http::Request;
    use http_body_util::{BodyExt, StreamBody};
    use tower::ServiceExt;

    /// A body that begins and never ends is given up on; time is paused, so this takes none.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_not_waited_for() {
        let server = ApiServer::start(Config::memory()).await.unwrap();
        let first = futures::stream::once(async {
            Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from("{")))
        });
        let body = StreamBody::new(Box::pin(futures::StreamExt::chain(first, futures::stream::pending())));
        let req = Request::post("/api/v1/namespaces")
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let reply = server.service(ek_auth::User::loopback()).oneshot(req).await.unwrap();
        assert_eq!(reply.status(), 504);
        let text = reply.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&text).contains("within 60 seconds"));
    }
}
