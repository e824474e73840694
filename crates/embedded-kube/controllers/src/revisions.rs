//! Controller revisions: the templates a stateful or daemon set has had, kept so that one can go back.

use crate::objects::{controller_ref, fingerprint, int, object_at};
use crate::tables;
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use serde_json::{Value, json};

/// The revisions of an owner, oldest first, and which of them is the present template.
pub struct Revisions {
    pub all: Vec<Value>,
    pub update: Value,
}

fn number(r: &Value) -> i64 {
    r["revision"].as_i64().unwrap_or(0)
}

/// What a revision stores: a patch that puts the template back.
fn data(owner: &Value) -> Value {
    let mut template = owner["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The template of a revision.
pub fn template(revision: &Value) -> Value {
    let mut t = revision["data"]["spec"]["template"].clone();
    if let Some(m) = t.as_object_mut() {
        m.remove("$patch");
    }
    t
}

/// The fingerprint in a revision's name, which its pods carry.
pub fn hash_of<'a>(owner: &Value, revision: &'a Value) -> &'a str {
    let name = object::name(revision);
    name.strip_prefix(object::name(owner)).and_then(|h| h.strip_prefix('-')).unwrap_or(name)
}

/// Makes sure that the present template is the newest revision. `hash_label`: where the fingerprint goes.
pub async fn sync(access: &Access, owner: &Value, hash_label: &str) -> Result<Revisions, Status> {
    let (namespace, uid) = (object::namespace(owner), object::uid(owner));
    let mut all = access.owned(&tables::CONTROLLER_REVISIONS, namespace, uid);
    all.sort_by_key(number);
    let last = all.last().map_or(0, number);
    let wanted = data(owner);
    if let Some(i) = all.iter().rposition(|r| r["data"] == wanted) {
        if number(&all[i]) < last {
            // Going back makes an old revision the newest.
            let name = object::name(&all[i]).to_owned();
            let renumber = |r: &mut Value| {
                r["revision"] = json!(last + 1);
                true
            };
            let entry = access.update(&tables::CONTROLLER_REVISIONS, namespace, &name, "", renumber).await?;
            all.remove(i);
            all.extend(entry.and_then(|e| parse(&e)));
        }
        let update = all.iter().rfind(|r| r["data"] == wanted).cloned().unwrap_or_default();
        return Ok(Revisions { all, update });
    }
    let mut collisions = int(owner, "/status/collisionCount").unwrap_or(0);
    for _ in 0..8 {
        let hash = fingerprint(&owner["spec"]["template"], collisions);
        let mut r = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": format!("{}-{hash}", object::name(owner)), "namespace": namespace,
                "labels": owner["spec"]["template"]["metadata"]["labels"], "ownerReferences": [controller_ref(owner)]},
            "data": wanted, "revision": last + 1,
        });
        if let Some(cause) = crate::objects::annotation(owner, "kubernetes.io/change-cause") {
            r["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": cause});
        }
        let meta = object_at(&mut r, "metadata");
        if let Some(Value::Object(labels)) = meta.get_mut("labels") {
            labels.insert(hash_label.to_owned(), json!(hash));
        }
        match access.create(&tables::CONTROLLER_REVISIONS, r).await {
            Ok(made) => {
                all.push(made.clone());
                return Ok(Revisions { all, update: made });
            }
            // Another template has the name.
            Err(e) if e.code == 409 => collisions += 1,
            Err(e) => return Err(e),
        }
    }
    Err(Status::internal(format!("no free name for a revision of {}", object::name(owner))))
}

/// Deletes what is beyond the limit and in nobody's use.
pub async fn trim(
    access: &Access,
    owner: &Value,
    revisions: &Revisions,
    in_use: impl Fn(&Value) -> bool,
) -> Result<(), Status> {
    let limit = int(owner, "/spec/revisionHistoryLimit").unwrap_or(10).max(0) as usize;
    let update = object::name(&revisions.update);
    let idle: Vec<&Value> =
        revisions.all.iter().filter(|r| object::name(r) != update && !in_use(r)).collect();
    for r in idle.iter().take(idle.len().saturating_sub(limit)) {
        let name = object::name(r);
        access
            .delete(&tables::CONTROLLER_REVISIONS, object::namespace(owner), name, Deletion::default())
            .await?;
    }
    Ok(())
}
