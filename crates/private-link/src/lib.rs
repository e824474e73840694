//! The private way into a self-managed cluster: from an internal load balancer to names that the guest's network resolves.
//!
//! ```text
//! management side                                        guest's side
//! Service ─> internal load balancer ─> private link ═══> private endpoint ─> zones <hcp>.hypershift.local
//! (private-router, oauth-openshift)    service + NAT     (an address)        and <base domain>, A records
//!                                      subnet
//! └──────────── the HyperShift operator ───────────┘     └──── the control plane operator ────┘
//! ```
//!
//! One AzurePrivateLinkService stands for one such way. It is written by the operator of the control plane
//! (`control_plane::links`); here are the two controllers that make it so, each with the identity and the finalizer of its
//! side, and each writing its own half of the status. They tell each other by the object alone: the alias of the service
//! leads from one to the other, and on the way back the endpoint's finalizer says that the service is still used.
//!
//! * [`link`]: what an object says, and the names that follow from it. [`cidr`]: room for one more subnet.
//! * [`service`], [`endpoint`]: what should be in Azure, as a goal; pure.
//! * [`trouble`]: what Azure's refusals mean, and the way out.
//! * [`operate`]: the controllers. [`around`]: the way to Azure that the guest's side is given.
//!
//! What holds throughout:
//!
//! * **Found again without memory.** Every name follows from the object. The one thing that does not, in which network
//!   the NAT subnet was made, is written on the object before it is made.
//! * **Nothing of others is touched.** A zone of the base domain may be shared by clusters, or be somebody's own: records
//!   are ours by name, the zone goes with the last record if we made it.
//! * **The endpoint goes first**, while the guest's API still gives out tokens to remove it with; the HostedControlPlane is
//!   held until then. Should it have to be given up, the service ends the connection by itself and goes.
//!
//! Workers wait for Azure here, at most a minute or two, and then know how it ended: there are one or two links to a
//! cluster, made once. (Machines, of which there are thousands, are not waited for: see `machines`.) A process that dies
//! meanwhile finds what it began by name, still being made, and waits for that.
//!
//! Rejected: one controller for both sides (the management account has no rights in a customer's network, and should
//! have none), and a public zone for the base domain's names (they lead to addresses that only the guest's network has).

#![forbid(unsafe_code)]

pub mod around;
pub mod cidr;
pub mod endpoint;
pub mod kinds;
pub mod link;
pub mod operate;
pub mod service;
pub mod trouble;

pub use around::{Clouds, Management, Unreachable};
pub use link::Link;
