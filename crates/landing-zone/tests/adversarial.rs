//! Unfair treatment: every call fails once, the process dies after every call, two run at once.

use crate::support::{World, quiet, world};
use azure::credential::{AccessToken, Confidential, Entra, Proof, TokenRequest, TokenSource};
use azure::{Client, Credential, CredentialError, Secret};
use futures::future::BoxFuture;
use landing_zone::iam::Iam;
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::run::{Options, create_iam, create_infra};
use landing_zone::{MadeBy, destroy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A credential whose tokens are never kept, so that it is asked before every call; one of these it refuses.
struct Flaky {
    inner: Confidential,
    timing: azure::Timing,
    calls: Arc<AtomicUsize>,
    fails: usize,
}

impl TokenSource for Flaky {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(async move {
            if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.fails {
                return Err(CredentialError::Configuration("this call was meant to fail".to_owned()));
            }
            let token = self.inner.token(ask).await?;
            Ok(AccessToken { expires: self.timing.clock.now(), ..token })
        })
    }

    fn describe(&self) -> String {
        "flaky".to_owned()
    }
}

/// A client whose `fails`th call fails, and the number of calls that were made with it.
fn flaky(w: &World, fails: usize) -> (Client, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (http, cloud, timing) = w.parts();
    let entra = Entra { http, login: cloud.login, timing: timing.clone() };
    let creds = w.sim.creds();
    let proof = Proof::Secret(Secret::new(creds.secret()));
    let inner = Confidential::new(entra, &creds.tenant_id, &creds.client_id, proof);
    let source = Flaky { inner, timing: timing.clone(), calls: calls.clone(), fails };
    (w.client_of(Credential::new(source, timing)), calls)
}

async fn inputs(w: &World) -> (Iam, Infra) {
    let iam = w.iam("demo");
    let ids = w.make_iam(&iam).await;
    let infra = w.infra("demo", Identities::Workload(ids));
    (iam, infra)
}

/// What an undisturbed run leaves.
async fn undisturbed() -> Vec<String> {
    let w = world().await;
    let (_, infra) = inputs(&w).await;
    w.make_infra(&infra).await;
    w.left()
}

#[tokio::test]
async fn whichever_call_fails_the_next_run_completes_it() {
    let want = undisturbed().await;
    let mut fails = 1;
    loop {
        let w = world().await;
        let (_, infra) = inputs(&w).await;
        let (client, calls) = flaky(&w, fails);
        let broken = create_infra(&client, &infra, Options { parallel: 4 }, &quiet).await;
        if calls.load(Ordering::SeqCst) < fails {
            assert!(broken.unwrap().0.is_good());
            break;
        }
        assert!(!broken.is_ok_and(|(o, _)| o.is_good()), "call {fails} failed and nobody noticed");
        w.make_infra(&infra).await;
        assert_eq!(w.left(), want, "after call {fails} failed");
        fails += 3;
    }
    assert!(fails > 40, "only {fails} calls were made");
}

#[tokio::test]
async fn whichever_delete_fails_the_next_run_completes_it() {
    let mut fails = 1;
    loop {
        let w = world().await;
        let (_, infra) = inputs(&w).await;
        w.make_infra(&infra).await;
        for by in [MadeBy::Infra, MadeBy::Iam] {
            let (client, _) = flaky(&w, fails);
            let _ = destroy::destroy(&client, &w.destroy("demo", by), Options { parallel: 4 }, &quiet).await;
        }
        w.remove(&w.destroy("demo", MadeBy::Infra)).await;
        w.remove(&w.destroy("demo", MadeBy::Iam)).await;
        assert_eq!(w.left(), Vec::<String>::new(), "after call {fails} failed");
        fails += 1;
        if fails > 24 {
            break;
        }
    }
}

/// Runs until Resource Manager has answered `n` more calls; says whether it was stopped by that.
async fn dies_after(w: &World, n: u64, run: impl Future<Output = ()>) -> bool {
    let mut news = w.sim.world().journal_news();
    let last = *news.borrow_and_update() + n;
    tokio::select! {
        biased;
        () = async { while *news.borrow_and_update() < last { if news.changed().await.is_err() { break } } } => true,
        () = run => false,
    }
}

