//! Beyond the recordings: updates, children, conditions, lists, and what each wrong request is told.

use crate::support::{Lab, call, code, lab};
use azure_sim::{Profile, Reply};
use serde_json::{Value, json};

const V: &str = "api-version=2024-03-01";

fn status_code(r: &Reply) -> (u16, String) {
    (r.status.as_u16(), code(r))
}

fn network() -> Value {
    json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24"}}]}})
}

fn put(lab: &Lab, path: &str, body: Value) -> Value {
    let r = lab.ask("PUT", &format!("{path}?{V}"), Some(&body));
    assert!(r.status.is_success(), "{path}: {:?}", r.body);
    r.body.unwrap()
}

#[tokio::test]
async fn wrong_bodies_are_told_what_is_wrong() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let at = |kind: &str, name: &str| format!("{g}/providers/{kind}/{name}?{V}");
    let vnet = at("Microsoft.Network/virtualNetworks", "v");
    let cases = [
        (vnet.clone(), json!({"location": "westus2", "properties": []}), "InvalidRequestContent"),
        (vnet.clone(), json!({"location": "westus2", "properties": "x"}), "InvalidRequestContent"),
        (vnet.clone(), json!({"location": 5, "properties": {}}), "InvalidRequestContent"),
        (vnet.clone(), json!({"properties": {}}), "LocationRequired"),
        (vnet.clone(), json!({"location": "westus2", "tags": {"a": 1}}), "InvalidTag"),
        (
            vnet.clone(),
            json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": "10.0.0.0/8"}}}),
            "InvalidRequestFormat",
        ),
        (
            vnet.clone(),
            json!({"location": "westus2", "properties": {"addressSpace": []}}),
            "InvalidRequestFormat",
        ),
        (
            vnet.clone(),
            json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/33"]}}}),
            "InvalidAddressPrefixFormat",
        ),
        (at("Microsoft.Network/virtualNetworks", "-v"), network(), "InvalidResourceName"),
        (at("Microsoft.Network/virtualNetworks", &"v".repeat(65)), network(), "InvalidResourceName"),
        (
            at("Microsoft.Network/networkSecurityGroups", "n"),
            json!({"location": "westus2", "properties": {"securityRules": [{"name": "r", "properties": {"priority": "x"}}]}}),
            "InvalidRequestFormat",
        ),
        (
            at("Microsoft.Network/networkSecurityGroups", "n"),
            json!({"location": "westus2", "properties": {"securityRules": [{"name": "r", "properties": {"priority": 99, "direction": "Inbound", "access": "Allow"}}]}}),
            "SecurityRuleInvalidPriority",
        ),
        (
            at("Microsoft.Network/publicIPPrefixes", "p"),
            json!({"location": "westus2", "properties": {"prefixLength": 5}}),
            "PublicIpPrefixLengthInvalid",
        ),
        (
            at("Microsoft.ManagedIdentity/userAssignedIdentities", "a.b"),
            json!({"location": "westus2"}),
            "BadRequest",
        ),
    ];
    for (url, body, want) in cases {
        let r = lab.ask("PUT", &url, Some(&body));
        assert_eq!(status_code(&r), (400, want.to_owned()), "{url} {body}: {:?}", r.body);
    }
    let mut broken = call("PUT", &vnet, &lab.token, None);
    broken.body = "{\"location\": ".into();
    assert_eq!(code(&lab.world.arm(&broken)), "InvalidRequestContent");
    broken.body = "[]".into();
    assert_eq!(code(&lab.world.arm(&broken)), "InvalidRequestContent");
    for (query, want) in [
        ("", "MissingApiVersionParameter"),
        ("api-version=", "MissingApiVersionParameter"),
        ("api-version=2024-13-01", "InvalidApiVersionParameter"),
        ("api-version=latest", "InvalidApiVersionParameter"),
        ("api-version=2010-01-01", "NoRegisteredProviderFound"),
    ] {
        let r = lab.ask("GET", &format!("{}?{query}", vnet.split('?').next().unwrap()), None);
        assert_eq!(status_code(&r), (400, want.to_owned()), "{query}");
    }
    assert_eq!(lab.ask("GET", &vnet, None).status, 404, "nothing was written");
}

