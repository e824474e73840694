//! Values against the keywords of their schema.

use super::compiled::Compiled;
use super::correlate::children;
use super::path::Path;
use crate::formats;
use ek_meta::field::ErrorKind;
use ek_meta::schema::Rules;
use ek_meta::{FieldError, FieldPath, Schema, SchemaType};
use serde_json::{Number, Value};

pub(super) struct Keywords<'e> {
    pub(super) errors: &'e mut Vec<FieldError>,
}

pub(super) fn type_of(v: &Value) -> &'static str {
    match v {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(n: &Number) -> bool {
    !n.is_f64() || n.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn has_type(v: &Value, ty: SchemaType) -> bool {
    match (ty, v) {
        (SchemaType::Integer, Value::Number(n)) => is_whole(n),
        (SchemaType::Number, Value::Number(_)) => true,
        (ty, v) => type_of(v) == ty.as_str(),
    }
}

impl Keywords<'_> {
    /// A value, unless it is what it was.
    pub(super) fn value(
        &mut self,
        c: &Compiled,
        s: &Schema,
        new: &Value,
        old: Option<&Value>,
        path: &Path<'_>,
    ) {
        if old == Some(new) {
            return;
        }
        self.check_type(s, new, path);
        let rules = s.rules.as_deref();
        if new.is_null() {
            if let Some(r) = rules {
                self.enumeration(r, new, path);
            }
            return;
        }
        if let Some(r) = rules {
            self.combinations(c, r, new, old, path);
        }
        match new {
            Value::String(text) => self.string(c, s, rules, text, path),
            Value::Number(n) => self.number(s, rules, n, path),
            Value::Array(items) => {
                self.descend(c, s, new, old, path);
                if let Some(r) = rules {
                    self.array(r, items, path);
                }
            }
            _ => {}
        }
        if let Some(r) = rules {
            self.enumeration(r, new, path);
        }
        if let Value::Object(o) = new {
            if let Some(r) = rules
                && !self.sizes(r, o.len(), new, path)
            {
                return;
            }
            self.descend(c, s, new, old, path);
            for name in s.required.iter().filter(|n| !o.contains_key(&***n)) {
                self.errors.push(FieldError::required(&path.field(name).to_dotted(), ""));
            }
        }
    }

    fn descend(&mut self, c: &Compiled, s: &Schema, new: &Value, old: Option<&Value>, path: &Path<'_>) {
        children(c, s, new, old, path, |ch| self.value(ch.compiled, ch.schema, ch.new, ch.old, &ch.path));
    }

    fn check_type(&mut self, s: &Schema, v: &Value, path: &Path<'_>) {
        if v.is_null() && s.nullable {
            return;
        }
        let (ok, want) = match s.ty {
            _ if s.int_or_string => {
                let ok = match v {
                    Value::Number(n) => is_whole(n),
                    v => v.is_string(),
                };
                (ok, "integer,string")
            }
            Some(ty) => (has_type(v, ty), ty.as_str()),
            None => return,
        };
        if !ok {
            let found = type_of(v);
            let p = path.to_dotted();
            let detail = format!("{} must be of type {want}: \"{found}\"", in_body(&p));
            self.errors.push(FieldError::type_invalid(&p, found, detail));
        }
    }

    fn invalid(&mut self, path: &Path<'_>, v: &Value, what: impl AsRef<str>) {
        let p = path.to_dotted();
        let detail = format!("{} {}", in_body(&p), what.as_ref());
        self.errors.push(FieldError::invalid(&p, v.clone(), detail));
    }

    /// Errors about a combination carry no field upstream, only its name in the text.
    fn combination(&mut self, path: &Path<'_>, what: &str) {
        let detail = format!("\"{}\" {what}", path.to_dotted());
        self.errors.push(FieldError::invalid(&FieldPath::root(), "", detail));
    }

    fn string(&mut self, c: &Compiled, s: &Schema, rules: Option<&Rules>, text: &str, path: &Path<'_>) {
        if let Some(r) = rules {
            if r.max_length.is_some() || r.min_length.is_some() {
                let len = text.chars().count() as u64;
                // Of a text, only the first thing wrong is said.
                if let Some(max) = r.max_length.filter(|m| len > *m) {
                    return self.errors.push(FieldError::too_long(&path.to_dotted(), max as usize));
                }
                if let Some(min) = r.min_length.filter(|m| len < *m) {
                    return self.invalid(path, &text.into(), format!("should be at least {min} chars long"));
                }
            }
            if let (Some(re), Some(pattern)) = (&c.pattern, &r.pattern)
                && !re.is_match(text)
            {
                self.invalid(path, &text.into(), format!("should match '{pattern}'"));
            }
        }
        if let Some(format) = s.format.as_deref()
            && !formats::valid(format, text)
        {
            let p = path.to_dotted();
            let detail = format!("{} must be of type {format}: {text:?}", in_body(&p));
            self.errors.push(FieldError::type_invalid(&p, text, detail));
        }
    }

    fn number(&mut self, s: &Schema, rules: Option<&Rules>, n: &Number, path: &Path<'_>) {
        if let (Some(format), Some(SchemaType::Integer)) = (s.format.as_deref(), s.ty)
            && !formats::fits(format, n)
        {
            let detail =
                format!("Checked value must be of type integer with format {format} in {}", path.to_dotted());
            self.errors.push(FieldError::invalid(&FieldPath::root(), "", detail));
        }
        let (Some(r), Some(f)) = (rules, n.as_f64()) else { return };
        let v = || Value::Number(n.clone());
        if let Some(m) = r.multiple_of.filter(|m| *m > 0.0 && !is_multiple(n, f, *m)) {
            self.invalid(path, &v(), format!("should be a multiple of {m}"));
        }
        if let Some(max) = r.maximum.filter(|m| if r.exclusive_maximum { f >= *m } else { f > *m }) {
            let or_equal = if r.exclusive_maximum { "" } else { " or equal to" };
            self.invalid(path, &v(), format!("should be less than{or_equal} {max}"));
        }
        if let Some(min) = r.minimum.filter(|m| if r.exclusive_minimum { f <= *m } else { f < *m }) {
            let or_equal = if r.exclusive_minimum { "" } else { " or equal to" };
            self.invalid(path, &v(), format!("should be greater than{or_equal} {min}"));
        }
    }

    fn array(&mut self, r: &Rules, items: &[Value], path: &Path<'_>) {
        let len = items.len() as u64;
        if let Some(min) = r.min_items.filter(|m| len < *m) {
            self.invalid(path, &items.len().into(), format!("should have at least {min} items"));
        }
        if let Some(max) = r.max_items.filter(|m| len > *m) {
            self.errors.push(FieldError::too_many(&path.to_dotted(), items.len(), max as usize));
        }
        if r.unique_items && (1..items.len()).any(|i| items[..i].contains(&items[i])) {
            self.invalid(path, &"".into(), "shouldn't contain duplicates");
        }
    }

    /// Number of properties. False stops the check of this object, as upstream.
    fn sizes(&mut self, r: &Rules, len: usize, v: &Value, path: &Path<'_>) -> bool {
        if let Some(min) = r.min_properties.filter(|m| (len as u64) < *m) {
            self.invalid(path, v, format!("should have at least {min} properties"));
            return false;
        }
        if let Some(max) = r.max_properties.filter(|m| len as u64 > *m) {
            self.errors.push(FieldError::too_many(&path.to_dotted(), len, max as usize));
            return false;
        }
        true
    }

    fn enumeration(&mut self, r: &Rules, v: &Value, path: &Path<'_>) {
        if r.enumeration.is_empty() || r.enumeration.iter().any(|e| same(e, v)) {
            return;
        }
        let allowed: Vec<String> =
            r.enumeration.iter().map(|e| e.as_str().map_or_else(|| e.to_string(), str::to_owned)).collect();
        let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        self.errors.push(FieldError::not_supported(&path.to_dotted(), v.clone(), &allowed));
    }

    fn combinations(&mut self, c: &Compiled, r: &Rules, v: &Value, old: Option<&Value>, path: &Path<'_>) {
        if !r.any_of.is_empty() {
            let tried = attempts(&c.any_of, &r.any_of, v, path);
            if let Some(best) = tried.best_failure() {
                self.combination(path, "must validate at least one schema (anyOf)");
                self.errors.extend(best);
            }
        }
        if !r.one_of.is_empty() {
            let tried = attempts(&c.one_of, &r.one_of, v, path);
            let valid = tried.valid();
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                self.combination(path, &format!("must validate one and only one schema (oneOf). {found}"));
                self.errors.extend(tried.best_failure().unwrap_or_default());
            }
        }
        if !r.all_of.is_empty() {
            let before = self.errors.len();
            let mut failed = 0;
            for (c, s) in c.all_of.iter().zip(&r.all_of) {
                let count = self.errors.len();
                self.value(c, s, v, old, path);
                failed += usize::from(self.errors.len() > count);
            }
            if self.errors.len() > before {
                let none = if failed == r.all_of.len() { ". None validated" } else { "" };
                self.combination(path, &format!("must validate all the schemas (allOf){none}"));
            }
        }
        if let (Some(c), Some(s)) = (&c.not, &r.not) {
            let mut errors = Vec::new();
            Keywords { errors: &mut errors }.value(c, s, v, None, path);
            if errors.is_empty() {
                self.combination(path, "must not validate the schema (not)");
            }
        }
    }
}

