//! Machines get tokens by asking; providers get certificates for identities.

use crate::client::ask;
use azure_sim::{AzureSim, Config};
use serde_json::{Value, json};

struct Lab {
    sim: AzureSim,
    group: String,
    token: String,
}

impl Lab {
    async fn new() -> Lab {
        let sim = AzureSim::start(Config::local(11)).await.unwrap();
        let token = sim.world().owner_token().await;
        let group = format!("/subscriptions/{}/resourceGroups/g", sim.world().subscription());
        let lab = Lab { sim, group, token };
        lab.put_at(&lab.group, "2021-04-01", json!({"location": "westus2"})).await;
        lab.put("Microsoft.Network/virtualNetworks/v", json!({"location": "westus2", "properties": {
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}})).await;
        lab
    }

    fn id(&self, name: &str) -> String {
        format!("{}/providers/{name}", self.group)
    }

    async fn put_at(&self, id: &str, version: &str, body: Value) -> Value {
        let url = format!("{}{id}?api-version={version}", self.sim.arm_url());
        let auth = format!("Bearer {}", self.token);
        let headers = [("authorization", auth.as_str()), ("content-type", "application/json")];
        let got = ask(self.sim.ca_pem(), "PUT", &url, &headers, body.to_string()).await;
        assert!(got.status < 300, "{id}: {} {}", got.status, got.json());
        got.json()
    }

    async fn put(&self, name: &str, body: Value) -> Value {
        self.put_at(&self.id(name), "2024-03-01", body).await
    }

    async fn identity(&self, name: &str) -> Value {
        self.put_at(
            &self.id(&format!("Microsoft.ManagedIdentity/userAssignedIdentities/{name}")),
            "2024-11-30",
            json!({"location": "westus2"}),
        )
        .await
    }

    async fn machine(&self, name: &str, identity: Value) -> Value {
        let nic = self.put(&format!("Microsoft.Network/networkInterfaces/{name}"), json!({"location": "westus2", "properties": {
            "ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": self.id("Microsoft.Network/virtualNetworks/v/subnets/s")}}}]}})).await;
        self.put(&format!("Microsoft.Compute/virtualMachines/{name}"), json!({"location": "westus2", "identity": identity, "tags": {"a": "b"}, "properties": {
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"}, "osProfile": {"adminUsername": "core"},
            "storageProfile": {"imageReference": {"publisher": "Debian", "offer": "debian-12", "sku": "12-gen2", "version": "latest"}},
            "networkProfile": {"networkInterfaces": [{"id": nic["id"]}]}}})).await
    }

    async fn imds(&self, vm: &Value, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let vm = vm["properties"]["vmId"].as_str().unwrap();
        let got = ask("", "GET", &format!("{}/vm/{vm}{path}", self.sim.imds_url()), headers, "").await;
        (got.status, got.json())
    }
}

const TOKEN: &str =
    "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/";
const META: &[(&str, &str)] = &[("metadata", "true")];

pub fn claims(token: &Value) -> Value {
    use base64::Engine;
    let body = token["access_token"].as_str().unwrap().split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}

#[tokio::test]
async fn a_machines_token_is_allowed_and_refused_by_role() {
    let lab = Lab::new().await;
    let vm = lab.machine("m", json!({"type": "SystemAssigned"})).await;
    let (status, token) = lab.imds(&vm, TOKEN, META).await;
    assert_eq!(status, 200, "{token}");
    for field in [
        "access_token",
        "client_id",
        "expires_in",
        "expires_on",
        "ext_expires_in",
        "not_before",
        "resource",
        "token_type",
    ] {
        assert!(token[field].is_string(), "{field}: {token}");
    }
    let c = claims(&token);
    assert_eq!(
        (c["oid"].clone(), c["xms_mirid"].clone()),
        (vm["identity"]["principalId"].clone(), vm["id"].clone())
    );
    let read = async || {
        let auth = format!("Bearer {}", token["access_token"].as_str().unwrap());
        let url = format!("{}{}?api-version=2021-04-01", lab.sim.arm_url(), lab.group);
        ask(lab.sim.ca_pem(), "GET", &url, &[("authorization", auth.as_str())], "").await.status
    };
    assert_eq!(read().await, 403);
    let reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
    lab.sim.world().assign(vm["identity"]["principalId"].as_str().unwrap(), reader, &lab.group);
    assert_eq!(read().await, 200);
    // The machine goes, and its principal with it.
    let auth = format!("Bearer {}", lab.token);
    let url = format!("{}{}?api-version=2024-03-01", lab.sim.arm_url(), vm["id"].as_str().unwrap());
    assert_eq!(
        ask(lab.sim.ca_pem(), "DELETE", &url, &[("authorization", auth.as_str())], "").await.status,
        202
    );
    assert_eq!(ask(lab.sim.ca_pem(), "GET", &url, &[("authorization", auth.as_str())], "").await.status, 404);
    assert_eq!(lab.imds(&vm, TOKEN, META).await.0, 404);
}

