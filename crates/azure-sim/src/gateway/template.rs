//! Templates: what they describe, with their expressions worked out. No state, no request: values in, values out.
//!
//! The language has about a hundred functions. Here are those that the Azure CLI's own templates and simple ones of
//! people use; another one is refused by name, never guessed.

use serde_json::{Map, Value, json};
use std::cell::Cell;

/// Nesting of expressions, and of values, beyond which nobody means well.
const MAX_DEPTH: usize = 32;
const MAX_VALUES: u32 = 100_000;
/// Azure's own limit.
pub const MAX_RESOURCES: usize = 800;

/// Where a deployment takes place.
#[derive(Clone, Debug)]
pub struct Place {
    pub subscription: String,
    pub tenant: String,
    pub group: String,
    pub location: String,
}

/// A resource to be put.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The name other resources of the template know it by, if it has one.
    symbol: Option<String>,
    pub kind: String,
    name: String,
    pub id: String,
    pub version: String,
    /// As it stands in the template: what it refers to may be made by the template, too.
    given: Map<String, Value>,
    depends: Vec<String>,
}

impl Planned {
    /// Whether a name in a template means this one.
    pub fn is(&self, what: &str) -> bool {
        let symbol = self.symbol.as_deref().is_some_and(|s| s.eq_ignore_ascii_case(what));
        symbol
            || self.name.eq_ignore_ascii_case(what)
            || self.id.eq_ignore_ascii_case(what)
            || format!("{}/{}", self.kind, self.name).eq_ignore_ascii_case(what)
    }

    /// Whether it comes after another.
    pub fn needs(&self, other: &Planned) -> bool {
        self.depends.iter().any(|d| other.is(d))
    }
}

/// What is wrong with a template.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the template has no {0}, or it is not of the right kind")]
    Missing(&'static str),
    #[error("the template function '{0}' is not known here")]
    Function(String),
    #[error("the template function '{0}' is not given what it takes")]
    Arguments(String),
    #[error("the expression '{0}' cannot be read")]
    Expression(String),
    #[error("'{0}' is neither a parameter nor a variable of the template, or has no value")]
    Unknown(String),
    #[error("the template has no parameter '{0}', which is given a value")]
    Undeclared(String),
    #[error("the type '{kind}' does not go with the name '{name}'")]
    Name { kind: String, name: String },
    #[error("'{0}' in a template is not supported here")]
    Unsupported(&'static str),
    #[error("the template has more than {MAX_RESOURCES} resources")]
    TooMany,
    #[error("the template is nested too deeply")]
    Deep,
    #[error("the resource '{0}' depends on itself, or on what the template does not have")]
    Depends(String),
    #[error("the template refers to '{0}', which does not exist")]
    Reference(String),
}

/// How `reference(...)` is answered: a resource's id, or one of the template's names, to the whole resource.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

pub struct Template<'a> {
    template: &'a Value,
    parameters: &'a Value,
    place: &'a Place,
    lookup: Lookup<'a>,
    /// Values left to work out: variables of variables grow without bound.
    fuel: Cell<u32>,
}

