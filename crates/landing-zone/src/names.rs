//! What things are called. Names follow from the cluster's name and infra id alone, so that another machine finds
//! the same things, and a second run writes what the first one wrote.

use crate::Error;
use arm::ResourceId;
use serde_json::{Map, Value};

/// Azure forbids `/` in the names of tags.
pub const TAG_INFRA: &str = "zaffre.io_infra-id";
pub const TAG_NAME: &str = "zaffre.io_cluster";
pub const TAG_BY: &str = "zaffre.io_made-by";

/// Which command made a thing, and so which one takes it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeBy {
    Iam,
    Infra,
    OidcIssuer,
    ManagedIdentities,
}

impl MadeBy {
    pub fn as_str(self) -> &'static str {
        match self {
            MadeBy::Iam => "iam",
            MadeBy::Infra => "infra",
            MadeBy::OidcIssuer => "oidc-issuer",
            MadeBy::ManagedIdentities => "managed-identities",
        }
    }
}

/// A cluster, as far as names go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: String,
    pub infra_id: String,
}

/// Names become parts of names of groups (90 characters) and identities, and DNS labels.
fn label(what: &'static str, text: &str) -> Result<String, Error> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !text.is_empty()
        && text.len() <= 54
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    match good {
        true => Ok(text.to_owned()),
        false => Err(Error::Name { what, value: text.chars().take(80).collect() }),
    }
}

impl Cluster {
    pub fn new(name: &str, infra_id: &str) -> Result<Cluster, Error> {
        Ok(Cluster { name: label("--name", name)?, infra_id: label("--infra-id", infra_id)? })
    }

    /// What belongs to no cluster in particular has a name only.
    pub fn shared(name: &str) -> Result<Cluster, Error> {
        Cluster::new(name, name)
    }

    /// `<name>-<infraID>`, with a word between for the groups of network and security group.
    pub fn group(&self, word: Option<&str>) -> String {
        match word {
            None => format!("{}-{}", self.name, self.infra_id),
            Some(w) => format!("{}-{w}-{}", self.name, self.infra_id),
        }
    }

    /// The mark on everything that takes tags.
    pub fn tags(&self, by: MadeBy) -> Map<String, Value> {
        [(TAG_INFRA, self.infra_id.as_str()), (TAG_NAME, &self.name), (TAG_BY, by.as_str())]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.into()))
            .collect()
    }

    /// Whether something carries the mark.
    pub fn marked(&self, tags: &Value, by: MadeBy) -> bool {
        let is = |k: &str, v: &str| tag(tags, k) == Some(v);
        is(TAG_INFRA, &self.infra_id) && is(TAG_NAME, &self.name) && is(TAG_BY, by.as_str())
    }

    /// The name of the assignment by which whoever makes something may fill it.
    pub fn own_assignment(&self, object: &str, scope: &ResourceId) -> String {
        uuid5(&format!("{}-{object}-{scope}", self.infra_id))
    }

    /// The name of a component's role assignment at a scope.
    pub fn assignment(&self, component: &str, scope: &ResourceId) -> String {
        uuid5(&format!("{}-{component}-{scope}", self.infra_id))
    }
}

/// A tag's value; names of tags have no case.
pub fn tag<'a>(tags: &'a Value, name: &str) -> Option<&'a str> {
    tags.as_object()?.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).and_then(|(_, v)| v.as_str())
}

/// A version 5 UUID in the namespace of DNS names.
pub fn uuid5(name: &str) -> String {
    const DNS: [u8; 16] =
        [0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&DNS);
    hash.update(name.as_bytes());
    let digest = hash.finish();
    let mut b = [0_u8; 16];
    b.copy_from_slice(&digest.as_ref()[..16]);
    b[6] = (b[6] & 0x0f) | 0x50;
    b[8] = (b[8] & 0x3f) | 0x80;
    let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_those_of_everybody() {
        // Python: uuid.uuid5(uuid.NAMESPACE_DNS, "python.org")
        assert_eq!(uuid5("python.org"), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
    }

    #[test]
    fn names_are_checked() {
        let c = Cluster::new("demo", "demo-x2b4c").unwrap();
        assert_eq!(
            (c.group(None), c.group(Some("nsg"))),
            ("demo-demo-x2b4c".into(), "demo-nsg-demo-x2b4c".into())
        );
        for bad in ["", "-a", "a-", "A", "a/b", "a.b", &"a".repeat(55)] {
            assert!(Cluster::new(bad, "x").is_err() && Cluster::new("x", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_mark_is_of_one_cluster_and_one_command() {
        let c = Cluster::new("demo", "demo-x2b4c").unwrap();
        let tags = Value::Object(c.tags(MadeBy::Iam));
        assert!(c.marked(&tags, MadeBy::Iam) && !c.marked(&tags, MadeBy::Infra));
        assert!(!Cluster::new("other", "demo-x2b4c").unwrap().marked(&tags, MadeBy::Iam));
        assert!(!c.marked(&Value::Null, MadeBy::Iam));
    }
}
