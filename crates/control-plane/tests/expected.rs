//! What the OpenShift images expect, as far as the shared specifications say: objects with their ports and keys; labels,
//! account and volumes of every pod of an ARO control plane; commands, arguments, variables, ports, mounts, probes, requests
//! of every container.
//!
//! The cluster here is that of the specifications, so that values can be compared. Not compared: scripts (ours), the first
//! word of our own programs (ours, with the same flags), the pre-pull container (kubelets pull in parallel), Secrets
//! (tests/certificates.rs), values that the specifications leave out. What is meant to differ is in [`MEANT`].

use crate::world::{Names, managed};
use control_plane::scope::*;
use control_plane::{Rendered, publish, render};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How what differs begins, and why it does.
const MEANT: [(&str, &str); 11] = [
    (
        "cluster-image-registry-operator: cluster-image-registry-operator: variable KUBERNETES_SERVICE",
        "elsewhere its script sets them; here they are seen without reading it",
    ),
    ("cluster-version-operator: prepare-payload: variable FEATURE_SET", "its script is ours, and reads it"),
    (
        "konnectivity-agent: konnectivity-agent: --agent-identifiers",
        "addresses of Services, of which the cluster of the specifications has none",
    ),
    (
        "ignition-server-proxy: volume root-ca",
        "what stands behind it has a certificate of the authority that machines trust, not of the control plane's",
    ),
    (
        "kube-apiserver: object SecretProviderClass/managed-azure-kms",
        "written once, with that of the operator, by whoever writes its Deployment",
    ),
    ("kube-controller-manager: kube-controller-manager: --feature-gates", "in its configuration"),
    ("kube-scheduler: kube-scheduler: --feature-gates", "in its configuration"),
    ("kube-apiserver: azure-workload-identity-webhook: variable AZURE_TENANT_ID", "the cluster's tenant"),
    (
        "control-plane-pki-operator: control-plane-pki-operator: variable CERT_ROTATION_SCALE",
        "the installation's",
    ),
    ("etcd: etcd-defrag: container", "members are defragmented where there are several"),
    (
        "hosted-cluster-config-operator: hosted-cluster-config-operator: variable",
        "it writes workloads of the guest that others write elsewhere, and is told their images",
    ),
];

/// The cluster that the specifications were made from.
fn theirs() -> Scope {
    let mut scope = managed();
    scope.management.image_streams = true;
    scope.name = "hcp".into();
    scope.namespace = "hcp-namespace".into();
    scope.infra_id = String::new();
    scope.issuer = "https://test-oidc-bucket.s3.us-east-1.amazonaws.com/test-cluster".into();
    scope.network.service = vec![String::new()];
    let Endpoints { oauth, konnectivity, private_api, .. } = &mut scope.endpoints;
    (oauth.host, oauth.port) = (String::new(), 0);
    (konnectivity.host, konnectivity.port) = (String::new(), 0);
    *private_api = Some("api.hcp.hypershift.local".into());
    if let Some(Encryption::Kms { active, .. }) = &mut scope.encryption {
        (active.vault, active.name) = ("test-kms-keyvault".into(), "test-key".into());
    }
    let image = "quay.io/openshift-release-dev/ocp-release:4.16.10-x86_64";
    scope.guest_image = image.into();
    let images = scope.release.images.keys().map(|k| (k.clone(), k.clone())).collect();
    scope.release = Release {
        image: image.into(),
        version: "4.18.0".into(),
        kubernetes: "1.30.1".into(),
        images: Arc::new(images),
        ours: OURS.into(),
        registry_overrides: "registry=override".into(),
    };
    scope
}

/// The image with our own programs, and what the specifications call those.
const OURS: &str = "zaffre";
const PROGRAMS: [&str; 8] = [
    "hypershift",
    "controlplane-operator",
    "controlplane-pki-operator",
    "hosted-cluster-config-operator",
    "availability-prober",
    "token-minter",
    "socks5-proxy",
    "ignition-server",
];

#[test]
fn components_are_as_the_images_expect() {
    let Some(path) = testkit::specs("hypershift/components.json") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    let (rendered, published) = (render(&theirs(), &Names).unwrap(), publish::objects(&theirs()));
    let mut wrong: Vec<String> = Vec::new();
    for (name, component) in spec.as_object().unwrap() {
        let found = match rendered.iter().find(|r| r.name == name) {
            Some(ours) => differences(component, ours, &published),
            None => vec!["not rendered".to_owned()],
        };
        wrong.extend(found.into_iter().map(|d| format!("{name}: {d}")));
    }
    wrong.retain(|d| !MEANT.iter().any(|(begin, _)| d.starts_with(begin)));
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

fn map(v: &Value) -> impl Iterator<Item = (&str, &Value)> {
    v.as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), v))
}

fn strings(v: &Value) -> Vec<String> {
    list(v).filter_map(|s| s.as_str().map(str::to_owned)).collect()
}

