//! One socket for all guests: connections go where the name in their TLS greeting says, byte for byte.
//!
//! The router never sees inside: it reads the greeting, which is not encrypted, finds the name, connects and copies.
//! Certificates, client certificates and ALPN are between the client and the API server. What it does not do, and
//! OpenShift's does: terminate TLS, speak HTTP on port 80, or balance by anything but turns.
//!
//! Who is slow, or silent, or says nothing that can be understood is let go: a greeting has [`PATIENCE`] to arrive and
//! may have [`GREETING`] bytes.

use crate::proxy::{self, Header};
use futures::future::BoxFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// For the whole greeting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Four records are more than any client sends before it has heard from us.
const GREETING: usize = 64 << 10;
/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 20_000;

#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: io::Error },
}

/// Where a name leads.
pub trait Routes: Send + Sync + 'static {
    /// An address to connect to; `None` when nobody is called that.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SocketAddr>>;

    /// The same, for those who also look at where a connection comes from.
    fn lead<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Option<SocketAddr>> {
        match &caller.by {
            By::Name(name) => self.find(name),
            By::Header(_) => Box::pin(std::future::ready(None)),
        }
    }
}

/// Whoever is to be led somewhere.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The other end of the connection itself.
    pub from: SocketAddr,
    pub by: By,
}

/// What tells where somebody wants to.
#[derive(Clone, Debug)]
pub enum By {
    /// The name in the TLS greeting.
    Name(String),
    /// What stands before the greeting, which is not looked at then.
    Header(Header),
}

impl<F> Routes for F
where
    F: Fn(&str) -> Option<SocketAddr> + Send + Sync + 'static,
{
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SocketAddr>> {
        Box::pin(std::future::ready(self(name)))
    }
}

/// A router that listens.
pub struct Router {
    pub address: SocketAddr,
    stop: CancellationToken,
    /// Cuts what is still under way.
    cut: CancellationToken,
    /// Ends with the last connection.
    task: tokio::task::JoinHandle<()>,
}

impl Router {
    pub async fn listen(address: SocketAddr, routes: impl Routes) -> Result<Router, RouterError> {
        let bind = |source| RouterError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        Router::on(listener, routes).map_err(bind)
    }

    /// On a socket that is there already.
    pub fn on(listener: TcpListener, routes: impl Routes) -> io::Result<Router> {
        Router::begin(listener, routes, false)
    }

    /// For connections that were handed on with a header of the PROXY protocol, which tells where they want to.
    pub fn behind_proxies(listener: TcpListener, routes: impl Routes) -> io::Result<Router> {
        Router::begin(listener, routes, true)
    }

    fn begin(listener: TcpListener, routes: impl Routes, headed: bool) -> io::Result<Router> {
        let address = listener.local_addr()?;
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let task = tokio::spawn(accept(listener, Arc::new(routes), headed, stop.clone(), cut.clone()));
        Ok(Router { address, stop, cut, task })
    }

    /// Takes no more connections, lets those under way go on for a while, and cuts what is left then.
    pub async fn drain(mut self, patience: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(patience, &mut self.task).await.is_err() {
            self.cut.cancel();
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.cancel();
        self.cut.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    routes: Arc<dyn Routes>,
    headed: bool,
    stop: CancellationToken,
    cut: CancellationToken,
) {
    let mut open = JoinSet::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepting = async {
            let slot = slots.clone().acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|a| (slot, a))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            a = accepting => a,
        };
        let Ok((slot, (client, from))) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        let (routes, cut) = (routes.clone(), cut.clone());
        open.spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = cut.cancelled() => {}
                r = carry(client, from, &*routes, headed) => if let Err(e) = r {
                    tracing::debug!(%from, error = %e, "a connection was not carried on");
                },
            }
        });
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn carry(mut client: TcpStream, from: SocketAddr, routes: &dyn Routes, headed: bool) -> io::Result<()> {
    let said = async {
        match headed {
            true => Ok(heading(&mut client).await?.map(|(bytes, header)| (bytes, By::Header(header)))),
            false => {
                Ok::<_, io::Error>(greeting(&mut client).await?.map(|(bytes, name)| (bytes, By::Name(name))))
            }
        }
    };
    let (bytes, by) = match tokio::time::timeout(PATIENCE, said).await {
        Ok(Ok(Some(found))) => found,
        Ok(Ok(None)) => return refuse(&mut client, UNRECOGNIZED).await,
        Ok(Err(e)) => return Err(e),
        Err(_) => return Ok(()),
    };
    let caller = Caller { from, by };
    let Some(address) = routes.lead(&caller).await else { return refuse(&mut client, UNRECOGNIZED).await };
    let mut server = match TcpStream::connect(address).await {
        Ok(s) => s,
        Err(e) => {
            refuse(&mut client, INTERNAL).await?;
            return Err(e);
        }
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    server.write_all(&bytes).await?;
    tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, 4 << 10, 16 << 10).await.map(|_| ())
}

