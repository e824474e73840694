//! An HTTP proxy that knows one method, CONNECT, and a few hosts. It never dials out: a tunnel to a name of
//! Azure's ends here, in our own TLS; anything else is refused.

use crate::edge::authority::{Service, serves};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_HEAD: usize = 16 << 10;

/// The host of a CONNECT request's head, if it may be had.
pub fn parse(head: &[u8]) -> Result<String, u16> {
    let text = std::str::from_utf8(head).map_err(|_| 400_u16)?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let parts: Vec<&str> = line.split(' ').collect();
    let ["CONNECT", target, "HTTP/1.1" | "HTTP/1.0"] = parts.as_slice() else {
        return Err(if line.starts_with("CONNECT ") { 400 } else { 405 });
    };
    let (host, port) = target.rsplit_once(':').ok_or(400_u16)?;
    let port: u16 = port.parse().map_err(|_| 400_u16)?;
    // A body, or a second idea of its length, has no business before a tunnel.
    let smuggles = lines.any(|l| {
        let name = l.split(':').next().unwrap_or_default();
        let length =
            name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding");
        length || name.contains([' ', '\t', '\n', '\r', '\0'])
    });
    if smuggles {
        return Err(400);
    }
    match serves(host) {
        Some(Service::ByPath) | None => Err(403),
        Some(_) if port != 443 => Err(403),
        Some(_) => Ok(host.to_owned()),
    }
}

/// Reads the head and answers it. `true`: a TLS handshake follows.
pub async fn accept(tcp: &mut TcpStream) -> std::io::Result<bool> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD {
            tcp.write_all(b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
            return Ok(false);
        }
        // Byte by byte, so that nothing of the handshake after it is swallowed.
        head.push(tcp.read_u8().await?);
    }
    match parse(&head[..head.len() - 4]) {
        Ok(_) => {
            tcp.write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n").await?;
            Ok(true)
        }
        Err(status) => {
            let answer =
                format!("HTTP/1.1 {status} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            tcp.write_all(answer.as_bytes()).await?;
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn leads_only_to_azure() {
        let cases: [(&str, Result<&str, u16>); 9] = [
            ("CONNECT management.azure.com:443 HTTP/1.1\r\nHost: x", Ok("management.azure.com")),
            ("CONNECT LOGIN.microsoftonline.com:443 HTTP/1.1", Ok("LOGIN.microsoftonline.com")),
            ("CONNECT example.com:443 HTTP/1.1", Err(403)),
            ("CONNECT localhost:443 HTTP/1.1", Err(403)),
            ("CONNECT management.azure.com:22 HTTP/1.1", Err(403)),
            ("CONNECT management.azure.com HTTP/1.1", Err(400)),
            ("GET http://management.azure.com/ HTTP/1.1", Err(405)),
            ("CONNECT management.azure.com:443 HTTP/1.1\r\nContent-Length: 5", Err(400)),
            ("CONNECT management.azure.com:443 HTTP/1.1\r\nTransfer-Encoding : chunked", Err(400)),
        ];
        for (head, want) in cases {
            assert_eq!(parse(head.as_bytes()), want.map(str::to_owned), "{head}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(b in proptest::collection::vec(any::<u8>(), 0..200), host in "[a-z.:]{0,30}") {
            let _ = parse(&b);
            let _ = parse(format!("CONNECT {host} HTTP/1.1").as_bytes());
        }
    }
}
