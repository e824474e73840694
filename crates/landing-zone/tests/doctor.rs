//! The doctor sees what stands in the way, and says how to mend it.

use crate::support::{ACCESS, CONTRIBUTOR, DNS_GROUP, DOMAIN, OWNED_BY, World, options, put, world};
use arm::ResourceId;
use azure::ArmType;
use azure::ops::{DnsNs, DnsZones, FederatedCredentials, ResourceGroups, UserAssignedIdentities};
use landing_zone::doctor::{Examination, Finding, For, Level, Nodes, examine};
use serde_json::json;

fn ask(w: &World, purpose: For) -> Examination {
    Examination {
        subscription: w.subscription.clone(),
        purpose,
        location: "westus2".to_owned(),
        base_domain: Some(DOMAIN.to_owned()),
        groups: Vec::new(),
        dns_group: Some(DNS_GROUP.to_owned()),
        cluster: Some(landing_zone::Cluster::new("demo", "demo-x2b4c").unwrap()),
        account: None,
        vault: None,
        nodes: Nodes::default(),
    }
}

fn blockers(f: &[Finding]) -> Vec<&Finding> {
    f.iter().filter(|f| f.level == Level::Blocker).collect()
}

#[tokio::test]
async fn the_doctor_is_content_with_an_owner() {
    let w = world().await;
    for purpose in [For::Infra, For::Iam, For::Cluster, For::Managed] {
        let found = examine(&w.client, &ask(&w, purpose)).await;
        assert!(blockers(&found).is_empty(), "{purpose:?}: {found:#?}");
        for check in ["account", "permissions", "region", "names"] {
            assert!(found.iter().any(|f| f.check == check && f.level == Level::Good), "{check}: {found:#?}");
        }
    }
    assert!(
        w.calls().iter().all(|c| c.method == "GET" || c.path.contains("oauth2")),
        "the doctor only looks"
    );
}

#[tokio::test]
async fn the_doctor_names_what_is_missing_and_how_to_mend_it() {
    let w = world().await;
    let weak = w.principal("weak", &[CONTRIBUTOR]);
    let found = examine(&weak, &ask(&w, For::Infra)).await;
    let bad = blockers(&found);
    assert!(bad.iter().all(|f| f.check == "permissions"), "{found:#?}");
    let fix = bad[0].fix.as_deref().unwrap();
    assert!(fix.contains("User Access Administrator") && fix.contains(w.subscription.as_str()), "{fix}");
    assert!(bad[0].found.contains("Microsoft.Authorization/roleAssignments/write"));
    // Identities alone need no more than that.
    assert!(blockers(&examine(&weak, &ask(&w, For::Iam)).await).is_empty());

    let mut x = ask(&w, For::Infra);
    x.location = "atlantis".to_owned();
    x.base_domain = Some("nobody.test".to_owned());
    let group = ResourceGroups::ROW.id(&w.subscription, "demo-demo-x2b4c").unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    let found = examine(&w.client, &x).await;
    let checks: Vec<&str> = blockers(&found).iter().map(|f| f.check).collect();
    assert_eq!(checks, ["region", "dns", "names"], "{found:#?}");
    assert!(blockers(&found).iter().all(|f| f.fix.is_some()));
}

/// Rights in the directory are no roles: without them everything else is good, and that is named.
#[tokio::test]
async fn the_doctor_names_a_missing_permission_of_the_directory() {
    let w = world().await;
    let x = ask(&w, For::Managed);
    let without = w.principal("without", &[CONTRIBUTOR, ACCESS]);
    let found = examine(&without, &x).await;
    let bad = blockers(&found);
    assert_eq!(bad.iter().map(|f| f.check).collect::<Vec<_>>(), ["directory"], "{found:#?}");
    assert!(bad[0].found.contains("Application.ReadWrite.OwnedBy"), "{bad:?}");
    let fix = bad[0].fix.as_ref().unwrap();
    assert!(
        fix.contains("18a4783c-866b-4cc7-a460-3d5e5662c884=Role") && fix.contains("admin-consent"),
        "{fix}"
    );
    assert!(!fix.contains("CLIENT_ID"), "it says whose: {fix}");
    // Nothing else needs it.
    assert!(blockers(&examine(&without, &ask(&w, For::Infra)).await).is_empty());
    let with = w.principal_with("with", &[CONTRIBUTOR, ACCESS], &[OWNED_BY], options());
    let found = examine(&with, &x).await;
    assert!(blockers(&found).is_empty(), "{found:#?}");
    assert_eq!(only(&found, "directory").level, Level::Good);
}

