//! How Graph shows applications and service principals. Secrets are never among it.

use crate::state::{App, FederatedCredential, Password, Principal, PrincipalKind, State};
use serde_json::{Value, json};

/// The secret's value is shown once, by whoever makes it.
pub fn password(p: &Password) -> Value {
    let hint: String = p.secret.expose().chars().take(3).collect();
    json!({
        "customKeyIdentifier": null, "displayName": p.name, "endDateTime": p.until.map(|t| t.to_string()),
        "hint": hint, "keyId": p.id, "secretText": null, "startDateTime": p.from.to_string(),
    })
}

pub fn federated(c: &FederatedCredential) -> Value {
    json!({
        "id": c.id, "name": c.name, "issuer": c.issuer, "subject": c.subject, "audiences": c.audiences,
        "description": c.description,
    })
}

pub fn application(a: &App) -> Value {
    let mut v = json!({
        "id": a.object_id, "deletedDateTime": null, "appId": a.client_id, "applicationTemplateId": null,
        "disabledByMicrosoftStatus": null, "createdDateTime": a.created.to_string(), "displayName": a.name,
        "description": null, "groupMembershipClaims": null, "identifierUris": [], "isDeviceOnlyAuthSupported": null,
        "isFallbackPublicClient": null, "notes": null, "publisherDomain": "zaffre.test",
        "serviceManagementReference": null, "signInAudience": "AzureADMyOrg", "tags": [], "addIns": [],
        "api": {"oauth2PermissionScopes": [], "preAuthorizedApplications": []}, "appRoles": [], "info": {},
        "keyCredentials": keys(a), "parentalControlSettings": {"countriesBlockedForMinors": [], "legalAgeGroupRule": "Allow"},
        "passwordCredentials": a.passwords.iter().map(password).collect::<Vec<_>>(),
        "publicClient": {"redirectUris": []}, "requiredResourceAccess": [], "web": {"redirectUris": []},
        "spa": {"redirectUris": []},
    });
    for (name, value) in &a.other {
        v[name] = value.clone();
    }
    v
}

/// The id of a certificate of an application.
pub fn key_id(der: &[u8]) -> String {
    crate::state::guid(crate::state::hash(0, &[&format!("{:x}", xxhash_rust::xxh3::xxh3_128(der))]))
}

fn keys(a: &App) -> Vec<Value> {
    use base64::Engine;
    let thumbprint = |der: &[u8]| {
        let sha1 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der);
        base64::engine::general_purpose::STANDARD.encode(sha1)
    };
    a.certificates
        .iter()
        .map(|c| {
            json!({"keyId": key_id(&c.0), "type": "AsymmetricX509Cert", "usage": "Verify", "key": null,
                "customKeyIdentifier": thumbprint(&c.0)})
        })
        .collect()
}

pub fn principal(state: &State, p: &Principal) -> Value {
    let (kind, alternative) = match &p.kind {
        PrincipalKind::Identity(_, id) => {
            ("ManagedIdentity", vec!["isExplicit=True".to_owned(), id.to_string()])
        }
        PrincipalKind::Application => ("Application", Vec::new()),
    };
    let app = state.directory.apps.get(&p.client_id.to_lowercase());
    let mut names = vec![p.client_id.clone()];
    let uris = app.and_then(|a| a.other.get("identifierUris")).and_then(Value::as_array);
    names.extend(uris.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    json!({
        "id": p.object_id, "deletedDateTime": null, "accountEnabled": app.is_none_or(|a| a.enabled),
        "alternativeNames": alternative, "appDisplayName": p.name, "appDescription": null, "appId": p.client_id,
        "applicationTemplateId": null, "appOwnerOrganizationId": state.tenant, "appRoleAssignmentRequired": false,
        "createdDateTime": p.created.to_string(), "description": null, "disabledByMicrosoftStatus": null,
        "displayName": p.name, "homepage": null, "loginUrl": null, "logoutUrl": null, "notes": null,
        "notificationEmailAddresses": [], "preferredSingleSignOnMode": null, "replyUrls": [],
        "servicePrincipalNames": names, "servicePrincipalType": kind, "signInAudience": "AzureADMyOrg", "tags": [],
        "tokenEncryptionKeyId": null, "addIns": [], "appRoles": [], "info": {}, "keyCredentials": [],
        "oauth2PermissionScopes": [], "passwordCredentials": [],
    })
}

/// A permission of Graph that a principal was granted.
pub fn role_assignment(state: &State, p: &Principal, role: &str) -> Value {
    let of =
        |what: &str| crate::state::guid(crate::state::hash(state.seed, &["graph", what, &p.object_id, role]));
    let id = super::ROLES.iter().find(|(name, _)| *name == role).map(|(_, id)| *id);
    json!({
        "id": of("assignment"), "appRoleId": id, "principalId": p.object_id, "principalDisplayName": p.name,
        "principalType": "ServicePrincipal", "resourceDisplayName": "Microsoft Graph",
        "resourceId": crate::state::guid(crate::state::hash(state.seed, &["graph", "resource"])),
    })
}

/// Anything with that id, with its type.
pub fn object(state: &State, id: &str) -> Option<Value> {
    if let Some(p) = state.directory.principal(id) {
        let mut v = principal(state, p);
        v["@odata.type"] = "#microsoft.graph.servicePrincipal".into();
        return Some(v);
    }
    let app = state.directory.app(id).filter(|a| !a.managed)?;
    let mut v = application(app);
    v["@odata.type"] = "#microsoft.graph.application".into();
    Some(v)
}
