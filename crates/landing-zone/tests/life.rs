//! Made, kept, changed, taken away; somebody's own things stay.

use crate::support::{DNS_GROUP, put, quiet, world};
use arm::ResourceId;
use azure::ops::{
    ResourceGroups, RoleAssignments, RoleDefinitions, SecurityGroups, UserAssignedIdentities, VirtualNetworks,
};
use azure::{ArmType, Call};
use landing_zone::identities::Identities;
use landing_zone::roles::NODE_POOL_ROLE;
use landing_zone::run::{Options, create_iam};
use landing_zone::{Error, MadeBy, destroy};
use serde_json::json;

fn reads_only(calls: &[azure_sim::Entry]) {
    let login = |c: &&azure_sim::Entry| !c.path.contains("/oauth2/");
    let writes: Vec<_> =
        calls.iter().filter(login).filter(|c| c.method != "GET").map(|c| (&c.method, &c.path)).collect();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn make_keep_and_remove() {
    let w = world().await;
    let before = w.left();
    let mut iam = w.iam("demo");
    iam.kms = true;
    let ids = w.make_iam(&iam).await;
    assert!(ids.kms_client_id.is_some());
    let infra = w.infra("demo", Identities::Workload(ids.clone()));
    let (made, _) = w.make_infra(&infra).await;
    let assignments =
        made.plan.steps.iter().filter(|s| s.id.resource_type().is(RoleAssignments::ROW.kind)).count();
    assert_eq!(assignments, 18, "as the table of roles has it");

    // Again: only reads, at most one per resource, and the same result.
    let from = w.calls().len();
    assert_eq!(w.make_iam(&iam).await, ids);
    let (again, _) = w.make_infra(&infra).await;
    assert!(again.plan.is_empty(), "{}", again.plan);
    let calls = w.calls()[from..].to_vec();
    reads_only(&calls);
    let resources = 1 + 9 + 15 + made.plan.steps.len();
    assert!(calls.len() <= resources, "{} reads for {resources} resources", calls.len());
    let mut paths: Vec<_> = calls.iter().map(|c| &c.path).collect();
    paths.sort();
    let all = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), all, "something was read twice");

    // Another machine: nothing but name and infra id.
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert_eq!(w.left(), before);
    // And nothing is left to do.
    let from = w.calls().len();
    assert!(w.remove(&w.destroy("demo", MadeBy::Infra)).await.plan.is_empty());
    reads_only(&w.calls()[from..]);
}

#[tokio::test]
async fn in_the_other_order_too() {
    let w = world().await;
    let ids = w.make_iam(&w.iam("demo")).await;
    w.make_infra(&w.infra("demo", Identities::Workload(ids))).await;
    w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    assert_eq!(w.left(), Vec::<String>::new());
}

#[tokio::test]
async fn what_you_brought_stays() {
    let w = world().await;
    let group = ResourceGroups::ROW.id(&w.subscription, "mine").unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2", "tags": {"owner": "me"}})).await;
    let nsg = SecurityGroups::ROW.id(&group, "nsg").unwrap();
    put::<SecurityGroups>(&w, &nsg, json!({"location": "westus2"})).await;
    let vnet = VirtualNetworks::ROW.id(&group, "net").unwrap();
    let net = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.1.0.0/16"]},
        "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.1.0.0/24"}}]}});
    put::<VirtualNetworks>(&w, &vnet, net).await;
    let before = w.left();

    let mut iam = w.iam("byo");
    iam.group = "mine".to_owned();
    let ids = w.make_iam(&iam).await;
    let mut infra = w.infra("byo", Identities::Workload(ids));
    infra.group = Some("mine".to_owned());
    infra.vnet = Some(vnet.clone());
    infra.subnet = Some(vnet.child("subnets", "nodes").unwrap());
    infra.security_group = Some(nsg.clone());
    let (made, _) = w.make_infra(&infra).await;
    assert!(made.plan.steps.iter().all(|s| s.id != group && s.id != vnet && s.id != nsg));
    // One group is every scope but DNS: no role is given twice.
    assert!(w.make_infra(&infra).await.0.plan.is_empty());

    let mut d = w.destroy("byo", MadeBy::Infra);
    d.group = Some("mine".to_owned());
    let gone = w.remove(&d).await;
    let why = |id: &ResourceId| gone.survey.kept.iter().find(|k| k.id == *id).map(|k| k.why.clone());
    assert!(why(&group).unwrap().contains("yours"), "{:?}", gone.survey.kept);
    assert!(gone.survey.kept.iter().any(|k| k.why.contains("zaffre destroy iam azure")));
    let mut d = w.destroy("byo", MadeBy::Iam);
    d.group = Some("mine".to_owned());
    w.remove(&d).await;
    assert_eq!(w.left(), before);
    let tags = w.client.arm::<ResourceGroups>().get(&group).await.unwrap().tags.unwrap().0;
    assert_eq!(tags.into_iter().collect::<Vec<_>>(), [("owner".to_owned(), "me".to_owned())]);
}

