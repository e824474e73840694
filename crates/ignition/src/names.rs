//! Names that the NodePool controller and we have agreed upon.

/// Secrets with tokens are called so.
pub const TOKEN_PREFIX: &str = "token-";

/// Keys of a token Secret.
pub use apis::names::token as key;

/// Annotations of a token Secret.
pub mod annotation {
    pub use apis::names::annotation::{
        IGNITION_CONFIG, IGNITION_REACHED as REACHED, IGNITION_TOKEN_EXPIRATION as EXPIRES,
        LAST_TOKEN_GENERATION_TIME as GENERATED, NODE_POOL, NODE_POOL_UPGRADE_TYPE as UPGRADE_TYPE,
    };
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
