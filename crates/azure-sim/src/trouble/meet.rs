//! Which rules a request meets.

use crate::gateway;
use crate::profile::Pace;
use crate::state::{Effect, hash};
use crate::trouble::pattern::fits;
use crate::trouble::words;
use crate::trouble::{Each, Match, Rule, RuleError, Stale, Then, When, Why};
use crate::wire::{Call, Cause, Fault, Reply};
use arm::ErrorDetail;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum TroubleError {
    #[error("a fault rule is refused")]
    Rule(#[from] RuleError),
    #[error("there is a rule '{0}' already: remove it first, or choose another name")]
    Taken(String),
    #[error("there are {MAX_RULES} rules already: remove some")]
    TooMany,
}

const MAX_RULES: usize = 1_000;
/// Beyond so many different paths, a rule does not tell new ones apart.
const MAX_COUNTED: usize = 100_000;
const MAX_REVOKED: usize = 10_000;

/// What is to go wrong while a request is worked on, and the names of all rules that fired.
#[derive(Clone, Debug, Default)]
pub struct Due {
    pub names: Vec<Arc<str>>,
    pub fail_late: Option<Why>,
    pub partial: Option<Why>,
    pub stale: Option<Stale>,
}

fn detail(why: &Why) -> ErrorDetail {
    let message = why.message.clone().unwrap_or_else(|| "The operation failed.".to_owned());
    ErrorDetail::new(&why.code, message)
}

impl Due {
    /// What an operation ends with instead.
    pub fn late(&self, effect: Effect) -> Effect {
        if let (Some(why), Effect::RemoveGroup(key)) = (&self.partial, &effect) {
            return Effect::RemoveSome(key.clone(), Box::new(detail(why)));
        }
        let Some(why) = &self.fail_late else { return effect };
        match effect {
            Effect::Settle(key) | Effect::Remove(key) | Effect::RemovePart(key, ..) => {
                Effect::Fail(key, Box::new(detail(why)))
            }
            Effect::RemoveGroup(key) => Effect::Fail(key, Box::new(detail(why))),
            other => other,
        }
    }

    /// For the journal.
    pub fn text(&self) -> Option<String> {
        let names: Vec<&str> = self.names.iter().map(|n| &**n).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

/// What a request meets on its way.
#[derive(Debug, Default)]
pub struct Met {
    pub due: Due,
    /// Milliseconds of the world's.
    pub delay: u64,
    pub rotate: Option<bool>,
    /// Whether the connection breaks when it is done.
    pub drop_after: bool,
    /// Whether its token is none any more: the service itself says so, in its words.
    pub spoilt: bool,
    pub instead: Option<Instead>,
}

#[derive(Debug)]
pub enum Instead {
    Drop,
    Say(Box<Reply>),
}

struct Counted {
    rule: Arc<Rule>,
    name: Arc<str>,
    /// Requests that it fitted.
    met: u64,
    fired: u64,
    /// The same per method and path, by hash.
    by_path: HashMap<u64, (u64, u64)>,
}

/// What rules want to know of a request.
pub struct About<'a> {
    pub service: &'a str,
    pub host: &'a str,
    pub call: &'a Call,
    /// Object id, client id and name of the bearer, unverified: this is before any check.
    pub principal: Vec<String>,
}

/// The rules in force and what they have done.
#[derive(Default)]
pub struct Trouble {
    rules: Mutex<Vec<Counted>>,
    revoked: Mutex<HashSet<u128>>,
    made: Mutex<u64>,
}

fn some(pattern: &Option<String>, text: impl FnOnce() -> Vec<String>) -> bool {
    pattern.as_ref().is_none_or(|p| text().iter().any(|t| fits(p, t)))
}

fn zones(call: &Call) -> Vec<String> {
    let body = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
    let list = body["zones"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Of a token; signatures with a shared key are another each time, and passwords do not expire.
fn token_hash(call: &Call) -> Option<u128> {
    let header = call.header("authorization")?;
    header.get(..7).is_some_and(|b| b.eq_ignore_ascii_case("bearer ")).then(|| hash(0, &[header]))
}

fn expire(met: &mut Met, about: &About<'_>) {
    match words::expired(about.service, &about.call.base) {
        Some(reply) => met.instead = Some(Instead::Say(Box::new(reply))),
        None => met.spoilt = true,
    }
}

impl Trouble {
    /// The same rules for another world, none of which has fired yet.
    pub fn fork(&self) -> Trouble {
        let next = Trouble::default();
        for rule in self.list() {
            next.push((*rule).clone());
        }
        next
    }

    fn push(&self, rule: Rule) {
        let name: Arc<str> = rule.name.as_str().into();
        let rule = Arc::new(rule);
        self.rules.lock().push(Counted { rule, name, met: 0, fired: 0, by_path: HashMap::new() });
    }

    /// Adds all or none; the names they got.
    pub fn add(&self, rules: Vec<Rule>) -> Result<Vec<String>, TroubleError> {
        let mut known: HashSet<String> = self.list().iter().map(|r| r.name.clone()).collect();
        let mut good = Vec::new();
        let mut made = self.made.lock();
        for mut rule in rules {
            while rule.name.is_empty() {
                *made += 1;
                let name = format!("{}-{}", rule.then.name(), *made);
                rule.name = if known.contains(&name) { String::new() } else { name };
            }
            rule.check()?;
            if !known.insert(rule.name.clone()) {
                return Err(TroubleError::Taken(rule.name));
            }
            good.push(rule);
        }
        if known.len() > MAX_RULES {
            return Err(TroubleError::TooMany);
        }
        let names = good.iter().map(|r| r.name.clone()).collect();
        good.into_iter().for_each(|r| self.push(r));
        Ok(names)
    }

    pub fn list(&self) -> Vec<Arc<Rule>> {
        self.rules.lock().iter().map(|c| c.rule.clone()).collect()
    }

    /// With how often each met a request and fired.
    pub fn report(&self) -> Vec<Value> {
        let rules = self.rules.lock();
        let shown = |c: &Counted| {
            let mut v = serde_json::to_value(&*c.rule).unwrap_or_default();
            v["met"] = c.met.into();
            v["fired"] = c.fired.into();
            v
        };
        rules.iter().map(shown).collect()
    }

    /// Whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut rules = self.rules.lock();
        let before = rules.len();
        rules.retain(|c| c.rule.name != name);
        rules.len() < before
    }

    /// How many there were.
    pub fn clear(&self) -> usize {
        std::mem::take(&mut *self.rules.lock()).len()
    }

    pub fn is_quiet(&self) -> bool {
        self.rules.lock().is_empty() && self.revoked.lock().is_empty()
    }

    /// Whether some reader may be behind.
    pub fn lets_lag(&self) -> bool {
        self.rules.lock().iter().any(|c| matches!(c.rule.then, Then::Stale(_)))
    }

    /// Whether some rule asks who it is.
    pub fn asks_who(&self) -> bool {
        self.rules.lock().iter().any(|c| c.rule.on.principal.is_some())
    }

    /// Goes through the rules in their order.
    pub fn meet(&self, about: &About<'_>, seed: u64, pace: Pace) -> Met {
        let mut met = Met::default();
        let call = about.call;
        let revoked = token_hash(call).filter(|t| self.revoked.lock().contains(t));
        if revoked.is_some() {
            met.due.names.push("expired".into());
            expire(&mut met, about);
            return met;
        }
        let (kind, action) = match about.service {
            "arm" => gateway::about(&call.method, &call.path),
            _ => (String::new(), None),
        };
        for c in self.rules.lock().iter_mut() {
            if !suits(&c.rule.on, about, &kind, action.as_deref()) || !c.fires(call, seed) {
                continue;
            }
            met.due.names.push(c.name.clone());
            match &c.rule.then {
                Then::Delay(ms) => met.delay = met.delay.saturating_add(*ms),
                Then::FailLate(why) => met.due.fail_late = Some(why.clone()),
                Then::Partial(why) => met.due.partial = Some(why.clone()),
                Then::Stale(how) => met.due.stale = Some(*how),
                Then::RotateKeys(forget) => met.rotate = Some(*forget),
                Then::Drop(When::After) => met.drop_after = true,
                Then::Drop(When::Before) => {
                    met.instead = Some(Instead::Drop);
                    break;
                }
                Then::Answer(a) => {
                    met.instead = Some(Instead::Say(Box::new(words::answer(about.service, a, pace))));
                    break;
                }
                Then::Throttle(s) => {
                    met.instead =
                        Some(Instead::Say(Box::new(words::throttled(about.service, *s, &kind, pace))));
                    break;
                }
                Then::ExpireToken => {
                    // Without a token there is nothing to expire.
                    let Some(token) = token_hash(call) else { continue };
                    let mut revoked = self.revoked.lock();
                    if revoked.len() < MAX_REVOKED {
                        revoked.insert(token);
                    }
                    expire(&mut met, about);
                    break;
                }
            }
        }
        met
    }
}

fn suits(on: &Match, about: &About<'_>, kind: &str, action: Option<&str>) -> bool {
    let call = about.call;
    let one = |t: &str| vec![t.to_owned()];
    some(&on.method, || one(call.method.as_str()))
        && some(&on.host, || vec![about.service.to_owned(), about.host.to_owned()])
        && some(&on.kind, || one(kind))
        && some(&on.id, || one(&call.path))
        && some(&on.action, || action.map(one).unwrap_or_default())
        && some(&on.principal, || about.principal.clone())
        && some(&on.zone, || zones(call))
}

impl Counted {
    /// Counts a request that fits, and decides.
    fn fires(&mut self, call: &Call, seed: u64) -> bool {
        let on = &self.rule.on;
        let what = hash(0, &[call.method.as_str(), &call.path]);
        // The lower half is as good as the whole.
        let what = what as u64;
        self.met += 1;
        let known = self.by_path.contains_key(&what) || self.by_path.len() < MAX_COUNTED;
        let mut spare = (0, 0);
        let own = if known { self.by_path.entry(what).or_default() } else { &mut spare };
        own.0 += 1;
        let (count, fired) = match on.each {
            Each::Rule => (self.met, self.fired),
            Each::Id => *own,
        };
        let turn = on.nth.is_none_or(|n| count == n) && on.every.is_none_or(|n| count.is_multiple_of(n));
        let left = on.times.is_none_or(|n| fired < n);
        let lucky = on.probability.is_none_or(|p| {
            let n = own.0.to_string();
            let bits = hash(seed, &["fault", &self.name, call.method.as_str(), &call.path, &n]);
            // The upper 53 bits, as a part of one.
            ((bits >> 75) as f64) / ((1_u64 << 53) as f64) < p
        });
        if !(turn && left && lucky) {
            return false;
        }
        own.1 += 1;
        self.fired += 1;
        true
    }
}

/// What a write that was done is answered with when it was done only in part. Of a group's deletion the operation
/// itself says it.
pub fn half_done(service: &str, due: &Due, call: &Call, reply: Reply) -> Reply {
    let Some(why) = &due.partial else { return reply };
    let writes = !matches!(call.method, Method::GET | Method::HEAD) && reply.status.is_success();
    let (kind, _) = gateway::about(&call.method, &call.path);
    let group = kind.eq_ignore_ascii_case("Microsoft.Resources/resourceGroups");
    if !writes || (group && call.method == Method::DELETE) {
        return reply;
    }
    let detail = detail(why);
    match service {
        "arm" => Fault::new(StatusCode::INTERNAL_SERVER_ERROR, Cause::Service, detail).reply(),
        _ => words::refusal(service, StatusCode::INTERNAL_SERVER_ERROR, &why.code, &detail.message),
    }
}
