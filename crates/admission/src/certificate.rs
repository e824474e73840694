//! The certificate: one Secret for all replicas, made by whoever comes first, and its authority in the configurations.
//!
//! Replicas do this whether they lead or not: each serves, so each must know the certificate. Two that make one at the same
//! time are told apart by the API server, and the later one takes what is there.

use crate::server::Desk;
use crate::{CONFIGURATION, SECRET, SERVICE};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use pki::{Authority, Bundle, KeyKind, Leaf, Pair, Verdict};
use reconcile::{Controller, Failure, Kind, Options, Outcome, Runtime, View, Watch};
use serde_json::{Value, json};
use std::sync::Arc;

/// Who writes.
const MANAGER: &str = "hypershift-operator-webhooks";
/// There is one certificate.
const KEY: &str = "certificate";
const SECRETS: Kind = Kind::of::<Secret>();
const CONFIGURATIONS: [Kind; 2] = [
    Kind::of_cluster::<MutatingWebhookConfiguration>(),
    Kind::of_cluster::<ValidatingWebhookConfiguration>(),
];
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
/// No timer is set for later: certificates are looked at once a day.
const LOOK: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make the certificate of the webhooks")]
    Make(#[from] pki::Error),
    #[error("cannot write Secret {SECRET} with the certificate of the webhooks")]
    Write(#[source] Box<kube::Error>),
    #[error("cannot write the authority into {kind} {CONFIGURATION}")]
    Tell { kind: String, source: Box<kube::Error> },
    #[error("the certificate in Secret {SECRET} cannot be served with")]
    Serve(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a Secret holds, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub cert: String,
    pub key: String,
    /// The authority first, and after it those that were.
    pub trusted: String,
    pub authority_key: String,
}

const FIELDS: [&str; 4] = ["tls.crt", "tls.key", "ca.crt", "ca.key"];

impl Stored {
    fn read(secret: &DynamicObject) -> Stored {
        let [cert, key, trusted, authority_key] = FIELDS.map(|name| {
            let text = secret.data["data"][name].as_str().unwrap_or_default();
            STANDARD.decode(text).ok().and_then(|b| String::from_utf8(b).ok()).unwrap_or_default()
        });
        Stored { cert, key, trusted, authority_key }
    }

    fn write(&self, namespace: &str, version: Option<&str>) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": SECRET, "namespace": namespace}});
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        let texts = [&self.cert, &self.key, &self.trusted, &self.authority_key];
        for (name, text) in FIELDS.into_iter().zip(texts) {
            object["data"][name] = json!(STANDARD.encode(text));
        }
        object
    }

    fn pair(&self) -> Pair {
        Pair::new(&self.cert, &self.key)
    }

    /// The authority, unless it is none or ends within a year.
    fn authority(&self, now: Timestamp) -> Option<Authority> {
        let own = Authority::from_pair(Pair::new(&self.trusted, &self.authority_key)).ok()?;
        let end = own.facts().ok()?.not_after;
        (end.duration_since(now) > YEAR).then_some(own)
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It will do until then.
    Keep(Timestamp),
    Write(Stored),
}

/// Names under which the API server comes.
fn leaf(namespace: &str) -> Leaf {
    let full = format!("{SERVICE}.{namespace}.svc");
    let names =
        [SERVICE.to_owned(), format!("{SERVICE}.{namespace}"), format!("{full}.cluster.local"), full.clone()];
    Leaf::server(full, names)
}

/// Looks at what there is. An authority that ends is followed by another, and both are trusted.
pub fn plan(stored: Option<&Stored>, namespace: &str, now: Timestamp) -> Result<Plan, pki::Error> {
    let leaf = leaf(namespace);
    let known = stored.and_then(|s| s.authority(now));
    let authority = match &known {
        Some(a) => a.clone(),
        None => Authority::generate("hypershift-webhooks", "zaffre", KeyKind::P256, now, YEAR * 10)?,
    };
    let pair = stored.map(Stored::pair);
    if let Verdict::Keep { until } = leaf.assess(pair.as_ref(), &authority, now) {
        return Ok(Plan::Keep(until));
    }
    let pair = authority.issue(&leaf, now)?;
    let before = stored.map(|s| s.trusted.as_str()).unwrap_or_default();
    Ok(Plan::Write(Stored {
        cert: pair.cert,
        key: pair.key.expose().to_owned(),
        trusted: Bundle::new().with(authority.cert()).with(before).pem(),
        authority_key: authority.pair().key.expose().to_owned(),
    }))
}

/// The patch that tells a configuration whom to trust; nothing if it knows.
pub fn tell(configuration: &Value, namespace: &str, trusted: &str) -> Vec<Value> {
    let trusted = STANDARD.encode(trusted);
    let mut out = Vec::new();
    for (i, hook) in configuration["webhooks"].as_array().into_iter().flatten().enumerate() {
        let config = &hook["clientConfig"];
        let ours = config["service"]["name"] == SERVICE && config["service"]["namespace"] == namespace;
        if ours && config["caBundle"] != trusted.as_str() {
            // Somebody may add or remove one meanwhile: only the one that was looked at is changed.
            out.push(json!({"op": "test", "path": format!("/webhooks/{i}/name"), "value": hook["name"]}));
            out.push(json!({"op": "add", "path": format!("/webhooks/{i}/clientConfig/caBundle"), "value": trusted}));
        }
    }
    out
}

/// What it works with.
pub struct Setup {
    pub client: Client,
    /// The operator's.
    pub namespace: String,
    pub clock: SharedClock,
    pub desk: Arc<Desk>,
}

/// See the module.
pub struct Keeper {
    setup: Setup,
    secrets: Arc<View<DynamicObject>>,
    configurations: [Arc<View<DynamicObject>>; 2],
}

/// Sets it up in a runtime.
pub fn start(runtime: &mut Runtime, setup: Setup) {
    let (client, namespace) = (setup.client.clone(), setup.namespace.clone());
    let (secrets, configurations) = (View::whole(), [View::whole(), View::whole()]);
    let keeper = Keeper { setup, secrets: secrets.clone(), configurations: configurations.clone() };
    let handle = runtime.controller(Arc::new(keeper), Options { workers: 1, ..Options::default() });
    let mut follow = |watch: Watch, view: Arc<View<DynamicObject>>| {
        runtime.watch(watch.into_sink(view).wakes(handle.keys(|_, keys| keys.push(KEY))));
    };
    follow(Watch::whole(&client, &SECRETS).namespace(namespace).name(SECRET), secrets);
    for (kind, view) in CONFIGURATIONS.iter().zip(configurations) {
        follow(Watch::whole(&client, kind).name(CONFIGURATION), view);
    }
    // There may be nothing yet that would wake it.
    handle.poke(KEY);
}

impl Controller for Keeper {
    fn name(&self) -> &'static str {
        "webhook-certificate"
    }

    fn reconcile<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move { Ok(self.run().await?) })
    }
}

