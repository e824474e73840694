//! The HostedCluster's spec.

use super::Inputs;
use super::args::{Access, Args, OAuth, Placement};
use super::check;
use crate::flags::{Refused, map};
use serde_json::{Map, Value, json};

fn networks(list: &[String]) -> Value {
    json!(list.iter().map(|c| json!({"cidr": c})).collect::<Vec<_>>())
}

impl Args {
    pub(super) fn spec(&self, inputs: &Inputs) -> Result<Value, Refused> {
        let (name, infra) = (&self.name, &inputs.infra);
        let mut spec = json!({
            "autoscaling": {},
            "capabilities": self.capabilities(),
            "configuration": self.configuration(),
            "controllerAvailabilityPolicy": self.control_plane_availability_policy.as_str(),
            "dns": self.dns(inputs),
            "etcd": self.etcd(),
            "fips": self.fips,
            "infraID": infra.infra_id,
            "networking": self.networking(),
            "olmCatalogPlacement": match self.olm_catalog_placement {
                Placement::Management => "management",
                Placement::Guest => "guest",
            },
            "platform": {"azure": self.azure(inputs)?, "type": "Azure"},
            "pullSecret": {"name": format!("{name}-pull-secret")},
            "release": {"image": inputs.release_image},
            "secretEncryption": self.encryption(inputs)?,
            "services": self.services(),
            "sshKey": match inputs.ssh_key {
                Some(_) => json!({"name": format!("{name}-ssh-key")}),
                None => json!({}),
            },
        });
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(v) = value {
                spec[key] = v;
            }
        };
        set("infrastructureAvailabilityPolicy", self.infra_availability_policy.map(|p| json!(p.as_str())));
        set("issuerURL", self.oidc_issuer_url.as_ref().map(|u| json!(u)));
        let key = inputs.signing_key.as_ref().map(|_| json!({"name": signing_key_name(name)}));
        set("serviceAccountSigningKey", key);
        set("additionalTrustBundle", inputs.trust_bundle.as_ref().map(|_| json!({"name": "user-ca-bundle"})));
        set("imageContentSources", inputs.image_content_sources.clone());
        set("pausedUntil", self.paused_until.as_ref().map(|u| json!(u)));
        set("kubeAPIServerDNSName", self.kas_dns_name.as_ref().map(|n| json!(n)));
        set("nodeSelector", (!self.node_selector.is_empty()).then(|| map(&self.node_selector)));
        set("labels", (!self.pods_labels.is_empty()).then(|| map(&self.pods_labels)));
        set("tolerations", (!self.toleration.is_empty()).then(|| json!(self.toleration)));
        set("operatorConfiguration", self.network_operator());
        Ok(spec)
    }

    fn capabilities(&self) -> Value {
        let mut out = Map::new();
        for (key, list) in
            [("disabled", &self.disable_cluster_capabilities), ("enabled", &self.enable_cluster_capabilities)]
        {
            if !list.is_empty() {
                out.insert(key.into(), json!(list));
            }
        }
        Value::Object(out)
    }

    fn configuration(&self) -> Value {
        let mut out = Map::new();
        if let Some(set) = &self.feature_set {
            out.insert("featureGate".into(), json!({"featureSet": set}));
        }
        if self.olm_disable_default_sources {
            out.insert("operatorhub".into(), json!({"disableAllDefaultSources": true}));
        }
        Value::Object(out)
    }

    fn dns(&self, inputs: &Inputs) -> Value {
        let infra = &inputs.infra;
        let mut out = json!({"baseDomain": self.base_domain.as_deref().unwrap_or(&infra.base_domain)});
        for (key, id) in [("privateZoneID", &infra.private_zone_id), ("publicZoneID", &infra.public_zone_id)]
        {
            if !id.is_empty() {
                out[key] = json!(id);
            }
        }
        out
    }

    fn etcd(&self) -> Value {
        let mut volume = json!({"size": self.etcd_storage_size.as_deref().unwrap_or("8Gi")});
        if let Some(class) = &self.etcd_storage_class {
            volume["storageClassName"] = json!(class);
        }
        json!({"managed": {"storage": {"persistentVolume": volume, "type": "PersistentVolume"}}, "managementType": "Managed"})
    }

    fn networking(&self) -> Value {
        let mut out = json!({
            "clusterNetwork": networks(&self.cluster_cidr),
            "networkType": self.network_type,
            "serviceNetwork": networks(&self.service_cidr),
        });
        if !self.machine_cidr.is_empty() {
            out["machineNetwork"] = networks(&self.machine_cidr);
        }
        if self.allocate_node_cidrs {
            out["allocateNodeCIDRs"] = json!("Enabled");
        }
        out
    }

    fn network_operator(&self) -> Option<Value> {
        let mut out = Map::new();
        if self.disable_multi_network {
            out.insert("disableMultiNetwork".into(), json!(true));
        }
        if let Some(mtu) = self.ovn_kubernetes_mtu {
            out.insert("ovnKubernetesConfig".into(), json!({"mtu": mtu}));
        }
        (!out.is_empty()).then(|| json!({"clusterNetworkOperator": out}))
    }

    fn azure(&self, inputs: &Inputs) -> Result<Value, Refused> {
        let infra = &inputs.infra;
        let mut azure = json!({
            "azureAuthenticationConfig": authentication(inputs),
            "location": infra.region,
            "resourceGroup": infra.resource_group_name,
            "securityGroupID": infra.security_group_id,
            "subnetID": infra.subnet_id,
            "subscriptionID": inputs.subscription,
            "tenantID": inputs.tenant,
            "vnetID": infra.vnet_id,
        });
        if infra.is_managed() && self.oauth_publishing_strategy == OAuth::LoadBalancer {
            return Err(Refused::together(
                "--oauth-publishing-strategy LoadBalancer",
                "managed identities in --infra-json",
                "clusters of the managed flavour publish it by Route",
            ));
        }
        match self.endpoint_access {
            Access::Public if infra.is_managed() => {}
            Access::Public => azure["topology"] = json!("Public"),
            access => {
                azure["topology"] = json!(access.as_str());
                azure["private"] = json!({"type": "PrivateLink"});
                if let Some(link) = self.private_link(inputs) {
                    azure["private"]["privateLink"] = link;
                }
            }
        }
        Ok(azure)
    }

    fn private_link(&self, inputs: &Inputs) -> Option<Value> {
        let mut out = Map::new();
        let subnet = self.endpoint_access_private_nat_subnet_id.as_ref();
        // It must lie in the management cluster's network; one in the cluster's own is of no use, and without one the
        // operator makes it where it belongs.
        let own = format!("{}/subnets/", inputs.infra.vnet_id).to_lowercase();
        let infra = inputs.infra.nat_subnet_id.as_ref().filter(|id| !id.to_lowercase().starts_with(&own));
        if let Some(id) = subnet.or(infra).filter(|id| !id.is_empty()) {
            out.insert("natSubnetID".into(), json!(id));
        }
        let allowed = &self.endpoint_access_private_additional_allowed_subscriptions;
        if !allowed.is_empty() {
            out.insert("additionalAllowedSubscriptions".into(), json!(allowed));
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn encryption(&self, inputs: &Inputs) -> Result<Value, Refused> {
        let Some(url) = &self.encryption_key_id else {
            let key = json!({"name": encryption_key_name(&self.name)});
            return Ok(json!({"aescbc": {"activeKey": key}, "type": "aescbc"}));
        };
        let key = check::key(url)?;
        let mut azure = json!({
            "activeKey": {"keyName": key.name, "keyVaultName": key.vault, "keyVersion": key.version},
            "keyVaultType": if key.managed_hsm { "ManagedHSM" } else { "KeyVault" },
        });
        if inputs.infra.is_managed() {
            let Some(secret) = &self.kms_credentials_secret_name else {
                return Err(Refused::needs(
                    "--encryption-key-id",
                    "--kms-credentials-secret-name",
                    "the managed flavour reads the credentials for the key from the identities' vault",
                ));
            };
            azure["kms"] = json!({"credentialsSecretName": secret, "objectEncoding": "utf-8"});
        } else {
            let Some(client) = inputs.infra.kms_client_id.as_ref().filter(|c| !c.is_empty()) else {
                return Err(Refused::needs(
                    "--encryption-key-id",
                    "kmsClientID in --infra-json",
                    "make the identity with `create iam azure --enable-kms`, then run `create infra azure` again",
                ));
            };
            azure["workloadIdentity"] = json!({"clientID": client});
        }
        Ok(json!({"kms": {"azure": azure, "provider": "Azure"}, "type": "kms"}))
    }

    /// In the order of their names.
    fn services(&self) -> Value {
        let host =
            |what: &str| self.external_dns_domain.as_ref().map(|d| format!("{what}-{}.{d}", self.name));
        let by = |kind: &str, field: &str, hostname: Option<String>| {
            let mut out = json!({"type": kind});
            if let Some(hostname) = hostname {
                out[field] = json!({"hostname": hostname});
            }
            out
        };
        let route = |hostname: Option<String>| by("Route", "route", hostname);
        let public = self.endpoint_access == Access::Public;
        let routed = self.external_dns_domain.is_some() || self.endpoint_access == Access::Private;
        let only_public = |what: &str| if public { host(what) } else { None };
        let strategies = [
            ("APIServer", if routed { route(host("api")) } else { json!({"type": "LoadBalancer"}) }),
            ("Ignition", route(only_public("ignition"))),
            ("Konnectivity", route(only_public("konnectivity"))),
            (
                "OAuthServer",
                match self.oauth_publishing_strategy {
                    OAuth::Route => route(host("oauth")),
                    OAuth::LoadBalancer => by("LoadBalancer", "loadBalancer", host("oauth")),
                },
            ),
        ];
        let service =
            |(name, strategy): (&str, Value)| json!({"service": name, "servicePublishingStrategy": strategy});
        json!(strategies.into_iter().map(service).collect::<Vec<_>>())
    }
}

/// Secret with the key of secrets at rest, when no vault keeps it.
pub fn encryption_key_name(cluster: &str) -> String {
    format!("{cluster}-etcd-encryption-key")
}

/// The name that scripts know, without the dash.
pub(super) fn signing_key_name(cluster: &str) -> String {
    format!("{cluster}sa-token-issuer-key")
}

fn authentication(inputs: &Inputs) -> Value {
    let infra = &inputs.infra;
    if let Some(identities) = &infra.workload_identities {
        return json!({"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": identities});
    }
    let mut both = infra.control_plane_mis.clone().unwrap_or_else(|| json!({}));
    if let Some(data) = &infra.data_plane_identities {
        both["dataPlane"] = data.clone();
    }
    // Credentials are JSON documents: text, whatever the file says.
    for identity in both["controlPlane"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if identity["credentialsSecretName"].is_string() {
            identity["objectEncoding"] = json!("utf-8");
        }
    }
    json!({"azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": both})
}
