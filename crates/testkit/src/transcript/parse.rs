//! The transcript format: what a file says, before anything runs.
//!
//! ```text
//! # A comment, kept.
//! $ kubectl create namespace blue
//! namespace/blue created
//!
//! $ kubectl apply -f - <<EOF
//! apiVersion: v1
//! kind: ConfigMap
//! metadata: {name: a}
//! EOF
//! configmap/a created
//!
//! $ kubectl get configmap nothing
//! Error from server (NotFound): configmaps "nothing" not found
//! ! exit 1
//!
//! $& events kubectl get configmaps --watch -o name
//! $wait events until configmap/a
//! configmap/a
//! $stop events
//! ```
//!
//! Output is everything up to the next `$`, `#` or blank line. Output that itself is blank or begins with one
//! of `$ # ! |` is written behind a `|`, so every output can be represented and read back.

/// One piece of a transcript. `raw` is what the file says, without the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A comment or a blank line.
    Text(String),
    /// `$ command`: run it, show what it says.
    Run { line: usize, raw: String, command: String },
    /// `$& NAME command`: start it and go on.
    Start { line: usize, raw: String, name: String, command: String },
    /// `$wait NAME until TEXT`: show what it says up to the first new line holding the text.
    Until { line: usize, raw: String, name: String, text: String },
    /// `$wait NAME exit`: show what it still says and how it ends.
    Exit { line: usize, raw: String, name: String },
    /// `$stop NAME`: end it, show nothing.
    Stop { line: usize, raw: String, name: String },
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SyntaxError {
    #[error("line {line}: output without a command above it: {text:?}")]
    Stray { line: usize, text: String },
    #[error(
        "line {line}: cannot read directive {text:?} (known: `$ CMD`, `$& NAME CMD`, `$wait NAME until TEXT`, `$wait NAME exit`, `$stop NAME`)"
    )]
    Directive { line: usize, text: String },
    #[error("line {line}: here-document is not closed by {end:?}")]
    HereDocument { line: usize, end: String },
    /// With `pipefail` the writer's broken pipe is the command's exit code, whenever the reader is quicker.
    #[error(
        "line {line}: `{reader}` may end before what it reads from, and then the answer is a race: write `sed -n 1,3p`, `cut`, `grep > /dev/null`"
    )]
    EarlyReader { line: usize, reader: &'static str },
}

/// Readers that leave a pipe early.
const EARLY: [&str; 3] = ["| head", "| grep -q", "| grep -m"];

pub(crate) fn parse(text: &str) -> Result<Vec<Item>, SyntaxError> {
    let mut items = Vec::new();
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
    let mut answering = false;
    while let Some((line, text)) = lines.next() {
        if text.trim().is_empty() || text.starts_with('#') {
            answering = false;
            items.push(Item::Text(text.trim_end().to_owned()));
        } else if text.starts_with('$') {
            answering = true;
            let mut raw = text.to_owned();
            while raw.ends_with('\\') {
                let Some((_, more)) = lines.next() else { break };
                raw.push('\n');
                raw.push_str(more);
            }
            for end in here_documents(&raw) {
                loop {
                    let Some((_, more)) = lines.next() else {
                        return Err(SyntaxError::HereDocument { line, end });
                    };
                    raw.push('\n');
                    raw.push_str(more);
                    if more.trim_start_matches('\t') == end {
                        break;
                    }
                }
            }
            if let Some(reader) = EARLY.into_iter().find(|r| raw.contains(r)) {
                return Err(SyntaxError::EarlyReader { line, reader });
            }
            items.push(directive(line, raw)?);
        } else if !answering {
            return Err(SyntaxError::Stray { line, text: text.to_owned() });
        }
    }
    Ok(items)
}

/// The words that close the here-documents a command opens, in order. `<<<` is not one.
fn here_documents(command: &str) -> Vec<String> {
    let mut ends = Vec::new();
    let mut rest = command;
    while let Some(at) = rest.find("<<") {
        rest = &rest[at + 2..];
        if let Some(string) = rest.strip_prefix('<') {
            rest = string;
            continue;
        }
        let word = rest.trim_start_matches('-').trim_start().trim_start_matches(['\'', '"']);
        let end: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if end.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            ends.push(end);
        }
    }
    ends
}

fn directive(line: usize, raw: String) -> Result<Item, SyntaxError> {
    let wrong = |raw: &str| SyntaxError::Directive { line, text: raw.to_owned() };
    if let Some(command) = raw.strip_prefix("$ ") {
        let command = command.to_owned();
        return Ok(Item::Run { line, raw, command });
    }
    let (word, rest) = raw.split_once(' ').ok_or_else(|| wrong(&raw))?;
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, rest) = (name.to_owned(), rest.to_owned());
    match (word, rest.split_once(' ')) {
        ("$&", _) if !rest.is_empty() => Ok(Item::Start { line, raw, name, command: rest }),
        ("$wait", Some(("until", text))) => {
            let text = text.to_owned();
            Ok(Item::Until { line, raw, name, text })
        }
        ("$wait", None) if rest == "exit" => Ok(Item::Exit { line, raw, name }),
        ("$stop", None) if rest.is_empty() => Ok(Item::Stop { line, raw, name }),
        _ => Err(wrong(&raw)),
    }
}

/// Output as the file writes it.
pub(crate) fn quote(output: &str) -> String {
    let mut quoted = String::with_capacity(output.len());
    for line in output.lines().map(str::trim_end) {
        match line.chars().next() {
            None => quoted.push('|'),
            Some('$' | '#' | '!' | '|') => quoted.push_str("| "),
            Some(_) => {}
        }
        quoted.push_str(line);
        quoted.push('\n');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn here_documents_belong_to_the_command_and_answers_do_not() {
        let items =
            parse("# why\n$ cat <<EOF\n$ not a command\n\nEOF\nsaid\n| # quoted\n\n$ a \\\n  b\n").unwrap();
        let commands: Vec<_> = items
            .iter()
            .filter_map(|i| {
                if let Item::Run { command, line, .. } = i { Some((*line, command.as_str())) } else { None }
            })
            .collect();
        assert_eq!(commands, [(2, "cat <<EOF\n$ not a command\n\nEOF"), (9, "a \\\n  b")]);
        assert_eq!(items.len(), 4);
    }

    #[test]
    fn here_strings_and_quoted_ends() {
        assert!(here_documents("cat <<< word").is_empty());
        assert_eq!(here_documents("cat <<'A' <<-\"B\""), ["A", "B"]);
        assert!(here_documents("echo $((1<<2))").is_empty());
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(parse("\nwhat\n"), Err(SyntaxError::Stray { line: 2, text: "what".into() }));
        assert_eq!(parse("$ cat <<X\na\n"), Err(SyntaxError::HereDocument { line: 1, end: "X".into() }));
        assert!(matches!(parse("$wait w for x\n"), Err(SyntaxError::Directive { line: 1, .. })));
        assert!(matches!(parse("$stop\n"), Err(SyntaxError::Directive { .. })));
        let racy = Err(SyntaxError::EarlyReader { line: 1, reader: "| head" });
        assert_eq!(parse("$ yes | head -1\ny\n"), racy);
    }

    #[test]
    fn any_output_can_be_written_and_read_back() {
        let quoted = quote("a\n\n# b\n$ c\n! exit 3\n| d\ne  \n");
        assert_eq!(quoted, "a\n|\n| # b\n| $ c\n| ! exit 3\n| | d\ne\n");
        let items = parse(&format!("$ x\n{quoted}")).unwrap();
        assert_eq!(items.len(), 1, "nothing of it was taken for a command");
    }
}
