//! `kube-apiserver`: one replica of a guest's API server.
//!
//! It reads its configuration and opens its door at once, so that probes and clients are told what it waits for; it
//! then asks for etcd by its Service, over TLS, until it is let in. From there on it follows its files: certificates,
//! client authorities and the authentication configuration are taken over while it runs, the encryption configuration
//! only if it was told to. Everything else takes effect at the next start, as with the real one.
//!
//! Keys of a KMS are brought while it serves ([`keys`]): their plugin may need a token that is minted here.

pub(crate) mod config;
mod keys;

use crate::Guests;
use crate::group::Group;
use crate::tls::{self, chain};
use config::{Config, ConfigError};
use ek_node::{Program, ProgramContext};
use ek_server::{ApiServer, Door, Encryption};
use ek_store::Store;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct KubeApiServer(pub(crate) Guests);

impl Program for KubeApiServer {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        let guests = self.0.clone();
        Box::pin(async move {
            match Box::pin(serve(&guests, &ctx)).await {
                Ok(()) => 0,
                Err(why) => {
                    ctx.log(format!("kube-apiserver cannot start: {why}"));
                    1
                }
            }
        })
    }
}

/// Files are read by a thread that may wait for them.
async fn reading<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ConfigError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(read).await {
        Ok(r) => r.map_err(|e| chain(&e)),
        Err(e) => Err(e.to_string()),
    }
}

async fn serve(guests: &Guests, ctx: &ProgramContext) -> Result<(), String> {
    let c = ctx.clone();
    let (config, facing) = reading(move || {
        let config = Config::read(&c)?;
        let facing = config.facing(&c)?;
        Ok((config, facing))
    })
    .await?;
    let config = Arc::new(config);
    let listener = ctx.listener(config.port).await.map_err(|e| format!("port {}: {e}", config.port))?;
    let etcd = format!("{}:{}", config.etcd_host, config.etcd_port);
    let door = Door::open(listener, facing, ctx.clock().clone(), format!("waiting for {etcd}"))
        .map_err(|e| e.to_string())?;
    ctx.log(format!("serving securely on port {}", config.port));
    let mut files = ctx.files();
    loop {
        let (group, store) = tokio::select! {
            () = ctx.stopping().cancelled() => break,
            s = find_etcd(guests, ctx, &config, &door) => s,
        };
        let served = match serve_store(guests, ctx, &config, &store).await {
            Ok(s) => s,
            Err(why) => {
                door.lead_nowhere(&why);
                return Err(why);
            }
        };
        if served.encryption.is_some() {
            door.set_kms(Some("its plugin has not been asked yet".to_owned()));
        }
        door.lead_to(&served.server);
        ctx.stir();
        ctx.log(format!("connected to {etcd}"));
        tokio::select! {
            () = ctx.stopping().cancelled() => {
                door.close().await;
                ctx.log("stopped");
                return Ok(());
            }
            () = follow_files(guests, ctx, &config, &door, &served.server, &mut files) => {}
            () = keys::keep(ctx, &door, &served.server, served.encryption.as_ref()) => {}
            () = replaced(&group, &store) => {
                ctx.log(format!("{etcd} has other data now; connecting again"));
                door.lead_nowhere(format!("connecting to {etcd} again"));
            }
        }
    }
    door.close().await;
    Ok(())
}

