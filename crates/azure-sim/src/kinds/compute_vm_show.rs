//! What a client sees of a machine: without its secrets, as its api-version had it.

use crate::kinds::compute_parts::{HIDDEN, text};
use crate::kinds::{Image, Power, power, properties};
use crate::state::{Phase, Record, State};
use arm::ApiVersion;
use serde_json::{Map, Value, json};

pub fn show(state: &State, record: &Record, version: &ApiVersion, out: &mut Map<String, Value>) {
    let hidden = record.doc.get(HIDDEN).cloned().unwrap_or_default();
    if version.at_least("2024-07-01") {
        out.insert("etag".into(), format!("\"{}\"", hidden["version"].as_u64().unwrap_or(1)).into());
    }
    let extensions: Vec<Value> = state
        .below(record.id.key())
        .filter(|r| r.kind.path == "virtualMachines/extensions")
        .map(|r| crate::kinds::show(state, r, version))
        .collect();
    if !extensions.is_empty() {
        out.insert("resources".into(), extensions.into());
    }
    let p = properties(out);
    p.remove("userData");
    if version.at_least("2021-11-01") {
        p.insert("timeCreated".into(), record.created.to_string().into());
    }
    if let Some(profile) = p.get_mut("osProfile").and_then(Value::as_object_mut) {
        profile.remove("customData");
        let settings = profile.get_mut("linuxConfiguration").and_then(|l| l.get_mut("patchSettings"));
        if let Some(s) = settings.and_then(Value::as_object_mut).filter(|_| version.at_least("2021-03-01")) {
            s.entry("assessmentMode").or_insert_with(|| "ImageDefault".into());
        }
    }
    // What happens to disks and interfaces could not be said before.
    if !version.at_least("2021-03-01") {
        older(p);
    }
}

fn older(p: &mut Map<String, Value>) {
    if let Some(s) = p.get_mut("storageProfile") {
        if let Some(d) = s.get_mut("osDisk").and_then(Value::as_object_mut) {
            d.remove("deleteOption");
        }
        for d in s.get_mut("dataDisks").and_then(Value::as_array_mut).into_iter().flatten() {
            d.as_object_mut().and_then(|d| d.remove("deleteOption"));
        }
    }
    let nics = p
        .get_mut("networkProfile")
        .and_then(|n| n.get_mut("networkInterfaces"))
        .and_then(Value::as_array_mut);
    for n in nics.into_iter().flatten() {
        n.get_mut("properties").and_then(Value::as_object_mut).and_then(|q| q.remove("deleteOption"));
    }
}

fn status(code: &str, display: &str, at: Option<&str>) -> Value {
    let mut s = json!({"code": code, "level": "Info", "displayStatus": display});
    if let Some(at) = at {
        s["time"] = at.into();
    }
    s
}

/// How the machine is, rather than what it is.
pub fn instance_view(state: &State, record: &Record) -> Value {
    let at = record.changed.to_string();
    let hidden = record.doc.get(HIDDEN).cloned().unwrap_or_default();
    let profile = record.property("storageProfile").cloned().unwrap_or_default();
    let provisioning = match record.phase {
        Phase::Succeeded => ("ProvisioningState/succeeded".to_owned(), "Provisioning succeeded"),
        Phase::Creating => ("ProvisioningState/creating".to_owned(), "Creating"),
        Phase::Updating => ("ProvisioningState/updating".to_owned(), "Updating"),
        Phase::Deleting => ("ProvisioningState/deleting".to_owned(), "Deleting"),
        Phase::Failed => {
            let code = text(&hidden, &["failure"]).unwrap_or("OSProvisioningTimedOut");
            (format!("ProvisioningState/failed/{code}"), "Provisioning failed")
        }
    };
    let mut statuses = vec![status(&provisioning.0, provisioning.1, Some(&at))];
    if hidden["generalized"].as_bool() == Some(true) {
        statuses.push(status("OSState/generalized", "VM generalized", None));
    }
    let (code, display) = match power(record) {
        Power::Running => ("PowerState/running", "VM running"),
        Power::Stopped => ("PowerState/stopped", "VM stopped"),
        Power::Deallocated => ("PowerState/deallocated", "VM deallocated"),
    };
    if record.phase != Phase::Creating {
        statuses.push(status(code, display, None));
    }
    let disks =
        std::iter::once(&profile["osDisk"]).chain(profile["dataDisks"].as_array().into_iter().flatten());
    let disks: Vec<Value> = disks
        .filter_map(|d| text(d, &["name"]))
        .map(|name| json!({"name": name, "statuses": [status("ProvisioningState/succeeded", "Provisioning succeeded", Some(&at))]}))
        .collect();
    let reference = &profile["imageReference"];
    let of = |f: &str| text(reference, &[f]).unwrap_or_default();
    let generation = Image::find(of("publisher"), of("offer"), of("sku")).map_or("V2", |i| i.generation);
    let mut view = json!({"disks": disks, "hyperVGeneration": generation, "statuses": statuses});
    if power(record) == Power::Running && record.phase == Phase::Succeeded {
        let name = record
            .property("osProfile")
            .and_then(|o| text(o, &["computerName"]))
            .unwrap_or_else(|| record.id.name());
        view["computerName"] = name.into();
        view["vmAgent"] = json!({
            "vmAgentVersion": "2.11.1.12", "extensionHandlers": [],
            "statuses": [status("ProvisioningState/succeeded", "Ready", Some(&at))],
        });
    }
    let extensions: Vec<Value> = state
        .below(record.id.key())
        .filter(|r| r.kind.path == "virtualMachines/extensions")
        .map(|r| {
            let p = |f: &str| r.property(f).and_then(Value::as_str).unwrap_or_default();
            json!({
                "name": r.id.name(), "type": format!("{}.{}", p("publisher"), p("type")), "typeHandlerVersion": p("typeHandlerVersion"),
                "statuses": [status("ProvisioningState/succeeded", "Provisioning succeeded", None)],
            })
        })
        .collect();
    if !extensions.is_empty() {
        view["extensions"] = extensions.into();
    }
    let diagnosed = record
        .property("diagnosticsProfile")
        .is_some_and(|d| d["bootDiagnostics"]["enabled"].as_bool() == Some(true));
    if diagnosed {
        view["bootDiagnostics"] = json!({});
    }
    view
}
