//! `hypershift.openshift.io/v1beta1` and its certificates group.

pub mod certificates;
pub mod component;
pub mod encryption;
pub mod etcd;
pub mod etcd_backup;
pub mod hosted_cluster;
pub mod hosted_control_plane;
pub mod identity;
pub mod networking;
pub mod node_pool;
pub mod node_pool_azure;
pub mod platform;
pub mod private_link;
pub mod services;
pub mod settings;
pub mod shared;
pub mod status;

pub use certificates::{CertificateRevocationRequest, CertificateSigningRequestApproval};
pub use component::{ControlPlaneComponent, ControlPlaneComponentStatus};
pub use etcd_backup::{HCPEtcdBackup, HCPEtcdBackupSpec, HCPEtcdBackupStatus};
pub use hosted_cluster::{HostedCluster, HostedClusterSpec, HostedClusterStatus};
pub use hosted_control_plane::{HostedControlPlane, HostedControlPlaneSpec, HostedControlPlaneStatus};
pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use private_link::{AzurePrivateLinkService, AzurePrivateLinkServiceSpec, AzurePrivateLinkServiceStatus};
