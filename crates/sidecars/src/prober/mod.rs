//! The availability prober: ends when the guest's API serves what is needed.
//!
//! It is an initial container. The one after it would otherwise start, find no API or not its kinds, end, and be
//! restarted later and later; this one looks every second, and its log says what is missing.

mod args;

pub use args::{Args, PodsOf, RequiredApi};

use crate::connect::{CALL, client_of, routed};
use crate::{ConnectError, KubeconfigFrom, Place, chain};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two looks; sooner at first, because most of what is waited for comes within moments.
const FIRST: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_millis(200);
const PERIOD: Duration = Duration::from_secs(1);
/// How many looks are soon: those of the first ten seconds or so.
const EAGER: u32 = 50;

/// What is missing.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    #[error("cannot reach the guest's API")]
    Connect(#[from] ConnectError),
    #[error("{target} did not answer")]
    Unanswered { target: http::Uri, source: Box<kube::Error> },
    #[error("{target} answered {status}")]
    Answered { target: http::Uri, status: u16 },
    #[error("no answer within {CALL:?} when asked for {0}")]
    Slow(String),
    #[error("cannot ask for {what}")]
    Ask { what: String, source: Box<kube::Error> },
    #[error("the API does not serve {0} yet")]
    Api(RequiredApi),
    #[error("{0} is not there yet")]
    Object(String),
    #[error("{count} pods of {of} are still there")]
    Pods { of: PodsOf, count: usize },
}

/// Runs until everything is there (0) or it is told to stop (143, as if it were killed: it did not end well).
pub async fn run(args: &Args, place: &dyn Place, stop: &CancellationToken) -> i32 {
    let mut said = String::new();
    let mut wait = FIRST;
    for looks in 0u32.. {
        let moved = place.moved();
        let looked = tokio::select! {
            () = stop.cancelled() => return 143,
            l = look(args, place) => l,
        };
        // Where nobody answers, somebody may come; what else is missing comes from elsewhere.
        let lost = matches!(&looked, Err(Missing::Connect(_)));
        match looked {
            Ok(()) => {
                place.say(&format!("{} answers and serves all that is needed", args.target));
                return 0;
            }
            Err(e) => {
                let why = chain(&e);
                if why != said {
                    place.say(&format!("waiting: {why}"));
                    said = why;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return 143,
            () = moved, if lost => {}
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(if looks < EAGER { SOON } else { PERIOD });
    }
    143
}

/// Looks once; what is missing first.
async fn look(args: &Args, place: &dyn Place) -> Result<(), Missing> {
    let config = match &args.kubeconfig {
        Some(path) => Some(KubeconfigFrom::File(path.clone()).config(place).await?),
        None => None,
    };
    answers(args, place, config.as_ref()).await?;
    let Some(config) = config else { return Ok(()) };
    let client = client_of(config, args.kubeconfig.as_deref().unwrap_or_default())?;
    for api in &args.required_apis {
        serves(&client, api).await?;
    }
    if args.wait_for_infrastructure_resource {
        let kind = ApiResource {
            group: "config.openshift.io".into(),
            version: "v1".into(),
            api_version: "config.openshift.io/v1".into(),
            kind: "Infrastructure".into(),
            plural: "infrastructures".into(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        there("infrastructures.config.openshift.io/cluster", api.get_opt("cluster")).await?;
    }
    if let Some(name) = &args.wait_for_cluster_rolebinding {
        let api: Api<ClusterRoleBinding> = Api::all(client.clone());
        there(&format!("clusterrolebindings/{name}"), api.get_opt(name)).await?;
    }
    if let Some(of) = &args.wait_for_labeled_pods_gone {
        let api: Api<Pod> = Api::namespaced(client, &of.namespace);
        let params = ListParams::default().labels(&of.selector);
        let count = asked(&format!("pods of {of}"), api.list(&params)).await?.items.len();
        if count > 0 {
            return Err(Missing::Pods { of: of.clone(), count });
        }
    }
    Ok(())
}

async fn asked<T>(what: &str, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Missing> {
    let answer = tokio::time::timeout(CALL, call).await.map_err(|_| Missing::Slow(what.to_owned()))?;
    answer.map_err(|e| Missing::Ask { what: what.to_owned(), source: Box::new(e) })
}

async fn there<T>(
    what: &str,
    call: impl Future<Output = Result<Option<T>, kube::Error>>,
) -> Result<(), Missing> {
    asked(what, call).await?.map(drop).ok_or_else(|| Missing::Object(what.to_owned()))
}

async fn answers(args: &Args, place: &dyn Place, known: Option<&kube::Config>) -> Result<(), Missing> {
    let target = &args.target;
    let mut config = kube::Config::new(target.clone());
    match known {
        Some(k) => config.root_cert.clone_from(&k.root_cert),
        None => {
            config.accept_invalid_certs = true;
            // Else the machine's authorities would be read, to be asked nothing.
            config.root_cert = Some(Vec::new());
        }
    }
    let mut config = routed(config, place)?;
    let path = target.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    // The client puts its base before each request's path.
    let mut parts = config.cluster_url.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    config.cluster_url = http::Uri::from_parts(parts).map_err(|_| ConnectError::Url(target.to_string()))?;
    let client = client_of(config, &target.to_string())?;
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let request = request.map_err(|_| ConnectError::Url(target.to_string()))?;
    let answer = tokio::time::timeout(CALL, client.send(request)).await;
    let answer = answer.map_err(|_| Missing::Slow(target.to_string()))?;
    let answer = answer.map_err(|e| Missing::Unanswered { target: target.clone(), source: Box::new(e) })?;
    match answer.status() {
        s if s.is_success() => Ok(()),
        s => Err(Missing::Answered { target: target.clone(), status: s.as_u16() }),
    }
}

async fn serves(client: &kube::Client, api: &RequiredApi) -> Result<(), Missing> {
    let what = api.to_string();
    let listed = match api.group.as_str() {
        "" => asked(&what, client.list_core_api_resources(&api.version)).await,
        group => asked(&what, client.list_api_group_resources(&format!("{group}/{}", api.version))).await,
    };
    let listed = match listed {
        // A group that nobody has brought yet.
        Err(Missing::Ask { source, .. }) if matches!(&*source, kube::Error::Api(s) if s.code == 404) => {
            return Err(Missing::Api(api.clone()));
        }
        other => other?,
    };
    match listed.resources.iter().any(|r| r.kind == api.kind && !r.name.contains('/')) {
        true => Ok(()),
        false => Err(Missing::Api(api.clone())),
    }
}
