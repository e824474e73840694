//! The operator's pod, and how it is reached.

use super::access::OPERATOR;
use super::args::{Args, PrivatePlatform};
use super::{BUNDLE, Inputs, Monitoring, TRUSTED, USER_BUNDLE, webhooks};
use serde_json::{Value, json};

pub(super) const AZURE_CREDENTIALS: &str = "hypershift-operator-azure-credentials";
pub(super) const SCALE_CREDENTIALS: &str = "hypershift-operator-scale-from-zero-credentials";
const SCALE_MOUNT: &str = "/etc/scale-from-zero";
/// Authorities of the image itself, whichever system it is made of.
const IMAGE_TRUST: &str = "/etc/pki/tls/certs:/etc/ssl/certs";
/// What the management cluster trusts.
const CLUSTER_TRUST: &str = "/etc/trust/cluster";
/// What --additional-trust-bundle names.
const USER_TRUST: &str = "/etc/trust/user";

fn plain(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// What a pod is given: a volume and where it is mounted.
struct Mount {
    name: &'static str,
    at: &'static str,
    source: Value,
}

impl Args {
    /// Whether the platform's Prometheus looks at the operator.
    pub(super) fn monitors(&self) -> bool {
        self.platform_monitoring != Monitoring::None
    }

    /// One works, the other stands by.
    fn replicas(&self) -> i32 {
        if self.development { 0 } else { 2 }
    }

    fn command_line(&self) -> Vec<String> {
        let mut args: Vec<String> = [
            "--namespace=$(MY_NAMESPACE)",
            "--pod-name=$(POD_NAME)",
            "--metrics-addr=:9000",
            "--health-address=:6060",
        ]
        .map(String::from)
        .into();
        if !self.hcp_egress_block_cidrs.is_empty() {
            args.push(format!("--hcp-egress-block-cidrs={}", self.hcp_egress_block_cidrs.join(",")));
        }
        if self.private_platform == PrivatePlatform::Azure && !self.is_aro() {
            args.push("--private-platform=Azure".to_owned());
        }
        if self.platform_monitoring == Monitoring::All {
            args.push("--enable-ocp-cluster-monitoring=true".to_owned());
        }
        if self.has_webhooks() {
            args.push(format!("--webhook-address=:{}", webhooks::PORT));
        }
        if self.machines != "builtin" {
            args.push(format!("--machines={}", self.machines));
        }
        if !self.registry_overrides.is_empty() {
            let pairs: Vec<String> =
                self.registry_overrides.iter().map(|(a, b)| format!("{a}={b}")).collect();
            args.push(format!("--registry-overrides={}", pairs.join(",")));
        }
        args
    }

    fn env(&self, image: &str, inputs: &Inputs) -> Vec<Value> {
        // Directories add up where a file (SSL_CERT_FILE) would be all that is trusted: Azure's own authorities stay.
        let mut trust = format!("{IMAGE_TRUST}:{CLUSTER_TRUST}");
        if inputs.trust_bundle.is_some() {
            trust = format!("{trust}:{USER_TRUST}");
        }
        let mut env = vec![
            field("MY_NAMESPACE", "metadata.namespace"),
            field("POD_NAME", "metadata.name"),
            plain("HYPERSHIFT_IMAGE", image),
            plain("METRICS_SET", self.metrics_set.as_str()),
            plain("CERT_ROTATION_SCALE", &self.cert_rotation_scale),
            plain("ENABLE_ETCD_RECOVERY", if self.enable_etcd_recovery { "1" } else { "0" }),
            plain("PLATFORMS_INSTALLED", "Azure"),
            plain("SSL_CERT_DIR", &trust),
        ];
        let mut set = |name: &str, value: &Option<String>| {
            if let Some(v) = value {
                env.push(plain(name, v));
            }
        };
        set("MANAGED_SERVICE", &self.managed_service);
        set("ARO_HCP_KEY_VAULT_USER_CLIENT_ID", &self.aro_hcp_key_vault_users_client_id);
        set("IMAGE_SHARED_INGRESS_HAPROXY", &self.shared_ingress_image);
        if self.private_platform == PrivatePlatform::Azure {
            set("AZURE_RESOURCE_GROUP", &self.azure_pls_resource_group);
            set("AZURE_PLS_CLIENT_ID", &self.azure_pls_managed_identity_client_id);
            set("AZURE_SUBSCRIPTION_ID", &self.azure_pls_subscription_id);
        }
        if self.credentials().is_some() {
            env.push(plain(
                "AZURE_CREDENTIALS_FILE",
                &format!("/etc/azure-provider/{}", self.azure_private_secret_key),
            ));
        }
        if let Some(provider) = &self.scale_from_zero_provider {
            env.push(plain("SCALE_FROM_ZERO_PROVIDER", provider));
            env.push(plain(
                "SCALE_FROM_ZERO_CREDS",
                &format!("{SCALE_MOUNT}/{}", self.scale_from_zero_secret_key),
            ));
        }
        if self.tech_preview_no_upgrade {
            env.push(plain("HYPERSHIFT_FEATURESET", "TechPreviewNoUpgrade"));
        }
        if self.enable_size_tagging {
            env.push(plain("ENABLE_SIZE_TAGGING", "1"));
        }
        env.extend(self.additional_operator_env_vars.iter().map(|(k, v)| plain(k, v)));
        env
    }

    /// The Secret with the operator's account: what makes private links, and what looks at Azure before anything is made.
    fn credentials(&self) -> Option<&str> {
        match (&self.azure_private_creds, &self.azure_private_secret) {
            (Some(_), _) => Some(AZURE_CREDENTIALS),
            (None, name) => name.as_deref(),
        }
    }

    fn mounts(&self, inputs: &Inputs) -> Vec<Mount> {
        let secret = |name: &str| json!({"secret": {"secretName": name}});
        let mut all = Vec::new();
        if let Some(name) = self.credentials() {
            all.push(Mount { name: "azure-credentials", at: "/etc/azure-provider", source: secret(name) });
        }
        if self.scale_from_zero_provider.is_some() {
            let name = self.scale_from_zero_secret.as_deref().unwrap_or(SCALE_CREDENTIALS);
            all.push(Mount { name: "scale-from-zero", at: SCALE_MOUNT, source: secret(name) });
        }
        // In directories of their own: over those of the image, an empty ConfigMap would hide every authority there is.
        let bundle = |name: &str, optional: bool| json!({"configMap": {"name": name, "optional": optional, "items": [{"key": BUNDLE, "path": "ca-bundle.pem"}]}});
        all.push(Mount { name: "trusted-ca", at: CLUSTER_TRUST, source: bundle(TRUSTED, true) });
        if inputs.trust_bundle.is_some() {
            all.push(Mount { name: "user-ca", at: USER_TRUST, source: bundle(USER_BUNDLE, false) });
        }
        all
    }

    pub(super) fn operator(&self, inputs: &Inputs) -> Vec<Value> {
        let image = inputs.image.as_deref().unwrap_or(&self.hypershift_image);
        let mounts = self.mounts(inputs);
        let volumes: Vec<Value> = mounts.iter().map(|m| merged(json!({"name": m.name}), &m.source)).collect();
        let mounted: Vec<Value> =
            mounts.iter().map(|m| json!({"name": m.name, "mountPath": m.at, "readOnly": true})).collect();
        let probe = |path: &str, period: i32| json!({"httpGet": {"path": path, "port": 6060, "scheme": "HTTP"}, "periodSeconds": period, "timeoutSeconds": 5});
        let mut ports = vec![
            json!({"name": "metrics", "containerPort": 9000, "protocol": "TCP"}),
            json!({"name": "health", "containerPort": 6060, "protocol": "TCP"}),
        ];
        let mut doors =
            vec![json!({"name": "metrics", "port": 9393, "protocol": "TCP", "targetPort": "metrics"})];
        if self.has_webhooks() {
            ports.push(json!({"name": "manager", "containerPort": webhooks::PORT, "protocol": "TCP"}));
            doors.push(json!({"name": "manager", "port": 443, "protocol": "TCP", "targetPort": "manager"}));
        }
        let mut labels = json!({"app": OPERATOR, "name": OPERATOR, "hypershift.openshift.io/operator-component": OPERATOR});
        if self.azure_pls_managed_identity_client_id.is_some() {
            labels["azure.workload.identity/use"] = json!("true");
        }
        let mut pod = json!({
            "serviceAccountName": OPERATOR,
            "priorityClassName": "hypershift-operator",
            "terminationGracePeriodSeconds": 10,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 10, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"name": OPERATOR}}}}]}},
            "containers": [{
                "name": OPERATOR,
                "image": image,
                "imagePullPolicy": self.image_pull_policy,
                "command": ["/usr/bin/zaffre", "serve", "hypershift-operator"],
                "args": self.command_line(),
                "env": self.env(image, inputs),
                "ports": ports,
                "livenessProbe": probe("/healthz", 60),
                "readinessProbe": probe("/readyz", 10),
                "resources": {"requests": {"cpu": "10m", "memory": "150Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true},
                "volumeMounts": mounted,
            }],
            "volumes": volumes,
        });
        if inputs.pull_secret.is_some() {
            pod["imagePullSecrets"] = json!([{"name": "pull-secret"}]);
        }
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": OPERATOR, "namespace": self.namespace, "labels": {"app": OPERATOR}},
            "spec": {
                "replicas": self.replicas(),
                "selector": {"matchLabels": {"name": OPERATOR}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": OPERATOR, "namespace": self.namespace, "labels": {"name": OPERATOR}},
            "spec": {"selector": {"name": OPERATOR}, "ports": doors},
        });
        let gate = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "feature-gate", "namespace": self.namespace},
            "data": {"TechPreviewEnabled": self.tech_preview_no_upgrade.to_string()}});
        vec![deployment, service, gate]
    }
}

fn merged(mut base: Value, more: &Value) -> Value {
    if let (Some(to), Some(from)) = (base.as_object_mut(), more.as_object()) {
        to.extend(from.iter().map(|(k, v)| (k.clone(), v.clone())));
    }
    base
}
