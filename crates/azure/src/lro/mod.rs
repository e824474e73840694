//! Long-running operations as a pure state machine.
//!
//! [`Lro::start`] reads the first answer, [`Lro::step`] each one after it; both say what to do next: ask a URL after
//! a while, fetch the result, or stop. The state is a small value of URLs that serialises, so an operation outlives
//! the process that began it. [`Operation`] in `operation.rs` is the loop that does what the machine says.
//!
//! Azure's services agree on little. The order of preference is that of the official clients
//! (`Azure-AsyncOperation`, `Operation-Location`, `Location`, `provisioningState` of the body); a status that is
//! not one of the three ends means that it is running, whatever it says.

mod operation;

pub use operation::Operation;

use crate::Answer;
use crate::pipeline::retry_after;
use arm::{ErrorDetail, OperationStatus, Polling, ProvisioningState};
use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// What kind of call began it; it decides where the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verb {
    Put,
    Patch,
    Post,
    Delete,
}

impl Verb {
    pub fn of(method: &Method) -> Option<Verb> {
        match *method {
            Method::PUT => Some(Verb::Put),
            Method::PATCH => Some(Verb::Patch),
            Method::POST => Some(Verb::Post),
            Method::DELETE => Some(Verb::Delete),
            _ => None,
        }
    }
}

/// A running operation: where to ask. Serialise it to resume after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lro {
    verb: Verb,
    /// What was called: the resource, for all but POST.
    url: String,
    state: State,
    /// Where a POST's result will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// Between looks when the service does not say, in milliseconds.
    wait_ms: u64,
    /// Groups the calls of the operation.
    #[serde(default)]
    pub correlation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "style", content = "url")]
enum State {
    Status(String),
    Location(String),
    Body,
    /// The operation's own URL vanished with what was deleted: is the resource gone too?
    Confirm,
    Over,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// GET this URL, not before the time is up, and call [`Lro::step`] with the answer.
    Poll {
        url: String,
        after: Duration,
    },
    Done(Outcome),
    Failed(Box<ErrorDetail>),
}

/// Where the result of a successful operation is.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Here; `None` for operations that have none.
    Body(Option<Value>),
    /// GET this URL for it.
    Get(String),
}

/// The first answer was 202 and did not say where to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("202 without Azure-AsyncOperation, Location or provisioningState")]
pub struct NoPolling;

/// An answer, read for the machine: errors of the service become [`Step::Failed`].
fn failure(answer: &Answer, body: Option<&Value>) -> ErrorDetail {
    let said =
        body.and_then(|b| b.get("error")).and_then(|e| serde_json::from_value::<ErrorDetail>(e.clone()).ok());
    said.unwrap_or_else(|| {
        ErrorDetail::new(format!("Http{}", answer.status.as_u16()), "the operation could not be asked about")
    })
}

fn object(answer: &Answer) -> Option<Value> {
    answer.json().filter(|v| !v.is_null())
}

impl Lro {
    /// Reads the answer to the call that may have begun something. `url` is the absolute URL that was called.
    pub fn start(
        verb: Verb,
        url: &str,
        answer: &Answer,
        wait: Duration,
        now: Timestamp,
    ) -> Result<(Lro, Step), NoPolling> {
        let body = object(answer);
        let status = answer.status.as_u16();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let mut lro = Lro {
            verb,
            url: url.to_owned(),
            state: State::Over,
            result: answer.header("location").filter(|_| verb == Verb::Post).map(|l| lro_url(url, l)),
            wait_ms,
            correlation: String::new(),
        };
        // A POST answers with what it likes; a state in there is not that of an operation.
        let polling = match (verb, Polling::of(status, &answer.headers, body.as_ref())) {
            (Verb::Post, Some(Polling::Body)) => Some(Polling::Done),
            (_, p) => p,
        };
        lro.state = match polling.ok_or(NoPolling)? {
            Polling::AsyncOperation(at) => State::Status(lro_url(url, &at)),
            Polling::Location(at) => State::Location(lro_url(url, &at)),
            Polling::Body => State::Body,
            Polling::Done => {
                let failed = body.as_ref().and_then(ProvisioningState::of).filter(|s| {
                    matches!(s, ProvisioningState::Failed | ProvisioningState::Canceled)
                        && verb != Verb::Delete
                });
                let step = match failed {
                    Some(s) => Step::Failed(Box::new(ErrorDetail::new(
                        s.as_str(),
                        "the resource was left in this state",
                    ))),
                    None => Step::Done(Outcome::Body(body)),
                };
                return Ok((lro, step));
            }
        };
        let step = lro.poll(answer, now);
        Ok((lro, step))
    }

