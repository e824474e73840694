//! What a request asks for, read from its method and path alone.

use http::Method;

/// A request against the resource API, or against anything else the server answers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RequestInfo {
    pub is_resource: bool,
    pub path: String,
    /// `get list watch create update patch delete deletecollection`; lower-case method for other paths.
    pub verb: &'static str,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// What follows a subresource (`proxy/path`).
    pub rest: String,
}

impl RequestInfo {
    /// `watch` says that the query has a true `watch` parameter, which turns a list into a watch.
    pub fn parse(method: &Method, path: &str, watch: bool) -> RequestInfo {
        let other = RequestInfo { path: path.to_owned(), verb: method_verb(method), ..Default::default() };
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let parts: Vec<&str> = trimmed.split('/').collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", v, rest @ ..] if !rest.is_empty() && !v.is_empty() => ("", *v, rest),
            ["apis", g, v, rest @ ..] if !rest.is_empty() && !v.is_empty() => (*g, *v, rest),
            _ => return other,
        };
        if rest == [""] {
            return other;
        }
        // The deprecated `/watch/` prefix: still sent by old tools.
        let mut watch = watch;
        if rest[0] == "watch" && rest.len() > 1 {
            watch = true;
            rest = &rest[1..];
        }
        let mut info =
            RequestInfo { is_resource: true, group: group.to_owned(), version: version.to_owned(), ..other };
        let (namespace, rest) = match rest {
            // `namespaces/x` and its own subresources are the namespace object, not its contents.
            ["namespaces", ns, "status" | "finalize", ..] => {
                info.namespace = String::new();
                (*ns, rest)
            }
            ["namespaces", ns, more @ ..] if !more.is_empty() && !more[0].is_empty() => {
                info.namespace = (*ns).to_owned();
                (*ns, more)
            }
            _ => ("", rest),
        };
        let _ = namespace;
        info.resource = rest[0].to_owned();
        info.name = rest.get(1).map(|s| (*s).to_owned()).unwrap_or_default();
        info.subresource = rest.get(2).map(|s| (*s).to_owned()).unwrap_or_default();
        info.rest = rest.get(3..).map(|r| r.join("/")).unwrap_or_default();
        info.verb = match *method {
            Method::GET | Method::HEAD if watch && info.subresource.is_empty() => "watch",
            Method::GET | Method::HEAD if info.name.is_empty() => "list",
            Method::GET | Method::HEAD => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if info.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => method_verb(method),
        };
        info
    }
}

fn method_verb(m: &Method) -> &'static str {
    match *m {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(m: Method, p: &str) -> String {
        let i = RequestInfo::parse(&m, p, false);
        if !i.is_resource {
            return format!("{} {}", i.verb, i.path);
        }
        format!(
            "{} {}/{} ns={} {} {} {}",
            i.verb, i.group, i.version, i.namespace, i.resource, i.name, i.subresource
        )
        .trim_end()
        .to_owned()
    }

    #[test]
    fn paths() {
        assert_eq!(at(Method::GET, "/api/v1/pods"), "list /v1 ns= pods");
        assert_eq!(at(Method::GET, "/api/v1/namespaces/x/pods/p/log"), "get /v1 ns=x pods p log");
        assert_eq!(at(Method::GET, "/api/v1/namespaces/x"), "get /v1 ns= namespaces x");
        assert_eq!(at(Method::PUT, "/api/v1/namespaces/x/finalize"), "update /v1 ns= namespaces x finalize");
        assert_eq!(
            at(Method::DELETE, "/apis/apps/v1/namespaces/x/deployments"),
            "deletecollection apps/v1 ns=x deployments"
        );
        assert_eq!(at(Method::GET, "/apis/apps/v1"), "get /apis/apps/v1");
        assert_eq!(at(Method::GET, "/api/v1"), "get /api/v1");
        assert_eq!(at(Method::GET, "/api/v1/"), "get /api/v1/");
        assert_eq!(at(Method::GET, "/healthz"), "get /healthz");
        assert_eq!(at(Method::GET, "/api/v1/watch/namespaces/x/pods"), "watch /v1 ns=x pods");
    }
}
