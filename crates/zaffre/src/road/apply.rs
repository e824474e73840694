//! Objects into a cluster: by server-side apply, whatever their kind.

use anyhow::{Context, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Discovery, Scope};
use serde_json::{Value, json};

pub struct Applier {
    client: Client,
    known: Discovery,
    params: PatchParams,
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// `Kind name`, for people.
pub fn named(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// The same, for programs.
pub fn made_of(object: &Value) -> Value {
    let meta = &object["metadata"];
    let mut out = json!({"kind": object["kind"], "name": meta["name"]});
    if meta["namespace"].is_string() {
        out["namespace"] = meta["namespace"].clone();
    }
    out
}

impl Applier {
    /// Asks which kinds there are.
    pub async fn new(client: Client, manager: &str) -> anyhow::Result<Applier> {
        let known =
            Discovery::new(client.clone()).run().await.context("cannot ask the cluster for its kinds")?;
        Ok(Applier { client, known, params: PatchParams::apply(manager).force() })
    }

    fn resource(&self, object: &Value) -> Option<(ApiResource, ApiCapabilities)> {
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.known.resolve_gvk(&GroupVersionKind::gvk(group, version, text(&object["kind"])))
    }

    pub fn is_served(&self, object: &Value) -> bool {
        self.resource(object).is_some()
    }

    pub fn api(&self, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
        let Some((resource, capabilities)) = self.resource(object) else {
            bail!(
                "the cluster does not serve {} {}: run `zaffre install` first",
                text(&object["apiVersion"]),
                text(&object["kind"])
            );
        };
        Ok(match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespaced => {
                Api::namespaced_with(self.client.clone(), text(&object["metadata"]["namespace"]), &resource)
            }
        })
    }

    pub async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let api = self.api(object)?;
        let applied = api.patch(text(&object["metadata"]["name"]), &self.params, &Patch::Apply(object)).await;
        applied.map(drop).with_context(|| format!("cannot apply {}", named(object)))
    }

    /// Whether it would be taken.
    pub async fn try_out(&self, object: &Value) -> anyhow::Result<()> {
        let api = self.api(object)?;
        let params = PatchParams { dry_run: true, ..self.params.clone() };
        let tried = api.patch(text(&object["metadata"]["name"]), &params, &Patch::Apply(object)).await;
        tried.map(drop).with_context(|| format!("{} is refused; nothing was changed", named(object)))
    }

    /// Makes it unless it is there; whether it was made.
    pub async fn create_if_absent(&self, object: &Value) -> anyhow::Result<bool> {
        let api = self.api(object)?;
        let dynamic: DynamicObject = serde_json::from_value(object.clone())?;
        match api.create(&PostParams::default(), &dynamic).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(s)) if s.code == 409 => Ok(false),
            Err(e) => Err(e).with_context(|| format!("cannot create {}", named(object))),
        }
    }

    async fn found(&self, object: &Value) -> anyhow::Result<Option<DynamicObject>> {
        if !self.is_served(object) {
            return Ok(None);
        }
        let found = self.api(object)?.get_opt(text(&object["metadata"]["name"])).await;
        found.with_context(|| format!("cannot look for {}", named(object)))
    }

    pub async fn is_there(&self, object: &Value) -> anyhow::Result<bool> {
        Ok(self.found(object).await?.is_some())
    }

    /// Whether it is there because we applied it.
    pub async fn is_ours(&self, object: &Value) -> anyhow::Result<bool> {
        let managers = self.found(object).await?.and_then(|o| o.metadata.managed_fields).unwrap_or_default();
        Ok(managers.iter().any(|m| m.manager == self.params.field_manager))
    }

    /// Whether what a definition says is what we said: others may have put theirs over it.
    pub async fn is_defined_by_us(&self, definition: &Value) -> anyhow::Result<bool> {
        let managers =
            self.found(definition).await?.and_then(|o| o.metadata.managed_fields).unwrap_or_default();
        let says = |m: &ManagedFieldsEntry| {
            let fields = m.fields_v1.as_ref().map_or(&Value::Null, |f| &f.0);
            m.manager == self.params.field_manager && !fields["f:spec"]["f:versions"].is_null()
        };
        Ok(managers.iter().any(says))
    }

    /// Takes it away if it is there; whether it was.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<bool> {
        if !self.is_served(object) {
            return Ok(false);
        }
        let api = self.api(object)?;
        match api.delete(text(&object["metadata"]["name"]), &Default::default()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(false),
            Err(e) => Err(e).with_context(|| format!("cannot delete {}", named(object))),
        }
    }
}
