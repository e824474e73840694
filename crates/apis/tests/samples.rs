//! One good object of each kind, as users and operators write them.

use serde_json::{Value, json};

pub const UUID: &str = "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e";
pub const SUBNET: &str = "/subscriptions/8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/workers";

fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "sample"}, "spec": spec})
}

fn services(route: &str) -> Value {
    let publish =
        |service: &str, kind: &str| json!({"service": service, "servicePublishingStrategy": {"type": kind}});
    json!([
        publish("APIServer", "LoadBalancer"),
        publish("OAuthServer", route),
        publish("Konnectivity", "Route"),
        publish("Ignition", "Route"),
    ])
}

pub fn workload_identities() -> Value {
    let id = json!({"clientID": UUID});
    json!({
        "azureAuthenticationConfigType": "WorkloadIdentities",
        "workloadIdentities": {
            "imageRegistry": id, "ingress": id, "file": id, "disk": id,
            "nodePoolManagement": id, "cloudProvider": id, "network": id,
        },
    })
}

pub fn managed_identities() -> Value {
    let id = |name: &str| json!({"clientID": UUID, "credentialsSecretName": name, "objectEncoding": "utf-8"});
    json!({
        "azureAuthenticationConfigType": "ManagedIdentities",
        "managedIdentities": {
            "controlPlane": {
                "managedIdentitiesKeyVault": {"name": "vault", "tenantID": UUID},
                "cloudProvider": id("cloud"), "nodePoolManagement": id("capz"), "controlPlaneOperator": id("cpo"),
                "ingress": id("ingress"), "network": id("network"), "disk": id("disk"), "file": id("file"),
                "imageRegistry": id("registry"),
            },
            "dataPlane": {"imageRegistryMSIClientID": UUID, "diskMSIClientID": UUID, "fileMSIClientID": UUID},
        },
    })
}

fn azure() -> Value {
    json!({
        "type": "Azure",
        "azure": {
            "location": "westeurope", "resourceGroup": "cluster-rg", "subscriptionID": UUID, "tenantID": UUID,
            "vnetID": "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet",
            "subnetID": SUBNET,
            "securityGroupID": "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/networkSecurityGroups/nsg",
            "azureAuthenticationConfig": workload_identities(),
        },
    })
}

/// The least a self-managed user writes.
pub fn hosted_cluster() -> Value {
    object(
        "hypershift.openshift.io/v1beta1",
        "HostedCluster",
        json!({
            "release": {"image": "quay.io/openshift-release-dev/ocp-release:4.20.5-multi"},
            "pullSecret": {"name": "pull"},
            "platform": azure(),
            "services": services("Route"),
        }),
    )
}

