//! Through the sockets: both ways in, what the proxy refuses, forks, restarts.

use crate::client::{ask, connect, through};
use azure_sim::{AzureSim, Config, StartError};
use serde_json::json;

async fn token(sim: &AzureSim, base: &str) -> String {
    let c = sim.creds();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", &c.client_id)
        .append_pair("client_secret", c.secret())
        .append_pair("scope", "https://management.azure.com/.default")
        .finish();
    let url = format!("{base}/{}/oauth2/v2.0/token", c.tenant_id);
    let answer = ask(sim.ca_pem(), "POST", &url, &[], form).await;
    assert_eq!(answer.status, 200);
    format!("Bearer {}", answer.json()["access_token"].as_str().unwrap())
}

#[tokio::test]
async fn both_ways_in_lead_to_the_same_world() {
    let sim = AzureSim::start(Config::local(1)).await.unwrap();
    let bearer = token(&sim, &sim.arm_url()).await;
    let auth = [("authorization", bearer.as_str())];
    let group =
        format!("/subscriptions/{}/resourceGroups/g?api-version=2021-04-01", sim.creds().subscription_id);
    let made = ask(
        sim.ca_pem(),
        "PUT",
        &format!("{}{group}", sim.arm_url()),
        &auth,
        json!({"location": "westus2"}).to_string(),
    )
    .await;
    assert_eq!(made.status, 201);
    let seen =
        through(&sim.proxy_url(), sim.ca_pem(), "management.azure.com", "GET", &group, &auth, "").await;
    assert_eq!(seen.json()["name"], "g");
    let missing = through(
        &sim.proxy_url(),
        sim.ca_pem(),
        "graph.microsoft.com",
        "GET",
        "/v1.0/applications",
        &auth,
        "",
    )
    .await;
    assert_eq!(missing.status, 401, "a token for Resource Manager is none for Graph");
    let metadata = ask(
        sim.ca_pem(),
        "GET",
        &format!("{}/metadata/endpoints?api-version=2022-09-01", sim.arm_url()),
        &[],
        "",
    )
    .await;
    assert_eq!(metadata.json()["resourceManager"], sim.arm_url());
    // A tunnel to one name is not a way to another that is not served.
    let proxy = sim.proxy_url();
    let host = [("x-forwarded-host", "evil.test")];
    let lost = through(
        &proxy,
        sim.ca_pem(),
        "management.azure.com",
        "GET",
        "https://evil.test/subscriptions?api-version=2022-12-01",
        &host,
        "",
    )
    .await;
    assert_eq!(lost.status, 421);
    let big = "x".repeat(5 << 20);
    let refused = ask(sim.ca_pem(), "PUT", &format!("{}{group}", sim.arm_url()), &auth, big).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (413, Some("RequestContentTooLarge"))
    );
}

