//! Cuts a window out of an OPS1 trace: `cut_trace FULL.ops[.zst] FIRST COUNT NAME [ranked]` writes
//! `NAME.ops.zst`, and `NAME.init.ops.zst` with the contents at its start, if there are any. `ranked`
//! replaces each key by its rank within its index, which makes small files.

use nandex_lab::LabError;
use nandex_lab::trace::{Trace, TraceOptions, cut, ops1, ranked};
use std::path::Path;
use std::process::ExitCode;

fn run(full: &str, window: std::ops::Range<usize>, name: &str, rank: bool) -> Result<Trace, LabError> {
    let trace = Trace::read(Path::new(full), &TraceOptions { strict: true, ..TraceOptions::default() })?;
    let mut part = cut(&trace, window);
    if rank {
        part = ranked(&part);
    }
    ops1::write(Path::new(&format!("{name}.ops.zst")), &part.records)?;
    if !part.init.is_empty() {
        ops1::write(Path::new(&format!("{name}.init.ops.zst")), &ops1::runs(&part.init))?;
    }
    Ok(part)
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (arguments, rank) = match arguments.split_last() {
        Some((last, arguments)) if last == "ranked" => (arguments, true),
        _ => (&arguments[..], false),
    };
    let [full, first, count, name] = arguments else {
        eprintln!("usage: cut_trace FULL.ops[.zst] FIRST COUNT NAME [ranked]");
        return ExitCode::from(2);
    };
    let (Ok(first), Ok(count)) = (first.parse::<usize>(), count.parse::<usize>()) else {
        eprintln!("FIRST and COUNT are whole numbers");
        return ExitCode::from(2);
    };
    match run(full, first..first.saturating_add(count), name, rank) {
        Ok(part) => {
            println!("{:#?}", part.summary());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
