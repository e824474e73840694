//! SPDY/3.1 as far as Kubernetes clients use it: streams with headers, opened by the client, data both ways.
//!
//! Headers arrive compressed with a dictionary all SPDY implementations share; ours leave stored, which every
//! decompressor accepts. Windows are not kept: neither does the library clients use.

use bytes::{BufMut, Bytes, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use std::collections::HashMap;
use std::io;
use std::sync::LazyLock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;

/// A client needs a handful of streams per connection it forwards; more than this is no client.
const MAX_STREAMS: usize = 1024;
const MAX_HEADERS: usize = 64 << 10;
/// Frames of clients are far smaller.
const MAX_FRAME: usize = 1 << 20;
const WINDOW: usize = 32 << 10;

/// What every header compressor starts with: names and values as they stand in header blocks, then text.
static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    const WORDS: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
        accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|\
        content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|expect|\
        expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|\
        location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|\
        trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|\
        version|HTTP/1.1|url|public|set-cookie|keep-alive|origin";
    const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
        Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 \
        Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May \
        Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,\
        image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=\
        gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
    let mut all = Vec::new();
    for w in WORDS.split('|') {
        all.extend(u32::try_from(w.len()).unwrap_or(0).to_be_bytes());
        all.extend(w.bytes());
    }
    all.extend(TEXT.bytes());
    all
});

/// Header blocks of one direction: one zlib stream for all of them.
struct Inflate {
    state: Box<DecompressorOxide>,
    /// The last 32 KiB, first of all the dictionary; written around and around.
    window: Vec<u8>,
    at: usize,
    begun: bool,
}

impl Inflate {
    fn new() -> Inflate {
        Inflate { state: Box::default(), window: vec![0; WINDOW], at: 0, begun: false }
    }

    fn block(&mut self, mut input: &[u8]) -> io::Result<Vec<u8>> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("header block: {why}"));
        if !self.begun {
            // The zlib header is ours to read: the decompressor knows no dictionaries.
            let [method, flags, rest @ ..] = input else { return Err(bad("too short")) };
            if method & 0x0f != 8 {
                return Err(bad("unknown compression"));
            }
            input = rest;
            if flags & 0x20 != 0 {
                input = input.get(4..).ok_or_else(|| bad("too short"))?;
                self.window[..DICTIONARY.len()].copy_from_slice(&DICTIONARY);
                self.at = DICTIONARY.len();
            }
            self.begun = true;
        }
        let mut out = Vec::new();
        loop {
            let flags = inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
            let (status, read, written) =
                decompress(&mut self.state, input, &mut self.window, self.at, flags);
            out.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW;
            input = &input[read..];
            if out.len() > MAX_HEADERS {
                return Err(bad("too large"));
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Ok(out),
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(bad("cannot be decompressed")),
            }
        }
    }
}

type Headers = HashMap<String, String>;

fn parse_headers(block: &[u8]) -> Option<Headers> {
    fn number(b: &mut &[u8]) -> Option<usize> {
        let (head, tail) = b.split_at_checked(4)?;
        *b = tail;
        usize::try_from(u32::from_be_bytes(head.try_into().ok()?)).ok()
    }
    fn text(b: &mut &[u8]) -> Option<String> {
        let n = number(b)?;
        let (head, tail) = b.split_at_checked(n)?;
        *b = tail;
        Some(String::from_utf8_lossy(head).into_owned())
    }
    let mut rest = block;
    let n = number(&mut rest)?;
    let mut all = Headers::new();
    for _ in 0..n {
        let (k, v) = (text(&mut rest)?, text(&mut rest)?);
        all.insert(k.to_ascii_lowercase(), v);
    }
    Some(all)
}

enum Out {
    Reply(u32),
    Data { stream: u32, data: Bytes, fin: bool },
    Pong(Bytes),
}

/// A stream the client opened.
pub(super) struct Stream {
    pub headers: Headers,
    /// What the client sends; ends with it.
    pub data: mpsc::Receiver<Bytes>,
    pub writer: Writer,
}

/// The other half.
#[derive(Clone)]
pub(super) struct Writer {
    stream: u32,
    out: mpsc::Sender<Out>,
}

impl Writer {
    /// Whether the client is still there.
    pub(super) async fn send(&self, data: Bytes) -> bool {
        self.out.send(Out::Data { stream: self.stream, data, fin: false }).await.is_ok()
    }

    pub(super) async fn finish(&self) {
        let _ = self.out.send(Out::Data { stream: self.stream, data: Bytes::new(), fin: true }).await;
    }
}

impl Stream {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// Serves a connection; `opened` hears of each stream. Returns when the client leaves.
pub(super) async fn serve<I>(io: I, mut opened: impl FnMut(Stream) + Send) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (reader, writer) = tokio::io::split(io);
    let (out, frames) = mpsc::channel(64);
    tokio::select! {
        r = read(reader, &out, &mut opened) => r,
        w = write(writer, frames) => w,
    }
}

