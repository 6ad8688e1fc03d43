//! `nandex repro`: the scorecard of a paper's claims.

use super::run::plan;
use crate::Status;
use crate::args::Repro;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex_lab::report::scorecard;
use nandex_lab::repro::{self, ReproPlan, Verdict};
use nandex_lab::runner::Control;
use std::sync::Arc;

pub(crate) fn run(args: &Repro) -> Result<Status> {
    args.files.prepare()?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let plan = ReproPlan { paper: args.paper.clone(), run: plan(&args.plan) };
    let card = progress.follow(|| repro::run(&plan, &control))?;
    args.files.write(
        |out| card.write_json(out),
        |out| card.write_csv(out),
        |width| scorecard::render(&card, width),
    )?;
    Ok(if card.count(Verdict::NotReproduced) == 0 { Status::Done } else { Status::Bad })
}
