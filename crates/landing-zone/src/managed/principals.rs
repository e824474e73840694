//! Applications of a control plane: what is there, and what has to be done. Judging is pure.

use super::certificate::{Credentials, thumbprint};
use super::{COMPONENTS, Managed};
use crate::Error;
use crate::extras::{Act, Extra};
use crate::names::{Cluster, MadeBy, TAG_BY, TAG_NAME};
use crate::patience::settled;
use crate::survey::{Tell, read};
use arm::ResourceId;
use azure::Client;
use azure::graph::{Application, ServicePrincipal};
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// At most this many components at once.
pub(super) const PARALLEL: usize = 8;

/// One component as it is.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub suffix: &'static str,
    pub application: Option<Application>,
    pub principal: Option<ServicePrincipal>,
    /// Others of the same name with our mark, which nobody needs.
    pub spare: Vec<Application>,
    pub(super) secret: Option<Held>,
    /// The vault has a secret of the name that cannot be used.
    pub(super) foreign: bool,
}

/// What of a stored credential matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub client_id: String,
    pub tenant: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub der: Vec<u8>,
}

/// All components.
pub type Seen = Vec<Part>;

/// The mark of applications: they have tags, too, but no values.
fn marks_of(mark: &Cluster) -> [String; 2] {
    [format!("{TAG_NAME}:{}", mark.name), format!("{TAG_BY}:{}", MadeBy::ManagedIdentities.as_str())]
}

fn marked(app: &Application, marks: &[String; 2]) -> bool {
    let tags: Vec<&str> = app
        .other
        .get("tags")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    marks.iter().all(|m| tags.contains(&m.as_str()))
}

/// Applications with our names and our mark.
pub(super) async fn applications(client: &Client, mark: &Cluster) -> Result<Vec<Application>, Error> {
    let filter = format!("startswith(displayName,'{}-')", mark.name);
    let all: Vec<Application> =
        client.graph().applications(Some(&filter)).try_collect().await.map_err(read("the applications"))?;
    let marks = marks_of(mark);
    Ok(all.into_iter().filter(|a| marked(a, &marks)).collect())
}

/// Names of applications are not unique: runs at the same time, or a killed one, may leave several. All runs agree which
/// counts: the one `used` if there is one, then the oldest, then the one with the smallest id.
pub(super) fn elect(
    mut named: Vec<Application>,
    used: Option<&str>,
) -> (Option<Application>, Vec<Application>) {
    let made = |a: &Application| {
        let text = a.other.get("createdDateTime").and_then(Value::as_str);
        text.and_then(|t| t.parse().ok()).unwrap_or(Timestamp::MAX)
    };
    named.sort_by_key(|a| (Some(a.app_id.as_str()) != used, made(a), a.id.clone()));
    let mut all = named.into_iter();
    (all.next(), all.collect())
}

/// Looks at all of them. `secrets`: the vault is there and may be read.
pub(super) async fn look(client: &Client, m: &Managed, secrets: bool, tell: Tell<'_>) -> Result<Seen, Error> {
    let applications = applications(client, &m.mark).await?;
    let vault = m.vault_id()?;
    let one = |suffix: &'static str| {
        let name = m.part(suffix);
        let named: Vec<Application> =
            applications.iter().filter(|a| a.display_name == name).cloned().collect();
        let vault = &vault;
        async move {
            let mut part = Part { suffix, ..Part::default() };
            if secrets {
                (part.secret, part.foreign) = held(client, m, &name, vault, tell).await?;
            }
            // Clusters gave their roles to the one whose certificate is in the vault.
            let used = part.secret.as_ref().map(|h| h.client_id.as_str());
            (part.application, part.spare) = elect(named, used);
            if let Some(app) = &part.application {
                let found = client.graph().service_principal_of(&app.app_id).await;
                part.principal = found.map_err(read(format!("the service principal of {name}")))?;
            }
            Ok(part)
        }
    };
    let all: Vec<_> = COMPONENTS.iter().map(|(_, suffix)| one(suffix)).collect();
    stream::iter(all).buffered(PARALLEL).try_collect().await
}

pub(super) async fn held(
    client: &Client,
    m: &Managed,
    name: &str,
    vault: &ResourceId,
    tell: Tell<'_>,
) -> Result<(Option<Held>, bool), Error> {
    let failed =
        |e| Error::Data { what: format!("read secret {name} of vault {}", m.vault), source: Box::new(e) };
    let secrets = client.vault(&m.vault).map_err(failed)?.secrets();
    let found = settled(client, vault, tell, async || secrets.find(name).await).await.map_err(failed)?;
    let Some(found) = found else { return Ok((None, false)) };
    let held = found.value.as_ref().and_then(|v| Credentials::read(v, m.encoding)).and_then(|c| {
        Some(Held {
            der: c.certificate()?,
            client_id: c.client_id,
            tenant: c.tenant_id,
            not_before: c.not_before,
            not_after: c.not_after,
        })
    });
    let foreign = held.is_none();
    Ok((held, foreign))
}

/// The certificates of an application, as Graph lists them.
pub(super) fn registered(app: &Application) -> Vec<Value> {
    app.other.get("keyCredentials").and_then(Value::as_array).cloned().unwrap_or_default()
}

pub(super) fn is(credential: &Value, der: &[u8]) -> bool {
    credential["customKeyIdentifier"].as_str() == Some(thumbprint(der).as_str())
}

