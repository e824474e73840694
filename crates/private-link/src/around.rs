//! What the controllers must be given: the management side's account and group, and ways to the guests' sides.

use arm::ResourceId;
use futures::future::BoxFuture;

/// The management side, which one account looks after.
#[derive(Clone)]
pub struct Management {
    pub client: azure::Client,
    /// The group that holds the management cluster's load balancers; private link services are made in it.
    pub group: ResourceId,
}

/// Why Azure cannot be asked, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// The ways to Azure of control plane operators.
pub trait Clouds: Send + Sync + 'static {
    /// A client that acts as the control plane operator of this namespace.
    fn client<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<azure::Client, Unreachable>>;
}
