//! Snapshots of etcd on their way to Azure and back: `zaffre serve etcd-backup` as a program, and what fetches one.

use crate::Cloud;
use azure::{Env, Http};
use bytes::Bytes;
use control_plane::etcd::upload::{self, UploadArgs};
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use reconcile::chain;
use std::io::Write as _;
use std::path::Path;

/// The longest snapshot that is fetched: etcd's own limit.
const LONGEST: u64 = 8 << 30;

/// `zaffre serve etcd-backup`.
pub(crate) struct EtcdBackup {
    /// What the process would be told of this Azure.
    surroundings: Vec<(&'static str, String)>,
}

impl EtcdBackup {
    pub(crate) fn new(cloud: &Cloud) -> EtcdBackup {
        EtcdBackup { surroundings: cloud.surroundings() }
    }

    /// The container's environment; files that it names are where they are mounted.
    fn env(&self, ctx: &ProgramContext) -> Env {
        let mut env = Env::new(self.surroundings.clone());
        for (name, value) in ctx.env() {
            let file = name.ends_with("_FILE") || name.ends_with("_PATH");
            let real = file.then(|| ctx.path(value)).flatten();
            let real = real.map(|p| p.display().to_string());
            env = env.with(name, real.unwrap_or_else(|| value.clone()));
        }
        env
    }
}

impl Program for EtcdBackup {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let env = self.env(&ctx);
        Box::pin(async move {
            let words: Vec<String> = ctx.command().iter().chain(ctx.args()).skip(3).cloned().collect();
            let args: UploadArgs = match sidecars::parse("etcd-backup", &words) {
                Ok(a) => a,
                Err(e) => {
                    ctx.log(format!("error: {e}"));
                    return 2;
                }
            };
            let Some(file) = ctx.path(&args.file) else {
                ctx.log(format!("error: {} is under no mount of this container", args.file.display()));
                return 1;
            };
            let done = tokio::select! {
                () = ctx.stopping().cancelled() => return 1,
                done = Box::pin(upload::upload(&env, &args, &file)) => done,
            };
            match done {
                Ok(url) => {
                    ctx.log(format!("the snapshot is at {url}"));
                    0
                }
                Err(e) => {
                    ctx.log(format!("error: {}", chain(&e)));
                    1
                }
            }
        })
    }
}

/// What `curl` does in the pod: asks for a URL, and keeps what comes.
pub(crate) struct Fetch(Http);

impl Fetch {
    pub(crate) fn new(cloud: &Cloud) -> Fetch {
        Fetch(cloud.azure().http)
    }
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("this is no URL")]
    Url(#[from] http::Error),
    #[error("nobody answers")]
    Http(#[from] azure::HttpError),
    #[error("the answer is {code}: {text}")]
    Refused { code: u16, text: String },
    #[error("it has more than {LONGEST} bytes")]
    Long,
    #[error("it cannot be kept")]
    Keep(#[from] std::io::Error),
}

async fn fetch(http: &Http, url: &str, to: &Path) -> Result<(), FetchError> {
    let request = http::Request::get(url).body(Bytes::new())?;
    let mut arriving = http.open(request).await?;
    let code = arriving.status.as_u16();
    if code != 200 {
        let text = arriving.whole(4 << 10).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        return Err(FetchError::Refused { code, text });
    }
    let mut file = std::fs::File::create(to)?;
    let mut length = 0u64;
    while let Some(chunk) = arriving.chunk().await? {
        length += chunk.len() as u64;
        if length > LONGEST {
            return Err(FetchError::Long);
        }
        file.write_all(&chunk)?;
    }
    Ok(file.sync_all()?)
}

impl ek_guest::Fetch for Fetch {
    fn fetch<'a>(&'a self, url: &'a str, to: &'a Path) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { fetch(&self.0, url, to).await.map_err(|e| chain(&e).to_string()) })
    }
}
