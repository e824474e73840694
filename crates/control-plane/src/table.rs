//! All components of a control plane.
//!
//! One row each; what a row does not say is as in [`PLAIN`]. The order is the order in which they are shown, not in
//! which they start: that follows from what each waits for.

use crate::component::{Component, Credential, Prober, Replicas, Tier, Tls, Tunnel, Vars};
use crate::config::{
    azure, catalogs, controllers, etcd, forwarding, kube_apiserver, oauth, openshift_apiserver, operators,
    providers, router,
};
use crate::inject::ADMIN;
use crate::scope::{Etcd, Scope, Who};
use serde_json::json;

macro_rules! asset {
    ($name:literal) => {
        include_str!(concat!("../assets/", $name, "/workload.yaml"))
    };
}
macro_rules! objects {
    ($name:literal) => {
        Some(include_str!(concat!("../assets/", $name, "/objects.yaml")))
    };
}

/// A component that nothing is special about.
pub const PLAIN: Component = Component {
    name: "",
    workload: "",
    objects: None,
    when: |_| true,
    after: &[],
    awaits: |_| Vec::new(),
    needs_api: true,
    replicas: Replicas::One,
    tier: Tier::ControlPlane,
    management: false,
    serves_requests: false,
    tunnels: &[],
    prober: None,
    identity: None,
    tls: Tls::None,
    audit: None,
    ready_with_api: false,
    config: |_| Ok(Vec::new()),
    adapt: |_, _| Ok(()),
    shape: |_, _| {},
    operands: |_| Vec::new(),
};

/// Waits until the API answers.
const ANSWERS: Prober = Prober { apis: &[], more: &[], kubeconfig: None };
const OAPI: &[&str] = &["openshift-apiserver"];

const fn serves(apis: &'static [&'static str]) -> Prober {
    Prober { apis, more: &[], kubeconfig: Some(ADMIN) }
}

/// Deployments that operators of the release make beside themselves, and that are waited for.
pub const OPERANDS: [&str; 4] = [
    "azure-disk-csi-driver-operator",
    "azure-disk-csi-driver-controller",
    "azure-file-csi-driver-operator",
    "azure-file-csi-driver-controller",
];

pub fn all() -> &'static [Component] {
    &TABLE
}

pub fn find(name: &str) -> Option<&'static Component> {
    TABLE.iter().find(|c| c.name == name)
}

