//! What goes wrong, on purpose.
//!
//! A fault is data: a [`Rule`] says which requests it meets and what happens to them. Rules are kept in the order
//! they were given. A request meets them one after the other, before it is authenticated: a rule that answers in the
//! service's place (`answer`, `throttle`, `expireToken`, `drop` before) ends it, and those after it do not count it;
//! all others (`delay`, `failLate`, `partial`, `stale`, `rotateKeys`, `drop` after) add up.
//!
//! Whether a rule fires depends on the seed and on what was asked, not on who was faster: probabilities are drawn by
//! seed, rule, method, path and how often that was asked before. `nth`, `every` and `times` count the requests that
//! a rule fits, or with `each: id` those of each id by itself, which repeats even when requests race.
//!
//! Rules meet every service: Resource Manager (`arm`), `login`, `graph`, `access`, `vault`, `blob`, `web`, `registry`,
//! `frontdoor`, `imds` and `msi`. Each says what is wrong in its own words; operations that end later, and so `failLate`,
//! are Resource Manager's and the vault's certificates.
//!
//! [`Lags`] is the other half: rights, principals and federated credentials that take their time to arrive.

mod around;
mod history;
mod lags;
mod meet;
mod pattern;
mod presets;
mod rule;
mod top;
mod words;

#[cfg(test)]
mod tests;

pub use around::around;
pub use history::History;
pub use lags::{Hidden, Lags};
pub use meet::{About, Due, Instead, Trouble, TroubleError};
pub use presets::{PRESETS, preset};
pub use rule::{Answer, Each, Match, Rule, RuleError, Stale, Then, When, Why, read};
pub use top::top;