/// A cluster of the managed service, with most that can be said.
pub fn full_hosted_cluster() -> Value {
    let mut hc = hosted_cluster();
    let spec = &mut hc["spec"];
    spec["platform"]["azure"]["azureAuthenticationConfig"] = managed_identities();
    spec["platform"]["azure"]["topology"] = json!("PublicAndPrivate");
    spec["platform"]["azure"]["private"] = json!({"type": "Swift", "swift": {"podNetworkInstance": "pni"}});
    spec["platform"]["azure"]["containerRegistry"] = json!({"credentials": {"type": "ManagedIdentity", "managedIdentity": {
        "resourceID": format!("/subscriptions/{UUID}/resourceGroups/ids/providers/Microsoft.ManagedIdentity/userAssignedIdentities/acr")}}});
    spec["clusterID"] = json!(UUID);
    spec["infraID"] = json!("sample-x7k2p");
    spec["channel"] = json!("stable-4.20");
    spec["dns"] = json!({"baseDomain": "example.com", "baseDomainPrefix": "", "publicZoneID": "zone", "privateZoneID": "private"});
    spec["autoscaling"] = json!({"scaling": "ScaleUpAndScaleDown", "scaleDown": {"delayAfterAddSeconds": 60}, "maxNodesTotal": 40, "expanders": ["LeastWaste"], "maxNodeProvisionTime": "15m"});
    spec["networking"] = json!({"clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}], "serviceNetwork": [{"cidr": "172.30.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}], "apiServer": {"allowedCIDRBlocks": ["203.0.113.0/24"]}});
    spec["secretEncryption"] = json!({"type": "kms", "kms": {"provider": "Azure", "azure": {
        "activeKey": {"keyVaultName": "kv", "keyName": "etcd", "keyVersion": "1"},
        "kms": {"clientID": UUID, "credentialsSecretName": "kms", "objectEncoding": "utf-8"}}}});
    spec["configuration"] = json!({"apiServer": {"audit": {"profile": "WriteRequestBodies"}, "servingCerts": {"namedCertificates": [{"names": ["api.other.example.com"], "servingCertificate": {"name": "cert"}}]}}, "proxy": {"httpProxy": "http://proxy:3128"}, "oauth": {"identityProviders": [{"name": "corp", "type": "OpenID", "openID": {"issuer": "https://login.example.com"}}]}});
    spec["operatorConfiguration"] = json!({"clusterNetworkOperator": {"ovnKubernetesConfig": {"mtu": 1400, "ipv4": {"internalJoinSubnet": "100.99.0.0/16"}}}});
    spec["imageContentSources"] = json!([{"source": "quay.io/a", "mirrors": ["mirror.example.com/a"]}]);
    spec["capabilities"] = json!({"disabled": ["ImageRegistry"]});
    spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    spec["fips"] = json!(true);
    spec["updateService"] = json!("https://updates.example.com/graph");
    spec["pausedUntil"] = json!("2030-01-02T15:04:05Z");
    spec["issuerURL"] = json!("https://issuer.example.com/sample");
    spec["serviceAccountSigningKey"] = json!({"name": "signing"});
    spec["kubeAPIServerDNSName"] = json!("api.custom.example.com");
    hc
}

pub fn node_pool() -> Value {
    object(
        "hypershift.openshift.io/v1beta1",
        "NodePool",
        json!({
            "clusterName": "sample",
            "release": {"image": "quay.io/openshift-release-dev/ocp-release:4.20.5-multi"},
            "replicas": 2,
            "management": {"upgradeType": "Replace"},
            "platform": {"type": "Azure", "azure": {
                "vmSize": "Standard_D4s_v5", "image": {"type": "AzureMarketplace"}, "osDisk": {"sizeGiB": 120}, "subnetID": SUBNET,
            }},
        }),
    )
}

pub fn hosted_control_plane() -> Value {
    object(
        "hypershift.openshift.io/v1beta1",
        "HostedControlPlane",
        json!({
            "releaseImage": "quay.io/openshift-release-dev/ocp-release:4.20.5-multi",
            "pullSecret": {"name": "pull-secret"}, "sshKey": {"name": "ssh-key"}, "infraID": "sample-x7k2p",
            "issuerURL": "https://kubernetes.default.svc", "dns": {"baseDomain": ""},
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume"}}},
            "platform": azure(), "services": services("Route"),
        }),
    )
}

pub fn private_link() -> Value {
    object(
        "hypershift.openshift.io/v1beta1",
        "AzurePrivateLinkService",
        json!({
            "subscriptionID": UUID, "resourceGroupName": "mgmt", "location": "westeurope", "guestSubnetID": SUBNET,
            "guestVNetID": "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet",
        }),
    )
}

fn etcd_backup() -> Value {
    object(
        "hypershift.openshift.io/v1beta1",
        "HCPEtcdBackup",
        json!({"storage": {"storageType": "AzureBlob", "azureBlob": {
            "storageAccount": "backups", "container": "etcd", "keyPrefix": "east", "credentials": {"name": "backup"},
        }}}),
    )
}

pub fn sizing() -> Value {
    let mut o = object(
        "scheduling.hypershift.openshift.io/v1alpha1",
        "ClusterSizingConfiguration",
        json!({
            "sizes": [
                {"name": "small", "criteria": {"from": 0, "to": 60}, "effects": {
                    "kasGoMemLimit": "8GiB", "maximumRequestsInflight": 150, "maximumMutatingRequestsInflight": 50,
                    "resourceRequests": [{"deploymentName": "kube-apiserver", "containerName": "kube-apiserver", "memory": "8Gi", "cpu": 2}]}},
                {"name": "large", "criteria": {"from": 61}, "effects": {"machineHealthCheckTimeout": "40m"},
                    "management": {"placeholders": 1, "nonRequestServingNodesPerZone": "0.2"}},
            ],
            "concurrency": {"slidingWindow": "10m", "limit": 5},
            "transitionDelay": {"increase": "30s", "decrease": "20m"},
        }),
    );
    o["metadata"]["name"] = json!("cluster");
    o
}

