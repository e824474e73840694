//! Blob storage: containers and block blobs of an account, with bearer tokens.
//!
//! ```text
//! client.blobs("account")?            the account: its containers, its website
//!     .container("name")?             a container: put, get, head, delete, list, upload
//! ```
//!
//! Calls go through the pipeline like any other, so they are retried, carry a correlation and get a new token when
//! theirs is refused. Two things follow from HTTP being what it is. A conditional write whose answer was lost is
//! repeated and may find itself: it is then refused as if somebody else had been there, and the caller who cares looks
//! at the content. And a download that is read in parts asks for the same etag each time, so that what is put
//! together was once one blob.
//!
//! Names go into paths. A blob may be called almost anything, but `.` and `..` as a step of it would be resolved away by
//! every URL parser on the way: such names are refused here, before a token leaves.
//!
//! Rejected: shared keys and signatures (SAS) as credentials. Accounts here have key access switched off.

mod blobs;
mod containers;
mod list;
mod properties;
mod upload;
mod website;

pub use blobs::{Blob, PutOptions, Written};
pub use containers::{Access, Container, ContainerProperties};
pub use list::{Entry, Folder};
pub use properties::BlobProperties;
pub use upload::UploadOptions;
pub use website::Website;

use crate::pipeline::{Call, Client, Door, Error};
use crate::{Answer, Condition};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

/// Of the service; it decides which headers and elements there are.
const VERSION: &str = "2023-11-03";

/// What stands in a path as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &PLAIN.remove(b'/').remove(b'$');

/// The blobs of an account.
#[derive(Clone, Debug)]
pub struct Blobs {
    client: Client,
    door: Arc<Door>,
}

impl Client {
    /// The blobs of an account of this cloud.
    pub fn blobs(&self, account: &str) -> Result<Blobs, Error> {
        let fits = (3..=24).contains(&account.len())
            && account.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !fits {
            let why = "accounts have 3 to 24 lower-case letters and digits";
            return Err(Error::Name { what: "a storage account", name: short(account), why });
        }
        let door = Arc::new(self.cloud().account(account)?);
        Ok(Blobs { client: self.clone(), door })
    }
}

/// As much of a name as an error repeats.
fn short(name: &str) -> String {
    name.chars().take(80).collect()
}

fn query(pairs: &[(&str, &str)]) -> String {
    let all: Vec<String> =
        pairs.iter().map(|(k, v)| format!("{k}={}", utf8_percent_encode(v, PLAIN))).collect();
    if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
}

fn conditional(call: Call, on: &Condition) -> Call {
    match on {
        Condition::Always => call,
        Condition::Match(etag) => call.header("if-match", etag),
        Condition::Absent => call.header("if-none-match", "*"),
    }
}

impl Blobs {
    fn call(&self, method: Method, path: &str, pairs: &[(&str, &str)]) -> Call {
        let target = format!("/{}{}", utf8_percent_encode(path, PATH), query(pairs));
        Call::new(method, target)
            .at(&self.door)
            .header("x-ms-version", VERSION)
            .header("accept", "application/xml, */*")
    }

    async fn send(&self, call: Call) -> Result<Answer, Error> {
        self.client.send(call).await
    }

    pub fn endpoint(&self) -> &str {
        self.door.endpoint.as_str()
    }

    /// A container by its name; whether it exists is found out by using it.
    pub fn container(&self, name: &str) -> Result<Container, Error> {
        Container::new(self.clone(), name)
    }
}
