//! Everything that is written for a pool, as files; and what settings change, as differences.

use crate::pools::{cluster, pool};
use crate::samples;
use crate::world::{boot_images, release};
use apis::hypershift::{HostedCluster, NodePool};
use hypershift::Payload;
use hypershift::nodepool::capacity::Capacity;
use hypershift::nodepool::config::Way;
use hypershift::nodepool::machines::{self, Fleet, Has, Refs};
use hypershift::nodepool::rollout::{Rollout, Wish};
use hypershift::nodepool::secrets::{self, Boot, Said};
use hypershift::nodepool::{name, template};
use serde_json::{Value, json};

fn objects(hc: &Value, np: &Value) -> Vec<Value> {
    let hc: HostedCluster = serde_json::from_value(hc.clone()).unwrap();
    let np: NodePool = serde_json::from_value(np.clone()).unwrap();
    let status = json!({"controlPlaneEndpoint": {"host": "20.1.2.3", "port": 7443}});
    let way = Way::of(&hc, &status, true).unwrap();
    let payload = Payload { release: release("4.20.3"), arch: None, boot: boot_images("4.20.3") };
    let rollout = Rollout::of(&Wish {
        hc: &hc,
        way: &way,
        manifests: &[],
        tuned: &[],
        ssh_key: Some("ssh-ed25519 AAAA demo"),
        version: "4.20.3",
        proxy_image: match way.image() {
            "haproxy-router" => "quay.example/haproxy",
            other => other,
        },
    });
    let azure = np.spec.platform.azure.as_ref().unwrap();
    let image = template::image(azure, np.spec.arch, &payload).unwrap();
    let machine = template::object(&hc, &np, template::machine(&hc, azure, image));
    let said = Said {
        release: &np.spec.release.image,
        version: "4.20.3",
        pull_secret: b"{}",
        trust_bundle: None,
        cloud_config: None,
        daemon_image: "quay.example/machine-config-operator",
    };
    let token = secrets::token(&hc, &np, &rollout, &said).unwrap();
    let boot = Boot { endpoint: "ignition.example", ca: b"CA", token: "0-0-0", hash: &rollout.hash };
    let mut stub = secrets::user_data(&hc, &np, &boot);
    // Readable: what is in it, not how it is packed.
    stub["data"]["value"] = secrets::stub(&hc, &np, &boot);
    let refs = Refs {
        data_secret: secrets::user_data_name(name(&np), &rollout.hash),
        template: machine["metadata"]["name"].as_str().unwrap().to_owned(),
        version: "4.20.3".into(),
    };
    let size = machines::replicas(&np, None);
    let fleet = Fleet { size, most: None, has: &has(&np) };
    let workload = match machines::is_in_place(&np) {
        true => machines::set(&hc, &np, &fleet, &refs, &rollout.hash),
        false => machines::deployment(&hc, &np, &fleet, &refs),
    };
    let documents: Vec<Value> =
        rollout.payload.split("\n---\n").map(|d| serde_json::from_str(d).unwrap()).collect();
    let mut all = vec![token, stub, machine, workload, machines::check(&hc, &np)];
    all.extend(documents);
    all
}

/// As Azure's list of sizes would say.
fn has(np: &NodePool) -> Has {
    match np.spec.auto_scaling {
        Some(_) => Has::Of(Capacity { cpus: 4, memory_mb: 16384, gpus: 0, arch: "amd64" }),
        None => Has::Nothing,
    }
}

fn text(hc: &Value, np: &Value) -> String {
    let all: Vec<String> = objects(hc, np).iter().map(|o| serde_saphyr::to_string(o).unwrap()).collect();
    all.join("---\n")
}

fn differs(hc: &Value, np: &Value) -> String {
    let (a, b) = (text(&cluster(), &pool("np", |_| {})), text(hc, np));
    similar::TextDiff::from_lines(&a, &b).unified_diff().context_radius(2).to_string()
}

