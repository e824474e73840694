//! A management cluster, and control planes in it: minimal manifests with the names, commands and mounts of the real.

use crate::pki::{Pki, client};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ek_auth::pki::Pair;
use ek_engine::{ClusterId, Engine};
use ek_guest::Guests;
use ek_node::{NodeSpec, Nodes, Options, StageSet};
use ek_server::registry::table_name;
use ek_server::{Access, ApiServer, ClusterConfig, Deletion, Host, HostConfig, Storage, connect_loopback};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct Kit {
    pub host: Host,
    pub main: ApiServer,
    pub access: Access,
    pub nodes: Nodes,
    pub guests: Guests,
    pub dir: PathBuf,
    /// How often pods of an earlier process had been restarted when this one began, by uid.
    earlier: BTreeMap<String, i64>,
    task: tokio::task::JoinHandle<()>,
}

/// How often the container that a pod is for, its first, was started anew.
fn restarts(pod: &Value) -> i64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0)
}

fn table(name: &str) -> ek_store::TableName {
    let (group, plural) = name.split_once('/').unwrap_or(("", name));
    table_name(group, plural)
}

pub fn image(key: &str) -> String {
    format!("registry.example/ocp/{key}:4.18")
}

impl Kit {
    pub async fn start(dir: &Path) -> Kit {
        Kit::with(dir, Guests::new).await
    }

    pub async fn with(dir: &Path, guests: impl FnOnce(&Host) -> Guests) -> Kit {
        Kit::made(dir, guests, |_| {}).await
    }

    /// With further programs and drivers.
    pub async fn made(
        dir: &Path,
        guests: impl FnOnce(&Host) -> Guests,
        more: impl FnOnce(&mut Options),
    ) -> Kit {
        let config = HostConfig { storage: Storage::Directory(dir.join("main")), ..HostConfig::memory() };
        let host = Host::start(config).await.unwrap();
        let main = host.ensure("main", ClusterConfig::default()).await.unwrap();
        let guests = guests(&host);
        let mut options = Options { stages: StageSet::instant(), ..Options::new(dir.join("nodes")) };
        guests.register(&mut options.programs, |key| format!("*/{key}:*"));
        more(&mut options);
        let nodes = Nodes::new(&host, options);
        let mut all = nodes.controllers();
        all.extend(ek_controllers::all(ek_controllers::Options::default()));
        let access = main.access("test");
        let pods = access.table(&table("pods")).objects;
        let pods = pods.iter().filter_map(|(_, e)| ek_server::parse(e));
        let earlier =
            pods.map(|p| (p["metadata"]["uid"].as_str().unwrap().to_owned(), restarts(&p))).collect();
        let engine = Engine::new(&host, all);
        nodes.attach(&engine);
        let task = tokio::spawn(engine.run());
        for n in 1..=3 {
            let spec = NodeSpec { cpus: 1000, pods: 1000, memory: "4000Gi".into(), ..NodeSpec::default() };
            nodes.add_node("main", &format!("n{n}"), spec).await.unwrap();
        }
        Kit { host, main, access, nodes, guests, dir: dir.to_owned(), earlier, task }
    }

    /// The process ends; what is on disk stays.
    pub async fn stop(self) {
        self.nodes.stop();
        self.host.stop().await;
        let _ = self.task.await;
    }

    pub fn id() -> ClusterId {
        ClusterId::new("main")
    }

    /// Creates an object, or makes it say this.
    pub async fn put(&self, table_of: &str, object: Value) {
        let t = table(table_of);
        let text = |f: &str| object["metadata"][f].as_str().unwrap_or_default().to_owned();
        let (ns, name) = (text("namespace"), text("name"));
        if self.access.get(&t, &ns, &name).is_none() {
            self.access.create(&t, object).await.unwrap();
            return;
        }
        let change = |old: &mut Value| {
            for field in ["data", "spec"] {
                if object.get(field).is_some() {
                    old[field] = object[field].clone();
                }
            }
            true
        };
        self.access.update(&t, &ns, &name, "", change).await.unwrap();
    }

