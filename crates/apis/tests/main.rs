//! The definitions as others see them: committed files, published schemas, and an API server that enforces them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod api;
mod definitions;
mod published;
mod round_trip;
mod rule_table;
mod rules;
mod samples;
mod serving;
