//! Values of flags that are more than a word, and what is said when they do not fit together.

use serde_json::{Map, Value, json};

/// Why flags cannot be followed. Each names the flags, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{first} cannot be used with {second}: {fix}")]
    Together { first: String, second: String, fix: String },
    #[error("{flag} needs {other}: {fix}")]
    Needs { flag: String, other: String, fix: String },
    #[error("{flag} {value:?} is not good: {fix}")]
    Value { flag: String, value: String, fix: String },
    #[error("{flag} is missing: {fix}")]
    Missing { flag: String, fix: String },
}

impl Refused {
    pub fn together(first: &str, second: &str, fix: &str) -> Refused {
        Refused::Together { first: first.into(), second: second.into(), fix: fix.into() }
    }

    pub fn needs(flag: &str, other: &str, fix: &str) -> Refused {
        Refused::Needs { flag: flag.into(), other: other.into(), fix: fix.into() }
    }

    pub fn value(flag: &str, value: &str, fix: &str) -> Refused {
        Refused::Value { flag: flag.into(), value: value.into(), fix: fix.into() }
    }

    pub fn missing(flag: &str, fix: &str) -> Refused {
        Refused::Missing { flag: flag.into(), fix: fix.into() }
    }
}

/// `key=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((k, v)) if !k.is_empty() => Ok((k.to_owned(), v.to_owned())),
        _ => Err(format!("'{text}' has no '='; write KEY=VALUE")),
    }
}

/// A duration as Go writes it, kept as it is.
pub fn duration(text: &str) -> Result<String, String> {
    match apis::duration::go_duration(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("{text:?} is not a duration such as 10m, 1h30m or 45s")),
    }
}

/// `key=a,operator=Exists,effect=NoSchedule,value=b,tolerationSeconds=5`, in any order.
pub fn toleration(text: &str) -> Result<Value, String> {
    let mut out = Map::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (key, value) = pair(part)?;
        let set = match key.as_str() {
            "key" | "operator" | "effect" | "value" => json!(value),
            "tolerationSeconds" => {
                let seconds = value.parse::<i64>();
                json!(seconds.map_err(|_| format!("tolerationSeconds {value:?} is not a number"))?)
            }
            other => {
                return Err(format!(
                    "{other:?} is not a part of a toleration: use key, operator, effect, value, tolerationSeconds"
                ));
            }
        };
        if out.insert(key.clone(), set).is_some() {
            return Err(format!("{key} is there twice"));
        }
    }
    if out.is_empty() {
        return Err("an empty toleration: use for example key=dedicated,operator=Exists".into());
    }
    Ok(Value::Object(out))
}

/// Parts of an IPv4 or IPv6 network.
pub fn cidr(text: &str) -> Result<String, String> {
    let bad = || format!("{text:?} is not a network such as 10.132.0.0/14");
    let (address, bits) = text.split_once('/').ok_or_else(bad)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| bad())?;
    let bits: u8 = bits.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most { Err(bad()) } else { Ok(text.to_owned()) }
}

/// What a part of a DNS name, a namespace and the value of a label may have.
pub(crate) const LABEL: usize = 63;

/// A part of a DNS name.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LABEL).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A map of pairs.
pub(crate) fn map(pairs: &[(String, String)]) -> Value {
    Value::Object(pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_in_any_order() {
        let all = toleration("effect=NoExecute,key=a,operator=Equal,value=b,tolerationSeconds=5").unwrap();
        assert_eq!(
            all,
            json!({"key": "a", "operator": "Equal", "effect": "NoExecute", "value": "b", "tolerationSeconds": 5})
        );
        for bad in ["", "key", "colour=red", "key=a,key=b", "tolerationSeconds=x"] {
            assert!(toleration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn networks() {
        assert!(cidr("10.0.0.0/16").is_ok() && cidr("fd00::/48").is_ok());
        for bad in ["10.0.0.0", "10.0.0/8", "10.0.0.0/33", "x/8", "10.0.0.0/"] {
            assert!(cidr(bad).is_err(), "{bad}");
        }
    }
}
