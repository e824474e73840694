//! Virtual machines: what one is made of, and what becomes of that.
//!
//! A machine refers to its interfaces and disks; who has what follows from that. Disks that it does not bring are
//! made when its creation ends, and go with it or stay, as it says.

use crate::kinds::compute_disks::{self, New};
use crate::kinds::compute_parts::{self as parts, HIDDEN, invalid, object, text};
use crate::kinds::compute_vm_checks::{hardware, interfaces, system, zones};
use crate::kinds::compute_vm_disks::{disk_id, storage};
use crate::kinds::{How, Image, Kind, Prep, Ref, Rules, compute_vm_show, default, flow, properties};
use crate::machines::{Happening, note};
use crate::state::{Key, Phase, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ErrorDetail, ResourceId};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub const MACHINES: &str = "virtualMachines";

const fn link(at: &'static [&'static str], action: &'static str, back: &'static str, one: bool) -> Ref {
    Ref { at, action, back, one, loose: false }
}

const LINKS: &[Ref] = &[
    link(
        &["properties", "networkProfile", "networkInterfaces"],
        "Microsoft.Network/networkInterfaces/join/action",
        "virtualMachine",
        true,
    ),
    link(&["properties", "availabilitySet"], "", "virtualMachines", false),
    link(&["properties", "proximityPlacementGroup"], "", "virtualMachines", false),
    link(&["properties", "storageProfile", "osDisk", "managedDisk"], "", "", false),
    link(&["properties", "storageProfile", "dataDisks", "managedDisk"], "", "", false),
    link(&["properties", "storageProfile", "osDisk", "managedDisk", "diskEncryptionSet"], "", "", false),
    link(&["properties", "storageProfile", "dataDisks", "managedDisk", "diskEncryptionSet"], "", "", false),
];

pub fn rows(base: Kind) -> Vec<Kind> {
    vec![Kind {
        path: MACHINES,
        create: flow(How::Async, 10, 43.0),
        update: flow(How::Async, 0, 11.0),
        delete: flow(How::Async, 10, 18.0),
        refs: LINKS,
        verb: "VirtualMachine",
        rules: &Machine,
        ..base
    }]
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    Stopped,
    Deallocated,
}

impl Power {
    pub fn as_str(self) -> &'static str {
        match self {
            Power::Running => "running",
            Power::Stopped => "stopped",
            Power::Deallocated => "deallocated",
        }
    }
}

pub fn power(record: &Record) -> Power {
    match record.doc.get(HIDDEN).and_then(|h| text(h, &["power"])) {
        Some("stopped") => Power::Stopped,
        Some("deallocated") => Power::Deallocated,
        _ => Power::Running,
    }
}

fn set_power(state: &mut State, key: &Key, to: Power) {
    let Some(old) = state.get(key).cloned() else { return };
    let mut record = (*old).clone();
    object(&mut record.doc, HIDDEN).insert("power".into(), to.as_str().into());
    state.replace(record);
}

struct Machine;

impl Rules for Machine {
    fn prepare(&self, prep: &Prep<'_>, doc: &mut Map<String, Value>) -> Result<(), Fault> {
        doc.remove("resources");
        doc.remove("instanceView");
        hidden(prep, doc);
        parts::identity(prep, doc)?;
        parts::keep(
            prep,
            doc,
            &[
                "hardwareProfile",
                "storageProfile",
                "osProfile",
                "networkProfile",
                "availabilitySet",
                "securityProfile",
                "proximityPlacementGroup",
            ],
        );
        fixed(prep, doc)?;
        let place = doc.get("location").and_then(Value::as_str).unwrap_or_default().to_owned();
        let zones = zones(doc)?;
        let sized = hardware(prep, doc, &place, zones.as_deref())?;
        crate::machines::within_quota(prep, sized, &place)?;
        let p = properties(doc);
        for owned in ["instanceView", "timeCreated", "vmId"] {
            p.remove(owned);
        }
        let vm_id = prep.old.and_then(|o| o.property("vmId")).cloned();
        p.insert("vmId".into(), vm_id.unwrap_or_else(|| prep.state.guid(prep.id.key(), "vmId").into()));
        if p.get("availabilitySet").is_some_and(|a| a.is_object()) && zones.is_some() {
            return Err(conflict_set());
        }
        interfaces(prep, p, &place)?;
        let image = storage(prep, p, sized)?;
        system(prep, p, image)
    }

    fn created(&self, state: &mut State, record: &Record, now: Timestamp) {
        parts::principal(state, record.id.key(), now);
        note(state, record, Happening::Created, now);
    }

