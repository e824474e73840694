//! Only one leads, and when it goes the next one comes.

use crate::world::*;
use ek_server::Config;
use jiff::SignedDuration;
use reconcile::{Elector, Kind, Led, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const LEASES: Kind = Kind::of::<k8s_openapi::api::coordination::v1::Lease>();

fn elector(w: &World, who: &str) -> Elector {
    Elector::new(&w.client, "default", "it", who, clock::system())
}

async fn holder(w: &World) -> String {
    let lease = w.get(&LEASES.at("default", "it")).await;
    lease.and_then(|l| Some(l.data["spec"]["holderIdentity"].as_str()?.to_owned())).unwrap_or_default()
}

#[tokio::test]
async fn a_release_hands_over_at_once() {
    let w = World::new().await;
    let never = CancellationToken::new();
    let (end, ended) = oneshot::channel::<()>();
    let one = elector(&w, "one");
    let n = never.clone();
    let first = tokio::spawn(async move { one.lead(&n, |_| ended).await });
    eventually("one leads", async || holder(&w).await == "one").await;
    let (two, n) = (elector(&w, "two"), never.clone());
    let second =
        tokio::spawn(async move { two.lead(&n, |stop| async move { stop.cancelled().await }).await });
    // It waits by a watch, which is there by now or soon; the lease lasts a minute, the test half of one.
    eventually("two waits", async || w.road.watches() >= 1).await;
    assert_eq!(holder(&w).await, "one");
    end.send(()).unwrap();
    assert_eq!(within(first).await.unwrap(), Led::Finished(Ok(())));
    eventually("two leads", async || holder(&w).await == "two").await;
    let lease = w.get(&LEASES.at("default", "it")).await.unwrap();
    assert_eq!(lease.data["spec"]["leaseTransitions"], 1, "it changed hands once");
    assert_eq!(lease.data["spec"]["leaseDurationSeconds"], 60);
    never.cancel();
    assert_eq!(within(second).await.unwrap(), Led::Finished(()));
    assert_eq!(holder(&w).await, "", "clean release on stop");
}

#[tokio::test]
async fn stopped_while_waiting_is_never() {
    let w = World::new().await;
    let (stop, stop_two) = (CancellationToken::new(), CancellationToken::new());
    let (one, s) = (elector(&w, "one"), stop.clone());
    let first = tokio::spawn(async move { one.lead(&s, |stop| async move { stop.cancelled().await }).await });
    eventually("one leads", async || holder(&w).await == "one").await;
    let (two, s) = (elector(&w, "two"), stop_two.clone());
    let second = tokio::spawn(async move { two.lead(&s, |_| async {}).await });
    eventually("two waits", async || w.road.watches() >= 1).await;
    stop_two.cancel();
    assert_eq!(within(second).await.unwrap(), Led::Never);
    assert_eq!(holder(&w).await, "one");
    stop.cancel();
    within(first).await.unwrap();
}

/// Wall-clock time that passes with tokio's.
struct TokioTime(tokio::time::Instant);

impl clock::Clock for TokioTime {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// One leader loses its way to the server; the other, whose way is open, takes over when the lease runs out, and not
/// before the first has stopped.
#[tokio::test(start_paused = true)]
async fn who_cannot_renew_stops_before_the_next_begins() {
    let start = tokio::time::Instant::now();
    let clock: clock::SharedClock = Arc::new(TokioTime(start));
    let w = World::with(Config { clock: clock.clone(), ..Config::memory() }).await;
    let never = CancellationToken::new();
    let leading = Arc::new(AtomicUsize::new(0));
    let work = move |leading: Arc<AtomicUsize>| {
        move |stop: CancellationToken| async move {
            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
            stop.cancelled().await;
            leading.fetch_sub(1, Ordering::SeqCst);
            start.elapsed().as_secs()
        }
    };
    let timing = Timing::default();
    let one = Elector::new(&w.client, "default", "it", "one", clock.clone()).timing(timing);
    let two = Elector::new(&w.others, "default", "it", "two", clock.clone()).timing(timing);
    let (n, l) = (never.clone(), leading.clone());
    let first = tokio::spawn(async move { one.lead(&n, work(l)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(holder(&w).await, "one");
    let (n, l) = (never.clone(), leading.clone());
    let second = tokio::spawn(async move { two.lead(&n, work(l)).await });
    // It renews for a long time, and nobody takes over.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(holder(&w).await, "one");
    let closed_at = start.elapsed().as_secs();
    w.road.closed.store(true, Ordering::SeqCst);
    let Led::Lost(Some(stopped_at)) = first.await.unwrap() else { panic!("it did not notice") };
    assert!(stopped_at - closed_at <= timing.deadline.as_secs(), "{closed_at} {stopped_at}");
    assert_eq!(holder(&w).await, "one", "in name");
    tokio::time::sleep(timing.duration).await;
    assert_eq!(holder(&w).await, "two");
    assert_eq!(leading.load(Ordering::SeqCst), 1);
    never.cancel();
    second.await.unwrap();
    assert_eq!(holder(&w).await, "");
}

#[tokio::test]
async fn of_many_who_come_at_once_one_leads() {
    let w = World::new().await;
    let stop = CancellationToken::new();
    let (leading, led) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut all = tokio::task::JoinSet::new();
    for i in 0..5 {
        let (e, stop, leading, led) =
            (elector(&w, &format!("e{i}")), stop.clone(), leading.clone(), led.clone());
        all.spawn(async move {
            e.lead(&stop, |_| async {
                assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
                tokio::time::sleep(Duration::from_millis(20)).await;
                leading.fetch_sub(1, Ordering::SeqCst);
                led.fetch_add(1, Ordering::SeqCst);
            })
            .await
        });
    }
    let results = within(all.join_all()).await;
    assert!(results.iter().all(|r| *r == Led::Finished(())), "each has its turn");
    assert_eq!(led.load(Ordering::SeqCst), 5);
}
