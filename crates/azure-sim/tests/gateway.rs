//! Each stage's refusal, and that the first that applies is the one that is seen.

use crate::support::{code, lab};
use azure_sim::Profile;
use serde_json::json;

#[tokio::test]
async fn refusals_come_in_order() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let s = lab.world.subscription().to_owned();
    let vnet = "providers/Microsoft.Network/virtualNetworks/v";
    let ver = "api-version=2024-03-01";
    let (poor, _) = lab.world.add_app("poor", "secret", Vec::new());
    let poor = lab.world.token_for(&poor, "secret").await;
    let owner = lab.token.clone();
    let other = "11111111-2222-4333-8444-555555555555";
    let cases = [
        // Everything is wrong with the first; each next one has one flaw less.
        ("", format!("/subscriptions/x/resourceGroups/no/{vnet}"), 401, "AuthenticationFailed"),
        ("junk", format!("/subscriptions/x/resourceGroups/no/{vnet}"), 401, "InvalidAuthenticationToken"),
        (&poor, format!("/subscriptions/x/resourceGroups/no/{vnet}"), 400, "InvalidSubscriptionId"),
        (&poor, format!("/subscriptions/{other}/resourceGroups/no/{vnet}"), 404, "SubscriptionNotFound"),
        (&poor, format!("/subscriptions/{s}/resourceGroups/no/{vnet}"), 400, "MissingApiVersionParameter"),
        (
            &poor,
            format!("/subscriptions/{s}/resourceGroups/no/{vnet}?api-version=soon"),
            400,
            "InvalidApiVersionParameter",
        ),
        (
            &poor,
            format!("/subscriptions/{s}/resourceGroups/no/{vnet}?api-version=2001-01-01"),
            400,
            "NoRegisteredProviderFound",
        ),
        (
            &poor,
            format!("/subscriptions/{s}/resourceGroups/no/providers/Nobody.Here/a/b?{ver}"),
            404,
            "InvalidResourceNamespace",
        ),
        (
            &poor,
            format!("/subscriptions/{s}/resourceGroups/no/providers/Microsoft.Network/wires/b?{ver}"),
            404,
            "InvalidResourceType",
        ),
        (&poor, format!("/subscriptions/{s}/resourceGroups/no/{vnet}?{ver}"), 403, "AuthorizationFailed"),
        (&owner, format!("/subscriptions/{s}/resourceGroups/no/{vnet}?{ver}"), 404, "ResourceGroupNotFound"),
        (&owner, format!("{g}/{vnet}/subnets/a?{ver}"), 404, "ParentResourceNotFound"),
    ];
    for (token, url, status, want) in cases {
        let reply = lab.ask_as(token, "PUT", &url, Some(&json!({})));
        assert_eq!((reply.status.as_u16(), code(&reply).as_str()), (status, want), "{url}");
        assert_eq!(reply.headers["x-ms-failure-cause"], "gateway", "{url}");
    }
}

#[tokio::test]
async fn unregistered_providers_and_locks_refuse() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let s = lab.world.subscription().to_owned();
    let nsg = format!("{g}/providers/Microsoft.Network/networkSecurityGroups/n?api-version=2024-03-01");
    let body = json!({"location": "westus2"});
    let providers = format!("/subscriptions/{s}/providers/Microsoft.ManagedIdentity");
    assert_eq!(lab.ask("POST", &format!("{providers}/unregister?api-version=2021-04-01"), None).status, 200);
    let identity =
        format!("{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i?api-version=2024-11-30");
    assert_eq!(code(&lab.ask("PUT", &identity, Some(&body))), "MissingSubscriptionRegistration");
    lab.ask("POST", &format!("{providers}/register?api-version=2021-04-01"), None);
    assert_eq!(lab.ask("PUT", &identity, Some(&body)).status, 201);

    let lock = format!("{g}/providers/Microsoft.Authorization/locks/l?api-version=2020-05-01");
    assert_eq!(lab.ask("PUT", &lock, Some(&json!({"properties": {"level": "ReadOnly"}}))).status, 201);
    assert_eq!(code(&lab.ask("PUT", &nsg, Some(&body))), "ScopeLocked");
    assert_eq!(code(&lab.ask("DELETE", &format!("{g}?api-version=2021-04-01"), None)), "ScopeLocked");
    assert_eq!(lab.ask("DELETE", &lock, None).status, 200);
    assert_eq!(lab.ask("PUT", &nsg, Some(&body)).status, 201);
}

