//! Shared Key and shared access signatures: what is signed, and how it is checked.

use crate::planes::Ask;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// HMAC-SHA256 with a base64 key, in base64.
pub fn signature(key: &str, text: &str) -> Option<String> {
    let key = STANDARD.decode(key).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    Some(STANDARD.encode(hmac::sign(&key, text.as_bytes())))
}

/// Compares without revealing by time where the first difference is.
pub fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// What the Shared Key scheme signs of a request.
pub fn shared_key_text(ask: &Ask, account: &str) -> String {
    let header = |name: &str| ask.call.header(name).unwrap_or_default();
    let length = match header("content-length") {
        "0" => "",
        n => n,
    };
    let date = if ask.call.headers.contains_key("x-ms-date") { "" } else { header("date") };
    let mut text = ask.call.method.as_str().to_owned();
    for value in [
        header("content-encoding"),
        header("content-language"),
        length,
        header("content-md5"),
        header("content-type"),
        date,
        header("if-modified-since"),
        header("if-match"),
        header("if-none-match"),
        header("if-unmodified-since"),
        header("range"),
    ] {
        text.push('\n');
        text.push_str(value);
    }
    text.push('\n');
    let mut own: Vec<(&str, &str)> = ask
        .call
        .headers
        .iter()
        .filter(|(n, _)| n.as_str().starts_with("x-ms-"))
        .filter_map(|(n, v)| Some((n.as_str(), v.to_str().ok()?.trim())))
        .collect();
    own.sort_by_key(|(n, _)| *n);
    for (name, value) in own {
        text.push_str(&format!("{name}:{value}\n"));
    }
    text.push_str(&format!("/{account}{}", ask.raw_path));
    let mut query: Vec<(String, &str)> =
        ask.call.query.iter().map(|(k, v)| (k.to_lowercase(), v.as_str())).collect();
    query.sort();
    let mut last: Option<String> = None;
    for (name, value) in query {
        if last.as_ref() == Some(&name) {
            text.push_str(&format!(",{value}"));
            continue;
        }
        text.push_str(&format!("\n{name}:{value}"));
        last = Some(name);
    }
    text
}

/// A signature in the query.
#[derive(Clone, Debug)]
pub struct Sas<'a> {
    ask: &'a Ask,
}

impl<'a> Sas<'a> {
    pub fn of(ask: &'a Ask) -> Option<Sas<'a>> {
        ask.call.query("sig").map(|_| Sas { ask })
    }

    pub fn get(&self, name: &str) -> &'a str {
        self.ask.call.query(name).unwrap_or_default()
    }

    pub fn is_account(&self) -> bool {
        !self.get("ss").is_empty() || !self.get("srt").is_empty()
    }

    pub fn is_delegated(&self) -> bool {
        !self.get("skoid").is_empty()
    }

    fn since(&self, version: &str) -> bool {
        self.get("sv") >= version
    }

    fn lines(values: &[&str]) -> String {
        values.join("\n")
    }

    pub fn account_text(&self, account: &str) -> String {
        let g = |n| self.get(n);
        let mut v = vec![account, g("sp"), g("ss"), g("srt"), g("st"), g("se"), g("sip"), g("spr"), g("sv")];
        if self.since("2020-12-06") {
            v.push(g("ses"));
        }
        v.push("");
        Sas::lines(&v)
    }

    pub fn service_text(&self, resource: &str) -> String {
        let g = |n| self.get(n);
        let mut v = vec![
            g("sp"),
            g("st"),
            g("se"),
            resource,
            g("si"),
            g("sip"),
            g("spr"),
            g("sv"),
            g("sr"),
            g("snapshot"),
        ];
        if self.since("2020-12-06") {
            v.push(g("ses"));
        }
        v.extend([g("rscc"), g("rscd"), g("rsce"), g("rscl"), g("rsct")]);
        Sas::lines(&v)
    }

