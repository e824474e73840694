//! What a simulated machine takes from its Ignition config.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ignition::render::path;
use serde_json::Value;
use std::collections::BTreeMap;

/// The bytes of a data URL.
pub(super) fn data_url(url: &str) -> Option<Vec<u8>> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    match kind.ends_with(";base64") {
        true => STANDARD.decode(data).ok(),
        false => {
            let mut out = Vec::with_capacity(data.len());
            let mut rest = data.bytes();
            while let Some(b) = rest.next() {
                if b != b'%' {
                    out.push(b);
                    continue;
                }
                let hex = [rest.next()?, rest.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
            }
            Some(out)
        }
    }
}

fn file(config: &Value, at: &str) -> Option<String> {
    let all = config["storage"]["files"].as_array()?;
    let source = all.iter().find(|f| f["path"] == at)?["contents"]["source"].as_str()?;
    String::from_utf8(data_url(source)?).ok()
}

/// What makes it a node.
pub(super) struct Settings {
    pub(super) kubeconfig: String,
    pub(super) max_pods: u32,
    pub(super) annotations: BTreeMap<String, String>,
    /// `v1.32.5`.
    pub(super) kubelet: String,
    /// `4.19.3`.
    pub(super) release: String,
}

impl Settings {
    pub(super) fn os_image(&self) -> String {
        format!("Red Hat Enterprise Linux CoreOS {} (simulated)", self.release)
    }

    pub(super) fn read(config: &Value) -> Result<Settings, String> {
        let kubeconfig = file(config, path::KUBECONFIG)
            .ok_or_else(|| format!("the config has no {}", path::KUBECONFIG))?;
        let json = |at: &str| -> Value {
            file(config, at).and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default()
        };
        let (kubelet, about, marks) = (json(path::KUBELET), json(path::RELEASE), json(path::ANNOTATIONS));
        let marks = marks.as_object().cloned().unwrap_or_default();
        let text = |k: &str| about[k].as_str().unwrap_or_default().trim_start_matches('v').to_owned();
        let pods = kubelet["maxPods"].as_u64().and_then(|n| u32::try_from(n).ok());
        Ok(Settings {
            kubeconfig,
            max_pods: pods.unwrap_or(250),
            annotations: marks.into_iter().filter_map(|(k, v)| Some((k, v.as_str()?.to_owned()))).collect(),
            kubelet: format!("v{}", text("kubernetes")),
            release: text("version"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_of_both_kinds_are_read() {
        assert_eq!(data_url("data:,a%20b").unwrap(), b"a b");
        assert_eq!(data_url("data:text/plain;base64,aGk=").unwrap(), b"hi");
        assert!(data_url("https://x").is_none() && data_url("data:,%zz").is_none());
    }
}
