//! Virtual machines: what one is made of, and what becomes of that.
//!
//! A machine refers to its interfaces and disks; who has what follows from that. Disks that it does not bring are
//! made when its creation ends, and go with it or stay, as it says.

use crate::kinds::compute_disks::{self, New, owner};
use crate::kinds::compute_parts::{self as parts, HIDDEN, conflict, invalid, object, text};
use crate::kinds::compute_sizes::{Size, size};
use crate::kinds::{How, Image, Kind, Prep, Ref, Rules, compute_vm_show, default, flow, properties};
use crate::machines::{Happening, note};
use crate::state::{Key, Phase, Record, State};
use crate::wire::Fault;
use arm::{ApiVersion, ErrorDetail, ResourceId};
use base64::Engine;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

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

/// 64 KiB, written in base64.
const MAX_CUSTOM_DATA: usize = 87_380;

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

fn zones(doc: &Map<String, Value>) -> Result<Option<String>, Fault> {
    let list: Vec<&str> =
        doc.get("zones").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    match list.as_slice() {
        [] => Ok(None),
        [z @ ("1" | "2" | "3")] => Ok(Some((*z).to_owned())),
        [z] => Err(invalid("zones", format!("The zone '{z}' is not valid: the zones are 1, 2 and 3."))),
        _ => Err(invalid("zones", "A virtual machine is in one availability zone.".into())),
    }
}

fn hardware(
    prep: &Prep<'_>,
    doc: &Map<String, Value>,
    place: &str,
    zone: Option<&str>,
) -> Result<&'static Size, Fault> {
    let named = doc
        .get("properties")
        .and_then(|p| text(p, &["hardwareProfile", "vmSize"]))
        .unwrap_or("Standard_D1_v2");
    let Some(found) = size(named) else {
        let near: Vec<&str> = crate::kinds::sizes().iter().take(20).map(|s| s.name.as_str()).collect();
        return Err(invalid(
            "vmSize",
            format!(
                "The value {named} provided for the VM size is not valid. The valid sizes in the current region are: {}.",
                near.join(",")
            ),
        ));
    };
    let kept = prep.old.and_then(|o| o.property("hardwareProfile")).and_then(|h| text(h, &["vmSize"]));
    if kept.is_some_and(|k| k.eq_ignore_ascii_case(named)) {
        return Ok(found);
    }
    let unavailable = found.restricted(place) || zone.is_some_and(|z| !found.zones(place).contains(&z));
    if unavailable {
        let at = zone.map_or_else(|| place.to_owned(), |z| format!("{place}' zone '{z}"));
        return Err(conflict(
            "SkuNotAvailable",
            format!(
                "The requested VM size for resource '{}' is currently not available in location '{at}'. Please try another size or deploy to a different location or different zone. See https://aka.ms/azureskunotavailable for details.",
                prep.id.name()
            ),
        ));
    }
    Ok(found)
}