#[tokio::test]
async fn one_group_of_yours_with_all_of_ours_in_it() {
    let w = world().await;
    let group = ResourceGroups::ROW.id(&w.subscription, "one").unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    let before = w.left();
    let ids = w.make_iam(&w.iam("one")).await;
    let mut infra = w.infra("one", Identities::Workload(ids));
    infra.group = Some("one".to_owned());
    w.make_infra(&infra).await;
    // The cluster made something that carries its infra id; somebody made something that does not.
    let theirs = SecurityGroups::ROW.id(&group, "somebody").unwrap();
    put::<SecurityGroups>(&w, &theirs, json!({"location": "westus2"})).await;
    let clusters = SecurityGroups::ROW.id(&group, "one-x2b4c-workers").unwrap();
    put::<SecurityGroups>(&w, &clusters, json!({"location": "westus2"})).await;
    let mut d = w.destroy("one", MadeBy::Infra);
    d.group = Some("one".to_owned());
    w.remove(&d).await;
    w.remove(&w.destroy("one", MadeBy::Iam)).await;
    let mut want = before;
    want.push(theirs.key().to_string());
    want.sort();
    assert_eq!(w.left(), want);
}

#[tokio::test]
async fn what_the_cluster_left_in_its_groups_goes_with_them() {
    let w = world().await;
    let ids = w.make_iam(&w.iam("demo")).await;
    let infra = w.infra("demo", Identities::Workload(ids));
    w.make_infra(&infra).await;
    let at = infra.layout().unwrap();
    // A node's interface in the main group holds the network in another.
    let nic = azure::ops::NetworkInterfaces::ROW.id(&at.main, "worker-0").unwrap();
    let body = json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "a", "properties": {
        "subnet": {"id": at.subnet}}}]}});
    put::<azure::ops::NetworkInterfaces>(&w, &nic, body).await;
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert_eq!(w.left(), Vec::<String>::new());
}

#[tokio::test]
async fn the_main_group_may_be_preserved() {
    let w = world().await;
    let ids = w.make_iam(&w.iam("demo")).await;
    let infra = w.infra("demo", Identities::Workload(ids));
    w.make_infra(&infra).await;
    let mut d = w.destroy("demo", MadeBy::Infra);
    d.preserve = true;
    let gone = w.remove(&d).await;
    let main = infra.layout().unwrap().main;
    assert!(gone.survey.kept.iter().any(|k| k.id == main && k.why == "--preserve-resource-group"));
    w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert_eq!(w.left(), [main.key().to_string()]);
}

#[tokio::test]
async fn a_group_with_others_things_is_kept_and_it_says_so() {
    let w = world().await;
    let iam = w.iam("demo");
    w.make_iam(&iam).await;
    let group = iam.group_id().unwrap();
    let theirs = UserAssignedIdentities::ROW.id(&group, "somebody").unwrap();
    put::<UserAssignedIdentities>(&w, &theirs, json!({"location": "westus2"})).await;
    let gone = w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert!(gone.survey.kept.iter().any(|k| k.id == group && k.why.contains("1 resource(s) of others")));
    assert_eq!(w.left(), [group.key().to_string(), theirs.key().to_string()]);
}

