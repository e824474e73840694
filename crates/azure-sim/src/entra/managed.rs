//! Tokens that a machine gets by asking: which identity is meant, and how the answer looks.

use crate::entra::Keys;
use crate::entra::token::{Made, issue};
use crate::kinds::{compute_text as text, power};
use crate::state::{Principal, Record, State, hash};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a machine asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub resource: &'a str,
    pub client_id: Option<&'a str>,
    pub object_id: Option<&'a str>,
    pub resource_id: Option<&'a str>,
}

fn refuse(why: &str) -> Value {
    json!({"error": "invalid_request", "error_description": why})
}

/// The identities that a machine has: its own, and those it was given.
fn identities(state: &State, machine: &Record) -> (Option<Arc<Principal>>, Vec<(String, Arc<Principal>)>) {
    let Some(identity) = machine.doc.get("identity") else { return (None, Vec::new()) };
    let own = text(identity, &["principalId"]).and_then(|p| state.directory.principal(p)).cloned();
    let users = identity.get("userAssignedIdentities").and_then(Value::as_object);
    let users = users.into_iter().flatten().filter_map(|(id, v)| {
        Some((id.clone(), state.directory.principal(text(v, &["principalId"])?)?.clone()))
    });
    (own, users.collect())
}

/// The identity that is meant. Nothing said: the machine's own, or the only one it was given.
fn chosen(state: &State, machine: &Record, asked: &Asked<'_>) -> Result<Arc<Principal>, Value> {
    let (own, users) = identities(state, machine);
    let missing = || refuse("Identity not found");
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let mut all = own.iter().chain(users.iter().map(|(_, p)| p));
    let said = [asked.client_id, asked.object_id, asked.resource_id].iter().flatten().count();
    if said > 1 {
        return Err(refuse("Only one of client_id, object_id and msi_res_id may be given"));
    }
    if let Some(id) = asked.client_id {
        return all.find(|p| same(&p.client_id, id)).cloned().ok_or_else(missing);
    }
    if let Some(id) = asked.object_id {
        return all.find(|p| same(&p.object_id, id)).cloned().ok_or_else(missing);
    }
    if let Some(id) = asked.resource_id {
        let of_machine = own.clone().filter(|_| same(machine.id.as_str(), id));
        let given = || users.iter().find(|(u, _)| same(u, id)).map(|(_, p)| p.clone());
        return of_machine.or_else(given).ok_or_else(missing);
    }
    match (own, users.as_slice()) {
        (Some(p), _) => Ok(p),
        (None, [(_, p)]) => Ok(p.clone()),
        (None, []) => Err(missing()),
        (None, _) => Err(refuse(
            "Multiple user assigned identities exist, please specify the clientId / resourceId of the identity in the token request",
        )),
    }
}

/// A token for a machine, or why not. All values are texts.
pub fn token_for_machine(
    state: &State,
    keys: &Keys,
    machine: &Record,
    asked: &Asked<'_>,
    now: Timestamp,
) -> Result<Value, Value> {
    if asked.resource.is_empty() {
        return Err(refuse("Required audience parameter not specified"));
    }
    if !asked.resource.contains(':') && asked.resource.len() != 36 {
        return Err(json!({
            "error": "invalid_resource",
            "error_description": format!("AADSTS500011: The resource principal named {} was not found in the tenant.", asked.resource),
        }));
    }
    let principal = chosen(state, machine, asked)?;
    let made = Made { strength: "2", v2: false, at: Some(machine.id.as_str()) };
    let mut body = issue(state, keys, &principal, asked.resource, &made, now);
    body["client_id"] = principal.client_id.as_str().into();
    Ok(body)
}

/// What a caller of the App-Service-style endpoint must say, per machine.
pub fn app_service_secret(state: &State, vm_id: &str) -> String {
    format!("{:032x}", hash(state.seed, &[&vm_id.to_lowercase(), "identity-header"]))
}

