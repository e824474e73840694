use super::*;
use proptest::prelude::*;

fn old(desired: u32, available: u32) -> Set {
    Set { current: false, desired, available, live: desired }
}

fn new(desired: u32, available: u32) -> Set {
    Set { current: true, desired, available, live: desired }
}

#[test]
fn a_surge_of_one_walks_machine_by_machine() {
    let wish = Wish::new(3, 1, 0, false);
    let walk = [
        ([old(3, 3), new(0, 0)], [3, 1]),
        ([old(3, 3), new(1, 0)], [3, 1]),
        ([old(3, 3), new(1, 1)], [2, 1]),
        ([Set { live: 3, ..old(2, 3) }, new(1, 1)], [2, 1]),
        ([old(2, 3), new(1, 1)], [2, 2]),
        ([old(2, 2), new(2, 2)], [1, 2]),
        ([old(1, 1), new(3, 3)], [0, 3]),
    ];
    for (sets, want) in walk {
        assert_eq!(sizes(&wish, &sets), want, "{sets:?}");
    }
}

#[test]
fn broken_old_machines_go_first_and_sizes_follow() {
    let wish = Wish::new(3, 1, 0, false);
    assert_eq!(sizes(&wish, &[old(3, 1), new(1, 0)]), [3, 1], "two work already less than should");
    assert_eq!(sizes(&wish, &[old(3, 2), new(1, 1)]), [2, 1], "the broken one costs nothing");
    assert_eq!(sizes(&Wish::new(3, 0, 1, false), &[old(3, 3), new(0, 0)]), [2, 0]);
    assert_eq!(sizes(&Wish::new(5, 1, 0, false), &[new(3, 3)]), [5]);
    assert_eq!(sizes(&Wish::new(0, 1, 0, false), &[old(2, 2), new(1, 1)]), [0, 0]);
    assert_eq!(Wish::new(2, 0, 0, false).max_unavailable, 1, "nothing could move otherwise");
}

#[test]
fn on_delete_replaces_what_somebody_deletes() {
    let wish = Wish::new(3, 1, 0, true);
    assert_eq!(sizes(&wish, &[old(3, 3), new(0, 0)]), [3, 0]);
    assert_eq!(sizes(&wish, &[Set { live: 2, ..old(3, 2) }, new(0, 0)]), [2, 1]);
    assert_eq!(sizes(&Wish::new(1, 1, 0, true), &[old(2, 2), new(1, 1)]), [1, 0]);
}

fn sets() -> impl Strategy<Value = Vec<Set>> {
    let one = |current| {
        (0_u32..12, 0_u32..14, 0_u32..14).prop_map(move |(desired, available, live)| Set {
            current,
            desired,
            available,
            live,
        })
    };
    (proptest::collection::vec(one(false), 0..4), one(true)).prop_map(|(mut old, new)| {
        old.push(new);
        old
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// From any state: never a further machine above the surge, never one that works given up below the least.
    #[test]
    fn every_step_keeps_both_promises(replicas in 0_u32..12, surge in 0_u32..5, missing in 0_u32..5, before in sets()) {
        let wish = Wish::new(replicas, surge, missing, false);
        let after = sizes(&wish, &before);
        let there = |sizes: &[u32]| before.iter().zip(sizes).map(|(s, n)| s.live.max(*n)).sum::<u32>();
        prop_assert!(there(&after) <= load(&before).max(replicas + surge));
        let working = |sizes: &[u32]| before.iter().zip(sizes).map(|(s, n)| s.available.min(*n)).sum::<u32>();
        let was = before.iter().map(Set::working).sum::<u32>();
        let least = replicas - wish.max_unavailable;
        prop_assert!(working(&after) >= was.min(least), "{was} worked, {} work now, {least} must", working(&after));
        for (s, n) in before.iter().zip(&after) {
            prop_assert!(s.current || *n <= s.desired, "an old set grew");
        }
    }

    /// Played to its end, with machines that come up late, break and heal, a rollout arrives, and keeps its promises on
    /// what is really there at every moment.
    #[test]
    fn a_rollout_arrives_whatever_the_order(
        replicas in 1_u32..9, surge in 0_u32..4, missing in 0_u32..4, start in 0_u32..9, chances in proptest::collection::vec(0_u8..4, 200)
    ) {
        let wish = Wish::new(replicas, surge, missing, false);
        let least = replicas - wish.max_unavailable;
        let mut sets = vec![old(start, start), new(0, 0)];
        let most = (replicas + surge).max(start);
        let mut chances = chances.into_iter();
        for _ in 0..400 {
            let chance = chances.next().unwrap_or(0);
            let worked: u32 = sets.iter().map(Set::working).sum();
            // Half of the time somebody acts on news that is a step old.
            let seen: Vec<Set> = if chance == 3 { sets.clone() } else { sets.iter().map(|s| Set { available: s.available.min(s.desired), ..*s }).collect() };
            let next = sizes(&wish, &seen);
            for (s, n) in sets.iter_mut().zip(next) {
                s.desired = n;
            }
            let works: u32 = sets.iter().map(Set::working).sum();
            prop_assert!(works >= worked.min(least), "{sets:?}");
            prop_assert!(total(&sets) <= most, "{sets:?}");
            for s in &mut sets {
                // The set controller takes away the broken ones first; one machine comes up at a time.
                s.available = s.available.min(s.desired);
                s.live = s.desired;
                if chance != 1 && s.available < s.desired {
                    s.available += 1;
                }
            }
        }
        prop_assert_eq!(sets.iter().map(|s| s.desired).collect::<Vec<_>>(), vec![0, replicas]);
    }

    #[test]
    fn on_delete_keeps_the_size(replicas in 0_u32..12, before in sets()) {
        let wish = Wish::new(replicas, 1, 0, true);
        let after = sizes(&wish, &before);
        prop_assert_eq!(total_of(&after), replicas);
        for (s, n) in before.iter().zip(&after) {
            prop_assert!(s.current || *n <= s.desired.min(s.live));
        }
    }
}

fn total_of(sizes: &[u32]) -> u32 {
    sizes.iter().sum()
}
