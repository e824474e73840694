//! The environment variables the kit listens to, read in one place so the list stays short.
//!
//! A test has no command line of its own, so the environment is how a person talks to it:
//! `ZAFFRE_GOLDEN`, `ZAFFRE_TRANSCRIPT`, `ZAFFRE_PYTHON`, `ZAFFRE_PYTHON_AZURE`, `ZAFFRE_PYTHON_AZ`, `KUBECTL`,
//! `KUBE_APISERVER`, `ETCD`, `GO`, `PATH`, `CARGO_TARGET_DIR`, `ZAFFRE_UPSTREAM`.

#[allow(clippy::disallowed_methods, reason = "tests have no flags; the environment is their command line")]
pub(crate) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
