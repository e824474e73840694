//! Looking at an issuer, and publishing its keys.

use super::documents::{self, DISCOVERY, Decision, KEYS, Known, decide, kids};
use super::files::KeyDir;
use super::keys::{KeyError, SigningKey};
use super::{Issuer, Rotation, WRITES, wanted};
use crate::extras::{Act, Extra};
use crate::me::{Me, who};
use crate::names::MadeBy;
use crate::patience::settled;
use crate::run::{Options, Outcome, Progress, Watch, converge};
use crate::survey::{self, Kept, Survey, Tell};
use crate::{Error, rights};
use arm::ResourceId;
use azure::blob::{Container, PutOptions};
use azure::{Client, Condition};
use serde_json::Value;
use std::collections::BTreeSet;

/// Documents are small.
const MAX: u64 = 256 << 10;
/// Somebody else may publish at the same time; then it is looked again.
const ROUNDS: usize = 5;

/// Which keys, and what about them.
#[derive(Clone, Debug)]
pub struct Keys {
    pub dir: KeyDir,
    pub given: Option<SigningKey>,
    pub rotation: Rotation,
    /// Where new keys come from: [`SigningKey::generate`].
    pub make: fn() -> Result<SigningKey, KeyError>,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub url: String,
    /// The key that signs from now on.
    pub kid: String,
    /// All that are published.
    pub kids: Vec<String>,
    pub decision: Decision,
}

/// A document as it is.
#[derive(Clone, Debug, Default)]
struct Document {
    value: Option<Value>,
    on: Condition,
}

fn failed(what: impl Into<String>) -> impl FnOnce(azure::Error) -> Error {
    let what = what.into();
    move |e| Error::Data { what, source: Box::new(e) }
}

/// Somebody else wrote it meanwhile; or we did, and the answer was lost.
fn overtaken(e: &azure::Error) -> bool {
    e.is_precondition() || e.has_code("BlobAlreadyExists")
}

async fn document(container: &Container, name: &str) -> Result<Document, azure::Error> {
    Ok(match container.find(name, MAX).await? {
        None => Document { value: None, on: Condition::Absent },
        Some(blob) => Document {
            // What cannot be read is written anew.
            value: serde_json::from_slice(&blob.content).ok(),
            on: Condition::Match(blob.properties.etag),
        },
    })
}

impl Keys {
    fn known(&self, published: &Document) -> Result<Known, Error> {
        let kid = |k: Option<SigningKey>| k.map(|k| k.kid());
        Ok(Known {
            published: published.value.as_ref().map(kids).unwrap_or_default(),
            current: kid(self.dir.current()?),
            next: kid(self.dir.next()?),
            given: kid(self.given.clone()),
        })
    }

    fn new_key(&self) -> Result<SigningKey, Error> {
        match &self.given {
            Some(key) => Ok(key.clone()),
            None => (self.make)().map_err(Error::NewKey),
        }
    }
}

/// Lines of a plan: the keys, and both documents.
fn extras(issuer: &Issuer, url: &str, d: Decision, known: &Known, seen: &(Document, Document)) -> Vec<Extra> {
    let (discovery, jwks) = seen;
    let current = known.current.clone().unwrap_or_default();
    let key = match d {
        Decision::First if known.given.is_some() => Extra::new(Act::Create, "key of --key in --output-dir"),
        Decision::First => Extra::new(Act::Create, "RSA key in --output-dir"),
        Decision::Rotate => Extra::new(Act::Change, format!("key {current}"))
            .note("a new one takes its place; this one stays published until --retire-old"),
        Decision::Keep | Decision::Rotated | Decision::Retire => {
            Extra::new(Act::Keep, format!("key {current}"))
        }
    };
    let complete = known.published.contains(&current);
    let others = known.published.iter().any(|k| *k != current);
    let keys = match d {
        Decision::Keep | Decision::Rotated => Act::of(jwks.value.is_some(), complete),
        Decision::Retire => Act::of(true, !others),
        Decision::First | Decision::Rotate => Act::of(jwks.value.is_some(), false),
    };
    let same = discovery.value.as_ref() == Some(&documents::discovery(url));
    let name = issuer.name();
    vec![
        key,
        Extra::new(Act::of(discovery.value.is_some(), same), format!("blob {name}/{DISCOVERY}")),
        Extra::new(keys, format!("blob {name}/{KEYS}")),
    ]
}

/// What is there and what would be done.
pub async fn survey(client: &Client, issuer: &Issuer, keys: &Keys, tell: Tell<'_>) -> Result<Survey, Error> {
    Ok(look(client, issuer, keys, tell).await?.0)
}

async fn role(client: &Client, issuer: &Issuer) -> Result<Option<Me>, Error> {
    let me = who(client).await?;
    let has = rights::has_data(client, &issuer.subscription, WRITES).await?;
    Ok((!has).then_some(me))
}