    pub async fn edit(&self, table_of: &str, ns: &str, name: &str, change: impl Fn(&mut Value) + Sync) {
        let change = |o: &mut Value| {
            change(o);
            true
        };
        self.access.update(&table(table_of), ns, name, "", change).await.unwrap();
    }

    pub fn get(&self, table_of: &str, ns: &str, name: &str) -> Value {
        self.access.get(&table(table_of), ns, name).unwrap_or_default()
    }

    pub async fn delete(&self, table_of: &str, ns: &str, name: &str) {
        let how = Deletion { grace_seconds: Some(5), ..Deletion::default() };
        self.access.delete(&table(table_of), ns, name, how).await.unwrap();
    }

    pub fn pods(&self, ns: &str, app: &str) -> Vec<Value> {
        let all = self.access.in_namespace(&table("pods"), ns);
        let ours = all.into_iter().filter(|(_, e)| e.meta.label("app") == Some(app));
        ours.filter_map(|(_, e)| ek_server::parse(&e)).collect()
    }

    /// How many pods of an app are ready and not going away.
    pub fn ready(&self, ns: &str, app: &str) -> usize {
        self.pods(ns, app).iter().filter(|p| self.is_up(p)).count()
    }

    /// Whether a pod is ready and says so of this process: until a node has looked at it, what it says is from the
    /// process before.
    fn is_up(&self, pod: &Value) -> bool {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        is_ready(pod) && self.earlier.get(uid).is_none_or(|before| restarts(pod) > *before)
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, so: impl Fn(&Kit) -> bool) {
        let feed = self.host.feed();
        let run = async {
            while !so(self) {
                // Not everything that is asked for is an object.
                let _ = tokio::time::timeout(Duration::from_millis(50), feed.changed()).await;
                feed.take();
            }
        };
        if tokio::time::timeout(DEADLINE, run).await.is_err() {
            panic!("never: {what}\n{}", self.story());
        }
    }

    /// What pods have to say, for a test that fails.
    pub fn story(&self) -> String {
        let mut text = String::new();
        for (key, e) in &self.access.table(&table("pods")).objects {
            let pod = ek_server::parse(e).unwrap_or_default();
            text.push_str(&format!("{key}: {}\n", pod["status"]["phase"]));
            for c in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
                text.push_str(&format!("  {}: ready {} {}\n", c["name"], c["ready"], c["state"]));
            }
            for c in pod["status"]["conditions"].as_array().into_iter().flatten() {
                text.push_str(&format!("  {} {} {}\n", c["type"], c["status"], c["message"]));
            }
        }
        text
    }

    pub async fn log(&self, ns: &str, pod: &str, container: &str) -> String {
        let uri = format!("/api/v1/namespaces/{ns}/pods/{pod}/log?container={container}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        self.main.client().request_text(request).await.unwrap_or_default()
    }

    /// Where the claim of a member really is.
    pub fn claim(&self, ns: &str, member: usize) -> PathBuf {
        let claim = self.get("persistentvolumeclaims", ns, &format!("data-etcd-{member}"));
        let uid = claim["metadata"]["uid"].as_str().expect("a claim").to_owned();
        self.dir.join("nodes/claims/main").join(uid)
    }

    pub fn address(&self, ns: &str, port: u16) -> SocketAddr {
        let pods = self.pods(ns, "kube-apiserver");
        let pod = pods.iter().find(|p| self.is_up(p)).expect("an API server");
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.nodes.resolve_pod("main", ns, name, port).unwrap()
    }

    /// A client of the guest through TLS, with a certificate.
    pub async fn client(&self, hosted: &Hosted, who: &Pair) -> kube::Client {
        client_at(self.address(&hosted.pki.ns, 6443), hosted.pki.root.cert_pem(), who).await
    }
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

pub async fn client_at(address: SocketAddr, ca: &str, who: &Pair) -> kube::Client {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{address}"), "tls-server-name": "localhost",
            "certificate-authority-data": STANDARD.encode(ca)}}],
        "users": [{"name": "u", "user": {"client-certificate-data": STANDARD.encode(&who.cert_pem),
            "client-key-data": STANDARD.encode(who.key_pem.expose())}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }))
    .unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// One hosted cluster and how it is set up.
