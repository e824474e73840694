//! Which representation a client takes, and which one it sends.

use ek_meta::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// The shape an object or list is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    Object,
    Table(MetaVersion),
    Partial(MetaVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => ek_proto::MEDIA_TYPE,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accepted {
    pub shape: Shape,
    pub encoding: Encoding,
}

/// Which document a discovery client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryFormat {
    Legacy,
    V2,
    V2beta1,
}

struct Clause<'a> {
    media: &'a str,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(k, _)| *k == name).map(|(_, v)| *v)
    }
}

/// Clauses in order of preference (quality, then position). A hostile header is cut off, not followed.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let mut out: Vec<(i32, Clause<'_>)> = Vec::new();
    for value in headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()) {
        for part in value.split(',').take(64) {
            let mut pieces = part.split(';').map(str::trim);
            let media = pieces.next().unwrap_or_default();
            if media.is_empty() {
                continue;
            }
            let params: Vec<_> = pieces
                .filter_map(|p| p.split_once('='))
                .map(|(k, v)| (k.trim(), v.trim().trim_matches('"')))
                .collect();
            let q = params.iter().find(|(k, _)| *k == "q").and_then(|(_, v)| v.parse::<f32>().ok());
            out.push(((q.unwrap_or(1.0) * 1000.0) as i32, Clause { media, params }));
        }
    }
    out.sort_by_key(|(q, _)| -q);
    out.into_iter().filter(|(q, _)| *q > 0).map(|(_, c)| c).collect()
}

fn encoding_of(media: &str) -> Option<Encoding> {
    match media {
        "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        ek_proto::MEDIA_TYPE => Some(Encoding::Protobuf),
        _ => None,
    }
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const ACCEPTED_CUSTOM: &str = "application/json, application/yaml";

/// For resources. `transforms` says whether Table and PartialObjectMetadata are on offer, `protobuf` whether the
/// kind has a protobuf form (built-in kinds).
///
/// Objects are kept as JSON, so a client that takes JSON as well as protobuf gets JSON; one that takes nothing else
/// gets protobuf. Metadata alone is sent as the client prefers it: in protobuf its items carry no kind, and Go's
/// metadata client compares them with ones that do not.
pub fn accept(headers: &HeaderMap, transforms: bool, protobuf: bool) -> Result<Accepted, Status> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Accepted { shape: Shape::Object, encoding: Encoding::Json });
    }
    let mut last_resort = None;
    for c in &clauses {
        let Some(encoding) = encoding_of(c.media) else { continue };
        let Some(kind) = c.param("as") else {
            let a = Accepted { shape: Shape::Object, encoding };
            if encoding != Encoding::Protobuf {
                return Ok(a);
            }
            if protobuf {
                last_resort.get_or_insert(a);
            }
            continue;
        };
        if !transforms || c.param("g") != Some("meta.k8s.io") {
            continue;
        }
        let version = match c.param("v") {
            Some("v1") => MetaVersion::V1,
            Some("v1beta1") => MetaVersion::V1beta1,
            _ => continue,
        };
        let shape = match kind {
            "Table" if encoding != Encoding::Protobuf => Shape::Table(version),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Shape::Partial(version),
            _ => continue,
        };
        return Ok(Accepted { shape, encoding });
    }
    last_resort.ok_or_else(|| {
        let offer = if protobuf { ACCEPTED } else { ACCEPTED_CUSTOM };
        Status::not_acceptable(offer)
    })
}

pub fn discovery(headers: &HeaderMap) -> Result<DiscoveryFormat, Status> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(DiscoveryFormat::Legacy);
    }
    for c in &clauses {
        if encoding_of(c.media).is_none_or(|e| e == Encoding::Protobuf) {
            continue;
        }
        match (c.param("as"), c.param("g"), c.param("v")) {
            (None, _, _) => return Ok(DiscoveryFormat::Legacy),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
                return Ok(DiscoveryFormat::V2);
            }
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
                return Ok(DiscoveryFormat::V2beta1);
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(ACCEPTED))
}

/// The form of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyType {
    Json,
    Yaml,
    Protobuf,
}

fn media_type(headers: &HeaderMap) -> Option<&str> {
    let v = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(v.split(';').next().unwrap_or_default().trim()).filter(|m| !m.is_empty())
}

/// `protobuf` says whether the resource can be sent as protobuf (built-in kinds).
pub fn body_type(headers: &HeaderMap, protobuf: bool) -> Result<BodyType, Status> {
    match media_type(headers) {
        None | Some("application/json") => Ok(BodyType::Json),
        Some("application/yaml") => Ok(BodyType::Yaml),
        Some("application/vnd.kubernetes.protobuf") if protobuf => Ok(BodyType::Protobuf),
        _ if protobuf => Err(Status::unsupported_media_type(ACCEPTED)),
        _ => Err(Status::unsupported_media_type(ACCEPTED_CUSTOM)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Strategic merge needs a built-in type: merge keys of custom resources are not defined.
pub fn patch_type(headers: &HeaderMap, strategic: bool) -> Result<PatchType, Status> {
    match media_type(headers) {
        Some("application/json-patch+json") => Ok(PatchType::Json),
        Some("application/merge-patch+json") => Ok(PatchType::Merge),
        Some("application/strategic-merge-patch+json") if strategic => Ok(PatchType::Strategic),
        Some("application/apply-patch+yaml") => Ok(PatchType::Apply),
        _ => Err(Status::unsupported_media_type(if strategic {
            "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
        } else {
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h(accept: &str) -> HeaderMap {
        let mut h = HeaderMap::new();
        h.insert(ACCEPT, accept.parse().unwrap());
        h
    }

    #[test]
    fn accept_headers_of_real_clients() {
        let a = accept(&h("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"), true, true).unwrap();
        assert_eq!(a.shape, Shape::Table(MetaVersion::V1));
        let a = accept(&h("application/vnd.kubernetes.protobuf,application/json"), true, true).unwrap();
        assert_eq!(a.shape, Shape::Object);
        let a = accept(&h("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json"), true, true)
            .unwrap();
        assert_eq!(a.shape, Shape::Object);
        assert_eq!(accept(&h("text/html"), true, true).unwrap_err().code, 406);
        assert_eq!(
            accept(&h("application/json;q=0.1,application/yaml"), true, true).unwrap().encoding,
            Encoding::Yaml
        );
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let a = accept(&h(metadata), true, false).unwrap();
        assert_eq!(a, Accepted { shape: Shape::Partial(MetaVersion::V1), encoding: Encoding::Protobuf });
        let only = h("application/vnd.kubernetes.protobuf");
        assert_eq!(accept(&only, true, true).unwrap().encoding, Encoding::Protobuf);
        assert_eq!(
            accept(&only, true, false).unwrap_err().code,
            406,
            "custom resources have no protobuf form"
        );
        let d = discovery(&h("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json")).unwrap();
        assert_eq!(d, DiscoveryFormat::V2);
    }
}
