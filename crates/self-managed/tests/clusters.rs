//! Hosted clusters and node pools.

use crate::samples::{self, bare_cluster, cluster, inputs, pool};
use self_managed::documents;
use self_managed::nodepool::Owner;

#[test]
fn what_flags_become() {
    for (name, line, infra) in samples::lines() {
        let mut files = inputs(&infra);
        if name == "self-managed-full" {
            files.ssh_key = Some(b"ssh-ed25519 AAAA demo".to_vec());
            files.trust_bundle = Some("-----BEGIN CERTIFICATE-----\n".into());
            files.image_content_sources =
                Some(serde_json::json!([{"source": "quay.io/a", "mirrors": ["mirror.example.com/a"]}]));
        }
        let objects = cluster(line).objects(&files).unwrap();
        testkit::golden!(&format!("cluster-{name}.yaml"), &documents::terminated(&objects).unwrap());
    }
}

#[test]
fn one_more_pool() {
    let (owner, object) = samples::extra_pool();
    testkit::golden!("nodepool.yaml", &documents::joined(&[object]).unwrap());
    let refused = pool("--arch arm64").object(&owner).unwrap_err().to_string();
    assert!(refused.contains("--arch") && refused.contains("AMD64"), "{refused}");
    let elsewhere = Owner { platform: "AWS".into(), ..owner };
    let refused = pool("").object(&elsewhere).unwrap_err().to_string();
    assert!(
        ["--cluster-name", "demo", "AWS", "spec.platform.type"].iter().all(|w| refused.contains(w)),
        "{refused}"
    );
}

#[test]
fn nodes_fit_their_cluster() {
    let said = |nodes: &str, cluster: &str| {
        let owner = Owner {
            name: "demo".into(),
            platform: "Azure".into(),
            nodes: nodes.parse().ok(),
            completed: cluster.parse().ok(),
            ..Owner::default()
        };
        pool("").object(&owner).map(drop).map_err(|e| e.to_string())
    };
    for (nodes, cluster) in [("4.20.1", "4.20.1"), ("4.17.9", "4.20.1"), ("4.20.0", "5.0.1"), ("", "4.20.1")]
    {
        assert_eq!(said(nodes, cluster), Ok(()), "{nodes} {cluster}");
    }
    assert_eq!(said("4.21.0", ""), Ok(()), "a cluster that is being made has not completed anything");
    let newer = said("4.20.2", "4.20.1").unwrap_err();
    assert!(
        newer.contains("--release-image") && newer.contains("upgrade cluster demo -n clusters --to 4.20.2"),
        "{newer}"
    );
    let older = said("4.16.9", "4.20.1").unwrap_err();
    assert!(older.contains("--release-image") && older.contains("4 minors behind"), "{older}");
}

