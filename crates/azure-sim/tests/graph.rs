//! Graph as the command line uses it: an application, its principal, its secret, a role, a login.

use crate::support::{Lab, call, lab};
use azure_sim::{Profile, Reply};
use serde_json::{Value, json};

struct Graph {
    lab: Lab,
    token: String,
}

const BASE: &str = "https://graph.microsoft.com/v1.0";

async fn token_for(lab: &Lab, client: &str, secret: &str, scope: &str) -> String {
    let form: String = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("client_secret", secret)
        .append_pair("scope", scope)
        .finish();
    let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
    c.body = form.into();
    lab.world.login(&c).await.body.unwrap()["access_token"].as_str().unwrap_or_default().to_owned()
}

impl Graph {
    async fn new() -> Graph {
        let lab = lab(Profile::Instant).await;
        let (client, secret) = lab.world.owner_login();
        let token = token_for(&lab, &client, &secret, "https://graph.microsoft.com//.default").await;
        Graph { lab, token }
    }

    fn ask_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let url = if path.starts_with("https:") { path.to_owned() } else { format!("{BASE}{path}") };
        let mut c = call(method, &url, token, body);
        c.base = "https://graph.microsoft.com".into();
        self.lab.world.graph(&c)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.ask_as(&self.token, method, path, body)
    }
}

#[tokio::test]
async fn create_for_rbac() {
    let g = Graph::new().await;
    assert_eq!(
        g.ask("GET", "/applications?$filter=displayName eq 'tool'", None).body.unwrap()["value"],
        json!([])
    );
    let app = g.ask("POST", "/applications", Some(&json!({"displayName": "tool"})));
    assert_eq!(app.status, 201);
    let app = app.body.unwrap();
    let (client, id) = (app["appId"].as_str().unwrap(), app["id"].as_str().unwrap());
    assert_ne!(client, id);
    let principal = g.ask("POST", "/servicePrincipals", Some(&json!({"appId": client})));
    assert_eq!(principal.status, 201);
    let object = principal.body.unwrap()["id"].as_str().unwrap().to_owned();
    let twice = g.ask("POST", "/servicePrincipals", Some(&json!({"appId": client})));
    assert_eq!(twice.status, 409);
    let none =
        g.ask("POST", "/servicePrincipals", Some(&json!({"appId": "9f0c0b8e-0000-4000-8000-000000000000"})));
    assert_eq!(none.body.unwrap()["error"]["code"], "NoBackingApplicationObject");
    let added = g.ask(
        "POST",
        &format!("/applications/{id}/addPassword"),
        Some(&json!({"passwordCredential": {"displayName": "rbac", "endDateTime": "2030-01-01T00:00:00Z"}})),
    );
    assert_eq!(added.status, 200);
    let added = added.body.unwrap();
    let secret = added["secretText"].as_str().unwrap().to_owned();
    // The secret was shown once.
    let shown = g.ask("GET", &format!("/applications/{id}"), None).body.unwrap();
    assert_eq!(shown["passwordCredentials"][0]["displayName"], "rbac");
    assert!(!shown.to_string().contains(&secret));

    // `role assignment create --assignee` finds the principal by any of its names.
    for filter in [
        format!("servicePrincipalNames/any(c:c eq '{client}')"),
        format!("appId eq '{client}'"),
        "displayName eq 'tool'".to_owned(),
        "startswith(displayName,'to')".to_owned(),
    ] {
        let found = g.ask("GET", &format!("/servicePrincipals?$filter={filter}"), None).body.unwrap();
        assert_eq!(found["value"].as_array().unwrap().len(), 1, "{filter}");
        assert_eq!(found["value"][0]["id"], object.as_str());
    }
    let by_id = g
        .ask(
            "POST",
            "/directoryObjects/getByIds",
            Some(&json!({"ids": [object, id], "types": ["servicePrincipal"]})),
        )
        .body
        .unwrap();
    assert_eq!(by_id["value"].as_array().unwrap().len(), 1);
    assert_eq!(by_id["value"][0]["@odata.type"], "#microsoft.graph.servicePrincipal");
    assert_eq!(
        g.ask("GET", &format!("/servicePrincipals(appId='{client}')"), None).body.unwrap()["id"],
        object.as_str()
    );
    assert_eq!(g.ask("GET", &format!("/applications(appId='{client}')"), None).body.unwrap()["id"], id);
    let group = g.lab.group("g");
    let assignment = json!({"properties": {"principalId": object, "principalType": "ServicePrincipal", "roleDefinitionId": "/providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7"}});
    let url = format!(
        "{group}/providers/Microsoft.Authorization/roleAssignments/bbbbbbbb-0000-4000-8000-000000000001?api-version=2022-04-01"
    );
    assert_eq!(g.lab.ask("PUT", &url, Some(&assignment)).status, 201);
    let token = token_for(&g.lab, client, &secret, "https://management.azure.com/.default").await;
    assert_eq!(g.lab.ask_as(&token, "GET", &format!("{group}?api-version=2021-04-01"), None).status, 200);

    // A secret that is removed is no longer one; a disabled principal gets no token.
    let key = json!({"keyId": added["keyId"]});
    assert_eq!(g.ask("POST", &format!("/applications/{id}/removePassword"), Some(&key)).status, 204);
    assert_eq!(token_for(&g.lab, client, &secret, "https://management.azure.com/.default").await, "");
    assert_eq!(
        g.ask(
            "PATCH",
            &format!("/applications/{id}"),
            Some(&json!({"displayName": "other", "identifierUris": ["api://x"]}))
        )
        .status,
        204
    );
    let renamed =
        g.ask("GET", &format!("/applications/{id}?$select=displayName,identifierUris"), None).body.unwrap();
    assert_eq!(renamed, json!({"id": id, "displayName": "other", "identifierUris": ["api://x"]}));
    let owned = g.ask("GET", "/me/ownedObjects/microsoft.graph.application", None).body.unwrap();
    assert_eq!(owned["value"][0]["appId"], client);
    let me = g.lab.world.owner_object().to_owned();
    let owned = g.ask("GET", &format!("/servicePrincipals/{me}/ownedObjects"), None).body.unwrap();
    assert_eq!(owned["value"].as_array().unwrap().len(), 2);
    assert_eq!(g.ask("DELETE", &format!("/applications/{id}"), None).status, 204);
    assert_eq!(g.ask("GET", &format!("/servicePrincipals/{object}"), None).status, 404);
}