#[tokio::test]
async fn which_identity_is_meant() {
    let lab = Lab::new().await;
    let (a, b) = (lab.identity("a").await, lab.identity("b").await);
    let both = json!({(a["id"].as_str().unwrap()): {}, (b["id"].as_str().unwrap()): {}});
    let vm = lab.machine("m", json!({"type": "UserAssigned", "userAssignedIdentities": both})).await;
    let client = |v: &Value| v["properties"]["clientId"].as_str().unwrap().to_owned();
    for (query, want) in [
        (format!("&client_id={}", client(&a)), Some(client(&a))),
        (format!("&object_id={}", b["properties"]["principalId"].as_str().unwrap()), Some(client(&b))),
        (format!("&msi_res_id={}", b["id"].as_str().unwrap()), Some(client(&b))),
        (format!("&mi_res_id={}", a["id"].as_str().unwrap()), Some(client(&a))),
        (String::new(), None),
        ("&client_id=00000000-0000-0000-0000-000000000000".to_owned(), None),
    ] {
        let (status, token) = lab.imds(&vm, &format!("{TOKEN}{query}"), META).await;
        match want {
            Some(id) => {
                assert_eq!(
                    (status, token["client_id"].as_str()),
                    (200, Some(id.as_str())),
                    "{query}: {token}"
                );
                let c = claims(&token);
                assert_eq!(c["xms_az_rid"], vm["id"]);
                assert!(c["xms_mirid"].as_str().unwrap().contains("userAssignedIdentities"));
            }
            None => assert_eq!((status, token["error"].as_str()), (400, Some("invalid_request")), "{query}"),
        }
    }
    let one = lab
        .machine(
            "one",
            json!({"type": "UserAssigned", "userAssignedIdentities": {(a["id"].as_str().unwrap()): {}}}),
        )
        .await;
    assert_eq!(lab.imds(&one, TOKEN, META).await.1["client_id"], client(&a).as_str());
    let none = lab.machine("none", json!({"type": "None"})).await;
    assert_eq!(lab.imds(&none, TOKEN, META).await.1["error_description"], "Identity not found");
}

