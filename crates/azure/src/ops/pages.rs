//! Lists as streams: a page at a time, when somebody reads that far.

use crate::pipeline::{Call, Client, Error, Service};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashSet;

/// More than this is a service that does not end.
const MAX_PAGES: usize = 10_000;

struct Reading {
    next: Option<String>,
    seen: HashSet<String>,
}

impl Client {
    /// All items of a list, from the target on.
    pub(crate) fn pages<T: DeserializeOwned + Send + 'static>(
        &self,
        service: Service,
        target: String,
    ) -> BoxStream<'static, Result<T, Error>> {
        let client = self.clone();
        let correlation = self.uuid();
        let start = Reading { next: Some(target), seen: HashSet::new() };
        stream::try_unfold(start, move |mut at| {
            let (client, correlation, service) = (client.clone(), correlation.clone(), service.clone());
            async move {
                let Some(target) = at.next.take() else { return Ok(None) };
                let path = target.split('?').next().unwrap_or_default().to_owned();
                if at.seen.len() >= MAX_PAGES || !at.seen.insert(target.clone()) {
                    return Err(Error::Pages { path });
                }
                let mut call = Call::get(target).correlation(&correlation);
                call.service = service;
                let answer = client.send(call).await?;
                let read = |source| Error::Read { method: "GET".to_owned(), path: path.clone(), source };
                let mut page: Value = serde_json::from_slice(&answer.body).map_err(read)?;
                let link = |name: &str| page[name].as_str().filter(|l| !l.is_empty()).map(str::to_owned);
                at.next = link("nextLink").or_else(|| link("@odata.nextLink"));
                let items: Vec<T> = match page["value"].take() {
                    Value::Null => Vec::new(),
                    value => serde_json::from_value(value).map_err(read)?,
                };
                Ok(Some((stream::iter(items.into_iter().map(Ok)), at)))
            }
        })
        .try_flatten()
        .boxed()
    }
}