    /// Waits for a resource that somebody else is changing: asks it until its own state says that it is over.
    pub fn watch(url: &str, wait: Duration) -> Lro {
        Lro {
            verb: Verb::Put,
            url: url.to_owned(),
            state: State::Body,
            result: None,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            correlation: String::new(),
        }
    }

    /// The URL of the resource (or action) that the operation is about.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn verb(&self) -> Verb {
        self.verb
    }

    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// What to ask now, after a restart: at once, because the wait has likely passed.
    pub fn resume(&self) -> Step {
        match self.target() {
            Some(url) => Step::Poll { url, after: Duration::ZERO },
            None => Step::Done(self.fetch()),
        }
    }

    fn target(&self) -> Option<String> {
        match &self.state {
            State::Status(url) | State::Location(url) => Some(url.clone()),
            State::Body | State::Confirm => Some(self.url.clone()),
            State::Over => None,
        }
    }

    /// Where the result is when the last answer did not hold it.
    fn fetch(&self) -> Outcome {
        match (self.verb, &self.result) {
            (Verb::Put | Verb::Patch, _) => Outcome::Get(self.url.clone()),
            (Verb::Post, Some(url)) => Outcome::Get(url.clone()),
            (Verb::Post | Verb::Delete, _) => Outcome::Body(None),
        }
    }

    fn poll(&mut self, answer: &Answer, now: Timestamp) -> Step {
        match self.target() {
            Some(url) => {
                // Services that say 0 mean "as you like", and get the default, as from the official clients.
                let said = retry_after(&answer.headers, now).filter(|d| !d.is_zero());
                let after = said.unwrap_or_else(|| Duration::from_millis(self.wait_ms));
                Step::Poll { url, after }
            }
            None => Step::Done(self.fetch()),
        }
    }

    fn done(&mut self, outcome: Outcome) -> Step {
        self.state = State::Over;
        Step::Done(outcome)
    }

    fn failed(&mut self, detail: ErrorDetail) -> Step {
        self.state = State::Over;
        Step::Failed(Box::new(detail))
    }

    /// Reads one more answer. The pipeline has dealt with throttling and outages; what arrives here is meant.
    pub fn step(&mut self, answer: &Answer, now: Timestamp) -> Step {
        let body = object(answer);
        self.moved(answer);
        let status = answer.status.as_u16();
        let gone = matches!(status, 404 | 410);
        match (&self.state, self.verb) {
            (State::Over, _) => Step::Done(self.fetch()),
            (State::Confirm | State::Body, Verb::Delete) if gone => self.done(Outcome::Body(None)),
            (State::Confirm, _) => {
                let why =
                    "the operation can no longer be asked about, and what it should delete is still there";
                self.failed(ErrorDetail::new("OperationNotFound", why))
            }
            (State::Status(_) | State::Location(_), Verb::Delete) if gone => {
                self.state = State::Confirm;
                Step::Poll { url: self.url.clone(), after: Duration::ZERO }
            }
            _ if !answer.status.is_success() => {
                let detail = failure(answer, body.as_ref());
                self.failed(detail)
            }
            (State::Status(_), _) => self.status(answer, body, now),
            (State::Location(_), _) => self.location(answer, body, now),
            (State::Body, _) => self.body(answer, body, now),
        }
    }

    /// Services may send us elsewhere with each answer.
    fn moved(&mut self, answer: &Answer) {
        let to = |name: &str| answer.header(name).map(|h| lro_url(&self.url, h));
        match &self.state {
            State::Status(_) => {
                if let Some(url) = to("azure-asyncoperation").or_else(|| to("operation-location")) {
                    self.state = State::Status(url);
                }
            }
            State::Location(_) => {
                if let Some(url) = to("location").filter(|_| answer.status.as_u16() == 202) {
                    self.state = State::Location(url);
                }
            }
            _ => {}
        }
    }

    fn status(&mut self, answer: &Answer, body: Option<Value>, now: Timestamp) -> Step {
        let read = body.as_ref().and_then(|b| serde_json::from_value::<OperationStatus>(b.clone()).ok());
        let ended = match read {
            Some(s) => match s.progress(Duration::ZERO) {
                arm::Progress::Running { .. } => return self.poll(answer, now),
                arm::Progress::Failed(why) => return self.failed(why),
                arm::Progress::Succeeded => s.other.get("properties").and_then(|p| p.get("output")).cloned(),
            },
            // No status: some answer with the resource, some with nothing, when it is over.
            None => match body.as_ref().and_then(ProvisioningState::of) {
                Some(state) if !state.is_terminal() => return self.poll(answer, now),
                Some(ProvisioningState::Failed | ProvisioningState::Canceled) => {
                    let detail = failure(answer, body.as_ref());
                    return self.failed(detail);
                }
                _ if answer.status.as_u16() == 202 => return self.poll(answer, now),
                _ => None,
            },
        };
        match (self.verb, ended) {
            // Compute puts the resource into the operation.
            (Verb::Put | Verb::Patch | Verb::Post, Some(output))
                if output.is_object() && self.result.is_none() =>
            {
                self.done(Outcome::Body(Some(output)))
            }
            _ => {
                let result = self.fetch();
                self.done(result)
            }
        }
    }

    fn location(&mut self, answer: &Answer, body: Option<Value>, now: Timestamp) -> Step {
        let state = body.as_ref().and_then(ProvisioningState::of);
        let running = answer.status.as_u16() == 202 || state.as_ref().is_some_and(|s| !s.is_terminal());
        if running && self.verb != Verb::Delete || answer.status.as_u16() == 202 {
            return self.poll(answer, now);
        }
        if matches!(state, Some(ProvisioningState::Failed | ProvisioningState::Canceled)) {
            let detail = failure(answer, body.as_ref());
            return self.failed(detail);
        }
        match (self.verb, body) {
            (Verb::Delete, _) => self.done(Outcome::Body(None)),
            // The answer at `Location` is the result, if there is one in it.
            (Verb::Post, body) => self.done(Outcome::Body(body)),
            (Verb::Put | Verb::Patch, Some(body)) if body.get("id").is_some() => {
                self.done(Outcome::Body(Some(body)))
            }
            (Verb::Put | Verb::Patch, _) => {
                let url = self.url.clone();
                self.done(Outcome::Get(url))
            }
        }
    }

    fn body(&mut self, answer: &Answer, body: Option<Value>, now: Timestamp) -> Step {
        match body.as_ref().and_then(ProvisioningState::of) {
            Some(ProvisioningState::Running(_)) => self.poll(answer, now),
            Some(ProvisioningState::Failed | ProvisioningState::Canceled) => {
                let mut detail = failure(answer, body.as_ref());
                if detail.code.starts_with("Http") {
                    detail = ErrorDetail::new("Failed", "the resource was left in a failed state");
                }
                self.failed(detail)
            }
            Some(ProvisioningState::Succeeded) | None if self.verb == Verb::Delete => self.failed(
                ErrorDetail::new("NotDeleted", "the resource is still there and no longer being deleted"),
            ),
            // Without a state there is nothing to wait for.
            Some(ProvisioningState::Succeeded) | None => self.done(Outcome::Body(body)),
        }
    }
}

/// Absolute form of a header that may be relative.
fn lro_url(base: &str, target: &str) -> String {
    match Url::parse(base).and_then(|b| b.join(target)) {
        Ok(url) => url.to_string(),
        // Refused later by the pipeline, with its name.
        Err(_) => target.to_owned(),
    }
}

#[cfg(test)]
mod tests;
