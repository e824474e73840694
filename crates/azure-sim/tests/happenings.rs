//! What happens to machines, told to whoever runs them.

use crate::machines::{Site, V, VM};
use azure_sim::{Boot, Happening, Profile, World};
use serde_json::{Value, json};

#[tokio::test]
async fn a_runtime_is_told_and_tells() {
    let site = Site::new(Profile::Instant).await;
    let world = &site.lab.world;
    world.await_boots(true).unwrap();
    let mut body = site.machine(&site.nic("n"));
    body["properties"]["diagnosticsProfile"] = json!({"bootDiagnostics": {"enabled": true}});
    assert_eq!(site.ask("PUT", VM, Some(&body)).status, 201);
    let events = world.machine_events(0);
    let [created] = events.value.as_slice() else { panic!("{events:?}") };
    assert_eq!(created.what, Happening::Created);
    let machine = created.machine.clone().unwrap();
    assert_eq!(machine.custom_data.as_ref().map(|d| d.expose()), Some("aWduaXRpb24="));
    assert_eq!(machine.interfaces[0].addresses, ["10.0.0.4"]);
    assert!(!format!("{created:?}").contains("aWdu"), "customData is not printed");
    // It waits, however often it is looked at.
    assert_eq!(site.get(VM)["properties"]["provisioningState"], "Creating");
    world.report_boot(&machine.vm_id, &Boot::Ready, Some("login: ")).unwrap();
    assert_eq!(site.get(VM)["properties"]["provisioningState"], "Succeeded");
    let links = site.ask("POST", &format!("{VM}/retrieveBootDiagnosticsData"), None).body.unwrap();
    let link = links["serialConsoleLogBlobUri"].as_str().unwrap();
    let log = world.console(&crate::support::call("GET", link, "", None));
    assert_eq!(log.raw.unwrap(), "login: ");
    let forged = link.split("sig=").next().unwrap().to_owned() + "sig=0";
    assert_eq!(world.console(&crate::support::call("GET", &forged, "", None)).status, 404);
    // A second one does not come up.
    assert_eq!(
        site.ask("PUT", "Microsoft.Compute/virtualMachines/bad", Some(&site.machine(&site.nic("n2")))).status,
        201
    );
    let failed = Boot::Failed { code: "OSProvisioningClientError".into(), message: "no ignition".into() };
    world.report_boot(&site.id("Microsoft.Compute/virtualMachines/bad"), &failed, None).unwrap();
    assert_eq!(
        site.get("Microsoft.Compute/virtualMachines/bad")["properties"]["provisioningState"],
        "Failed"
    );
    // A third is never heard of.
    let third =
        site.ask("PUT", "Microsoft.Compute/virtualMachines/lost", Some(&site.machine(&site.nic("n3"))));
    let status = third.headers["azure-asyncoperation"].to_str().unwrap().to_owned();
    site.lab.pass(1300);
    let ended = site.lab.ask("GET", &status, None).body.unwrap();
    assert_eq!(ended["error"]["code"], "OSProvisioningTimedOut", "{ended}");
    // It comes up after all.
    world.report_boot(&site.id("Microsoft.Compute/virtualMachines/lost"), &Boot::Ready, None).unwrap();
    assert!(site.get("Microsoft.Compute/virtualMachines/lost")["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"].is_string());
    assert!(world.report_boot("nobody", &Boot::Ready, None).is_err());
    let last = world.machine_events(0).last;
    let after: Vec<u64> = world.machine_events(last - 1).value.iter().map(|e| e.number).collect();
    assert_eq!(after, [last]);
}

#[tokio::test]
async fn a_delete_goes_before_a_create() {
    let site = Site::new(Profile::Real).await;
    let nic = site.nic("n");
    let put = site.ask("PUT", VM, Some(&site.machine(&nic)));
    assert_eq!(site.ask("DELETE", VM, None).status, 202);
    let status = put.headers["azure-asyncoperation"].to_str().unwrap().to_owned();
    assert_eq!(site.lab.ask("GET", &status, None).body.unwrap()["error"]["code"], "OperationPreempted");
    site.lab.pass(60);
    assert_eq!(site.ask("GET", VM, None).status, 404);
    assert_eq!(site.ask("DELETE", "Microsoft.Network/networkInterfaces/n", None).status, 202);
}

#[tokio::test]
async fn happenings_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let setup = || azure_sim::Setup {
        seed: 7,
        profile: Profile::Instant,
        limits: None,
        roles: Vec::new(),
        issuers: std::sync::Arc::new(azure_sim::HttpsIssuers::new(&[])),
        clock: clock::ManualClock::new(jiff::Timestamp::from_second(1_700_000_000).unwrap()),
        proxied: Vec::new(),
        trust: Vec::new(),
    };
    let before = {
        let world = World::open(setup(), dir.path()).unwrap();
        let token = world.owner_token().await;
        let ask = |m: &str, u: &str, b: &Value| world.arm(&crate::support::call(m, u, &token, Some(b)));
        let g = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
        ask("PUT", &format!("{g}?api-version=2021-04-01"), &json!({"location": "westus2"}));
        let v = format!("{g}/providers/Microsoft.Network/virtualNetworks/v");
        ask(
            "PUT",
            &format!("{v}?{V}"),
            &json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}}),
        );
        let n = format!("{g}/providers/Microsoft.Network/networkInterfaces/n");
        ask(
            "PUT",
            &format!("{n}?{V}"),
            &json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{v}/subnets/s")}}}]}}),
        );
        world.await_boots(true).unwrap();
        let vm = json!({"location": "westus2", "identity": {"type": "SystemAssigned"}, "properties": {
            "storageProfile": {"imageReference": {"publisher": "Debian", "offer": "debian-12", "sku": "12-gen2", "version": "latest"}},
            "osProfile": {"adminUsername": "core", "customData": "aWduaXRpb24="}, "networkProfile": {"networkInterfaces": [{"id": n}]},
        }});
        let made = ask("PUT", &format!("{g}/providers/Microsoft.Compute/virtualMachines/m?{V}"), &vm);
        assert_eq!(made.status, 201, "{made:?}");
        let events = world.machine_events(0);
        world.close();
        events
    };
    let world = World::open(setup(), dir.path()).unwrap();
    assert_eq!(world.machine_events(0), before);
    let vm_id = before.value[0].vm_id.clone();
    world.report_boot(&vm_id, &Boot::Ready, None).unwrap();
    assert_eq!(world.machine(&vm_id).unwrap().provisioning_state, "Succeeded");
    assert_eq!(world.machine_events(1).value[0].what, Happening::Ready);
}
