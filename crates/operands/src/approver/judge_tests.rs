use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn machine() -> MachineFact {
    MachineFact {
        name: "workers-x7".into(),
        made: at("2026-01-01T00:50:00Z"),
        names: set(&["workers-x7"]),
        addresses: ["10.0.0.5".parse().unwrap()].into(),
        ..MachineFact::default()
    }
}

fn client_request() -> Request {
    Request {
        name: "node-csr-1".into(),
        signer: CLIENT.into(),
        username: BOOTSTRAPPER.into(),
        groups: set(&[BOOTSTRAPPERS, "system:authenticated"]),
        usages: set(&["digital signature", "client auth"]),
        common_name: "system:node:workers-x7".into(),
        organizations: vec!["system:nodes".into()],
        made: at("2026-01-01T00:59:00Z"),
        key: b"mine".to_vec(),
        ..Request::default()
    }
}

fn serving_request() -> Request {
    Request {
        signer: SERVING.into(),
        username: "system:node:workers-x7".into(),
        groups: set(&["system:nodes"]),
        usages: set(&["digital signature", "server auth"]),
        dns: vec!["workers-x7".into()],
        addresses: vec!["10.0.0.5".parse().unwrap()],
        ..client_request()
    }
}

fn decide(request: &Request, machines: &[MachineFact], more: impl FnOnce(&mut Case<'_>)) -> Verdict {
    decide_after(&[], request, machines, more)
}

fn decide_after(
    given: &[Given],
    request: &Request,
    machines: &[MachineFact],
    more: impl FnOnce(&mut Case<'_>),
) -> Verdict {
    let machines: Vec<_> = machines.iter().cloned().map(Arc::new).collect();
    let mut case =
        Case { request, given, machines: &machines, nodes: 0, is_node: false, pending: 1, now: at(NOW) };
    more(&mut case);
    judge(&case)
}

#[track_caller]
fn refused(verdict: Verdict, word: &str) {
    match verdict {
        Verdict::Refuse(why) if why.contains(word) => {}
        other => panic!("{other:?} does not say {word:?}"),
    }
}

#[test]
fn a_machine_that_is_expected_becomes_a_node() {
    assert_eq!(decide(&client_request(), &[machine()], |_| {}), Verdict::Approve("workers-x7".into()));
    assert_eq!(decide(&serving_request(), &[machine()], |_| {}), Verdict::Approve("workers-x7".into()));
    let joined = MachineFact { node: Some("workers-x7".into()), ..machine() };
    assert_eq!(
        decide(&serving_request(), &[joined], |c| c.is_node = true),
        Verdict::Approve("workers-x7".into())
    );
}

#[test]
fn nobody_expected_is_let_in() {
    refused(decide(&client_request(), &[], |_| {}), "no Machine");
    let other = MachineFact { names: set(&["workers-y8"]), ..machine() };
    refused(decide(&client_request(), &[other], |_| {}), "no Machine");
    let twin = MachineFact { name: "twin".into(), ..machine() };
    refused(decide(&client_request(), &[machine(), twin], |_| {}), "both expected");
    refused(
        decide(&client_request(), &[MachineFact { deleting: true, ..machine() }], |_| {}),
        "being deleted",
    );
}

#[test]
fn an_identity_is_given_once() {
    let joined = MachineFact { node: Some("workers-x7".into()), ..machine() };
    refused(decide(&client_request(), &[joined], |_| {}), "already is node");
    refused(decide(&client_request(), &[machine()], |c| c.is_node = true), "exists already");
}

#[test]
fn an_identity_is_given_to_one_key() {
    let given = |key: &[u8], made: &str| {
        let request = Request { key: key.to_vec(), made: at(made), ..client_request() };
        vec![Given::of(&request).unwrap()]
    };
    // Between approval and the Node: a second key is a stranger's, whoever of the two is right.
    let theirs = given(b"theirs", "2026-01-01T00:58:00Z");
    refused(decide_after(&theirs, &client_request(), &[machine()], |_| {}), "given to another key");
    // The same key asks again after a restart.
    let mine = given(b"mine", "2026-01-01T00:58:00Z");
    let good = Verdict::Approve("workers-x7".into());
    assert_eq!(decide_after(&mine, &client_request(), &[machine()], |_| {}), good);
    // An identity of a machine that had the name before says nothing of this one.
    let before = given(b"theirs", "2026-01-01T00:30:00Z");
    assert_eq!(decide_after(&before, &client_request(), &[machine()], |_| {}), good);
    let other = vec![Given { node: "workers-y8".into(), ..theirs[0].clone() }];
    assert_eq!(decide_after(&other, &client_request(), &[machine()], |_| {}), good);
    // What a node asks for later is no bootstrap, and holds nothing up.
    assert_eq!(Given::of(&serving_request()), None);
    assert_eq!(decide_after(&theirs, &serving_request(), &[machine()], |_| {}), good);
}

#[test]
fn time_counts_from_when_a_machine_stands() {
    let machine = |stands: &str| {
        let conditions = serde_json::json!([{"type": "InfrastructureReady", "status": "True", "lastTransitionTime": stands}]);
        let o = serde_json::json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "workers-x7", "creationTimestamp": "2025-12-31T12:00:00Z"},
            "status": {"conditions": conditions, "addresses": [{"type": "Hostname", "address": "workers-x7"}]}});
        MachineFact::read(&serde_json::from_value(o).unwrap())
    };
    // Azure had no room for half a day.
    let good = Verdict::Approve("workers-x7".into());
    assert_eq!(decide(&client_request(), &[machine("2026-01-01T00:50:00Z")], |_| {}), good);
    // It may ask before its VM is told to be ready.
    assert_eq!(decide(&client_request(), &[machine("2026-01-01T00:59:50Z")], |_| {}), good);
    refused(decide(&client_request(), &[machine("2025-12-31T22:00:00Z")], |_| {}), "within two hours");
}

