//! Fault rules at every door, as a client sees them who asks once and believes what it is told.

use crate::client::{Answer, try_ask, try_through};
use azure_sim::{AzureSim, Config, PRESETS, Rule, read_faults};
use clock::ManualClock;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// One of everything, behind real sockets.
struct Town {
    sim: AzureSim,
    group: String,
    vm: Value,
}

const SERVICES: [&str; 8] = ["arm", "login", "graph", "vault", "blob", "registry", "imds", "msi"];

impl Town {
    async fn new() -> Town {
        let sim = AzureSim::start(Config::local(11)).await.unwrap();
        let group = format!("/subscriptions/{}/resourceGroups/g", sim.world().subscription());
        let mut town = Town { sim, group, vm: Value::Null };
        town.build().await;
        town
    }

    /// As it is now, with ports and faults of its own.
    async fn fork(&self) -> Town {
        Town { sim: self.sim.fork().await.unwrap(), group: self.group.clone(), vm: self.vm.clone() }
    }

    async fn build(&mut self) {
        let west = json!({"location": "westus2"});
        self.put("", "2021-04-01", &west).await;
        let subscription = format!("/subscriptions/{}", self.sim.world().subscription());
        let register =
            format!("{subscription}/providers/Microsoft.ContainerRegistry/register?api-version=2021-04-01");
        assert_eq!(self.arm("POST", &register, None).await.unwrap().status, 200);
        self.put("/providers/Microsoft.Network/virtualNetworks/v", "2024-03-01", &json!({"location": "westus2", "properties": {
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}})).await;
        self.vm = self.machine("m", &["2"]).await.unwrap().json();
        let tenant = self.sim.world().tenant().to_owned();
        self.put("/providers/Microsoft.KeyVault/vaults/kv-town", "2023-07-01", &json!({"location": "westus2", "properties": {
            "tenantId": tenant, "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}})).await;
        self.put(
            "/providers/Microsoft.Storage/storageAccounts/townacct",
            "2023-05-01",
            &json!({"location": "westus2", "sku": {"name": "Standard_LRS"}, "kind": "StorageV2"}),
        )
        .await;
        self.put(
            "/providers/Microsoft.ContainerRegistry/registries/townreg",
            "2023-07-01",
            &json!({"location": "westus2", "sku": {"name": "Basic"}}),
        )
        .await;
        self.arm("GET", &format!("{}?api-version=2021-04-01", self.group), None).await;
        let me = self.sim.world().owner_object().to_owned();
        for role in ["00482a5a-887f-4fb3-b363-3b7fe8e74483", "ba92f5b4-2d11-453d-a403-e96b0029c9fe"] {
            self.sim.world().assign(&me, role, &self.group);
        }
        assert_eq!(self.secret("one").await.unwrap().status, 200);
        let container = self.storage("PUT", "/box?restype=container", "").await;
        assert_eq!(container.unwrap().status, 201);
        assert_eq!(self.storage("PUT", "/box/b", "first").await.unwrap().status, 201);
    }

    async fn put(&self, at: &str, version: &str, body: &Value) -> Value {
        let got =
            self.arm("PUT", &format!("{}{at}?api-version={version}", self.group), Some(body)).await.unwrap();
        assert!(got.status < 300, "{at}: {} {}", got.status, got.json());
        got.json()
    }

    async fn token(&self, audience: &str) -> Option<Answer> {
        let (client, secret) = self.sim.world().owner_login();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("grant_type", "client_credentials"),
                ("client_id", &client),
                ("client_secret", &secret),
                ("scope", &format!("{audience}/.default")),
            ])
            .finish();
        let url = format!("{}/{}/oauth2/v2.0/token", self.sim.arm_url(), self.sim.world().tenant());
        try_ask(self.sim.ca_pem(), "POST", &url, &[], form).await
    }

    async fn bearer(&self, audience: &str) -> String {
        let got = self.token(audience).await.unwrap().json();
        format!("Bearer {}", got["access_token"].as_str().unwrap_or_default())
    }

    async fn arm(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let auth = format!("Bearer {}", self.sim.world().owner_token().await);
        let headers = [("authorization", auth.as_str())];
        let body = body.map_or_else(String::new, Value::to_string);
        try_ask(self.sim.ca_pem(), method, &format!("{}{path}", self.sim.arm_url()), &headers, body).await
    }

    async fn plane(&self, host: &str, auth: &str, method: &str, path: &str, body: &str) -> Option<Answer> {
        let headers = [
            ("authorization", auth),
            ("x-ms-version", "2024-11-04"),
            ("x-ms-blob-type", "BlockBlob"),
            ("content-type", "application/json"),
        ];
        try_through(&self.sim.proxy_url(), self.sim.ca_pem(), host, method, path, &headers, body.to_owned())
            .await
    }

    async fn storage(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let auth = self.bearer("https://storage.azure.com").await;
        self.plane("townacct.blob.core.windows.net", &auth, method, path, body).await
    }

    async fn secret(&self, value: &str) -> Option<Answer> {
        let auth = self.bearer("https://vault.azure.net").await;
        self.plane(
            "kv-town.vault.azure.net",
            &auth,
            "PUT",
            "/secrets/s?api-version=7.4",
            &json!({"value": value}).to_string(),
        )
        .await
    }

    async fn machine(&self, name: &str, zones: &[&str]) -> Option<Answer> {
        let nic = format!("{}/providers/Microsoft.Network/networkInterfaces/{name}", self.group);
        let subnet = format!("{}/providers/Microsoft.Network/virtualNetworks/v/subnets/s", self.group);
        let body = json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": subnet}}}]}});
        self.arm("PUT", &format!("{nic}?api-version=2024-03-01"), Some(&body)).await?;
        let body = json!({"location": "westus2", "zones": zones, "identity": {"type": "SystemAssigned"}, "properties": {
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"}, "osProfile": {"adminUsername": "core"},
            "storageProfile": {"imageReference": {"publisher": "Debian", "offer": "debian-12", "sku": "12-gen2", "version": "latest"}},
            "networkProfile": {"networkInterfaces": [{"id": nic}]}}});
        let url = format!(
            "{}/providers/Microsoft.Compute/virtualMachines/{name}?api-version=2024-03-01",
            self.group
        );
        self.arm("PUT", &url, Some(&body)).await
    }

    /// One good request to a service.
    async fn once(&self, service: &str) -> Option<Answer> {
        let vault = "kv-town.vault.azure.net";
        match service {
            "arm" => self.arm("GET", &format!("{}?api-version=2021-04-01", self.group), None).await,
            "login" => self.token("https://management.azure.com").await,
            "graph" => {
                let auth = self.bearer("https://graph.microsoft.com").await;
                let url = format!("{}/v1.0/servicePrincipals", self.sim.arm_url());
                try_ask(self.sim.ca_pem(), "GET", &url, &[("authorization", auth.as_str())], "").await
            }
            "vault" => {
                let auth = self.bearer("https://vault.azure.net").await;
                self.plane(vault, &auth, "GET", "/secrets/s?api-version=7.4", "").await
            }
            "blob" => self.storage("GET", "/box/b", "").await,
            "registry" => {
                let form = url::form_urlencoded::Serializer::new(String::new())
                    .extend_pairs([
                        ("grant_type", "access_token"),
                        ("service", "townreg.azurecr.io"),
                        ("access_token", &self.sim.world().owner_token().await),
                    ])
                    .finish();
                try_through(
                    &self.sim.proxy_url(),
                    self.sim.ca_pem(),
                    "townreg.azurecr.io",
                    "POST",
                    "/oauth2/exchange",
                    &[],
                    form,
                )
                .await
            }
            "imds" => {
                let vm = self.vm["properties"]["vmId"].as_str().unwrap();
                let path = "metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/";
                try_ask(
                    "",
                    "GET",
                    &format!("{}/vm/{vm}/{path}", self.sim.imds_url()),
                    &[("metadata", "true")],
                    "",
                )
                .await
            }
            "msi" => {
                let id = arm::ResourceId::parse(self.vm["id"].as_str().unwrap()).unwrap();
                let url = format!(
                    "{}&api-version=2024-01-01",
                    self.sim.world().identity_url(&id, &self.sim.arm_url())
                );
                let auth = self.bearer("https://identity.azure.net").await;
                try_ask(self.sim.ca_pem(), "DELETE", &url, &[("authorization", auth.as_str())], "").await
            }
            _ => None,
        }
    }

    fn rules(&self, rules: Value) {
        self.sim.world().clear_faults();
        self.sim.world().add_faults(read_faults(rules.to_string().as_bytes()).unwrap()).unwrap();
    }

    fn fired(&self) -> Vec<(String, u64)> {
        let one = |f: Value| (f["name"].as_str().unwrap().to_owned(), f["fired"].as_u64().unwrap());
        self.sim.world().faults().into_iter().map(one).collect()
    }
}

fn code(answer: &Answer) -> String {
    let body = answer.json();
    let said = [&body["error"]["code"], &body["errors"][0]["code"], &body["error"]];
    let json = said.iter().find_map(|v| v.as_str()).map(str::to_owned);
    json.or_else(|| answer.header("x-ms-error-code").map(str::to_owned)).unwrap_or_default()
}

/// At each service, each way to fail at once; the client that asks once is told so, or hears nothing.
#[tokio::test]
async fn every_service_meets_its_rules() {
    let town = Town::new().await;
    for service in SERVICES {
        let good = town.once(service).await.unwrap();
        assert!(good.status < 300, "{service}: {} {}", good.status, good.json());
        let on = json!({"host": service});

        town.rules(json!({"name": "page", "match": on, "then": {"answer": {"status": 503, "html": true}}}));
        let page = town.once(service).await.unwrap();
        assert_eq!((page.status, page.header("content-type")), (503, Some("text/html")), "{service}");
        assert_eq!(town.fired()[0].1, 1, "{service}");
        assert!(
            town.sim.world().journal().iter().any(|e| e.fault.as_deref() == Some("page") && e.status == 503)
        );

        town.rules(json!({"match": on, "then": {"answer": {"status": 500, "code": "Broken", "message": "<b>", "retryAfter": 3}}}));
        let said = town.once(service).await.unwrap();
        assert_eq!((said.status, code(&said).as_str()), (500, "Broken"), "{service}: {:?}", said.body);

        for when in ["before", "after"] {
            town.rules(json!({"match": on, "then": {"drop": when}}));
            assert!(town.once(service).await.is_none(), "{service}: {when}");
        }

        town.rules(json!({"match": on, "then": {"throttle": 7}}));
        let said = town.once(service).await.unwrap();
        let want = match service {
            "arm" => (429, "SubscriptionRequestsThrottled"),
            "login" => (429, "temporarily_unavailable"),
            "vault" => (429, "Throttled"),
            "blob" => (503, "ServerBusy"),
            "registry" => (429, "TOOMANYREQUESTS"),
            "imds" => (429, "invalid_request"),
            _ => (429, "TooManyRequests"),
        };
        assert_eq!((said.status, code(&said).as_str()), want, "{service}");

        town.rules(json!({"match": on, "then": {"delay": 120}}));
        let began = Instant::now();
        assert!(town.once(service).await.unwrap().status < 300);
        assert!(began.elapsed().as_millis() >= 120, "{service} was not slower");

        // Login, the registry's exchange and machines show no token.
        town.rules(json!({"match": on, "then": "expireToken"}));
        let said = town.once(service).await.unwrap();
        let shows = !matches!(service, "login" | "registry" | "imds");
        assert_eq!(said.status, if shows { 401 } else { good.status }, "{service}");
        town.sim.world().clear_faults();
    }
    // A rule for one does not meet another, nor does one for another host of the same service.
    town.rules(json!([{"match": {"host": "vault"}, "then": {"drop": "before"}}, {"match": {"host": "other.blob.core.windows.net"}, "then": {"drop": "before"}}]));
    assert_eq!(town.once("blob").await.unwrap().status, 200);
    assert!(town.once("vault").await.is_none());
    town.rules(json!({"match": {"host": "townacct.blob.*", "principal": "zaffre-owner"}, "then": {"drop": "before"}}));
    assert!(town.once("blob").await.is_none());
    // A machine is known by its number.
    town.rules(json!({"match": {"host": "imds", "principal": town.vm["properties"]["vmId"]}, "then": {"throttle": 1}}));
    assert_eq!(town.once("imds").await.unwrap().status, 429);
}

/// What was done while nobody heard of it, or was told otherwise.
#[tokio::test]
async fn lost_and_half_done_writes_are_there() {
    let town = Town::new().await;
    town.rules(json!({"match": {"host": "blob", "method": "PUT"}, "then": {"drop": "after"}}));
    assert!(town.storage("PUT", "/box/lost", "x").await.is_none());
    assert_eq!(town.storage("GET", "/box/lost", "").await.unwrap().body, "x");
    town.rules(json!({"match": {"host": "vault", "method": "PUT"}, "then": {"partial": {"code": "InternalServerError"}}}));
    let said = town.secret("two").await.unwrap();
    assert_eq!((said.status, code(&said).as_str()), (500, "InternalServerError"));
    assert_eq!(town.once("vault").await.unwrap().json()["value"], "two");
    town.rules(json!({"match": {"host": "blob", "method": "PUT"}, "then": {"drop": "before"}}));
    assert!(town.storage("PUT", "/box/never", "x").await.is_none());
    assert_eq!(town.storage("GET", "/box/never", "").await.unwrap().status, 404);
}

/// Reads that are behind, of Resource Manager, of blobs, of vaults and of the directory.
#[tokio::test]
async fn stale_reads_everywhere() {
    let town = Town::new().await;
    let stale = |host: &str| json!({"name": format!("stale-{host}"), "match": {"host": host, "method": "GET", "every": 2}, "then": {"stale": {"versions": 1}}});
    town.rules(json!([stale("blob"), stale("vault"), stale("arm"), stale("graph")]));
    town.storage("PUT", "/box/b", "second").await.unwrap();
    let see = async || town.storage("GET", "/box/b", "").await.unwrap().body;
    assert_eq!((see().await, see().await, see().await), ("second".into(), "first".into(), "second".into()));
    town.secret("two").await.unwrap();
    let see = async || town.once("vault").await.unwrap().json()["value"].clone();
    assert_eq!((see().await, see().await), (json!("two"), json!("one")));
    town.put("", "2021-04-01", &json!({"location": "westus2", "tags": {"a": "b"}})).await;
    let see = async || town.once("arm").await.unwrap().json()["tags"]["a"].clone();
    assert_eq!((see().await, see().await), (json!("b"), Value::Null));
    let auth = town.bearer("https://graph.microsoft.com").await;
    let url = format!("{}/v1.0/applications", town.sim.arm_url());
    let headers = [("authorization", auth.as_str())];
    let made = try_ask(town.sim.ca_pem(), "POST", &url, &headers, json!({"displayName": "new"}).to_string())
        .await
        .unwrap();
    assert_eq!(made.status, 201);
    let at = format!("{url}/{}", made.json()["id"].as_str().unwrap());
    let see = async || try_ask(town.sim.ca_pem(), "GET", &at, &headers, "").await.unwrap().status;
    assert_eq!((see().await, see().await), (200, 404), "made, and not there");
}

#[tokio::test]
async fn a_certificate_that_is_not_issued_in_the_end() {
    let town = Town::new().await;
    town.rules(json!({"match": {"host": "vault", "id": "/certificates/*"}, "then": {"failLate": {"code": "IssuerError", "message": "The issuer is away."}}}));
    let auth = town.bearer("https://vault.azure.net").await;
    let ask = async |method: &str, path: &str, body: &str| {
        town.plane(
            "kv-town.vault.azure.net",
            &auth,
            method,
            &format!("/certificates/c/{path}?api-version=7.4"),
            body,
        )
        .await
        .unwrap()
    };
    let policy =
        json!({"policy": {"issuer": {"name": "Self"}, "x509_props": {"subject": "CN=x"}}}).to_string();
    assert_eq!(ask("POST", "create", &policy).await.status, 202, "it was accepted");
    let ended = ask("GET", "pending", "").await.json();
    assert_eq!(
        (&ended["status"], &ended["error"]["code"]),
        (&json!("failed"), &json!("IssuerError")),
        "{ended}"
    );
    assert_eq!(ask("GET", "", "").await.status, 404, "and there is no certificate");
    town.sim.world().clear_faults();
    assert_eq!(ask("POST", "create", &policy).await.status, 202);
    assert_eq!(ask("GET", "pending", "").await.json()["status"], "completed");
}

#[tokio::test]
async fn tokens_die_when_keys_are_rotated() {
    let town = Town::new().await;
    let before = town.sim.world().owner_token().await;
    town.rules(json!({"match": {"host": "login", "nth": 1}, "then": {"rotateKeys": true}}));
    let auth = format!("Bearer {before}");
    let url = format!("{}{}?api-version=2021-04-01", town.sim.arm_url(), town.group);
    let ask = async || {
        try_ask(town.sim.ca_pem(), "GET", &url, &[("authorization", auth.as_str())], "").await.unwrap().status
    };
    assert_eq!(ask().await, 200);
    assert_eq!(town.token("https://management.azure.com").await.unwrap().status, 200);
    assert_eq!(ask().await, 401, "a client that keeps its token is out");
    assert_eq!(town.once("arm").await.unwrap().status, 200, "one that fetches another is in");
}

fn note(seen: &mut Vec<String>, what: &str, got: &Option<Answer>) {
    let text = match got {
        None => "broken".to_owned(),
        Some(a) if a.header("content-type") == Some("text/html") => format!("{} page", a.status),
        Some(a) => format!("{} {}", a.status, code(a)),
    };
    seen.push(format!("{what}: {}", text.trim()));
}

/// What a naive client sees of a preset: it asks for a little of everything, each thing once.
async fn naive(town: &Town) -> Vec<String> {
    let mut seen = Vec::new();
    let network = format!("{}/providers/Microsoft.Network", town.group);
    for i in 0..6 {
        let url = format!("{network}/publicIPAddresses/ip{}?api-version=2024-03-01", i % 2);
        let body = json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}});
        let got = town.arm("PUT", &url, Some(&body)).await;
        note(&mut seen, "address", &got);
        let operation = got.as_ref().and_then(|a| a.header("azure-asyncoperation").map(str::to_owned));
        if let Some(at) = operation {
            let at = at.strip_prefix(&town.sim.arm_url()).unwrap().to_owned();
            let got = town.arm("GET", &at, None).await;
            if let Some(a) = &got
                && a.json()["status"] == "Failed"
            {
                seen.push(format!("operation: failed {}", a.json()["error"]["code"]));
                continue;
            }
            note(&mut seen, "operation", &got);
        }
    }
    for i in 0..6 {
        let url = format!(
            "{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i{i}?api-version=2024-11-30",
            town.group
        );
        note(&mut seen, "identity", &town.arm("PUT", &url, Some(&json!({"location": "westus2"}))).await);
    }
    for (name, zone) in [("z1", "1"), ("z2", "2")] {
        let got = town.machine(name, &[zone]).await;
        note(&mut seen, "machine", &got);
        let url = format!(
            "{}/providers/Microsoft.Compute/virtualMachines/{name}?api-version=2024-03-01",
            town.group
        );
        let got = town.arm("GET", &url, None).await;
        if let Some(a) = &got
            && a.json()["properties"]["provisioningState"] == "Failed"
        {
            seen.push("machine: Failed".to_owned());
        }
        note(&mut seen, "machine", &got);
    }
    for _ in 0..6 {
        note(&mut seen, "read", &town.once("arm").await);
    }
    for service in ["vault", "blob", "imds"] {
        for _ in 0..4 {
            note(&mut seen, service, &town.once(service).await);
        }
    }
    let extra = format!("{}-gone", town.group);
    town.arm("PUT", &format!("{extra}?api-version=2021-04-01"), Some(&json!({"location": "westus2"}))).await;
    for i in 0..4 {
        let url = format!("{extra}/providers/Microsoft.Network/routeTables/r{i}?api-version=2024-03-01");
        town.arm("PUT", &url, Some(&json!({"location": "westus2"}))).await;
    }
    note(&mut seen, "deletion", &town.arm("DELETE", &format!("{extra}?api-version=2021-04-01"), None).await);
    note(&mut seen, "deletion", &town.arm("GET", &format!("{extra}?api-version=2021-04-01"), None).await);
    seen
}

