//! Applications of a control plane: what is there, and what has to be done. Judging is pure.

use super::certificate::Credentials;
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
    pub thumbprint: String,
}

/// All components.
pub type Seen = Vec<Part>;

/// The mark of applications: they have tags, too, but no values.
pub(super) fn marks_of(mark: &Cluster) -> [String; 2] {
    [format!("{TAG_NAME}:{}", mark.name), format!("{TAG_BY}:{}", MadeBy::ManagedIdentities.as_str())]
}

pub(super) fn marked(app: &Application, marks: &[String; 2]) -> bool {
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

/// Applications with our names and our mark, and the names that somebody else has taken.
pub(super) async fn applications(client: &Client, m: &Managed) -> Result<Vec<Application>, Error> {
    let filter = format!("startswith(displayName,'{}-')", m.mark.name);
    let all: Vec<Application> =
        client.graph().applications(Some(&filter)).try_collect().await.map_err(read("the applications"))?;
    let marks = marks_of(&m.mark);
    Ok(all.into_iter().filter(|a| marked(a, &marks)).collect())
}

/// Looks at all of them. `secrets`: the vault is there and may be read.
pub(super) async fn look(client: &Client, m: &Managed, secrets: bool, tell: Tell<'_>) -> Result<Seen, Error> {
    let applications = applications(client, m).await?;
    let vault = m.vault_id()?;
    let one = |suffix: &'static str| {
        let name = m.part(suffix);
        let mut named: Vec<Application> =
            applications.iter().filter(|a| a.display_name == name).cloned().collect();
        let vault = &vault;
        async move {
            let mut part = Part { suffix, ..Part::default() };
            if secrets {
                (part.secret, part.foreign) = held(client, m, &name, vault, tell).await?;
            }
            // A run that was killed may have made one that no list showed to the next: the one in use counts.
            let used = part.secret.as_ref().map(|h| h.client_id.clone());
            named.sort_by_key(|a| (Some(&a.app_id) != used.as_ref(), a.app_id.clone()));
            part.application = named.into_iter().next();
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

async fn held(
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
            thumbprint: c.thumbprint()?,
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

pub(super) fn is(credential: &Value, thumbprint: &str) -> bool {
    credential["customKeyIdentifier"].as_str() == Some(thumbprint)
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
    if !app.is_some_and(|a| registered(a).iter().any(|c| is(c, &held.thumbprint))) {
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
            other: [("keyCredentials".to_owned(), json!([{"customKeyIdentifier": "t"}]))]
                .into_iter()
                .collect(),
            ..Application::default()
        };
        let held = Held {
            client_id: "a".to_owned(),
            tenant: "tenant".to_owned(),
            not_before: now,
            not_after: "2026-02-10T00:00:00Z".parse().unwrap(),
            thumbprint: "t".to_owned(),
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
        assert!(why(None, &with(&|h| h.thumbprint = "b".to_owned())).unwrap().contains("not registered"));
        assert_eq!(why(None, &Part { secret: None, ..part.clone() }).unwrap(), "there is none");
        assert!(why(None, &Part { secret: None, foreign: true, ..part }).unwrap().contains("cannot be read"));
    }
}