fn interfaces(prep: &Prep<'_>, p: &mut Map<String, Value>, place: &str) -> Result<(), Fault> {
    let list = p
        .get_mut("networkProfile")
        .and_then(|n| n.get_mut("networkInterfaces"))
        .and_then(Value::as_array_mut);
    let Some(list) = list.filter(|l| !l.is_empty()) else {
        return Err(invalid(
            "networkProfile",
            "Required parameter 'networkProfile.networkInterfaces' is missing (null).".into(),
        ));
    };
    let primary = |n: &Value| n["properties"]["primary"].as_bool() == Some(true);
    let several = list.len() > 1;
    if list.iter().filter(|n| primary(n)).count() != 1 && several {
        return Err(invalid(
            "networkProfile",
            format!("Virtual machine {} must have one network interface set as the primary.", prep.id.name()),
        ));
    }
    for nic in list {
        let id = text(nic, &["id"]).unwrap_or_default().to_owned();
        let key = id.trim_end_matches('/').to_lowercase();
        let Some(record) = prep.state.get(&key).filter(|r| r.kind.path == "networkInterfaces") else {
            return Err(parts::not_found(&id));
        };
        if record.location().is_some_and(|l| l != place) {
            return Err(Fault::service(
                StatusCode::BAD_REQUEST,
                "InvalidResourceReference",
                format!(
                    "Resource {id} referenced by resource {} was not found. Please make sure that the referenced resource exists, and that both resources are in the same region.",
                    prep.id
                ),
            ));
        }
        let user = prep.state.edges_to(&key).find(|e| {
            matches!(e.back, "virtualMachine" | "privateEndpoint" | "privateLinkService")
                && &*e.source != prep.id.key().as_ref()
        });
        if let Some(e) = user {
            return Err(Fault::service(
                StatusCode::BAD_REQUEST,
                "NicInUse",
                format!(
                    "Network Interface {id} is used by existing resource {}. In order to use it, it must be dissociated from the resource.",
                    e.text
                ),
            ));
        }
        if let Some(q) = nic.get_mut("properties").and_then(Value::as_object_mut) {
            q.retain(|k, _| matches!(k.as_str(), "primary" | "deleteOption"));
            default(q, "deleteOption", "Detach");
        }
        options(nic.get("properties").unwrap_or(&Value::Null), "networkInterface.deleteOption")?;
    }
    Ok(())
}

fn options(v: &Value, target: &str) -> Result<(), Fault> {
    match text(v, &["deleteOption"]) {
        None | Some("Detach" | "Delete") => Ok(()),
        Some(other) => {
            Err(invalid(target, format!("The value '{other}' of deleteOption is invalid: Detach or Delete.")))
        }
    }
}

/// What an image is: its system, generation and disk.
#[derive(Clone, Copy)]
struct Source<'a> {
    system: &'a str,
    disk: u64,
}

fn image<'a>(prep: &'a Prep<'_>, reference: &mut Map<String, Value>) -> Result<Source<'a>, Fault> {
    let of =
        |m: &Map<String, Value>, k: &str| m.get(k).and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(id) = reference.get("id").and_then(Value::as_str).map(str::to_owned) {
        return by_id(prep, reference, &id);
    }
    if reference.contains_key("communityGalleryImageId") || reference.contains_key("sharedGalleryImageId") {
        return Ok(Source { system: "Linux", disk: 30 });
    }
    let (publisher, offer, sku, version) =
        (of(reference, "publisher"), of(reference, "offer"), of(reference, "sku"), of(reference, "version"));
    let found = Image::find(&publisher, &offer, &sku);
    let Some((i, exact)) = found.and_then(|i| Some((i, i.exact(&version)?))) else {
        return Err(Fault::plain(
            StatusCode::NOT_FOUND,
            "PlatformImageNotFound",
            format!(
                "The platform image '{publisher}:{offer}:{sku}:{version}' is not available. Verify that all fields in the storage profile are correct. For more details about storage profile information, please refer to https://aka.ms/storageprofile"
            ),
        ));
    };
    reference.insert("exactVersion".into(), exact.into());
    Ok(Source { system: i.system, disk: u64::from(i.disk) })
}

