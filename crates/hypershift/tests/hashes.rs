//! What rolls nodes: everything that users see in them, and nothing else.

use crate::pools::{cluster, pool};
use crate::world::{boot_images, release};
use apis::hypershift::{HostedCluster, NodePool};
use hypershift::Payload;
use hypershift::inputs::Given;
use hypershift::nodepool::config::{self, Sort, Way};
use hypershift::nodepool::machines::{self, Fleet, Has, Refs};
use hypershift::nodepool::rollout::{Rollout, Wish};
use hypershift::nodepool::template;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Everything that a node is made from.
#[derive(Clone, Debug)]
struct Whole {
    hc: Value,
    maps: Vec<(String, String)>,
    /// What the node tuning operator made.
    tuned: Vec<Value>,
    ssh: String,
    version: String,
    host: String,
    /// Ours to choose.
    image: String,
}

fn given(text: &str) -> Given {
    let data = [("config".to_owned(), text.as_bytes().to_vec())].into();
    Given { data: Arc::new(data), type_: String::new(), placeholder: false }
}

impl Whole {
    fn rollout(&self) -> Rollout {
        let hc: HostedCluster = serde_json::from_value(self.hc.clone()).unwrap();
        let maps: Vec<_> = self.maps.iter().map(|(n, t)| (n.clone(), Some(given(t)))).collect();
        let (manifests, wrong) = config::of_user(Sort::Config, &maps);
        assert!(wrong.is_empty(), "{wrong:?}");
        let status = json!({"controlPlaneEndpoint": {"host": self.host, "port": 7443}});
        let way = Way::of(&hc, &status, true).unwrap();
        Rollout::of(&Wish {
            hc: &hc,
            way: &way,
            manifests: &manifests,
            tuned: &self.tuned,
            ssh_key: Some(&self.ssh),
            version: &self.version,
            proxy_image: &self.image,
        })
    }
}

/// Words are quoted: `n` and `y` are no names in YAML.
fn machine_config(name: &str, argument: &str) -> String {
    format!(
        "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: \"{name}\"\nspec:\n  kernelArguments: [\"{argument}\"]\n"
    )
}

fn whole() -> impl Strategy<Value = Whole> {
    let word = "[a-z]{1,12}";
    (
        proptest::collection::btree_map(word, "[a-z0-9=]{1,20}", 0..4),
        word,
        prop::sample::select(vec!["4.19.3", "4.20.1", "4.22.0", "4.23.1", "5.0.2"]),
        prop::option::of(word),
        prop::option::of(word),
        any::<bool>(),
        word,
    )
        .prop_map(|(configs, ssh, version, bundle, proxy, fips, image)| {
            let mut hc = cluster();
            hc["spec"]["fips"] = json!(fips);
            if let Some(b) = bundle {
                hc["spec"]["additionalTrustBundle"] = json!({"name": b});
            }
            if let Some(p) = proxy {
                hc["spec"]["configuration"] = json!({"proxy": {"httpsProxy": format!("http://{p}:3128")}});
            }
            let maps = configs.iter().map(|(n, a)| (format!("map-{n}"), machine_config(n, a))).collect();
            Whole {
                hc,
                maps,
                tuned: Vec::new(),
                ssh,
                version: version.into(),
                host: "20.1.2.3".into(),
                image: format!("quay.example/{image}"),
            }
        })
}

/// Changes that nobody sees in a node: ours, and ways of writing the same.
fn unseen(w: &Whole, which: usize, word: &str) -> Option<Whole> {
    let mut w = w.clone();
    match which {
        0 => w.image = format!("quay.example/newer-{word}"),
        1 => w.maps.reverse(),
        2 => w.maps.iter_mut().for_each(|(_, t)| *t = format!("# {word}\n---\n{t}\n\n")),
        3 => {
            for (name, text) in &mut w.maps {
                let v: Value = serde_saphyr::from_str(text).unwrap();
                *name = format!("renamed-{name}");
                *text = serde_json::to_string_pretty(&v).unwrap();
            }
        }
        4 => w.ssh = format!("  {}\n", w.ssh),
        5 => w.hc["metadata"]["labels"] = json!({"team": word}),
        6 => w.hc["spec"]["controllerAvailabilityPolicy"] = json!("HighlyAvailable"),
        7 => w.hc["spec"]["release"]["image"] = json!(format!("quay.example/ocp-release:{word}")),
        8 => {
            w.hc["spec"]["configuration"]["oauth"] =
                json!({"tokenConfig": {"accessTokenMaxAgeSeconds": 1000}})
        }
        9 => w.hc["metadata"]["annotations"] = json!({"hypershift.openshift.io/restart-date": word}),
        _ => return None,
    }
    Some(w)
}

