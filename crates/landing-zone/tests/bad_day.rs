//! On a bad day: whatever Azure does, running the commands again gets there, and nothing is left in the end.

use crate::support::{World, quiet, world, world_with};
use azure_sim::{Profile, preset};
use landing_zone::identities::Identities;
use landing_zone::run::{Options, create_iam, create_infra};
use landing_zone::{MadeBy, destroy};
use std::time::Duration;

/// A run may fail; so many in a row may not.
const RUNS: usize = 12;

async fn make(w: &World) {
    let iam = w.iam("demo");
    let mut ids = None;
    for _ in 0..RUNS {
        if let Ok((o, made)) = create_iam(&w.client, &iam, Options::default(), &quiet).await
            && o.is_good()
        {
            ids = made;
            break;
        }
    }
    let infra = w.infra("demo", Identities::Workload(ids.expect("identities, after a dozen runs")));
    let mut last = String::new();
    for _ in 0..RUNS {
        match create_infra(&w.client, &infra, Options::default(), &quiet).await {
            Ok((o, _)) if o.is_good() => return,
            Ok((o, _)) => last = format!("{:#?}", o.report.failures().collect::<Vec<_>>()),
            Err(e) => last = format!("{e:?}"),
        }
    }
    panic!("no infrastructure after {RUNS} runs: {last}");
}

async fn remove(w: &World, by: MadeBy) {
    let mut last = String::new();
    for _ in 0..RUNS {
        match destroy::destroy(&w.client, &w.destroy("demo", by), Options::default(), &quiet).await {
            Ok(d) if d.outcome.is_good() => return,
            Ok(d) => last = format!("{:#?}", d.outcome.report.failures().collect::<Vec<_>>()),
            Err(e) => last = format!("{e:?}"),
        }
    }
    panic!("still there after {RUNS} runs: {last}");
}

async fn through(w: &World, want: &[String]) {
    let all = async {
        make(w).await;
        w.sim.world().clear_faults();
        // The dust settles: what stale reads missed is made now.
        make(w).await;
        assert_eq!(w.left(), want);
    };
    tokio::time::timeout(Duration::from_secs(240), all).await.expect("made within four minutes");
}

async fn undisturbed() -> Vec<String> {
    let w = world().await;
    make(&w).await;
    w.left()
}

#[tokio::test]
async fn each_trouble_by_itself() {
    let want = undisturbed().await;
    for trouble in [
        "throttled",
        "late-failures",
        "stale-reads",
        "html-503",
        "another-operation",
        "dropped-answers",
        "partial-writes",
        "half-deleted",
        "msi-429",
    ] {
        let w = world().await;
        w.sim.world().add_faults(preset(trouble).unwrap()).unwrap();
        through(&w, &want).await;
        w.sim.world().add_faults(preset(trouble).unwrap()).unwrap();
        remove(&w, MadeBy::Infra).await;
        remove(&w, MadeBy::Iam).await;
        w.sim.world().clear_faults();
        remove(&w, MadeBy::Infra).await;
        remove(&w, MadeBy::Iam).await;
        assert_eq!(w.left(), Vec::<String>::new(), "{trouble}");
    }
}

#[tokio::test]
async fn all_of_it_at_once() {
    let want = undisturbed().await;
    let w = world_with(Profile::BadDay).await;
    through(&w, &want).await;
    remove(&w, MadeBy::Infra).await;
    remove(&w, MadeBy::Iam).await;
    assert_eq!(w.left(), Vec::<String>::new());
}
