//! What flags become, and which are refused.

mod accepted;
mod clusters;
mod installs;
mod samples;
mod upgrades;
