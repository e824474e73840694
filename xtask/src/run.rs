//! Running programs the way a chore does: say it, run it, explain a failure.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// The cargo that runs us, so that a toolchain override holds for everything below.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(testkit::tools::workspace_root());
    // What cargo told *us* about our own package would be a lie to the packages it builds next.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name.as_ref());
        }
    }
    command
}

/// A command as one would type it.
pub(crate) fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|a| a.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Prints and runs; failing is an error.
pub(crate) fn visibly(mut command: Command) -> Result<()> {
    let spelled = spelled(&command);
    println!("  $ {spelled}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{spelled}`"))?;
    if !status.success() {
        bail!("`{spelled}` failed ({status})");
    }
    Ok(())
}

/// Standard output of a command that must succeed.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let spelled = spelled(&command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{spelled}`"))?;
    if !output.status.success() {
        bail!("`{spelled}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{spelled}` did not print text"))
}

/// Whether a command exists and succeeds, seen by nobody.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
