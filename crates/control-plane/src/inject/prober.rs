//! An initial container that waits until the guest API serves what is needed.

use crate::component::Prober;
use crate::pod::Pod;
use serde_json::json;

pub fn add(prober: &Prober, pod: &mut Pod<'_>) {
    let mut command: Vec<String> =
        ["/usr/bin/zaffre", "serve", "availability-prober", "--target", "https://kube-apiserver:6443/readyz"]
            .map(str::to_owned)
            .into();
    let mut container = json!({"name": "availability-prober", "image": "zaffre"});
    if let Some(secret) = prober.kubeconfig {
        let volume = pod.secret_volume(secret, "prober-kubeconfig");
        command.push("--kubeconfig=/var/kubeconfig/kubeconfig".into());
        container["volumeMounts"] = json!([{"name": volume, "mountPath": "/var/kubeconfig"}]);
    }
    command.extend(prober.apis.iter().map(|api| format!("--required-api={api}")));
    command.extend(prober.more.iter().map(|flag| (*flag).to_owned()));
    container["command"] = json!(command);
    pod.add_init(container, true);
}
