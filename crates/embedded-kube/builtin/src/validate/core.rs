//! Plain data, events and signing requests.

use super::path::{Errors, Path};
use super::spec;
use crate::json::{bool_of, int_of, is_zero, list, str_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Most a secret or config map may hold, so that none fills the store's transaction.
const MAX_SIZE: usize = 1024 * 1024;

fn config_key(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    if s.is_empty() || !s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        out.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match s {
        "." => out.push("must not be '.'".to_owned()),
        ".." => out.push("must not be '..'".to_owned()),
        s if s.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
    out
}

/// Bytes a base64 text stands for.
fn decoded_len(s: &str) -> usize {
    s.trim_end_matches('=').len() * 3 / 4
}

fn members<'a>(v: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    v.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Once immutable, neither that nor the data can change.
fn immutable(e: &mut Errors, new: &Value, old: &Value, fields: &[&str]) {
    const TEXT: &str = "field is immutable when `immutable` is set";
    if !bool_of(old, "immutable") {
        return;
    }
    if !bool_of(new, "immutable") {
        e.forbidden(&Path::ROOT.child("immutable"), TEXT);
    }
    for f in fields {
        let (n, o) = (new.get(*f).unwrap_or(&Value::Null), old.get(*f).unwrap_or(&Value::Null));
        if n != o && !(is_zero(n) && is_zero(o)) {
            e.forbidden(&Path::ROOT.child(f), TEXT);
        }
    }
}

pub(super) fn config_map(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let mut size = 0;
    let (data, binary) = (Path::ROOT.child("data"), Path::ROOT.child("binaryData"));
    for (k, v) in members(new, "data") {
        e.named(&data.key(k), k, config_key);
        if new.get("binaryData").and_then(|b| b.get(k.as_str())).is_some() {
            e.invalid(&data.key(k), k.as_str(), "duplicate of key present in binaryData");
        }
        size += v.as_str().map_or(0, str::len);
    }
    for (k, v) in members(new, "binaryData") {
        e.named(&binary.key(k), k, config_key);
        size += v.as_str().map_or(0, decoded_len);
    }
    if size > MAX_SIZE {
        e.too_long(&Path::ROOT, MAX_SIZE);
    }
    if let Some(old) = old {
        immutable(e, new, old, &["data", "binaryData"]);
    }
}

/// What Go says of a text that is no JSON.
fn not_json(base64: &str) -> String {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{' | b'[' | b'"') => "unexpected end of JSON input".to_owned(),
        Some(b) => format!("invalid character '{}' looking for beginning of value", char::from(*b)),
    }
}

pub(super) fn secret(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let p = Path::ROOT.child("data");
    let mut size = 0;
    for (k, v) in members(new, "data") {
        e.named(&p.key(k), k, config_key);
        size += v.as_str().map_or(0, decoded_len);
    }
    if size > MAX_SIZE {
        e.too_long(&p, MAX_SIZE);
    }
    let get = |k: &str| new.get("data").and_then(|d| d.get(k)).and_then(Value::as_str);
    let need: &[&str] = match str_of(new, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        // Either will do, so both are named when neither is there.
        "kubernetes.io/basic-auth" if get("username").is_none() && get("password").is_none() => {
            &["username", "password"]
        }
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let name = ek_meta::object::at(new, &["metadata", "annotations"]).and_then(|a| a.get(ACCOUNT));
            if name.and_then(Value::as_str).is_none_or(str::is_empty) {
                let meta = Path::ROOT.child("metadata");
                e.required(&meta.child("annotations").key(ACCOUNT), "");
            }
            &[]
        }
        _ => &[],
    };
    for k in need {
        match get(k) {
            None => e.required(&p.key(k), ""),
            Some(v) if k.starts_with(".docker") => {
                let json = STANDARD.decode(v).ok().and_then(|b| serde_json::from_slice::<Value>(&b).ok());
                if json.is_none() {
                    e.invalid(&p.key(k), "<secret contents redacted>", not_json(v));
                }
            }
            Some(_) => {}
        }
    }
    if let Some(old) = old {
        e.fixed(&Path::ROOT, new, old, "type");
        immutable(e, new, old, &["data"]);
    }
}

/// `group` tells the two APIs apart: the newer asks for more, and names fields after the older.
pub(super) fn event(e: &mut Errors, new: &Value, old: Option<&Value>, group: &str) {
    let key = if group.is_empty() { "involvedObject" } else { "regarding" };
    let about = new.get(key).unwrap_or(&Value::Null);
    let (own, theirs) = (ek_meta::object::namespace(new), str_of(about, "namespace"));
    // What has no namespace is reported where cluster-wide events go.
    let fits = if theirs.is_empty() { matches!(own, "" | "default" | "kube-system") } else { own == theirs };
    if !fits {
        e.invalid(
            &Path::ROOT.child("involvedObject").child("namespace"),
            theirs,
            "does not match event.namespace",
        );
    }
    if !group.is_empty() && old.is_none() {
        if new.get("eventTime").is_none_or(is_zero) {
            e.required(&Path::ROOT.child("eventTime"), "");
        } else {
            for required in ["reportingController", "reportingInstance", "action", "reason"] {
                e.need(&Path::ROOT, new, required);
            }
        }
        let ty = str_of(new, "type");
        if !matches!(ty, "Normal" | "Warning") {
            e.invalid(&Path::ROOT.child("type"), ty, format!("has invalid value: {ty}"));
        }
        if new.get("note").and_then(Value::as_str).is_some_and(|n| n.len() > 1024) {
            e.invalid(&Path::ROOT.child("message"), "", "can have at most 1024 characters");
        }
    }
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Decisions are final, and what is issued is a certificate.
pub(super) fn signing_decision(e: &mut Errors, new: &Value, old: Option<&Value>) {
    const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];
    let status = |o: &Value| o.get("status").cloned().unwrap_or_default();
    let (now, before) = (status(new), old.map(status).unwrap_or_default());
    let p = Path::ROOT.child("status");
    let cp = p.child("conditions");
    for c in list(&before, "conditions").iter().map(|c| str_of(c, "type")).filter(|c| FINAL.contains(c)) {
        if !list(&now, "conditions").iter().any(|n| str_of(n, "type") == c) {
            e.forbidden(&cp, &format!("updates may not remove a condition of type {c:?}"));
        }
    }
    for (i, c) in list(&now, "conditions").iter().enumerate() {
        let decided = str_of(c, "status");
        if FINAL.contains(&str_of(c, "type")) && decided != "True" {
            e.not_supported(&cp.index(i).child("status"), decided, &["True"]);
        }
    }
    let issued = str_of(&now, "certificate");
    if !issued.is_empty() && issued != str_of(&before, "certificate") {
        let pem = STANDARD.decode(issued).unwrap_or_default();
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
            let text = "must contain at least one CERTIFICATE PEM block";
            e.invalid(&p.child("certificate"), "<certificate data>", text);
        }
    }
}

/// Whether bytes are one DER sequence of three parts, as a request is: content, algorithm, signature.
fn der_sequence(der: &[u8]) -> Result<(), &'static str> {
    const TRUNCATED: &str = "asn1: syntax error: truncated tag or length";
    /// The value at the start, and what follows it.
    fn item(der: &[u8]) -> Result<(u8, &[u8], &[u8]), &'static str> {
        let (tag, rest) = der.split_first().ok_or(TRUNCATED)?;
        let (first, rest) = rest.split_first().ok_or(TRUNCATED)?;
        let (len, rest) = match first & 0x7f {
            short if first & 0x80 == 0 => (usize::from(short), rest),
            n @ 1..=4 => {
                let (digits, rest) = rest.split_at_checked(n.into()).ok_or(TRUNCATED)?;
                (digits.iter().fold(0, |len, b| len << 8 | usize::from(*b)), rest)
            }
            _ => return Err("asn1: structure error: length too large"),
        };
        let (value, rest) = rest.split_at_checked(len).ok_or("asn1: syntax error: data truncated")?;
        Ok((*tag, value, rest))
    }
    let (tag, mut parts, after) = item(der)?;
    if tag != 0x30 {
        return Err("asn1: structure error: tags don't match");
    }
    if !after.is_empty() {
        return Err("asn1: syntax error: trailing data");
    }
    for expected in [0x30, 0x30, 0x03] {
        let (tag, _, rest) = item(parts).map_err(|_| "asn1: structure error: sequence truncated")?;
        if tag != expected {
            return Err("asn1: structure error: tags don't match");
        }
        parts = rest;
    }
    Ok(())
}