/// Values that the specifications leave out, or that are somebody else's to fill in.
fn left_out(text: &str) -> bool {
    text.starts_with('<') || text == "from:imagestream"
}

fn differences(component: &Value, ours: &Rendered, published: &[Value]) -> Vec<String> {
    let mut out = Vec::new();
    for object in list(&component["objects"]).filter_map(Value::as_str) {
        let mut words = object.split(' ');
        let id = words.next().unwrap();
        if id.starts_with("Secret/") {
            continue;
        }
        // Routes come before components.
        let mut all = ours.objects.iter().chain(published);
        let found = all.find(|o| format!("{}/{}", text(&o["kind"]), text(&o["metadata"]["name"])) == id);
        let Some(found) = found else {
            out.push(format!("object {id}"));
            continue;
        };
        let said = said(found);
        let missing = words.filter(|w| !said.contains(&(*w).to_owned()));
        out.extend(missing.map(|w| format!("object {id}: {w} is {said:?}")));
    }
    let workload = ours.objects.last().unwrap();
    let want = &component["workload"];
    let template = workload
        .pointer("/spec/template")
        .or_else(|| workload.pointer("/spec/jobTemplate/spec/template"))
        .unwrap();
    let pod = &template["spec"];
    let mut same = |what: &str, want: &Value, have: &Value| {
        if want != have {
            out.push(format!("{what} {want} is {have}"));
        }
    };
    same("kind", &want["kind"], &workload["kind"]);
    if want["replicas"].is_u64() {
        same("replicas", &want["replicas"], &workload["spec"]["replicas"]);
    }
    for field in ["priorityClassName", "serviceAccountName", "automountServiceAccountToken"] {
        same(field, &want[field], &pod[field]);
    }
    for label in list(&want["labels"]).filter_map(Value::as_str) {
        same(
            "label",
            &json!(label),
            &template["metadata"]["labels"].get(label).map_or(Value::Null, |_| json!(label)),
        );
    }
    let volumes: BTreeMap<&str, String> =
        list(&pod["volumes"]).map(|v| (text(&v["name"]), source(v))).collect();
    for (name, wanted) in map(&want["volumes"]) {
        same(&format!("volume {name}"), wanted, &json!(volumes.get(name)));
    }
    for kind in ["initContainers", "containers"] {
        for wanted in list(&want[kind]) {
            let name = text(&wanted["name"]);
            if name == "pre-pull-image-kube-apiserver" {
                continue;
            }
            match list(&pod[kind]).find(|c| c["name"] == name) {
                Some(found) => out.extend(container(wanted, found).iter().map(|d| format!("{name}: {d}"))),
                None => out.push(format!("{name}: no such container in {kind}")),
            }
        }
        let further = list(&pod[kind]).filter(|c| !list(&want[kind]).any(|w| w["name"] == c["name"]));
        out.extend(further.map(|c| format!("{}: container beyond", text(&c["name"]))));
    }
    out
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// A port by name or number.
fn plain(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}

/// What the specifications say of an object besides its name.
fn said(object: &Value) -> Vec<String> {
    let port = |p: &Value| format!("{}:{}->{}", text(&p["name"]), p["port"], plain(&p["targetPort"]));
    let all = |list: Vec<String>| list.join(",");
    let mut out = vec![
        format!("ports:{}", all(list(&object["spec"]["ports"]).map(port).collect())),
        format!("keys:{}", all(map(&object["data"]).map(|(k, _)| k.to_owned()).collect())),
    ];
    out.extend((object["spec"]["clusterIP"] == "None").then(|| "headless".to_owned()));
    out
}

/// Where a volume comes from.
fn source(volume: &Value) -> String {
    let kind = map(volume).map(|(k, _)| k).find(|k| *k != "name").unwrap_or_default();
    let from = &volume[kind];
    let optional = if from["optional"] == true { " optional" } else { "" };
    match kind {
        "secret" => format!("secret:{}{optional}", text(&from["secretName"])),
        "configMap" => format!("configmap:{}{optional}", text(&from["name"])),
        "emptyDir" if from["medium"].is_string() => format!("emptyDir:{}", text(&from["medium"])),
        "csi" => format!(
            "csi:{} {{\"secretProviderClass\": {}}}",
            text(&from["driver"]),
            from["volumeAttributes"]["secretProviderClass"]
        ),
        _ => kind.to_owned(),
    }
}

/// Flags with all their values, and the words between them.
fn arguments(container: &Value) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
    let words = [strings(&container["command"]), strings(&container["args"])].concat();
    let (mut flags, mut rest) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            rest.push(word);
            continue;
        }
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), value.to_owned()),
            None => (word, words.next_if(|w| !w.starts_with('-')).unwrap_or_default()),
        };
        flags.entry(flag).or_default().push(value);
    }
    (flags, rest)
}

