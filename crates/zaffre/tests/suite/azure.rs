//! `serve azure` and `azure`: how they start, what they write, what they refuse, what they report.

use crate::zaffre;
use azure::credential::{self, Entra};
use azure::{Call, Client, ClientOptions, Cloud, Credential, Env, Http, HttpOptions, Timing};
use http::Method;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::Server;

/// A simulator with its environment in `dir/env`, and that environment.
pub fn serve_azure(dir: &Path, flags: &[&str]) -> (Server, Vec<(String, String)>) {
    let mut c = zaffre();
    c.current_dir(dir).args(["serve", "azure", "--env-out", "env"]).args(flags);
    if !flags.contains(&"--profile") {
        c.args(["--profile", "instant"]);
    }
    let server = Server::spawn(c).unwrap();
    let text = std::fs::read_to_string(dir.join("env")).unwrap();
    let pair = |l: &str| {
        let (name, value) = l.strip_prefix("export ").unwrap().split_once('=').unwrap();
        (name.to_owned(), value.trim_matches('\'').to_owned())
    };
    (server, text.lines().map(pair).collect())
}

pub fn get<'a>(env: &'a [(String, String)], name: &str) -> &'a str {
    &env.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} is not in the environment")).1
}

/// Our client, as the environment leads it.
pub async fn client(env: &[(String, String)]) -> Client {
    let env = Env::new(env.iter().cloned());
    let http = Http::new(&HttpOptions::from_env(&env)).unwrap();
    let cloud = Cloud::from_env(&http, &env).await.unwrap();
    let timing = Timing::system();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let found = credential::from_env(&env, entra).await.unwrap();
    Client::new(cloud, http, Credential::new(found.source, timing), ClientOptions::default())
}

fn group(env: &[(String, String)], name: &str) -> String {
    let subscription = get(env, "AZURE_SUBSCRIPTION_ID");
    format!("/subscriptions/{subscription}/resourceGroups/{name}?api-version=2021-04-01")
}

async fn make_group(env: &[(String, String)], name: &str) {
    let call = Call::new(Method::PUT, group(env, name)).body(json!({"location": "eastus"}));
    assert_eq!(client(env).await.send(call).await.unwrap().status, 201);
}

pub fn ask(env: &[(String, String)], args: &[&str]) -> Output {
    zaffre().arg("azure").args(args).envs(env.iter().cloned()).output().unwrap()
}

