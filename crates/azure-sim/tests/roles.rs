//! Roles that come with the configuration, and certificates instead of secrets.

use crate::support::{call, lab};
use azure_sim::{HttpsIssuers, Permission, Profile, Role, World};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::sync::Arc;

const ROLES: &str = "/work/shared/specs/azure/roles.json";

/// Every recorded role lets its principal read what it lists, and nothing one step beside it.
#[tokio::test]
async fn recorded_roles_grant_what_they_list() {
    let Ok(text) = std::fs::read_to_string(ROLES) else {
        eprintln!("skipped: no {ROLES}");
        return;
    };
    let table: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let roles: Vec<Role> = table
        .iter()
        .filter_map(|(name, r)| {
            let id = r["id"].as_str()?.to_owned();
            Some(Role { id, name: name.clone(), builtin: true, permissions: vec![Permission::read(r)] })
        })
        .collect();
    assert!(!roles.is_empty());
    let world =
        World::new(7, Profile::Instant, None, &roles, Arc::new(HttpsIssuers::new(&[])), clock::system())
            .unwrap();
    let owner = world.owner_token().await;
    let group = format!("/subscriptions/{}/resourceGroups/g", world.subscription());
    world.arm(&call(
        "PUT",
        &format!("{group}?api-version=2021-04-01"),
        &owner,
        Some(&json!({"location": "westus2"})),
    ));
    let kinds = [
        "virtualNetworks",
        "loadBalancers",
        "networkSecurityGroups",
        "natGateways",
        "routeTables",
        "publicIPAddresses",
    ];
    for role in &roles {
        let (client, object) = world.add_app(&role.name, "secret", Vec::new());
        world.assign(&object, &role.id, &group);
        let token = world.token_for(&client, "secret").await;
        for kind in kinds {
            for (method, verb) in [("GET", "read"), ("PUT", "write"), ("DELETE", "delete")] {
                let action = format!("Microsoft.Network/{kind}/{verb}");
                let listed = role.permissions[0].actions.iter().any(|a| a.eq_ignore_ascii_case(&action));
                let url = format!("{group}/providers/Microsoft.Network/{kind}/x?api-version=2024-03-01");
                let status = world.arm(&call(method, &url, &token, Some(&json!({})))).status;
                assert_eq!(status != 403, listed, "{} {action}: {status}", role.name);
            }
        }
    }
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
