//! Whether a call may do what it asks for.

use crate::entra::Caller;
use crate::planes::blob::sas::{self, Sas};
use crate::planes::blob::{Container, Deed, Place, Refusal, blobs, container_key, containers, keys, service};
use crate::planes::{Ask, Cx, Datum};
use crate::state::{Record, State};
use http::StatusCode;
use serde_json::Value;

/// By what right.
#[derive(Clone, Debug)]
pub enum Who {
    Anonymous,
    Key,
    Sas,
    Bearer(Caller),
}

const AUDIENCES: [&str; 1] = ["https://storage.azure.com"];

fn refused(code: &'static str, message: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, code, message)
}

fn unauthenticated() -> Refusal {
    refused(
        "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    )
}

fn flag(record: &Record, name: &str, absent: bool) -> bool {
    record.property(name).and_then(Value::as_bool).unwrap_or(absent)
}

pub fn admit(
    state: &State,
    cx: &mut Cx<'_>,
    ask: &Ask,
    record: &Record,
    account: &str,
    at: &Place,
    deed: Deed,
) -> Result<Who, Refusal> {
    let need = needed(state, account, at, deed);
    let service = format!("{}/blobServices/default", record.id);
    let scope = match (at.container.as_str(), at.blob.as_str()) {
        ("", _) => service,
        (c, "") => format!("{service}/containers/{c}"),
        (c, b) => format!("{service}/containers/{c}/blobs/{b}"),
    };
    let header = ask.call.header("authorization").unwrap_or_default();
    if let Some(given) = header.strip_prefix("SharedKey ") {
        cx.note(need.action, &scope, None);
        if !flag(record, "allowSharedKeyAccess", true) {
            return Err(refused(
                "KeyBasedAuthenticationNotPermitted",
                "Key based authentication is not permitted on this storage account.",
            ));
        }
        let (name, signature) = given.split_once(':').ok_or_else(unauthenticated)?;
        let text = sas::shared_key_text(ask, account);
        let fits = keys(state, account).is_some_and(|k| {
            k.keys
                .iter()
                .filter_map(|key| sas::signature(key.expose(), &text))
                .any(|s| sas::same(&s, signature))
        });
        if name != account || !fits {
            return Err(unauthenticated());
        }
        cx.note(need.action, &scope, Some(format!("{}/listKeys", record.id)));
        return Ok(Who::Key);
    }
    if header.get(..7).is_some_and(|h| h.eq_ignore_ascii_case("Bearer ")) {
        let own = format!("https://{}", ask.host);
        let audiences = [AUDIENCES[0], own.as_str()];
        let Some(caller) = cx.bearer(state, ask, &audiences) else {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "InvalidAuthenticationInfo", "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.").header("www-authenticate", challenge(state)));
        };
        if !need.bearer {
            return Err(refused(
                "AuthorizationPermissionMismatch",
                "This request is not authorized to perform this operation using this permission.",
            ));
        }
        if cx.allowed(state, &caller, need.action, &scope, need.data) {
            return Ok(Who::Bearer(caller));
        }
        return Err(refused(
            "AuthorizationPermissionMismatch",
            "This request is not authorized to perform this operation using this permission.",
        ));
    }
    if !header.is_empty() {
        return Err(Refusal::bad(
            "InvalidAuthenticationInfo",
            "Authentication information is not given in the correct format. Check the value of Authorization header.",
        ));
    }
    if let Some(s) = Sas::of(ask) {
        cx.note(need.action, &scope, None);
        by_signature(state, cx, record, account, at, deed, &s, &need, &scope)?;
        return Ok(Who::Sas);
    }
    anonymous(state, ask, record, account, at, deed)?;
    cx.note(need.action, &scope, Some("public access".to_owned()));
    Ok(Who::Anonymous)
}

fn challenge(state: &State) -> String {
    format!(
        "Bearer authorization_uri=https://login.microsoftonline.com/{}/oauth2/authorize resource_id=https://storage.azure.com",
        state.tenant
    )
}

fn container<'a>(state: &'a State, account: &str, name: &str) -> Option<&'a Container> {
    match state.data.get(&container_key(account, name)) {
        Some(Datum::Container(c)) => Some(c),
        _ => None,
    }
}

