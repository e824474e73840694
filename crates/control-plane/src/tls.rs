//! Which TLS versions and ciphers are offered: OpenShift's profiles, in the words each program takes.

use crate::Error;
use crate::scope::Scope;

/// A profile with its names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// As Go programs name it: `VersionTLS12`.
    pub minimum: String,
    /// IANA names; empty when the version alone decides.
    pub ciphers: Vec<&'static str>,
}

/// OpenSSL's names, as profiles use them, and IANA's, as programs take them. TLS 1.3's are not configurable in Go.
const CIPHERS: [(&str, &str); 12] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
];
/// How many of them the default profile offers.
const INTERMEDIATE: usize = 6;

/// The profile of a cluster: `configuration.apiServer.tlsSecurityProfile`.
pub fn of(scope: &Scope) -> Result<Profile, Error> {
    let asked = &scope.configuration["apiServer"]["tlsSecurityProfile"];
    let iana = |n: usize| CIPHERS.iter().take(n).map(|(_, to)| *to).collect();
    Ok(match asked["type"].as_str() {
        None | Some("Intermediate" | "") => {
            Profile { minimum: "VersionTLS12".into(), ciphers: iana(INTERMEDIATE) }
        }
        Some("Old") => Profile { minimum: "VersionTLS10".into(), ciphers: iana(CIPHERS.len()) },
        Some("Modern") => Profile { minimum: "VersionTLS13".into(), ciphers: Vec::new() },
        Some("Custom") => custom(&asked["custom"])?,
        Some(other) => {
            return Err(wrong("type", format!("{other:?} is none of Old, Intermediate, Modern, Custom")));
        }
    })
}

fn wrong(field: &str, why: String) -> Error {
    Error::Configuration { field: format!("configuration.apiServer.tlsSecurityProfile.{field}"), why }
}

fn custom(custom: &serde_json::Value) -> Result<Profile, Error> {
    let minimum = custom["minTLSVersion"].as_str().unwrap_or("VersionTLS12");
    if !matches!(minimum, "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "VersionTLS13") {
        return Err(wrong(
            "custom.minTLSVersion",
            format!("{minimum:?} is no version: say VersionTLS10 to VersionTLS13"),
        ));
    }
    let names = custom["ciphers"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    // Names of TLS 1.3 and ones that Go does not have are left out, as OpenShift does.
    let ciphers: Vec<&'static str> =
        names.filter_map(|n| CIPHERS.iter().find(|(from, _)| *from == n)).map(|(_, to)| *to).collect();
    if ciphers.is_empty() && minimum != "VersionTLS13" {
        return Err(wrong("custom.ciphers", "none of them can be offered below TLS 1.3".into()));
    }
    Ok(Profile { minimum: minimum.to_owned(), ciphers })
}

impl Profile {
    /// As two flags; the second only where there is something to say.
    pub fn flags(&self, minimum: &str, ciphers: &str) -> Vec<String> {
        let mut flags = vec![format!("{minimum}={}", self.minimum)];
        flags.extend(self.cipher_flag(ciphers));
        flags
    }

    pub fn cipher_flag(&self, flag: &str) -> Option<String> {
        (!self.ciphers.is_empty()).then(|| format!("{flag}={}", self.ciphers.join(",")))
    }

    /// As etcd names it: `TLS1.2`, and never less.
    pub fn etcd_minimum(&self) -> &'static str {
        if self.minimum == "VersionTLS13" { "TLS1.3" } else { "TLS1.2" }
    }
}
