//! What machines ask: the metadata service, over plain HTTP.
//!
//! In Azure one address answers every machine and knows who asks by where from. Here a caller says which machine it
//! is: by the path (`/vm/{vmId}/metadata/...`), by a header (`x-zaffre-vm`), or, for clients that know only
//! `http://169.254.169.254`, by using this listener as their HTTP proxy with the machine's id as the proxy's user.

use crate::entra::{self, Asked};
use crate::machines::{find, vm_id};
use crate::state::{Record, State};
use crate::wire::{Call, Reply};
use crate::world::World;
use base64::Engine;
use http::StatusCode;
use serde_json::{Value, json};

fn refuse(status: StatusCode, why: &str) -> Reply {
    Reply::json(status, json!({"error": "invalid_request", "error_description": why}))
}

/// The machine that asks, as it calls itself.
pub fn machine_of(call: &Call) -> Option<String> {
    who(call).0
}

/// Who asks, and for what path.
fn who(call: &Call) -> (Option<String>, String) {
    if let Some(rest) = call.path.strip_prefix("/vm/") {
        let (machine, path) = rest.split_once('/').unwrap_or((rest, ""));
        return (Some(machine.to_owned()), format!("/{path}"));
    }
    let header = call.header("x-zaffre-vm").map(str::to_owned);
    let proxied = || {
        let basic = call.header("proxy-authorization")?.strip_prefix("Basic ")?;
        let text = base64::engine::general_purpose::STANDARD.decode(basic.trim()).ok()?;
        Some(String::from_utf8(text).ok()?.split(':').next()?.to_owned())
    };
    (header.or_else(proxied), call.path.clone())
}

pub fn serve(world: &World, call: &Call) -> Reply {
    let (machine, path) = who(call);
    let path = path.trim_end_matches('/').to_ascii_lowercase();
    let app_service = path == "/msi/token";
    if app_service {
        if call.header("x-identity-header").is_none() {
            return refuse(StatusCode::BAD_REQUEST, "Required X-IDENTITY-HEADER header not specified");
        }
    } else if !call.header("metadata").is_some_and(|m| m.eq_ignore_ascii_case("true")) {
        return refuse(StatusCode::BAD_REQUEST, "Required metadata header not specified");
    }
    if call.method != http::Method::GET {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered");
    }
    if call.header("x-forwarded-for").is_some() {
        return refuse(StatusCode::BAD_REQUEST, "Requests must not be forwarded");
    }
    let Some(version) = call.query("api-version").filter(|v| !v.is_empty()) else {
        return refuse(StatusCode::BAD_REQUEST, "Bad request. api-version was not specified in the request");
    };
    if version.parse::<arm::ApiVersion>().is_err() && version != "latest" {
        return refuse(
            StatusCode::BAD_REQUEST,
            "Bad request. api-version is invalid or was not specified in the request",
        );
    }
    world.settle_now();
    world.look(|state| {
        let found = machine.as_deref().and_then(|m| find(state, m));
        let Some(record) = found else {
            return refuse(
                StatusCode::NOT_FOUND,
                "The machine that asks is not known: name it by path, header or proxy user",
            );
        };
        answer(world, state, record, call, &path)
    })
}

fn answer(world: &World, state: &State, record: &Record, call: &Call, path: &str) -> Reply {
    match path {
        "/metadata/identity/oauth2/token" | "/msi/token" => {
            let app_service = path == "/msi/token";
            if app_service
                && call.header("x-identity-header") != Some(&entra::app_service_secret(state, vm_id(record)))
            {
                return Reply::json(
                    StatusCode::UNAUTHORIZED,
                    json!({"statusCode": 401, "message": "The X-IDENTITY-HEADER is wrong."}),
                );
            }
            let q = |n: &str| call.query(n).filter(|v| !v.is_empty());
            let asked = Asked {
                resource: q("resource").unwrap_or_default(),
                client_id: q("client_id").or_else(|| q("clientid")),
                object_id: q("object_id").or_else(|| q("principal_id")),
                resource_id: q("msi_res_id").or_else(|| q("mi_res_id")),
            };
            match entra::token_for_machine(state, &world.keys, record, &asked, world.now()) {
                Ok(body) => Reply::ok(body),
                Err(why) => Reply::json(StatusCode::BAD_REQUEST, why),
            }
        }
        "/metadata/versions" => {
            Reply::ok(json!({"apiVersions": ["2018-02-01", "2019-08-01", "2021-02-01", "2023-07-01"]}))
        }
        "/metadata/identity/info" => Reply::ok(json!({"tenantId": state.tenant})),
        p => match p.strip_prefix("/metadata/instance") {
            Some(rest) => instance(state, record, call, rest),
            None => Reply::json(StatusCode::NOT_FOUND, json!({"error": "Not found"})),
        },
    }
}

/// The whole of it, or a part by path; a leaf can be had as text.
fn instance(state: &State, record: &Record, call: &Call, rest: &str) -> Reply {
    let whole = entra::metadata(state, record);
    let found = rest.split('/').filter(|s| !s.is_empty()).try_fold(&whole, |v, part| match v {
        Value::Object(m) => m.iter().find(|(k, _)| k.eq_ignore_ascii_case(part)).map(|(_, v)| v),
        Value::Array(l) => l.get(part.parse::<usize>().ok()?),
        _ => None,
    });
    match found {
        None => Reply::json(StatusCode::NOT_FOUND, json!({"error": "Not found"})),
        Some(Value::String(s)) if call.query("format").is_some_and(|f| f.eq_ignore_ascii_case("text")) => {
            let mut reply = Reply::empty(StatusCode::OK).with("content-type", "text/plain");
            reply.raw = Some(s.clone().into());
            reply
        }
        Some(v) => Reply::ok(v.clone()),
    }
}
