//! Values that the API server or the operator judges, too: by then there is infrastructure, and somebody pays for it.

use super::Inputs;
use super::args::Args;
use crate::flags::{LABEL, Refused, is_label};
use apis::hypershift::settings::{Capability, ImageContentSource};
use jiff::Timestamp;
use serde_json::Value;

const ENABLED: &str = "--enable-cluster-capabilities";
const DISABLED: &str = "--disable-cluster-capabilities";

fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_label(&part.to_ascii_lowercase()))
}

/// A size as Kubernetes writes it, and not nothing.
fn is_size(text: &str) -> bool {
    const UNITS: [&str; 13] = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<f64>().is_ok_and(|n| n > 0.0) && UNITS.contains(&unit)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |p: &&str| p.chars().all(|c| c.is_ascii_hexdigit());
    parts.iter().map(|p| p.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}

/// Tokens name it, and Azure asks it for its keys.
fn is_issuer(url: &str) -> bool {
    let rest = url.strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '@');
    url.len() <= 255 && is_domain(host) && rest.chars().all(plain)
}

/// A time as RFC 3339 has it. The parser takes other forms as well, which the API server does not.
fn is_time(text: &str) -> bool {
    let plain = text.as_bytes().get(10) == Some(&b'T') && !text.contains('[');
    text.len() <= 35 && plain && text.parse::<Timestamp>().is_ok()
}

/// The same domain, however it is written.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('.').eq_ignore_ascii_case(other.trim_end_matches('.'))
}

impl Args {
    pub(super) fn values(&self) -> Result<(), Refused> {
        self.capability_names()?;
        if let Some(size) = &self.etcd_storage_size
            && !is_size(size)
        {
            return Err(Refused::value("--etcd-storage-size", size, "use a size such as 8Gi"));
        }
        if let Some(name) = self.kas_dns_name.as_ref().filter(|n| !n.is_empty() && !is_domain(n)) {
            return Err(Refused::value("--kas-dns-name", name, "use a DNS name such as api.example.com"));
        }
        if let Some(url) = self.oidc_issuer_url.as_ref().filter(|u| !is_issuer(u)) {
            let fix = "use an https:// URL without query, such as `create oidc-issuer azure` prints it";
            return Err(Refused::value("--oidc-issuer-url", url, fix));
        }
        let allowed = &self.endpoint_access_private_additional_allowed_subscriptions;
        if let Some(id) = allowed.iter().find(|id| !is_uuid(id)) {
            let fix = "use ids of subscriptions, such as 00000000-0000-0000-0000-000000000001: `az account list` shows them";
            return Err(Refused::value(
                "--endpoint-access-private-additional-allowed-subscriptions",
                id,
                fix,
            ));
        }
        let good = |v: &str| matches!(v, "true" | "false" | "True" | "False") || is_time(v);
        match self.paused_until.as_ref().filter(|v| !good(v)) {
            Some(v) => {
                let fix = "use true, false or a time such as 2030-01-02T15:04:05Z";
                Err(Refused::value("--pausedUntil", v, fix))
            }
            None => Ok(()),
        }
    }

    fn capability_names(&self) -> Result<(), Refused> {
        let (on, off) = (&self.enable_cluster_capabilities, &self.disable_cluster_capabilities);
        let known: Vec<&str> = Capability::ALL.iter().map(|c| c.as_str()).collect();
        for (flag, list) in [(ENABLED, on), (DISABLED, off)] {
            if let Some(name) = list.iter().find(|n| !known.contains(&n.as_str())) {
                return Err(Refused::value(flag, name, &format!("use {}", known.join(", "))));
            }
        }
        if let Some(c) = on.iter().find(|c| off.contains(c)) {
            return Err(Refused::together(ENABLED, DISABLED, &format!("{c} is in both; leave it in one")));
        }
        let without = |c: Capability| off.iter().any(|n| n == c.as_str());
        if without(Capability::Ingress) && !without(Capability::Console) {
            let fix = "the console is reached through Ingress; do without both, or keep both";
            return Err(Refused::needs(&format!("{DISABLED} Ingress"), &format!("{DISABLED} Console"), fix));
        }
        Ok(())
    }