#[tokio::test]
async fn what_is_missing_is_said_by_whom_it_is_missed() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let vnets = format!("{g}/providers/Microsoft.Network/virtualNetworks");
    put(&lab, &format!("{vnets}/v"), network());
    let cases = [
        ("GET", format!("{g}x/providers/Microsoft.Network/virtualNetworks/v"), 404, "ResourceGroupNotFound"),
        ("GET", format!("{vnets}/w"), 404, "ResourceNotFound"),
        ("GET", format!("{vnets}/v/subnets/t"), 404, "NotFound"),
        ("GET", format!("{vnets}/w/subnets/t"), 404, "ResourceNotFound"),
        ("GET", format!("{vnets}/w/subnets"), 404, "ResourceNotFound"),
        ("PUT", format!("{vnets}/w/subnets/t"), 404, "ParentResourceNotFound"),
        ("DELETE", format!("{vnets}/w/subnets/t"), 404, "ResourceNotFound"),
        ("PATCH", format!("{vnets}/w"), 404, "ResourceNotFound"),
        ("DELETE", format!("{vnets}/w"), 204, ""),
        ("DELETE", format!("{vnets}/v/subnets/t"), 204, ""),
        ("HEAD", format!("{vnets}/v"), 204, ""),
        ("HEAD", format!("{vnets}/w"), 404, ""),
        ("POST", format!("{vnets}/v"), 405, "HttpMethodNotSupported"),
    ];
    for (method, path, status, want) in cases {
        let r = lab.ask(method, &format!("{path}?{V}"), Some(&json!({"properties": {}})));
        assert_eq!(status_code(&r), (status, want.to_owned()), "{method} {path}");
    }
}

#[tokio::test]
async fn conditions_and_updates() {
    let lab = lab(Profile::Instant).await;
    let at = format!("{}/providers/Microsoft.Network/virtualNetworks/v", lab.group("g"));
    let with = |method: &str, header: (&str, &str), body: &Value| {
        let mut c = call(method, &format!("{at}?{V}"), &lab.token, Some(body));
        c.headers
            .insert(http::HeaderName::from_bytes(header.0.as_bytes()).unwrap(), header.1.parse().unwrap());
        lab.world.arm(&c)
    };
    assert_eq!(status_code(&with("PUT", ("if-match", "*"), &network())), (412, "PreconditionFailed".into()));
    assert_eq!(with("PUT", ("if-none-match", "*"), &network()).status, 201);
    assert_eq!(with("PUT", ("if-none-match", "*"), &network()).status, 412);
    let get = || lab.ask("GET", &format!("{at}?{V}"), None).body.unwrap();
    let first = get();
    let etag = first["etag"].as_str().unwrap().to_owned();
    // The same again changes nothing but what is always new.
    let again = with("PUT", ("if-match", &etag), &network());
    assert_eq!(again.status, 200);
    let second = get();
    assert_eq!(first["properties"]["resourceGuid"], second["properties"]["resourceGuid"]);
    assert_eq!(first["properties"]["subnets"][0]["id"], second["properties"]["subnets"][0]["id"]);
    assert_eq!(with("DELETE", ("if-match", "W/\"nope\""), &json!({})).status, 412);
    let tagged = lab.ask("PATCH", &format!("{at}?{V}"), Some(&json!({"tags": {"a": "b"}})));
    assert_eq!((tagged.status.as_u16(), &tagged.body.as_ref().unwrap()["tags"]), (200, &json!({"a": "b"})));
    assert_eq!(
        get()["properties"]["subnets"].as_array().unwrap().len(),
        1,
        "a PATCH keeps what it does not mention"
    );
    let elsewhere = json!({"location": "eastus", "properties": network()["properties"]});
    assert_eq!(
        status_code(&lab.ask("PUT", &format!("{at}?{V}"), Some(&elsewhere))),
        (409, "InvalidResourceLocation".into())
    );
}

