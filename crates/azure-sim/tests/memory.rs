//! What survives: a process that dies, a record cut off anywhere, operations under way.

use crate::support::{call, code};
use azure_sim::{HttpsIssuers, MemoryError, Profile, Reply, Setup, World, WorldError};
use clock::ManualClock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

struct House {
    clock: Arc<ManualClock>,
}

impl House {
    fn new() -> House {
        House { clock: ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap()) }
    }

    fn setup(&self, profile: Profile) -> Setup {
        Setup {
            seed: 7,
            profile,
            limits: None,
            roles: Vec::new(),
            issuers: Arc::new(HttpsIssuers::new(&[])),
            clock: self.clock.clone(),
            proxied: Vec::new(),
            trust: Vec::new(),
        }
    }

    fn open(&self, dir: &Path) -> World {
        World::open(self.setup(Profile::Real), dir).unwrap()
    }
}

/// A copy of a directory as it is now: what a process that is killed leaves behind.
fn copy(from: &Path) -> tempfile::TempDir {
    // A snapshot may be finished meanwhile; a copy counts only if the files were the same before and after.
    loop {
        let names = names(from);
        let to = tempfile::tempdir().unwrap();
        let whole = names.iter().all(|n| std::fs::copy(from.join(n), to.path().join(n)).is_ok());
        if whole && names == self::names(from) {
            return to;
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!all.iter().any(|n| n == "contents"), "only files are copied");
    all.sort();
    all
}

fn ask(world: &World, token: &str, method: &str, url: &str, body: Option<&Value>) -> Reply {
    world.arm(&call(method, url, token, body))
}

fn log_of(dir: &Path) -> std::path::PathBuf {
    let mut logs: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("log-"))
        .collect();
    logs.sort();
    logs.pop().unwrap()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let house = House::new();
    let dir = tempfile::tempdir().unwrap();
    let world = house.open(dir.path());
    let token = world.owner_token().await;
    let g = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
    let v = "api-version=2024-03-01";
    let put = |url: String, body: Value| {
        let r = ask(&world, &token, "PUT", &url, Some(&body));
        assert!(r.status.is_success(), "{url}: {:?}", r.body);
        r
    };
    put(format!("{g}?api-version=2021-04-01"), json!({"location": "westus2", "tags": {"a": "b"}}));
    let nsg = format!("{g}/providers/Microsoft.Network/networkSecurityGroups/n");
    put(format!("{nsg}?{v}"), json!({"location": "westus2"}));
    house.clock.advance(SignedDuration::from_secs(30));
    let vnet = format!("{g}/providers/Microsoft.Network/virtualNetworks/v");
    let made = put(
        format!("{vnet}?{v}"),
        json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}}}]}}),
    );
    let running = made.headers["azure-asyncoperation"].to_str().unwrap().to_owned();
    let identity = format!("{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let made = put(format!("{identity}?api-version=2024-11-30"), json!({"location": "westus2"}));
    let object = made.body.unwrap()["properties"]["principalId"].as_str().unwrap().to_owned();
    let role = "aaaaaaaa-0000-4000-8000-000000000001";
    put(
        format!("{g}/providers/Microsoft.Authorization/roleDefinitions/{role}?api-version=2022-04-01"),
        json!({"properties": {"roleName": "mine", "assignableScopes": [g], "permissions": [{"actions": ["Microsoft.Network/*/read"]}]}}),
    );
    let (client, _) = world.add_app("app", "app-secret", Vec::new());
    let principal = world.add_app("app", "app-secret", Vec::new()).1;
    put(
        format!(
            "{g}/providers/Microsoft.Authorization/roleAssignments/bbbbbbbb-0000-4000-8000-000000000001?api-version=2022-04-01"
        ),
        json!({"properties": {"principalId": principal, "roleDefinitionId": format!("/providers/Microsoft.Authorization/roleDefinitions/{role}")}}),
    );
    let app_token = world.token_for(&client, "app-secret").await;
    let providers = format!("/subscriptions/{}/providers/Microsoft.ContainerService", world.subscription());
    ask(&world, &token, "POST", &format!("{providers}/register?api-version=2021-04-01"), None);
    world.advance(SignedDuration::from_secs(1));
    let shown = |w: &World| {
        let urls =
            [format!("{g}?{v}"), format!("{nsg}?{v}"), format!("{vnet}?{v}"), format!("{identity}?{v}")];
        let all: Vec<Value> = urls.iter().map(|u| ask(w, &token, "GET", u, None).body.unwrap()).collect();
        (all, w.leaks(), w.now())
    };
    let before = shown(&world);
    assert_eq!(ask(&world, &token, "GET", &running, None).body.unwrap()["status"], "InProgress");

    // The process is killed: whatever is in the directory now is all there is.
    let left = copy(dir.path());
    let again = house.open(left.path());
    assert_eq!(shown(&again), before);
    assert_eq!(again.signing_keys(), world.signing_keys(), "the signing keys are the same");
    // A token of the former life; a role that was defined and assigned in it, and is enforced no earlier and no
    // later than in that life.
    let may = |w: &World| ask(w, &app_token, "GET", &format!("{vnet}?{v}"), None).status.as_u16();
    assert_eq!((may(&world), may(&again)), (403, 403));
    assert_eq!(code(&ask(&again, &app_token, "DELETE", &format!("{vnet}?{v}"), None)), "AuthorizationFailed");
    assert!(!again.token_for(&client, "app-secret").await.is_empty());
    assert_eq!(
        code(&ask(&again, &token, "DELETE", &format!("{nsg}?{v}"), None)),
        "InUseNetworkSecurityGroupCannotBeDeleted"
    );
    // The operation goes on where it was, ends at its time, and only once.
    assert_eq!(ask(&again, &token, "GET", &running, None).body.unwrap()["status"], "InProgress");
    house.clock.advance(SignedDuration::from_secs(60));
    assert_eq!(ask(&again, &token, "GET", &running, None).body.unwrap()["status"], "Succeeded");
    let etag = ask(&again, &token, "GET", &format!("{vnet}?{v}"), None).body.unwrap()["etag"].clone();
    again.close();
    let third = house.open(left.path());
    assert_eq!(ask(&third, &token, "GET", &running, None).body.unwrap()["status"], "Succeeded");
    assert_eq!(ask(&third, &token, "GET", &format!("{vnet}?{v}"), None).body.unwrap()["etag"], etag);
    let registered = ask(&third, &token, "GET", &format!("{providers}?api-version=2021-04-01"), None);
    assert_eq!(registered.body.unwrap()["registrationState"], "Registered");
    house.clock.advance(SignedDuration::from_secs(300));
    assert_eq!((may(&world), may(&third)), (200, 200));
    // What is deleted stays deleted, with its principal.
    assert_eq!(ask(&third, &token, "DELETE", &format!("{identity}?{v}"), None).status, 200);
    third.close();
    let fourth = house.open(left.path());
    assert_eq!(ask(&fourth, &token, "GET", &format!("{identity}?{v}"), None).status, 404);
    let orphan = json!({"properties": {"principalId": object, "roleDefinitionId": format!("/providers/Microsoft.Authorization/roleDefinitions/{role}")}});
    let url = format!(
        "{g}/providers/Microsoft.Authorization/roleAssignments/bbbbbbbb-0000-4000-8000-000000000002?api-version=2022-04-01"
    );
    assert_eq!(code(&ask(&fourth, &token, "PUT", &url, Some(&orphan))), "PrincipalNotFound");
}