#[test]
fn who_asks_must_be_who_may() {
    let thief = Request { username: "system:serviceaccount:shop:cart".into(), ..client_request() };
    refused(decide(&thief, &[machine()], |_| {}), "may not ask");
    let half = Request { groups: set(&["system:authenticated"]), ..client_request() };
    refused(decide(&half, &[machine()], |_| {}), "may not ask");
    let other = Request { username: "system:node:workers-y8".into(), ..serving_request() };
    refused(decide(&other, &[machine()], |_| {}), "is not node");
    // A node that renews its own certificate is approved by a rule of the guest.
    let renews = Request { username: "system:node:workers-x7".into(), ..client_request() };
    assert_eq!(decide(&renews, &[machine()], |_| {}), Verdict::NotOurs);
}

#[test]
fn names_and_addresses_are_those_of_the_machine() {
    let name = Request { dns: vec!["api.example.com".into()], ..serving_request() };
    refused(decide(&name, &[machine()], |_| {}), "no name of Machine");
    let ip = Request { addresses: vec!["10.0.0.6".parse().unwrap()], ..serving_request() };
    refused(decide(&ip, &[machine()], |_| {}), "no address of Machine");
    let none = Request { dns: Vec::new(), addresses: Vec::new(), ..serving_request() };
    refused(decide(&none, &[machine()], |_| {}), "names or addresses");
    let more = Request { other_names: true, ..serving_request() };
    refused(decide(&more, &[machine()], |_| {}), "nothing else");
    let client = Request { dns: vec!["workers-x7".into()], ..client_request() };
    refused(decide(&client, &[machine()], |_| {}), "no alternative names");
}

#[test]
fn subjects_and_usages_are_those_of_nodes() {
    let admin = Request { organizations: vec!["system:masters".into()], ..client_request() };
    refused(decide(&admin, &[machine()], |_| {}), "subject");
    let both =
        Request { organizations: vec!["system:nodes".into(), "system:masters".into()], ..client_request() };
    refused(decide(&both, &[machine()], |_| {}), "subject");
    let user = Request { common_name: "kube-admin".into(), ..client_request() };
    refused(decide(&user, &[machine()], |_| {}), "subject");
    let serves = Request { usages: set(&["client auth", "server auth"]), ..client_request() };
    refused(decide(&serves, &[machine()], |_| {}), "usages");
    let foreign = Request { signer: "example.com/x".into(), ..client_request() };
    assert_eq!(decide(&foreign, &[machine()], |_| {}), Verdict::NotOurs);
}

#[test]
fn time_and_number_are_bounded() {
    let old = Request { made: at("2025-12-31T23:59:00Z"), ..client_request() };
    refused(decide(&old, &[machine()], |_| {}), "older than an hour");
    let before = MachineFact { made: at("2026-01-01T00:59:30Z"), ..machine() };
    refused(decide(&client_request(), &[before], |_| {}), "within two hours");
    let long_ago = MachineFact { made: at("2025-12-31T20:00:00Z"), ..machine() };
    refused(decide(&client_request(), &[long_ago], |_| {}), "within two hours");
    let crowded = decide(&client_request(), &[machine()], |c| c.pending = 102);
    assert!(matches!(crowded, Verdict::Crowded(why) if why.contains("102 requests wait")));
    let many = decide(&client_request(), &[machine()], |c| c.pending = 101);
    assert_eq!(many, Verdict::Approve("workers-x7".into()));
}

#[test]
fn a_machine_concerns_requests_for_its_names_and_its_node_alone() {
    let m = MachineFact { node: Some("other-name".into()), ..machine() };
    assert!(m.is_or_will_be("workers-x7") && m.is_or_will_be("other-name"));
    assert!(!m.is_or_will_be("workers-y8") && !m.is_or_will_be(""));
}
