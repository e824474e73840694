//! `reencode FROM TO`: rewrites fixtures with our own encoding, for `protofixtures verify` to judge, and prints
//! how fast both directions are.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (from, to) = (&args[1], &args[2]);
    std::fs::create_dir_all(to).unwrap();
    let (mut reading, mut writing, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let mut out = String::new();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            let proto = STANDARD.decode(cells[2]).unwrap();
            let start = Instant::now();
            let value = ek_proto::decode(&proto).unwrap();
            reading += start.elapsed();
            let start = Instant::now();
            let encoded = ek_proto::encode(&value).unwrap();
            writing += start.elapsed();
            bytes += proto.len();
            let text = STANDARD.encode(encoded);
            out.push_str(&format!("{}\t{}\t{text}\t{}\n", cells[0], cells[1], cells[3]));
        }
        std::fs::write(format!("{to}/{}", path.file_name().unwrap().display()), out).unwrap();
    }
    println!("{bytes} bytes: decode {reading:?}, encode {writing:?}");
}
