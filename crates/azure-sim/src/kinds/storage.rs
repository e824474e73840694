//! Storage accounts.

use crate::kinds::{BASE, Etag, How, Kind, Names, Operations, Prep, Rules, default, flow, properties};
use crate::planes::blob;
use crate::state::{Phase, Record, State};
use crate::wire::Fault;
use arm::ApiVersion;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub fn rows() -> Vec<Kind> {
    vec![Kind {
        namespace: "Microsoft.Storage",
        path: "storageAccounts",
        since: "2015-06-15",
        etag: Etag::None,
        names: Names::Own,
        operations: Operations::Monitor,
        create: flow(How::Located, 17, 27.0),
        always_tags: true,
        rules: &Account,
        ..BASE
    }]
}

pub fn host(name: &str) -> String {
    format!("{}.blob.core.windows.net", name.to_lowercase())
}

pub fn name_ok(name: &str) -> bool {
    (3..=24).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

const SKUS: [&str; 8] = [
    "Standard_LRS",
    "Standard_GRS",
    "Standard_RAGRS",
    "Standard_ZRS",
    "Premium_LRS",
    "Premium_ZRS",
    "Standard_GZRS",
    "Standard_RAGZRS",
];
const KINDS: [&str; 5] = ["Storage", "StorageV2", "BlobStorage", "FileStorage", "BlockBlobStorage"];

struct Account;

impl Rules for Account {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        let bad = |code: &str, m: String| Fault::plain(StatusCode::BAD_REQUEST, code, m);
        if !name_ok(name) {
            return Err(bad(
                "AccountNameInvalid",
                format!(
                    "{name} is not a valid storage account name. Storage account name must be between 3 and 24 characters in length and use numbers and lower-case letters only."
                ),
            ));
        }
        if prep.old.is_none() && prep.state.data.host(&host(name)).is_some() {
            return Err(Fault::plain(
                StatusCode::CONFLICT,
                "StorageAccountAlreadyTaken",
                format!("The storage account named {name} is already taken."),
            ));
        }
        let sku =
            doc.get("sku").and_then(|s| s.get("name")).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(sku) = SKUS.iter().find(|s| s.eq_ignore_ascii_case(&sku)) else {
            return Err(bad(
                "InvalidValuesForRequestParameters",
                "Values for request parameters are invalid: sku.name.".into(),
            ));
        };
        let tier = if sku.starts_with("Premium") { "Premium" } else { "Standard" };
        doc.insert("sku".into(), json!({"name": sku, "tier": tier}));
        default(doc, "kind", "StorageV2");
        let blobs_only = doc.get("kind").is_some_and(|k| k == "BlobStorage");
        if doc.get("kind").and_then(Value::as_str).is_none_or(|k| !KINDS.contains(&k)) {
            return Err(bad(
                "InvalidValuesForRequestParameters",
                "Values for request parameters are invalid: kind.".into(),
            ));
        }
        let place = doc.get("location").and_then(Value::as_str).unwrap_or_default().to_owned();
        let now = prep.state.at.to_string();
        let old = |field: &str| prep.old.and_then(|o| o.property(field)).cloned();
        let p = properties(doc);
        for flag in [
            "allowBlobPublicAccess",
            "allowSharedKeyAccess",
            "supportsHttpsTrafficOnly",
            "allowCrossTenantReplication",
            "isHnsEnabled",
        ] {
            if p.get(flag).is_some_and(|v| !v.is_null() && !v.is_boolean()) {
                return Err(bad(
                    "InvalidRequestPropertyValue",
                    format!("The value of the property '{flag}' is invalid."),
                ));
            }
        }
        let made = old("creationTime").unwrap_or_else(|| now.clone().into());
        let keys = old("keyCreationTime").unwrap_or_else(|| json!({"key1": now, "key2": now}));
        p.insert("keyCreationTime".into(), keys);
        default(p, "allowCrossTenantReplication", false);
        p.insert("privateEndpointConnections".into(), json!([]));
        default(p, "minimumTlsVersion", "TLS1_2");
        default(p, "allowBlobPublicAccess", false);
        default(
            p,
            "networkAcls",
            json!({"bypass": "AzureServices", "virtualNetworkRules": [], "ipRules": [], "defaultAction": "Allow"}),
        );
        default(p, "supportsHttpsTrafficOnly", true);
        if !p.get("encryption").is_some_and(Value::is_object) {
            p.insert("encryption".into(), json!({}));
        }
        let one = json!({"keyType": "Account", "enabled": true, "lastEnabledTime": made});
        if let Some(e) = p.get_mut("encryption").and_then(Value::as_object_mut) {
            e.insert("services".into(), json!({"file": one, "blob": one}));
            default(e, "keySource", "Microsoft.Storage");
        }
        default(p, "accessTier", "Hot");
        p.insert("creationTime".into(), made);
        let endpoint = |service: &str| format!("https://{name}.{service}.core.windows.net/");
        let mut endpoints = json!({
            "dfs": endpoint("dfs"), "web": endpoint(&format!("z{}.web", blob::zone(&place))), "blob": endpoint("blob"),
            "queue": endpoint("queue"), "table": endpoint("table"), "file": endpoint("file"),
        });
        if let Some(all) = endpoints.as_object_mut().filter(|_| blobs_only) {
            all.retain(|service, _| !matches!(service.as_str(), "web" | "queue" | "file"));
        }
        p.insert("primaryEndpoints".into(), endpoints);
        p.insert("primaryLocation".into(), place.into());
        p.insert("statusOfPrimary".into(), "available".into());
        Ok(())
    }

    fn show(&self, _: &State, record: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        if record.phase == Phase::Updating {
            properties(out).insert("provisioningState".into(), "Creating".into());
        }
    }

    fn created(&self, state: &mut State, record: &Record, now: Timestamp) {
        blob::created(state, record, now);
    }

    fn removed(&self, state: &mut State, record: &Record, _: Timestamp) {
        blob::removed(state, record);
    }

    fn patches(&self) -> bool {
        true
    }
}