#[tokio::test]
async fn what_is_used_stays() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let n = |kind: &str, name: &str| format!("{g}/providers/Microsoft.Network/{kind}/{name}");
    let (vnet, nsg, ip, prefix) = (
        n("virtualNetworks", "v"),
        n("networkSecurityGroups", "n"),
        n("publicIPAddresses", "p"),
        n("publicIPPrefixes", "x"),
    );
    let (routes, nat, lb, nic) =
        (n("routeTables", "r"), n("natGateways", "t"), n("loadBalancers", "l"), n("networkInterfaces", "i"));
    put(&lab, &nsg, json!({"location": "westus2"}));
    put(&lab, &routes, json!({"location": "westus2"}));
    put(&lab, &prefix, json!({"location": "westus2", "properties": {"prefixLength": 31}}));
    put(
        &lab,
        &ip,
        json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {"publicIPAllocationMethod": "Static", "publicIPPrefix": {"id": prefix}}}),
    );
    put(&lab, &nat, json!({"location": "westus2", "properties": {"publicIpPrefixes": []}}));
    put(
        &lab,
        &vnet,
        json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}, "routeTable": {"id": routes}, "natGateway": {"id": nat}}}]}}),
    );
    let own = |part: &str| json!({"id": format!("{lb}/{part}")});
    put(
        &lab,
        &lb,
        json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {
            "frontendIPConfigurations": [{"name": "f", "properties": {"publicIPAddress": {"id": ip}}}],
            "backendAddressPools": [{"name": "b"}],
            "probes": [{"name": "p", "properties": {"protocol": "Tcp", "port": 80}}],
            "loadBalancingRules": [{"name": "r", "properties": {"protocol": "Tcp", "frontendPort": 80, "backendPort": 80, "frontendIPConfiguration": own("frontendIPConfigurations/f"), "backendAddressPool": own("backendAddressPools/b"), "probe": own("probes/p")}}],
            "outboundRules": [{"name": "o", "properties": {"protocol": "All", "frontendIPConfigurations": [own("frontendIPConfigurations/f")], "backendAddressPool": own("backendAddressPools/b")}}],
        }}),
    );
    put(
        &lab,
        &nic,
        json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{vnet}/subnets/s")}, "loadBalancerBackendAddressPools": [{"id": format!("{lb}/backendAddressPools/b")}]}}]}}),
    );
    let get = |path: &str| lab.ask("GET", &format!("{path}?{V}"), None).body.unwrap();
    let shown = get(&lb);
    let f = &shown["properties"]["frontendIPConfigurations"][0]["properties"];
    assert_eq!(
        (f["loadBalancingRules"].as_array().unwrap().len(), f["outboundRules"].as_array().unwrap().len()),
        (1, 1)
    );
    let b = &shown["properties"]["backendAddressPools"][0]["properties"];
    assert_eq!(b["backendIPConfigurations"][0]["id"], format!("{nic}/ipConfigurations/c"));
    assert_eq!(get(&ip)["properties"]["ipConfiguration"]["id"], format!("{lb}/frontendIPConfigurations/f"));
    assert_eq!(get(&prefix)["properties"]["publicIPAddresses"][0]["id"], ip.as_str());
    assert_eq!(
        get(&format!("{vnet}/subnets/s"))["properties"]["ipConfigurations"][0]["id"],
        format!("{nic}/ipConfigurations/c")
    );
    assert_eq!(
        get(&format!("{lb}/probes/p"))["properties"]["loadBalancingRules"][0]["id"],
        format!("{lb}/loadBalancingRules/r")
    );
    assert_eq!(
        lab.ask("PUT", &format!("{lb}/probes/q?{V}"), Some(&json!({"properties": {}}))).status,
        405,
        "a probe is written with its balancer"
    );
    for (path, want) in [
        (&nsg, "InUseNetworkSecurityGroupCannotBeDeleted"),
        (&routes, "InUseRouteTableCannotBeDeleted"),
        (&nat, "InUseNatGatewayCannotBeDeleted"),
        (&ip, "PublicIPAddressCannotBeDeleted"),
        (&prefix, "InUsePublicIpPrefixCannotBeDeleted"),
        (&vnet, "InUseSubnetCannotBeDeleted"),
        (&format!("{vnet}/subnets/s"), "InUseSubnetCannotBeDeleted"),
    ] {
        assert_eq!(
            status_code(&lab.ask("DELETE", &format!("{path}?{V}"), None)),
            (400, want.to_owned()),
            "{path}"
        );
    }
    let emptied = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "subnets": []}});
    assert_eq!(code(&lab.ask("PUT", &format!("{vnet}?{V}"), Some(&emptied))), "InUseSubnetCannotBeDeleted");
    // A group's deletion knows what goes with it.
    let gone = lab.ask("DELETE", &format!("{g}?api-version=2021-04-01"), None);
    assert_eq!(gone.status, 202);
    assert_eq!(lab.ask("GET", &format!("{g}?api-version=2021-04-01"), None).status, 404);
    assert_eq!(lab.world.leaks()["value"], json!([]));
}