/// Every trouble of the reference's catalogue (azure.md 5.2) and the preset that makes it, as a naive client sees it.
const CATALOGUE: [(&str, &str, &str); 19] = [
    ("429 RetryableError", "retryable", "address: 429 RetryableError"),
    ("409 AnotherOperationInProgress", "another-operation", "address: 409 AnotherOperationInProgress"),
    ("a page in place of an operation's status", "html-503", "operation: 503 page"),
    ("503 ServiceUnavailable", "service-unavailable", "503 ServiceUnavailable"),
    ("504 GatewayTimeout", "gateway-timeout", "504 GatewayTimeout"),
    ("FailedIdentityOperation", "identity-late", "machine: 400 FailedIdentityOperation"),
    ("managed identity's 429", "msi-429", "identity: 429 429"),
    ("throttled by Resource Manager", "throttled", "429 SubscriptionRequestsThrottled"),
    ("throttled by vault and storage", "data-throttled", "blob: 503 ServerBusy"),
    ("throttled metadata service", "imds-busy", "imds: 429 invalid_request"),
    ("a zone without capacity", "zone-outage", "machine: Failed"),
    ("quota exhausted", "quota", "machine: 409 OperationNotAllowed"),
    ("operations that fail late", "late-failures", "operation: failed \"InternalServerError\""),
    ("writes answered with 500", "partial-writes", "address: 500 InternalServerError"),
    ("groups deleted in part", "half-deleted", "deletion: 200"),
    ("lost answers", "dropped-answers", "address: broken"),
    ("lost requests", "dropped-requests", "broken"),
    ("tokens that expire early", "token-expiry", "401 ExpiredAuthenticationToken"),
    ("keys that are rotated", "key-rotation", ""),
];

