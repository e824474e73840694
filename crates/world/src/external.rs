//! Cluster API and its provider for Azure, brought by somebody else: `--machines=external`.
//!
//! Our controllers of machines rest, and our definitions of their kinds stay out. What the Deployments `cluster-api` and
//! `capi-provider` run is given by whoever makes the world; without, their pods only seem to run, and no machine is made.

use ek_node::{Program, Programs};
use serde_json::Value;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Default)]
pub struct External {
    /// Their complete definitions.
    pub definitions: Vec<Value>,
    /// What containers run, by the name that releases have for their image.
    pub programs: Vec<(&'static str, Arc<dyn Program>)>,
}

impl External {
    pub(crate) fn register(&self, programs: &mut Programs, image: impl Fn(&str) -> String) {
        for (name, program) in &self.programs {
            programs.register_command(&image(name), None, program.clone());
        }
    }
}
