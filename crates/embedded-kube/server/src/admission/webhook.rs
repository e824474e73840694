//! Calling webhooks: mutating ones in order, validating ones together, conversion ones for versions.

use super::conditions::Verdict;
use super::matching::{Hook, RuleMatch, rules_match, selectors_match};
use super::{Attempt, Operation};
use crate::cluster::Cluster;
use crate::fetch::{self, Target};
use crate::registry::Resource;
use crate::verbs::Call;
use crate::wire::params::WriteOptions;
use arc_swap::ArcSwap;
use base64::Engine;
use ek_meta::Status;
use ek_store::ClusterId;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Finds where a Service really listens. Nothing here ever dials a cluster IP.
pub trait ServiceResolver: Send + Sync + 'static {
    fn resolve(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr>;
}

impl ServiceResolver for Arc<dyn ServiceResolver> {
    fn resolve(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        (**self).resolve(cluster, namespace, name, port)
    }
}

/// No Service can be reached.
pub struct NoServices;

impl ServiceResolver for NoServices {
    fn resolve(&self, _: &ClusterId, _: &str, _: &str, _: u16) -> Option<SocketAddr> {
        None
    }
}

/// The client side of webhooks.
#[derive(Clone)]
pub struct Webhooks {
    cluster: ClusterId,
    resolver: Arc<ArcSwap<Box<dyn ServiceResolver>>>,
    /// Answers of conversion webhooks.
    pub converted: crate::convert::Converted,
}

impl Webhooks {
    pub fn new(cluster: ClusterId, resolver: Arc<ArcSwap<Box<dyn ServiceResolver>>>) -> Webhooks {
        Webhooks { cluster, resolver, converted: crate::convert::Converted::default() }
    }

    /// Posts `review` to where `config` (a WebhookClientConfig) points.
    fn post<'a>(
        &'a self,
        config: &'a Value,
        review: Value,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            match tokio::time::timeout(timeout, self.post_now(config, review)).await {
                Ok(r) => r,
                Err(_) => Err(format!("context deadline exceeded after {}s", timeout.as_secs())),
            }
        })
    }

    async fn post_now(&self, config: &Value, review: Value) -> Result<Value, String> {
        let target = self.target(config)?;
        let bundle = base64::engine::general_purpose::STANDARD
            .decode(config["caBundle"].as_str().unwrap_or_default())
            .map_err(|e| format!("caBundle: {e}"))?;
        fetch::send(&target, fetch::trust(&bundle)?, Some(review.to_string())).await
    }

    fn target(&self, config: &Value) -> Result<Target, String> {
        if let Some(u) = config["url"].as_str() {
            return Target::parse(u);
        }
        let s = &config["service"];
        let (ns, name) =
            (s["namespace"].as_str().unwrap_or_default(), s["name"].as_str().unwrap_or_default());
        let port = s["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let address = self
            .resolver
            .load()
            .resolve(&self.cluster, ns, name, port)
            .ok_or_else(|| format!("no endpoints available for service {ns}/{name} port {port}"))?;
        let path = s["path"].as_str().unwrap_or("/");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Target { host: format!("{name}.{ns}.svc"), port, path, address: Some(address) })
    }

    /// Converts objects to another version through a CRD's webhook, all in one call.
    pub async fn convert(
        &self,
        cluster: &Cluster,
        webhook: &Value,
        api_version: &str,
        objs: Vec<Value>,
    ) -> Result<Vec<Value>, Status> {
        let fail =
            |why: String| Status::internal(format!("conversion webhook for {api_version} failed: {why}"));
        let versions = webhook["conversionReviewVersions"].as_array();
        let review_version = versions
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|v| matches!(*v, "v1" | "v1beta1"))
            .unwrap_or("v1");
        let uid = cluster.random.uuid();
        // Only what is not there already travels.
        let wanted: Vec<usize> = (0..objs.len()).filter(|i| objs[*i]["apiVersion"] != api_version).collect();
        let send: Vec<&Value> = wanted.iter().map(|i| &objs[*i]).collect();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{review_version}"),
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": send}
        });
        let answer =
            self.post(&webhook["clientConfig"], review, Duration::from_secs(30)).await.map_err(fail)?;
        let r = &answer["response"];
        if r["uid"] != uid.as_str() {
            return Err(fail("the response's uid is not the request's".into()));
        }
        if r["result"]["status"] != "Success" {
            return Err(fail(r["result"]["message"].as_str().unwrap_or("no reason given").to_owned()));
        }
        let converted = r["convertedObjects"].as_array().cloned().unwrap_or_default();
        if converted.len() != wanted.len() {
            return Err(fail(format!(
                "{} objects were sent and {} came back",
                wanted.len(),
                converted.len()
            )));
        }
        let mut out = objs;
        for (i, new) in wanted.into_iter().zip(converted) {
            out[i] = checked(&out[i], new, api_version).map_err(fail)?;
        }
        Ok(out)
    }
}

