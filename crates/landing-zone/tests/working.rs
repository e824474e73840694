//! The identities that were made really work: a service account's token is exchanged for each, which then may do what
//! its component does, and nothing else.

use crate::issuer::Issuer;
use crate::support::{pod, world_trusting};
use arm::ResourceId;
use azure::{Call, Client};
use http::Method;
use landing_zone::identities::{IDENTITIES, Identities, subject};
use landing_zone::infra::Layout;
use serde_json::{Value, json};

/// One call that each component may make with its roles: method, path, body.
pub type Allowed = (&'static str, Method, String, Option<Value>);

pub fn allowed(at: &Layout, zone: &ResourceId) -> [Allowed; 8] {
    let record = format!("{zone}/A/apps.demo?api-version=2018-05-01");
    let a = json!({"properties": {"TTL": 30, "ARecords": [{"ipv4Address": "1.2.3.4"}]}});
    let get = |key, id: &ResourceId, v: &str| (key, Method::GET, format!("{id}?api-version={v}"), None);
    let network = "2024-05-01";
    [
        get("imageRegistry", &at.private_zone, "2024-06-01"),
        ("ingress", Method::PUT, record, Some(a)),
        get("file", &at.subnet, network),
        get("disk", &at.main, "2021-04-01"),
        get("nodePoolManagement", &at.vnet, network),
        get("cloudProvider", &at.load_balancer, network),
        get("network", &at.vnet, network),
        get("controlPlaneOperator", &at.security_group, network),
    ]
}

pub async fn may(client: &Client, method: Method, path: String, body: Option<Value>) -> u16 {
    let mut call = Call::new(method, path);
    call.body = body;
    match client.send(call).await {
        Ok(answer) => answer.status.as_u16(),
        Err(e) => e.status().unwrap_or_else(|| panic!("{e:?}")),
    }
}

#[tokio::test]
async fn every_identity_works_and_none_does_more() {
    let issuer = Issuer::start().await;
    let w = world_trusting(vec![issuer.ca.clone()]).await;
    let mut iam = w.iam("demo");
    iam.issuer = issuer.url.clone();
    let ids = w.make_iam(&iam).await;
    let infra = w.infra("demo", Identities::Workload(ids.clone()));
    let (_, facts) = w.make_infra(&infra).await;
    let at = infra.layout().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let now = w.sim.world().now().as_second();
    for (key, method, path, body) in allowed(&at, facts.zone.as_ref().unwrap()) {
        let client_id = match key {
            "imageRegistry" => &ids.image_registry.client_id,
            "ingress" => &ids.ingress.client_id,
            "file" => &ids.file.client_id,
            "disk" => &ids.disk.client_id,
            "nodePoolManagement" => &ids.node_pool_management.client_id,
            "cloudProvider" => &ids.cloud_provider.client_id,
            "network" => &ids.network.client_id,
            _ => &ids.control_plane_operator.as_ref().unwrap().client_id,
        };
        let row = IDENTITIES.iter().find(|i| i.key == key).unwrap();
        for (_, namespace, account) in row.accounts {
            let file = dir.path().join(account);
            std::fs::write(&file, issuer.token(&subject(namespace, account), now)).unwrap();
            let client = pod(&w, client_id, &file);
            let status = may(&client, method.clone(), path.clone(), body.clone()).await;
            assert!((200..300).contains(&status), "{key} as {account} got {status} for {method} {path}");
            let group = format!("{}/resourceGroups/more?api-version=2021-04-01", w.subscription);
            let more = may(&client, Method::PUT, group, Some(json!({"location": "westus2"}))).await;
            assert_eq!(more, 403, "{key} may make groups");
        }
        // Somebody else's service account gets nothing.
        let file = dir.path().join("other");
        std::fs::write(&file, issuer.token("system:serviceaccount:default:default", now)).unwrap();
        let refused = pod(&w, client_id, &file).send(Call::get(path.clone())).await.unwrap_err();
        assert!(matches!(refused, azure::Error::Token { .. }), "{refused:?}");
    }
}