#[tokio::test]
async fn manual_operations_wait_and_there_is_one_writer() {
    let lab = lab(Profile::Manual).await;
    let g = lab.group("g");
    let at = format!("{g}/providers/Microsoft.Network/virtualNetworks/v");
    let v = "api-version=2024-03-01";
    let body =
        json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
    let made = lab.ask("PUT", &format!("{at}?{v}"), Some(&body));
    let url = made.headers["azure-asyncoperation"].to_str().unwrap().to_owned();
    lab.pass(100_000);
    // The owner's token is old by now; a client would ask for a new one.
    let token = lab.world.owner_token().await;
    let lab = crate::support::Lab { token, ..lab };
    assert_eq!(lab.ask("GET", &url, None).body.unwrap()["status"], "InProgress");
    let subnet = json!({"properties": {"addressPrefix": "10.0.0.0/24"}});
    let busy = lab.ask("PUT", &format!("{at}/subnets/a?{v}"), Some(&subnet));
    assert_eq!((busy.status.as_u16(), code(&busy).as_str()), (429, "RetryableError"));
    assert_eq!(lab.world.finish_operations(), 1);
    assert_eq!(lab.ask("GET", &url, None).body.unwrap()["status"], "Succeeded");
    assert_eq!(lab.ask("PUT", &format!("{at}/subnets/a?{v}"), Some(&subnet)).status, 201);
}

#[tokio::test]
async fn old_versions_drop_subnets_that_are_not_mentioned() {
    let lab = lab(Profile::Instant).await;
    let at = format!("{}/providers/Microsoft.Network/virtualNetworks/v", lab.group("g"));
    let space = json!({"addressPrefixes": ["10.0.0.0/16"]});
    let with = json!({"location": "westus2", "properties": {"addressSpace": space, "subnets": [{"name": "a", "properties": {"addressPrefix": "10.0.0.0/24"}}]}});
    let without = json!({"location": "westus2", "properties": {"addressSpace": space}});
    let count = |v: &str, body| {
        lab.ask("PUT", &format!("{at}?api-version={v}"), Some(body)).body.unwrap()["properties"]["subnets"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count("2024-03-01", &with), 1);
    assert_eq!(count("2024-03-01", &without), 1);
    assert_eq!(count("2022-01-01", &without), 0);
    let bad = json!({"location": "westus2", "properties": {"addressSpace": space, "subnets": [{"name": "a", "properties": {"addressPrefix": "11.0.0.0/24"}}]}});
    assert_eq!(
        code(&lab.ask("PUT", &format!("{at}?api-version=2024-03-01"), Some(&bad))),
        "NetcfgInvalidSubnet"
    );
    assert_eq!(count("2024-03-01", &without), 0, "a refused write leaves nothing");
}

#[tokio::test]
async fn roles_grant_linked_access_or_not_and_forks_part() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let v = "api-version=2024-03-01";
    let nsg = format!("{g}/providers/Microsoft.Network/networkSecurityGroups/n");
    lab.ask("PUT", &format!("{nsg}?{v}"), Some(&json!({"location": "westus2"})));
    let (client, object) = lab.world.add_app("app", "secret", Vec::new());
    let token = lab.world.token_for(&client, "secret").await;
    let vnet = format!("{g}/providers/Microsoft.Network/virtualNetworks/v");
    let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "a", "properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}}}]}});
    let put = || lab.ask_as(&token, "PUT", &format!("{vnet}?{v}"), Some(&body));
    assert_eq!(code(&put()), "AuthorizationFailed");
    let network = "4d97b98b-1d4f-4787-a291-c67834d212e7";
    lab.world.assign(&object, network, &vnet);
    assert_eq!(code(&put()), "LinkedAuthorizationFailed");
    lab.world.assign(&object, network, &nsg);
    let fork = lab.world.fork();
    assert_eq!(put().status, 201);
    assert_eq!(fork.arm(&crate::support::call("GET", &format!("{vnet}?{v}"), &lab.token, None)).status, 404);
    let report = lab.world.least_privilege();
    assert!(report.to_string().contains("Microsoft.Network/virtualNetworks/write"), "{report}");
    assert!(lab.world.leaks().to_string().contains("virtualNetworks/v"));
}

#[tokio::test]
async fn same_seed_same_journal() {
    let run = || async {
        let lab = lab(Profile::Instant).await;
        lab.group("g");
        lab.ask("GET", "/subscriptions?api-version=2022-12-01", None);
        serde_json::to_string(&lab.world.journal()).unwrap()
    };
    assert_eq!(run().await, run().await);
}

/// What belongs to the furniture is nobody's leak, with everything that is in it by then; what comes later is.
#[tokio::test]
async fn furnished_resources_are_no_leaks() {
    let lab = lab(Profile::Instant).await;
    let left = || lab.world.leaks()["value"].as_array().unwrap().len();
    let group = lab.group("furniture");
    let zone =
        |name: &str| format!("{group}/providers/Microsoft.Network/dnsZones/{name}?api-version=2018-05-01");
    let put = |name: &str| lab.ask("PUT", &zone(name), Some(&json!({"location": "global"})));
    assert!(put("a.example").status.is_success());
    let before = left();
    assert!(before >= 2, "{:?}", lab.world.leaks());
    lab.world.furnish(&arm::ResourceId::parse(&group).unwrap());
    assert_eq!(left(), 0, "{:?}", lab.world.leaks());
    assert!(put("b.example").status.is_success());
    assert!(lab.world.leaks().to_string().contains("b.example"));
    assert!(!lab.world.leaks().to_string().contains("a.example"));
}
