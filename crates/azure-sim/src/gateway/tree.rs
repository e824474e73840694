//! Create, read, update and delete for the types of the table.

use crate::gateway::checks::{idle, located, normalise, preconditions, references};
use crate::gateway::{Cx, operations};
use crate::kinds::{self, Flow, How, Kind, Operations, Part, Prep, show, show_part};
use crate::state::{Edge, Effect, Phase, Record, is_within};
use crate::wire::{Fault, Reply};
use arm::{ErrorDetail, ResourceId, Tags, code};
use http::StatusCode;
use serde_json::{Map, Value, json};

/// A body is an object; what the service owns in it is ignored.
pub fn body(cx: &Cx<'_>) -> Result<Map<String, Value>, Fault> {
    let Some(Value::Object(mut doc)) = cx.call.json()? else {
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            code::INVALID_REQUEST_CONTENT,
            "The request content was invalid: a JSON object is required.",
        ));
    };
    for owned in ["id", "name", "type", "etag", "systemData"] {
        doc.remove(owned);
    }
    doc.retain(|_, v| !v.is_null());
    for (field, object) in [("properties", true), ("location", false)] {
        if let Some(v) = doc.get(field).filter(|v| if object { !v.is_object() } else { !v.is_string() }) {
            let shown: String = v.to_string().chars().take(80).collect();
            return Err(Fault::gateway(
                StatusCode::BAD_REQUEST,
                code::INVALID_REQUEST_CONTENT,
                format!(
                    "The request content was invalid and could not be deserialized: 'Error converting value {shown} to the type of \"{field}\". Path '{field}'.'."
                ),
            ));
        }
    }
    if let Some(tags) = doc.get("tags") {
        check_tags(tags)?;
    }
    Ok(doc)
}

pub fn check_tags(tags: &Value) -> Result<(), Fault> {
    let bad = |why: String| Fault::gateway(StatusCode::BAD_REQUEST, "InvalidTag", why);
    let tags: Tags = serde_json::from_value(tags.clone()).map_err(|_| bad("Tags are strings.".to_owned()))?;
    tags.check().map_err(|e| bad(e.to_string()))
}

/// The gateway's answer for a missing top-level resource.
pub fn missing(kind: &Kind, id: &ResourceId) -> Fault {
    let spelled = kind.rules.spell(id);
    if let Some(fault) = kind.rules.missing(&spelled) {
        return fault;
    }
    if kind.namespace == "Microsoft.ManagedIdentity" && kind.nested() {
        let message = format!("Resource '{spelled}' was not found.");
        return Fault::plain(StatusCode::NOT_FOUND, code::NOT_FOUND, message);
    }
    if kind.nested() {
        return not_found(id);
    }
    let message = format!(
        "The Resource '{}/{}' under resource group '{}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
        spelled.resource_type(),
        id.name(),
        id.group().unwrap_or_default()
    );
    Fault::gateway(StatusCode::NOT_FOUND, code::RESOURCE_NOT_FOUND, message)
}

/// A provider's answer for a missing child.
fn not_found(id: &ResourceId) -> Fault {
    Fault::service(StatusCode::NOT_FOUND, code::NOT_FOUND, format!("Resource {id} not found."))
}

fn answer(cx: &Cx<'_>, record: &Record, status: StatusCode, body: Value) -> Reply {
    let reply = Reply::json(status, body);
    let etag = reply.body.as_ref().and_then(|b| b["etag"].as_str()).map(str::to_owned);
    match etag.filter(|_| status == StatusCode::OK && cx.call.method == "GET" || !record.kind.stateful) {
        Some(e) => reply.with("etag", &e),
        None => reply,
    }
}

pub fn get(cx: &Cx<'_>, kind: &'static Kind, id: &ResourceId) -> Result<Reply, Fault> {
    let record = cx.state.get(id.key()).ok_or_else(|| missing(kind, id))?;
    Ok(answer(cx, record, StatusCode::OK, expanded(cx, record)))
}

