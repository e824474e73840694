//! `zaffre azure`: what a running simulator has to tell.

mod admin;
mod clock;
mod faults;
pub mod report;
mod top;

use crate::cli::Format;
use crate::cli::azure::{AzureArgs, AzureWhat, JournalArgs};
use crate::output;
use admin::Admin;
use anyhow::{Context, bail};
use serde_json::Value;

/// How long one question for news waits, in seconds; then it is asked again.
const WAIT: u32 = 30;

pub async fn run(args: AzureArgs) -> anyhow::Result<()> {
    let url = args.admin.context(
        "which simulator? Source the file that `zaffre serve azure --env-out FILE` wrote (`. ./FILE`), \
         or give its admin API with --admin URL",
    )?;
    let admin = Admin::new(&url)?;
    match args.what {
        AzureWhat::Journal(j) if j.follow => tokio::select! {
            result = follow(&admin, &j, args.output) => result,
            _ = tokio::signal::ctrl_c() => Ok(()),
        },
        AzureWhat::Journal(j) => {
            let page = admin.get("journal", &query(&j, None)).await?;
            if args.output == Format::Text {
                report::journal(&page, true);
                return Ok(());
            }
            output::value(args.output, &page)
        }
        AzureWhat::Leaks { fail_on_leaks } => {
            let found = admin.get("leaks", &[]).await?;
            match args.output {
                Format::Text => report::leaks(&found),
                other => output::value(other, &found)?,
            }
            let count = found["value"].as_array().map_or(0, Vec::len);
            if fail_on_leaks && count > 0 {
                bail!("{count} resources are left over");
            }
            Ok(())
        }
        AzureWhat::Faults(what) => faults::run(&admin, what, args.output).await,
        AzureWhat::Clock { what } => clock::run(&admin, what, args.output).await,
        AzureWhat::Top { once, every } => tokio::select! {
            result = top::run(&admin, once, every, args.output) => result,
            _ = tokio::signal::ctrl_c() => Ok(()),
        },
        AzureWhat::LeastPrivilege => {
            let found = admin.get("least-privilege", &[]).await?;
            match args.output {
                Format::Text => report::rights(&found),
                other => output::value(other, &found)?,
            }
            Ok(())
        }
    }
}

fn query(j: &JournalArgs, after: Option<u64>) -> Vec<(&'static str, String)> {
    let mut query: Vec<(&str, String)> = j.principal.iter().map(|who| ("principal", who.clone())).collect();
    match after {
        // What is new is never cut short.
        Some(after) => query.extend([("after", after.to_string()), ("wait", WAIT.to_string())]),
        None if j.limit > 0 => query.push(("limit", j.limit.to_string())),
        None => {}
    }
    query
}

async fn follow(admin: &Admin, j: &JournalArgs, format: Format) -> anyhow::Result<()> {
    let mut page = admin.get("journal", &query(j, None)).await?;
    let mut first = true;
    loop {
        match format {
            Format::Text => report::journal(&page, first),
            other => {
                for entry in page["value"].as_array().into_iter().flatten() {
                    document(other, entry)?;
                }
            }
        }
        first = false;
        let last = page["last"].as_u64().context("the simulator's answer has no `last`")?;
        page = admin.get("journal", &query(j, Some(last))).await?;
    }
}

/// One entry of a stream: a line of JSON, a document of YAML.
fn document(format: Format, entry: &Value) -> anyhow::Result<()> {
    match format {
        Format::Json => output::line(&entry.to_string()),
        Format::Text | Format::Yaml => {
            output::line("---");
            output::value(Format::Yaml, entry)?;
        }
    }
    Ok(())
}
