//! The releases of this world: OpenShift versions with an image for everything that a control plane runs.
//!
//! Their images are named `<registry>/ocp/<key>@sha256:…`, one digest per version and key, so that pods of two versions
//! differ as they do in reality and [`pattern`] finds the program behind each.

use azure::oci::Digest;
use control_plane::table;
use release::{BootImages, Payload};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A z-stream apart, and two y-streams.
pub const VERSIONS: [&str; 4] = ["4.19.3", "4.19.4", "4.20.1", "4.21.0"];

/// Images that are named by code and not by a manifest of the table.
const MORE: [&str; 24] = [
    "hypershift",
    "cli",
    "azure-kms-encryption-provider",
    "docker-builder",
    "deployer",
    "operator-registry",
    "cluster-capi-controllers",
    "azure-cluster-api-controllers",
    "azure-cloud-node-manager",
    "azure-disk-csi-driver",
    "azure-disk-csi-driver-operator",
    "azure-file-csi-driver",
    "azure-file-csi-driver-operator",
    "csi-external-provisioner",
    "csi-external-attacher",
    "csi-node-driver-registrar",
    "csi-livenessprobe",
    "machine-config-operator",
    "ovn-kubernetes",
    "docker-registry",
    "console",
    "coredns",
    "kube-rbac-proxy",
    "pod",
];

/// Programs that are in the image of another name.
const ALIASES: [(&str, &str); 3] = [
    ("controlplane-operator", "hypershift"),
    ("controlplane-pki-operator", "hypershift"),
    ("socks5-proxy", "hypershift"),
];

/// The keys of all images that control planes ask a release for.
pub fn keys() -> BTreeSet<String> {
    let mut keys: BTreeSet<String> = MORE.map(str::to_owned).into();
    let texts = table::all().iter().flat_map(|c| [Some(c.workload), c.objects]).flatten();
    for text in texts {
        let images = text.lines().filter_map(|l| l.trim().trim_start_matches("- ").strip_prefix("image: "));
        let words = text.split("{{image:").skip(1).filter_map(|p| p.split("}}").next());
        keys.extend(images.chain(words).map(str::to_owned));
    }
    // Ours, catalogs and the release itself are not part of a release.
    let foreign = |k: &str| k == "zaffre" || k.contains(':') || k.contains('{');
    keys.retain(|k| !foreign(k) && ALIASES.iter().all(|(from, _)| from != k));
    keys
}

/// A pattern of what pods call the image of this key.
pub fn pattern(key: &str) -> String {
    let key = ALIASES.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| *to);
    format!("*/ocp/{key}@*")
}

/// What the release image of a version says.
pub fn payload(registry: &str, version: &str) -> Payload {
    let image = |key: String| {
        let digest = Digest::of(format!("{version} {key}").as_bytes());
        let name = format!("{registry}/ocp/{key}@{digest}");
        (key, name)
    };
    let images: BTreeMap<String, String> = keys().into_iter().map(image).collect();
    let minor: u32 = version.split('.').nth(1).and_then(|m| m.parse().ok()).unwrap_or(0);
    Payload {
        version: version.to_owned(),
        // 4.19 is Kubernetes 1.32, and both count on by one.
        kubernetes: format!("1.{}.{}", minor + 13, 6),
        images,
        boot: boot(minor),
        architectures: ["amd64", "arm64"].map(str::to_owned).into(),
    }
}

/// Images that this Azure's marketplace has.
fn boot(minor: u32) -> BootImages {
    let version = match minor {
        ..=19 => "419.6.20250523",
        20 => "9.6.20251015",
        _ => "9.6.20260301",
    };
    let image =
        |sku: String| json!({"publisher": "azureopenshift", "offer": "aro4", "sku": sku, "version": version});
    let of = |sku: String| json!({"rhel-coreos-extensions": {"marketplace": {"azure": {"no-purchase-plan": {"hyperVGen2": image(sku)}}}}});
    let stream = json!({"architectures": {
        "x86_64": of(format!("4{minor}-v2")), "aarch64": of(format!("aro_4{minor}-arm"))}});
    let map = json!({"data": {"stream": stream.to_string()}});
    // Written three lines above, so it can be read.
    BootImages::read(map.to_string().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_has_a_name_of_its_own_and_versions_differ() {
        let (a, b) = (payload("r.example", "4.19.3"), payload("r.example", "4.20.1"));
        assert_eq!((a.kubernetes.as_str(), b.kubernetes.as_str()), ("1.32.6", "1.33.6"));
        assert!(a.images["hyperkube"].starts_with("r.example/ocp/hyperkube@sha256:"));
        assert_ne!(a.images["hyperkube"], b.images["hyperkube"]);
        let all: BTreeSet<&String> = a.images.values().collect();
        assert_eq!(all.len(), a.images.len());
        assert!(
            keys().contains("etcd")
                && !keys().contains("zaffre")
                && !keys().contains("controlplane-operator")
        );
        assert!(a.boot.0.contains_key("x86_64"), "boot images are read back");
        assert_eq!(pattern("controlplane-operator"), "*/ocp/hypershift@*");
    }
}