static TABLE: [Component; 38] = [
    Component {
        name: "etcd",
        workload: asset!("etcd"),
        objects: objects!("etcd"),
        when: |s| matches!(s.etcd, Etcd::Managed { .. }),
        needs_api: false,
        replicas: Replicas::Three,
        tier: Tier::Etcd,
        management: true,
        config: etcd::objects,
        adapt: etcd::adapt,
        shape: etcd::volume,
        ..PLAIN
    },
    Component {
        name: "featuregate-generator",
        workload: asset!("featuregate-generator"),
        needs_api: false,
        management: true,
        ..PLAIN
    },
    Component {
        name: "control-plane-pki-operator",
        workload: asset!("control-plane-pki-operator"),
        objects: objects!("control-plane-pki-operator"),
        when: |s| s.annotation("disable-pki-reconciliation").is_none(),
        management: true,
        config: operators::pki,
        ..PLAIN
    },
    Component {
        name: "kube-apiserver",
        workload: asset!("kube-apiserver"),
        objects: objects!("kube-apiserver"),
        needs_api: false,
        after: &["etcd", "featuregate-generator"],
        replicas: Replicas::Three,
        tier: Tier::Api,
        serves_requests: true,
        audit: Some(("logs", "/var/log/kube-apiserver/audit.log")),
        config: kube_apiserver::objects,
        adapt: kube_apiserver::adapt,
        ..PLAIN
    },
    Component {
        name: "kube-controller-manager",
        workload: asset!("kube-controller-manager"),
        objects: objects!("kube-controller-manager"),
        replicas: Replicas::Two,
        prober: Some(ANSWERS),
        tls: Tls::Flags,
        config: controllers::kube_controller_manager,
        adapt: controllers::adapt_kube_controller_manager,
        ..PLAIN
    },
    Component {
        name: "kube-scheduler",
        workload: asset!("kube-scheduler"),
        objects: objects!("kube-scheduler"),
        replicas: Replicas::Two,
        prober: Some(ANSWERS),
        tls: Tls::Flags,
        config: controllers::kube_scheduler,
        adapt: |s, p| {
            controllers::gates(s, p);
            Ok(())
        },
        ..PLAIN
    },
    Component {
        name: "openshift-apiserver",
        workload: asset!("openshift-apiserver"),
        objects: objects!("openshift-apiserver"),
        replicas: Replicas::Three,
        tier: Tier::Api,
        prober: Some(ANSWERS),
        tunnels: &[Tunnel::Https {
            args: &[],
            port: 8090,
            vars: Vars::Web("kube-apiserver,etcd-client,audit-webhook"),
        }],
        audit: Some(("work-logs", "/var/log/openshift-apiserver/audit.log")),
        ready_with_api: true,
        config: openshift_apiserver::objects,
        adapt: openshift_apiserver::adapt,
        ..PLAIN
    },
    Component {
        name: "openshift-oauth-apiserver",
        workload: asset!("openshift-oauth-apiserver"),
        objects: objects!("openshift-oauth-apiserver"),
        when: Scope::oauth,
        after: OAPI,
        replicas: Replicas::Three,
        tier: Tier::Api,
        prober: Some(ANSWERS),
        tunnels: &[Tunnel::Socks5 {
            args: &["--resolve-from-guest-cluster-dns=true"],
            vars: Vars::Web("kube-apiserver,etcd-client,audit-webhook"),
        }],
        tls: Tls::Flags,
        audit: Some(("work-logs", "/var/log/openshift-oauth-apiserver/audit.log")),
        ready_with_api: true,
        config: openshift_apiserver::oauth_objects,
        adapt: openshift_apiserver::adapt_oauth,
        ..PLAIN
    },
    Component {
        name: "oauth-openshift",
        workload: asset!("oauth-openshift"),
        objects: objects!("oauth-openshift"),
        when: Scope::oauth,
        after: OAPI,
        replicas: Replicas::Three,
        tier: Tier::Api,
        serves_requests: true,
        prober: Some(ANSWERS),
        tunnels: &[
            Tunnel::Https {
                args: &["--connect-directly-to-cloud-apis=true"],
                port: 8092,
                vars: Vars::Web("kube-apiserver,audit-webhook,oauth-openshift.{namespace}.svc.cluster.local"),
            },
            Tunnel::Socks5 {
                args: &[
                    "--resolve-from-guest-cluster-dns=true",
                    "--resolve-from-management-cluster-dns=true",
                ],
                vars: Vars::All,
            },
        ],
        audit: Some(("logs", "/var/run/kubernetes/audit.log")),
        config: oauth::objects,
        adapt: providers::adapt,
        ..PLAIN
    },
    Component {
        name: "openshift-controller-manager",
        workload: asset!("openshift-controller-manager"),
        objects: objects!("openshift-controller-manager"),
        after: OAPI,
        replicas: Replicas::Two,
        config: controllers::openshift_controller_manager,
        ..PLAIN
    },
    Component {
        name: "openshift-route-controller-manager",
        workload: asset!("openshift-route-controller-manager"),
        objects: objects!("openshift-route-controller-manager"),
        after: OAPI,
        replicas: Replicas::Two,
        config: controllers::route_controller_manager,
        ..PLAIN
    },
    Component {
        name: "cluster-policy-controller",
        workload: asset!("cluster-policy-controller"),
        after: OAPI,
        replicas: Replicas::Two,
        prober: Some(ANSWERS),
        config: controllers::cluster_policy_controller,
        ..PLAIN
    },
    Component {
        name: "cluster-version-operator",
        workload: asset!("cluster-version-operator"),
        objects: objects!("cluster-version-operator"),
        after: OAPI,
        prober: Some(serves(&[])),
        tls: Tls::Flags,
        ..PLAIN
    },
    Component {
        name: "hosted-cluster-config-operator",
        workload: asset!("hosted-cluster-config-operator"),
        objects: objects!("hosted-cluster-config-operator"),
        management: true,
        prober: Some(Prober { apis: CONFIG_KINDS, more: &[], kubeconfig: Some("hcco-kubeconfig") }),
        adapt: operators::adapt_config,
        ..PLAIN
    },
    Component {
        name: "azure-cloud-controller-manager",
        workload: asset!("azure-cloud-controller-manager"),
        identity: Some(Credential {
            who: Who::CloudProvider,
            account: ("kube-system", "azure-cloud-provider"),
            class: "managed-azure-cloud-provider",
            volume: "cloud-provider-cert",
            path_variable: None,
            api_token: false,
        }),
        tls: Tls::Flags,
        config: azure::cloud_controller,
        ..PLAIN
    },
    Component {
        name: "cluster-storage-operator",
        workload: asset!("cluster-storage-operator"),
        objects: objects!("cluster-storage-operator"),
        after: OAPI,
        management: true,
        prober: Some(serves(&["operator.openshift.io,v1,Storage"])),
        config: azure::storage,
        adapt: operators::adapt_storage,
        operands: |_| OPERANDS.to_vec(),
        ..PLAIN
    },
    Component {
        name: "csi-snapshot-controller-operator",
        workload: asset!("csi-snapshot-controller-operator"),
        objects: objects!("csi-snapshot-controller-operator"),
        after: OAPI,
        management: true,
        prober: Some(serves(&["operator.openshift.io,v1,CSISnapshotController"])),
        config: operators::snapshots,
        ..PLAIN
    },
    Component {
        name: "cluster-network-operator",
        workload: asset!("cluster-network-operator"),
        objects: objects!("cluster-network-operator"),
        after: OAPI,
        management: true,
        prober: Some(Prober {
            apis: &[
                "operator.openshift.io,v1,Network",
                "network.operator.openshift.io,v1,EgressRouter",
                "network.operator.openshift.io,v1,OperatorPKI",
            ],
            more: &[
                "--wait-for-infrastructure-resource",
                "--wait-for-cluster-rolebinding=cluster-network-operator",
            ],
            kubeconfig: Some(ADMIN),
        }),
        tunnels: &[Tunnel::Socks5 { args: &["--disable-resolver=true"], vars: Vars::None }],
        config: operators::network,
        adapt: operators::adapt_network,
        ..PLAIN
    },
    Component {
        name: "ingress-operator",
        workload: asset!("ingress-operator"),
        objects: objects!("ingress-operator"),
        when: |s| s.capable("Ingress"),
        after: OAPI,
        prober: Some(Prober {
            apis: &["route.openshift.io,v1,Route"],
            more: &[],
            kubeconfig: Some("ingress-operator-service-account-kubeconfig"),
        }),
        tunnels: &[Tunnel::Https {
            args: &["--connect-directly-to-cloud-apis=true"],
            port: 8090,
            vars: Vars::Web("kube-apiserver"),
        }],
        identity: Some(Credential {
            who: Who::Ingress,
            account: ("openshift-ingress-operator", "ingress-operator"),
            class: "managed-azure-ingress",
            volume: "ingress-cert",
            path_variable: Some("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH"),
            api_token: false,
        }),
        config: operators::ingress,
        ..PLAIN
    },
    Component {
        name: "cluster-image-registry-operator",
        workload: asset!("cluster-image-registry-operator"),
        objects: objects!("cluster-image-registry-operator"),
        when: |s| s.capable("ImageRegistry"),
        after: OAPI,
        identity: Some(Credential {
            who: Who::ImageRegistry,
            account: ("openshift-image-registry", "cluster-image-registry-operator"),
            class: "managed-azure-image-registry",
            volume: "image-registry-cert",
            path_variable: Some("MANAGED_AZURE_HCP_CREDENTIALS_FILE_PATH"),
            api_token: true,
        }),
        config: operators::image_registry,
        ..PLAIN
    },
    Component {
        name: "dns-operator",
        workload: asset!("dns-operator"),
        after: OAPI,
        prober: Some(Prober {
            apis: &["operator.openshift.io,v1,DNS"],
            more: &["--wait-for-labeled-pods-gone=openshift-dns-operator/name=dns-operator"],
            kubeconfig: Some("dns-operator-service-account-kubeconfig"),
        }),
        ..PLAIN
    },
    Component {
        name: "cluster-node-tuning-operator",
        workload: asset!("cluster-node-tuning-operator"),
        objects: objects!("cluster-node-tuning-operator"),
        when: |s| s.capable("NodeTuning"),
        after: OAPI,
        management: true,
        ..PLAIN
    },
    Component {
        name: "machine-approver",
        workload: asset!("machine-approver"),
        objects: objects!("machine-approver"),
        when: |s| s.annotation("disable-machine-management").is_none(),
        management: true,
        prober: Some(ANSWERS),
        tls: Tls::Flags,
        config: operators::machine_approver,
        ..PLAIN
    },
    Component {
        name: "cluster-autoscaler",
        workload: asset!("cluster-autoscaler"),
        objects: objects!("cluster-autoscaler"),
        when: |s| {
            s.annotation("disable-machine-management").is_none()
                && s.annotation("disable-cluster-autoscaler") != Some("true")
        },
        management: true,
        prober: Some(ANSWERS),
        adapt: operators::adapt_autoscaler,
        ..PLAIN
    },
    Component {
        name: "konnectivity-agent",
        workload: asset!("konnectivity-agent"),
        objects: objects!("konnectivity-agent"),
        awaits: operators::konnectivity_agent_awaits,
        replicas: Replicas::Two,
        adapt: operators::adapt_konnectivity_agent,
        ..PLAIN
    },
    Component {
        name: "ignition-server",
        workload: asset!("ignition-server"),
        objects: objects!("ignition-server"),
        when: |s| s.annotation("disable-ignition-server").is_none(),
        needs_api: false,
        replicas: Replicas::Two,
        management: true,
        ..PLAIN
    },
    Component {
        name: "ignition-server-proxy",
        workload: asset!("ignition-server-proxy"),
        objects: objects!("ignition-server-proxy"),
        when: |s| s.annotation("disable-ignition-server").is_none(),
        needs_api: false,
        after: &["ignition-server"],
        replicas: Replicas::Two,
        serves_requests: true,
        ..PLAIN
    },
    Component {
        name: "router",
        workload: asset!("router"),
        objects: objects!("router"),
        needs_api: false,
        after: &["ignition-server"],
        replicas: Replicas::Three,
        tier: Tier::Api,
        serves_requests: true,
        config: router::objects,
        adapt: router::adapt,
        ..PLAIN
    },
    Component {
        name: "olm-operator",
        workload: asset!("olm-operator"),
        objects: objects!("olm-operator"),
        prober: Some(serves(&[
            "operators.coreos.com,v1alpha1,CatalogSource",
            "operators.coreos.com,v1alpha1,Subscription",
            "operators.coreos.com,v2,OperatorCondition",
            "operators.coreos.com,v1,OperatorGroup",
            "operators.coreos.com,v1,OLMConfig",
        ])),
        tunnels: &[OLM_TUNNEL],
        ..PLAIN
    },
    Component {
        name: "catalog-operator",
        workload: asset!("catalog-operator"),
        objects: objects!("catalog-operator"),
        prober: Some(serves(&["operators.coreos.com,v1alpha1,CatalogSource"])),
        tunnels: &[OLM_TUNNEL],
        ..PLAIN
    },
    Component {
        name: "packageserver",
        workload: asset!("packageserver"),
        objects: objects!("packageserver"),
        replicas: Replicas::Three,
        tier: Tier::Api,
        prober: Some(serves(&["operators.coreos.com,v1alpha1,CatalogSource"])),
        tunnels: &[OLM_TUNNEL],
        tls: Tls::Flags,
        ready_with_api: true,
        ..PLAIN
    },
    Component {
        name: "olm-collect-profiles",
        workload: asset!("olm-collect-profiles"),
        objects: objects!("olm-collect-profiles"),
        management: true,
        config: operators::collect_profiles,
        shape: |s, w| w["spec"]["schedule"] = json!(operators::collect_at(&s.namespace)),
        ..PLAIN
    },
    Component {
        name: "certified-operators-catalog",
        workload: asset!("certified-operators-catalog"),
        objects: objects!("certified-operators-catalog"),
        when: |s| s.catalogs_here,
        after: OAPI,
        shape: catalogs::follow,
        ..PLAIN
    },
    Component {
        name: "community-operators-catalog",
        workload: asset!("community-operators-catalog"),
        objects: objects!("community-operators-catalog"),
        when: |s| s.catalogs_here,
        after: OAPI,
        shape: catalogs::follow,
        ..PLAIN
    },
    Component {
        name: "redhat-operators-catalog",
        workload: asset!("redhat-operators-catalog"),
        objects: objects!("redhat-operators-catalog"),
        when: |s| s.catalogs_here,
        after: OAPI,
        config: catalogs::stream,
        shape: catalogs::follow,
        ..PLAIN
    },
    Component {
        name: "kube-storage-version-migrator",
        workload: asset!("kube-storage-version-migrator"),
        when: |s| s.encryption.is_some(),
        ..PLAIN
    },
    Component {
        name: "endpoint-resolver",
        workload: asset!("endpoint-resolver"),
        objects: objects!("endpoint-resolver"),
        when: |s| s.forwarded.is_some(),
        replicas: Replicas::Two,
        management: true,
        ..PLAIN
    },
    Component {
        name: "metrics-proxy",
        workload: asset!("metrics-proxy"),
        objects: objects!("metrics-proxy"),
        when: |s| s.forwarded.is_some(),
        after: &["endpoint-resolver"],
        replicas: Replicas::Two,
        serves_requests: true,
        config: forwarding::config,
        adapt: forwarding::adapt,
        ..PLAIN
    },
];

const OLM_TUNNEL: Tunnel = Tunnel::Socks5 { args: &[], vars: Vars::Grpc("kube-apiserver") };

const CONFIG_KINDS: &[&str] = &[
    "imageregistry.operator.openshift.io,v1,Config",
    "config.openshift.io,v1,Infrastructure",
    "config.openshift.io,v1,DNS",
    "config.openshift.io,v1,Ingress",
    "config.openshift.io,v1,Network",
    "config.openshift.io,v1,Proxy",
    "config.openshift.io,v1,Build",
    "config.openshift.io,v1,Image",
    "config.openshift.io,v1,Project",
    "config.openshift.io,v1,ClusterVersion",
    "config.openshift.io,v1,FeatureGate",
    "config.openshift.io,v1,ClusterOperator",
    "config.openshift.io,v1,OperatorHub",
    "operator.openshift.io,v1,Network",
    "operator.openshift.io,v1,CloudCredential",
    "operator.openshift.io,v1,Storage",
    "operator.openshift.io,v1,CSISnapshotController",
    "operator.openshift.io,v1,ClusterCSIDriver",
    "operator.openshift.io,v1,IngressController",
];
