//! The management cluster's API is away, for the operators and everything they watch: what runs runs, what was begun is
//! finished once it is back, and what was asked for meanwhile is done. Nothing is made twice, nothing made anew.

use crate::kit::{DEADLINE, Kit, is_true};
use crate::remains::Remains;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hypershift::kinds;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tower::BoxError;
use world::Flavour;
use world::sample::Sample;

const VERSION: &str = "4.20.1";
/// So many attempts, of watches and of writes, have failed before somebody may say that it was noticed.
const NOTICED: usize = 20;

/// The way to an API. While it is shut, requests are refused; whatever is on it when it shuts, watches too, breaks off.
struct Way {
    open: watch::Sender<bool>,
    refused: watch::Sender<usize>,
}

impl Way {
    fn new() -> Arc<Way> {
        Arc::new(Way { open: watch::Sender::new(true), refused: watch::Sender::new(0) })
    }

    async fn send(
        &self,
        client: kube::Client,
        request: http::Request<Body>,
    ) -> Result<http::Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let mut open = self.open.subscribe();
        if !*open.borrow() {
            self.refused.send_modify(|n| *n += 1);
            return Err("connection refused".into());
        }
        let answer = tokio::select! {
            answer = client.send(request) => answer?,
            () = shut(&mut open) => return Err("connection reset by peer".into()),
        };
        let (head, body) = answer.into_parts();
        let body = futures::stream::unfold(Some((body.into_data_stream(), open)), async |on_its_way| {
            let (mut body, mut open) = on_its_way?;
            tokio::select! {
                part = body.next() => Some((part?.map(Frame::data).map_err(BoxError::from), Some((body, open)))),
                () = shut(&mut open) => Some((Err("connection reset by peer".into()), None)),
            }
        });
        Ok(http::Response::from_parts(head, StreamBody::new(body).boxed_unsync()))
    }

    /// Those whom nobody answers any more have noticed when this is over.
    async fn shut(&self) {
        let mut refused = self.refused.subscribe();
        let before = *refused.borrow_and_update();
        self.open.send_replace(false);
        let noticed = refused.wait_for(|n| *n >= before + NOTICED);
        tokio::time::timeout(DEADLINE, noticed).await.expect("somebody asks").unwrap();
    }

    fn reopen(&self) {
        self.open.send_replace(true);
    }
}

async fn shut(open: &mut watch::Receiver<bool>) {
    let _ = open.wait_for(|open| !*open).await;
}

/// Which Secrets a control plane has; those of tokens come and go.
async fn secrets(kit: &Kit, cluster: &Sample) -> BTreeMap<String, String> {
    let all = kit.api(&kinds::SECRET, &cluster.plane()).list_metadata(&ListParams::default()).await.unwrap();
    let all = all.items.into_iter().map(|s| (s.metadata.name.unwrap(), s.metadata.uid.unwrap()));
    all.filter(|(name, _)| !name.starts_with("token-") && !name.starts_with("user-data-")).collect()
}

async fn until_machines(kit: &Kit, what: &str, so: impl Fn(usize) -> bool) {
    let wait = async {
        while !so(kit.machines().len()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        kit.tell().await;
        panic!("never: {what}");
    }
}

async fn ready(kit: &Kit, nodes: usize) {
    kit.until_pool("np", &format!("{nodes} nodes"), |s| {
        is_true(s, "Ready") && is_true(s, "AllNodesHealthy") && s["replicas"] == nodes
    })
    .await;
    assert_eq!(kit.machines().len(), nodes, "no machine was made twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_is_away_for_a_while_costs_nothing_but_that_while() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    let way = Way::new();
    let (theirs, api) = (way.clone(), kit.client());
    let service = tower::service_fn(move |request| {
        let (way, client) = (theirs.clone(), api.clone());
        async move { way.send(client, request).await }
    });
    kit.world.replace_operators(&kube::Client::new(service, "default"));

    // While a cluster is made, and while its machines are.
    let sample = kit.joinable(VERSION);
    kit.create(&sample).await;
    kit.put(&kinds::POOL, kit.pool("np", VERSION, 2)).await;
    kit.until_object(&crate::kit::STATEFUL_SET, &sample, "etcd", |_| true).await;
    way.shut().await;
    let made = secrets(&kit, &sample).await;
    assert!(made.contains_key("root-ca"), "{made:?}");
    way.reopen();
    until_machines(&kit, "a machine", |n| n > 0).await;
    way.shut().await;
    let machines = kit.machines();
    way.reopen();
    kit.available(&sample.name).await;
    ready(&kit, 2).await;
    let now = secrets(&kit, &sample).await;
    let anew: Vec<_> = made.iter().filter(|(name, uid)| now.get(*name) != Some(*uid)).collect();
    assert!(anew.is_empty(), "made anew: {anew:?}");
    assert!(machines.is_subset(&kit.machines()), "machines that stood are kept");

    // While all is well: the guest serves, and who asks for something gets it later.
    way.shut().await;
    let nodes = Api::<Node>::all(kit.admin(&sample.name).await);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    kit.change_pool("np", json!({"spec": {"replicas": 3}})).await;
    let restart = "hypershift.openshift.io/restart-date";
    kit.patch(&sample.name, json!({"metadata": {"annotations": {restart: "now"}}})).await;
    way.reopen();
    ready(&kit, 3).await;
    let restarted = |o: &kube::core::DynamicObject| {
        o.data["spec"]["template"]["metadata"]["annotations"][restart] == "now"
    };
    kit.until_object(&kinds::DEPLOYMENT, &sample, "kube-apiserver", restarted).await;

    // Deleted while nobody hears of it, and gone while nobody can say so.
    way.shut().await;
    kit.delete(&sample.name).await;
    way.reopen();
    until_machines(&kit, "a machine less", |n| n < 3).await;
    way.shut().await;
    way.reopen();
    kit.gone(&sample.name).await;
    Remains::of(&kit).await.assert_clean_since(&before, &[&sample.name]);
    kit.world.stop().await;
}
