//! The reports as tables.

use crate::output;
use serde_json::Value;

fn list(v: &Value) -> impl Iterator<Item = &Value> {
    v.as_array().into_iter().flatten()
}

fn text<'a>(v: &'a Value, field: &str) -> &'a str {
    v[field].as_str().unwrap_or("-")
}

/// A principal's name where it has one, else its id.
fn who<'a>(page: &'a Value, id: &'a Value) -> &'a str {
    let id = id.as_str().unwrap_or("-");
    page["names"][id].as_str().unwrap_or(id)
}

/// A path or id without what is the same in all of them: the one subscription.
fn short(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("/subscriptions/") else { return path };
    rest.find('/').map_or(path, |at| &rest[at..])
}

/// The time of day, to the millisecond.
fn clock(at: &str) -> String {
    let time = at.split_once('T').map_or(at, |(_, time)| time).trim_end_matches('Z');
    let (seconds, part) = time.split_once('.').unwrap_or((time, ""));
    let millis: String = part.chars().chain("000".chars()).take(3).collect();
    format!("{seconds}.{millis}")
}

pub fn journal(page: &Value, head: bool) {
    let rows: Vec<Vec<String>> = list(&page["value"])
        .map(|e| {
            let decision = match (e["error"].as_str(), e["grantedBy"].is_string()) {
                (Some(code), _) => code,
                (None, true) => "allowed",
                (None, false) => "-",
            };
            let decision = match e["fault"].as_str() {
                Some(fault) => format!("{decision} (fault: {fault})"),
                None => decision.to_owned(),
            };
            vec![
                clock(text(e, "at")),
                who(page, &e["principal"]).to_owned(),
                text(e, "method").to_owned(),
                e["status"].to_string(),
                format!("{:.1} ms", e["micros"].as_f64().unwrap_or(0.0) / 1e3),
                decision,
                text(e, "action").to_owned(),
                short(text(e, "path")).to_owned(),
            ]
        })
        .collect();
    if head {
        let head = ["TIME", "PRINCIPAL", "METHOD", "STATUS", "TOOK", "DECISION", "ACTION", "PATH"];
        output::table(&head, &rows);
    } else {
        for row in rows {
            output::line(&row.join("  "));
        }
    }
}

pub fn leaks(found: &Value) {
    let rows: Vec<Vec<String>> = list(&found["value"])
        .map(|r| {
            let at = text(r, "createdAt").to_owned();
            vec![at, who(found, &r["createdBy"]).to_owned(), short(text(r, "id")).to_owned()]
        })
        .collect();
    if rows.is_empty() {
        output::line("nothing is left over");
        return;
    }
    output::table(&["CREATED", "BY", "RESOURCE"], &rows);
}

pub fn rights(found: &Value) {
    let mut rows = Vec::new();
    for p in list(&found["value"]) {
        let name = p["name"].as_str().unwrap_or_else(|| text(p, "principal"));
        let mut add = |what: &str, actions: &Value| {
            for action in list(actions) {
                let action = action.as_str().unwrap_or("-");
                rows.push(vec![name.to_owned(), what.to_owned(), action.to_owned()]);
            }
        };
        add("used", &p["used"]);
        add("granted, never used", &p["unused"]);
    }
    if rows.is_empty() {
        output::line("nobody has used a right yet");
        return;
    }
    output::table(&["PRINCIPAL", "RIGHT", "ACTION"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_paths_are_short() {
        assert_eq!(clock("2026-01-02T03:04:05.6789Z"), "03:04:05.678");
        assert_eq!(clock("2026-01-02T03:04:05Z"), "03:04:05.000");
        assert_eq!(clock("junk"), "junk.000");
        assert_eq!(short("/subscriptions/x/resourceGroups/g"), "/resourceGroups/g");
        assert_eq!(short("/subscriptions/x"), "/subscriptions/x");
        assert_eq!(short("/tenants"), "/tenants");
    }
}
