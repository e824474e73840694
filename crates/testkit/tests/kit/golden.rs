//! Golden files must fail when they should; a kit that always passes would pass its own tests too.

use std::fs;
use testkit::golden::{Error, Mode, Set, check, check_json};

#[test]
fn a_difference_is_shown_as_a_diff_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.txt");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    check(&path, "one\ntwo\nthree", Mode::Check).expect("a missing last newline is not a difference");
    let message = check(&path, "one\n2\nthree\n", Mode::Check).unwrap_err().to_string();
    assert!(message.contains("\n-two\n+2\n") && message.contains("ZAFFRE_GOLDEN=update"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n", "checking writes nothing");
}

#[test]
fn a_new_file_fails_until_updated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/new.json");
    let value = serde_json::json!({"b": 1, "a": [true]});
    assert!(matches!(check_json(&path, &value, Mode::Check), Err(Error::Missing { .. })));
    assert!(!path.exists());
    check_json(&path, &value, Mode::Update).unwrap();
    check_json(&path, &value, Mode::Check).unwrap();
    assert!(
        fs::read_to_string(&path).unwrap().starts_with("{\n  \"b\": 1,"),
        "order is part of the contract"
    );
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no scratch files stay behind");
}

#[test]
fn a_set_reports_everything_and_notices_what_nobody_renders() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["same.txt", "differs.txt", "stale.txt"] {
        fs::write(dir.path().join(name), "x\n").unwrap();
    }
    let render = |mode| {
        let mut set = Set::new(dir.path(), mode);
        set.text("same.txt", "x");
        set.text("differs.txt", "y");
        set.json("missing.json", &1);
        set.finish()
    };
    let errors = render(Mode::Check);
    assert!(
        matches!(&errors[..], [Error::Differs { .. }, Error::Missing { .. }, Error::Unclaimed { paths }] if paths.len() == 1),
        "{errors:?}"
    );
    assert!(render(Mode::Update).is_empty());
    assert!(render(Mode::Check).is_empty());
    assert!(!dir.path().join("stale.txt").exists());
}

#[test]
fn the_macros_look_in_the_calling_crate() {
    testkit::golden!("macro.txt", "found by CARGO_MANIFEST_DIR\n");
    testkit::golden_json!("macro.json", &serde_json::json!({"name": "macro"}));
}

#[test]
#[should_panic(expected = "does not exist")]
fn the_macros_fail_the_test() {
    // An update would create the file; this stands in for the failure there.
    assert_eq!(Mode::from_env(), Mode::Check, "does not exist in update mode either");
    testkit::golden!("no-such-file.txt", "");
}