#[tokio::test]
async fn the_whole_catalogue_acts() {
    let town = Town::new().await;
    let calm = naive(&town.fork().await).await;
    let bad = |s: &str| {
        s.contains(": 4") && !s.contains(": 404 ResourceGroupNotFound")
            || s.contains(": 5")
            || s.contains("roken")
            || s.contains("ailed")
    };
    assert!(!calm.iter().any(|s| bad(s)), "without faults all is well: {calm:?}");
    assert_eq!(calm.last().unwrap(), "deletion: 404 ResourceGroupNotFound");
    for (entry, preset, sign) in CATALOGUE {
        let town = town.fork().await;
        town.sim.world().add_faults(azure_sim::preset(preset).unwrap()).unwrap();
        let seen = naive(&town).await;
        assert!(seen.iter().any(|s| s.contains(sign)), "{entry}: {preset} shows no '{sign}': {seen:?}");
        for (name, fired) in town.fired() {
            assert!(fired > 0, "{preset}: the rule {name} never fired");
        }
        if preset == "half-deleted" {
            assert!(seen.last().unwrap().contains("deletion: 200"), "it is still there: {seen:?}");
        }
        if preset == "zone-outage" {
            assert_eq!(
                seen.iter().filter(|s| *s == "machine: Failed").count(),
                1,
                "only in zone 1: {seen:?}"
            );
        }
    }
    // The others are of another nature: slowness, old reads, and everything at once.
    let listed: Vec<&str> = CATALOGUE.iter().map(|c| c.1).collect();
    let rest: Vec<&str> = PRESETS.iter().map(|p| p.0).filter(|p| !listed.contains(p)).collect();
    assert_eq!(rest, ["bad-day", "slow", "stale-reads"]);
}

