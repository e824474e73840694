//! The front door of Resource Manager: ordered stages, each a function of the state and the request.
//!
//! authentication → subscription → api-version → throttle → RBAC → provider registration → existence → locks →
//! dispatch → headers. The order decides which error a client sees when several apply, so it is written once, in
//! [`handle`], and tested. A refused request leaves no trace: it worked on a copy of the state.

mod action;
mod authorization;
mod checks;
mod deployments;
mod groups;
mod jsonc;
mod lists;
mod machines;
mod operations;
mod own;
mod providers;
mod stages;
mod template;
mod throttle;
mod tree;
mod views;
mod what_if;

pub use groups::LOCATIONS;
pub use providers::NAMESPACES;
pub use throttle::{Buckets, Limits};

use crate::entra::Caller;
use crate::kinds;
use crate::profile::Pace;
use crate::provider::{Drain, Forward, Providers};
use crate::state::State;
use crate::target::Target;
use crate::trouble::{Due, Trouble};
use crate::wire::{Call, Fault, Reply};
use arm::{ApiVersion, ResourceId};
use http::{Method, StatusCode};
use jiff::Timestamp;

/// What a request is worked on with.
pub struct Cx<'a> {
    pub state: &'a mut State,
    pub call: &'a Call,
    pub caller: &'a Caller,
    pub version: ApiVersion,
    pub now: Timestamp,
    pub profile: Pace,
    pub proxied: &'a Providers,
    /// What is to go wrong with it.
    pub due: &'a Due,
    /// What is to go wrong with requests that it makes; `None` if nobody is to know of them.
    pub trouble: Option<&'a Trouble>,
    /// A group whose deletion waits for providers elsewhere.
    pub drain: &'a mut Option<Drain>,
}

/// What a request meets beside the state.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub profile: Pace,
    pub proxied: &'a Providers,
    /// What is to go wrong with this request.
    pub due: &'a Due,
    /// With those that it makes in turn.
    pub trouble: &'a Trouble,
}

/// What comes out of the gate.
pub enum Answer {
    Reply(Reply),
    /// A provider elsewhere answers.
    Forward(Box<Forward>),
    /// Answered, and there is something to delete elsewhere.
    Drain(Reply, Drain),
}

/// What the journal keeps of a request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub principal: Option<String>,
    pub action: Option<String>,
    pub scope: Option<String>,
    /// The assignment that allowed it.
    pub granted_by: Option<String>,
    /// The fault rules that fired.
    pub fault: Option<String>,
}

/// The full type that a path is about, and the right that it needs; for those who judge requests from outside.
pub fn about(method: &Method, path: &str) -> (String, Option<String>) {
    let Some(target) = Target::parse(path) else { return (String::new(), None) };
    let group = || {
        let id = target.of.as_ref().filter(|id| id.group().is_some() && target.rest.is_empty())?;
        Some(id.resource_type().as_str().to_owned())
    };
    let kind = stages::type_of(&target).or_else(group).unwrap_or_default();
    (kind, action::needed(method, &target).map(|(action, _)| action))
}

/// The whole pipeline after authentication.
pub fn handle(
    state: &mut State,
    buckets: &mut Buckets,
    call: &Call,
    caller: Result<Caller, Fault>,
    now: Timestamp,
    rules: &Rules<'_>,
) -> (Answer, Seen) {
    state.settle(now);
    let mut seen = Seen::default();
    let mut next = state.clone();
    let mut remaining = None;
    let result = caller.and_then(|caller| {
        seen.principal = Some(caller.object_id.clone());
        run(&mut next, buckets, call, &caller, now, rules, &mut seen, &mut remaining)
    });
    let answer = match result {
        Ok(Answer::Forward(f)) => return (Answer::Forward(f), seen),
        Ok(answer) => {
            *state = next;
            answer
        }
        Err(fault) => Answer::Reply(fault.reply()),
    };
    let headers = |reply| throttle::headers(reply, remaining.clone());
    let answer = match answer {
        Answer::Reply(reply) => Answer::Reply(headers(reply)),
        Answer::Drain(reply, drain) => Answer::Drain(headers(reply), drain),
        forward => forward,
    };
    (answer, seen)
}