#[test]
fn pools_of_every_sort() {
    testkit::golden!("pool.yaml", &text(&cluster(), &pool("np", |_| {})));
    let everything = pool("np", |o| {
        o["metadata"]["annotations"] = json!({"hypershift.openshift.io/machine-health-check-timeout": "3m"});
        let spec = &mut o["spec"];
        spec.as_object_mut().unwrap().remove("replicas");
        spec["autoScaling"] = json!({"min": 0, "max": 9});
        spec["arch"] = json!("amd64");
        spec["nodeDrainTimeout"] = json!("10m");
        spec["nodeVolumeDetachTimeout"] = json!("5m");
        spec["nodeLabels"] = json!({"team": "blue", "example.com/tier": "web"});
        spec["taints"] = json!([{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]);
        spec["management"] = json!({"upgradeType": "Replace", "autoRepair": true,
            "replace": {"strategy": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}});
        let azure = &mut spec["platform"]["azure"];
        azure["encryptionAtHost"] = json!("Disabled");
        azure["osDisk"] = json!({"sizeGiB": 64, "diskStorageAccountType": "StandardSSD_LRS", "persistence": "Ephemeral",
            "encryptionSetID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/g/providers/Microsoft.Compute/diskEncryptionSets/d"});
        azure["image"] = json!({"type": "ImageID", "imageID": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/i"});
        azure["diagnostics"] = json!({"storageAccountType": "UserManaged", "userManaged": {"storageAccountURI": "https://a.blob.core.windows.net/"}});
    });
    testkit::golden!("pool-everything.diff", &differs(&cluster(), &everything));
    let in_place = pool("np", |o| {
        o["spec"]["management"] = json!({"upgradeType": "InPlace", "inPlace": {"maxUnavailable": "50%"}});
        o["spec"]["platform"]["azure"].as_object_mut().unwrap().remove("availabilityZone");
        o["spec"]["platform"]["azure"]["image"] =
            json!({"type": "AzureMarketplace", "azureMarketplace": {"imageGeneration": "Gen1"}});
    });
    testkit::golden!("pool-in-place.diff", &differs(&cluster(), &in_place));
    let mut managed = samples::managed();
    managed["spec"]["configuration"] =
        json!({"proxy": {"httpsProxy": "http://proxy:3128", "noProxy": ".svc, 10.0.0.0/16"}});
    managed["spec"]["fips"] = json!(true);
    managed["spec"]["imageContentSources"] = json!([{"source": "quay.io", "mirrors": ["m.example/quay"]}]);
    managed["spec"]["platform"]["azure"]["containerRegistry"] = json!({"credentials": {"type": "ManagedIdentity", "managedIdentity": {
        "resourceID": "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/acr"}}});
    let on_delete = pool("np", |o| o["spec"]["management"]["replace"] = json!({"strategy": "OnDelete"}));
    testkit::golden!("pool-managed.diff", &differs(&managed, &on_delete));
}

/// The static pod by which nodes reach the API, and whether HAProxy is configured beside it.
fn way(hc: &Value) -> (Value, bool) {
    let all = objects(hc, &pool("np", |_| {}));
    let config = all.iter().find(|o| o["metadata"]["name"] == "20-apiserver-haproxy").unwrap();
    let files = config["spec"]["config"]["storage"]["files"].as_array().unwrap();
    let at = |path: &str| files.iter().find(|f| f["path"].as_str().unwrap().ends_with(path));
    let source = at("kube-apiserver-proxy.yaml").unwrap()["contents"]["source"].as_str().unwrap();
    let bytes = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        source.split_once("base64,").unwrap().1,
    );
    (serde_json::from_slice(&bytes.unwrap()).unwrap(), at("haproxy.cfg").is_some())
}

#[test]
fn nodes_ask_the_clusters_proxy_for_the_api_where_it_is_in_between() {
    let behind = |hc: Value, none: &str| {
        let mut hc = hc;
        hc["spec"]["configuration"] =
            json!({"proxy": {"httpsProxy": "http://ann:secret@proxy.corp:3128", "noProxy": none}});
        way(&hc)
    };
    let (pod, haproxy) = behind(cluster(), ".svc");
    testkit::golden!("pool-proxied-pod.yaml", &serde_saphyr::to_string(&pod).unwrap());
    assert!(!haproxy, "nothing runs that would read it");
    // Excepted by the user; shared with others, who must be told whose connection it is; inside the network.
    let mut private = cluster();
    private["spec"]["platform"]["azure"]["topology"] = json!("Private");
    let mut shared = samples::managed();
    shared["spec"]["platform"]["azure"]["topology"] = json!("Public");
    for (hc, none) in [(cluster(), "20.1.2.0/24"), (private, ""), (shared, "")] {
        let (pod, haproxy) = behind(hc, none);
        assert_eq!(pod["spec"]["containers"][0]["name"], "haproxy", "{none}");
        assert!(haproxy);
    }
}

#[test]
fn nodes_go_to_the_shared_ingress_only_where_it_is_in_front_of_the_api() {
    let status = json!({"controlPlaneEndpoint": {"host": "api.example.com", "port": 443}});
    let to = |hc: &Value, ingress: bool| {
        let way = Way::of(&serde_json::from_value(hc.clone()).unwrap(), &status, ingress).unwrap();
        (way.to, way.cluster_id.is_some())
    };
    let routed = samples::managed();
    assert_eq!(to(&routed, true), (6443, true));
    assert_eq!(to(&routed, false), (443, false), "a Route of the management cluster");
    let mut balanced = routed;
    balanced["spec"]["services"][0]["servicePublishingStrategy"] = json!({"type": "LoadBalancer"});
    assert_eq!(to(&balanced, true), (443, false), "a balancer of its own");
    assert_eq!(to(&cluster(), true), (443, false), "no cluster of the managed service");
}
