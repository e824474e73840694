//! One component of a control plane made whole: application, service principal, certificate, secret.
//!
//! Graph knows no conditions and no unique names, so runs at the same time can pass each other at every step. Each run
//! looks again after it wrote, until application, certificate and secret fit together: whoever writes last sees what
//! the others did, all judge by the same rule ([`elect`]), and mending twice is the same as mending once.

use super::Managed;
use super::certificate::{self, CertificateError, Credentials, thumbprint};
use super::principals::{self, Held, Part, due, elect, held, is, registered};
use crate::Error;
use crate::extras::{Act, Extra};
use crate::names::MadeBy;
use crate::patience::settled;
use crate::run::{Progress, Watch};
use crate::survey::read;
use arm::ResourceId;
use azure::Client;
use azure::graph::{Application, ServicePrincipal};
use azure::vault::{Attributes, SetSecret};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

/// So often it is looked whether all fits.
const ROUNDS: u32 = 6;

fn failed(what: String) -> impl FnOnce(azure::Error) -> Error {
    move |e| Error::Data { what, source: Box::new(e) }
}

fn told(watch: Watch<'_>, act: Act, what: &str, name: &str) {
    watch(Progress::Extra(&Extra::new(act, format!("{what} {name}"))));
}

async fn remove(client: &Client, app: &Application, watch: Watch<'_>) -> Result<(), Error> {
    let name = format!("{} ({})", app.display_name, app.app_id);
    let gone = client.graph().delete_application(&app.id).await;
    gone.map_err(failed(format!("delete application {name}, of which there is another")))?;
    told(watch, Act::Delete, "application", &name);
    Ok(())
}

/// The one that counts of those that a list shows and `known`, which it may not show yet.
async fn agreed(client: &Client, m: &Managed, known: &Application) -> Result<Application, Error> {
    let mut named = principals::applications(client, &m.mark).await?;
    named.retain(|a| a.display_name == known.display_name);
    if !named.iter().any(|a| a.id == known.id) {
        named.push(known.clone());
    }
    Ok(elect(named, None).0.unwrap_or_else(|| known.clone()))
}

/// A new application, or the one that another run made at the same time.
pub(super) async fn enroll(
    client: &Client,
    m: &Managed,
    name: &str,
    watch: Watch<'_>,
) -> Result<Application, Error> {
    let made = client.graph().create_application(&principals::application(m, name)).await;
    let made = made.map_err(|e| match e.status() {
        Some(403) => Error::Directory(Box::new(e)),
        _ => Error::Data { what: format!("create application {name}"), source: Box::new(e) },
    })?;
    told(watch, Act::Create, "application", name);
    let counts = agreed(client, m, &made).await?;
    if counts.id != made.id {
        remove(client, &made, watch).await?;
    }
    Ok(counts)
}

/// Makes one component whole; its client id. `enrolled`: its application was made by this run.
pub(super) async fn ensure(
    client: &Client,
    m: &Managed,
    mut part: Part,
    mut enrolled: bool,
    tenant: &str,
    watch: Watch<'_>,
) -> Result<String, Error> {
    let name = m.part(part.suffix);
    for spare in std::mem::take(&mut part.spare) {
        remove(client, &spare, watch).await?;
    }
    // What was renewed once is not renewed again, however short its life is.
    let once = Managed { renew: None, ..m.clone() };
    let mut stored = false;
    let mut pause = Duration::from_secs(2).min(client.poll_default());
    for round in 0..ROUNDS {
        if round > 0 {
            if round > 1 {
                client.timing().pause.pause(pause).await;
                pause = (pause * 2).min(Duration::from_secs(15));
            }
            part = again(client, m, part, enrolled, watch).await?;
        }
        let app = match part.application.clone() {
            Some(app) => app,
            None => {
                part.application = Some(enroll(client, m, &name, watch).await?);
                enrolled = true;
                // If it is another's, its certificate may be there, too.
                part = again(client, m, part, false, watch).await?;
                part.application.clone().ok_or_else(|| Error::Incomplete(format!("application {name}")))?
            }
        };
        if part.principal.is_none() {
            part.principal = Some(principal(client, &app, &name, watch).await?);
        }
        let now = client.timing().clock.now();
        if due(if stored { &once } else { m }, &part, tenant, now).is_none() {
            return Ok(app.app_id);
        }
        match part.secret.as_ref().filter(|h| stored && h.client_id == app.app_id && h.tenant == tenant) {
            // Stored while this ran, and pushed out by another run that registered its own.
            Some(h) if h.not_after > now => {
                let mut all = registered(&app);
                all.push(credential(&name, &h.der, h.not_before, h.not_after));
                register(client, &app, all, &name).await?;
            }
            _ => {
                certify(client, m, &part, &app, tenant, now, watch).await?;
                stored = true;
            }
        }
    }
    Err(Error::Incomplete(format!(
        "a certificate of {name} that is both stored and registered (is another run going on?)"
    )))
}

