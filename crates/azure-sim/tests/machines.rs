//! Machines: composition, refusals, power.

use crate::support::{Lab, code, lab};
use azure_sim::{Happening, Profile};
use serde_json::{Value, json};

pub const V: &str = "api-version=2024-03-01";

pub struct Site {
    pub lab: Lab,
    pub group: String,
}

impl Site {
    pub async fn new(profile: Profile) -> Site {
        let lab = lab(profile).await;
        let group = lab.group("g");
        let site = Site { lab, group };
        site.put("Microsoft.Network/virtualNetworks/v", &json!({"location": "westus2", "properties": {
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
            "subnets": [
                {"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}},
                {"name": "nat", "properties": {"addressPrefix": "10.0.1.0/24", "privateLinkServiceNetworkPolicies": "Disabled"}},
            ],
        }}));

        site
    }

    pub fn id(&self, name: &str) -> String {
        format!("{}/providers/{name}", self.group)
    }

    pub fn ask(&self, method: &str, name: &str, body: Option<&Value>) -> azure_sim::Reply {
        let url = if name.contains('?') { self.id(name) } else { format!("{}?{V}", self.id(name)) };
        self.lab.ask(method, &url, body)
    }

    /// Writes and waits.
    pub fn put(&self, name: &str, body: &Value) -> Value {
        let reply = self.ask("PUT", name, Some(body));
        assert!(reply.status.is_success(), "{name}: {reply:?}");
        self.lab.pass(100);
        self.get(name)
    }

    pub fn get(&self, name: &str) -> Value {
        let reply = self.ask("GET", name, None);
        assert!(reply.status.is_success(), "{name}: {reply:?}");
        reply.body.unwrap()
    }

    pub fn nic(&self, name: &str) -> String {
        let subnet = self.id("Microsoft.Network/virtualNetworks/v/subnets/s");
        let nic = format!("Microsoft.Network/networkInterfaces/{name}");
        self.put(&nic, &json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet}}}]}}));
        self.id(&nic)
    }

    pub fn machine(&self, nic: &str) -> Value {
        json!({"location": "westus2", "properties": {
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
            "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"}},
            "osProfile": {"computerName": "m", "adminUsername": "core", "adminPassword": "Secret-1234", "customData": "aWduaXRpb24="},
            "networkProfile": {"networkInterfaces": [{"id": nic}]},
        }})
    }
}

pub const VM: &str = "Microsoft.Compute/virtualMachines/m";

#[tokio::test]
async fn a_machine_is_made_of_its_parts() {
    let site = Site::new(Profile::Real).await;
    let nic = site.nic("n");
    let first = site.ask("PUT", VM, Some(&site.machine(&nic)));
    assert_eq!(first.status, 201);
    let body = first.body.unwrap();
    assert_eq!(body["properties"]["provisioningState"], "Creating");
    assert!(body["properties"]["storageProfile"]["osDisk"]["managedDisk"].get("id").is_none());
    site.lab.pass(100);
    let text = site.get(VM).to_string();
    assert!(
        !text.contains("aWduaXRpb24=") && !text.contains("Secret-1234") && !text.contains("zaffre"),
        "{text}"
    );
    let vm = site.get(VM);
    let p = &vm["properties"];
    assert_eq!(p["storageProfile"]["imageReference"]["exactVersion"], "9.6.20251015");
    let disk = p["storageProfile"]["osDisk"]["managedDisk"]["id"].as_str().unwrap();
    assert!(disk.contains("/m_OsDisk_1_"), "{disk}");
    let disk = site.lab.ask("GET", &format!("{disk}?{V}"), None).body.unwrap();
    assert_eq!(
        (disk["managedBy"].as_str(), disk["properties"]["diskState"].as_str()),
        (vm["id"].as_str(), Some("Attached"))
    );
    assert_eq!(
        (disk["sku"]["name"].as_str(), disk["properties"]["diskSizeGB"].as_u64()),
        (Some("Premium_LRS"), Some(16))
    );
    let nic = site.get("Microsoft.Network/networkInterfaces/n");
    assert_eq!(nic["properties"]["virtualMachine"]["id"], vm["id"]);
    assert!(nic["properties"]["macAddress"].as_str().unwrap().starts_with("00-0D-3A-"));
    let view = site.get(&format!("{VM}?{V}&$expand=instanceView"));
    assert_eq!(view["properties"]["instanceView"]["statuses"][1]["code"], "PowerState/running");
    assert!(p.get("instanceView").is_none());
    // Versions before and after.
    let old = site.get(&format!("{VM}?api-version=2020-12-01"));
    assert!(
        old["properties"].get("timeCreated").is_none()
            && old["properties"]["storageProfile"]["osDisk"].get("deleteOption").is_none()
    );
    let new = site.get(&format!("{VM}?api-version=2026-04-01"));
    assert!(new.get("etag").is_some() && new["properties"].get("timeCreated").is_some());
}

