//! Who has memory in huge pages.
//!
//! A region is gigabytes of small objects that are read in no order. In pages of 4 KiB nearly each of them costs a walk of
//! the page tables, twice in a virtual machine: with 500 clusters the last took 1.75 times as long as the first, and
//! with huge pages 1.50 times, on one machine, one run each. A single server is idle in 15 MiB without them and in 27 MiB with them. The allocator asks
//! for them always; what stays small gives them up before it grows.
//!
//! Rejected: deciding by size while it runs. It would take somebody who looks from time to time, for servers that have
//! not been slow.

use crate::cli::Command;

/// Gives huge pages up unless this command runs a region. Not to be had is no harm: it is a little more memory.
pub fn choose(command: &Command) {
    if !matches!(command, Command::Up(_) | Command::Demo(_)) {
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}
