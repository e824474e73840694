//! Snapshots of etcd: what is asked for, the Job that does it, and what became of it. Pure.
//!
//! An `HCPEtcdBackup` is one snapshot. At most one is taken at a time; whoever comes meanwhile is refused and may ask again,
//! because a queue of snapshots is of no use to anybody. A Job takes it with `etcdctl` and puts it away with our own
//! program; the place is known beforehand, so nothing has to be read out of pods.

use crate::component::Component;
use crate::operate::Rollout;
use crate::scope::{Identity, Scope, Who};
use crate::{Error, defaults, inject, table};
use apis::conditions::hosted_cluster as condition;
use apis::hypershift::etcd_backup::{AzureBlobStorage, HCPEtcdBackup};
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding, Status};
use serde_json::{Value, json};

/// Where the Job keeps the snapshot on its way.
pub const SNAPSHOT: &str = "/var/backup/snapshot.db";
/// How many of each outcome are kept.
pub const RETAINED: usize = 5;
/// The condition of an HCPEtcdBackup.
pub const COMPLETED: &str = "BackupCompleted";
const SUCCEEDED: &str = "BackupSucceeded";
const FAILED: &str = "BackupFailed";
const REJECTED: &str = "BackupRejected";
const IN_PROGRESS: &str = "BackupInProgress";

/// A snapshot that is asked for, or was.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub name: String,
    pub uid: String,
    pub created: Timestamp,
    pub storage: AzureBlobStorage,
    /// Status, reason and message of its condition, once it is over.
    pub over: Option<Finding>,
}

impl Asked {
    pub fn of(o: &DynamicObject) -> Option<Asked> {
        let backup: HCPEtcdBackup = serde_json::from_value(serde_json::to_value(o).ok()?).ok()?;
        let all = Conditions::of(o.data.get("status").unwrap_or(&Value::Null));
        let over = all.get(COMPLETED).filter(|c| [SUCCEEDED, FAILED, REJECTED].contains(&c.reason.as_str()));
        Some(Asked {
            name: backup.metadata.name?,
            uid: backup.metadata.uid.unwrap_or_default(),
            created: backup.metadata.creation_timestamp.map(|t| t.0).unwrap_or_default(),
            storage: backup.spec.storage.azure_blob?,
            over: over.map(|c| Finding::new(COMPLETED, c.status, &c.reason, c.message.clone())),
        })
    }

    /// A Job is one backup's own: whoever asks again under the same name gets another.
    pub fn job(&self) -> String {
        let mark = self.uid.get(..8).unwrap_or(&self.uid);
        let mut name = format!("etcd-backup-{}", self.name);
        name.truncate(54);
        format!("{}-{mark}", name.trim_end_matches(['-', '.'])).trim_end_matches('-').to_owned()
    }

    /// The blob's name: the cluster's, and in the order of time.
    pub fn blob(&self, scope: &Scope) -> String {
        let when = self.created.strftime("%Y%m%dT%H%M%SZ");
        let prefix = self.storage.key_prefix.as_deref().filter(|p| !p.is_empty());
        let prefix = prefix.map(|p| format!("{p}/")).unwrap_or_default();
        format!("{prefix}{}/{when}-{}.db", scope.namespace, self.name)
    }

    pub fn url(&self, scope: &Scope) -> String {
        let cloud = azure::Cloud::named(&scope.azure.cloud).unwrap_or_else(|_| azure::Cloud::public());
        let s = &self.storage;
        format!(
            "https://{}.blob.{}/{}/{}",
            s.storage_account,
            cloud.storage_suffix,
            s.container,
            self.blob(scope)
        )
    }
}

/// What is to be done and said of one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub name: String,
    pub finding: Finding,
    /// Where the snapshot is, once it is.
    pub url: Option<String>,
    /// Its Job is to be made.
    pub start: bool,
}

