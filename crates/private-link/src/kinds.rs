//! The kinds that are read and written.

use reconcile::Kind;

const GROUP: &str = "hypershift.openshift.io";

pub const LINK: Kind = Kind::new(GROUP, "v1beta1", "AzurePrivateLinkService", "azureprivatelinkservices");
pub const PLANE: Kind = Kind::new(GROUP, "v1beta1", "HostedControlPlane", "hostedcontrolplanes");
