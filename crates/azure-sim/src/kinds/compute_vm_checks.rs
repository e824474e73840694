//! What a machine may be made of: zones, sizes, interfaces, its system.

use crate::kinds::compute_parts::{self as parts, conflict, invalid, object, text};
use crate::kinds::compute_sizes::{Size, size};
use crate::kinds::{Prep, default};
use crate::wire::Fault;
use base64::Engine;
use http::StatusCode;
use serde_json::{Map, Value, json};

/// 64 KiB, written in base64.
const MAX_CUSTOM_DATA: usize = 87_380;

pub fn zones(doc: &Map<String, Value>) -> Result<Option<String>, Fault> {
    let list: Vec<&str> =
        doc.get("zones").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    match list.as_slice() {
        [] => Ok(None),
        [z @ ("1" | "2" | "3")] => Ok(Some((*z).to_owned())),
        [z] => Err(invalid("zones", format!("The zone '{z}' is not valid: the zones are 1, 2 and 3."))),
        _ => Err(invalid("zones", "A virtual machine is in one availability zone.".into())),
    }
}

pub fn hardware(
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

pub fn interfaces(prep: &Prep<'_>, p: &mut Map<String, Value>, place: &str) -> Result<(), Fault> {
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

pub fn options(v: &Value, target: &str) -> Result<(), Fault> {
    match text(v, &["deleteOption"]) {
        None | Some("Detach" | "Delete") => Ok(()),
        Some(other) => {
            Err(invalid(target, format!("The value '{other}' of deleteOption is invalid: Detach or Delete.")))
        }
    }
}

pub fn system(prep: &Prep<'_>, p: &mut Map<String, Value>, image: Option<&str>) -> Result<(), Fault> {
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

pub fn encoded(data: &str, target: &str) -> Result<(), Fault> {
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