/// The store behind etcd's Service. Asks until it is let in; says what is wrong when that changes.
async fn find_etcd(
    guests: &Guests,
    ctx: &ProgramContext,
    config: &Arc<Config>,
    door: &Door,
) -> (Arc<Group>, Store) {
    let mut said = String::new();
    let mut wait = Duration::from_millis(50);
    let mut endpoints = ctx.endpoints();
    loop {
        match ask_etcd(guests, ctx, config).await {
            Ok(found) => return found,
            Err(why) => {
                if why != said {
                    ctx.log(format!("etcd: {why}"));
                    door.lead_nowhere(&why);
                    said = why;
                }
            }
        }
        tokio::select! {
            Ok(()) = endpoints.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(Duration::from_secs(2));
    }
}

async fn ask_etcd(
    guests: &Guests,
    ctx: &ProgramContext,
    config: &Arc<Config>,
) -> Result<(Arc<Group>, Store), String> {
    let (host, port) = (config.etcd_host.as_str(), config.etcd_port);
    let address =
        ctx.resolve(host, port).ok_or_else(|| format!("dial tcp {host}:{port}: no ready endpoint"))?;
    let (c, k) = (ctx.clone(), config.clone());
    let client = reading(move || Ok(k.etcd.load(&c)?)).await?;
    let (code, body) = tls::get(client, address, host, "/zaffre/member").await?;
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let Some(cluster) = answer["cluster"].as_str().filter(|_| code == 200) else {
        return Err(format!("{host}:{port} has no leader"));
    };
    // The Service may be of another namespace than ours: the guest is that of its etcd.
    let namespace = host.split('.').nth(1).unwrap_or_else(|| ctx.namespace());
    let group = guests.0.groups.find(&Guests::name(ctx.cluster(), namespace));
    let found = group.and_then(|g| Some((g.clone(), g.store()?)));
    found
        .filter(|(_, s)| s.cluster_id() == Some(cluster))
        .ok_or_else(|| format!("{host}:{port} is just changing"))
}

/// A guest that is served; it is not when the last of these is gone.
struct ServedGuest {
    guests: Guests,
    name: String,
    server: ApiServer,
    /// If a KMS has to be asked for keys.
    encryption: Option<Encryption>,
}

async fn serve_store(
    guests: &Guests,
    ctx: &ProgramContext,
    config: &Arc<Config>,
    store: &Store,
) -> Result<ServedGuest, String> {
    let given = given(guests, ctx, config).await?;
    let encryption = given.encryption.clone().filter(Encryption::needs_kms);
    let name = Guests::name(ctx.cluster(), ctx.namespace());
    let server = guests.0.host.open_guest(&name, store, given).await.map_err(|e| chain(&e))?;
    let mut all = guests.0.served.lock();
    match all.get_mut(&name) {
        Some((known, count)) if known.store().is(store) => *count += 1,
        _ => _ = all.insert(name.clone(), (server.clone(), 1)),
    }
    drop(all);
    guests.0.changed.send_modify(|n| *n += 1);
    Ok(ServedGuest { guests: guests.clone(), name, server, encryption })
}

async fn given(
    guests: &Guests,
    ctx: &ProgramContext,
    config: &Arc<Config>,
) -> Result<ek_server::Given, String> {
    let (c, k, plugins) = (ctx.clone(), config.clone(), guests.0.kms.plugins(ctx));
    reading(move || k.given(&c, plugins)).await
}

impl Drop for ServedGuest {
    fn drop(&mut self) {
        let mut all = self.guests.0.served.lock();
        let Some((known, count)) = all.get_mut(&self.name) else { return };
        if !known.store().is(self.server.store()) {
            return;
        }
        *count -= 1;
        if *count > 0 {
            return;
        }
        all.remove(&self.name);
        drop(all);
        let (guests, server, name) = (self.guests.clone(), self.server.clone(), self.name.clone());
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move {
                // Another replica may have begun meanwhile.
                if !guests.0.served.lock().contains_key(&name) {
                    guests.0.host.close_guest(&server).await;
                }
            });
        }
    }
}

/// Takes over files as they change; never ends.
async fn follow_files(
    guests: &Guests,
    ctx: &ProgramContext,
    config: &Arc<Config>,
    door: &Door,
    server: &ApiServer,
    files: &mut tokio::sync::watch::Receiver<u64>,
) {
    loop {
        if files.changed().await.is_err() {
            return std::future::pending().await;
        }
        let (c, k) = (ctx.clone(), config.clone());
        match reading(move || k.facing(&c)).await {
            Ok(facing) => {
                door.reload(facing);
                ctx.log("certificates were loaded again");
            }
            Err(why) => ctx.log(format!("keeping the old certificates: {why}")),
        }
        let outcome = match given(guests, ctx, config).await {
            Ok(given) if config.reload_encryption => server.reload(given).await.map_err(|e| chain(&e)),
            Ok(given) => {
                server.reload_authenticators(given.authenticators);
                Ok(())
            }
            Err(why) => Err(why),
        };
        if let Err(why) = outcome {
            ctx.log(format!("keeping the old configuration: {why}"));
        }
    }
}

/// Done when etcd's data is another than this. Holding the group keeps the store where its members find it again.
async fn replaced(group: &Group, store: &Store) {
    let mut seen = group.seen();
    loop {
        let now = seen.borrow_and_update().store.upgrade();
        if now.is_some_and(|s| !s.is(store)) {
            return;
        }
        if seen.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
