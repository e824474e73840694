//! The smaller compute types: availability sets, images, galleries, encryption sets, extensions.

use crate::kinds::compute_parts::{self as parts, HIDDEN, conflict, invalid, text};
use crate::kinds::{
    BASE, Etag, How, Kind, Names, Operations, Prep, Rules, compute_disks, compute_vm, default, flow, kind,
    properties,
};
use crate::state::{Key, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const fn base() -> Kind {
    Kind {
        namespace: "Microsoft.Compute",
        since: "2015-06-15",
        etag: Etag::None,
        operations: Operations::Compute,
        names: Names::Network(80),
        ..BASE
    }
}

pub fn rows() -> Vec<Kind> {
    let slow = flow(How::Async, 0, 6.0);
    let mut rows = vec![
        Kind { path: "availabilitySets", rules: &AvailabilitySet, stateful: false, made: 200, ..base() },
        Kind {
            path: "images",
            since: "2016-04-30",
            create: slow,
            update: slow,
            delete: slow,
            rules: &Image,
            ..base()
        },
        Kind {
            path: "galleries",
            since: "2018-06-01",
            create: slow,
            update: slow,
            delete: slow,
            rules: &Gallery,
            ..base()
        },
        Kind {
            path: "galleries/images",
            since: "2018-06-01",
            create: slow,
            update: slow,
            delete: slow,
            rules: &GalleryImage,
            ..base()
        },
        Kind {
            path: "galleries/images/versions",
            since: "2018-06-01",
            create: flow(How::Async, 0, 60.0),
            update: slow,
            delete: slow,
            rules: &GalleryVersion,
            ..base()
        },
        Kind {
            path: "diskEncryptionSets",
            since: "2019-07-01",
            create: flow(How::AcceptedBody, 0, 5.0),
            update: flow(How::AcceptedBody, 0, 5.0),
            delete: flow(How::Async, 0, 2.0),
            operations: Operations::Disks,
            in_use: "OperationNotAllowed",
            rules: &EncryptionSet,
            ..base()
        },
        Kind {
            path: "virtualMachines/extensions",
            create: flow(How::Async, 0, 17.0),
            update: flow(How::Async, 0, 17.0),
            delete: flow(How::Async, 0, 10.0),
            rules: &Extension,
            ..base()
        },
        Kind {
            path: "proximityPlacementGroups",
            since: "2018-04-01",
            rules: &Placement,
            stateful: false,
            ..base()
        },
    ];
    rows.extend(compute_vm::rows(base()));
    rows.extend(compute_disks::rows());
    rows
}

struct AvailabilitySet;

impl Rules for AvailabilitySet {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        default(doc, "sku", json!({"name": "Classic"}));
        let managed = text(&doc["sku"], &["name"]) == Some("Aligned");
        parts::keep(prep, doc, &["platformFaultDomainCount", "platformUpdateDomainCount"]);
        let p = properties(doc);
        for owned in ["virtualMachines", "statuses"] {
            p.remove(owned);
        }
        default(p, "platformUpdateDomainCount", 5);
        default(p, "platformFaultDomainCount", if managed { 2 } else { 3 });
        for (field, most) in [("platformFaultDomainCount", 3), ("platformUpdateDomainCount", 20)] {
            let n = p[field].as_u64().unwrap_or(0);
            if !(1..=most).contains(&n) {
                return Err(invalid(
                    field,
                    format!(
                        "The specified value {n} for parameter {field} is out of range: it must be between 1 and {most}."
                    ),
                ));
            }
            if prep.old.and_then(|o| o.property(field)).and_then(Value::as_u64).is_some_and(|w| w != n) {
                return Err(conflict(
                    "PropertyChangeNotAllowed",
                    format!("Changing property '{field}' is not allowed."),
                ));
            }
        }
        Ok(())
    }

    fn show(&self, _: &State, _: &Record, _: &ApiVersion, out: &mut Map<String, Value>) {
        default(properties(out), "virtualMachines", json!([]));
    }

    fn answered(&self, out: &mut Map<String, Value>) {
        properties(out).remove("virtualMachines");
    }

    fn may_delete(&self, state: &State, record: &Record) -> Result<(), Fault> {
        match state.used_by(record.id.key(), record.id.key()) {
            None => Ok(()),
            Some(_) => Err(conflict(
                "OperationNotAllowed",
                format!(
                    "Availability Set '{}' cannot be deleted. Before deleting an Availability Set please ensure that it does not contain any VM.",
                    record.id.name()
                ),
            )),
        }
    }

    fn patched(&self, old: &Record, change: &Map<String, Value>) -> Option<Map<String, Value>> {
        Some(parts::patch(old, change))
    }
}