    fn after(&self, state: &mut State, key: &Key, at: Timestamp) {
        parts::principal(state, key, at);
        let Some(record) = state.get(key).cloned() else { return };
        let known = record.doc.get(HIDDEN).is_some_and(|h| h["known"].as_bool() == Some(true));
        if record.phase == Phase::Failed {
            note(state, &record, Happening::Failed, at);
            return;
        }
        compose(state, &record, at);
        let happening = if known { Happening::Updated } else { Happening::Ready };
        if let Some(r) = state.get(key).cloned() {
            note(state, &r, happening, at);
        }
    }

    fn acted(&self, state: &mut State, key: &Key, action: &str, at: Timestamp) {
        let (to, happening) = match action {
            "start" => (Power::Running, Happening::Started),
            "restart" | "redeploy" | "reapply" => (Power::Running, Happening::Restarted),
            "poweroff" => (Power::Stopped, Happening::Stopped),
            "deallocate" => (Power::Deallocated, Happening::Deallocated),
            _ => return,
        };
        set_power(state, key, to);
        if let Some(r) = state.get(key).cloned() {
            note(state, &r, happening, at);
        }
    }

    fn removed(&self, state: &mut State, record: &Record, at: Timestamp) {
        note(state, record, Happening::Deleted, at);
        let p = record.properties();
        let goes = |v: &Value| text(v, &["deleteOption"]).is_some_and(|d| d.eq_ignore_ascii_case("Delete"));
        let profile = p.and_then(|p| p.get("storageProfile")).cloned().unwrap_or_default();
        let network = p.and_then(|p| p.get("networkProfile")).cloned().unwrap_or_default();
        let mut gone: Vec<String> = Vec::new();
        let disks =
            std::iter::once(&profile["osDisk"]).chain(profile["dataDisks"].as_array().into_iter().flatten());
        gone.extend(
            disks.filter(|d| goes(d)).filter_map(|d| text(d, &["managedDisk", "id"])).map(str::to_lowercase),
        );
        for nic in network["networkInterfaces"].as_array().into_iter().flatten() {
            if nic.get("properties").is_some_and(goes) {
                gone.extend(text(nic, &["id"]).map(str::to_lowercase));
            }
        }
        for key in gone {
            // Somebody else may have it by now.
            if state.edges_to(&key).next().is_none() {
                state.remove(&key, at);
            }
        }
    }

    fn show(&self, state: &State, record: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
        compute_vm_show::show(state, record, version, out);
    }

    fn expand(
        &self,
        state: &State,
        record: &Record,
        _: &ApiVersion,
        what: &str,
        out: &mut Map<String, Value>,
    ) {
        if what.contains("instanceview") {
            properties(out).insert("instanceView".into(), compute_vm_show::instance_view(state, record));
        }
        if what.contains("userdata")
            && let Some(data) = record.property("userData")
        {
            properties(out).insert("userData".into(), data.clone());
        }
    }

    fn patched(&self, old: &Record, change: &Map<String, Value>) -> Option<Map<String, Value>> {
        Some(parts::patch(old, change))
    }

    fn awaits(&self, state: &State) -> Option<(f64, ErrorDetail)> {
        state.machines.awaited.then(|| {
            let why = "OS Provisioning for VM did not finish in the allotted time. The VM may still finish provisioning successfully. Please check provisioning state later.";
            (1200.0, ErrorDetail::new("OSProvisioningTimedOut", why))
        })
    }
}

fn conflict_set() -> Fault {
    invalid(
        "availabilitySet",
        "A virtual machine cannot be in an availability set and in an availability zone at the same time."
            .into(),
    )
}

/// What we remember beside the document, and that a version of it is written.
fn hidden(prep: &Prep<'_>, doc: &mut Map<String, Value>) {
    let mut own =
        prep.old.and_then(|o| o.doc.get(HIDDEN)).and_then(Value::as_object).cloned().unwrap_or_default();
    let n = own.get("version").and_then(Value::as_u64).unwrap_or(0);
    own.insert("version".into(), (n + 1).into());
    own.insert("known".into(), (prep.old.is_some_and(|o| o.phase != Phase::Failed)).into());
    doc.insert(HIDDEN.into(), Value::Object(own));
    // Zones and plans stay unless they are mentioned.
    for field in ["zones", "plan"] {
        if let Some(v) = prep.old.and_then(|o| o.doc.get(field)) {
            default(doc, field, v.clone());
        }
    }
}

