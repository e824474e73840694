use super::*;
use jiff::SignedDuration;
use proptest::prelude::*;

fn key(k: &str) -> Arc<str> {
    Arc::from(k)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn queue() -> Queue {
    Queue::new(Backoff::default())
}

#[test]
fn a_key_waits_once_and_never_runs_twice_at_a_time() {
    let mut q = queue();
    assert!(q.add(&key("a")));
    assert!(!q.add(&key("a")));
    let a = q.take(at(0)).unwrap();
    assert_eq!(q.take(at(0)), None);
    q.add(&a);
    assert_eq!(q.take(at(0)), None, "it runs already");
    q.finish(&a, End::After(Duration::from_secs(10)), at(0));
    assert_eq!(q.take(at(0)), Some(a.clone()), "what happened meanwhile comes first");
    q.finish(&a, End::Done, at(0));
    assert!(q.states.is_empty() && q.delayed.is_empty());
}

#[test]
fn time_wakes_and_a_change_comes_before_it() {
    let mut q = queue();
    q.add(&key("a"));
    let a = q.take(at(0)).unwrap();
    q.finish(&a, End::After(Duration::from_secs(10)), at(0));
    assert_eq!((q.take(at(9)), q.next_due()), (None, Some(at(10))));
    q.add(&a);
    let a = q.take(at(5)).unwrap();
    q.finish(&a, End::Done, at(5));
    assert_eq!((q.take(at(20)), q.next_due()), (None, None), "the older wish is void");
}

#[test]
fn failures_wait_longer_each_time_and_success_forgets_them() {
    let mut q = queue();
    q.add(&key("a"));
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        let a = q.take(now).unwrap();
        q.finish(&a, End::Failed, now);
        let due = q.next_due().unwrap();
        waits.push(due.duration_since(now).as_secs_f64());
        now = due;
    }
    for (wait, limit) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]) {
        assert!(*wait <= limit && *wait >= limit * 0.9, "{waits:?}");
    }
    let a = q.take(now).unwrap();
    q.finish(&a, End::After(Duration::from_secs(60)), now);
    assert_eq!(q.look("a").0, 0);
}

#[test]
fn who_keeps_failing_is_not_hurried() {
    let mut q = queue();
    let mut now = at(0);
    q.add(&key("a"));
    for n in 1..=4 {
        let a = q.take(now).unwrap();
        // It wakes itself by what it writes, each time.
        q.add(&a);
        q.finish(&a, End::Failed, now);
        if n < 3 {
            assert!(q.has_due(now), "news may be the cure, at first");
        } else {
            assert!(!q.has_due(now) && !q.add(&a));
            now = q.next_due().unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    Take,
    Finish(u8, u8),
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..6).prop_map(Op::Add),
        4 => Just(Op::Take),
        4 => (0u8..6, 0u8..3).prop_map(|(k, e)| Op::Finish(k, e)),
        2 => (0u8..15).prop_map(Op::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever happens: no wish is lost, no key runs twice at a time, and nothing is kept beyond the keys in use.
    #[test]
    fn no_wish_is_lost(ops in prop::collection::vec(op(), 0..200)) {
        let mut q = queue();
        let mut now = at(0);
        let mut running: Vec<Arc<str>> = Vec::new();
        // Keys that must run some time after now: asked for since their last start, or promised a later run.
        let mut owed: BTreeSet<Arc<str>> = BTreeSet::new();
        for op in ops {
            match op {
                Op::Add(k) => {
                    let k = key(&k.to_string());
                    q.add(&k);
                    owed.insert(k);
                }
                Op::Take => if let Some(k) = q.take(now) {
                    prop_assert!(!running.contains(&k), "{k} runs twice");
                    prop_assert!(owed.remove(&k), "{k} runs though nobody asked");
                    running.push(k);
                },
                Op::Finish(i, end) => if !running.is_empty() {
                    let k = running.remove(usize::from(i) % running.len());
                    let end = [End::Done, End::After(Duration::from_secs(5)), End::Failed][usize::from(end)];
                    q.finish(&k, end, now);
                    if end != End::Done {
                        owed.insert(k);
                    }
                },
                Op::Pass(s) => now += SignedDuration::from_secs(i64::from(s)),
            }
            prop_assert!(q.states.len() <= 6 && q.ready.len() + q.delayed.len() <= 6);
        }
        for k in running.drain(..) {
            q.finish(&k, End::Done, now);
        }
        now += SignedDuration::from_secs(11);
        while let Some(k) = q.take(now) {
            prop_assert!(owed.remove(&k), "{k} runs though nobody asked");
            q.finish(&k, End::Done, now);
        }
        prop_assert!(owed.is_empty(), "lost: {owed:?}");
        prop_assert!(q.states.is_empty() && q.delayed.is_empty());
    }
}
