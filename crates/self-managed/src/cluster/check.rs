//! Rules on flags that can be judged without reading a file.

use super::args::{Access, Args, OAuth};
use crate::flags::Refused;

/// A key in a vault, as its URL names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub vault: &'a str,
    pub name: &'a str,
    pub version: &'a str,
    pub managed_hsm: bool,
}

const KEY: &str = "--encryption-key-id";
/// Of vaults in each cloud; a hardware module has `managedhsm` in place of `vault`.
const SUFFIXES: [&str; 5] =
    ["azure.net", "usgovcloudapi.net", "azure.cn", "microsoftazure.de", "sovcloud-api.fr"];

pub(super) fn key(url: &str) -> Result<Key<'_>, Refused> {
    let bad = || Refused::value(KEY, url, "it looks like https://VAULT.vault.azure.net/keys/NAME/VERSION");
    let rest = url.strip_prefix("https://").ok_or_else(bad)?;
    let (host, path) = rest.split_once('/').ok_or_else(bad)?;
    let (vault, suffix) = host.split_once('.').ok_or_else(bad)?;
    let (kind, cloud) = suffix.split_once('.').ok_or_else(bad)?;
    let managed_hsm = match kind {
        "vault" => false,
        "managedhsm" => true,
        _ => return Err(bad()),
    };
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    match parts[..] {
        ["keys", name, version]
            if !vault.is_empty() && !name.is_empty() && !version.is_empty() && SUFFIXES.contains(&cloud) =>
        {
            Ok(Key { vault, name, version, managed_hsm })
        }
        _ => Err(bad()),
    }
}

/// Whether a domain is the other one or above it.
fn is_or_above(domain: &str, other: &str) -> bool {
    let [domain, other] = [domain, other].map(|d| d.trim_end_matches('.').to_ascii_lowercase());
    other == domain || other.ends_with(&format!(".{domain}"))
}

impl Args {
    /// Whether objects are only shown.
    pub fn renders(&self) -> bool {
        self.planned || self.render || self.render_into.is_some()
    }

