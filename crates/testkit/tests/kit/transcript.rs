use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::transcript::{DirError, Error, check_dir, run_dir};
use testkit::{Mode, Transcript};

fn file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("case.txt");
    fs::write(&path, text).unwrap();
    path
}

/// Plays the text in check mode and gives the error's words, or nothing.
fn complaint(text: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), text);
    let result = Transcript::new(&path).mode(Mode::Check).deadline(Duration::from_secs(5)).execute();
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "checking writes nothing");
    result.err().map(|e| match std::error::Error::source(&e) {
        Some(cause) => format!("{e}: {cause}"),
        None => e.to_string(),
    })
}

/// The committed examples: they show the format, and they hold.
#[test]
fn the_examples_hold() {
    let played =
        check_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts"), |transcript, scratch| {
            fs::write(scratch.join("given.txt"), "from the set-up\n")?;
            transcript.env("GREETING", "hello").execute()?;
            Ok(())
        });
    assert!(played >= 2);
}

#[test]
fn what_is_right_passes_and_what_is_wrong_does_not() {
    assert_eq!(complaint("$ echo a; echo b >&2; echo c\na\nb\nc\n"), None);
    let wrong = complaint("$ echo a\nb\n").unwrap();
    assert!(wrong.contains("-b\n+a\n") && wrong.contains("ZAFFRE_GOLDEN=update"), "{wrong}");
    assert!(complaint("$ echo a\n").unwrap().contains("+a"), "missing output is a difference");
    assert!(complaint("$ true\nghost\n").unwrap().contains("-ghost"));
}

#[test]
fn exit_codes_are_part_of_the_answer() {
    assert_eq!(complaint("$ false\n! exit 1\n"), None);
    assert_eq!(complaint("$ echo no; exit 3\nno\n! exit 3\n"), None);
    assert!(complaint("$ false\n").unwrap().contains("+! exit 1"));
    assert!(complaint("$ true\n! exit 1\n").unwrap().contains("-! exit 1"));
    assert!(complaint("$ false | cat\n").unwrap().contains("+! exit 1"), "pipefail");
    assert_eq!(complaint("$ kill -9 $$\n! signal 9\n"), None);
}

#[test]
fn update_answers_bare_commands_and_keeps_the_prose() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(
        dir.path(),
        "# Why we do this.\n\n$ cat <<EOF\n# not prose\n\n$ nor a command\nEOF\nold answer\n\n$ echo done; exit 2\n",
    );
    let play = |mode| Transcript::new(&path).mode(mode).execute();
    assert!(play(Mode::Check).is_err());
    play(Mode::Update).unwrap();
    let want = "# Why we do this.\n\n$ cat <<EOF\n# not prose\n\n$ nor a command\nEOF\n| # not prose\n|\n| $ nor a command\n\n$ echo done; exit 2\ndone\n! exit 2\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), want);
    play(Mode::Check).expect("what update wrote, check accepts");
}

#[test]
fn answers_are_normalised_with_one_memory() {
    let text = "$ echo uid: 0f3a6f2e-89a1-4c55-9a5e-0123456789ab at 2026-01-02T03:04:05Z; pwd\nuid: <uid-1> at <time>\n<cwd>\n\n$ echo 1f3a6f2e-89a1-4c55-9a5e-0123456789ab 0f3a6f2e-89a1-4c55-9a5e-0123456789ab\n<uid-2> <uid-1>\n";
    assert_eq!(complaint(text), None);
}

#[test]
fn a_command_that_hangs_is_ended_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let text = "$ echo begun; tail -f /dev/null & echo $! > child; wait\n";
    let path = file(dir.path(), text);
    let before = Instant::now();
    let result = Transcript::new(&path)
        .cwd(dir.path())
        .mode(Mode::Update)
        .deadline(Duration::from_millis(1500))
        .execute();
    assert!(before.elapsed() < Duration::from_secs(10));
    let Err(Error::Timeout { said, line: 1, .. }) = result else { panic!("{result:?}") };
    assert_eq!(said, "begun\n");
    assert_gone(dir.path().join("child"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "a timeout is never recorded");
}

#[test]
fn what_a_command_leaves_behind_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "$ tail -f /dev/null & echo $! > child; echo done\ndone\n");
    let before = Instant::now();
    Transcript::new(&path).cwd(dir.path()).mode(Mode::Check).execute().unwrap();
    assert!(before.elapsed() < Duration::from_secs(10), "it must not wait for the leftover's output");
    assert_gone(dir.path().join("child"));
}

/// The process of a pid file has ended: gone, or a zombie its new parent has not looked at yet.
fn assert_gone(pid_file: PathBuf) {
    let pid = fs::read_to_string(pid_file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    assert!(state.is_empty() || state.starts_with('Z') || state.starts_with('X'), "still there: {stat}");
}

#[test]
fn background_commands_are_waited_for_by_what_they_say() {
    // The pipe makes the order certain: the watcher speaks only when told to.
    let text = "$ mkfifo p\n$& w while read -r l; do echo saw $l; done < <(exec tail -f p)\n$ echo one > p; echo two > p; echo three > p\n$wait w until two\nsaw one\nsaw two\n$wait w until three\nsaw three\n$stop w\n";
    assert_eq!(complaint(text), None);
    let exit = "$& w echo last words; exit 4\n$wait w exit\nlast words\n! exit 4\n";
    assert_eq!(complaint(exit), None);
}

#[test]
fn waits_that_cannot_succeed_say_what_was_seen() {
    let ended = complaint("$& w echo something else\n$wait w until never\n").unwrap();
    assert!(
        ended.contains(":2: w did not say \"never\" before it ended") && ended.contains("something else"),
        "{ended}"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "$& w echo half; exec tail -f /dev/null\n$wait w until never\n");
    let result = Transcript::new(&path).mode(Mode::Check).deadline(Duration::from_millis(1500)).execute();
    assert!(
        matches!(&result, Err(Error::Unsaid { said, how, .. }) if said == "half\n" && how.contains("within")),
        "{result:?}"
    );
    assert!(
        complaint("$wait nobody exit\n").unwrap().contains("nothing is running under the name \"nobody\"")
    );
    assert!(complaint("$& a cat\n$& a cat\n").unwrap().contains("already running"));
}

#[test]
fn a_program_means_what_the_test_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "$ kubectl these words\nthese words\n");
    Transcript::new(&path).mode(Mode::Check).program("kubectl", "/bin/echo").execute().unwrap();
}

#[test]
fn a_directory_reports_every_failure_and_never_passes_empty() {
    let dir = tempfile::tempdir().unwrap();
    let play = |t: Transcript, _: &Path| Ok(t.mode(Mode::Check).execute()?);
    assert!(matches!(run_dir(dir.path(), play), Err(DirError::Empty { .. })));
    for (name, text) in
        [("a.txt", "$ echo 1\n2\n"), ("b.txt", "$ true\n"), ("c.txt", "stray\n"), ("d.md", "no")]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let report = run_dir(dir.path(), play).unwrap_err().to_string();
    assert!(report.contains("2 of 3 transcripts failed"), "{report}");
    assert!(report.contains("-2\n+1") && report.contains("line 1: output without a command"), "{report}");
}
