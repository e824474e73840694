//! XML as Blob storage uses it: small documents in, lists out.
//!
//! Nothing is expanded: a document type declaration is refused, and of entities only the five of XML itself are
//! known. Depth, elements and size are bounded.

use quick_xml::Reader;
use quick_xml::events::Event;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    #[error("the document is not well-formed XML")]
    Malformed,
    #[error("a document type declaration is not allowed")]
    Doctype,
    #[error("the document is nested too deeply or has too many elements")]
    TooLarge,
}

const MAX_DEPTH: usize = 12;
/// A block list has at most 50,000 entries.
const MAX_NODES: usize = 60_000;

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
}

/// The root element.
pub fn read(bytes: &[u8]) -> Result<Node, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Malformed)?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut open: Vec<Node> = Vec::new();
    let mut root = None;
    let mut nodes = 0;
    loop {
        let event = reader.read_event().map_err(|_| XmlError::Malformed)?;
        match event {
            Event::Start(e) | Event::Empty(e) if root.is_some() && open.is_empty() => {
                let _ = e;
                return Err(XmlError::Malformed);
            }
            Event::Start(e) => {
                nodes += 1;
                if open.len() >= MAX_DEPTH || nodes > MAX_NODES {
                    return Err(XmlError::TooLarge);
                }
                open.push(Node { name: e.local_name().as_ref().to_owned(), ..Node::default() });
            }
            Event::Empty(e) => {
                nodes += 1;
                if nodes > MAX_NODES {
                    return Err(XmlError::TooLarge);
                }
                let node = Node { name: e.local_name().as_ref().to_owned(), ..Node::default() };
                close(&mut open, &mut root, node);
            }
            Event::End(_) => {
                let node = open.pop().ok_or(XmlError::Malformed)?;
                close(&mut open, &mut root, node);
            }
            Event::Text(t) => match open.last_mut() {
                Some(node) => node.text.push_str(&t),
                None if t.trim().is_empty() => {}
                None => return Err(XmlError::Malformed),
            },
            Event::CData(t) => {
                open.last_mut().ok_or(XmlError::Malformed)?.text.push_str(&t);
            }
            Event::GeneralRef(r) => {
                let node = open.last_mut().ok_or(XmlError::Malformed)?;
                let c = match r.resolve_char_ref().map_err(|_| XmlError::Malformed)? {
                    Some(c) => c,
                    None => entity(&r)?,
                };
                node.text.push(c);
            }
            Event::DocType(_) => return Err(XmlError::Doctype),
            Event::Eof => break,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
    }
    match (open.is_empty(), root) {
        (true, Some(mut node)) => {
            trim(&mut node);
            Ok(node)
        }
        _ => Err(XmlError::Malformed),
    }
}

fn entity(name: &str) -> Result<char, XmlError> {
    Ok(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => return Err(XmlError::Malformed),
    })
}

fn close(open: &mut [Node], root: &mut Option<Node>, node: Node) {
    match open.last_mut() {
        Some(parent) => parent.children.push(node),
        None => *root = Some(node),
    }
}

/// White space between elements is layout.
fn trim(node: &mut Node) {
    if !node.children.is_empty() {
        node.text.clear();
    }
    node.children.iter_mut().for_each(trim);
}

/// A document being written.
pub struct Xml(String);

impl Xml {
    pub fn document() -> Xml {
        Xml("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>".to_owned())
    }

    pub fn open(&mut self, name: &str) -> &mut Xml {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    /// With attributes.
    pub fn open_with(&mut self, name: &str, attributes: &[(&str, &str)]) -> &mut Xml {
        self.0.push('<');
        self.0.push_str(name);
        for (k, v) in attributes {
            self.0.push_str(&format!(" {k}=\"{}\"", escape(v)));
        }
        self.0.push('>');
        self
    }

    pub fn close(&mut self, name: &str) -> &mut Xml {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    pub fn leaf(&mut self, name: &str, text: &str) -> &mut Xml {
        if text.is_empty() {
            self.0.push_str(&format!("<{name} />"));
            return self;
        }
        self.open(name).0.push_str(&escape(text));
        self.close(name)
    }

    pub fn done(self) -> String {
        self.0
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#xD;"),
            // Not allowed in XML at all.
            c if (c as u32) < 0x20 && !matches!(c, '\t' | '\n') || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bombs_stay_small() {
        let bomb = br#"<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>"#;
        assert_eq!(read(bomb), Err(XmlError::Doctype));
        assert_eq!(read(b"<x>&b;</x>"), Err(XmlError::Malformed));
        assert_eq!(read("<a>".repeat(50).as_bytes()), Err(XmlError::TooLarge));
        let wide = format!("<a>{}</a>", "<b/>".repeat(MAX_NODES + 1));
        assert_eq!(read(wide.as_bytes()), Err(XmlError::TooLarge));
        for bad in ["", "x", "<a></b>", "<a>", "<a/><b/>", "</a>", "<a/>x", "<a>&#xFFFFFFFF;</a>"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_a_block_list() {
        let n = read(b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<BlockList>\n <Latest>QQ==</Latest> <Committed>a&amp;&#98;</Committed></BlockList>").unwrap();
        assert_eq!(n.children.len(), 2);
        assert_eq!(n.child_text("Committed"), Some("a&b"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read(text in "[ -~äß€😀\t]{1,60}") {
            let mut x = Xml::document();
            x.open("a").leaf("b", &text).close("a");
            let n = read(x.done().as_bytes()).unwrap();
            prop_assert_eq!(n.child_text("b"), Some(text.as_str()));
        }

        #[test]
        fn never_panics(text in "(<|>|&|;|a|/|!|\\?|\\[|\\]|DOCTYPE|CDATA|\"|#x|é|--){0,60}") {
            let _ = read(text.as_bytes());
        }
    }
}
