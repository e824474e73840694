//! An API server that has our definitions: accepts them, fills defaults in, prints columns.

use crate::api::{ALL, collection, start};
use crate::samples;

#[tokio::test]
async fn a_server_accepts_every_definition_and_a_good_object_of_each() {
    let api = start().await;
    let mut kinds = std::collections::BTreeSet::new();
    for sample in samples::all() {
        let stored = api.post(&collection(&sample), &sample).await;
        assert!(stored.code == 201, "{}: {}", sample["kind"], stored.message());
        for (field, value) in sample["spec"].as_object().into_iter().flatten() {
            assert!(!stored.body["spec"][field].is_null() || value.is_null(), "{}.spec.{field} was pruned", sample["kind"]);
        }
        kinds.insert((sample["apiVersion"].to_string(), sample["kind"].to_string()));
    }
    assert_eq!(kinds.len(), ALL.len(), "a kind has no sample");
}
