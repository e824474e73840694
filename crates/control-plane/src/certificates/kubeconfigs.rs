//! Kubeconfigs and the Secrets they lie in.

use crate::scope::Scope;

/// The kubeconfig of `kubeAPIServerDNSName`.
pub const CUSTOM: &str = "custom-admin-kubeconfig";

/// A kubeconfig: where it leads, and with whose certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    pub secret: String,
    pub key: &'static str,
    pub server: String,
    /// Secret of the client's certificate.
    pub client: &'static str,
    pub user: &'static str,
    pub labels: Vec<(&'static str, String)>,
    /// Secret of a certificate of the user's that is shown there, and trusted besides our own authority.
    pub shown: Option<String>,
}

/// All kubeconfigs of a control plane.
pub fn kubeconfigs(scope: &Scope) -> Vec<Kubeconfig> {
    let inside = "https://kube-apiserver:6443".to_owned();
    let here = format!("https://localhost:{}", scope.network.api_port);
    let outside = format!("https://{}:{}", scope.endpoints.api.host, scope.endpoints.api.port);
    let one = |secret: &str, server: &str, client, user| Kubeconfig {
        secret: secret.to_owned(),
        key: "kubeconfig",
        server: server.to_owned(),
        client,
        user,
        labels: Vec::new(),
        shown: None,
    };
    let mut all = vec![
        one("admin-kubeconfig", &outside, "system-admin-client", "admin"),
        one("service-network-admin-kubeconfig", &inside, "system-admin-client", "admin"),
        one("localhost-kubeconfig", &here, "system-admin-client", "admin"),
        one(
            "kas-bootstrap-container-kubeconfig",
            &here,
            "kas-bootstrap-container-client",
            "kas-bootstrap-container",
        ),
        one(
            "ingress-operator-service-account-kubeconfig",
            &inside,
            "ingress-operator-service-account-client",
            "ingress-operator",
        ),
        one(
            "dns-operator-service-account-kubeconfig",
            &inside,
            "dns-operator-service-account-client",
            "dns-operator",
        ),
        one("hcco-kubeconfig", &inside, "hcco-client", "hosted-cluster-config-operator"),
        one("bootstrap-kubeconfig", &outside, "kas-bootstrap-client", "kubelet-bootstrap"),
        one(
            "kube-controller-manager-kubeconfig",
            &inside,
            "kube-controller-manager-client",
            "kube-controller-manager",
        ),
        one("kube-scheduler-kubeconfig", &inside, "kube-scheduler-client", "kube-scheduler"),
        one(
            "azure-workload-identity-webhook-kubeconfig",
            &here,
            "system-admin-client",
            "azure-workload-identity-webhook",
        ),
        Kubeconfig {
            secret: format!("{}-kubeconfig", scope.infra_id),
            key: "value",
            labels: vec![("cluster.x-k8s.io/cluster-name", scope.infra_id.clone())],
            ..one("", &inside, "system-admin-client", "admin")
        },
    ];
    if scope.oauth() {
        let webhook = format!(
            "https://openshift-oauth-apiserver.{}.svc:443/apis/oauth.openshift.io/v1/tokenreviews",
            scope.namespace
        );
        all.push(one(
            "kas-authentication-token-webhook-config",
            &webhook,
            "openshift-authenticator-cert",
            "authenticator",
        ));
    }
    if let Some(name) = &scope.endpoints.custom_api {
        let server = format!("https://{name}:{}", scope.endpoints.api.port);
        all.push(Kubeconfig {
            shown: scope.named_certificate(name).map(str::to_owned),
            ..one(CUSTOM, &server, "system-admin-client", "admin")
        });
    }
    all
}