/// Changes that users make and see.
fn seen(w: &Whole, which: usize, word: &str) -> Option<Whole> {
    let mut w = w.clone();
    match which {
        0 => w.maps.push((format!("more-{word}"), machine_config(&format!("new-{word}"), word))),
        1 => w.maps.first_mut()?.1.push_str("  fips: true\n"),
        2 => w.maps.pop().map(|_| ())?,
        3 => w.ssh = format!("other-{word}"),
        4 => w.hc["spec"]["fips"] = json!(w.hc["spec"]["fips"] != true),
        5 => w.hc["spec"]["pullSecret"]["name"] = json!(format!("other-{word}")),
        6 => w.hc["spec"]["additionalTrustBundle"] = json!({"name": format!("other-{word}")}),
        7 => w.hc["spec"]["configuration"]["proxy"]["noProxy"] = json!(format!("{word}.example")),
        8 => {
            w.hc["spec"]["configuration"]["image"] =
                json!({"registrySources": {"insecureRegistries": [word]}})
        }
        9 => w.hc["spec"]["imageContentSources"] = json!([{"source": word, "mirrors": ["m.example"]}]),
        10 => w.host = format!("api.{word}.example"),
        11 => w.tuned.push(serde_saphyr::from_str(&machine_config(&format!("50-nto-{word}"), word)).unwrap()),
        _ => return None,
    }
    Some(w)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn only_what_users_see_rolls_nodes(w in whole(), word in "[a-z]{1,12}") {
        let base = w.rollout();
        prop_assert_eq!(&w.rollout(), &base, "the same twice");
        for i in 0.. {
            let Some(other) = unseen(&w, i, &word) else { break };
            let r = other.rollout();
            prop_assert_eq!((&r.hash, &r.config), (&base.hash, &base.config), "change {} is nobody's business", i);
        }
        for i in 0..12 {
            // Some need a configuration to change.
            let Some(other) = seen(&w, i, &word) else { continue };
            let r = other.rollout();
            prop_assert_ne!(&r.hash, &base.hash, "change {} rolls", i);
            prop_assert_ne!(&r.config, &base.config, "change {} is one of the configuration", i);
        }
        // Another version rolls, and is no change of the configuration.
        let newer = Whole { version: if w.version == "4.20.1" { "4.20.2" } else { "4.20.1" }.into(), ..w.clone() };
        let r = newer.rollout();
        prop_assert_ne!(&r.hash, &base.hash);
        prop_assert_eq!(&r.config, &base.config);
        // A newer image of ours reaches whoever boots next.
        let image = unseen(&w, 0, &word).unwrap();
        prop_assert_ne!(image.rollout().payload, base.payload);
    }
}

/// A pool after a change, as far as it rolls machines: what they are cloned from and what they boot with. Timeouts are no
/// part of it: Cluster API changes them in place.
fn rolls(change: impl FnOnce(&mut Value)) -> (String, Value) {
    let hc: HostedCluster = serde_json::from_value(cluster()).unwrap();
    let np: NodePool = serde_json::from_value(pool("np", change)).unwrap();
    let azure = np.spec.platform.azure.as_ref().unwrap();
    let payload = Payload { release: release("4.20.3"), arch: None, boot: boot_images("4.20.3") };
    let image = template::image(azure, np.spec.arch, &payload).unwrap();
    let machine = template::object(&hc, &np, template::machine(&hc, azure, image));
    let name = machine["metadata"]["name"].as_str().unwrap().to_owned();
    let refs = Refs {
        data_secret: "user-data-np-12345678".into(),
        template: name.clone(),
        version: "4.20.3".into(),
    };
    let fleet = Fleet { size: machines::replicas(&np, None), most: None, has: &Has::Nothing };
    let mut template = machines::deployment(&hc, &np, &fleet, &refs)["spec"]["template"]["spec"].take();
    for free in ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout"] {
        template.as_object_mut().map(|t| t.remove(free));
    }
    (name, template)
}