async fn write<W: AsyncWrite + Unpin>(mut w: W, mut frames: mpsc::Receiver<Out>) -> io::Result<()> {
    let mut begun = false;
    while let Some(frame) = frames.recv().await {
        let mut b = BytesMut::new();
        match frame {
            Out::Reply(stream) => {
                // No headers: their number, in a stored block of the one zlib stream. The empty block behind it is
                // what makes decompressors hand out what they have.
                let mut block: Vec<u8> = if begun { Vec::new() } else { vec![0x78, 0x01] };
                begun = true;
                block.extend([0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
                block.extend([0, 0, 0, 0xff, 0xff]);
                b.put_u16(0x8003);
                b.put_u16(SYN_REPLY);
                b.put_u32(u32::try_from(block.len() + 4).unwrap_or(0));
                b.put_u32(stream);
                b.extend_from_slice(&block);
            }
            Out::Data { stream, data, fin } => {
                b.put_u32(stream);
                b.put_u32(
                    (u32::from(if fin { FIN } else { 0 }) << 24)
                        | (u32::try_from(data.len()).unwrap_or(0) & 0xff_ffff),
                );
                b.extend_from_slice(&data);
            }
            Out::Pong(id) => {
                b.put_u16(0x8003);
                b.put_u16(PING);
                b.put_u32(4);
                b.extend_from_slice(&id);
            }
        }
        w.write_all(&b).await?;
        w.flush().await?;
    }
    w.shutdown().await
}

async fn read<R: AsyncRead + Unpin>(
    mut r: R,
    out: &mpsc::Sender<Out>,
    opened: &mut (impl FnMut(Stream) + Send),
) -> io::Result<()> {
    let mut inflate = Inflate::new();
    let mut streams: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    let mut head = [0u8; 8];
    loop {
        match r.read_exact(&mut head).await {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        }
        let [a, b, c, d, flags, l1, l2, l3] = head;
        let length = usize::from(l1) << 16 | usize::from(l2) << 8 | usize::from(l3);
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too large"));
        }
        let mut body = vec![0; length];
        r.read_exact(&mut body).await?;
        let id_at = |at: usize| body.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        if a & 0x80 == 0 {
            let id = u32::from_be_bytes([a, b, c, d]);
            if let Some(s) = streams.get(&id)
                && !body.is_empty()
            {
                // A stream nobody reads any more loses what comes; the others go on.
                let _ = s.send(body.into()).await;
            }
            if flags & FIN != 0 {
                streams.remove(&id);
            }
            continue;
        }
        match u16::from_be_bytes([c, d]) {
            SYN_STREAM => {
                let short = || io::Error::new(io::ErrorKind::InvalidData, "a stream without an id");
                let id = id_at(0).ok_or_else(short)? & 0x7fff_ffff;
                let block = inflate.block(body.get(10..).unwrap_or_default())?;
                let headers = parse_headers(&block).ok_or_else(short)?;
                streams.retain(|_, s| !s.is_closed());
                if streams.len() >= MAX_STREAMS {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "too many streams"));
                }
                let (to, data) = mpsc::channel(16);
                if flags & FIN == 0 {
                    streams.insert(id, to);
                }
                let _ = out.send(Out::Reply(id)).await;
                opened(Stream { headers, data, writer: Writer { stream: id, out: out.clone() } });
            }
            RST_STREAM => {
                if let Some(id) = id_at(0) {
                    streams.remove(&id);
                }
            }
            // Those of the client are odd; an even one would be an answer to ours.
            PING if body.last().is_some_and(|b| b & 1 == 1) => _ = out.send(Out::Pong(body.into())).await,
            GOAWAY => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_one_everybody_has() {
        let (mut a, mut b) = (1u32, 0u32);
        for x in DICTIONARY.iter() {
            a = (a + u32::from(*x)) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!((DICTIONARY.len(), b << 16 | a), (1423, 0xe3c6_a7c2));
    }

    #[test]
    fn headers_compressed_elsewhere() {
        // Python: zlib.compressobj(zdict=dictionary), then Z_SYNC_FLUSH after each of two header blocks.
        let blocks = [
            "78bbe3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff",
            "c2aa19540e2512d60b000000ffff",
        ];
        let mut inflate = Inflate::new();
        for (i, hex) in blocks.iter().enumerate() {
            let bytes: Vec<u8> =
                (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
            let headers = parse_headers(&inflate.block(&bytes).unwrap()).unwrap();
            assert_eq!(headers["streamtype"], ["error", "data"][i]);
            assert_eq!(headers["port"], "8080");
            assert_eq!(headers["requestid"], "0");
        }
        assert!(Inflate::new().block(&[0x78]).is_err());
        assert!(Inflate::new().block(&[0x78, 0x9c, 0xff, 0xff, 0xff]).is_err());
    }
}
