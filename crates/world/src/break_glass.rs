//! `control-plane-pki-operator operator`: its words and environment, and how it asks API servers whom they believe.

use crate::dial::{self, Names};
use crate::programs::{Means, failed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use kube::config::{AuthInfo, Kubeconfig};
use operands::break_glass::revocation::Heard;
use operands::break_glass::{Ask, Lives, Setup, start};
use pki::Pair;
use reconcile::{Metrics, chain};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// No API server takes longer to say who somebody is.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct PkiOperator(pub Means);

impl Program for PkiOperator {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            let told = |name: &str| {
                let found = ctx.env().get(name).filter(|v| !v.is_empty()).cloned();
                found.ok_or_else(|| format!("${name} is needed"))
            };
            let (namespace, name) =
                match (told("HOSTED_CONTROL_PLANE_NAMESPACE"), told("HOSTED_CONTROL_PLANE_NAME")) {
                    (Ok(namespace), Ok(name)) => (namespace, name),
                    (Err(e), _) | (_, Err(e)) => return failed(&ctx, &e),
                };
            let lives = match told("CERT_ROTATION_SCALE").map(|t| t.parse::<SignedDuration>()) {
                Ok(Ok(day)) if day > SignedDuration::ZERO => Lives { day },
                Ok(Err(e)) => return failed(&ctx, &format!("CERT_ROTATION_SCALE is no duration: {e}")),
                _ => Lives::default(),
            };
            ctx.log(format!("break-glass certificates of {namespace}"));
            let metrics = Metrics::default();
            let mut runtime = reconcile::Runtime::new(means.clock.clone(), &metrics);
            let log = ctx.clone();
            let setup = Setup {
                management: ctx.client(),
                namespace,
                name,
                lives,
                ask: Arc::new(Servers(ctx.clone())),
                clock: means.clock,
                random: means.random,
                metrics,
                say: Arc::new(move |line| log.log(line)),
            };
            start(&mut runtime, setup);
            runtime.run(ctx.stopping().clone()).await;
            0
        })
    }
}

/// The API servers that a pod can reach.
struct Servers(ProgramContext);

impl Ask for Servers {
    fn believed<'a>(&'a self, kubeconfig: &'a str, client: &'a Pair) -> BoxFuture<'a, Result<Heard, String>> {
        Box::pin(async move {
            let mut config = Kubeconfig::from_yaml(kubeconfig).map_err(|e| chain(&e).to_string())?;
            let server = config.clusters.first().and_then(|c| c.cluster.as_ref()?.server.clone());
            let server: http::Uri = server.unwrap_or_default().parse().map_err(|_| "it names no server")?;
            let user = AuthInfo {
                client_certificate_data: Some(STANDARD.encode(&client.cert)),
                client_key_data: Some(STANDARD.encode(client.key.expose()).into()),
                ..AuthInfo::default()
            };
            for info in &mut config.auth_infos {
                info.auth_info = Some(user.clone());
            }
            let host = server.host().unwrap_or_default();
            // Each has to read the file by itself.
            let all = self.0.resolve_all(host, server.port_u16().unwrap_or(443));
            let mut heard = None;
            for address in all {
                let one = match ask(config.clone(), address).await? {
                    true => Heard::Believed,
                    false => Heard::Refused,
                };
                heard = Some(heard.map_or(one, |h| if h == one { h } else { Heard::Divided }));
            }
            heard.ok_or_else(|| format!("no API server is ready at {server}"))
        })
    }
}

/// Whether an API server lets somebody in.
async fn ask(config: Kubeconfig, address: SocketAddr) -> Result<bool, String> {
    let names = Names::by(move |_, _| Some(address));
    let client = dial::by_names(names, config, "service-network-admin-kubeconfig").await;
    let client = client.map_err(|e| chain(&e).to_string())?;
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let (params, review) = (PostParams::default(), SelfSubjectReview::default());
    let asked = reviews.create(&params, &review);
    match tokio::time::timeout(PATIENCE, asked).await.map_err(|_| "no answer".to_owned())? {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(s)) if s.code == 401 => Ok(false),
        Err(e) => Err(chain(&e).to_string()),
    }
}
