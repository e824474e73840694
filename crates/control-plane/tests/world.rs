//! Facts of made-up clusters.

use control_plane::Materials;
use control_plane::scope::*;
use serde_json::json;
use std::collections::BTreeMap;

/// Every image an asset names has one.
pub fn release(version: &str) -> Release {
    let mut images = BTreeMap::new();
    let texts = control_plane::table::all().iter().flat_map(|c| [Some(c.workload), c.objects]).flatten();
    for text in texts {
        for key in text.lines().filter_map(|l| l.trim().strip_prefix("image: ")) {
            images.insert(key.to_owned(), format!("quay.example/release@sha256:{key}"));
        }
        for part in text.split("{{image:").skip(1) {
            let key = part.split("}}").next().unwrap_or_default();
            images.insert(key.to_owned(), format!("quay.example/release@sha256:{key}"));
        }
    }
    for key in ["hypershift", "cli", "azure-kms-encryption-provider", "docker-builder", "deployer"] {
        images.insert(key.to_owned(), format!("quay.example/release@sha256:{key}"));
    }
    images.remove("controlplane-operator");
    Release {
        image: format!("quay.example/ocp-release:{version}"),
        version: version.to_owned(),
        kubernetes: "1.33.5".into(),
        images: images.into(),
        ours: "quay.example/zaffre:dev".into(),
        registry_overrides: String::new(),
    }
}

/// A self-managed cluster with one of everything.
pub fn self_managed() -> Scope {
    let who = [
        Who::CloudProvider,
        Who::NodePoolManagement,
        Who::ControlPlaneOperator,
        Who::Ingress,
        Who::Network,
        Who::Disk,
        Who::File,
        Who::ImageRegistry,
        Who::Kms,
    ];
    let ids = who.iter().enumerate();
    let ids = ids.map(|(i, w)| (*w, format!("00000000-0000-0000-0000-00000000000{i}"))).collect();
    let at =
        |name: &str, port, publish| Endpoint { host: format!("{name}-demo.hc.example.com"), port, publish };
    Scope {
        name: "demo".into(),
        namespace: "clusters-demo".into(),
        infra_id: "demo-x7k2p".into(),
        cluster_id: "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11".into(),
        issuer: "https://demooidc.blob.core.windows.net/demooidc".into(),
        azure: Azure {
            cloud: "AzurePublicCloud".into(),
            tenant: "11111111-1111-1111-1111-111111111111".into(),
            subscription: "22222222-2222-2222-2222-222222222222".into(),
            resource_group: "demo-demo-x7k2p".into(),
            location: "eastus".into(),
            vnet: Named { name: "demo-demo-x7k2p".into(), group: "demo-vnet-demo-x7k2p".into() },
            subnet: "default".into(),
            security_group: Named { name: "demo-demo-x7k2p-nsg".into(), group: "demo-nsg-demo-x7k2p".into() },
            registry_identity: None,
        },
        identity: Identity::Workload(ids),
        release: release("4.19.3"),
        guest_image: "quay.example/ocp-release:4.19.3".into(),
        available: Availability::Single,
        network: Network {
            kind: "OVNKubernetes".into(),
            cluster: vec!["10.132.0.0/14".into()],
            service: vec!["172.31.0.0/16".into()],
            machine: vec!["10.0.0.0/16".into()],
            advertise: "172.20.0.1".parse().unwrap(),
            api_port: 6443,
            allocate_node_cidrs: false,
            allowed: Vec::new(),
        },
        endpoints: Endpoints {
            api: at("api", 7443, Publish::LoadBalancer),
            oauth: at("oauth", 443, Publish::Route),
            konnectivity: at("konnectivity", 443, Publish::Route),
            ignition: at("ignition", 443, Publish::Route),
            aggregated: control_plane::publish::AGGREGATED
                .iter()
                .enumerate()
                .map(|(i, (service, _))| (*service, format!("10.96.0.{}", i + 11).parse().unwrap()))
                .collect(),
            ..Endpoints::default()
        },
        reach: Reach::Public,
        etcd: Etcd::Managed { size: "8Gi".into(), class: None, restore: None },
        encryption: None,
        capabilities: Capabilities::default().on(),
        autoscaling: Autoscaling::default(),
        configuration: json!({"ingress": {"domain": "apps.demo.example.com"}}),
        catalogs_here: true,
        pods: Pods::default(),
        leaves: Lives::default(),
        annotations: BTreeMap::new(),
        management: Management {
            openshift: false,
            uid: Some(1001),
            image_streams: false,
            minor: 34,
            blocked: vec!["10.0.0.1/32".into()],
            ..Management::default()
        },
        metrics: MetricsSet::Telemetry,
        authorities: Default::default(),
        forwarded: None,
        fips: false,
        trust_bundle: None,
        openid: BTreeMap::new(),
        audit_webhook: None,
    }
}

/// An ARO HCP cluster, highly available, private by Swift, with everything turned on.
pub fn managed() -> Scope {
    let names = [
        (Who::CloudProvider, "cloud-provider"),
        (Who::NodePoolManagement, "nodepool-mgmt"),
        (Who::ControlPlaneOperator, "cpo"),
        (Who::Ingress, "ingress"),
        (Who::Network, "network"),
        (Who::Disk, "disk"),
        (Who::File, "file"),
        (Who::ImageRegistry, "image-registry"),
        (Who::Kms, "kms"),
    ];
    let secrets = names.iter().enumerate().map(|(i, (who, name))| {
        let client_id = format!("00000000-0000-0000-0000-00000000010{i}");
        (*who, VaultSecret { name: format!("{name}-creds"), encoding: "utf-8".into(), client_id })
    });
    Scope {
        identity: Identity::Managed {
            vault: "demo-kv".into(),
            tenant: "11111111-1111-1111-1111-111111111111".into(),
            reader: "00000000-0000-0000-0000-0000000000aa".into(),
            secrets: secrets.collect(),
        },
        available: Availability::High,
        endpoints: Endpoints {
            api: Endpoint { host: "api-demo.hc.example.com".into(), port: 443, publish: Publish::Route },
            private_api: Some("api.demo.hypershift.local".into()),
            ..self_managed().endpoints
        },
        reach: Reach::Swift("demo-pni".into()),
        encryption: Some(Encryption::Kms {
            active: KmsKey {
                vault: "demo-kms".into(),
                name: "etcd".into(),
                version: "1".into(),
                managed_hsm: false,
            },
            backup: None,
            private: false,
        }),
        forwarded: Some(MetricsSet::All),
        ..self_managed()
    }
}

/// Everything that is mounted holds its own name.
pub struct Names;

impl Materials for Names {
    fn data(&self, kind: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        Some([("content".to_owned(), format!("{kind}/{name}").into_bytes())].into())
    }
}
