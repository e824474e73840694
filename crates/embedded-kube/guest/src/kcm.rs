//! `kube-controller-manager`: its controllers are this process's; what it brings is its keys.
//!
//! While it runs, requests for certificates in the guest are signed by the authority in its mounts
//! (`cluster-signing-cert-file`), and pods of the guest are told to trust its root certificates (`root-ca-file`).

use crate::{Guests, kas::config, tls};
use ek_auth::pki::{Authority, Pair, Secret};
use ek_node::{Program, ProgramContext};
use ek_server::ApiServer;
use futures::future::BoxFuture;

pub(crate) struct KubeControllerManager(pub(crate) Guests);

impl Program for KubeControllerManager {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let guests = self.0.clone();
        Box::pin(async move {
            let health = ctx.clone();
            let health = tokio::spawn(async move {
                if let Err(why) = answer_probes(&health).await {
                    health.log(why);
                }
            });
            let mut files = ctx.files();
            let mut served = guests.0.changed.subscribe();
            let mut given: Option<ApiServer> = None;
            let mut signs = None;
            let mut said = String::new();
            loop {
                let server = guests.server(ctx.cluster(), ctx.namespace());
                let fresh = !matches!((&given, &server), (Some(a), Some(b)) if a.store().is(b.store()));
                if let Some(server) = server.filter(|_| fresh || files.has_changed().unwrap_or(false)) {
                    files.mark_unchanged();
                    let reading = ctx.clone();
                    let keys = tokio::task::spawn_blocking(move || keys(&reading)).await;
                    let outcome = match keys {
                        Ok(Ok((root, signer))) => {
                            server.set_root_ca(&root);
                            signs = server.set_signer(signer);
                            "controllers of this process work for the guest".to_owned()
                        }
                        Ok(Err(e)) => e,
                        Err(e) => e.to_string(),
                    };
                    if outcome != said {
                        ctx.log(&outcome);
                        said = outcome;
                    }
                    given = Some(server);
                }
                tokio::select! {
                    () = ctx.stopping().cancelled() => break,
                    Ok(()) = files.changed() => {}
                    Ok(()) = served.changed() => {}
                }
            }
            // While a rollout surges, a successor signs already.
            if let (Some(server), Some(signs)) = (given, signs) {
                server.withdraw_signer(&signs);
            }
            health.abort();
            0
        })
    }
}

/// `/healthz` on its secure port, with the certificate of its mount.
async fn answer_probes(ctx: &ProgramContext) -> Result<(), String> {
    let named = |flag: &str| config::argument(ctx, flag);
    let (Some(cert), Some(key)) = (named("tls-cert-file"), named("tls-private-key-file")) else {
        return Ok(());
    };
    let port = named("secure-port").and_then(|p| p.parse().ok()).unwrap_or(10257);
    let listener = ctx.listener(port).await.map_err(|e| format!("port {port}: {e}"))?;
    let files = tls::ServerFiles { cert, key, client_ca: None };
    let answer = |req: http::Request<hyper::body::Incoming>| async move {
        match req.uri().path() {
            "/healthz" | "/livez" | "/readyz" => tls::text(200, "ok"),
            _ => tls::text(403, "Forbidden"),
        }
    };
    tls::serve(ctx.clone(), listener, files, answer).await.map_err(|e| tls::chain(&e))
}

/// The root certificates, and who signs.
fn keys(ctx: &ProgramContext) -> Result<(String, Option<Authority>), String> {
    let named = |flag: &str| config::argument(ctx, flag);
    let file = |flag: &str, or: &str| {
        let path = named(flag).unwrap_or_else(|| or.to_owned());
        tls::read(ctx, &path).map_err(|e| tls::chain(&e))
    };
    let root = file("root-ca-file", "/etc/kubernetes/certs/root-ca/ca.crt")?;
    let signer = match file("cluster-signing-cert-file", "/etc/kubernetes/certs/cluster-signer/tls.crt") {
        Ok(cert_pem) => {
            let key = file("cluster-signing-key-file", "/etc/kubernetes/certs/cluster-signer/tls.key")?;
            let pair = Pair { cert_pem, key_pem: Secret::new(key) };
            Some(Authority::from_pair(pair).map_err(|e| tls::chain(&e))?)
        }
        Err(_) => None,
    };
    Ok((root, signer))
}
