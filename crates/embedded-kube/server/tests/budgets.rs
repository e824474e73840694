//! What is given out and what is held back: service addresses, limit ranges, quotas.

use crate::api::*;
use serde_json::{Value, json};

const NS: &str = "/api/v1/namespaces/default";

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn services_get_addresses_and_ports() {
    let api = start().await;
    let at = format!("{NS}/services");
    let ports =
        json!([{"name": "t", "port": 53, "protocol": "TCP"}, {"name": "u", "port": 53, "protocol": "UDP"}]);
    let a = api.post(&at, service("a", json!({"type": "NodePort", "ports": ports}))).await.ok(201);
    let ip = a["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10."), "{ip}");
    assert_eq!(a["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(
        (&a["spec"]["ipFamilies"], &a["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let port = a["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30000..=32767).contains(&port));
    assert_eq!(a["spec"]["ports"][1]["nodePort"], port, "two protocols on one port share its number");
    let owned = a["metadata"]["managedFields"].to_string();
    assert!(!owned.contains("f:clusterIP") && !owned.contains("f:nodePort"), "nobody owns what was given");
    // What is taken is refused, and free again when its holder goes.
    let same = json!({"clusterIP": ip, "ports": [{"port": 1}]});
    let m = api.post(&at, service("b", same.clone())).await.fails(422, "Invalid");
    assert_eq!(
        m,
        format!(
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: provided IP is already allocated"
        )
    );
    let taken = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]});
    let m = api.post(&at, service("b", taken)).await.fails(422, "Invalid");
    assert!(
        m.contains(&format!(
            "spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated"
        )),
        "{m}"
    );
    let low = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]});
    let m = api.post(&at, service("b", low)).await.fails(422, "Invalid");
    assert!(m.contains("The range of valid ports is 30000-32767"), "{m}");
    let far = json!({"clusterIP": "192.168.0.1", "ports": [{"port": 1}]});
    let m = api.post(&at, service("b", far)).await.fails(422, "Invalid");
    assert!(m.contains("The range of valid IPs is 10.96.0.0/12"), "{m}");
    api.delete(&format!("{at}/a")).await.ok(200);
    api.post(&at, service("b", same)).await.ok(201);
    // A change of type gives and takes back.
    let b = api.patch(MERGE, &format!("{at}/b"), json!({"spec": {"type": "NodePort"}})).await.ok(200);
    assert!(b["spec"]["ports"][0]["nodePort"].is_u64());
    assert_eq!(b["spec"]["clusterIP"], ip.as_str());
    let b = api.patch(MERGE, &format!("{at}/b"), json!({"spec": {"type": "ClusterIP"}})).await.ok(200);
    assert!(b["spec"]["ports"][0]["nodePort"].is_null());
    let none =
        api.post(&at, service("h", json!({"clusterIP": "None", "ports": [{"port": 1}]}))).await.ok(201);
    assert_eq!(none["spec"]["clusterIP"], "None");
}

#[tokio::test]
async fn services_made_at_once_get_different_addresses() {
    let api = start().await;
    let at = format!("{NS}/services");
    let many = (0..40).map(|i| {
        let (api, at) = (api.clone(), at.clone());
        tokio::spawn(async move {
            api.post(&at, service(&format!("s{i}"), json!({"type": "NodePort", "ports": [{"port": 1}]})))
                .await
                .ok(201)
        })
    });
    let mut seen = std::collections::HashSet::new();
    for s in many.collect::<Vec<_>>() {
        let s = s.await.unwrap();
        assert!(
            seen.insert(s["spec"]["clusterIP"].clone())
                && seen.insert(s["spec"]["ports"][0]["nodePort"].clone())
        );
    }
}

fn sized(name: &str, resources: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "c:1", "resources": resources}]}})
}

#[tokio::test]
async fn limit_ranges_fill_and_bound() {
    let api = start().await;
    let limits = json!([
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "min": {"cpu": "50m"}, "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]);
    api.post(&format!("{NS}/limitranges"), json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}))
        .await
        .ok(201);
    let p = api.post(PODS, sized("p", json!({}))).await.ok(201);
    assert_eq!(
        p["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(
        p["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let m = api
        .post(PODS, sized("q", json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "2"}})))
        .await
        .fails(403, "Forbidden");
    assert_eq!(
        m,
        "pods \"q\" is forbidden: [minimum cpu usage per Container is 50m, but request is 10m, maximum cpu usage per Container is 1, but limit is 2]"
    );
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let m = api.post(&format!("{NS}/persistentvolumeclaims"), claim).await.fails(403, "Forbidden");
    assert!(m.contains("maximum storage usage per PersistentVolumeClaim is 1Gi, but limit is 2Gi"), "{m}");
}

#[tokio::test]
async fn quotas_hold_whatever_comes_at_once() {
    let api = start().await;
    let hard = json!({"pods": "2", "requests.cpu": "1", "count/configmaps": "3"});
    api.post(&format!("{NS}/resourcequotas"), json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}))
        .await
        .ok(201);
    let m = api.post(PODS, sized("silent", json!({}))).await.fails(403, "Forbidden");
    assert_eq!(m, "pods \"silent\" is forbidden: failed quota: q: must specify requests.cpu for: c");
    api.post(PODS, sized("a", json!({"requests": {"cpu": "600m"}}))).await.ok(201);
    let m = api.post(PODS, sized("b", json!({"requests": {"cpu": "500m"}}))).await.fails(403, "Forbidden");
    assert_eq!(
        m,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let many = (0..12).map(|i| {
        let api = api.clone();
        tokio::spawn(async move { api.post(MAPS, map(&format!("m{i}"))).await.code })
    });
    let mut made = 0;
    for m in many.collect::<Vec<_>>() {
        made += usize::from(m.await.unwrap() == 201);
    }
    assert_eq!(made, 3, "as many as the quota has room for");
    // What a failed request would have used was never taken.
    api.post(PODS, sized("a", json!({"requests": {"cpu": "100m"}}))).await.fails(409, "AlreadyExists");
    api.post(PODS, sized("c", json!({"requests": {"cpu": "400m"}}))).await.ok(201);
}