pub struct Hosted {
    pub pki: Pki,
    pub members: usize,
    pub replicas: usize,
    pub encryption: Option<Value>,
    pub issuer: String,
    /// Changes the API server's pod.
    pub adapt: Option<Box<dyn Fn(&mut Value) + Send + Sync>>,
}

fn secret(ns: &str, name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(k, v)| ((*k).to_owned(), json!(STANDARD.encode(v)))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": ns}, "data": data})
}

fn config_map(ns: &str, name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": ns}, "data": data})
}

impl Hosted {
    pub fn new(ns: &str) -> Hosted {
        let issuer = format!("https://issuer.{ns}.example.com");
        Hosted { pki: Pki::new(ns), members: 1, replicas: 1, encryption: None, issuer, adapt: None }
    }

    fn ns(&self) -> &str {
        &self.pki.ns
    }

    /// Everything, in one go.
    pub async fn deploy(&self, kit: &Kit) {
        let ns = self.ns();
        if kit.access.get(&table("namespaces"), "", ns).is_none() {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
            kit.access.create(&table("namespaces"), object).await.unwrap();
        }
        // The account that pods run as is given by a controller.
        kit.until("the default account", |k| !k.get("serviceaccounts", ns, "default").is_null()).await;
        self.put_files(kit).await;
        self.put_etcd(kit).await;
        self.put_api(kit).await;
    }

    pub async fn up(&self, kit: &Kit) {
        let ns = self.ns().to_owned();
        let (members, replicas) = (self.members, self.replicas);
        kit.until("etcd is ready", |k| k.ready(&ns, "etcd") == members).await;
        kit.until("members take part", |k| k.guests.members(&Kit::id(), &ns) == Some((members, members)))
            .await;
        kit.until("API servers are ready", |k| {
            let pods = k.pods(&ns, "kube-apiserver");
            let open = |p: &&Value| {
                let name = p["metadata"]["name"].as_str().unwrap_or_default();
                k.is_up(p) && k.nodes.resolve_pod("main", &ns, name, 6443).is_some()
            };
            k.guests.server(&Kit::id(), &ns).is_some() && pods.iter().filter(open).count() == replicas
        })
        .await;
    }

