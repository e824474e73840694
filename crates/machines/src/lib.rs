//! Machines: from a MachineDeployment to virtual machines in Azure that are nodes of a guest, and back to nothing.
//!
//! ```text
//! MachineDeployment ─> MachineSet ─> Machine ─> AzureMachine ─> Azure: interface, disk, virtual machine
//!        ▲   rollout      │  order      ▲ │         │
//!        └── availability ┘             │ └─ drain ─┼─> guest: Node, pods, volumes
//!            MachineHealthCheck ─ marks ┘           └─ troubles, typed, back up to the deployment
//! ```
//!
//! These are the kinds, labels, finalizers and conditions of Cluster API (v1beta1) and of its provider for Azure, so that
//! upstream's controllers and ours can take over from each other: `--machines=builtin` runs these, `external` leaves the
//! objects to whoever else is there.
//!
//! * [`rollout`], [`order`], [`health`], [`life`] decide, without knowing a client: how large sets are now, which machine
//!   goes first, which is broken, what is said of one.
//! * [`vm`]: names, bodies, offers and troubles of one virtual machine.
//! * [`operate`]: the controllers. [`around`]: the ways to guests and Azure that they are given; [`connect`]: the usual ones.
//!
//! What holds throughout:
//!
//! * **Nothing is made without somebody who will remove it.** A finalizer is on before the first call, names follow from
//!   the object, and every call can be made again; a process may die between any two of them. What exists with our tags is
//!   adopted, what exists without them is never touched.
//! * **Watches, not polls.** Nodes of a guest are watched once, pods of a node while it is drained. Azure has no watches: its
//!   operations are looked at when it says so, and machines that are ready by one list per resource group.
//! * **Nobody is judged on hearsay.** A guest that cannot be asked has no broken nodes, a read that may be old deletes
//!   nothing, and counts that are older than what was asked for are not acted on.
//! * **A cause travels.** Quota, size, zone, image, policy, allocation and throttling have a reason of their own and a way
//!   out in the message, on the AzureMachine, on the Machine, and summed up on the set and the deployment.
//!
//! Rejected: waiting in a worker until a machine is made (forty seconds each, and a restart forgets it), server-side apply
//! for machines (it makes again what was deleted a moment ago), random names for parts of a machine (they must be written
//! down before they are used), and proportional scaling in a rollout (see [`rollout`]).

#![forbid(unsafe_code)]

pub mod around;
pub mod connect;
pub mod health;
pub mod kinds;
pub mod life;
pub mod operate;
pub mod order;
pub mod rollout;
mod text;
pub mod vm;
mod words;

pub use around::{Clouds, Reach, Unreachable};
