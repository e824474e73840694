//! What is kept of the objects that are watched: a few words each, for there are many machines.

use super::capacity;
use super::machines::{Before, CARRIED_LABELS, Refs};
use apis::names::{annotation, token};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;
use std::fmt;

/// A text that is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl From<String> for Hidden {
    fn from(text: String) -> Hidden {
        Hidden(text)
    }
}

impl Hidden {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// A Secret that machines boot with; `token` only if it is one with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    pub name: String,
    pub pool: String,
    pub token: Option<Hidden>,
    pub expires: Option<Timestamp>,
    /// Somebody fetched with it.
    pub reached: bool,
    /// What the ignition server says of the payload.
    pub reason: String,
    pub message: String,
}

/// A condition of another's object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub status: String,
    /// Somebody has to do something.
    pub severe: bool,
    pub reason: String,
    pub message: String,
}

impl Word {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// A machine of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub pool: String,
    pub version: String,
    pub kubelet: String,
    /// Addresses in the machines' network.
    pub addresses: Vec<String>,
    pub ready: Option<Word>,
    pub healthy: Option<Word>,
    pub deleting: Option<Timestamp>,
}

/// A MachineDeployment, or a MachineSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub name: String,
    pub pool: String,
    /// A deployment's set; the pool's own has no owner.
    pub owned: bool,
    pub generation: i64,
    pub observed: i64,
    pub replicas: u32,
    pub data_secret: String,
    pub template: String,
    pub version: String,
    /// Replicas in all, of the current kind, ready, available.
    pub total: u32,
    pub updated: u32,
    pub ready: u32,
    pub available: u32,
    /// The same three as v1beta2 counts them, where it does.
    pub second: Option<[u32; 3]>,
    pub condition: Option<Word>,
    /// InPlace: what the guest's upgrader says.
    pub current: String,
    pub busy: String,
    pub stuck: String,
    /// What it says that its machines have.
    pub has: Before,
    pub paused: bool,
    pub deleting: bool,
}

impl Workload {
    /// What machines are told to be.
    pub fn refs(&self) -> Refs {
        Refs {
            data_secret: self.data_secret.clone(),
            template: self.template.clone(),
            version: self.version.clone(),
        }
    }
}

/// A MachineHealthCheck.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    pub pool: String,
    pub remediation: Option<Word>,
}

/// An AzureMachineTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub pool: String,
}

fn noted(o: &DynamicObject, key: &str) -> String {
    o.metadata.annotations.as_ref().and_then(|a| a.get(key)).cloned().unwrap_or_default()
}

fn pool(o: &DynamicObject) -> Option<String> {
    o.metadata.annotations.as_ref()?.get(annotation::NODE_POOL).cloned()
}

fn text(v: &Value) -> String {
    v.as_str().unwrap_or_default().to_owned()
}

fn word(status: &Value, kind: &str) -> Option<Word> {
    let c = status["conditions"].as_array()?.iter().find(|c| c["type"] == kind)?;
    Some(Word {
        status: text(&c["status"]),
        severe: c["severity"] == "Error",
        reason: text(&c["reason"]),
        message: text(&c["message"]),
    })
}

fn number(v: &Value) -> u32 {
    v.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

pub fn token(o: &DynamicObject) -> Option<Token> {
    let data = |key: &str| -> Option<String> {
        let bytes = STANDARD.decode(o.data["data"][key].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    let expires = noted(o, annotation::IGNITION_TOKEN_EXPIRATION);
    Some(Token {
        name: o.metadata.name.clone()?,
        pool: pool(o)?,
        token: data(token::TOKEN).map(Hidden),
        expires: expires.parse().ok(),
        reached: noted(o, annotation::IGNITION_REACHED).eq_ignore_ascii_case("true"),
        reason: data(token::REASON).unwrap_or_default(),
        message: data(token::MESSAGE).unwrap_or_default(),
    })
}

pub fn machine(o: &DynamicObject) -> Option<Machine> {
    let status = &o.data["status"];
    let addresses = status["addresses"].as_array().into_iter().flatten();
    Some(Machine {
        name: o.metadata.name.clone()?,
        pool: pool(o)?,
        version: text(&o.data["spec"]["version"]),
        kubelet: text(&status["nodeInfo"]["kubeletVersion"]),
        addresses: addresses.filter(|a| a["type"] == "InternalIP").map(|a| text(&a["address"])).collect(),
        ready: word(status, "Ready"),
        healthy: word(status, "NodeHealthy"),
        deleting: o.metadata.deletion_timestamp.as_ref().map(|t| t.0),
    })
}

fn has(o: &DynamicObject) -> Before {
    let said = |key: &'static str| Some((key, noted(o, key))).filter(|(_, v)| !v.is_empty());
    let size: Vec<_> =
        [capacity::CPUS, capacity::MEMORY, capacity::GPUS].into_iter().filter_map(said).collect();
    let labels = noted(o, CARRIED_LABELS);
    let arch = labels.split(',').find_map(|l| l.strip_prefix("kubernetes.io/arch=")).map(str::to_owned);
    Before { size, arch }
}

pub fn workload(o: &DynamicObject) -> Option<Workload> {
    let (spec, status) = (&o.data["spec"], &o.data["status"]);
    let template = &spec["template"]["spec"];
    let second = &status["v1beta2"];
    let counts = ["upToDateReplicas", "readyReplicas", "availableReplicas"];
    Some(Workload {
        name: o.metadata.name.clone()?,
        pool: pool(o)?,
        owned: o.metadata.owner_references.iter().flatten().any(|r| r.kind == "MachineDeployment"),
        generation: o.metadata.generation.unwrap_or(0),
        observed: status["observedGeneration"].as_i64().unwrap_or(0),
        replicas: if spec["replicas"].is_null() { 1 } else { number(&spec["replicas"]) },
        data_secret: text(&template["bootstrap"]["dataSecretName"]),
        template: text(&template["infrastructureRef"]["name"]),
        version: text(&template["version"]),
        total: number(&status["replicas"]),
        updated: number(&status["updatedReplicas"]),
        ready: number(&status["readyReplicas"]),
        available: number(&status["availableReplicas"]),
        second: counts.iter().all(|c| second[c].is_u64()).then(|| counts.map(|c| number(&second[c]))),
        condition: word(status, "Ready").or_else(|| word(status, "Available")),
        current: noted(o, annotation::NODE_POOL_CURRENT_CONFIG_VERSION),
        busy: noted(o, annotation::NODE_POOL_UPGRADE_IN_PROGRESS_TRUE),
        stuck: noted(o, annotation::NODE_POOL_UPGRADE_IN_PROGRESS_FALSE),
        has: has(o),
        paused: o.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::CAPI_PAUSED)),
        deleting: o.metadata.deletion_timestamp.is_some(),
    })
}

pub fn check(o: &DynamicObject) -> Option<Check> {
    Some(Check { pool: pool(o)?, remediation: word(&o.data["status"], "RemediationAllowed") })
}

pub fn template(o: &DynamicObject) -> Option<Template> {
    Some(Template { name: o.metadata.name.clone()?, pool: pool(o)? })
}
