//! Flags.

use clap::Args as ClapArgs;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `zaffre serve ignition-server`.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// The namespace of the control plane, whose token Secrets are served
    #[arg(long, env = "MY_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// How to reach the management cluster; inside of it, its service account if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Certificate to serve with; read again when it is replaced
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/ignition/serving-cert/tls.crt")]
    pub cert_file: PathBuf,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/ignition/serving-cert/tls.key")]
    pub key_file: PathBuf,
    /// Serve machines here
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9090")]
    pub address: SocketAddr,
    /// Serve /metrics here
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,
    /// FeatureGate of the release; kubelets are told of it
    #[arg(long, value_name = "FILE")]
    pub feature_gate_manifest: Option<PathBuf>,
    /// Where to read images instead: SOURCE=MIRROR, separated by commas
    #[arg(long, value_name = "LIST", default_value = "")]
    pub registry_overrides: String,
    /// The cloud; Azure is the one there is
    #[arg(long, value_name = "NAME", default_value = "Azure", value_parser = ["Azure"])]
    pub platform: String,
    /// Make payloads by this program, and not here: it reads a JSON document and writes an Ignition config
    #[arg(long, value_name = "FILE")]
    pub payload_command: Option<PathBuf>,
}