    pub async fn put_files(&self, kit: &Kit) {
        let (p, ns) = (&self.pki, self.ns());
        let pair = |c: &'static str, k: &'static str, pair: &Pair| {
            [(c, pair.cert_pem.clone()), (k, pair.key_pem.expose().to_owned())]
        };
        let put = async |name: &str, data: &[(&'static str, String)]| {
            let data: Vec<(&str, &str)> = data.iter().map(|(k, v)| (*k, v.as_str())).collect();
            kit.put("secrets", secret(ns, name, &data)).await;
        };
        put("etcd-server-tls", &pair("server.crt", "server.key", &Pki::server(&p.etcd, &p.etcd_names())))
            .await;
        put("etcd-peer-tls", &pair("peer.crt", "peer.key", &Pki::server(&p.etcd, &p.etcd_names()))).await;
        let etcd_client = client(&p.etcd, "etcd-client", "kubernetes");
        put("etcd-client-tls", &pair("etcd-client.crt", "etcd-client.key", &etcd_client)).await;
        put("kas-server-crt", &pair("tls.crt", "tls.key", &Pki::server(&p.root, &p.api_names()))).await;
        let private = Pki::server(&p.root, &[format!("private.{ns}.example.com")]);
        put("kas-server-private-crt", &pair("tls.crt", "tls.key", &private)).await;
        let sa =
            [("service-account.key", p.sa.serialize_pem()), ("service-account.pub", p.sa.public_key_pem())];
        put("sa-signing-key", &sa).await;
        if let Some(config) = &self.encryption {
            put("kas-secret-encryption-config", &[("config.yaml", config.to_string())]).await;
        }
        for (name, ca) in
            [("etcd-ca", &p.etcd), ("client-ca", &p.clients), ("aggregator-client-ca", &p.aggregator)]
        {
            kit.put("configmaps", config_map(ns, name, &[("ca.crt", ca.cert_pem())])).await;
        }
        kit.put("configmaps", config_map(ns, "kas-config", &[("config.json", &self.config().to_string())]))
            .await;
    }

    fn config(&self) -> Value {
        let (ns, issuer) = (self.ns(), &self.issuer);
        let certs = "/etc/kubernetes/certs";
        let arguments: Vec<(&str, String)> = vec![
            ("api-audiences", issuer.clone()),
            ("client-ca-file", format!("{certs}/client-ca/ca.crt")),
            ("requestheader-client-ca-file", format!("{certs}/aggregator-ca/ca.crt")),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("etcd-cafile", format!("{certs}/etcd-ca/ca.crt")),
            ("etcd-certfile", format!("{certs}/etcd/etcd-client.crt")),
            ("etcd-keyfile", format!("{certs}/etcd/etcd-client.key")),
            ("etcd-servers", format!("https://etcd-client.{ns}.svc:2379")),
            ("max-requests-inflight", "3000".into()),
            ("max-mutating-requests-inflight", "1000".into()),
            ("service-account-issuer", issuer.clone()),
            ("service-account-jwks-uri", format!("{issuer}/openid/v1/jwks")),
            (
                "service-account-signing-key-file",
                "/etc/kubernetes/secrets/svcacct-key/service-account.key".into(),
            ),
        ];
        let mut arguments: Value = arguments.into_iter().map(|(k, v)| (k.to_owned(), json!([v]))).collect();
        arguments["requestheader-allowed-names"] =
            json!(["kube-apiserver-proxy", "system:kube-apiserver-proxy", "system:openshift-aggregator"]);
        json!({
            "apiVersion": "kubecontrolplane.config.openshift.io/v1", "kind": "KubeAPIServerConfig",
            "apiServerArguments": arguments,
            "serviceAccountPublicKeyFiles": ["/etc/kubernetes/secrets/svcacct-key/service-account.pub"],
            "servingInfo": {"bindAddress": "0.0.0.0:6443", "certFile": format!("{certs}/server/tls.crt"),
                "keyFile": format!("{certs}/server/tls.key"),
                "namedCertificates": [{"names": [format!("private.{ns}.example.com")],
                    "certFile": format!("{certs}/server-private/tls.crt"), "keyFile": format!("{certs}/server-private/tls.key")}]},
        })
    }

    async fn put_etcd(&self, kit: &Kit) {
        let ns = self.ns();
        let labels = json!({"app": "etcd"});
        for (name, headless) in [("etcd-client", false), ("etcd-discovery", true)] {
            let mut spec = json!({"selector": labels, "ports": [{"name": "etcd-client", "port": 2379, "targetPort": "client"}]});
            if headless {
                spec["clusterIP"] = json!("None");
            }
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": ns}, "spec": spec});
            if kit.get("services", ns, name).is_null() {
                kit.put("services", service).await;
            }
        }
        let members: Vec<String> = (0..self.members)
            .map(|n| format!("etcd-{n}=https://etcd-{n}.etcd-discovery.{ns}.svc:2380"))
            .collect();
        let tls = [
            ("peer-tls", "/etc/etcd/tls/peer"),
            ("server-tls", "/etc/etcd/tls/server"),
            ("client-tls", "/etc/etcd/tls/client"),
            ("etcd-ca", "/etc/etcd/tls/etcd-ca"),
        ];
        let mut mounts: Vec<Value> = tls.iter().map(|(n, p)| json!({"name": n, "mountPath": p})).collect();
        mounts.push(json!({"name": "data", "mountPath": "/var/lib"}));
        mounts.push(json!({"name": "cluster-state", "mountPath": "/etc/etcd/clusterstate"}));
        let field = |n: &str, f: &str| json!({"name": n, "valueFrom": {"fieldRef": {"fieldPath": f}}});
        let env = json!([
            field("POD_IP", "status.podIP"), field("NAMESPACE", "metadata.namespace"), field("HOSTNAME", "metadata.name"),
            {"name": "ETCD_NAME", "value": "$(HOSTNAME)"}, {"name": "ETCD_DATA_DIR", "value": "/var/lib/data"},
            {"name": "ETCD_INITIAL_CLUSTER", "value": members.join(",")},
            {"name": "ETCD_CERT_FILE", "value": "/etc/etcd/tls/server/server.crt"}, {"name": "ETCD_KEY_FILE", "value": "/etc/etcd/tls/server/server.key"},
            {"name": "ETCD_TRUSTED_CA_FILE", "value": "/etc/etcd/tls/etcd-ca/ca.crt"}, {"name": "ETCD_CLIENT_CERT_AUTH", "value": "true"},
        ]);
        let probe = |path: &str, period: u32, failures: u32| json!({"httpGet": {"scheme": "HTTPS", "port": 9980, "path": path}, "periodSeconds": period, "timeoutSeconds": 10, "failureThreshold": failures});
        let spec = json!({
            "serviceName": "etcd-discovery", "replicas": self.members, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}}}],
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 10,
                "initContainers": [
                    {"name": "ensure-dns", "image": image("controlplane-operator"), "command": ["/bin/bash"], "args": ["-c", "exec control-plane-operator resolve-dns"]},
                    {"name": "reset-member", "image": image("etcd"), "command": ["/bin/bash"], "args": ["-c", "reset"], "volumeMounts": mounts},
                ],
                "containers": [
                    {"name": "etcd", "image": image("etcd"), "command": ["/bin/sh", "-c", "ETCD_INITIAL_CLUSTER_STATE=$(cat /etc/etcd/clusterstate/state) /usr/bin/etcd"],
                        "env": env, "ports": [{"name": "client", "containerPort": 2379}, {"name": "peer", "containerPort": 2380}], "volumeMounts": mounts,
                        "startupProbe": probe("readyz", 1, 100), "readinessProbe": probe("readyz", 1, 1), "livenessProbe": probe("healthz", 5, 5)},
                    {"name": "etcd-metrics", "image": image("etcd"), "command": ["etcd"], "args": ["grpc-proxy", "start"], "ports": [{"name": "metrics", "containerPort": 2381}], "volumeMounts": mounts},
                    {"name": "healthz", "image": image("cluster-etcd-operator"), "command": ["cluster-etcd-operator"],
                        "args": ["readyz", "--target=https://localhost:2379", "--listen-port=9980", "--serving-cert-file=/etc/etcd/tls/server/server.crt", "--serving-key-file=/etc/etcd/tls/server/server.key",
                            "--client-cert-file=/etc/etcd/tls/client/etcd-client.crt", "--client-key-file=/etc/etcd/tls/client/etcd-client.key", "--client-cacert-file=/etc/etcd/tls/etcd-ca/ca.crt"],
                        "ports": [{"name": "healthz", "containerPort": 9980}], "volumeMounts": mounts},
                ],
                "volumes": [
                    {"name": "peer-tls", "secret": {"secretName": "etcd-peer-tls"}}, {"name": "server-tls", "secret": {"secretName": "etcd-server-tls"}},
                    {"name": "client-tls", "secret": {"secretName": "etcd-client-tls"}}, {"name": "etcd-ca", "configMap": {"name": "etcd-ca"}},
                    {"name": "cluster-state", "emptyDir": {}},
                ]}},
        });
        kit.put("apps/statefulsets", json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "etcd", "namespace": ns}, "spec": spec})).await;
    }

    async fn put_api(&self, kit: &Kit) {
        let ns = self.ns();
        let labels = json!({"app": "kube-apiserver"});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-apiserver", "namespace": ns},
            "spec": {"selector": labels, "ports": [{"name": "client", "port": 6443, "targetPort": "client"}]}});
        if kit.get("services", ns, "kube-apiserver").is_null() {
            kit.put("services", service).await;
        }
        let certs = "/etc/kubernetes/certs";
        let mut places = vec![
            (
                "aggregator-ca",
                format!("{certs}/aggregator-ca"),
                json!({"configMap": {"name": "aggregator-client-ca"}}),
            ),
            ("client-ca", format!("{certs}/client-ca"), json!({"configMap": {"name": "client-ca"}})),
            ("etcd-ca", format!("{certs}/etcd-ca"), json!({"configMap": {"name": "etcd-ca"}})),
            (
                "etcd-client-crt",
                format!("{certs}/etcd"),
                json!({"secret": {"secretName": "etcd-client-tls"}}),
            ),
            ("kas-config", "/etc/kubernetes/config".into(), json!({"configMap": {"name": "kas-config"}})),
            ("server-crt", format!("{certs}/server"), json!({"secret": {"secretName": "kas-server-crt"}})),
            (
                "server-private-crt",
                format!("{certs}/server-private"),
                json!({"secret": {"secretName": "kas-server-private-crt"}}),
            ),
            (
                "svcacct-key",
                "/etc/kubernetes/secrets/svcacct-key".into(),
                json!({"secret": {"secretName": "sa-signing-key"}}),
            ),
            ("logs", "/var/log/kube-apiserver".into(), json!({"emptyDir": {}})),
        ];
        let mut args =
            vec!["kube-apiserver", "--openshift-config=/etc/kubernetes/config/config.json", "--v=2"];
        if self.encryption.is_some() {
            args.push("--encryption-provider-config=/etc/kubernetes/secret-encryption/config.yaml");
            args.push("--encryption-provider-config-automatic-reload=false");
            places.push((
                "kas-secret-encryption-config",
                "/etc/kubernetes/secret-encryption".into(),
                json!({"secret": {"secretName": "kas-secret-encryption-config"}}),
            ));
        }
        let mounts: Vec<Value> = places.iter().map(|(n, p, _)| json!({"name": n, "mountPath": p})).collect();
        let volumes: Vec<Value> = places
            .iter()
            .map(|(n, _, source)| {
                let mut v = source.clone();
                v["name"] = json!(n);
                v
            })
            .collect();
        let mut spec = json!({"replicas": self.replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 15,
            "initContainers": [
                {"name": "pre-pull-image-kube-apiserver", "image": image("hyperkube"), "command": ["/bin/sh", "-c", "echo pulled; exit 0"]},
                {"name": "wait-for-etcd", "image": image("cli"), "command": ["/bin/bash"], "args": ["-c", "wait"]},
            ],
            "containers": [
                {"name": "kube-apiserver", "image": image("hyperkube"), "command": ["hyperkube"], "args": args, "ports": [{"name": "client", "containerPort": 6443}], "volumeMounts": mounts,
                    "readinessProbe": {"httpGet": {"scheme": "HTTPS", "port": "client", "path": "readyz"}, "periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 1},
                    "livenessProbe": {"httpGet": {"scheme": "HTTPS", "port": "client", "path": "livez?exclude=etcd"}, "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 6}},
                {"name": "konnectivity-server", "image": image("apiserver-network-proxy"), "command": ["/usr/bin/proxy-server"], "args": ["--health-port", "2041"],
                    "readinessProbe": {"httpGet": {"port": 2041, "path": "healthz"}, "periodSeconds": 10}},
                {"name": "audit-logs", "image": image("cli"), "command": ["/bin/bash"], "args": ["-c", "tail -F /var/log/kube-apiserver/audit.log"], "volumeMounts": [{"name": "logs", "mountPath": "/var/log/kube-apiserver"}]},
            ],
            "volumes": volumes}}});
        if let Some(adapt) = &self.adapt {
            adapt(&mut spec["template"]["spec"]);
        }
        kit.put("apps/deployments", json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-apiserver", "namespace": ns}, "spec": spec})).await;
    }
}

/// Asks a door without proving anything.
pub async fn anonymous(address: SocketAddr, path: &str) -> (u16, String) {
    use http_body_util::BodyExt;
    let stream = connect_loopback(address, true).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(path)
        .header("host", "localhost")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}
