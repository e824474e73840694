//! Whether nodes reach the API server through the cluster's proxy.

use serde_json::Value;
use std::net::IpAddr;

/// The proxy by which nodes go to `host`, as host and port; nothing if there is none, or if the list of exceptions has it.
/// `also` are names of the same server on the node's side: who excepts those means the API server.
pub fn through(proxy: &Value, host: &str, also: &[&str]) -> Option<String> {
    let url = proxy["httpsProxy"].as_str().filter(|u| !u.is_empty())?;
    let none = proxy["noProxy"].as_str().unwrap_or_default();
    let mut excepted = none.split(',').map(str::trim).filter(|e| !e.is_empty());
    if excepted.any(|e| covers(e, host) || also.contains(&e)) {
        return None;
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The program on nodes does not log in anywhere, and a manifest is no place for a password.
    let authority = authority.rsplit_once('@').map_or(authority, |(_, at)| at);
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    match port.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())) {
        true => Some(authority.to_owned()),
        false => Some(format!("{authority}:{}", if scheme == "https" { 443 } else { 80 })),
    }
}

/// Whether an exception is for a host: `*`, an address, a network, a name, or a domain with all that is in it.
fn covers(exception: &str, host: &str) -> bool {
    if exception == "*" || exception.eq_ignore_ascii_case(host) {
        return true;
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return within(exception, ip).unwrap_or(false);
    }
    let (host, domain) = (host.to_ascii_lowercase(), exception.trim_start_matches('.').to_ascii_lowercase());
    !domain.is_empty() && host.strip_suffix(&domain).is_some_and(|left| left.ends_with('.'))
}

/// Whether an address is in a network; nothing if the text is no network.
fn within(network: &str, ip: IpAddr) -> Option<bool> {
    let (base, length) = network.split_once('/')?;
    let (base, length) = (base.parse::<IpAddr>().ok()?, length.parse::<u32>().ok()?);
    let (a, b, bits) = match (base, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return Some(false),
    };
    let host_bits = bits - length.min(bits);
    Some(a.checked_shr(host_bits).unwrap_or(0) == b.checked_shr(host_bits).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_proxy_is_told_by_host_and_port_alone() {
        for (url, at) in [
            ("http://proxy.corp:3128", "proxy.corp:3128"),
            ("http://proxy.corp", "proxy.corp:80"),
            ("https://proxy.corp/", "proxy.corp:443"),
            ("http://ann:secret@proxy.corp:3128/x", "proxy.corp:3128"),
            ("http://[fd00::5]:3128", "[fd00::5]:3128"),
            ("http://[fd00::5]", "[fd00::5]:80"),
        ] {
            assert_eq!(through(&json!({"httpsProxy": url}), "20.1.2.3", &[]).as_deref(), Some(at), "{url}");
        }
        assert_eq!(through(&json!({"httpProxy": "http://p:1"}), "20.1.2.3", &[]), None);
        assert_eq!(through(&Value::Null, "20.1.2.3", &[]), None);
    }

    #[test]
    fn exceptions_are_networks_domains_and_names_of_the_server_on_the_node() {
        let goes = |none: &str, host: &str| {
            let proxy = json!({"httpsProxy": "http://p:3128", "noProxy": none});
            through(&proxy, host, &["172.20.0.1", "kubernetes"]).is_some()
        };
        assert!(goes(".svc, 10.0.0.0/16", "20.1.2.3"));
        assert!(!goes("20.1.0.0/16", "20.1.2.3"));
        assert!(goes("fd00::/8", "20.1.2.3"));
        assert!(!goes("fd00::/8", "fd00::9"));
        assert!(!goes("0.0.0.0/0", "20.1.2.3"));
        assert!(!goes("20.1.2.3", "20.1.2.3"));
        assert!(!goes("corp,.Example.com", "api.demo.example.com"));
        assert!(goes("ample.com", "api.demo.example.com"));
        assert!(!goes("*", "api.demo.example.com"));
        assert!(!goes("kubernetes", "20.1.2.3"));
        assert!(!goes("172.20.0.1", "20.1.2.3"));
    }
}