fn anonymous(
    state: &State,
    ask: &Ask,
    record: &Record,
    account: &str,
    at: &Place,
    deed: Deed,
) -> Result<(), Refusal> {
    let reads_blob = matches!(deed, Deed::Blob(blobs::Deed::Get | blobs::Deed::Head | blobs::Deed::GetTags));
    let lists = matches!(deed, Deed::Container(containers::Deed::List | containers::Deed::Get));
    let public = container(state, account, &at.container).and_then(|c| c.public.as_deref());
    let open = match public {
        Some("container") => reads_blob || lists,
        Some("blob") => reads_blob,
        _ => false,
    };
    if open && flag(record, "allowBlobPublicAccess", false) {
        return Ok(());
    }
    if ask.call.header("x-ms-version").is_some_and(|v| v >= "2019-12-12") {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "NoAuthenticationInformation", "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.").header("www-authenticate", challenge(state)));
    }
    if !flag(record, "allowBlobPublicAccess", false) {
        return Err(Refusal::new(
            StatusCode::CONFLICT,
            "PublicAccessNotPermitted",
            "Public access is not permitted on this storage account.",
        ));
    }
    Err(Refusal::new(StatusCode::NOT_FOUND, "ResourceNotFound", "The specified resource does not exist."))
}

/// What a deed needs: an action, whether it is one on data, whether tokens may do it at all, and the letters of a
/// signature of which one suffices.
pub struct Need {
    pub action: &'static str,
    pub data: bool,
    pub bearer: bool,
    pub letters: &'static str,
    /// For signatures of an account: `s`, `c` or `o`.
    pub level: char,
}

const fn need(action: &'static str, data: bool, letters: &'static str, level: char) -> Need {
    Need { action, data, bearer: true, letters, level }
}

fn needed(state: &State, account: &str, at: &Place, deed: Deed) -> Need {
    match deed {
        Deed::Account(d) => match d {
            service::Deed::List => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/read", false, "l", 's')
            }
            service::Deed::Get | service::Deed::Info | service::Deed::Stats => {
                need("Microsoft.Storage/storageAccounts/blobServices/read", false, "r", 's')
            }
            service::Deed::Set => {
                need("Microsoft.Storage/storageAccounts/blobServices/write", false, "w", 's')
            }
            service::Deed::DelegationKey => need(
                "Microsoft.Storage/storageAccounts/blobServices/generateUserDelegationKey/action",
                false,
                "",
                's',
            ),
        },
        Deed::Container(d) => match d {
            containers::Deed::Create => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/write", false, "cw", 'c')
            }
            containers::Deed::Get => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/read", false, "r", 'c')
            }
            containers::Deed::Delete => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/delete", false, "d", 'c')
            }
            containers::Deed::SetMetadata => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/write", false, "w", 'c')
            }
            containers::Deed::GetAcl => need(
                "Microsoft.Storage/storageAccounts/blobServices/containers/getAcl/action",
                false,
                "",
                'c',
            ),
            containers::Deed::SetAcl => need(
                "Microsoft.Storage/storageAccounts/blobServices/containers/setAcl/action",
                false,
                "",
                'c',
            ),
            containers::Deed::List => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read", true, "l", 'c')
            }
        },
        Deed::Blob(d) => match d {
            blobs::Deed::Get | blobs::Deed::Head | blobs::Deed::GetBlocks => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read", true, "r", 'o')
            }
            blobs::Deed::GetTags => need(
                "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/tags/read",
                true,
                "t",
                'o',
            ),
            blobs::Deed::SetTags => need(
                "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/tags/write",
                true,
                "t",
                'o',
            ),
            blobs::Deed::Delete => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete", true, "d", 'o')
            }
            blobs::Deed::Put | blobs::Deed::PutBlocks | blobs::Deed::PutBlock => {
                let exists = state.data.get(&super::blob_key(account, &at.container, &at.blob)).is_some();
                // What is not there yet may be created with less.
                let letters = if exists && d != blobs::Deed::PutBlock { "w" } else { "wc" };
                need(
                    "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write",
                    true,
                    letters,
                    'o',
                )
            }
            _ => {
                need("Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write", true, "w", 'o')
            }
        },
    }
}

