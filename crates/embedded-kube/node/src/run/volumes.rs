//! Volumes of pods whose programs really run: directories of ours, filled as the pod's spec says.

use super::files::{self, Payload};
use super::shelf::{self, Content, Put, Shelf};
use super::{Blocked, env};
use crate::stage::mix;
use crate::tables;
use ek_auth::User;
use ek_engine::ClusterId;
use ek_meta::{object, time};
use ek_server::Access;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where every container finds its account.
pub const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The volume behind it; no pod can name one so.
const ACCOUNT_VOLUME: &str = "kube-api-access.";
const ACCOUNT_SECONDS: i64 = 3607;

/// What a CSI driver is asked to mount.
pub struct CsiRequest {
    pub cluster: ClusterId,
    pub namespace: String,
    pub pod: String,
    pub pod_uid: String,
    pub service_account: String,
    pub attributes: BTreeMap<String, String>,
    /// An existing directory to fill.
    pub target: PathBuf,
    pub read_only: bool,
    /// All rights in the cluster, as the driver of a node has.
    pub client: kube::Client,
    pub now: Timestamp,
}

/// Fills volumes of type CSI.
pub trait CsiDriver: Send + Sync + 'static {
    /// Fills the target; again at the time returned, if any, and when the node looks after the pod anyway.
    fn publish(&self, request: CsiRequest) -> BoxFuture<'static, Result<Option<Timestamp>, String>>;
}

/// Drivers by name.
pub type CsiDrivers = HashMap<String, Arc<dyn CsiDriver>>;

struct Token {
    text: String,
    renew: Timestamp,
}

/// Where a container finds a volume.
pub(crate) struct Mount {
    pub at: String,
    /// On this machine.
    pub real: PathBuf,
    pub volume: String,
}

/// The volumes of one pod.
pub(crate) struct PodVolumes {
    pub dir: PathBuf,
    places: HashMap<String, PathBuf>,
    shelf: Arc<Shelf>,
    tokens: HashMap<(String, String), Token>,
    published: HashMap<String, Option<Timestamp>>,
    pub refresh: Option<Timestamp>,
    version: u64,
    /// What the files come from.
    sources: BTreeSet<(bool, String)>,
    /// Something in the pod itself is shown in files.
    reflects: bool,
    /// Revisions of the sources when all was last as it should be.
    settled: Option<Vec<Option<u64>>>,
}

pub(crate) struct VolumeWorld<'a> {
    pub access: &'a Access,
    pub pod: &'a Value,
    pub ips: (&'a str, &'a str),
    pub csi: &'a CsiDrivers,
    pub claims: &'a Path,
}

fn mount_error(volume: &str, why: impl std::fmt::Display) -> Blocked {
    Blocked {
        reason: "ContainerCreating",
        message: format!("MountVolume.SetUp failed for volume {volume:?} : {why}"),
    }
}

impl PodVolumes {
    pub(crate) fn new(dir: PathBuf, access: &Access, pod: &Value) -> PodVolumes {
        let volumes = || pod["spec"]["volumes"].as_array().into_iter().flatten();
        let inside = |v: &Value| v["projected"]["sources"].as_array().cloned().unwrap_or_default();
        let reflects = volumes().any(|v| v["downwardAPI"].is_object())
            || volumes().flat_map(inside).any(|s| s["downwardAPI"].is_object());
        PodVolumes {
            shelf: Arc::new(Shelf::new(dir.join("volumes"), access, object::namespace(pod))),
            dir,
            places: HashMap::new(),
            tokens: HashMap::new(),
            published: HashMap::new(),
            refresh: None,
            version: 0,
            sources: super::sources::of(pod),
            reflects,
            settled: None,
        }
    }

    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Which versions of its sources there are.
    fn look(&self, world: &VolumeWorld<'_>) -> Vec<Option<u64>> {
        let ns = object::namespace(world.pod);
        let table = |secret: bool| if secret { &tables::SECRETS } else { &tables::CONFIG_MAPS };
        let revision =
            |(secret, name): &(bool, String)| Some(world.access.entry(table(*secret), ns, name)?.revision);
        self.sources.iter().map(revision).collect()
    }

