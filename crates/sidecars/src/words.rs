//! A container's words, read by the definition that the command line has.

use clap::{Args, Command};

/// Why words are no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// Reads the words after `zaffre serve NAME`.
pub fn parse<A: Args>(name: &'static str, words: &[String]) -> Result<A, UsageError> {
    let command = A::augment_args(Command::new(name).no_binary_name(true).disable_help_flag(true));
    let matches = command.try_get_matches_from(words).map_err(|e| UsageError(one_line(&e.to_string())))?;
    A::from_arg_matches(&matches).map_err(|e| UsageError(one_line(&e.to_string())))
}

/// What is wrong, without the usage that clap writes below it: a log has lines.
fn one_line(text: &str) -> String {
    let said = text.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:"));
    said.filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ")
}
