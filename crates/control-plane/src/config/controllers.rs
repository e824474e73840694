//! Configuration of controller managers and the scheduler.

use super::{config_map, features, pretty, yaml};
use crate::pod::Pod;
use crate::scope::Scope;
use crate::{Error, tls};
use serde_json::{Value, json};

pub fn kube_controller_manager(scope: &Scope) -> Result<Vec<Value>, Error> {
    let config = json!({
        "apiVersion": "kubecontrolplane.config.openshift.io/v1",
        "kind": "KubeControllerManagerConfig",
        "extendedArguments": {},
        "serviceServingCert": {"certFile": ""},
    });
    let recycler = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "recyler-pod", "namespace": "openshift-infra"},
        "spec": {
            "activeDeadlineSeconds": 60, "restartPolicy": "Never", "serviceAccountName": "pv-recycler-controller",
            "containers": [{
                "name": "recyler-container",
                "image": crate::component::image(scope, "tools").unwrap_or_default(),
                "command": ["/bin/bash"],
                "args": ["-c", "test -e /scrub && rm -rf /scrub/..?* /scrub/.[!.]* /scrub/* && test -z \"$(ls -A /scrub)\" || exit 1"],
                "securityContext": {"runAsUser": 0},
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }],
            "volumes": [{"name": "vol"}],
        },
    });
    Ok(vec![
        config_map("kcm-config", "config.json", pretty(&config)),
        config_map("recycler-config", "recycler-pod.yaml", yaml(&recycler)),
    ])
}

/// Adds gates, and node ranges where this cluster hands them out itself.
pub fn adapt_kube_controller_manager(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    gates(scope, pod);
    if let Some(mut main) = pod.main().filter(|_| !super::profiled(scope, "kube-controller-manager")) {
        main.args(["--profiling=false".to_owned()]);
    }
    if let Some(mut main) = pod.main()
        && scope.network.allocate_node_cidrs
    {
        main.args(["--allocate-node-cidrs=true".to_owned()]);
    }
    Ok(())
}

/// Gates by name, one flag each.
pub fn gates(scope: &Scope, pod: &mut Pod<'_>) {
    if let Some(mut main) = pod.main() {
        main.args(features::custom(scope).into_iter().map(|g| format!("--feature-gates={g}")));
    }
}

pub fn kube_scheduler(scope: &Scope) -> Result<Vec<Value>, Error> {
    let profile = scope.configuration["scheduler"]["profile"].as_str().unwrap_or("LowNodeUtilization");
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kubeconfig/kubeconfig"},
        "leaderElection": {"leaderElect": true, "leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "26s"},
    });
    if !super::profiled(scope, "kube-scheduler") {
        config["enableProfiling"] = json!(false);
    }
    match profile {
        "LowNodeUtilization" | "" => {}
        "HighNodeUtilization" => {
            config["profiles"] = json!([{"schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
                "plugins": {"score": {
                    "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}}]);
        }
        "NoScoring" => {
            config["profiles"] = json!([{"schedulerName": "default-scheduler",
                "plugins": {"preScore": {"disabled": [{"name": "*"}]}, "score": {"disabled": [{"name": "*"}]}}}]);
        }
        other => {
            return Err(Error::Configuration {
                field: "configuration.scheduler.profile".into(),
                why: format!("{other:?} is none of LowNodeUtilization, HighNodeUtilization, NoScoring"),
            });
        }
    }
    Ok(vec![config_map("kube-scheduler", "config.json", pretty(&config))])
}

/// Serving, leases and the client's way: what OpenShift's controller managers have in common.
fn serving(scope: &Scope) -> Result<Value, Error> {
    let profile = tls::of(scope)?;
    Ok(json!({
        "bindAddress": "0.0.0.0:8443",
        "certFile": "/etc/kubernetes/certs/tls.crt",
        "keyFile": "/etc/kubernetes/certs/tls.key",
        "clientCA": "/etc/kubernetes/client-ca/ca.crt",
        "minTLSVersion": profile.minimum,
        "cipherSuites": profile.ciphers,
    }))
}

fn lease(name: &str) -> Value {
    json!({"name": name, "leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "26s"})
}

pub fn openshift_controller_manager(scope: &Scope) -> Result<Vec<Value>, Error> {
    let image = |key: &str| crate::component::image(scope, key).unwrap_or_default();
    let config = json!({
        "apiVersion": "openshiftcontrolplane.config.openshift.io/v1",
        "kind": "OpenShiftControllerManagerConfig",
        "build": {"imageTemplateFormat": {"format": image("docker-builder")}},
        "deployer": {"imageTemplateFormat": {"format": image("deployer")}},
        "dockerPullSecret": {"internalRegistryHostname": "image-registry.openshift-image-registry.svc:5000"},
        "leaderElection": lease("openshift-master-controllers"),
        "network": {"clusterNetworks": Value::Null},
        "controllers": if scope.capable("ImageRegistry") { json!(["*"]) } else { json!([
            "*", "-openshift.io/serviceaccount-pull-secrets"]) },
        "servingInfo": serving(scope)?,
    });
    Ok(vec![config_map("openshift-controller-manager-config", "config.yaml", yaml(&config))])
}

pub fn route_controller_manager(scope: &Scope) -> Result<Vec<Value>, Error> {
    let config = json!({
        "apiVersion": "openshiftcontrolplane.config.openshift.io/v1",
        "kind": "OpenShiftControllerManagerConfig",
        "leaderElection": lease("openshift-route-controllers"),
        "servingInfo": serving(scope)?,
    });
    Ok(vec![config_map("openshift-route-controller-manager-config", "config.yaml", yaml(&config))])
}

pub fn cluster_policy_controller(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut own = serving(scope)?;
    own["bindAddress"] = json!("0.0.0.0:10357");
    let config = json!({
        "apiVersion": "openshiftcontrolplane.config.openshift.io/v1",
        "kind": "OpenShiftControllerManagerConfig",
        "leaderElection": lease("cluster-policy-controller-lock"),
        "servingInfo": own,
    });
    Ok(vec![config_map("cluster-policy-controller-config", "config.yaml", yaml(&config))])
}
