//! What the providers of data planes answer for beside their resources: names, keys, deleted vaults, and children
//! that are views of the data plane rather than records.

mod registry;
mod storage;
mod vault;

use crate::gateway::Cx;
use crate::state::State;
use crate::target::Target;
use crate::wire::{Fault, Reply};
use arm::{ResourceId, code};
use http::{Method, StatusCode};

/// Namespace and lower-case path of the type a request names.
fn named(target: &Target) -> Option<(String, String)> {
    let (ns, path) = match (&target.of, target.rest.as_slice()) {
        (_, [p, ns, word]) if p.eq_ignore_ascii_case("providers") => (ns.to_lowercase(), word.to_lowercase()),
        (Some(id), rest) if rest.len() <= 1 => {
            let kind = id.resource_type();
            let mut path = kind.path().to_lowercase();
            if let Some(w) = rest.first() {
                path = format!("{path}/{}", w.to_lowercase());
            }
            (id.namespace()?.to_lowercase(), path)
        }
        _ => return None,
    };
    Some((ns, path))
}

/// Whether a type is one of these: no row of the table says anything about it.
pub fn is_own(target: &Target) -> bool {
    let Some((ns, path)) = named(target) else { return false };
    match ns.as_str() {
        "microsoft.keyvault" => vault::is_own(&path),
        "microsoft.storage" => storage::is_own(&path),
        "microsoft.containerregistry" => registry::is_own(&path),
        _ => false,
    }
}

/// The resource they belong to must be there.
pub fn existence(state: &State, method: &Method, id: &ResourceId) -> Result<(), Fault> {
    // Subscription-wide ones belong to no resource.
    if id.namespace().is_none() || id.group().is_none() {
        return Ok(());
    }
    let root = id.root();
    if state.get(root.key()).is_some() {
        return Ok(());
    }
    if matches!(*method, Method::PUT | Method::DELETE) && id.pairs().len() > 1 {
        return Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::PARENT_RESOURCE_NOT_FOUND,
            format!(
                "Failed to perform '{}' on resource(s) of type '{}', because the parent resource '{root}' could not be found.",
                method.as_str().to_lowercase(),
                id.resource_type().path()
            ),
        ));
    }
    Err(Fault::gateway(
        StatusCode::NOT_FOUND,
        code::RESOURCE_NOT_FOUND,
        format!(
            "The Resource '{}/{}' under resource group '{}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
            root.resource_type(),
            root.name(),
            root.group().unwrap_or_default()
        ),
    ))
}

/// Answers, if the request is one of these.
pub fn serve(cx: &mut Cx<'_>, target: &Target) -> Option<Result<Reply, Fault>> {
    if !is_own(target) {
        return None;
    }
    let (ns, path) = named(target)?;
    let of = target.of.clone();
    Some(match ns.as_str() {
        "microsoft.keyvault" => vault::serve(cx, of.as_ref(), &path),
        "microsoft.storage" => storage::serve(cx, of.as_ref(), &path),
        _ => registry::serve(cx, of.as_ref(), &path),
    })
}

/// The name that a request for availability asks about.
fn asked_name(cx: &Cx<'_>) -> Result<String, Fault> {
    let body = cx.call.json()?.unwrap_or_default();
    let name = body["name"].as_str().filter(|n| !n.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| Fault::plain(StatusCode::BAD_REQUEST, "BadRequest", "The name to check is required."))
}

fn not_found(id: &ResourceId) -> Fault {
    Fault::plain(StatusCode::NOT_FOUND, code::NOT_FOUND, format!("Resource {id} not found."))
}