async fn look(
    client: &Client,
    issuer: &Issuer,
    keys: &Keys,
    tell: Tell<'_>,
) -> Result<(Survey, Decision), Error> {
    let group = issuer.group_id()?;
    let (account, container) = (issuer.account()?, issuer.container()?);
    let (found, me) = futures::try_join!(survey::group(client, &group, tell), role(client, issuer))?;
    let own = found.as_ref().is_none_or(|g| issuer.mark.marked(&g["tags"], MadeBy::OidcIssuer));
    let mut goal = wanted(issuer, own, me.as_ref())?;
    let (mut observed, mut absent, mut kept) = (azure::plan::Observed::new(), BTreeSet::new(), Vec::new());
    match found {
        Some(g) => drop(observed.insert(group.clone(), g)),
        None => drop(absent.insert(group.clone())),
    }
    if !own {
        kept.push(Kept { id: group, why: "an existing group of yours".to_owned() });
    }
    observed.extend(survey::rest(client, &goal, &absent).await?);
    let clash = survey::clashes(&issuer.mark, MadeBy::OidcIssuer, &goal, &observed);
    if !clash.is_empty() && !issuer.adopt {
        return Err(Error::Clash(clash));
    }
    if !observed.contains_key(&account) {
        absent.insert(account.clone());
    }
    survey::assignments(client, &mut goal, &mut observed, &absent, &mut kept).await?;
    let url = issuer.url(client)?;
    let may = goal.present.iter().all(|d| d.id.extended().is_none() || observed.contains_key(&d.id));
    let seen = match observed.contains_key(&container) && may {
        true => read(client, issuer, &account, tell).await?,
        // Nothing is published; or it cannot be read yet, and is looked at again before it is written.
        false => Default::default(),
    };
    let known = keys.known(&seen.1)?;
    // What cannot be seen yet is not refused yet.
    let decision = match observed.contains_key(&container) && !may {
        true => Decision::Keep,
        false => decide(&known, keys.rotation)?,
    };
    let mut survey = Survey::new(goal, observed, kept);
    survey.extras = extras(issuer, &url, decision, &known, &seen);
    Ok((survey, decision))
}

fn place(client: &Client, issuer: &Issuer) -> Result<Container, Error> {
    let blobs = client.blobs(issuer.name()).and_then(|b| b.container(issuer.name()));
    blobs.map_err(failed(format!("name the container {}", issuer.name())))
}

async fn read(
    client: &Client,
    issuer: &Issuer,
    account: &ResourceId,
    tell: Tell<'_>,
) -> Result<(Document, Document), Error> {
    let container = place(client, issuer)?;
    let one = |name: &'static str| {
        let container = container.clone();
        async move {
            let found = settled(client, account, tell, async || document(&container, name).await).await;
            found.map_err(failed(format!("read blob {}/{name}", issuer.name())))
        }
    };
    futures::try_join!(one(DISCOVERY), one(KEYS))
}

/// Makes the account, and publishes what should be.
pub async fn create(
    client: &Client,
    issuer: &Issuer,
    keys: &Keys,
    options: Options,
    watch: Watch<'_>,
) -> Result<(Outcome, Option<Published>), Error> {
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let look = async || look(client, issuer, keys, &tell).await;
    let (outcome, _) = converge(client, look, options, watch).await?;
    if !outcome.is_good() {
        return Ok((outcome, None));
    }
    for round in 1.. {
        match publish(client, issuer, keys, watch).await {
            Err(Error::Data { source, .. }) if overtaken(&source) && round < ROUNDS => {}
            other => return other.map(|p| (outcome, Some(p))),
        }
    }
    Ok((outcome, None))
}

async fn publish(
    client: &Client,
    issuer: &Issuer,
    keys: &Keys,
    watch: Watch<'_>,
) -> Result<Published, Error> {
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let account = issuer.account()?;
    let (discovery, jwks) = read(client, issuer, &account, &tell).await?;
    let decision = decide(&keys.known(&jwks)?, keys.rotation)?;
    let current = match (decision, keys.dir.current()?) {
        (_, Some(key)) => key,
        (_, None) => {
            let key = keys.new_key()?;
            keys.dir.write_first(&key)?;
            key
        }
    };
    let next = match (decision, keys.dir.next()?) {
        (Decision::Rotate, None) => {
            let key = keys.new_key()?;
            keys.dir.write_next(&key)?;
            Some(key)
        }
        (Decision::Rotate, next) => next,
        _ => None,
    };
    let signs = next.as_ref().unwrap_or(&current);
    let ours: Vec<&SigningKey> = next.iter().chain([&current]).collect();
    let url = issuer.url(client)?;
    let container = place(client, issuer)?;
    let wanted = [
        (DISCOVERY, discovery, documents::discovery(&url)),
        (KEYS, jwks.clone(), documents::published(jwks.value.as_ref(), &ours, decision == Decision::Retire)),
    ];
    let mut all = Vec::new();
    for (name, was, body) in wanted {
        let act = Act::of(was.value.is_some(), was.value.as_ref() == Some(&body));
        if act != Act::Keep {
            let text = format!("{body:#}\n");
            let how = PutOptions::of_type("application/json").on(was.on);
            let put = async || container.put(name, text.clone(), &how).await;
            let written = settled(client, &account, &tell, put).await;
            written.map_err(failed(format!("write blob {}/{name}", issuer.name())))?;
            watch(Progress::Extra(&Extra::new(act, format!("blob {}/{name}", issuer.name()))));
        }
        all.push(body);
    }
    keys.dir.describe(signs, &url)?;
    if next.is_some() {
        keys.dir.promote(&current)?;
        watch(Progress::Extra(&Extra::new(Act::Change, format!("key {}", signs.kid()))));
    }
    let kids = all.last().map(kids).unwrap_or_default();
    Ok(Published { url, kid: signs.kid(), kids, decision })
}