/// What is shown, and what the request wants expanded.
pub fn expanded(cx: &Cx<'_>, record: &Record) -> Value {
    let mut shown = show(cx.state, record, &cx.version);
    if let (Some(what), Value::Object(out)) = (cx.call.query("$expand"), &mut shown) {
        record.kind.rules.expand(cx.state, record, &cx.version, &what.to_lowercase(), out);
    }
    shown
}

pub fn head(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let found = cx.state.get(id.key()).is_some();
    Ok(Reply::empty(if found { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }))
}

pub fn get_part(cx: &Cx<'_>, part: &'static Part, id: &ResourceId) -> Result<Reply, Fault> {
    let root = id.root();
    let record = cx.state.get(root.key()).ok_or_else(|| missing_root(&root))?;
    let shown =
        show_part(cx.state, record, &cx.version, part.list, id.name()).ok_or_else(|| not_found(id))?;
    Ok(answer(cx, record, StatusCode::OK, shown))
}

fn missing_root(root: &ResourceId) -> Fault {
    kinds::kind(root.resource_type().as_str()).map_or_else(|| not_found(root), |k| missing(k, root))
}

fn in_use(status: StatusCode, code: &str, what: &str, edge: &Edge) -> Fault {
    Fault::service(
        status,
        code,
        format!(
            "{what} is in use by {} and cannot be deleted. In order to delete it, delete or change all resources that use it.",
            edge.text
        ),
    )
}

pub fn put(cx: &mut Cx<'_>, kind: &'static Kind, id: &ResourceId) -> Result<Reply, Fault> {
    let doc = body(cx)?;
    write(cx, kind, id, doc, None)
}

pub fn put_part(
    cx: &mut Cx<'_>,
    kind: &'static Kind,
    part: &'static Part,
    id: &ResourceId,
) -> Result<Reply, Fault> {
    let mut element = body(cx)?;
    // Only what has an operation of its own can be written by itself.
    if part.verb.is_empty() {
        return Err(super::not_allowed(cx));
    }
    let root = id.root();
    let record = cx.state.get(root.key()).cloned().ok_or_else(|| missing_root(&root))?;
    kinds::Names::Network(80).check(id.name())?;
    element.insert("name".into(), id.name().into());
    let mut doc = record.doc.clone();
    let list = kinds::properties(&mut doc).entry(part.list).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        let at =
            list.iter().position(|e| e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(id.name())));
        match at {
            Some(i) => list[i] = Value::Object(element),
            None => list.push(Value::Object(element)),
        }
    }
    write(cx, kind, &record.id, doc, Some((part, id.name().to_owned())))
}

