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
