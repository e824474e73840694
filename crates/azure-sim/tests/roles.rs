//! What roles allow, CheckAccess, and certificates instead of secrets.

use crate::support::{call, lab};
use azure_sim::Profile;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names of the recorded development twins, and of the built-in roles they stand for.
const TWINS: [(&str, &str); 3] = [
    ("Azure Red Hat OpenShift Cluster API Role", "88366f10-ed47-4cc0-9fab-c8a06148393e"),
    ("Azure Red Hat OpenShift Control Plane Operator Role", "fc0c873f-45e9-4d0d-a7d1-585aab30c6ed"),
    // Key Vault Crypto User.
    ("Azure Red Hat OpenShift KMS Plugin", "12338af0-0e69-4776-bea7-57ae8d297424"),
];

fn lists(v: &Value) -> [BTreeSet<String>; 4] {
    ["actions", "notActions", "dataActions", "notDataActions"].map(|f| {
        v[f].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_lowercase).collect()
    })
}

#[tokio::test]
async fn our_roles_are_the_recorded_ones() {
    let Some(file) = testkit::specs("azure/roles.json") else { return };
    let text = std::fs::read_to_string(file).unwrap();
    let lab = lab(Profile::Instant).await;
    let table: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    assert!(!table.is_empty());
    for (name, recorded) in &table {
        let twin = TWINS.iter().find(|(n, _)| n == name).map(|(_, id)| *id);
        let id = recorded["id"].as_str().or(twin).unwrap();
        let url = format!("/providers/Microsoft.Authorization/roleDefinitions/{id}?api-version=2022-04-01");
        let ours = lab.ask("GET", &url, None);
        assert_eq!(ours.status, 200, "{name}");
        assert_eq!(lists(&ours.body.unwrap()["properties"]["permissions"][0]), lists(recorded), "{name}");
    }
}

/// The roles of Azure Red Hat OpenShift, as the simulator itself lists them.
fn openshift_roles(lab: &crate::support::Lab) -> Vec<Value> {
    let url = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions?api-version=2022-04-01",
        lab.world.subscription()
    );
    let all = lab.ask("GET", &url, None).body.unwrap();
    let of =
        |r: &&Value| r["properties"]["roleName"].as_str().unwrap().starts_with("Azure Red Hat OpenShift");
    let roles: Vec<Value> = all["value"].as_array().unwrap().iter().filter(of).cloned().collect();
    assert_eq!(roles.len(), 12);
    roles
}

/// For every role: each of its actions is allowed where it was given and not beside; a step away from it is not.
#[tokio::test]
async fn openshift_roles_allow_their_operations_and_no_step_beside() {
    let lab = lab(Profile::Instant).await;
    let (g, h) = (lab.group("g"), lab.group("h"));
    let live = [
        "virtualNetworks",
        "loadBalancers",
        "networkSecurityGroups",
        "natGateways",
        "routeTables",
        "publicIPAddresses",
        "networkInterfaces",
        "dnsZones",
        "privateDnsZones",
    ];
    for role in openshift_roles(&lab) {
        let (name, id) = (role["properties"]["roleName"].as_str().unwrap(), role["name"].as_str().unwrap());
        let (client, object) = lab.world.add_app(name, "secret", Vec::new());
        lab.world.assign(&object, id, &g);
        let token = lab.world.token_for(&client, "secret").await;
        let permission = &role["properties"]["permissions"][0];
        let decide = |actions: &[String], data: bool, at: &str| -> Vec<bool> {
            let actions: Vec<Value> =
                actions.iter().map(|a| json!({"Id": a, "IsDataAction": data})).collect();
            let body = json!({"Subject": {"Attributes": {"ObjectId": object}}, "Actions": actions, "Resource": {"Id": at}});
            let url = "/providers/Microsoft.Authorization/checkAccess?api-version=2021-06-01-preview";
            let reply = lab.world.check_access(&call("POST", url, &lab.token, Some(&body)));
            let body = reply.body.unwrap();
            body["value"].as_array().unwrap().iter().map(|d| d["accessDecision"] == "Allowed").collect()
        };
        let mut checked = 0;
        for (field, data) in [("actions", false), ("dataActions", true)] {
            let own: Vec<String> = permission[field]
                .as_array()
                .unwrap()
                .iter()
                .map(|a| a.as_str().unwrap().replace('*', "x"))
                .collect();
            if own.is_empty() {
                continue;
            }
            checked += own.len();
            let under = format!("{g}/providers/Microsoft.Network/virtualNetworks/v");
            assert!(decide(&own, data, &under).iter().all(|d| *d), "{name}");
            assert!(decide(&own, data, &h).iter().all(|d| !*d), "{name} elsewhere");
            assert!(decide(&own, !data, &under).iter().all(|d| !*d), "{name} on the other plane");
            // One step beside: the same type with another verb, unless that is listed too.
            let listed = |a: &str| own.iter().any(|o| o.eq_ignore_ascii_case(a));
            let beside: Vec<String> = own
                .iter()
                .flat_map(|a| {
                    let kind = a.trim_end_matches("/action").rsplit_once('/').unwrap().0;
                    ["read", "write", "delete", "unheardOf/action"].map(|v| format!("{kind}/{v}"))
                })
                .filter(|a| !listed(a))
                .collect();
            let patterns =
                permission[field].as_array().unwrap().iter().any(|a| a.as_str().unwrap().contains('*'));
            assert!(patterns || decide(&beside, data, &under).iter().all(|d| !*d), "{name}");
        }
        assert!(checked > 0, "{name}");
        // And the gateway itself agrees.
        for kind in live {
            for (method, verb) in [("GET", "read"), ("PUT", "write"), ("DELETE", "delete")] {
                let action = format!("Microsoft.Network/{kind}/{verb}");
                let url = format!("{g}/providers/Microsoft.Network/{kind}/x.test?api-version=2024-03-01");
                let status = lab.ask_as(&token, method, &url, Some(&json!({}))).status;
                assert_eq!(
                    status != 403,
                    decide(std::slice::from_ref(&action), false, &g)[0],
                    "{name} {action}: {status}"
                );
            }
        }
    }
}

