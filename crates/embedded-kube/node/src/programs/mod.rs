//! Small programs for tests and demonstrations.

use crate::program::{FnProgram, ProgramContext, Programs};
use crate::stage::duration;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::Duration;
use tokio::task::JoinSet;

/// Requests to the examples are small.
const MAX_BODY: usize = 1 << 20;

pub(crate) fn builtin() -> Programs {
    Programs::new()
        .with("zaffre.io/echo*", FnProgram(|ctx| serve(ctx, echo)))
        .with("zaffre.io/files*", FnProgram(|ctx| serve(ctx, files)))
        .with("zaffre.io/sleep*", FnProgram(sleep))
        .with("zaffre.io/true*", FnProgram(|_| async { 0 }))
        .with("zaffre.io/false*", FnProgram(|_| async { 1 }))
        .with("zaffre.io/fail*", FnProgram(fail))
}

/// Waits for as long as its first argument says (`5s`, `10`), or until it has to stop.
async fn sleep(ctx: ProgramContext) -> i32 {
    let words = ctx.command().iter().chain(ctx.args());
    let time = words.filter(|w| *w != "sleep").find_map(|w| match w.parse::<u64>() {
        Ok(n) => Some(Duration::from_secs(n)),
        Err(_) => duration(w).and_then(|d| Duration::try_from(d).ok()),
    });
    let slept = async {
        match time {
            Some(t) => tokio::time::sleep(t).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = slept => 0,
        () = ctx.stopping().cancelled() => 143,
    }
}

/// Says why and ends with the code of its first argument, or panics when that is what it is asked for.
async fn fail(ctx: ProgramContext) -> i32 {
    ctx.log("failing, as asked");
    let word = ctx.args().first().map(String::as_str).unwrap_or("1");
    #[allow(clippy::panic, reason = "a program that panics is what this one is for")]
    if word == "panic" {
        panic!("as asked");
    }
    word.parse().unwrap_or(1)
}

/// The port to listen on: the first argument, or 8080.
fn port(ctx: &ProgramContext) -> u16 {
    ctx.env().get("PORT").or_else(|| ctx.args().first()).and_then(|p| p.parse().ok()).unwrap_or(8080)
}

/// Serves HTTP until it has to stop.
async fn serve<F, R>(ctx: ProgramContext, answer: F) -> i32
where
    F: Fn(ProgramContext, Request<Bytes>) -> R + Copy + Send + Sync + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let port = port(&ctx);
    let listener = match ctx.listener(port).await {
        Ok(l) => l,
        Err(e) => {
            ctx.log(format!("cannot listen on port {port}: {e}"));
            return 1;
        }
    };
    ctx.log(format!("listening on port {port}"));
    let mut connections = JoinSet::new();
    loop {
        let tcp = tokio::select! {
            () = ctx.stopping().cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            a = listener.accept() => match a {
                Ok((tcp, _)) => tcp,
                Err(e) => {
                    ctx.log(format!("cannot accept: {e}"));
                    return 1;
                }
            },
        };
        let ctx = ctx.clone();
        connections.spawn(async move {
            let service = service_fn(move |req: Request<Incoming>| {
                let ctx = ctx.clone();
                async move {
                    let (parts, body) = req.into_parts();
                    let reply = match Limited::new(body, MAX_BODY).collect().await {
                        Ok(b) => answer(ctx, Request::from_parts(parts, b.to_bytes())).await,
                        Err(e) => text(413, format!("{e}\n")),
                    };
                    Ok::<_, Infallible>(reply)
                }
            });
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
        });
    }
    ctx.log("stopping");
    0
}

fn text(code: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut r = Response::new(Full::new(body.into()));
    *r.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    r.headers_mut().insert("content-type", http::HeaderValue::from_static("text/plain; charset=utf-8"));
    r
}

/// Says who answered, and what was asked.
async fn echo(ctx: ProgramContext, req: Request<Bytes>) -> Response<Full<Bytes>> {
    ctx.log(format!("{} {}", req.method(), req.uri()));
    if req.uri().path() == "/healthz" {
        return text(200, "ok\n");
    }
    let mut answer = format!("pod: {}/{}\n{} {}\n", ctx.namespace(), ctx.pod(), req.method(), req.uri());
    if let Some(m) = ctx.env().get("MESSAGE") {
        answer.push_str(&format!("message: {m}\n"));
    }
    answer.push_str(&String::from_utf8_lossy(req.body()));
    text(200, answer)
}

/// The files below the directory that `ROOT` names, `/data` otherwise.
async fn files(ctx: ProgramContext, req: Request<Bytes>) -> Response<Full<Bytes>> {
    let root = ctx.env().get("ROOT").map_or("/data", String::as_str);
    let path = format!("{}{}", root.trim_end_matches('/'), req.uri().path());
    ctx.log(format!("{} {path}", req.method()));
    let Some(real) = ctx.path(&path) else { return text(404, "not found\n") };
    let read = tokio::task::spawn_blocking(move || {
        if real.is_dir() {
            let mut names: Vec<String> = (std::fs::read_dir(real)?.flatten())
                .map(|e| e.file_name().to_string_lossy().into_owned())
                .filter(|n| !n.starts_with(".."))
                .collect();
            names.sort();
            return Ok(names.iter().map(|n| format!("{n}\n")).collect::<String>().into_bytes());
        }
        std::fs::read(real)
    });
    match read.await {
        Ok(Ok(bytes)) => text(200, bytes),
        _ => text(404, "not found\n"),
    }
}