/// Each line, both flags that its refusal names, and a word of the fix.
#[test]
fn flags_that_do_not_fit_together() {
    let with_infra = [
        ("--ssh-key k --generate-ssh", "--ssh-key", "--generate-ssh"),
        ("--release-stream 4-stable", "--release-image", "--release-stream"),
        ("--wait", "--wait", "--node-pool-replicas"),
        ("--infra-id x", "--infra-id", "--infra-json"),
        ("--vnet-id x", "--vnet-id", "--infra-json"),
        ("--assign-custom-hcp-roles", "--assign-custom-hcp-roles", "--infra-json"),
        ("--managed-identities-file m", "--managed-identities-file", "--data-plane-identities-file"),
        ("--data-plane-identities-file m", "--data-plane-identities-file", "--managed-identities-file"),
        (
            "--managed-identities-file m --data-plane-identities-file d --workload-identities-file w",
            "--managed-identities-file",
            "--workload-identities-file",
        ),
        ("--sa-token-issuer-private-key-path k", "--sa-token-issuer-private-key-path", "--oidc-issuer-url"),
        (
            "--oauth-publishing-strategy LoadBalancer --managed-identities-file m --data-plane-identities-file d",
            "--oauth-publishing-strategy",
            "--managed-identities-file",
        ),
        (
            "--endpoint-access-private-nat-subnet-id x",
            "--endpoint-access-private-nat-subnet-id",
            "--endpoint-access",
        ),
        (
            "--base-domain example.com --external-dns-domain demo.example.com",
            "--external-dns-domain",
            "--base-domain example.com",
        ),
        (
            "--base-domain example.com --external-dns-domain example.com",
            "--external-dns-domain",
            "--base-domain example.com",
        ),
        ("--disable-multi-network", "--disable-multi-network", "--network-type Other"),
        ("--allocate-node-cidrs", "--allocate-node-cidrs", "--network-type Other"),
        (
            "--ovn-kubernetes-mtu 1400 --network-type Other",
            "--ovn-kubernetes-mtu",
            "--network-type OVNKubernetes",
        ),
        ("--service-cidr 10.132.0.0/14", "--service-cidr", "--cluster-cidr"),
        (
            "--enable-cluster-capabilities Console --disable-cluster-capabilities Console",
            "--enable-cluster-capabilities",
            "--disable-cluster-capabilities",
        ),
        ("--encryption-key-id https://v/keys/a", "--encryption-key-id", "https://VAULT.vault.azure.net"),
        ("--kms-credentials-secret-name k", "--kms-credentials-secret-name", "--encryption-key-id"),
        ("--marketplace-offer o", "--marketplace-offer", "--marketplace-publisher"),
        (
            "--diagnostics-storage-account-type UserManaged",
            "--diagnostics-storage-account-type",
            "--diagnostics-storage-account-uri",
        ),
        ("--diagnostics-storage-account-uri https://x", "--diagnostics-storage-account-uri", "UserManaged"),
        ("--pausedUntil tomorrow", "--pausedUntil", "2030-01-02T15:04:05Z"),
        ("--pausedUntil 2030-13-02T15:04:05Z", "--pausedUntil", "2030-01-02T15:04:05Z"),
        (
            "--disable-cluster-capabilities Consoles",
            "--disable-cluster-capabilities \"Consoles\"",
            "Console, ",
        ),
        ("--enable-cluster-capabilities console", "--enable-cluster-capabilities", "openshift-samples"),
        (
            "--disable-cluster-capabilities Ingress",
            "--disable-cluster-capabilities Ingress needs",
            "--disable-cluster-capabilities Console",
        ),
        ("--etcd-storage-size 8Gb", "--etcd-storage-size", "8Gi"),
        ("--etcd-storage-size 0", "--etcd-storage-size", "8Gi"),
        ("--kas-dns-name https://api", "--kas-dns-name", "api.example.com"),
        ("--oidc-issuer-url http://oidc.example", "--oidc-issuer-url", "https://"),
        (
            "--endpoint-access Private --endpoint-access-private-additional-allowed-subscriptions mine",
            "--endpoint-access-private-additional-allowed-subscriptions",
            "az account list",
        ),
        ("--namespace Clusters", "--namespace", "lower-case"),
        ("--availability-zone 1 --availability-zones 1,2", "--availability-zone", "--availability-zones"),
        ("--availability-zones 1,2,1", "--availability-zones", "each once"),
    ];
    for (line, first, second) in with_infra {
        let said = cluster(line).check().expect_err(line).to_string();
        assert!(said.contains(first) && said.contains(second), "{line}: {said}");
    }
    let without = [
        ("--render --release-image r --workload-identities-file w", "--render", "--infra-json"),
        ("--render-into f --release-image r --workload-identities-file w", "--render-into", "--infra-json"),
        ("--render --infra-json i", "--render", "--release-image"),
        ("--render-into f --infra-json i", "--render-into needs", "--release-image"),
        ("--workload-identities-file w", "--base-domain", "--infra-json"),
        ("--base-domain example.com", "--workload-identities-file", "create iam azure"),
        (
            "--base-domain b.example --workload-identities-file w --network-security-group-id n",
            "--network-security-group-id",
            "--resource-group-name",
        ),
        ("--base-domain b.example --workload-identities-file w --vnet-id n", "--vnet-id", "--subnet-id"),
        (
            "--base-domain b.example --workload-identities-file w --assign-service-principal-roles",
            "--assign-service-principal-roles",
            "--dns-zone-rg-name",
        ),
    ];
    for (line, first, second) in without {
        let said = bare_cluster(line).check().expect_err(line).to_string();
        assert!(said.contains(first) && said.contains(second), "{line}: {said}");
    }
    // Together they are the name of a namespace.
    let long = "n".repeat(55);
    let mut args = cluster("");
    args.name.clone_from(&long);
    let said = args.check().unwrap_err().to_string();
    let plane = format!("clusters-{long}, 64 characters");
    assert!(["--name", "--namespace clusters", &plane].iter().all(|w| said.contains(w)), "{said}");
    args.name.truncate(54);
    assert_eq!(args.check(), Ok(()));
    assert!(pool(&format!("--name {}", "p".repeat(63))).check().is_ok());
    let said = pool(&format!("--name {}", "p".repeat(64))).check().unwrap_err().to_string();
    assert!(said.contains("--name") && said.contains("63"), "{said}");
    // A plan is no flag.
    let mut plan = bare_cluster("--release-image r --workload-identities-file w");
    plan.planned = true;
    let said = plan.check().unwrap_err().to_string();
    assert!(said.starts_with("plan needs --infra-json") && !said.contains("--render"), "{said}");
    // The file says the domain where no flag does.
    let said = cluster("--external-dns-domain example.com").objects(&inputs(&samples::workload()));
    let said = said.unwrap_err().to_string();
    assert!(said.contains("--external-dns-domain") && said.contains("--infra-json"), "{said}");
    let said = samples::cluster("").objects(&{
        let mut files = inputs(&samples::workload());
        files.infra.kms_client_id = None;
        files
    });
    assert!(said.is_ok());
    let key = "--encryption-key-id https://v.vault.azure.net/keys/etcd/abc";
    let mut files = inputs(&samples::workload());
    files.infra.kms_client_id = None;
    let said = cluster(key).objects(&files).unwrap_err().to_string();
    assert!(said.contains("--enable-kms") && said.contains("kmsClientID"), "{said}");
    let said = cluster(key).objects(&inputs(&samples::managed())).unwrap_err().to_string();
    assert!(said.contains("--kms-credentials-secret-name"), "{said}");
}

