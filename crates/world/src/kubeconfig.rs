//! Kubeconfigs for people on this machine: names that only this world knows are dialled where they really are.

use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this is no kubeconfig: {0}")]
    Unreadable(String),
    #[error("the server {0:?} of the kubeconfig is no https URL")]
    Server(String),
    #[error("the kubeconfig cannot be written: {0}")]
    Unwritable(String),
}

/// The same kubeconfig, with servers that are names replaced by `ingress`; the name stays what is asked for in TLS, so
/// certificates are checked as before. Servers that are addresses stay.
pub fn reachable(kubeconfig: &str, ingress: SocketAddr) -> Result<String, Error> {
    let mut config: Value =
        serde_saphyr::from_str(kubeconfig).map_err(|e| Error::Unreadable(e.to_string()))?;
    let clusters = config.get_mut("clusters").and_then(Value::as_array_mut);
    let clusters = clusters.ok_or_else(|| Error::Unreadable("it has no clusters".into()))?;
    for cluster in clusters.iter_mut().filter_map(|c| c.get_mut("cluster")).filter(|c| c.is_object()) {
        let server = cluster["server"].as_str().unwrap_or_default().to_owned();
        let uri: http::Uri = server.parse().map_err(|_| Error::Server(server.clone()))?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
        let host = host.ok_or_else(|| Error::Server(server.clone()))?;
        if host.trim_matches(['[', ']']).parse::<IpAddr>().is_err() {
            cluster["tls-server-name"] = json!(host);
            cluster["server"] = json!(format!("https://{ingress}"));
        }
    }
    serde_saphyr::to_string(&config).map_err(|e| Error::Unwritable(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_led_to_the_ingress_and_addresses_stay() {
        let at: SocketAddr = "127.0.0.1:4711".parse().unwrap();
        let config =
            |server: &str| json!({"clusters": [{"name": "c", "cluster": {"server": server}}]}).to_string();
        let back = |server: &str| -> Value {
            let all: Value = serde_saphyr::from_str(&reachable(&config(server), at).unwrap()).unwrap();
            all["clusters"][0]["cluster"].clone()
        };
        assert_eq!(
            back("https://api.x.example.com:443"),
            json!({"server": "https://127.0.0.1:4711", "tls-server-name": "api.x.example.com"})
        );
        assert_eq!(back("https://127.70.1.2:7443"), json!({"server": "https://127.70.1.2:7443"}));
        assert!(matches!(reachable(&config("http://x"), at), Err(Error::Server(_))));
        assert!(matches!(reachable("[]", at), Err(Error::Unreadable(_))));
    }
}
