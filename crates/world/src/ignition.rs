//! `zaffre serve ignition-server` as a program, and the proxy before it.
//!
//! The proxy's image is HAProxy's and its configuration is written by a shell script, of which there is none here. What
//! it does is small: it ends TLS with the certificate of the published name, and begins it anew to the server behind,
//! whose certificate it checks.

use crate::programs::{Means, failed, words};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use ignition::render::Rendered;
use ignition::{Args, Certificate, Release, Releases, Setup};
use reconcile::{Metrics, Runtime, chain};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

const PORT: u16 = 9090;
const PROXY: u16 = 8443;
/// Connections of a proxy at the same time.
const CONNECTIONS: usize = 512;
const PATIENCE: Duration = Duration::from_secs(10);

/// Releases from this world's registry.
struct FromRegistry(Means);

impl Releases for FromRegistry {
    fn release<'a>(&'a self, image: &'a str, _: &'a [u8]) -> BoxFuture<'a, Result<Release, String>> {
        Box::pin(async move {
            let payload = self.0.releases.payload(&self.0.images, image).await;
            let payload = payload.map_err(|e| chain(&e).to_string())?;
            Ok(Release {
                version: payload.version.clone(),
                kubernetes: payload.kubernetes.clone(),
                images: payload.images.clone(),
            })
        })
    }
}

fn certificate(ctx: &ProgramContext, cert: &str, key: &str) -> Result<Certificate, String> {
    let real =
        |path: &str| ctx.path(path).ok_or_else(|| format!("{path} is under no mount of this container"));
    let (cert, key): (PathBuf, PathBuf) = (real(cert)?, real(key)?);
    Certificate::load(cert, key).map_err(|e| chain(&e).to_string())
}

pub(crate) struct IgnitionServer(pub(crate) Means);

impl Program for IgnitionServer {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let means = self.0.clone();
        Box::pin(async move {
            let args: Args = match sidecars::parse("ignition-server", &words(&ctx, 3)) {
                Ok(a) => a,
                Err(e) => return failed(&ctx, &e),
            };
            let files = [&args.cert_file, &args.key_file].map(|p| p.to_string_lossy().into_owned());
            let certificate = match certificate(&ctx, &files[0], &files[1]) {
                Ok(c) => Arc::new(c),
                Err(e) => return failed(&ctx, &e),
            };
            let listener = match ctx.listener(PORT).await {
                Ok(l) => l,
                Err(e) => return failed(&ctx, &e),
            };
            let metrics = Metrics::default();
            let mut runtime = Runtime::new(means.clock.clone(), &metrics);
            let setup = Setup {
                client: ctx.client(),
                namespace: ctx.namespace().to_owned(),
                // Scripts are not run here, so nobody wrote the file with the feature gates.
                provider: Arc::new(Rendered {
                    releases: Arc::new(FromRegistry(means.clone())),
                    gates: Vec::new(),
                }),
                clock: means.clock.clone(),
                random: means.random.clone(),
                metrics,
            };
            let door = ignition::start(&mut runtime, setup);
            ctx.log("serving payloads; they are made for simulated machines");
            let stop = ctx.stopping().clone();
            futures::future::join(
                ignition::serve(listener, certificate, door, stop.clone()),
                runtime.run(stop),
            )
            .await;
            0
        })
    }
}

/// `ignition-server-proxy`.
pub(crate) struct IgnitionProxy;

impl Program for IgnitionProxy {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            match proxy(&ctx).await {
                Ok(()) => 0,
                Err(why) => failed(&ctx, &why),
            }
        })
    }
}

/// Whether a container is that proxy.
pub(crate) fn is_proxy(container: &serde_json::Value) -> bool {
    let words = container["args"].as_array().into_iter().flatten().filter_map(|w| w.as_str());
    words.into_iter().any(|w| w.contains("backend ignition"))
}

fn trust(ctx: &ProgramContext) -> Result<TlsConnector, String> {
    let path = "/etc/ssl/root-ca/ca.crt";
    let real = ctx.path(path).ok_or_else(|| format!("{path} is under no mount of this container"))?;
    let pem = std::fs::read(real).map_err(|e| format!("cannot read {path}: {e}"))?;
    let mut roots = rustls::RootCertStore::empty();
    for c in CertificateDer::pem_slice_iter(&pem).flatten() {
        let _ = roots.add(c);
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn proxy(ctx: &ProgramContext) -> Result<(), String> {
    let certificate = certificate(ctx, "/etc/ssl/serving-cert/tls.crt", "/etc/ssl/serving-cert/tls.key")?;
    let mut connector = trust(ctx)?;
    let listener = ctx.listener(PROXY).await.map_err(|e| e.to_string())?;
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut files = ctx.files();
    loop {
        let accepted = tokio::select! {
            () = ctx.stopping().cancelled() => return Ok(()),
            Ok(()) = files.changed() => {
                match trust(ctx) {
                    Ok(new) => connector = new,
                    Err(why) => ctx.log(format!("keeping the old authorities: {why}")),
                }
                continue;
            }
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let _ = tcp.set_nodelay(true);
        let (acceptor, connector, ctx) = (certificate.acceptor(), connector.clone(), ctx.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let carried = tokio::select! {
                () = ctx.stopping().cancelled() => return,
                c = carry(&ctx, acceptor, connector, tcp) => c,
            };
            if let Err(why) = carried {
                ctx.log(why);
            }
        });
    }
}

/// One connection.
async fn carry(
    ctx: &ProgramContext,
    acceptor: tokio_rustls::TlsAcceptor,
    connector: TlsConnector,
    tcp: TcpStream,
) -> Result<(), String> {
    let hello = tokio::time::timeout(PATIENCE, acceptor.accept(tcp)).await;
    // Whoever does not greet has changed its mind; a log would fill with them.
    let Ok(Ok(mut from)) = hello else { return Ok(()) };
    let said = |e: std::io::Error| format!("ignition-server:443: {e}");
    let tcp = ctx.dial("ignition-server", 443).await.map_err(said)?;
    let name = ServerName::try_from("ignition-server").map_err(|e| e.to_string())?;
    let to = tokio::time::timeout(PATIENCE, connector.connect(name, tcp)).await;
    let mut to = to.map_err(|_| "ignition-server:443 does not greet".to_owned())?.map_err(said)?;
    // How it ends is between the two.
    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
    Ok(())
}