#[tokio::test]
async fn what_is_wrong_is_refused() {
    let site = Site::new(Profile::Instant).await;
    let nic = site.nic("n");
    let good = site.machine(&nic);
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        ("/properties/hardwareProfile/vmSize", json!("Standard_Huge"), 400, "InvalidParameter"),
        ("/properties/hardwareProfile/vmSize", json!("Standard_M8ms"), 409, "SkuNotAvailable"),
        ("/properties/storageProfile/imageReference/sku", json!("none"), 404, "PlatformImageNotFound"),
        (
            "/properties/storageProfile/imageReference",
            json!({"id": site.id("Microsoft.Compute/images/none")}),
            404,
            "NotFound",
        ),
        ("/properties/osProfile/customData", json!("?"), 400, "InvalidParameter"),
        ("/properties/osProfile/customData", json!("A".repeat(87_384)), 400, "InvalidParameter"),
        ("/properties/osProfile/adminUsername", json!(""), 400, "InvalidParameter"),
        ("/properties/networkProfile/networkInterfaces", json!([]), 400, "InvalidParameter"),
        (
            "/properties/networkProfile/networkInterfaces",
            json!([{"id": site.id("Microsoft.Network/networkInterfaces/none")}]),
            404,
            "NotFound",
        ),
        (
            "/properties/storageProfile/dataDisks",
            json!([{"lun": 0, "createOption": "Attach", "managedDisk": {"id": site.id("Microsoft.Compute/disks/none")}}]),
            404,
            "NotFound",
        ),
        (
            "/properties/storageProfile/dataDisks",
            json!([{"lun": 0, "diskSizeGB": 4}, {"lun": 0, "diskSizeGB": 4}]),
            400,
            "InvalidParameter",
        ),
        ("/properties/storageProfile/dataDisks", json!("x"), 400, "InvalidRequestFormat"),
        ("/zones", json!(["9"]), 400, "InvalidParameter"),
        (
            "/identity",
            json!({"type": "UserAssigned", "userAssignedIdentities": {(site.id("Microsoft.ManagedIdentity/userAssignedIdentities/none")): {}}}),
            400,
            "FailedIdentityOperation",
        ),
        (
            "/properties/availabilitySet",
            json!({"id": site.id("Microsoft.Compute/availabilitySets/none")}),
            400,
            "InvalidResourceReference",
        ),
    ];
    for (at, to, status, want) in cases {
        let mut body = good.clone();
        match body.pointer_mut(at) {
            Some(v) => *v = to,
            None => {
                let (parent, name) = at.rsplit_once('/').unwrap();
                body.pointer_mut(parent).unwrap()[name] = to;
            }
        }
        let got = site.ask("PUT", VM, Some(&body));
        assert_eq!((got.status.as_u16(), code(&got).as_str()), (status, want), "{at}: {got:?}");
        assert_eq!(site.ask("GET", VM, None).status, 404, "{at} left something behind");
    }
    // Nothing happened to any machine.
    assert!(site.lab.world.machine_events(0).value.is_empty());
    let set = site.put(
        "Microsoft.Compute/availabilitySets/a",
        &json!({"location": "westus2", "sku": {"name": "Aligned"}}),
    );
    let mut both = good.clone();
    both["zones"] = json!(["1"]);
    both["properties"]["availabilitySet"] = json!({"id": set["id"]});
    assert_eq!(code(&site.ask("PUT", VM, Some(&both))), "InvalidParameter");
    site.lab.world.set_quota(site.lab.world.subscription(), "westus2", "cores", 3).unwrap();
    assert_eq!(code(&site.ask("PUT", VM, Some(&good))), "OperationNotAllowed");
    site.lab.world.set_quota(site.lab.world.subscription(), "westus2", "cores", 4).unwrap();
    site.put(VM, &good);
    let usages = site
        .lab
        .ask(
            "GET",
            &format!(
                "/subscriptions/{}/providers/Microsoft.Compute/locations/westus2/usages?{V}",
                site.lab.world.subscription()
            ),
            None,
        )
        .body
        .unwrap();
    let cores = usages["value"].as_array().unwrap().iter().find(|u| u["name"]["value"] == "cores").unwrap();
    assert_eq!((cores["currentValue"].as_u64(), cores["limit"].as_u64()), (Some(4), Some(4)));
}

