//! What exists when the simulator starts: a tenant, a subscription, an owner, the providers, a DNS zone.

use crate::gateway::NAMESPACES;
use crate::kinds;
use crate::rbac::{Assignment, BUILTIN, Role};
use crate::state::{
    App, Password, Principal, PrincipalKind, Record, Secret, State, Subscription, guid, hash,
};
use arm::ResourceId;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub const OWNER: &str = "8e3af657-a8ff-443c-a75c-2fe8c4bcb635";
pub const ZONE_GROUP: &str = "zaffre-dns";
pub const ZONE: &str = "example.zaffre.test";

/// What a client needs to log in.
#[derive(Clone, Debug)]
pub struct Login {
    pub tenant: String,
    pub subscription: String,
    pub client: String,
    pub object: String,
    pub secret: Secret,
}

/// What the seeded owner logs in with.
pub fn login(number: u64) -> Login {
    let id = |what: &str| guid(hash(number, &["seed", what]));
    Login {
        tenant: id("tenant"),
        subscription: id("subscription"),
        client: id("client"),
        object: id("object"),
        secret: Secret::new(&format!("sim~{:032x}", hash(number, &["seed", "secret"]))),
    }
}

/// A tenant with nothing in it but roles.
pub fn empty(number: u64, roles: &[Role]) -> State {
    let mut state = State::new(number, login(number).tenant);
    for r in BUILTIN.iter().cloned().chain(roles.iter().cloned().map(Arc::new)) {
        state.assignments.roles.insert(r.id.to_lowercase(), r);
    }
    state
}

pub fn seed(number: u64, roles: &[Role], now: Timestamp) -> State {
    let id = |what: &str| guid(hash(number, &["seed", what]));
    let login = login(number);
    let mut state = empty(number, roles);
    let s =
        Subscription { id: login.subscription.clone(), name: "Zaffre".into(), tenant: login.tenant.clone() };
    state.subscriptions.insert(s.id.clone(), s);
    for (ns, registered) in NAMESPACES {
        let word = if registered { "Registered" } else { "NotRegistered" };
        state.registrations.insert((login.subscription.clone(), ns.to_lowercase()), word);
    }
    add_app(&mut state, &login.client, &login.object, "zaffre-owner", &login.secret, now);
    let at = format!("/subscriptions/{}", login.subscription);
    assign(&mut state, &login.object, OWNER, &at, &id("assignment"), now);
    zone(&mut state, &at, &login.object, now);
    state
}

pub fn add_app(state: &mut State, client: &str, object: &str, name: &str, secret: &Secret, now: Timestamp) {
    let of = |what: &str| guid(hash(state.seed, &["seed", client, what]));
    state.directory.add_app(App {
        client_id: client.to_owned(),
        object_id: of("application"),
        name: name.to_owned(),
        passwords: vec![Password {
            id: of("password"),
            name: None,
            secret: secret.clone(),
            from: now,
            until: None,
        }],
        certificates: Vec::new(),
        federated: Vec::new(),
        enabled: true,
        created: now,
        owner: None,
        managed: false,
        other: Map::new(),
    });
    state.directory.add(Principal {
        object_id: object.to_owned(),
        client_id: client.to_owned(),
        name: name.to_owned(),
        kind: PrincipalKind::Application,
        created: now,
        owner: None,
        graph_roles: Vec::new(),
    });
}

fn record(kind: &str, id: ResourceId, doc: Value, by: &str, state: &State, now: Timestamp) -> Option<Record> {
    let Value::Object(doc) = doc else { return None };
    Some(Record {
        etag: state.guid(id.key(), "etag"),
        seeded: true,
        ..Record::new(id, kinds::kind(kind)?, doc, by.into(), now)
    })
}

pub fn assign(state: &mut State, principal: &str, role: &str, scope: &str, name: &str, now: Timestamp) {
    let Ok(id) =
        ResourceId::parse(&format!("{scope}/providers/Microsoft.Authorization/roleAssignments/{name}"))
    else {
        return;
    };
    let key = id.key().clone();
    let at = now.to_string();
    let subscription = id.subscription().unwrap_or_default();
    let doc = json!({"properties": {
        "roleDefinitionId": format!("/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}"),
        "principalId": principal, "principalType": "ServicePrincipal", "scope": scope, "condition": null,
        "conditionVersion": null, "createdOn": at, "updatedOn": at, "createdBy": principal, "updatedBy": principal,
        "delegatedManagedIdentityResourceId": null, "description": null,
    }});
    if let Some(r) = record(kinds::ASSIGNMENTS, id, doc, principal, state, now) {
        state.put(r, Vec::new());
    }
    let scope = scope.to_lowercase().into();
    state.assignments.add(Assignment {
        id: key,
        principal: principal.into(),
        role: role.to_lowercase(),
        scope,
        since: Timestamp::MIN,
    });
}

fn zone(state: &mut State, subscription: &str, by: &str, now: Timestamp) {
    let group = format!("{subscription}/resourceGroups/{ZONE_GROUP}");
    let Ok(id) = ResourceId::parse(&group) else { return };
    let doc = json!({"location": "eastus", "tags": {}});
    if let Some(r) = record("Microsoft.Resources/resourceGroups", id, doc, by, state, now) {
        state.put(r, Vec::new());
    }
    let Ok(id) = ResourceId::parse(&format!("{group}/providers/Microsoft.Network/dnszones/{ZONE}")) else {
        return;
    };
    let mut doc = Map::new();
    doc.insert("location".into(), "global".into());
    let Some(kind) = kinds::kind("Microsoft.Network/dnsZones") else { return };
    let Ok(version) = "2018-05-01".parse() else { return };
    let prep = kinds::Prep { state, id: &id, old: None, version: &version, now };
    if kind.rules.prepare(&prep, &mut doc).is_err() {
        return;
    }
    if let Some(r) = record("Microsoft.Network/dnsZones", id, Value::Object(doc), by, state, now) {
        state.put(r.clone(), Vec::new());
        kind.rules.created(state, &r, now);
    }
}
