//! Hosted control planes, whole: pods, Services, volumes, TLS.

mod certificates;
mod data;
mod encrypted;
mod kit;
mod many;
mod members;
mod pki;
mod routing;