struct Placement;

impl Rules for Placement {
    fn prepare(&self, _: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        default(properties(doc), "proximityPlacementGroupType", "Standard");
        Ok(())
    }
}

/// What an image, or a version of one, is made of must be there. It is copied, so it may go later.
fn sources(prep: &Prep<'_>, disk: &Value) -> Result<(), Fault> {
    for field in ["snapshot", "managedDisk", "source"] {
        let Some(id) = text(disk, &[field, "id"]) else { continue };
        let served = ResourceId::parse(id).ok().is_some_and(|i| kind(i.resource_type().as_str()).is_some());
        if served && prep.state.get(&id.to_lowercase()).is_none() {
            return Err(parts::not_found(id));
        }
    }
    Ok(())
}

struct Image;

impl Rules for Image {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        parts::keep(prep, doc, &["storageProfile", "sourceVirtualMachine", "hyperVGeneration"]);
        let p = properties(doc);
        default(p, "hyperVGeneration", "V1");
        if let Some(vm) = p.get("sourceVirtualMachine").and_then(|v| text(v, &["id"])).map(str::to_owned) {
            let Some(machine) = prep.state.get(&vm.to_lowercase()) else { return Err(parts::not_found(&vm)) };
            let generalized =
                machine.doc.get(HIDDEN).is_some_and(|h| h["generalized"].as_bool() == Some(true));
            if prep.old.is_none() && !generalized {
                return Err(conflict(
                    "OperationNotAllowed",
                    format!(
                        "The image cannot be created because VM {vm} is not generalized: deallocate and generalize it first."
                    ),
                ));
            }
            if !p.contains_key("storageProfile") {
                let disk =
                    machine.property("storageProfile").map(|s| s["osDisk"].clone()).unwrap_or_default();
                p.insert(
                    "storageProfile".into(),
                    json!({"osDisk": {"osType": disk["osType"], "osState": "Generalized", "diskSizeGB": disk["diskSizeGB"], "managedDisk": {"id": disk["managedDisk"]["id"]}}}),
                );
            }
        }
        let Some(profile) = p.get_mut("storageProfile").and_then(Value::as_object_mut) else {
            return Err(invalid(
                "storageProfile",
                "Required parameter 'storageProfile' is missing (null).".into(),
            ));
        };
        default(profile, "dataDisks", json!([]));
        let disk = profile.get_mut("osDisk").and_then(Value::as_object_mut);
        if let Some(d) = disk {
            sources(prep, &Value::Object(d.clone()))?;
            default(d, "caching", "None");
            default(d, "storageAccountType", "Standard_LRS");
        }
        for d in profile.get("dataDisks").and_then(Value::as_array).into_iter().flatten() {
            sources(prep, d)?;
        }
        Ok(())
    }
}

struct Gallery;

impl Rules for Gallery {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if name.len() > 80 || !name.chars().all(legal) {
            return Err(invalid(
                "galleryName",
                format!(
                    "The gallery name '{name}' is invalid: letters, digits, underscores and periods, up to 80."
                ),
            ));
        }
        let unique = format!("{}-{}", prep.id.subscription().unwrap_or_default(), name.to_uppercase());
        let p = properties(doc);
        p.insert("identifier".into(), json!({"uniqueName": unique}));
        Ok(())
    }

    fn may_delete(&self, state: &State, record: &Record) -> Result<(), Fault> {
        nested(state, record)
    }
}

fn nested(state: &State, record: &Record) -> Result<(), Fault> {
    match state.below(record.id.key()).next() {
        None => Ok(()),
        Some(_) => Err(Fault::gateway(
            StatusCode::CONFLICT,
            "CannotDeleteResource",
            format!(
                "Cannot delete resource while nested resources exist. Some existing nested resource IDs include: '{}'. Please delete all nested resources before deleting this resource.",
                record.id
            ),
        )),
    }
}

struct GalleryImage;

impl Rules for GalleryImage {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        parts::keep(prep, doc, &["identifier", "osType", "osState", "hyperVGeneration"]);
        let p = properties(doc);
        for field in ["publisher", "offer", "sku"] {
            if p.get("identifier").and_then(|i| text(i, &[field])).is_none_or(str::is_empty) {
                return Err(invalid(
                    &format!("identifier.{field}"),
                    format!("Required parameter 'identifier.{field}' is missing (null)."),
                ));
            }
        }
        default(p, "osState", "Generalized");
        default(p, "osType", "Linux");
        default(p, "hyperVGeneration", "V1");
        default(p, "architecture", "x64");
        Ok(())
    }

    fn may_delete(&self, state: &State, record: &Record) -> Result<(), Fault> {
        nested(state, record)
    }
}

