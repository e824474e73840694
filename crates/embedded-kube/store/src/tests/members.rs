//! Members, backups and seals.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn small() -> Options {
    Options { segment_bytes: 2_000, ..Options::small(clock::system(), id()) }
}

fn dirs(root: &Path) -> Vec<(String, PathBuf)> {
    (0..3).map(|n| (format!("etcd-{n}"), root.join(format!("etcd-{n}")))).collect()
}

fn directory(at: &(String, PathBuf)) -> Directory {
    Directory::open(&at.0, &at.1, &small()).unwrap()
}

fn formed(all: &[(String, PathBuf)], who: &[usize]) -> Result<Store, MemberError> {
    let dirs = who.iter().map(|n| directory(&all[*n])).collect();
    Store::of_members(dirs, all.len(), "fresh", small()).map_err(|(_, e)| e)
}

async fn has(s: &Store, name: &str) -> bool {
    s.get(&id(), &table(), &object_key("ns", name)).is_some()
}

#[tokio::test]
async fn a_majority_decides_and_the_one_that_was_away_catches_up() {
    let tmp = tempfile::tempdir().unwrap();
    let all = dirs(tmp.path());
    assert!(
        matches!(formed(&all, &[0, 1]), Err(MemberError::Incomplete { .. })),
        "a new cluster begins with all"
    );
    let s = founded(formed(&all, &[0, 1, 2]).unwrap()).await;
    assert_eq!(s.members(), (3, 3));
    s.commit(put("a", Expect::Absent)).await.unwrap();
    s.leave("etcd-2");
    s.commit(put("b", Expect::Absent)).await.unwrap();
    assert_eq!(s.members(), (2, 3));
    s.leave("etcd-1");
    let refused = s.commit(put("c", Expect::Absent)).await;
    assert!(matches!(refused, Err(CommitError::NoQuorum { up: 1, size: 3 })), "{refused:?}");
    assert!(!s.is_healthy());
    s.settled().await.unwrap();
    s.join(directory(&all[2])).await.unwrap();
    s.commit(put("c", Expect::Absent)).await.unwrap();
    assert!(s.is_healthy());
    s.close();
    drop(s);
    // The one that was away when `c` was written does not win over those who have it.
    for who in [[1, 2], [0, 1], [0, 2]] {
        let s = formed(&all, &who).unwrap();
        for name in ["a", "b", "c"] {
            assert!(has(&s, name).await, "{who:?} lost {name}");
        }
        s.close();
    }
}

#[tokio::test]
async fn what_was_never_acknowledged_does_not_come_back_over_what_was() {
    let tmp = tempfile::tempdir().unwrap();
    let all = dirs(tmp.path());
    let s = founded(formed(&all, &[0, 1, 2]).unwrap()).await;
    s.commit(put("a", Expect::Absent)).await.unwrap();
    s.close();
    drop(s);
    // A single member takes a write that no other has: a crash in the middle of writing to all of them.
    let alone = Store::open(&all[0].1, small()).unwrap();
    for n in 0..5 {
        alone.commit(put(&format!("ghost{n}"), Expect::Absent)).await.unwrap();
    }
    alone.close();
    drop(alone);
    // The others go on without it, and acknowledge something else, less of it.
    let s = formed(&all, &[1, 2]).unwrap();
    s.commit(put("b", Expect::Absent)).await.unwrap();
    s.close();
    drop(s);
    let s = formed(&all, &[0, 1]).unwrap();
    assert!(has(&s, "b").await && !has(&s, "ghost0").await, "a later term knows better than a longer log");
    s.close();
}

#[tokio::test]
async fn data_that_is_gone_is_not_made_up_and_strangers_are_not_let_in() {
    let tmp = tempfile::tempdir().unwrap();
    let all = dirs(tmp.path());
    let s = founded(formed(&all, &[0, 1, 2]).unwrap()).await;
    s.commit(put("a", Expect::Absent)).await.unwrap();
    s.close();
    drop(s);
    for n in [1, 2] {
        fs::remove_dir_all(&all[n].1).unwrap();
    }
    assert!(
        matches!(formed(&all, &[1, 2]), Err(MemberError::Incomplete { .. })),
        "the third may have everything"
    );
    let lost = formed(&all, &[0, 1, 2]).err().unwrap();
    assert!(matches!(lost, MemberError::Lost { with_data: 1, need: 2, .. }), "{lost}");
    let lost = formed(&all, &[0, 1]).err().unwrap();
    assert!(matches!(lost, MemberError::Incomplete { .. }), "the one that is away may have its data: {lost}");
    // A member of another cluster.
    let other = tempfile::tempdir().unwrap();
    let theirs = dirs(other.path());
    let t = founded(
        Store::of_members(theirs.iter().map(directory).collect(), 3, "other", small())
            .map_err(|(_, e)| e)
            .unwrap(),
    )
    .await;
    let foreign = t.join(directory(&all[0])).await;
    assert!(matches!(foreign, Err(MemberError::Foreign { .. })), "{foreign:?}");
    t.close();
}