/// What cannot change once a machine exists.
fn fixed(prep: &Prep<'_>, doc: &Map<String, Value>) -> Result<(), Fault> {
    let Some(old) = prep.old else { return Ok(()) };
    let (was, is) = (Value::Object(old.doc.clone()), Value::Object(doc.clone()));
    let same = |a: &Value, b: &Value| match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => a == b,
    };
    for path in [
        "/zones",
        "/properties/osProfile/computerName",
        "/properties/osProfile/adminUsername",
        "/properties/osProfile/customData",
        "/properties/availabilitySet/id",
        "/properties/storageProfile/imageReference/id",
        "/properties/storageProfile/imageReference/sku",
        "/properties/storageProfile/imageReference/publisher",
        "/properties/storageProfile/osDisk/name",
    ] {
        if let (Some(a), Some(b)) = (was.pointer(path), is.pointer(path))
            && !same(a, b)
        {
            let name = path.trim_start_matches("/properties/").trim_start_matches('/').replace('/', ".");
            let mut detail = ErrorDetail::new(
                "PropertyChangeNotAllowed",
                format!("Changing property '{name}' is not allowed."),
            );
            detail.target = Some(name);
            return Err(Fault::new(StatusCode::CONFLICT, crate::wire::Cause::Unsaid, detail));
        }
    }
    Ok(())
}

/// Makes the disks that a machine did not bring, and names them in it.
fn compose(state: &mut State, record: &Record, at: Timestamp) {
    let key = record.id.key();
    let vm = record.id.name();
    let mut next = record.clone();
    let hex = |purpose: &str| format!("{:032x}", state.derive(key, purpose));
    let mut made: Vec<(ResourceId, Value, Value)> = Vec::new();
    let p = properties(&mut next.doc);
    let reference = p.get("storageProfile").map(|s| s["imageReference"].clone()).unwrap_or_default();
    let Some(profile) = p.get_mut("storageProfile").and_then(Value::as_object_mut) else { return };
    let mut complete = |disk: &mut Map<String, Value>, fallback: String, creation: Value| {
        if disk.get("managedDisk").is_some_and(|m| m.get("id").is_some()) {
            return;
        }
        default(disk, "name", fallback);
        let name = disk.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(id) = disk_id(&record.id, &name) else { return };
        made.push((id.clone(), Value::Object(disk.clone()), creation));
        object(disk, "managedDisk").insert("id".into(), id.as_str().into());
    };
    if let Some(disk) = profile.get_mut("osDisk").and_then(Value::as_object_mut) {
        let mut from = json!({"createOption": "FromImage"});
        if let Some(id) = image_id(record, &reference) {
            from["imageReference"] = json!({"id": id});
        }
        complete(disk, format!("{vm}_OsDisk_1_{}", hex("osDisk")), from);
    }
    for disk in profile
        .get_mut("dataDisks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        let lun = disk.get("lun").and_then(Value::as_i64).unwrap_or(0);
        complete(
            disk,
            format!("{vm}_disk{}_{}", lun + 2, hex(&format!("dataDisk{lun}"))),
            json!({"createOption": "Empty"}),
        );
    }
    for (id, disk, creation) in made {
        let mut q = Map::new();
        for field in ["osType"] {
            if let Some(v) = disk.get(field) {
                q.insert(field.into(), v.clone());
            }
        }
        if q.contains_key("osType") {
            q.insert("hyperVGeneration".into(), generation(&reference).into());
        }
        q.insert("creationData".into(), creation);
        if let Some(set) = text(&disk, &["managedDisk", "diskEncryptionSet", "id"]) {
            q.insert(
                "encryption".into(),
                json!({"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": set}),
            );
        }
        let sku = text(&disk, &["managedDisk", "storageAccountType"]).unwrap_or("Standard_LRS").to_owned();
        let size = disk["diskSizeGB"].as_u64().unwrap_or(30);
        compute_disks::make(state, New { id, by: record, sku: &sku, size, properties: q }, at);
    }
    let edges = crate::kinds::edges(next.kind, &next.id, &next.doc);
    next.targets = crate::kinds::targets(&edges);
    if let Some(own) = next.doc.get_mut(HIDDEN).and_then(Value::as_object_mut) {
        own.insert("known".into(), true.into());
    }
    state.put(next, edges);
}

fn generation(reference: &Value) -> &'static str {
    let of = |f: &str| text(reference, &[f]).unwrap_or_default();
    Image::find(of("publisher"), of("offer"), of("sku")).map_or("V2", |i| i.generation)
}

/// The id by which a disk remembers the marketplace image it was made from.
fn image_id(record: &Record, reference: &Value) -> Option<String> {
    if let Some(id) = text(reference, &["id"]) {
        return Some(id.to_owned());
    }
    let of = |f: &str| text(reference, &[f]);
    Some(format!(
        "/Subscriptions/{}/Providers/Microsoft.Compute/Locations/{}/Publishers/{}/ArtifactTypes/VMImage/Offers/{}/Skus/{}/Versions/{}",
        record.id.subscription()?,
        record.location()?,
        of("publisher")?,
        of("offer")?,
        of("sku")?,
        of("exactVersion")?
    ))
}
