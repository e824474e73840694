//! Query parameters: decoded once, typed where used, errors in the words of the API.

use ek_meta::status::Status;
use ek_meta::{FieldError, FieldPath};

#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    pub fn parse(query: Option<&str>) -> Params {
        let pairs = query.map(|q| url::form_urlencoded::parse(q.as_bytes()).into_owned().collect());
        Params(pairs.unwrap_or_default())
    }

    /// The first value of `name`; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(k, _)| k == name)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// As the API reads booleans in queries: anything but `false` and `0` is true when present.
    pub fn flag(&self, name: &str) -> bool {
        self.0.iter().find(|(k, _)| k == name).is_some_and(|(_, v)| !matches!(v.as_str(), "false" | "0"))
    }

    pub fn int(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some(v) => v
                .parse()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {v:?}: invalid syntax"))),
        }
    }
}

/// How strictly unknown and duplicate fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// What create, update and patch have in common.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    pub force: bool,
}

impl WriteOptions {
    /// `kind` names the options object in errors (`CreateOptions`, …).
    pub fn parse(p: &Params, kind: &str) -> Result<WriteOptions, Status> {
        let mut errors = Vec::new();
        let dry_run = parse_dry_run(p.all("dryRun"), &mut errors);
        let field_manager = p.get("fieldManager").map(str::to_owned);
        if let Some(m) = &field_manager {
            let path = FieldPath::new("fieldManager");
            if m.chars().count() > 128 {
                errors.push(FieldError::too_long(&path, 128));
            } else if m.chars().any(char::is_control) {
                errors.push(FieldError::invalid(
                    &path,
                    m.as_str(),
                    "should only contain printable characters",
                ));
            }
        }
        let field_validation = match p.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let path = FieldPath::new("fieldValidation");
                errors.push(FieldError::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            Ok(WriteOptions { dry_run, field_manager, field_validation, force: p.flag("force") })
        } else {
            Err(Status::invalid("meta.k8s.io", kind, "", &errors))
        }
    }
}

/// `All` is the only way to say dry run.
pub fn parse_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.filter(|v| !v.is_empty()).collect();
    if values.iter().any(|v| *v != "All") {
        let path = FieldPath::new("dryRun");
        errors.push(FieldError::not_supported(&path, serde_json::json!(values), &["All"]));
    }
    !values.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let p = |q: &str| WriteOptions::parse(&Params::parse(Some(q)), "CreateOptions");
        let o = p("dryRun=All&fieldManager=me&fieldValidation=Strict").unwrap();
        assert!(o.dry_run && o.field_validation == FieldValidation::Strict);
        assert_eq!(p("dryRun=Some").unwrap_err().code, 422);
        assert_eq!(p("fieldValidation=x").unwrap_err().code, 422);
        assert!(Params::parse(Some("watch=1")).flag("watch"));
        assert!(!Params::parse(Some("watch=false")).flag("watch"));
    }
}
