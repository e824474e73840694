//! The few commands that every container answers, so that a look into one is possible.

use crate::program::{ExecOutput, Program, ProgramContext};
use std::path::PathBuf;
use std::sync::Arc;

/// No file that is shown is larger.
const MAX_SHOWN: u64 = 1 << 20;

/// Asks the program first, then the built-in commands.
pub(crate) async fn run(
    program: Option<&Arc<dyn Program>>,
    ctx: Option<&ProgramContext>,
    words: Vec<String>,
    stdin: Vec<u8>,
) -> ExecOutput {
    if let (Some(p), Some(ctx)) = (program, ctx)
        && let Some(out) = p.exec(ctx.clone(), words.clone(), stdin.clone()).await
    {
        return out;
    }
    let ctx = ctx.cloned();
    // Files are read by the thread that may wait for them.
    match tokio::task::spawn_blocking(move || builtin(ctx.as_ref(), &words, &stdin, 0)).await {
        Ok(out) => out,
        Err(_) => failure(126, "the command panicked"),
    }
}

/// Whether a command waits for all of its input; the others would wait for it in vain.
pub(crate) fn reads_input(words: &[String]) -> bool {
    let name = words.first().map(|w| w.rsplit('/').next().unwrap_or_default()).unwrap_or_default();
    words.len() == 1 && name == "cat"
}

fn failure(code: i32, text: &str) -> ExecOutput {
    ExecOutput { stderr: format!("{text}\n").into_bytes(), code, ..ExecOutput::default() }
}

fn shown(text: impl Into<Vec<u8>>) -> ExecOutput {
    ExecOutput { stdout: text.into(), ..ExecOutput::default() }
}

fn builtin(ctx: Option<&ProgramContext>, words: &[String], stdin: &[u8], depth: u32) -> ExecOutput {
    let Some((name, args)) = words.split_first() else { return failure(126, "no command") };
    let name = name.rsplit('/').next().unwrap_or_default();
    match name {
        "true" | ":" => shown(""),
        "false" => ExecOutput { code: 1, ..ExecOutput::default() },
        "echo" => echo(args),
        "pwd" => shown("/\n"),
        "hostname" => shown(format!("{}\n", ctx.map(|c| c.pod()).unwrap_or_default())),
        "env" | "printenv" => env(ctx, args),
        "cat" if args.is_empty() => shown(stdin),
        "cat" => cat(ctx, args),
        "ls" => ls(ctx, args),
        "test" => test(ctx, args),
        "sh" | "bash" if depth < 4 => match args {
            [flag, script, ..] if flag == "-c" => shell(ctx, script, stdin, depth),
            _ => failure(2, "sh: only `sh -c SCRIPT` is known here"),
        },
        "exit" => {
            let code = args.first().and_then(|a| a.parse().ok()).unwrap_or(0);
            ExecOutput { code, ..ExecOutput::default() }
        }
        other => failure(
            127,
            &format!(
                "{other}: not found (a container here knows echo, cat, ls, test, env, hostname, pwd, true, false and sh -c of those)"
            ),
        ),
    }
}

fn echo(args: &[String]) -> ExecOutput {
    match args.split_first() {
        Some((flag, rest)) if flag == "-n" => shown(rest.join(" ")),
        _ => shown(format!("{}\n", args.join(" "))),
    }
}

fn env(ctx: Option<&ProgramContext>, args: &[String]) -> ExecOutput {
    let Some(ctx) = ctx else { return shown("") };
    match args.first() {
        None => shown(ctx.env().iter().map(|(k, v)| format!("{k}={v}\n")).collect::<String>()),
        Some(name) => match ctx.env().get(name) {
            Some(v) => shown(format!("{v}\n")),
            None => ExecOutput { code: 1, ..ExecOutput::default() },
        },
    }
}

fn place(ctx: Option<&ProgramContext>, path: &str) -> Option<PathBuf> {
    ctx?.path(path)
}

fn cat(ctx: Option<&ProgramContext>, args: &[String]) -> ExecOutput {
    let mut out = ExecOutput::default();
    for path in args {
        let read = place(ctx, path).and_then(|p| {
            let size = std::fs::metadata(&p).ok()?.len();
            (size <= MAX_SHOWN).then(|| std::fs::read(p).ok())?
        });
        match read {
            Some(bytes) => out.stdout.extend(bytes),
            None => {
                out.stderr.extend(format!("cat: {path}: No such file or directory\n").bytes());
                out.code = 1;
            }
        }
    }
    out
}

