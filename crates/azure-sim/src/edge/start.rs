//! Starting and stopping.

use crate::edge::authority::{Authority, AuthorityError};
use crate::edge::forks::Forks;
use crate::edge::{admin, http_io, imds, proxy};
use crate::entra::HttpsIssuers;
use crate::gateway::Limits;
use crate::memory::{Files, MemoryError};
use crate::profile::Profile;
use crate::provider;
use crate::rbac::Role;
use crate::state::Secret;
use crate::time::ScaleError;
use crate::trouble::{Due, Rule, TroubleError, around};
use crate::wire::Call;
use crate::world::{Setup, World, WorldError};
use clock::SharedClock;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use jiff::Timestamp;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A resource provider that requests are forwarded to, as Resource Manager does it.
#[derive(Clone, Debug)]
pub struct ProxiedProvider {
    pub namespace: String,
    /// `http` or `https`; paths of Resource Manager are appended.
    pub url: url::Url,
}

/// How to start.
#[derive(Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub proxy_listen: SocketAddr,
    pub admin_listen: SocketAddr,
    /// Where machines ask for metadata and tokens, in plain HTTP.
    pub imds_listen: SocketAddr,
    pub profile: Profile,
    pub seed: u64,
    /// `None` does not throttle.
    pub limits: Option<Limits>,
    /// Roles beside those built in.
    pub roles: Vec<Role>,
    /// Authorities (PEM) whose issuers may federate.
    pub trust: Vec<String>,
    /// Where the CA certificate is written for clients to read.
    pub ca_file: Option<PathBuf>,
    /// Keys (PEM) that a world which remembers none signs tokens with, the newest first; none makes one, which takes
    /// longer than all else. See [`World::signing_pems`].
    pub signing_keys: Vec<String>,
    /// Where everything is remembered over restarts; `None` forgets it.
    pub data_dir: Option<PathBuf>,
    /// Namespaces that resource providers outside of the simulator answer for.
    pub proxied: Vec<ProxiedProvider>,
    pub clock: SharedClock,
    /// How many times as fast as `clock` the world's clock runs; 0 stands still. `None`: as it did, or as `clock` does.
    pub scale: Option<f64>,
    /// What goes wrong from the start.
    pub faults: Vec<Rule>,
}

