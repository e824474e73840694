//! Managed disks and snapshots.
//!
//! A disk knows nobody: who has it follows from the machines that refer to it.

use crate::kinds::compute_parts::{self as parts, HIDDEN, conflict, invalid, text};
use crate::kinds::{BASE, Etag, How, Kind, Names, Operations, Prep, Rules, default, flow, kind, properties};
use crate::state::{Edge, Key, Phase, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub const DISKS: &str = "Microsoft.Compute/disks";

pub fn rows() -> Vec<Kind> {
    let base = || Kind {
        namespace: "Microsoft.Compute",
        since: "2016-04-30",
        create: flow(How::AcceptedBody, 2, 2.0),
        update: flow(How::AcceptedBody, 2, 2.0),
        delete: flow(How::Async, 0, 1.0),
        etag: Etag::None,
        operations: Operations::Disks,
        names: Names::Network(80),
        ..BASE
    };
    vec![
        Kind { path: "disks", rules: &Disk { snapshot: false }, refs: ENCRYPTION, ..base() },
        Kind { path: "snapshots", rules: &Disk { snapshot: true }, refs: ENCRYPTION, ..base() },
    ]
}

const ENCRYPTION: &[crate::kinds::Ref] = &[crate::kinds::Ref {
    at: &["properties", "encryption", "diskEncryptionSetId"],
    action: "Microsoft.Compute/diskEncryptionSets/read",
    back: "",
    one: false,
    loose: false,
}];

/// Sizes in GiB and what each tier gives: premium name, operations and megabytes per second.
const PREMIUM: [(u64, &str, u64, u64); 13] = [
    (4, "P1", 120, 25),
    (8, "P2", 120, 25),
    (16, "P3", 120, 25),
    (32, "P4", 120, 25),
    (64, "P6", 240, 50),
    (128, "P10", 500, 100),
    (256, "P15", 1100, 125),
    (512, "P20", 2300, 150),
    (1024, "P30", 5000, 200),
    (2048, "P40", 7500, 250),
    (4096, "P50", 7500, 250),
    (8192, "P60", 16000, 500),
    (32767, "P80", 20000, 900),
];

/// The tier, operations and megabytes per second of a disk.
fn speed(sku: &str, size: u64) -> (Option<&'static str>, u64, u64) {
    let row = PREMIUM.iter().find(|(s, ..)| size <= *s).unwrap_or(&PREMIUM[12]);
    match sku {
        "Premium_LRS" | "Premium_ZRS" => (Some(row.1), row.2, row.3),
        "StandardSSD_LRS" | "StandardSSD_ZRS" => (None, row.2.clamp(500, 6000), row.3.clamp(60, 750)),
        "PremiumV2_LRS" => (None, 3000, 125),
        "UltraSSD_LRS" => (None, (size * 300).clamp(100, 160_000), 200),
        _ => (None, if size > 4096 { 1300 } else { 500 }, if size > 4096 { 300 } else { 60 }),
    }
}

const SKUS: [&str; 7] = [
    "Standard_LRS",
    "Premium_LRS",
    "StandardSSD_LRS",
    "UltraSSD_LRS",
    "Premium_ZRS",
    "StandardSSD_ZRS",
    "PremiumV2_LRS",
];

/// The machine that has a disk.
pub fn owner<'a>(state: &'a State, key: &str) -> Option<&'a Edge> {
    let machines = kind("Microsoft.Compute/virtualMachines")?.index();
    state.edges_to(key).find(|e| state.get(&e.source).is_some_and(|r| r.kind.index() == machines))
}

struct Disk {
    snapshot: bool,
}

/// What the creation data names, and how large it is.
fn source(prep: &Prep<'_>, p: &Map<String, Value>) -> Result<Option<u64>, Fault> {
    let data = p.get("creationData").cloned().unwrap_or_default();
    let option = text(&data, &["createOption"]).unwrap_or_default();
    let size_of = |id: &str| {
        prep.state.get(&id.to_lowercase()).map(|r| r.property("diskSizeGB").and_then(Value::as_u64))
    };
    let needs = |field: &str| {
        let id = text(&data, &[field]).ok_or_else(|| {
            invalid(
                &format!("creationData.{field}"),
                format!("Required parameter 'creationData.{field}' is missing (null)."),
            )
        })?;
        // A whole disk may be somewhere that is not simulated.
        match ResourceId::parse(id).ok().filter(|i| kind(i.resource_type().as_str()).is_some()) {
            Some(_) => size_of(id).ok_or_else(|| parts::not_found(id)),
            None => Ok(None),
        }
    };
    match option.to_ascii_lowercase().as_str() {
        "empty" | "upload" | "uploadpreparedsecure" | "attach" => Ok(None),
        "copy" | "copystart" | "restore" => needs("sourceResourceId"),
        "fromimage" => Ok(Some(30)),
        "import" | "importsecure" => Ok(Some(30)),
        "" => Err(invalid(
            "creationData",
            "Required parameter 'creationData.createOption' is missing (null).".into(),
        )),
        other => Err(invalid(
            "creationData.createOption",
            format!("The value '{other}' of parameter createOption is invalid."),
        )),
    }
}

