//! What a request needs to be allowed to do, and where.

use crate::gateway::operations;
use crate::target::Target;
use arm::ResourceId;
use http::Method;

fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" => "read",
        "DELETE" => "delete",
        "POST" => "action",
        _ => "write",
    }
}

/// Resource groups and subscriptions are spelled differently in actions than in ids.
fn type_of(id: &ResourceId) -> String {
    match id.namespace() {
        Some(_) => id.resource_type().as_str().to_owned(),
        None if id.group().is_some() => "Microsoft.Resources/subscriptions/resourceGroups".to_owned(),
        None => "Microsoft.Resources/subscriptions".to_owned(),
    }
}

fn tenant_role(id: &ResourceId) -> bool {
    id.resource_type().is("Microsoft.Authorization/roleDefinitions") && id.extended().is_none()
}

/// The action and the scope (as the client spelled it). `None`: everybody may, or the answer is filtered.
pub fn needed(method: &Method, target: &Target) -> Option<(String, String)> {
    if operations::token(target).is_some() {
        return None;
    }
    let words = target.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let scope = target.of.as_ref().map_or("/", ResourceId::as_str).to_owned();
    let verb = verb(method);
    match (&target.of, words.as_slice()) {
        // Filtered by what the caller may see.
        (_, ["subscriptions" | "tenants" | "resourcegroups" | "resources" | "locations"]) | (None, []) => {
            None
        }
        (None, ["providers", ..]) => None,
        // Everybody who may do anything in a subscription may see it.
        (Some(id), []) if id.namespace().is_none() && id.group().is_none() => None,
        // What the tenant's roles are is no secret within it.
        (Some(id), []) if verb == "read" && tenant_role(id) => None,
        (Some(id), []) => {
            // An extension is judged where it attaches; anything else where it is.
            let at = if id.namespace().is_some_and(|n| n.eq_ignore_ascii_case("Microsoft.Authorization")) {
                id.extended().map_or_else(|| "/".to_owned(), |s| s.as_str().to_owned())
            } else {
                scope
            };
            Some((format!("{}/{verb}", type_of(id)), at))
        }
        // Everybody may ask what it may do itself.
        (_, ["providers", "microsoft.authorization", "permissions"]) if verb == "read" => None,
        (Some(_), ["providers"]) => {
            Some((format!("Microsoft.Resources/subscriptions/providers/{verb}"), scope))
        }
        (Some(_), ["providers", _]) => {
            Some((format!("Microsoft.Resources/subscriptions/providers/{verb}"), scope))
        }
        (_, ["providers", _, _]) => {
            let (ns, kind) = (&target.rest[1], &target.rest[2]);
            match *method == Method::POST {
                true => Some((format!("{ns}/{kind}/action"), scope)),
                false => Some((format!("{ns}/{kind}/{verb}"), scope)),
            }
        }
        (Some(_), ["deployments", _, "operations", ..]) => {
            Some((format!("Microsoft.Resources/deployments/operations/{verb}"), scope))
        }
        (Some(id), [_]) => {
            let word = &target.rest[0];
            Some((format!("{}/{word}/{verb}", type_of(id)), scope))
        }
        _ => Some((format!("Microsoft.Resources/unknown/{verb}"), scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_actions_as_azure_does() {
        let group = "/subscriptions/s/resourceGroups/g";
        let vnet = format!("{group}/providers/Microsoft.Network/virtualNetworks/v");
        let cases = [
            ("GET", group.to_owned(), Some(("Microsoft.Resources/subscriptions/resourceGroups/read", group))),
            ("PUT", vnet.clone(), Some(("Microsoft.Network/virtualNetworks/write", vnet.as_str()))),
            (
                "DELETE",
                format!("{vnet}/subnets/x"),
                Some(("Microsoft.Network/virtualNetworks/subnets/delete", "")),
            ),
            (
                "GET",
                format!("{vnet}/subnets"),
                Some(("Microsoft.Network/virtualNetworks/subnets/read", vnet.as_str())),
            ),
            (
                "POST",
                format!("{vnet}/check"),
                Some(("Microsoft.Network/virtualNetworks/check/action", vnet.as_str())),
            ),
            (
                "POST",
                "/subscriptions/s/providers/A.B/register".into(),
                Some(("A.B/register/action", "/subscriptions/s")),
            ),
            (
                "PUT",
                format!("{vnet}/providers/Microsoft.Authorization/roleAssignments/x"),
                Some(("Microsoft.Authorization/roleAssignments/write", vnet.as_str())),
            ),
            ("GET", "/subscriptions/s/providers/A.B/cs".into(), Some(("A.B/cs/read", "/subscriptions/s"))),
            ("GET", "/subscriptions/s/resources".into(), None),
            ("GET", "/subscriptions".into(), None),
        ];
        for (method, path, want) in cases {
            let got = needed(&method.parse().unwrap(), &Target::parse(&path).unwrap());
            match (got, want) {
                (Some((a, s)), Some((action, scope))) => {
                    assert_eq!(a, action, "{path}");
                    assert!(scope.is_empty() || s == scope, "{path}: {s}");
                }
                (None, None) => {}
                other => panic!("{method} {path}: {other:?}"),
            }
        }
    }
}
