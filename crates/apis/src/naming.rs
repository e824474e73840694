//! Names that follow from other names.

use clock::Random;

/// Letters and digits that cannot be mistaken for each other or form words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many of them tell infraIDs of one name from each other.
const RANDOM: usize = 5;

/// The namespace of a cluster's control plane.
pub fn control_plane_namespace(namespace: &str, name: &str) -> String {
    format!("{namespace}-{}", name.replace('.', "-"))
}

/// A new infraID: the cluster's name, cut and cleaned, and five random characters.
pub fn infra_id(cluster: &str, random: &Random) -> String {
    let mut base = String::new();
    for c in cluster.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            base.push(c);
        } else if !base.is_empty() && !base.ends_with('-') {
            base.push('-');
        }
    }
    base.truncate(21);
    let base = base.trim_end_matches('-');
    let base = if base.is_empty() { "cluster" } else { base };
    let suffix: String = (0..RANDOM).map(|_| char::from(ALPHABET[random.below(ALPHABET.len())])).collect();
    format!("{base}-{suffix}")
}

/// Whether an infraID ends as those do that are made here and upstream: then it is part of nobody else's names.
pub fn is_random(infra_id: &str) -> bool {
    infra_id
        .rsplit_once('-')
        .is_some_and(|(_, end)| end.len() == RANDOM && end.bytes().all(|b| ALPHABET.contains(&b)))
}

/// A new clusterID.
pub fn cluster_id(random: &Random) -> String {
    random.uuid()
}

/// Secret with the admin kubeconfig, beside the HostedCluster.
pub fn admin_kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-admin-kubeconfig")
}

/// Secret with the kubeconfig of `kubeAPIServerDNSName`.
pub fn custom_kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-custom-admin-kubeconfig")
}

/// Secret with the password of kubeadmin.
pub fn kubeadmin_password_secret(cluster: &str) -> String {
    format!("{cluster}-kubeadmin-password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_no_dots_from_the_name() {
        assert_eq!(control_plane_namespace("clusters", "a.b.c"), "clusters-a-b-c");
    }

    #[test]
    fn infra_ids_are_short_clean_and_repeatable() {
        let make = |name: &str| infra_id(name, &Random::seeded(7));
        assert_eq!(make("demo"), make("demo"));
        for name in [
            "demo",
            "My.Cluster_with-a-very-long-name",
            "--",
            "é",
            "a-------------------------b",
            "aaaaaaaaaaaaaaaaaaaa-b",
        ] {
            let id = make(name);
            assert!(id.len() <= 27 && !id.starts_with('-') && !id.contains("--"), "{name}: {id}");
            assert!(
                id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{name}: {id}"
            );
        }
        assert!(is_random(&make("demo")) && is_random("demo-x2b4c"));
        for word in ["demo", "prod-stage", "x2b4c", "demo-x2b4", "demo-x2b4c5", ""] {
            assert!(!is_random(word), "{word}");
        }
        assert!(make("My.Cluster").starts_with("my-cluster-"));
        assert!(make("--").starts_with("cluster-"));
    }
}
