//! Completions for shells, and the manual: both are made from the command line as it is.

use crate::Status;
use crate::args::{Args, Completions, Man};
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::io::{self, Write};

/// Prints the completions of commands and flags for a shell.
pub(super) fn completions(shell: &Completions) -> Result<Status> {
    // Written to memory first: a pipe that closes early is no panic then.
    let mut script = Vec::new();
    clap_complete::generate(shell.shell, &mut Args::command(), "nandex", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Status::Done)
}

/// Writes the pages of the manual to a folder.
pub(super) fn pages(man: &Man) -> Result<Status> {
    clap_mangen::generate_to(Args::command(), &man.folder)
        .with_context(|| format!("the manual into {}", man.folder.display()))?;
    Ok(Status::Done)
}