#[tokio::test]
async fn regions_decide_access() {
    let sim = AzureSim::start(Config::local(1)).await.unwrap();
    let c = sim.creds();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", &c.client_id)
        .append_pair("client_secret", c.secret())
        .append_pair("scope", "https://authorization.azure.net/.default")
        .finish();
    let path = format!("/{}/oauth2/v2.0/token", c.tenant_id);
    let proxy = sim.proxy_url();
    let token =
        through(&proxy, sim.ca_pem(), "login.microsoftonline.com", "POST", &path, &[], form).await.json();
    let bearer = format!("Bearer {}", token["access_token"].as_str().unwrap());
    let body = json!({
        "Subject": {"Attributes": {"ObjectId": sim.world().owner_object()}},
        "Actions": [{"Id": "Microsoft.Network/virtualNetworks/write"}, {"Id": "Microsoft.KeyVault/vaults/keys/read", "IsDataAction": true}],
        "Resource": {"Id": format!("/subscriptions/{}", c.subscription_id)},
    });
    let path = "/providers/Microsoft.Authorization/checkAccess?api-version=2021-06-01-preview";
    let auth = [("authorization", bearer.as_str())];
    let answer = through(
        &proxy,
        sim.ca_pem(),
        "westus2.authorization.azure.net",
        "POST",
        path,
        &auth,
        body.to_string(),
    )
    .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["value"][0]["accessDecision"], "Allowed");
    assert_eq!(answer.json()["value"][1]["accessDecision"], "NotAllowed", "an owner has no data actions");
    let (status, _) = connect(&proxy, b"CONNECT nowhere.authorization.azure.net:443 HTTP/1.1\r\n\r\n").await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn the_proxy_leads_nowhere_else() {
    let sim = AzureSim::start(Config::local(1)).await.unwrap();
    let long = format!("CONNECT management.azure.com:443 HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20 << 10));
    let cases: [(&str, u16); 10] = [
        ("CONNECT example.com:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT localhost:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT management.azure.com:80 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT management.azure.com HTTP/1.1\r\n\r\n", 400),
        ("CONNECT management.azure.com.evil.test:443 HTTP/1.1\r\n\r\n", 403),
        ("GET http://management.azure.com/subscriptions HTTP/1.1\r\nHost: management.azure.com\r\n\r\n", 405),
        ("CONNECT management.azure.com:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 400),
        ("CONNECT management.azure.com:443 HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        (&long, 431),
    ];
    for (head, want) in cases {
        let (status, _) = connect(&sim.proxy_url(), head.as_bytes()).await;
        assert_eq!(status, want, "{}", &head[..head.len().min(80)]);
    }
}

#[tokio::test]
async fn forks_have_their_own_addresses_and_fates() {
    let sim = AzureSim::start(Config::local(1)).await.unwrap();
    let bearer = token(&sim, &sim.arm_url()).await;
    let auth = [("authorization", bearer.as_str())];
    let group = |name: &str| {
        format!("/subscriptions/{}/resourceGroups/{name}?api-version=2021-04-01", sim.creds().subscription_id)
    };
    let put = async |base: &str, name: &str| {
        ask(
            sim.ca_pem(),
            "PUT",
            &format!("{base}{}", group(name)),
            &auth,
            json!({"location": "westus2"}).to_string(),
        )
        .await
        .status
    };
    let get = async |base: &str, name: &str| {
        ask(sim.ca_pem(), "GET", &format!("{base}{}", group(name)), &auth, "").await.status
    };
    assert_eq!(put(&sim.arm_url(), "before").await, 201);
    let made = ask("", "POST", &format!("{}/forks", sim.admin_url()), &[], "").await;
    assert_eq!(made.status, 201);
    let fork = made.json();
    let at = fork["armUrl"].as_str().unwrap().to_owned();
    assert_eq!(fork["env"]["AZURE_CLIENT_ID"], sim.creds().client_id.as_str());
    assert_eq!(fork["env"]["HTTPS_PROXY"], fork["proxyUrl"]);
    assert_eq!(get(&at, "before").await, 200, "the same token is good there");
    assert_eq!(put(&at, "there").await, 201);
    assert_eq!(put(&sim.arm_url(), "here").await, 201);
    assert_eq!((get(&sim.arm_url(), "there").await, get(&at, "here").await), (404, 404));
    // A fork has an admin API, and can be forked.
    let second =
        ask("", "POST", &format!("{}/forks", fork["adminUrl"].as_str().unwrap()), &[], "").await.json();
    assert_eq!(get(second["armUrl"].as_str().unwrap(), "there").await, 200);
    let listed = ask("", "GET", &format!("{}/forks", sim.admin_url()), &[], "").await.json();
    assert_eq!(listed["value"][0]["id"], fork["id"]);
    let delete = format!("{}/forks/{}", sim.admin_url(), fork["id"].as_str().unwrap());
    assert_eq!(ask("", "DELETE", &delete, &[], "").await.status, 204);
    assert_eq!(ask("", "DELETE", &delete, &[], "").await.status, 404);
    // Its listeners close as soon as their task runs; then nobody answers.
    let address = at.trim_start_matches("https://").replace("localhost", "127.0.0.1");
    let gone = async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), gone).await.unwrap();
}

#[tokio::test]
async fn a_restarted_simulator_is_trusted_by_its_old_clients() {
    let dir = tempfile::tempdir().unwrap();
    let config = || Config { data_dir: Some(dir.path().join("data")), ..Config::local(3) };
    let sim = AzureSim::start(config()).await.unwrap();
    let bearer = token(&sim, &sim.arm_url()).await;
    let auth = [("authorization", bearer.as_str())];
    let (ca, creds) = (sim.ca_pem().to_owned(), sim.creds().file());
    let group =
        format!("/subscriptions/{}/resourceGroups/g?api-version=2021-04-01", sim.creds().subscription_id);
    let made = ask(
        &ca,
        "PUT",
        &format!("{}{group}", sim.arm_url()),
        &auth,
        json!({"location": "westus2"}).to_string(),
    )
    .await;
    assert_eq!(made.status, 201);
    assert!(matches!(AzureSim::start(config()).await, Err(StartError::Memory(_))), "one process at a time");
    let rotated = ask("", "POST", &format!("{}/keys/rotate", sim.admin_url()), &[], "").await;
    assert_eq!(rotated.status, 200);
    let keys =
        ask(&ca, "GET", &format!("{}/common/discovery/v2.0/keys", sim.arm_url()), &[], "").await.json();
    sim.stop();
    // Another seed is asked for; the directory's counts.
    let again = AzureSim::start(Config { seed: 99, ..config() }).await.unwrap();
    assert_eq!((again.ca_pem(), again.creds().file()), (ca.as_str(), creds));
    let seen = ask(&ca, "GET", &format!("{}{group}", again.arm_url()), &auth, "").await;
    assert_eq!(seen.status, 200, "the old token, the old CA, the old group");
    let now =
        ask(&ca, "GET", &format!("{}/common/discovery/v2.0/keys", again.arm_url()), &[], "").await.json();
    assert_eq!(now, keys);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
}
