use super::*;
use crate::preflight::{Asked, Verdict};
use futures::future::BoxFuture;
use serde_json::json;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

fn azure(change: serde_json::Value) -> AzureNodePool {
    let mut all = json!({"vmSize": "Standard_D4s_v5", "image": {"type": "AzureMarketplace"}, "subnetID": "/s",
        "osDisk": {"diskStorageAccountType": "Premium_LRS"}, "encryptionAtHost": "Enabled"});
    for (k, v) in change.as_object().unwrap() {
        all[k] = v.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn size() -> Size {
    Size {
        name: "Standard_D4s_v5".into(),
        family: "standardDSv5Family".into(),
        cpus: 4,
        accelerated: true,
        zones: vec!["1".into(), "2".into()],
        restricted: None,
        ephemeral: false,
        encrypts: true,
        premium: true,
        arm: Some(false),
        generations: vec!["V2".into()],
    }
}

fn ask(azure: &AzureNodePool, have: u32, wanted: u32) -> Ask<'_> {
    Ask {
        azure,
        arch: Arch::Amd64,
        location: "westus2",
        have,
        wanted,
        most: wanted,
        rolls: false,
        surges: true,
    }
}

fn left(n: i64) -> Quota {
    Quota { name: "cores".into(), used: 100 - n, limit: 100, promised: 0 }
}

#[test]
fn as_many_as_fit_and_the_reason_for_the_rest() {
    let np = azure(json!({}));
    let s = size();
    let room = plan(&ask(&np, 0, 3), Some(&s), Some(&left(9)));
    assert_eq!(room.grant, Some(2));
    let short = room.short.unwrap();
    assert!(short.grows && short.reason == QUOTA, "{short:?}");
    for words in ["spec.replicas", "2 of 3", "uses 91", "limit is 100", "What to do", "vmSize"] {
        assert!(short.message.contains(words), "{words}: {}", short.message);
    }
    // What it has is never taken away, however little is left.
    assert_eq!(plan(&ask(&np, 5, 6), Some(&s), Some(&left(-8))).grant, Some(5));
    assert_eq!(plan(&ask(&np, 0, 3), Some(&s), Some(&left(12))).short, None);
    // Nobody knows: nobody is held.
    assert_eq!(plan(&ask(&np, 0, 3), Some(&s), None), Room::default());
}

#[test]
fn a_roll_needs_room_for_one_more() {
    let np = azure(json!({}));
    let s = size();
    let roll = Ask { rolls: true, ..ask(&np, 3, 3) };
    let room = plan(&roll, Some(&s), Some(&left(3)));
    let short = room.short.unwrap();
    assert!(room.holds && !short.grows && short.message.contains("maxSurge 0"), "{short:?}");
    assert!(!plan(&roll, Some(&s), Some(&left(4))).holds);
    assert!(!plan(&Ask { surges: false, ..roll }, Some(&s), Some(&left(0))).holds);
    // What is not sold cannot take anybody's place.
    assert!(plan(&Ask { surges: false, ..roll }, None, None).holds);
}

#[test]
fn sizes_and_zones_name_their_field() {
    let s = size();
    let said = |np: &AzureNodePool, size: Option<&Size>| {
        let room = plan(&ask(np, 1, 2), size, None);
        assert_eq!((room.grant, room.most), (Some(1), Some(1)));
        room.short.unwrap()
    };
    let short = said(&azure(json!({})), None);
    assert!(short.reason == SIZE && short.message.contains("spec.platform.azure.vmSize"), "{short:?}");
    let short = said(&azure(json!({"availabilityZone": "3"})), Some(&s));
    assert!(short.reason == ZONE && short.message.contains("zones 1, 2 of westus2"), "{short:?}");
    let short = said(&azure(json!({})), Some(&Size { premium: false, ..s.clone() }));
    assert!(short.message.contains("Premium_LRS"), "{short:?}");
    let short = said(&azure(json!({})), Some(&Size { arm: Some(true), ..s.clone() }));
    assert!(short.reason == SIZE && short.message.contains("arm64 processors"), "{short:?}");
    let first = json!({"type": "AzureMarketplace", "azureMarketplace": {"imageGeneration": "Gen1"}});
    let short = said(&azure(json!({"image": first})), Some(&s));
    assert!(short.reason == SIZE && short.message.contains("imageGeneration"), "{short:?}");
    // What a list of sizes does not say, and of what generation somebody's own image is, Azure judges.
    let silent = Size { arm: None, generations: Vec::new(), ..s.clone() };
    let own = json!({"type": "ImageID", "imageID": "/subscriptions/s/images/i"});
    let named = json!({"type": "AzureMarketplace", "azureMarketplace": {"publisher": "azureopenshift", "offer": "aro4",
        "sku": "aro_420", "version": "latest"}});
    let old = Size { generations: vec!["V1".into()], ..s };
    for (image, size) in [(first, &silent), (own, &old), (named, &old)] {
        let np = azure(json!({"image": image}));
        assert_eq!(plan(&ask(&np, 1, 2), Some(size), None), Room::default());
    }
    // A pool that wants nothing more is not told what it could not have.
    assert_eq!(plan(&ask(&azure(json!({})), 2, 2), None, None).short, None);
}

#[test]
fn an_autoscaler_is_told_how_far_it_may_go() {
    let np = azure(json!({}));
    let auto = Ask { most: 9, ..ask(&np, 2, 2) };
    let room = plan(&auto, Some(&size()), Some(&left(8)));
    assert_eq!((room.most, room.short), (Some(4), None));
    assert_eq!(plan(&auto, Some(&size()), Some(&left(100))).most, None);
}

#[derive(Default)]
struct Azure {
    asked: AtomicUsize,
    used: AtomicI64,
}

impl Preflight for Azure {
    fn ask<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::default() })
    }

    fn group_gone<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    fn usages<'a>(&'a self, who: &'a str, _: &'a str) -> BoxFuture<'a, Result<Vec<Usage>, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let used = self.used.load(Ordering::SeqCst);
        Box::pin(async move {
            if who == "denied" {
                return Err("AuthorizationFailed".to_owned());
            }
            let all = json!([{"name": {"value": "standardDSv5Family"}, "currentValue": used, "limit": 20}]);
            Ok(serde_json::from_value(all).unwrap())
        })
    }
}

