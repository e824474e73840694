use super::*;
use base64::Engine;
use parking_lot::Mutex;
use serde_json::{Value, json};

fn key(fill: u8) -> String {
    base64::engine::general_purpose::STANDARD.encode([fill; 32])
}

fn config(providers: Value) -> EncryptionConfig {
    EncryptionConfig::parse(
        &json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets", "routes.route.openshift.io"], "providers": providers}]}),
    )
    .unwrap()
}

async fn sealer(providers: Value) -> Sealer {
    Sealer::prepare(&config(providers), &NoKms, &[]).await.unwrap()
}

fn table(name: &str) -> TableName {
    Arc::from(name)
}

#[tokio::test]
async fn keys_rotate_and_lost_ones_are_named() {
    let secrets = table("/secrets");
    let old =
        sealer(json!([{"aescbc": {"keys": [{"name": "k1", "secret": key(1)}]}}, {"identity": {}}])).await;
    let stored = Bytes::from(old.seal(&secrets, "ns/a", b"{\"secret\"}").unwrap().unwrap());
    assert!(stored.starts_with(b"k8s:enc:aescbc:v1:k1:"));
    assert!(!stored.windows(6).any(|w| w == b"secret"));
    assert_eq!(old.open(&secrets, "ns/a", &stored).unwrap(), "{\"secret\"}");
    assert!(old.seal(&table("/configmaps"), "ns/a", b"{}").unwrap().is_none(), "not a named resource");
    assert!(old.seal(&table("route.openshift.io/routes"), "ns/a", b"{}").unwrap().is_some());
    // Two keys: the new one writes, the old one reads.
    let both = sealer(
        json!([{"aescbc": {"keys": [{"name": "k2", "secret": key(2)}, {"name": "k1", "secret": key(1)}]}}, {"identity": {}}]),
    )
    .await;
    assert!(!both.is_current(&secrets, &stored));
    assert_eq!(both.open(&secrets, "ns/a", &stored).unwrap(), "{\"secret\"}");
    let again = Bytes::from(both.seal(&secrets, "ns/a", b"{}").unwrap().unwrap());
    assert!(both.is_current(&secrets, &again));
    // Without the old one.
    let new = sealer(json!([{"aescbc": {"keys": [{"name": "k2", "secret": key(2)}]}}])).await;
    assert_eq!(new.open(&secrets, "ns/a", &stored).unwrap_err(), NO_KEY);
    assert_eq!(new.open(&secrets, "ns/a", &Bytes::from_static(b"{}")).unwrap_err(), NO_PREFIX);
    assert_eq!(Sealer::identity().open(&secrets, "ns/a", &stored).unwrap_err(), NOT_IDENTITY);
    // The right name with the wrong key.
    let wrong = sealer(json!([{"aescbc": {"keys": [{"name": "k1", "secret": key(9)}]}}])).await;
    assert!(
        wrong.open(&secrets, "ns/a", &stored).is_err()
            || wrong.open(&secrets, "ns/a", &stored).unwrap() != "{\"secret\"}"
    );
}

/// Encrypts by adding one, so that tests can look at it; keys can be taken away.
struct ToyKms {
    current: Mutex<String>,
    gone: Mutex<Vec<String>>,
}

impl Kms for ToyKms {
    fn encrypt<'a>(&'a self, plain: &'a [u8]) -> BoxFuture<'a, Result<(Vec<u8>, String), String>> {
        let id = self.current.lock().clone();
        Box::pin(async move { Ok((plain.iter().map(|b| b.wrapping_add(1)).collect(), id)) })
    }

    fn decrypt<'a>(&'a self, sealed: &'a [u8], key_id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            match self.gone.lock().iter().any(|k| k == key_id) {
                true => Err(format!("key {key_id} is disabled")),
                false => Ok(sealed.iter().map(|b| b.wrapping_sub(1)).collect()),
            }
        })
    }

    fn key_id(&self) -> BoxFuture<'_, Result<String, String>> {
        let id = self.current.lock().clone();
        Box::pin(async move { Ok(id) })
    }
}

