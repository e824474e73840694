//! What a pool may have of what Azure has left.

use super::{Look, Pools, sooner};
use crate::nodepool::capacity::Known;
use crate::nodepool::machines::{self, Refs};
use crate::nodepool::room::{self, Ask, Room};
use crate::nodepool::{key, watched::Workload};
use crate::validate::Problem;
use apis::conditions::node_pool as c;
use apis::hypershift::NodePool;
use apis::hypershift::node_pool::ReplaceStrategy;

/// Whether replacing machines makes one more than there are.
fn surges(np: &NodePool, size: u32) -> bool {
    let steps = np.spec.management.replace.as_ref().and_then(|r| r.rolling_update.as_ref());
    let surge = steps.and_then(|s| s.max_surge.as_ref());
    surge.is_none_or(|s| s.of(size, true).is_none_or(|n| n > 0))
}

/// Whether machines are replaced by us once this is what they are to be.
fn rolls(np: &NodePool, live: Option<&Workload>, to: &Refs) -> bool {
    let strategy = np.spec.management.replace.as_ref().and_then(|r| r.strategy).unwrap_or_default();
    let other = |w: &Workload| {
        w.data_secret != to.data_secret || w.template != to.template || w.version != to.version
    };
    strategy == ReplaceStrategy::RollingUpdate
        && !machines::is_in_place(np)
        && live.is_some_and(|w| w.replicas > 0 && other(w))
}

impl Pools {
    /// Asks for what the pool lacks, and holds what cannot be had: growth, or a roll that has not begun.
    pub(super) async fn room(&self, look: &mut Look) {
        let (np, hc) = (&look.np, &look.hc);
        let (Some(azure), Some(at), Some(asks)) = (
            np.spec.platform.azure.as_ref(),
            hc.spec.shared.platform.azure.as_ref(),
            self.operator.around.preflight(),
        ) else {
            return;
        };
        let live = self.workload(np, &look.namespace).map(|(_, w)| w);
        // What cannot be made for other reasons is not asked for.
        if look.stopped || super::look::unmanaged(hc) || (live.is_none() && look.target.is_none()) {
            return;
        }
        let have = live.as_ref().map_or(0, |w| w.replicas);
        let wanted = machines::replicas(np, live.as_ref().map(|w| w.replicas));
        let most = np.spec.auto_scaling.as_ref().map_or(0, |b| u32::try_from(b.max).unwrap_or(0));
        let begun = |to: &Refs| self.rolling.lock().get(&key(np)) == Some(to);
        let rolls =
            look.target.as_ref().is_some_and(|t| rolls(np, live.as_deref(), &t.refs) && !begun(&t.refs));
        let (arch, location) = (np.spec.arch, at.location.as_str());
        let ask = Ask { azure, arch, location, have, wanted, most, rolls, surges: surges(np, wanted) };
        if !ask.needs() {
            return;
        }
        let now = self.operator.clock.now();
        let catalogue = self.operator.around.catalogue().unwrap_or_else(|| asks.clone());
        let (known, _) = self
            .operator
            .sizes
            .get(&*catalogue, &at.subscription_id, &at.location, &azure.vm_size, now)
            .await;
        let sold = match known {
            Known::Has(sold) => Some(sold.size),
            Known::Nothing => None,
            Known::Unknown(_) => return,
        };
        let room = self.rooms.ask(&*asks, &at.subscription_id, &key(np), &ask, sold.as_ref(), now).await;
        self.hold(look, room, have == 0 && live.is_none());
    }

    fn hold(&self, look: &mut Look, room: Room, new: bool) {
        if let Some(short) = &room.short {
            look.problems.push(Problem {
                condition: c::VALID_PLATFORM_CONFIG,
                reason: short.reason,
                message: short.message.clone(),
            });
        }
        if room.short.is_some() || room.most.is_some() {
            look.again = sooner(look.again, Some(room::AGAIN));
        }
        // A pool without a machine to be has nothing to boot from either: what is not used expires.
        if room.holds || (new && room.grant == Some(0) && room.short.is_some()) {
            look.target = None;
        }
        look.room = room;
    }
}