    /// Counts what was written.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Brings all volumes up to date; what has not changed is not written.
    pub(crate) async fn update(&mut self, world: &VolumeWorld<'_>) -> Result<(), Blocked> {
        let seen = self.look(world);
        let due = self.refresh.is_some_and(|at| at <= world.access.now());
        if self.settled.as_ref() == Some(&seen) && !self.reflects && !due {
            return Ok(());
        }
        (self.refresh, self.settled) = (None, None);
        for v in world.pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let name = v["name"].as_str().unwrap_or_default();
            let dir = self.volume(world, name, v).await?;
            self.places.insert(name.to_owned(), dir);
        }
        if world.pod["spec"]["automountServiceAccountToken"] != false {
            let sources = json!([
                {"serviceAccountToken": {"path": "token", "expirationSeconds": ACCOUNT_SECONDS}},
                {"configMap": {"name": "kube-root-ca.crt", "optional": true, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ]);
            let mut payload = self.projected(world, ACCOUNT_VOLUME, &sources).await?;
            payload.entry("ca.crt".into()).or_insert_with(|| world.access.ca_pem().into_bytes());
            let dir = self.write(ACCOUNT_VOLUME, payload, 0o644).await?;
            self.places.insert(ACCOUNT_VOLUME.into(), dir);
        }
        self.settled = Some(seen);
        Ok(())
    }

    async fn volume(&mut self, world: &VolumeWorld<'_>, name: &str, v: &Value) -> Result<PathBuf, Blocked> {
        let mode = |s: &Value| s["defaultMode"].as_u64().and_then(|m| u32::try_from(m).ok()).unwrap_or(0o644);
        for (field, secret) in [("secret", true), ("configMap", false)] {
            let source = &v[field];
            if !source.is_object() {
                continue;
            }
            let of = source[if secret { "secretName" } else { "name" }].as_str().unwrap_or_default();
            return self.source(world, name, (secret, of), source, mode(source)).await;
        }
        if v["projected"].is_object() {
            let payload = self.projected(world, name, &v["projected"]["sources"]).await?;
            return self.write(name, payload, mode(&v["projected"])).await;
        }
        if v["downwardAPI"].is_object() {
            let payload = downward(world, &v["downwardAPI"]);
            return self.write(name, payload, mode(&v["downwardAPI"])).await;
        }
        if let Some(claim) = v["persistentVolumeClaim"]["claimName"].as_str() {
            let ns = object::namespace(world.pod);
            let entry = world.access.entry(&tables::CLAIMS, ns, claim);
            let entry = entry
                .ok_or_else(|| mount_error(name, format!("persistentvolumeclaim {claim:?} not found")))?;
            return self.directory(name, world.claims.join(&*entry.meta.uid)).await;
        }
        if let Some(driver) = v["csi"]["driver"].as_str() {
            return self.csi(world, name, driver, &v["csi"]).await;
        }
        if v["hostPath"].is_object() {
            return Err(mount_error(name, "hostPath volumes are refused: this node has no host of its own"));
        }
        let others = v.as_object().into_iter().flatten().map(|(k, _)| k.as_str());
        match others.into_iter().find(|k| !matches!(*k, "name" | "emptyDir")) {
            Some(kind) => Err(mount_error(name, format!("volumes of type {kind} are not known here"))),
            None => {
                self.shelf.put(name, Content::Empty, 0, 0, 0);
                Ok(self.shelf.place(name))
            }
        }
    }

    /// A volume of one Secret or ConfigMap.
    async fn source(
        &mut self,
        world: &VolumeWorld<'_>,
        name: &str,
        (secret, of): (bool, &str),
        source: &Value,
        mode: u32,
    ) -> Result<PathBuf, Blocked> {
        let table = if secret { &tables::SECRETS } else { &tables::CONFIG_MAPS };
        let entry = world.access.entry(table, object::namespace(world.pod), of);
        let Some(entry) = entry else {
            let payload = self.keys(world, name, secret, of, source)?;
            return self.write(name, payload, mode).await;
        };
        if source["items"].is_array() {
            // Whether a key lacks is found by reading; the rest can wait until somebody wants the files.
            self.keys(world, name, secret, of, source)?;
        }
        let content = Content::Keys { secret, of: of.to_owned(), items: source["items"].clone() };
        let stamp = mix(entry.revision, &[of, &entry.meta.uid], i64::from(mode));
        match self.shelf.put(name, content, mode, self.version + 1, stamp) {
            Put::Same => {}
            Put::Noted => self.version += 1,
            Put::Write => {
                let payload = self.keys(world, name, secret, of, source)?;
                return self.write(name, payload, mode).await;
            }
        }
        Ok(self.shelf.place(name))
    }

    async fn directory(&self, name: &str, dir: PathBuf) -> Result<PathBuf, Blocked> {
        let made = dir.clone();
        let result = tokio::task::spawn_blocking(move || std::fs::create_dir_all(made)).await;
        match result {
            Ok(Ok(())) => Ok(dir),
            Ok(Err(e)) => Err(mount_error(name, e)),
            Err(e) => Err(mount_error(name, e)),
        }
    }

    /// Keys of a Secret or ConfigMap as files.
    fn keys(
        &mut self,
        world: &VolumeWorld<'_>,
        volume: &str,
        secret: bool,
        of: &str,
        source: &Value,
    ) -> Result<Payload, Blocked> {
        let ns = object::namespace(world.pod);
        let optional = source["optional"] == true;
        let what = if secret { "secret" } else { "configmap" };
        let Some(data) = env::data(world.access, secret, ns, of) else {
            return if optional {
                Ok(Payload::new())
            } else {
                Err(mount_error(volume, format!("{what} {of:?} not found")))
            };
        };
        let items = source["items"].as_array().into_iter().flatten();
        let mut wanted = items.map(|item| item["key"].as_str().unwrap_or_default());
        if let Some(key) = wanted.find(|key| !optional && !data.contains_key(*key)) {
            return Err(mount_error(volume, format!("references non-existent {what} key: {key}")));
        }
        Ok(shelf::chosen(data, &source["items"]))
    }

    async fn projected(
        &mut self,
        world: &VolumeWorld<'_>,
        volume: &str,
        sources: &Value,
    ) -> Result<Payload, Blocked> {
        let mut payload = Payload::new();
        for s in sources.as_array().into_iter().flatten() {
            for (field, secret) in [("secret", true), ("configMap", false)] {
                if let Some(of) = s[field]["name"].as_str() {
                    payload.extend(self.keys(world, volume, secret, of, &s[field])?);
                }
            }
            if s["downwardAPI"].is_object() {
                payload.extend(downward(world, &s["downwardAPI"]));
            }
            if s["serviceAccountToken"].is_object() {
                let path = s["serviceAccountToken"]["path"].as_str().unwrap_or("token");
                let token = self.token(world, volume, path, &s["serviceAccountToken"]).await?;
                payload.insert(path.to_owned(), token.into_bytes());
            }
        }
        Ok(payload)
    }

    /// The token, a new one when the old one has lived for four fifths of its time.
    async fn token(
        &mut self,
        world: &VolumeWorld<'_>,
        volume: &str,
        path: &str,
        source: &Value,
    ) -> Result<String, Blocked> {
        let now = world.access.now();
        let key = (volume.to_owned(), path.to_owned());
        if self.tokens.get(&key).is_none_or(|t| t.renew <= now) {
            let token = mint(world, source)
                .await
                .map_err(|e| mount_error(volume, format!("failed to fetch token: {e}")))?;
            self.tokens.insert(key.clone(), token);
        }
        let Some(token) = self.tokens.get(&key) else { return Ok(String::new()) };
        self.refresh = Some(self.refresh.map_or(token.renew, |r| r.min(token.renew)));
        Ok(token.text.clone())
    }

    async fn csi(
        &mut self,
        world: &VolumeWorld<'_>,
        name: &str,
        driver: &str,
        source: &Value,
    ) -> Result<PathBuf, Blocked> {
        let target = self.directory(name, self.dir.join("volumes").join(name)).await?;
        let now = world.access.now();
        let fresh = match self.published.get(name) {
            None => true,
            Some(at) => at.is_some_and(|at| at <= now),
        };
        if fresh {
            let missing = || {
                mount_error(
                    name,
                    format!("driver name {driver} not found in the list of registered CSI drivers"),
                )
            };
            let plugin = world.csi.get(driver).ok_or_else(missing)?.clone();
            let attributes = source["volumeAttributes"].as_object().into_iter().flatten();
            let request = CsiRequest {
                cluster: world.access.id().clone(),
                namespace: object::namespace(world.pod).to_owned(),
                pod: object::name(world.pod).to_owned(),
                pod_uid: object::uid(world.pod).to_owned(),
                service_account: account(world.pod).to_owned(),
                attributes: attributes
                    .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                    .collect(),
                target: target.clone(),
                read_only: source["readOnly"] == true,
                client: world.access.client_as(User::loopback()),
                now,
            };
            let again = plugin.publish(request).await.map_err(|e| mount_error(name, e))?;
            self.published.insert(name.to_owned(), again);
        }
        if let Some(Some(at)) = self.published.get(name) {
            self.refresh = Some(self.refresh.map_or(*at, |r| r.min(*at)));
        }
        Ok(target)
    }

    async fn write(&mut self, name: &str, payload: Payload, mode: u32) -> Result<PathBuf, Blocked> {
        let dir = self.shelf.place(name);
        let sum = shelf::sum(&payload, mode);
        if self.shelf.holds(name, sum) {
            return Ok(dir);
        }
        match self.shelf.put(name, Content::Files(payload.clone()), mode, self.version + 1, sum) {
            Put::Same => return Ok(dir),
            Put::Noted => {
                self.version += 1;
                return Ok(dir);
            }
            Put::Write => {}
        }
        self.version += 1;
        let (to, version) = (dir.clone(), self.version.to_string());
        let done = tokio::task::spawn_blocking(move || files::write(&to, &payload, &version, mode)).await;
        match done {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(mount_error(name, e)),
            Err(e) => return Err(mount_error(name, e)),
        }
        self.shelf.laid(name, sum);
        Ok(dir)
    }

    /// The longest path first.
    pub(crate) fn mounts(&self, container: &Value, env: &env::Env) -> Result<Vec<Mount>, Blocked> {
        let mut list = Vec::new();
        for m in container["volumeMounts"].as_array().into_iter().flatten() {
            let name = m["name"].as_str().unwrap_or_default();
            let at = m["mountPath"].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
            let mut real =
                self.places.get(name).cloned().ok_or_else(|| mount_error(name, "no such volume"))?;
            let sub = match m["subPathExpr"].as_str() {
                Some(e) => env::expand(e, env),
                None => m["subPath"].as_str().unwrap_or_default().to_owned(),
            };
            if sub.split('/').any(|p| p == "..") {
                return Err(mount_error(name, format!("subPath {sub:?} must not leave the volume")));
            }
            if !sub.is_empty() {
                self.shelf.open(name).map_err(|e| mount_error(name, e))?;
                real = real.join(sub);
                if !real.exists() {
                    std::fs::create_dir_all(&real).map_err(|e| mount_error(name, e))?;
                }
            }
            list.push(Mount { at, real, volume: name.to_owned() });
        }
        if let Some(dir) = self.places.get(ACCOUNT_VOLUME)
            && !list.iter().any(|m| m.at == ACCOUNT)
        {
            let volume = ACCOUNT_VOLUME.to_owned();
            list.push(Mount { at: ACCOUNT.to_owned(), real: dir.clone(), volume });
        }
        list.sort_by_key(|m| std::cmp::Reverse(m.at.len()));
        Ok(list)
    }
}

pub(crate) fn account(pod: &Value) -> &str {
    pod["spec"]["serviceAccountName"].as_str().filter(|s| !s.is_empty()).unwrap_or("default")
}

fn downward(world: &VolumeWorld<'_>, source: &Value) -> Payload {
    let items = source["items"].as_array().into_iter().flatten();
    items
        .map(|item| {
            let text = match item["fieldRef"]["fieldPath"].as_str() {
                Some(f) => env::field(world.pod, f, world.ips),
                None => {
                    let r = &item["resourceFieldRef"];
                    env::resource(world.pod, &Value::Null, r, r["resource"].as_str().unwrap_or_default())
                }
            };
            (item["path"].as_str().unwrap_or_default().to_owned(), text.into_bytes())
        })
        .collect()
}

/// Asks for a token the way every kubelet does.
async fn mint(world: &VolumeWorld<'_>, source: &Value) -> Result<Token, String> {
    let pod = world.pod;
    let (ns, name) = (object::namespace(pod), account(pod));
    let seconds = source["expirationSeconds"].as_i64().unwrap_or(3600);
    let audiences: Vec<&str> = source["audience"].as_str().into_iter().filter(|a| !a.is_empty()).collect();
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": audiences, "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": object::name(pod), "uid": object::uid(pod)}},
    });
    let request = http::Request::post(format!("/api/v1/namespaces/{ns}/serviceaccounts/{name}/token"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|e| e.to_string())?;
    let client = world.access.client_as(User::loopback());
    let answer: Value = client.request(request).await.map_err(|e| e.to_string())?;
    let text = answer["status"]["token"].as_str().ok_or("the answer has no token")?.to_owned();
    let now = world.access.now();
    let expires = answer["status"]["expirationTimestamp"].as_str().and_then(time::parse).unwrap_or(now);
    let life = expires.duration_since(now);
    let renew = now.checked_add(SignedDuration::from_secs(life.as_secs() * 4 / 5)).unwrap_or(now);
    Ok(Token { text, renew })
}