impl Config {
    /// Free ports on the loopback, nothing written, nothing slow.
    pub fn local(seed: u64) -> Config {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Config {
            listen: any,
            proxy_listen: any,
            admin_listen: any,
            imds_listen: any,
            profile: Profile::Instant,
            seed,
            limits: None,
            roles: Vec::new(),
            trust: Vec::new(),
            ca_file: None,
            signing_keys: Vec::new(),
            data_dir: None,
            proxied: Vec::new(),
            clock: clock::system(),
            scale: None,
            faults: Vec::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot make the certificate authority")]
    Authority(#[source] AuthorityError),
    #[error("cannot use the data directory")]
    Memory(#[source] MemoryError),
    #[error("cannot make the world")]
    World(#[source] WorldError),
    #[error("cannot run the clock")]
    Scale(#[source] ScaleError),
    #[error("cannot make the faults")]
    Faults(#[source] TroubleError),
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: std::io::Error },
}

/// What a client logs in with.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub tenant_id: String,
    pub subscription_id: String,
    pub client_id: String,
    secret: Secret,
}

impl Credentials {
    /// The secret itself, for writing it where it belongs.
    pub fn secret(&self) -> &str {
        self.secret.expose()
    }

    /// The file that installers read.
    pub fn file(&self) -> String {
        let body = serde_json::json!({
            "subscriptionId": self.subscription_id, "tenantId": self.tenant_id, "clientId": self.client_id,
            "clientSecret": self.secret.expose(),
        });
        format!("{body:#}\n")
    }
}

/// A simulator that is listening. Dropping it stops it.
pub struct AzureSim {
    world: Arc<World>,
    authority: Arc<Authority>,
    arm: SocketAddr,
    proxy: SocketAddr,
    admin: SocketAddr,
    imds: SocketAddr,
    ca_file: Option<PathBuf>,
    stop: CancellationToken,
    forks: Arc<Forks>,
}

/// What a connection is served with.
#[derive(Clone)]
struct House {
    world: Arc<World>,
    tls: TlsAcceptor,
    forks: Arc<Forks>,
}

/// The remembered authority, or a new one.
fn authority(files: Option<&Files>, now: Timestamp) -> Result<Authority, StartError> {
    let Some(files) = files else { return Authority::generate(now).map_err(StartError::Authority) };
    let mut secrets = files.secrets().map_err(StartError::Memory)?.unwrap_or_default();
    if !secrets.authority_key.is_empty() {
        return Authority::remembered(&secrets.authority_key, &secrets.authority_certificate, now)
            .map_err(StartError::Authority);
    }
    let made = Authority::generate(now).map_err(StartError::Authority)?;
    secrets.authority_key = made.key_pem();
    secrets.authority_certificate = made.pem().to_owned();
    files.keep_secrets(&secrets).map_err(StartError::Memory)?;
    Ok(made)
}

/// A fault broke the connection.
#[derive(Debug, thiserror::Error)]
#[error("dropped by a fault rule")]
struct Dropped;

const HANDSHAKE: Duration = Duration::from_secs(10);
const MAX_CONNECTIONS: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Tls,
    Proxy,
    Admin,
    Imds,
}

impl AzureSim {
    pub async fn start(config: Config) -> Result<AzureSim, StartError> {
        let now = config.clock.now();
        let files = match &config.data_dir {
            Some(dir) => Some(Files::open(dir, config.seed).map_err(StartError::Memory)?),
            None => None,
        };
        let authority = Arc::new(authority(files.as_ref(), now)?);
        if let Some(path) = &config.ca_file {
            std::fs::write(path, authority.pem())
                .map_err(|source| StartError::Write { path: path.clone(), source })?;
        }
        let mut trust = config.trust.clone();
        trust.push(authority.pem().to_owned());
        let setup = Setup {
            seed: config.seed,
            profile: config.profile,
            limits: config.limits,
            roles: config.roles,
            issuers: Arc::new(HttpsIssuers::new(&trust)),
            clock: config.clock,
            proxied: config.proxied,
            trust,
        };
        let world = match files {
            Some(files) => World::resume(setup, files).map_err(StartError::World)?,
            None => World::signed_by(setup, config.signing_keys).map_err(StartError::World)?,
        };
        if let Some(scale) = config.scale {
            world.run_clock_at(scale).map_err(StartError::Scale)?;
        }
        world.want_faults(config.faults).map_err(StartError::Faults)?;
        let at = [config.listen, config.proxy_listen, config.admin_listen, config.imds_listen];
        let sim = AzureSim::open(Arc::new(world), authority, at, config.ca_file).await?;
        provider::resume(&sim.world);
        Ok(sim)
    }

    async fn open(
        world: Arc<World>,
        authority: Arc<Authority>,
        at: [SocketAddr; 4],
        ca_file: Option<PathBuf>,
    ) -> Result<AzureSim, StartError> {
        let mut tls =
            rustls::ServerConfig::builder().with_no_client_auth().with_cert_resolver(authority.clone());
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let stop = CancellationToken::new();
        let forks = Arc::new(Forks::new(world.clone(), authority.clone(), ca_file.clone()));
        let mut bound = Vec::new();
        for (address, door) in at.into_iter().zip([Door::Tls, Door::Proxy, Door::Admin, Door::Imds]) {
            let failed = |source| StartError::Bind { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            bound.push(listener.local_addr().map_err(failed)?);
            let house = House { world: world.clone(), tls: acceptor.clone(), forks: forks.clone() };
            tokio::spawn(accept(listener, door, house, stop.clone()));
        }
        let (arm, proxy, admin, imds) = (bound[0], bound[1], bound[2], bound[3]);
        Ok(AzureSim { world, authority, arm, proxy, admin, imds, ca_file, stop, forks })
    }

    /// Another simulator that starts as this one is now, on ports of its own; same authority, same credentials. It
    /// forgets when it stops.
    pub async fn fork(&self) -> Result<AzureSim, StartError> {
        AzureSim::forked(&self.world, &self.authority, self.ca_file.clone()).await
    }

    pub(crate) async fn forked(
        world: &World,
        authority: &Arc<Authority>,
        ca_file: Option<PathBuf>,
    ) -> Result<AzureSim, StartError> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        AzureSim::open(Arc::new(world.fork()), authority.clone(), [any; 4], ca_file).await
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    pub fn arm_url(&self) -> String {
        format!("https://localhost:{}", self.arm.port())
    }

    pub fn proxy_url(&self) -> String {
        format!("http://{}", self.proxy)
    }

    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// Where machines ask; a machine's own base is this, `/vm/` and its vmId.
    pub fn imds_url(&self) -> String {
        format!("http://{}", self.imds)
    }

    /// What makes clients on a machine ask the right place, whichever way they know: `vm` is its resource id or vmId.
    pub fn machine_variables(&self, vm: &str) -> Option<Vec<(&'static str, String)>> {
        let vm_id = self.world.machine(vm)?.vm_id;
        let secret = self.world.look(|state| crate::entra::app_service_secret(state, &vm_id));
        let base = format!("{}/vm/{vm_id}", self.imds_url());
        Some(vec![
            ("IDENTITY_ENDPOINT", format!("{base}/msi/token")),
            ("IDENTITY_HEADER", secret),
            ("AZURE_POD_IDENTITY_AUTHORITY_HOST", base),
            ("HTTP_PROXY", format!("http://{vm_id}:x@{}", self.imds)),
        ])
    }

    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    pub fn creds(&self) -> Credentials {
        let l = &self.world.login;
        Credentials {
            tenant_id: l.tenant.clone(),
            subscription_id: l.subscription.clone(),
            client_id: l.client.clone(),
            secret: l.secret.clone(),
        }
    }

    /// `export` lines: all that a client needs. Through the proxy, clients for public Azure work unchanged.
    pub fn env(&self) -> String {
        self.env_with(self.ca_file.as_deref(), None)
    }

    /// The same, with the bundle of authorities that clients are to trust, and a directory where `az` keeps its
    /// logins: those of the simulator must not mix with a person's own.
    pub fn env_with(&self, ca_bundle: Option<&Path>, az_config: Option<&Path>) -> String {
        let quoted = |v: &str| v.replace('\'', "'\\''");
        let variables = self.variables_with(ca_bundle, az_config);
        variables.iter().map(|(k, v)| format!("export {k}='{}'\n", quoted(v))).collect()
    }

    /// The environment as names and values.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        self.variables_with(self.ca_file.as_deref(), None)
    }

    /// See [`AzureSim::env_with`].
    pub fn variables_with(
        &self,
        ca_bundle: Option<&Path>,
        az_config: Option<&Path>,
    ) -> Vec<(&'static str, String)> {
        let c = self.creds();
        let text = |s: &str| s.to_owned();
        let mut lines = vec![
            ("AZURE_TENANT_ID", c.tenant_id.clone()),
            ("AZURE_SUBSCRIPTION_ID", c.subscription_id.clone()),
            ("AZURE_CLIENT_ID", c.client_id.clone()),
            ("AZURE_CLIENT_SECRET", c.secret.expose().to_owned()),
            ("ZAFFRE_AZURE_ARM_URL", self.arm_url()),
            ("ZAFFRE_AZURE_LOGIN_URL", self.arm_url()),
            ("ZAFFRE_AZURE_ADMIN_URL", self.admin_url()),
            ("ZAFFRE_AZURE_IMDS_URL", self.imds_url()),
            ("HTTPS_PROXY", self.proxy_url()),
            ("https_proxy", self.proxy_url()),
            ("NO_PROXY", text("localhost,127.0.0.1")),
            ("no_proxy", text("localhost,127.0.0.1")),
        ];
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
            lines.extend(ca_bundle.map(|path| (name, path.display().to_string())));
        }
        if let Some(dir) = az_config {
            lines.push(("AZURE_CONFIG_DIR", dir.display().to_string()));
            // As a custom cloud, az would ask the public cloud whether our login host exists; and it has nobody to
            // report its usage to.
            lines.push(("AZURE_CORE_INSTANCE_DISCOVERY", text("false")));
            lines.push(("AZURE_CORE_COLLECT_TELEMETRY", text("false")));
        }
        lines
    }

    /// Stops listening, stops its forks, and lets go of the data directory.
    pub fn stop(&self) {
        self.stop.cancel();
        self.forks.clear();
        self.world.close();
    }
}

impl Drop for AzureSim {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(listener: TcpListener, door: Door, house: House, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let (house, stop) = (house.clone(), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection(tcp, door, house) => {}
            }
        });
    }
}

async fn connection(mut tcp: TcpStream, door: Door, house: House) {
    let House { world, tls, forks } = house;
    let _ = tcp.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE).max_buf_size(64 << 10);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250).max_header_list_size(64 << 10);
    if door == Door::Admin {
        let service = service_fn(move |req| {
            let (world, forks) = (world.clone(), forks.clone());
            async move {
                let reply = match http_io::read(req, String::new()).await {
                    Ok(call) => admin::serve(&world, &forks, &call).await,
                    Err(reply) => reply,
                };
                Ok::<_, Infallible>(http_io::write(reply))
            }
        });
        let _ = builder.serve_connection(TokioIo::new(tcp), service).await;
        return;
    }
    if door == Door::Imds {
        let service = service_fn(move |req| {
            let world = world.clone();
            async move {
                let reply = match http_io::read(req, String::new()).await {
                    Ok(call) => {
                        let inner = async |call: Call, _: Due| imds::serve(&world, &call);
                        around(&world, "imds", call, inner).await
                    }
                    Err(reply) => Some(reply),
                };
                reply.map(http_io::write).ok_or(Dropped)
            }
        });
        let _ = builder.serve_connection(TokioIo::new(tcp), service).await;
        return;
    }
    if door == Door::Proxy
        && !matches!(tokio::time::timeout(HANDSHAKE, proxy::accept(&mut tcp)).await, Ok(Ok(true)))
    {
        return;
    }
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(tcp)).await else { return };
    let service = service_fn(move |req| {
        let world = world.clone();
        async move { http_io::serve(&world, req).await.ok_or(Dropped) }
    });
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
