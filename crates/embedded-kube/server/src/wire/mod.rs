//! The edge: what comes in and goes out, before and after anything is decided.

pub mod body;
pub mod encode;
pub mod info;
pub mod negotiate;
pub mod params;
pub mod respond;
