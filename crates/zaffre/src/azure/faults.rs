//! `zaffre azure faults`.

use super::admin::Admin;
use crate::cli::Format;
use crate::cli::azure::{Counted, FaultArgs, FaultsWhat, Moment};
use crate::cli::fixes::STATUS;
use crate::output;
use anyhow::Context;
use http::Method;
use self_managed::Refused;
use serde_json::{Map, Value, json};

pub async fn run(admin: &Admin, what: FaultsWhat, format: Format) -> anyhow::Result<()> {
    match what {
        FaultsWhat::Add(args) => {
            fits(&args)?;
            let body = rule(&args).to_string();
            added(&admin.send(Method::POST, "faults", &[], Some(body.into())).await?, format)
        }
        FaultsWhat::List => {
            let found = admin.get("faults", &[]).await?;
            shown(&found, format, list)
        }
        FaultsWhat::Remove { name } => {
            let path = format!("faults/{}", encoded(&name));
            removed(&admin.send(Method::DELETE, &path, &[], None).await?, format)
        }
        FaultsWhat::Clear => removed(&admin.send(Method::DELETE, "faults", &[], None).await?, format),
        FaultsWhat::Load { what } => added(&load(admin, &what).await?, format),
        FaultsWhat::Presets => {
            let found = admin.get("faults/presets", &[]).await?;
            shown(&found, format, presets)
        }
    }
}

