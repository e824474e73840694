//! Every type: create, show, list, update, delete, and delete again.

use crate::support::{Target, target};
use arm::ResourceId;
use azure::ops::*;
use azure::plan::{Desired, Goal, Observed, plan};
use azure::{ArmType, Deleted};
use futures::TryStreamExt;
use serde_json::{Value, json};

fn name(v: &Value) -> String {
    v["name"].as_str().unwrap_or_default().to_lowercase()
}

/// Whether a resource is as wanted, by the planner's own judgement.
fn fits(id: &ResourceId, wanted: &Value, got: &Value) {
    let goal = Goal::default().present(Desired::new(id.clone(), wanted.clone()));
    let p = plan(&goal, &Observed::from([(id.clone(), got.clone())])).unwrap();
    assert!(p.is_empty(), "{p}\nwanted {wanted:#}\ngot {got:#}");
}

/// Create, show, list; returns the id.
async fn make<T: ArmType>(t: &Target, scope: &ResourceId, called: &str, body: Value) -> ResourceId {
    let arm = t.client.arm::<T>();
    let id = arm.id(scope, called).unwrap();
    assert!(!arm.exists(&id).await.unwrap(), "{id}");
    assert!(arm.find(&id).await.unwrap().is_none());
    let typed: T::Body = serde_json::from_value(body.clone()).unwrap();
    let made = serde_json::to_value(arm.put(&id, &typed).await.unwrap()).unwrap();
    fits(&id, &body, &made);
    let shown = serde_json::to_value(arm.get(&id).await.unwrap()).unwrap();
    fits(&id, &body, &shown);
    assert_eq!(name(&shown), called.to_lowercase());
    assert!(arm.exists(&id).await.unwrap());
    let all = arm.list_all(scope).await.unwrap();
    let names: Vec<String> = all.iter().map(|b| name(&serde_json::to_value(b).unwrap())).collect();
    assert!(names.contains(&called.to_lowercase()), "{id} is not listed: {names:?}");
    id
}

async fn update<T: ArmType>(t: &Target, id: &ResourceId, body: Value) {
    let arm = t.client.arm::<T>();
    let typed: T::Body = serde_json::from_value(body.clone()).unwrap();
    arm.put(id, &typed).await.unwrap();
    fits(id, &body, &serde_json::to_value(arm.get(id).await.unwrap()).unwrap());
}

async fn remove<T: ArmType>(t: &Target, id: &ResourceId) {
    let arm = t.client.arm::<T>();
    assert_eq!(arm.delete(id).await.unwrap(), Deleted::Done, "{id}");
    assert!(arm.find(id).await.unwrap().is_none(), "{id}");
    assert_eq!(arm.delete(id).await.unwrap(), Deleted::Absent, "{id}");
}

#[tokio::test]
async fn groups_tags_locks_and_lists() {
    let t = target().await;
    let l = t.location.clone();
    t.in_group("groups", async |g: ResourceId| {
        update::<ResourceGroups>(&t, &g, json!({"location": l, "tags": {"a": "1"}})).await;
        let groups = t.client.arm::<ResourceGroups>();
        let patched = groups.patch(&g, &json!({"tags": {"b": "2"}})).await.unwrap();
        assert_eq!(patched.tags.unwrap().0, [("b".to_owned(), "2".to_owned())].into());
        let found = groups.list_with(&t.subscription, &[("$filter", "tagName eq 'b' and tagValue eq '2'")]);
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert!(found.iter().any(|x| x.id.as_ref() == Some(&g)), "{found:?}");

        let tags = t.client.arm::<TagsOf>();
        let at = tags.id(&g, "default").unwrap();
        let merged = tags
            .patch(&at, &json!({"operation": "Merge", "properties": {"tags": {"c": "3"}}}))
            .await
            .unwrap();
        assert_eq!(merged.properties.unwrap().tags.unwrap().0.len(), 2);
        assert_eq!(tags.get(&at).await.unwrap().properties.unwrap().tags.unwrap().0.len(), 2);

        let nsg = make::<SecurityGroups>(&t, &g, "nsg", json!({"location": l})).await;
        let all: Vec<arm::Resource> = t.client.resources(&g, None).try_collect().await.unwrap();
        assert_eq!(all.iter().filter_map(|r| r.id.as_ref()).collect::<Vec<_>>(), [&nsg]);
        let filter = "resourceType eq 'Microsoft.Network/virtualNetworks'";
        let none: Vec<arm::Resource> = t.client.resources(&g, Some(filter)).try_collect().await.unwrap();
        assert!(none.is_empty());

        let lock =
            make::<Locks>(&t, &g, "keep", json!({"properties": {"level": "CanNotDelete", "notes": "n"}}))
                .await;
        let refused = t.client.arm::<SecurityGroups>().delete(&nsg).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(409), Some("ScopeLocked")));
        assert!(!refused.is_transient());
        remove::<Locks>(&t, &lock).await;
        remove::<SecurityGroups>(&t, &nsg).await;
    })
    .await;
}

