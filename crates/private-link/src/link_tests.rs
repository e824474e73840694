use super::*;
use serde_json::{Value, json};

/// An object as the operator of a control plane writes it.
pub fn object(name: &str, change: impl Fn(&mut Value)) -> DynamicObject {
    let network = "/subscriptions/22222222-2222-4222-8222-222222222222/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/guest";
    let mut o = json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "AzurePrivateLinkService",
        "metadata": {"name": name, "namespace": "clusters-demo", "labels": {
            "hypershift.openshift.io/infra-id": "demo-x7k2p", "hypershift.openshift.io/cluster-id": "c0ffee"},
            "ownerReferences": [{"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
                "name": "demo", "uid": "u", "controller": true}]},
        "spec": {"subscriptionID": "22222222-2222-4222-8222-222222222222", "resourceGroupName": "demo",
            "location": "westus2", "guestVNetID": network, "guestSubnetID": format!("{network}/subnets/default"),
            "baseDomain": "example.com", "loadBalancerIP": "10.1.0.7"},
    });
    change(&mut o);
    serde_json::from_value(o).unwrap()
}

pub fn link(name: &str, change: impl Fn(&mut Value)) -> Link {
    Link::read(&object(name, change)).unwrap()
}

#[test]
fn names_follow_from_the_object() {
    let router = link(ROUTER, |_| {});
    let group = ResourceId::group_scope("11111111-1111-4111-8111-111111111111", "MC_mgmt").unwrap();
    assert_eq!(router.service(&group).unwrap().name(), "pls-c0ffee");
    assert_eq!(router.nat_subnet(), "demo-x7k2p-pls-nat");
    assert_eq!(router.endpoint().unwrap().name(), "private-router-pe");
    assert_eq!(router.endpoint().unwrap().group(), Some("demo"));
    let told = |l: &Link| -> Vec<String> {
        let of = |z: &Zone| {
            let records: Vec<&str> = z.records.iter().map(ResourceId::name).collect();
            format!("{} {} {}", z.name, z.link.name(), records.join(","))
        };
        l.zones().unwrap().iter().map(of).collect()
    };
    assert_eq!(
        told(&router),
        [
            "demo.hypershift.local private-router-vnet-link api,*.apps",
            "example.com private-router-basedomain-vnet-link api-demo,oauth-demo"
        ]
    );
    let oauth = link("oauth-openshift", |_| {});
    assert_eq!(oauth.service(&group).unwrap().name(), "pls-oauth-openshift-c0ffee");
    assert_eq!(told(&oauth), ["example.com oauth-openshift-basedomain-vnet-link oauth-demo"]);
    // Where there are both, each name has one writer.
    let theirs: Vec<ResourceId> = oauth.zones().unwrap().into_iter().flat_map(|z| z.records).collect();
    let base = router.zones().unwrap().remove(1).without(&theirs);
    assert_eq!(base.records.iter().map(ResourceId::name).collect::<Vec<_>>(), ["api-demo"]);
}

#[test]
fn what_is_missing_is_named() {
    let of = |change: fn(&mut Value)| Link::read(&object(ROUTER, change)).unwrap_err().to_string();
    assert!(
        of(|o| o["metadata"]["labels"] = json!({})).contains("hypershift.openshift.io/infra-id is missing")
    );
    assert!(of(|o| o["metadata"]["ownerReferences"] = json!([])).contains("HostedControlPlane"));
    assert_eq!(of(|o| o["spec"] = json!({})), "spec cannot be read");
}
