//! One virtual machine: what it is called, what it is made of, whether it can be had, and what may go wrong. All pure;
//! `operate::azure` asks Azure.

pub mod body;
pub mod offer;
pub mod place;
pub mod trouble;

pub use place::Place;
pub use trouble::{Kind, Trouble};