    /// Names that follow from names are no longer than they may be. Pools are called `<name>-<zone>`, which is never longer
    /// than `<namespace>-<name>`.
    pub(super) fn lengths(&self) -> Result<(), Refused> {
        let rule = "lower-case letters, digits and -, with a letter or digit at both ends";
        for (flag, name) in [("--name", &self.name), ("--namespace", &self.namespace)] {
            if !is_label(name) {
                return Err(Refused::value(flag, name, &format!("use up to {LABEL} {rule}")));
            }
        }
        let plane = apis::naming::control_plane_namespace(&self.namespace, &self.name);
        if plane.len() > LABEL {
            let fix = format!(
                "the control plane's namespace would be {plane}, {} characters, and {LABEL} are possible; shorten one of them",
                plane.len()
            );
            let (name, namespace) =
                (format!("--name {}", self.name), format!("--namespace {}", self.namespace));
            return Err(Refused::together(&name, &namespace, &fix));
        }
        Ok(())
    }

    /// What the files say, as far as it can be judged without asking anybody.
    pub(super) fn files(&self, inputs: &Inputs) -> Result<(), Refused> {
        let base = &inputs.infra.base_domain;
        if let Some(own) = self.base_domain.as_ref().filter(|own| !same(own, base)) {
            let fix = "the zones in the file are of its own domain; leave --base-domain out, or give the file of that domain";
            let file = format!("--infra-json, whose baseDomain is {base}");
            return Err(Refused::together(&format!("--base-domain {own}"), &file, fix));
        }
        let shown = |path: &Option<std::path::PathBuf>| {
            path.as_ref().map_or_else(String::new, |p| p.display().to_string())
        };
        let private = |key: &Vec<u8>| String::from_utf8_lossy(key).contains("PRIVATE KEY-----");
        if inputs.ssh_key.as_ref().is_some_and(private) {
            let fix = "it holds a private key, which nodes must not see; give its public half, the .pub file";
            return Err(Refused::value("--ssh-key", &shown(&self.ssh_key), fix));
        }
        match &inputs.image_content_sources {
            Some(list) if !are_sources(list) => {
                let fix = "use a list of {source: REPOSITORY, mirrors: [REPOSITORY, ...]}";
                let path = shown(&self.image_content_sources);
                Err(Refused::value("--image-content-sources", &path, fix))
            }
            _ => Ok(()),
        }
    }
}

fn are_sources(list: &Value) -> bool {
    let known = |o: &Value| {
        o.as_object().is_some_and(|o| o.keys().all(|k| matches!(k.as_str(), "source" | "mirrors")))
    };
    let read = serde_json::from_value::<Vec<ImageContentSource>>(list.clone());
    read.is_ok_and(|all| all.len() <= 255 && all.iter().all(|s| !s.source.is_empty()))
        && list.as_array().is_some_and(|all| all.iter().all(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn issuers_times_sizes_and_ids() {
        for good in ["https://a.blob.core.windows.net/a", "https://localhost:8443/x", "https://x.example"] {
            assert!(is_issuer(good), "{good}");
        }
        for bad in ["http://a.example", "https://", "a.example", "https://a.example/?q", "https://a b"] {
            assert!(!is_issuer(bad), "{bad}");
        }
        for good in ["2030-01-02T15:04:05Z", "2030-01-02T15:04:05.5+01:00"] {
            assert!(is_time(good), "{good}");
        }
        for bad in
            ["2030-13-02T15:04:05Z", "2030-01-02 15:04:05Z", "2030-01-02T15:04:05", "2030-T-nonsense-here"]
        {
            assert!(!is_time(bad), "{bad}");
        }
        assert!(is_size("8Gi") && is_size("1.5Ti") && is_size("1000000"));
        assert!(!["", "Gi", "0Gi", "8GB", "-1Gi", "8 Gi", "1.2.3"].into_iter().any(is_size));
        assert!(is_uuid("00000000-0000-0000-0000-0000000000aA"));
        assert!(!is_uuid("00000000-0000-0000-0000-0000000000ag") && !is_uuid("mine") && !is_uuid(""));
    }

    #[test]
    fn mirrors_of_images() {
        assert!(are_sources(&json!([{"source": "quay.io/a", "mirrors": ["m.example/a"]}, {"source": "b"}])));
        for bad in [
            json!({}),
            json!(["quay.io/a"]),
            json!([{"mirrors": ["m"]}]),
            json!([{"source": ""}]),
            json!([{"source": "a", "mirrors": "m"}]),
            json!([{"source": "a", "mirror": ["m"]}]),
        ] {
            assert!(!are_sources(&bad), "{bad}");
        }
    }
}