#[tokio::test]
async fn it_may_die_after_any_call() {
    let want = undisturbed().await;
    let mut n = 1;
    loop {
        let w = world().await;
        let (iam, infra) = inputs(&w).await;
        let died = dies_after(&w, n, async {
            create_infra(&w.client, &infra, Options { parallel: 4 }, &quiet).await.unwrap();
        })
        .await;
        w.make_infra(&infra).await;
        assert_eq!(w.left(), want, "died after {n} calls");
        let gone = dies_after(&w, n, async {
            destroy::destroy(&w.client, &w.destroy("demo", MadeBy::Infra), Options { parallel: 4 }, &quiet)
                .await
                .unwrap();
        })
        .await;
        w.remove(&w.destroy("demo", MadeBy::Infra)).await;
        let half = dies_after(&w, n, async {
            destroy::destroy(&w.client, &w.destroy("demo", MadeBy::Iam), Options { parallel: 4 }, &quiet)
                .await
                .unwrap();
        })
        .await;
        w.remove(&w.destroy("demo", MadeBy::Iam)).await;
        assert_eq!(w.left(), Vec::<String>::new(), "died after {n} calls");
        if died {
            n += if n < 12 { 1 } else { 4 };
            continue;
        }
        // Whoever begins again begins with nothing.
        assert!(!gone && !half);
        w.make_iam(&iam).await;
        break;
    }
    assert!(n > 40, "only {n} calls were made");
}

#[tokio::test]
async fn identities_survive_it_too() {
    let mut n = 1;
    let whole = {
        let w = world().await;
        w.make_iam(&w.iam("demo")).await;
        w.left()
    };
    loop {
        let w = world().await;
        let iam = w.iam("demo");
        let died = dies_after(&w, n, async {
            create_iam(&w.client, &iam, Options { parallel: 3 }, &quiet).await.unwrap();
        })
        .await;
        w.make_iam(&iam).await;
        assert_eq!(w.left(), whole, "died after {n} calls");
        if !died {
            break;
        }
        n += 3;
    }
    assert!(n > 20, "only {n} calls were made");
}

#[tokio::test]
async fn two_clusters_at_once() {
    let w = world().await;
    let one = async {
        let ids = w.make_iam(&w.iam("one")).await;
        w.make_infra(&w.infra("one", Identities::Workload(ids))).await;
    };
    let two = async {
        let ids = w.make_iam(&w.iam("two")).await;
        w.make_infra(&w.infra("two", Identities::Workload(ids))).await;
    };
    futures::join!(one, two);
    let both = w.left();
    let (a, b): (Vec<_>, Vec<_>) = both.iter().partition(|id| id.contains("one-"));
    assert!(a.len() > 30 && b.len() > 30, "{both:?}");
    // Taking one away leaves the other whole.
    w.remove(&w.destroy("one", MadeBy::Infra)).await;
    w.remove(&w.destroy("one", MadeBy::Iam)).await;
    let ids = w.make_iam(&w.iam("two")).await;
    assert!(w.make_infra(&w.infra("two", Identities::Workload(ids))).await.0.plan.is_empty());
    futures::join!(async { w.remove(&w.destroy("two", MadeBy::Infra)).await }, async {
        w.remove(&w.destroy("two", MadeBy::Iam)).await
    },);
    assert_eq!(w.left(), Vec::<String>::new());
}

#[tokio::test]
async fn the_same_cluster_twice_at_once() {
    let want = undisturbed().await;
    let w = world().await;
    let iam = w.iam("demo");
    let (a, b) = futures::join!(w.make_iam(&iam), w.make_iam(&iam));
    assert_eq!(a, b);
    let infra = w.infra("demo", Identities::Workload(a));
    let (_, _) = futures::join!(w.make_infra(&infra), w.make_infra(&infra));
    assert_eq!(w.left(), want);
    let d = w.destroy("demo", MadeBy::Infra);
    let (_, _) = futures::join!(w.remove(&d), w.remove(&d));
    let d = w.destroy("demo", MadeBy::Iam);
    let (_, _) = futures::join!(w.remove(&d), w.remove(&d));
    assert_eq!(w.left(), Vec::<String>::new());
}