struct Plugins(Arc<ToyKms>);

impl KmsPlugins for Plugins {
    fn connect(&self, _: &str, endpoint: &str) -> Option<Arc<dyn Kms>> {
        (endpoint == "unix:///opt/active.socket").then(|| self.0.clone() as Arc<dyn Kms>)
    }
}

#[tokio::test]
async fn a_kms_encrypts_keys_and_data_moves_when_its_key_does() {
    let secrets = table("/secrets");
    let toy = Arc::new(ToyKms { current: Mutex::new("v1".into()), gone: Mutex::default() });
    let plugins = Plugins(toy.clone());
    let providers = json!([{"kms": {"apiVersion": "v2", "name": "azure-1", "endpoint": "unix:///opt/active.socket"}}, {"identity": {}}]);
    let one = Sealer::prepare(&config(providers.clone()), &plugins, &[]).await.unwrap();
    let stored = Bytes::from(one.seal(&secrets, "ns/a", b"{\"x\":1}").unwrap().unwrap());
    assert!(stored.starts_with(b"k8s:enc:kms:v2:azure-1:"));
    assert!(one.open(&secrets, "ns/b", &stored).is_err(), "sealed for another place");
    // Another process, another key: what is stored says whom to ask for the old one.
    *toy.current.lock() = "v2".into();
    let two =
        Sealer::prepare(&config(providers.clone()), &plugins, std::slice::from_ref(&stored)).await.unwrap();
    assert_eq!(two.open(&secrets, "ns/a", &stored).unwrap(), "{\"x\":1}");
    assert!(!two.is_current(&secrets, &stored));
    // The key is taken away.
    toy.gone.lock().push("v1".into());
    let three =
        Sealer::prepare(&config(providers.clone()), &plugins, std::slice::from_ref(&stored)).await.unwrap();
    assert!(three.open(&secrets, "ns/a", &stored).unwrap_err().contains("key v1 is disabled"));
    // Who had the key keeps it for those who come after.
    let three = three.inherit(&two);
    assert_eq!(three.open(&secrets, "ns/a", &stored).unwrap(), "{\"x\":1}");
    let elsewhere = json!([{"kms": {"apiVersion": "v2", "name": "x", "endpoint": "unix:///other"}}]);
    let e = Sealer::prepare(&config(elsewhere), &plugins, &[]).await.unwrap_err();
    assert!(e.to_string().contains("unix:///other"));
}

#[test]
fn without_its_keys_it_serves_the_rest_and_says_why() {
    let kms =
        json!([{"kms": {"apiVersion": "v2", "name": "azure-1", "endpoint": "unix:///a"}}, {"identity": {}}]);
    let shut = Sealer::shut(&config(kms), "the vault is away").unwrap();
    let (secrets, pods) = (table("/secrets"), table("/pods"));
    assert!(shut.seal(&secrets, "ns/a", b"{}").unwrap_err().contains("the vault is away"));
    assert_eq!(shut.seal(&pods, "ns/a", b"{}"), Ok(None));
    let stored = Bytes::from_static(b"k8s:enc:kms:v2:azure-1:xyz");
    assert!(shut.open(&secrets, "ns/a", &stored).unwrap_err().contains("the vault is away"));
    assert_eq!(shut.open(&secrets, "ns/a", &Bytes::from_static(b"{}")).unwrap(), "{}");
}

#[test]
fn bad_configuration_is_named() {
    let parse = |providers: Value| {
        let v = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": providers}]});
        EncryptionConfig::parse(&v).unwrap_err().to_string()
    };
    assert!(
        parse(json!([{"aescbc": {"keys": [{"name": "k", "secret": "c2hvcnQ="}]}}]))
            .contains("providers[0].keys[0].secret")
    );
    assert!(parse(json!([{"secretbox": {}}])).contains("secretbox"));
    assert!(parse(json!([{"kms": {"name": "a", "endpoint": "tcp://x"}}])).contains("endpoint"));
    assert!(parse(json!([])).contains("providers"));
    assert!(EncryptionConfig::parse(&json!({})).is_err());
}