#[tokio::test]
async fn providers_and_permissions() {
    let t = target().await;
    let s = t.subscription_id();
    let network = t.client.provider(s, "Microsoft.Network").await.unwrap();
    assert_eq!(network.registration_state.as_deref(), Some("Registered"));
    assert!(
        network.resource_types.unwrap().iter().any(|x| x.resource_type.as_deref() == Some("virtualNetworks"))
    );
    let all: Vec<_> = t.client.providers(s).try_collect().await.unwrap();
    assert!(all.len() > 3);
    t.in_group("permissions", async |g: ResourceId| {
        let may: Vec<_> = t.client.permissions(&g).try_collect().await.unwrap();
        assert!(may.iter().any(|p| p.actions.iter().flatten().any(|a| a == "*")), "{may:?}");
    })
    .await;
    let known: Vec<Value> = t.client.subscriptions().try_collect().await.unwrap();
    assert!(known.iter().any(|k| k["subscriptionId"] == s));
}

#[tokio::test]
async fn networks() {
    let t = target().await;
    let l = t.location.clone();
    t.in_group("networks", async |g: ResourceId| {
        let nsg = make::<SecurityGroups>(&t, &g, "nsg", json!({"location": l, "tags": {"a": "b"}})).await;
        let rule = |port: &str| json!({"properties": {
            "protocol": "Tcp", "sourcePortRange": "*", "destinationPortRange": port, "sourceAddressPrefix": "*",
            "destinationAddressPrefix": "*", "access": "Allow", "priority": 100, "direction": "Inbound",
        }});
        let allow = make::<SecurityRules>(&t, &nsg, "allow", rule("443")).await;
        update::<SecurityRules>(&t, &allow, rule("6443")).await;
        let route_table = make::<RouteTables>(&t, &g, "rt", json!({"location": l})).await;
        let hop = |to: &str| json!({"properties": {"addressPrefix": to, "nextHopType": "None"}});
        let route = make::<Routes>(&t, &route_table, "r", hop("10.9.0.0/16")).await;
        update::<Routes>(&t, &route, hop("10.8.0.0/16")).await;
        let standard = |m: Value| {
            let mut v = json!({"location": l, "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static"}});
            v["tags"] = m;
            v
        };
        let pip = make::<PublicIpAddresses>(&t, &g, "pip", standard(json!({"x": "1"}))).await;
        update::<PublicIpAddresses>(&t, &pip, standard(json!({"x": "2"}))).await;
        let address = t.client.arm::<PublicIpAddresses>().get(&pip).await.unwrap();
        assert!(address.properties.unwrap().ip_address.is_some());
        let gateway = json!({"location": l, "sku": {"name": "Standard"}, "properties": {"publicIpAddresses": [{"id": pip}]}});
        let nat = make::<NatGateways>(&t, &g, "nat", gateway).await;
        let net = |space: &[&str]| json!({"location": l, "properties": {"addressSpace": {"addressPrefixes": space}}});
        let vnet = make::<VirtualNetworks>(&t, &g, "vnet", net(&["10.0.0.0/16"])).await;
        let subnet_body = json!({"properties": {
            "addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}, "routeTable": {"id": route_table},
            "natGateway": {"id": nat},
        }});
        let subnet = make::<Subnets>(&t, &vnet, "nodes", subnet_body).await;
        update::<VirtualNetworks>(&t, &vnet, net(&["10.0.0.0/16", "10.1.0.0/16"])).await;
        let whole = t.client.arm::<VirtualNetworks>().get(&vnet).await.unwrap();
        assert_eq!(whole.properties.unwrap().subnets.unwrap().len(), 1, "a new version keeps subnets");

        let used = t.client.arm::<SecurityGroups>().delete(&nsg).await.unwrap_err();
        assert_eq!((used.status(), used.code()), (Some(400), Some("InUseNetworkSecurityGroupCannotBeDeleted")));

        let lb_id = t.client.arm::<LoadBalancers>().id(&g, "lb").unwrap();
        let balancer = json!({"location": l, "sku": {"name": "Standard"}, "properties": {
            "frontendIPConfigurations": [{"name": "front", "properties": {"subnet": {"id": subnet}, "privateIPAllocationMethod": "Dynamic"}}],
            "backendAddressPools": [{"name": "pool"}],
            "probes": [{"name": "probe", "properties": {"protocol": "Tcp", "port": 6443, "intervalInSeconds": 5, "numberOfProbes": 2}}],
            "loadBalancingRules": [{"name": "api", "properties": {
                "protocol": "Tcp", "frontendPort": 6443, "backendPort": 6443,
                "frontendIPConfiguration": {"id": format!("{lb_id}/frontendIPConfigurations/front")},
                "backendAddressPool": {"id": format!("{lb_id}/backendAddressPools/pool")},
                "probe": {"id": format!("{lb_id}/probes/probe")},
            }}],
        }});
        let lb = make::<LoadBalancers>(&t, &g, "lb", balancer).await;
        let shown = t.client.arm::<LoadBalancers>().get(&lb).await.unwrap().properties.unwrap();
        let front = shown.frontends.unwrap().remove(0).properties.unwrap();
        assert!(front.private_ip_address.is_some(), "the address of the frontend can be read");
        let nic = json!({"location": l, "properties": {"ipConfigurations": [{"name": "ip", "properties": {
            "subnet": {"id": subnet}, "privateIPAllocationMethod": "Dynamic",
            "loadBalancerBackendAddressPools": [{"id": format!("{lb}/backendAddressPools/pool")}],
        }}]}});
        let nic = make::<NetworkInterfaces>(&t, &g, "nic", nic).await;

        remove::<NetworkInterfaces>(&t, &nic).await;
        remove::<LoadBalancers>(&t, &lb).await;
        remove::<Subnets>(&t, &subnet).await;
        remove::<VirtualNetworks>(&t, &vnet).await;
        remove::<NatGateways>(&t, &nat).await;
        remove::<PublicIpAddresses>(&t, &pip).await;
        remove::<Routes>(&t, &route).await;
        remove::<RouteTables>(&t, &route_table).await;
        remove::<SecurityRules>(&t, &allow).await;
        remove::<SecurityGroups>(&t, &nsg).await;
    })
    .await;
}

