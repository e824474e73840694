use super::*;
use crate::link::ROUTER;
use crate::link::tests::link;

const GROUP: &str = "/subscriptions/11111111-1111-4111-8111-111111111111/resourceGroups/MC_mgmt";

fn at(path: &str) -> String {
    format!("{GROUP}/providers/Microsoft.Network/{path}")
}

fn balancer(name: &str, ip: &str) -> LoadBalancer {
    let id = at(&format!("loadBalancers/{name}"));
    serde_json::from_value(json!({"id": id, "name": name, "properties": {"frontendIPConfigurations": [
        {"name": "public", "id": format!("{id}/frontendIPConfigurations/public"), "properties": {}},
        {"name": "f", "id": format!("{id}/frontendIPConfigurations/f"), "properties": {
            "privateIPAddress": ip, "subnet": {"id": at("virtualNetworks/mgmt/subnets/nodes")}}}]}}))
    .unwrap()
}

fn network(spaces: &[&str], subnets: Value) -> VirtualNetwork {
    serde_json::from_value(json!({"name": "mgmt", "properties": {
        "addressSpace": {"addressPrefixes": spaces}, "subnets": subnets}}))
    .unwrap()
}

fn found() -> Front {
    front(&[balancer("a", "10.1.0.6"), balancer("b", "10.1.0.7")], "10.1.0.7").unwrap()
}

#[test]
fn a_balancer_is_found_by_its_address() {
    let front = found();
    assert!(front.frontend.as_str().ends_with("/loadBalancers/b/frontendIPConfigurations/f"));
    assert_eq!(front.network.as_str(), at("virtualNetworks/mgmt"));
    assert_eq!(super::front(&[balancer("a", "10.1.0.6")], "10.1.0.7"), None);
    let group = ResourceId::parse(GROUP).unwrap();
    let why = no_front(&link(ROUTER, |_| {}), &group, Some("10.1.0.7"));
    assert_eq!(why.reason, "ILBLookupFailed");
    assert!(why.message.contains("10.1.0.7") && why.message.contains("--azure-pls-resource-group"), "{why}");
    assert!(no_front(&link(ROUTER, |_| {}), &group, None).message.contains("has no address yet"));
}

#[test]
fn addresses_are_translated_where_there_is_room() {
    let nodes = json!([{"name": "nodes", "properties": {"addressPrefix": "10.1.0.0/24"}}]);
    let auto = link(ROUTER, |_| {});
    let made = nat(&auto, &found(), &network(&["10.1.0.0/16"], nodes.clone())).unwrap();
    assert_eq!(made.id.as_str(), at("virtualNetworks/mgmt/subnets/demo-x7k2p-pls-nat"));
    assert_eq!(made.prefix.as_deref(), Some("10.1.1.0/28"));
    // One that is there keeps its range.
    let again =
        json!([nodes[0], {"name": "demo-x7k2p-pls-nat", "properties": {"addressPrefixes": ["10.1.9.0/28"]}}]);
    let kept = nat(&auto, &found(), &network(&["10.1.0.0/16"], again)).unwrap();
    assert_eq!(kept.prefix.as_deref(), Some("10.1.9.0/28"));
    let full = nat(&auto, &found(), &network(&["10.1.0.0/24"], nodes.clone())).unwrap_err();
    assert_eq!(full.reason, "NATSubnetCreationFailed");
    assert!(full.message.contains("natSubnetID"), "{full}");
    let own = at("virtualNetworks/mgmt/subnets/mine");
    let named = link(ROUTER, |o| o["spec"]["natSubnetID"] = json!(own));
    let taken = nat(&named, &found(), &network(&["10.1.0.0/24"], nodes.clone())).unwrap();
    assert_eq!(taken, Nat { id: ResourceId::parse(&own).unwrap(), prefix: None });
    let elsewhere = link(ROUTER, |o| o["spec"]["natSubnetID"] = json!(at("virtualNetworks/other/subnets/x")));
    let wrong = nat(&elsewhere, &found(), &network(&["10.1.0.0/24"], nodes)).unwrap_err();
    assert!(wrong.message.contains("is not in the load balancer's network"), "{wrong}");
}

#[test]
fn a_goal_names_subnet_service_and_who_is_let_in() {
    let more = "33333333-3333-4333-8333-333333333333";
    let link = link(ROUTER, |o| o["spec"]["additionalAllowedSubscriptions"] = json!([more]));
    let group = ResourceId::parse(GROUP).unwrap();
    let nat = Nat {
        id: ResourceId::parse(&at("virtualNetworks/mgmt/subnets/n")).unwrap(),
        prefix: Some("10.1.1.0/28".into()),
    };
    let wanted = goal(&link, &group, &found(), &nat).unwrap();
    let ids: Vec<&str> = wanted.present.iter().map(|d| d.id.name()).collect();
    assert_eq!(ids, ["n", "pls-c0ffee"]);
    let p = &wanted.present[1].body["properties"];
    let both = json!(["22222222-2222-4222-8222-222222222222", more]);
    assert_eq!((&p["autoApproval"]["subscriptions"], &p["visibility"]["subscriptions"]), (&both, &both));
    // The service waits for its subnet.
    let plan = azure::plan::plan(&wanted, &Default::default()).unwrap();
    assert_eq!((plan.steps[0].id.name(), &plan.steps[1].after[..]), ("n", &[0][..]));
    let named = Nat { prefix: None, ..nat };
    assert_eq!(
        goal(&link, &group, &found(), &named).unwrap().present.len(),
        1,
        "a subnet of others is left alone"
    );
}
