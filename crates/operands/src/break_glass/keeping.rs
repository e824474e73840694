//! Keeps authorities, bundles and client certificates, and takes revocations a step further.

use super::plan::{Data, Kind, Plan, Seen, Write, plan};
use super::revocation::{Facts, Heard, Question, Revocation, question, status};
use super::{CLIENTS, CONFIG_MAP, Class, PLANE, REVOCATION, SECRET, Setup, TOTAL};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use pki::{Leaf, Private};
use reconcile::{Applier, Controller, Failure, Kinds, Ledger, Outcome, own};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const MANAGER: &str = "control-plane-pki-operator";
/// Where the API servers are, from here.
const KUBECONFIG: &str = "service-network-admin-kubeconfig";
/// How soon API servers are asked again: they tell nobody that they have read a file.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {what}")]
    Read { what: String, source: Box<kube::Error> },
    #[error("cannot write {kind:?} {name}")]
    Write { kind: Kind, name: String, source: Box<kube::Error> },
}

pub struct Keeper {
    setup: Arc<Setup>,
    applier: Applier,
}

/// Everything of a pass.
struct Observed {
    seen: Seen,
    /// Versions of what was read, so that nobody else's change is undone.
    versions: BTreeMap<(Kind, String), String>,
    requests: Vec<DynamicObject>,
}

impl Keeper {
    pub fn new(setup: Arc<Setup>) -> Keeper {
        let kinds = Kinds::builtin().with([REVOCATION]);
        let ledger = Ledger::new(MANAGER, &setup.random);
        let applier = Applier::new(setup.management.clone(), Arc::new(kinds), ledger);
        Keeper { applier, setup }
    }
}

impl Controller for Keeper {
    fn name(&self) -> &'static str {
        "break-glass-authorities"
    }

    fn reconcile<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run())
    }
}

impl Setup {
    async fn get(&self, kind: &reconcile::Kind, name: &str) -> Result<Option<DynamicObject>, Failure> {
        let failed = |e| Error::Read { what: format!("{} {name}", kind.kind), source: Box::new(e) };
        Ok(kind.api(&self.management, &self.namespace).get_opt(name).await.map_err(failed)?)
    }

    /// What is stored under these names.
    pub(super) async fn read(
        &self,
        seen: &mut Seen,
        kind: Kind,
        name: &str,
    ) -> Result<Option<String>, Failure> {
        let of = if kind == Kind::Secret { &SECRET } else { &CONFIG_MAP };
        let Some(o) = self.get(of, name).await? else { return Ok(None) };
        let text = |v: &Value| {
            let text = v.as_str().unwrap_or_default();
            match kind {
                Kind::Secret => {
                    String::from_utf8(STANDARD.decode(text).unwrap_or_default()).unwrap_or_default()
                }
                Kind::ConfigMap => text.to_owned(),
            }
        };
        let data = o.data["data"].as_object().into_iter().flatten();
        let data: Data = data.map(|(k, v)| (k.clone(), Private::new(text(v)))).collect();
        seen.objects.insert((kind, name.to_owned()), data);
        Ok(o.metadata.resource_version)
    }

    pub(super) async fn revocations(&self) -> Result<Vec<DynamicObject>, Failure> {
        let failed = |e| Error::Read { what: "revocations".to_owned(), source: Box::new(e) };
        let api = REVOCATION.api(&self.management, &self.namespace);
        Ok(api.list(&ListParams::default()).await.map_err(failed)?.items)
    }
}

impl Keeper {
    async fn run(&self) -> Result<Outcome, Failure> {
        let setup = &*self.setup;
        let plane = setup.get(&PLANE, &setup.name).await?;
        let Some(plane) = plane.filter(|p| p.metadata.deletion_timestamp.is_none()) else {
            return Ok(Outcome::Done);
        };
        let Observed { seen, versions, requests } = self.observe().await?;
        let now = setup.clock.now();
        let planned: Plan = plan(&seen, &setup.namespace, setup.lives, now, &setup.random)?;
        for write in &planned.writes {
            let owner = write.of.as_ref().and_then(|of| {
                requests.iter().find(|r| r.metadata.name.as_ref() == Some(of)).map(|r| (REVOCATION, r))
            });
            let owner = owner.unwrap_or((PLANE, &plane));
            let version = versions.get(&(write.kind, write.name.clone()));
            if !self.write(write, owner, version).await? {
                // Somebody was quicker: what is there now is another thing.
                return Ok(Outcome::After(SignedDuration::ZERO));
            }
        }
        let mut asking = false;
        for request in &requests {
            let r = Revocation::read(request);
            let asked = r.class.and_then(|class| {
                let facts = Facts::of(&seen, class, setup.lives, now);
                question(&seen, &r, &facts).map(|q| (class, q))
            });
            let heard = match &asked {
                Some((class, q)) => Some(self.ask(*class, q, &seen, now).await),
                None => None,
            };
            let answer = asked.as_ref().map(|(_, q)| q).zip(heard.as_ref());
            asking |= answer.is_some_and(|(q, h)| !q.satisfied(h));
            let at = REVOCATION.at(&setup.namespace, &r.name);
            let compute = |o: &DynamicObject| status(o, &seen, setup.lives, answer, now);
            if let reconcile::StatusWrite::Written(o) = self.applier.status(&at, request, compute).await? {
                (setup.say)(told(&o));
            }
        }
        if asking {
            return Ok(Outcome::After(ASK_AGAIN));
        }
        let left = planned.until.map(|at| at.duration_since(now).max(SignedDuration::from_secs(1)));
        Ok(left.map_or(Outcome::Done, Outcome::After))
    }