#[allow(clippy::too_many_arguments, reason = "the pipeline's one entry, called once")]
fn run(
    state: &mut State,
    buckets: &mut Buckets,
    call: &Call,
    caller: &Caller,
    now: Timestamp,
    rules: &Rules<'_>,
    seen: &mut Seen,
    remaining: &mut Option<throttle::Left>,
) -> Result<Answer, Fault> {
    let target = Target::parse(&call.path).ok_or_else(|| {
        Fault::gateway(
            StatusCode::BAD_REQUEST,
            "InvalidRequestUri",
            format!("The request URI '{}' is invalid.", call.path),
        )
    })?;
    stages::subscription(state, &target)?;
    let version = stages::version(call, &target, rules.proxied)?;
    let kind = stages::type_of(&target).unwrap_or_default();
    let subscription = target.of.as_ref().and_then(ResourceId::subscription).unwrap_or_default();
    let about = (subscription, kind.as_str(), call.path.as_str());
    *remaining = Some(buckets.take(caller, &call.method, about, now, rules.profile)?);
    let needed = action::needed(&call.method, &target);
    if let Some((action, scope)) = &needed {
        seen.action = Some(action.clone());
        seen.scope = Some(scope.clone());
        seen.granted_by = Some(stages::authorize(state, caller, action, scope)?);
    }
    stages::registration(state, &call.method, &target)?;
    let elsewhere = stages::namespace(&target).filter(|ns| rules.proxied.find(ns).is_some());
    stages::existence(state, &call.method, &target, elsewhere.is_some())?;
    stages::locks(state, &call.method, &target)?;
    if target.rest.is_empty()
        && stages::namespace(&target).is_some_and(|n| n.eq_ignore_ascii_case("Microsoft.Compute"))
    {
        stages::assigned_identities(state, call, caller, now)?;
    }
    if let Some(ns) = elsewhere {
        stages::assigned_identities(state, call, caller, now)?;
        let id = target.of.as_ref();
        let whole = id.filter(|_| target.rest.is_empty() && operations::token(&target).is_none());
        let subscription = id.and_then(ResourceId::subscription);
        return Ok(Answer::Forward(Box::new(Forward::new(
            state,
            call,
            caller,
            ns,
            whole,
            subscription,
            now,
        ))));
    }
    let mut drain = None;
    let cx = Cx {
        state,
        call,
        caller,
        version,
        now,
        profile: rules.profile,
        proxied: rules.proxied,
        due: rules.due,
        trouble: Some(rules.trouble),
        drain: &mut drain,
    };
    let reply = dispatch(cx, &target)?;
    Ok(match drain {
        Some(drain) => Answer::Drain(reply, drain),
        None => Answer::Reply(reply),
    })
}

fn not_allowed(cx: &Cx<'_>) -> Fault {
    let message =
        format!("The http method '{}' is not supported for a resource collection or type.", cx.call.method);
    Fault::gateway(StatusCode::METHOD_NOT_ALLOWED, "HttpMethodNotSupported", message)
}

