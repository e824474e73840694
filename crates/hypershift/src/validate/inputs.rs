//! What a spec names must be there, and hold what it is for.

use super::{Problem, configuration};
use crate::inputs::{Found, Given, Input, Purpose, Sort};
use crate::{naming, signing};
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedCluster;
use control_plane::certificates::{AUTHORITIES, BUNDLES, FORWARDING};
use jiff::Timestamp;
use reconcile::chain;

/// A problem of this input, said where its purpose belongs.
fn problem(input: &Input, message: String) -> Problem {
    let (condition, reason) = match input.purpose {
        Purpose::PullSecret => (condition::VALID_RELEASE_IMAGE, reason::SECRET_NOT_FOUND),
        Purpose::EtcdClient => (condition::UNMANAGED_ETCD_AVAILABLE, reason::UNMANAGED_ETCD_MISCONFIGURED),
        Purpose::ProxyTrust => (condition::VALID_PROXY_CONFIGURATION, reason::PROXY_CA_BUNDLE_INVALID),
        _ => (condition::VALID_CONFIGURATION, reason::INVALID_CONFIGURATION),
    };
    Problem { condition, reason, message }
}

pub fn problems(hc: &HostedCluster, inputs: &[Input], found: &Found, now: Timestamp) -> Vec<Problem> {
    let mut out: Vec<Problem> = inputs.iter().filter_map(|i| one(hc, i, found.get(i))).collect();
    out.extend(inputs.iter().filter_map(reserved).map(Problem::configuration));
    out.extend(inputs.iter().filter_map(|i| served(hc, i, found.get(i)?)).map(Problem::configuration));
    out.extend(inputs.iter().filter_map(|i| ended(hc, i, found.get(i)?, now)));
    out
}

/// Keys of a certificate and of its private key, where people give both.
const PAIRS: [(&str, &str); 2] = [("tls.crt", "tls.key"), ("etcd-client.crt", "etcd-client.key")];

/// A certificate that is given, with its key if that is given beside it.
fn pair<'a>(input: &Input, given: &'a Given) -> Option<(&'a str, Option<&'a str>)> {
    let text = |key: &str| {
        let asked = input.keys.contains(&key) && !given.placeholder;
        asked.then(|| std::str::from_utf8(given.data.get(key)?).ok()).flatten()
    };
    PAIRS.iter().find_map(|(cert, key)| Some((text(cert)?, text(key))))
}

fn end(input: &Input, given: &Given) -> Option<Timestamp> {
    Some(pki::Facts::of(pair(input, given)?.0).ok()?.not_after)
}

/// When the next certificate that somebody gave ends: then there is something to say.
pub fn next_end(inputs: &[Input], found: &Found, now: Timestamp) -> Option<Timestamp> {
    inputs.iter().filter_map(|i| end(i, found.get(i)?)).filter(|end| *end >= now).min()
}

fn ended(hc: &HostedCluster, input: &Input, given: &Given, now: Timestamp) -> Option<Problem> {
    let end = end(input, given).filter(|end| *end < now)?;
    let message = format!(
        "{}: the certificate in {} {}/{} has ended at {end}, and whoever checks it refuses it: put one there that is valid",
        input.field,
        input.sort.kind(),
        naming::home(hc),
        input.name
    );
    Some(Problem { reason: reason::CERTIFICATE_EXPIRED, ..problem(input, message) })
}

/// A certificate that is served without a list of names is served for its own, and must not take those of the control
/// plane either.
fn served(hc: &HostedCluster, input: &Input, given: &Given) -> Option<String> {
    let at = "spec.configuration.apiServer.servingCerts.namedCertificates[";
    let index: usize = input.field.strip_prefix(at)?.split(']').next()?.parse().ok()?;
    let api = hc.spec.shared.configuration.as_ref()?.api_server.as_ref()?;
    let cert = api.serving_certs.as_ref()?.named_certificates.as_ref()?.get(index)?;
    let listed = cert.names.as_ref().is_some_and(|n| !n.is_empty());
    if listed || configuration::names_unchecked(hc) {
        return None;
    }
    let text = std::str::from_utf8(given.data.get("tls.crt")?).ok()?;
    let name = pki::Facts::of(text).ok()?.dns.into_iter().find(|n| configuration::taken(hc, n))?;
    Some(format!(
        "{}: the certificate in Secret {} is for {name}, by which the control plane itself serves the API: use one without that name, or list in names those it is to be served for",
        input.field, input.name
    ))
}