impl<'a> Template<'a> {
    pub fn new(
        template: &'a Value,
        parameters: &'a Value,
        place: &'a Place,
        lookup: Lookup<'a>,
    ) -> Template<'a> {
        Template { template, parameters, place, lookup, fuel: Cell::new(MAX_VALUES) }
    }

    /// The resources, each after those it depends on.
    pub fn resources(&self) -> Result<Vec<Planned>, Error> {
        let declared = &self.template["parameters"];
        for (name, _) in self.parameters.as_object().into_iter().flatten() {
            if !declared.as_object().is_some_and(|d| d.keys().any(|k| k.eq_ignore_ascii_case(name))) {
                return Err(Error::Undeclared(name.clone()));
            }
        }
        let given: Vec<(Option<&str>, &Value)> = match &self.template["resources"] {
            Value::Array(list) => list.iter().map(|r| (None, r)).collect(),
            Value::Object(map) => map.iter().map(|(k, r)| (Some(k.as_str()), r)).collect(),
            _ => return Err(Error::Missing("resources")),
        };
        if given.len() > MAX_RESOURCES {
            return Err(Error::TooMany);
        }
        let mut planned = Vec::new();
        for (symbol, r) in given {
            planned.extend(self.planned(symbol, r)?);
        }
        ordered(planned)
    }

    fn planned(&self, symbol: Option<&str>, resource: &Value) -> Result<Option<Planned>, Error> {
        let Value::Object(fields) = resource else { return Err(Error::Missing("resources")) };
        for (field, name) in [("copy", "copy"), ("resources", "resources in a resource"), ("scope", "scope")]
        {
            if fields.get(field).is_some_and(|v| !v.is_null() && *v != json!([])) {
                return Err(Error::Unsupported(name));
            }
        }
        if let Some(condition) = fields.get("condition")
            && self.value(condition, 0)? == Value::Bool(false)
        {
            return Ok(None);
        }
        let text = |field: &'static str| match self.value(&resource[field], 0)? {
            Value::String(s) => Ok(s),
            _ => Err(Error::Missing(field)),
        };
        let (kind, name, version) = (text("type")?, text("name")?, text("apiVersion")?);
        let mut depends = Vec::new();
        for d in resource["dependsOn"].as_array().into_iter().flatten() {
            depends.extend(self.value(d, 0)?.as_str().map(str::to_lowercase));
        }
        // A deployment in a deployment may be one in another group.
        let mut place = self.place.clone();
        if let Some(group) = fields.get("resourceGroup").filter(|_| is_deployment(&kind)) {
            let Value::String(group) = self.value(group, 0)? else {
                return Err(Error::Missing("resourceGroup"));
            };
            place.group = group;
        }
        let id = resource_id(&place, &kind, &name.split('/').collect::<Vec<_>>())?;
        let symbol = symbol.map(str::to_owned);
        Ok(Some(Planned { symbol, kind, name, id, version, given: fields.clone(), depends }))
    }

    /// What is put, once what it refers to is there.
    pub fn body(&self, planned: &Planned) -> Result<Value, Error> {
        let mut body = Map::new();
        for (field, v) in &planned.given {
            match field.as_str() {
                "type" | "name" | "apiVersion" | "dependsOn" | "condition" | "comments" | "copy"
                | "resources" | "resourceGroup" => {}
                // Its expressions are its own, if it says so.
                "properties" if is_deployment(&planned.kind) && inner(v) => {
                    let mut own = Map::new();
                    for (k, v) in v.as_object().into_iter().flatten() {
                        let v = if k == "template" { v.clone() } else { self.value(v, 0)? };
                        own.insert(k.clone(), v);
                    }
                    body.insert(field.clone(), Value::Object(own));
                }
                _ => {
                    body.insert(field.clone(), self.value(v, 0)?);
                }
            }
        }
        Ok(Value::Object(body))
    }

    /// The outputs, once the resources are there.
    pub fn outputs(&self) -> Result<Map<String, Value>, Error> {
        let mut out = Map::new();
        for (name, o) in self.template["outputs"].as_object().into_iter().flatten() {
            let kind = o["type"].as_str().unwrap_or("String");
            out.insert(name.clone(), json!({"type": kind, "value": self.value(&o["value"], 0)?}));
        }
        Ok(out)
    }

    fn value(&self, v: &Value, depth: usize) -> Result<Value, Error> {
        let fuel = self.fuel.get().checked_sub(1).filter(|_| depth <= MAX_DEPTH).ok_or(Error::Deep)?;
        self.fuel.set(fuel);
        Ok(match v {
            Value::String(s) if s.starts_with("[[") => Value::String(s[1..].to_owned()),
            Value::String(s) if s.starts_with('[') && s.ends_with(']') => {
                let bad = || Error::Expression(s.chars().take(200).collect());
                let mut reader = Reader { text: &s[1..s.len() - 1], template: self };
                let v = reader.expression(depth + 1)?.ok_or_else(bad)?;
                if !reader.text.trim().is_empty() {
                    return Err(bad());
                }
                v
            }
            Value::Array(list) => {
                Value::Array(list.iter().map(|v| self.value(v, depth + 1)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let each = |(k, v): (&String, &Value)| Ok((k.clone(), self.value(v, depth + 1)?));
                Value::Object(map.iter().map(each).collect::<Result<_, Error>>()?)
            }
            other => other.clone(),
        })
    }

    fn parameter(&self, name: &str, depth: usize) -> Result<Value, Error> {
        if let Some(v) = self.parameters[name].get("value") {
            return Ok(v.clone());
        }
        let declared = self.template["parameters"][name].get("defaultValue");
        self.value(declared.ok_or_else(|| Error::Unknown(name.to_owned()))?, depth + 1)
    }

    fn call(&self, name: &str, arguments: &[Value], depth: usize) -> Result<Value, Error> {
        let wrong = || Error::Arguments(name.to_owned());
        let texts: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
        let texts = || texts.clone().ok_or_else(wrong);
        let place = self.place;
        Ok(match (name.to_ascii_lowercase().as_str(), arguments) {
            ("parameters", [Value::String(p)]) => self.parameter(p, depth)?,
            ("variables", [Value::String(v)]) => {
                let found = self.template["variables"].get(v);
                self.value(found.ok_or_else(|| Error::Unknown(v.clone()))?, depth + 1)?
            }
            ("concat", _) => texts()?.concat().into(),
            ("tolower", [Value::String(s)]) => s.to_lowercase().into(),
            ("toupper", [Value::String(s)]) => s.to_uppercase().into(),
            ("string", [Value::String(s)]) => s.clone().into(),
            ("string", [v]) => v.to_string().into(),
            ("equals", [a, b]) => (a == b).into(),
            ("not", [Value::Bool(b)]) => (!b).into(),
            ("if", [Value::Bool(c), yes, no]) => if *c { yes } else { no }.clone(),
            ("format", [Value::String(f), rest @ ..]) => {
                let fill = |text: String, (i, v): (usize, &Value)| {
                    let v = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                    text.replace(&format!("{{{i}}}"), &v)
                };
                rest.iter().enumerate().fold(f.clone(), fill).into()
            }
            ("uniquestring", [_, ..]) => {
                let bits = crate::state::hash(0, &texts()?);
                let letter = |i: u32| char::from(b'a' + u8::try_from((bits >> (5 * i)) % 26).unwrap_or(0));
                (0..13).map(letter).collect::<String>().into()
            }
            ("resourceid", [_, _, ..]) => {
                let texts = texts()?;
                // An optional subscription and group stand before the type, which has the only slash.
                let at = texts.iter().position(|t| t.contains('/')).ok_or_else(wrong)?;
                let mut elsewhere = place.clone();
                match texts[..at] {
                    [] => {}
                    [group] => elsewhere.group = group.to_owned(),
                    [subscription, group] => {
                        (elsewhere.subscription, elsewhere.group) =
                            (subscription.to_owned(), group.to_owned());
                    }
                    _ => return Err(wrong()),
                }
                resource_id(&elsewhere, texts[at], &texts[at + 1..])?.into()
            }
            ("resourcegroup", []) => json!({
                "id": format!("/subscriptions/{}/resourceGroups/{}", place.subscription, place.group),
                "name": place.group, "location": place.location, "type": "Microsoft.Resources/resourceGroups",
            }),
            ("subscription", []) => json!({
                "id": format!("/subscriptions/{}", place.subscription),
                "subscriptionId": place.subscription, "tenantId": place.tenant,
            }),
            ("providers", [_, _]) => json!({"apiVersions": ["2024-03-01"]}),
            ("reference", [Value::String(what), rest @ ..]) => {
                let whole = (self.lookup)(what).ok_or_else(|| Error::Reference(what.clone()))?;
                match rest {
                    [_, Value::String(full)] if full.eq_ignore_ascii_case("full") => whole,
                    _ => whole["properties"].clone(),
                }
            }
            (
                "parameters" | "variables" | "tolower" | "toupper" | "string" | "equals" | "not" | "if"
                | "format" | "uniquestring" | "resourceid" | "resourcegroup" | "subscription" | "providers"
                | "reference",
                _,
            ) => return Err(wrong()),
            _ => return Err(Error::Function(name.to_owned())),
        })
    }
}

fn resource_id(place: &Place, kind: &str, names: &[&str]) -> Result<String, Error> {
    let wrong = || Error::Name { kind: kind.to_owned(), name: names.join("/") };
    let (namespace, types) = kind.split_once('/').ok_or_else(wrong)?;
    let types: Vec<&str> = types.split('/').collect();
    if types.len() != names.len() || names.iter().any(|n| n.is_empty()) {
        return Err(wrong());
    }
    let Place { subscription, group, .. } = place;
    let mut id = format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/{namespace}");
    for (t, n) in types.iter().zip(names) {
        id.push_str(&format!("/{t}/{n}"));
    }
    Ok(id)
}

fn is_deployment(kind: &str) -> bool {
    kind.eq_ignore_ascii_case(crate::kinds::DEPLOYMENTS)
}

/// Whether a template in a template has parameters and variables of its own.
fn inner(properties: &Value) -> bool {
    let scope = &properties["expressionEvaluationOptions"]["scope"];
    scope.as_str().is_some_and(|s| s.eq_ignore_ascii_case("inner"))
}

/// Each after what it depends on; otherwise as they stand.
fn ordered(mut left: Vec<Planned>) -> Result<Vec<Planned>, Error> {
    let mut done: Vec<Planned> = Vec::new();
    while !left.is_empty() {
        let ready = |p: &Planned| !left.iter().any(|other| p.needs(other));
        let Some(at) = left.iter().position(ready) else {
            return Err(Error::Depends(left[0].name.clone()));
        };
        done.push(left.remove(at));
    }
    Ok(done)
}

/// Reads an expression and works it out as it goes.
struct Reader<'a> {
    text: &'a str,
    template: &'a Template<'a>,
}