/// The one finding of a check.
fn only<'a>(found: &'a [Finding], check: &str) -> &'a Finding {
    let mut all = found.iter().filter(|f| f.check == check);
    let one = all.next().unwrap_or_else(|| panic!("no {check}: {found:#?}"));
    assert!(all.next().is_none(), "{check} twice: {found:#?}");
    one
}

#[tokio::test]
async fn sizes_and_zones() {
    let w = world().await;
    let mut x = ask(&w, For::Cluster);
    x.nodes.zones = vec!["1".to_owned(), "3".to_owned()];
    let found = examine(&w.client, &x).await;
    assert_eq!(only(&found, "size").found, "Standard_D4s_v5 in westus2: zones 1, 2, 3");
    for (place, size, zones, said) in [
        ("westus2", "Standard_Z80", vec![], "is not offered in westus2"),
        ("westus2", "Standard_M8ms", vec![], "closed to the subscription"),
        ("westus", "Standard_D4s_v5", vec!["2".to_owned()], "zone 2 of westus (it is in: none)"),
        ("westus2", "Standard_D4s_v5", vec!["1".to_owned(), "4".to_owned()], "zone 4 of westus2"),
    ] {
        x.location = place.to_owned();
        x.nodes = Nodes { size: size.to_owned(), count: 2, zones };
        let found = examine(&w.client, &x).await;
        let size = only(&found, "size");
        assert_eq!(size.level, Level::Blocker);
        assert!(size.found.contains(said), "{size:?}");
        assert!(size.fix.as_ref().unwrap().starts_with("az vm list-skus"), "{size:?}");
    }
}

#[tokio::test]
async fn quotas_of_cores_families_and_addresses() {
    let w = world().await;
    let subscription = w.subscription.subscription().unwrap();
    let limit = |name: &str, n| w.sim.world().set_quota(subscription, "westus2", name, n).unwrap();
    let mut x = ask(&w, For::Cluster);
    x.nodes.count = 3;
    let bad = async |x: &Examination| {
        let found = examine(&w.client, x).await;
        blockers(&found).into_iter().cloned().collect::<Vec<_>>()
    };
    limit("cores", 12);
    assert_eq!(bad(&x).await, []);
    limit("cores", 11);
    let found = bad(&x).await;
    assert_eq!(found[0].found, "cores: 0 of 11 are used, 12 more are needed");
    let fix = found[0].fix.as_ref().unwrap();
    assert!(fix.contains("az quota update --resource-name cores") && fix.contains("value=12"), "{fix}");
    limit("cores", 100);
    limit("standardDSv5Family", 8);
    assert!(bad(&x).await[0].found.starts_with("standardDSv5Family: 0 of 8"));
    limit("standardDSv5Family", 100);
    limit("PublicIPAddresses", 1);
    for purpose in [For::Infra, For::Cluster, For::Managed] {
        x.purpose = purpose;
        let found = bad(&x).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].found.starts_with("PublicIPAddresses: 0 of 1 are used"), "{found:?}");
    }
    x.purpose = For::Iam;
    assert_eq!(bad(&x).await, []);
}

#[tokio::test]
async fn a_zone_that_nobody_leads_to() {
    let w = world().await;
    let x = ask(&w, For::Infra);
    // Whose parent is elsewhere cannot be seen from here.
    let found = examine(&w.client, &x).await;
    assert_eq!(only(&found, "delegation").level, Level::Warning);
    let dns = ResourceGroups::ROW.id(&w.subscription, DNS_GROUP).unwrap();
    let (label, parent) = DOMAIN.split_once('.').unwrap();
    let parent = DnsZones::ROW.id(&dns, parent).unwrap();
    put::<DnsZones>(&w, &parent, json!({"location": "global"})).await;
    let found = examine(&w.client, &x).await;
    let delegation = only(&found, "delegation");
    assert_eq!(delegation.level, Level::Blocker);
    let fix = delegation.fix.as_ref().unwrap();
    assert!(fix.starts_with(
        "az network dns record-set ns add-record -g zaffre-dns -z zaffre.test -n example -d ns"
    ));
    // As the fix says.
    let server = fix.rsplit(' ').next().unwrap();
    let records = json!({"properties": {"TTL": 60, "NSRecords": [{"nsdname": server}]}});
    put::<DnsNs>(&w, &DnsNs::ROW.id(&parent, label).unwrap(), records).await;
    let found = examine(&w.client, &x).await;
    assert_eq!(only(&found, "delegation").level, Level::Good, "{found:#?}");
}

