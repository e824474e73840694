use super::*;
use crate::link::ROUTER;
use crate::link::tests::link;
use serde_json::Value;

const ALIAS: &str = "pls-c0ffee.guid.westus2.azure.privatelinkservice";

fn endpoint(alias: &str, state: &str, tag: &str) -> PrivateEndpoint {
    let id = link(ROUTER, |_| {}).endpoint().unwrap();
    serde_json::from_value(json!({"id": id, "tags": {TAG: tag}, "properties": {
        "networkInterfaces": [{"properties": {"ipConfigurations": [{"properties": {"privateIPAddress": "10.0.0.9"}}]}}],
        "manualPrivateLinkServiceConnections": [{"name": "c", "properties": {"privateLinkServiceId": alias,
            "privateLinkServiceConnectionState": {"status": state, "description": "by hand"}}}]}}))
    .unwrap()
}

fn zone_seen(tags: Value, records: u64, links: &[(&str, &str, &str)]) -> ZoneSeen {
    let of = |(name, network, tag): &(&str, &str, &str)| {
        let id = format!(
            "/subscriptions/22222222-2222-4222-8222-222222222222/resourceGroups/demo/providers/Microsoft.Network/privateDnsZones/example.com/virtualNetworkLinks/{name}"
        );
        serde_json::from_value(json!({"id": id, "tags": {TAG: tag},
            "properties": {"virtualNetwork": {"id": network}}}))
        .unwrap()
    };
    ZoneSeen {
        zone: Some(
            serde_json::from_value(json!({"tags": tags, "properties": {"numberOfRecordSets": records}}))
                .unwrap(),
        ),
        links: links.iter().map(of).collect(),
    }
}

fn names(list: impl IntoIterator<Item = ResourceId>) -> Vec<String> {
    list.into_iter().map(|id| id.name().to_owned()).collect()
}

#[test]
fn connections_have_states() {
    let of = |alias, state| connection(Some(&endpoint(alias, state, "demo-x7k2p")), ALIAS);
    assert_eq!(connection(None, ALIAS), Connection::None);
    assert_eq!(of(ALIAS, "Approved"), Connection::Approved);
    assert_eq!(of(ALIAS, "Pending"), Connection::Open("Pending (by hand)".into()));
    assert_eq!(of(ALIAS, "Rejected"), Connection::Open("Rejected (by hand)".into()));
    assert_eq!(of(ALIAS, "Disconnected"), Connection::Stale);
    assert_eq!(of("another.guid.westus2.azure.privatelinkservice", "Approved"), Connection::Stale);
    assert_eq!(address(&endpoint(ALIAS, "Approved", "x")), Some("10.0.0.9"));
}

#[test]
fn an_endpoint_of_another_cluster_is_not_taken() {
    let link = link(ROUTER, |_| {});
    assert_eq!(foreign(&link, None), None);
    assert_eq!(foreign(&link, Some(&endpoint(ALIAS, "Approved", "demo-x7k2p"))), None);
    let other = endpoint(ALIAS, "Approved", "other-abcde");
    let why = foreign(&link, Some(&other)).unwrap();
    assert!(why.message.contains("other-abcde") && why.message.contains("resource group"), "{why}");
    // And not removed.
    let goal = goes_first(&link, Some(&other), &link.zones().unwrap()).unwrap();
    assert_eq!(names(goal.absent.into_iter().map(|(id, _)| id)), ["api", "*.apps", "api-demo", "oauth-demo"]);
}

#[test]
fn zones_are_made_linked_and_marked_once() {
    let link = link(ROUTER, |_| {});
    let fresh: Vec<_> = link.zones().unwrap().into_iter().map(|z| (z, ZoneSeen::default())).collect();
    let wanted = goal(&link, ALIAS, &fresh).unwrap();
    let all = names(wanted.present.iter().map(|d| d.id.clone()));
    assert_eq!(
        all,
        [
            "private-router-pe",
            "demo.hypershift.local",
            "private-router-vnet-link",
            "example.com",
            "private-router-basedomain-vnet-link"
        ]
    );
    assert_eq!(wanted.present[3].body["tags"], json!({TAG_SHARED: SHARED}));
    // A zone of somebody's is used and not marked; a network that it knows is not linked twice.
    let mut zones = link.zones().unwrap();
    let network = link.spec.guest_vnet_id.to_uppercase().replace("/SUBSCRIPTIONS", "/subscriptions");
    let there = zone_seen(json!({}), 9, &[("theirs", &network, "")]);
    let wanted = goal(&link, ALIAS, &[(zones.remove(1), there)]).unwrap();
    assert_eq!(names(wanted.present.iter().map(|d| d.id.clone())), ["private-router-pe", "example.com"]);
    assert_eq!(wanted.present[1].body.get("tags"), None);
}

#[test]
fn a_zone_goes_with_its_last_record_if_it_is_ours() {
    let link = link(ROUTER, |_| {});
    let ours = json!({TAG_SHARED: SHARED});
    let gone = |own: bool, seen: ZoneSeen| {
        let zone = link.zones().unwrap().into_iter().find(|z| z.own == own).unwrap();
        names(goes_last(&link, &[(zone, seen)]).absent.into_iter().map(|(id, _)| id))
    };
    let links: &[_] = &[("l", "/subscriptions/s/resourceGroups/g", "demo-x7k2p")];
    assert_eq!(gone(false, zone_seen(ours.clone(), 1, links)), ["l", "example.com"]);
    // Another cluster has names in it: it stays, and stays linked.
    assert!(gone(false, zone_seen(ours.clone(), 2, links)).is_empty());
    // Somebody's own zone stays; the link that we made does not.
    assert_eq!(gone(false, zone_seen(json!({}), 1, links)), ["l"]);
    let theirs: &[_] = &[("l", "/subscriptions/s/resourceGroups/g", "other-abcde")];
    assert!(gone(false, zone_seen(json!({}), 1, theirs)).is_empty());
    // The cluster's own zone goes with all that is in it.
    assert_eq!(gone(true, zone_seen(ours, 3, &[])), ["demo.hypershift.local"]);
    assert!(gone(true, ZoneSeen::default()).is_empty());
}
