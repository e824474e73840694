//! The prober's flags.

use clap::builder::NonEmptyStringValueParser;

/// `group,version,kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredApi {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl std::str::FromStr for RequiredApi {
    type Err = String;

    fn from_str(text: &str) -> Result<RequiredApi, String> {
        let bad = || format!("{text:?} is not group,version,kind, such as operator.openshift.io,v1,Storage");
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let [group, version, kind] = words[..] else { return Err(bad()) };
        // They become part of a path.
        let plain = |w: &str| w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
        if version.is_empty() || kind.is_empty() || !words.iter().all(|w| plain(w)) {
            return Err(bad());
        }
        Ok(RequiredApi { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
    }
}

impl std::fmt::Display for RequiredApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.group, self.version, self.kind)
    }
}

/// `namespace/label=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodsOf {
    pub namespace: String,
    pub selector: String,
}

impl std::str::FromStr for PodsOf {
    type Err = String;

    fn from_str(text: &str) -> Result<PodsOf, String> {
        let parts = text.split_once('/').filter(|(ns, s)| !ns.is_empty() && s.contains('='));
        let (namespace, selector) = parts.ok_or_else(|| format!("{text:?} is not namespace/label=value"))?;
        Ok(PodsOf { namespace: namespace.to_owned(), selector: selector.to_owned() })
    }
}

impl std::fmt::Display for PodsOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.selector)
    }
}

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Wait until a GET of this is answered with 2xx
    ///
    /// Nothing is sent and nothing but the status is read. The certificate is checked against the authority of
    /// --kubeconfig; without one it is not checked.
    #[arg(long, value_name = "URL")]
    pub target: http::Uri,
    /// The guest's kubeconfig; what follows is looked for with it
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub kubeconfig: Option<String>,
    /// Wait until the API serves this kind (repeatable)
    #[arg(long = "required-api", value_name = "GROUP,VERSION,KIND", requires = "kubeconfig")]
    pub required_apis: Vec<RequiredApi>,
    /// Wait until Infrastructure "cluster" (config.openshift.io/v1) is there
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub wait_for_infrastructure_resource: bool,
    /// Wait until this ClusterRoleBinding is there
    #[arg(long, value_name = "NAME", requires = "kubeconfig", value_parser = NonEmptyStringValueParser::new())]
    pub wait_for_cluster_rolebinding: Option<String>,
    /// Wait until there are no pods with this label
    #[arg(long, value_name = "NAMESPACE/LABEL=VALUE", requires = "kubeconfig")]
    pub wait_for_labeled_pods_gone: Option<PodsOf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_read_or_refused() {
        let api: RequiredApi = "operator.openshift.io,v1,Storage".parse().unwrap();
        assert_eq!(
            (api.group.as_str(), api.version.as_str(), api.kind.as_str()),
            ("operator.openshift.io", "v1", "Storage")
        );
        assert_eq!(",v1,Secret".parse::<RequiredApi>().unwrap().group, "");
        for bad in ["", "a,b", "a,b,c,d", "a,,c", "a/../b,v1,C"] {
            assert!(bad.parse::<RequiredApi>().unwrap_err().contains("group,version,kind"), "{bad}");
        }
        assert_eq!("ns/name=x".parse::<PodsOf>().unwrap().to_string(), "ns/name=x");
        assert!("ns".parse::<PodsOf>().is_err() && "/a=b".parse::<PodsOf>().is_err());
    }

    #[test]
    fn words_as_control_planes_have_them() {
        let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let good = words(&[
            "--target",
            "https://kube-apiserver:6443/readyz",
            "--kubeconfig=/var/kubeconfig/kubeconfig",
            "--required-api=operator.openshift.io,v1,Network",
            "--required-api=network.operator.openshift.io,v1,EgressRouter",
            "--wait-for-infrastructure-resource",
            "--wait-for-cluster-rolebinding=cluster-network-operator",
        ]);
        let args: Args = crate::parse("availability-prober", &good).unwrap();
        assert_eq!(args.required_apis.len(), 2);
        assert!(args.wait_for_infrastructure_resource);
        let off = words(&["--target", "https://a/", "--wait-for-infrastructure-resource=false"]);
        let args: Args = crate::parse("availability-prober", &off).unwrap();
        assert!(!args.wait_for_infrastructure_resource);
        let alone = words(&["--target", "https://a/", "--required-api=a,b,c"]);
        let e = crate::parse::<Args>("availability-prober", &alone).unwrap_err().to_string();
        assert!(e.contains("--kubeconfig"), "{e}");
        assert!(!e.contains('\n'), "{e}");
    }
}