#[allow(clippy::too_many_arguments, reason = "everything that a signature is checked against")]
fn by_signature(
    state: &State,
    cx: &mut Cx<'_>,
    record: &Record,
    account: &str,
    at: &Place,
    deed: Deed,
    s: &Sas<'_>,
    need: &Need,
    scope: &str,
) -> Result<(), Refusal> {
    let signature = s.get("sig");
    let account_keys = keys(state, account).ok_or_else(unauthenticated)?;
    let by_account = |text: &str| {
        account_keys
            .keys
            .iter()
            .filter_map(|k| sas::signature(k.expose(), text))
            .any(|known| sas::same(&known, signature))
    };
    let mismatch = || {
        refused(
            "AuthorizationPermissionMismatch",
            "This request is not authorized to perform this operation using this permission.",
        )
    };
    let (mut start, mut expiry, mut permissions) =
        (s.get("st").to_owned(), s.get("se").to_owned(), s.get("sp").to_owned());
    let mut granted = format!("{}/listKeys", record.id);
    if s.is_account() {
        if !by_account(&s.account_text(account)) {
            return Err(unauthenticated());
        }
        if !s.get("ss").contains('b') {
            return Err(refused(
                "AuthorizationServiceMismatch",
                "This request is not authorized to perform this operation using this service.",
            ));
        }
        if !s.get("srt").contains(need.level) {
            return Err(refused(
                "AuthorizationResourceTypeMismatch",
                "This request is not authorized to perform this operation using this resource type.",
            ));
        }
    } else {
        let resource = match s.get("sr") {
            "c" => format!("/blob/{account}/{}", at.container),
            "b" => format!("/blob/{account}/{}/{}", at.container, at.blob),
            _ => return Err(unauthenticated()),
        };
        // A signature for one blob says nothing about its container.
        let within = matches!(deed, Deed::Blob(_))
            || (s.get("sr") == "c" && matches!(deed, Deed::Container(containers::Deed::List)));
        if s.is_delegated() {
            let fields = ["skoid", "sktid", "skt", "ske", "sks", "skv"].map(|n| s.get(n));
            let fits = account_keys.keys.iter().any(|k| {
                sas::delegation_key(k.expose(), &fields).is_some_and(|key| {
                    s.delegated_texts(&resource)
                        .iter()
                        .filter_map(|t| sas::signature(&key, t))
                        .any(|known| sas::same(&known, signature))
                })
            });
            let unused = ["srh", "srq", "saoid", "suoid", "sduoid"].iter().all(|n| s.get(n).is_empty());
            if !fits || !unused || s.get("sks") != "b" {
                return Err(unauthenticated());
            }
            let in_time = |name: &str| sas::time(s.get(name));
            if in_time("skt").is_none_or(|t| t > cx.now) || in_time("ske").is_none_or(|t| t <= cx.now) {
                return Err(unauthenticated());
            }
            let oid = s.get("skoid");
            cx.seen.principal = Some(oid.to_owned());
            // The delegation is worth what its giver may do now.
            match state.assignments.allowed(oid, need.action, &scope.to_lowercase(), need.data) {
                Some(a) => granted = a.id.to_string(),
                None => return Err(mismatch()),
            }
        } else {
            if !by_account(&s.service_text(&resource)) {
                return Err(unauthenticated());
            }
            if !s.get("si").is_empty() {
                let policy = container(state, account, &at.container)
                    .and_then(|c| c.policies.iter().find(|p| p.id == s.get("si")))
                    .ok_or_else(unauthenticated)?;
                for (own, stored) in [
                    (&mut start, &policy.start),
                    (&mut expiry, &policy.expiry),
                    (&mut permissions, &policy.permission),
                ] {
                    if own.is_empty() {
                        own.clone_from(stored);
                    }
                }
            }
        }
        if !within {
            return Err(refused(
                "AuthorizationFailure",
                "This request is not authorized to perform this operation.",
            ));
        }
    }
    if !s.is_delegated() && !flag(record, "allowSharedKeyAccess", true) {
        return Err(refused(
            "KeyBasedAuthenticationNotPermitted",
            "Key based authentication is not permitted on this storage account.",
        ));
    }
    if sas::time(&expiry).is_none_or(|t| t <= cx.now)
        || (!start.is_empty() && sas::time(&start).is_none_or(|t| t > cx.now))
    {
        return Err(unauthenticated());
    }
    let protocol = s.get("spr");
    if !protocol.is_empty() && !protocol.split(',').any(|p| p == "https") {
        return Err(refused(
            "AuthorizationProtocolMismatch",
            "This request is not authorized to perform this operation using this protocol.",
        ));
    }
    if !s.get("sip").is_empty() && !s.get("sip").starts_with("127.") && !s.get("sip").starts_with("0.0.0.0") {
        return Err(refused(
            "AuthorizationSourceIPMismatch",
            "This request is not authorized to perform this operation using this source IP.",
        ));
    }
    if !need.letters.chars().any(|l| permissions.contains(l)) {
        return Err(mismatch());
    }
    cx.note(need.action, scope, Some(granted));
    Ok(())
}