/// Reads a header of the PROXY protocol, and what came with it of the connection; `None` when there is none.
async fn heading(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Header)>> {
    let mut bytes = Vec::with_capacity(256);
    loop {
        match proxy::header(&bytes) {
            Ok(Some(header)) => return Ok(Some((bytes.split_off(header.length), header))),
            Ok(None) => return Ok(None),
            Err(Unfinished) => {}
        }
        let mut part = [0; 1024];
        match client.read(&mut part).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&part[..n]),
        }
    }
}

const UNRECOGNIZED: u8 = 112;
const INTERNAL: u8 = 80;

/// Says why in TLS' own words.
async fn refuse(client: &mut TcpStream, alert: u8) -> io::Result<()> {
    client.write_all(&[21, 3, 3, 0, 2, 2, alert]).await?;
    client.shutdown().await
}

/// Reads the greeting; `None` when it names nobody.
async fn greeting(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, String)>> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        match server_name(&bytes) {
            Ok(Some(name)) => return Ok(Some((bytes, name))),
            Ok(None) => return Ok(None),
            Err(Unfinished) if bytes.len() >= GREETING => return Ok(None),
            Err(Unfinished) => {}
        }
        let mut part = [0; 1024];
        match client.read(&mut part).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&part[..n]),
        }
    }
}

/// More bytes are needed.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfinished;

/// The name in a TLS greeting: `Ok(None)` when it has none or is something else.
pub fn server_name(input: &[u8]) -> Result<Option<String>, Unfinished> {
    // The greeting may come in several records.
    let (mut message, mut rest) = (Vec::new(), input);
    loop {
        let Some((header, more)) = rest.split_first_chunk::<5>() else {
            return if rest.first().is_some_and(|t| *t != 22) { Ok(None) } else { Err(Unfinished) };
        };
        if header[0] != 22 || header[1] != 3 {
            return Ok(None);
        }
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let part = more.get(..length.min(more.len())).unwrap_or_default();
        message.extend_from_slice(part);
        let wanted = match message.get(..4) {
            Some([1, a, b, c]) => 4 + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c)),
            Some(_) => return Ok(None),
            None => 4,
        };
        if wanted > GREETING {
            return Ok(None);
        }
        if message.len() >= wanted && wanted > 4 {
            return Ok(Reader(&message[4..wanted]).name());
        }
        if part.len() < length {
            return Err(Unfinished);
        }
        rest = &more[length..];
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    /// A field that is preceded by its length, of one or two bytes.
    fn field(&mut self, bytes: usize) -> Option<Reader<'a>> {
        let n = self.take(bytes)?.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        self.take(n).map(Reader)
    }

    fn name(mut self) -> Option<String> {
        // Version and random bytes, then what of no interest here: session, ciphers, compressions.
        self.take(34)?;
        self.field(1)?;
        self.field(2)?;
        self.field(1)?;
        let mut extensions = self.field(2)?;
        while !extensions.0.is_empty() {
            let kind = extensions.take(2)?;
            let mut body = extensions.field(2)?;
            if kind != [0, 0] {
                continue;
            }
            let mut names = body.field(2)?;
            while !names.0.is_empty() {
                let kind = names.take(1)?;
                let name = names.field(2)?;
                if kind == [0] {
                    let name = std::str::from_utf8(name.0).ok()?.trim_end_matches('.').to_ascii_lowercase();
                    return (!name.is_empty() && name.len() < 254).then_some(name);
                }
            }
        }
        None
    }
}
