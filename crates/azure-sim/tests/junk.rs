//! Whatever is sent, something is answered, and never by a panic.

use crate::support::{call, lab};
use azure_sim::Profile;
use proptest::prelude::*;
use serde_json::{Value, json};

fn junk() -> impl Strategy<Value = Value> {
    let names = [
        "properties",
        "name",
        "id",
        "location",
        "sku",
        "tags",
        "subnets",
        "addressSpace",
        "addressPrefixes",
        "ipConfigurations",
        "subnet",
        "securityRules",
        "frontendIPConfigurations",
        "routes",
        "virtualNetwork",
        "publicIpAddresses",
        "dnsSettings",
        "TTL",
        "issuer",
        "audiences",
        "level",
        "roleDefinitionId",
        "principalId",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop_oneof![Just("westus2"), Just("10.0.0.0/24"), Just("a"), Just("/"), Just("İ"), Just("")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(names.to_vec()), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

#[test]
fn nothing_panics() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let lab = runtime.block_on(lab(Profile::Instant));
    let groups = [lab.group("g"), lab.group("İİİİ")];
    let kinds = [
        "Microsoft.Network/virtualNetworks",
        "Microsoft.Network/networkSecurityGroups",
        "Microsoft.Network/publicIPAddresses",
        "Microsoft.Network/loadBalancers",
        "Microsoft.Network/networkInterfaces",
        "Microsoft.Network/natGateways",
        "Microsoft.Network/routeTables",
        "Microsoft.Network/dnsZones",
        "Microsoft.Network/privateDnsZones",
        "Microsoft.ManagedIdentity/userAssignedIdentities",
        "Microsoft.Authorization/roleAssignments",
        "Microsoft.Authorization/roleDefinitions",
        "Microsoft.Authorization/locks",
        "Microsoft.Resources/tags",
    ];
    let methods = ["PUT", "PUT", "PUT", "GET", "PATCH", "DELETE", "POST", "HEAD"];
    let names = ["a", "a.b", "default", "x/subnets/y", "x.y/A/z", "x/federatedIdentityCredentials/abc", "İ"];
    let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(g in 0..2usize, k in 0..kinds.len(), m in 0..methods.len(), n in 0..names.len(), body in junk(), located in any::<bool>())| {
        let mut body = body;
        if located && body.is_object() {
            body["location"] = json!("westus2");
        }
        let url = format!("{}/providers/{}/{}?api-version=2024-03-01", groups[g], kinds[k], names[n]);
        let reply = lab.world.arm(&call(methods[m], &url, &lab.token, Some(&body)));
        prop_assert!(reply.status.as_u16() < 500);
    });
}

/// Bytes that are no JSON, or JSON that is no request, at every door.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_refused_everywhere() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let graph_token = {
        let (client, secret) = lab.world.owner_login();
        let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
        c.body = format!("grant_type=client_credentials&client_id={client}&client_secret={secret}&scope=https%3A%2F%2Fgraph.microsoft.com%2F.default").into();
        lab.world.login(&c).await.body.unwrap()["access_token"].as_str().unwrap().to_owned()
    };
    let doors = [
        ("PUT", format!("{g}?api-version=2021-04-01")),
        ("PUT", format!("{g}/providers/Microsoft.Network/virtualNetworks/v?api-version=2024-03-01")),
        ("PUT", format!("{g}/providers/Microsoft.Authorization/roleAssignments/x?api-version=2022-04-01")),
        ("PATCH", format!("{g}/providers/Microsoft.Resources/tags/default?api-version=2021-04-01")),
    ];
    let json = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}:,\"a0.e-]{0,60}".prop_map(String::into_bytes),
        junk().prop_map(|v| v.to_string().into_bytes()),
    ];
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let runtime = tokio::runtime::Handle::current();
    proptest!(config, |(bytes in json, d in 0..doors.len())| {
        let (method, url) = &doors[d];
        let mut c = call(method, url, &lab.token, None);
        c.body = bytes.clone().into();
        prop_assert!(lab.world.arm(&c).status.as_u16() < 500);
        let mut c = call("POST", "/providers/Microsoft.Authorization/checkAccess?api-version=2021-06-01-preview", &lab.token, None);
        c.body = bytes.clone().into();
        prop_assert!(lab.world.check_access(&c).status.as_u16() < 500);
        for path in ["/v1.0/applications", "/v1.0/servicePrincipals", "/v1.0/directoryObjects/getByIds"] {
            let mut c = call("POST", path, &graph_token, None);
            c.body = bytes.clone().into();
            prop_assert!(lab.world.graph(&c).status.as_u16() < 500);
        }
        let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
        c.body = bytes.into();
        let reply = tokio::task::block_in_place(|| runtime.block_on(lab.world.login(&c)));
        prop_assert!((400..500).contains(&reply.status.as_u16()));
    });
}
