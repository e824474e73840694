//! What the controllers must be given: ways to guests and to Azure.

use apis::capz::AzureClusterIdentity;
use futures::future::BoxFuture;
use kube::Client;

/// Why something outside cannot be reached, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// The ways to the APIs of guests.
pub trait Reach: Send + Sync + 'static {
    /// A client for the guest of a Cluster. Asked once, and again after its kubeconfig changed or nobody answered.
    fn guest<'a>(
        &'a self,
        namespace: &'a str,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<Client, Unreachable>>;
}

/// The ways to Azure.
pub trait Clouds: Send + Sync + 'static {
    /// A client that acts as this identity. Asked once per identity and version of it.
    fn client<'a>(
        &'a self,
        identity: &'a AzureClusterIdentity,
    ) -> BoxFuture<'a, Result<azure::Client, Unreachable>>;
}