#[tokio::test]
async fn backups_are_one_moment_and_damage_is_noticed() {
    let tmp = tempfile::tempdir().unwrap();
    let s = open(&tmp.path().join("s"), options()).await;
    s.commit(put("a", Expect::Absent)).await.unwrap();
    let file = tmp.path().join("backup");
    let made = s.backup(&file).unwrap();
    s.commit(put("b", Expect::Absent)).await.unwrap();
    assert_eq!((made.revision, made.objects), (1, 1));
    assert_eq!(verify(&file).unwrap(), made);
    s.close();
    let all = dirs(tmp.path());
    for (_, dir) in &all {
        restore(&file, dir).unwrap();
    }
    assert!(matches!(restore(&file, &all[0].1), Err(BackupError::NotEmpty { .. })));
    // Under another name than the one it was taken under, and as one cluster.
    let renamed = ClusterId::new("elsewhere");
    let options = Options { only: Some(renamed.clone()), ..small() };
    let open = |(n, d): &(String, PathBuf)| Directory::open(n, d, &options).unwrap();
    let r = Store::of_members(all.iter().map(open).collect(), 3, "x", options.clone())
        .map_err(|(_, e)| e)
        .unwrap();
    assert_eq!(r.clusters(), std::slice::from_ref(&renamed));
    assert!(r.get(&renamed, &table(), "ns/a").is_some() && r.get(&renamed, &table(), "ns/b").is_none());
    assert_eq!(r.current(&renamed), 1);
    r.close();
    let good = fs::read(&file).unwrap();
    for (what, bad) in [
        ("cut short", good[..good.len() - 1].to_vec()),
        ("cut in the middle", good[..40].to_vec()),
        ("empty", Vec::new()),
        ("longer", [good.clone(), vec![0]].concat()),
    ] {
        fs::write(&file, bad).unwrap();
        assert!(restore(&file, &tmp.path().join("t")).is_err(), "{what}");
    }
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&file, bad).unwrap();
        assert!(restore(&file, &tmp.path().join("t")).is_err(), "byte {at}");
    }
    assert!(!tmp.path().join("t").exists());
}

/// Turns bytes over; knows keys by a letter.
struct Toy {
    keys: &'static str,
}

impl Seal for Toy {
    fn seal(&self, _: &TableName, _: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut out = vec![self.keys.bytes().next().ok_or("the key is away")?];
        out.extend(plain.iter().map(|b| !b));
        Ok(Some(out))
    }

    fn open(&self, _: &TableName, _: &str, stored: &Bytes) -> Result<Bytes, String> {
        match stored.first() {
            Some(b'{') => Ok(stored.clone()),
            Some(k) if self.keys.contains(char::from(*k)) => Ok(stored[1..].iter().map(|b| !b).collect()),
            _ => Err("no such key".into()),
        }
    }

    fn is_current(&self, _: &TableName, stored: &[u8]) -> bool {
        self.keys.bytes().next() == stored.first().copied()
    }
}