#[tokio::test]
async fn the_metadata_service_is_strict() {
    let lab = Lab::new().await;
    let vm = lab.machine("m", json!({"type": "SystemAssigned"})).await;
    assert_eq!(lab.imds(&vm, TOKEN, &[]).await.0, 400);
    assert_eq!(lab.imds(&vm, TOKEN, &[("metadata", "true"), ("x-forwarded-for", "1.2.3.4")]).await.0, 400);
    assert_eq!(
        lab.imds(&vm, "/metadata/identity/oauth2/token?resource=https://vault.azure.net", META).await.0,
        400
    );
    assert_eq!(lab.imds(&vm, "/metadata/identity/oauth2/token?api-version=2018-02-01", META).await.0, 400);
    let (status, all) = lab.imds(&vm, "/metadata/instance?api-version=2021-02-01", META).await;
    assert_eq!(
        (status, all["compute"]["resourceId"].clone(), all["compute"]["tags"].as_str()),
        (200, vm["id"].clone(), Some("a:b"))
    );
    assert_eq!(all["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"], "10.0.0.4");
    let id = vm["properties"]["vmId"].as_str().unwrap();
    let name = ask(
        "",
        "GET",
        &format!(
            "{}/vm/{id}/metadata/instance/compute/name?api-version=2021-02-01&format=text",
            lab.sim.imds_url()
        ),
        META,
        "",
    )
    .await;
    assert_eq!(name.body, "m");
    // By header; unknown; App Service style.
    let bare = format!("{}{TOKEN}", lab.sim.imds_url());
    assert_eq!(ask("", "GET", &bare, &[("metadata", "true"), ("x-zaffre-vm", id)], "").await.status, 200);
    assert_eq!(ask("", "GET", &bare, META, "").await.status, 404);
    use base64::Engine;
    let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{id}:x")));
    assert_eq!(
        ask("", "GET", &bare, &[("metadata", "true"), ("proxy-authorization", &basic)], "").await.status,
        200
    );
    let variables = lab.sim.machine_variables(id).unwrap();
    let of = |n: &str| variables.iter().find(|(k, _)| *k == n).unwrap().1.clone();
    let url = format!("{}?api-version=2019-08-01&resource=https://vault.azure.net", of("IDENTITY_ENDPOINT"));
    let secret = of("IDENTITY_HEADER");
    assert_eq!(ask("", "GET", &url, &[("x-identity-header", &secret)], "").await.status, 200);
    assert_eq!(ask("", "GET", &url, &[("x-identity-header", "guess")], "").await.status, 401);
    assert_eq!(ask("", "GET", &url, &[], "").await.status, 400);
}

#[tokio::test]
async fn events_and_boots_over_the_admin_api() {
    let lab = Lab::new().await;
    let admin = lab.sim.admin_url();
    let post = async |path: &str, body: Value| {
        ask("", "POST", &format!("{admin}{path}"), &[], body.to_string()).await
    };
    assert_eq!(post("/machines/runtime", json!({"waits": true})).await.status, 200);
    let waiting = {
        let url = format!("{admin}/machines/events?after=0&wait=30");
        tokio::spawn(async move { ask("", "GET", &url, &[], "").await.json() })
    };
    let vm = lab.machine("m", json!({"type": "None"})).await;
    let events = waiting.await.unwrap();
    assert_eq!(
        (events["value"][0]["what"].as_str(), events["value"][0]["id"].clone()),
        (Some("created"), vm["id"].clone())
    );
    assert_eq!(post("/machines/boot", json!({"machine": "x", "outcome": "ready"})).await.status, 404);
    assert_eq!(post("/machines/boot", json!({"machine": vm["id"], "outcome": "odd"})).await.status, 400);
    assert_eq!(
        post("/machines/boot", json!({"machine": vm["id"], "outcome": "ready", "log": "up"})).await.status,
        200
    );
    let all = ask("", "GET", &format!("{admin}/machines"), &[], "").await.json();
    assert_eq!(all["value"][0]["provisioningState"], "Succeeded");
    let after = ask("", "GET", &format!("{admin}/machines/events?after=1"), &[], "").await.json();
    assert_eq!(after["value"][0]["what"], "ready");
}

