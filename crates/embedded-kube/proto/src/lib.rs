//! Kubernetes protobuf to JSON and back, driven by a table.
//!
//! Typed Go clients send protobuf and accept no refusal, so a server that thinks in JSON must read it. This
//! crate turns a body into *the JSON the same Go client would have sent had it used JSON*: that is the whole
//! contract, it is checked against Go itself (`tests/golden.rs`), and it lets the rest of the server forget
//! protobuf exists.
//!
//! The contract has one subtle part, presence. Go's encoder writes every field that is not a pointer, zero or
//! not; Go's JSON leaves many of those out again, but keeps the zeros behind pointers (`replicas: 0`) and the
//! zeros of required fields (`containers: null`). So each field of the table carries a flag, taken from the
//! Go types: *set* (shown iff on the wire), *or null* (a pointer shown as null otherwise), *drop zero*, or
//! *always* (shown even if not on the wire).
//!
//! Input is hostile until proven otherwise: lengths are checked before use, nesting is bounded, and what is
//! filled in without being on the wire is bounded by the size of the input.

mod decode;
mod encode;
mod special;
mod table;
mod wire;
pub mod zero;

pub use decode::{Decoded, Unknown, decode, decode_as, decode_reporting};
pub use encode::{encode, encode_as, encode_watch_event};

/// The first bytes of every Kubernetes protobuf document.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The media type of such a document.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Deepest nesting of messages that is followed; JSONSchemaProps is the only type that nests at will.
pub(crate) const MAX_DEPTH: u32 = 100;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the body does not start with the Kubernetes protobuf magic number")]
    NoMagic,
    #[error("the body names no kind")]
    NoKind,
    #[error("no protobuf form is known for {api_version}, Kind={kind}")]
    UnknownKind { api_version: String, kind: String },
    #[error("no protobuf message is called {0}")]
    UnknownMessage(String),
    #[error("content encoding {0:?} is not supported")]
    Encoding(String),
    #[error("the body ends in the middle of a value")]
    Truncated,
    #[error("malformed number")]
    Varint,
    #[error("field {tag} of {message} has wire type {wire}")]
    WireType { message: &'static str, tag: u32, wire: u8 },
    #[error("invalid field number or wire type")]
    Tag,
    #[error("a string is not UTF-8")]
    Utf8,
    #[error("messages nest too deeply")]
    Depth,
    #[error("too many values are left to their defaults")]
    Budget,
    #[error("embedded JSON is malformed: {0}")]
    Json(String),
    #[error("time is out of range")]
    Time,
    #[error("{field}: expected {expected}")]
    Type { field: String, expected: &'static str },
}
