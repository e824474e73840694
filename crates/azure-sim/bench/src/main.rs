//! `cargo xtask bench azure`: what the simulated Azure costs.
//!
//! Requests are asked of the world itself and their answers are written as JSON, as the server does it; sockets and TLS are not part
//! of the figures. CPU is what the kernel accounts to the process, memory what it counts as resident.

mod machines;

use anyhow::{Context, ensure};
use azure_sim::{AzureSim, Call, Config, HttpsIssuers, Profile, Reply, Setup, World};
use bytes::Bytes;
use clap::Parser;
use http::HeaderMap;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use testkit::bench::{Figure, cpu_seconds, report, resident_kib, small_pages};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(about = "Measures the Azure simulator")]
struct Args {
    /// Write the figures as JSON here as well as to standard output
    #[arg(long)]
    json: Option<PathBuf>,
    /// Scale every count: 0.1 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

fn main() -> anyhow::Result<()> {
    small_pages();
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut all = Vec::new();
    runtime.block_on(async {
        start(&mut all).await?;
        requests(&args, &mut all).await?;
        remembered(&args, &mut all).await?;
        data(&args, &mut all).await?;
        machines::made(&args, &mut all).await?;
        many(&args, &mut all).await
    })?;
    Ok(report("azure", &all, args.json.as_deref())?)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
fn scaled(count: usize, args: &Args) -> usize {
    ((count as f64 * args.scale) as usize).max(1)
}

/// Until it listens.
async fn start(all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut worst = 0.0_f64;
    for i in 0..5 {
        let begun = Instant::now();
        let sim = AzureSim::start(Config::local(i)).await?;
        worst = worst.max(begun.elapsed().as_secs_f64() * 1e3);
        sim.stop();
    }
    all.push(Figure { name: "start, the slowest of 5".into(), unit: "ms", value: worst, target: 100.0 });
    Ok(())
}

fn world() -> World {
    World::fresh(setup())
}

fn setup() -> Setup {
    Setup {
        seed: 1,
        profile: Profile::Instant,
        limits: None,
        roles: Vec::new(),
        issuers: Arc::new(HttpsIssuers::new(&[])),
        clock: clock::system(),
        proxied: Vec::new(),
        trust: Vec::new(),
    }
}

fn call(method: &str, path: &str, token: &str, body: Option<&Value>) -> anyhow::Result<Call> {
    let mut headers = HeaderMap::new();
    if !token.is_empty() {
        headers.insert("authorization", format!("Bearer {token}").parse()?);
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Ok(Call {
        method: method.parse()?,
        path: path.to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers,
        body: body.map_or_else(Bytes::new, |b| b.to_string().into()),
        base: "https://management.azure.com".to_owned(),
    })
}

/// As the server writes it.
fn written(reply: &Reply) -> usize {
    reply.body.as_ref().map_or(0, |b| serde_json::to_vec(b).map_or(0, |v| v.len()))
}

fn network(i: usize) -> Value {
    json!({
        "location": "westus2", "tags": {"n": i.to_string()},
        "properties": {
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
            "subnets": [{"name": "a", "properties": {"addressPrefix": "10.0.0.0/24"}}],
        },
    })
}

const VERSION: &str = "api-version=2024-03-01";

fn group(world: &World, token: &str, name: &str) -> anyhow::Result<String> {
    let id = format!("/subscriptions/{}/resourceGroups/{name}", world.subscription());
    let made = world.arm(&call(
        "PUT",
        &format!("{id}?api-version=2021-04-01"),
        token,
        Some(&json!({"location": "westus2"})),
    )?);
    ensure!(made.status.is_success(), "{:?}", made.body);
    Ok(id)
}

/// Microseconds of CPU per call.
fn each(count: usize, mut what: impl FnMut(usize) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let spent = cpu_seconds();
    for i in 0..count {
        what(i)?;
    }
    Ok((cpu_seconds() - spent) * 1e6 / count as f64)
}

async fn requests(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let world = world();
    let owner = world.owner_token().await;
    // A principal with an ordinary role, so that roles are really looked at.
    let (client, object) = world.add_app("app", "secret", Vec::new());
    let g = group(&world, &owner, "g")?;
    world.assign(&object, "4d97b98b-1d4f-4787-a291-c67834d212e7", &g);
    let token = world.token_for(&client, "secret").await;
    let at = |i: usize| format!("{g}/providers/Microsoft.Network/virtualNetworks/v{i}?{VERSION}");
    put_and_get(&world, &token, &at, scaled(20_000, args), "", all)?;
    let count = scaled(1000, args);
    let spent = cpu_seconds();
    for _ in 0..count {
        ensure!(!world.token_for(&client, "secret").await.is_empty(), "no token");
    }
    let exchange = (cpu_seconds() - spent) * 1e3 / count as f64;
    all.push(Figure { name: "token exchange".into(), unit: "ms CPU", value: exchange, target: 1.0 });
    Ok(())
}

fn put_and_get(
    world: &World,
    token: &str,
    at: &dyn Fn(usize) -> String,
    count: usize,
    how: &str,
    all: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    let put = each(count, |i| {
        let reply = world.arm(&call("PUT", &at(i), token, Some(&network(i)))?);
        ensure!(reply.status == 201, "{:?}", reply.body);
        written(&reply);
        Ok(())
    })?;
    all.push(Figure {
        name: format!("PUT of a virtual network{how}"),
        unit: "µs CPU",
        value: put,
        target: 150.0,
    });
    let get = each(count, |i| {
        let reply = world.arm(&call("GET", &at(i), token, None)?);
        ensure!(reply.status == 200 && written(&reply) > 100, "{:?}", reply.body);
        Ok(())
    })?;
    all.push(Figure {
        name: format!("authenticated, authorised GET{how}"),
        unit: "µs CPU",
        value: get,
        target: 60.0,
    });
    Ok(())
}

/// The same with a data directory.
async fn remembered(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let world = World::open(setup(), dir.path()).context("open a data directory")?;
    let token = world.owner_token().await;
    let g = group(&world, &token, "g")?;
    let at = |i: usize| format!("{g}/providers/Microsoft.Network/virtualNetworks/v{i}?{VERSION}");
    put_and_get(&world, &token, &at, scaled(5000, args), ", remembered", all)?;
    world.close();
    let begun = Instant::now();
    let again = World::open(setup(), dir.path()).context("open it again")?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    let name = format!("restart with {} resources", scaled(5000, args));
    all.push(Figure { name, unit: "ms", value: ms, target: 1000.0 });
    again.close();
    Ok(())
}

/// A blob of 64 KiB in and out, and a vault's key used; without sockets.
async fn data(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let world = world();
    let token = world.owner_token().await;
    let g = group(&world, &token, "g")?;
    let version = "api-version=2023-05-01";
    let store = format!("{g}/providers/Microsoft.Storage/storageAccounts/bench");
    let vault = format!("{g}/providers/Microsoft.KeyVault/vaults/bench-kv");
    let body = json!({"location": "westus2", "sku": {"name": "Standard_LRS"}});
    world.arm(&call("PUT", &format!("{store}?{version}"), &token, Some(&body))?);
    let body = json!({"location": "westus2", "properties": {
        "tenantId": world.tenant(), "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true,
    }});
    world.arm(&call("PUT", &format!("{vault}?{version}"), &token, Some(&body))?);
    world.assign(world.owner_object(), "b7e6dc6d-f1e8-4753-8033-0f276bb0955b", &store);
    world.assign(world.owner_object(), "00482a5a-887f-4fb3-b363-3b7fe8e74483", &vault);
    let mut headers = HeaderMap::new();
    headers.insert("x-ms-blob-type", "BlockBlob".parse()?);
    let bearer = async |audience: &str| -> anyhow::Result<http::HeaderValue> {
        let (client, secret) = world.owner_login();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "client_credentials")
            .append_pair("client_id", &client)
            .append_pair("client_secret", &secret)
            .append_pair("scope", &format!("{audience}/.default"))
            .finish();
        let mut login = call("POST", &format!("/{}/oauth2/v2.0/token", world.tenant()), "", None)?;
        login.body = form.into();
        let body = world.login(&login).await.body.unwrap_or_default();
        Ok(format!("Bearer {}", body["access_token"].as_str().unwrap_or_default()).parse()?)
    };
    headers.insert("authorization", bearer("https://storage.azure.com").await?);
    let ask = |method: &http::Method, url: &str, headers: &HeaderMap, body: Bytes| {
        world.ask_plane(method, url, headers.clone(), body).context("no such plane")
    };
    let at = "https://bench.blob.core.windows.net/box";
    let made = ask(&http::Method::PUT, &format!("{at}?restype=container"), &headers, Bytes::new())?;
    ensure!(made.status == 201, "{made:?}");
    let count = scaled(2000, args);
    let put = each(count, |i| {
        let bytes: Bytes = vec![i.to_le_bytes()[0]; 64 << 10].into();
        let reply = ask(&http::Method::PUT, &format!("{at}/b{i}"), &headers, bytes)?;
        ensure!(reply.status == 201, "{reply:?}");
        Ok(())
    })?;
    let get = each(count, |i| {
        let reply = ask(&http::Method::GET, &format!("{at}/b{i}"), &headers, Bytes::new())?;
        ensure!(reply.bytes().len() == 64 << 10, "{reply:?}");
        Ok(())
    })?;
    headers.insert("authorization", bearer("https://vault.azure.net").await?);
    let key = "https://bench-kv.vault.azure.net/keys/k";
    let made = ask(
        &http::Method::POST,
        &format!("{key}/create?api-version=7.4"),
        &headers,
        r#"{"kty": "RSA"}"#.into(),
    )?;
    ensure!(made.status == 200, "{made:?}");
    let encrypt = each(scaled(1000, args), |_| {
        let body = r#"{"alg": "RSA-OAEP-256", "value": "aGVsbG8"}"#;
        let reply =
            ask(&http::Method::POST, &format!("{key}//encrypt?api-version=7.4"), &headers, body.into())?;
        ensure!(reply.status == 200, "{reply:?}");
        Ok(())
    })?;
    for (name, micros, target) in [
        ("put of a blob of 64 KiB", put, 0.3),
        ("get of it", get, 0.3),
        ("vault encrypt, RSA-OAEP-256", encrypt, 1.5),
    ] {
        all.push(Figure { name: name.into(), unit: "ms CPU", value: micros / 1e3, target });
    }
    Ok(())
}

async fn many(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let count = scaled(100_000, args);
    let before = resident_kib();
    let world = world();
    let token = world.owner_token().await;
    let groups = count.div_ceil(1000);
    for n in 0..groups {
        let g = group(&world, &token, &format!("g{n}"))?;
        for i in 0..count.min(1000) {
            let url = format!("{g}/providers/Microsoft.Network/virtualNetworks/v{i}?{VERSION}");
            let reply = world.arm(&call("PUT", &url, &token, Some(&network(i)))?);
            ensure!(reply.status == 201, "{:?}", reply.body);
        }
    }
    let mib = (resident_kib() - before) / 1024.0;
    all.push(Figure { name: format!("{count} resources"), unit: "MiB", value: mib, target: 400.0 });
    let g = format!("/subscriptions/{}/resourceGroups/g0", world.subscription());
    let url = format!("{g}/providers/Microsoft.Network/virtualNetworks?{VERSION}&$top=1000");
    let mut best = f64::MAX;
    for _ in 0..10 {
        let begun = Instant::now();
        let reply = world.arm(&call("GET", &url, &token, None)?);
        let shown = reply.body.as_ref().and_then(|b| b["value"].as_array()).map_or(0, Vec::len);
        ensure!(shown == count.min(1000), "{shown} were listed");
        written(&reply);
        best = best.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    all.push(Figure { name: "list 1000 of them".into(), unit: "ms", value: best, target: 10.0 });
    Ok(())
}