impl Rules for Disk {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        for owned in ["managedBy", "managedByExtended", HIDDEN] {
            doc.remove(owned);
        }
        if let Some(sku) = doc.get("sku") {
            let name = text(sku, &["name"]).unwrap_or_default();
            if !SKUS.iter().chain(&["Standard_ZRS"]).any(|s| s.eq_ignore_ascii_case(name)) {
                return Err(invalid(
                    "sku.name",
                    format!(
                        "The value '{name}' of parameter sku.name is invalid. Allowed values are {}.",
                        SKUS.join(", ")
                    ),
                ));
            }
        } else if let Some(sku) = prep.old.and_then(|o| o.doc.get("sku")) {
            doc.insert("sku".into(), sku.clone());
        }
        if let Some(zones) = prep.old.and_then(|o| o.doc.get("zones")) {
            default(doc, "zones", zones.clone());
        }
        parts::keep(
            prep,
            doc,
            &["creationData", "diskSizeGB", "osType", "hyperVGeneration", "encryption", "uniqueId"],
        );
        let p = properties(doc);
        for owned in ["diskState", "timeCreated", "diskSizeBytes", "provisioningState"] {
            p.remove(owned);
        }
        let of_source = source(prep, p)?;
        let size = p.get("diskSizeGB").and_then(Value::as_u64).or(of_source);
        let Some(size) = size else {
            return Err(invalid(
                "disk.diskSizeGB",
                "Required parameter 'disk.diskSizeGB' is missing (null).".into(),
            ));
        };
        if size == 0 || size > 65_536 {
            return Err(invalid(
                "disk.diskSizeGB",
                format!(
                    "The value '{size}' of parameter 'disk.diskSizeGB' is out of range. The value must be between '1' and '65536', inclusive."
                ),
            ));
        }
        if of_source.is_some_and(|s| size < s) {
            return Err(invalid(
                "disk.diskSizeGB",
                format!("The disk size {size} GB is smaller than its source."),
            ));
        }
        if let Some(was) =
            prep.old.and_then(|o| o.property("diskSizeGB")).and_then(Value::as_u64).filter(|w| size < *w)
        {
            return Err(conflict(
                "OperationNotAllowed",
                format!(
                    "Cannot resize disk {} from {was} GB to {size} GB: the size of a disk can only be increased.",
                    prep.id.name()
                ),
            ));
        }
        p.insert("diskSizeGB".into(), size.into());
        default(p, "uniqueId", prep.state.guid(prep.id.key(), "uniqueId"));
        Ok(())
    }

    fn settled(&self, _: &State, record: &mut Record) {
        complete(record, self.snapshot);
    }

    fn show(&self, state: &State, record: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        let snapshot = self.snapshot;
        let busy = record.phase == Phase::Updating;
        let owner = owner(state, record.id.key());
        if let Some(e) = owner {
            out.insert("managedBy".into(), (&*e.text).into());
        }
        let access = record.doc.get(HIDDEN).is_some_and(|h| h["access"].as_bool() == Some(true));
        let running = owner.is_some_and(|e| {
            state.get(&e.source).is_some_and(|vm| crate::kinds::power(vm) != crate::kinds::Power::Deallocated)
        });
        let p = properties(out);
        if busy {
            // Until it is done, the service repeats what it was told.
            for later in
                ["uniqueId", "encryption", "diskIOPSReadWrite", "diskMBpsReadWrite", "incremental", "tier"]
            {
                p.remove(later);
            }
            return;
        }
        let size = p.get("diskSizeGB").and_then(Value::as_u64).unwrap_or(0);
        p.insert("diskSizeBytes".into(), (size << 30).into());
        p.insert("timeCreated".into(), record.created.to_string().into());
        let state = match (owner.is_some(), running) {
            (true, true) => "Attached",
            (true, false) => "Reserved",
            (false, _) if access => "ActiveSAS",
            _ => "Unattached",
        };
        p.insert("diskState".into(), state.into());
        if version.at_least("2021-04-01") {
            default(p, "publicNetworkAccess", "Enabled");
        }
        if !snapshot && version.at_least("2021-12-01") {
            default(p, "dataAccessAuthMode", "None");
        }
    }

    fn may_delete(&self, state: &State, record: &Record) -> Result<(), Fault> {
        let name = record.id.name();
        match owner(state, record.id.key()) {
            Some(e) => {
                Err(conflict("OperationNotAllowed", format!("Disk {name} is attached to VM {}.", e.text)))
            }
            None if record.doc.get(HIDDEN).is_some_and(|h| h["access"].as_bool() == Some(true)) => {
                Err(conflict(
                    "OperationNotAllowed",
                    format!("Disk {name} has an active access grant: end it first."),
                ))
            }
            None => Ok(()),
        }
    }

    fn patched(&self, old: &Record, change: &Map<String, Value>) -> Option<Map<String, Value>> {
        Some(parts::patch(old, change))
    }

    fn acted(&self, state: &mut State, key: &Key, action: &str, _: Timestamp) {
        let Some(old) = state.get(key).cloned() else { return };
        let mut record = (*old).clone();
        parts::object(&mut record.doc, HIDDEN).insert("access".into(), (action == "begingetaccess").into());
        state.replace(record);
    }

    fn missing(&self, id: &ResourceId) -> Option<Fault> {
        let what = if self.snapshot { "Snapshot" } else { "Disk" };
        Some(Fault::plain(StatusCode::NOT_FOUND, "NotFound", format!("{what} {} is not found.", id.name())))
    }
}

