mod members;

use crate::*;
use std::fs;
use std::path::Path;

fn draft(name: &str, filler: usize) -> Draft {
    let head = format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{name}\",\"uid\":\"u-{name}\",\"labels\":{{\"b\":\"2\",\"a\":\"1\"}},\"resourceVersion\":\""
    );
    let revision_at = head.len();
    let bytes = format!("{head}\"}},\"data\":{{\"x\":\"{}\"}}}}", "y".repeat(filler)).into_bytes();
    let meta = Meta::from_bytes(&bytes).unwrap();
    Draft { bytes, revision_at, meta }
}

fn table() -> TableName {
    Arc::from("/configmaps")
}

fn id() -> ClusterId {
    ClusterId::new("main")
}

fn put(name: &str, expect: Expect) -> Batch {
    Batch::one(&id(), &table(), object_key("ns", name), expect, Change::Put(draft(name, 10)))
}

fn delete(name: &str, rev: u64) -> Batch {
    Batch::one(
        &id(),
        &table(),
        object_key("ns", name),
        Expect::Revision(rev),
        Change::Delete(draft(name, 10)),
    )
}

fn options() -> Options {
    Options::new(clock::system())
}

/// A store with our cluster in it.
async fn founded(store: Store) -> Store {
    store.found(&id(), &Arc::new(Base::new(Vec::new()))).await.unwrap();
    store
}

async fn memory(options: Options) -> Store {
    founded(Store::memory(options)).await
}

async fn open(dir: &Path, options: Options) -> Store {
    founded(Store::open(dir, options).unwrap()).await
}

fn names(v: &View) -> Vec<String> {
    v.objects.keys().map(ToString::to_string).collect()
}

#[tokio::test]
async fn commits_check_expectations_and_fill_the_revision() {
    let s = memory(options()).await;
    let e = s.commit(put("a", Expect::Absent)).await.unwrap();
    assert_eq!(e[0].revision, 1);
    assert!(std::str::from_utf8(&e[0].bytes()).unwrap().contains("\"resourceVersion\":\"1\""));
    assert_eq!(e[0].meta.label("a"), Some("1"));
    assert!(matches!(
        s.commit(put("a", Expect::Absent)).await,
        Err(CommitError::Conflict { current: Some(_), .. })
    ));
    assert!(matches!(s.commit(put("a", Expect::Revision(9))).await, Err(CommitError::Conflict { .. })));
    assert!(matches!(
        s.commit(put("b", Expect::Revision(1))).await,
        Err(CommitError::Conflict { current: None, .. })
    ));
    s.commit(put("a", Expect::Revision(1))).await.unwrap();
    assert_eq!(s.current(&id()), 2);
    s.commit(delete("a", 2)).await.unwrap();
    assert!(s.get(&id(), &table(), "ns/a").is_none());
    assert_eq!(s.current(&id()), 3);
}

#[tokio::test]
async fn watchers_see_each_change_once_in_order_and_old_views_stay() {
    let s = memory(options()).await;
    let mut c = s.watch(&id(), &table(), None, 0).unwrap();
    s.commit(put("a", Expect::Absent)).await.unwrap();
    s.commit(put("b", Expect::Absent)).await.unwrap();
    s.commit(delete("a", 1)).await.unwrap();
    let Next::Events(ev) = c.next(10).await else { panic!("events") };
    let kinds: Vec<_> = ev.iter().map(|e| (e.kind, e.revision())).collect();
    assert_eq!(kinds, [(EventKind::Added, 1), (EventKind::Added, 2), (EventKind::Deleted, 3)]);
    assert!(c.poll(10).is_none());
    assert_eq!(c.bookmark(), Some(3));
    assert_eq!(names(&s.view_at(&id(), &table(), 2).unwrap()), ["ns/a", "ns/b"]);
    assert_eq!(names(&s.view_at(&id(), &table(), 1).unwrap()), ["ns/a"]);
    assert_eq!(names(&s.view_at(&id(), &table(), 3).unwrap()), ["ns/b"]);
    assert!(matches!(s.view_at(&id(), &table(), 4), Err(HistoryError::Future { .. })));
}

