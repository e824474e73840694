//! A role that was just given reaches vaults and storage late: what they refuse is repeated, seen, and not for ever.

use crate::managed::{good, managed};
use crate::oidc::{issuer, keys};
use crate::support::{ACCESS, CONTRIBUTOR, OWNED_BY, World, options, world};
use arm::ResourceId;
use azure::{Client, ClientOptions, Pause, Timing};
use futures::future::BoxFuture;
use landing_zone::issuer::Rotation;
use landing_zone::run::{Options, Progress};
use landing_zone::{Error, issuer as issuers, managed as identities};

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nobody waits; what was asked for is said by the commands themselves.
struct Hasty;

impl Pause for Hasty {
    fn pause(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

fn hasty(w: &World) -> Client {
    let timing = Timing { pause: Arc::new(Hasty), ..Timing::system() };
    let options = ClientOptions { timing, poll_default: Duration::from_secs(2), ..options() };
    w.principal_with("hasty", &[CONTRIBUTOR, ACCESS], &[OWNED_BY], options)
}

/// Refuses as vault and storage do it; `times` is empty for ever.
fn refuse(w: &World, times: &str) {
    let text = format!(
        r#"[{{"name": "young-vault", "match": {{"host": "vault"{times}}},
              "then": {{"answer": {{"status": 403, "code": "Forbidden", "message": "Caller is not authorized to perform action on resource.",
                "body": {{"error": {{"code": "Forbidden", "message": "Caller is not authorized to perform action on resource.",
                  "innererror": {{"code": "ForbiddenByRbac"}}}}}}}}}}}},
            {{"name": "young-blob", "match": {{"host": "blob"{times}}},
              "then": {{"answer": {{"status": 403, "code": "AuthorizationPermissionMismatch", "message": "This request is not authorized to perform this operation using this permission."}}}}}}]"#
    );
    w.sim.world().add_faults(azure_sim::read_faults(text.as_bytes()).unwrap()).unwrap();
}

/// What a command said it waits for.
#[derive(Default)]
struct Waits(Mutex<Vec<(ResourceId, String, Duration)>>);

impl Waits {
    fn note(&self, p: Progress<'_>) {
        if let Progress::Waiting { id, why, pause } = p {
            self.0.lock().unwrap().push((id.clone(), why.to_owned(), pause));
        }
    }

    /// All of them at one place for the one reason; how many, and how long altogether.
    fn only(&self, at: &ResourceId) -> (usize, Duration) {
        let all = self.0.lock().unwrap();
        for (id, why, _) in all.iter() {
            assert_eq!((id, why.as_str()), (at, "the role that was just given has not reached it yet"));
        }
        (all.len(), all.iter().map(|(.., pause)| *pause).sum())
    }
}

#[tokio::test]
async fn what_is_refused_for_a_while_is_repeated() {
    let w = world().await;
    refuse(&w, r#", "times": 3, "each": "id""#);
    let client = hasty(&w);
    let m = managed(&w);
    let waits = Waits::default();
    let made = identities::create(&client, &m, Options::default(), &|p| waits.note(p)).await.unwrap();
    assert!(good(&made), "{:?}", made.failed);
    let (n, _) = waits.only(&m.vault_id().unwrap());
    // Eight secrets, each read and each written.
    assert!(n >= 8 * 2 * 3, "only {n} waits");

    let dir = tempfile::tempdir().unwrap();
    let waits = Waits::default();
    let (i, k) = (issuer(&w), keys(dir.path(), Rotation::Keep));
    let (made, published) =
        issuers::create(&client, &i, &k, Options::default(), &|p| waits.note(p)).await.unwrap();
    assert!(made.is_good() && published.is_some());
    let (n, _) = waits.only(&i.account().unwrap());
    // Two documents, each read and each written.
    assert!(n >= 2 * 2 * 3, "only {n} waits");
}

#[tokio::test]
async fn what_is_refused_for_ever_is_given_up() {
    const LIMIT: Duration = Duration::from_secs(300);
    const MOST: Duration = Duration::from_secs(300 + 15);
    let w = world().await;
    refuse(&w, "");
    let client = hasty(&w);
    let m = managed(&w);
    let waits = Waits::default();
    match identities::create(&client, &m, Options::default(), &|p| waits.note(p)).await {
        Err(Error::Data { what, source }) => {
            assert!(what.starts_with("read secret aro-") && what.ends_with("of vault aro-vault"), "{what}");
            assert_eq!(source.status(), Some(403));
        }
        other => panic!("{other:?}"),
    }
    let (n, waited) = waits.only(&m.vault_id().unwrap());
    // Eight wait at the same time.
    assert!(n > 8 && waited >= LIMIT && waited <= 8 * MOST, "{n} waits, {waited:?}");

    let dir = tempfile::tempdir().unwrap();
    let waits = Waits::default();
    let (i, k) = (issuer(&w), keys(dir.path(), Rotation::Keep));
    match issuers::create(&client, &i, &k, Options::default(), &|p| waits.note(p)).await {
        Err(Error::Data { what, source }) => {
            assert!(what.starts_with("read blob demooidc/"), "{what}");
            assert_eq!(source.status(), Some(403));
        }
        other => panic!("{other:?}"),
    }
    let (n, waited) = waits.only(&i.account().unwrap());
    assert!(n > 2 && waited >= LIMIT && waited <= 2 * MOST, "{n} waits, {waited:?}");
    // The role arrives in the end: the same commands go on.
    w.sim.world().clear_faults();
    let made = identities::create(&client, &m, Options::default(), &|_| {}).await.unwrap();
    assert!(good(&made), "{:?}", made.failed);
    assert!(issuers::create(&client, &i, &k, Options::default(), &|_| {}).await.unwrap().1.is_some());
}
