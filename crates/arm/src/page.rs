//! Lists come in pages: `{"value": [...], "nextLink": "absolute url"}`.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    #[serde(default = "Vec::new")]
    pub value: Vec<T>,
    /// Absent and null both mean that this is the last page.
    #[serde(default, rename = "nextLink", skip_serializing_if = "Option::is_none")]
    pub next_link: Option<String>,
}

/// What a service puts into `$skipToken`: the key after which the next page starts. Opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipToken(pub String);

impl SkipToken {
    /// As hexadecimal, so that no URL needs to escape it.
    pub fn encode(&self) -> String {
        self.0.bytes().map(|b| format!("{b:02x}")).collect()
    }

    pub fn decode(text: &str) -> Option<SkipToken> {
        if !text.len().is_multiple_of(2) || text.len() > 8192 || !text.is_ascii() {
            return None;
        }
        let bytes: Option<Vec<u8>> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect();
        String::from_utf8(bytes?).ok().map(SkipToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_page_has_no_link() {
        let p: Page<u8> = serde_json::from_str(r#"{"value":[1],"nextLink":null}"#).unwrap();
        assert_eq!(serde_json::to_string(&p).unwrap(), r#"{"value":[1]}"#);
    }

    proptest! {
        #[test]
        fn tokens_read_back(s in "\\PC{0,40}", junk in "\\PC{0,40}") {
            prop_assert_eq!(SkipToken::decode(&SkipToken(s.clone()).encode()), Some(SkipToken(s)));
            let _ = SkipToken::decode(&junk);
        }
    }
}