    /// By which flag.
    fn rendering(&self) -> &'static str {
        match (self.render, &self.render_into) {
            (true, _) => "--render",
            (false, Some(_)) => "--render-into",
            (false, None) => "plan",
        }
    }

    /// Whether these flags can be followed.
    pub fn check(&self) -> Result<(), Refused> {
        self.lengths()?;
        self.names()?;
        self.values()?;
        self.infrastructure()?;
        self.identities()?;
        self.endpoints()?;
        self.network()?;
        if let Some(url) = &self.encryption_key_id {
            key(url)?;
        }
        if self.kms_credentials_secret_name.is_some() && self.encryption_key_id.is_none() {
            return Err(Refused::needs(
                "--kms-credentials-secret-name",
                KEY,
                "the credentials are for that key",
            ));
        }
        self.machines.check()
    }

    fn names(&self) -> Result<(), Refused> {
        if self.ssh_key.is_some() && self.generate_ssh {
            return Err(Refused::together("--ssh-key", "--generate-ssh", "give a key, or have one made"));
        }
        if self.release_image.is_some() && self.release_stream.is_some() {
            let fix = "name an image, or the stream whose newest release is taken";
            return Err(Refused::together("--release-image", "--release-stream", fix));
        }
        if self.release_image.is_none() && self.renders() {
            let fix = "it asks nobody, so it cannot look for the newest release; name one";
            return Err(Refused::needs(self.rendering(), "--release-image", fix));
        }
        if self.machines.availability_zone.is_some() && !self.availability_zones.is_empty() {
            let fix = "one pool in one zone, or a pool in each of several; leave one of them out";
            return Err(Refused::together("--availability-zone", "--availability-zones", fix));
        }
        let zones = &self.availability_zones;
        if let Some((_, twice)) = zones.iter().enumerate().find(|(i, zone)| zones[..*i].contains(zone)) {
            let fix = "a zone has one pool; name each once";
            return Err(Refused::value("--availability-zones", twice, fix));
        }
        if self.wait && self.node_pool_replicas <= 0 {
            let fix = "a cluster is rolled out only when it has nodes; use 2 or more, or leave --wait out";
            return Err(Refused::needs("--wait", "--node-pool-replicas", fix));
        }
        Ok(())
    }

    fn infrastructure(&self) -> Result<(), Refused> {
        if self.infra_json.is_none() {
            if self.renders() {
                let fix = "it touches neither Azure nor a cluster, so the infrastructure must be there: \
                           run `zaffre create infra azure --output-file FILE` and give that file";
                return Err(Refused::needs(self.rendering(), "--infra-json", fix));
            }
            if self.base_domain.is_none() {
                let fix =
                    "say under which domain the cluster's names are, or give --infra-json, which says it";
                return Err(Refused::missing("--base-domain", fix));
            }
        } else {
            let of_making = [
                ("--resource-group-name", self.resource_group_name.is_some()),
                ("--vnet-id", self.vnet_id.is_some()),
                ("--subnet-id", self.subnet_id.is_some()),
                ("--network-security-group-id", self.network_security_group_id.is_some()),
                ("--resource-group-tags", !self.resource_group_tags.is_empty()),
                ("--infra-id", self.infra_id.is_some()),
                ("--assign-service-principal-roles", self.assign_service_principal_roles),
                ("--assign-custom-hcp-roles", self.assign_custom_hcp_roles),
            ];
            if let Some((flag, _)) = of_making.iter().find(|(_, given)| *given) {
                let fix = "the file says what is there; give this flag to `create infra azure` instead";
                return Err(Refused::together(flag, "--infra-json", fix));
            }
        }
        if self.network_security_group_id.is_some() && self.resource_group_name.is_none() {
            let fix = "a security group of yours is used from a group of yours; name it";
            return Err(Refused::needs("--network-security-group-id", "--resource-group-name", fix));
        }
        if self.vnet_id.is_some() && self.subnet_id.is_none() {
            return Err(Refused::needs("--vnet-id", "--subnet-id", "say which subnet of it nodes are in"));
        }
        let roles = [
            ("--assign-service-principal-roles", self.assign_service_principal_roles),
            ("--assign-custom-hcp-roles", self.assign_custom_hcp_roles),
        ];
        match roles.iter().find(|(_, given)| *given) {
            Some((flag, _)) if self.dns_zone_rg_name.is_none() => Err(Refused::needs(
                flag,
                "--dns-zone-rg-name",
                "the ingress identity gets a role at that group",
            )),
            _ => Ok(()),
        }
    }

    fn identities(&self) -> Result<(), Refused> {
        let (managed, data) = (&self.managed_identities_file, &self.data_plane_identities_file);
        let fix = "the managed flavour has identities of both planes, a self-managed cluster has \
                   --workload-identities-file only";
        match (managed, data) {
            (Some(_), None) => {
                return Err(Refused::needs("--managed-identities-file", "--data-plane-identities-file", fix));
            }
            (None, Some(_)) => {
                return Err(Refused::needs("--data-plane-identities-file", "--managed-identities-file", fix));
            }
            (Some(_), Some(_)) if self.workload_identities_file.is_some() => {
                return Err(Refused::together(
                    "--managed-identities-file",
                    "--workload-identities-file",
                    fix,
                ));
            }
            _ => {}
        }
        if self.infra_json.is_none() && managed.is_none() && self.workload_identities_file.is_none() {
            let fix = "give what `zaffre create iam azure` wrote, or the two files of `create managed-identities azure`";
            return Err(Refused::missing("--workload-identities-file", fix));
        }
        if self.sa_token_issuer_private_key_path.is_some() && self.oidc_issuer_url.is_none() {
            let fix = "tokens signed with the key name the issuer that publishes its public half";
            return Err(Refused::needs("--sa-token-issuer-private-key-path", "--oidc-issuer-url", fix));
        }
        if managed.is_some() && self.oauth_publishing_strategy == OAuth::LoadBalancer {
            let fix = "clusters of the managed flavour publish it by Route";
            return Err(Refused::together(
                "--oauth-publishing-strategy LoadBalancer",
                "--managed-identities-file",
                fix,
            ));
        }
        Ok(())
    }

    fn endpoints(&self) -> Result<(), Refused> {
        if self.endpoint_access == Access::Public {
            let private = [
                (
                    "--endpoint-access-private-nat-subnet-id",
                    self.endpoint_access_private_nat_subnet_id.is_some(),
                ),
                (
                    "--endpoint-access-private-additional-allowed-subscriptions",
                    !self.endpoint_access_private_additional_allowed_subscriptions.is_empty(),
                ),
            ];
            if let Some((flag, _)) = private.iter().find(|(_, given)| *given) {
                let fix = "only a Private or PublicAndPrivate cluster has a private link";
                return Err(Refused::needs(flag, "--endpoint-access", fix));
            }
        }
        let (Some(external), Some(base)) = (&self.external_dns_domain, &self.base_domain) else {
            return Ok(());
        };
        self.not_above(external, base, &format!("--base-domain {base}"))
    }

    /// The cluster's own zone must not be that of external-dns, nor below it: both would write its names.
    /// `said` is what said the base domain.
    pub(super) fn not_above(&self, external: &str, base: &str, said: &str) -> Result<(), Refused> {
        let own = format!("{}.{base}", self.name);
        if is_or_above(external, &own) {
            let fix = format!(
                "{own}, the cluster's own zone, is in it, and both would write its names; give --external-dns-domain a domain beside it, or the cluster another --base-domain"
            );
            return Err(Refused::together(&format!("--external-dns-domain {external}"), said, &fix));
        }
        Ok(())
    }

    fn network(&self) -> Result<(), Refused> {
        let other = self.network_type == "Other";
        if self.disable_multi_network && !other {
            return Err(Refused::needs(
                "--disable-multi-network",
                "--network-type Other",
                "other types need Multus",
            ));
        }
        if self.allocate_node_cidrs && !other {
            let fix = "other types give networks to nodes themselves";
            return Err(Refused::needs("--allocate-node-cidrs", "--network-type Other", fix));
        }
        if self.ovn_kubernetes_mtu.is_some() && self.network_type != "OVNKubernetes" {
            let fix = "the MTU is that of OVN-Kubernetes";
            return Err(Refused::needs("--ovn-kubernetes-mtu", "--network-type OVNKubernetes", fix));
        }
        let lists = [
            ("--service-cidr", &self.service_cidr),
            ("--cluster-cidr", &self.cluster_cidr),
            ("--machine-cidr", &self.machine_cidr),
        ];
        for (flag, list) in lists {
            if list.len() > 2 {
                return Err(Refused::value(
                    flag,
                    &list.join(","),
                    "one network, or one of each address family",
                ));
            }
        }
        for (i, (flag, list)) in lists.iter().enumerate() {
            for (other, others) in &lists[i + 1..] {
                if let Some(same) = list.iter().find(|c| others.contains(c)) {
                    let fix = format!("both are {same}; choose networks that do not overlap");
                    return Err(Refused::together(flag, other, &fix));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_vaults_and_hardware_modules() {
        let k = key("https://my-vault.vault.azure.net/keys/etcd/0123abc").unwrap();
        assert_eq!(k, Key { vault: "my-vault", name: "etcd", version: "0123abc", managed_hsm: false });
        assert!(key("https://h.managedhsm.usgovcloudapi.net/keys/a/b").unwrap().managed_hsm);
        for bad in [
            "http://v.vault.azure.net/keys/a/b",
            "https://v.vault.azure.net/keys/a",
            "https://v.vault.azure.net/secrets/a/b",
            "https://v.vault.example.com/keys/a/b",
            "https://v/keys/a/b",
            "",
        ] {
            assert!(key(bad).is_err(), "{bad}");
        }
    }
}
