//! The manifests of a pool: MachineConfigs and what is turned into such.

use crate::provider::Refused;
use serde_json::Value;

/// Manifests of one pool.
const MOST: usize = 512;

pub struct MachineConfig {
    pub name: String,
    pub ignition: Value,
}

/// A pool's configuration, sorted by what it is.
#[derive(Default)]
pub struct Pool {
    /// In order of name.
    pub machine_configs: Vec<MachineConfig>,
    /// `spec.kubeletConfig`, in order of name.
    pub kubelets: Vec<(String, Value)>,
    /// `spec.containerRuntimeConfig`.
    pub runtimes: Vec<(String, Value)>,
    /// Source and mirrors of registries, as ICSP and IDMS say.
    pub mirrors: Vec<(String, Vec<String>)>,
    /// What the operating system is told at boot, beyond files.
    pub kernel_arguments: Vec<String>,
}

impl Pool {
    /// Manifests, with `---` between.
    pub fn read(config: &str) -> Result<Pool, Refused> {
        let mut pool = Pool::default();
        let documents = config.split("\n---\n").map(str::trim).filter(|d| !d.is_empty() && *d != "---");
        for (n, text) in documents.enumerate() {
            if n >= MOST {
                return Err(Refused::invalid(format!("the pool has more than {MOST} manifests")));
            }
            let parsed: Result<Value, _> = serde_saphyr::from_str(text.trim_start_matches("---\n"));
            // The parser's words may quote the manifest, and with it a secret.
            let value = parsed
                .map_err(|_| Refused::invalid(format!("manifest {} of the pool is not YAML", n + 1)))?;
            pool.add(&value)?;
        }
        pool.machine_configs.sort_by(|a, b| a.name.cmp(&b.name));
        pool.kubelets.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(pool)
    }

    fn add(&mut self, manifest: &Value) -> Result<(), Refused> {
        let kind = manifest["kind"].as_str().unwrap_or_default();
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = &manifest["spec"];
        match kind {
            "MachineConfig" => {
                let words = spec["kernelArguments"].as_array().into_iter().flatten();
                self.kernel_arguments.extend(words.filter_map(Value::as_str).map(str::to_owned));
                self.machine_configs.push(MachineConfig { name, ignition: spec["config"].clone() });
            }
            "KubeletConfig" => self.kubelets.push((name, spec["kubeletConfig"].clone())),
            "ContainerRuntimeConfig" => self.runtimes.push((name, spec["containerRuntimeConfig"].clone())),
            "ImageContentSourcePolicy" => self.mirror(&spec["repositoryDigestMirrors"]),
            "ImageDigestMirrorSet" => self.mirror(&spec["imageDigestMirrors"]),
            _ => {
                return Err(Refused::invalid(format!(
                    "{kind} {name:?} is nothing that payloads made here can hold: use MachineConfig, KubeletConfig, ContainerRuntimeConfig, ImageContentSourcePolicy or ImageDigestMirrorSet, or have payloads made by a command (--payload-command)"
                )));
            }
        }
        Ok(())
    }

    fn mirror(&mut self, list: &Value) {
        for one in list.as_array().into_iter().flatten() {
            let mirrors = one["mirrors"].as_array().into_iter().flatten();
            let mirrors = mirrors.filter_map(Value::as_str).map(str::to_owned).collect();
            self.mirrors.push((one["source"].as_str().unwrap_or_default().to_owned(), mirrors));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_sorted_by_what_they_are() {
        let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: 99-b}\nspec: {config: {ignition: {version: 3.2.0}}, kernelArguments: [nosmt]}\n---\nkind: MachineConfig\nmetadata: {name: 20-a}\nspec: {}\n---\nkind: KubeletConfig\nmetadata: {name: k}\nspec: {kubeletConfig: {maxPods: 100}}\n---\nkind: ImageDigestMirrorSet\nspec: {imageDigestMirrors: [{source: quay.io/a, mirrors: [m.example/a]}]}";
        let pool = Pool::read(text).unwrap();
        let names: Vec<_> = pool.machine_configs.iter().map(|m| m.name.as_str()).collect();
        assert_eq!((names, pool.kernel_arguments), (vec!["20-a", "99-b"], vec!["nosmt".to_owned()]));
        assert_eq!(pool.kubelets[0].1["maxPods"], 100);
        assert_eq!(pool.mirrors, [("quay.io/a".to_owned(), vec!["m.example/a".to_owned()])]);
        assert!(Pool::read("").unwrap().machine_configs.is_empty());
    }

    #[test]
    fn what_cannot_be_held_is_refused_and_nothing_is_quoted() {
        let e = Pool::read("kind: ClusterImagePolicy\nmetadata: {name: signed}").err().unwrap();
        assert!(e.message.contains("ClusterImagePolicy") && e.message.contains("--payload-command"), "{e}");
        let e = Pool::read("a: {secret-word").err().unwrap();
        assert!(!e.message.contains("secret-word"), "{e}");
    }
}
