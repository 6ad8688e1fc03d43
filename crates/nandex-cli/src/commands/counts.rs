//! `nandex counts`: the counts of every FTL on small traces that anyone can repeat.

use crate::Status;
use crate::args::{Counts as Args, Order};
use crate::output;
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::{Context, Result};
use nandex_lab::block_trace;
use nandex_lab::counts::{CountsPlan, PageOrder, Trace, write_csv, write_json};
use nandex_lab::parallel;
use nandex_lab::registry::STORES;
use nandex_lab::runner::Control;
use nandex_report::counts as report;
use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &Args) -> Result<Status> {
    args.files.prepare()?;
    if let Some(folder) = &args.write_trace {
        write_traces(folder, args.seed)?;
    }
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let plan = CountsPlan {
        ftls: if args.ftl.is_empty() { STORES.iter().collect() } else { args.ftl.clone() },
        orders: match args.order {
            Order::Ascending => vec![PageOrder::Ascending],
            Order::Any => vec![PageOrder::Any],
            Order::Both => PageOrder::ALL.to_vec(),
        },
        seed: args.seed,
        threads: parallel::cores(),
    };
    let progress = Progress::new(Arc::clone(&control));
    let rows = progress.follow(|| plan.run(&control))?;
    args.files.write(
        |out| write_json(&rows, out),
        |out| write_csv(&rows, out),
        |width| report::render(&rows, args.seed, width),
    )?;
    let failed = rows.iter().any(|row| row.run.error.is_some());
    Ok(if failed { Status::Bad } else { Status::Done })
}

/// Writes a file for each trace, which `nandex replay` and other simulators can read.
fn write_traces(folder: &Path, seed: u64) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for trace in Trace::ALL {
        let path = folder.join(format!("{}.csv", trace.name()));
        output::write_file(&path, |out| block_trace::write_csv(&trace.blocks(seed), out))?;
    }
    Ok(())
}