pub(super) fn signing_request(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let request = STANDARD.decode(str_of(s, "request")).unwrap_or_default();
    let pem = String::from_utf8_lossy(&request);
    let shown = || s.get("request").filter(|r| !is_zero(r)).cloned().unwrap_or_default();
    let body = pem
        .split_once("-----BEGIN CERTIFICATE REQUEST-----")
        .and_then(|(_, rest)| rest.split_once("-----END CERTIFICATE REQUEST-----"));
    match body {
        None => e.invalid(&p.child("request"), shown(), "PEM block type must be CERTIFICATE REQUEST"),
        Some((body, _)) => {
            let text: String = body.split_whitespace().collect();
            if let Err(why) = der_sequence(&STANDARD.decode(text).unwrap_or_default()) {
                e.invalid(&p.child("request"), shown(), why);
            }
        }
    }
    let usages = list(s, "usages");
    if usages.is_empty() {
        e.required(&p.child("usages"), "");
    }
    for (i, u) in usages.iter().enumerate() {
        let (at, u) = (p.child("usages"), u.as_str().unwrap_or_default());
        if !USAGES.contains(&u) {
            e.not_supported(&at.index(i), u, &USAGES);
        } else if usages.iter().take(i).any(|o| o == u) {
            e.duplicate(&at.index(i), u);
        }
    }
    let signer = e.need(&p, s, "signerName");
    if !signer.is_empty() {
        let parts: Vec<&str> = signer.split('/').collect();
        let ok = matches!(parts.as_slice(), [domain, path] if domain.contains('.') && !path.is_empty());
        if !ok {
            e.invalid(
                &p.child("signerName"),
                signer,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            );
        }
    }
    if let Some(n) = int_of(s, "expirationSeconds").filter(|n| *n < 600) {
        e.invalid(
            &p.child("expirationSeconds"),
            n,
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
}
