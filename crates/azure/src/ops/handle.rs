//! One handle for every type.

use super::{ArmType, Place};
use crate::lro::{Lro, Operation};
use crate::pipeline::{Call, Client, Error, Service};
use arm::{ApiVersion, ResourceId, code};
use futures::stream::{BoxStream, TryStreamExt};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;

/// On what a write depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Always,
    /// Only if nobody changed it since.
    Match(String),
    /// Only if it does not exist.
    Absent,
}

/// What a delete found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It was there and is gone.
    Done,
    /// There was nothing to delete.
    Absent,
}

/// Operations on resources of one type.
pub struct Arm<T> {
    client: Client,
    version: &'static str,
    other_version: Option<ApiVersion>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Arm<T> {
    fn clone(&self) -> Arm<T> {
        Arm {
            client: self.client.clone(),
            version: self.version,
            other_version: self.other_version.clone(),
            of: PhantomData,
        }
    }
}

impl Client {
    pub fn arm<T: ArmType>(&self) -> Arm<T> {
        Arm { client: self.clone(), version: T::ROW.api_version, other_version: None, of: PhantomData }
    }
}

/// Refusals with 404 that say "you asked wrongly", not "it is not there".
const WRONG: [&str; 4] = [
    code::SUBSCRIPTION_NOT_FOUND,
    code::INVALID_RESOURCE_TYPE,
    code::INVALID_RESOURCE_NAMESPACE,
    "InvalidResource",
];

pub(crate) fn absent(e: &Error) -> bool {
    e.is_not_found() && !e.code().is_some_and(|c| WRONG.contains(&c))
}

fn conditional(call: Call, on: &Condition) -> Call {
    match on {
        Condition::Always => call,
        Condition::Match(etag) => call.header("if-match", etag),
        Condition::Absent => call.header("if-none-match", "*"),
    }
}

impl<T: ArmType> Arm<T> {
    /// The same with another api-version.
    #[must_use]
    pub fn at(mut self, version: ApiVersion) -> Arm<T> {
        self.other_version = Some(version);
        self
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn version(&self) -> &str {
        self.other_version.as_ref().map_or(self.version, ApiVersion::as_str)
    }

    /// The id of one; `scope` is the subscription, group, parent, or whatever it attaches to.
    pub fn id(&self, scope: &ResourceId, name: &str) -> Result<ResourceId, Error> {
        Ok(T::ROW.id(scope, name)?)
    }

    fn call(&self, method: Method, id: &ResourceId) -> Result<Call, Error> {
        if !id.resource_type().is(T::ROW.kind) {
            return Err(Error::Kind { id: id.to_string(), kind: T::ROW.kind });
        }
        Ok(Call::new(method, format!("{id}?api-version={}", self.version())))
    }

    fn written<B: Serialize>(&self, method: Method, id: &ResourceId, body: &B) -> Result<Call, Error> {
        let name = method.to_string();
        let body = serde_json::to_value(body).map_err(|source| Error::Write {
            method: name,
            path: id.to_string(),
            source,
        })?;
        Ok(self.call(method, id)?.body(body))
    }

    async fn read<R: DeserializeOwned>(&self, call: Call) -> Result<R, Error> {
        let (method, path) =
            (call.method.to_string(), call.target.split('?').next().unwrap_or_default().to_owned());
        let answer = self.client.send(call).await?;
        serde_json::from_slice(&answer.body).map_err(|source| Error::Read { method, path, source })
    }

    pub async fn get(&self, id: &ResourceId) -> Result<T::Body, Error> {
        self.read(self.call(Method::GET, id)?).await
    }

    /// With further parameters, such as `$expand`.
    pub async fn get_with(&self, id: &ResourceId, query: &[(&str, &str)]) -> Result<T::Body, Error> {
        let mut call = self.call(Method::GET, id)?;
        call.target = with_query(id.as_str(), self.version(), query);
        self.read(call).await
    }

    /// Like `get`, but what is not there is `None`.
    pub async fn find(&self, id: &ResourceId) -> Result<Option<T::Body>, Error> {
        match self.get(id).await {
            Ok(body) => Ok(Some(body)),
            Err(e) if absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub async fn exists(&self, id: &ResourceId) -> Result<bool, Error> {
        // Few types answer HEAD; groups do.
        let method = if T::ROW.place == Place::Subscription { Method::HEAD } else { Method::GET };
        match self.client.send(self.call(method, id)?).await {
            Ok(_) => Ok(true),
            Err(e) if absent(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Creates or replaces, and waits until it is done.
    pub async fn put(&self, id: &ResourceId, body: &T::Body) -> Result<T::Body, Error> {
        self.begin_put(id, body, &Condition::Always).await?.wait().await
    }

    pub async fn put_if(&self, id: &ResourceId, body: &T::Body, on: &Condition) -> Result<T::Body, Error> {
        self.begin_put(id, body, on).await?.wait().await
    }

    pub async fn begin_put(
        &self,
        id: &ResourceId,
        body: &T::Body,
        on: &Condition,
    ) -> Result<Operation<T::Body>, Error> {
        self.client.begin(conditional(self.written(Method::PUT, id, body)?, on)).await
    }

    /// Changes what the patch mentions, as far as the type knows how, and waits until it is done.
    pub async fn patch(&self, id: &ResourceId, patch: &Value) -> Result<T::Body, Error> {
        let operation: Operation<T::Body> =
            self.client.begin(self.written(Method::PATCH, id, patch)?).await?;
        operation.wait().await
    }

    /// Deletes and waits until it is gone. What is not there is gone already, and is said to be.
    pub async fn delete(&self, id: &ResourceId) -> Result<Deleted, Error> {
        self.delete_if(id, &Condition::Always).await
    }

    pub async fn delete_if(&self, id: &ResourceId, on: &Condition) -> Result<Deleted, Error> {
        let mut operation = match self.begin_delete(id, on).await {
            Ok(o) => o,
            Err(e) if absent(&e) => return Ok(Deleted::Absent),
            Err(e) => return Err(e),
        };
        let found = if operation.status == 204 { Deleted::Absent } else { Deleted::Done };
        operation.wait_raw().await?;
        Ok(found)
    }

    pub async fn begin_delete(&self, id: &ResourceId, on: &Condition) -> Result<Operation<Value>, Error> {
        self.client.begin(conditional(self.call(Method::DELETE, id)?, on)).await
    }

    /// All of them within a scope: a subscription, a group, a parent, or what extensions attach to.
    pub fn list(&self, scope: &ResourceId) -> BoxStream<'static, Result<T::Body, Error>> {
        self.list_with(scope, &[])
    }

    /// With further parameters, such as `$filter`, `$top` or `$expand`.
    pub fn list_with(
        &self,
        scope: &ResourceId,
        query: &[(&str, &str)],
    ) -> BoxStream<'static, Result<T::Body, Error>> {
        let target = with_query(&T::ROW.collection(scope), self.version(), query);
        self.client.pages(Service::Arm, target)
    }

    pub async fn list_all(&self, scope: &ResourceId) -> Result<Vec<T::Body>, Error> {
        self.list(scope).try_collect().await
    }

    /// `POST {id}/{name}`, and waits until it is done.
    pub async fn action<R: DeserializeOwned>(
        &self,
        id: &ResourceId,
        name: &str,
        body: Option<Value>,
    ) -> Result<R, Error> {
        let mut call = self.call(Method::POST, id)?;
        call.target = format!("{id}/{name}?api-version={}", self.version());
        call.body = body;
        let operation: Operation<R> = self.client.begin(call).await?;
        operation.wait().await
    }

    /// Picks up a write that was begun earlier.
    pub fn resume(&self, lro: Lro) -> Operation<T::Body> {
        self.client.resume(lro)
    }
}

pub(super) fn with_query(path: &str, version: &str, query: &[(&str, &str)]) -> String {
    let mut target = format!("{path}?api-version={version}");
    for (k, v) in query {
        target.push_str(&format!("&{k}={}", utf8_percent_encode(v, NON_ALPHANUMERIC)));
    }
    target
}