#[tokio::test]
async fn extensions_belong_to_their_machine() {
    let site = Site::new(Profile::Instant).await;
    let at = format!("{VM}/extensions/agent");
    let agent = json!({"location": "westus2", "properties": {
        "publisher": "Microsoft.Azure.Monitor", "type": "AzureMonitorLinuxAgent", "typeHandlerVersion": "1.33",
        "settings": {"a": 1}, "protectedSettings": {"key": "hidden"}}});
    let early = site.ask("PUT", &at, Some(&agent));
    assert_eq!((early.status.as_u16(), code(&early).as_str()), (404, "ParentResourceNotFound"));
    site.put(VM, &site.machine(&site.nic("n")));
    let mut bad = agent.clone();
    bad["properties"].as_object_mut().unwrap().remove("publisher");
    let refused = site.ask("PUT", &at, Some(&bad));
    assert_eq!(refused.status, 400);
    assert!(refused.body.unwrap().to_string().contains("publisher"));
    let made = site.put(&at, &agent);
    assert_eq!(made["properties"]["provisioningState"], "Succeeded");
    assert!(made["properties"].get("protectedSettings").is_none(), "never shown again");
    let vm = site.get(&format!("{VM}?$expand=instanceView&{V}"));
    assert_eq!(vm["resources"][0]["name"], "agent");
    let seen = &vm["properties"]["instanceView"]["extensions"][0];
    assert_eq!(seen["type"], "Microsoft.Azure.Monitor.AzureMonitorLinuxAgent");
    assert!(site.ask("DELETE", VM, None).status.is_success());
    site.lab.pass(100);
    let gone = site.ask("GET", &at, None);
    assert_eq!(gone.status, 404, "it went with the machine");
}

#[tokio::test]
async fn who_is_in_use_stays() {
    let site = Site::new(Profile::Instant).await;
    let nic = site.nic("n");
    let set = site.put("Microsoft.Compute/availabilitySets/a", &json!({"location": "westus2"}));
    let mut body = site.machine(&nic);
    body["properties"]["availabilitySet"] = json!({"id": set["id"]});
    let vm = site.put(VM, &body);
    assert_eq!(
        site.get("Microsoft.Compute/availabilitySets/a")["properties"]["virtualMachines"][0]["id"],
        vm["id"]
    );
    let disk = vm["properties"]["storageProfile"]["osDisk"]["name"].as_str().unwrap().to_owned();
    let disk = format!("Microsoft.Compute/disks/{disk}");
    for (name, status, want) in [
        ("Microsoft.Network/networkInterfaces/n", 400, "NicInUse"),
        (disk.as_str(), 409, "OperationNotAllowed"),
        ("Microsoft.Compute/availabilitySets/a", 409, "OperationNotAllowed"),
    ] {
        let got = site.ask("DELETE", name, None);
        assert_eq!((got.status.as_u16(), code(&got).as_str()), (status, want), "{name}");
    }
    // Another machine cannot have the same interface or disk.
    let got = site.ask("PUT", "Microsoft.Compute/virtualMachines/other", Some(&site.machine(&nic)));
    assert_eq!(code(&got), "NicInUse");
    let mut other = site.machine(&site.nic("n2"));
    other["properties"]["storageProfile"]["dataDisks"] =
        json!([{"lun": 0, "createOption": "Attach", "managedDisk": {"id": site.id(&disk)}}]);
    let got = site.ask("PUT", "Microsoft.Compute/virtualMachines/other", Some(&other));
    assert_eq!(code(&got), "ConflictingUserInput");
    // Detached by default: the machine goes, its parts stay and are free.
    assert_eq!(site.ask("DELETE", VM, None).status, 202);
    assert_eq!(site.ask("GET", VM, None).status, 404);
    assert_eq!(site.get(&disk)["properties"]["diskState"], "Unattached");
    assert!(site.get("Microsoft.Network/networkInterfaces/n")["properties"].get("virtualMachine").is_none());
    assert_eq!(site.ask("DELETE", &disk, None).status, 202);
    assert_eq!(site.ask("DELETE", "Microsoft.Compute/availabilitySets/a", None).status, 200);
}

