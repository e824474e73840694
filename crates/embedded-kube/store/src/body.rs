//! The bytes of an object, in less room while nobody changes it.
//!
//! Most objects of most clusters are written in the first seconds of their life and then only lie there. JSON with
//! managed fields is four parts repetition, so what has not been written for a while is packed (LZ4), wherever it is held:
//! in a table, in history, by a reader. Who wants the bytes gets them unpacked, a few microseconds later; what is read
//! often is read through views and watches, which begin with what is new.
//!
//! With it go the encodings of the event that told of it: who follows has sent them, who comes late makes its own.
//! Small objects stay as they are: leases and events, and whatever would gain a few hundred bytes.

use crate::table::{Entry, Event};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Objects of fewer bytes are not worth it.
const WORTH: usize = 1536;
/// Untouched for so long, an object is taken to be one that stays.
const COLD: Duration = Duration::from_secs(10);
/// So much of the beginning is kept as it is: enough to tell kind and version.
const HEAD: usize = 96;

#[derive(Debug)]
pub(crate) struct Body(RwLock<Form>);

#[derive(Debug)]
enum Form {
    Plain(Bytes),
    /// The first bytes, then the whole, packed, behind its length.
    Packed(Box<[u8]>),
}

impl Body {
    pub(crate) fn new(bytes: Bytes) -> Body {
        Body(RwLock::new(Form::Plain(bytes)))
    }