/// The same seed, rules and requests give the same answers and the same journal, at every door.
#[tokio::test]
async fn the_same_seed_gives_the_same_journal() {
    let clock = ManualClock::new(clock::system().now());
    let sim = AzureSim::start(Config { clock: Arc::clone(&clock) as clock::SharedClock, ..Config::local(5) })
        .await
        .unwrap();
    let group = format!("/subscriptions/{}/resourceGroups/g", sim.world().subscription());
    let mut town = Town { sim, group, vm: Value::Null };
    town.build().await;
    let rules = || -> Vec<Rule> {
        let chance = |service: &str, then: Value| json!({"name": format!("{service}-{}", then.to_string().len()), "match": {"host": service, "probability": 0.3}, "then": then});
        let mut all: Vec<Value> = Vec::new();
        for service in ["vault", "blob", "imds", "arm"] {
            all.push(chance(service, json!({"answer": {"status": 503}})));
            all.push(chance(service, json!({"drop": "after"})));
            all.push(chance(service, json!({"throttle": 2})));
        }
        read_faults(Value::Array(all).to_string().as_bytes()).unwrap()
    };
    let mut stories = Vec::new();
    for _ in 0..2 {
        let town = town.fork().await;
        let token = town.sim.world().owner_token().await;
        assert!(!token.is_empty());
        town.sim.world().add_faults(rules()).unwrap();
        let seen = naive(&town).await;
        let journal = serde_json::to_value(town.sim.world().journal()).unwrap();
        stories.push((seen, journal));
    }
    let [(one, first), (two, second)] = stories.try_into().unwrap();
    assert_eq!(one, two);
    assert_eq!(first, second);
    assert!(one.iter().filter(|s| s.contains("503")).count() > 3, "something went wrong: {one:?}");
}

