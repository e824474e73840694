//! The minter's flags.

use crate::KubeconfigFrom;
use clap::builder::NonEmptyStringValueParser;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Namespace of the guest's service account
    #[arg(long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub service_account_namespace: String,
    /// Name of the guest's service account; made if it is not there
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub service_account_name: String,
    /// Whom the token is for
    #[arg(long, value_name = "AUDIENCE", default_value = "openshift", value_parser = NonEmptyStringValueParser::new())]
    pub token_audience: String,
    /// Where the token is kept; replaced as a whole, never empty
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/run/secrets/openshift/serviceaccount/token",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub token_file: String,
    /// The guest's kubeconfig
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/kubernetes/kubeconfig",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub kubeconfig: String,
    /// Read the guest's kubeconfig from a Secret of the management cluster instead (key kubeconfig): its namespace
    #[arg(
        long,
        value_name = "NAMESPACE",
        requires = "kubeconfig_secret_name",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub kubeconfig_secret_namespace: Option<String>,
    /// Name of that Secret
    #[arg(
        long,
        value_name = "NAME",
        requires = "kubeconfig_secret_namespace",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub kubeconfig_secret_name: Option<String>,
    /// Mint once and end: status 0 if the file was written, 1 if not
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
    pub oneshot: bool,
}

impl Args {
    pub(super) fn account(&self) -> String {
        format!("{}/{}", self.service_account_namespace, self.service_account_name)
    }

    pub(super) fn kubeconfig_from(&self) -> KubeconfigFrom {
        match (&self.kubeconfig_secret_namespace, &self.kubeconfig_secret_name) {
            (Some(namespace), Some(name)) => {
                KubeconfigFrom::Secret { namespace: namespace.clone(), name: name.clone() }
            }
            _ => KubeconfigFrom::File(self.kubeconfig.clone()),
        }
    }
}