#[tokio::test]
async fn check_access_refuses_nonsense() {
    let lab = lab(Profile::Instant).await;
    let url = "/providers/Microsoft.Authorization/checkAccess?api-version=2021-06-01-preview";
    let ask = |token: &str, url: &str, body: &Value| {
        lab.world.check_access(&call("POST", url, token, Some(body))).status.as_u16()
    };
    let subject = json!({"Attributes": {"ObjectId": "x"}});
    let good =
        json!({"Subject": subject, "Actions": [{"Id": "a/read"}], "Resource": {"Id": "/subscriptions/s"}});
    assert_eq!(ask(&lab.token, url, &good), 200);
    assert_eq!(ask("junk", url, &good), 401);
    assert_eq!(ask(&lab.token, "/providers/Microsoft.Authorization/checkAccess", &good), 400);
    for bad in [
        json!([]),
        json!({"Actions": [{"Id": "a"}], "Resource": {"Id": "/"}}),
        json!({"Subject": subject, "Resource": {"Id": "/"}}),
        json!({"Subject": subject, "Actions": [{}], "Resource": {"Id": "/"}}),
        json!({"Subject": subject, "Actions": [{"Id": "a"}], "Resource": {"Id": "nowhere"}}),
    ] {
        assert_eq!(ask(&lab.token, url, &bad), 400, "{bad}");
    }
    // Groups count.
    let (_, object) = lab.world.add_app("g", "secret", Vec::new());
    lab.world.assign(
        &object,
        "acdd72a7-3385-48ef-bd42-f606fba81ae7",
        &format!("/subscriptions/{}", lab.world.subscription()),
    );
    let body = json!({"Subject": {"Attributes": {"ObjectId": "x", "Groups": [object]}}, "Actions": [{"Id": "A/b/read"}], "Resource": {"Id": format!("/subscriptions/{}", lab.world.subscription())}});
    let reply = lab.world.check_access(&call("POST", url, &lab.token, Some(&body))).body.unwrap();
    assert_eq!(reply["value"][0]["accessDecision"], "Allowed");
    assert_eq!(reply["value"][0]["roleAssignment"]["principalId"], object.replace('-', ""));
}

