//! Container registries and their replications.

use crate::kinds::{BASE, Etag, How, Kind, Names, Prep, Rules, default, flow, properties};
use crate::planes::registry;
use crate::state::{Phase, Record, State};
use crate::wire::Fault;
use arm::ApiVersion;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub const REGISTRIES: &str = "Microsoft.ContainerRegistry/registries";

pub fn rows() -> Vec<Kind> {
    let base = || Kind {
        namespace: "Microsoft.ContainerRegistry",
        since: "2017-03-01",
        etag: Etag::None,
        names: Names::Own,
        ..BASE
    };
    vec![
        Kind {
            path: "registries",
            create: flow(How::Async, 10, 8.0),
            delete: flow(How::Async, 10, 11.0),
            always_tags: true,
            rules: &Registry,
            ..base()
        },
        Kind {
            path: "registries/replications",
            create: flow(How::Async, 10, 30.0),
            delete: flow(How::Async, 10, 11.0),
            tracked: false,
            rules: &Replication,
            ..base()
        },
    ]
}

pub fn host(name: &str) -> String {
    format!("{}.azurecr.io", name.to_lowercase())
}

pub fn name_ok(name: &str) -> bool {
    (5..=50).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

struct Registry;

impl Rules for Registry {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        let bad = |code: &str, m: String| Fault::plain(StatusCode::BAD_REQUEST, code, m);
        if !name_ok(name) {
            return Err(bad(
                "InvalidName",
                format!("The registry name '{name}' is invalid: 5 to 50 letters and digits."),
            ));
        }
        if prep.old.is_none() && prep.state.data.host(&host(name)).is_some() {
            return Err(Fault::plain(
                StatusCode::CONFLICT,
                "AlreadyInUse",
                format!(
                    "The registry DNS name {} is already in use. You can check if the name is already claimed using following API: https://docs.microsoft.com/en-us/rest/api/containerregistry/registries/checknameavailability",
                    host(name)
                ),
            ));
        }
        let sku = doc.get("sku").and_then(|s| s.get("name")).and_then(Value::as_str).unwrap_or_default();
        if !matches!(sku, "Basic" | "Standard" | "Premium") {
            return Err(bad(
                "InvalidSku",
                format!(
                    "The sku '{}' is invalid: Basic, Standard or Premium.",
                    sku.chars().take(40).collect::<String>()
                ),
            ));
        }
        let sku = json!({"name": sku, "tier": sku});
        doc.insert("sku".into(), sku);
        let made = prep
            .old
            .and_then(|o| o.property("creationDate"))
            .cloned()
            .unwrap_or_else(|| prep.state.at.to_string().into());
        let p = properties(doc);
        for flag in ["adminUserEnabled", "anonymousPullEnabled", "dataEndpointEnabled"] {
            if p.get(flag).is_some_and(|v| !v.is_null() && !v.is_boolean()) {
                return Err(bad(
                    "InvalidRequestBody",
                    format!("The property '{flag}' is invalid: true or false."),
                ));
            }
        }
        p.insert("loginServer".into(), host(name).into());
        p.insert("creationDate".into(), made);
        default(p, "adminUserEnabled", false);
        default(p, "anonymousPullEnabled", false);
        default(p, "dataEndpointEnabled", false);
        default(p, "publicNetworkAccess", "Enabled");
        default(p, "networkRuleBypassOptions", "AzureServices");
        default(p, "zoneRedundancy", "Disabled");
        default(
            p,
            "policies",
            json!({
                "quarantinePolicy": {"status": "disabled"}, "trustPolicy": {"type": "Notary", "status": "disabled"},
                "retentionPolicy": {"days": 7, "status": "disabled"}, "exportPolicy": {"status": "enabled"},
            }),
        );
        p.insert("privateEndpointConnections".into(), json!([]));
        p.insert("dataEndpointHostNames".into(), json!([]));
        Ok(())
    }

    fn show(&self, _: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        if record.phase == Phase::Updating && record.created == record.changed {
            properties(out).insert("provisioningState".into(), "Creating".into());
        }
    }

    fn created(&self, state: &mut State, record: &Record, _: Timestamp) {
        registry::created(state, record);
    }

    fn removed(&self, state: &mut State, record: &Record, _: Timestamp) {
        registry::removed(state, record);
    }

    fn patches(&self) -> bool {
        true
    }
}

struct Replication;

impl Rules for Replication {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let parent = prep.id.parent().and_then(|p| prep.state.get(p.key()));
        let premium = parent.and_then(|r| r.doc.get("sku")).is_some_and(|s| s["name"] == "Premium");
        if !premium {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "UnsupportedSku",
                "Replications are a feature of the Premium sku.",
            ));
        }
        let p = properties(doc);
        default(p, "regionEndpointEnabled", true);
        default(p, "zoneRedundancy", "Disabled");
        p.insert("status".into(), json!({"displayStatus": "Ready"}));
        Ok(())
    }
}
