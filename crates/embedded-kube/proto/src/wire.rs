//! The wire format itself: tags, varints, lengths. Every read is checked against what is left.

use crate::Error;

/// One field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    pub(crate) fn wire_type(&self) -> u8 {
        match self {
            Value::Varint(_) => 0,
            Value::Fixed64(_) => 1,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        }
    }
}

/// The fields of one message, in order. Groups (wire types 3 and 4) are an error: Kubernetes never wrote any.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Reader { rest }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).map_err(|_| Error::Tag)?;
        if tag == 0 {
            return Err(Error::Tag);
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| Error::Truncated)?)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Error::Tag),
        };
        Ok(Some((tag, value)))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().enumerate().take(10) {
            // The tenth byte has room for one bit only.
            if i == 9 && *byte > 1 {
                return Err(Error::Varint);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { Error::Truncated } else { Error::Varint })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Error::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Truncated)
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::Utf8)
}

/// Writes a message from its end to its start, each byte pushed in reverse. A length stands before what it
/// measures, so writing backwards knows every length without a first pass and without moving anything.
#[derive(Default)]
pub(crate) struct Writer {
    reversed: Vec<u8>,
}

impl Writer {
    pub(crate) fn len(&self) -> usize {
        self.reversed.len()
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    pub(crate) fn varint(&mut self, mut v: u64) {
        let mut buf = [0u8; 10];
        let mut n = 0;
        while v >= 0x80 {
            buf[n] = (v as u8) | 0x80;
            v >>= 7;
            n += 1;
        }
        buf[n] = v as u8;
        self.raw(&buf[..=n]);
    }

    fn key(&mut self, tag: u32, wire: u8) {
        self.varint(u64::from(tag) << 3 | u64::from(wire));
    }

    pub(crate) fn varint_field(&mut self, tag: u32, v: u64) {
        self.varint(v);
        self.key(tag, 0);
    }

    pub(crate) fn double_field(&mut self, tag: u32, v: f64) {
        self.raw(&v.to_bits().to_le_bytes());
        self.key(tag, 1);
    }

    pub(crate) fn bytes_field(&mut self, tag: u32, v: &[u8]) {
        self.raw(v);
        self.close(tag, self.len() - v.len());
    }

    /// Ends (that is, begins) the message that has been written since the buffer had length `start`.
    pub(crate) fn close(&mut self, tag: u32, start: usize) {
        self.varint((self.len() - start) as u64);
        self.key(tag, 2);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.reversed.reverse();
        self.reversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut w = Writer::default();
        let start = w.len();
        w.varint_field(7, u64::MAX);
        w.bytes_field(1, b"abc");
        w.close(3, start);
        w.double_field(2, 1.5);
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        assert_eq!(r.next().unwrap(), Some((2, Value::Fixed64(1.5f64.to_bits()))));
        let Some((3, Value::Bytes(inner))) = r.next().unwrap() else { panic!() };
        let mut r2 = Reader::new(inner);
        assert_eq!(r2.next().unwrap(), Some((1, Value::Bytes(b"abc"))));
        assert_eq!(r2.next().unwrap(), Some((7, Value::Varint(u64::MAX))));
        assert!(r2.is_empty() && r.next().unwrap().is_none());
    }

    #[test]
    fn bad_lengths_and_numbers_are_errors() {
        for bad in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08",
            b"\x09\x00",
        ] {
            assert_eq!(Reader::new(bad).next(), Err(Error::Truncated), "{bad:?}");
        }
        assert_eq!(Reader::new(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f").next(), Err(Error::Varint));
        for bad in [&b"\x00\x00"[..], b"\x0b", b"\x0c", b"\x0f"] {
            assert_eq!(Reader::new(bad).next(), Err(Error::Tag), "{bad:?}");
        }
    }
}
