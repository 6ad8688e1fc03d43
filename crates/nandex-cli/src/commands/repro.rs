//! `nandex repro`: the scorecard of a paper's claims, or of all papers'.

use super::run::plan;
use crate::Status;
use crate::args::Repro;
use crate::output;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::Result;
use nandex_lab::repro::{self, PAPERS, ReproPlan};
use nandex_lab::runner::Control;
use nandex_report::{html, scorecard};
use std::sync::Arc;

pub(crate) fn run(args: &Repro) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let papers =
        if args.all { PAPERS.iter().map(ToString::to_string).collect() } else { vec![args.paper.clone()] };
    let plan = ReproPlan {
        papers,
        whole: args.all || args.report.is_some(),
        run: plan(&args.plan),
        keep: args.keep.clone(),
    };
    let tells = args.all || args.keep.is_some();
    let mut tell = |what: &str| {
        if tells {
            progress.tell(what);
        }
    };
    let done = progress.follow(|| repro::run(&plan, &control, &mut tell))?;
    output::write_report(args.report.as_deref(), || html::render_papers(&done))?;
    args.files.write(
        |out| done.write_json(out),
        |out| done.write_csv(out),
        |width| done.cards.iter().map(|card| scorecard::render(card, width)).collect::<Vec<_>>().join("\n"),
    )?;
    Ok(if done.is_good() { Status::Done } else { Status::Bad })
}