fn one(hc: &HostedCluster, input: &Input, given: Option<&Given>) -> Option<Problem> {
    let (kind, field, at) = (input.sort.kind(), &input.field, format!("{}/{}", naming::home(hc), input.name));
    let command = match input.sort {
        Sort::Secret => "secret generic",
        Sort::ConfigMap => "configmap",
    };
    let Some(given) = given else {
        let keys: String = input.keys.iter().map(|k| format!(" --from-file={k}=<file>")).collect();
        let message = format!(
            "{field} names {kind} {at}, which does not exist: create it with `kubectl -n {} create {command} {}{keys}`",
            naming::home(hc),
            input.name
        );
        return Some(problem(input, message));
    };
    if given.placeholder {
        let full = !given.data.is_empty();
        return full.then(|| {
            problem(
                input,
                format!(
                    "{field} names {kind} {at}, which is marked {} and therefore must be empty: remove its data, or the mark",
                    apis::names::annotation::HOSTED_CLUSTER_SOURCED
                ),
            )
        });
    }
    if let Some(key) = input.keys.iter().find(|k| given.data.get(**k).is_none_or(Vec::is_empty)) {
        let has: Vec<&str> = given.data.keys().map(String::as_str).collect();
        let has = if has.is_empty() { "nothing".to_owned() } else { has.join(", ") };
        return Some(problem(
            input,
            format!("{field} names {kind} {at}, which has no key {key:?} (it has {has}): add it"),
        ));
    }
    content(input, given).map(|why| problem(input, format!("{field}: {kind} {at} cannot be used: {why}")))
}

/// What is wrong with the content, if that can be told.
fn content(input: &Input, given: &Given) -> Option<String> {
    let value = given.data.get(*input.keys.first()?)?;
    match input.purpose {
        Purpose::PullSecret => docker(value),
        Purpose::TrustBundle | Purpose::ProxyTrust => bundle(value),
        Purpose::SigningKey => {
            let e = signing::public_of(value).err()?;
            Some(format!("{}; put the private key that the issuer publishes there, in PEM", chain(&e)))
        }
        Purpose::EncryptionKey if value.len() != 32 => Some(format!(
            "the key has {} bytes and must have 32: make one with `head -c 32 /dev/urandom`",
            value.len()
        )),
        Purpose::Configuration if *input.keys.first()? == "ca-bundle.crt" => bundle(value),
        Purpose::Configuration | Purpose::EtcdClient => {
            let (cert, key) = pair(input, given)?;
            unfit(cert, key)
        }
        _ => None,
    }
}

fn docker(value: &[u8]) -> Option<String> {
    let document: Result<serde_json::Value, _> = serde_json::from_slice(value);
    let good = document.is_ok_and(|d| d["auths"].is_object());
    (!good).then(|| "it is no docker configuration: it must be JSON with \"auths\"".to_owned())
}

fn bundle(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let begin = "-----BEGIN CERTIFICATE-----";
    if !text.contains(begin) {
        return Some(format!("it holds no certificate: it must have PEM blocks that begin with {begin}"));
    }
    let mut blocks = text.split(begin).skip(1).enumerate();
    blocks.find_map(|(i, b)| {
        let e = pki::Facts::of(&format!("{begin}{b}")).err()?;
        Some(format!("certificate {} of it cannot be read: {}", i + 1, chain(&e)))
    })
}

/// A certificate that is none, or another key's. Keys of forms that we do not read are left to who uses them.
fn unfit(cert: &str, key: Option<&str>) -> Option<String> {
    if let Err(e) = pki::Facts::of(cert) {
        return Some(format!("{}; put a certificate there, in PEM", chain(&e)));
    }
    let fits = pki::Pair::new(cert, key?).fits();
    matches!(fits, Ok(false))
        .then(|| "the private key is not the certificate's: put both of one pair there".to_owned())
}

/// Copies lie among the control plane's own objects and must not take their names.
fn reserved(input: &Input) -> Option<String> {
    const OURS: [&str; 13] = [
        "pull-secret",
        "ssh-key",
        "sa-signing-key",
        "user-ca-bundle",
        "admin-kubeconfig",
        "kubeadmin-password",
        "capi-webhooks-tls",
        "azure-cloud-config",
        "azure-kms-config",
        "azure-ingress-credentials",
        "azure-image-registry-credentials",
        "cloud-network-config-controller-creds",
        "kas-secret-encryption-config",
    ];
    let fixed = matches!(
        input.purpose,
        Purpose::PullSecret | Purpose::SshKey | Purpose::TrustBundle | Purpose::SigningKey
    );
    let mut authorities = AUTHORITIES.iter().chain(&FORWARDING);
    let authority = authorities.any(|a| a.secret == input.target);
    let bundle = BUNDLES.iter().any(|b| b.config_map == input.target);
    let taken = match input.sort {
        Sort::Secret => authority || OURS.contains(&input.target.as_str()),
        Sort::ConfigMap => bundle || OURS.contains(&input.target.as_str()),
    };
    (taken && !fixed).then(|| {
        format!(
            "{} names {} {:?}, and the control plane has an object of that name: rename yours",
            input.field,
            input.sort.kind(),
            input.name
        )
    })
}
