//! The way into the guest's network: a proxy beside the program, over konnectivity.

use super::ADMIN;
use crate::component::{Tunnel, Vars};
use crate::pod::Pod;
use crate::scope::Scope;
use serde_json::json;

/// The SOCKS proxy's port; the HTTPS proxy's, unless both are there.
const PORT: u16 = 8090;

pub fn add(scope: &Scope, tunnel: &Tunnel, pod: &mut Pod<'_>) {
    let kubeconfig = pod.secret_volume(ADMIN, "admin-kubeconfig");
    pod.volume(json!({"name": "konnectivity-proxy-cert", "secret": {"secretName": "konnectivity-client"}}));
    pod.volume(json!({"name": "konnectivity-proxy-ca", "configMap": {"name": "konnectivity-ca-bundle"}}));
    let (kind, args, vars) = match tunnel {
        Tunnel::Socks5 { args, vars } => ("socks5", (*args).to_vec(), *vars),
        Tunnel::Https { args, vars, .. } => ("https", (*args).to_vec(), *vars),
    };
    let mut all = vec!["run".to_owned()];
    if let Tunnel::Https { port, .. } = tunnel
        && *port != PORT
    {
        all.push(format!("--serving-port={port}"));
    }
    all.extend(args.into_iter().map(str::to_owned));
    pod.add_container(json!({
        "name": format!("konnectivity-proxy-{kind}"),
        "image": "controlplane-operator",
        "command": ["/usr/bin/control-plane-operator", format!("konnectivity-{kind}-proxy")],
        "args": all,
        "env": [{"name": "KUBECONFIG", "value": "/etc/kubernetes/secrets/kubeconfig/kubeconfig"}],
        "volumeMounts": [
            {"name": kubeconfig, "mountPath": "/etc/kubernetes/secrets/kubeconfig"},
            {"name": "konnectivity-proxy-cert", "mountPath": "/etc/konnectivity/proxy-client"},
            {"name": "konnectivity-proxy-ca", "mountPath": "/etc/konnectivity/proxy-ca"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}},
    }));
    let to = match tunnel {
        Tunnel::Socks5 { .. } => format!("socks5://127.0.0.1:{PORT}"),
        Tunnel::Https { port, .. } => format!("http://127.0.0.1:{port}"),
    };
    let Some(mut main) = pod.main() else { return };
    let around = |hosts: &str| hosts.replace("{namespace}", &scope.namespace);
    match vars {
        Vars::None => {}
        Vars::Web(direct) => {
            main.env("HTTP_PROXY", &to).env("HTTPS_PROXY", &to).env("NO_PROXY", around(direct));
        }
        Vars::Grpc(direct) => _ = main.env("GRPC_PROXY", &to).env("NO_PROXY", around(direct)),
        Vars::All => _ = main.env("ALL_PROXY", &to),
    }
}
