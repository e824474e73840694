//! Facts are read from the object as users write it; what cannot be used is named.

use crate::world::{release, self_managed};
use apis::hypershift::HostedControlPlane;
use control_plane::facts::{Around, read};
use control_plane::scope::*;
use serde_json::{Value, json};

fn around() -> Around {
    Around {
        release: release("4.19.3"),
        management: self_managed().management,
        given: [("api", "20.1.2.3"), ("openshift-apiserver", "10.96.0.11")]
            .map(|(key, given)| (key, given.to_owned()))
            .into(),
        vault_reader: "00000000-0000-0000-0000-0000000000aa".into(),
    }
}

const SUB: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups";

pub fn object() -> Value {
    let id = |n: u8| json!({"clientID": format!("00000000-0000-0000-0000-00000000000{n}")});
    let service = |s: &str, strategy: Value| json!({"service": s, "servicePublishingStrategy": strategy});
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {"name": "demo", "namespace": "clusters-demo"},
        "spec": {
            "releaseImage": "quay.example/ocp-release:4.19.3", "infraID": "demo-x7k2p", "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11",
            "issuerURL": "https://demooidc.blob.core.windows.net/demooidc",
            "dns": {"baseDomain": "example.com"}, "sshKey": {"name": "ssh-key"}, "pullSecret": {"name": "pull-secret"},
            "controllerAvailabilityPolicy": "SingleReplica",
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}},
            "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
            "services": [
                service("APIServer", json!({"type": "LoadBalancer"})),
                service("OAuthServer", json!({"type": "Route", "route": {"hostname": "oauth-demo.hc.example.com"}})),
                service("Konnectivity", json!({"type": "Route", "route": {"hostname": "konnectivity-demo.hc.example.com"}})),
                service("Ignition", json!({"type": "Route", "route": {"hostname": "ignition-demo.hc.example.com"}})),
            ],
            "platform": {"type": "Azure", "azure": {
                "location": "eastus", "resourceGroup": "demo-demo-x7k2p", "tenantID": "11111111-1111-1111-1111-111111111111",
                "subscriptionID": "22222222-2222-2222-2222-222222222222",
                "vnetID": format!("{SUB}/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/demo-demo-x7k2p"),
                "subnetID": format!("{SUB}/demo-vnet-demo-x7k2p/providers/Microsoft.Network/virtualNetworks/demo-demo-x7k2p/subnets/default"),
                "securityGroupID": format!("{SUB}/demo-nsg-demo-x7k2p/providers/Microsoft.Network/networkSecurityGroups/demo-demo-x7k2p-nsg"),
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                    "cloudProvider": id(0), "nodePoolManagement": id(1), "controlPlaneOperator": id(2), "ingress": id(3),
                    "network": id(4), "disk": id(5), "file": id(6), "imageRegistry": id(7)}},
            }},
            "capabilities": {"disabled": ["Console"]},
        },
    })
}

/// The other flavour.
pub fn with_managed_identities(o: &mut Value) {
    let uuid = |n: u8| format!("00000000-0000-0000-0000-00000000000{n}");
    let m = |n: &str| json!({"credentialsSecretName": format!("{n}-creds"), "objectEncoding": "utf-8"});
    o["spec"]["platform"]["azure"]["azureAuthenticationConfig"] = json!({
        "azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": {
            "controlPlane": {"managedIdentitiesKeyVault": {"name": "kv", "tenantID": uuid(9)},
                "cloudProvider": m("cp"), "nodePoolManagement": m("np"), "controlPlaneOperator": m("cpo"),
                "ingress": m("in"), "network": m("net"), "disk": m("disk"), "file": m("file"),
                "imageRegistry": m("ir")},
            "dataPlane": {"imageRegistryMSIClientID": uuid(1), "diskMSIClientID": uuid(2), "fileMSIClientID": uuid(3)}}});
}

fn scope(change: impl FnOnce(&mut Value)) -> Result<Scope, control_plane::facts::Unusable> {
    let mut o = object();
    change(&mut o);
    let hcp: HostedControlPlane = serde_json::from_value(o).unwrap();
    read(&hcp, &around())
}

