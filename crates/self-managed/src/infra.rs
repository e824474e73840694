//! The file of `create infra azure`, as `create cluster azure --infra-json` reads it.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this is no output of `create infra azure`")]
    Format(#[source] serde_saphyr::Error),
    #[error("{field} is empty: run `create infra azure` again, or fill it in")]
    Empty { field: &'static str },
    #[error(
        "it names neither workloadIdentities nor controlPlaneMIs: run `create infra azure` with --workload-identities-file, or with --managed-identities-file and --data-plane-identities-file"
    )]
    NoIdentities,
}

/// What there is in Azure for one cluster. JSON and YAML are read; unknown keys are not looked at.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Infra {
    pub base_domain: String,
    #[serde(rename = "bootImageID")]
    pub boot_image_id: String,
    #[serde(rename = "infraID")]
    pub infra_id: String,
    #[serde(rename = "publicZoneID")]
    pub public_zone_id: String,
    #[serde(rename = "privateZoneID")]
    pub private_zone_id: String,
    pub region: String,
    pub resource_group_name: String,
    #[serde(rename = "securityGroupID")]
    pub security_group_id: String,
    #[serde(rename = "subnetID")]
    pub subnet_id: String,
    #[serde(rename = "vnetID")]
    pub vnet_id: String,
    #[serde(rename = "natSubnetID")]
    pub nat_subnet_id: Option<String>,
    #[serde(rename = "kmsClientID")]
    pub kms_client_id: Option<String>,
    pub workload_identities: Option<Value>,
    #[serde(rename = "controlPlaneMIs")]
    pub control_plane_mis: Option<Value>,
    pub data_plane_identities: Option<Value>,
}

impl Infra {
    pub fn read(text: &str) -> Result<Infra, Error> {
        let infra: Infra = serde_saphyr::from_str(text).map_err(Error::Format)?;
        let needed = [
            ("infraID", &infra.infra_id),
            ("baseDomain", &infra.base_domain),
            ("region", &infra.region),
            ("resourceGroupName", &infra.resource_group_name),
            ("vnetID", &infra.vnet_id),
            ("subnetID", &infra.subnet_id),
            ("securityGroupID", &infra.security_group_id),
        ];
        if let Some((field, _)) = needed.into_iter().find(|(_, v)| v.is_empty()) {
            return Err(Error::Empty { field });
        }
        if infra.workload_identities.is_none() && infra.control_plane_mis.is_none() {
            return Err(Error::NoIdentities);
        }
        Ok(infra)
    }

    /// Whether its identities are those of the managed flavour.
    pub fn is_managed(&self) -> bool {
        self.workload_identities.is_none()
    }
}