#[tokio::test]
async fn parts_that_shall_go_go() {
    let site = Site::new(Profile::Instant).await;
    let nic = site.nic("n");
    let kept = site.put("Microsoft.Compute/disks/kept", &json!({"location": "westus2", "sku": {"name": "Premium_LRS"}, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 64}}));
    assert_eq!(
        (kept["properties"]["tier"].as_str(), kept["properties"]["diskIOPSReadWrite"].as_u64()),
        (Some("P6"), Some(240))
    );
    let mut body = site.machine(&nic);
    body["properties"]["networkProfile"]["networkInterfaces"] =
        json!([{"id": nic, "properties": {"deleteOption": "Delete"}}]);
    body["properties"]["storageProfile"]["osDisk"] =
        json!({"createOption": "FromImage", "deleteOption": "Delete", "name": "os"});
    body["properties"]["storageProfile"]["dataDisks"] = json!([
        {"lun": 0, "createOption": "Empty", "diskSizeGB": 8, "name": "made", "deleteOption": "Delete"},
        {"lun": 1, "createOption": "Attach", "managedDisk": {"id": kept["id"]}},
    ]);
    let vm = site.put(VM, &body);
    assert_eq!(vm["properties"]["storageProfile"]["dataDisks"][1]["name"], "kept");
    for name in ["os", "made", "kept"] {
        assert_eq!(
            site.get(&format!("Microsoft.Compute/disks/{name}"))["properties"]["diskState"],
            "Attached",
            "{name}"
        );
    }
    // A patch takes one away: what is not in the list is detached.
    let change = json!({"properties": {"storageProfile": {"dataDisks": [{"lun": 0, "managedDisk": {"id": site.id("Microsoft.Compute/disks/made")}, "createOption": "Attach", "deleteOption": "Delete"}]}}});
    assert_eq!(site.ask("PATCH", VM, Some(&change)).status, 200);
    site.get(VM);
    assert_eq!(site.get("Microsoft.Compute/disks/kept")["properties"]["diskState"], "Unattached");
    assert_eq!(site.ask("DELETE", VM, None).status, 202);
    assert_eq!(site.ask("GET", VM, None).status, 404);
    for gone in [
        "Microsoft.Compute/disks/os",
        "Microsoft.Compute/disks/made",
        "Microsoft.Network/networkInterfaces/n",
    ] {
        assert_eq!(site.ask("GET", gone, None).status, 404, "{gone}");
    }
    site.get("Microsoft.Compute/disks/kept");
    let smaller = json!({"location": "westus2", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 32}});
    assert_eq!(code(&site.ask("PUT", "Microsoft.Compute/disks/kept", Some(&smaller))), "OperationNotAllowed");
}

#[tokio::test]
async fn what_may_not_change_does_not() {
    let site = Site::new(Profile::Instant).await;
    let nic = site.nic("n");
    let body = site.machine(&nic);
    let before = site.put(VM, &body);
    for (at, to) in [
        ("/properties/osProfile/customData", json!("b3RoZXI=")),
        ("/properties/osProfile/adminUsername", json!("other")),
        ("/properties/storageProfile/imageReference/sku", json!("419-v2")),
    ] {
        let mut other = body.clone();
        *other.pointer_mut(at).unwrap() = to;
        let got = site.ask("PUT", VM, Some(&other));
        assert_eq!((got.status.as_u16(), code(&got).as_str()), (409, "PropertyChangeNotAllowed"), "{at}");
    }
    let resized =
        json!({"properties": {"hardwareProfile": {"vmSize": "Standard_D8s_v5"}}, "tags": {"a": "b"}});
    assert_eq!(site.ask("PATCH", VM, Some(&resized)).status, 200);
    let after = site.get(VM);
    assert_eq!(after["properties"]["hardwareProfile"]["vmSize"], "Standard_D8s_v5");
    assert_eq!(after["properties"]["vmId"], before["properties"]["vmId"]);
    assert_eq!(
        after["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"],
        before["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"]
    );
}