#[tokio::test]
async fn a_slow_watcher_is_told_and_never_holds_history() {
    let s = memory(Options { min_events: 4, max_events: 4, ..options() }).await;
    let mut c = s.watch(&id(), &table(), None, 0).unwrap();
    for i in 0..10 {
        s.commit(put(&format!("n{i}"), Expect::Absent)).await.unwrap();
    }
    assert!(matches!(c.next(10).await, Next::TooOld { oldest: 6 }));
    assert!(matches!(s.watch(&id(), &table(), None, 5), Err(HistoryError::TooOld { .. })));
    assert!(matches!(s.view_at(&id(), &table(), 5), Err(HistoryError::TooOld { .. })));
    assert!(s.watch(&id(), &table(), None, 6).is_ok());
}

#[tokio::test]
async fn who_follows_one_namespace_is_woken_and_outrun_by_it_alone() {
    let s = memory(Options { min_events: 4, max_events: 4, ..options() }).await;
    let mut ours = s.watch(&id(), &table(), Some("ours"), 0).unwrap();
    let add = |key: String| Batch::one(&id(), &table(), key, Expect::Absent, Change::Put(draft("x", 1)));
    for i in 0..10 {
        s.commit(add(format!("theirs/{i}"))).await.unwrap();
    }
    let woken = tokio::time::timeout(std::time::Duration::from_millis(20), ours.next(10)).await;
    assert!(woken.is_err(), "nothing of ours has changed, and what is forgotten was not ours");
    assert_eq!(ours.bookmark(), Some(10));
    s.commit(add("ours/a".into())).await.unwrap();
    s.commit(add("theirs/a".into())).await.unwrap();
    s.commit(add("ours/b".into())).await.unwrap();
    assert_eq!(ours.bookmark(), None, "changes wait");
    let Next::Events(seen) = ours.next(10).await else { panic!("events") };
    assert_eq!(seen.iter().map(|e| &*e.key).collect::<Vec<_>>(), ["ours/a", "ours/b"]);
    for i in 0..10 {
        s.commit(add(format!("ours/{i}"))).await.unwrap();
    }
    assert!(matches!(ours.next(10).await, Next::TooOld { oldest: 19 }));
    // One who leaves takes its place along; the next one begins as far back as history goes.
    drop(ours);
    assert!(s.watch(&id(), &table(), Some("ours"), 18).is_err());
    assert!(s.watch(&id(), &table(), Some("ours"), 19).is_ok());
}

#[tokio::test]
async fn large_objects_shorten_history_instead_of_filling_memory() {
    let s = memory(Options { max_history_bytes: 10_000, ..options() }).await;
    for i in 0..100 {
        let b = Batch::one(&id(), &table(), format!("ns/{i}"), Expect::Any, Change::Put(draft("x", 1000)));
        s.commit(b).await.unwrap();
    }
    assert!(matches!(s.watch(&id(), &table(), None, 50), Err(HistoryError::TooOld { .. })));
    assert!(s.watch(&id(), &table(), None, 95).is_ok());
}