/// The part as it is now. The directory may be a little old, so what is known is not forgotten.
async fn again(
    client: &Client,
    m: &Managed,
    part: Part,
    enrolled: bool,
    watch: Watch<'_>,
) -> Result<Part, Error> {
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let Some(known) = part.application else { return Ok(part) };
    let name = m.part(part.suffix);
    let app = match enrolled {
        true => agreed(client, m, &known).await?,
        false => known.clone(),
    };
    let principal = match app.id == known.id {
        true => part.principal,
        false => {
            // Ours was seen late, and another is older.
            remove(client, &known, watch).await?;
            let found = client.graph().service_principal_of(&app.app_id).await;
            found.map_err(read(format!("the service principal of {name}")))?
        }
    };
    let app = match client.graph().application(&app.id).await {
        Err(e) if e.is_not_found() => app,
        other => other.map_err(read(format!("application {name}")))?,
    };
    let (secret, foreign) = held(client, m, &name, &m.vault_id()?, &tell).await?;
    Ok(Part { application: Some(app), principal, secret, foreign, ..part })
}

/// An application has one service principal: who comes second finds it.
async fn principal(
    client: &Client,
    app: &Application,
    name: &str,
    watch: Watch<'_>,
) -> Result<ServicePrincipal, Error> {
    let graph = client.graph();
    match graph.create_service_principal(&app.app_id).await {
        Ok(made) => {
            told(watch, Act::Create, "service principal", name);
            Ok(made)
        }
        Err(e) if e.has_code("Request_MultipleObjectsWithSameKeyValue") || e.status() == Some(409) => {
            let found = graph.service_principal_of(&app.app_id).await;
            let found = found.map_err(read(format!("the service principal of {name}")))?;
            found.ok_or_else(|| failed(format!("create the service principal of {name}"))(e))
        }
        Err(e) => Err(failed(format!("create the service principal of {name}"))(e)),
    }
}

fn credential(name: &str, der: &[u8], from: Timestamp, until: Timestamp) -> Value {
    json!({"type": "AsymmetricX509Cert", "usage": "Verify", "displayName": format!("CN={name}"),
        "key": STANDARD.encode(der), "customKeyIdentifier": thumbprint(der),
        "startDateTime": from, "endDateTime": until})
}

/// A new certificate, registered and then stored.
async fn certify(
    client: &Client,
    m: &Managed,
    part: &Part,
    app: &Application,
    tenant: &str,
    now: Timestamp,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let name = m.part(part.suffix);
    let new = (m.make)()
        .map_err(CertificateError::Make)
        .and_then(|key| certificate::make(&name, &key, now, m.validity))
        .map_err(|e| Error::Certificate(name.clone(), e))?;
    // The one in the vault works until readers have seen the next.
    let stays = |c: &Value| part.secret.as_ref().is_some_and(|Held { der, .. }| is(c, der));
    let mut all: Vec<Value> = registered(app).into_iter().filter(stays).collect();
    all.push(credential(&name, &new.der, new.not_before, new.not_after));
    register(client, app, all, &name).await?;
    let credentials = Credentials::new(client.cloud().login.as_str(), &app.app_id, tenant, &new);
    store(client, m, &name, &credentials, watch).await.map_err(failed(format!("store secret {name}")))?;
    let act = if part.secret.is_some() || part.foreign { Act::Change } else { Act::Create };
    told(watch, act, "secret", &name);
    Ok(())
}

/// Graph may not have heard of the application yet.
async fn register(client: &Client, app: &Application, all: Vec<Value>, name: &str) -> Result<(), Error> {
    let body = json!({"keyCredentials": all});
    let mut wait = Duration::from_secs(1);
    for _ in 1..10 {
        match client.graph().patch_application(&app.id, body.clone()).await {
            Err(e) if e.is_not_found() => client.timing().pause.pause(wait).await,
            other => return other.map_err(failed(format!("register the certificate of {name}"))),
        }
        wait = (wait * 2).min(Duration::from_secs(15));
    }
    let last = client.graph().patch_application(&app.id, body).await;
    last.map_err(failed(format!("register the certificate of {name}")))
}

async fn store(
    client: &Client,
    m: &Managed,
    name: &str,
    c: &Credentials,
    watch: Watch<'_>,
) -> Result<(), azure::Error> {
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let secrets = client.vault(&m.vault)?.secrets();
    let tags = m.mark.tags(MadeBy::ManagedIdentities);
    let new = SetSecret {
        value: c.write(m.encoding),
        content_type: Some("application/json".to_owned()),
        attributes: Attributes {
            not_before: Some(c.not_before),
            expires: Some(c.not_after),
            ..Attributes::default()
        },
        tags: tags.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
    };
    let Ok(vault) = m.vault_id() else { return Ok(()) };
    // A secret that was deleted by hand holds its name.
    if secrets.deleted(name).await.is_ok_and(|d| d.is_some()) {
        secrets.recover(name).await?;
    }
    settled(client, &vault, &tell, async || secrets.set(name, &new).await).await.map(drop)
}
