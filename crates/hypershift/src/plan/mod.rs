//! What a cluster's objects are to be, from what was observed. Pure.
//!
//! ```text
//! HostedCluster ─> HostedControlPlane (projection) ─> facts (as the control plane reads them) ─┐
//! inputs found ──> copies                                                                      ├─> objects, in stages
//! release ─────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The projection is read back through [`control_plane::facts`], so that what the control plane could not use is refused
//! here, before anything of it exists.

pub mod access;
pub mod copies;
pub mod credentials;
pub mod infra;
pub mod namespace;
pub mod operators;
pub mod project;

use crate::around::Machinery;
use crate::inputs::{Found, Given, Input};
use crate::naming;
use apis::hypershift::{HostedCluster, HostedControlPlane};
use apis::names::{annotation, label};
use control_plane::facts::{self, Around, Unusable};
use control_plane::scope::{MetricsSet, Scope};
use control_plane::{Error as RenderError, Materials};
use serde_json::{Value, json};

/// The annotation that says whose an object is; watches wake by it.
pub const CLUSTER_OF: &str = annotation::HOSTED_CLUSTER;

/// Puts an object into the control plane's namespace and says whose it is.
pub fn belong(hc: &HostedCluster, mut object: Value) -> Value {
    let namespace = naming::namespace(hc);
    let metadata = &mut object["metadata"];
    metadata["namespace"] = json!(namespace);
    metadata["labels"][label::HOSTED_CONTROL_PLANE] = json!(namespace);
    metadata["annotations"][CLUSTER_OF] = json!(naming::key(hc));
    object
}

/// The facts of a cluster's control plane, read from its projection.
pub fn scope(hc: &HostedCluster, plane: &Value, around: &Around) -> Result<Scope, Unusable> {
    let unusable = |e: serde_json::Error| Unusable { field: "spec".to_owned(), why: e.to_string() };
    let hcp: HostedControlPlane = serde_json::from_value(plane.clone()).map_err(unusable)?;
    let mut scope = facts::read(&hcp, around)?;
    scope.namespace = naming::namespace(hc);
    Ok(scope)
}

/// Everything that is applied, in the order of its stages: the second is of no use without the first.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The namespace.
    pub namespace: Vec<Value>,
    /// Copies and credentials.
    pub inputs: Vec<Value>,
    /// The control plane and what Cluster API is told.
    pub core: Vec<Value>,
    /// Operators and their rights.
    pub operators: Vec<Value>,
    /// What could not be rendered; the rest goes on.
    pub troubles: Vec<String>,
}

/// What planning needs besides the cluster.
pub struct Plan<'a> {
    pub hc: &'a HostedCluster,
    pub inputs: &'a [Input],
    pub found: &'a Found,
    /// Authorities that the management cluster trusts.
    pub trusted: Option<&'a Given>,
    /// What the people who run the place want to see of control planes.
    pub metrics: Option<&'a Given>,
    pub scope: &'a Scope,
    /// The projection.
    pub plane: Value,
    /// `status.controlPlaneEndpoint` of the control plane.
    pub endpoint: &'a Value,
    pub uid: Option<i64>,
    /// Whether the platform's Prometheus looks at it.
    pub monitored: bool,
    /// Whether machines can be managed: the guest's API answers, or did.
    pub machines: bool,
    pub machinery: Machinery,
    pub materials: &'a dyn Materials,
}

impl Plan<'_> {
    pub fn objects(self) -> Objects {
        let (hc, scope) = (self.hc, self.scope);
        let mut out = Objects {
            namespace: vec![namespace::object(hc, self.uid, self.monitored)],
            ..Objects::default()
        };
        out.inputs = copies::objects(hc, self.inputs, self.found);
        out.inputs.extend(self.trusted.and_then(|t| copies::trusted(hc, t)));
        if scope.metrics == MetricsSet::Sre {
            let (copy, wrong) = copies::metrics(hc, self.metrics);
            out.inputs.extend(copy);
            out.troubles.extend(wrong);
        }
        out.inputs.extend(credentials::objects(hc, scope));
        out.inputs.extend(operators::classes(hc, scope));
        out.core = vec![self.plane];
        out.core.extend(infra::objects(hc, scope, self.endpoint));
        out.operators = access::objects(hc);
        let mut add = |made: Result<Vec<Value>, RenderError>| match made {
            Ok(objects) => out.operators.extend(objects),
            Err(e) => out.troubles.push(e.to_string()),
        };
        add(operators::operator(hc, scope, self.materials));
        let wanted = naming::annotation(hc, annotation::DISABLE_MACHINE_MANAGEMENT).is_none();
        if wanted && self.machines {
            add(operators::machines(hc, scope, self.machinery, self.materials));
        }
        out
    }
}