fn container(want: &Value, ours: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let own = ours["command"][0] == "/usr/bin/zaffre";
    let image = |v: &Value| if PROGRAMS.contains(&text(v)) { OURS.to_owned() } else { text(v).to_owned() };
    if image(&want["image"]) != image(&ours["image"]) && !left_out(text(&want["image"])) {
        out.push(format!("image {} is {}", want["image"], ours["image"]));
    }
    let ((wanted, words), (have, our_words)) = (arguments(want), arguments(ours));
    // Lists and scripts are told by a word in brackets.
    let listed = [&wanted.values().flatten().cloned().collect(), &words]
        .iter()
        .any(|l: &&Vec<String>| l.iter().any(|w| left_out(w)));
    for (flag, values) in &wanted {
        match have.get(flag) {
            None => out.push(format!("{flag} is not there")),
            Some(_) if ["-c", "-ec"].contains(&flag.as_str()) || values.iter().any(|v| left_out(v)) => {}
            Some(ours) if ours != values => out.push(format!("{flag} {values:?} is {ours:?}")),
            Some(_) => {}
        }
    }
    let beyond = have.keys().filter(|f| !(wanted.contains_key(*f) || listed && f.ends_with("cipher-suites")));
    out.extend(beyond.map(|f| format!("{f} is beyond")));
    let missing = words.iter().skip(usize::from(own)).filter(|w| !left_out(w) && !our_words.contains(w));
    out.extend(missing.map(|w| format!("word {w} is not in {our_words:?}")));
    let env: BTreeMap<&str, &Value> = list(&ours["env"]).map(|e| (text(&e["name"]), e)).collect();
    for (name, wanted) in map(&want["env"]) {
        let have = env.get(name).map(|e| match &e["valueFrom"]["fieldRef"]["fieldPath"] {
            Value::String(field) => json!(format!("fieldRef:{field}")),
            _ => json!(text(&e["value"])),
        });
        match have {
            None if wanted == "" => {}
            None => out.push(format!("variable {name} is not there")),
            Some(_) if left_out(text(wanted)) => {}
            Some(have) if image(wanted) != image(&have) => {
                out.push(format!("variable {name} {wanted} is {have}"))
            }
            Some(_) => {}
        }
    }
    let beyond = env.keys().filter(|k| want["env"][**k].is_null());
    out.extend(beyond.map(|k| format!("variable {k} is beyond")));
    let ports: BTreeMap<String, &Value> = list(&ours["ports"])
        .map(|p| {
            (
                p["name"].as_str().map_or_else(|| p["containerPort"].to_string(), str::to_owned),
                &p["containerPort"],
            )
        })
        .collect();
    let wanted: BTreeMap<String, &Value> = map(&want["ports"]).map(|(k, v)| (k.to_owned(), v)).collect();
    if ports != wanted {
        out.push(format!("ports {wanted:?} are {ports:?}"));
    }
    let mounts: BTreeSet<(String, &str)> = list(&ours["volumeMounts"])
        .map(|m| {
            let sub = m["subPath"].as_str().map(|s| format!("[{s}]")).unwrap_or_default();
            (format!("{}{sub}", text(&m["name"])), text(&m["mountPath"]))
        })
        .collect();
    for (volume, path) in map(&want["mounts"]) {
        if !mounts.contains(&(volume.to_owned(), text(path))) {
            out.push(format!("mount {volume} at {path} is not in {mounts:?}"));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (w, o) = (&want[kind], &ours[kind]);
        for field in ["periodSeconds", "timeoutSeconds", "failureThreshold", "initialDelaySeconds"] {
            if w[field] != o[field] {
                out.push(format!("{kind}.{field}: {} is {}", w[field], o[field]));
            }
        }
        if asks(w) != asked(o) {
            out.push(format!("{kind} asks {} and ours {}", asks(w), asked(o)));
        }
    }
    if want["requests"].is_object() && want["requests"] != ours["resources"]["requests"] {
        out.push(format!("requests {} are {}", want["requests"], ours["resources"]["requests"]));
    }
    if want["restartPolicy"] != ours["restartPolicy"] {
        out.push(format!("restartPolicy {} is {}", want["restartPolicy"], ours["restartPolicy"]));
    }
    out
}

/// What a probe of the specifications asks; kubelets put a slash before a path that has none.
fn asks(probe: &Value) -> String {
    match &probe["http"] {
        Value::String(http) => http.replacen('/', "", 1),
        _ => probe["exec"].to_string(),
    }
}

fn asked(probe: &Value) -> String {
    let http = &probe["httpGet"];
    if http.is_null() {
        return probe["exec"]["command"].to_string();
    }
    let scheme = http["scheme"].as_str().unwrap_or("HTTP");
    format!("{scheme} {}{}", plain(&http["port"]), text(&http["path"]).trim_start_matches('/'))
}
