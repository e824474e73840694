//! Operators whose operands act in Azure: they bring these Deployments, and are ready when these are.
//!
//! Of the real ones' work that is all. Each Deployment has the containers that carry the identity: the controller, and
//! where tokens are minted the minter beside it, in the image that the operator was handed for it (`HYPERSHIFT_IMAGE`,
//! `TOKEN_MINTER_IMAGE`).

mod deployments;

use ek_node::ProgramContext;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::Value;
use std::time::Duration;

/// Whose Deployments they are.
const OPERAND_OF: &str = "zaffre.io/operand-of";
/// After something went wrong.
const AGAIN: Duration = Duration::from_secs(2);

/// An operator.
#[derive(Clone, Copy)]
pub struct Operator {
    pub name: &'static str,
    pub image: &'static str,
    make: fn(&ProgramContext) -> Result<Vec<Value>, String>,
}

pub const ALL: [Operator; 2] = [
    Operator {
        name: "cluster-storage-operator",
        image: "cluster-storage-operator",
        make: deployments::storage,
    },
    Operator {
        name: "cluster-network-operator",
        image: "cluster-network-operator",
        make: deployments::network,
    },
];

pub struct Program(pub Operator);

impl ek_node::Program for Program {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let operator = self.0;
        Box::pin(async move {
            ctx.log("a stand-in: it brings the Deployments that act in Azure, and looks after nothing else");
            let wanted = match (operator.make)(&ctx) {
                Ok(w) => w,
                Err(why) => {
                    ctx.log(format!("error: {why}"));
                    return 1;
                }
            };
            let mut said = String::new();
            loop {
                let ended = tokio::select! {
                    () = ctx.stopping().cancelled() => return 0,
                    e = Box::pin(keep(&operator, &ctx, &wanted)) => e,
                };
                if let Err(e) = ended {
                    let why = sidecars::chain(&e);
                    if why != said {
                        ctx.log(&why);
                        ctx.ready(Err(why.clone()));
                        said = why;
                    }
                }
                tokio::select! {
                    () = ctx.stopping().cancelled() => return 0,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        })
    }

    fn tells_when_ready(&self) -> bool {
        true
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot apply Deployment {name}")]
    Apply { name: String, source: Box<kube::Error> },
    #[error("cannot list the pods of {name}")]
    Pods { name: String, source: Box<kube::Error> },
    #[error("cannot watch Deployments")]
    Watch(#[source] Box<watcher::Error>),
}

fn name_of(d: &Value) -> &str {
    d["metadata"]["name"].as_str().unwrap_or_default()
}

/// Applies what is wanted, and tells how it is whenever that changes; ends when the watch does.
async fn keep(operator: &Operator, ctx: &ProgramContext, wanted: &[Value]) -> Result<(), Error> {
    let api: Api<Deployment> = Api::namespaced(ctx.client(), ctx.namespace());
    let apply = async |d: &Value| {
        let params = PatchParams::apply(operator.name).force();
        let failed = |e| Error::Apply { name: name_of(d).to_owned(), source: Box::new(e) };
        api.patch(name_of(d), &params, &Patch::Apply(d)).await.map_err(failed)
    };
    for d in wanted {
        apply(d).await?;
    }
    let config = watcher::Config::default().labels(&format!("{OPERAND_OF}={}", operator.name));
    let mut events = watcher(api.clone(), config).boxed();
    let mut seen: std::collections::BTreeMap<String, Deployment> = Default::default();
    let mut open = Vec::new();
    loop {
        // While something is not available, what its pods say may change without the Deployment saying so.
        let event = tokio::select! {
            e = events.try_next() => e.map_err(|e| Error::Watch(Box::new(e)))?,
            () = tokio::time::sleep(AGAIN), if !open.is_empty() => Some(watcher::Event::InitDone),
        };
        match event {
            Some(watcher::Event::Apply(d) | watcher::Event::InitApply(d)) => {
                seen.insert(d.metadata.name.clone().unwrap_or_default(), d);
            }
            Some(watcher::Event::Delete(d)) => {
                let name = d.metadata.name.unwrap_or_default();
                seen.remove(&name);
                if let Some(d) = wanted.iter().find(|w| name_of(w) == name) {
                    apply(d).await?;
                }
            }
            Some(watcher::Event::Init) => seen.clear(),
            Some(watcher::Event::InitDone) => {}
            None => return Ok(()),
        }
        open.clear();
        for d in wanted {
            let name = name_of(d);
            if !seen.get(name).is_some_and(available) {
                open.push(trouble(ctx, name).await?);
            }
        }
        ctx.ready(if open.is_empty() { Ok(()) } else { Err(open.join("; ")) });
    }
}

fn available(d: &Deployment) -> bool {
    let status = d.status.clone().unwrap_or_default();
    let yes = |kind: &str| status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True");
    status.observed_generation >= d.metadata.generation && yes("Available")
}

/// Why a Deployment is not available, in the words of its pods.
async fn trouble(ctx: &ProgramContext, name: &str) -> Result<String, Error> {
    let pods: Api<Pod> = Api::namespaced(ctx.client(), ctx.namespace());
    let list = pods.list(&ListParams::default().labels(&format!("app={name}"))).await;
    let list = list.map_err(|e| Error::Pods { name: name.to_owned(), source: Box::new(e) })?;
    let words = list.items.iter().find_map(last_words);
    Ok(format!("{name} is not available{}", words.map(|w| format!(": {w}")).unwrap_or_default()))
}

/// What the containers of a pod say about why they do not run.
fn last_words(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let of = |c: &ContainerStatus| {
        let ended = |s: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            s.as_ref()?.terminated.as_ref().filter(|t| t.exit_code != 0)?.message.clone()
        };
        let waits = || c.state.as_ref()?.waiting.as_ref()?.message.clone();
        // Why it ended says more than that it will be started again.
        ended(&c.state).or_else(|| ended(&c.last_state)).or_else(waits)
    };
    let text = all.into_iter().filter(|c| !c.ready).find_map(of)?;
    text.trim_end().lines().last().map(str::to_owned)
}
