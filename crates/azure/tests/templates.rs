//! Deployments, health and disk encryption sets through the client.

use crate::faults::lab;
use crate::server::say;
use crate::support::target;
use arm::ResourceId;
use azure::Error;
use azure::ops::*;
use azure::vault::{KeyKind, NewKey};
use serde_json::{Value, json};

fn template(location: &str, name: &str) -> Value {
    json!({
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0",
        "parameters": {"name": {"type": "string"}},
        "resources": [{
            "type": name, "apiVersion": "2024-05-01", "name": "[parameters('name')]", "location": location,
            "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}},
        }],
        "outputs": {"name": {"type": "string", "value": "[parameters('name')]"}},
    })
}

#[tokio::test]
async fn deployments() {
    let t = target().await;
    t.in_group("deployments", async |g: ResourceId| {
        let arm = t.client.arm::<Deployments>();
        let id = arm.id(&g, "d").unwrap();
        let with = |template: Value| serde_json::from_value(json!({"properties": {"mode": "Incremental", "template": template, "parameters": {"name": {"value": "net"}}}})).unwrap();
        let good = with(template(&t.location, "Microsoft.Network/virtualNetworks"));
        arm.validate(&id, &good).await.unwrap();
        let nets = t.client.arm::<VirtualNetworks>();
        let net = nets.id(&g, "net").unwrap();
        assert!(nets.find(&net).await.unwrap().is_none(), "validation makes nothing");
        let made = arm.put(&id, &good).await.unwrap().properties.unwrap();
        assert_eq!(made.outputs.unwrap()["name"]["value"], "net");
        assert_eq!(made.output_resources.unwrap()[0].id, Some(net.clone()));
        assert!(nets.find(&net).await.unwrap().is_some());
        let bad = with(json!({"resources": [{"type": "x"}]}));
        let refused = arm.validate(&id, &bad).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (Some(400), Some("InvalidTemplate")));
        let failing = with(template("nowhere", "Microsoft.Network/virtualNetworks"));
        let other = arm.id(&g, "fails").unwrap();
        let failed = arm.put(&other, &failing).await.unwrap_err();
        assert!(failed.has_code("DeploymentFailed") || failed.status() == Some(400), "{failed:?}");
        assert!(arm.list_all(&g).await.unwrap().iter().any(|d| d.name.as_deref() == Some("d")));
    })
    .await;
}

#[tokio::test]
async fn what_a_template_would_change() {
    let change = json!({"resourceId": "/x", "changeType": "Create", "after": {"name": "net"}});
    let done = json!({"status": "Succeeded", "properties": {"correlationId": "c", "changes": [change]}});
    let failed = json!({"status": "Failed", "error": {"code": "InvalidTemplate", "message": "no"}});
    let accepted = || {
        say(202, "")
            .with("location", "/subscriptions/s/operationresults/o?api-version=2024-11-01")
            .with("retry-after", "1")
    };
    let lab = lab(vec![accepted(), accepted(), say(200, &done), say(200, &failed)]).await;
    let arm = lab.client.arm::<Deployments>();
    let id = arm.id(&ResourceId::group_scope("s", "g").unwrap(), "d").unwrap();
    let body =
        serde_json::from_value(json!({"properties": {"mode": "Incremental", "template": {}}})).unwrap();
    let said = arm.what_if(&id, &body).await.unwrap();
    assert_eq!((said.changes().len(), said.changes()[0].change_type.as_str()), (1, "Create"));
    let refused = arm.what_if(&id, &body).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Operation { detail, .. } if detail.code == "InvalidTemplate"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn keys_of_disks() {
    let t = target().await;
    t.in_group("sets", async |g: ResourceId| {
        let Some(sim) = t.only_sim("purge protection would keep the vault for a week") else { return };
        let tenant = t.env.get("AZURE_TENANT_ID").unwrap();
        let vaults = t.client.arm::<Vaults>();
        let vault = vaults.id(&g, &t.unique("zaffre")).unwrap();
        let body = json!({"location": t.location, "properties": {"tenantId": tenant, "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true, "enablePurgeProtection": true}});
        vaults.put(&vault, &serde_json::from_value(body).unwrap()).await.unwrap();
        sim.world().assign(sim.world().owner_object(), "00482a5a-887f-4fb3-b363-3b7fe8e74483", vault.as_str());
        let key = t.client.vault(vault.name()).unwrap().keys().create("k", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
        let sets = t.client.arm::<DiskEncryptionSets>();
        let set = sets.id(&g, "set").unwrap();
        let body = json!({"location": t.location, "identity": {"type": "SystemAssigned"}, "properties": {"activeKey": {"sourceVault": {"id": vault.as_str()}, "keyUrl": key.key.kid}}});
        let made = sets.put(&set, &serde_json::from_value(body).unwrap()).await.unwrap();
        assert!(made.identity.unwrap().other["principalId"].is_string());
        let disks = t.client.arm::<Disks>();
        let disk = disks.id(&g, "d").unwrap();
        let body = json!({"location": t.location, "sku": {"name": "Premium_LRS"}, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 8, "encryption": {"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": set.as_str()}}});
        disks.put(&disk, &serde_json::from_value(body).unwrap()).await.unwrap();
        disks.delete(&disk).await.unwrap();
        assert_eq!(sets.list_all(&g).await.unwrap().len(), 1);
        sets.delete(&set).await.unwrap();
    })
    .await;
}
