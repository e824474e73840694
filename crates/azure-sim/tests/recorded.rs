//! Real exchanges, replayed in order: same status, same operation headers, same error code, same keys.
//!
//! The recordings are not part of the repository. Without them the test says so and passes.

use crate::support::{Lab, lab};
use azure_sim::Profile;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const AT: &str = "/work/shared/specs/azure/recorded";
const FILES: [&str; 21] = [
    "role-assignment",
    "virtual-machine",
    "private-endpoint",
    "private-link-service",
    "availability-set",
    "disk-encryption-set",
    "disk",
    "image",
    "key-vault",
    "storage-account",
    "resource-group",
    "virtual-network",
    "network-security-group",
    "public-ip",
    "load-balancer",
    "nat-gateway",
    "route-table",
    "managed-identity",
    "dns-zone",
    "role-definition",
    "private-dns-zone",
];
/// What the recording's client shows of timing luck, not of the protocol: who wins a race, how often one polls.
const RACES: [u64; 1] = [429];

fn keys(v: &Value, at: &str, out: &mut BTreeSet<String>) {
    match v {
        Value::Object(m) => {
            for (k, v) in m.iter().filter(|(_, v)| !v.is_null()) {
                let at = format!("{at}.{k}");
                out.insert(at.clone());
                // Names of tags are data.
                if k != "tags" {
                    keys(v, &at, out);
                }
            }
        }
        Value::Array(l) => l.iter().for_each(|v| keys(v, &format!("{at}[]"), out)),
        _ => {}
    }
}

/// Makes and deletes the vault that a recording makes later.
fn buried(lab: &Lab, token: &str, text: &str) {
    let all: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let made =
        all.iter().find(|e| e["method"] == "PUT" && e["url"].as_str().unwrap().contains("/vaults/")).unwrap();
    let ours = |s: &str| s.replace("00000000-0000-0000-0000-000000000000", lab.world.subscription());
    let mut body: Value = serde_json::from_str(&ours(&made["request"].to_string())).unwrap();
    body["properties"].as_object_mut().unwrap().remove("createMode");
    let url = ours(made["url"].as_str().unwrap());
    let put = lab.ask_as(token, "PUT", &url, Some(&body));
    assert!(put.status.is_success(), "{put:?}");
    lab.pass(60);
    assert_eq!(lab.ask_as(token, "DELETE", &url, None).status, 200);
}