    async fn observe(&self) -> Result<Observed, Failure> {
        let setup = &*self.setup;
        let requests = setup.revocations().await?;
        let revocations: Vec<Revocation> = requests.iter().map(Revocation::read).collect();
        let mut names = vec![(Kind::ConfigMap, TOTAL.to_owned()), (Kind::ConfigMap, CLIENTS.to_owned())];
        for class in Class::ALL {
            names.push((Kind::Secret, class.signer().to_owned()));
            names.push((Kind::Secret, class.client().to_owned()));
            names.push((Kind::ConfigMap, class.bundle().to_owned()));
        }
        for r in revocations.iter().filter(|r| !r.done()) {
            names.push((Kind::Secret, r.copy()));
            names.push((Kind::Secret, KUBECONFIG.to_owned()));
        }
        let mut seen = Seen { revocations, ..Seen::default() };
        let mut versions = BTreeMap::new();
        for (kind, name) in names {
            if let Some(version) = setup.read(&mut seen, kind, &name).await? {
                versions.insert((kind, name), version);
            }
        }
        Ok(Observed { seen, versions, requests })
    }

    /// Asks with a certificate that is made for it and has no rights.
    async fn ask(&self, class: Class, q: &Question, seen: &Seen, now: Timestamp) -> Result<Heard, String> {
        let minutes = SignedDuration::from_mins(10);
        let leaf = Leaf::client(format!("{}probe", class.prefix()), "").living(minutes, minutes);
        let pair = q.authority().issue(&leaf, now).map_err(|e| reconcile::chain(&e).to_string())?;
        let kubeconfig = seen.text(Kind::Secret, KUBECONFIG, "kubeconfig");
        let kubeconfig = kubeconfig.ok_or_else(|| format!("there is no Secret {KUBECONFIG}"))?;
        self.setup.ask.believed(kubeconfig, &pair).await
    }

    /// Writes, unless it is not any more what was read; then says no.
    async fn write(
        &self,
        w: &Write,
        (kind, owner): (reconcile::Kind, &DynamicObject),
        version: Option<&String>,
    ) -> Result<bool, Failure> {
        let setup = &*self.setup;
        let mut object = object(w, &setup.namespace);
        own(&mut object, &kind, owner);
        let of = if w.kind == Kind::Secret { &SECRET } else { &CONFIG_MAP };
        let api = of.api(&setup.management, &setup.namespace);
        let sent = match version {
            // What two make at once only one has made.
            None => {
                let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                api.create(&params, &serde_json::from_value(object)?).await
            }
            Some(version) => {
                object["metadata"]["resourceVersion"] = json!(version);
                api.patch(&w.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await
            }
        };
        match sent {
            Ok(_) => {
                (setup.say)(format!("{:?} {}: {}", w.kind, w.name, w.why));
                Ok(true)
            }
            Err(kube::Error::Api(s)) if s.code == 409 || s.code == 404 => Ok(false),
            Err(e) => Err(Error::Write { kind: w.kind, name: w.name.clone(), source: Box::new(e) }.into()),
        }
    }
}

fn object(w: &Write, namespace: &str) -> Value {
    let map = |all: &[(&'static str, String)]| -> Map<String, Value> {
        all.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect()
    };
    let metadata = json!({"name": w.name, "namespace": namespace,
        "labels": map(&w.labels), "annotations": map(&w.annotations)});
    match w.kind {
        Kind::Secret => {
            let data: Map<String, Value> =
                w.data.iter().map(|(k, v)| (k.clone(), json!(STANDARD.encode(v.expose())))).collect();
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data})
        }
        Kind::ConfigMap => {
            let data: Map<String, Value> =
                w.data.iter().map(|(k, v)| (k.clone(), json!(v.expose()))).collect();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        }
    }
}

/// The newest condition of a revocation, for a log.
fn told(o: &DynamicObject) -> String {
    let name = o.metadata.name.as_deref().unwrap_or_default();
    let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
    let open = all.clone().find(|c| c["status"] != "True").or_else(|| all.last());
    let text = |key: &str| open.and_then(|c| c[key].as_str()).unwrap_or_default();
    format!("revocation {name}: {}={}: {}", text("type"), text("status"), text("message"))
}