/// An identity with our name that somebody else made, with `n` credentials of others.
async fn taken(w: &World, n: usize) -> ResourceId {
    let group = ResourceGroups::ROW.id(&w.subscription, "theirs").unwrap();
    put::<ResourceGroups>(w, &group, json!({"location": "westus2"})).await;
    let id = UserAssignedIdentities::ROW.id(&group, "demo-disk-demo-x2b4c").unwrap();
    put::<UserAssignedIdentities>(w, &id, json!({"location": "westus2"})).await;
    for i in 0..n {
        let credential = FederatedCredentials::ROW.id(&id, &format!("other-{i}")).unwrap();
        let body = json!({"properties": {"issuer": "https://other.test", "subject": format!("s{i}"),
            "audiences": ["openshift"]}});
        put::<FederatedCredentials>(w, &credential, body).await;
    }
    id
}

#[tokio::test]
async fn names_that_are_taken_and_identities_that_are_full() {
    let w = world().await;
    let id = taken(&w, 17).await;
    let x = ask(&w, For::Iam);
    let found = examine(&w.client, &x).await;
    let names = only(&found, "names");
    assert!(names.level == Level::Blocker && names.found.contains(id.name()), "{names:?}");
    assert!(names.fix.as_ref().unwrap().contains("az identity delete -n demo-disk-demo-x2b4c -g theirs"));
    // Three of ours fit beside seventeen, and not beside eighteen.
    assert_eq!(only(&found, "federated credentials").level, Level::Good);
    let one_more = FederatedCredentials::ROW.id(&id, "other-17").unwrap();
    let body =
        json!({"properties": {"issuer": "https://other.test", "subject": "s17", "audiences": ["openshift"]}});
    put::<FederatedCredentials>(&w, &one_more, body).await;
    let found = examine(&w.client, &x).await;
    let full = only(&found, "federated credentials");
    assert_eq!(full.level, Level::Blocker);
    assert!(full.found.ends_with("has 18 of 20, and 3 more are needed"), "{full:?}");
    assert!(full.fix.as_ref().unwrap().contains("az identity federated-credential delete"), "{full:?}");
}

/// Names of accounts and vaults are everybody's; ours are good, also when they are there already.
#[tokio::test]
async fn names_that_are_unique_in_azure() {
    let w = world().await;
    let m = crate::managed::managed(&w);
    let mut x = ask(&w, For::Managed);
    x.cluster = Some(m.mark.clone());
    (x.account, x.vault) = (Some("demooidc".to_owned()), Some(m.vault.clone()));
    let level = async |x: &Examination, name: &str| {
        let found = examine(&w.client, x).await;
        let of = found.iter().find(|f| f.check == "names" && f.found.contains(name)).cloned();
        of.unwrap_or_else(|| panic!("{name}: {found:#?}"))
    };
    assert_eq!(level(&x, "demooidc is free").await.level, Level::Good);
    assert_eq!(level(&x, "aro-vault is free").await.level, Level::Good);
    let dir = tempfile::tempdir().unwrap();
    crate::oidc::publish(&w, dir.path(), landing_zone::issuer::Rotation::Keep).await.unwrap();
    let made = landing_zone::managed::create(&w.client, &m, Default::default(), &crate::support::quiet).await;
    assert!(crate::managed::good(&made.unwrap()));
    assert_eq!(level(&x, "demooidc is ours").await.level, Level::Good);
    assert_eq!(level(&x, "aro-vault is ours").await.level, Level::Good);
    // Somebody deleted the vault and did not purge it; another has the account.
    w.client.arm::<azure::ops::Vaults>().delete(&m.vault_id().unwrap()).await.unwrap();
    let vault = level(&x, "aro-vault").await;
    assert!(vault.level == Level::Blocker && vault.fix.unwrap().contains("az keyvault purge -n aro-vault"));
    let group = ResourceGroups::ROW.id(&w.subscription, "theirs").unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    let id = azure::ops::StorageAccounts::ROW.id(&group, "theirs").unwrap();
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {}});
    put::<azure::ops::StorageAccounts>(&w, &id, body).await;
    x.account = Some("theirs".to_owned());
    assert_eq!(level(&x, "theirs").await.level, Level::Blocker);
}