    pub(crate) fn bytes(&self) -> Bytes {
        match &*self.0.read() {
            Form::Plain(b) => b.clone(),
            // Only what was packed here is unpacked, so it is whole.
            Form::Packed(p) => {
                lz4_flex::block::decompress_size_prepended(&p[HEAD..]).map(Bytes::from).unwrap_or_default()
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &*self.0.read() {
            Form::Plain(b) => b.len(),
            Form::Packed(p) => lz4_flex::block::uncompressed_size(&p[HEAD..]).map_or(0, |(len, _)| len),
        }
    }

    pub(crate) fn starts_with(&self, head: &[u8]) -> bool {
        match &*self.0.read() {
            Form::Plain(b) => return b.starts_with(head),
            Form::Packed(p) if head.len() <= HEAD => return p.starts_with(head),
            Form::Packed(_) => {}
        }
        self.bytes().starts_with(head)
    }

    /// Packs what gains from it.
    pub(crate) fn pack(&self) {
        let plain = match &*self.0.read() {
            Form::Plain(b) if b.len() >= WORTH => b.clone(),
            _ => return,
        };
        let packed = lz4_flex::block::compress_prepend_size(&plain);
        let room = HEAD + packed.len();
        if room > plain.len() / 4 * 3 {
            return;
        }
        let mut form = Vec::with_capacity(room);
        form.extend_from_slice(&plain[..HEAD]);
        form.extend_from_slice(&packed);
        *self.0.write() = Form::Packed(form.into());
    }
}

/// What was written lately, the oldest first; one queue for the process, as memory is.
static COOLING: Mutex<Cooling> =
    Mutex::new(Cooling { waiting: VecDeque::new(), sweep_at: SWEEP, packing: false });

/// Fewer than this are not swept.
const SWEEP: usize = 1024;

struct Cooling {
    waiting: VecDeque<(Instant, Fresh)>,
    /// With so many, those that are gone are taken out: even their name takes room.
    sweep_at: usize,
    /// Whether there is a thread.
    packing: bool,
}

/// A state, and the event that told of it.
pub(crate) struct Fresh {
    entry: Weak<Entry>,
    event: Weak<Event>,
}

impl Fresh {
    pub(crate) fn told(event: &Arc<Event>) -> Fresh {
        Fresh { entry: Arc::downgrade(&event.entry), event: Arc::downgrade(event) }
    }

    /// One that was there when the store was opened.
    pub(crate) fn read(entry: &Arc<Entry>) -> Fresh {
        Fresh { entry: Arc::downgrade(entry), event: Weak::new() }
    }

    fn is_there(&self) -> bool {
        self.entry.strong_count() + self.event.strong_count() > 0
    }

    /// Whoever follows has long sent the event; its encodings are as large as the object.
    fn pack(&self) {
        if let Some(event) = self.event.upgrade() {
            event.forget_encodings();
        }
        if let Some(entry) = self.entry.upgrade() {
            entry.pack();
        }
    }
}

/// Has states packed when they are cold, if they are still there. The thread that does it is there while something waits.
pub(crate) fn cool(fresh: impl IntoIterator<Item = Fresh>) {
    let now = Instant::now();
    let mut cooling = COOLING.lock();
    cooling.waiting.extend(fresh.into_iter().map(|f| (now, f)));
    if cooling.waiting.len() >= cooling.sweep_at {
        cooling.waiting.retain(|(_, f)| f.is_there());
        cooling.sweep_at = (cooling.waiting.len() * 2).max(SWEEP);
    }
    if !cooling.packing && !cooling.waiting.is_empty() {
        let thread = std::thread::Builder::new().name("ek-store-packer".into()).spawn(pack_what_is_cold);
        cooling.packing = thread.is_ok();
    }
}

#[allow(clippy::disallowed_methods, reason = "age is what is waited for")]
fn pack_what_is_cold() {
    loop {
        std::thread::sleep(COLD / 2);
        let (cold, more): (Vec<Fresh>, bool) = {
            let mut cooling = COOLING.lock();
            let cold = cooling.waiting.iter().take_while(|(since, _)| since.elapsed() >= COLD).count();
            let cold = cooling.waiting.drain(..cold).map(|(_, f)| f).collect();
            cooling.waiting.shrink_to(1024);
            // Whoever comes after this starts another thread.
            cooling.packing = !cooling.waiting.is_empty();
            (cold, cooling.packing)
        };
        cold.iter().for_each(Fresh::pack);
        if !more {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(fields: usize) -> Bytes {
        let fields: String = (0..fields).map(|n| format!(",\"f:field{n}\":{{\"f:name\":{{}}}}")).collect();
        format!("{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"{fields}}}").into()
    }

    #[test]
    fn what_repeats_itself_takes_less_room_and_reads_the_same() {
        let plain = object(200);
        let body = Body::new(plain.clone());
        body.pack();
        let Form::Packed(packed) = &*body.0.read() else { panic!("it is packed") };
        assert!(packed.len() * 3 < plain.len(), "{} of {}", packed.len(), plain.len());
        assert_eq!((body.bytes(), body.len()), (plain.clone(), plain.len()));
    }

    #[test]
    fn what_is_small_or_does_not_repeat_itself_stays() {
        let small = Body::new(object(20));
        small.pack();
        assert!(matches!(&*small.0.read(), Form::Plain(_)));
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(4096)
        .collect();
        let noise = Body::new(noise.into());
        noise.pack();
        assert!(matches!(&*noise.0.read(), Form::Plain(_)));
    }

    proptest! {
        #[test]
        fn packed_or_not_is_nobodys_business(part in proptest::collection::vec(any::<u8>(), 1..64), times in 1usize..400) {
            let plain = Bytes::from(part.repeat(times));
            let (packed, other) = (Body::new(plain.clone()), Body::new(plain.clone()));
            packed.pack();
            prop_assert_eq!(packed.bytes(), other.bytes());
            prop_assert_eq!(packed.len(), other.len());
            for n in [0, 1, HEAD - 1, HEAD, HEAD + 1, plain.len()] {
                let head = &plain[..n.min(plain.len())];
                prop_assert!(packed.starts_with(head));
                prop_assert!(!packed.starts_with(&[head, b"\0other"].concat()) || other.starts_with(&[head, b"\0other"].concat()));
            }
        }
    }
}
