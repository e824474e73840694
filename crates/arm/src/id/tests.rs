use super::*;
use proptest::prelude::*;

fn id(s: &str) -> ResourceId {
    ResourceId::parse(s).unwrap()
}

const SUBNET: &str =
    "/subscriptions/S1/resourceGroups/Net/providers/Microsoft.Network/virtualNetworks/vn/subnets/Default";

#[test]
fn takes_ids_apart() {
    let subnet = id(SUBNET);
    assert_eq!(subnet.subscription(), Some("S1"));
    assert_eq!(subnet.group(), Some("Net"));
    assert_eq!(subnet.namespace(), Some("Microsoft.Network"));
    assert!(subnet.resource_type().is("microsoft.network/virtualnetworks/subnets"));
    assert_eq!(subnet.name(), "Default");
    assert_eq!(subnet.pairs(), [("virtualNetworks", "vn"), ("subnets", "Default")]);
    let vnet = subnet.parent().unwrap();
    assert!(vnet.as_str().ends_with("/virtualNetworks/vn") && vnet == subnet.root());
    let group = vnet.parent().unwrap();
    assert_eq!(group.as_str(), "/subscriptions/S1/resourceGroups/Net");
    assert_eq!(group.resource_type().as_str(), "Microsoft.Resources/resourceGroups");
    assert_eq!(group.parent().unwrap().scope(), Scope::Subscription("S1"));
    assert_eq!(group.parent().unwrap().parent(), None);
}

#[test]
fn extensions_attach_anywhere() {
    let on_subnet = id(&format!("{SUBNET}/providers/Microsoft.Authorization/roleAssignments/x"));
    assert!(on_subnet.is_extension());
    assert_eq!(on_subnet.extended(), Some(id(SUBNET)));
    assert_eq!(on_subnet.resource_type().as_str(), "Microsoft.Authorization/roleAssignments");
    assert_eq!(on_subnet.parent(), Some(id(SUBNET)));
    let on_tenant = id("/providers/Microsoft.Authorization/roleDefinitions/x");
    assert_eq!((on_tenant.extended(), on_tenant.scope()), (None, Scope::Tenant));
    let on_subscription = id("/subscriptions/s/providers/Microsoft.Authorization/roleAssignments/x");
    assert_eq!(on_subscription.extended(), Some(id("/subscriptions/s")));
    let on_management =
        id("/providers/Microsoft.Management/managementGroups/m/providers/Microsoft.Authorization/locks/l");
    assert_eq!(on_management.extended(), Some(id("/providers/Microsoft.Management/managementGroups/m")));
    assert_eq!(on_management.subscription(), None);
}

#[test]
fn compares_without_case_and_keeps_it() {
    let a = id(SUBNET);
    let b = id(&SUBNET.to_uppercase());
    assert_eq!(a, b);
    assert_ne!(a.as_str(), b.as_str());
    assert!(id("/subscriptions/s1").contains(&b));
    assert!(!id("/subscriptions/s").contains(&a), "prefixes end at segments");
    assert_eq!(serde_json::to_string(&a).unwrap(), format!("\"{SUBNET}\""));
    assert_eq!(id(&format!("{SUBNET}/")).as_str(), SUBNET);
}

#[test]
fn refuses_what_is_not_an_id() {
    for bad in [
        "",
        "/",
        "subscriptions/s",
        "/subscriptions",
        "/subscriptions/s/resourceGroups",
        "/subscriptions//resourceGroups/g",
        "/subscriptions/s/resourceGroups/g/providers",
        "/subscriptions/s/resourceGroups/g/providers/N",
        "/subscriptions/s/resourceGroups/g/providers/N/t",
        "/subscriptions/s/resourceGroups/g/providers/N/t/n/u",
        "/subscriptions/s/resourceGroups/g/providers/N/providers/M/t/n",
        "/subscriptions/s/elsewhere/g",
        "/subscriptions/s/resourceGroups/a?b",
        "/subscriptions/s/resourceGroups/..",
        "/elsewhere/s",
    ] {
        assert!(ResourceId::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(ResourceId::parse(&format!("/{}", "a".repeat(5000))), Err(IdError::TooLong));
}

proptest! {
    #[test]
    fn never_panics(s in "\\PC*") {
        let _ = ResourceId::parse(&s);
    }

    #[test]
    fn never_panics_near_ids(s in "(/(subscriptions|resourceGroups|providers|PROVIDERS|a\\.b|é|x|))*/?") {
        if let Ok(parsed) = ResourceId::parse(&s) {
            // Every question has an answer, and every part is an id again.
            let _ = (parsed.scope(), parsed.resource_type(), parsed.pairs(), parsed.root());
            if let Some(p) = parsed.parent() {
                prop_assert!(p.contains(&parsed) && p != parsed);
            }
            if let Some(e) = parsed.extended() {
                prop_assert!(e.contains(&parsed));
            }
        }
    }

    #[test]
    fn reads_back_what_it_shows(g in "[A-Za-z0-9_.-]{1,20}[A-Za-z]", n in "[a-zA-Z][A-Za-z0-9-]{0,20}") {
        let made = ResourceId::group_scope("s", &g).unwrap().provider("A.B", "things", &n).unwrap();
        let again = ResourceId::parse(made.as_str()).unwrap();
        prop_assert_eq!(again.as_str(), made.as_str());
        prop_assert_eq!(again.name(), n);
        prop_assert_eq!(again.group(), Some(g.as_str()));
    }
}
