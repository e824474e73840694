//! Who can hold a namespace up: objects of every kind that the server serves, ours and everybody else's.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use reconcile::Kind;
use std::borrow::Cow;

/// Namespaced kinds that can be listed and changed, each in the version its group prefers. A group that does not answer (its
/// server is away) is left out: the namespace's own deletion says so.
pub(super) async fn kinds(client: &Client) -> kube::Result<Vec<Kind>> {
    let mut all = Vec::new();
    for version in client.list_core_api_versions().await?.versions {
        all.extend(of("", &version, client.list_core_api_resources(&version).await?));
    }
    for group in client.list_api_groups().await?.groups {
        let version = group.preferred_version.or_else(|| group.versions.into_iter().next());
        let Some(version) = version else { continue };
        match client.list_api_group_resources(&version.group_version).await {
            Ok(list) => all.extend(of(&group.name, &version.version, list)),
            Err(e) => {
                tracing::warn!(group = %group.name, why = %reconcile::chain(&e), "a group of kinds is not served");
            }
        }
    }
    Ok(all)
}

fn of(group: &str, version: &str, list: APIResourceList) -> Vec<Kind> {
    let does = |verbs: &[String], verb: &str| verbs.iter().any(|v| v == verb);
    let good = list.resources.into_iter().filter(|r| {
        r.namespaced && !r.name.contains('/') && does(&r.verbs, "list") && does(&r.verbs, "patch")
    });
    good.map(|r| Kind {
        group: Cow::Owned(group.to_owned()),
        version: Cow::Owned(version.to_owned()),
        kind: Cow::Owned(r.kind),
        plural: Cow::Owned(r.name),
        namespaced: true,
    })
    .collect()
}
