//! Key vaults, and vaults that were deleted but can come back.

use crate::kinds::{BASE, Etag, How, Kind, Located, Names, Prep, Rules, default, flow, properties};
use crate::state::{Phase, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ResourceId};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

pub const DELETED: &str = "Microsoft.KeyVault/locations/deletedVaults";

pub fn rows() -> Vec<Kind> {
    let base = || Kind {
        namespace: "Microsoft.KeyVault",
        since: "2015-06-01",
        etag: Etag::None,
        names: Names::Own,
        ..BASE
    };
    vec![
        Kind { path: "vaults", create: flow(How::Body, 0, 9.0), always_tags: true, rules: &Vault, ..base() },
        Kind {
            path: "locations/deletedVaults",
            located: Located::Nowhere,
            stateful: false,
            tracked: false,
            rules: &Deleted,
            ..base()
        },
    ]
}

pub fn host(name: &str) -> String {
    format!("{}.vault.azure.net", name.to_lowercase())
}

pub fn name_ok(name: &str) -> bool {
    (3..=24).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !name.contains("--")
}

/// Whose the name is, if it is somebody's: a vault, or one that was deleted.
pub fn holder<'a>(state: &'a State, name: &str) -> Option<&'a Record> {
    state.data.host(&host(name)).and_then(|k| state.get(k)).map(|r| &**r)
}

/// A deleted vault, unless its time is up.
pub fn deleted<'a>(state: &'a State, name: &str, now: Timestamp) -> Option<&'a Record> {
    let r = holder(state, name).filter(|r| r.kind.path == "locations/deletedVaults")?;
    let until = r.property("scheduledPurgeDate").and_then(Value::as_str)?.parse::<Timestamp>().ok()?;
    (until > now).then_some(r)
}

struct Vault;

fn bad(code: &str, message: impl Into<String>) -> Fault {
    Fault::plain(StatusCode::BAD_REQUEST, code, message)
}