impl Keeper {
    async fn run(&self) -> Result<Outcome, Error> {
        let Setup { namespace, clock, desk, .. } = &self.setup;
        let (seen, now) = (self.secrets.get(namespace, SECRET), clock.now());
        let stored = seen.as_ref().map(|s| Stored::read(s));
        let until = match (plan(stored.as_ref(), namespace, now)?, stored) {
            (Plan::Keep(until), Some(stored)) => {
                desk.certify(&stored.pair()).map_err(Error::Serve)?;
                self.tell(&stored.trusted).await?;
                desk.open();
                until
            }
            (Plan::Keep(_), None) => return Ok(Outcome::Done),
            (Plan::Write(new), _) => {
                self.write(&new, seen.as_deref()).await?;
                // The watch tells what came of it, ours or another's.
                return Ok(Outcome::Done);
            }
        };
        Ok(Outcome::After(until.duration_since(now).min(LOOK)))
    }

    async fn write(&self, new: &Stored, seen: Option<&DynamicObject>) -> Result<(), Error> {
        let Setup { client, namespace, .. } = &self.setup;
        let version = seen.and_then(|s| s.metadata.resource_version.as_deref());
        let object = serde_json::from_value(new.write(namespace, version));
        let object: DynamicObject = object.map_err(|e| Error::Write(Box::new(kube::Error::SerdeError(e))))?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let api = SECRETS.api(client, namespace);
        let written = match version {
            Some(_) => api.replace(SECRET, &params, &object).await,
            None => api.create(&params, &object).await,
        };
        match written {
            Ok(_) => Ok(()),
            // Another replica was quicker. Theirs counts.
            Err(kube::Error::Api(s)) if s.code == 409 => Ok(()),
            Err(e) => Err(Error::Write(Box::new(e))),
        }
    }

