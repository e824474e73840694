//! From facts to objects.

use crate::component::Component;
use crate::pod::Pod;
use crate::scope::Scope;
use crate::{Error, defaults, inject, monitoring, table, words};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What the Secrets and ConfigMaps that pods mount hold.
pub trait Materials {
    fn data(&self, kind: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>>;
}

/// A component's objects, the workload last: what it mounts is there before it starts.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub name: &'static str,
    pub objects: Vec<Value>,
    /// Kind and name of what its pods mount or its monitors follow: besides the facts, all that its objects depend on.
    pub mounts: Vec<(&'static str, String)>,
}

/// Renders every component that is wanted, in the order of the table.
pub fn render(scope: &Scope, materials: &dyn Materials) -> Result<Vec<Rendered>, Error> {
    table::all().iter().filter(|c| (c.when)(scope)).map(|c| one(scope, c, materials)).collect()
}

/// Renders one component.
pub fn one(scope: &Scope, component: &Component, materials: &dyn Materials) -> Result<Rendered, Error> {
    let mut objects = (component.config)(scope)?;
    let assets = assets(component)?;
    for object in &assets.objects {
        let mut object = object.clone();
        words::fill(scope, component.name, &mut object)?;
        objects.push(object);
    }
    let chosen = monitoring::choose(scope, component.name, &mut objects, materials);
    let mut workload = assets.workload.clone();
    words::fill(scope, component.name, &mut workload)?;
    {
        let mut pod = Pod::of(&mut workload).ok_or_else(|| missing(component, "a pod template"))?;
        (component.adapt)(scope, &mut pod)?;
        inject::inject(scope, component, &mut pod)?;
    }
    (component.shape)(scope, &mut workload);
    defaults::complete(scope, component, &mut workload)?;
    let mut mounts = Vec::new();
    if let Some(mut pod) = Pod::of(&mut workload) {
        let own = Own { objects: &objects, rest: materials };
        mounts = defaults::hash(&mut pod, &own);
    }
    mounts.extend(chosen);
    objects.push(workload);
    for object in &mut objects {
        belong(scope, component, object);
    }
    Ok(Rendered { name: component.name, objects, mounts })
}

/// Everything lies in the control plane's namespace and says whose it is.
fn belong(scope: &Scope, component: &Component, object: &mut Value) {
    object["metadata"]["namespace"] = json!(scope.namespace);
    object["metadata"]["labels"]["hypershift.openshift.io/control-plane-component"] = json!(component.name);
    // Monitors find Services by whose pods are behind them.
    if object["kind"] == "Service" && object["spec"]["selector"]["app"].is_string() {
        object["metadata"]["labels"]["app"] = object["spec"]["selector"]["app"].clone();
    }
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        subject["namespace"] = json!(scope.namespace);
    }
}

fn missing(component: &Component, what: &str) -> Error {
    Error::Manifest { component: component.name.to_owned(), what: what.to_owned() }
}

/// A component's manifests as documents.
pub(crate) struct Assets {
    pub objects: Vec<Value>,
    pub workload: Value,
}

impl Assets {
    fn parse(component: &Component) -> Result<Assets, Error> {
        let read = |text: &str| -> Result<Vec<Value>, Error> {
            let read: Result<Vec<Value>, _> = text.split("\n---\n").map(serde_saphyr::from_str).collect();
            read.map_err(|e| missing(component, &format!("YAML that can be read ({e})")))
        };
        let objects = component.objects.map(read).transpose()?.unwrap_or_default();
        Ok(Assets { objects, workload: read(component.workload)?.pop().unwrap_or(Value::Null) })
    }
}

/// Assets are part of the program: they are parsed once in its life. Components beyond the table (those that the
/// HostedCluster's operator writes) are rendered too.
pub(crate) fn assets(component: &Component) -> Result<Arc<Assets>, Error> {
    type Parsed = BTreeMap<(&'static str, usize), Result<Arc<Assets>, Error>>;
    static PARSED: RwLock<Parsed> = RwLock::new(BTreeMap::new());
    // Two that stand in each other's place have one name and other manifests, which are told apart by where they lie.
    let key = (component.name, component.workload.as_ptr().addr());
    let read = |known: &Parsed| known.get(&key).cloned();
    // A lock that somebody left in panic still holds a map that was complete before.
    if let Some(known) = read(&PARSED.read().unwrap_or_else(PoisonError::into_inner)) {
        return known;
    }
    let parsed = Assets::parse(component).map(Arc::new);
    PARSED.write().unwrap_or_else(PoisonError::into_inner).insert(key, parsed.clone());
    parsed
}

/// What the component itself brings counts before what is already there.
struct Own<'a> {
    objects: &'a [Value],
    rest: &'a dyn Materials,
}

impl Materials for Own<'_> {
    fn data(&self, kind: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let own = self.objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        let Some(own) = own else { return self.rest.data(kind, name) };
        let fields = ["data", "stringData"].into_iter().filter_map(|f| own[f].as_object()).flatten();
        Some(fields.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().as_bytes().to_vec())).collect())
    }
}
