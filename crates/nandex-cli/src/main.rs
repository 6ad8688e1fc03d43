//! The `nandex` program.
//!
//! `args` and the other argument modules turn the command line into plain data. `commands` executes it with
//! the lab. `output` and `progress` write to files and the terminal. Results go to stdout, everything else to
//! stderr. Exit codes: see [`args::AFTER_HELP`].

mod advise_args;
mod args;
mod commands;
mod device_args;
mod forecast_args;
mod look_args;
mod output;
mod parquet;
mod parse;
mod progress;
mod torture_args;
mod trace_args;

use clap::Parser;
use nandex_lab::LabError;
use nandex_lab::names::UnknownName;
use std::io::{self, Write};
use std::process::ExitCode;

/// Status of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Done,
    /// The command worked but found something bad, such as a stopped run or a broken invariant.
    Bad,
}

fn main() -> ExitCode {
    let args = args::Args::parse();
    match commands::run(args) {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Bad) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr is closed too.
            let _ = writeln!(io::stderr(), "nandex: {error:#}");
            ExitCode::from(if error.is::<LabError>() || error.is::<UnknownName>() { 2 } else { 1 })
        }
    }
}

/// Whether the reader of stdout closed it, which is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}