    /// Newer versions sign more fields; all are empty unless they are used, so each layout is tried.
    pub fn delegated_texts(&self, resource: &str) -> Vec<String> {
        let g = |n| self.get(n);
        let layout = |users: bool, requests: bool| {
            let mut v = vec![
                g("sp"),
                g("st"),
                g("se"),
                resource,
                g("skoid"),
                g("sktid"),
                g("skt"),
                g("ske"),
                g("sks"),
                g("skv"),
                g("saoid"),
                g("suoid"),
                g("scid"),
            ];
            if users {
                v.extend([g("skdutid"), g("sduoid")]);
            }
            v.extend([g("sip"), g("spr"), g("sv"), g("sr"), g("snapshot")]);
            if self.since("2020-12-06") {
                v.push(g("ses"));
            }
            if requests {
                v.extend(["", ""]);
            }
            v.extend([g("rscc"), g("rscd"), g("rsce"), g("rscl"), g("rsct")]);
            Sas::lines(&v)
        };
        vec![layout(false, false), layout(true, false), layout(true, true)]
    }
}

/// The key that a user delegation has; it follows from the account's own, so it need not be kept.
pub fn delegation_key(account_key: &str, fields: &[&str; 6]) -> Option<String> {
    signature(account_key, &format!("user-delegation\n{}", fields.join("\n")))
}

/// The times that signatures are written with.
pub fn time(text: &str) -> Option<Timestamp> {
    if let Ok(t) = text.parse::<Timestamp>() {
        return Some(t);
    }
    let at = |d: DateTime| d.to_zoned(TimeZone::UTC).ok().map(|z| z.timestamp());
    if let Ok(d) = DateTime::strptime("%Y-%m-%dT%H:%MZ", text) {
        return at(d);
    }
    Date::strptime("%Y-%m-%d", text).ok().and_then(|d| at(d.to_datetime(jiff::civil::Time::midnight())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planes::Plane;
    use crate::wire::Call;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn ask(raw_path: &str, query: &str, headers: &[(&'static str, &str)]) -> Ask {
        let mut map = http::HeaderMap::new();
        for (k, v) in headers {
            map.insert(*k, v.parse().unwrap());
        }
        let call = Call {
            method: http::Method::PUT,
            path: raw_path.into(),
            query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            headers: map,
            body: Bytes::new(),
            base: String::new(),
        };
        Ask {
            plane: Plane::Blob,
            host: "a.blob.core.windows.net".into(),
            raw_path: raw_path.into(),
            raw_query: query.into(),
            call,
            upload: None,
        }
    }

    /// The worked example of the documentation of Shared Key.
    #[test]
    fn the_documented_example() {
        let a = ask(
            "/mycontainer",
            "restype=container&comp=metadata&timeout=20",
            &[
                ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"),
                ("x-ms-version", "2015-02-21"),
                ("content-length", "0"),
            ],
        );
        let text = shared_key_text(&a, "myaccount");
        assert_eq!(
            text,
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
    }

    #[test]
    fn times_as_clients_write_them() {
        for (text, want) in [
            ("2026-01-02T03:04:05Z", Some(1_767_323_045)),
            ("2026-01-02T03:04Z", Some(1_767_323_040)),
            ("2026-01-02", Some(1_767_312_000)),
            ("2026-01-02T03:04:05.1234567Z", Some(1_767_323_045)),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(time(text).map(|t| t.as_second()), want, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever is changed in the signed fields, the signature changes.
        #[test]
        fn a_changed_query_has_another_signature(field in 0usize..9, value in "[a-z0-9]{1,8}") {
            let names = ["sp", "st", "se", "si", "sip", "spr", "sv", "sr", "rsct"];
            let query = "sp=r&st=a&se=b&si=c&sip=d&spr=https&sv=2024-01-01&sr=b&rsct=t&sig=x";
            let a = ask("/c/b", query, &[]);
            let changed: Vec<String> = query.split('&').map(|p| match p.split_once('=') {
                Some((k, v)) if k == names[field] && v != value => format!("{k}={value}"),
                _ => p.to_owned(),
            }).collect();
            let b = ask("/c/b", &changed.join("&"), &[]);
            let text = |a: &Ask| Sas::of(a).unwrap().service_text("/blob/a/c/b");
            prop_assert_eq!(text(&a) == text(&b), query == changed.join("&"));
        }

        #[test]
        fn never_panics(query in "[a-z=&%0-9+]{0,80}", path in "/[ -~]{0,40}") {
            let a = ask(&path, &query, &[]);
            let _ = shared_key_text(&a, "x");
            if let Some(s) = Sas::of(&a) {
                let _ = (s.account_text("x"), s.service_text("/"), s.delegated_texts("/"), time(s.get("se")));
            }
        }
    }
}
