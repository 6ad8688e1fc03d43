//! The commands of the program, a file for each.

mod advise;
mod cells;
mod check;
mod compare;
mod counts;
mod crash;
mod device;
mod forecast;
mod inspect;
mod list;
mod manual;
mod on_chip;
mod places;
mod replay;
mod repro;
mod run;
mod serve;
mod spatial;
mod sweep;
mod torture;
mod traces;
mod volume;

use crate::Status;
use crate::args::{Args, Command};
use anyhow::Result;

pub(crate) fn run(args: Args) -> Result<Status> {
    match args.command {
        Command::Compare(compare) if compare.spatial.is_empty() => compare::run(&compare),
        Command::Compare(compare) => spatial::run(&compare),
        Command::Advise(advise) => advise::run(&advise),
        Command::Places(places) => places::run(&places),
        Command::Run(run) => run::run(&run),
        Command::Sweep(sweep) => sweep::run(&sweep),
        Command::Cells(cells) => cells::run(&cells),
        Command::Capture(capture) => traces::capture(&capture),
        Command::Import(import) => traces::import(&import),
        Command::Trace(trace) => traces::trace(&trace),
        Command::Repro(repro) => repro::run(&repro),
        Command::Crash(crash) => crash::run(&crash),
        Command::Counts(counts) => counts::run(&counts),
        Command::Replay(replay) => replay::run(&replay),
        Command::Torture(torture) => torture::run(&torture),
        Command::Check(check) => check::run(&check),
        Command::Device(device) => device::run(&device.action),
        Command::Inspect(args) => inspect::run(&args),
        Command::Serve(args) => serve::run(args.port, None),
        Command::Play(args) => serve::run(args.port, args.scene.as_deref()),
        Command::List(list) => list::run(&list),
        Command::Completions(shell) => manual::completions(&shell),
        Command::Man(man) => manual::pages(&man),
    }
}
