use super::*;
use crate::kind::Kind;
use proptest::prelude::*;
use serde_json::json;

const MAPS: Kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();

fn source(depth: Depth) -> Source {
    Source {
        id: 1,
        kind: MAPS,
        depth,
        namespace: String::new(),
        labels: Selector::default(),
        name: None,
        fields: String::new(),
    }
}

fn ledger(depth: Depth) -> (Arc<Ledger>, Source) {
    let (ledger, source) = (Ledger::new("us", &Random::seeded(1)), source(depth));
    ledger.attached(&source);
    (ledger, source)
}

fn map(name: &str, uid: u32, version: u64, data: u8) -> DynamicObject {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "uid": uid.to_string(),
        "resourceVersion": version.to_string()}, "data": {"k": data}}))
    .unwrap()
}

#[test]
fn a_hundred_thousand_objects_fit_into_sixteen_megabytes() {
    let (ledger, _) = ledger(Depth::Whole);
    let live = map("x", 1, 1, 1);
    for i in 0..100_000 {
        let at = MAPS.at("n", format!("m{i}"));
        ledger.sending(&at).answered(1, &live);
    }
    let each = ledger.bytes() / ledger.len();
    println!("ledger: {each} bytes per object ({} MiB for {})", ledger.bytes() >> 20, ledger.len());
    assert_eq!(size_of::<Entry>(), 48);
    assert!(each <= 160, "{each} bytes per object");
}

#[test]
fn what_no_watch_covers_is_never_settled() {
    let ledger = Ledger::new("us", &Random::seeded(1));
    let mut s = source(Depth::Whole);
    s.labels = [("ours", "yes")].into_iter().collect();
    ledger.attached(&s);
    let at = MAPS.at("n", "m");
    ledger.sending(&at).answered(1, &map("m", 1, 1, 1));
    assert_eq!(ledger.standing(&at, 1), Standing::Open, "the watch would not see it");
    let mut labelled = map("m", 1, 2, 1);
    labelled.metadata.labels = Some([("ours".to_owned(), "yes".to_owned())].into());
    ledger.sending(&at).answered(1, &labelled);
    assert_eq!(ledger.standing(&at, 1), Standing::Settled);
    assert_eq!(ledger.standing(&at, 2), Standing::Open, "something else is desired");
}

#[test]
fn versions_that_cannot_be_compared_vouch_for_nothing() {
    let (ledger, _) = ledger(Depth::Whole);
    let mut live = map("m", 1, 1, 1);
    live.metadata.resource_version = Some("abc".into());
    let at = MAPS.at("n", "m");
    ledger.sending(&at).answered(1, &live);
    assert_eq!(ledger.standing(&at, 1), Standing::Open);
}

/// A server with one object, a watch behind it and answers under way; everything may overtake everything.
#[derive(Default)]
struct Server {
    version: u64,
    uid: u32,
    /// Content, if it is there, and the version of its last change.
    live: Option<(u8, u64)>,
    /// Not yet delivered: version, and the object or its end.
    events: std::collections::VecDeque<(bool, DynamicObject)>,
}

impl Server {
    fn object(&self) -> Option<DynamicObject> {
        self.live.map(|(data, version)| map("m", self.uid, version, data))
    }

    fn write(&mut self, data: u8) {
        // Applying what is there already writes nothing.
        if self.live.is_some_and(|(d, _)| d == data) {
            return;
        }
        self.uid += u32::from(self.live.is_none());
        self.version += 1;
        self.live = Some((data, self.version));
        self.events.extend(self.object().map(|o| (true, o)));
    }

    fn delete(&mut self) {
        if let Some((data, _)) = self.live.take() {
            self.version += 1;
            self.events.push_back((false, map("m", self.uid, self.version, data)));
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send,
    Answer(bool),
    /// The answer is lost.
    Lose,
    Edit(u8),
    Delete,
    Deliver,
    Relist,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Send),
        3 => any::<bool>().prop_map(Op::Answer),
        1 => Just(Op::Lose),
        2 => (0u8..3).prop_map(Op::Edit),
        1 => Just(Op::Delete),
        4 => Just(Op::Deliver),
        1 => Just(Op::Relist),
    ]
}

const WISH: u8 = 0;

fn deliver(ledger: &Ledger, from: &Source, server: &mut Server) -> bool {
    let Some((there, o)) = server.events.pop_front() else { return false };
    ledger.hear(from, if there { News::Changed(&o) } else { News::Gone(&o) });
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Once all news has arrived, the ledger says "settled" only of an object that is as we left it.
    #[test]
    fn settled_means_settled(whole in any::<bool>(), ops in prop::collection::vec(op(), 0..40)) {
        let (ledger, from) = ledger(if whole { Depth::Whole } else { Depth::Metadata });
        let (at, mut server) = (MAPS.at("n", "m"), Server::default());
        let mut flights = Vec::new();
        for op in ops {
            match op {
                Op::Send if flights.len() < 3 => {
                    let flight = ledger.sending(&at);
                    server.write(WISH);
                    flights.push((flight, server.object().unwrap()));
                }
                Op::Answer(first) => if !flights.is_empty() {
                    let (flight, live) = flights.remove(if first { 0 } else { flights.len() - 1 });
                    flight.answered(7, &live);
                },
                Op::Lose => drop(flights.pop()),
                Op::Edit(data) => server.write(data),
                Op::Delete => server.delete(),
                Op::Deliver => { deliver(&ledger, &from, &mut server); }
                Op::Relist => {
                    // The watch broke: undelivered events are lost, and the list tells how things are.
                    server.events.clear();
                    ledger.hear(&from, News::Begin);
                    if let Some(o) = server.object() {
                        ledger.hear(&from, News::Listed(&o));
                    }
                    ledger.hear(&from, News::Complete);
                }
                Op::Send => {}
            }
        }
        for (flight, live) in flights {
            flight.answered(7, &live);
        }
        while deliver(&ledger, &from, &mut server) {}
        let as_wished = server.live.is_some_and(|(data, _)| data == WISH);
        if ledger.standing(&at, 7) == Standing::Settled {
            prop_assert!(as_wished, "{:?}", server.live);
        }
        // And doubt ends: one apply settles it.
        let flight = ledger.sending(&at);
        server.write(WISH);
        flight.answered(7, &server.object().unwrap());
        while deliver(&ledger, &from, &mut server) {}
        prop_assert_eq!(ledger.standing(&at, 7), Standing::Settled);
    }
}