#[tokio::test]
async fn public_dns() {
    let t = target().await;
    t.in_group("dns", async |g: ResourceId| {
        let zone_name = format!("{}.test", g.name());
        let zone = make::<DnsZones>(&t, &g, &zone_name, json!({"location": "global"})).await;
        let servers = t.client.arm::<DnsZones>().get(&zone).await.unwrap().properties.unwrap().name_servers;
        assert_eq!(servers.unwrap().len(), 4);
        let a = |ip: &str| json!({"properties": {"TTL": 60, "ARecords": [{"ipv4Address": ip}]}});
        let api = make::<DnsA>(&t, &zone, "api", a("10.0.0.1")).await;
        update::<DnsA>(&t, &api, a("10.0.0.2")).await;
        make::<DnsAaaa>(&t, &zone, "api", json!({"properties": {"TTL": 60, "AAAARecords": [{"ipv6Address": "::1"}]}})).await;
        make::<DnsCname>(&t, &zone, "apps", json!({"properties": {"TTL": 60, "CNAMERecord": {"cname": "x.test"}}})).await;
        make::<DnsTxt>(&t, &zone, "note", json!({"properties": {"TTL": 60, "TXTRecords": [{"value": ["a", "B"]}]}})).await;
        make::<DnsNs>(&t, &zone, "sub", json!({"properties": {"TTL": 60, "NSRecords": [{"nsdname": "ns1.x.test."}]}})).await;
        make::<DnsMx>(&t, &zone, "mail", json!({"properties": {"TTL": 60, "MXRecords": [{"preference": 10, "exchange": "m.x.test"}]}})).await;
        make::<DnsSrv>(&t, &zone, "_s._tcp", json!({"properties": {"TTL": 60, "SRVRecords": [{"priority": 0, "weight": 1, "port": 2, "target": "t.x.test"}]}})).await;
        make::<DnsPtr>(&t, &zone, "ptr", json!({"properties": {"TTL": 60, "PTRRecords": [{"ptrdname": "p.x.test"}]}})).await;
        make::<DnsCaa>(&t, &zone, "caa", json!({"properties": {"TTL": 60, "caaRecords": [{"flags": 0, "tag": "issue", "value": "ca.test"}]}})).await;
        let all: Vec<_> = t.client.record_sets(&zone).try_collect().await.unwrap();
        assert_eq!(all.len(), 11, "nine of ours, NS and SOA");
        remove::<DnsA>(&t, &api).await;
        remove::<DnsZones>(&t, &zone).await;
    })
    .await;
}

