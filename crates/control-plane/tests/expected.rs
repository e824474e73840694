//! What the OpenShift images expect, as far as the shared specifications say: commands, arguments, variables, mounts,
//! probes, requests of every container of an ARO control plane.
//!
//! Not compared: values of flags and variables (facts of a made-up cluster), scripts (ours), the first word of our own
//! programs (ours, with the same flags), `--feature-gates` (from the cluster), the pre-pull container (kubelets pull in
//! parallel), Secrets (tests/certificates.rs).

use crate::world::{Names, managed};
use control_plane::render;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn containers_are_as_the_images_expect() {
    let Some(path) = testkit::specs("hypershift/components.json") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let spec: Value = serde_json::from_str(&text).unwrap();
    let mut scope = managed();
    scope.management.image_streams = true;
    let rendered = render(&scope, &Names).unwrap();
    let mut wrong: Vec<String> = Vec::new();
    for (name, component) in spec.as_object().unwrap() {
        let Some(ours) = rendered.iter().find(|r| r.name == name) else {
            wrong.push(format!("{name}: not rendered"));
            continue;
        };
        let names: BTreeSet<String> = ours
            .objects
            .iter()
            .map(|o| format!("{}/{}", o["kind"].as_str().unwrap(), o["metadata"]["name"].as_str().unwrap()))
            .collect();
        let workload = ours.objects.last().unwrap();
        let want = &component["workload"];
        let mut expect = |what: String, ok: bool| {
            if !ok {
                wrong.push(format!("{name}: {what}"));
            }
        };
        expect(format!("kind {}", want["kind"]), workload["kind"] == want["kind"]);
        if want["replicas"].is_u64() {
            expect(
                format!("replicas {}", want["replicas"]),
                workload["spec"]["replicas"] == want["replicas"],
            );
        }
        let pod = workload
            .pointer("/spec/template/spec")
            .or_else(|| workload.pointer("/spec/jobTemplate/spec/template/spec"))
            .unwrap();
        expect("priority class".into(), pod["priorityClassName"] == want["priorityClassName"]);
        for object in component["objects"].as_array().unwrap() {
            let object = object.as_str().unwrap().split(' ').next().unwrap();
            // The class for keys is written once, with that of the operator, by whoever writes its Deployment.
            let class = object == "SecretProviderClass/managed-azure-kms";
            let elsewhere = class || object.starts_with("Secret/") || object.starts_with("Route/");
            expect(format!("object {object}"), elsewhere || names.contains(object));
        }
        for (list, containers) in
            [("initContainers", &want["initContainers"]), ("containers", &want["containers"])]
        {
            for c in containers.as_array().into_iter().flatten() {
                let cname = c["name"].as_str().unwrap();
                if cname == "pre-pull-image-kube-apiserver" {
                    continue;
                }
                let found = pod[list].as_array().into_iter().flatten().find(|x| x["name"] == cname);
                let Some(found) = found else {
                    expect(format!("{list} {cname}"), false);
                    continue;
                };
                for miss in differences(c, found) {
                    expect(format!("{cname}: {miss}"), false);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn strings(v: &Value) -> Vec<String> {
    v.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
}

/// The flag of an argument, without its value.
fn flag(arg: &str) -> String {
    arg.split('=').next().unwrap_or(arg).to_owned()
}

fn differences(want: &Value, ours: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let own = ours["command"][0] == "/usr/bin/zaffre";
    if !own && strings(&want["command"]).first() != strings(&ours["command"]).first() {
        out.push(format!("command {} is {}", want["command"], ours["command"]));
    }
    let (wanted, have) = (
        [strings(&want["command"]), strings(&want["args"])].concat(),
        [strings(&ours["command"]), strings(&ours["args"])].concat(),
    );
    let flags: BTreeSet<String> = have.iter().map(|a| flag(a)).collect();
    for arg in wanted.iter().filter(|a| a.starts_with('-')) {
        if flag(arg) != "--feature-gates" && !flags.contains(&flag(arg)) {
            out.push(format!("argument {arg}"));
        }
    }
    let env: BTreeSet<&str> =
        ours["env"].as_array().into_iter().flatten().filter_map(|e| e["name"].as_str()).collect();
    for (name, value) in want["env"].as_object().into_iter().flatten() {
        if !env.contains(name.as_str()) && value != "" {
            out.push(format!("variable {name}"));
        }
    }
    let mounts: BTreeSet<&str> = ours["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| m["mountPath"].as_str())
        .collect();
    for (_, path) in want["mounts"].as_object().into_iter().flatten() {
        if !mounts.contains(path.as_str().unwrap()) {
            out.push(format!("mount {path}"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (w, o) = (&want[probe], &ours[probe]);
        if w.is_object() != o.is_object() {
            out.push(format!("{probe}: wanted {}, ours {}", w.is_object(), o.is_object()));
        }
        for field in ["periodSeconds", "timeoutSeconds", "failureThreshold", "initialDelaySeconds"] {
            if w[field] != o[field] {
                out.push(format!("{probe}.{field}: {} is {}", w[field], o[field]));
            }
        }
    }
    if want["requests"].is_object() && want["requests"] != ours["resources"]["requests"] {
        out.push(format!("requests {} are {}", want["requests"], ours["resources"]["requests"]));
    }
    out
}
