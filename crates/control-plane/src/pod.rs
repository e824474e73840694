//! Changing a pod template without losing one's way in it.

use serde_json::{Map, Value, json};

/// The pod template of a workload.
pub struct Pod<'a> {
    template: &'a mut Map<String, Value>,
}

fn map_in<'a>(of: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = of.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    match slot {
        Value::Object(m) => m,
        _ => unreachable!("it was just made an object"),
    }
}

fn list_in<'a>(of: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let slot = of.entry(key).or_insert_with(|| json!([]));
    if !slot.is_array() {
        *slot = json!([]);
    }
    match slot {
        Value::Array(l) => l,
        _ => unreachable!("it was just made a list"),
    }
}

impl<'a> Pod<'a> {
    /// Of a Deployment, StatefulSet, Job or CronJob.
    pub fn of(workload: &'a mut Value) -> Option<Pod<'a>> {
        let at = match workload["kind"].as_str()? {
            "CronJob" => "/spec/jobTemplate/spec/template",
            _ => "/spec/template",
        };
        let template = workload.pointer_mut(at)?.as_object_mut()?;
        Some(Pod { template })
    }

    pub fn spec(&mut self) -> &mut Map<String, Value> {
        map_in(self.template, "spec")
    }

    fn metadata(&mut self, key: &str) -> &mut Map<String, Value> {
        map_in(map_in(self.template, "metadata"), key)
    }

    pub fn label(&mut self, key: &str, value: &str) {
        self.metadata("labels").insert(key.into(), json!(value));
    }

    pub fn annotate(&mut self, key: &str, value: &str) {
        self.metadata("annotations").insert(key.into(), json!(value));
    }

    /// A container by name, initial ones included.
    pub fn container(&mut self, name: &str) -> Option<Container<'_>> {
        let spec = self.spec();
        let list = ["containers", "initContainers"].into_iter().find(|l| {
            spec.get(*l).and_then(Value::as_array).is_some_and(|l| l.iter().any(|c| c["name"] == name))
        })?;
        let found = spec.get_mut(list)?.as_array_mut()?.iter_mut().find(|c| c["name"] == name)?;
        found.as_object_mut().map(Container)
    }

    /// The first container, which is what the component is about.
    pub fn main(&mut self) -> Option<Container<'_>> {
        self.spec().get_mut("containers")?.get_mut(0)?.as_object_mut().map(Container)
    }

    /// All containers, initial ones last.
    pub fn containers(&mut self) -> Vec<&mut Map<String, Value>> {
        let spec = self.spec();
        let mut all = Vec::new();
        for (key, list) in spec.iter_mut() {
            if matches!(key.as_str(), "containers" | "initContainers") {
                all.extend(list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut));
            }
        }
        all
    }

    pub fn add_container(&mut self, container: Value) {
        list_in(self.spec(), "containers").push(container);
    }

    /// Before all other initial containers if `first`.
    pub fn add_init(&mut self, container: Value, first: bool) {
        let list = list_in(self.spec(), "initContainers");
        if first { list.insert(0, container) } else { list.push(container) }
    }

    pub fn remove_container(&mut self, name: &str) {
        for list in ["containers", "initContainers"] {
            if let Some(l) = self.spec().get_mut(list).and_then(Value::as_array_mut) {
                l.retain(|c| c["name"] != name);
            }
        }
    }

    /// Adds a volume unless there is one of that name.
    pub fn volume(&mut self, volume: Value) {
        let list = list_in(self.spec(), "volumes");
        if !list.iter().any(|v| v["name"] == volume["name"]) {
            list.push(volume);
        }
    }

    /// Puts another in the place of the volume of that name.
    pub fn replace_volume(&mut self, volume: Value) {
        let list = list_in(self.spec(), "volumes");
        if let Some(there) = list.iter_mut().find(|v| v["name"] == volume["name"]) {
            *there = volume;
        }
    }

    pub fn remove_volume(&mut self, name: &str) {
        if let Some(l) = self.spec().get_mut("volumes").and_then(Value::as_array_mut) {
            l.retain(|v| v["name"] != name);
        }
        for c in self.containers() {
            if let Some(l) = c.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                l.retain(|m| m["name"] != name);
            }
        }
    }

    /// The volume that shows a Secret; one is added if there is none.
    pub fn secret_volume(&mut self, secret: &str, name: &str) -> String {
        let list = list_in(self.spec(), "volumes");
        let there =
            list.iter().find(|v| v["secret"]["secretName"] == secret).and_then(|v| v["name"].as_str());
        if let Some(there) = there {
            return there.to_owned();
        }
        list.push(json!({"name": name, "secret": {"secretName": secret}}));
        name.to_owned()
    }
}

/// One container.
pub struct Container<'a>(&'a mut Map<String, Value>);

impl Container<'_> {
    pub fn name(&self) -> String {
        self.0.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub fn args(&mut self, more: impl IntoIterator<Item = String>) -> &mut Self {
        list_in(self.0, "args").extend(more.into_iter().map(Value::String));
        self
    }

    pub fn command(&mut self) -> &mut Vec<Value> {
        list_in(self.0, "command")
    }

    /// Sets a variable, replacing one of that name.
    pub fn env(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        let list = list_in(self.0, "env");
        list.retain(|e| e["name"] != name);
        list.push(json!({"name": name, "value": value.into()}));
        self
    }

    pub fn mount(&mut self, volume: &str, path: &str) -> &mut Self {
        let list = list_in(self.0, "volumeMounts");
        list.retain(|m| m["mountPath"] != path);
        list.push(json!({"name": volume, "mountPath": path}));
        self
    }

    /// Moves a port, by its name.
    pub fn port(&mut self, name: &str, number: u16) -> &mut Self {
        for port in list_in(self.0, "ports").iter_mut().filter(|p| p["name"] == name) {
            port["containerPort"] = json!(number);
        }
        self
    }

    pub fn set(&mut self, key: &str, value: Value) -> &mut Self {
        self.0.insert(key.into(), value);
        self
    }
}