#[tokio::test]
async fn private_dns() {
    let t = target().await;
    let l = t.location.clone();
    t.in_group("private", async |g: ResourceId| {
        let zone = make::<PrivateDnsZones>(&t, &g, "hypershift.local", json!({"location": "global"})).await;
        let a = |ip: &str| json!({"properties": {"ttl": 60, "aRecords": [{"ipv4Address": ip}]}});
        let api = make::<PrivateDnsA>(&t, &zone, "api.x", a("10.0.0.1")).await;
        update::<PrivateDnsA>(&t, &api, a("10.0.0.2")).await;
        make::<PrivateDnsCname>(&t, &zone, "apps", json!({"properties": {"ttl": 60, "cnameRecord": {"cname": "x.test"}}})).await;
        make::<PrivateDnsTxt>(&t, &zone, "note", json!({"properties": {"ttl": 60, "txtRecords": [{"value": ["a"]}]}})).await;
        let all: Vec<_> = t.client.private_record_sets(&zone).try_collect().await.unwrap();
        assert_eq!(all.len(), 4, "three of ours and SOA");
        let net = json!({"location": l, "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}});
        let vnet = make::<VirtualNetworks>(&t, &g, "vnet", net).await;
        let body = json!({"location": "global", "properties": {"registrationEnabled": false, "virtualNetwork": {"id": vnet}}});
        let link = make::<PrivateDnsLinks>(&t, &zone, "link", body.clone()).await;
        // A second link of the same network is refused by the operation, not by the call.
        let links = t.client.arm::<PrivateDnsLinks>();
        let other = links.id(&zone, "other").unwrap();
        let again = links.put(&other, &serde_json::from_value(body).unwrap()).await;
        assert_eq!(again.unwrap_err().code(), Some("Conflict"));
        let linked = t.client.arm::<PrivateDnsZones>().delete(&zone).await.unwrap_err();
        assert_eq!((linked.status(), linked.code()), (Some(409), Some("CannotDeleteResource")));
        // Whether the failed one left something behind is the service's affair.
        links.delete(&other).await.unwrap();
        remove::<PrivateDnsLinks>(&t, &link).await;
        remove::<PrivateDnsA>(&t, &api).await;
        remove::<PrivateDnsZones>(&t, &zone).await;
    })
    .await;
}

#[tokio::test]
async fn identities_and_roles() {
    let t = target().await;
    let l = t.location.clone();
    t.in_group("identities", async |g: ResourceId| {
        let identity = make::<UserAssignedIdentities>(&t, &g, "id", json!({"location": l})).await;
        update::<UserAssignedIdentities>(&t, &identity, json!({"location": l, "tags": {"a": "b"}})).await;
        let shown = t.client.arm::<UserAssignedIdentities>().get(&identity).await.unwrap().properties.unwrap();
        let (principal, client) = (shown.principal_id.unwrap(), shown.client_id.unwrap());
        let fic = |subject: &str| json!({"properties": {"issuer": "https://issuer.test/", "subject": subject, "audiences": ["openshift"]}});
        let federated = make::<FederatedCredentials>(&t, &identity, "fic", fic("system:serviceaccount:a:b")).await;
        update::<FederatedCredentials>(&t, &federated, fic("system:serviceaccount:a:c")).await;

        let reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
        let role = format!("{}/providers/Microsoft.Authorization/roleDefinitions/{reader}", t.subscription);
        let name = t.client.timing().random.uuid();
        let assigned = json!({"properties": {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}});
        let assignment = make::<RoleAssignments>(&t, &g, &name, assigned).await;
        let filter = format!("principalId eq '{principal}'");
        let of: Vec<_> = t.client.arm::<RoleAssignments>().list_with(&g, &[("$filter", &filter)]).try_collect().await.unwrap();
        assert_eq!(of.len(), 1);

        let found: Vec<_> = t.client.arm::<RoleDefinitions>().list_with(&t.subscription, &[("$filter", "roleName eq 'Reader'")]).try_collect().await.unwrap();
        assert_eq!(found[0].name.as_deref(), Some(reader));
        let custom_name = t.client.timing().random.uuid();
        let custom = |action: &str| json!({"properties": {
            "roleName": format!("zaffre {custom_name}"), "description": "d", "type": "CustomRole",
            "permissions": [{"actions": [action], "notActions": []}], "assignableScopes": [g.as_str()],
        }});
        let definitions = t.client.arm::<RoleDefinitions>();
        let at = definitions.id(&g, &custom_name).unwrap();
        for action in ["Microsoft.Network/virtualNetworks/read", "Microsoft.Network/*/read"] {
            let made = definitions.put(&at, &serde_json::from_value(custom(action)).unwrap()).await.unwrap();
            assert_eq!(made.properties.unwrap().permissions.unwrap()[0].actions.as_deref(), Some(&[action.to_owned()][..]));
        }
        assert_eq!(definitions.delete(&at).await.unwrap(), Deleted::Done);
        assert_eq!(definitions.delete(&at).await.unwrap(), Deleted::Absent);

        let graph = t.client.graph();
        let sp = graph.service_principal_of(&client).await.unwrap();
        if t.sim.is_some() {
            // In Azure it takes a while to be seen.
            let sp = sp.expect("the identity's service principal");
            assert_eq!((sp.id.as_str(), sp.service_principal_type.as_deref()), (principal.as_str(), Some("ManagedIdentity")));
            assert_eq!(graph.service_principal(&principal).await.unwrap().app_id, client);
            assert_eq!(graph.objects(std::slice::from_ref(&principal)).await.unwrap().len(), 1);
        }
        assert!(graph.service_principal_of("00000000-0000-0000-0000-000000000000").await.unwrap().is_none());

        remove::<RoleAssignments>(&t, &assignment).await;
        remove::<FederatedCredentials>(&t, &federated).await;
        remove::<UserAssignedIdentities>(&t, &identity).await;
    })
    .await;
}