/// What to do about all that are asked for. `job` tells how a Job is, `trouble` what its pods say.
pub fn decide(
    scope: &Scope,
    asked: &[Asked],
    etcd_ready: bool,
    job: &dyn Fn(&str) -> Rollout,
    trouble: Option<&str>,
) -> Vec<Decision> {
    let mut open: Vec<&Asked> = asked.iter().filter(|a| a.over.is_none()).collect();
    open.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let decision = |a: &Asked, status: Status, reason: &str, message: String| Decision {
        name: a.name.clone(),
        finding: Finding::new(COMPLETED, status, reason, message),
        url: None,
        start: false,
    };
    let mut all = Vec::new();
    for (i, a) in open.iter().enumerate() {
        if i > 0 {
            let message = format!("{} is being taken: ask again when it is over", open[0].name);
            all.push(decision(a, Status::False, REJECTED, message));
            continue;
        }
        let state = job(&a.job());
        all.push(match (state.there, state.complete, state.failed) {
            (false, ..) if !etcd_ready => {
                decision(a, Status::False, IN_PROGRESS, "waiting for etcd to have a quorum".to_owned())
            }
            (false, ..) => Decision {
                start: true,
                ..decision(a, Status::False, IN_PROGRESS, format!("Job {} takes it", a.job()))
            },
            (true, true, _) => {
                let url = a.url(scope);
                let message = format!("the snapshot is at {url}");
                Decision { url: Some(url), ..decision(a, Status::True, SUCCEEDED, message) }
            }
            (true, false, true) => {
                let why = trouble.unwrap_or("see its log");
                decision(a, Status::False, FAILED, format!("Job {} failed: {why}", a.job()))
            }
            (true, false, false) => {
                let why = trouble.map(|t| format!(": {t}")).unwrap_or_default();
                decision(a, Status::False, IN_PROGRESS, format!("Job {} takes it{why}", a.job()))
            }
        });
    }
    all
}

/// What the control plane says of the newest that is over.
pub fn summary(asked: &[Asked]) -> Option<Finding> {
    let over = asked.iter().filter_map(|a| Some((a.created, a.over.as_ref()?)));
    let (_, last) = over.filter(|(_, f)| f.reason != REJECTED).max_by_key(|(t, _)| *t)?;
    Some(Finding::new(condition::ETCD_BACKUP_SUCCEEDED, last.status, &last.reason, last.message.clone()))
}

/// Names of those that are over and that nobody will ask about any more: the oldest beyond [`RETAINED`] of each outcome.
/// Snapshots stay where they were put; how long is a rule of the storage account.
pub fn expired(asked: &[Asked]) -> Vec<&str> {
    let mut names = Vec::new();
    for outcome in [SUCCEEDED, FAILED, REJECTED] {
        let mut these: Vec<&Asked> =
            asked.iter().filter(|a| a.over.as_ref().is_some_and(|f| f.reason == outcome)).collect();
        these.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        names.extend(these.into_iter().skip(RETAINED).map(|a| a.name.as_str()));
    }
    names
}

/// What its pod has in common with those of components.
static ROW: Component = Component { name: "etcd-backup", ..table::PLAIN };

