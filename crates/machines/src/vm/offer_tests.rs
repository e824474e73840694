use super::*;
use serde_json::json;

fn size() -> Size {
    let sku = json!({"resourceType": "virtualMachines", "name": "Standard_D4s_v5", "family": "standardDSv5Family",
        "locationInfo": [{"location": "westus2", "zones": ["2", "1", "3"]}],
        "capabilities": [{"name": "vCPUs", "value": "4"}, {"name": "PremiumIO", "value": "True"},
            {"name": "EncryptionAtHostSupported", "value": "True"}],
        "restrictions": [{"type": "Zone", "reasonCode": "NotAvailableForSubscription", "values": ["westus2"],
            "restrictionInfo": {"locations": ["westus2"], "zones": ["3"]}}]});
    Size::read(&serde_json::from_value(sku).unwrap(), "WestUS2").unwrap()
}

fn spec(v: serde_json::Value) -> AzureMachineSpec {
    let mut all = json!({"vmSize": "Standard_D4s_v5", "osDisk": {"osType": "Linux"}});
    for (k, x) in v.as_object().unwrap() {
        all[k] = x.clone();
    }
    serde_json::from_value(all).unwrap()
}

#[test]
fn sizes_zones_and_abilities_are_checked() {
    let s = size();
    assert_eq!(
        (s.cpus, s.zones.clone()),
        (4, vec!["1".into(), "2".into()]),
        "a zone can be closed to a subscription"
    );
    let check = |v| check(Some(&s), &spec(v), "westus2", false);
    assert_eq!(check(json!({"failureDomain": "2"})), Ok(Standing::Zone("2".into())));
    let e = check(json!({"failureDomain": "3"})).unwrap_err();
    assert!(
        e.kind == Kind::Zone
            && e.message.contains("zones 1, 2 of westus2")
            && e.message.contains("availabilityZone")
    );
    assert_eq!(check(json!({})), Ok(Standing::Anywhere));
    assert_eq!(check(json!({"securityProfile": {"encryptionAtHost": true}})), Ok(Standing::Anywhere));
    let e =
        check(json!({"osDisk": {"osType": "Linux", "diffDiskSettings": {"option": "Local"}}})).unwrap_err();
    assert!(e.message.contains("persistence: Ephemeral"), "{e}");
    let e = super::check(None, &spec(json!({})), "westus2", false).unwrap_err();
    assert!(e.kind == Kind::Size && e.message.contains("az vm list-skus"), "{e}");
    let unzoned = Size { zones: Vec::new(), ..s.clone() };
    assert_eq!(super::check(Some(&unzoned), &spec(json!({})), "westus", false), Ok(Standing::Set));
    assert_eq!(super::check(Some(&unzoned), &spec(json!({})), "westus", true), Ok(Standing::Anywhere));
    let closed = Size { restricted: Some("NotAvailableForSubscription".into()), ..s.clone() };
    assert!(
        super::check(Some(&closed), &spec(json!({})), "westus2", false)
            .unwrap_err()
            .message
            .contains("NotAvailable")
    );
}

#[test]
fn quotas_count_what_is_promised() {
    let usage = |name: &str, used, limit| -> Usage {
        serde_json::from_value(
            json!({"name": {"value": name, "localizedValue": name}, "currentValue": used, "limit": limit}),
        )
        .unwrap()
    };
    let usages = [usage("cores", 90, 100), usage("standardDSv5Family", 4, 16)];
    let ask = |all| within_quota(&size(), false, &usages, Promised { all, family: 8 }, "westus2");
    assert_eq!(ask(0), Ok(()));
    let more = Promised { all: 0, family: 9 };
    assert!(
        within_quota(&size(), false, &usages, more, "westus2")
            .unwrap_err()
            .message
            .contains("standardDSv5Family")
    );
    assert_eq!(ask(6), Ok(()));
    let e = ask(7).unwrap_err();
    assert!(
        e.kind == Kind::Quota && e.message.contains("uses 90") && e.message.contains("7 are promised"),
        "{e}"
    );
}
