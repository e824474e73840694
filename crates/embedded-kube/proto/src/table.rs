//! The parsed field table. Names point into the text the table was read from; nothing is copied.

use std::collections::HashMap;
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    Double,
    Text,
    Bytes,
    Message(u16),
    Special(Special),
}

/// Messages whose JSON is not an object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// RawExtension, FieldsV1 and JSON: field 1 holds JSON text.
    Raw,
    /// ExtraValue and Verbs: a list of strings in a message of its own.
    Strings,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    Repeated,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// In JSON iff on the wire: pointers, and lists and maps that are omitted when empty.
    Set,
    /// A pointer Go writes as null when it is not set.
    OrNull,
    /// A plain value Go omits when it is zero.
    DropZero,
    /// In JSON whether on the wire or not.
    Always,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) tag: u32,
    /// Empty when the message is inlined into its parent.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: &'static str,
    /// Sorted by tag.
    pub(crate) fields: Vec<Field>,
}

impl Message {
    pub(crate) fn field(&self, tag: u32) -> Option<&Field> {
        self.fields.binary_search_by_key(&tag, |f| f.tag).ok().map(|i| &self.fields[i])
    }
}

pub(crate) struct Table {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, u16>,
    /// What JSONSchemaPropsOr* hold.
    pub(crate) schema_props: u16,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(ek_data::PROTOBUF));
static NOTHING: Message = Message { name: "", fields: Vec::new() };

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl Table {
    pub(crate) fn get() -> &'static Table {
        &TABLE
    }

    fn parse(text: &'static str) -> Table {
        let messages: Vec<Message> = text
            .lines()
            .map(|line| {
                let mut cells = line.split('\t');
                Message { name: cells.next().unwrap_or_default(), fields: cells.filter_map(field).collect() }
            })
            .collect();
        let by_name: HashMap<_, _> = messages.iter().enumerate().map(|(i, m)| (m.name, i as u16)).collect();
        let schema_props = by_name.get(PROPS).copied().unwrap_or_default();
        Table { messages, by_name, schema_props }
    }

    pub(crate) fn message(&self, index: u16) -> &Message {
        self.messages.get(usize::from(index)).unwrap_or(&NOTHING)
    }

    pub(crate) fn len(&self) -> u16 {
        self.messages.len() as u16
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    /// The message of a kind. Options and Status are registered in every group by every Go client, so they are
    /// found whatever the group is; the other meta kinds go by `v1` and `meta.k8s.io/v1`.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<u16> {
        if let Some(i) = ek_data::definition_name_of(api_version, kind).and_then(|n| self.by_name(n)) {
            return Some(i);
        }
        let everywhere = kind.ends_with("Options") || kind == "Status";
        let meta = matches!(api_version, "v1" | "meta.k8s.io/v1");
        match kind {
            "List" if meta => self.by_name("io.k8s.api.core.v1.List"),
            // PodStatusResult, RangeAllocation: registered in core, published nowhere.
            _ if api_version == "v1" && self.by_name(&format!("io.k8s.api.core.v1.{kind}")).is_some() => {
                self.by_name(&format!("io.k8s.api.core.v1.{kind}"))
            }
            _ if meta || everywhere => self.by_name(&format!("{META}.{kind}")),
            _ => None,
        }
    }
}

/// `tag:name:type` and a flag; see `xtask/src/tables/join.rs`.
fn field(cell: &'static str) -> Option<Field> {
    let mut parts = cell.splitn(3, ':');
    let (tag, name, ty) = (parts.next()?, parts.next()?, parts.next()?);
    let (ty, presence) = match ty.split_at_checked(ty.len().checked_sub(1)?)? {
        (t, "?") => (t, Presence::Set),
        (t, "!") => (t, Presence::OrNull),
        (t, "-") => (t, Presence::DropZero),
        (t, _) => (t, Presence::Always),
    };
    let (ty, shape) = match (ty.strip_prefix('*'), ty.strip_prefix('%')) {
        (Some(t), _) => (t, Shape::Repeated),
        (_, Some(t)) => (t, Shape::Map),
        _ => (ty, Shape::One),
    };
    let kind = match ty {
        "b" => Kind::Bool,
        "i" => Kind::Int32,
        "l" => Kind::Int64,
        "d" => Kind::Double,
        "s" => Kind::Text,
        "y" => Kind::Bytes,
        "T" => Kind::Special(Special::Time),
        "U" => Kind::Special(Special::MicroTime),
        "Q" => Kind::Special(Special::Quantity),
        "I" => Kind::Special(Special::IntOrString),
        "R" => Kind::Special(Special::Raw),
        "E" => Kind::Special(Special::Strings),
        "B" => Kind::Special(Special::SchemaOrBool),
        "A" => Kind::Special(Special::SchemaOrArray),
        "S" => Kind::Special(Special::SchemaOrStrings),
        _ => Kind::Message(ty.strip_prefix('m')?.parse().ok()?),
    };
    Some(Field { tag: tag.parse().ok()?, name, kind, shape, presence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_table_parses() {
        let t = Table::get();
        for (line, m) in ek_data::PROTOBUF.lines().zip(&t.messages) {
            assert_eq!(line.matches('\t').count(), m.fields.len(), "{}", m.name);
            assert!(m.fields.is_sorted_by_key(|f| f.tag), "{}", m.name);
            for f in &m.fields {
                if let Kind::Message(i) = f.kind {
                    assert!(usize::from(i) < t.messages.len());
                }
            }
        }
        assert_eq!(t.message(t.schema_props).name, PROPS);
    }

    #[test]
    fn meta_kinds_are_found_in_every_group() {
        let t = Table::get();
        for av in ["v1", "meta.k8s.io/v1", "apps/v1", "example.com/v1"] {
            assert_eq!(
                t.message(t.by_kind(av, "DeleteOptions").unwrap()).name,
                format!("{META}.DeleteOptions")
            );
        }
        assert!(t.by_kind("meta.k8s.io/v1", "PartialObjectMetadataList").is_some());
        assert!(t.by_kind("v1", "List").is_some());
        assert!(t.by_kind("example.com/v1", "Foo").is_none());
    }
}