#[tokio::test]
async fn pools_share_what_is_left_and_one_list() {
    let (cloud, rooms, np, s) = (Azure::default(), Rooms::default(), azure(json!({})), size());
    let start = Timestamp::from_second(1_000_000).unwrap();
    let at = |seconds: i64| start.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    let get = async |who: &str, pool: &str, have, wanted, seconds| {
        let ask = ask(&np, have, wanted);
        rooms.ask(&cloud, who, pool, &ask, Some(&s), at(seconds)).await.grant
    };
    assert_eq!(get("s", "a", 0, 3, 0).await, Some(5));
    // Asked again before its deployment was seen: the same three, not three more.
    assert_eq!(get("s", "a", 0, 3, 0).await, Some(5));
    assert_eq!(get("s", "b", 0, 3, 1).await, Some(2), "three of five are promised");
    assert_eq!(get("s", "a", 3, 4, 2).await, Some(3), "its own are promised too, and so are those of b");
    assert_eq!(cloud.asked.load(Ordering::SeqCst), 1);
    // Later Azure counts them itself.
    cloud.used.store(12, Ordering::SeqCst);
    assert_eq!(get("s", "b", 0, 3, 21).await, Some(2));
    assert_eq!(cloud.asked.load(Ordering::SeqCst), 2);
    // Who may not look holds nobody, and does not ask all the time.
    for seconds in [30, 60, 90] {
        assert_eq!(get("denied", "a", 0, 300, seconds).await, None);
    }
    assert_eq!(cloud.asked.load(Ordering::SeqCst), 3);
    // What is not sold needs no list of usages.
    let none = rooms.ask(&cloud, "t", "a", &ask(&np, 0, 1), None, at(100)).await;
    assert_eq!((none.grant, none.short.map(|s| s.reason)), (Some(0), Some(SIZE)));
    assert_eq!(cloud.asked.load(Ordering::SeqCst), 3);
}