    async fn tell(&self, trusted: &str) -> Result<(), Error> {
        for (kind, view) in CONFIGURATIONS.iter().zip(&self.configurations) {
            let Some(seen) = view.get("", CONFIGURATION) else { continue };
            let patch = tell(&seen.data, &self.setup.namespace, trusted);
            if patch.is_empty() {
                continue;
            }
            let failed = |source| Error::Tell { kind: kind.kind.to_string(), source: Box::new(source) };
            let patch = serde_json::from_value(Value::Array(patch))
                .map_err(|e| failed(kube::Error::SerdeError(e)))?;
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let api = kind.api(&self.setup.client, "");
            api.patch(CONFIGURATION, &params, &Patch::<Value>::Json(patch)).await.map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(plan: Plan) -> Stored {
        match plan {
            Plan::Write(s) => s,
            kept => panic!("{kept:?}"),
        }
    }

    #[test]
    fn it_is_made_kept_and_made_again_in_time() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let first = written(plan(None, "home", now).unwrap());
        let Plan::Keep(until) = plan(Some(&first), "home", now).unwrap() else { panic!("it was just made") };
        assert!(until > now && until < now + YEAR);
        // Its end comes near: the same authority issues another.
        let second = written(plan(Some(&first), "home", until).unwrap());
        assert_eq!((&second.trusted, &second.authority_key), (&first.trusted, &first.authority_key));
        assert_ne!(second.cert, first.cert);
        // So does the authority's: both are trusted.
        let late = now + YEAR * 9 + SignedDuration::from_hours(1);
        let third = written(plan(Some(&second), "home", late).unwrap());
        assert!(Bundle::new().with(&third.trusted).contains(&first.trusted));
        assert!(third.trusted != first.trusted && third.authority_key != first.authority_key);
        assert!(matches!(plan(Some(&third), "home", late).unwrap(), Plan::Keep(_)));
        // Another namespace has other names, and what somebody spoilt is mended.
        assert_ne!(written(plan(Some(&first), "away", now).unwrap()).cert, first.cert);
        let spoilt = Stored { authority_key: "?".into(), ..first };
        assert!(matches!(plan(Some(&spoilt), "home", now).unwrap(), Plan::Write(_)));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let stored = written(plan(None, "home", Timestamp::UNIX_EPOCH).unwrap());
        let object: DynamicObject = serde_json::from_value(stored.write("home", None)).unwrap();
        assert_eq!(Stored::read(&object), stored);
    }

    #[test]
    fn only_our_own_webhooks_are_told() {
        let service = |name: &str| json!({"service": {"name": name, "namespace": "home"}});
        let mut configuration = json!({"webhooks": [
            {"name": "theirs", "clientConfig": service("else")}, {"name": "ours", "clientConfig": service(SERVICE)}]});
        let patch = tell(&configuration, "home", "ca");
        assert_eq!(patch[0], json!({"op": "test", "path": "/webhooks/1/name", "value": "ours"}));
        assert_eq!((patch.len(), &patch[1]["path"]), (2, &json!("/webhooks/1/clientConfig/caBundle")));
        configuration["webhooks"][1]["clientConfig"]["caBundle"] = patch[1]["value"].clone();
        assert!(
            tell(&configuration, "home", "ca").is_empty() && tell(&configuration, "away", "ca").is_empty()
        );
    }
}
