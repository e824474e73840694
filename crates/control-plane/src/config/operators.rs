//! Small configurations of operators.

use super::{azure, config_map, yaml};
use crate::inject::provider_class;
use crate::pod::Pod;
use crate::scope::{Scope, Who};
use crate::{Error, publish, tls};
use apis::hypershift::settings::{Expander, Scaling};
use serde_json::{Value, json};
use std::net::IpAddr;

/// What operators built on OpenShift's library take: how they serve and how they elect.
pub fn generic(scope: &Scope, name: &str) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    let document = json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "GenericOperatorConfig",
        "leaderElection": {"leaseDuration": "60s", "renewDeadline": "40s", "retryPeriod": "15s"},
        "servingInfo": {"minTLSVersion": profile.minimum, "cipherSuites": profile.ciphers},
    });
    Ok(config_map(name, "config.yaml", yaml(&document)))
}

pub fn pki(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![generic(scope, "control-plane-pki-operator-config")?])
}

pub fn snapshots(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![generic(scope, "csi-snapshot-controller-operator-config")?])
}

pub fn image_registry(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut objects = vec![generic(scope, "image-registry-controller-config")?];
    objects.extend(azure::class(scope, "managed-azure-image-registry", Who::ImageRegistry));
    Ok(objects)
}

pub fn ingress(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(azure::class(scope, "managed-azure-ingress", Who::Ingress))
}

pub fn network(scope: &Scope) -> Result<Vec<Value>, Error> {
    Ok(azure::class(scope, "managed-azure-network", Who::Network))
}

/// Operands of these operators mount the vault themselves; they are told which class and which file.
pub fn adapt_network(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let reach = scope.endpoints.private_api.clone();
    let Some(mut main) = pod.main() else { return Ok(()) };
    if let Some(secret) = scope.identity.secret(Who::Network) {
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS", "managed-azure-network");
        main.env("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH", &secret.name);
    }
    if reach.is_none() {
        // Without a private name, operands use the public one.
        main.env("APISERVER_OVERRIDE_HOST", &scope.endpoints.api.host);
        main.env("APISERVER_OVERRIDE_PORT", scope.endpoints.api.port.to_string());
    }
    Ok(())
}

pub fn adapt_storage(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if scope.identity.managed()
        && let Some(mut main) = pod.main()
    {
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS_FOR_DISK", "managed-azure-disk-csi");
        main.env("ARO_HCP_SECRET_PROVIDER_CLASS_FOR_FILE", "managed-azure-file-csi");
    }
    Ok(())
}

pub fn machine_approver(_: &Scope) -> Result<Vec<Value>, Error> {
    let document = json!({"nodeClientCert": {"disabled": false}});
    Ok(vec![config_map("machine-approver-config", "config.yaml", yaml(&document))])
}

pub fn collect_profiles(_: &Scope) -> Result<Vec<Value>, Error> {
    Ok(vec![config_map("olm-collect-profiles", "pprof-config.yaml", yaml(&json!({"disabled": false})))])
}

/// Every control plane collects at its own minute, so that they do not all do it at once.
pub fn collect_at(namespace: &str) -> String {
    let sum = namespace.bytes().fold(0u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    format!("{} {} * * *", sum % 60, (sum / 60) % 24)
}

/// The config operator acts for the cluster as it is, not for the process it was started by.
pub fn adapt_config(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if scope.identity.managed()
        && let Some(mut main) = pod.main()
    {
        main.env("MANAGED_SERVICE", "ARO-HCP");
    }
    Ok(())
}

/// Classes that belong to no component of the table but to what the HostedCluster's operator runs.
pub fn shared_classes(scope: &Scope) -> Vec<Value> {
    [
        ("managed-azure-cpo", Who::ControlPlaneOperator),
        ("managed-azure-nodepool-management", Who::NodePoolManagement),
    ]
    .into_iter()
    .filter_map(|(name, who)| provider_class(scope, name, who))
    .collect()
}

/// The addresses that aggregated APIs are reached at through this agent; everything else goes to the guest's own agents.
pub fn adapt_konnectivity_agent(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let known = publish::aggregated(scope).filter_map(|(s, _)| scope.endpoints.aggregated.get(s));
    let identifiers: Vec<String> = known
        .map(|address| match address {
            IpAddr::V4(ip) => format!("ipv4={ip}"),
            IpAddr::V6(ip) => format!("ipv6={ip}"),
        })
        .collect();
    if let Some(mut main) = pod.main() {
        main.args(["--agent-identifiers".to_owned(), identifiers.join("&")]);
    }
    Ok(())
}

/// Addresses that are not there yet: without one, calls of its APIs would go to nodes, which cannot reach it.
pub fn konnectivity_agent_awaits(scope: &Scope) -> Vec<&'static str> {
    let unknown = publish::aggregated(scope).filter(|(s, _)| !scope.endpoints.aggregated.contains_key(s));
    unknown.map(|(_, what)| what).collect()
}

/// What users say of the autoscaler, as its flags; nodes that differ in labels of clouds or pools only are alike.
pub fn adapt_autoscaler(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    let a = &scope.autoscaling;
    let mut args = Vec::new();
    let mut flag = |name: &str, value: Option<String>| {
        args.extend(value.map(|v| format!("--{name}={v}")));
    };
    let seconds = |s: Option<i32>| s.map(|s| format!("{s}s"));
    let ratio = |percent: Option<i32>| percent.map(|p| format!("{}.{:02}", p / 100, p % 100));
    let number = |n: Option<i32>| n.map(|n| n.to_string());
    match (a.scaling, &a.scale_down) {
        (Scaling::UpOnly, _) => flag("scale-down-enabled", Some("false".to_owned())),
        (Scaling::UpAndDown, None) => {}
        (Scaling::UpAndDown, Some(down)) => {
            flag("scale-down-enabled", Some("true".to_owned()));
            flag("scale-down-delay-after-add", seconds(down.delay_after_add_seconds));
            flag("scale-down-delay-after-delete", seconds(down.delay_after_delete_seconds));
            flag("scale-down-delay-after-failure", seconds(down.delay_after_failure_seconds));
            flag("scale-down-unneeded-time", seconds(down.unneeded_duration_seconds));
            flag("scale-down-utilization-threshold", ratio(down.utilization_threshold_percent));
        }
    }
    flag("max-nodes-total", number(a.max_nodes_total));
    flag("max-graceful-termination-sec", number(a.max_pod_grace_period));
    flag("max-node-provision-time", a.max_node_provision_time.clone().filter(|t| !t.is_empty()));
    flag("max-free-difference-ratio", ratio(a.max_free_difference_ratio_percent));
    flag("expendable-pods-priority-cutoff", number(a.pod_priority_threshold));
    for label in a.balancing_ignored_labels.iter().flatten() {
        flag("balancing-ignore-label", Some(label.0.clone()));
    }
    let chosen = a.expanders.as_deref().filter(|e| !e.is_empty());
    let words = chosen.unwrap_or(&[Expander::Priority, Expander::LeastWaste]).iter().map(|e| match e {
        Expander::LeastWaste => "least-waste",
        Expander::Priority => "priority",
        Expander::Random => "random",
    });
    flag("expander", Some(words.collect::<Vec<_>>().join(",")));
    if let Some(mut main) = pod.main() {
        main.args(args);
    }
    Ok(())
}
