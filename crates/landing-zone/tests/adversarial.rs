//! Unfair treatment: every call is refused once, the process dies after every call, two run at once.

use crate::support::{World, quiet, world};
use crate::{managed, oidc};
use landing_zone::identities::{Identities, WorkloadIdentities};
use landing_zone::issuer::{self, Rotation};
use landing_zone::run::{Options, create_iam, create_infra};
use landing_zone::{Error, MadeBy, destroy};

/// Few at once, so that a broken run stops in as many different places as it can.
const FEW: Options = Options { parallel: 4 };

/// The life of a cluster's prerequisites, in order; and of what clusters share.
const LIVES: [&[Command]; 3] = [
    &[Command::Iam, Command::Infra, Command::Destroy(MadeBy::Infra), Command::Destroy(MadeBy::Iam)],
    &[
        Command::Issuer(Rotation::Keep),
        Command::Issuer(Rotation::Rotate),
        Command::Issuer(Rotation::RetireOld),
        Command::Destroy(MadeBy::OidcIssuer),
    ],
    &[Command::Managed, Command::Destroy(MadeBy::ManagedIdentities)],
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Iam,
    Infra,
    Issuer(Rotation),
    Managed,
    Destroy(MadeBy),
}

impl Command {
    fn life(self) -> &'static [Command] {
        LIVES.iter().find(|l| l.contains(&self)).unwrap()
    }
}

/// A cluster in a world of its own.
struct Story {
    w: World,
    ids: Option<WorkloadIdentities>,
    keys: tempfile::TempDir,
}

/// Writes of whatever service since a call.
fn writes(w: &World, from: usize) -> Vec<String> {
    let calls = w.calls();
    let all = calls[from..].iter().filter(|c| c.method != "GET" && !c.path.contains("/oauth2/"));
    all.map(|c| format!("{} {}", c.method, c.path)).collect()
}

impl Story {
    /// Everything before a command was done undisturbed.
    async fn until(command: Command) -> Story {
        let mut story = Story { w: world().await, ids: None, keys: tempfile::tempdir().unwrap() };
        for c in command.life().iter().take_while(|c| **c != command) {
            assert!(story.run(*c).await.unwrap(), "{c:?}");
        }
        story
    }

    /// Whether all of it went well.
    async fn run(&mut self, command: Command) -> Result<bool, Error> {
        let w = &self.w;
        Ok(match command {
            Command::Iam => {
                let (outcome, ids) = create_iam(&w.client, &w.iam("demo"), FEW, &quiet).await?;
                self.ids = ids;
                outcome.is_good()
            }
            Command::Infra => {
                let infra = w.infra("demo", Identities::Workload(self.ids.clone().unwrap()));
                create_infra(&w.client, &infra, FEW, &quiet).await?.0.is_good()
            }
            Command::Issuer(rotation) => {
                let keys = oidc::keys(self.keys.path(), rotation);
                issuer::create(&w.client, &oidc::issuer(w), &keys, FEW, &quiet).await?.0.is_good()
            }
            Command::Managed => managed::good(
                &landing_zone::managed::create(&w.client, &managed::managed(w), FEW, &quiet).await?,
            ),
            Command::Destroy(by) => {
                let d = match by {
                    MadeBy::Iam | MadeBy::Infra => w.destroy("demo", by),
                    MadeBy::OidcIssuer => w.shared("demooidc", by),
                    MadeBy::ManagedIdentities => w.shared("aro", by),
                };
                let done = destroy::destroy(&w.client, &d, FEW, &quiet).await?;
                done.outcome.is_good() && done.failed.is_empty()
            }
        })
    }

    /// The command again, undisturbed: what it leaves is what it should, to the last field.
    async fn mend(&mut self, command: Command, want: &Left, after: &str) {
        assert!(self.run(command).await.unwrap(), "{command:?} {after}");
        assert_eq!(self.left(command).await, *want, "{command:?} {after}");
        let from = self.w.calls().len();
        assert!(self.run(command).await.unwrap());
        assert_eq!(
            writes(&self.w, from),
            Vec::<String>::new(),
            "{command:?} {after}: something still differed"
        );
        // And it all goes away again.
        for c in command.life().iter().filter(|c| matches!(c, Command::Destroy(_))) {
            assert!(self.run(*c).await.unwrap(), "{command:?} {after}");
        }
        assert_eq!(self.w.left(), Vec::<String>::new(), "{command:?} {after}");
        assert_eq!(managed::applications(&self.w).await.len(), 0, "{command:?} {after}");
    }

    /// What is there now, by names that are the same in every world.
    async fn left(&self, command: Command) -> Left {
        let mut all = self.w.left();
        match command {
            Command::Issuer(_) => {
                // The key that signs is published; how many others are follows from the command.
                let container = self.w.client.blobs("demooidc").unwrap().container("demooidc").unwrap();
                let blob = container.get(issuer::KEYS, 1 << 20).await.unwrap();
                let jwks: serde_json::Value = serde_json::from_slice(&blob.content).unwrap();
                let kids: Vec<&str> =
                    jwks["keys"].as_array().unwrap().iter().map(|k| k["kid"].as_str().unwrap()).collect();
                assert!(kids.contains(&oidc::kid_in(self.keys.path()).as_str()));
                all.push(format!("{} keys", kids.len()));
                // Each has its private half here: no key is lost.
                all.push(format!("{} files", std::fs::read_dir(self.keys.path()).unwrap().count()));
            }
            Command::Managed => {
                let mut apps: Vec<String> =
                    managed::applications(&self.w).await.into_iter().map(|a| a.display_name).collect();
                apps.sort();
                all.extend(apps);
                let secrets = self.w.client.vault("aro-vault").unwrap().secrets().list_all().await.unwrap();
                all.extend(secrets.iter().map(|s| format!("secret {}", s.name())));
            }
            _ => {}
        }
        all
    }
}

