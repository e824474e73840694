//! `WWW-Authenticate`: what a registry wants.

use http::HeaderMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// `name="value"` pairs, separated by commas; values may have commas of their own.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(x) => x,
                None => break,
            },
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        all.push((name, value.trim().to_owned()));
        text = rest;
    }
    all
}

impl Challenge {
    /// The best that the headers offer.
    pub fn of(headers: &HeaderMap) -> Option<Challenge> {
        let all = headers.get_all("www-authenticate").iter().filter_map(|v| v.to_str().ok());
        let mut basic = None;
        for text in all {
            let (scheme, rest) = text.trim().split_once(' ').unwrap_or_else(|| (text.trim(), ""));
            if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Challenge::Basic);
            }
            if scheme.eq_ignore_ascii_case("bearer") {
                let p = parameters(rest);
                let get = |n: &str| p.iter().find(|(k, _)| k == n).map(|(_, v)| v.clone());
                let Some(realm) = get("realm") else { continue };
                return Some(Challenge::Bearer { realm, service: get("service"), scope: get("scope") });
            }
        }
        basic
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Option<Challenge> {
        Challenge::of(&[(http::header::WWW_AUTHENTICATE, text.parse().ok()?)].into_iter().collect())
    }

    #[test]
    fn challenges_are_read() {
        let full = r#"Bearer realm="https://a.test/token",service="r",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service, scope }) = of(full) else { panic!("{full}") };
        assert_eq!((realm.as_str(), service.as_deref()), ("https://a.test/token", Some("r")));
        assert_eq!(scope.as_deref(), Some("repository:a/b:pull,push"));
        assert_eq!(
            of(r#"bearer realm=x"#),
            Some(Challenge::Bearer { realm: "x".into(), service: None, scope: None })
        );
        assert_eq!(of(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(of("Bearer"), None);
        assert_eq!(of(r#"Bearer realm="x"#), None);
        assert_eq!(of("Negotiate"), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(Bearer|Basic)? ?[ -~]{0,60}") {
            let _ = of(&text);
        }
    }
}