/// Rules and the clock's pace go on after a restart; those of a profile come and go with it.
#[tokio::test]
async fn faults_and_the_clocks_pace_survive_a_restart() {
    use azure_sim::Profile;
    let dir = tempfile::tempdir().unwrap();
    let start = async |profile: Profile, scale: Option<f64>| {
        let faults =
            azure_sim::faults! { "asked" => {"match": {"host": "blob"}, "then": {"drop": "after"}} }.unwrap();
        AzureSim::start(Config {
            profile,
            scale,
            faults,
            data_dir: Some(dir.path().to_owned()),
            ..Config::local(3)
        })
        .await
        .unwrap()
    };
    let names = |sim: &AzureSim| -> Vec<String> {
        sim.world().faults().iter().map(|f| f["name"].as_str().unwrap().to_owned()).collect()
    };
    let sim = start(Profile::Fast, Some(40.0)).await;
    sim.world()
        .add_faults(
            azure_sim::faults! { "mine" => {"then": {"delay": 1}}, "other" => {"then": {"delay": 2}} }
                .unwrap(),
        )
        .unwrap();
    sim.world().remove_fault("other");
    sim.stop();
    let sim = start(Profile::Fast, None).await;
    assert_eq!(names(&sim), ["asked", "mine"]);
    assert_eq!(sim.world().clock_shown()["scale"], 40.0);
    sim.stop();
    // Another profile brings its own and leaves the others.
    let sim = start(Profile::BadDay, Some(0.0)).await;
    let all = names(&sim);
    assert!(all.iter().any(|n| n == "mine") && all.iter().any(|n| n == "bad-day-html"), "{all:?}");
    sim.world().remove_fault("bad-day-html");
    sim.stop();
    let sim = start(Profile::BadDay, None).await;
    assert!(!names(&sim).iter().any(|n| n == "bad-day-html"), "what was taken away stays away");
    assert_eq!(sim.world().clock_shown()["mode"], "virtual");
    sim.stop();
    let sim = start(Profile::Instant, Some(1.0)).await;
    assert_eq!(names(&sim), ["asked", "mine"], "the bad day is over");
    sim.world().clear_faults();
    sim.stop();
    let sim = start(Profile::Instant, None).await;
    assert_eq!(names(&sim), ["asked"], "only what the start asks for");
}
