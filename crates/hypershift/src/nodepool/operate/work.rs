//! Making everything as it should be.

use super::{Boot, Look, Pools, sooner};
use crate::kinds;
use crate::nodepool::machines::{self, Fleet, Refs};
use crate::nodepool::secrets::{self, Chore};
use crate::nodepool::tuning::What;
use crate::nodepool::watched::{Hidden, Workload};
use crate::nodepool::{key, name};
use apis::names::annotation;
use jiff::SignedDuration;
use reconcile::{Applied, Failure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a watch is to tell of is looked at again after this long, for it may have told already.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// The token that the stub shows: the one that was just drawn, or the one that is there. One that is there and not seen
/// was made a moment ago, or deleted a moment ago by somebody whose news reached one watch and not the other.
fn shown(seen: Option<Hidden>, made: Applied, drawn: String) -> Result<Hidden, SignedDuration> {
    match made {
        Applied::Created => Ok(drawn.into()),
        _ => seen.ok_or(SOON),
    }
}

impl Pools {
    /// Says when to look again.
    pub(super) async fn work(&self, look: &Look) -> Result<Option<SignedDuration>, Failure> {
        let np = &look.np;
        if super::look::unmanaged(&look.hc) {
            return Ok(None);
        }
        self.freshen(look).await?;
        if look.stopped {
            return Ok(None);
        }
        self.tune(look).await?;
        let live = self.workload(np, &look.namespace).map(|(_, w)| w);
        if live.as_ref().is_some_and(|w| w.deleting) {
            return Ok(None);
        }
        let (refs, hash) = match (&look.target, &look.boot) {
            (Some(target), Some(boot)) => {
                if let Err(again) = self.boot(look, boot).await? {
                    return Ok(Some(again));
                }
                (target.refs.clone(), target.rollout.hash.clone())
            }
            // What machines have is kept: they can be more or fewer, and labelled, but not others.
            _ => match &live {
                Some(w) => {
                    let hash = secrets::hash_of(name(np), &w.data_secret).unwrap_or_default().to_owned();
                    (w.refs(), hash)
                }
                None => return Ok(None),
            },
        };
        let has = match (&np.spec.auto_scaling, &live) {
            (Some(_), Some(_)) => self.present(look).await?,
            _ => live.as_ref().map(|w| w.replicas),
        };
        let size = machines::replicas(np, has);
        let size = look.room.grant.map_or(size, |most| size.min(most));
        let fleet = Fleet { size, most: look.room.most, has: &look.has };
        match machines::is_in_place(np) {
            true => {
                self.apply(machines::set(&look.hc, np, &fleet, &refs, &hash)).await?;
                self.say_current(look, live.as_deref(), &hash).await?;
            }
            false => {
                self.apply(machines::deployment(&look.hc, np, &fleet, &refs)).await?;
                self.rolling.lock().insert(key(np), refs.clone());
            }
        }
        self.pause_machines(np, &look.namespace, false).await?;
        self.check(look).await?;
        self.tidy(look, &refs, &hash).await
    }

    /// How many machines an autoscaler has asked for. The API is asked: what was last heard may be older than the
    /// autoscaler's word, and would be applied over it.
    async fn present(&self, look: &Look) -> Result<Option<u32>, Failure> {
        let kind = match machines::is_in_place(&look.np) {
            true => kinds::MACHINE_SET,
            false => kinds::MACHINE_DEPLOYMENT,
        };
        let api = kind.api(self.operator.applier.client(), &look.namespace);
        let there = api.get_opt(name(&look.np)).await?;
        Ok(there.and_then(|o| u32::try_from(o.data["spec"]["replicas"].as_u64()?).ok()))
    }

    async fn apply(&self, object: Value) -> Result<(), Failure> {
        let applier = &self.operator.applier;
        applier.apply(&applier.desired(object)?).await?;
        Ok(())
    }

    /// Says of a new set that its machines are what it was made with; later only the guest's upgrader says what they are.
    /// Not applied: then it would be ours for ever. Not created with it: then everything else would be nobody's to remove.
    async fn say_current(&self, look: &Look, live: Option<&Workload>, hash: &str) -> Result<(), Failure> {
        if live.is_some_and(|w| !w.current.is_empty()) {
            return Ok(());
        }
        let api = kinds::MACHINE_SET.api(self.operator.applier.client(), &look.namespace);
        let Some(there) = api.get_opt(name(&look.np)).await? else { return Ok(()) };
        let key = annotation::NODE_POOL_CURRENT_CONFIG_VERSION;
        if there.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(key)) {
            return Ok(());
        }
        // One of us may have ended after it made the set, and another be told something else since.
        let made = live.and_then(|w| secrets::hash_of(name(&look.np), &w.data_secret)).unwrap_or(hash);
        self.patch(&kinds::MACHINE_SET, &there, json!({"metadata": {"annotations": {key: made}}})).await?;
        Ok(())
    }

    /// What the node tuning operator is given. While users' tuning cannot be read, it keeps what it has.
    async fn tune(&self, look: &Look) -> Result<(), Failure> {
        let space = self.operator.views.spaces.get("", &look.namespace);
        let Some(wanted) = look.tuning.as_ref().filter(|_| space.is_some_and(|s| s.deleting.is_none()))
        else {
            return Ok(());
        };
        for object in wanted {
            self.apply(object.clone()).await?;
        }
        for old in self.tunings(&look.np, &look.namespace).iter().filter(|t| t.what == What::Asked) {
            if !wanted.iter().any(|o| o["metadata"]["name"] == old.name.as_str()) {
                self.operator.applier.delete(&kinds::CONFIG_MAP.at(&look.namespace, &old.name)).await?;
            }
        }
        Ok(())
    }

    /// Token, stub and template. Says when to look again if machines cannot name them yet.
    async fn boot(&self, look: &Look, boot: &Boot) -> Result<Result<(), SignedDuration>, Failure> {
        let (np, applier) = (&look.np, &self.operator.applier);
        let (Some(target), [token, template]) = (&look.target, look.objects.as_slice()) else {
            return Ok(Err(SOON));
        };
        let at = kinds::SECRET.at(&look.namespace, secrets::token_name(name(np), &target.rollout.hash));
        let seen = self.views().tokens.get(&look.namespace, &at.name).and_then(|t| t.token.clone());
        let drawn = self.operator.random.uuid();
        let made = applier
            .create_once(&at, || {
                applier.desired(secrets::drawn(token.clone(), &drawn, self.operator.clock.now()))
            })
            .await?;
        let shown = match shown(seen, made, drawn) {
            Ok(shown) => shown,
            Err(again) => return Ok(Err(again)),
        };
        self.apply(token.clone()).await?;
        self.stub(look, boot, &shown, &target.rollout.hash).await?;
        self.apply(template.clone()).await?;
        Ok(Ok(()))
    }

    async fn stub(&self, look: &Look, boot: &Boot, token: &Hidden, hash: &str) -> Result<(), Failure> {
        let boot = secrets::Boot { endpoint: &boot.endpoint, ca: &boot.ca, token: token.expose(), hash };
        self.apply(secrets::user_data(&look.hc, &look.np, &boot)).await
    }

    /// Stubs that machines may still be made from, besides the one of the target. The ignition server draws tokens anew
    /// and authorities are renewed whether a pool is held or not: a held pool still grows and is still repaired, and so
    /// does the old part of one that rolls.
    async fn freshen(&self, look: &Look) -> Result<(), Failure> {
        let Some(boot) = &look.boot else { return Ok(()) };
        let target = look.target.as_ref().map(|t| t.rollout.hash.as_str());
        let space = self.operator.views.spaces.get("", &look.namespace);
        let stays = space.is_some_and(|s| s.deleting.is_none());
        for hash in self.in_use(look).iter().filter(|h| stays && target != Some(h.as_str())) {
            let at = secrets::token_name(name(&look.np), hash);
            if let Some(token) = self.views().tokens.get(&look.namespace, &at).and_then(|t| t.token.clone()) {
                self.stub(look, boot, &token, hash).await?;
            }
        }
        Ok(())
    }

    /// What machines can come of: the pool's own deployment or set, and those of its sets that have or want any.
    fn sources(&self, look: &Look) -> Vec<Arc<Workload>> {
        let (views, pool, namespace) = (self.views(), key(&look.np), look.namespace.as_str());
        let sets = views.sets.within(namespace).into_iter().filter(|s| s.replicas > 0 || s.total > 0);
        sets.chain(views.deployments.within(namespace)).filter(|w| w.pool == pool).collect()
    }

    fn in_use(&self, look: &Look) -> BTreeSet<String> {
        let pool = name(&look.np);
        let sources = self.sources(look);
        sources.iter().filter_map(|w| secrets::hash_of(pool, &w.data_secret).map(str::to_owned)).collect()
    }

    /// Broken machines are looked for once one has come up: before, nobody knows whether it is the machines.
    async fn check(&self, look: &Look) -> Result<(), Failure> {
        let np = &look.np;
        let there =
            self.views().checks.get(&look.namespace, name(np)).filter(|c| c.pool == key(np)).is_some();
        if !np.spec.management.auto_repair {
            if there {
                self.operator.applier.delete(&kinds::MACHINE_CHECK.at(&look.namespace, name(np))).await?;
            }
            return Ok(());
        }
        let reached = self.tokens(np, &look.namespace).iter().any(|t| t.reached);
        if there || reached {
            self.apply(machines::check(&look.hc, np)).await?;
        }
        Ok(())
    }

    /// Old Secrets and templates, once no machine can come of them.
    async fn tidy(&self, look: &Look, refs: &Refs, hash: &str) -> Result<Option<SignedDuration>, Failure> {
        let (np, namespace) = (&look.np, look.namespace.as_str());
        let pool = key(np);
        let mut hashes = self.in_use(look);
        hashes.insert(hash.to_owned());
        hashes.extend(look.target.as_ref().map(|t| t.rollout.hash.clone()));
        let mut templates: BTreeSet<String> = self.sources(look).iter().map(|w| w.template.clone()).collect();
        templates.insert(refs.template.clone());
        let (chores, next) =
            secrets::janitor(name(np), &self.tokens(np, namespace), &hashes, self.operator.clock.now());
        let mut again = next;
        for chore in chores {
            match chore {
                Chore::Delete(secret) => {
                    self.operator.applier.delete(&kinds::SECRET.at(namespace, &secret)).await?;
                }
                Chore::Keep(secret) => {
                    let patch =
                        json!({"metadata": {"annotations": {annotation::IGNITION_TOKEN_EXPIRATION: null}}});
                    self.send(&kinds::SECRET, namespace, &secret, &patch).await?;
                }
                Chore::Expire(secret, end) => {
                    let patch = json!({"metadata": {"annotations": {annotation::IGNITION_TOKEN_EXPIRATION: secrets::stamp(end)}}});
                    self.send(&kinds::SECRET, namespace, &secret, &patch).await?;
                    again = sooner(again, Some(secrets::AFTERLIFE));
                }
            }
        }
        for t in self.views().templates.within(namespace).into_iter().filter(|t| t.pool == pool) {
            if !templates.contains(&t.name) {
                self.operator.applier.delete(&kinds::AZURE_TEMPLATE.at(namespace, &t.name)).await?;
            }
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_nobody_sees_is_looked_for_again() {
        let (old, new) = (|| Hidden::from("old".to_owned()), || "new".to_owned());
        assert_eq!(shown(None, Applied::Created, new()), Ok("new".to_owned().into()));
        assert_eq!(shown(Some(old()), Applied::Created, new()), Ok("new".to_owned().into()));
        assert_eq!(shown(Some(old()), Applied::Skipped, new()), Ok(old()));
        for made in [Applied::Skipped, Applied::Kept] {
            assert_eq!(shown(None, made, new()), Err(SOON), "no watch need tell of it any more");
        }
    }
}
