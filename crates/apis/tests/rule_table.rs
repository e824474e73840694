//! The bad examples, one row each.

use crate::samples::{
    full_hosted_cluster as full, hosted_cluster as hc, node_pool as np, private_link as pls, sizing,
};
use serde_json::Value;

pub struct Case {
    pub base: fn() -> Value,
    /// What is changed first; the result is good.
    pub setup: &'static [(&'static str, &'static str)],
    /// What then makes it bad.
    pub change: &'static [(&'static str, &'static str)],
    /// What the refusal must say.
    pub says: &'static str,
}

type Change = &'static [(&'static str, &'static str)];

const fn case(base: fn() -> Value, setup: Change, change: Change, says: &'static str) -> Case {
    Case { base, setup, change, says }
}

fn kind(name: &str) -> Value {
    crate::samples::all().into_iter().find(|o| o["kind"] == name).unwrap()
}

fn route() -> Value {
    kind("Route")
}

fn template() -> Value {
    kind("AzureMachineTemplate")
}

fn revocation() -> Value {
    kind("CertificateRevocationRequest")
}

fn backup() -> Value {
    kind("HCPEtcdBackup")
}

const AZURE: &str = "/spec/platform/azure";
#[rustfmt::skip]
const PRIVATE_LINK: Change = &[
    ("/spec/platform/azure/topology", r#""Private""#),
    ("/spec/platform/azure/private", r#"{"type": "PrivateLink", "privateLink": {"natSubnetID": "/subscriptions/8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nat", "additionalAllowedSubscriptions": ["8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"]}}"#),
    ("/spec/platform/azure/azureAuthenticationConfig/workloadIdentities/controlPlaneOperator", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}"#),
];
const SUBNET: &str = "/spec/platform/azure/subnetID";
const KMS: &str = "/spec/secretEncryption/kms/azure";

/// Refused when created.
#[rustfmt::skip] // A table: one row each.
pub const CREATE: &[Case] = &[
    // HostedCluster, generic.
    case(hc, &[], &[("/spec/release/image", r#""has a blank""#)], "spec.release.image: Invalid value: \"string\": release.image must be a pull spec"),
    case(hc, &[], &[("/spec/release/image", r#""/starts-with-slash""#)], "release.image must be a pull spec"),
    case(hc, &[], &[("/spec/release", "null")], "spec.release: Required value"),
    case(hc, &[], &[("/spec/pullSecret", "null")], "spec.pullSecret: Required value"),
    case(hc, &[], &[("/spec/platform", "null")], "spec.platform: Required value"),
    case(hc, &[], &[("/spec/services", "null")], "spec.services: Required value"),
    case(hc, &[], &[("/spec/clusterID", r#""zzzzzzzz-0b7d-4a37-9a57-3f7a1c2b4d5e""#)], "clusterID must be a UUID"),
    case(hc, &[], &[("/spec/infraID", r#""Upper""#)], "infraID has lower-case letters"),
    case(hc, &[], &[("/spec/infraID", r#""ends-""#)], "infraID has lower-case letters"),
    case(hc, &[], &[("/spec/updateService", r#""not a url""#)], "updateService must be an absolute URL"),
    case(hc, &[], &[("/spec/issuerURL", r#""issuer.example.com""#)], "issuerURL must be an absolute URL"),
    case(full, &[], &[("/spec/issuerURL", r#""""#)], "serviceAccountSigningKey needs issuerURL"),
    case(hc, &[], &[("/spec/kubeAPIServerDNSName", r#""no_good""#)], "kubeAPIServerDNSName must be a domain name"),
    case(full, &[], &[("/spec/dns/baseDomain", r#""Example.COM""#)], "baseDomain must be a domain name"),
    case(full, &[], &[("/spec/dns/baseDomainPrefix", r#""-a""#)], "baseDomainPrefix must be a domain name"),
    case(hc, &[], &[("/spec/pausedUntil", r#""tomorrow""#)], "pausedUntil must be true, false or a time"),
    case(hc, &[], &[("/spec/nodeSelector", r#"{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":"","j":"","k":"","l":"","m":"","n":"","o":"","p":"","q":"","r":"","s":"","t":"","u":""}"#)], "nodeSelector has at most 20 entries"),
    case(hc, &[], &[("/spec/labels", r#"{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":"","j":"","k":"","l":"","m":"","n":"","o":"","p":"","q":"","r":"","s":"","t":"","u":""}"#)], "spec.labels"),
    case(full, &[], &[("/spec/autoscaling/scaling", r#""ScaleUpOnly""#)], "scaleDown is forbidden when scaling is ScaleUpOnly"),
    case(full, &[], &[("/spec/autoscaling/maxNodeProvisionTime", r#""soon""#)], "spec.autoscaling.maxNodeProvisionTime"),
    case(hc, &[], &[("/spec/capabilities", r#"{"enabled": ["Console"], "disabled": ["Console"]}"#)], "a capability cannot be both enabled and disabled"),
    case(hc, &[], &[("/spec/capabilities", r#"{"disabled": ["Ingress"]}"#)], "Ingress may be disabled only together with Console"),
    // etcd.
    case(hc, &[], &[("/spec/etcd", r#"{"managementType": "Managed"}"#)], "managed is required when managementType is Managed"),
    case(hc, &[], &[("/spec/etcd", r#"{"managementType": "Unmanaged", "unmanaged": {"endpoint": "https://e", "tls": {"clientSecret": {"name": "c"}}}, "managed": {"storage": {"type": "PersistentVolume"}}}"#)], "managed is required when managementType is Managed, and forbidden otherwise"),
    case(hc, &[], &[("/spec/etcd", r#"{"managementType": "Unmanaged"}"#)], "unmanaged is required when managementType is Unmanaged"),
    case(hc, &[], &[("/spec/etcd", r#"{"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "restoreSnapshotURL": ["ftp://x"]}}}"#)], "restoreSnapshotURL must start with https:// or s3://"),
    // networking.
    case(full, &[], &[("/spec/networking/serviceNetwork/0/cidr", r#""10.128.0.0/14""#)], "clusterNetwork and serviceNetwork must not share a CIDR"),
    case(full, &[], &[("/spec/networking/machineNetwork/0/cidr", r#""10.128.0.0/14""#)], "machineNetwork and clusterNetwork must not share a CIDR"),
    case(full, &[], &[("/spec/networking/machineNetwork/0/cidr", r#""172.30.0.0/16""#)], "machineNetwork and serviceNetwork must not share a CIDR"),
    case(full, &[], &[("/spec/networking/machineNetwork/0/cidr", r#""10.0.0.0""#)], "cidr must be an address range"),
    case(full, &[], &[("/spec/networking/allocateNodeCIDRs", r#""Enabled""#)], "allocateNodeCIDRs may be Enabled only when networkType is Other"),
    case(hc, &[], &[("/spec/operatorConfiguration", r#"{"clusterNetworkOperator": {"disableMultiNetwork": true}}"#)], "disableMultiNetwork may be true only when networking.networkType is Other"),
    case(full, &[], &[("/spec/networking/networkType", r#""Other""#)], "ovnKubernetesConfig is allowed only when networking.networkType is OVNKubernetes"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/mtu", "9217")], "mtu"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/ipv4/internalJoinSubnet", r#""fd98::/64""#)], "internalJoinSubnet must be an IPv4 range"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/ipv4/internalTransitSwitchSubnet", r#""fd98::/64""#)], "internalTransitSwitchSubnet must be an IPv4 range"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/ipv6", r#"{"internalJoinSubnet": "100.64.0.0/16"}"#)], "internalJoinSubnet must be an IPv6 range"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/ipv6", r#"{"internalTransitSwitchSubnet": "100.64.0.0/16"}"#)], "internalTransitSwitchSubnet must be an IPv6 range"),
    // Services.
    case(hc, &[], &[("/spec/services/3", "null")], "services needs at least 4 entries"),
    case(hc, &[], &[("/spec/services/2/servicePublishingStrategy/type", r#""LoadBalancer""#)], "on Azure the Konnectivity service must be published by Route"),
    case(hc, &[], &[("/spec/services/3/servicePublishingStrategy/type", r#""LoadBalancer""#)], "on Azure the Ignition service must be published by Route"),
    case(full, &[], &[("/spec/services/1/servicePublishingStrategy/type", r#""LoadBalancer""#)], "on Azure the OAuthServer service must be published by Route, or by LoadBalancer with WorkloadIdentities"),
    case(hc, &[("/spec/services/1/servicePublishingStrategy/type", r#""LoadBalancer""#)], &[("/spec/services/1/servicePublishingStrategy/type", r#""NodePort""#)], "nodePort is required when type is NodePort"),
    case(hc, &[], &[("/spec/services/0/servicePublishingStrategy/nodePort", r#"{"address": "a"}"#)], "nodePort is required when type is NodePort, and forbidden otherwise"),
    case(hc, &[], &[("/spec/services/0/servicePublishingStrategy/route", r#"{"hostname": "a.example.com"}"#)], "route is forbidden unless type is Route"),
    case(hc, &[], &[("/spec/services/1/servicePublishingStrategy/loadBalancer", r#"{"hostname": "a.example.com"}"#)], "loadBalancer is forbidden unless type is LoadBalancer"),
    case(hc, &[("/spec/services/0/servicePublishingStrategy/loadBalancer", r#"{"hostname": "a.example.com"}"#)], &[("/spec/services/0/servicePublishingStrategy/loadBalancer/hostname", r#""single""#)], "hostname must be a domain name of at least two labels"),
    case(hc, &[], &[("/spec/services/0/servicePublishingStrategy/loadBalancer", r#"{"hostname": "10.0.0.1"}"#)], "hostname must be a domain name of at least two labels"),
    case(full, &[], &[("/spec/services/0/servicePublishingStrategy/loadBalancer", r#"{"hostname": "api.other.example.com"}"#)], "the APIServer's loadBalancer.hostname must not be among"),
    // Encryption.
    case(full, &[], &[("/spec/secretEncryption", r#"{"type": "aescbc"}"#)], "aescbc is required when type is aescbc"),
    case(full, &[], &[("/spec/secretEncryption/kms", "null")], "kms is required when type is kms"),
    case(full, &[], &[(KMS, "null")], "azure is required when provider is Azure"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/workloadIdentity", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}"#)], "exactly one of kms (ManagedIdentities) and workloadIdentity (WorkloadIdentities) must be set"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/kms", "null")], "exactly one of kms"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/kms", "null"), ("/spec/secretEncryption/kms/azure/workloadIdentity", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}"#)], "must have the identity of the cluster's flavour"),
    case(hc, &[("/spec/secretEncryption", r#"{"type": "kms", "kms": {"provider": "Azure", "azure": {"activeKey": {"keyVaultName": "kv", "keyName": "etcd", "keyVersion": "1"}, "workloadIdentity": {"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}}}}"#)], &[("/spec/secretEncryption/kms/azure/workloadIdentity", "null"), ("/spec/secretEncryption/kms/azure/kms", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e", "credentialsSecretName": "kms", "objectEncoding": "utf-8"}"#)], "must have the identity of the cluster's flavour"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/backupKey", r#"{"keyVaultName": "other", "keyName": "k", "keyVersion": "1"}"#)], "backupKey.keyVaultName must equal activeKey.keyVaultName"),
    // Azure.
    case(hc, &[], &[(AZURE, "null")], "azure is required when type is Azure, and forbidden otherwise: set platform.azure or change platform.type"),
    case(hc, &[], &[("/spec/platform/type", r#""None""#)], "azure is required when type is Azure, and forbidden otherwise"),
    case(hc, &[], &[("/spec/platform/azure/location", "null")], "spec.platform.azure.location: Required value"),
    case(hc, &[], &[("/spec/platform/azure/resourceGroup", r#""ends-with-dot.""#)], "spec.platform.azure.resourceGroup"),
    case(hc, &[], &[(SUBNET, r#""workers""#)], "subnetID must be /subscriptions/<subscription>/resourceGroups/<group>/providers/Microsoft.Network/virtualNetworks/<vnet>/subnets/<subnet>"),
    case(hc, &[], &[(SUBNET, r#""/subscriptions/s/resourcegroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/a""#)], "(case matters)"),
    case(hc, &[], &[(SUBNET, r#""/subscriptions/s/resourceGroups/g./providers/Microsoft.Network/virtualNetworks/vnet/subnets/a""#)], "subnetID: the resource group has 1 to 90"),
    case(hc, &[], &[(SUBNET, r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/a""#)], "subnetID: the virtual network name has 2 to 64"),
    case(hc, &[], &[(SUBNET, r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/a-""#)], "subnetID: the subnet name has 1 to 80"),
    case(hc, &[], &[("/spec/platform/azure/azureAuthenticationConfig/azureAuthenticationConfigType", r#""ManagedIdentities""#)], "managedIdentities is required when azureAuthenticationConfigType is ManagedIdentities"),
    case(full, &[], &[("/spec/platform/azure/azureAuthenticationConfig/azureAuthenticationConfigType", r#""WorkloadIdentities""#)], "workloadIdentities is required when azureAuthenticationConfigType is WorkloadIdentities"),
    case(hc, &[], &[("/spec/platform/azure/azureAuthenticationConfig/workloadIdentities/disk/clientID", r#""short""#)], "spec.platform.azure.azureAuthenticationConfig.workloadIdentities.disk.clientID"),
    case(full, &[], &[("/spec/platform/azure/azureAuthenticationConfig/managedIdentities/controlPlane/disk/credentialsSecretName", r#""under_score""#)], "credentialsSecretName"),
    case(full, &[], &[("/spec/platform/azure/azureAuthenticationConfig/managedIdentities/controlPlane/disk/objectEncoding", r#""rot13""#)], "objectEncoding: Unsupported value"),
    case(hc, &[], &[("/spec/platform/azure/topology", r#""Private""#)], "private is required when topology is Private or PublicAndPrivate"),
    case(full, &[], &[("/spec/platform/azure/topology", r#""Public""#)], "private is required when topology is Private or PublicAndPrivate, and forbidden otherwise"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/azureAuthenticationConfig/workloadIdentities/controlPlaneOperator", "null")], "workloadIdentities.controlPlaneOperator is required when private.type is PrivateLink"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/privateLink", "{}")], "spec.platform.azure.private.privateLink"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/type", r#""Swift""#)], "swift is required when type is Swift"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/type", r#""Swift""#)], "privateLink is forbidden unless type is PrivateLink"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/privateLink/natSubnetID", r#""nat""#)], "natSubnetID must be /subscriptions/"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/privateLink/natSubnetID", r#""/subscriptions/s/resourceGroups/g./providers/Microsoft.Network/virtualNetworks/v/subnets/-""#)], "natSubnetID: the subnet name"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/privateLink/additionalAllowedSubscriptions/0", r#""zzzzzzzz-0b7d-4a37-9a57-3f7a1c2b4d5e""#)], "additionalAllowedSubscriptions must be a UUID"),
    case(full, &[], &[("/spec/platform/azure/private/swift/podNetworkInstance", r#""Upper""#)], "podNetworkInstance must be a DNS label"),
    case(full, &[], &[("/spec/platform/azure/containerRegistry/credentials/managedIdentity", "null")], "managedIdentity is required when type is ManagedIdentity"),
    case(full, &[], &[("/spec/platform/azure/containerRegistry/credentials/managedIdentity/resourceID", r#""/subscriptions/8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e/resourceGroups/ids/providers/Microsoft.ManagedIdentity/systemAssignedIdentities/acr-identity""#)], "resourceID must be /subscriptions/<uuid>/resourceGroups/<group>/providers/Microsoft.ManagedIdentity/userAssignedIdentities/<name>"),
    // NodePool.
    case(np, &[], &[("/spec/clusterName", r#""Upper""#)], "clusterName must be the name of a HostedCluster"),
    case(np, &[], &[("/spec/autoScaling", r#"{"min": 1, "max": 2}"#)], "replicas and autoScaling exclude each other"),
    case(np, &[("/spec/replicas", "null"), ("/spec/autoScaling", r#"{"min": 0, "max": 2}"#)], &[("/spec/autoScaling/min", "3")], "autoScaling.max must be at least autoScaling.min"),
    case(np, &[("/spec/replicas", "null"), ("/spec/autoScaling", r#"{"min": 0, "max": 2}"#)], &[("/spec/platform", r#"{"type": "None"}"#)], "autoScaling.min may be 0 only on AWS and Azure"),
    case(np, &[], &[("/spec/platform/azure", "null")], "azure is required when type is Azure"),
    case(np, &[], &[("/spec/platform/azure/vmSize", r#""d4s v5""#)], "spec.platform.azure.vmSize"),
    case(np, &[], &[("/spec/platform/azure/image/type", r#""ImageID""#)], "imageID is required when type is ImageID"),
    case(np, &[("/spec/platform/azure/image", r#"{"type": "ImageID", "imageID": "/subscriptions/s/x"}"#)], &[("/spec/platform/azure/image/azureMarketplace", r#"{"imageGeneration": "Gen1"}"#)], "azureMarketplace is forbidden unless image.type is AzureMarketplace"),
    case(np, &[], &[("/spec/platform/azure/image/azureMarketplace", r#"{"publisher": "azureopenshift", "offer": "aro4"}"#)], "publisher, offer, sku and version must be set together or not at all"),
    case(np, &[], &[("/spec/platform/azure/osDisk/sizeGiB", "15")], "sizeGiB"),
    case(np, &[], &[("/spec/platform/azure/osDisk/diskStorageAccountType", r#""Floppy""#)], "diskStorageAccountType: Unsupported value"),
    case(np, &[], &[("/spec/platform/azure/osDisk/encryptionSetID", r#""des""#)], "encryptionSetID must be /subscriptions/<uuid>"),
    case(np, &[], &[("/spec/platform/azure/availabilityZone", r#""4""#)], "availabilityZone must be '1', '2' or '3'"),
    case(np, &[], &[(SUBNET, r#""/subscriptions/not-a-uuid/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/a""#)], "subnetID must be /subscriptions/<uuid>"),
    case(np, &[], &[("/spec/platform/azure/diagnostics", r#"{"storageAccountType": "UserManaged"}"#)], "userManaged is required when storageAccountType is UserManaged"),
    case(np, &[], &[("/spec/platform/azure/diagnostics", r#"{"storageAccountType": "UserManaged", "userManaged": {"storageAccountURI": "http://a"}}"#)], "storageAccountURI must be an https URL"),
    case(np, &[], &[("/spec/taints", r#"[{"key": "a", "effect": "Sometimes"}]"#)], "effect: Unsupported value"),
    // Others.
    case(pls, &[], &[("/spec/subscriptionID", r#""zzzzzzzz-0b7d-4a37-9a57-3f7a1c2b4d5e""#)], "subscriptionID must be a UUID"),
    case(pls, &[], &[("/spec/guestVNetID", r#""vnet""#)], "guestVNetID must be /subscriptions/"),
    case(pls, &[], &[("/spec/guestSubnetID", r#""/subscriptions/s/resourceGroups/g./providers/Microsoft.Network/virtualNetworks/v/subnets/-""#)], "guestSubnetID: the subnet name"),
    case(pls, &[], &[("/spec/guestSubnetID", r#""x""#)], "guestSubnetID must be /subscriptions/"),
    case(backup, &[], &[("/spec/storage/azureBlob", "null")], "azureBlob"),
    // Sizes.
    case(sizing, &[], &[("/metadata/name", r#""other""#)], "exactly one configuration may exist, and its name is cluster"),
    case(sizing, &[], &[("/spec/sizes/0/criteria/from", "1")], "exactly one size must begin at zero"),
    case(sizing, &[], &[("/spec/sizes/1/criteria/to", "90")], "exactly one size must have no end"),
    case(sizing, &[], &[("/spec/sizes/0/criteria", r#"{"from": 0}"#)], "exactly one size must have no end"),
    case(sizing, &[], &[("/spec/sizes/1", r#"{"name": "large", "criteria": {"from": 61, "to": 60}}"#)], "criteria.from must not be greater than criteria.to"),
    case(sizing, &[], &[("/spec/sizes/1/name", r#""small""#)], "Duplicate value"),
    case(sizing, &[], &[("/spec/sizes/0/effects/kasGoMemLimit", r#""8Gi""#)], "kasGoMemLimit"),
    case(sizing, &[], &[("/spec/concurrency/limit", "0")], "limit"),
    case(sizing, &[], &[("/spec/transitionDelay/increase", r#""soon""#)], "increase"),
    case(backup, &[], &[("/spec/storage/azureBlob/keyPrefix", r#""/a""#)], "keyPrefix must neither begin nor end with a slash"),
    case(route, &[], &[("/spec/host", r#""no host""#)], "host must be a domain name"),
    case(route, &[], &[("/spec/path", r#""/a""#)], "path is forbidden when tls.termination is passthrough"),
];

/// Refused when changed.
#[rustfmt::skip] // A table: one row each.
pub const UPDATE: &[Case] = &[
    // Azure.
    case(hc, &[], &[("/spec/platform/azure/location", r#""northeurope""#)], "spec.platform.azure.location: Invalid value: \"string\": location is immutable"),
    case(hc, &[], &[("/spec/platform/azure/resourceGroup", r#""other""#)], "resourceGroup is immutable"),
    case(hc, &[], &[("/spec/platform/azure/vnetID", r#""other""#)], "vnetID is immutable"),
    case(hc, &[], &[(SUBNET, r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/b""#)], "subnetID is immutable: create another HostedCluster"),
    case(hc, &[], &[("/spec/platform/azure/subscriptionID", r#""other""#)], "subscriptionID is immutable"),
    case(hc, &[], &[("/spec/platform/azure/securityGroupID", r#""other""#)], "securityGroupID is immutable"),
    case(hc, &[], &[("/spec/platform", r#"{"type": "None"}"#)], "platform.type is immutable"),
    case(full, &[], &[("/spec/platform/azure/topology", "null")], "topology cannot be removed once set"),
    case(full, &[], &[("/spec/platform/azure/topology", r#""Public""#), ("/spec/platform/azure/private", "null")], "topology cannot change between Public and the private modes"),
    case(full, &[], &[("/spec/platform/azure/topology", r#""Public""#), ("/spec/platform/azure/private", "null")], "private can neither be added nor removed after creation"),
    case(hc, &[], PRIVATE_LINK, "topology cannot change between Public and the private modes"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private", r#"{"type": "Swift", "swift": {"podNetworkInstance": "a"}}"#)], "private.type is immutable"),
    case(hc, PRIVATE_LINK, &[("/spec/platform/azure/private/privateLink/natSubnetID", r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/b""#)], "natSubnetID is immutable: create another HostedCluster"),
    case(full, &[], &[("/spec/platform/azure/private/swift/podNetworkInstance", r#""other""#)], "podNetworkInstance is immutable"),
    // Generic.
    case(full, &[], &[("/spec/clusterID", r#""00000000-0b7d-4a37-9a57-3f7a1c2b4d5e""#)], "clusterID is immutable once set"),
    case(full, &[], &[("/spec/clusterID", "null")], "clusterID is immutable once set"),
    case(full, &[], &[("/spec/infraID", r#""other""#)], "infraID is immutable once set"),
    case(full, &[], &[("/spec/infraID", "null")], "infraID is immutable once set"),
    case(full, &[], &[("/spec/dns/baseDomain", r#""other.com""#)], "baseDomain is immutable once set"),
    case(full, &[], &[("/spec/dns/baseDomainPrefix", r#""a""#)], "baseDomainPrefix is immutable"),
    case(full, &[], &[("/spec/dns/publicZoneID", "null")], "publicZoneID is immutable once set"),
    case(full, &[], &[("/spec/dns/privateZoneID", r#""b""#)], "privateZoneID is immutable once set"),
    case(hc, &[], &[("/spec/services/0/servicePublishingStrategy/type", r#""Route""#)], "services is immutable"),
    case(hc, &[], &[("/spec/controllerAvailabilityPolicy", r#""SingleReplica""#)], "controllerAvailabilityPolicy is immutable"),
    case(hc, &[], &[("/spec/olmCatalogPlacement", r#""guest""#)], "olmCatalogPlacement is immutable"),
    case(hc, &[], &[("/spec/capabilities", r#"{"disabled": ["Console"]}"#)], "capabilities is immutable"),
    case(hc, &[], &[("/spec/fips", "true")], "fips is immutable"),
    case(full, &[], &[("/spec/fips", "null")], "fips is immutable"),
    case(full, &[], &[("/spec/issuerURL", r#""https://other.example.com""#)], "issuerURL is immutable"),
    case(full, &[], &[("/spec/secretEncryption", "null")], "secretEncryption cannot be removed"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/keyVaultType", r#""ManagedHSM""#)], "keyVaultType is immutable"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/kms", "null"), ("/spec/secretEncryption/kms/azure/workloadIdentity", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}"#)], "kms is immutable"),
    case(full, &[], &[("/spec/secretEncryption/kms/azure/kms", "null"), ("/spec/secretEncryption/kms/azure/workloadIdentity", r#"{"clientID": "8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"}"#)], "workloadIdentity is immutable"),
    // etcd.
    case(hc, &[], &[("/spec/etcd", r#"{"managementType": "Unmanaged", "unmanaged": {"endpoint": "https://e", "tls": {"clientSecret": {"name": "c"}}}}"#)], "etcd.managementType is immutable"),
    case(hc, &[], &[("/spec/etcd/managed/storage/persistentVolume/size", r#""9Gi""#)], "size is immutable"),
    case(hc, &[("/spec/etcd", r#"{"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"storageClassName": "fast"}}}}"#)], &[("/spec/etcd/managed/storage/persistentVolume/storageClassName", r#""slow""#)], "storageClassName is immutable"),
    case(hc, &[], &[("/spec/etcd/managed/storage/restoreSnapshotURL", r#"["https://a"]"#)], "restoreSnapshotURL can neither be added nor removed"),
    case(hc, &[("/spec/etcd", r#"{"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "restoreSnapshotURL": ["https://a"]}}}"#)], &[("/spec/etcd/managed/storage/restoreSnapshotURL/0", r#""https://b""#)], "restoreSnapshotURL is immutable"),
    // Networking.
    case(full, &[], &[("/spec/networking/clusterNetwork/0/cidr", r#""10.124.0.0/14""#)], "clusterNetwork is immutable"),
    case(full, &[], &[("/spec/networking/serviceNetwork/0/cidr", r#""172.29.0.0/16""#)], "serviceNetwork is immutable"),
    case(full, &[], &[("/spec/networking/machineNetwork/0/cidr", r#""10.1.0.0/16""#)], "machineNetwork is immutable"),
    case(full, &[("/spec/networking/apiServer/advertiseAddress", r#""172.20.0.2""#)], &[("/spec/networking/apiServer/advertiseAddress", r#""172.20.0.3""#)], "advertiseAddress is immutable"),
    case(full, &[("/spec/networking/apiServer/port", "6443")], &[("/spec/networking/apiServer/port", "7443")], "port is immutable"),
    case(full, &[("/spec/networking/allocateNodeCIDRs", r#""Disabled""#)], &[("/spec/networking/allocateNodeCIDRs", r#""Enabled""#)], "allocateNodeCIDRs is immutable"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/mtu", "1500")], "mtu is immutable"),
    case(full, &[], &[("/spec/operatorConfiguration/clusterNetworkOperator/disableMultiNetwork", "true")], "disableMultiNetwork is immutable"),
    case(full, &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/v4InternalSubnet", r#""100.64.0.0/16""#)], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/v4InternalSubnet", r#""100.65.0.0/16""#)], "v4InternalSubnet is immutable"),
    case(full, &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/v6InternalSubnet", r#""fd98::/48""#)], &[("/spec/operatorConfiguration/clusterNetworkOperator/ovnKubernetesConfig/v6InternalSubnet", r#""fd99::/48""#)], "v6InternalSubnet is immutable"),
    // NodePool.
    case(np, &[], &[("/spec/clusterName", r#""other""#)], "clusterName is immutable"),
    case(np, &[], &[("/spec/arch", r#""arm64""#)], "arch is immutable"),
    case(np, &[], &[("/spec/management/upgradeType", r#""InPlace""#)], "upgradeType is immutable"),
    case(np, &[], &[(SUBNET, r#""/subscriptions/8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/b""#)], "subnetID is immutable: create another NodePool"),
    // Others.
    case(pls, &[], &[("/spec/subscriptionID", r#""00000000-0b7d-4a37-9a57-3f7a1c2b4d5e""#)], "subscriptionID is immutable: delete the object"),
    case(pls, &[], &[("/spec/resourceGroupName", r#""b""#)], "resourceGroupName is immutable"),
    case(pls, &[], &[("/spec/location", r#""b""#)], "location is immutable: delete the object"),
    case(pls, &[], &[("/spec/guestSubnetID", r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/b""#)], "guestSubnetID is immutable"),
    case(pls, &[], &[("/spec/guestVNetID", r#""/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/b""#)], "guestVNetID is immutable"),
    case(pls, &[("/spec/natSubnetID", r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/a""#)], &[("/spec/natSubnetID", r#""/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/vnet/subnets/b""#)], "natSubnetID is immutable once set"),
    case(pls, &[("/spec/baseDomain", r#""a.com""#)], &[("/spec/baseDomain", "null")], "baseDomain is immutable once set: delete the object"),
    case(template, &[], &[("/spec/template/spec/vmSize", r#""b""#)], "template is immutable"),
    case(backup, &[], &[("/spec/storage/azureBlob/container", r#""other""#)], "storage is immutable: make another HCPEtcdBackup"),
    case(revocation, &[], &[("/spec/signerClass", r#""sre-break-glass""#)], "signerClass is immutable"),
];