pub fn text(out: &Output) -> (String, String) {
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_starts_private_refuses_a_second_and_stops_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (server, env) = serve_azure(dir.path(), &["--data-dir", "data", "--creds-out", "creds.json"]);
    assert!(server.url().starts_with("https://localhost:"), "{}", server.url());
    assert_eq!(get(&env, "ZAFFRE_AZURE_ARM_URL"), server.url());
    assert_eq!(server.stdout().lines().count(), 1);
    for file in ["env", "env.ca.pem", "creds.json"] {
        assert_eq!(mode(&dir.path().join(file)), 0o600, "{file}");
    }
    let creds = std::fs::read_to_string(dir.path().join("creds.json")).unwrap();
    let creds: Value = serde_json::from_str(&creds).unwrap();
    let want = json!({
        "subscriptionId": get(&env, "AZURE_SUBSCRIPTION_ID"), "tenantId": get(&env, "AZURE_TENANT_ID"),
        "clientId": get(&env, "AZURE_CLIENT_ID"), "clientSecret": get(&env, "AZURE_CLIENT_SECRET"),
    });
    assert_eq!(creds, want);
    // Sourced by a shell, every value arrives whole.
    let source = ". ./env; printf %s \"$SSL_CERT_FILE\"";
    let shell = Command::new("sh").args(["-c", source]).current_dir(dir.path()).output().unwrap();
    let shell = String::from_utf8(shell.stdout).unwrap();
    assert_eq!(shell, get(&env, "SSL_CERT_FILE"));
    assert!(Path::new(&shell).is_absolute());

    let second =
        zaffre().current_dir(dir.path()).args(["serve", "azure", "--data-dir", "data"]).output().unwrap();
    let (_, said) = text(&second);
    assert_eq!(second.status.code(), Some(1));
    assert!(said.contains("data") && said.contains("another") && said.contains("--data-dir"), "{said}");
    assert!(server.stop().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_survives_kill_nine_and_the_secret_does_too() {
    let dir = tempfile::tempdir().unwrap();
    let (server, env) = serve_azure(dir.path(), &["--data-dir", "data"]);
    make_group(&env, "kept").await;
    server.kill().unwrap();
    let (server, again) = serve_azure(dir.path(), &["--data-dir", "data"]);
    for same in ["AZURE_TENANT_ID", "AZURE_SUBSCRIPTION_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"] {
        assert_eq!(get(&env, same), get(&again, same));
    }
    let found = client(&again).await.send(Call::get(group(&again, "kept"))).await.unwrap();
    assert_eq!(found.json().unwrap()["location"], "eastus");
    let (leaks, _) = text(&ask(&again, &["leaks"]));
    assert!(leaks.contains("/resourceGroups/kept"), "{leaks}");
    assert!(server.stop().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_is_the_same_world() {
    let dir = tempfile::tempdir().unwrap();
    let ids = |env: &[(String, String)]| {
        ["AZURE_TENANT_ID", "AZURE_SUBSCRIPTION_ID", "AZURE_CLIENT_ID"].map(|n| get(env, n).to_owned())
    };
    let seeded = |seed: &str| ids(&serve_azure(dir.path(), &["--in-memory", "--seed", seed]).1);
    let (a, b, c) = (seeded("7"), seeded("7"), seeded("8"));
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_leaks_and_rights() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    let (said, _) = text(&ask(&env, &["leaks", "--fail-on-leaks"]));
    assert_eq!(said, "nothing is left over\n");
    assert_eq!(text(&ask(&env, &["least-privilege"])).0, "nobody has used a right yet\n");
    make_group(&env, "one").await;
    make_group(&env, "two").await;

    let (table, _) = text(&ask(&env, &["journal"]));
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("TIME") && lines[0].ends_with("PATH"), "{table}");
    // Each time somebody signed in, and then made a group.
    assert_eq!(lines.len(), 5, "{table}");
    assert!(lines[1].contains("zaffre-owner") && lines[1].ends_with("/oauth2/v2.0/token"), "{table}");
    assert!(
        lines[2].contains("zaffre-owner") && lines[2].contains("201") && lines[2].contains("allowed"),
        "{table}"
    );
    assert!(
        lines[2].ends_with("/resourceGroups/one") && lines[4].ends_with("/resourceGroups/two"),
        "{table}"
    );
    let json = |args: &[&str]| -> Value {
        let out = ask(&env, args);
        assert!(out.status.success(), "{}", text(&out).1);
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let all = json(&["journal", "-o", "json"]);
    assert_eq!(all["value"].as_array().unwrap().len(), 4);
    assert_eq!(all["value"][1]["action"], "Microsoft.Resources/subscriptions/resourceGroups/write");
    let newest = json(&["journal", "-o", "json", "--limit", "1"]);
    assert_eq!(newest["value"][0]["number"], 4);
    for who in ["zaffre-owner", get(&env, "AZURE_CLIENT_ID")] {
        let mine = json(&["journal", "-o", "json", "--limit", "0", "--principal", who]);
        assert_eq!(mine["value"].as_array().unwrap().len(), 4, "{who}");
    }
    let none = json(&["journal", "-o", "json", "--principal", "nobody"]);
    assert_eq!(none["value"], json!([]));

    let leaks = json(&["leaks", "-o", "json"]);
    assert_eq!(leaks["value"].as_array().unwrap().len(), 2);
    let failing = ask(&env, &["leaks", "--fail-on-leaks"]);
    let (table, why) = text(&failing);
    assert_eq!(failing.status.code(), Some(1));
    assert!(
        table.contains("/resourceGroups/two") && why.contains("2 resources are left over"),
        "{table}{why}"
    );
    let rights = json(&["least-privilege", "-o", "json"]);
    assert_eq!(rights["value"][0]["name"], "zaffre-owner");
    let (table, _) = text(&ask(&env, &["least-privilege"]));
    assert!(table.contains("used") && table.contains("resourceGroups/write"), "{table}");
    let (yaml, _) = text(&ask(&env, &["least-privilege", "-o", "yaml"]));
    assert!(yaml.starts_with("value:"), "{yaml}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_can_be_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, env) = serve_azure(dir.path(), &["--in-memory"]);
    make_group(&env, "before").await;
    let mut follower = zaffre()
        .args(["azure", "journal", "--follow", "-o", "json"])
        .envs(env.iter().cloned())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    // Of each group there is a sign-in, and the group.
    let mut next = || -> Value {
        lines.next().unwrap().unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    assert!(next()["path"].as_str().unwrap().ends_with("/before"));
    for name in ["after", "later"] {
        make_group(&env, name).await;
        assert!(next()["path"].as_str().unwrap().ends_with(name));
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn reports_without_a_simulator_say_what_to_do() {
    let refused = |args: &[&str]| {
        let out = zaffre().arg("azure").args(args).env_remove("ZAFFRE_AZURE_ADMIN_URL").output().unwrap();
        assert!(!out.status.success(), "{args:?}");
        text(&out).1
    };
    assert!(refused(&["leaks"]).contains("--env-out"));
    // A port that was free a moment ago, where nobody answers.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refused(&["journal", "--admin", &format!("http://{free}")]);
    assert!(said.contains("no simulator answers") && said.contains("zaffre serve azure"), "{said}");
    assert!(refused(&["journal", "--admin", "https://localhost:1"]).contains("http://HOST:PORT"));
    assert!(refused(&["journal", "--admin", "nonsense"]).contains("--admin"));
    assert!(refused(&["journal", "--limit", "many"]).contains("--limit"));
    assert!(refused(&["leaks", "-o", "csv"]).contains("json"));
}

#[test]
fn bad_flags_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| {
        let out = zaffre().current_dir(dir.path()).args(["serve", "azure"]).args(args).output().unwrap();
        assert!(!out.status.success(), "{args:?}");
        assert!(out.stdout.is_empty(), "{args:?} said it was ready");
        text(&out).1
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--proxy-listen", "--admin-listen"] {
        let said = refused(&["--in-memory", flag, &address]);
        assert!(said.contains(flag) && said.contains("in use"), "{said}");
        assert!(refused(&["--in-memory", flag, "nowhere"]).contains(flag));
    }
    assert!(refused(&["--in-memory", "--data-dir", "x"]).contains("cannot be used with"));
    assert!(refused(&["--profile", "slow"]).contains("instant, fast, real"));
    assert!(refused(&["--seed=-1"]).contains("--seed"));
    for (rp, why) in [
        ("Microsoft.RedHatOpenShift", "there is no '='"),
        ("Microsoft/Red=http://localhost:1", "is not the namespace"),
        ("=http://localhost:1", "is not the namespace"),
        ("A.B=localhost", "is not a URL"),
        ("A.B=ftp://localhost", "must be http://HOST"),
    ] {
        let said = refused(&["--in-memory", "--rp", rp]);
        assert!(said.contains(why) && said.contains("Microsoft.RedHatOpenShift=http"), "{rp}: {said}");
    }
    let twice = refused(&["--in-memory", "--rp", "A.B=http://localhost:1", "--rp", "a.b=http://localhost:2"]);
    assert!(twice.contains("twice"), "{twice}");
    std::fs::write(dir.path().join("empty.pem"), "nothing").unwrap();
    assert!(refused(&["--in-memory", "--issuer-ca", "empty.pem"]).contains("holds no certificate"));
    assert!(refused(&["--in-memory", "--issuer-ca", "absent.pem"]).contains("cannot read absent.pem"));
    for flag in ["--env-out", "--creds-out"] {
        let said = refused(&["--in-memory", flag, "absent/file"]);
        assert!(said.contains("cannot write") && said.contains("absent/file"), "{said}");
    }
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert!(refused(&["--data-dir", "file"]).contains("file"));
}

/// Answers one request, whatever it is; its head in lower case.
fn answer(socket: &mut std::net::TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length =
        head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    socket.read_exact(&mut vec![0; length]).unwrap();
    let body = r#"{"name":"mine","properties":{"provisioningState":"Succeeded"}}"#;
    let kind = "content-type: application/json\r\nconnection: close";
    write!(socket, "HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    head
}

/// A resource provider behind `--rp` is asked what Resource Manager is asked, as Resource Manager asks it.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_of_ones_own_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let rp = format!("Microsoft.RedHatOpenShift=http://{}", listener.local_addr().unwrap());
    // It is told of the subscription before it is asked about anything in it.
    let provider = std::thread::spawn(move || {
        loop {
            let head = answer(&mut listener.accept().unwrap().0);
            if head.contains("/openshiftclusters/") {
                return head;
            }
        }
    });
    let (_server, env) = serve_azure(dir.path(), &["--in-memory", "--rp", &rp]);
    make_group(&env, "g").await;
    let path = group(&env, "g/providers/Microsoft.RedHatOpenShift/openShiftClusters/mine");
    let reply = client(&env).await.send(Call::get(path)).await.unwrap();
    assert_eq!(reply.json().unwrap()["name"], "mine");
    let asked = provider.join().unwrap();
    let want = [
        "get /subscriptions/".to_owned(),
        "/openshiftclusters/mine?api-version=".to_owned(),
        format!("x-ms-home-tenant-id: {}", get(&env, "AZURE_TENANT_ID")),
        "referer: https://".to_owned(),
        "x-ms-correlation-request-id: ".to_owned(),
    ];
    for part in want {
        assert!(asked.contains(&part), "{part} is not in {asked}");
    }
}