fn by_id<'a>(prep: &'a Prep<'_>, reference: &mut Map<String, Value>, id: &str) -> Result<Source<'a>, Fault> {
    let missing = || {
        let galleries = id.to_lowercase().contains("/galleries/");
        let (code, what) =
            if galleries { ("GalleryImageNotFound", "gallery image") } else { ("NotFound", "image") };
        Fault::plain(
            StatusCode::NOT_FOUND,
            code,
            format!(
                "The {what} {id} is not available in {} region. Please contact image owner to replicate to this region, or change your requested region.",
                prep.id.name()
            ),
        )
    };
    let record = prep.state.get(&id.to_lowercase()).ok_or_else(missing)?;
    let system = |r: &'a Record, at: &[&str]| {
        r.properties()
            .and_then(|p| {
                at.iter().try_fold(p.get(at[0])?, |v, k| if *k == at[0] { Some(v) } else { v.get(*k) })
            })
            .and_then(Value::as_str)
    };
    let size = |r: &Record, path: &str| {
        Value::Object(r.doc.clone()).pointer(path).and_then(Value::as_u64).unwrap_or(30)
    };
    match record.kind.path {
        "images" => Ok(Source {
            system: system(record, &["storageProfile", "osDisk", "osType"]).unwrap_or("Linux"),
            disk: size(record, "/properties/storageProfile/osDisk/diskSizeGB"),
        }),
        "galleries/images" => {
            let latest = prep
                .state
                .below(record.id.key())
                .filter(|r| r.kind.path == "galleries/images/versions" && r.phase == Phase::Succeeded);
            let order = |n: &str| n.split('.').map(|x| x.parse::<u64>().unwrap_or(0)).collect::<Vec<_>>();
            let latest = latest.max_by_key(|r| order(r.id.name())).ok_or_else(missing)?;
            reference.insert("exactVersion".into(), latest.id.name().into());
            Ok(Source { system: system(record, &["osType"]).unwrap_or("Linux"), disk: 30 })
        }
        "galleries/images/versions" => {
            reference.insert("exactVersion".into(), record.id.name().into());
            let parent = record.id.parent().and_then(|p| prep.state.get(p.key()));
            Ok(Source { system: parent.and_then(|r| system(r, &["osType"])).unwrap_or("Linux"), disk: 30 })
        }
        _ => Err(missing()),
    }
}

/// Image and disks; the system of the image.
fn storage<'a>(
    prep: &'a Prep<'_>,
    p: &mut Map<String, Value>,
    sized: &Size,
) -> Result<Option<&'a str>, Fault> {
    let old = prep.old.and_then(|o| o.property("storageProfile")).cloned().unwrap_or_default();
    let profile = object(p, "storageProfile");
    for part in ["imageReference", "osDisk", "dataDisks"] {
        if !profile.contains_key(part)
            && let Some(v) = old.get(part)
        {
            profile.insert(part.into(), v.clone());
        }
    }
    let mut source = None;
    if let Some(reference) = profile.get_mut("imageReference").and_then(Value::as_object_mut) {
        let kept = prep
            .old
            .is_some()
            .then(|| old["imageReference"]["exactVersion"].clone())
            .filter(|v| !v.is_null());
        source = match kept {
            // What it was made from need not be there any more.
            Some(v) => {
                reference.insert("exactVersion".into(), v);
                Some(Source { system: "", disk: 0 })
            }
            None => match image(prep, reference) {
                Ok(s) => Some(s),
                Err(_) if prep.old.is_some() => None,
                Err(e) => return Err(e),
            },
        };
    }
    os_disk(prep, profile, &old["osDisk"], source, sized)?;
    data_disks(prep, profile, &old["dataDisks"], sized)?;
    Ok(source.map(|s| s.system))
}

fn os_disk(
    prep: &Prep<'_>,
    profile: &mut Map<String, Value>,
    old: &Value,
    source: Option<Source<'_>>,
    sized: &Size,
) -> Result<(), Fault> {
    let disk = object(profile, "osDisk");
    for (k, v) in old.as_object().into_iter().flatten() {
        default(disk, k, v.clone());
    }
    let attached =
        disk.get("createOption").and_then(Value::as_str).is_some_and(|c| c.eq_ignore_ascii_case("Attach"));
    if !attached && source.is_none() && prep.old.is_none() {
        return Err(invalid(
            "imageReference",
            "Required parameter 'imageReference' is missing (null).".into(),
        ));
    }
    if let Some(s) = source.filter(|s| !s.system.is_empty()) {
        default(disk, "osType", s.system);
        default(disk, "diskSizeGB", s.disk);
        let asked = disk.get("diskSizeGB").and_then(Value::as_u64).unwrap_or(0);
        if asked < s.disk {
            return Err(invalid(
                "osDisk.diskSizeGB",
                format!(
                    "The specified disk size {asked} GB is smaller than the size of the corresponding disk in the VM image: {} GB.",
                    s.disk
                ),
            ));
        }
    }
    default(disk, "createOption", "FromImage");
    default(disk, "caching", "ReadWrite");
    default(disk, "deleteOption", "Detach");
    options(&Value::Object(disk.clone()), "osDisk.deleteOption")?;
    let was = text(old, &["managedDisk", "id"]).map(str::to_owned);
    let managed = object(disk, "managedDisk");
    if let Some(id) = was {
        managed.insert("id".into(), id.into());
    } else if !attached {
        managed.remove("id");
        default(managed, "storageAccountType", if sized.premium { "Premium_LRS" } else { "Standard_LRS" });
    }
    taken(prep, disk, attached)
}

