//! A container: made, opened, closed, deleted.

use super::{Blobs, short};
use crate::pipeline::{Call, Error};
use crate::{Answer, Deleted};
use http::Method;
use jiff::Timestamp;

/// Who may read without a token, if the account lets anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    #[default]
    Private,
    /// Blobs whose names one knows.
    Blob,
    /// The list of blobs too.
    Container,
}

impl Access {
    fn header(self) -> Option<&'static str> {
        match self {
            Access::Private => None,
            Access::Blob => Some("blob"),
            Access::Container => Some("container"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProperties {
    pub etag: String,
    pub modified: Option<Timestamp>,
    pub access: Access,
}

#[derive(Clone, Debug)]
pub struct Container {
    pub(super) account: Blobs,
    pub(super) name: String,
}

/// `$web` and its like are made by the service and have names of its own.
fn name_ok(name: &str) -> bool {
    let own = matches!(name, "$web" | "$root" | "$logs");
    let plain = (3..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    own || plain
}

impl Container {
    pub(super) fn new(account: Blobs, name: &str) -> Result<Container, Error> {
        if !name_ok(name) {
            let why = "containers have 3 to 63 lower-case letters, digits and single hyphens between them";
            return Err(Error::Name { what: "a container", name: short(name), why });
        }
        Ok(Container { account, name: name.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn own(&self, method: Method, pairs: &[(&str, &str)]) -> Call {
        let mut all = vec![("restype", "container")];
        all.extend(pairs);
        self.account.call(method, &self.name, &all)
    }

    /// Makes it. `false`: it was there already, and stays as it is.
    pub async fn create(&self, access: Access) -> Result<bool, Error> {
        let mut call = self.own(Method::PUT, &[]);
        if let Some(word) = access.header() {
            call = call.header("x-ms-blob-public-access", word);
        }
        match self.account.send(call).await {
            Ok(_) => Ok(true),
            Err(e) if e.has_code("ContainerAlreadyExists") => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub async fn properties(&self) -> Result<Option<ContainerProperties>, Error> {
        match self.account.send(self.own(Method::HEAD, &[])).await {
            Ok(answer) => Ok(Some(shown(&answer))),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens or closes it to the public. Signed policies of the container are removed with it: we make none.
    pub async fn set_access(&self, access: Access) -> Result<(), Error> {
        let mut call = self.own(Method::PUT, &[("comp", "acl")]);
        if let Some(word) = access.header() {
            call = call.header("x-ms-blob-public-access", word);
        }
        self.account.send(call).await.map(drop)
    }

    /// Deletes it with everything in it. The name cannot be used again for a while.
    pub async fn delete(&self) -> Result<Deleted, Error> {
        match self.account.send(self.own(Method::DELETE, &[])).await {
            Ok(_) => Ok(Deleted::Done),
            Err(e) if e.has_code("ContainerNotFound") || e.has_code("ContainerBeingDeleted") => {
                Ok(Deleted::Absent)
            }
            Err(e) => Err(e),
        }
    }
}

fn shown(answer: &Answer) -> ContainerProperties {
    ContainerProperties {
        etag: answer.header("etag").unwrap_or_default().to_owned(),
        modified: answer.header("last-modified").and_then(super::properties::date),
        access: match answer.header("x-ms-blob-public-access") {
            Some("container") => Access::Container,
            Some("blob") => Access::Blob,
            _ => Access::Private,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["abc", "$web", "a-b-3"] {
            assert!(name_ok(good), "{good}");
        }
        for bad in ["", "ab", "A-b", "a--b", "-ab", "ab-", "$x", "a/b", "..."] {
            assert!(!name_ok(bad), "{bad}");
        }
    }
}