#[tokio::test]
async fn a_provider_gets_a_certificate_that_is_good_for_tokens() {
    use base64::Engine;
    let lab = Lab::new().await;
    let uami = lab.identity("a").await;
    let other = lab.identity("b").await;
    let vm = lab.machine("m", json!({"type": "SystemAssigned, UserAssigned", "userAssignedIdentities": {(uami["id"].as_str().unwrap()): {}}})).await;
    let id = arm::ResourceId::parse(vm["id"].as_str().unwrap()).unwrap();
    let url = format!("{}&api-version=2024-01-01", lab.sim.world().identity_url(&id, &lab.sim.arm_url()));
    let body = json!({"identityIds": [uami["id"]], "customClaims": {"xms_az_nwperimid": ["x"]}}).to_string();
    let ca = lab.sim.ca_pem();
    // Not logged in, one is told where to.
    let refused = ask(ca, "POST", &url, &[], body.clone()).await;
    let challenge = refused.header("www-authenticate").unwrap_or_default().to_owned();
    assert_eq!(refused.status, 401);
    assert!(
        challenge.contains(&format!("authorization=\"{}/{}\"", lab.sim.arm_url(), lab.sim.world().tenant())),
        "{challenge}"
    );
    let (client, secret) = lab.sim.world().owner_login();
    let login = format!("{}/{}/oauth2/v2.0/token", lab.sim.arm_url(), lab.sim.world().tenant());
    let form = format!(
        "grant_type=client_credentials&client_id={client}&client_secret={secret}&scope=https%3A%2F%2Fidentity.azure.net%2F.default"
    );
    let token = ask(ca, "POST", &login, &[], form).await.json()["access_token"].as_str().unwrap().to_owned();
    let auth = format!("Bearer {token}");
    let headers = [("authorization", auth.as_str())];
    // A URL that was not given out, an identity that is not the resource's.
    let forged = url.replace("arpid=", "arpid=0");
    assert_eq!(ask(ca, "POST", &forged, &headers, body.clone()).await.status, 403);
    let foreign = json!({"identityIds": [other["id"]]}).to_string();
    assert_eq!(ask(ca, "POST", &url, &headers, foreign).await.status, 400);
    assert_eq!(ask(ca, "POST", &url, &headers, "{}").await.status, 400);
    let given = ask(ca, "POST", &url, &headers, body).await.json();
    let c = &given["explicit_identities"][0];
    for field in [
        "client_id",
        "client_secret",
        "client_secret_url",
        "tenant_id",
        "object_id",
        "resource_id",
        "authentication_endpoint",
        "mtls_authentication_endpoint",
        "not_before",
        "not_after",
        "renew_after",
        "cannot_renew_after",
    ] {
        assert!(c[field].as_str().is_some_and(|t| !t.is_empty()), "{field}: {given}");
    }
    assert_eq!(c["object_id"], uami["properties"]["principalId"]);
    // The certificate signs an assertion, the assertion buys a token, the token is what its roles allow.
    let pem = base64::engine::general_purpose::STANDARD.decode(c["client_secret"].as_str().unwrap()).unwrap();
    let key = jsonwebtoken::EncodingKey::from_rsa_pem(&pem).unwrap();
    let now = lab.sim.world().now().as_second();
    let claims = json!({"aud": login, "iss": c["client_id"], "sub": c["client_id"], "jti": "1", "nbf": now, "exp": now + 300});
    let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::PS256);
    let assertion = jsonwebtoken::encode(&header, &claims, &key).unwrap();
    let form = format!(
        "grant_type=client_credentials&client_id={}&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion={assertion}&scope=https%3A%2F%2Fmanagement.azure.com%2F.default",
        c["client_id"].as_str().unwrap()
    );
    let token = ask(ca, "POST", &login, &[], form).await.json();
    assert!(
        crate::imds::claims(&token)["xms_mirid"].as_str().unwrap().ends_with("/userAssignedIdentities/a"),
        "{token}"
    );
    let auth = format!("Bearer {}", token["access_token"].as_str().unwrap());
    let read = async || {
        ask(
            ca,
            "GET",
            &format!("{}{}?api-version=2021-04-01", lab.sim.arm_url(), lab.group),
            &[("authorization", auth.as_str())],
            "",
        )
        .await
        .status
    };
    assert_eq!(read().await, 403);
    lab.sim.world().assign(
        c["object_id"].as_str().unwrap(),
        "acdd72a7-3385-48ef-bd42-f606fba81ae7",
        &lab.group,
    );
    assert_eq!(read().await, 200);
    // The resource's own identity, and where it is after a move.
    let own = ask(ca, "GET", &url, &headers, "").await;
    assert_eq!((own.status, own.json()["object_id"].clone()), (200, vm["identity"]["principalId"].clone()));
    assert_eq!(ask(ca, "DELETE", &url, &headers, "").await.status, 200);
    let moves = url.replace("/credentials?", "/credentials/proxy/move?");
    let moved =
        ask(ca, "POST", &moves, &headers, json!({"targetResourceId": uami["id"]}).to_string()).await.json();
    assert!(moved["identityUrl"].as_str().unwrap().contains("/credentials?tid="), "{moved}");
}

