//! What a cluster has in Azure. There is no watch there, so its group is listed every now and then.

use super::Change;
use crate::serve::ground::azure_account;
use azure::Call;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc;

/// One read per group in this time is far below any limit.
const EVERY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    #[default]
    NotYet,
    /// Why there is nothing to see.
    No(String),
    /// Types and names.
    All(Vec<(String, String)>),
}

/// Says what is there until nobody listens.
pub async fn follow((subscription, group): (String, String), to: mpsc::Sender<Change>) {
    let client = match azure_account().await {
        Ok(Some(client)) => client,
        Ok(None) => {
            let _ = to.send(Change::Azure(Seen::No("the environment names no Azure account".into()))).await;
            return;
        }
        Err(e) => {
            let _ = to.send(Change::Azure(Seen::No(format!("{e:#}")))).await;
            return;
        }
    };
    let path =
        format!("/subscriptions/{subscription}/resourceGroups/{group}/resources?api-version=2021-04-01");
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tick.tick().await;
        let seen = match client.send(Call::get(path.clone())).await {
            Ok(answer) => Seen::All(read(&answer.json().unwrap_or_default())),
            Err(e) => Seen::No(e.to_string()),
        };
        if to.send(Change::Azure(seen)).await.is_err() {
            return;
        }
    }
}

fn read(body: &Value) -> Vec<(String, String)> {
    let word = |r: &Value, key: &str| r[key].as_str().unwrap_or_default().to_owned();
    let last = |kind: String| kind.rsplit('/').next().unwrap_or_default().to_owned();
    let all = body["value"].as_array().into_iter().flatten();
    let mut all: Vec<(String, String)> = all.map(|r| (last(word(r, "type")), word(r, "name"))).collect();
    all.sort();
    all
}