/// What the service adds when it is done.
fn complete(record: &mut Record, snapshot: bool) {
    let sku = record.doc.entry("sku").or_insert_with(|| json!({"name": "Standard_LRS"}));
    let name = text(sku, &["name"]).unwrap_or("Standard_LRS").to_owned();
    sku["tier"] = name
        .split(['_', 'S'])
        .next()
        .map_or("Standard", |t| match t {
            "Premium" | "PremiumV2" => "Premium",
            "Ultra" => "Ultra",
            _ => "Standard",
        })
        .into();
    let p = properties(&mut record.doc);
    let size = p.get("diskSizeGB").and_then(Value::as_u64).unwrap_or(0);
    default(p, "encryption", json!({"type": "EncryptionAtRestWithPlatformKey"}));
    default(p, "networkAccessPolicy", "AllowAll");
    if snapshot {
        default(p, "incremental", false);
        return;
    }
    let (tier, operations, megabytes) = speed(&name, size);
    let fixed = matches!(name.as_str(), "UltraSSD_LRS" | "PremiumV2_LRS");
    if !fixed || !p.contains_key("diskIOPSReadWrite") {
        p.insert("diskIOPSReadWrite".into(), operations.into());
    }
    if !fixed || !p.contains_key("diskMBpsReadWrite") {
        p.insert("diskMBpsReadWrite".into(), megabytes.into());
    }
    if let Some(t) = tier {
        default(p, "tier", t);
    }
}

/// What a machine's disk is made of.
pub struct New<'a> {
    pub id: ResourceId,
    pub by: &'a Record,
    pub sku: &'a str,
    pub size: u64,
    pub properties: Map<String, Value>,
}

/// Makes a disk for a machine. One that is there is left alone.
pub fn make(state: &mut State, new: New<'_>, at: Timestamp) {
    let Some(k) = kind(DISKS) else { return };
    if state.get(new.id.key()).is_some() {
        return;
    }
    state.bump(new.id.key());
    let mut doc = Map::new();
    doc.insert("location".into(), new.by.location().unwrap_or_default().into());
    for field in ["zones", "tags"] {
        if let Some(v) = new.by.doc.get(field) {
            doc.insert(field.into(), v.clone());
        }
    }
    doc.insert("sku".into(), json!({"name": new.sku}));
    let mut p = new.properties;
    p.insert("diskSizeGB".into(), new.size.into());
    p.insert("uniqueId".into(), state.guid(new.id.key(), "uniqueId").into());
    doc.insert("properties".into(), Value::Object(p));
    let edges = crate::kinds::edges(k, &new.id, &doc);
    let mut record = Record {
        etag: state.guid(new.id.key(), "etag"),
        targets: crate::kinds::targets(&edges),
        ..Record::new(new.id, k, doc, new.by.created_by.clone(), at)
    };
    complete(&mut record, false);
    state.put(record, edges);
}