/// A disk that is brought must be there and free; one that is made must not be there.
fn taken(prep: &Prep<'_>, disk: &Map<String, Value>, attached: bool) -> Result<(), Fault> {
    let id = disk.get("managedDisk").and_then(|m| text(m, &["id"]));
    match id {
        Some(id) => {
            let key = id.to_lowercase();
            let Some(record) = prep.state.get(&key).filter(|r| r.kind.path == "disks") else {
                return Err(parts::not_found(id));
            };
            if let Some(e) = owner(prep.state, &key).filter(|e| &*e.source != prep.id.key().as_ref()) {
                let other = e.text.rsplit('/').next().unwrap_or_default();
                return Err(conflict(
                    "ConflictingUserInput",
                    format!(
                        "Disk '{}' cannot be attached as the disk is already owned by VM '{other}'.",
                        record.id.name()
                    ),
                ));
            }
            Ok(())
        }
        None if attached => {
            Err(invalid("managedDisk.id", "Required parameter 'managedDisk.id' is missing (null).".into()))
        }
        None => {
            let name = disk.get("name").and_then(Value::as_str);
            let exists =
                name.and_then(|n| disk_id(prep.id, n)).is_some_and(|i| prep.state.get(i.key()).is_some());
            match exists {
                true => Err(conflict(
                    "ConflictingUserInput",
                    format!(
                        "Disk {} already exists in resource group {}. Only CreateOption.Attach is supported.",
                        name.unwrap_or_default(),
                        prep.id.group().unwrap_or_default()
                    ),
                )),
                false => Ok(()),
            }
        }
    }
}

fn disk_id(vm: &ResourceId, name: &str) -> Option<ResourceId> {
    let group = ResourceId::group_scope(vm.subscription()?, vm.group()?).ok()?;
    group.provider("Microsoft.Compute", "disks", name).ok()
}

fn data_disks(
    prep: &Prep<'_>,
    profile: &mut Map<String, Value>,
    old: &Value,
    sized: &Size,
) -> Result<(), Fault> {
    default(profile, "dataDisks", json!([]));
    let Some(list) = profile.get_mut("dataDisks").and_then(Value::as_array_mut) else { return Ok(()) };
    list.retain(|d| d["toBeDetached"].as_bool() != Some(true));
    if list.len() > sized.disks() as usize {
        return Err(conflict(
            "OperationNotAllowed",
            format!(
                "The maximum number of data disks allowed to be attached to a VM of this size is {}.",
                sized.disks()
            ),
        ));
    }
    let mut luns = BTreeSet::new();
    for disk in list.iter_mut().filter_map(Value::as_object_mut) {
        let Some(lun) = disk.get("lun").and_then(Value::as_i64).filter(|l| (0..64).contains(l)) else {
            return Err(invalid(
                "dataDisk.lun",
                "Required parameter 'dataDisk.lun' is missing or out of range (0 to 63).".into(),
            ));
        };
        if !luns.insert(lun) {
            return Err(invalid("dataDisk.lun", format!("A disk at LUN {lun} is specified more than once.")));
        }
        let was = old.as_array().into_iter().flatten().find(|d| d["lun"].as_i64() == Some(lun));
        let same = was.filter(|w| match disk.get("managedDisk").and_then(|m| text(m, &["id"])) {
            Some(id) => text(w, &["managedDisk", "id"]).is_some_and(|k| k.eq_ignore_ascii_case(id)),
            None => true,
        });
        for (k, v) in same.and_then(Value::as_object).into_iter().flatten() {
            default(disk, k, v.clone());
        }
        if let Some(id) = same.and_then(|w| text(w, &["managedDisk", "id"])) {
            object(disk, "managedDisk").insert("id".into(), id.into());
        }
        let attached = disk
            .get("createOption")
            .and_then(Value::as_str)
            .is_some_and(|c| c.eq_ignore_ascii_case("Attach"));
        default(disk, "createOption", "Empty");
        default(disk, "caching", "None");
        default(disk, "deleteOption", "Detach");
        disk.remove("toBeDetached");
        options(&Value::Object(disk.clone()), "dataDisk.deleteOption")?;
        if attached || same.is_some() {
            let record = disk
                .get("managedDisk")
                .and_then(|m| text(m, &["id"]))
                .and_then(|id| prep.state.get(&id.to_lowercase()));
            if let Some(r) = record {
                default(disk, "name", r.id.name());
                default(disk, "diskSizeGB", r.property("diskSizeGB").cloned().unwrap_or_default());
            }
        } else {
            default(
                object(disk, "managedDisk"),
                "storageAccountType",
                if sized.premium { "Premium_LRS" } else { "Standard_LRS" },
            );
            if disk.get("diskSizeGB").and_then(Value::as_u64).is_none() {
                return Err(invalid(
                    "dataDisk.diskSizeGB",
                    "Required parameter 'dataDisk.diskSizeGB' is missing (null).".into(),
                ));
            }
        }
        taken(prep, disk, attached)?;
    }
    Ok(())
}

