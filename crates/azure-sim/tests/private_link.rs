//! Private endpoints and the services they lead to.

use crate::machines::Site;
use crate::support::code;
use azure_sim::Profile;
use serde_json::{Value, json};

const PLS: &str = "Microsoft.Network/privateLinkServices/p";
const PE: &str = "Microsoft.Network/privateEndpoints/e";

fn service(site: &Site, approved: &[&str]) -> Value {
    json!({"location": "westus2", "properties": {
        "loadBalancerFrontendIpConfigurations": [{"id": site.id("Microsoft.Network/loadBalancers/lb/frontendIPConfigurations/f")}],
        "ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": site.id("Microsoft.Network/virtualNetworks/v/subnets/nat")}}}],
        "visibility": {"subscriptions": ["*"]}, "autoApproval": {"subscriptions": approved},
    }})
}

fn balancer(site: &Site, sku: &str) {
    site.put("Microsoft.Network/loadBalancers/lb", &json!({"location": "westus2", "sku": {"name": sku}, "properties": {
        "frontendIPConfigurations": [{"name": "f", "properties": {"subnet": {"id": site.id("Microsoft.Network/virtualNetworks/v/subnets/s")}}}],
    }}));
}

fn endpoint(site: &Site, to: &str, manual: bool) -> Value {
    let list = if manual { "manualPrivateLinkServiceConnections" } else { "privateLinkServiceConnections" };
    json!({"location": "westus2", "properties": {
        "subnet": {"id": site.id("Microsoft.Network/virtualNetworks/v/subnets/s")},
        (list): [{"name": "c", "properties": {"privateLinkServiceId": to}}],
    }})
}

#[tokio::test]
async fn by_alias_and_by_hand() {
    let site = Site::new(Profile::Instant).await;
    balancer(&site, "Standard");
    let pls = site.put(PLS, &service(&site, &[]));
    let alias = pls["properties"]["alias"].as_str().unwrap();
    assert!(alias.starts_with("p.") && alias.ends_with(".westus2.azure.privatelinkservice"), "{alias}");
    site.put(PE, &endpoint(&site, alias, true));
    let pe = site.get(&format!("{PE}?api-version=2023-11-01&$expand=networkInterfaces"));
    let c = &pe["properties"]["manualPrivateLinkServiceConnections"][0]["properties"];
    assert_eq!(
        (c["privateLinkServiceConnectionState"]["status"].as_str(), c["privateLinkServiceId"].as_str()),
        (Some("Pending"), Some(alias))
    );
    assert!(!pe.to_string().contains("zaffre"));
    let ip = pe["properties"]["networkInterfaces"][0]["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"].as_str().unwrap();
    assert!(ip.starts_with("10.0.0."), "{ip}");
    // The service sees it, approves it, and both agree.
    let connections = site.get(&format!("{PLS}/privateEndpointConnections"));
    let name = connections["value"][0]["name"].as_str().unwrap().to_owned();
    let at = format!("{PLS}/privateEndpointConnections/{name}");
    assert_eq!(site.get(&at)["properties"]["privateLinkServiceConnectionState"]["status"], "Pending");
    let odd = json!({"properties": {"privateLinkServiceConnectionState": {"status": "Maybe"}}});
    assert_eq!(site.ask("PUT", &at, Some(&odd)).status, 400);
    let yes = json!({"properties": {"privateLinkServiceConnectionState": {"status": "Approved", "description": "yes"}}});
    assert_eq!(site.ask("PUT", &at, Some(&yes)).status, 200);
    let state = |v: Value| {
        v["properties"]["manualPrivateLinkServiceConnections"][0]["properties"]["privateLinkServiceConnectionState"]["status"].clone()
    };
    assert_eq!(state(site.get(PE)), "Approved");
    // In use, it stays, and so does what it stands on.
    for busy in [PLS, "Microsoft.Network/loadBalancers/lb", "Microsoft.Network/virtualNetworks/v"] {
        assert_eq!(site.ask("DELETE", busy, None).status, 400, "{busy}");
    }
    let nic = pe["properties"]["networkInterfaces"][0]["name"].as_str().unwrap();
    assert_eq!(
        code(&site.ask("DELETE", &format!("Microsoft.Network/networkInterfaces/{nic}"), None)),
        "NicInUse"
    );
    // Ended by the service: the endpoint stays, disconnected, and the service can go.
    assert_eq!(site.ask("DELETE", &at, None).status, 202);
    assert_eq!(state(site.get(PE)), "Disconnected");
    assert_eq!(site.ask("DELETE", PLS, None).status, 202);
    assert_eq!(site.ask("GET", PLS, None).status, 404);
    assert_eq!(site.ask("DELETE", PE, None).status, 202);
    assert_eq!(site.ask("GET", PE, None).status, 404);
    assert_eq!(site.ask("GET", &format!("Microsoft.Network/networkInterfaces/{nic}"), None).status, 404);
    assert_eq!(site.ask("DELETE", "Microsoft.Network/loadBalancers/lb", None).status, 202);
}