/// The Job that takes a snapshot and puts it away.
pub fn job(scope: &Scope, asked: &Asked) -> Result<Vec<Value>, Error> {
    let s = &asked.storage;
    let mut upload = json!({
        "name": "upload", "image": "zaffre",
        "command": ["/usr/bin/zaffre", "serve", "etcd-backup"],
        "args": [
            format!("--file={SNAPSHOT}"),
            format!("--storage-account={}", s.storage_account),
            format!("--container={}", s.container),
            format!("--blob={}", asked.blob(scope)),
        ],
        "env": [{"name": "AZURE_ENVIRONMENT", "value": scope.azure.cloud}],
        "volumeMounts": [{"name": "backup", "mountPath": "/var/backup"}],
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
    });
    let mut volumes = vec![
        json!({"name": "backup", "emptyDir": {}}),
        json!({"name": "client-tls", "secret": {"secretName": "etcd-client-tls"}}),
        json!({"name": "etcd-ca", "configMap": {"name": "etcd-ca"}}),
    ];
    let mut objects = Vec::new();
    match (&s.credentials, &scope.identity) {
        (Some(secret), _) => upload["envFrom"] = json!([{"secretRef": {"name": secret.name}}]),
        (None, Identity::Managed { .. }) => {
            let file =
                scope.identity.secret(Who::ControlPlaneOperator).map(|s| s.name.clone()).unwrap_or_default();
            volumes.push(inject::vault_volume("cpo-cert", "managed-azure-cpo"));
            let mounts = upload["volumeMounts"].as_array_mut();
            mounts.into_iter().for_each(|m| {
                m.push(json!({"name": "cpo-cert", "mountPath": "/mnt/certs", "readOnly": true}))
            });
            let env = upload["env"].as_array_mut();
            env.into_iter().for_each(|e| {
                e.push(json!({"name": "ZAFFRE_AZURE_MSI_FILE", "value": format!("/mnt/certs/{file}")}))
            });
        }
        (None, Identity::Workload(_)) => {
            return Err(Error::Configuration {
                field: "spec.storage.azureBlob.credentials".into(),
                why: "a self-managed control plane has no identity of its own for storage: name a Secret with AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET".into(),
            });
        }
    }
    let snapshot = json!({
        "name": "etcd-snapshot", "image": "etcd",
        "command": ["etcdctl"],
        "args": [
            format!("--endpoints=https://etcd-client.{}.svc:2379", scope.namespace),
            "--cacert=/etc/etcd/tls/etcd-ca/ca.crt",
            "--cert=/etc/etcd/tls/client/etcd-client.crt",
            "--key=/etc/etcd/tls/client/etcd-client.key",
            "snapshot", "save", SNAPSHOT,
        ],
        "volumeMounts": [
            {"name": "backup", "mountPath": "/var/backup"},
            {"name": "client-tls", "mountPath": "/etc/etcd/tls/client"},
            {"name": "etcd-ca", "mountPath": "/etc/etcd/tls/etcd-ca"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
    });
    let mut workload = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": asked.job(), "namespace": scope.namespace},
        "spec": {
            "backoffLimit": 2, "activeDeadlineSeconds": 900, "ttlSecondsAfterFinished": 3600,
            "template": {
                "metadata": {"labels": {"app": "etcd-backup"}},
                "spec": {"restartPolicy": "Never", "initContainers": [snapshot], "containers": [upload], "volumes": volumes},
            },
        },
    });
    defaults::complete(scope, &ROW, &mut workload)?;
    objects.push(workload);
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(scope.namespace);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn asked(name: &str, second: i64, over: Option<(Status, &str)>) -> Asked {
        let over = over.map(|(s, r)| Finding::new(COMPLETED, s, r, name));
        let storage = AzureBlobStorage {
            storage_account: "backups".into(),
            container: "etcd".into(),
            ..Default::default()
        };
        Asked {
            name: name.into(),
            uid: format!("{second:08x}-0000"),
            created: Timestamp::from_second(second).unwrap(),
            storage,
            over,
        }
    }

    #[test]
    fn the_newest_that_was_taken_is_told() {
        let all = [
            asked("a", 1, Some((Status::True, SUCCEEDED))),
            asked("b", 3, Some((Status::False, FAILED))),
            asked("c", 4, Some((Status::False, REJECTED))),
            asked("d", 5, None),
        ];
        assert_eq!(summary(&all).unwrap().message, "b");
        assert_eq!(summary(&all[2..]), None);
    }

    #[test]
    fn the_newest_of_each_outcome_are_kept() {
        let mut all: Vec<Asked> =
            (0..7).map(|i| asked(&format!("good-{i}"), i, Some((Status::True, SUCCEEDED)))).collect();
        all.extend((10..13).map(|i| asked(&format!("bad-{i}"), i, Some((Status::False, FAILED)))));
        all.push(asked("open", 0, None));
        assert_eq!(expired(&all), ["good-1", "good-0"]);
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let name = asked(&"x.".repeat(60), 1, None).job();
        assert!(name.len() <= 63 && !name.ends_with('.'), "{name}");
    }
}