fn system(prep: &Prep<'_>, p: &mut Map<String, Value>, image: Option<&str>) -> Result<(), Fault> {
    let old = prep.old.and_then(|o| o.property("osProfile")).cloned();
    for (name, target) in [("userData", "userData")] {
        if let Some(data) = p.get(name).and_then(Value::as_str) {
            encoded(data, target)?;
        }
    }
    let attached = p
        .get("storageProfile")
        .and_then(|s| text(s, &["osDisk", "createOption"]))
        .is_some_and(|c| c.eq_ignore_ascii_case("Attach"));
    let specialized = image.is_none() || attached;
    let windows = p.get("storageProfile").and_then(|s| text(s, &["osDisk", "osType"])) == Some("Windows");
    let Some(profile) = p.get_mut("osProfile").and_then(Value::as_object_mut) else {
        return match specialized || prep.old.is_some() {
            true => Ok(()),
            false => Err(invalid("osProfile", "Required parameter 'osProfile' is missing (null).".into())),
        };
    };
    if let Some(data) = profile.get("customData").and_then(Value::as_str) {
        encoded(data, "customData")?;
    }
    profile.remove("adminPassword");
    for field in ["customData", "adminUsername", "computerName", "linuxConfiguration", "windowsConfiguration"]
    {
        if let Some(v) = old.as_ref().and_then(|o| o.get(field)) {
            default(profile, field, v.clone());
        }
    }
    default(profile, "computerName", prep.id.name());
    if profile.get("adminUsername").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(invalid("adminUsername", "Required parameter 'adminUsername' is missing (null).".into()));
    }
    if windows {
        let w = object(profile, "windowsConfiguration");
        default(w, "provisionVMAgent", true);
        default(w, "enableAutomaticUpdates", true);
    } else {
        let l = object(profile, "linuxConfiguration");
        default(l, "disablePasswordAuthentication", false);
        default(l, "provisionVMAgent", true);
        default(object(l, "patchSettings"), "patchMode", "ImageDefault");
    }
    default(profile, "secrets", json!([]));
    default(profile, "allowExtensionOperations", true);
    default(profile, "requireGuestProvisionSignal", true);
    Ok(())
}

fn encoded(data: &str, target: &str) -> Result<(), Fault> {
    let fits =
        data.len() <= MAX_CUSTOM_DATA && base64::engine::general_purpose::STANDARD.decode(data).is_ok();
    match fits {
        true => Ok(()),
        false => Err(invalid(
            target,
            format!(
                "Custom data in OSProfile must be in Base64 encoding and with a maximum length of {MAX_CUSTOM_DATA} characters."
            ),
        )),
    }
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
