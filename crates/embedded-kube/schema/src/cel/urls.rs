//! URLs, read as Go's `ParseRequestURI` reads them: absolute, or an absolute path.
//!
//! The `url` crate decides validity and splits the query. Host and path are taken from the text as written,
//! because the crate normalises (default ports, an empty path) and Go does not.

use super::error::{EvalError, Res};
use super::table::{Entry, Site, function, method, text};
use super::value::{Map, MapData, Val};
use std::rc::Rc;
use url::Url;

pub(super) const TABLE: &[Entry] = &[
    function("isURL", 1, 1, is_url).returning("bool"),
    function("url", 1, 1, url).returning("kubernetes.URL"),
    method("getScheme", 0, 0, part).returning("string"),
    method("getHost", 0, 0, part).returning("string"),
    method("getHostname", 0, 0, part).returning("string"),
    method("getPort", 0, 0, part).returning("string"),
    method("getEscapedPath", 0, 0, part).returning("string"),
    method("getQuery", 0, 0, query).returning("map"),
];

/// A URL and its text.
#[derive(Clone, Debug)]
pub struct Parsed {
    raw: Box<str>,
    url: Url,
}

impl Parsed {
    pub fn as_str(&self) -> &str {
        &self.raw
    }

    /// The part after the scheme: authority and path, without query and fragment.
    fn hierarchy(&self) -> (&str, &str) {
        let rest = match self.raw.split_once("://") {
            Some((_, rest)) if !self.raw.starts_with('/') => rest,
            _ => return ("", cut(&self.raw)),
        };
        let rest = cut(rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (authority.rsplit_once('@').map_or(authority, |(_, host)| host), path)
    }
}

fn cut(s: &str) -> &str {
    s.find(['?', '#']).map_or(s, |i| &s[..i])
}

pub(super) fn parse(s: &str) -> Option<Parsed> {
    if s.chars().any(|c| c.is_ascii_control() || c == ' ') {
        return None;
    }
    let url = if s.starts_with('/') {
        // Any base will do: only the path and query are read from the result.
        Url::parse(&format!("http://path.invalid/{}", s.trim_start_matches('/'))).ok()?
    } else {
        let (scheme, rest) = s.split_once(':')?;
        let valid_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        // The url crate repairs what Go refuses: a web scheme with no authority marker.
        let web = matches!(scheme, "http" | "https");
        if !valid_scheme || rest.is_empty() || (web && !rest.starts_with("//")) {
            return None;
        }
        Url::parse(s).ok()?
    };
    Some(Parsed { raw: s.into(), url })
}

fn is_url<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    Ok(Val::Bool(parse(s).is_some()))
}

fn url<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let s = text(site, args, 0)?;
    site.charge_text(s.len())?;
    let bad = || EvalError::Function(format!("URL parse error during conversion from string: \"{s}\""));
    parse(s).map(|u| Val::Url(Rc::new(u))).ok_or_else(bad)
}

fn part<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Url(u) = &args[0] else { return site.no_overload(args) };
    let (host, path) = u.hierarchy();
    let (name, port) = match host.rfind(':') {
        Some(i) if !host[i..].contains(']') => (&host[..i], &host[i + 1..]),
        _ => (host, ""),
    };
    Ok(Val::str(match site.name {
        "getScheme" if u.raw.starts_with('/') => "",
        "getScheme" => u.url.scheme(),
        "getHost" => host,
        "getHostname" => name.trim_start_matches('[').trim_end_matches(']'),
        "getPort" => port,
        _ => path,
    }))
}

fn query<'a>(site: &Site<'_>, args: &[Val<'a>]) -> Res<Val<'a>> {
    let Val::Url(u) = &args[0] else { return site.no_overload(args) };
    site.charge_text(u.raw.len())?;
    let mut grouped: Vec<(String, Vec<Val<'a>>)> = Vec::new();
    for (k, v) in u.url.query_pairs() {
        site.budget.charge(1 + grouped.len() as u64)?;
        match grouped.iter_mut().find(|(name, _)| *name == k) {
            Some((_, values)) => values.push(Val::str(&*v)),
            None => grouped.push((k.into_owned(), vec![Val::str(&*v)])),
        }
    }
    let mut map = MapData::default();
    for (k, values) in grouped {
        map.insert(Val::str(k), Val::list(values))?;
    }
    Ok(Val::Map(Map::Shared(Rc::new(map))))
}
