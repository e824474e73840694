//! Name rules, each returning the message Kubernetes gives.

fn is_alnum(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

pub const DNS_LABEL_MAX: usize = 63;
pub const DNS_SUBDOMAIN_MAX: usize = 253;

const LABEL_MSG: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_MSG: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_MSG: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_MSG: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn label_shape(s: &str) -> bool {
    let b = s.as_bytes();
    !b.is_empty()
        && is_alnum(b[0])
        && is_alnum(b[b.len() - 1])
        && b.iter().all(|c| is_alnum(*c) || *c == b'-')
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// RFC 1123 label: namespaces, container names.
pub fn dns_label(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > DNS_LABEL_MAX {
        out.push(too_long(DNS_LABEL_MAX));
    }
    if !label_shape(s) {
        out.push(LABEL_MSG.to_owned());
    }
    out
}

/// RFC 1123 subdomain: most object names.
pub fn dns_subdomain(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > DNS_SUBDOMAIN_MAX {
        out.push(too_long(DNS_SUBDOMAIN_MAX));
    }
    if !s.split('.').all(label_shape) {
        out.push(SUBDOMAIN_MSG.to_owned());
    }
    out
}

/// RFC 1035 label: service names.
pub fn dns_1035_label(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > DNS_LABEL_MAX {
        out.push(too_long(DNS_LABEL_MAX));
    }
    if !label_shape(s) || !s.as_bytes()[0].is_ascii_lowercase() {
        out.push(LABEL_1035_MSG.to_owned());
    }
    out
}

/// Anything that can stand in one path segment: RBAC names.
pub fn path_segment(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s == "." || s == ".." {
        out.push(format!("may not be '{s}'"));
    }
    for bad in ["/", "%"] {
        if s.contains(bad) {
            out.push(format!("may not contain '{bad}'"));
        }
    }
    out
}

fn qualified_part(s: &str) -> bool {
    let b = s.as_bytes();
    let alnum = |c: u8| c.is_ascii_alphanumeric();
    !b.is_empty()
        && alnum(b[0])
        && alnum(b[b.len() - 1])
        && b.iter().all(|c| alnum(*c) || matches!(c, b'-' | b'_' | b'.'))
}

/// `prefix/name` or `name`: label and annotation keys, finalizers.
pub fn qualified_name(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    let parts: Vec<&str> = s.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(dns_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")));
            }
            *name
        }
        _ => {
            out.push(format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED_MSG.trim_start_matches("name part ")
            ));
            return out;
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > DNS_LABEL_MAX {
        out.push(format!("name part {}", too_long(DNS_LABEL_MAX)));
    }
    if !qualified_part(name) {
        out.push(QUALIFIED_MSG.to_owned());
    }
    out
}

pub fn label_value(s: &str) -> Vec<String> {
    let mut out = Vec::new();
    if s.len() > DNS_LABEL_MAX {
        out.push(too_long(DNS_LABEL_MAX));
    }
    if !s.is_empty() && !qualified_part(s) {
        out.push(LABEL_VALUE_MSG.to_owned());
    }
    out
}

/// Alphabet of generated names: no vowels, so no words; no look-alikes.
pub const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
pub const SUFFIX_LEN: usize = 5;

/// `base` cut so that a suffix fits in a DNS label, plus the suffix picked by `pick` (a number below the
/// given bound per call).
pub fn generate(base: &str, mut pick: impl FnMut(usize) -> usize) -> String {
    let mut cut = base.len().min(DNS_LABEL_MAX - SUFFIX_LEN);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut out = String::with_capacity(cut + SUFFIX_LEN);
    out.push_str(&base[..cut]);
    for _ in 0..SUFFIX_LEN {
        let i = pick(SUFFIX_ALPHABET.len()).min(SUFFIX_ALPHABET.len() - 1);
        out.push(char::from(SUFFIX_ALPHABET[i]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(dns_label("a-1").is_empty());
        assert!(!dns_label("A").is_empty());
        assert!(!dns_label(&"a".repeat(64)).is_empty());
        assert!(dns_subdomain("a.b-c.d").is_empty());
        assert!(!dns_subdomain("a..b").is_empty());
        assert!(!dns_1035_label("1a").is_empty());
        assert!(qualified_name("example.com/Foo_bar").is_empty());
        assert!(!qualified_name("/x").is_empty());
        assert!(!qualified_name("a/b/c").is_empty());
        assert!(label_value("").is_empty());
        assert!(!label_value("-x").is_empty());
        assert!(!path_segment("a/b").is_empty());
    }

    #[test]
    fn generated_names_fit_a_label() {
        let n = generate(&"x".repeat(100), |_| 0);
        assert_eq!(n.len(), 63);
        assert!(n.ends_with("bbbbb"));
    }
}