#[tokio::test]
async fn clusters_are_apart_and_can_be_dropped() {
    let s = memory(options()).await;
    let other = ClusterId::new("other");
    s.found(&other, &Arc::new(Base::new(Vec::new()))).await.unwrap();
    s.commit(put("a", Expect::Absent)).await.unwrap();
    let mut w = s.watch(&other, &table(), None, 0).unwrap();
    let mut b = put("a", Expect::Absent);
    b.cluster = other.clone();
    s.commit(b).await.unwrap();
    assert_eq!(s.current(&other), 1);
    s.drop_cluster(&other).await.unwrap();
    assert!(matches!(w.next(1).await, Next::Closed));
    assert_eq!(s.clusters(), [id()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_and_watches_resume() {
    let dir = tempfile::tempdir().unwrap();
    let s = open(dir.path(), options()).await;
    let writes = (0..200).map(|i| {
        let s = s.clone();
        tokio::spawn(async move { s.commit(put(&format!("n{i:03}"), Expect::Absent)).await.unwrap() })
    });
    for w in writes.collect::<Vec<_>>() {
        w.await.unwrap();
    }
    let Err(OpenError::Locked { pid, .. }) = Store::open(dir.path(), options()) else { panic!("locked") };
    assert_eq!(pid.as_deref(), Some(&*std::process::id().to_string()));
    let victim = s.get(&id(), &table(), "ns/n007").unwrap();
    s.commit(delete("n007", victim.revision)).await.unwrap();
    s.close();
    assert!(matches!(s.commit(put("late", Expect::Absent)).await, Err(CommitError::Closed)));
    drop(s);
    let s = open(dir.path(), options()).await;
    let v = s.view(&id(), &table());
    assert_eq!((v.revision, v.objects.len()), (201, 199));
    assert_eq!(v.objects["ns/n000"].meta.label("b"), Some("2"));
    // History is gone, but who was up to date may go on.
    assert!(s.watch(&id(), &table(), None, 201).is_ok());
    assert!(matches!(s.watch(&id(), &table(), None, 200), Err(HistoryError::TooOld { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_replace_segments() {
    let dir = tempfile::tempdir().unwrap();
    let small = || Options { segment_bytes: 20_000, ..options() };
    let s = open(dir.path(), small()).await;
    for i in 0..400 {
        let b =
            Batch::one(&id(), &table(), format!("ns/n{}", i % 20), Expect::Any, Change::Put(draft("x", 300)));
        s.commit(b).await.unwrap();
    }
    s.close();
    drop(s);
    let files: Vec<String> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files.iter().filter(|f| f.starts_with("snap-")).count(), 1, "{files:?}");
    assert!(files.iter().filter(|f| f.starts_with("log-")).count() <= 4, "{files:?}");
    let s = open(dir.path(), small()).await;
    let v = s.view(&id(), &table());
    assert_eq!((v.revision, v.objects.len()), (400, 20));
}

fn last_segment(dir: &Path) -> std::path::PathBuf {
    let mut f: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("log-"))
        .collect();
    f.sort();
    f.pop().unwrap()
}

/// Cuts the log at every byte of its last two records: what was whole is served, the rest never.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_is_cut_wherever_the_crash_came() {
    let dir = tempfile::tempdir().unwrap();
    let s = open(dir.path(), options()).await;
    let path = last_segment(dir.path());
    let mut ends = vec![0];
    for i in 0..4 {
        s.commit(put(&format!("n{i}"), Expect::Absent)).await.unwrap();
        ends.push(fs::metadata(&path).unwrap().len() as usize);
    }
    s.close();
    drop(s);
    let whole = fs::read(&path).unwrap();
    for cut in ends[2]..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let s = open(dir.path(), options()).await;
        let complete = ends.iter().filter(|e| **e <= cut).count() - 1;
        assert_eq!(s.view(&id(), &table()).objects.len(), complete, "cut at {cut}");
        assert_eq!(s.current(&id()), complete as u64);
        s.commit(put("after", Expect::Absent)).await.unwrap();
        s.close();
        drop(s);
        let s = open(dir.path(), options()).await;
        assert_eq!(s.view(&id(), &table()).objects.len(), complete + 1, "cut at {cut}, written on");
        s.close();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_middle_is_refused_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let s = open(dir.path(), options()).await;
    for i in 0..3 {
        s.commit(put(&format!("n{i}"), Expect::Absent)).await.unwrap();
    }
    s.close();
    drop(s);
    let path = last_segment(dir.path());
    let mut data = fs::read(&path).unwrap();
    data[20] ^= 1;
    fs::write(&path, &data).unwrap();
    assert!(matches!(Store::open(dir.path(), options()), Err(OpenError::Damaged { offset: 0, .. })));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(512))]
    /// Random bytes are never a panic, and practically never a record.
    #[test]
    fn hostile_bytes_do_not_decode(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = record::unframe(&bytes);
        let _ = record::decode(&bytes);
    }
}

/// A feed tells of what stood there, merges what happens to one object, and forgets a cluster with its news.
#[tokio::test]
async fn a_feed_holds_outcomes() {
    let s = memory(options()).await;
    let other = ClusterId::new("other");
    let elsewhere = |expect| Batch { cluster: other.clone(), ..put("b", expect) };
    s.commit(put("a", Expect::Absent)).await.unwrap();
    let feed = s.feed();
    s.commit(put("a", Expect::Any)).await.unwrap();
    assert!(matches!(s.commit(elsewhere(Expect::Absent)).await, Err(CommitError::NoCluster(_))));
    s.found(&other, &Arc::new(Base::new(Vec::new()))).await.unwrap();
    s.commit(elsewhere(Expect::Absent)).await.unwrap();
    feed.changed().await;
    let news = feed.take();
    let seen: Vec<_> =
        news.deltas.iter().map(|d| (d.cluster.as_str(), &*d.key, d.previous.is_some())).collect();
    assert_eq!(seen, [("main", "ns/a", false), ("other", "ns/b", false)]);
    assert_eq!(news.deltas[0].current.as_ref().unwrap().revision, 2);
    s.commit(put("a", Expect::Any)).await.unwrap();
    s.commit(delete("a", 3)).await.unwrap();
    s.commit(elsewhere(Expect::Any)).await.unwrap();
    s.drop_cluster(&other).await.unwrap();
    let news = feed.take();
    assert_eq!(news.deltas.len(), 1);
    assert_eq!(news.deltas[0].previous.as_ref().unwrap().revision, 2);
    assert!(news.deltas[0].current.is_none());
    assert_eq!(news.dropped, [other]);
    assert!(feed.take().deltas.is_empty());
}

/// Whoever made an object waits for news of it, also when somebody deletes it before the news is read.
#[tokio::test]
async fn a_feed_tells_of_what_came_and_went() {
    let s = memory(options()).await;
    let feed = s.feed();
    s.commit(put("a", Expect::Absent)).await.unwrap();
    s.commit(put("a", Expect::Any)).await.unwrap();
    s.commit(delete("a", 2)).await.unwrap();
    let news = feed.take();
    let [delta] = &news.deltas[..] else { panic!("{news:?}") };
    assert!(delta.current.is_none());
    assert_eq!(delta.latest().unwrap().revision, 2, "as it was last");
}

/// Clusters share what they are founded on, until they change it, and again after a restart.
#[tokio::test]
async fn founded_clusters_share() {
    let dir = tempfile::tempdir().unwrap();
    let base = Arc::new(Base::new(vec![(table(), object_key("ns", "a"), draft("a", 10))]));
    let ids = [ClusterId::new("one"), ClusterId::new("two")];
    let shared = |s: &Store| {
        let [x, y] = ids.each_ref().map(|i| s.get(i, &table(), "ns/a").unwrap());
        Arc::ptr_eq(&x, &y)
    };
    let s = Store::open(dir.path(), options()).unwrap();
    for i in &ids {
        s.found(i, &base).await.unwrap();
        assert_eq!(s.current(i), 1);
    }
    assert!(shared(&s));
    s.close();
    let s = Store::open(dir.path(), options()).unwrap();
    assert!(shared(&s));
    let batch = Batch { cluster: ids[0].clone(), ..put("a", Expect::Revision(1)) };
    s.commit(batch).await.unwrap();
    assert!(!shared(&s));
    assert_eq!(s.get(&ids[1], &table(), "ns/a").unwrap().revision, 1);
    s.drop_cluster(&ids[0]).await.unwrap();
    assert!(s.get(&ids[0], &table(), "ns/a").is_none());
    assert_eq!(s.clusters(), [ids[1].clone()]);
}

/// Beyond the budget of all, each table keeps only the last events.
#[tokio::test]
async fn history_is_bounded_over_all_tables() {
    let s = memory(Options { max_total_history_bytes: 20_000, ..options() }).await;
    for n in 0..1000 {
        let change = Change::Put(draft("a", 1000));
        let b = Batch::one(&id(), &TableName::from(format!("/t{}", n % 2)), "a".into(), Expect::Any, change);
        s.commit(b).await.unwrap();
    }
    let t0: TableName = Arc::from("/t0");
    assert!(s.view_at(&id(), &t0, 900).is_ok());
    assert!(matches!(s.view_at(&id(), &t0, 10), Err(HistoryError::TooOld { .. })));
}
