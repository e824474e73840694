//! `AdmissionReview`: what is asked, and what is answered. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const VERSION: &str = "admission.k8s.io/v1";

/// Why a document is no review.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Malformed {
    #[error("this is not JSON")]
    Json,
    #[error("this is no {VERSION} AdmissionReview with a request")]
    Kind,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub uid: String,
    pub namespace: String,
    /// Null where something is deleted.
    pub object: Value,
    /// Null where something is new.
    pub old: Value,
}

impl Request {
    pub fn read(body: &[u8]) -> Result<Request, Malformed> {
        let mut review: Value = serde_json::from_slice(body).map_err(|_| Malformed::Json)?;
        let known = review["apiVersion"] == VERSION && review["kind"] == "AdmissionReview";
        let request = review.get_mut("request").filter(|r| known && r.is_object()).ok_or(Malformed::Kind)?;
        let uid = request["uid"].as_str().ok_or(Malformed::Kind)?.to_owned();
        let namespace = request["namespace"].as_str().unwrap_or_default().to_owned();
        Ok(Request { uid, namespace, object: request["object"].take(), old: request["oldObject"].take() })
    }
}

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Operations of a JSON patch; none: it is good as it is.
    pub patch: Vec<Value>,
    /// Told to whoever asked, whether it is taken or not.
    pub warnings: Vec<String>,
    /// Why it is not taken.
    pub refused: Option<String>,
}

impl Answer {
    pub fn refuse(why: impl Into<String>) -> Answer {
        Answer { refused: Some(why.into()), ..Answer::default() }
    }

    pub fn write(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.refused.is_none()});
        if let Some(why) = &self.refused {
            response["status"] = json!({"code": 422, "reason": "Invalid", "message": why});
        } else if !self.patch.is_empty() {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(json!(self.patch).to_string()));
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reviews_are_read() {
        assert_eq!(Request::read(b"<html>"), Err(Malformed::Json));
        for other in [
            json!({}),
            json!([]),
            json!({"apiVersion": VERSION, "kind": "AdmissionReview"}),
            json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}),
        ] {
            assert_eq!(Request::read(other.to_string().as_bytes()), Err(Malformed::Kind), "{other}");
        }
        let review = json!({"apiVersion": VERSION, "kind": "AdmissionReview",
            "request": {"uid": "u", "namespace": "n", "object": {"a": 1}}});
        let request = Request::read(review.to_string().as_bytes()).unwrap();
        assert_eq!((request.uid.as_str(), request.namespace.as_str()), ("u", "n"));
        assert_eq!((request.object, request.old), (json!({"a": 1}), Value::Null));
    }

    #[test]
    fn answers_are_as_the_api_server_reads_them() {
        let good = Answer::default().write("u");
        assert_eq!(good["response"], json!({"uid": "u", "allowed": true}));
        let filled = Answer { patch: vec![json!({"op": "add"})], ..Answer::default() }.write("u");
        let patch = STANDARD.decode(filled["response"]["patch"].as_str().unwrap()).unwrap();
        assert_eq!(filled["response"]["patchType"], "JSONPatch");
        assert_eq!(serde_json::from_slice::<Value>(&patch).unwrap(), json!([{"op": "add"}]));
        let bad = Answer::refuse("why").write("u");
        assert_eq!(bad["response"]["allowed"], false);
        assert_eq!(bad["response"]["status"]["message"], "why");
    }
}
