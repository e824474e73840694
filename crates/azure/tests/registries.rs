//! Registries through the client.

use crate::support::{Target, target};
use arm::ResourceId;
use azure::Deleted;
use azure::ops::*;
use serde_json::json;

async fn registry(t: &Target, g: &ResourceId, sku: &str) -> (ResourceId, String) {
    let name = t.unique("zaffre");
    let arm = t.client.arm::<Registries>();
    let id = arm.id(g, &name).unwrap();
    let body =
        json!({"location": t.location, "sku": {"name": sku}, "properties": {"adminUserEnabled": false}});
    let made = arm.put(&id, &serde_json::from_value(body).unwrap()).await.unwrap();
    let host = made.properties.unwrap().login_server.unwrap();
    assert!(host.starts_with(&name), "{host}");
    (id, host)
}

#[tokio::test]
async fn registries_and_replications() {
    let t = target().await;
    t.in_group("registries", async |g: ResourceId| {
        let arm = t.client.arm::<Registries>();
        let (basic, _) = registry(&t, &g, "Basic").await;
        let refused = arm.login(&basic).await.unwrap_err();
        assert_eq!(refused.status(), Some(400), "{refused}");
        arm.patch(&basic, &json!({"properties": {"adminUserEnabled": true}})).await.unwrap();
        let login = arm.login(&basic).await.unwrap();
        assert_eq!((login.username.as_str(), login.passwords.len()), (basic.name(), 2));
        let replications = t.client.arm::<RegistryReplications>();
        let body = json!({"location": "eastus", "properties": {}});
        let body = || serde_json::from_value(body.clone()).unwrap();
        let at = replications.id(&basic, "eastus").unwrap();
        assert_eq!(replications.put(&at, &body()).await.unwrap_err().status(), Some(400));
        let (premium, _) = registry(&t, &g, "Premium").await;
        let at = replications.id(&premium, "eastus").unwrap();
        replications.put(&at, &body()).await.unwrap();
        assert!(!replications.list_all(&premium).await.unwrap().is_empty());
        assert_eq!(replications.delete(&at).await.unwrap(), Deleted::Done);
        let missing = ImageImport {
            from: ImportFrom::Registry(basic.clone()),
            image: "none:1".to_owned(),
            tags: vec!["none:1".to_owned()],
            force: false,
        };
        let refused = arm.import_image(&premium, &missing).await.unwrap_err();
        assert!(matches!(refused.status(), Some(400 | 404)), "{refused}");
        assert_eq!(arm.list_all(&g).await.unwrap().len(), 2);
        assert_eq!(arm.delete(&basic).await.unwrap(), Deleted::Done);
        assert_eq!(arm.delete(&basic).await.unwrap(), Deleted::Absent);
    })
    .await;
}