/// Not everybody with a token is a provider; and what was minted does not live for ever.
#[tokio::test]
async fn certificates_are_for_providers_and_end() {
    use base64::Engine;
    let lab = Lab::new().await;
    let uami = lab.identity("a").await;
    let vm = lab.machine("m", json!({"type": "SystemAssigned, UserAssigned", "userAssignedIdentities": {(uami["id"].as_str().unwrap()): {}}})).await;
    let world = lab.sim.world();
    let id = arm::ResourceId::parse(vm["id"].as_str().unwrap()).unwrap();
    let url = format!("{}&api-version=2024-01-01", world.identity_url(&id, &lab.sim.arm_url()));
    let body = json!({"identityIds": [uami["id"]]}).to_string();
    let ca = lab.sim.ca_pem();
    let login = format!("{}/{}/oauth2/v2.0/token", lab.sim.arm_url(), world.tenant());
    let token = async |client: &str, secret: &str| {
        let form = format!(
            "grant_type=client_credentials&client_id={client}&client_secret={secret}&scope=https%3A%2F%2Fidentity.azure.net%2F.default"
        );
        format!(
            "Bearer {}",
            ask(ca, "POST", &login, &[], form).await.json()["access_token"].as_str().unwrap()
        )
    };
    let mint = async |auth: &str| ask(ca, "POST", &url, &[("authorization", auth)], body.clone()).await;
    // An application that may read, and the machine itself, whatever it may.
    let (client, object) = world.add_app("nosy", "s3cret", Vec::new());
    let subscription = format!("/subscriptions/{}", world.subscription());
    world.assign(&object, "acdd72a7-3385-48ef-bd42-f606fba81ae7", &subscription);
    assert_eq!(mint(&token(&client, "s3cret").await).await.status, 403);
    let own = TOKEN.replace("https://management.azure.com/", "https://identity.azure.net");
    let (_, of_machine) = lab.imds(&vm, &own, META).await;
    world.assign(
        vm["identity"]["principalId"].as_str().unwrap(),
        "8e3af657-a8ff-443c-a75c-2fe8c4bcb635",
        &subscription,
    );
    let auth = format!("Bearer {}", of_machine["access_token"].as_str().unwrap());
    assert_eq!(mint(&auth).await.status, 403);
    // One that was given the right.
    let role = json!({"properties": {"roleName": "Provider", "type": "CustomRole", "assignableScopes": [subscription],
        "permissions": [{"actions": ["Microsoft.ManagedIdentity/identities/credentials/action"]}]}});
    let definition = "1f0e2d3c-4b5a-4697-8877-665544332204";
    lab.put_at(
        &format!("{subscription}/providers/Microsoft.Authorization/roleDefinitions/{definition}"),
        "2022-04-01",
        role,
    )
    .await;
    world.assign(&object, definition, &subscription);
    let given = mint(&token(&client, "s3cret").await).await;
    assert_eq!(given.status, 200);
    let given = given.json();
    let c = &given["explicit_identities"][0];
    let pem = base64::engine::general_purpose::STANDARD.decode(c["client_secret"].as_str().unwrap()).unwrap();
    let key = jsonwebtoken::EncodingKey::from_rsa_pem(&pem).unwrap();
    let wall = world.now().as_second();
    let exchange = async || {
        let claims = json!({"aud": login, "iss": c["client_id"], "sub": c["client_id"], "jti": "1", "nbf": wall, "exp": wall + 3_000});
        let assertion =
            jsonwebtoken::encode(&jsonwebtoken::Header::new(jsonwebtoken::Algorithm::PS256), &claims, &key)
                .unwrap();
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion={assertion}&scope=https%3A%2F%2Fmanagement.azure.com%2F.default",
            c["client_id"].as_str().unwrap()
        );
        let got = ask(ca, "POST", &login, &[], form).await;
        (got.status, got.json()["error_codes"][0].as_u64())
    };
    assert_eq!(exchange().await, (200, None));
    world.advance(jiff::SignedDuration::from_hours(24 * 89));
    assert_eq!(exchange().await.0, 200);
    world.advance(jiff::SignedDuration::from_hours(48));
    assert_eq!(exchange().await, (401, Some(700_027)));
}
