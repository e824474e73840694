//! Bodies of answers: at hand, or read out of stored contents while they are sent.

use crate::planes::Slice;
use crate::planes::contents::STEP;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Debug, Default)]
pub struct Body {
    ready: Option<Bytes>,
    parts: VecDeque<Slice>,
}

impl Body {
    pub fn of(bytes: Bytes) -> Body {
        Body { ready: Some(bytes).filter(|b| !b.is_empty()), parts: VecDeque::new() }
    }

    pub fn parts(parts: Vec<Slice>) -> Body {
        Body { ready: None, parts: parts.into() }
    }

    fn left(&self) -> u64 {
        let ready = self.ready.as_ref().map_or(0, |b| b.len() as u64);
        ready + self.parts.iter().map(|s| s.len).sum::<u64>()
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(bytes) = self.ready.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(first) = self.parts.front_mut() else { return Poll::Ready(None) };
        let step = first.len.min(STEP);
        // Local files, a step at a time: short enough not to need a thread.
        let read = first.content.read(first.from, step);
        (first.from, first.len) = (first.from + step, first.len - step);
        if first.len == 0 {
            self.parts.pop_front();
        }
        Poll::Ready(Some(read.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_none() && self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
