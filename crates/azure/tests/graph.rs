//! Graph: what is written is read later, and the client waits for it.

use crate::faults::lab;
use crate::server::say;
use crate::support::target;
use azure::graph::Application;
use serde_json::json;
use std::time::Duration;

fn refused(status: u16, code: &str) -> crate::server::Reply {
    say(status, json!({"error": {"code": code, "message": "m"}}))
}

#[tokio::test]
async fn replicas_that_lag_are_waited_for() {
    let lab = lab(vec![
        refused(404, "Request_ResourceNotFound"),
        refused(400, "NoBackingApplicationObject"),
        refused(403, "Authorization_RequestDenied"),
        say(201, json!({"id": "o", "appId": "a", "novel": 1})),
        refused(404, "Request_ResourceNotFound"),
        say(200, json!({"keyId": "k", "secretText": "s3cret", "endDateTime": "2030-01-01T00:00:00Z"})),
    ])
    .await;
    let graph = lab.client.graph();
    let sp = graph.create_service_principal("a").await.unwrap();
    assert_eq!((sp.id.as_str(), &sp.other["novel"]), ("o", &json!(1)));
    assert_eq!(lab.waits(), [1, 2, 4].map(Duration::from_secs));
    let password = graph.add_password("o", "zaffre", None).await.unwrap();
    assert_eq!(password.secret_text.expose(), "s3cret");
    assert!(!format!("{password:?}").contains("s3cret"));
    let last = lab.calls().pop().unwrap();
    assert_eq!(last.path, "/v1.0/applications/o/addPassword");
    assert!(last.body.contains("zaffre"));

    let real = self::lab(vec![refused(400, "Request_BadRequest")]).await;
    assert_eq!(real.client.graph().create_service_principal("a").await.unwrap_err().status(), Some(400));
    assert_eq!(real.calls().len(), 1, "a refusal that means it is not repeated");
    let never = self::lab((0..20).map(|_| refused(404, "Request_ResourceNotFound")).collect()).await;
    assert_eq!(never.client.graph().create_service_principal("a").await.unwrap_err().status(), Some(404));
    assert_eq!(never.calls().len(), 10, "and not for ever");
}

#[tokio::test]
async fn pages_and_filters() {
    let lab = lab(vec![
        say(200, json!({"value": [{"id": "1", "appId": "a", "displayName": "x"}], "@odata.nextLink": "/v1.0/applications?$skiptoken=2"})),
        say(200, json!({"value": [{"id": "2", "appId": "b", "displayName": "y"}]})),
        say(204, ""),
        refused(404, "Request_ResourceNotFound"),
    ])
    .await;
    let graph = lab.client.graph();
    let filter = "displayName eq 'it''s'";
    let all: Vec<Application> =
        futures::TryStreamExt::try_collect(graph.applications(Some(filter))).await.unwrap();
    assert_eq!(all.len(), 2);
    let asked = url::form_urlencoded::parse(lab.calls()[0].path.split_once('?').unwrap().1.as_bytes())
        .into_owned()
        .next();
    assert_eq!(asked, Some(("$filter".to_owned(), filter.to_owned())));
    graph.delete_application("1").await.unwrap();
    graph.delete_service_principal("../x").await.unwrap();
    assert_eq!(lab.calls()[3].path, "/v1.0/servicePrincipals/%2E%2E%2Fx", "ids cannot leave their place");
}

#[tokio::test]
async fn applications_live_and_die() {
    let t = target().await;
    let graph = t.client.graph();
    let name = format!("zaffre-contract-{}", t.client.timing().random.uuid());
    let wanted = Application { display_name: name.clone(), ..Application::default() };
    let made = graph.create_application(&wanted).await.unwrap();
    let sp = graph.create_service_principal(&made.app_id).await.unwrap();
    assert_eq!(sp.app_id, made.app_id);
    assert!(!graph.add_password(&made.id, "test", None).await.unwrap().secret_text.is_empty());
    graph.patch_application(&made.id, json!({"displayName": format!("{name}-2")})).await.unwrap();
    assert_eq!(graph.application(&made.id).await.unwrap().display_name, format!("{name}-2"));
    graph.delete_service_principal(&sp.id).await.unwrap();
    graph.delete_application(&made.id).await.unwrap();
    graph.delete_application(&made.id).await.unwrap();
}