#[tokio::test]
async fn a_group_that_was_being_deleted_is_deleted() {
    let house = House::new();
    let dir = tempfile::tempdir().unwrap();
    let world = house.open(dir.path());
    let token = world.owner_token().await;
    let g = format!("/subscriptions/{}/resourceGroups/g?api-version=2021-04-01", world.subscription());
    ask(&world, &token, "PUT", &g, Some(&json!({"location": "westus2"})));
    let gone = ask(&world, &token, "DELETE", &g, None);
    let url = gone.headers["location"].to_str().unwrap().to_owned();
    let left = copy(dir.path());
    let again = house.open(left.path());
    assert_eq!(ask(&again, &token, "GET", &url, None).status, 202);
    assert_eq!(
        ask(&again, &token, "GET", &g, None).body.unwrap()["properties"]["provisioningState"],
        "Deleting"
    );
    house.clock.advance(SignedDuration::from_secs(120));
    assert_eq!(ask(&again, &token, "GET", &url, None).status, 200);
    assert_eq!(ask(&again, &token, "GET", &g, None).status, 404);
}

#[tokio::test]
async fn a_record_cut_off_anywhere_never_happened() {
    let house = House::new();
    let dir = tempfile::tempdir().unwrap();
    let world = house.open(dir.path());
    let token = world.owner_token().await;
    let g = format!("/subscriptions/{}/resourceGroups/g?api-version=2021-04-01", world.subscription());
    ask(&world, &token, "PUT", &g, Some(&json!({"location": "westus2", "tags": {"n": "1"}})));
    let log = log_of(dir.path());
    let before = std::fs::metadata(&log).unwrap().len();
    ask(&world, &token, "PATCH", &g, Some(&json!({"tags": {"n": "2"}})));
    let whole = std::fs::read(&log).unwrap();
    assert!(whole.len() as u64 > before);
    let tag = |w: &World| ask(w, &token, "GET", &g, None).body.unwrap()["tags"]["n"].clone();
    for cut in usize::try_from(before).unwrap()..=whole.len() {
        let left = copy(dir.path());
        std::fs::write(log_of(left.path()), &whole[..cut]).unwrap();
        let again = house.open(left.path());
        let want = if cut == whole.len() { "2" } else { "1" };
        assert_eq!(tag(&again), want, "cut at {cut} of {}", whole.len());
        if cut % 40 == 0 {
            // What was torn does not stand in the way of what follows.
            ask(&again, &token, "PATCH", &g, Some(&json!({"tags": {"n": "3"}})));
            again.close();
            assert_eq!(tag(&house.open(left.path())), "3");
        }
    }
    // A flipped bit in the last record is a torn record; in an earlier one it is damage, and said so.
    let flip = |at: usize| {
        let left = copy(dir.path());
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(log_of(left.path()), bytes).unwrap();
        World::open(house.setup(Profile::Real), left.path()).map(|w| tag(&w)).map_err(|e| chain(&e))
    };
    assert_eq!(flip(whole.len() - 1).unwrap(), "1");
    let why = flip(60).unwrap_err();
    assert!(why.contains("damaged at byte"), "{why}");
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}