fn ls(ctx: Option<&ProgramContext>, args: &[String]) -> ExecOutput {
    let mut out = ExecOutput::default();
    let mut paths: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with('-')).collect();
    if paths.is_empty() {
        paths.push("/");
    }
    for path in paths {
        let mut names: Vec<String> = match place(ctx, path) {
            Some(p) if p.is_file() => vec![path.to_owned()],
            Some(p) => match std::fs::read_dir(p) {
                Ok(entries) => {
                    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
                }
                Err(_) => {
                    out.stderr.extend(format!("ls: {path}: No such file or directory\n").bytes());
                    out.code = 1;
                    continue;
                }
            },
            // Above all mounts there is nothing but the way to them.
            None => {
                let above = format!("{}/", path.trim_end_matches('/'));
                let below = ctx.into_iter().flat_map(|c| c.mounts()).filter_map(|m| m.strip_prefix(&above));
                below.filter_map(|m| m.split('/').next()).map(str::to_owned).collect()
            }
        };
        names.retain(|n| !n.starts_with('.'));
        names.sort();
        names.dedup();
        out.stdout.extend(names.iter().flat_map(|n| [n.as_bytes(), b"\n"].concat()));
    }
    out
}

/// `test -f FILE` and its kin, which probes use.
fn test(ctx: Option<&ProgramContext>, args: &[String]) -> ExecOutput {
    let (flag, path) = match args {
        [flag, path] => (flag.as_str(), path),
        _ => return failure(2, "test: only -e, -f, -d and -s of one path are known here"),
    };
    let meta = place(ctx, path).and_then(|p| std::fs::metadata(p).ok());
    let yes = match (flag, &meta) {
        ("-e" | "-f" | "-d" | "-s", None) => false,
        ("-e", Some(_)) => true,
        ("-f", Some(m)) => m.is_file(),
        ("-d", Some(m)) => m.is_dir(),
        ("-s", Some(m)) => m.len() > 0,
        _ => return failure(2, "test: only -e, -f, -d and -s of one path are known here"),
    };
    ExecOutput { code: i32::from(!yes), ..ExecOutput::default() }
}

/// Commands joined by `;`, newlines, `&&` and `||`; words in quotes; `$NAME`. No more of a shell than that.
fn shell(ctx: Option<&ProgramContext>, script: &str, stdin: &[u8], depth: u32) -> ExecOutput {
    let mut out = ExecOutput::default();
    let mut skip = false;
    for (words, joint) in parse(ctx, script) {
        if !skip && !words.is_empty() {
            let one = builtin(ctx, &words, stdin, depth + 1);
            out.stdout.extend(one.stdout);
            out.stderr.extend(one.stderr);
            out.code = one.code;
            if words[0] == "exit" {
                return out;
            }
        }
        skip = match joint {
            "&&" => out.code != 0,
            "||" => out.code == 0,
            _ => false,
        };
    }
    out
}

fn parse(ctx: Option<&ProgramContext>, script: &str) -> Vec<(Vec<String>, &'static str)> {
    let mut all = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = script.chars().peekable();
    let variable = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let braces = chars.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if braces {
            chars.next_if_eq(&'}');
        }
        ctx.and_then(|c| c.env().get(&name)).cloned().unwrap_or_default()
    };
    while let Some(c) = chars.next() {
        let joint = match c {
            ';' | '\n' => Some(";"),
            '&' if chars.next_if_eq(&'&').is_some() => Some("&&"),
            '|' if chars.next_if_eq(&'|').is_some() => Some("||"),
            _ => None,
        };
        if let Some(j) = joint {
            words.extend(word.take());
            all.push((std::mem::take(&mut words), j));
            continue;
        }
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let w = word.get_or_insert_default();
                w.extend(chars.by_ref().take_while(|c| *c != '\''));
            }
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '$' => text.push_str(&variable(&mut chars)),
                        '\\' => text.extend(chars.next()),
                        c => text.push(c),
                    }
                }
                word.get_or_insert_default().push_str(&text);
            }
            '$' => {
                let value = variable(&mut chars);
                word.get_or_insert_default().push_str(&value);
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push((words, ";"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> (String, i32) {
        let out = builtin(None, &["sh".into(), "-c".into(), script.into()], b"in", 0);
        (String::from_utf8(out.stdout).unwrap(), out.code)
    }

    #[test]
    fn a_very_small_shell() {
        assert_eq!(sh("echo a 'b  c' \"d\""), ("a b  c d\n".into(), 0));
        assert_eq!(sh("false && echo no || echo yes; true"), ("yes\n".into(), 0));
        assert_eq!(sh("echo a; exit 3; echo b"), ("a\n".into(), 3));
        assert_eq!(sh("cat"), ("in".into(), 0));
        assert_eq!(sh("rm -rf /").1, 127);
        assert_eq!(sh("cat /etc/passwd").1, 1);
        assert_eq!(sh("test -f /etc/passwd").1, 1, "paths under no mount do not exist");
        assert_eq!(sh("test -x /a").1, 2);
    }
}
