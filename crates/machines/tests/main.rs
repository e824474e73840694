//! Machines against an embedded cluster and a simulated Azure.

mod adopt;
mod drain;
mod killed;
mod life;
mod repair;
mod settled;
mod trouble;
mod world;