fn machine() -> Value {
    json!({
        "clusterName": "sample", "bootstrap": {"dataSecretName": "user-data"}, "nodeDrainTimeout": "10m",
        "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachine", "name": "sample", "namespace": "clusters"},
    })
}

fn azure_machine() -> Value {
    json!({"vmSize": "Standard_D4s_v5", "osDisk": {"diskSizeGB": 120}, "sshPublicKey": "c3No", "networkInterfaces": [{"subnetName": "workers"}]})
}

/// One good object of every kind.
pub fn all() -> Vec<Value> {
    let capi = "cluster.x-k8s.io/v1beta1";
    let capz = "infrastructure.cluster.x-k8s.io/v1beta1";
    let config = "config.openshift.io/v1";
    let certificates = "certificates.hypershift.openshift.io/v1alpha1";
    let selector = json!({"matchLabels": {"pool": "sample"}});
    let template = json!({"metadata": {"labels": {"pool": "sample"}}, "spec": machine()});
    let bare = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "sample"}});
    let mut all = vec![
        full_hosted_cluster(),
        node_pool(),
        hosted_control_plane(),
        bare("hypershift.openshift.io/v1beta1", "ControlPlaneComponent"),
        private_link(),
        etcd_backup(),
        sizing(),
        bare(certificates, "CertificateSigningRequestApproval"),
        object(certificates, "CertificateRevocationRequest", json!({"signerClass": "customer-break-glass"})),
        object(capi, "Cluster", json!({"controlPlaneEndpoint": {"host": "api", "port": 443}})),
        object(
            capi,
            "MachineDeployment",
            json!({"clusterName": "sample", "selector": selector, "template": template, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}}}),
        ),
        object(
            capi,
            "MachineSet",
            json!({"clusterName": "sample", "selector": selector, "template": template}),
        ),
        object(capi, "Machine", machine()),
        object(
            capi,
            "MachineHealthCheck",
            json!({"clusterName": "sample", "selector": selector, "maxUnhealthy": 2, "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "8m"}]}),
        ),
        object(
            capz,
            "AzureCluster",
            json!({"location": "westeurope", "networkSpec": {"vnet": {"name": "vnet"}, "subnets": [{"name": "workers", "role": "node"}]}}),
        ),
        object(
            capz,
            "AzureClusterIdentity",
            json!({"type": "WorkloadIdentity", "clientID": UUID, "tenantID": UUID, "allowedNamespaces": {"list": ["a"]}}),
        ),
        object(capz, "AzureMachine", azure_machine()),
        object(capz, "AzureMachineTemplate", json!({"template": {"spec": azure_machine()}})),
        object(
            "secrets-store.csi.x-k8s.io/v1",
            "SecretProviderClass",
            json!({"provider": "azure", "parameters": {"keyvaultName": "vault"}}),
        ),
        object(
            "route.openshift.io/v1",
            "Route",
            json!({"host": "api.example.com", "to": {"kind": "Service", "name": "kube-apiserver"}, "tls": {"termination": "passthrough"}}),
        ),
        object(config, "ClusterVersion", json!({"clusterID": UUID, "channel": "stable-4.20"})),
        object(config, "ClusterOperator", json!({})),
        object(
            config,
            "ImageDigestMirrorSet",
            json!({"imageDigestMirrors": [{"source": "quay.io/a", "mirrors": ["m/a"]}]}),
        ),
    ];
    for kind in [
        "Infrastructure",
        "APIServer",
        "Authentication",
        "Build",
        "DNS",
        "FeatureGate",
        "Image",
        "Ingress",
        "Network",
        "OAuth",
        "OperatorHub",
        "Proxy",
        "Scheduler",
    ] {
        all.push(object(config, kind, json!({"somethingNew": {"of": ["a", "later", "release"]}})));
    }
    all
}