/// `/metadata/instance`: what a machine is told about itself.
pub fn metadata(state: &State, machine: &Record) -> Value {
    let p = |path: &[&str]| {
        let p = machine.doc.get("properties").unwrap_or(&Value::Null);
        text(p, path).unwrap_or_default().to_owned()
    };
    let tags = machine.doc.get("tags").and_then(Value::as_object).cloned().unwrap_or_default();
    let flat: Vec<String> =
        tags.iter().map(|(k, v)| format!("{k}:{}", v.as_str().unwrap_or_default())).collect();
    let list: Vec<Value> = tags.iter().map(|(k, v)| json!({"name": k, "value": v})).collect();
    let reference =
        machine.property("storageProfile").map(|s| s["imageReference"].clone()).unwrap_or_default();
    let image = |f: &str| text(&reference, &[f]).unwrap_or_default().to_owned();
    let zone = machine.doc.get("zones").and_then(|z| z.get(0)).and_then(Value::as_str).unwrap_or_default();
    let set = p(&["availabilitySet", "id"]);
    let data = machine.property("storageProfile").map(|s| s["dataDisks"].clone()).unwrap_or_default();
    let data: Vec<Value> = data
        .as_array()
        .into_iter()
        .flatten()
        .map(|d| json!({
            "lun": d["lun"].to_string(), "name": d["name"], "caching": d["caching"], "createOption": d["createOption"],
            "diskSizeGB": d["diskSizeGB"].to_string(), "managedDisk": {"id": d["managedDisk"]["id"], "storageAccountType": d["managedDisk"]["storageAccountType"]},
        }))
        .collect();
    let storage = json!({
        "dataDisks": data, "resourceDisk": {"size": "0"},
        "imageReference": {"id": image("id"), "offer": image("offer"), "publisher": image("publisher"), "sku": image("sku"), "version": image("version"), "exactVersion": image("exactVersion")},
        "osDisk": {
            "name": p(&["storageProfile", "osDisk", "name"]), "caching": p(&["storageProfile", "osDisk", "caching"]), "createOption": p(&["storageProfile", "osDisk", "createOption"]),
            "osType": p(&["storageProfile", "osDisk", "osType"]), "managedDisk": {"id": p(&["storageProfile", "osDisk", "managedDisk", "id"]), "storageAccountType": p(&["storageProfile", "osDisk", "managedDisk", "storageAccountType"])},
        },
    });
    let profile = json!({
        "adminUsername": p(&["osProfile", "adminUsername"]), "computerName": p(&["osProfile", "computerName"]),
        "disablePasswordAuthentication": machine.property("osProfile").map(|o| o["linuxConfiguration"]["disablePasswordAuthentication"].to_string()).unwrap_or_default(),
    });
    let mut compute = json!({
            "azEnvironment": "AzurePublicCloud", "location": machine.location(), "name": machine.id.name(),
            "offer": image("offer"), "publisher": image("publisher"), "sku": image("sku"), "version": image("exactVersion"),
            "osType": p(&["storageProfile", "osDisk", "osType"]), "placementGroupId": "", "platformFaultDomain": "0", "platformUpdateDomain": "0",
            "platformSubFaultDomain": "", "provider": "Microsoft.Compute", "publicKeys": [], "resourceGroupName": machine.id.group(),
            "resourceId": machine.id.as_str(), "subscriptionId": machine.id.subscription(), "tags": flat.join(";"), "tagsList": list});
    let more = json!({"userData": p(&["userData"]), "customData": "", "evictionPolicy": "", "priority": "", "isHostCompatibilityLayerVm": "false",
        "licenseType": "", "plan": {"name": "", "product": "", "publisher": ""}, "vmId": p(&["vmId"]), "vmScaleSetName": "",
        "vmSize": p(&["hardwareProfile", "vmSize"]), "zone": zone, "vmPowerState": power(machine).as_str(),
        "availabilitySetName": set.rsplit('/').next().unwrap_or_default(),
        "osProfile": profile,
        "securityProfile": {"secureBootEnabled": "false", "virtualTpmEnabled": "false", "encryptionAtHost": "false", "securityType": ""},
        "storageProfile": storage,
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut compute, more) {
        all.extend(more);
    }
    json!({"compute": compute, "network": {"interface": interfaces(state, machine)}})
}

fn interfaces(state: &State, machine: &Record) -> Vec<Value> {
    let Ok(version) = "2024-03-01".parse() else { return Vec::new() };
    let nics = machine.property("networkProfile").and_then(|n| n["networkInterfaces"].as_array());
    let of = |n: &Value| {
        let nic = state.get(&text(n, &["id"])?.to_lowercase())?;
        let shown = crate::kinds::show(state, nic, &version);
        let configs = shown["properties"]["ipConfigurations"].as_array().cloned().unwrap_or_default();
        let addresses: Vec<Value> = configs
            .iter()
            .map(|c| {
                let public = text(c, &["properties", "publicIPAddress", "id"])
                    .and_then(|id| state.get(&id.to_lowercase()));
                let public =
                    public.and_then(|r| r.property("ipAddress")).and_then(Value::as_str).unwrap_or_default();
                json!({"privateIpAddress": c["properties"]["privateIPAddress"], "publicIpAddress": public})
            })
            .collect();
        let subnet = configs
            .first()
            .and_then(|c| text(c, &["properties", "subnet", "id"]))
            .unwrap_or_default()
            .to_lowercase();
        let range = subnet
            .rsplit_once("/subnets/")
            .and_then(|(vnet, name)| state.get(vnet)?.element("subnets", name));
        let range = range.and_then(|s| text(s, &["properties", "addressPrefix"])).unwrap_or_default();
        let (address, prefix) = range.split_once('/').unwrap_or_default();
        Some(json!({
            "ipv4": {"ipAddress": addresses, "subnet": [{"address": address, "prefix": prefix}]}, "ipv6": {"ipAddress": []},
            "macAddress": text(&shown, &["properties", "macAddress"]).unwrap_or_default().replace('-', ""),
        }))
    };
    nics.into_iter().flatten().filter_map(of).collect()
}
