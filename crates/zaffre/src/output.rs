//! What people and scripts read: results on standard output, everything else on standard error.

use crate::cli::Format;
use crate::cli::prereqs::Shown;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use tracing_subscriber::EnvFilter;

pub fn logging(verbose: u8) {
    let level = match verbose {
        // Probers of a world ask whether an API answers, not who it is; each such client would be told of.
        0 => "warn,kube_client::client::tls=error",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("ZAFFRE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// The error and what led to it, innermost last.
pub fn error(e: &anyhow::Error) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: {e}");
    for cause in e.chain().skip(1) {
        let _ = writeln!(err, "  because: {cause}");
    }
}

/// One line on standard error: progress and what went wrong.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// One line on standard output; a closed pipe is the reader's choice, not an error.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// The same, for those who want to know whether anybody reads.
pub fn try_line(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

pub fn value(format: Format, v: &Value) -> anyhow::Result<()> {
    match format {
        Format::Json => line(&serde_json::to_string_pretty(v)?),
        Format::Text | Format::Yaml => line(serde_saphyr::to_string(v)?.trim_end()),
    }
    Ok(())
}

/// What a command made, for programs; people have read it as it went on.
pub fn result(format: Format, v: &Value) -> anyhow::Result<()> {
    if format == Format::Text { Ok(()) } else { value(format, v) }
}

/// One event of a run, for programs: a line of JSON, or a document of YAML.
pub fn event(format: Shown, v: &Value) {
    match (format, serde_saphyr::to_string(v)) {
        (Shown::Yaml, Ok(text)) => line(&format!("---\n{}", text.trim_end())),
        _ => line(&v.to_string()),
    }
}

/// Rows below their headings.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    for text in columns(head, rows) {
        line(&text);
    }
}

/// Lines of a table: each column as wide as its widest cell; the last is not padded.
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let joined = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| joined(&mut row.iter().map(String::as_str)));
    std::iter::once(joined(&mut head.iter().copied())).chain(body).collect()
}
