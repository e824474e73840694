//! Webhooks of the guest that are aimed at its control plane are removed.
//!
//! The API server calls webhooks from where it runs, which is the management cluster. A URL that names a Service of the
//! control plane, or the API server's own loopback, would let an administrator of the guest speak to what they must not
//! reach. Webhooks by Service are different: those are resolved in the guest and go through the tunnel.

use super::{Operator, asking};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::DynamicObject;
use reconcile::{Failure, Kind, Outcome};
use std::collections::BTreeSet;

/// A webhook configuration that has URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aims {
    pub validating: bool,
    pub name: String,
    pub uid: Option<String>,
    pub hosts: Vec<String>,
}

/// Our own, beside the API server.
const OURS: &str = "azure-workload-identity-webhook";

/// What matters of a configuration; most have no URL and are not kept.
pub(super) fn aims(o: &DynamicObject, validating: bool) -> Option<Aims> {
    let urls = o.data["webhooks"].as_array()?.iter().filter_map(|w| w["clientConfig"]["url"].as_str());
    let hosts: Vec<String> = urls.filter_map(host).collect();
    let name = o.metadata.name.clone().unwrap_or_default();
    (!hosts.is_empty() && name != OURS).then_some(Aims {
        validating,
        name,
        uid: o.metadata.uid.clone(),
        hosts,
    })
}

/// The host of a URL, in lower case, without brackets or a final dot.
fn host(url: &str) -> Option<String> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

/// Whether a host is the control plane's; `services` are those of its namespace.
pub fn is_control_plane(host: &str, namespace: &str, services: &BTreeSet<String>) -> bool {
    if host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
    {
        return true;
    }
    let inside = host.strip_suffix(".cluster.local").unwrap_or(host);
    let inside = inside.strip_suffix(".svc").unwrap_or(inside);
    match inside.split_once('.') {
        // A bare name is looked up in the API server's own namespace.
        None => services.contains(inside),
        Some((_, rest)) => rest == namespace || rest.ends_with(&format!(".{namespace}")),
    }
}

impl Operator {
    pub(super) async fn keep_webhooks_out(&self) -> Result<Outcome, Failure> {
        let all: Vec<_> = self.webhooks.iter().flat_map(|v| v.all()).collect();
        if all.is_empty() {
            return Ok(Outcome::Done);
        }
        let ns = &self.told.namespace;
        let services: Api<Service> = Api::namespaced(self.management.clone(), ns);
        let listed = services
            .list_metadata(&ListParams::default())
            .await
            .map_err(asking("list Services of the control plane"))?;
        let services: BTreeSet<String> = listed.items.into_iter().filter_map(|s| s.metadata.name).collect();
        for aim in all.iter().filter(|a| a.hosts.iter().any(|h| is_control_plane(h, ns, &services))) {
            let api = kind(aim.validating).api(&self.guest, "");
            let exactly = Preconditions { uid: aim.uid.clone(), resource_version: None };
            match api.delete(&aim.name, &DeleteParams::default().preconditions(exactly)).await {
                Ok(_) => {
                    tracing::warn!(webhook = aim.name, hosts = ?aim.hosts, "removed a webhook that was aimed at the control plane")
                }
                Err(kube::Error::Api(s)) if s.code == 404 || s.code == 409 => {}
                Err(e) => return Err(asking(format!("remove webhook configuration {}", aim.name))(e).into()),
            }
        }
        Ok(Outcome::Done)
    }
}

pub(super) const fn kind(validating: bool) -> Kind {
    use k8s_openapi::api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    };
    match validating {
        true => Kind::of_cluster::<ValidatingWebhookConfiguration>(),
        false => Kind::of_cluster::<MutatingWebhookConfiguration>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn hosts_of_the_control_plane_are_told_apart() {
        let services = BTreeSet::from(["etcd-client".to_owned(), "kube-apiserver".to_owned()]);
        let aimed = |url: &str| host(url).is_some_and(|h| is_control_plane(&h, "clusters-demo", &services));
        for url in [
            "https://etcd-client:2379/x",
            "https://ETCD-client",
            "https://etcd-client.clusters-demo.svc:2379",
            "https://anything.clusters-demo.svc.cluster.local./a",
            "https://etcd-0.etcd-discovery.clusters-demo.svc",
            "https://user@kube-apiserver.clusters-demo/x",
            "https://127.0.0.1:8443/",
            "https://[::1]:8443/",
            "https://localhost",
        ] {
            assert!(aimed(url), "{url}");
        }
        for url in [
            "https://hooks.example.com/etcd-client",
            "https://etcd-client.other.svc",
            "https://notclusters-demo.svc",
            "https://10.0.0.7:443",
            "not a url",
        ] {
            assert!(!aimed(url), "{url}");
        }
    }

    #[test]
    fn only_urls_count_and_ours_is_ours() {
        let o = |name: &str, url: Value| {
            let v = serde_json::json!({"metadata": {"name": name}, "webhooks": [{"clientConfig": {"url": url}}, {"clientConfig": {"service": {"name": "etcd-client"}}}]});
            serde_json::from_value::<DynamicObject>(v).ok()
        };
        let aims = |name: &str, url: Value| o(name, url).and_then(|o| aims(&o, true)).map(|a| a.hosts);
        assert_eq!(aims("a", Value::from("https://etcd-client/x")), Some(vec!["etcd-client".to_owned()]));
        assert_eq!(aims("a", Value::Null), None);
        assert_eq!(aims(OURS, Value::from("https://127.0.0.1:9443/mutate-v1-pod")), None);
    }
}
