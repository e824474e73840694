//! Azure on one machine.
