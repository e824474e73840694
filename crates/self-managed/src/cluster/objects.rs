//! All objects of a new cluster, in the order in which they are applied.

use super::Inputs;
use super::args::Args;
use super::spec::{encryption_key_name, signing_key_name};
use crate::documents::sorted;
use crate::flags::{Refused, map};
use crate::nodepool::Pool;
use apis::names::{annotation, label};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

impl Args {
    /// Namespace, configuration, secrets, HostedCluster, node pools.
    pub fn objects(&self, inputs: &Inputs) -> Result<Vec<Value>, Refused> {
        self.check()?;
        self.files(inputs)?;
        if let Some(external) = &self.external_dns_domain {
            let (base, said) = match &self.base_domain {
                Some(base) => (base, format!("--base-domain {base}")),
                None => {
                    let base = &inputs.infra.base_domain;
                    (
                        base,
                        format!(
                            "--infra-json, whose baseDomain (--base-domain of `create infra`) is {base},"
                        ),
                    )
                }
            };
            self.not_above(external, base, &said)?;
        }
        let mut all =
            vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})];
        if let Some(bundle) = &inputs.trust_bundle {
            all.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca-bundle.crt": bundle},
                "metadata": {"name": "user-ca-bundle", "namespace": self.namespace},
            }));
        }
        all.extend(self.secrets(inputs));
        all.push(self.cluster(inputs)?);
        all.extend(self.pools(inputs));
        Ok(all.into_iter().map(sorted).collect())
    }

    fn secrets(&self, inputs: &Inputs) -> Vec<Value> {
        let name = &self.name;
        let secret = |name: String, kind: &str, data: &[(&str, &[u8])]| {
            let data: Value =
                data.iter().map(|(k, v)| ((*k).to_owned(), json!(STANDARD.encode(v)))).collect();
            json!({
                "apiVersion": "v1", "kind": "Secret", "data": data, "type": kind,
                "metadata": {"name": name, "namespace": self.namespace,
                    "labels": {label::SAFE_TO_DELETE_WITH_CLUSTER: "true"}},
            })
        };
        let mut all = vec![secret(
            format!("{name}-pull-secret"),
            "kubernetes.io/dockerconfigjson",
            &[(".dockerconfigjson", &inputs.pull_secret)],
        )];
        if let Some(public) = &inputs.ssh_key {
            let mut data: Vec<(&str, &[u8])> = vec![("id_rsa.pub", public)];
            if let Some(private) = &inputs.ssh_private_key {
                data.push(("id_rsa", private));
            }
            all.push(secret(format!("{name}-ssh-key"), "Opaque", &data));
        }
        all.push(secret(
            format!("{name}-cloud-credentials"),
            "Opaque",
            &[
                ("AZURE_SUBSCRIPTION_ID", inputs.subscription.as_bytes()),
                ("AZURE_TENANT_ID", inputs.tenant.as_bytes()),
            ],
        ));
        if let Some(key) = &inputs.signing_key {
            all.push(secret(signing_key_name(name), "Opaque", &[("key", key)]));
        }
        if self.encryption_key_id.is_none() {
            all.push(secret(encryption_key_name(name), "Opaque", &[("key", &inputs.encryption_key)]));
        }
        all
    }

    fn cluster(&self, inputs: &Inputs) -> Result<Value, Refused> {
        let mut out = json!({
            "apiVersion": "hypershift.openshift.io/v1beta1",
            "kind": "HostedCluster",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self.spec(inputs)?,
        });
        let mut annotations = self.annotations.clone();
        if let Some(image) = &self.control_plane_operator_image {
            annotations.push((annotation::CONTROL_PLANE_OPERATOR_IMAGE.to_owned(), image.clone()));
        }
        if !annotations.is_empty() {
            out["metadata"]["annotations"] = map(&annotations);
        }
        if !self.labels.is_empty() {
            out["metadata"]["labels"] = map(&self.labels);
        }
        Ok(out)
    }

    fn pools(&self, inputs: &Inputs) -> Vec<Value> {
        if self.node_pool_replicas < 0 {
            return Vec::new();
        }
        let pool = |name: &str, zone: Option<&str>| {
            self.machines.object(&Pool {
                name,
                namespace: &self.namespace,
                cluster: &self.name,
                replicas: self.node_pool_replicas,
                release: &inputs.release_image,
                arch: self.arch,
                upgrade: self.node_upgrade_type,
                auto_repair: self.auto_repair,
                drain: &self.node_drain_timeout,
                detach: &self.node_volume_detach_timeout,
                zone,
                subnet: self.machines.nodepool_subnet_id.as_deref().unwrap_or(&inputs.infra.subnet_id),
                boot_image: &inputs.infra.boot_image_id,
                paused: self.paused_until.as_deref(),
            })
        };
        if self.availability_zones.is_empty() {
            return vec![pool(&self.name, self.machines.availability_zone.as_deref())];
        }
        self.availability_zones
            .iter()
            .map(|zone| pool(&format!("{}-{zone}", self.name), Some(zone)))
            .collect()
    }
}
