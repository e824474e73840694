//! Nodes and pods as tests and clients see them.

mod kit;
mod nodes;
mod programs;
mod simulated;