fn is_guid(s: &str) -> bool {
    s.len() == 36
        && s.bytes()
            .enumerate()
            .all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

pub fn check_policies(list: &Value) -> Result<(), Fault> {
    let Some(list) = list.as_array() else {
        return Err(bad("BadRequest", "The parameter accessPolicies is not a list."));
    };
    if list.len() > 1024 {
        return Err(bad("BadRequest", "At most 1024 access policies are allowed."));
    }
    for p in list {
        let id = |f: &str| p[f].as_str().is_some_and(is_guid);
        let lists = p["permissions"].as_object();
        let fine = lists.is_some_and(|m| {
            m.values().all(|v| v.is_null() || v.as_array().is_some_and(|l| l.iter().all(Value::is_string)))
        });
        if !id("objectId") || !id("tenantId") || !fine {
            return Err(bad(
                "BadRequest",
                "An invalid value was provided for 'accessPolicies': objectId, tenantId and permissions are required.",
            ));
        }
    }
    Ok(())
}

impl Rules for Vault {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        if !name_ok(name) {
            return Err(bad(
                "VaultNameNotValid",
                format!(
                    "The vault name '{name}' is invalid. A vault's name must be between 3-24 alphanumeric characters. The name must begin with a letter, end with a letter or digit, and not contain consecutive hyphens. Follow this link for more information: https://go.microsoft.com/fwlink/?linkid=2147742"
                ),
            ));
        }
        let mode = properties(doc).remove("createMode");
        let recovers =
            mode.as_ref().and_then(Value::as_str).is_some_and(|m| m.eq_ignore_ascii_case("recover"));
        if prep.old.is_none() {
            let gone = deleted(prep.state, name, prep.state.at);
            match (gone, recovers) {
                (Some(r), true) => {
                    let was = r.property("vaultId").and_then(Value::as_str).unwrap_or_default();
                    if !was.eq_ignore_ascii_case(prep.id.as_str()) {
                        return Err(bad(
                            "InvalidCreateMode",
                            format!("The vault to recover is '{was}': name its subscription and group."),
                        ));
                    }
                    if let Some(Value::Object(old)) = r.doc.get("vault") {
                        *doc = old.clone();
                    }
                    return Ok(());
                }
                (Some(_), false) => {
                    return Err(Fault::plain(
                        StatusCode::CONFLICT,
                        "ConflictError",
                        "A vault with the same name already exists in deleted state. You need to either recover or purge existing key vault. Follow this link https://go.microsoft.com/fwlink/?linkid=2149745 for more information on soft delete.",
                    ));
                }
                (None, true) => {
                    return Err(bad(
                        "DeletedVaultNotFound",
                        format!("The vault '{name}' is not deleted: there is nothing to recover."),
                    ));
                }
                (None, false) => {}
            }
            if holder(prep.state, name).is_some_and(|r| r.kind.path == "vaults") {
                return Err(Fault::plain(
                    StatusCode::CONFLICT,
                    "VaultAlreadyExists",
                    format!(
                        "The vault name '{name}' is already in use. Vault names are globally unique so it is possible that the name is already taken. If you are sure that the vault name was not taken then it is possible that a vault with the same name was recently deleted but not purged after being placed in a recoverable state. If the vault is in a recoverable state then the vault will need to be purged before reusing the name."
                    ),
                ));
            }
        }
        let p = properties(doc);
        if p.get("sku")
            .and_then(|s| s.get("name"))
            .and_then(Value::as_str)
            .is_none_or(|s| !matches!(s.to_ascii_lowercase().as_str(), "standard" | "premium"))
        {
            return Err(bad(
                "BadRequest",
                "An invalid value was provided for 'sku': its name is standard or premium.",
            ));
        }
        if p.get("tenantId").and_then(Value::as_str).is_none_or(|t| !is_guid(t)) {
            return Err(bad("BadRequest", "An invalid value was provided for 'tenantId'."));
        }
        default(p, "accessPolicies", json!([]));
        check_policies(&p["accessPolicies"])?;
        for flag in [
            "enableRbacAuthorization",
            "enablePurgeProtection",
            "enabledForDeployment",
            "enabledForDiskEncryption",
            "enabledForTemplateDeployment",
        ] {
            if p.get(flag).is_some_and(|v| !v.is_null() && !v.is_boolean()) {
                return Err(bad("BadRequest", format!("The parameter {flag} has an invalid value.")));
            }
        }
        match p.get("enablePurgeProtection").and_then(Value::as_bool) {
            Some(false) => {
                return Err(bad(
                    "BadRequest",
                    "The property \"enablePurgeProtection\" cannot be set to false. Enabling the purge protection for a vault is an irreversible action.",
                ));
            }
            Some(true) => {}
            None => {
                if prep.old.and_then(|o| o.property("enablePurgeProtection")).is_some() {
                    p.insert("enablePurgeProtection".into(), true.into());
                }
            }
        }
        if let Some(days) = p.get("softDeleteRetentionInDays").filter(|v| !v.is_null()) {
            let kept = prep.old.and_then(|o| o.property("softDeleteRetentionInDays")).cloned();
            if days.as_i64().is_none_or(|d| !(7..=90).contains(&d)) || kept.is_some_and(|k| k != *days) {
                return Err(bad(
                    "BadRequest",
                    "The property \"softDeleteRetentionInDays\" has to be from 7 to 90 and cannot be changed.",
                ));
            }
        }
        default(p, "enabledForDeployment", false);
        p.insert("enableSoftDelete".into(), true.into());
        p.insert("vaultUri".into(), format!("https://{}/", host(name)).into());
        Ok(())
    }

    fn show(&self, state: &State, record: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        let who = |object: &str| {
            let p = state.directory.principal(object);
            p.map_or_else(|| object.to_owned(), |p| p.client_id.clone())
        };
        out.insert(
            "systemData".into(),
            json!({
                "createdBy": who(&record.created_by), "createdByType": "Application", "createdAt": record.created.to_string(),
                "lastModifiedBy": who(&record.changed_by), "lastModifiedByType": "Application", "lastModifiedAt": record.changed.to_string(),
            }),
        );
        let p = properties(out);
        if record.phase == Phase::Updating {
            p.insert("provisioningState".into(), "RegisteringDns".into());
        }
        if version.date() >= "2021-06-01" {
            default(p, "softDeleteRetentionInDays", 90);
            default(p, "publicNetworkAccess", "Enabled");
        }
    }

    fn created(&self, state: &mut State, record: &Record, _: Timestamp) {
        // Recovered: it is a deleted one no more.
        let gone = holder(state, record.id.name()).filter(|r| r.kind.path == "locations/deletedVaults");
        if let Some(key) = gone.map(|r| r.id.key().clone()) {
            state.forget_record(&key);
        }
        state.data.set_host(&host(record.id.name()), record.id.key());
    }

    fn removed(&self, state: &mut State, record: &Record, _: Timestamp) {
        let now = state.at;
        let place = record.location().unwrap_or_default();
        let id = format!(
            "/subscriptions/{}/providers/Microsoft.KeyVault/locations/{place}/deletedVaults/{}",
            record.id.subscription().unwrap_or_default(),
            record.id.name()
        );
        let (Ok(id), Some(kind)) = (ResourceId::parse(&id), super::kind(DELETED)) else { return };
        let days = record.property("softDeleteRetentionInDays").and_then(Value::as_i64).unwrap_or(90);
        let until = now.checked_add(SignedDuration::from_hours(24 * days)).unwrap_or(now);
        let mut p = json!({
            "vaultId": record.id.as_str(), "location": place, "tags": record.doc.get("tags").cloned().unwrap_or_else(|| json!({})),
            "deletionDate": now.to_string(), "scheduledPurgeDate": until.to_string(),
        });
        if record.property("enablePurgeProtection").and_then(Value::as_bool) == Some(true) {
            p["purgeProtectionEnabled"] = true.into();
        }
        let mut doc = Map::new();
        doc.insert("properties".into(), p);
        doc.insert("vault".into(), Value::Object(record.doc.clone()));
        let gone = Record {
            etag: state.guid(id.key(), "etag"),
            ..Record::new(id, kind, doc, record.changed_by.clone(), now).since(Some(record))
        };
        state.data.set_host(&host(record.id.name()), gone.id.key());
        state.put(gone, Vec::new());
    }

    fn patches(&self) -> bool {
        true
    }
}

struct Deleted;

impl Rules for Deleted {
    fn show(&self, _: &State, _: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        out.insert("type".into(), "Microsoft.KeyVault/deletedVaults".into());
        out.remove("vault");
    }

    /// Purged: nothing of it is left.
    fn removed(&self, state: &mut State, record: &Record, _: Timestamp) {
        let name = record.id.name().to_lowercase();
        state.data.remove_all(&format!("v/{name}/"));
        state.data.remove_host(&host(&name));
    }
}