type Touched = Option<(&'static Part, String)>;

fn write(
    cx: &mut Cx<'_>,
    kind: &'static Kind,
    id: &ResourceId,
    mut doc: Map<String, Value>,
    touched: Touched,
) -> Result<Reply, Fault> {
    let old = cx.state.get(id.key()).cloned();
    let old = old.as_deref();
    preconditions(cx, old)?;
    idle(cx, old)?;
    located(kind, &mut doc, old)?;
    kinds::check_shape(kind, &doc)?;
    if old.is_none() {
        kind.names.check(id.name())?;
    }
    normalise(kind.parts, &mut doc)?;
    if old.is_none() {
        cx.state.bump(id.key());
    }
    let prep = Prep { state: cx.state, id, old, version: &cx.version, now: cx.now };
    kind.rules.prepare(&prep, &mut doc)?;
    let id = old.map_or_else(|| kind.rules.spell(id), |o| o.id.clone());
    let edges = kinds::edges(kind, &id, &doc);
    references(cx, kind, &id, &doc, &edges)?;
    removed_parts(cx, kind, &id, old, &doc)?;
    let existed = match &touched {
        None => old.is_some(),
        Some((part, name)) => old.is_some_and(|o| o.element(part.list, name).is_some()),
    };
    let changed = old.is_none_or(|o| o.doc.get("properties") != doc.get("properties"));
    let mut flow = match &touched {
        Some((part, _)) => part.create,
        None => kind.rules.flow(&doc).unwrap_or(if existed { kind.update } else { kind.create }),
    };
    // An update that changes no property is done at once, but still answered as an operation.
    if existed && !changed && flow.how == How::Async {
        flow = Flow { how: How::AsyncDone, retry: 0, lasts: 0.0 };
    }
    let late = kind.rules.fails_late(cx.state, &id, &doc);
    cx.state.bump(id.key());
    let by = cx.state.share(&cx.caller.object_id);
    let running =
        matches!(flow.how, How::Async | How::Accepted | How::AcceptedBody | How::Body | How::Located);
    let mut record = Record {
        etag: cx.state.guid(id.key(), "etag"),
        targets: kinds::targets(&edges),
        phase: match (running, existed, kind.operations) {
            (false, ..) => Phase::Succeeded,
            (true, false, Operations::Compute) => Phase::Creating,
            (true, ..) => Phase::Updating,
        },
        seeded: old.is_some_and(|o| o.seeded),
        ..Record::new(id, kind, doc, by, cx.now).since(old)
    };
    if !running {
        kind.rules.settled(cx.state, &mut record);
    }
    let mut headers = None;
    if flow.how != How::Sync {
        let awaited =
            kind.rules.awaits(cx.state).filter(|_| !existed && cx.profile.profile != crate::Profile::Manual);
        let late = late.or_else(|| awaited.as_ref().map(|(_, why)| why.clone()));
        let effect = match late {
            Some(why) => Effect::Fail(record.id.key().clone(), Box::new(why)),
            None if running => Effect::Settle(record.id.key().clone()),
            None => Effect::Nothing,
        };
        let verb = touched.as_ref().map_or(kind.verb, |(p, _)| p.verb);
        let place = record.location().unwrap_or("global").to_owned();
        let (token, status, result) =
            operations::begin(cx, kind, &record.id, &place, flow, effect, &format!("Put{verb}Operation"));
        // Whoever is waited for works in time of its own: no profile makes it faster.
        if let Some((seconds, _)) = awaited
            && let Ok(patience) = jiff::SignedDuration::try_from_secs_f64(seconds)
            && let Ok(at) = cx.now.checked_add(patience)
        {
            cx.state.put_off(&token, at);
        }
        if running && flow.how != How::Body {
            let part = touched.as_ref().map(|(p, n)| (p.list.to_owned(), n.clone()));
            record.busy = Some(Box::new((token, part)));
        }
        headers = Some((status, result));
    }
    cx.state.put(record.clone(), edges);
    if old.is_none() {
        kind.rules.created(cx.state, &record, cx.now);
    }
    if !running {
        kind.rules.after(cx.state, record.id.key(), cx.now);
    }
    let record = cx.state.get(record.id.key()).map_or(record, |r| (**r).clone());
    Ok(written(cx, &record, &touched, flow, existed, headers))
}

fn written(
    cx: &Cx<'_>,
    record: &Record,
    touched: &Touched,
    flow: Flow,
    existed: bool,
    urls: Option<(String, String)>,
) -> Reply {
    let made = StatusCode::from_u16(record.kind.made).unwrap_or(StatusCode::CREATED);
    let status = if existed { StatusCode::OK } else { made };
    let mut shown = match touched {
        None => show(cx.state, record, &cx.version),
        Some((part, name)) => show_part(cx.state, record, &cx.version, part.list, name).unwrap_or_default(),
    };
    if let Value::Object(out) = &mut shown {
        record.kind.rules.answered(out);
    }
    let mut reply = match flow.how {
        How::AcceptedBody => answer(cx, record, StatusCode::ACCEPTED, shown),
        How::Accepted => Reply::json(StatusCode::ACCEPTED, json!({})),
        How::Located => Reply::empty(StatusCode::ACCEPTED).with("content-type", "text/plain; charset=utf-8"),
        How::Body => answer(cx, record, StatusCode::OK, shown),
        _ => answer(cx, record, status, shown),
    };
    if flow.how == How::Body {
        // Azure says nothing, so clients look every half minute: late, where a second is less than one.
        let own = matches!(cx.profile.profile, crate::Profile::Real | crate::Profile::Manual);
        return match cx.profile.retry_after(flow.lasts.ceil() as u32).filter(|_| !own) {
            Some((name, value)) => reply.with(name, &value),
            None => reply,
        };
    }
    if let Some((status, result)) = urls {
        if flow.how != How::Located {
            reply = reply.with("azure-asyncoperation", &status);
        }
        if matches!(flow.how, How::Accepted | How::AcceptedBody | How::Located) {
            reply = reply.with("location", &result);
        }
        if let Some((name, value)) = cx.profile.retry_after(flow.retry) {
            reply = reply.with(name, &value);
        }
    } else if !existed && record.kind.namespace == "Microsoft.ManagedIdentity" {
        // This provider names what it made, by path.
        reply = reply.with("location", record.id.as_str());
    }
    reply
}

/// Elements that a write drops must not be in use.
fn removed_parts(
    cx: &Cx<'_>,
    kind: &Kind,
    id: &ResourceId,
    old: Option<&Record>,
    doc: &Map<String, Value>,
) -> Result<(), Fault> {
    let Some(old) = old else { return Ok(()) };
    for part in kind.parts.iter().filter(|p| !p.in_use.is_empty()) {
        for e in old.property(part.list).and_then(Value::as_array).into_iter().flatten() {
            let name = e["name"].as_str().unwrap_or_default();
            let kept = doc.get("properties").and_then(|p| p.get(part.list)).and_then(Value::as_array);
            if kept
                .into_iter()
                .flatten()
                .any(|k| k["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)))
            {
                continue;
            }
            let key = format!("{}/{}/{name}", id.key(), part.list).to_lowercase();
            if let Some(edge) = cx.state.used_by(&key, id.key()) {
                return Err(in_use(StatusCode::BAD_REQUEST, part.in_use, name, edge));
            }
        }
    }
    Ok(())
}

/// `PATCH` changes tags; of a record set, what it mentions.
pub fn patch(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let change = body(cx)?;
    let old = cx.state.get(id.key()).cloned().ok_or_else(|| missing_root(id))?;
    preconditions(cx, Some(&old))?;
    if kinds::is_record_set(old.kind) {
        let mut doc = old.doc.clone();
        if let Some(Value::Object(p)) = change.get("properties") {
            kinds::merge_record(kinds::properties(&mut doc), p);
        }
        return write(cx, old.kind, &old.id, doc, None);
    }
    if let Some(doc) = old.kind.rules.patched(&old, &change) {
        return write(cx, old.kind, &old.id, doc, None);
    }
    if old.kind.rules.patches() {
        let mut doc = Value::Object(old.doc.clone());
        merge(&mut doc, &Value::Object(change));
        let Value::Object(doc) = doc else { return Err(super::not_allowed(cx)) };
        return write(cx, old.kind, &old.id, doc, None);
    }
    idle(cx, Some(&old))?;
    let mut record = (*old).clone();
    if let Some(tags) = change.get("tags") {
        record.doc.insert("tags".into(), tags.clone());
    }
    cx.state.bump(id.key());
    record.etag = cx.state.guid(id.key(), "etag");
    record.changed_by = cx.caller.object_id.as_str().into();
    record.changed = cx.now;
    cx.state.replace(record.clone());
    Ok(answer(cx, &record, StatusCode::OK, show(cx.state, &record, &cx.version)))
}

/// RFC 7396, but that lists and tags are replaced as wholes.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(a), Value::Object(b)) => {
            for (k, v) in b {
                match v {
                    Value::Null => {
                        a.remove(k);
                    }
                    _ if k == "tags" => {
                        a.insert(k.clone(), v.clone());
                    }
                    _ => merge(a.entry(k.clone()).or_insert(Value::Null), v),
                }
            }
        }
        (a, b) => *a = b.clone(),
    }
}

