//! Where programs listen: ports of the loopback interface, at addresses that take turns.
//!
//! Hundreds of control planes have more than ten thousand listeners. Who asks the kernel for a free port of *one* address
//! has it look through all that are taken there, and of these it gives away only every second; a process with 15,000 of
//! them spent more on that than on starting the programs. Each address has ports of its own, so the first look finds one.
//! Systems that have the one address only (macOS) find it there, as slowly as before.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::net::TcpListener;

/// A free port at the next address.
pub(crate) async fn listen() -> io::Result<TcpListener> {
    // Part of 127.0.0.0/8, which is this machine alone.
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed);
    match TcpListener::bind((Ipv4Addr::new(127, 65, 75, turn), 0)).await {
        Ok(bound) => Ok(bound),
        Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::collections::HashSet;

    #[tokio::test]
    async fn listeners_are_reached_and_no_two_are_at_the_same_place() {
        let mut all = Vec::new();
        for _ in 0..600 {
            all.push(listen().await.unwrap());
        }
        let places: HashSet<_> = all.iter().map(|l| l.local_addr().unwrap()).collect();
        assert_eq!(places.len(), all.len(), "more listeners than addresses");
        assert!(places.iter().all(|at| at.ip().is_loopback()));
        let last = all.last().unwrap();
        let (there, here) =
            tokio::join!(tokio::net::TcpStream::connect(last.local_addr().unwrap()), last.accept());
        assert_eq!(there.unwrap().local_addr().unwrap(), here.unwrap().1);
    }
}
