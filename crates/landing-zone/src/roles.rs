//! Which component gets which role where.

use crate::identities::Identities;
use arm::ResourceId;

/// Where roles are given: groups, whatever they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Main,
    SecurityGroup,
    Network,
    Dns,
}

const CONTRIBUTOR: &str = "b24988ac-6180-42a0-ab88-20f7382dd24c";
/// The control plane operator's custom role.
pub const CPO_ROLE: &str = "7d8bb4e4-6fa7-4545-96cf-20fce11b705d";
/// Known by its display name only: its id differs from subscription to subscription and must be looked up.
pub const NODE_POOL_ROLE: &str = "Azure Red Hat OpenShift NodePool Management Role";
const FILE: &str = "0d7aedc0-15fd-4a67-a412-efad370c947e";
const DISK: &str = "5b7237c5-45e1-49d6-bc18-a1f62f400748";
const REGISTRY: &str = "8b32b316-c2f5-4ddf-b05b-83dacd2d08b5";

use Place::{Dns, Main, Network, SecurityGroup};

struct Row {
    component: &'static str,
    role: &'static str,
    places: &'static [Place],
}

const ROWS: [Row; 11] = [
    Row {
        component: "cloud-provider",
        role: "a1f96423-95ce-4224-ab27-4e3dc72facd4",
        places: &[Main, SecurityGroup, Network],
    },
    Row { component: "ingress", role: "0336e1d3-7a87-462b-b6db-342b63f7802c", places: &[Main, Network, Dns] },
    Row { component: "cpo", role: CONTRIBUTOR, places: &[Main, SecurityGroup, Network] },
    Row { component: "azure-file", role: FILE, places: &[Main, SecurityGroup, Network] },
    Row { component: "azure-disk", role: DISK, places: &[Main] },
    Row { component: "cncc", role: "be7a6435-15ae-4171-8f30-4a343eff9e8f", places: &[Main, Network] },
    Row { component: "ciro", role: REGISTRY, places: &[Main] },
    Row { component: "capz", role: CONTRIBUTOR, places: &[Main, Network] },
    Row { component: "azure-diskWI", role: DISK, places: &[Main] },
    Row { component: "azure-fileWI", role: FILE, places: &[Main] },
    Row { component: "ciroWI", role: REGISTRY, places: &[Main] },
];

/// Every component that ever gets a role; destroying looks for all of them.
pub fn components() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|r| r.component)
}

/// A role for a component in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub component: &'static str,
    pub client_id: String,
    /// The role definition's GUID.
    pub role: String,
    pub place: Place,
}

/// How roles are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assign {
    /// Custom roles for the control plane operator and the node pools, in place of Contributor.
    pub custom: bool,
    /// The group of the public zone.
    pub dns_group: String,
    /// The registry may be switched off.
    pub image_registry: bool,
}

fn client_of(identities: &Identities, component: &str) -> Option<String> {
    let id = match identities {
        Identities::Workload(w) => match component {
            "cloud-provider" => Some(&w.cloud_provider.client_id),
            "ingress" => Some(&w.ingress.client_id),
            "cpo" => w.control_plane_operator.as_ref().map(|c| &c.client_id),
            "azure-file" => Some(&w.file.client_id),
            "azure-disk" => Some(&w.disk.client_id),
            "cncc" => Some(&w.network.client_id),
            "ciro" => Some(&w.image_registry.client_id),
            "capz" => Some(&w.node_pool_management.client_id),
            _ => None,
        },
        Identities::Managed { control_plane: c, data_plane: d } => match component {
            "cloud-provider" => Some(&c.cloud_provider.client_id),
            "ingress" => Some(&c.ingress.client_id),
            "cpo" => Some(&c.control_plane_operator.client_id),
            "azure-file" => Some(&c.file.client_id),
            "azure-disk" => Some(&c.disk.client_id),
            "cncc" => Some(&c.network.client_id),
            "ciro" => c.image_registry.as_ref().map(|i| &i.client_id),
            "capz" => Some(&c.node_pool_management.client_id),
            "azure-diskWI" => Some(&d.disk),
            "azure-fileWI" => Some(&d.file),
            "ciroWI" => Some(&d.image_registry),
            _ => None,
        },
    };
    id.filter(|id| !id.is_empty()).cloned()
}

/// Client ids that need roles.
pub fn clients(identities: &Identities, assign: &Assign) -> Vec<String> {
    let mut all: Vec<String> = components()
        .filter(|c| assign.image_registry || *c != "ciro")
        .filter_map(|c| client_of(identities, c))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// All grants. `node_pool_role` is the GUID behind [`NODE_POOL_ROLE`], needed for custom roles.
pub fn grants(identities: &Identities, assign: &Assign, node_pool_role: Option<&str>) -> Vec<Grant> {
    let mut out = Vec::new();
    for row in &ROWS {
        if row.component == "ciro" && !assign.image_registry {
            continue;
        }
        let Some(client_id) = client_of(identities, row.component) else { continue };
        let role = match (row.component, assign.custom, node_pool_role) {
            ("cpo", true, _) => CPO_ROLE,
            ("capz", true, Some(role)) => role,
            _ => row.role,
        };
        for place in row.places {
            out.push(Grant {
                component: row.component,
                client_id: client_id.clone(),
                role: role.to_owned(),
                place: *place,
            });
        }
    }
    out
}

/// The id of a role definition as assignments name it.
pub fn definition(subscription: &ResourceId, role: &str) -> String {
    format!("{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}")
}