#[tokio::test]
async fn power() {
    let site = Site::new(Profile::Real).await;
    let nic = site.nic("n");
    site.put(VM, &site.machine(&nic));
    let state = |want: &str| {
        let view = site.get(&format!("{VM}/instanceView"));
        let codes: Vec<&str> =
            view["statuses"].as_array().unwrap().iter().filter_map(|s| s["code"].as_str()).collect();
        assert!(codes.contains(&format!("PowerState/{want}").as_str()), "{codes:?}");
    };
    state("running");
    assert_eq!(code(&site.ask("POST", &format!("{VM}/generalize"), None)), "OperationNotAllowed");
    for (action, want) in
        [("powerOff", "stopped"), ("start", "running"), ("restart", "running"), ("deallocate", "deallocated")]
    {
        let got = site.ask("POST", &format!("{VM}/{action}"), None);
        assert_eq!(got.status, 202, "{got:?}");
        assert!(got.headers.contains_key("azure-asyncoperation") && got.headers.contains_key("location"));
        let status = got.headers["azure-asyncoperation"].to_str().unwrap().to_owned();
        assert_eq!(site.lab.ask("GET", &status, None).body.unwrap()["status"], "InProgress");
        // One at a time.
        assert_eq!(code(&site.ask("POST", &format!("{VM}/start"), None)), "Conflict");
        site.lab.pass(120);
        assert_eq!(site.lab.ask("GET", &status, None).body.unwrap()["status"], "Succeeded");
        state(want);
    }
    let disk = site.get(VM)["properties"]["storageProfile"]["osDisk"]["name"].as_str().unwrap().to_owned();
    assert_eq!(site.get(&format!("Microsoft.Compute/disks/{disk}"))["properties"]["diskState"], "Reserved");
    assert_eq!(site.ask("POST", &format!("{VM}/generalize"), None).status, 200);
    let image = json!({"location": "westus2", "properties": {"sourceVirtualMachine": {"id": site.id(VM)}}});
    let image = site.put("Microsoft.Compute/images/i", &image);
    assert_eq!(image["properties"]["storageProfile"]["osDisk"]["osState"], "Generalized");
    // And a machine from it.
    let mut second = site.machine(&site.nic("n2"));
    second["properties"]["storageProfile"] = json!({"imageReference": {"id": image["id"]}});
    site.put("Microsoft.Compute/virtualMachines/second", &second);
    let whats: Vec<Happening> = site
        .lab
        .world
        .machine_events(0)
        .value
        .iter()
        .filter(|e| e.id.ends_with("/m"))
        .map(|e| e.what)
        .collect();
    use Happening::*;
    assert_eq!(whats, [Created, Ready, Stopped, Started, Restarted, Deallocated]);
}