/// What each alternative says.
struct Attempts(Vec<Vec<FieldError>>);

fn attempts(compiled: &[Compiled], schemas: &[Schema], v: &Value, path: &Path<'_>) -> Attempts {
    let each = compiled.iter().zip(schemas).map(|(c, s)| {
        let mut errors = Vec::new();
        Keywords { errors: &mut errors }.value(c, s, v, None, path);
        errors
    });
    Attempts(each.collect())
}

impl Attempts {
    fn valid(&self) -> usize {
        self.0.iter().filter(|e| e.is_empty()).count()
    }

    /// The errors of the alternative that came closest, if none is valid. A failure other than of type
    /// came closer than one of type.
    fn best_failure(self) -> Option<Vec<FieldError>> {
        if self.valid() > 0 {
            return None;
        }
        let distance = |e: &[FieldError]| (e.iter().any(|e| e.kind == ErrorKind::TypeInvalid), e.len());
        self.0.into_iter().min_by_key(|e| distance(e))
    }
}

/// `spec.x in body`; the root has no name, only the space after it.
fn in_body(p: &FieldPath) -> String {
    format!("{p} in body")
}

fn is_multiple(n: &Number, f: f64, m: f64) -> bool {
    if m.fract() == 0.0
        && m < 9e15
        && let Some(i) = n.as_i64()
    {
        return i % (m as i64) == 0;
    }
    let ratio = f / m;
    (ratio - ratio.round()).abs() < 1e-9
}

/// Equality of an enum value: numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}
