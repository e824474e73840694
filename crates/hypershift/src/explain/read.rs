//! Fetching what an explanation needs, from any management cluster.

use super::Facts;
use crate::kinds;
use kube::Client;
use kube::api::ListParams;
use reconcile::Kind;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no HostedCluster {namespace}/{name}; see `kubectl get hostedclusters -A`")]
    Absent { namespace: String, name: String },
    #[error("cannot read {what}")]
    Read { what: String, source: Box<kube::Error> },
}

/// Objects are few per cluster; more than this is not looked at.
const MOST: u32 = 500;

async fn list(client: &Client, kind: &Kind, namespace: &str) -> Result<Vec<Value>, Error> {
    match kind.api(client, namespace).list(&ListParams::default().limit(MOST)).await {
        Ok(list) => Ok(list.items.into_iter().filter_map(|o| serde_json::to_value(o).ok()).collect()),
        // Not served, or not ours to see: there is less to say, and that is all.
        Err(kube::Error::Api(s)) if matches!(s.code, 403 | 404) => Ok(Vec::new()),
        Err(e) => Err(Error::Read { what: format!("{} of {namespace}", kind.plural), source: Box::new(e) }),
    }
}

/// Everything about one cluster.
pub async fn facts(client: &Client, namespace: &str, name: &str) -> Result<Facts, Error> {
    let failed = |what: String| move |e| Error::Read { what, source: Box::new(e) };
    let api = kinds::CLUSTER.api(client, namespace);
    let cluster = api.get_opt(name).await.map_err(failed(format!("HostedCluster {namespace}/{name}")))?;
    let cluster =
        cluster.ok_or_else(|| Error::Absent { namespace: namespace.to_owned(), name: name.to_owned() })?;
    let inside = apis::naming::control_plane_namespace(namespace, name);
    let plane = match kinds::PLANE.api(client, &inside).get_opt(name).await {
        Ok(plane) => plane.and_then(|o| serde_json::to_value(o).ok()),
        Err(kube::Error::Api(s)) if s.code == 403 => None,
        Err(e) => return Err(failed(format!("HostedControlPlane {inside}/{name}"))(e)),
    };
    let pools = list(client, &kinds::POOL, namespace).await?;
    Ok(Facts {
        cluster: serde_json::to_value(cluster).unwrap_or_default(),
        plane,
        components: list(client, &kinds::COMPONENT, &inside).await?,
        pools: pools.into_iter().filter(|p| p["spec"]["clusterName"] == name).collect(),
        waiting: Vec::new(),
    })
}