fn begin_delete(
    cx: &mut Cx<'_>,
    record: &Record,
    flow: Flow,
    effect: Effect,
    verb: &str,
    part: Option<(String, String)>,
) -> Reply {
    let place = record.location().unwrap_or("global").to_owned();
    let name = format!("Delete{verb}Operation");
    let (token, status, result) = operations::begin(cx, record.kind, &record.id, &place, flow, effect, &name);
    let mut busy = record.clone();
    busy.phase = if part.is_some() { Phase::Updating } else { Phase::Deleting };
    busy.busy = Some(Box::new((token, part)));
    cx.state.replace(busy);
    let mut reply =
        Reply::empty(StatusCode::ACCEPTED).with("azure-asyncoperation", &status).with("location", &result);
    if let Some((name, value)) = cx.profile.retry_after(flow.retry) {
        reply = reply.with(name, &value);
    }
    reply
}

/// Deleting a machine ends what else is done to it.
fn preempted(cx: &mut Cx<'_>, record: std::sync::Arc<Record>) -> std::sync::Arc<Record> {
    let Some((op, _)) = record.busy.as_deref().cloned().filter(|_| record.kind.path == kinds::MACHINES)
    else {
        return record;
    };
    if record.phase == Phase::Deleting {
        return record;
    }
    let why = ErrorDetail::new(
        "OperationPreempted",
        "Operation execution has been preempted by a more recent operation.",
    );
    cx.state.fail(&op, record.id.key(), why, cx.now);
    cx.state.get(record.id.key()).cloned().unwrap_or(record)
}

