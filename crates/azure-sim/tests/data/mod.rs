//! Vaults, accounts, registries and a front door, by the protocols their clients speak.

mod bad;
mod blobs;
mod registries;
mod vaults;

use crate::support::{Lab, call, code};
use azure_sim::Reply;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use serde_json::{Value, json};

pub(crate) const ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
pub(crate) const SECRETS_USER: &str = "4633458b-17de-408a-b874-0445c86b69e6";
pub(crate) const BLOB_CONTRIBUTOR: &str = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
pub(crate) const PULL: &str = "7f951dda-4ed3-4680-a7ca-43fe172d538d";

pub(crate) async fn token(lab: &Lab, client: &str, secret: &str, audience: &str) -> String {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("client_secret", secret)
        .append_pair("scope", &format!("{audience}/.default"))
        .finish();
    let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
    c.body = form.into();
    let reply = lab.world.login(&c).await;
    reply.body.unwrap()["access_token"].as_str().unwrap().to_owned()
}

pub(crate) async fn owner(lab: &Lab, audience: &str) -> String {
    let (client, secret) = lab.world.owner_login();
    token(lab, &client, &secret, audience).await
}

pub(crate) fn ask(
    lab: &Lab,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Reply {
    let mut map = HeaderMap::new();
    for (k, v) in headers {
        map.insert(HeaderName::from_bytes(k.as_bytes()).unwrap(), v.parse().unwrap());
    }
    lab.world.ask_plane(&method.parse::<Method>().unwrap(), url, map, body.into()).unwrap()
}

pub(crate) fn json_as(lab: &Lab, token: &str, method: &str, url: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
    ask(lab, method, url, headers, body.map_or_else(String::new, |b| b.to_string()))
}

pub(crate) fn error(reply: &Reply) -> String {
    match reply.headers.get("x-ms-error-code") {
        Some(v) => v.to_str().unwrap().to_owned(),
        None => {
            let body = reply.body.clone().unwrap_or_default();
            body["errors"][0]["code"].as_str().map_or_else(|| code(reply), str::to_owned)
        }
    }
}

pub(crate) fn make(lab: &Lab, id: &str, version: &str, body: Value) -> Reply {
    let made = lab.ask("PUT", &format!("{id}?api-version={version}"), Some(&body));
    assert!(made.status.is_success(), "{made:?}");
    made
}

pub(crate) fn vault(lab: &Lab, name: &str, extra: Value) -> String {
    let id = format!("{}/providers/Microsoft.KeyVault/vaults/{name}", lab.group("g"));
    let mut p = json!({"tenantId": lab.world.tenant(), "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true});
    p.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    make(lab, &id, "2023-07-01", json!({"location": "westus2", "properties": p}));
    id
}

pub(crate) async fn exchange(lab: &Lab, client: &str, assertion: &str) -> Reply {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("scope", "https://management.azure.com/.default")
        .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        .append_pair("client_assertion", assertion)
        .finish();
    let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
    c.body = form.into();
    lab.world.login(&c).await
}

pub(crate) fn account(lab: &Lab, name: &str, extra: Value) -> String {
    let id = format!("{}/providers/Microsoft.Storage/storageAccounts/{name}", lab.group("g"));
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": extra});
    let made = make(lab, &id, "2023-05-01", body);
    assert_eq!((made.status.as_u16(), made.body.is_none()), (202, true));
    lab.pass(60);
    id
}
