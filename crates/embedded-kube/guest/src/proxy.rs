//! The PROXY protocol's second version: what stands before the bytes of a connection that somebody handed on.
//!
//! A header is sixteen bytes, addresses by the family that is named, and fields (type, length, value). It is read from
//! whatever has arrived, as often as more does; nothing is copied but the fields that are kept, and a header that is longer
//! than [`LONGEST`] is none, however patiently it is sent.

use crate::router::Unfinished;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What every header begins with.
pub const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The whole header. The largest addresses are those of UNIX sockets, 216 bytes; the rest is for fields.
pub const LONGEST: usize = 4096;
/// Fields of a header.
const FIELDS: usize = 64;

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Where the connection is said to come from; nothing if that is not said, or is no address of the internet.
    pub source: Option<SocketAddr>,
    /// Type and value.
    pub fields: Vec<(u8, Vec<u8>)>,
    /// Bytes that it took.
    pub length: usize,
}

impl Header {
    pub fn field(&self, kind: u8) -> Option<&[u8]> {
        self.fields.iter().find(|(k, _)| *k == kind).map(|(_, v)| v.as_slice())
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads a header: `Ok(None)` for what is none.
pub fn header(input: &[u8]) -> Result<Option<Header>, Unfinished> {
    let begun = input.len().min(SIGNATURE.len());
    if input[..begun] != SIGNATURE[..begun] {
        return Ok(None);
    }
    let Some([what, family, high, low]) = array::<4>(input, SIGNATURE.len()) else { return Err(Unfinished) };
    let (version, command) = (what >> 4, what & 15);
    let length = 16 + usize::from(u16::from_be_bytes([high, low]));
    if version != 2 || command > 1 || length > LONGEST {
        return Ok(None);
    }
    let Some(rest) = input.get(16..length) else { return Err(Unfinished) };
    Ok(body(command, family, rest).map(|(source, fields)| Header { source, fields, length }))
}

type Body = (Option<SocketAddr>, Vec<(u8, Vec<u8>)>);

fn body(command: u8, family: u8, rest: &[u8]) -> Option<Body> {
    // Of a connection that the sender made itself, addresses mean nothing.
    let local = command == 0;
    let (source, addresses) = match family >> 4 {
        0 => (None, 0),
        1 => {
            let (ip, port) = (array::<4>(rest, 0)?, array::<2>(rest, 8)?);
            (Some((IpAddr::from(Ipv4Addr::from(ip)), u16::from_be_bytes(port))), 12)
        }
        2 => {
            let (ip, port) = (array::<16>(rest, 0)?, array::<2>(rest, 32)?);
            (Some((IpAddr::from(Ipv6Addr::from(ip)), u16::from_be_bytes(port))), 36)
        }
        3 => (None, 216),
        _ => return None,
    };
    let source = source.filter(|_| !local).map(SocketAddr::from);
    let mut left = rest.get(addresses..)?;
    let mut fields = Vec::new();
    while let Some((kind, more)) = left.split_first() {
        let size = usize::from(u16::from_be_bytes(array::<2>(more, 0)?));
        let value = more.get(2..2 + size)?;
        if fields.len() == FIELDS {
            return None;
        }
        fields.push((*kind, value.to_vec()));
        left = more.get(2 + size..)?;
    }
    Some((source, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As a client writes it.
    fn written(source: SocketAddr, fields: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut rest = Vec::new();
        let family = match source.ip() {
            IpAddr::V4(ip) => {
                rest.extend(ip.octets());
                rest.extend([10, 0, 0, 1]);
                0x11
            }
            IpAddr::V6(ip) => {
                rest.extend(ip.octets());
                rest.extend(Ipv6Addr::LOCALHOST.octets());
                0x21
            }
        };
        rest.extend(source.port().to_be_bytes());
        rest.extend(6443_u16.to_be_bytes());
        for (kind, value) in fields {
            rest.push(*kind);
            rest.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
            rest.extend(value);
        }
        let mut out = SIGNATURE.to_vec();
        out.extend([0x21, family]);
        out.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        out.extend(rest);
        out
    }

    fn sources() -> impl Strategy<Value = SocketAddr> {
        let four = (any::<u32>(), any::<u16>()).prop_map(|(a, p)| (IpAddr::from(Ipv4Addr::from(a)), p));
        let six = (any::<u128>(), any::<u16>()).prop_map(|(a, p)| (IpAddr::from(Ipv6Addr::from(a)), p));
        prop_oneof![four, six].prop_map(SocketAddr::from)
    }

    proptest! {
        /// What was written is read, whatever follows; and of less than all nothing is made up.
        #[test]
        fn a_header_is_read_as_it_was_written(
            source in sources(),
            fields in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)), 0..8),
            after in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = written(source, &fields);
            let whole = [bytes.as_slice(), &after].concat();
            let read = header(&whole).unwrap().unwrap();
            prop_assert_eq!(read.source, Some(source));
            prop_assert_eq!(&read.fields, &fields);
            prop_assert_eq!(read.length, bytes.len());
            for n in 0..bytes.len() {
                prop_assert_eq!(header(&bytes[..n]), Err(Unfinished), "{} of {}", n, bytes.len());
            }
        }

        /// Nothing that anybody sends does more than be refused.
        #[test]
        fn anything_can_be_sent(
            sensible in any::<bool>(), tail in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = if sensible { [&SIGNATURE[..], &tail].concat() } else { tail };
            match header(&bytes) {
                Ok(Some(h)) => prop_assert!(h.length <= LONGEST && h.length <= bytes.len()),
                Ok(None) => {}
                Err(Unfinished) => prop_assert!(bytes.len() < LONGEST),
            }
        }
    }

    #[test]
    fn what_is_none() {
        let source = "192.0.2.7:4711".parse().unwrap();
        let good = written(source, &[(0x20, b"5d9b2b0e".to_vec())]);
        assert_eq!(header(&good).unwrap().unwrap().field(0x20), Some(&b"5d9b2b0e"[..]));
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            header(&bytes)
        };
        assert_eq!(with(12, 0x11), Ok(None), "the first version is another protocol");
        assert_eq!(with(12, 0x22), Ok(None), "there is no third command");
        assert_eq!(with(13, 0x41), Ok(None), "there is no fourth family");
        assert_eq!(with(14, 0xff), Ok(None), "longer than any that is meant");
        assert_eq!(with(30, 9), Ok(None), "a field that ends outside");
        assert_eq!(with(12, 0x20).unwrap().unwrap().source, None, "the sender's own");
        assert_eq!(header(b"GET / HTTP/1.1\r\n"), Ok(None));
        let many = vec![(1, Vec::new()); FIELDS + 1];
        assert_eq!(header(&written(source, &many)), Ok(None));
    }
}