#[tokio::test]
async fn lists_are_paged_and_counted_and_only_owners_write() {
    let g = Graph::new().await;
    for i in 0..7 {
        g.ask("POST", "/applications", Some(&json!({"displayName": format!("app{i}")})));
    }
    let mut names = Vec::new();
    let mut url = format!("{BASE}/applications?$top=3&$count=true&$filter=startswith(displayName,'app')");
    loop {
        let page = g.ask("GET", &url, None).body.unwrap();
        assert_eq!(page["@odata.count"], 7);
        names.extend(page["value"].as_array().unwrap().iter().map(|a| a["displayName"].clone()));
        match page["@odata.nextLink"].as_str() {
            Some(next) => url = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names.len(), 7);
    let count = g.ask("GET", "/applications/$count?$filter=startswith(displayName,'app')", None);
    assert_eq!(count.raw.as_deref(), Some(&b"7"[..]));
    assert_eq!(
        g.ask("GET", "/applications?$filter=displayName ne 'x'", None).body.unwrap()["error"]["code"],
        "Request_UnsupportedQuery"
    );
    let (client, _) = g.lab.world.add_app("poor", "secret", Vec::new());
    let poor = token_for(&g.lab, &client, "secret", "https://graph.microsoft.com/.default").await;
    assert_eq!(g.ask_as(&poor, "GET", "/applications", None).status, 200);
    let denied = g.ask_as(&poor, "POST", "/applications", Some(&json!({"displayName": "x"})));
    assert_eq!(denied.body.unwrap()["error"]["code"], "Authorization_RequestDenied");
    assert_eq!(g.ask_as(&g.lab.token, "GET", "/applications", None).status, 401, "another audience");
    assert_eq!(
        g.ask("GET", "/users?$filter=userPrincipalName eq 'x'", None).body.unwrap()["value"],
        json!([])
    );
    // An identity is a principal, but no application.
    let group = g.lab.group("g");
    let url = format!(
        "{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i?api-version=2024-11-30"
    );
    let made = g.lab.ask("PUT", &url, Some(&json!({"location": "westus2"}))).body.unwrap();
    let client = made["properties"]["clientId"].as_str().unwrap();
    let found = g.ask("GET", &format!("/servicePrincipals?$filter=appId eq '{client}'"), None).body.unwrap();
    assert_eq!(found["value"][0]["servicePrincipalType"], "ManagedIdentity");
    assert_eq!(
        g.ask("GET", &format!("/applications?$filter=appId eq '{client}'"), None).body.unwrap()["value"],
        json!([])
    );
}

/// An administrator's consent: it is in tokens for Graph and in no other, and it is enough for what one makes oneself.
#[tokio::test]
async fn permissions_of_graph_are_granted() {
    const OWNED: &str = "Application.ReadWrite.OwnedBy";
    let g = Graph::new().await;
    let world = &g.lab.world;
    let (client, object) = world.add_app("maker", "secret", Vec::new());
    let claims = |token: &str| {
        let part = token.split('.').nth(1).unwrap().to_owned();
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, part).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    assert_eq!(claims(&g.token)["roles"], json!(["Application.ReadWrite.All"]));
    let scope = "https://graph.microsoft.com/.default";
    assert_eq!(claims(&token_for(&g.lab, &client, "secret", scope).await)["roles"], Value::Null);
    assert!(!world.grant(&object, "Everything.ReadWrite.All"), "there is no such permission");
    assert!(!world.grant("nobody", OWNED));
    assert!(world.grant(&object, OWNED) && world.grant(&object, OWNED), "twice is once");
    let token = token_for(&g.lab, &client, "secret", scope).await;
    assert_eq!(claims(&token)["roles"], json!([OWNED]));
    let other = token_for(&g.lab, &client, "secret", "https://management.azure.com/.default").await;
    assert_eq!(claims(&other)["roles"], Value::Null);
    let granted =
        g.ask("GET", &format!("/servicePrincipals/{object}/appRoleAssignments"), None).body.unwrap();
    assert_eq!(granted["value"][0]["appRoleId"], "18a4783c-866b-4cc7-a460-3d5e5662c884");
    assert_eq!(granted["value"].as_array().unwrap().len(), 1);

    let theirs = g.ask("POST", "/applications", Some(&json!({"displayName": "theirs"}))).body.unwrap();
    let own = g.ask_as(&token, "POST", "/applications", Some(&json!({"displayName": "own"})));
    assert_eq!(own.status, 201);
    let own = own.body.unwrap();
    for (app, status) in [(&theirs, 403), (&own, 201)] {
        let body = json!({"appId": app["appId"]});
        assert_eq!(g.ask_as(&token, "POST", "/servicePrincipals", Some(&body)).status, status);
    }
    for (app, status) in [(&theirs, 403), (&own, 204)] {
        let at = format!("/applications/{}", app["id"].as_str().unwrap());
        assert_eq!(g.ask_as(&token, "PATCH", &at, Some(&json!({"tags": ["x"]}))).status, status);
        assert_eq!(g.ask_as(&token, "DELETE", &at, None).status, status);
    }
}

#[tokio::test]
async fn sign_ins_and_directory_calls_are_in_the_journal() {
    let lab = lab(Profile::Instant).await;
    let (client, object) = lab.world.add_app("robot", "right", vec![]);
    for (secret, error) in [("wrong", Some("AADSTS7000215")), ("right", None)] {
        let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &client),
            ("client_secret", secret),
            ("scope", "https://graph.microsoft.com/.default"),
        ];
        c.body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish().into();
        let reply = lab.world.login(&c).await;
        let token = reply.body.unwrap()["access_token"].as_str().unwrap_or_default().to_owned();
        let last = lab.world.journal().pop().unwrap();
        assert_eq!((last.principal.as_deref(), last.error.as_deref()), (Some(object.as_str()), error));
        lab.world.graph(&call("GET", "/v1.0/applications", &token, None));
        let last = lab.world.journal().pop().unwrap();
        assert_eq!(last.path, "/v1.0/applications");
        assert_eq!(last.principal.is_some(), error.is_none(), "a caller without a token is nobody");
    }
    let text = format!("{:?}", lab.world.journal());
    assert!(!text.contains("right") && !text.contains("wrong"), "no secrets: {text}");
}
