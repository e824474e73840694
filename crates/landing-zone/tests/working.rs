//! The identities that were made really work: a service account's token is exchanged for each, which then may do what
//! its component does, and nothing else.

use crate::issuer::Issuer;
use crate::support::{World, world_trusting};
use arm::ResourceId;
use azure::credential::{Confidential, Entra, Proof};
use azure::{Call, Client, Credential};
use http::Method;
use landing_zone::identities::{IDENTITIES, Identities, subject};
use serde_json::{Value, json};
use std::path::Path;

/// A client as a pod has it: client id, tenant, token file.
fn pod(w: &World, client_id: &str, file: &Path) -> Client {
    let (http, cloud, timing) = w.parts();
    let entra = Entra { http, login: cloud.login, timing: timing.clone() };
    let proof = Proof::FederatedFile(file.to_owned());
    let tenant = w.sim.creds().tenant_id;
    w.client_of(Credential::new(Confidential::new(entra, &tenant, client_id, proof), timing))
}

async fn may(client: &Client, method: Method, path: String, body: Option<Value>) -> u16 {
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
    let record = format!("{}/A/apps.demo?api-version=2018-05-01", facts.zone.unwrap());
    let a = json!({"properties": {"TTL": 30, "ARecords": [{"ipv4Address": "1.2.3.4"}]}});
    let get = |id: &ResourceId, v: &str| (Method::GET, format!("{id}?api-version={v}"), None);
    let network = "2024-05-01";
    let dir = tempfile::tempdir().unwrap();
    let now = w.sim.world().now().as_second();
    for (key, client_id, (method, path, body)) in [
        ("imageRegistry", &ids.image_registry.client_id, get(&at.private_zone, "2024-06-01")),
        ("ingress", &ids.ingress.client_id, (Method::PUT, record, Some(a))),
        ("file", &ids.file.client_id, get(&at.subnet, network)),
        ("disk", &ids.disk.client_id, get(&at.main, "2021-04-01")),
        ("nodePoolManagement", &ids.node_pool_management.client_id, get(&at.vnet, network)),
        ("cloudProvider", &ids.cloud_provider.client_id, get(&at.load_balancer, network)),
        ("network", &ids.network.client_id, get(&at.vnet, network)),
        (
            "controlPlaneOperator",
            &ids.control_plane_operator.as_ref().unwrap().client_id,
            get(&at.security_group, network),
        ),
    ] {
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