/// Whether a part needs a new certificate, and why.
pub(super) fn due(m: &Managed, part: &Part, tenant: &str, now: Timestamp) -> Option<String> {
    let Some(held) = &part.secret else {
        let why = if part.foreign { "what is stored cannot be read" } else { "there is none" };
        return Some(why.to_owned());
    };
    let app = part.application.as_ref();
    if app.is_none_or(|a| a.app_id != held.client_id) || held.tenant != tenant {
        return Some("the stored one is of another application".to_owned());
    }
    if !app.is_some_and(|a| registered(a).iter().any(|c| is(c, &held.der))) {
        return Some("the stored one is not registered".to_owned());
    }
    if held.not_after <= now {
        return Some(format!("it ended {}", held.not_after));
    }
    let early = SignedDuration::from_hours(24 * i64::from(m.renew?));
    let soon = now.checked_add(early).is_ok_and(|limit| held.not_after <= limit);
    soon.then(|| format!("it ends {}", held.not_after))
}

/// Lines of a plan.
pub(super) fn extras(m: &Managed, seen: &Seen, tenant: &str, now: Timestamp) -> Vec<Extra> {
    let mut out = Vec::new();
    for part in seen {
        let name = m.part(part.suffix);
        out.push(Extra::new(Act::of(part.application.is_some(), true), format!("application {name}")));
        out.push(Extra::new(Act::of(part.principal.is_some(), true), format!("service principal {name}")));
        for spare in &part.spare {
            let what = format!("application {name} ({})", spare.app_id);
            out.push(Extra::new(Act::Delete, what).note("there is another of the name"));
        }
        let what = format!("secret {name} in vault {}", m.vault);
        let there = part.secret.is_some() || part.foreign;
        let secret = match due(m, part, tenant, now) {
            Some(why) => Extra::new(Act::of(there, false), what).note(format!("a new certificate: {why}")),
            None => Extra::new(Act::Keep, what),
        };
        out.push(secret);
    }
    out
}

/// A new application.
pub(super) fn application(m: &Managed, name: &str) -> Application {
    let tags = json!(marks_of(&m.mark));
    Application {
        display_name: name.to_owned(),
        other: [("tags".to_owned(), tags)].into_iter().collect(),
        ..Application::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(renew: Option<u16>) -> Managed {
        Managed {
            mark: Cluster::shared("demo").unwrap(),
            subscription: ResourceId::subscription_scope("s").unwrap(),
            group: "g".to_owned(),
            location: "eastus".to_owned(),
            vault: "demo".to_owned(),
            issuer: "https://i.test".to_owned(),
            encoding: super::super::Encoding::Utf8,
            validity: 90,
            renew,
            adopt: false,
            make: super::super::new_key,
        }
    }

    #[test]
    fn a_certificate_is_made_when_it_has_to_be() {
        let now: Timestamp = "2026-01-31T00:00:00Z".parse().unwrap();
        let app = Application {
            app_id: "a".to_owned(),
            other: [("keyCredentials".to_owned(), json!([{"customKeyIdentifier": thumbprint(b"t")}]))]
                .into_iter()
                .collect(),
            ..Application::default()
        };
        let held = Held {
            client_id: "a".to_owned(),
            tenant: "tenant".to_owned(),
            not_before: now,
            not_after: "2026-02-10T00:00:00Z".parse().unwrap(),
            der: b"t".to_vec(),
        };
        let part = Part { application: Some(app), secret: Some(held.clone()), ..Part::default() };
        let why = |renew, part: &Part| due(&managed(renew), part, "tenant", now);
        assert_eq!(why(None, &part), None);
        assert_eq!(why(Some(9), &part), None);
        assert_eq!(why(Some(10), &part).unwrap(), "it ends 2026-02-10T00:00:00Z");
        let with = |f: &dyn Fn(&mut Held)| {
            let mut h = held.clone();
            f(&mut h);
            Part { secret: Some(h), ..part.clone() }
        };
        assert!(why(None, &with(&|h| h.not_after = now)).unwrap().starts_with("it ended"));
        assert!(why(None, &with(&|h| h.client_id = "b".to_owned())).unwrap().contains("another"));
        assert!(why(None, &with(&|h| h.tenant = "b".to_owned())).unwrap().contains("another"));
        assert!(why(None, &with(&|h| h.der = b"b".to_vec())).unwrap().contains("not registered"));
        assert_eq!(why(None, &Part { secret: None, ..part.clone() }).unwrap(), "there is none");
        assert!(why(None, &Part { secret: None, foreign: true, ..part }).unwrap().contains("cannot be read"));
    }

    #[test]
    fn one_of_many_counts_for_everybody() {
        let app = |id: &str, made: Option<&str>| Application {
            id: id.to_owned(),
            app_id: format!("client-{id}"),
            other: made.map(|t| ("createdDateTime".to_owned(), json!(t))).into_iter().collect(),
            ..Application::default()
        };
        // As text the second would come first.
        let all = [
            app("d", None),
            app("c", Some("2026-01-01T00:00:00.5Z")),
            app("b", Some("2026-01-01T00:00:00.25Z")),
            app("a", Some("2026-01-01T00:00:00.5Z")),
        ];
        let order = |used| {
            let mut orders = [all.to_vec(), all.iter().rev().cloned().collect()].map(|named| {
                let (first, rest) = elect(named, used);
                first.into_iter().chain(rest).map(|a| a.id).collect::<Vec<_>>().concat()
            });
            orders.sort();
            assert_eq!(orders[0], orders[1]);
            orders[0].clone()
        };
        assert_eq!(order(None), "bacd");
        assert_eq!(order(Some("client-d")), "dbac");
        assert_eq!(order(Some("client-gone")), "bacd");
        assert_eq!(elect(Vec::new(), None), (None, Vec::new()));
    }
}
