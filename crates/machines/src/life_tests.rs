use super::*;

fn at(s: i64) -> Timestamp {
    Timestamp::from_second(s).unwrap()
}

fn there(ready: bool) -> Infra {
    Infra::There { ready, provider_id: None, addresses: Value::Null, failure: None, said: None }
}

fn facts() -> Facts {
    Facts { generation: Some(1), bootstrap: true, infra: there(true), node: Node::TooEarly, going: None }
}

fn node(ready: &str) -> Node {
    Node::There { name: "n".into(), uid: "u".into(), info: Value::Null, ready: ready.into() }
}

#[test]
fn phases_follow_what_is_there() {
    let phase = |f: &Facts| status(&Value::Null, f, at(1))["phase"].as_str().unwrap().to_owned();
    assert_eq!(phase(&Facts { bootstrap: false, infra: there(false), ..facts() }), "Pending");
    assert_eq!(phase(&Facts { infra: there(false), ..facts() }), "Provisioning");
    assert_eq!(phase(&Facts { node: Node::Absent, ..facts() }), "Provisioned");
    assert_eq!(phase(&Facts { node: node("True"), ..facts() }), "Running");
    let failed = Infra::There {
        ready: false,
        provider_id: None,
        addresses: Value::Null,
        failure: Some(("CreateError".into(), "x".into())),
        said: None,
    };
    assert_eq!(phase(&Facts { infra: failed, ..facts() }), "Failed");
    let going =
        Going { reason: "Draining", message: "2 pods".into(), drain_began: Some(at(5)), detach_began: None };
    let s = status(&Value::Null, &Facts { going: Some(going), ..facts() }, at(9));
    assert_eq!(
        (s["phase"].as_str(), s["deletion"]["nodeDrainStartTime"].as_str()),
        (Some("Deleting"), Some("1970-01-01T00:00:05Z"))
    );
}

#[test]
fn causes_come_through_and_others_words_stay() {
    let before = json!({"conditions": [{"type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode", "message": "m"}]});
    let said = json!({"type": "Ready", "status": "False", "severity": "Error", "reason": "QuotaExceeded", "message": "ask for more"});
    let infra = Infra::There {
        ready: false,
        provider_id: None,
        addresses: Value::Null,
        failure: None,
        said: Some(said),
    };
    let s = status(&before, &Facts { infra, ..facts() }, at(1));
    let ready = words::find(&s, "Ready").unwrap();
    assert_eq!(
        (ready["reason"].as_str(), ready["severity"].as_str()),
        (Some("QuotaExceeded"), Some("Error"))
    );
    assert!(words::is(&s, "HealthCheckSucceeded", "False"));
    assert_eq!(Conditions::of(&s["v1beta2"]).get("Ready").unwrap().message, "ask for more");
    // Settled: the same facts change nothing, whenever they are looked at.
    let f = Facts { node: node("True"), ..facts() };
    let once = status(&Value::Null, &f, at(1));
    assert_eq!(status(&once, &f, at(99)), once);
    let lost = status(&once, &Facts { infra: Infra::Absent, node: node("True"), ..f.clone() }, at(2));
    assert_eq!(lost["phase"], "Failed", "an AzureMachine that vanished under a machine");
    let gone = status(&once, &Facts { node: Node::Absent, ..f.clone() }, at(2));
    assert_eq!(words::find(&gone, "NodeHealthy").unwrap()["reason"], "NodeNotFound");
    let away = status(&once, &Facts { node: Node::Unreachable("x".into()), ..f }, at(2));
    assert_eq!((away["phase"].as_str(), away["nodeRef"]["name"].as_str()), (Some("Running"), Some("n")));
}