#[tokio::test]
async fn certificates_sign_assertions() {
    let lab = lab(Profile::Instant).await;
    let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let cert =
        rcgen::CertificateParams::new(vec!["app.test".to_owned()]).unwrap().self_signed(&pair).unwrap();
    let (client, _) = lab.world.add_app("app", "secret", vec![cert.der().to_vec()]);
    let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let now = 1_700_000_000_f64;
    let ask = async |alg: Algorithm, claims: Value| {
        let token = jsonwebtoken::encode(&Header::new(alg), &claims, &key).unwrap();
        let form = format!(
            "grant_type=client_credentials&client_id={client}&scope=https%3A%2F%2Fmanagement.azure.com%2F.default&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion={token}"
        );
        let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
        c.body = form.into();
        let body = lab.world.login(&c).await.body.unwrap();
        body["error_codes"][0].as_u64().unwrap_or(0)
    };
    // Some clients write dates with fractions.
    let good = json!({"iss": client, "sub": client, "exp": now + 600.5, "iat": now + 0.25, "jti": "x"});
    assert_eq!(ask(Algorithm::RS256, good.clone()).await, 0);
    assert_eq!(ask(Algorithm::PS256, good.clone()).await, 0);
    assert_eq!(ask(Algorithm::RS512, good.clone()).await, 700_027);
    let mut late = good;
    late["exp"] = json!(now - 1000.0);
    assert_eq!(ask(Algorithm::RS256, late).await, 700_024);
}

/// A right that is taken away is enforced for a while, as one that is given is not yet; the list knows at once.
#[tokio::test]
async fn rights_are_taken_away_as_slowly_as_given() {
    const READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
    let dir = tempfile::tempdir().unwrap();
    let clock = clock::ManualClock::new(jiff::Timestamp::from_second(1_700_000_000).unwrap());
    let open = || {
        let setup = azure_sim::Setup {
            seed: 7,
            profile: Profile::Real,
            limits: None,
            roles: Vec::new(),
            issuers: std::sync::Arc::new(azure_sim::HttpsIssuers::new(&[])),
            clock: clock.clone(),
            proxied: Vec::new(),
            trust: Vec::new(),
        };
        azure_sim::World::open(setup, dir.path()).unwrap()
    };
    let world = open();
    let owner = world.owner_token().await;
    let group = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
    let at = format!("{group}?api-version=2021-04-01");
    world.arm(&call("PUT", &at, &owner, Some(&json!({"location": "westus2"}))));
    let (client, object) = world.add_app("reader", "s3cret", Vec::new());
    let token = world.token_for(&client, "s3cret").await;
    let id = format!(
        "{group}/providers/Microsoft.Authorization/roleAssignments/1f0e2d3c-4b5a-4697-8877-665544332203?api-version=2022-04-01"
    );
    let role = format!(
        "/subscriptions/{}/providers/Microsoft.Authorization/roleDefinitions/{READER}",
        world.subscription()
    );
    let body = json!({"properties": {"principalId": object, "principalType": "ServicePrincipal", "roleDefinitionId": role}});
    assert_eq!(world.arm(&call("PUT", &id, &owner, Some(&body))).status, 201);
    let read = |world: &azure_sim::World| world.arm(&call("GET", &at, &token, None)).status.as_u16();
    assert_eq!(read(&world), 403, "given, and not there yet");
    let later = jiff::SignedDuration::from_secs(301);
    world.advance(later);
    assert_eq!(read(&world), 200);
    assert_eq!(world.arm(&call("DELETE", &id, &owner, None)).status, 200);
    assert_eq!(world.arm(&call("GET", &id, &owner, None)).status, 404, "the list knows");
    assert_eq!(read(&world), 200, "taken, and still there");
    // Also after a restart.
    world.close();
    drop(world);
    let world = open();
    assert_eq!(read(&world), 200);
    world.advance(later);
    assert_eq!(read(&world), 403);
}

/// Which sizes there are is shown to whoever has any role in the subscription, as the machine provider of hosted control
/// planes does on a network; to nobody else, and nothing more.
#[tokio::test]
async fn sizes_are_shown_to_everybody_inside() {
    let lab = lab(Profile::Instant).await;
    let g = lab.group("g");
    let (client, object) = lab.world.add_app("capz", "secret", Vec::new());
    let token = lab.world.token_for(&client, "secret").await;
    let subscription = format!("/subscriptions/{}", lab.world.subscription());
    let status = |what: &str| {
        let url = format!("{subscription}/providers/Microsoft.Compute/{what}?api-version=2021-07-01");
        lab.ask_as(&token, "GET", &url, None).status
    };
    assert_eq!(status("skus"), 403);
    lab.world.assign(&object, "88366f10-ed47-4cc0-9fab-c8a06148393e", &g);
    assert_eq!(status("skus"), 200);
    for other in ["virtualMachines", "disks", "locations/westus2/usages"] {
        assert_eq!(status(other), 403, "{other}");
    }
}