#[tokio::test]
async fn logs_become_snapshots() {
    let house = House::new();
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(house.setup(Profile::Instant), dir.path()).unwrap();
    let token = world.owner_token().await;
    let tags: serde_json::Map<String, Value> =
        (0..50).map(|i| (format!("t{i}"), "x".repeat(250).into())).collect();
    for i in 0..250 {
        let g = format!(
            "/subscriptions/{}/resourceGroups/g{}?api-version=2021-04-01",
            world.subscription(),
            i % 5
        );
        let mut tags = tags.clone();
        tags.insert("t0".into(), i.to_string().into());
        ask(&world, &token, "PUT", &g, Some(&json!({"location": "westus2", "tags": tags})));
    }
    let before = world.leaks();
    let killed = copy(dir.path());
    world.close();
    let all = names(dir.path());
    assert!(!all.contains(&"snapshot-1".to_owned()) && !all.contains(&"log-1".to_owned()), "{all:?}");
    assert_eq!(all.iter().filter(|n| n.starts_with("snapshot-")).count(), 1, "{all:?}");
    for d in [dir.path(), killed.path()] {
        let again = World::open(house.setup(Profile::Instant), d).unwrap();
        assert_eq!(again.leaks(), before);
        let g = format!("/subscriptions/{}/resourceGroups/g4?api-version=2021-04-01", again.subscription());
        assert_eq!(ask(&again, &token, "GET", &g, None).body.unwrap()["tags"]["t0"], "249");
    }
    #[cfg(unix)]
    for name in names(dir.path()) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(dir.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} is for its owner only");
    }
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let house = House::new();
    let open = |d: &Path| match World::open(house.setup(Profile::Instant), d) {
        Err(WorldError::Memory(e)) => e,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("it was opened"),
    };
    let dir = tempfile::tempdir().unwrap();
    let first = house.open(dir.path());
    assert!(matches!(open(dir.path()), MemoryError::Locked(_)));
    first.close();
    assert_eq!(
        ask(&first, &first.owner_token().await, "GET", "/subscriptions?api-version=2022-12-01", None).status,
        503
    );
    assert!(World::open(house.setup(Profile::Instant), dir.path()).is_ok());

    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("letter.txt"), "dear").unwrap();
    assert!(open(foreign.path()).to_string().contains("letter.txt"));

    let newer = copy(dir.path());
    let meta = std::fs::read_to_string(newer.path().join("meta.json")).unwrap();
    std::fs::write(newer.path().join("meta.json"), meta.replace("\"format\": 1", "\"format\": 9")).unwrap();
    assert!(open(newer.path()).to_string().contains("format 9"));

    let strange = copy(dir.path());
    std::fs::write(log_of(strange.path()), "something else\n").unwrap();
    assert!(chain(&open(strange.path())).contains("something else"));

    let gap = copy(dir.path());
    std::fs::remove_file(gap.path().join("snapshot-1")).unwrap();
    assert!(matches!(open(gap.path()), MemoryError::Gap { .. }));
}