#[tokio::test]
async fn approved_by_itself() {
    let site = Site::new(Profile::Instant).await;
    balancer(&site, "Standard");
    let s = site.lab.world.subscription().to_owned();
    let pls = site.put(PLS, &service(&site, &[&s]));
    let pe = site.put(PE, &endpoint(&site, pls["properties"]["alias"].as_str().unwrap(), true));
    assert_eq!(
        pe["properties"]["manualPrivateLinkServiceConnections"][0]["properties"]["privateLinkServiceConnectionState"]
            ["status"],
        "Approved"
    );
    let direct = site
        .put("Microsoft.Network/privateEndpoints/d", &endpoint(&site, pls["id"].as_str().unwrap(), false));
    assert_eq!(
        direct["properties"]["privateLinkServiceConnections"][0]["properties"]["privateLinkServiceConnectionState"]
            ["status"],
        "Approved"
    );
    assert_eq!(site.get(PLS)["properties"]["privateEndpointConnections"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_wrong_is_refused() {
    let site = Site::new(Profile::Instant).await;
    balancer(&site, "Basic");
    let refused = |name: &str, body: &Value| {
        let got = site.ask("PUT", name, Some(body));
        assert_eq!(site.ask("GET", name, None).status, 404);
        (got.status.as_u16(), code(&got))
    };
    let basic = refused(PLS, &service(&site, &[]));
    assert_eq!(basic, (400, "PrivateLinkServiceRequiresStandardLoadBalancer".into()));
    let mut wrong = service(&site, &[]);
    wrong["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"] =
        site.id("Microsoft.Network/virtualNetworks/v/subnets/s").into();
    wrong["properties"]["loadBalancerFrontendIpConfigurations"][0]["id"] =
        site.id("Microsoft.Network/loadBalancers/other/frontendIPConfigurations/f").into();
    assert_eq!(
        refused(PLS, &wrong).1,
        "PrivateLinkServiceCannotBeCreatedInSubnetThatHasNetworkPoliciesEnabled"
    );
    assert_eq!(
        refused(PE, &endpoint(&site, "p.x.westus2.azure.privatelinkservice", true)).1,
        "InvalidResourceReference"
    );
    assert_eq!(
        refused(PE, &endpoint(&site, &site.id("Microsoft.Network/privateLinkServices/none"), false)).1,
        "InvalidResourceReference"
    );
    assert_eq!(refused(PE, &json!({"location": "westus2", "properties": {"subnet": {"id": site.id("Microsoft.Network/virtualNetworks/v/subnets/s")}}})).0, 400);
    assert_eq!(refused(PE, &json!({"location": "westus2"})).1, "SubnetIsRequired");
}

#[tokio::test]
async fn names_in_private_zones() {
    let site = Site::new(Profile::Instant).await;
    let zone = "Microsoft.Network/privateDnsZones/privatelink.vaultcore.azure.net";
    site.ask("PUT", &format!("{zone}?api-version=2020-06-01"), Some(&json!({"location": "global"})));
    let vault = &site.id("Contoso.Vaults/things/kv");
    let mut body = endpoint(&site, vault, false);
    body["properties"]["privateLinkServiceConnections"][0]["properties"]["groupIds"] = json!(["vault"]);
    let pe = site.put(PE, &body);
    assert_eq!(pe["properties"]["customDnsConfigs"][0]["fqdn"], "kv.vault.azure.net");
    let ip = pe["properties"]["customDnsConfigs"][0]["ipAddresses"][0].clone();
    let group = json!({"properties": {"privateDnsZoneConfigs": [{"name": "c", "properties": {"privateDnsZoneId": site.id(zone)}}]}});
    let shown = site.put(&format!("{PE}/privateDnsZoneGroups/default"), &group);
    assert_eq!(
        shown["properties"]["privateDnsZoneConfigs"][0]["properties"]["recordSets"][0]["fqdn"],
        "kv.privatelink.vaultcore.azure.net"
    );
    let a = format!("{zone}/A/kv?api-version=2020-06-01");
    assert_eq!(site.get(&a)["properties"]["aRecords"][0]["ipv4Address"], ip);
    assert_eq!(site.ask("DELETE", &format!("{PE}/privateDnsZoneGroups/default"), None).status, 202);
    assert_eq!(site.ask("GET", &a, None).status, 404);
    // The names go with the endpoint, too.
    site.put(&format!("{PE}/privateDnsZoneGroups/default"), &group);
    site.get(&a);
    assert_eq!(site.ask("DELETE", PE, None).status, 202);
    assert_eq!(site.ask("GET", &a, None).status, 404);
}

/// Who may not approve may ask: by hand, and waits.
#[tokio::test]
async fn an_automatic_connection_needs_the_right_to_approve() {
    let site = Site::new(Profile::Instant).await;
    balancer(&site, "Standard");
    site.put(PLS, &service(&site, &[]));
    let (client, object) = site.lab.world.add_app("tenant", "s3cret", Vec::new());
    let role = |name: &str, id: &str, actions: Value| {
        let body = json!({"properties": {"roleName": name, "type": "CustomRole", "permissions": [{"actions": actions}], "assignableScopes": [site.group]}});
        let url = format!(
            "{}/providers/Microsoft.Authorization/roleDefinitions/{id}?api-version=2022-04-01",
            site.group
        );
        assert_eq!(site.lab.ask("PUT", &url, Some(&body)).status, 201);
        site.lab.world.assign(&object, id, &site.group);
    };
    let connects = json!([
        "Microsoft.Network/privateEndpoints/*",
        "Microsoft.Network/virtualNetworks/subnets/join/action",
        "Microsoft.Network/privateLinkServices/read"
    ]);
    role("Connects", "1f0e2d3c-4b5a-4697-8877-665544332201", connects);
    let token = site.lab.world.token_for(&client, "s3cret").await;
    let url = format!("{}?api-version=2024-03-01", site.id(PE));
    let put =
        |manual: bool| site.lab.ask_as(&token, "PUT", &url, Some(&endpoint(&site, &site.id(PLS), manual)));
    let refused = put(false);
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (403, "LinkedAuthorizationFailed"));
    let text = refused.body.unwrap().to_string();
    assert!(
        text.contains("Microsoft.Network/privateLinkServices/PrivateEndpointConnectionsApproval/action"),
        "{text}"
    );
    assert_eq!(site.ask("GET", PE, None).status, 404, "nothing was made");
    assert_eq!(put(true).status, 201);
    let state = |list: &str| {
        site.get(PE)["properties"][list][0]["properties"]["privateLinkServiceConnectionState"]["status"]
            .clone()
    };
    assert_eq!(state("manualPrivateLinkServiceConnections"), "Pending");
    site.ask("DELETE", PE, None);
    let approves = json!(["Microsoft.Network/privateLinkServices/privateEndpointConnectionsApproval/action"]);
    role("Approves", "1f0e2d3c-4b5a-4697-8877-665544332202", approves);
    assert_eq!(put(false).status, 201);
    assert_eq!(state("privateLinkServiceConnections"), "Approved");
}
