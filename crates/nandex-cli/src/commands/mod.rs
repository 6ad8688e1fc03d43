//! The commands of the program, a file for each.

mod check;
mod compare;
mod counts;
mod crash;
mod device;
mod forecast;
mod list;
mod manual;
mod places;
mod replay;
mod repro;
mod run;
mod spatial;
mod sweep;
mod torture;

use crate::Status;
use crate::args::{Args, Command};
use anyhow::Result;

/// Does what the command line says.
pub(crate) fn run(args: Args) -> Result<Status> {
    match args.command {
        Command::Compare(compare) if compare.spatial.is_empty() => compare::run(&compare),
        Command::Compare(compare) => spatial::run(&compare),
        Command::Places(places) => places::run(&places),
        Command::Run(run) => run::run(&run),
        Command::Sweep(sweep) => sweep::run(&sweep),
        Command::Repro(repro) => repro::run(&repro),
        Command::Crash(crash) => crash::run(&crash),
        Command::Counts(counts) => counts::run(&counts),
        Command::Replay(replay) => replay::run(&replay),
        Command::Torture(torture) => torture::run(&torture),
        Command::Check(check) => check::run(&check),
        Command::Device(device) => device::run(&device.action),
        Command::List(list) => list::run(&list),
        Command::Completions(shell) => manual::completions(&shell),
        Command::Man(man) => manual::pages(&man),
    }
}
