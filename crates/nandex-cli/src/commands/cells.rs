//! `nandex cells`: requests in JSON in, outcomes in JSON out, for whoever has programs run elsewhere.

use crate::Status;
use crate::output::{self, Target};
use crate::progress::stop_on_interrupt;
use crate::trace_args::Cells;
use anyhow::{Context, Result};
use nandex_lab::LabError;
use nandex_lab::runner::Control;
use nandex_lab::sweep::{Request, Status as Ended};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;

pub(crate) fn run(args: &Cells) -> Result<Status> {
    let (name, lines): (String, Box<dyn BufRead>) = match &args.requests {
        Target::Stdout => ("stdin".to_string(), Box::new(BufReader::new(io::stdin()))),
        Target::File(path) => {
            let file = File::open(path).map_err(|error| LabError::io(path.display(), error))?;
            (path.display().to_string(), Box::new(BufReader::new(file)))
        }
    };
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let mut status = Status::Done;
    for (number, line) in lines.lines().enumerate() {
        let place = || format!("{name}: line {}", number + 1);
        let line = line.with_context(place)?;
        if line.trim().is_empty() {
            continue;
        }
        let request = Request::from_json(&line).with_context(place)?;
        let outcome = request.run(output::commit().as_deref(), &control).with_context(place)?;
        if control.is_cancelled() {
            return Ok(Status::Bad);
        }
        if outcome.status == Ended::Failed {
            status = Status::Bad;
        }
        output::print(&format!("{}\n", serde_json::to_string(&outcome)?))?;
    }
    Ok(status)
}
