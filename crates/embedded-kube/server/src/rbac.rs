//! RBAC objects on their way in: nobody gives more than they have, and aggregated roles are kept complete.

use crate::cluster::{Cluster, tables};
use crate::verbs::Call;
use ek_auth::rbac::{Attributes, aggregated_rules, parts, rules_of, uncovered};
use ek_meta::selector::LabelSelector;
use ek_meta::{Status, object};
use ek_store::Entry;
use serde_json::{Value, json};

impl Cluster {
    /// Checks and completes an RBAC object before it is stored; does nothing for other kinds.
    pub fn prepare_rbac(&self, call: &Call, new: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if call.res.group != "rbac.authorization.k8s.io" {
            return Ok(());
        }
        match call.res.plural.as_str() {
            "clusterroles" => {
                if let Some(rules) = parts(new).and_then(|p| aggregated_rules(new, &self.parts(&p))) {
                    // Whatever the client sent, the rules of an aggregated role are the sum of its parts. Choosing
                    // the parts is choosing the rules, so changing the selectors needs everything.
                    let selectors = |o: &Value| o["aggregationRule"].clone();
                    if old.map(selectors).as_ref() != Some(&new["aggregationRule"]) {
                        self.refuse_escalation(
                            call,
                            new,
                            &[
                                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
                            ],
                        )?;
                    }
                    new["rules"] = rules;
                    return Ok(());
                }
                self.refuse_role_escalation(call, new, old)
            }
            "roles" => self.refuse_role_escalation(call, new, old),
            _ => self.refuse_binding_escalation(call, new, old),
        }
    }

    /// ClusterRoles that are selected by their labels; the many others are not read.
    fn parts(&self, selectors: &[LabelSelector]) -> Vec<Value> {
        let view = self.store.view(&self.id, &tables::CLUSTER_ROLES);
        let selected = |e: &Entry| selectors.iter().any(|s| s.matches(|k| e.meta.label(k)));
        view.objects.values().filter(|e| selected(e)).filter_map(|e| crate::parse(e)).collect()
    }

    fn refuse_role_escalation(&self, call: &Call, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        if old.is_some_and(|o| o["rules"] == new["rules"]) {
            return Ok(());
        }
        let rules = new["rules"].as_array().cloned().unwrap_or_default();
        self.refuse_escalation(call, new, &rules)
    }

    fn refuse_escalation(&self, call: &Call, role: &Value, rules: &[Value]) -> Result<(), Status> {
        // Who has everything gives nothing more; there may be very many roles to look through.
        if call.user.in_group(ek_auth::MASTERS) {
            return Ok(());
        }
        let res = &call.res;
        let name = object::name(role);
        let authorizer = self.authorizer(&call.info.namespace);
        let escalate = Attributes {
            verb: "escalate",
            namespace: &call.info.namespace,
            group: &res.group,
            resource: &res.plural,
            subresource: "",
            name,
            path: None,
        };
        if authorizer.authorize(&call.user, &escalate).allowed {
            return Ok(());
        }
        let wanted = rules_of(&json!({"rules": rules}));
        let owned = authorizer.rules_for(&call.user, &call.info.namespace);
        let missing = uncovered(&owned, &wanted);
        if missing.is_empty() {
            return Ok(());
        }
        Err(Status::forbidden(&res.group, &res.plural, name, &explain(call, &missing)))
    }

    fn refuse_binding_escalation(&self, call: &Call, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        if call.user.in_group(ek_auth::MASTERS) {
            return Ok(());
        }
        let same = |o: &Value| o["roleRef"] == new["roleRef"] && o["subjects"] == new["subjects"];
        if old.is_some_and(same) {
            return Ok(());
        }
        let role_ref = &new["roleRef"];
        let role = role_ref["name"].as_str().unwrap_or_default();
        let plural = if role_ref["kind"] == "Role" { "roles" } else { "clusterroles" };
        let ns = &call.info.namespace;
        let authorizer = self.authorizer(ns);
        let bind = Attributes {
            verb: "bind",
            namespace: ns,
            group: "rbac.authorization.k8s.io",
            resource: plural,
            subresource: "",
            name: role,
            path: None,
        };
        if authorizer.authorize(&call.user, &bind).allowed {
            return Ok(());
        }
        let res = &call.res;
        let Some(rules) = authorizer.role_rules(role_ref) else {
            // A role that does not exist yet could become anything.
            return Err(Status::not_found("rbac.authorization.k8s.io", &res.plural, role));
        };
        let missing = uncovered(&authorizer.rules_for(&call.user, ns), &rules);
        if missing.is_empty() {
            return Ok(());
        }
        Err(Status::forbidden(&res.group, &res.plural, object::name(new), &explain(call, &missing)))
    }
}

fn explain(call: &Call, missing: &[ek_auth::rbac::Rule]) -> String {
    let list = missing
        .iter()
        .take(20)
        .map(|r| {
            if r.non_resource_urls.is_empty() {
                format!("{{APIGroups:{:?}, Resources:{:?}, Verbs:{:?}}}", r.api_groups, r.resources, r.verbs)
            } else {
                format!("{{NonResourceURLs:{:?}, Verbs:{:?}}}", r.non_resource_urls, r.verbs)
            }
        })
        .collect::<Vec<_>>()
        .join("\n");
    format!(
        "user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{list}",
        call.user.name, call.user.groups
    )
}