#[tokio::test]
async fn records_are_checked_by_their_type() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    for (zone, kind, v, case) in
        [("a.test", "dnsZones", "2018-05-01", true), ("b.test", "privateDnsZones", "2020-06-01", false)]
    {
        let zone = format!("{g}/providers/Microsoft.Network/{kind}/{zone}");
        lab.ask("PUT", &format!("{zone}?api-version={v}"), Some(&json!({"location": "global"})));
        let f = |name: &str| {
            if case { name.to_owned() } else { format!("{}{}", name[..1].to_lowercase(), &name[1..]) }
        };
        let set = |kind: &str, name: &str, p: Value| {
            status_code(&lab.ask(
                "PUT",
                &format!("{zone}/{kind}/{name}?api-version={v}"),
                Some(&json!({"properties": p})),
            ))
        };
        let bad = (400, "BadRequest".to_owned());
        assert_eq!(
            set("A", "www", json!({"ttl": 60, f("ARecords"): [{"ipv4Address": "1.2.3.4"}]})).0,
            201,
            "{kind}"
        );
        assert_eq!(set("A", "bad", json!({"ttl": 60, f("ARecords"): [{"ipv4Address": "1.2.3"}]})), bad);
        assert_eq!(set("A", "bad", json!({"ttl": 0, f("ARecords"): []})), bad);
        assert_eq!(set("AAAA", "bad", json!({"ttl": 60, "aaaaRecords": [{"ipv6Address": "1.2.3.4"}]})), bad);
        assert_eq!(set("AAAA", "www", json!({"ttl": 60, "aaaaRecords": [{"ipv6Address": "::1"}]})).0, 201);
        assert_eq!(
            set("CNAME", "www", json!({"ttl": 60, "cnameRecord": {"cname": "x.test"}})),
            bad,
            "beside an A"
        );
        assert_eq!(
            set("CNAME", "@", json!({"ttl": 60, "cnameRecord": {"cname": "x.test"}})),
            bad,
            "at the apex"
        );
        assert_eq!(set("CNAME", "c", json!({"ttl": 60, "cnameRecord": {"cname": "x.test"}})).0, 201);
        assert_eq!(set("A", "c", json!({"ttl": 60, f("ARecords"): []})), bad, "beside a CNAME");
        assert_eq!(set("CNAME", "c", json!({"ttl": 61, "cnameRecord": {"cname": "y.test"}})).0, 200);
        assert_eq!(
            set("CNAME", "d", json!({"ttl": 60, "cnameRecord": [{"cname": "x"}]})).1,
            "InvalidRequestFormat"
        );
        assert_eq!(
            set("MX", "m", json!({"ttl": 60, "mxRecords": [{"preference": 70000, "exchange": "x"}]})),
            bad
        );
        assert_eq!(set("TXT", "t", json!({"ttl": 60, "txtRecords": [{"value": ["v=1", "2"]}]})).0, 201);
        assert_eq!(set("TXT", "t2", json!({"ttl": 60, "txtRecords": [{"value": "v"}]})), bad);
        assert_eq!(
            set(
                "SRV",
                "_s._tcp",
                json!({"ttl": 60, "srvRecords": [{"priority": 1, "weight": 1, "port": 1, "target": "x"}]})
            )
            .0,
            201
        );
        assert_eq!(set("SOA", "x", json!({})), bad);
        let patched = lab.ask(
            "PATCH",
            &format!("{zone}/TXT/t?api-version={v}"),
            Some(&json!({"properties": {"metadata": {"a": "b"}}})),
        );
        let p = patched.body.unwrap()["properties"].clone();
        assert_eq!(p["metadata"]["a"], "b");
        assert_eq!(p[f("TXTRecords").replace("tXT", "txt")][0]["value"], json!(["v=1", "2"]), "{p}");
        let all = lab
            .ask("GET", &format!("{zone}/{}?api-version={v}", if case { "recordsets" } else { "ALL" }), None)
            .body
            .unwrap();
        assert_eq!(all["value"].as_array().unwrap().len(), if case { 7 } else { 6 }, "{kind}");
        let only = lab.ask("GET", &format!("{zone}/A?api-version={v}&$top=1"), None).body.unwrap();
        assert_eq!(only["value"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn assignments_are_listed_by_scope_and_principal() {
    let lab = lab(Profile::Instant).await;
    let (g, h) = (lab.group("g"), lab.group("h"));
    let s = format!("/subscriptions/{}", lab.world.subscription());
    let nsg = format!("{g}/providers/Microsoft.Network/networkSecurityGroups/n");
    put(&lab, &nsg, json!({"location": "westus2"}));
    let (_, a) = lab.world.add_app("a", "secret", Vec::new());
    let (_, b) = lab.world.add_app("b", "secret", Vec::new());
    let reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
    for (who, at) in [(&a, &s), (&a, &g), (&b, &g), (&b, &h), (&a, &nsg)] {
        lab.world.assign(who, reader, at);
    }
    let count = |at: &str, filter: &str| {
        let url =
            format!("{at}/providers/Microsoft.Authorization/roleAssignments?api-version=2022-04-01{filter}");
        lab.ask("GET", &url, None).body.unwrap()["value"].as_array().unwrap().len()
    };
    assert_eq!(count(&s, ""), 6, "with the owner's own");
    assert_eq!(count(&g, ""), 5, "inherited, its own and below");
    assert_eq!(count(&g, "&$filter=atScope()"), 4, "inherited and its own");
    assert_eq!(count(&nsg, "&$filter=atScope()"), 5);
    assert_eq!(count(&s, &format!("&$filter=principalId eq '{b}'")), 2);
    assert_eq!(count(&g, &format!("&$filter=assignedTo('{a}')")), 3);
    assert_eq!(count(&g, &format!("&$filter=atScope() and assignedTo('{a}')")), 2);
    assert_eq!(count(&h, &format!("&$filter=principalId eq '{a}'")), 1);
    let roles = |filter: &str| {
        let url = format!(
            "{s}/providers/Microsoft.Authorization/roleDefinitions?api-version=2022-04-01&$filter={filter}"
        );
        lab.ask("GET", &url, None).body.unwrap()["value"].as_array().unwrap().len()
    };
    assert_eq!(roles("roleName eq 'Reader'"), 1);
    assert_eq!(roles("type eq 'CustomRole'"), 0);
    // Everybody may ask what it may do; at a management group nobody here may do anything.
    let token = lab.world.token_for(&lab.world.add_app("a", "secret", Vec::new()).0, "secret").await;
    let mine = lab.ask_as(
        &token,
        "GET",
        &format!("{g}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"),
        None,
    );
    assert_eq!(mine.body.unwrap()["value"][0]["actions"], json!(["*/read"]));
    let above = "/providers/Microsoft.Management/managementGroups/m/providers/Microsoft.Authorization/roleAssignments?api-version=2022-04-01";
    assert_eq!(lab.ask("GET", above, None).status, 403);
}

#[tokio::test]
async fn federated_credentials_are_limited_and_paged() {
    let lab = lab(Profile::Instant).await;
    let at = format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i", lab.group("g"));
    put(&lab, &at, json!({"location": "westus2"}));
    let fic = |i: usize| json!({"properties": {"issuer": "https://i.test", "subject": format!("s{i}"), "audiences": ["openshift"]}});
    for i in 0..20 {
        put(&lab, &format!("{at}/federatedIdentityCredentials/f{i:02}x"), fic(i));
    }
    let more = lab.ask("PUT", &format!("{at}/federatedIdentityCredentials/more?{V}"), Some(&fic(99)));
    assert_eq!(more.status, 400);
    let mut url = format!("{at}/federatedIdentityCredentials?{V}&$top=8");
    let mut pages = Vec::new();
    loop {
        let page = lab.ask("GET", &url, None).body.unwrap();
        pages.push(page["value"].as_array().unwrap().len());
        match page["nextLink"].as_str() {
            Some(next) => url = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, [8, 8, 4]);
    assert_eq!(
        lab.ask("GET", &format!("{at}/federatedIdentityCredentials?{V}&$skiptoken=junk"), None).status,
        400
    );
}
