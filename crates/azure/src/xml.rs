//! XML as Blob storage sends it, read into a tree.
//!
//! A service is trusted little more than anybody: no document types, no entities but XML's own, bounded depth.
//! Attributes are not kept, because nothing that is read here is in one.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    #[error("it is not well-formed")]
    Malformed,
    #[error("it has a document type, or an entity that XML does not define")]
    Entity,
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    Deep,
    #[error("it is a <{0}>")]
    Root(String),
}

const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub text: String,
    pub children: Vec<Node>,
}

impl Node {
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name)
    }

    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|c| c.text.as_str())
    }

    /// The text of a child, unless it is absent or empty.
    pub fn said(&self, name: &str) -> Option<String> {
        self.child_text(name).filter(|t| !t.is_empty()).map(str::to_owned)
    }
}

/// The root element of a document that should be of this name.
pub fn read_as(bytes: &[u8], root: &str) -> Result<Node, XmlError> {
    let node = read(bytes)?;
    if node.name == root { Ok(node) } else { Err(XmlError::Root(node.name.chars().take(64).collect())) }
}

/// The root element.
pub fn read(bytes: &[u8]) -> Result<Node, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Malformed)?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    // The last is the element that is open; the first stands for the document.
    let mut open = vec![Node::default()];
    loop {
        let here = open.last_mut().ok_or(XmlError::Malformed)?;
        match reader.read_event().map_err(|_| XmlError::Malformed)? {
            Event::Start(e) => {
                let name = e.local_name().as_ref().to_owned();
                if open.len() > MAX_DEPTH {
                    return Err(XmlError::Deep);
                }
                open.push(Node { name, ..Node::default() });
            }
            Event::Empty(e) => {
                let name = e.local_name().as_ref().to_owned();
                here.children.push(Node { name, ..Node::default() });
            }
            Event::End(_) => {
                let mut node = open.pop().ok_or(XmlError::Malformed)?;
                if !node.children.is_empty() {
                    // Text between elements is layout.
                    node.text.clear();
                }
                open.last_mut().ok_or(XmlError::Malformed)?.children.push(node);
            }
            Event::Text(t) => here.text.push_str(&t),
            Event::CData(t) => here.text.push_str(&t),
            Event::GeneralRef(r) => match r.resolve_char_ref().map_err(|_| XmlError::Malformed)? {
                Some(c) => here.text.push(c),
                None => here.text.push_str(resolve_predefined_entity(&r).ok_or(XmlError::Entity)?),
            },
            Event::DocType(_) => return Err(XmlError::Entity),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => break,
        }
    }
    let (Some(mut document), true) = (open.pop(), open.is_empty()) else { return Err(XmlError::Malformed) };
    match (document.children.pop(), document.children.is_empty(), document.text.trim().is_empty()) {
        (Some(root), true, true) => Ok(root),
        _ => Err(XmlError::Malformed),
    }
}

/// Text as it may stand in an element.
pub fn escape(text: &str) -> std::borrow::Cow<'_, str> {
    quick_xml::escape::escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_accounts_send_and_nothing_worse() {
        let doc = "\u{feff}<?xml version=\"1.0\"?><A x=\"1\"> <B>a &amp; &#98;</B><C/> </A>";
        let node = read_as(doc.as_bytes(), "A").unwrap();
        assert_eq!((node.child_text("B"), node.said("C")), (Some("a & b"), None));
        assert_eq!(read_as(doc.as_bytes(), "Z"), Err(XmlError::Root("A".to_owned())));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bbb\">]><a>&b;</a>";
        assert_eq!(read(bomb.as_bytes()), Err(XmlError::Entity));
        assert_eq!(read(b"<a>&b;</a>"), Err(XmlError::Entity));
        assert_eq!(read("<a>".repeat(40).as_bytes()), Err(XmlError::Deep));
        for bad in ["", "x", "<a>", "<a></b>", "<a/><b/>", "<a/>x"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_text_survives(junk in proptest::collection::vec(any::<u8>(), 0..100), text in "[ -~é]{1,40}") {
            let _ = read(&junk);
            let doc = format!("<a>{}</a>", escape(&text));
            prop_assert_eq!(read(doc.as_bytes()).unwrap().text, text);
        }
    }
}