#[test]
fn what_a_user_writes_is_what_is_rendered() {
    let s = scope(|_| {}).unwrap();
    assert_eq!((s.name.as_str(), s.namespace.as_str()), ("demo", "clusters-demo"));
    assert_eq!(s.azure.vnet.group, "demo-vnet-demo-x7k2p");
    assert_eq!(s.azure.security_group.name, "demo-demo-x7k2p-nsg");
    assert_eq!(s.azure.subnet, "default");
    assert_eq!(
        (s.endpoints.api.host.as_str(), s.endpoints.api.port),
        ("20.1.2.3", 7443),
        "what the balancer was given"
    );
    assert_eq!(s.endpoints.oauth.publish, Publish::Route);
    assert_eq!(s.identity.client_id(Who::File), Some("00000000-0000-0000-0000-000000000006"));
    assert_eq!(s.configuration["ingress"]["domain"], "apps.demo.example.com");
    assert_eq!(s.network.advertise.to_string(), "172.20.0.1");
    assert!(!s.capable("Console") && s.capable("Ingress") && !s.ha() && s.oauth());
    assert_eq!(s.endpoints.aggregated, [("openshift-apiserver", "10.96.0.11".parse().unwrap())].into());
    let names = |r: Vec<control_plane::Rendered>| r.iter().map(|r| r.name).collect::<Vec<_>>();
    let ours = names(control_plane::render(&s, &crate::world::Names).unwrap());
    assert_eq!(ours, names(control_plane::render(&self_managed(), &crate::world::Names).unwrap()));
}

#[test]
fn what_is_on_and_how_nodes_come_and_go_is_the_users_choice() {
    let plain = scope(|_| {}).unwrap();
    assert!(!plain.capable("baremetal") && plain.capable("marketplace"));
    assert_eq!(plain.autoscaling, Autoscaling::default());
    let chosen = scope(|o| {
        o["spec"]["capabilities"] = json!({"enabled": ["baremetal"], "disabled": ["Insights"]});
        o["spec"]["autoscaling"] = json!({"scaling": "ScaleUpOnly", "maxNodesTotal": 7});
    });
    let chosen = chosen.unwrap();
    assert!(chosen.capable("baremetal") && chosen.capable("Console") && !chosen.capable("Insights"));
    assert_eq!(chosen.autoscaling.scaling.as_str(), "ScaleUpOnly");
    assert_eq!(chosen.autoscaling.max_nodes_total, Some(7));
}

#[test]
fn the_other_flavour_comes_from_the_object_alone() {
    let s = scope(|o| {
        with_managed_identities(o);
        o["metadata"]["annotations"] = json!({"hypershift.openshift.io/swift-pod-network-instance": "pni"});
    })
    .unwrap();
    assert!(s.identity.managed());
    assert_eq!(s.identity.secret(Who::Disk).unwrap().name, "disk-creds");
    assert_eq!(s.reach, Reach::Swift("pni".into()));
    assert_eq!(s.endpoints.private_api.as_deref(), Some("api.demo.hypershift.local"));
}

fn without_names(o: &mut Value, topology: &str) {
    o["spec"]["platform"]["azure"]["topology"] = json!(topology);
    o["spec"]["platform"]["azure"]["private"] = json!({"type": "PrivateLink"});
    for service in o["spec"]["services"].as_array_mut().unwrap() {
        service["servicePublishingStrategy"] = json!({"type": "Route"});
    }
}

/// What users gave no name has one in the private zone, which leads to the private router.
#[test]
fn private_names_are_those_of_the_private_zone() {
    let hosts = |topology: &str| {
        let mut o = object();
        without_names(&mut o, topology);
        let hcp: HostedControlPlane = serde_json::from_value(o).unwrap();
        let s = read(&hcp, &Around { given: Default::default(), ..around() }).unwrap();
        let e = &s.endpoints;
        [&e.api, &e.oauth, &e.konnectivity, &e.ignition].map(|e| e.host.clone())
    };
    let (konnectivity, ignition) =
        ("konnectivity-server.apps.demo.hypershift.local", "ignition-server.apps.demo.hypershift.local");
    let api = "api.demo.hypershift.local";
    assert_eq!(hosts("Private"), [api, "oauth.apps.demo.hypershift.local", konnectivity, ignition]);
    assert_eq!(hosts("PublicAndPrivate"), ["", "", konnectivity, ignition]);
}

/// Nothing of a private cluster is published to everybody.
#[test]
fn a_private_cluster_has_no_public_way_in() {
    let published = |topology: &str| {
        let s = scope(|o| {
            o["spec"]["platform"]["azure"]["topology"] = json!(topology);
            if topology != "Public" {
                o["spec"]["platform"]["azure"]["private"] = json!({"type": "PrivateLink"});
            }
        });
        let s = s.unwrap();
        (control_plane::publish::objects(&s), control_plane::policies(&s))
    };
    let (objects, policies) = published("Private");
    for o in &objects {
        let m = &o["metadata"];
        match o["kind"].as_str().unwrap() {
            "Route" => assert_eq!(m["labels"]["hypershift.openshift.io/route-visibility"], "private", "{m}"),
            _ if o["spec"]["type"] == "LoadBalancer" => {
                assert_eq!(
                    m["annotations"]["service.beta.kubernetes.io/azure-load-balancer-internal"],
                    "true"
                );
            }
            _ => {}
        }
    }
    let ingress = |all: &[Value]| all.iter().any(|p| p["metadata"]["name"] == "openshift-ingress");
    assert!(!ingress(&policies));
    let (objects, policies) = published("PublicAndPrivate");
    let text = serde_json::to_string(&objects).unwrap();
    assert!(!text.contains("route-visibility") && !text.contains("load-balancer-internal"), "{text}");
    assert!(ingress(&policies));
}

