//! Looking after etcd: snapshots that are taken and put away, and members that are lost.
//!
//! * [`backup`]: what a snapshot asks for, who takes it, and what became of it.
//! * [`upload`]: the program that puts a snapshot into a container of blobs.
//! * [`recovery`]: when a member's data is given up so that it can join again.

pub mod backup;
pub mod recovery;
pub mod upload;