async fn replay(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{AT}/{file}.jsonl")).unwrap();
    let lab = lab(Profile::Real).await;
    let mut token = lab.token.clone();
    let mut urls: BTreeMap<String, String> = BTreeMap::new();
    // Principals that we call otherwise.
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut written = BTreeSet::new();
    for (n, line) in text.lines().enumerate() {
        let e: Value = serde_json::from_str(line).unwrap();
        let (method, url, status) =
            (e["method"].as_str().unwrap(), e["url"].as_str().unwrap(), e["status"].as_u64().unwrap());
        if RACES.contains(&status) {
            continue;
        }
        // This one begins with a vault that was deleted before.
        if file == "disk-encryption-set" && n == 4 {
            buried(&lab, &token, &text);
        }
        let ours = |s: &str| s.replace("00000000-0000-0000-0000-000000000000", lab.world.subscription());
        let path = url.split('?').next().unwrap();
        let polls = [
            "/operations/",
            "perationStatuses/",
            "/operationresults/",
            "/asyncoperations/",
            "/DiskOperations/",
        ]
        .iter()
        .any(|w| path.contains(w));
        // Time passes as in the recording: an operation that was seen to end has ended.
        let ended =
            polls && status == 200 && e["response"]["status"].as_str().is_none_or(|s| s != "InProgress");
        if ended {
            lab.pass(1300);
            token = lab.world.owner_token().await;
        }
        // Interfaces that a private endpoint makes are called by chance.
        let asked = match polls || url.contains(".nic.") {
            true => match urls.get(path) {
                Some(u) => u.clone(),
                None => continue,
            },
            false => ours(url),
        };
        let body = e
            .get("request")
            .filter(|r| !r.is_null())
            .map(|r| ids.iter().fold(ours(&r.to_string()), |text, (theirs, own)| text.replace(theirs, own)))
            .map(|text| serde_json::from_str::<Value>(&text).unwrap());
        let mut got = lab.ask_as(&token, method, &asked, body.as_ref());
        // The recording's clients waited when told to; the 429s themselves were skipped above.
        if got.status == 429 {
            lab.pass(60);
            got = lab.ask_as(&token, method, &asked, body.as_ref());
        }
        // Our clock jumps when any operation was seen to end, so others end sooner than they did.
        if polls && e["response"]["status"] == "InProgress" && got.status == 200 {
            continue;
        }
        // In the recordings a deleted group lingers at the gateway now and then, so the resource is missed first.
        let of = |v: &Value| v["error"]["code"].as_str().unwrap_or_default().to_owned();
        if ["ResourceNotFound", "ParentResourceNotFound"].contains(&of(&e["response"]).as_str())
            && got.body.as_ref().map(of).as_deref() == Some("ResourceGroupNotFound")
        {
            continue;
        }
        let header = |h: &str| got.headers.get(h).map(|v| v.to_str().unwrap().to_owned());
        let made = |v: &Value| v["properties"]["networkInterfaces"][0]["id"].as_str().map(str::to_owned);
        if let (Some(theirs), Some(own)) = (made(&e["response"]), got.body.as_ref().and_then(made)) {
            urls.insert(
                format!("https://management.azure.com{theirs}"),
                format!("{own}?api-version=2022-01-01"),
            );
        }
        let who = |v: &Value| v["properties"]["principalId"].as_str().map(str::to_owned);
        if path.contains("/userAssignedIdentities/")
            && let (Some(theirs), Some(own)) = (who(&e["response"]), got.body.as_ref().and_then(who))
        {
            ids.insert(theirs, own);
        }
        for h in ["azure-asyncoperation", "location"] {
            if let (Some(theirs), Some(own)) = (e["headers"][h].as_str(), header(h)) {
                // Compute has both at one path: the first is the one that is asked.
                urls.entry(theirs.split('?').next().unwrap().to_owned()).or_insert(own);
            }
        }
        let mut differ = |what: &str, want: String, got: String| {
            if want != got {
                wrong.push(format!(
                    "{file}:{} {method} {} {what}: want {want}, got {got}",
                    n + 1,
                    path.rsplit("providers").next().unwrap_or(path)
                ));
            }
        };
        // Some recordings begin in the middle: what was there before the first line is new to us.
        if method == "PUT" && status == 200 && got.status == 201 && !written.contains(path) {
            written.insert(path.to_owned());
            continue;
        }
        if method == "PUT" {
            written.insert(path.to_owned());
        }
        // The end of another operation moved the clock past the end of this one.
        if file == "private-endpoint" && polls && status == 202 && got.status == 200 {
            continue;
        }
        differ("status", status.to_string(), got.status.as_u16().to_string());
        if !polls {
            for h in ["azure-asyncoperation", "location", "retry-after", "x-ms-failure-cause"] {
                let want = e["headers"].get(h).is_some();
                differ(h, want.to_string(), header(h).is_some().to_string());
            }
        }
        let (mut want_keys, mut got_keys) = (BTreeSet::new(), BTreeSet::new());
        keys(&e["response"], "", &mut want_keys);
        keys(got.body.as_ref().unwrap_or(&Value::Null), "", &mut got_keys);
        // For the same reason a subnet shows an endpoint sooner.
        if file == "private-endpoint" && path.contains("/subnets/") {
            got_keys.retain(|k| {
                !k.starts_with(".properties.privateEndpoints") && !k.starts_with(".properties.ipConfig")
            });
        }
        // This account was made when accounts had no lowest TLS version by themselves.
        if file == "role-assignment" && path.contains("Microsoft.Storage/") {
            got_keys.remove(".properties.minimumTlsVersion");
        }
        // A policy of the recording's subscription tagged machines and gave them an identity.
        if path.contains("/virtualMachines/") {
            want_keys.retain(|k| !k.starts_with(".tags") && !k.starts_with(".identity"));
        }
        let lost: Vec<&String> = want_keys.difference(&got_keys).collect();
        let extra: Vec<&String> = got_keys.difference(&want_keys).collect();
        differ(
            "keys",
            String::new(),
            if lost.is_empty() && extra.is_empty() { String::new() } else { format!("-{lost:?} +{extra:?}") },
        );
        let code = |v: &Value| v["error"]["code"].as_str().unwrap_or_default().to_owned();
        differ("code", code(&e["response"]), got.body.as_ref().map(code).unwrap_or_default());
    }
    wrong
}

#[tokio::test]
async fn recordings_replay() {
    if !std::path::Path::new(AT).is_dir() {
        eprintln!("skipped: no recordings in {AT}");
        return;
    }
    let mut wrong = Vec::new();
    for f in FILES {
        wrong.extend(replay(f).await);
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
