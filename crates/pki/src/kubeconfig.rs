//! Kubeconfigs: where a cluster is, whom to trust, who one is.

use crate::pair::Pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// How a client proves who it is.
#[derive(Clone, Debug)]
pub enum Access<'a> {
    Certificate(&'a Pair),
    /// A file that somebody else keeps fresh.
    TokenFile(&'a str),
    /// Files on the client's machine.
    CertificateFiles {
        cert: &'a str,
        key: &'a str,
    },
}

/// A kubeconfig with one context, as YAML. `trusted` is the bundle of the server's authorities.
pub fn kubeconfig(server: &str, trusted: &str, user: &str, access: &Access<'_>) -> String {
    let how = match access {
        Access::Certificate(pair) => json!({
            "client-certificate-data": STANDARD.encode(&pair.cert),
            "client-key-data": STANDARD.encode(pair.key.expose()),
        }),
        Access::TokenFile(path) => json!({ "tokenFile": path }),
        Access::CertificateFiles { cert, key } => json!({ "client-certificate": cert, "client-key": key }),
    };
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(trusted)}}],
        "users": [{"name": user, "user": how}],
        "contexts": [{"name": user, "context": {"cluster": "cluster", "user": user, "namespace": "default"}}],
        "current-context": user,
    });
    // A JSON document is a YAML document; the fallback cannot be wrong, only less pleasant to read.
    serde_saphyr::to_string(&document).unwrap_or_else(|_| document.to_string())
}
