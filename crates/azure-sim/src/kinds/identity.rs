//! User-assigned identities and their federated credentials.

use crate::kinds::{BASE, Etag, Kind, Located, Names, Prep, Rules, properties};
use crate::state::{Record, State};
use crate::wire::Fault;
use arm::ResourceId;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value};

pub const IDENTITIES: &str = "userAssignedIdentities";
pub const CREDENTIALS: &str = "userAssignedIdentities/federatedIdentityCredentials";

pub fn rows() -> Vec<Kind> {
    let base = || Kind {
        namespace: "Microsoft.ManagedIdentity",
        since: "2015-08-31",
        etag: Etag::None,
        names: Names::Identity,
        stateful: false,
        ..BASE
    };
    vec![
        Kind { path: IDENTITIES, always_tags: true, rules: &Identity, ..base() },
        Kind {
            path: CREDENTIALS,
            located: Located::Nowhere,
            names: Names::Own,
            tracked: false,
            rules: &Credential,
            ..base()
        },
    ]
}

/// This provider spells `resourcegroups` in lower case.
fn spell(id: &ResourceId) -> ResourceId {
    let text = id.as_str().replacen("/resourceGroups/", "/resourcegroups/", 1);
    ResourceId::parse(&text).unwrap_or_else(|_| id.clone())
}

struct Identity;

impl Rules for Identity {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let p = properties(doc);
        p.clear();
        for (name, purpose) in [("tenantId", ""), ("principalId", "principalId"), ("clientId", "clientId")] {
            let old = prep.old.and_then(|o| o.property(name)).cloned();
            let new = || match purpose {
                "" => prep.state.tenant.clone(),
                _ => prep.state.guid(prep.id.key(), purpose),
            };
            p.insert(name.to_owned(), old.unwrap_or_else(|| new().into()));
        }
        Ok(())
    }

    fn created(&self, state: &mut State, record: &Record, now: Timestamp) {
        let text = |name: &str| record.property(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        state.enrol(&record.id, text("clientId"), text("principalId"), now);
    }

    fn spell(&self, id: &ResourceId) -> ResourceId {
        spell(id)
    }
}

struct Credential;

const MAX_CREDENTIALS: usize = 20;
const MAX_FIELD: usize = 600;

impl Rules for Credential {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let bad = |m: String| Fault::plain(StatusCode::BAD_REQUEST, "BadRequest", m);
        let name = prep.id.name();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !(3..=120).contains(&name.len()) || !name.chars().all(legal) {
            return Err(bad(format!(
                "The federated identity credential name '{name}' is invalid: 3 to 120 letters, digits, hyphens and underscores."
            )));
        }
        let p = properties(doc);
        let text = |f: &str| p.get(f).and_then(Value::as_str).map(str::to_owned);
        let (Some(issuer), Some(subject)) = (text("issuer"), text("subject")) else {
            return Err(bad("The properties issuer and subject are required.".into()));
        };
        let audiences = p.get("audiences").and_then(Value::as_array).cloned().unwrap_or_default();
        if audiences.len() != 1 || !audiences[0].is_string() {
            return Err(bad("Exactly one audience is required.".into()));
        }
        if issuer.len() > MAX_FIELD || subject.len() > MAX_FIELD || issuer.is_empty() || subject.is_empty() {
            return Err(bad(format!("issuer and subject have 1 to {MAX_FIELD} characters.")));
        }
        p.retain(|k, _| matches!(k.as_str(), "issuer" | "subject" | "audiences"));
        let Some(parent) = prep.id.parent() else { return Ok(()) };
        let mut others = 0;
        for other in prep.state.below(parent.key()).filter(|r| r.kind.path == CREDENTIALS && r.id != *prep.id)
        {
            others += 1;
            let same = |f: &str, v: &str| other.property(f).and_then(Value::as_str) == Some(v);
            if same("issuer", &issuer) && same("subject", &subject) {
                return Err(Fault::plain(
                    StatusCode::CONFLICT,
                    "Conflict",
                    "Issuer and subject combination already exists for this Managed Identity.",
                ));
            }
        }
        if others >= MAX_CREDENTIALS {
            return Err(bad(format!(
                "Too many federated identity credentials: at most {MAX_CREDENTIALS} are allowed per identity."
            )));
        }
        Ok(())
    }

    fn spell(&self, id: &ResourceId) -> ResourceId {
        spell(id)
    }
}
