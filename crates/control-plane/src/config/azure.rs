//! `cloud.conf` in its several readings: for the cloud controller, for nodes, and for the storage drivers.

use super::{config_map, pretty, secret};
use crate::inject::provider_class;
use crate::scope::{Identity, Scope, Who};
use crate::{Error, inject};
use serde_json::{Value, json};

const CLOUD_TOKEN: &str = "/var/run/secrets/openshift/serviceaccount/token";

fn common(scope: &Scope) -> Value {
    let a = &scope.azure;
    json!({
        "cloud": a.cloud,
        "tenantId": a.tenant,
        "subscriptionId": a.subscription,
        "resourceGroup": a.resource_group,
        "location": a.location,
        "vnetName": a.vnet.name,
        "vnetResourceGroup": a.vnet.group,
        "subnetName": a.subnet,
        "securityGroupName": a.security_group.name,
        "securityGroupResourceGroup": a.security_group.group,
        "routeTableName": "",
        "loadBalancerName": scope.infra_id,
        "loadBalancerSku": "standard",
        "disableOutboundSNAT": true,
        "cloudProviderBackoff": true,
        "cloudProviderBackoffDuration": 6,
        "useInstanceMetadata": true,
    })
}

/// How whoever reads it proves who it is.
fn credential(scope: &Scope, who: Who, conf: &mut Value) {
    match &scope.identity {
        Identity::Managed { .. } => {
            conf["useManagedIdentityExtension"] = json!(false);
            conf["useInstanceMetadata"] = json!(false);
            if let Some(secret) = scope.identity.secret(who) {
                conf["aadMSIDataPlaneIdentityPath"] = json!(format!("/mnt/certs/{}", secret.name));
            }
        }
        Identity::Workload(_) => {
            conf["useManagedIdentityExtension"] = json!(false);
            conf["useFederatedWorkloadIdentityExtension"] = json!(true);
            conf["aadClientId"] = json!(scope.identity.client_id(who).unwrap_or_default());
            conf["aadFederatedTokenFile"] = json!(CLOUD_TOKEN);
        }
    }
}

/// How load balancers find out which nodes answer.
fn probes(scope: &Scope, conf: &mut Value) -> Result<(), Error> {
    let annotation = "azure-load-balancer-health-probe-mode";
    let mode = scope.annotation(annotation).unwrap_or("shared");
    if !matches!(mode, "shared" | "servicenodeport") {
        return Err(Error::Configuration {
            field: format!("annotation hypershift.openshift.io/{annotation}"),
            why: format!("{mode:?} is neither shared nor servicenodeport"),
        });
    }
    conf["clusterServiceLoadBalancerHealthProbeMode"] = json!(mode);
    if mode == "shared" {
        let path = scope.annotation("shared-load-balancer-health-probe-path").unwrap_or("/healthz");
        let port = scope.annotation("shared-load-balancer-health-probe-port").unwrap_or("10256");
        let port: u16 = port.parse().map_err(|_| Error::Configuration {
            field: "annotation hypershift.openshift.io/shared-load-balancer-health-probe-port".into(),
            why: format!("{port:?} is no port"),
        })?;
        conf["clusterServiceSharedLoadBalancerHealthProbePath"] = json!(path);
        conf["clusterServiceSharedLoadBalancerHealthProbePort"] = json!(port);
    }
    Ok(())
}

/// For the cloud controller: as a Secret for itself, as a ConfigMap for nodes, which use the machine's identity.
pub fn cloud_controller(scope: &Scope) -> Result<Vec<Value>, Error> {
    let name = "azure-cloud-config";
    let mut own = common(scope);
    probes(scope, &mut own)?;
    let mut nodes = own.clone();
    if let Some(id) = &scope.azure.registry_identity {
        nodes["userAssignedIdentityID"] = json!(id);
    }
    credential(scope, Who::CloudProvider, &mut own);
    if scope.identity.managed() {
        nodes["useManagedIdentityExtension"] = json!(true);
    } else {
        credential(scope, Who::CloudProvider, &mut nodes);
    }
    let mut objects =
        vec![config_map(name, "cloud.conf", pretty(&nodes)), secret(name, "cloud.conf", pretty(&own))];
    objects.extend(provider_class(scope, "managed-azure-cloud-provider", Who::CloudProvider));
    Ok(objects)
}

fn storage_driver(scope: &Scope, who: Who) -> Value {
    let mut conf = common(scope);
    for unused in ["routeTableName", "loadBalancerName", "disableOutboundSNAT"] {
        if let Some(map) = conf.as_object_mut() {
            map.remove(unused);
        }
    }
    credential(scope, who, &mut conf);
    conf
}

/// For the drivers the storage operator brings, and what they mount.
pub fn storage(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for (kind, who) in [("disk", Who::Disk), ("file", Who::File)] {
        let conf = storage_driver(scope, who);
        objects.push(secret(&format!("azure-{kind}-csi-config"), "cloud.conf", pretty(&conf)));
        objects.extend(provider_class(scope, &format!("managed-azure-{kind}-csi"), who));
    }
    objects.push(super::operators::generic(scope, "cluster-storage-operator-config")?);
    Ok(objects)
}

/// A class of the vault for one component, where certificates come from one.
pub fn class(scope: &Scope, name: &str, who: Who) -> Vec<Value> {
    inject::provider_class(scope, name, who).into_iter().collect()
}
