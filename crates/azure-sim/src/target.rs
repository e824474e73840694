//! What a path means: the longest resource id it starts with, and the words after it.

use arm::ResourceId;

/// `/subscriptions/s/resourceGroups` is the words `resourceGroups` after `/subscriptions/s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub of: Option<ResourceId>,
    pub rest: Vec<String>,
}

/// Path segments beyond this are not a path of Azure's.
const MAX_SEGMENTS: usize = 48;

impl Target {
    pub fn parse(path: &str) -> Option<Target> {
        let trimmed = path.trim_matches('/');
        if trimmed.is_empty() {
            return Some(Target { of: None, rest: Vec::new() });
        }
        let segments: Vec<&str> = trimmed.split('/').collect();
        if segments.len() > MAX_SEGMENTS || segments.iter().any(|s| s.is_empty()) {
            return None;
        }
        // Extension collections and provider actions leave up to three words; ids come in pairs.
        for words in 0..=segments.len().min(4) {
            let n = segments.len() - words;
            let rest = || segments[n..].iter().map(|s| (*s).to_owned()).collect();
            if n == 0 {
                return Some(Target { of: None, rest: rest() });
            }
            if let Ok(id) = ResourceId::parse(&format!("/{}", segments[..n].join("/"))) {
                return Some(Target { of: Some(id), rest: rest() });
            }
        }
        None
    }

    /// The words in lower case, for matching.
    pub fn words(&self) -> Vec<String> {
        self.rest.iter().map(|w| w.to_ascii_lowercase()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_ids_from_words() {
        let cases = [
            ("/subscriptions", None, 1),
            ("/subscriptions/s", Some("/subscriptions/s"), 0),
            ("/subscriptions/s/resourcegroups", Some("/subscriptions/s"), 1),
            ("/subscriptions/s/providers/A.B/register", Some("/subscriptions/s"), 3),
            ("/subscriptions/s/operationresults/x", Some("/subscriptions/s"), 2),
            (
                "/subscriptions/s/resourceGroups/g/providers/A.B/t",
                Some("/subscriptions/s/resourceGroups/g"),
                3,
            ),
            (
                "/subscriptions/s/resourceGroups/g/providers/A.B/t/n/u",
                Some("/subscriptions/s/resourceGroups/g/providers/A.B/t/n"),
                1,
            ),
            ("/providers/A.B/t", None, 3),
            ("/", None, 0),
        ];
        for (path, of, words) in cases {
            let t = Target::parse(path).unwrap();
            assert_eq!((t.of.as_ref().map(ResourceId::as_str), t.rest.len()), (of, words), "{path}");
        }
        assert_eq!(Target::parse("/subscriptions//x"), None);
    }

    proptest! {
        #[test]
        fn never_panics(s in "(/(subscriptions|resourceGroups|providers|a|%|é|)){0,60}") {
            let _ = Target::parse(&s);
        }
    }
}