#[test]
fn machines_are_rolled_by_what_they_are_and_by_nothing_around_them() {
    let base = rolls(|_| {});
    let around: [(&str, fn(&mut Value)); 8] = [
        ("labels", |o| o["spec"]["nodeLabels"] = json!({"team": "blue"})),
        ("taints", |o| o["spec"]["taints"] = json!([{"key": "a", "value": "b", "effect": "NoSchedule"}])),
        ("timeouts", |o| {
            o["spec"]["nodeDrainTimeout"] = json!("10m");
            o["spec"]["nodeVolumeDetachTimeout"] = json!("5m");
        }),
        ("replicas", |o| o["spec"]["replicas"] = json!(7)),
        ("autoscaling", |o| {
            o["spec"].as_object_mut().unwrap().remove("replicas");
            o["spec"]["autoScaling"] = json!({"min": 1, "max": 5});
        }),
        ("repair", |o| o["spec"]["management"]["autoRepair"] = json!(false)),
        ("steps", |o| {
            o["spec"]["management"]["replace"] =
                json!({"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}})
        }),
        ("notes", |o| o["metadata"]["annotations"] = json!({"example.com/mine": "x"})),
    ];
    for (what, change) in around {
        assert_eq!(rolls(change), base, "{what}");
    }
    let of_it: [(&str, fn(&mut Value)); 5] = [
        ("size", |o| o["spec"]["platform"]["azure"]["vmSize"] = json!("Standard_D8s_v5")),
        ("disk", |o| o["spec"]["platform"]["azure"]["osDisk"]["sizeGiB"] = json!(200)),
        ("zone", |o| o["spec"]["platform"]["azure"]["availabilityZone"] = json!("2")),
        ("diagnostics", |o| {
            o["spec"]["platform"]["azure"]["diagnostics"] = json!({"storageAccountType": "Managed"})
        }),
        ("subnet", |o| {
            let subnet = &mut o["spec"]["platform"]["azure"]["subnetID"];
            *subnet = json!(subnet.as_str().unwrap().replace("subnets/default", "subnets/other"));
        }),
    ];
    for (what, change) in of_it {
        let (name, _) = rolls(change);
        assert_ne!(name, base.0, "{what}");
    }
}

#[test]
fn what_cannot_be_used_is_named_with_its_place() {
    let maps = vec![
        ("absent".to_owned(), None),
        ("empty".to_owned(), Some(Given { data: Arc::default(), type_: String::new(), placeholder: false })),
        ("garbage".to_owned(), Some(given("a: [b"))),
        (
            "pod".to_owned(),
            Some(given(&format!(
                "{}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n",
                machine_config("a", "x")
            ))),
        ),
        (
            "nameless".to_owned(),
            Some(given("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec: {}\n")),
        ),
        ("twice".to_owned(), Some(given(&machine_config("a", "y")))),
        (
            "listed".to_owned(),
            Some(given(
                "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata: {name: b, labels: []}\n",
            )),
        ),
        (
            "worded".to_owned(),
            Some(given(
                "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: c}\nspec: x\n",
            )),
        ),
    ];
    let (good, wrong) = config::of_user(Sort::Config, &maps);
    assert_eq!(good.len(), 1);
    assert_eq!(good[0]["metadata"]["labels"]["machineconfiguration.openshift.io/role"], "worker");
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    for (said, words) in wrong.iter().zip([
        ["absent", "spec.config"],
        ["empty", "no key config"],
        ["garbage", "document 0"],
        ["pod, document 1", "MachineConfig, KubeletConfig"],
        ["nameless", "metadata.name"],
        ["MachineConfig a is in ConfigMap pod", "ConfigMap twice"],
        ["listed, document 0: metadata.labels of MachineConfig b is no map", "leave it out"],
        ["worded, document 0: spec of KubeletConfig c is no map", "field: value"],
    ]) {
        assert!(words.iter().all(|w| said.contains(w)), "{said}: {words:?}");
    }
    assert_eq!(wrong.len(), 8);
}
