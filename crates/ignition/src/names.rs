//! Names that the NodePool controller and we have agreed upon.

/// Secrets with tokens are called so.
pub const TOKEN_PREFIX: &str = "token-";

/// Keys of a token Secret.
pub mod key {
    pub const TOKEN: &str = "token";
    pub const OLD_TOKEN: &str = "old_token";
    pub const RELEASE: &str = "release";
    pub const RELEASE_VERSION: &str = "release-version";
    pub const CONFIG: &str = "config";
    pub const PULL_SECRET_HASH: &str = "pull-secret-hash";
    pub const TRUST_BUNDLE_HASH: &str = "additional-trust-bundle-hash";
    pub const CONFIGURATION_HASH: &str = "hc-configuration-hash";
    pub const CLOUD_CONFIG_HASH: &str = "cloud-config-hash";
    pub const OS_STREAM: &str = "os-stream";
    pub const REASON: &str = "reason";
    pub const MESSAGE: &str = "message";
    pub const PAYLOAD: &str = "payload";
}

/// Annotations of a token Secret.
pub mod annotation {
    pub const IGNITION_CONFIG: &str = "hypershift.openshift.io/ignition-config";
    pub const UPGRADE_TYPE: &str = "hypershift.openshift.io/node-pool-upgrade-type";
    pub const GENERATED: &str = "hypershift.openshift.io/last-token-generation-time";
    pub const REACHED: &str = "hypershift.openshift.io/ignition-reached";
    pub const EXPIRES: &str = "hypershift.openshift.io/ignition-token-expiration-timestamp";
    pub const NODE_POOL: &str = apis::names::annotation::NODE_POOL;
}

/// What a payload is made of, besides the Secret.
pub mod input {
    pub const SECRETS: [&str; 3] = [PULL_SECRET, BOOTSTRAP, SSH_KEY];
    pub const CONFIG_MAPS: [&str; 5] =
        [ROOT_CA, KUBELET_CA, TRUST_BUNDLE, CLOUD_CONFIG, MACHINE_CONFIG_SERVER];
    pub const PULL_SECRET: &str = "pull-secret";
    pub const BOOTSTRAP: &str = "bootstrap-kubeconfig";
    pub const SSH_KEY: &str = "ssh-key";
    pub const ROOT_CA: &str = "root-ca";
    pub const KUBELET_CA: &str = "kubelet-client-ca";
    pub const TRUST_BUNDLE: &str = "user-ca-bundle";
    pub const CLOUD_CONFIG: &str = "azure-cloud-config";
    pub const MACHINE_CONFIG_SERVER: &str = "machine-config-server";
}