fn dispatch(mut cx: Cx<'_>, target: &Target) -> Result<Reply, Fault> {
    let words = target.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let method = cx.call.method.clone();
    if let Some(token) = operations::token(target) {
        return operations::status(&mut cx, &token);
    }
    if let Some(result) = own::serve(&mut cx, target) {
        return result;
    }
    if let Some(answer) = machines::serve(&mut cx, target) {
        return answer;
    }
    match (&target.of, words.as_slice()) {
        (None, ["subscriptions"]) if method == Method::GET => Ok(lists::subscriptions(&cx)),
        (None, ["tenants"]) if method == Method::GET => Ok(lists::tenants(&cx)),
        (None, ["providers"]) if method == Method::GET => Ok(providers::list(&cx, None)),
        (None, ["providers", ns]) if method == Method::GET => providers::get(&cx, None, ns),
        (scope, ["providers", "microsoft.authorization", kind]) => {
            authorization::collection(&cx, scope.as_ref(), kind)
        }
        (Some(id), []) => resource(cx, id),
        (Some(id), [word]) if id.namespace().is_some() => child(cx, id, word),
        (Some(id), ["resourcegroups"]) if method == Method::GET => Ok(groups::list(&cx, id)),
        (Some(id), ["locations"]) if method == Method::GET => Ok(lists::locations(id)),
        (Some(id), ["resources"]) if method == Method::GET => lists::resources(&cx, id),
        // At their old address, where all clients ask.
        (Some(group), ["deployments", name, "operations"]) if method == Method::GET => {
            match ResourceId::parse(&format!("{group}/providers/{}/{name}", kinds::DEPLOYMENTS)) {
                Ok(id) => deployments::steps(&cx, &id),
                Err(_) => Err(not_allowed(&cx)),
            }
        }
        (Some(id), ["providers"]) if method == Method::GET => Ok(providers::list(&cx, Some(id))),
        (Some(id), ["providers", ns]) if method == Method::GET => providers::get(&cx, Some(id), ns),
        (Some(id), ["providers", ns, "register"]) if method == Method::POST => {
            providers::register(&mut cx, id, ns)
        }
        (Some(id), ["providers", ns, "unregister"]) if method == Method::POST => {
            providers::unregister(&mut cx, id, ns)
        }
        (Some(id), ["providers", ns, kind]) if method == Method::GET => {
            lists::of_type(&cx, id, &format!("{ns}/{kind}"))
        }
        _ => Err(not_allowed(&cx)),
    }
}

/// A path that names one thing.
fn resource(mut cx: Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let full = id.resource_type();
    let lower = full.as_str().to_lowercase();
    match lower.as_str() {
        "microsoft.resources/subscriptions" if cx.call.method == Method::GET => {
            return lists::subscription(&cx, id);
        }
        "microsoft.resources/resourcegroups" => return groups::serve(&mut cx, id),
        "microsoft.resources/deployments" => return deployments::serve(&mut cx, id),
        "microsoft.resources/tags" => return groups::tags(&mut cx, id),
        "microsoft.authorization/roleassignments" => return authorization::assignment(&mut cx, id),
        "microsoft.authorization/roledefinitions" => return authorization::definition(&mut cx, id),
        "microsoft.authorization/locks" => return authorization::lock(&mut cx, id),
        _ => {}
    }
    let Some((kind, part)) = kinds::resolve(full.as_str()) else { return Err(not_allowed(&cx)) };
    match (cx.call.method.as_str(), part) {
        ("GET", None) => tree::get(&cx, kind, id),
        ("HEAD", None) => tree::head(&cx, id),
        ("PUT", None) => tree::put(&mut cx, kind, id),
        ("PATCH", None) => tree::patch(&mut cx, id),
        ("DELETE", None) => tree::delete(&mut cx, kind, id),
        ("GET", Some(part)) => tree::get_part(&cx, part, id),
        ("PUT", Some(part)) => tree::put_part(&mut cx, kind, part, id),
        ("DELETE", Some(part)) => tree::delete_part(&mut cx, kind, part, id),
        _ => Err(not_allowed(&cx)),
    }
}

/// A word after a resource: a collection of children, or an action.
fn child(mut cx: Cx<'_>, id: &ResourceId, word: &str) -> Result<Reply, Fault> {
    if id.resource_type().is(kinds::DEPLOYMENTS) {
        match (cx.call.method.as_str(), word) {
            ("POST", "validate") => return deployments::validate(&cx, id),
            ("POST", "whatif") => return what_if::serve(&mut cx, id),
            ("GET", "operations") => return deployments::steps(&cx, id),
            _ => {}
        }
    }
    if cx.call.method != Method::GET {
        return Err(not_allowed(&cx));
    }
    lists::children(&cx, id, word)
}