/// What the child of the next test does: makes groups in the directory it is told of, and says so after each.
#[tokio::test]
#[ignore = "only as a child of acknowledged_writes_survive_a_kill"]
async fn child_that_writes() {
    #[allow(clippy::disallowed_methods, reason = "how a test tells its child where to write")]
    let Ok(dir) = std::env::var("AZURE_SIM_TEST_DIR") else { return };
    let house = House::new();
    let world = house.open(Path::new(&dir));
    let token = world.owner_token().await;
    for i in 0.. {
        let g = format!("/subscriptions/{}/resourceGroups/g{i}?api-version=2021-04-01", world.subscription());
        let made = ask(
            &world,
            &token,
            "PUT",
            &g,
            Some(&json!({"location": "westus2", "tags": {"x": "y".repeat(200)}})),
        );
        assert!(made.status.is_success());
        println!("made {i}");
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    use std::io::BufRead;
    let dir = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::child_that_writes", "--ignored", "--nocapture"])
        .env("AZURE_SIM_TEST_DIR", dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let made = |line: String| line.rsplit_once("made ").and_then(|(_, n)| n.parse::<usize>().ok());
    let mut last = None;
    for n in lines.filter_map(made) {
        last = Some(n);
        // In the middle of whatever it does then.
        if n == 150 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    let last = last.unwrap();
    assert!(last >= 150, "it was killed at {last}");
    let house = House::new();
    let world = house.open(dir.path());
    let token = world.owner_token().await;
    for i in 0..=last {
        let g = format!("/subscriptions/{}/resourceGroups/g{i}?api-version=2021-04-01", world.subscription());
        assert_eq!(ask(&world, &token, "GET", &g, None).status, 200, "g{i} of {last}");
    }
}

/// A hundred operations of every sort are under way when the process dies: machines, disks, endpoints, link services,
/// accounts, networks, and deletions of some. All end, each once, with what they had before.
#[tokio::test]
async fn a_hundred_operations_of_all_sorts_survive_a_restart() {
    let house = House::new();
    let dir = tempfile::tempdir().unwrap();
    let world = house.open(dir.path());
    let token = world.owner_token().await;
    let g = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
    let v = "api-version=2024-03-01";
    let put = |name: &str, body: Value| {
        let r = ask(&world, &token, "PUT", &format!("{g}/providers/{name}?{v}"), Some(&body));
        assert!(r.status.is_success(), "{name}: {:?}", r.body);
        r
    };
    ask(&world, &token, "PUT", &format!("{g}?api-version=2021-04-01"), Some(&json!({"location": "westus2"})));
    let id = |name: &str| format!("{g}/providers/{name}");
    put(
        "Microsoft.Network/virtualNetworks/v",
        json!({"location": "westus2", "properties": {
        "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
        "subnets": [
            {"name": "s", "properties": {"addressPrefix": "10.0.0.0/22"}},
            {"name": "nat", "properties": {"addressPrefix": "10.0.8.0/24", "privateLinkServiceNetworkPolicies": "Disabled"}},
        ]}}),
    );
    house.clock.advance(SignedDuration::from_secs(60));
    let subnet =
        |name: &str| json!({"id": id(&format!("Microsoft.Network/virtualNetworks/v/subnets/{name}"))});
    put(
        "Microsoft.Network/loadBalancers/lb",
        json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {
        "frontendIPConfigurations": (0..10).map(|i| json!({"name": format!("f{i}"), "properties": {"subnet": subnet("s")}})).collect::<Vec<_>>()}}),
    );
    put("Microsoft.Network/networkSecurityGroups/old", json!({"location": "westus2"}));
    for i in 0..25 {
        put(
            &format!("Microsoft.Network/networkInterfaces/n{i}"),
            json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": subnet("s")}}]}}),
        );
    }
    for i in 0..10 {
        put(
            &format!("Microsoft.Compute/disks/gone{i}"),
            json!({"location": "westus2", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8}}),
        );
    }
    house.clock.advance(SignedDuration::from_secs(100));
    // Under way from here on.
    let mut names = Vec::new();
    let mut begin = |name: String, body: Value| {
        let r = put(&name, body);
        names.push(name);
        r
    };
    for i in 0..25 {
        begin(
            format!("Microsoft.Compute/virtualMachines/m{i}"),
            json!({"location": "westus2", "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v5"}, "osProfile": {"computerName": "m", "adminUsername": "core", "adminPassword": "Secret-1234"},
            "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"}},
            "networkProfile": {"networkInterfaces": [{"id": id(&format!("Microsoft.Network/networkInterfaces/n{i}"))}]}}}),
        );
    }
    for i in 0..20 {
        begin(
            format!("Microsoft.Compute/disks/d{i}"),
            json!({"location": "westus2", "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8}}),
        );
        begin(
            format!("Microsoft.Network/privateEndpoints/e{i}"),
            json!({"location": "westus2", "properties": {"subnet": subnet("s"),
            "privateLinkServiceConnections": [{"name": "c", "properties": {"privateLinkServiceId": id("Contoso.Vaults/things/kv"), "groupIds": ["vault"]}}]}}),
        );
    }
    for i in 0..10 {
        begin(
            format!("Microsoft.Network/privateLinkServices/p{i}"),
            json!({"location": "westus2", "properties": {
            "loadBalancerFrontendIpConfigurations": [{"id": id(&format!("Microsoft.Network/loadBalancers/lb/frontendIPConfigurations/f{i}"))}],
            "ipConfigurations": [{"name": "c", "properties": {"subnet": subnet("nat")}}]}}),
        );
        begin(
            format!("Microsoft.Network/virtualNetworks/w{i}"),
            json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.9.0.0/16"]}}}),
        );
    }
    for i in 0..5 {
        begin(
            format!("Microsoft.Storage/storageAccounts/hundredth{i}"),
            json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}),
        );
    }
    for i in 0..10 {
        let r = ask(
            &world,
            &token,
            "DELETE",
            &format!("{}?{v}", id(&format!("Microsoft.Compute/disks/gone{i}"))),
            None,
        );
        assert_eq!(r.status, 202);
    }
    assert_eq!(names.len() + 10, 100);
    let look = |world: &World, token: &str, name: &str| {
        ask(world, token, "GET", &format!("{}?{v}", id(name)), None).body.unwrap()
    };
    let own = |b: &Value| {
        let p = &b["properties"];
        [
            &p["vmId"],
            &p["uniqueId"],
            &p["resourceGuid"],
            &p["networkInterfaces"][0]["id"],
            &p["alias"],
            &p["creationTime"],
        ]
        .map(Value::clone)
    };
    // Some are done, most are not.
    house.clock.advance(SignedDuration::from_secs(3));
    let before: Vec<_> = names.iter().map(|n| own(&look(&world, &token, n))).collect();
    let top = world.clock_shown();
    assert!(top["nextEvent"].is_string(), "something is under way: {top}");
    let events = world.machine_events(0);
    let died = copy(dir.path());
    drop(world);
    let world = house.open(died.path());
    let token = world.owner_token().await;
    let states = |world: &World, token: &str| {
        names
            .iter()
            .filter(|n| look(world, token, n)["properties"]["provisioningState"] != "Succeeded")
            .count()
    };
    assert!(states(&world, &token) > 40, "they are still under way after the restart");
    house.clock.advance(SignedDuration::from_secs(200));
    for (name, had) in names.iter().zip(&before) {
        let now = look(&world, &token, name);
        assert_eq!(now["properties"]["provisioningState"], "Succeeded", "{name}");
        assert!(
            own(&now).iter().zip(had).all(|(n, h)| h.is_null() || n == h),
            "{name} is the same: {had:?} {now}"
        );
    }
    for i in 0..10 {
        let gone = ask(
            &world,
            &token,
            "GET",
            &format!("{}?{v}", id(&format!("Microsoft.Compute/disks/gone{i}"))),
            None,
        );
        assert_eq!(gone.status, 404);
    }
    // None twice: one disk per machine, one interface per endpoint, one creation per machine told.
    let count = |kind: &str| {
        ask(&world, &token, "GET", &format!("{}?{v}", id(kind)), None).body.unwrap()["value"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count("Microsoft.Compute/disks"), 20 + 25);
    assert_eq!(count("Microsoft.Network/networkInterfaces"), 25 + 20 + 10);
    let after = world.machine_events(0);
    let created = |e: &azure_sim::MachineEvents| {
        e.value.iter().filter(|e| e.what == azure_sim::Happening::Created).count()
    };
    assert_eq!((created(&events), created(&after)), (25, 25));
}
