//! `ControlPlaneComponent`: how one component of a control plane is doing. One place to look when something is stuck.

use crate::common::{Condition, Nothing};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Says nothing: the object is its status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "ControlPlaneComponent",
    namespaced,
    doc = "How one component of a control plane is doing.",
    status = "ControlPlaneComponentStatus",
    shortname = "cpc",
    shortname = "cpcs",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.version",
        description = "Version that is rolled out"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status",
        description = "Whether it serves"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"RolloutComplete\")].status",
        description = "Whether its rollout is complete"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].message",
        description = "What Available says"
    ),
    printcolumn(
        name = "RolloutMessage",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"RolloutComplete\")].message",
        description = "What RolloutComplete says",
        priority = 1
    )
)]
#[serde(from = "Option<Nothing>")]
pub struct ControlPlaneComponentSpec {}

impl From<Option<Nothing>> for ControlPlaneComponentSpec {
    fn from(_: Option<Nothing>) -> ControlPlaneComponentSpec {
        ControlPlaneComponentSpec {}
    }
}

/// How the component is doing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneComponentStatus {
    /// Available and RolloutComplete.
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the HostedControlPlane that this was computed from.
    #[schemars(range(min = 1, max = 9007199254740992i64))]
    pub observed_generation: Option<i64>,
    /// Version that is rolled out.
    #[schemars(length(max = 255))]
    pub version: Option<String>,
    /// What it consists of.
    #[schemars(length(max = 100))]
    pub resources: Option<Vec<ComponentResource>>,
}

/// An object of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ComponentResource {
    #[schemars(length(max = 255))]
    pub group: String,
    #[schemars(length(max = 255))]
    pub kind: String,
    #[schemars(length(max = 255))]
    pub name: String,
}