/// A converted object keeps its identity; of metadata only labels and annotations may differ.
fn checked(old: &Value, mut new: Value, api_version: &str) -> Result<Value, String> {
    if new["apiVersion"] != api_version || new["kind"] != old["kind"] {
        return Err(format!("returned {} {} for {api_version}", new["apiVersion"], new["kind"]));
    }
    let mut meta = old["metadata"].clone();
    for f in ["name", "namespace", "uid"] {
        if new["metadata"][f] != old["metadata"][f] {
            return Err(format!("metadata.{f} was changed"));
        }
    }
    for f in ["labels", "annotations"] {
        match new["metadata"].get(f) {
            Some(v) => meta[f] = v.clone(),
            None => {
                if let Some(m) = meta.as_object_mut() {
                    m.remove(f);
                }
            }
        }
    }
    new["metadata"] = meta;
    Ok(new)
}

/// Configurations of admission are never subject to it: a broken webhook must stay removable.
fn exempt(call: &Call) -> bool {
    call.res.group == "admissionregistration.k8s.io"
        || matches!(call.res.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

enum Ask {
    Skip,
    Yes,
}

/// Whether the hook is to be called; errors of its conditions follow its failure policy.
fn ask(hook: &Hook, a: &Attempt<'_>, request: &Value) -> Result<Ask, Status> {
    match hook.conditions.evaluate(a, request) {
        Verdict::Match => Ok(Ask::Yes),
        Verdict::NoMatch => Ok(Ask::Skip),
        Verdict::Error(_) if hook.spec["failurePolicy"] == "Ignore" => Ok(Ask::Skip),
        Verdict::Error(e) => Err(Status::forbidden(
            &a.call.res.group,
            &a.call.res.plural,
            a.name(),
            &format!("admission webhook {:?} could not be matched: {e}", hook.name),
        )),
    }
}

/// A hook that allowed the request.
struct Allowed {
    response: Value,
    /// The version the hook was shown, if it is not the request's.
    shown: Option<Arc<Resource>>,
}

/// A call's outcome, or `None` when the hook does not match or its failure is to be ignored.
async fn call_hook(hook: &Hook, a: &Attempt<'_>) -> Result<Option<Allowed>, Status> {
    let equivalent = hook.spec["matchPolicy"] != "Exact";
    let matched = rules_match(&hook.spec["rules"], equivalent, a);
    if matches!(matched, RuleMatch::No)
        || !selectors_match(&hook.spec["namespaceSelector"], &hook.spec["objectSelector"], a)
    {
        return Ok(None);
    }
    let uid = a.call.cluster.random.uuid();
    let mut request = a.request(&uid);
    if let RuleMatch::Equivalent(other) = &matched {
        request["kind"] = json!({"group": other.group, "version": other.version, "kind": other.kind});
        request["resource"] =
            json!({"group": other.group, "version": other.version, "resource": other.plural});
        for f in ["object", "oldObject"] {
            if !request[f].is_null() {
                request[f] = converted(a.call, &a.call.res, &other.api_version, request[f].take()).await?;
            }
        }
    }
    if let Ask::Skip = ask(hook, a, &request)? {
        return Ok(None);
    }
    if a.options.dry_run {
        without_effects(&hook.name, &hook.spec["sideEffects"])?;
    }
    let version = (hook.spec["admissionReviewVersions"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .find(|v| matches!(*v, "v1" | "v1beta1"))
        .unwrap_or("v1")
        .to_owned();
    let review = json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request});
    let seconds = hook.spec["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30);
    let answer = a
        .call
        .cluster
        .webhooks
        .post(&hook.spec["clientConfig"], review, Duration::from_secs(seconds))
        .await
        .and_then(|v| {
            let r = v["response"].clone();
            if r["uid"] != uid.as_str() {
                return Err("the response's uid is not the request's".to_owned());
            }
            if !r["allowed"].is_boolean() {
                return Err("the response does not say whether the request is allowed".to_owned());
            }
            Ok(r)
        });
    let response = match answer {
        Ok(r) => r,
        Err(e) if hook.spec["failurePolicy"] == "Ignore" => {
            tracing::warn!(
                webhook = hook.name,
                config = hook.config,
                error = e,
                "webhook failed and is ignored"
            );
            return Ok(None);
        }
        Err(e) => {
            return Err(Status::internal(format!(
                "failed calling webhook {:?}: failed to call webhook: {e}",
                hook.name
            )));
        }
    };
    for w in response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        a.call.warn(w);
    }
    if response["allowed"] == true {
        let shown = match matched {
            RuleMatch::Equivalent(other) => Some(other),
            _ => None,
        };
        return Ok(Some(Allowed { response, shown }));
    }
    Err(denied(hook, &response["status"]))
}

/// A dry run may only ask hooks that promise to do nothing. The current version of the API takes no others, but
/// objects from an older one may be stored.
fn without_effects(name: &str, side_effects: &Value) -> Result<(), Status> {
    match side_effects.as_str() {
        Some("None" | "NoneOnDryRun") => Ok(()),
        _ => Err(Status::bad_request(format!("admission webhook {name:?} does not support dry run"))),
    }
}

/// A refusal in the hook's own words; without a code it is a bad request.
fn denied(hook: &Hook, status: &Value) -> Status {
    let spoken = |f: &str| status[f].as_str().filter(|s| !s.is_empty());
    let text = match spoken("message").or_else(|| spoken("reason")) {
        Some(m) => format!("admission webhook {:?} denied the request: {m}", hook.name),
        None => format!("admission webhook {:?} denied the request without explanation", hook.name),
    };
    let code = status["code"].as_u64().and_then(|c| u16::try_from(c).ok()).filter(|c| (400..600).contains(c));
    let mut s = Status::failure(code.unwrap_or(400), ek_meta::Reason::BadRequest, text);
    s.reason = serde_json::from_value(status["reason"].clone()).ok();
    s.details = serde_json::from_value(status["details"].clone()).ok();
    s
}

pub async fn mutate(
    call: &Call,
    op: Operation,
    mut obj: Value,
    old: Option<&Value>,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let configured = call.cluster.webhook_configuration();
    if configured.mutating.is_empty() || exempt(call) {
        return Ok(obj);
    }
    // A hook that asked for it sees what later hooks changed, once.
    for round in 0..2 {
        let mut changed_after: Vec<bool> = vec![false; configured.mutating.len()];
        let mut changed = false;
        for (i, hook) in configured.mutating.iter().enumerate() {
            if round == 1 && hook.spec["reinvocationPolicy"] != "IfNeeded" {
                continue;
            }
            let attempt = Attempt { call, op, object: Some(&obj), old, options };
            let Some(allowed) = call_hook(hook, &attempt).await? else { continue };
            if let Some(new) = patched(call, hook, &obj, old, &allowed).await?
                && new != obj
            {
                obj = new;
                changed = true;
                changed_after.iter_mut().take(i).for_each(|c| *c = true);
            }
        }
        let again = (configured.mutating.iter().zip(&changed_after))
            .any(|(h, changed)| *changed && h.spec["reinvocationPolicy"] == "IfNeeded");
        if !changed || !again {
            break;
        }
    }
    Ok(obj)
}

/// The object with the response's patch, pruned and defaulted again. The patch is against the version the hook
/// was shown.
async fn patched(
    call: &Call,
    hook: &Hook,
    obj: &Value,
    old: Option<&Value>,
    allowed: &Allowed,
) -> Result<Option<Value>, Status> {
    let response = &allowed.response;
    let Some(patch) = response["patch"].as_str().filter(|p| !p.is_empty()) else { return Ok(None) };
    let fail =
        |e: String| Status::internal(format!("admission webhook {:?} returned a bad patch: {e}", hook.name));
    if response["patchType"].as_str().is_some_and(|t| t != "JSONPatch") {
        return Err(fail(format!("patchType {}", response["patchType"])));
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|e| fail(e.to_string()))?;
    let ops: Value = serde_json::from_slice(&bytes).map_err(|e| fail(e.to_string()))?;
    let shown = match &allowed.shown {
        Some(other) => converted(call, &call.res, &other.api_version, obj.clone()).await?,
        None => obj.clone(),
    };
    let kind = (shown["kind"].clone(), shown["apiVersion"].clone());
    let mut new = ek_apply::json::json_patch(shown, &ops).map_err(|e| fail(e.to_string()))?;
    if (&new["kind"], &new["apiVersion"]) != (&kind.0, &kind.1) {
        return Err(fail("it changes kind or apiVersion".into()));
    }
    let res = allowed.shown.as_ref().unwrap_or(&call.res);
    if let Some(node) = res.node() {
        ek_schema::prune::prune(&mut new, node, res.is_custom());
    }
    if allowed.shown.is_some() {
        new = converted(call, &call.res, &call.res.api_version, new).await?;
    }
    call.prepare(&mut new, old);
    Ok(Some(new))
}

async fn converted(call: &Call, res: &Resource, api_version: &str, obj: Value) -> Result<Value, Status> {
    let mut all = call.cluster.to_version(res, api_version, vec![obj]).await?;
    all.pop().ok_or_else(|| Status::internal("conversion returned no object"))
}

/// Shows a deletion to the mutating hooks: there is nothing to change, but they may refuse.
pub async fn announce_deletion(a: &Attempt<'_>) -> Result<(), Status> {
    let configured = a.call.cluster.webhook_configuration();
    if exempt(a.call) {
        return Ok(());
    }
    for hook in &configured.mutating {
        call_hook(hook, a).await?;
    }
    Ok(())
}

pub async fn validate(a: &Attempt<'_>) -> Result<(), Status> {
    let configured = a.call.cluster.webhook_configuration();
    if configured.validating.is_empty() || exempt(a.call) {
        return Ok(());
    }
    let results = join_all(configured.validating.iter().map(|h| call_hook(h, a))).await;
    results.into_iter().collect::<Result<Vec<_>, _>>().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_asks_no_hook_with_effects() {
        for fine in ["None", "NoneOnDryRun"] {
            assert!(without_effects("h", &json!(fine)).is_ok());
        }
        for other in [json!("Some"), json!("Unknown"), Value::Null] {
            let s = without_effects("h", &other).unwrap_err();
            assert_eq!(
                (s.code, s.message.as_str()),
                (400, "admission webhook \"h\" does not support dry run")
            );
        }
    }
}
