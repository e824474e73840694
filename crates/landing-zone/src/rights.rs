//! Rights that a plan needs, and whether the account has them. Checked before the first write: half a landing zone is
//! worse than none.

use crate::Error;
use arm::ResourceId;
use arm::types::Permission;
use azure::Client;
use azure::plan::{Action, Plan, Step};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An action at a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    pub scope: ResourceId,
    pub action: String,
}

impl Missing {
    /// The usual role that has it.
    pub fn role(&self) -> &'static str {
        match self.action.to_lowercase().starts_with("microsoft.authorization/") {
            true => "User Access Administrator",
            false => "Contributor",
        }
    }
}

/// Actions by the scope at which they are needed.
pub type Needed = BTreeMap<ResourceId, BTreeSet<String>>;

fn kind(id: &ResourceId) -> String {
    match id.resource_type().as_str() {
        "Microsoft.Resources/resourceGroups" => "Microsoft.Resources/subscriptions/resourceGroups".to_owned(),
        other => other.to_owned(),
    }
}

/// Resources whose use by another needs a right of its own.
const JOINED: [(&str, &str); 4] = [
    ("Microsoft.Network/networkSecurityGroups", "Microsoft.Network/networkSecurityGroups/join/action"),
    ("Microsoft.Network/publicIPAddresses", "Microsoft.Network/publicIPAddresses/join/action"),
    ("Microsoft.Network/virtualNetworks", "Microsoft.Network/virtualNetworks/join/action"),
    ("Microsoft.Network/virtualNetworks/subnets", "Microsoft.Network/virtualNetworks/subnets/join/action"),
];

fn references(v: &Value, out: &mut Vec<ResourceId>) {
    match v {
        Value::String(s) if s.starts_with('/') => out.extend(ResourceId::parse(s)),
        Value::Array(l) => l.iter().for_each(|v| references(v, out)),
        Value::Object(m) => m.values().for_each(|v| references(v, out)),
        _ => {}
    }
}

/// All rights that the steps of a plan need. What lies in a group that the plan makes is asked of the subscription.
pub fn needed(plan: &Plan) -> Needed {
    let mut all = Needed::new();
    let made: BTreeSet<&ResourceId> = plan
        .steps
        .iter()
        .filter(|s| matches!(s.action, Action::Create { .. }) && s.id.namespace().is_none())
        .map(|s| &s.id)
        .collect();
    let mut need = |id: &ResourceId, action: String| {
        let sub = || ResourceId::subscription_scope(id.subscription().unwrap_or_default()).ok();
        let group = || ResourceId::group_scope(id.subscription()?, id.group()?).ok();
        let at = match group() {
            Some(g) if !made.contains(&g) => Some(g),
            _ => sub(),
        };
        if let Some(at) = at {
            all.entry(at).or_default().insert(action);
        }
    };
    for Step { id, action, .. } in &plan.steps {
        let kind = kind(id);
        match action {
            Action::Keep | Action::Await => {}
            Action::Delete => need(id, format!("{kind}/delete")),
            Action::Create { body } | Action::Change { body, .. } => {
                need(id, format!("{kind}/write"));
                let mut refers = Vec::new();
                references(body, &mut refers);
                for r in refers.iter().filter(|r| !id.contains(r)) {
                    let joined = JOINED.iter().find(|(k, _)| r.resource_type().is(k));
                    joined.into_iter().for_each(|(_, action)| need(r, (*action).to_owned()));
                }
                // An assignment for another principal is replaced.
                if matches!(action, Action::Change { .. }) && kind.ends_with("/roleAssignments") {
                    need(id, format!("{kind}/delete"));
                }
            }
        }
    }
    all
}

/// Whether `pattern` covers `action`: `*` is any run of characters, case does not matter.
fn covers(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_lowercase(), action.to_lowercase());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = action.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for p in parts {
        let Some(at) = rest.find(p) else { return false };
        rest = &rest[at + p.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Whether some role allows an action, and does not take it away again itself.
pub fn allows(permissions: &[Permission], action: &str) -> bool {
    let any = |l: &Option<Vec<String>>| l.iter().flatten().any(|p| covers(p, action));
    permissions.iter().any(|p| any(&p.actions) && !any(&p.not_actions))
}

/// The same for what lies inside of a resource.
pub fn allows_data(permissions: &[Permission], action: &str) -> bool {
    let any = |l: &Option<Vec<String>>| l.iter().flatten().any(|p| covers(p, action));
    permissions.iter().any(|p| any(&p.data_actions) && !any(&p.not_data_actions))
}

/// Whether the account may do this inside of resources of a scope already, without a role that is given to it.
pub async fn has_data(client: &Client, scope: &ResourceId, action: &str) -> Result<bool, Error> {
    let have: Result<Vec<Permission>, _> = client.permissions(scope).try_collect().await;
    match have {
        Ok(p) => Ok(allows_data(&p, action)),
        Err(e) if e.status() == Some(403) => Ok(false),
        Err(e) => Err(Error::Read { what: format!("the rights at {scope}"), source: Box::new(e) }),
    }
}

/// What is missing, asked of each scope once.
pub async fn missing(client: &Client, needed: &Needed) -> Result<Vec<Missing>, Error> {
    let asked = needed.iter().map(|(scope, actions)| async move {
        let mut have: Result<Vec<Permission>, _> = client.permissions(scope).try_collect().await;
        if have.as_ref().is_err_and(azure::Error::is_not_found) {
            // Another run has deleted the group meanwhile; rights above it decide.
            let above = ResourceId::subscription_scope(scope.subscription().unwrap_or_default())?;
            have = client.permissions(&above).try_collect().await;
        }
        let have = match have {
            Ok(p) => p,
            // Who may not even ask may do nothing.
            Err(e) if e.status() == Some(403) => Vec::new(),
            Err(e) => {
                return Err(Error::Read { what: format!("the rights at {scope}"), source: Box::new(e) });
            }
        };
        let lacks = actions.iter().filter(|a| !allows(&have, a));
        Ok(lacks.map(|a| Missing { scope: scope.clone(), action: a.clone() }).collect::<Vec<_>>())
    });
    let asked: Vec<_> = asked.collect();
    let all: Vec<Vec<Missing>> = stream::iter(asked).buffered(8).try_collect().await?;
    Ok(all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (p, a, yes) in [
            ("*", "A/b/write", true),
            ("A/*", "a/B/write", true),
            ("*/read", "A/b/read", true),
            ("*/read", "A/b/write", false),
            ("A/*/write", "A/b/c/write", true),
            ("A/b/write", "A/b/write", true),
            ("A/b", "A/b/write", false),
            ("A/b/write*", "A/b/write", true),
            ("A*A", "A", false),
        ] {
            assert_eq!(covers(p, a), yes, "{p} {a}");
        }
    }

    #[test]
    fn a_role_takes_away_only_from_itself() {
        let list = |l: &[&str]| Some(l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        let contributor = Permission {
            actions: list(&["*"]),
            not_actions: list(&["Microsoft.Authorization/*/Write"]),
            ..Permission::default()
        };
        let access = Permission { actions: list(&["Microsoft.Authorization/*"]), ..Permission::default() };
        let write = "Microsoft.Authorization/roleAssignments/write";
        assert!(!allows(std::slice::from_ref(&contributor), write));
        assert!(allows(&[contributor, access], write));
    }
}