impl Reader<'_> {
    fn eat(&mut self, c: char) -> bool {
        self.text = self.text.trim_start();
        let found = self.text.strip_prefix(c);
        self.text = found.unwrap_or(self.text);
        found.is_some()
    }

    fn word(&mut self) -> String {
        self.text = self.text.trim_start();
        let end = self.text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word.to_owned()
    }

    /// `None`: what stands here is not an expression.
    fn expression(&mut self, depth: usize) -> Result<Option<Value>, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Deep);
        }
        let mut v = match self.primary(depth)? {
            Some(v) => v,
            None => return Ok(None),
        };
        loop {
            if self.eat('.') {
                let name = self.word();
                let found = v.as_object().and_then(|m| m.iter().find(|(k, _)| k.eq_ignore_ascii_case(&name)));
                v = found.map(|(_, v)| v.clone()).ok_or(Error::Unknown(name))?;
            } else if self.eat('[') {
                let Some(at) = self.expression(depth + 1)? else { return Ok(None) };
                if !self.eat(']') {
                    return Ok(None);
                }
                let found = match &at {
                    Value::String(s) => v.get(s),
                    at => at.as_u64().and_then(|i| v.get(usize::try_from(i).ok()?)),
                };
                v = found.cloned().ok_or_else(|| Error::Unknown(at.to_string()))?;
            } else {
                return Ok(Some(v));
            }
        }
    }

    fn primary(&mut self, depth: usize) -> Result<Option<Value>, Error> {
        if self.eat('\'') {
            return Ok(self.string());
        }
        let word = self.word();
        if let Ok(n) = word.parse::<i64>() {
            return Ok(Some(n.into()));
        }
        match word.as_str() {
            "" => return Ok(None),
            "true" => return Ok(Some(true.into())),
            "false" => return Ok(Some(false.into())),
            _ => {}
        }
        if !self.eat('(') {
            return Ok(None);
        }
        let mut arguments = Vec::new();
        if !self.eat(')') {
            loop {
                let Some(v) = self.expression(depth + 1)? else { return Ok(None) };
                arguments.push(v);
                if self.eat(')') {
                    break;
                }
                if !self.eat(',') {
                    return Ok(None);
                }
            }
        }
        self.template.call(&word, &arguments, depth).map(Some)
    }

    /// After the opening quote; two quotes are one.
    fn string(&mut self) -> Option<Value> {
        let mut out = String::new();
        loop {
            let (before, after) = self.text.split_once('\'')?;
            out.push_str(before);
            self.text = after;
            match after.strip_prefix('\'') {
                Some(rest) => {
                    out.push('\'');
                    self.text = rest;
                }
                None => return Some(Value::String(out)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> Place {
        Place { subscription: "s".into(), tenant: "t".into(), group: "g".into(), location: "eastus".into() }
    }

    fn eval(expression: &str) -> Result<Value, Error> {
        let template = json!({
            "parameters": {"a": {"defaultValue": "[concat('x', 'y')]"}, "b": {}},
            "variables": {"v": {"deep": ["zero", "one"]}},
        });
        let given = json!({"b": {"value": 7}});
        let known = |what: &str| (what == "lb").then(|| json!({"id": "/lb", "properties": {"state": "up"}}));
        Template::new(&template, &given, &place(), &known).value(&json!(expression), 0)
    }

    #[test]
    fn expressions() {
        let id = "/subscriptions/s/resourceGroups/g/providers/A.B/t/n";
        let cases = [
            ("plain", json!("plain")),
            ("[[literal]", json!("[literal]")),
            ("[parameters('a')]", json!("xy")),
            ("[parameters('b')]", json!(7)),
            ("[variables('v').deep[1]]", json!("one")),
            ("[variables('v')['deep'][0]]", json!("zero")),
            ("[resourceId('A.B/t', 'n')]", json!(id)),
            ("[resourceId('g', 'A.B/t', 'n')]", json!(id)),
            ("[ resourceGroup().location ]", json!("eastus")),
            ("[if(equals('a', 'b'), 1, 2)]", json!(2)),
            ("[format('{0}-{1}', 'it''s', 3)]", json!("it's-3")),
            ("[reference('lb').state]", json!("up")),
            ("[reference('lb', '2024-01-01', 'Full').id]", json!("/lb")),
        ];
        for (text, want) in cases {
            assert_eq!(eval(text), Ok(want), "{text}");
        }
        let refused = [
            ("[nonsense('a')]", Error::Function("nonsense".into())),
            ("[parameters('zz')]", Error::Unknown("zz".into())),
            ("[reference('gone')]", Error::Reference("gone".into())),
            ("[concat('a'", Error::Expression("[concat('a'".into())),
            ("[toLower(1)]", Error::Arguments("toLower".into())),
        ];
        for (text, want) in refused {
            // Without its closing bracket it is plain text, as in Azure.
            let got = if text.ends_with(']') { eval(text) } else { eval(&format!("{text}]")) };
            let got = got.unwrap_err();
            assert!(
                got == want || matches!((&got, &want), (Error::Expression(_), Error::Expression(_))),
                "{text}: {got}"
            );
        }
        let many = vec!["[variables('v')]"; 1000];
        let laughs = json!({"variables": {"v": many, "w": vec!["[variables('v')]"; 1000]}});
        let none = |_: &str| None;
        let here = place();
        let t = Template::new(&laughs, &Value::Null, &here, &none);
        assert_eq!(t.value(&json!("[variables('w')]"), 0), Err(Error::Deep));
        assert_eq!(eval(&format!("[{}1{}]", "not(".repeat(50), ")".repeat(50))), Err(Error::Deep));
    }

    #[test]
    fn resources_come_after_what_they_need() {
        let one = |name: &str, depends: Value| json!({"type": "A.B/t", "name": name, "apiVersion": "2020-01-01", "dependsOn": depends});
        let order = |resources: Value| {
            let template = json!({"resources": resources});
            let none = |_: &str| None;
            let planned = Template::new(&template, &Value::Null, &place(), &none).resources()?;
            Ok::<_, Error>(planned.into_iter().map(|p| p.name).collect::<Vec<_>>())
        };
        let by_id = "[resourceId('A.B/t', 'c')]";
        let given =
            json!([one("a", json!(["A.B/t/b"])), one("b", json!([by_id])), one("c", json!(["elsewhere"]))]);
        assert_eq!(order(given), Ok(vec!["c".into(), "b".into(), "a".into()]));
        let circle = json!([one("a", json!(["b"])), one("b", json!(["a"]))]);
        assert_eq!(order(circle), Err(Error::Depends("a".into())));
        assert_eq!(
            order(json!([one("a/b", json!([]))])),
            Err(Error::Name { kind: "A.B/t".into(), name: "a/b".into() })
        );
        assert_eq!(order(json!(3)), Err(Error::Missing("resources")));
    }

    proptest! {
        #[test]
        fn never_panics(s in "\\[[a-z(),.'\\[\\]{}0-9 é]{0,60}\\]") {
            let _ = eval(&s);
        }
    }
}
