//! `xtask golden`: all golden files and transcripts at once.

use crate::{run, setup};
use anyhow::Result;

pub(crate) fn run(update: bool) -> Result<()> {
    let clients = setup::run()?;
    let mut cargo = run::cargo();
    // Without --no-fail-fast the first crate that fails for another reason would leave the rest as they were.
    cargo.args(["test", "--workspace", "--no-fail-fast"]);
    if update {
        cargo.env("ZAFFRE_GOLDEN", "update");
    } else {
        cargo.env_remove("ZAFFRE_GOLDEN");
    }
    clients.tell(&mut cargo);
    run::visibly(cargo)?;
    if update {
        println!("golden files are what the code renders; read `git diff` before you commit them");
    }
    Ok(())
}
