//! Rules on flags that can be judged without reading a file.

use super::args::{Args, PrivatePlatform};
use crate::flags::Refused;

const PLATFORMS: [&str; 7] = ["aws", "azure", "ibmcloud", "kubevirt", "agent", "openstack", "gcp"];

impl Args {
    pub fn check(&self) -> Result<(), Refused> {
        if self.image_refs.is_some() && self.hypershift_image != super::args::DEFAULT_IMAGE {
            let fix = "name the image, or the file that does";
            return Err(Refused::together("--hypershift-image", "--image-refs", fix));
        }
        for platform in &self.limit_crd_install {
            if !PLATFORMS.contains(&platform.to_ascii_lowercase().as_str()) {
                let fix = format!("use {}; of these only azure has definitions here", PLATFORMS.join(", "));
                return Err(Refused::value("--limit-crd-install", platform, &fix));
            }
        }
        let day = apis::duration::go_duration("24h");
        if apis::duration::go_duration(&self.cert_rotation_scale) > day {
            return Err(Refused::value(
                "--cert-rotation-scale",
                &self.cert_rotation_scale,
                "it is at most 24h",
            ));
        }
        if self.shared_ingress_image.is_some() && !self.is_aro() {
            let fix = "only clusters of the managed service share a router; leave it out";
            return Err(Refused::needs("--shared-ingress-image", "--managed-service ARO-HCP", fix));
        }
        self.absent()?;
        self.private()?;
        self.dns()?;
        self.scaling()
    }

    /// Flags of features that are not there, and whose absence somebody would notice too late.
    fn absent(&self) -> Result<(), Refused> {
        let url = self.cvo_prometheus_url.as_deref();
        let table = [
            (
                "--enable-audit-log-persistence",
                self.enable_audit_log_persistence,
                "audit logs would go with their pods; leave it out, and collect the containers' logs",
            ),
            (
                "--rhobs-monitoring",
                self.rhobs_monitoring,
                "nobody would collect the metrics; leave it out, and use --platform-monitoring",
            ),
            (
                "--enable-standalone-karpenter-operator",
                self.enable_standalone_karpenter_operator,
                "no nodes would come; leave it out, and use NodePools with spec.autoScaling",
            ),
            (
                "--cvo-prometheus-url",
                url.is_some(),
                "nobody would ask it; leave it out: risks of updates that need its metrics stay unknown",
            ),
        ];
        match table.iter().find(|(_, given, _)| *given) {
            Some((flag, _, fix)) => Err(Refused::value(flag, url.unwrap_or("true"), fix)),
            None => Ok(()),
        }
    }

    fn private(&self) -> Result<(), Refused> {
        let (file, secret) = (&self.azure_private_creds, &self.azure_private_secret);
        let identity = &self.azure_pls_managed_identity_client_id;
        if file.is_some() && secret.is_some() {
            let fix = "credentials come from a file or from a Secret";
            return Err(Refused::together("--azure-private-creds", "--azure-private-secret", fix));
        }
        let credentials = if file.is_some() { "--azure-private-creds" } else { "--azure-private-secret" };
        if (file.is_some() || secret.is_some()) && identity.is_some() {
            let fix = "an identity needs no credentials; leave one of them out";
            return Err(Refused::together(credentials, "--azure-pls-managed-identity-client-id", fix));
        }
        // Clusters of the managed flavour bring their own.
        if self.private_platform != PrivatePlatform::Azure || self.is_aro() {
            return Ok(());
        }
        let flag = "--private-platform Azure";
        if file.is_none() && secret.is_none() && identity.is_none() {
            let fix =
                "private links are made with --azure-private-creds, --azure-private-secret or this identity";
            return Err(Refused::needs(flag, "--azure-pls-managed-identity-client-id", fix));
        }
        if self.azure_pls_resource_group.is_none() {
            let fix = "name the group of the management cluster's load balancers";
            return Err(Refused::needs(flag, "--azure-pls-resource-group", fix));
        }
        if identity.is_some() && self.azure_pls_subscription_id.is_none() {
            let fix = "an identity does not say in which subscription it works";
            return Err(Refused::needs(
                "--azure-pls-managed-identity-client-id",
                "--azure-pls-subscription-id",
                fix,
            ));
        }
        Ok(())
    }

    fn dns(&self) -> Result<(), Refused> {
        let (file, secret) = (&self.external_dns_credentials, &self.external_dns_secret);
        if self.external_dns_provider.is_none() {
            let flags = [
                ("--external-dns-credentials", file.is_some()),
                ("--external-dns-secret", secret.is_some()),
                ("--external-dns-domain-filter", self.external_dns_domain_filter.is_some()),
            ];
            return match flags.iter().find(|(_, given)| *given) {
                Some((flag, _)) => {
                    Err(Refused::needs(flag, "--external-dns-provider", "say azure, or leave it out"))
                }
                None => Ok(()),
            };
        }
        match (file, secret) {
            (None, None) => Err(Refused::needs(
                "--external-dns-provider azure",
                "--external-dns-credentials",
                "give an azure.json, or name a Secret with --external-dns-secret",
            )),
            (Some(_), Some(_)) => Err(Refused::together(
                "--external-dns-credentials",
                "--external-dns-secret",
                "credentials come from a file or from a Secret",
            )),
            _ if self.external_dns_domain_filter.is_none() => Err(Refused::needs(
                "--external-dns-provider",
                "--external-dns-domain-filter",
                "say which domain it looks after; it would otherwise touch every zone",
            )),
            _ => Ok(()),
        }
    }

    fn scaling(&self) -> Result<(), Refused> {
        let (file, secret) = (&self.scale_from_zero_creds, &self.scale_from_zero_secret);
        let given = if file.is_some() { "--scale-from-zero-creds" } else { "--scale-from-zero-secret" };
        if file.is_some() && secret.is_some() {
            let fix = "credentials come from a file or from a Secret";
            return Err(Refused::together("--scale-from-zero-creds", "--scale-from-zero-secret", fix));
        }
        match (&self.scale_from_zero_provider, file.is_some() || secret.is_some()) {
            (None, true) => Err(Refused::needs(given, "--scale-from-zero-provider", "say azure")),
            (Some(_), false) => Err(Refused::needs(
                "--scale-from-zero-provider",
                "--scale-from-zero-creds",
                "sizes are looked up with credentials of yours, or those of --scale-from-zero-secret",
            )),
            _ => Ok(()),
        }
    }
}