#[tokio::test]
async fn galleries() {
    let site = Site::new(Profile::Instant).await;
    site.put("Microsoft.Compute/galleries/g", &json!({"location": "westus2"}));
    let definition = json!({"location": "westus2", "properties": {"osType": "Linux", "osState": "Generalized", "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}});
    site.put("Microsoft.Compute/galleries/g/images/i", &definition);
    let snapshot = site.put("Microsoft.Compute/snapshots/s", &json!({"location": "westus2", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 16}}));
    for v in ["1.0.9", "1.0.10"] {
        let body = json!({"location": "westus2", "properties": {"storageProfile": {"osDiskImage": {"source": {"id": snapshot["id"]}}}}});
        site.put(&format!("Microsoft.Compute/galleries/g/images/i/versions/{v}"), &body);
    }
    assert_eq!(
        code(&site.ask(
            "PUT",
            "Microsoft.Compute/galleries/g/images/i/versions/new",
            Some(&json!({"location": "westus2"}))
        )),
        "InvalidParameter"
    );
    assert_eq!(code(&site.ask("DELETE", "Microsoft.Compute/galleries/g", None)), "CannotDeleteResource");
    let mut body = site.machine(&site.nic("n"));
    body["properties"]["storageProfile"] =
        json!({"imageReference": {"id": site.id("Microsoft.Compute/galleries/g/images/i")}});
    let vm = site.put(VM, &body);
    assert_eq!(vm["properties"]["storageProfile"]["imageReference"]["exactVersion"], "1.0.10");
}

#[tokio::test]
async fn catalogues() {
    let site = Site::new(Profile::Instant).await;
    let s = format!("/subscriptions/{}/providers/Microsoft.Compute", site.lab.world.subscription());
    let get = |path: &str| {
        let got = site.lab.ask("GET", &format!("{s}/{path}"), None);
        assert_eq!(got.status, 200, "{path}: {got:?}");
        got.body.unwrap()
    };
    let skus = get("skus?api-version=2021-07-01&$filter=location eq 'westus2'");
    let all = skus["value"].as_array().unwrap();
    let find = |n: &str| all.iter().find(|k| k["name"] == n).unwrap();
    let has = |k: &Value, name: &str| {
        k["capabilities"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["name"] == name)
            .map(|c| c["value"].as_str().unwrap().to_owned())
    };
    let d = find("Standard_D8ps_v5");
    for (name, want) in [
        ("vCPUs", "8"),
        ("MemoryGB", "32"),
        ("CpuArchitectureType", "Arm64"),
        ("HyperVGenerations", "V2"),
        ("AcceleratedNetworkingEnabled", "True"),
        ("EncryptionAtHostSupported", "True"),
        ("UltraSSDAvailable", "True"),
    ] {
        assert_eq!(has(d, name).as_deref(), Some(want), "{name}");
    }
    assert_eq!(has(find("Standard_NC4as_T4_v3"), "GPUs").as_deref(), Some("1"));
    assert_eq!(d["locationInfo"][0]["zones"].as_array().unwrap().len(), 3);
    assert_eq!(find("Standard_M8ms")["restrictions"][0]["reasonCode"], "NotAvailableForSubscription");
    assert!(all.iter().all(|k| k["locations"] == json!(["westus2"])));
    let names = |v: Value| {
        v.as_array().unwrap().iter().map(|x| x["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names(get(&format!("locations/westus2/publishers?{V}"))).contains(&"azureopenshift".to_owned()));
    assert_eq!(
        names(get(&format!("locations/westus2/publishers/azureopenshift/artifacttypes/vmimage/offers?{V}"))),
        ["aro4"]
    );
    let at = "locations/westus2/publishers/azureopenshift/artifacttypes/vmimage/offers/aro4/skus";
    assert!(names(get(&format!("{at}?{V}"))).contains(&"420-v2".to_owned()));
    assert_eq!(names(get(&format!("{at}/420-v2/versions?{V}&$top=1&$orderby=name desc"))), ["9.6.20251015"]);
    assert_eq!(
        get(&format!("{at}/420-v2/versions/9.6.20250523?{V}"))["properties"]["hyperVGeneration"],
        "V2"
    );
    assert!(get(&format!("locations/westus2/vmSizes?{V}"))["value"].as_array().unwrap().len() > 50);
    site.put(VM, &site.machine(&site.nic("n")));
    let health = site.get(&format!(
        "{VM}/providers/Microsoft.ResourceHealth/availabilityStatuses/current?api-version=2020-05-01"
    ));
    assert_eq!(health["properties"]["availabilityState"], "Available");
    let status = get(&format!("virtualMachines?{V}&statusOnly=true"));
    assert!(status["value"][0]["properties"]["instanceView"].is_object());
    let network = site
        .lab
        .ask(
            "GET",
            &format!(
                "/subscriptions/{}/providers/Microsoft.Network/locations/westus2/usages?{V}",
                site.lab.world.subscription()
            ),
            None,
        )
        .body
        .unwrap();
    assert!(
        network["value"]
            .as_array()
            .unwrap()
            .iter()
            .any(|u| u["name"]["value"] == "NetworkInterfaces" && u["currentValue"] == 1)
    );
}

/// What a machine gets through to, by the outbound rules of two groups.
#[tokio::test]
async fn security_groups_are_in_the_way_of_machines() {
    let site = Site::new(Profile::Instant).await;
    let groups = "Microsoft.Network/networkSecurityGroups";
    let group = |name: &str, rules: Value| {
        site.put(
            &format!("{groups}/{name}"),
            &json!({"location": "westus2", "properties": {"securityRules": rules}}),
        )
    };
    let rule = |name: &str, priority: u32, access: &str, to: Value, ports: &str| {
        let mut p = json!({"priority": priority, "direction": "Outbound", "access": access, "protocol": "Tcp",
            "sourceAddressPrefix": "*", "sourcePortRange": "*", "destinationPortRange": ports});
        let field = if to.is_array() { "destinationAddressPrefixes" } else { "destinationAddressPrefix" };
        p[field] = to;
        json!({"name": name, "properties": p})
    };
    let named = |name: &str| json!({"id": site.id(&format!("{groups}/{name}"))});
    group("net", json!([]));
    group("own", json!([]));
    site.put(
        "Microsoft.Network/virtualNetworks/v/subnets/s",
        &json!({"properties": {
        "addressPrefix": "10.0.0.0/24", "networkSecurityGroup": named("net")}}),
    );
    let nic = "Microsoft.Network/networkInterfaces/n";
    let subnet = site.id("Microsoft.Network/virtualNetworks/v/subnets/s");
    site.put(
        nic,
        &json!({"location": "westus2", "properties": {"networkSecurityGroup": named("own"),
        "ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet}}}]}}),
    );
    site.put(VM, &site.machine(&site.id(nic)));
    let vm = site.id(VM);
    let denied = |host: &str, port: u16| site.lab.world.lets_out(&vm, host, port).err().map(|d| d.rule);
    let (far, near, name) = ("20.1.2.3", "10.0.1.9", "ignition.example.test");
    for host in [far, near, name] {
        assert_eq!(denied(host, 443), None, "what every group has lets it out");
    }
    // Ports, tags and prefixes.
    group("net", json!([rule("web", 200, "Deny", json!("Internet"), "440-450")]));
    assert_eq!(denied(far, 443).as_deref(), Some("web"));
    assert_eq!(denied(name, 443).as_deref(), Some("web"), "a name that no zone has is in the Internet");
    assert_eq!((denied(far, 451), denied(near, 443)), (None, None));
    // The lowest number decides, whoever is listed first.
    let open = rule("open", 150, "Allow", json!(["20.0.0.0/8", "10.9.9.9"]), "443");
    group("net", json!([rule("web", 200, "Deny", json!("Internet"), "*"), open]));
    assert_eq!((denied(far, 443), denied(far, 80).as_deref()), (None, Some("web")));
    // Both groups count.
    group("own", json!([rule("shut", 100, "Deny", json!("*"), "443")]));
    assert_eq!(denied(far, 443).as_deref(), Some("shut"));
    assert_eq!(denied(near, 443).as_deref(), Some("shut"));
    // Inbound rules and other protocols say nothing of this.
    let mut inbound = rule("in", 100, "Deny", json!("*"), "*");
    inbound["properties"]["direction"] = json!("Inbound");
    let mut udp = rule("udp", 110, "Deny", json!("*"), "*");
    udp["properties"]["protocol"] = json!("Udp");
    group("own", json!([inbound, udp]));
    assert_eq!(denied(far, 443), None);
    // A name that a public zone has is where it says.
    site.put(
        "Microsoft.Network/dnsZones/example.test?api-version=2018-05-01",
        &json!({"location": "global"}),
    );
    site.put(
        "Microsoft.Network/dnsZones/example.test/A/ignition?api-version=2018-05-01",
        &json!({"properties": {"TTL": 60, "ARecords": [{"ipv4Address": "30.1.1.1"}]}}),
    );
    group("net", json!([rule("there", 200, "Deny", json!("30.0.0.0/8"), "*")]));
    assert_eq!((denied(name, 443).as_deref(), denied(far, 443)), (Some("there"), None));
    // In the network, everything but it.
    group(
        "net",
        json!([
            rule("out", 200, "Deny", json!("0.0.0.0/0"), "*"),
            rule("in", 199, "Allow", json!("VirtualNetwork"), "*")
        ]),
    );
    assert_eq!((denied(near, 443), denied(far, 443).as_deref()), (None, Some("out")));
}

#[tokio::test]
async fn booting_takes_as_long_as_the_profile_says() {
    let takes = async |profile| {
        let site = Site::new(profile).await;
        site.lab.world.run_clock_at(1.0).unwrap();
        site.lab.world.boot_takes("/a").as_secs_f64()
    };
    assert_eq!(takes(Profile::Instant).await, 0.0);
    let (fast, real) = (takes(Profile::Fast).await, takes(Profile::Real).await);
    assert!((14.0..=74.0).contains(&real) && (fast * 50.0 - real).abs() < 0.1, "{fast} {real}");
    let site = Site::new(Profile::Real).await;
    site.lab.world.run_clock_at(20.0).unwrap();
    let quick = site.lab.world.boot_takes("/a").as_secs_f64();
    assert!((quick * 20.0 - real).abs() < 0.1, "{quick} {real}");
}