struct GalleryVersion;

impl Rules for GalleryVersion {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        let name = prep.id.name();
        let parsed = name.split('.').map(str::parse::<i32>).collect::<Result<Vec<_>, _>>();
        if parsed.is_ok_and(|v| v.len() != 3) || name.split('.').any(|n| n.parse::<i32>().is_err()) {
            return Err(invalid(
                "galleryImageVersionName",
                format!(
                    "The gallery image version name '{name}' is invalid: it should be Major.Minor.Patch."
                ),
            ));
        }
        let place = doc.get("location").cloned().unwrap_or_default();
        parts::keep(prep, doc, &["publishingProfile", "storageProfile"]);
        let p = properties(doc);
        let profile = p.entry("publishingProfile").or_insert_with(|| json!({}));
        if let Some(m) = profile.as_object_mut() {
            default(
                m,
                "targetRegions",
                json!([{"name": place, "regionalReplicaCount": 1, "storageAccountType": "Standard_LRS"}]),
            );
            default(m, "replicaCount", 1);
            default(m, "excludeFromLatest", false);
            default(m, "storageAccountType", "Standard_LRS");
            default(m, "publishedDate", prep.now.to_string());
        }
        let storage = p.get("storageProfile").cloned().unwrap_or_default();
        sources(prep, &storage)?;
        sources(prep, &storage["osDiskImage"])?;
        Ok(())
    }
}

struct EncryptionSet;

impl Rules for EncryptionSet {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        parts::identity(prep, doc)?;
        parts::keep(prep, doc, &["activeKey", "encryptionType"]);
        let p = properties(doc);
        default(p, "encryptionType", "EncryptionAtRestWithCustomerKey");
        if p.get("activeKey").and_then(|k| text(k, &["keyUrl"])).is_none_or(|u| !u.starts_with("https://")) {
            return Err(invalid(
                "activeKey.keyUrl",
                "Required parameter 'activeKey.keyUrl' is missing or not a key's URL.".into(),
            ));
        }
        let vault = p.get("activeKey").and_then(|k| text(k, &["sourceVault", "id"]));
        let served = vault.filter(|v| {
            ResourceId::parse(v).ok().is_some_and(|i| kind(i.resource_type().as_str()).is_some())
        });
        match served.filter(|v| prep.state.get(&v.to_lowercase()).is_none()) {
            Some(v) => Err(parts::not_found(v)),
            None => Ok(()),
        }
    }

    fn answered(&self, out: &mut Map<String, Value>) {
        // The first answer knows neither the id nor the principal.
        out.remove("id");
        out.remove("type");
        if let Some(i) = out.get_mut("identity").and_then(Value::as_object_mut) {
            i.remove("principalId");
            i.remove("tenantId");
        }
    }

    fn after(&self, state: &mut State, key: &Key, at: Timestamp) {
        parts::principal(state, key, at);
    }

    fn patched(&self, old: &Record, change: &Map<String, Value>) -> Option<Map<String, Value>> {
        Some(parts::patch(old, change))
    }

    fn missing(&self, id: &ResourceId) -> Option<Fault> {
        let why = format!("DiskEncryptionSet '{}' was not found.", id.name());
        Some(Fault::plain(StatusCode::NOT_FOUND, "NotFound", why))
    }
}

struct Extension;

impl Rules for Extension {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        parts::keep(prep, doc, &["publisher", "type", "typeHandlerVersion", "settings"]);
        let p = properties(doc);
        for field in ["publisher", "type", "typeHandlerVersion"] {
            if p.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(invalid(field, format!("Required parameter '{field}' is missing (null).")));
            }
        }
        // Never shown again, and nobody here runs it.
        p.remove("protectedSettings");
        default(p, "autoUpgradeMinorVersion", false);
        default(p, "settings", json!({}));
        Ok(())
    }

    fn patched(&self, old: &Record, change: &Map<String, Value>) -> Option<Map<String, Value>> {
        Some(parts::patch(old, change))
    }

    fn missing(&self, id: &ResourceId) -> Option<Fault> {
        let names: Vec<&str> = id.pairs().into_iter().map(|(_, n)| n).collect();
        Some(Fault::gateway(
            StatusCode::NOT_FOUND,
            arm::code::RESOURCE_NOT_FOUND,
            format!(
                "The Resource 'Microsoft.Compute/virtualMachines/{}/extensions/{}' under resource group '{}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
                names.first().unwrap_or(&""),
                names.last().unwrap_or(&""),
                id.group().unwrap_or_default()
            ),
        ))
    }
}