#[tokio::test]
async fn what_is_not_ours_is_not_taken_over() {
    let w = world().await;
    let ids = w.make_iam(&w.iam("demo")).await;
    let infra = w.infra("demo", Identities::Workload(ids));
    let group = infra.layout().unwrap().main;
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    match w.try_infra(&infra).await.map(drop) {
        Err(Error::Clash(ids)) => assert_eq!(ids, std::slice::from_ref(&group)),
        other => panic!("{other:?}"),
    }
    let gone = w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    assert!(gone.survey.kept.iter().any(|k| k.id == group && k.why.contains("not our mark")));
    let adopted = landing_zone::infra::Infra { adopt: true, ..infra };
    w.make_infra(&adopted).await;
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    assert!(!w.client.arm::<ResourceGroups>().exists(&group).await.unwrap());
}

#[tokio::test]
async fn an_identity_made_anew_gets_its_roles_again() {
    let w = world().await;
    let iam = w.iam("demo");
    let ids = w.make_iam(&iam).await;
    w.make_infra(&w.infra("demo", Identities::Workload(ids.clone()))).await;
    let ingress = iam.identity("-ingress").unwrap();
    w.client.arm::<UserAssignedIdentities>().delete(&ingress).await.unwrap();
    let new = w.make_iam(&iam).await;
    assert_ne!(new.ingress, ids.ingress);
    let infra = w.infra("demo", Identities::Workload(new));
    let (changed, _) = w.make_infra(&infra).await;
    assert!(!changed.plan.is_empty());
    assert!(w.make_infra(&infra).await.0.plan.is_empty());
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert_eq!(w.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_role_that_somebody_gave_is_theirs() {
    let w = world().await;
    let iam = w.iam("demo");
    let ids = w.make_iam(&iam).await;
    let ingress = iam.identity("-ingress").unwrap();
    let principal = w.client.arm::<UserAssignedIdentities>().get(&ingress).await.unwrap();
    let principal = principal.properties.unwrap().principal_id.unwrap();
    let dns = ResourceGroups::ROW.id(&w.subscription, DNS_GROUP).unwrap();
    let theirs = RoleAssignments::ROW.id(&dns, "11111111-2222-4333-8444-555555555555").unwrap();
    let role = landing_zone::roles::definition(&w.subscription, "0336e1d3-7a87-462b-b6db-342b63f7802c");
    let body = json!({"properties": {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}});
    put::<RoleAssignments>(&w, &theirs, body).await;
    let infra = w.infra("demo", Identities::Workload(ids));
    let (made, _) = w.make_infra(&infra).await;
    assert!(made.survey.kept.iter().any(|k| k.id == theirs), "{:?}", made.survey.kept);
    assert!(w.make_infra(&infra).await.0.plan.is_empty());
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    let gone = w.remove(&w.destroy("demo", MadeBy::Iam)).await;
    assert!(gone.survey.kept.iter().any(|k| k.id == theirs && k.why.contains("az role assignment delete")));
    assert_eq!(w.left(), [theirs.key().to_string()]);
}

#[tokio::test]
async fn the_zone_is_found_on_any_page() {
    let w = world().await;
    let group = ResourceGroups::ROW.id(&w.subscription, "aaa").unwrap();
    put::<ResourceGroups>(&w, &group, json!({"location": "westus2"})).await;
    for i in 0..101 {
        let id = azure::ops::DnsZones::ROW.id(&group, &format!("zone-{i}.test")).unwrap();
        let call = Call::new(http::Method::PUT, format!("{id}?api-version=2018-05-01"));
        w.client.send(call.body(json!({"location": "global"}))).await.unwrap();
    }
    let find = async |d: &str| landing_zone::survey::zone(&w.client, &w.subscription, d, None).await;
    assert_eq!(find(crate::support::DOMAIN).await.unwrap().group(), Some(DNS_GROUP));
    assert!(matches!(find("zone-1.tes").await, Err(Error::NoZone { .. })));
}

#[tokio::test]
async fn contributor_and_user_access_administrator_suffice_and_less_changes_nothing() {
    const CONTRIBUTOR: &str = "b24988ac-6180-42a0-ab88-20f7382dd24c";
    const ACCESS: &str = "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9";
    let w = world().await;
    let weak = w.principal("weak", &[CONTRIBUTOR]);
    let enough = w.principal("enough", &[CONTRIBUTOR, ACCESS]);
    let iam = w.iam("demo");
    // Identities need no access administrator.
    let (made, ids) = create_iam(&weak, &iam, Options::default(), &quiet).await.unwrap();
    assert!(made.is_good());
    let infra = w.infra("demo", Identities::Workload(ids.unwrap()));
    let before = w.left();
    match landing_zone::run::create_infra(&weak, &infra, Options::default(), &quiet).await.map(drop) {
        Err(Error::Rights(missing)) => {
            assert!(
                missing.iter().all(|m| m.action == "Microsoft.Authorization/roleAssignments/write"),
                "{missing:?}"
            );
            assert!(missing.iter().all(|m| m.role() == "User Access Administrator"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(w.left(), before, "nothing was begun");
    let (made, _) =
        landing_zone::run::create_infra(&enough, &infra, Options::default(), &quiet).await.unwrap();
    assert!(made.is_good(), "{:#?}", made.report.failures().collect::<Vec<_>>());
    let d = w.destroy("demo", MadeBy::Infra);
    assert!(matches!(destroy::destroy(&weak, &d, Options::default(), &quiet).await, Err(Error::Rights(_))));
    for by in [MadeBy::Infra, MadeBy::Iam] {
        let gone =
            destroy::destroy(&enough, &w.destroy("demo", by), Options::default(), &quiet).await.unwrap();
        assert!(gone.outcome.is_good());
    }
    assert_eq!(w.left(), Vec::<String>::new());
}

/// Custom roles: that of the node pools has a name only, and is found by it.
#[tokio::test]
async fn custom_roles_are_given_by_id() {
    const CPO: &str = "7d8bb4e4-6fa7-4545-96cf-20fce11b705d";
    let w = world().await;
    let ids = w.make_iam(&w.iam("demo")).await;
    let mut infra = w.infra("demo", Identities::Workload(ids));
    infra.assign.as_mut().unwrap().custom = true;
    let guid = "12345678-2222-4333-8444-555555555555";
    for (id, name) in [(CPO, "cpo"), (guid, NODE_POOL_ROLE)] {
        let before = w.left();
        match w.try_infra(&infra).await.map(drop) {
            Err(Error::NoRole(role)) => assert!(role == id || role == name, "{role}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(w.left(), before, "nothing was begun");
        let body = json!({"properties": {"roleName": name, "type": "CustomRole",
            "permissions": [{"actions": ["Microsoft.Compute/virtualMachines/*"], "notActions": []}],
            "assignableScopes": [w.subscription]}});
        put::<RoleDefinitions>(&w, &RoleDefinitions::ROW.id(&w.subscription, id).unwrap(), body).await;
    }
    let before = w.left();
    let (made, _) = w.make_infra(&infra).await;
    let given = |role: &str| {
        let is = |b: &&serde_json::Value| {
            b["properties"]["roleDefinitionId"].as_str().is_some_and(|r| r.ends_with(role))
        };
        made.report.resources.values().filter(is).count()
    };
    // Main and network for the node pools, main, security group and network for the operator; nobody is Contributor.
    assert_eq!((given(guid), given(CPO), given("b24988ac-6180-42a0-ab88-20f7382dd24c")), (2, 3, 0));
    assert!(w.make_infra(&infra).await.0.plan.is_empty());
    w.remove(&w.destroy("demo", MadeBy::Infra)).await;
    assert_eq!(w.left(), before);
}
