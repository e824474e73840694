use super::*;
use clock::{ManualClock, Random};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting {
    calls: Arc<AtomicUsize>,
    fail: Arc<std::sync::atomic::AtomicBool>,
    clock: Arc<ManualClock>,
}

impl TokenSource for Counting {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let n = self.calls.fetch_add(1, Ordering::SeqCst);
            if self.fail.load(Ordering::SeqCst) {
                return Err(CredentialError::Unavailable { what: "test", why: "told to".to_owned() });
            }
            let expires = clock::Clock::now(&*self.clock).checked_add(SignedDuration::from_hours(1)).unwrap();
            Ok(AccessToken { secret: Secret::new(format!("{}{n}", ask.scope)), expires, refresh: None })
        })
    }

    fn describe(&self) -> String {
        "counting".to_owned()
    }
}

struct Lab {
    credential: Credential,
    calls: Arc<AtomicUsize>,
    fail: Arc<std::sync::atomic::AtomicBool>,
    clock: Arc<ManualClock>,
}

fn lab() -> Lab {
    let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    let (calls, fail) = (Arc::default(), Arc::default());
    let source = Counting { calls: Arc::clone(&calls), fail: Arc::clone(&fail), clock: clock.clone() };
    let timing = Timing { clock: clock.clone(), random: Random::seeded(1), ..Timing::system() };
    Lab { credential: Credential::new(source, timing), calls, fail, clock }
}

#[tokio::test]
async fn many_callers_one_fetch_and_an_early_refresh() {
    let lab = lab();
    let ask = TokenRequest::new("a");
    let all = futures::future::join_all((0..20).map(|_| lab.credential.token(&ask))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(lab.calls.load(Ordering::SeqCst), 1);
    lab.clock.advance(SignedDuration::from_mins(54));
    lab.credential.token(&ask).await.unwrap();
    assert_eq!(lab.calls.load(Ordering::SeqCst), 1);
    lab.clock.advance(SignedDuration::from_mins(2));
    lab.credential.token(&ask).await.unwrap();
    assert_eq!(lab.calls.load(Ordering::SeqCst), 2, "four minutes before the end");
    lab.credential.token(&TokenRequest::new("b")).await.unwrap();
    assert_eq!(lab.calls.load(Ordering::SeqCst), 3, "scopes do not share");
}

#[tokio::test]
async fn a_failed_refresh_keeps_what_is_good_and_calms_down() {
    let lab = lab();
    let ask = TokenRequest::new("a");
    let first = lab.credential.token(&ask).await.unwrap();
    lab.fail.store(true, Ordering::SeqCst);
    lab.clock.advance(SignedDuration::from_mins(57));
    for _ in 0..5 {
        assert_eq!(lab.credential.token(&ask).await.unwrap().secret, first.secret);
    }
    assert_eq!(lab.calls.load(Ordering::SeqCst), 2, "one try, then calm");
    lab.clock.advance(SignedDuration::from_mins(4));
    assert!(lab.credential.token(&ask).await.is_err(), "expired");
}

#[tokio::test]
async fn refused_tokens_are_forgotten_once() {
    let lab = lab();
    let ask = TokenRequest::new("a");
    let first = lab.credential.token(&ask).await.unwrap();
    lab.credential.refused("a", &first).await;
    let second = lab.credential.token(&ask).await.unwrap();
    assert_ne!(first.secret, second.secret);
    lab.credential.refused("a", &first).await;
    assert_eq!(lab.credential.token(&ask).await.unwrap().secret, second.secret, "not the new one");
    let claims = TokenRequest { claims: Some("{}".into()), ..ask };
    assert_ne!(lab.credential.token(&claims).await.unwrap().secret, second.secret);
}