type Left = Vec<String>;

/// What an undisturbed command leaves.
async fn undisturbed(command: Command) -> Left {
    let mut story = Story::until(command).await;
    assert!(story.run(command).await.unwrap());
    story.left(command).await
}

/// Each call of a command is answered with a refusal that nobody repeats; returns how many calls there are.
async fn refused_at_each_call(command: Command) -> u64 {
    let want = undisturbed(command).await;
    for n in 1.. {
        let mut story = Story::until(command).await;
        let rule = format!(
            r#"[{{"name": "once", "match": {{"nth": {n}}}, "then": {{"answer": {{"status": 400, "code": "Injected"}}}}}}]"#
        );
        story.w.sim.world().add_faults(azure_sim::read_faults(rule.as_bytes()).unwrap()).unwrap();
        let good = story.run(command).await.is_ok_and(|good| good);
        let fired = story.w.sim.world().faults()[0]["fired"].as_u64().unwrap();
        if fired == 0 {
            assert!(good);
            return n - 1;
        }
        story.w.sim.world().clear_faults();
        story.mend(command, &want, &format!("after call {n} was refused")).await;
    }
    unreachable!()
}

/// Runs until Azure has answered `n` more calls; says whether it was stopped by that.
async fn dies_after(story: &mut Story, n: u64, command: Command) -> bool {
    let mut news = story.w.sim.world().journal_news();
    let last = *news.borrow_and_update() + n;
    tokio::select! {
        biased;
        () = async { while *news.borrow_and_update() < last { if news.changed().await.is_err() { break } } } => true,
        good = story.run(command) => { assert!(good.unwrap()); false },
    }
}

/// The process dies after each call; returns how many there are.
async fn killed_after_each_call(command: Command) -> u64 {
    let want = undisturbed(command).await;
    for n in 1.. {
        let mut story = Story::until(command).await;
        if !dies_after(&mut story, n, command).await {
            return n - 1;
        }
        story.mend(command, &want, &format!("after dying at call {n}")).await;
    }
    unreachable!()
}

#[tokio::test]
async fn each_call_of_create_iam_is_refused() {
    let calls = refused_at_each_call(Command::Iam).await;
    assert!(calls > 24, "only {calls} calls");
}

#[tokio::test]
async fn each_call_of_create_infra_is_refused() {
    let calls = refused_at_each_call(Command::Infra).await;
    assert!(calls > 40, "only {calls} calls");
}

#[tokio::test]
async fn each_call_of_destroy_is_refused() {
    let infra = refused_at_each_call(Command::Destroy(MadeBy::Infra)).await;
    let iam = refused_at_each_call(Command::Destroy(MadeBy::Iam)).await;
    assert!(infra > 15 && iam > 6, "only {infra} and {iam} calls");
}

#[tokio::test]
async fn each_call_of_an_issuer_is_refused() {
    for command in LIVES[1] {
        let calls = refused_at_each_call(*command).await;
        assert!(calls > 5, "{command:?}: only {calls} calls");
    }
}

#[tokio::test]
async fn an_issuer_dies_after_each_call() {
    for command in LIVES[1] {
        let calls = killed_after_each_call(*command).await;
        assert!(calls > 5, "{command:?}: only {calls} calls");
    }
}

#[tokio::test]
async fn each_call_of_managed_identities_is_refused() {
    for (command, least) in LIVES[2].iter().zip([50, 15]) {
        let calls = refused_at_each_call(*command).await;
        assert!(calls > least, "{command:?}: only {calls} calls");
    }
}

#[tokio::test]
async fn managed_identities_die_after_each_call() {
    for (command, least) in LIVES[2].iter().zip([50, 15]) {
        let calls = killed_after_each_call(*command).await;
        assert!(calls > least, "{command:?}: only {calls} calls");
    }
}

#[tokio::test]
async fn create_iam_dies_after_each_call() {
    let calls = killed_after_each_call(Command::Iam).await;
    assert!(calls > 24, "only {calls} calls");
}

#[tokio::test]
async fn create_infra_dies_after_each_call() {
    let calls = killed_after_each_call(Command::Infra).await;
    assert!(calls > 40, "only {calls} calls");
}

#[tokio::test]
async fn destroy_dies_after_each_call() {
    let infra = killed_after_each_call(Command::Destroy(MadeBy::Infra)).await;
    let iam = killed_after_each_call(Command::Destroy(MadeBy::Iam)).await;
    assert!(infra > 15 && iam > 6, "only {infra} and {iam} calls");
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
    let want = undisturbed(Command::Infra).await;
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