fn encoded(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

/// A preset by its name; anything that looks like a path is one.
async fn load(admin: &Admin, what: &str) -> anyhow::Result<Value> {
    if azure_sim::preset(what).is_some() {
        return admin.send(Method::POST, "faults", &[("preset", what.to_owned())], None).await;
    }
    let text = std::fs::read(what).with_context(|| {
        format!("'{what}' is no preset (see `zaffre azure faults presets`), and cannot be read as a file")
    })?;
    admin.send(Method::POST, "faults", &[], Some(text.into())).await
}

/// Words of an answer are for who answers. The parser lets them pass beside another effect: it asks for no flag that
/// another one excludes.
fn fits(a: &FaultArgs) -> Result<(), Refused> {
    let t = &a.then;
    let answers = t.status.is_some();
    let words = [
        ("--code", a.code.is_some() && !answers),
        ("--html", a.html && !answers),
        ("--retry-after", a.retry_after.is_some() && !answers),
        ("--message", a.message.is_some() && !answers && t.fail_late.is_none() && t.partial.is_none()),
    ];
    match words.into_iter().find(|(_, idle)| *idle) {
        Some((flag, _)) => Err(Refused::needs(flag, "--status", STATUS)),
        None => Ok(()),
    }
}

/// The rule that the flags say; the simulator checks it.
fn rule(a: &FaultArgs) -> Value {
    let mut on = Map::new();
    let texts = [
        ("host", &a.host),
        ("method", &a.method),
        ("type", &a.kind),
        ("id", &a.id),
        ("principal", &a.principal),
        ("action", &a.action),
        ("zone", &a.zone),
    ];
    for (name, value) in texts {
        on.extend(value.as_ref().map(|v| (name.to_owned(), v.as_str().into())));
    }
    for (name, value) in [("nth", a.nth), ("every", a.every), ("times", a.times)] {
        on.extend(value.map(|v| (name.to_owned(), v.into())));
    }
    on.extend(a.probability.map(|p| ("probability".to_owned(), p.into())));
    if a.each == Counted::Id {
        on.insert("each".to_owned(), "id".into());
    }
    let why = |code: &str| {
        let mut v = json!({"code": code});
        if let Some(m) = &a.message {
            v["message"] = m.as_str().into();
        }
        v
    };
    let t = &a.then;
    let then = if let Some(status) = t.status {
        let mut answer = json!({"status": status, "html": a.html});
        for (name, value) in [("code", &a.code), ("message", &a.message)] {
            if let Some(v) = value {
                answer[name] = v.as_str().into();
            }
        }
        if let Some(s) = a.retry_after {
            answer["retryAfter"] = s.into();
        }
        json!({"answer": answer})
    } else if let Some(s) = t.throttle {
        json!({"throttle": s})
    } else if let Some(when) = t.drop {
        json!({"drop": if when == Moment::Before { "before" } else { "after" }})
    } else if let Some(ms) = t.delay {
        json!({"delay": ms})
    } else if let Some(code) = &t.fail_late {
        json!({"failLate": why(code)})
    } else if let Some(code) = &t.partial {
        json!({"partial": why(code)})
    } else if let Some(n) = t.stale {
        json!({"stale": {"versions": n}})
    } else if t.expire_token {
        json!("expireToken")
    } else {
        // One of them is required.
        json!({"rotateKeys": true})
    };
    json!({"name": a.name.clone().unwrap_or_default(), "match": on, "then": then})
}

fn shown(found: &Value, format: Format, text: impl FnOnce(&Value)) -> anyhow::Result<()> {
    match format {
        Format::Text => text(found),
        other => output::value(other, found)?,
    }
    Ok(())
}

fn added(answer: &Value, format: Format) -> anyhow::Result<()> {
    shown(answer, format, |a| {
        for name in a["added"].as_array().into_iter().flatten() {
            output::line(&format!("added {}", name.as_str().unwrap_or("-")));
        }
    })
}

fn removed(answer: &Value, format: Format) -> anyhow::Result<()> {
    shown(answer, format, |a| output::line(&format!("removed {}", a["removed"])))
}

/// What a rule asks of a request, on one line.
fn condition(on: &Value) -> String {
    let of = |(k, v): (&String, &Value)| {
        let v = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        format!("{k}={v}")
    };
    let all: Vec<String> = on.as_object().into_iter().flatten().map(of).collect();
    if all.is_empty() { "everything".to_owned() } else { all.join(" ") }
}

fn effect(then: &Value) -> String {
    match then {
        Value::String(s) => s.clone(),
        Value::Object(m) => {
            let of = |(k, v): (&String, &Value)| match v {
                Value::Object(inner) => {
                    let words = ["status", "code", "versions", "seconds"];
                    let words = words.iter().filter_map(|w| inner.get(*w));
                    let words = words.map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
                    format!("{k} {}", words.collect::<Vec<_>>().join(" "))
                }
                Value::String(s) => format!("{k} {s}"),
                other => format!("{k} {other}"),
            };
            m.iter().map(of).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn list(found: &Value) {
    let rows: Vec<Vec<String>> = found["value"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| {
            let name = r["name"].as_str().unwrap_or("-").to_owned();
            vec![
                name,
                r["met"].to_string(),
                r["fired"].to_string(),
                effect(&r["then"]),
                condition(&r["match"]),
            ]
        })
        .collect();
    if rows.is_empty() {
        return output::line("nothing goes wrong on purpose");
    }
    output::table(&["NAME", "MET", "FIRED", "WHAT HAPPENS", "TO"], &rows);
}

fn presets(found: &Value) {
    let rows: Vec<Vec<String>> = found["value"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| ["name", "about"].map(|f| p[f].as_str().unwrap_or("-").to_owned()).to_vec())
        .collect();
    output::table(&["PRESET", "WHAT GOES WRONG"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_on_one_line() {
        assert_eq!(condition(&json!({})), "everything");
        assert_eq!(condition(&json!({"method": "PUT", "nth": 1})), "method=PUT nth=1");
        assert_eq!(effect(&json!("expireToken")), "expireToken");
        assert_eq!(effect(&json!({"drop": "after"})), "drop after");
        assert_eq!(effect(&json!({"answer": {"status": 503, "code": "X", "html": false}})), "answer 503 X");
        assert_eq!(effect(&json!({"throttle": 5})), "throttle 5");
    }

    fn refused(flags: &str) -> Option<String> {
        use crate::cli::{Cli, Command, azure::AzureWhat};
        let words = ["zaffre", "azure", "faults", "add"].into_iter().chain(flags.split(' '));
        let cli: Cli = clap::Parser::try_parse_from(words).unwrap();
        let Command::Azure(args) = cli.command else { panic!("{flags}") };
        let AzureWhat::Faults(FaultsWhat::Add(rule)) = args.what else { panic!("{flags}") };
        fits(&rule).err().map(|e| e.to_string())
    }

    #[test]
    fn words_of_an_answer_need_one() {
        for line in ["--throttle 3 --code X", "--drop before --html", "--stale 1 --message m"] {
            let said = refused(line).unwrap_or_else(|| panic!("{line} is taken"));
            assert!(said.contains("--status") && said.contains(line.split(' ').nth(2).unwrap()), "{said}");
        }
        for line in
            ["--status 503 --code X --html --retry-after 1", "--fail-late X --message m", "--throttle 3"]
        {
            assert_eq!(refused(line), None, "{line}");
        }
    }
}