/// Files are judged with the flags: whoever reads them does so before anything is made.
#[test]
fn files_that_do_not_fit() {
    let said = |line: &str, change: fn(&mut self_managed::cluster::Inputs)| {
        let mut files = inputs(&samples::workload());
        change(&mut files);
        cluster(line).objects(&files).map(drop).map_err(|e| e.to_string())
    };
    for same in ["", "--base-domain example.com", "--base-domain Example.com."] {
        assert_eq!(said(same, |_| {}), Ok(()), "{same}");
    }
    let other = said("--base-domain example.net", |_| {}).unwrap_err();
    for words in ["--base-domain example.net", "--infra-json", "example.com"] {
        assert!(other.contains(words), "{words}: {other}");
    }
    let key = said("--ssh-key id_rsa", |f| {
        f.ssh_key = Some(b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n".to_vec());
    });
    let key = key.unwrap_err();
    assert!(["--ssh-key", "id_rsa", ".pub"].iter().all(|w| key.contains(w)), "{key}");
    let mirrors = said("--image-content-sources m.yaml", |f| {
        f.image_content_sources = Some(serde_json::json!([{"source": "a", "mirror": "b"}]));
    });
    let mirrors = mirrors.unwrap_err();
    assert!(
        mirrors.contains("--image-content-sources \"m.yaml\"") && mirrors.contains("mirrors"),
        "{mirrors}"
    );
}

#[test]
fn lists_and_words_as_scripts_write_them() {
    let args = cluster(
        "--node-selector role=cp,disk=fast --node-selector a=b --pods-labels tier=gold,team=blue \
         --olm-catalog-placement Guest --node-upgrade-type inplace",
    );
    let all = args.objects(&inputs(&samples::workload())).unwrap();
    let spec = &all.iter().find(|o| o["kind"] == "HostedCluster").unwrap()["spec"];
    assert_eq!(spec["nodeSelector"], serde_json::json!({"a": "b", "disk": "fast", "role": "cp"}));
    assert_eq!(spec["labels"], serde_json::json!({"team": "blue", "tier": "gold"}));
    assert_eq!(spec["olmCatalogPlacement"], "guest");
    assert_eq!(pool("--node-upgrade-type INPLACE").node_upgrade_type.as_str(), "InPlace");
}

#[test]
fn infrastructure_that_is_none() {
    use self_managed::infra::Infra;
    for (text, word) in [
        ("[1, 2]", "create infra azure"),
        ("infraID: x\n", "baseDomain"),
        (&samples::workload().replace("westus2", "\"\""), "region"),
        (samples::workload().split("workloadIdentities").next().unwrap(), "neither workloadIdentities"),
    ] {
        let said = Infra::read(text).unwrap_err().to_string();
        assert!(said.contains(word), "{said}");
    }
    let json = serde_json::json!({"infraID": "a", "baseDomain": "b", "region": "c", "resourceGroupName": "d", "vnetID": "e",
        "subnetID": "f", "securityGroupID": "g", "workloadIdentities": {}, "new": 1});
    assert_eq!(Infra::read(&json.to_string()).unwrap().region, "c");
}

/// What `create nodepool azure` can say of machines, `create cluster azure` says of its first pool.
#[test]
fn a_first_pool_has_a_zone_and_a_subnet_of_its_own() {
    let pool = |line: &str| {
        let all = cluster(line).objects(&inputs(&samples::workload())).unwrap();
        all.into_iter().find(|o| o["kind"] == "NodePool").unwrap()["spec"]["platform"]["azure"].clone()
    };
    let (plain, own) =
        (pool(""), pool("--availability-zone 2 --nodepool-subnet-id /subscriptions/s/x/subnets/nodes"));
    assert!(plain["availabilityZone"].is_null() && plain["subnetID"] != own["subnetID"]);
    assert_eq!(
        (own["availabilityZone"].as_str(), own["subnetID"].as_str()),
        (Some("2"), Some("/subscriptions/s/x/subnets/nodes"))
    );
}
