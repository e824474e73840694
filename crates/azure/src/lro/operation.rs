//! Driving an operation: the loop around the state machine.

use crate::Answer;
use crate::lro::{Lro, NoPolling, Outcome, Step, Verb};
use crate::pipeline::{Call, Client, Error};
use arm::ProvisioningState;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::time::Duration;
use url::Url;

/// Something that Azure is doing, or has done already.
pub struct Operation<T> {
    client: Client,
    lro: Lro,
    next: Step,
    /// The status of the first answer: 201 made it, 200 changed it, 204 found nothing to do.
    pub status: u16,
    of: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("lro", &self.lro).field("next", &self.next).finish()
    }
}

/// How often a result is read that is older than its operation, and the first wait between two looks.
const LOOKS: u32 = 6;
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// How many polls in a row may fail for reasons that pass.
const OUTAGES: u32 = 5;

fn path(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |u| u.path().to_owned())
}

impl Client {
    /// Sends a call that may begin a long-running operation.
    pub async fn begin<T>(&self, mut call: Call) -> Result<Operation<T>, Error> {
        let url = self.resolve(&call.service, &call.target)?;
        let correlation = call.correlation.get_or_insert_with(|| self.uuid()).clone();
        let verb = Verb::of(&call.method).unwrap_or(Verb::Post);
        let answer = self.send(call).await?;
        self.began(verb, &url, &answer, &correlation)
    }

    fn began<T>(
        &self,
        verb: Verb,
        url: &Url,
        answer: &Answer,
        correlation: &str,
    ) -> Result<Operation<T>, Error> {
        let now = self.timing().clock.now();
        let (mut lro, next) = Lro::start(verb, url.as_str(), answer, self.poll_default(), now)
            .map_err(|NoPolling| Error::NoPolling { path: url.path().to_owned() })?;
        lro.correlation = correlation.to_owned();
        Ok(Operation { client: self.clone(), lro, next, status: answer.status.as_u16(), of: PhantomData })
    }

    /// Picks up an operation that was begun by another process, or by this one before it was restarted.
    pub fn resume<T>(&self, lro: Lro) -> Operation<T> {
        let next = lro.resume();
        Operation { client: self.clone(), lro, next, status: 202, of: PhantomData }
    }
}

impl<T> Operation<T> {
    /// What to store to resume it later.
    pub fn token(&self) -> &Lro {
        &self.lro
    }

    pub fn is_done(&self) -> bool {
        matches!(self.next, Step::Done(_) | Step::Failed(_))
    }

    /// How long Azure wants us to wait before the next [`Operation::poll`]; nothing once it is over.
    pub fn next_look(&self) -> Option<Duration> {
        match &self.next {
            Step::Poll { after, .. } => Some(*after),
            Step::Done(_) | Step::Failed(_) => None,
        }
    }

    async fn get(&self, url: &str) -> Result<Answer, Error> {
        self.client.send(Call::new(Method::GET, url).correlation(&self.lro.correlation)).await
    }

    /// The result, read until it is not older than the operation: a reader may be sent to a server that has not
    /// heard of the end yet, or of the beginning.
    async fn fresh(&self, url: &str) -> Result<Option<Value>, Error> {
        let mut wait = FIRST_LOOK;
        for _ in 1..LOOKS {
            match self.get(url).await {
                Ok(answer) => {
                    let body = answer.json();
                    let state = body.as_ref().and_then(ProvisioningState::of);
                    if !matches!(state, Some(ProvisioningState::Running(_))) {
                        return Ok(body);
                    }
                }
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
            tracing::debug!(path = %path(self.lro.url()), "the result is older than the operation; reading again");
            self.client.timing().pause.pause(wait).await;
            wait *= 2;
        }
        Ok(self.get(url).await?.json())
    }

    /// Looks once, without waiting. `true` when it is over.
    pub async fn poll(&mut self) -> Result<bool, Error> {
        let Step::Poll { url, .. } = &self.next else { return Ok(true) };
        let answer = match self.get(url).await {
            Ok(answer) => answer,
            // The machine decides what a refusal means; transient ones have been retried already.
            Err(Error::Refused(r)) if matches!(r.status, 400..=499) && r.status != 429 && r.status != 401 => {
                let status = http::StatusCode::from_u16(r.status).unwrap_or_default();
                let body = serde_json::to_vec(&serde_json::json!({"error": r.detail})).unwrap_or_default();
                Answer { status, body: body.into(), ..Answer::default() }
            }
            Err(e) => return Err(e),
        };
        let now = self.client.timing().clock.now();
        self.next = self.lro.step(&answer, now);
        Ok(self.is_done())
    }

    /// Waits until it is over and returns the raw result. Cancelling this future loses nothing: the operation goes
    /// on in Azure, and the token resumes it.
    pub async fn wait_raw(&mut self) -> Result<Option<Value>, Error> {
        let (mut waited, mut failures) = (Duration::ZERO, 0);
        while let Step::Poll { after, .. } = &self.next {
            let after = *after;
            if waited > self.client.poll_patience() {
                return Err(Error::StillRunning { path: path(self.lro.url()), waited });
            }
            self.client.timing().pause.pause(after).await;
            // Time that polls themselves take does not count; patience is for services that never end.
            waited += after.max(Duration::from_millis(1));
            match self.poll().await {
                Ok(_) => failures = 0,
                // The operation goes on while the network or the front door does not: an outage must outlast
                // several rounds of the pipeline's own retries to end the wait.
                Err(e) if e.is_transient() && failures < OUTAGES => {
                    failures += 1;
                    tracing::warn!(path = %path(self.lro.url()), error = %e, "cannot ask about an operation; asking again");
                    self.client.timing().pause.pause(self.client.poll_default()).await;
                    waited += self.client.poll_default();
                }
                Err(e) => return Err(e),
            }
        }
        match &self.next {
            Step::Done(Outcome::Body(body)) => Ok(body.clone()),
            Step::Done(Outcome::Get(url)) => self.fresh(url).await,
            Step::Failed(detail) => {
                Err(Error::Operation { path: path(self.lro.url()), detail: detail.clone() })
            }
            Step::Poll { .. } => Err(Error::StillRunning { path: path(self.lro.url()), waited }),
        }
    }
}

impl<T: DeserializeOwned> Operation<T> {
    /// Waits until it is over and returns the result.
    pub async fn wait(mut self) -> Result<T, Error> {
        let body = self.wait_raw().await?.unwrap_or(Value::Null);
        let method = format!("{:?}", self.lro.verb()).to_uppercase();
        serde_json::from_value(body).map_err(|source| Error::Read {
            method,
            path: path(self.lro.url()),
            source,
        })
    }
}
