//! Other names of this program. OpenShift's operators start sidecars out of the image that they are told, by the paths of
//! upstream's: `/usr/bin/control-plane-operator token-minter …`. Our image has links of these names.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The sidecars that others start.
const SIDECARS: [&str; 2] = ["token-minter", "availability-prober"];

/// A command line as it would be under our own name.
pub fn words(called: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = called.into_iter().collect();
    let Some(name) = words.first().and_then(|w| Path::new(w).file_name()).map(OsStr::to_owned) else {
        return words;
    };
    let sidecar = |w: &OsStr| SIDECARS.into_iter().any(|s| w == OsStr::new(s));
    if name == OsStr::new("control-plane-operator") && words.get(1).is_some_and(|w| sidecar(w)) {
        words.splice(..1, ["zaffre", "serve"].map(OsString::from));
    } else if sidecar(&name) {
        words.splice(..1, ["zaffre".into(), "serve".into(), name]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::cli::{Cli, Command, Serve, ServeWhat};
    use clap::Parser;
    use std::ffi::OsString;

    fn called(line: &[&str]) -> Vec<OsString> {
        words(line.iter().map(OsString::from))
    }

    /// As the operators of storage and network write it into their Deployments, and as links are called.
    #[test]
    fn operators_of_openshift_find_the_token_minter() {
        let flags = [
            "--service-account-namespace=openshift-cluster-csi-drivers",
            "--service-account-name=azure-disk-csi-driver-controller-sa",
            "--token-audience=openshift",
            "--token-file=/var/run/secrets/openshift/serviceaccount/token",
            "--kubeconfig=/etc/hosted-kubernetes/kubeconfig",
        ];
        for name in [
            &["/usr/bin/control-plane-operator", "token-minter"][..],
            &["control-plane-operator", "token-minter"],
            &["/usr/bin/token-minter"],
            &["/usr/bin/zaffre", "serve", "token-minter"],
        ] {
            let line = called(&[name, &flags].concat());
            let cli = Cli::try_parse_from(&line).unwrap_or_else(|e| panic!("{name:?}: {e}"));
            let Command::Serve(Serve { what: ServeWhat::TokenMinter(args) }) = cli.command else {
                panic!("{name:?} is {:?}", cli.command)
            };
            assert_eq!(args.service_account_name, "azure-disk-csi-driver-controller-sa");
            assert_eq!(args.kubeconfig, "/etc/hosted-kubernetes/kubeconfig");
        }
    }

    #[test]
    fn nothing_else_changes() {
        for line in [
            &["/usr/bin/zaffre", "status"][..],
            &["zaffre", "token-minter"],
            &["/usr/bin/control-plane-operator", "kas-bootstrap"],
            &["control-plane-operator"],
            &[],
        ] {
            assert_eq!(called(line), line);
        }
    }
}
