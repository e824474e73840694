//! The ignition server against an embedded API server and a real TLS client.

mod commands;
mod stage;
mod tokens;