#[tokio::test]
async fn sealed_objects_are_sealed_on_disk_only_and_locked_without_their_key() {
    let tmp = tempfile::tempdir().unwrap();
    let s = open(tmp.path(), options()).await;
    s.commit(put("plain", Expect::Absent)).await.unwrap();
    s.set_seal(Arc::new(Toy { keys: "a" })).await.unwrap();
    s.commit(put("sealed", Expect::Absent)).await.unwrap();
    let entry = |s: &Store, n: &str| s.get(&id(), &table(), &object_key("ns", n)).unwrap();
    assert_eq!(entry(&s, "sealed").bytes().first(), Some(&b'{'), "readers see the object");
    assert!(!s.is_current(&table(), &entry(&s, "plain")) && s.is_current(&table(), &entry(&s, "sealed")));
    assert_eq!(s.sealed(&id()).len(), 1);
    s.close();
    drop(s);
    let text = fs::read(tmp.path().join("log-0000000000")).unwrap();
    assert!(!text.windows(8).any(|w| w == b"u-sealed") && text.windows(7).any(|w| w == b"u-plain"));
    let s = Store::open(tmp.path(), options()).unwrap();
    assert!(entry(&s, "sealed").locked().is_some(), "nobody has brought the key");
    s.set_seal(Arc::new(Toy { keys: "b" })).await.unwrap();
    assert_eq!(entry(&s, "sealed").locked(), Some("no such key"));
    assert!(s.has_locked());
    let e = s.commit(put("sealed", Expect::Absent)).await;
    assert!(matches!(e, Err(CommitError::Conflict { .. })), "it is there, though");
    s.set_seal(Arc::new(Toy { keys: "ba" })).await.unwrap();
    assert!(!s.has_locked());
    let opened = entry(&s, "sealed");
    assert_eq!((opened.locked(), &*opened.meta.uid), (None, "u-sealed"));
    // A backup holds what is stored.
    let backup = tmp.path().join("backup");
    s.backup(&backup).unwrap();
    assert!(!fs::read(&backup).unwrap().windows(8).any(|w| w == b"u-sealed"));
    // Nobody has a key: what is to be sealed is refused, and nothing is stored in its place.
    s.set_seal(Arc::new(Toy { keys: "" })).await.unwrap();
    let before = s.view(&id(), &table()).revision;
    let e = s.commit(put("late", Expect::Absent)).await;
    assert!(matches!(e, Err(CommitError::Sealed { ref why, .. }) if why == "the key is away"), "{e:?}");
    assert!(
        s.get(&id(), &table(), &object_key("ns", "late")).is_none()
            && s.view(&id(), &table()).revision == before
    );
    // Taken away again while it runs.
    s.set_seal(Arc::new(Toy { keys: "b" })).await.unwrap();
    assert!(entry(&s, "sealed").locked().is_some());
    s.close();
}

#[derive(Clone, Debug)]
enum Step {
    Write,
    Leave(usize),
    Join(usize),
    /// Everything ends, and these come back.
    Crash(usize),
    /// A directory is gone, while a majority of the others has everything.
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Write),
        1 => (0..3usize).prop_map(Step::Leave),
        2 => (0..3usize).prop_map(Step::Join),
        1 => (0..4usize).prop_map(Step::Crash),
        1 => (0..3usize).prop_map(Step::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever members do: what was acknowledged is there, as long as a majority of the directories is.
    #[test]
    fn acknowledged_writes_survive_members(steps in prop::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tmp = tempfile::tempdir().unwrap();
            let all = dirs(tmp.path());
            let mut s = founded(formed(&all, &[0, 1, 2]).unwrap()).await;
            let mut up: BTreeSet<usize> = BTreeSet::from([0, 1, 2]);
            let (mut acknowledged, mut n) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Write => {
                        n += 1;
                        let name = format!("w{n}");
                        let done = s.commit(put(&name, Expect::Absent)).await;
                        assert_eq!(done.is_ok(), up.len() >= 2, "{done:?} with {up:?}");
                        acknowledged.extend(done.is_ok().then_some(name));
                    }
                    Step::Leave(m) => {
                        up.remove(&m);
                        s.leave(&all[m].0);
                        s.settled().await.unwrap();
                    }
                    Step::Join(m) => {
                        if !up.contains(&m) {
                            s.join(directory(&all[m])).await.unwrap();
                            up.insert(m);
                        }
                    }
                    Step::Lose(m) => {
                        if up.len() == 3 {
                            s.leave(&all[m].0);
                            s.settled().await.unwrap();
                            fs::remove_dir_all(&all[m].1).unwrap();
                            s.join(directory(&all[m])).await.unwrap();
                        }
                    }
                    Step::Crash(without) => {
                        s.close();
                        up = (0..3).filter(|m| *m != without).collect();
                        s = formed(&all, &up.iter().copied().collect::<Vec<_>>()).unwrap();
                    }
                }
                for name in &acknowledged {
                    assert!(has(&s, name).await, "{name} is gone");
                }
            }
            s.close();
        });
    }
}