pub fn delete(cx: &mut Cx<'_>, kind: &'static Kind, id: &ResourceId) -> Result<Reply, Fault> {
    let Some(record) = cx.state.get(id.key()).cloned() else {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    };
    preconditions(cx, Some(&record))?;
    kind.rules.may_delete(cx.state, &record)?;
    let record = preempted(cx, record);
    idle(cx, Some(&record))?;
    if let Some(edge) = cx.state.used_by(id.key(), id.key()).filter(|_| !kind.in_use.is_empty()) {
        return Err(in_use(StatusCode::BAD_REQUEST, kind.in_use, id.as_str(), edge));
    }
    if kind.delete.how == How::Sync {
        cx.state.remove(id.key(), cx.now);
        let reply = Reply::empty(StatusCode::OK);
        return Ok(match kind.namespace {
            "Microsoft.Storage" => reply.with("content-type", "text/plain; charset=utf-8"),
            _ => reply,
        });
    }
    let effect = Effect::Remove(id.key().clone());
    Ok(begin_delete(cx, &record, kind.delete, effect, kind.verb, None))
}

pub fn delete_part(
    cx: &mut Cx<'_>,
    kind: &'static Kind,
    part: &'static Part,
    id: &ResourceId,
) -> Result<Reply, Fault> {
    if part.verb.is_empty() {
        return Err(super::not_allowed(cx));
    }
    let root = id.root();
    let record = cx.state.get(root.key()).cloned();
    let Some(record) = record.filter(|r| r.element(part.list, id.name()).is_some()) else {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    };
    preconditions(cx, Some(&record))?;
    idle(cx, Some(&record))?;
    if let Some(edge) = cx.state.used_by(id.key(), root.key()).filter(|e| is_within(&e.target, id.key())) {
        let code = if part.in_use.is_empty() { kind.in_use } else { part.in_use };
        return Err(in_use(StatusCode::BAD_REQUEST, code, id.as_str(), edge));
    }
    let flow = if part.delete.how == How::Sync { kind.delete } else { part.delete };
    let effect = Effect::RemovePart(root.key().clone(), part.list.into(), id.name().into());
    Ok(begin_delete(cx, &record, flow, effect, part.verb, Some((part.list.to_owned(), id.name().to_owned()))))
}