#[test]
fn what_is_waited_for_is_named() {
    let mut o = object();
    without_names(&mut o, "PublicAndPrivate");
    o["spec"]["services"][0]["servicePublishingStrategy"] = json!({"type": "LoadBalancer"});
    let hcp: HostedControlPlane = serde_json::from_value(o).unwrap();
    let s = read(&hcp, &Around { given: Default::default(), ..around() }).unwrap();
    let nowhere = control_plane::publish::nowhere(&s);
    assert_eq!(nowhere, [("the API", "Service kube-apiserverlb"), ("the login page", "Route oauth")]);
}

#[test]
fn what_cannot_be_used_is_named() {
    let said = |change: fn(&mut Value)| scope(change).unwrap_err().to_string();
    assert!(
        said(|o| {
            o["spec"]["platform"].as_object_mut().unwrap().remove("azure");
        })
        .starts_with("platform.azure cannot be used")
    );
    assert!(
        said(|o| o["spec"]["platform"]["azure"]["vnetID"] = json!("nonsense"))
            .starts_with("platform.azure.vnetID")
    );
    assert!(
        said(|o| o["spec"]["platform"]["azure"]["securityGroupID"] =
            o["spec"]["platform"]["azure"]["vnetID"].clone())
        .contains("not a Microsoft.Network/networkSecurityGroups")
    );
    assert!(
        said(|o| o["spec"]["platform"]["azure"]["subnetID"] =
            json!(format!("{SUB}/x/providers/Microsoft.Network/virtualNetworks/other/subnets/default")))
        .contains("is not a subnet of vnetID")
    );
    assert!(
        said(|o| o["spec"]["services"].as_array_mut().unwrap().truncate(3))
            .contains("there is no entry for Ignition")
    );
    assert!(
        said(|o| o["spec"]["services"][1]["servicePublishingStrategy"] =
            json!({"type": "NodePort", "nodePort": {"address": "x"}}))
        .contains("use Route or LoadBalancer")
    );
    let annotated = |name: &str, value: &str| {
        let annotations = json!({format!("hypershift.openshift.io/{name}"): value});
        scope(|o| o["metadata"]["annotations"] = annotations).unwrap_err().to_string()
    };
    assert!(annotated("certificate-validity", "a year").contains("certificate-validity cannot be used"));
    assert!(annotated("certificate-validity", "5s").contains("between an hour and ten years"));
    assert!(annotated("certificate-renewal", "30").contains("between 0 and 1"));
    assert!(
        said(|o| o["spec"]["networking"]["apiServer"] = json!({"advertiseAddress": "here"}))
            .contains("is no IP address")
    );
}

#[test]
fn certificates_live_as_annotations_say() {
    let of = |annotations: Value| scope(|o| o["metadata"]["annotations"] = annotations).unwrap().leaves;
    let hours = jiff::SignedDuration::from_hours;
    assert_eq!(of(json!({})), Lives { life: hours(8760), renew_before: hours(720) });
    let (validity, renewal) =
        ("hypershift.openshift.io/certificate-validity", "hypershift.openshift.io/certificate-renewal");
    let lives = of(json!({validity: "2400h", renewal: "0.25"}));
    assert_eq!(lives, Lives { life: hours(2400), renew_before: hours(600) });
    assert_eq!(of(json!({validity: "3h"})).renew_before, hours(1), "not before it begins");
}

#[test]
fn a_name_of_the_users_own_is_read() {
    let s = scope(|o| o["spec"]["kubeAPIServerDNSName"] = json!("api.custom.example.com")).unwrap();
    assert_eq!(s.endpoints.custom_api.as_deref(), Some("api.custom.example.com"));
    let none = scope(|o| o["spec"]["kubeAPIServerDNSName"] = json!("")).unwrap();
    assert_eq!(none.endpoints.custom_api, None);
}

/// The guest sees as much as it asks for, or as much as the management cluster does.
#[test]
fn metrics_are_forwarded_where_the_cluster_says_so() {
    let of = |monitoring: Value| scope(|o| o["spec"]["monitoring"] = monitoring).unwrap().forwarded;
    let forward = |more: Value| json!({"metricsSet": "SRE", "metricsForwarding": more});
    assert_eq!(scope(|_| {}).unwrap().forwarded, None);
    assert_eq!(of(forward(json!({"mode": "None"}))), None);
    assert_eq!(of(forward(json!({"mode": "Forward"}))), Some(MetricsSet::Sre));
    assert_eq!(of(forward(json!({"mode": "Forward", "metricsSet": "All"}))), Some(MetricsSet::All));
}
