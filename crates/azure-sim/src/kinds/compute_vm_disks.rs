//! What a machine boots from and has beside it: its image and its disks.

use crate::kinds::compute_disks::owner;
use crate::kinds::compute_parts::{self as parts, conflict, invalid, object, text};
use crate::kinds::compute_sizes::Size;
use crate::kinds::compute_vm_checks::options;
use crate::kinds::{Image, Prep, default};
use crate::state::{Phase, Record};
use crate::wire::Fault;
use arm::ResourceId;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

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
pub fn storage<'a>(
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

pub fn disk_id(vm: &ResourceId, name: &str) -> Option<ResourceId> {
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
