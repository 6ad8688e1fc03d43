//! `nandex compare --spatial`: spatial indexes over data and queries, as table, files and report.

use super::compare::{named, status};
use crate::Status;
use crate::args::Compare;
use crate::output;
use crate::parse::{self, CLASSES};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::{Context, Result, bail};
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::options::Settings;
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::spatial::compare::SpatialComparison;
use nandex_lab::spatial::data;
use nandex_lab::spatial::workload::Queries;
use nandex_lab::{parallel, record};
use nandex_report::{html, table};
use std::sync::Arc;

/// The values of `--window` and `--nearest` when they are not given.
const QUERIES: Queries = Queries { window: 0.0001, nearest: 10 };

pub(crate) fn run(args: &Compare) -> Result<Status> {
    args.files.prepare()?;
    args.report.as_deref().map_or(Ok(()), output::prepare)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let comparison = comparison(args)?;
    let progress = Progress::new(Arc::clone(&control));
    let (mut results, maps) = progress.follow(|| comparison.run(&control, &progress)).map_err(named)?;
    results.commit = output::commit();
    output::write_report(args.report.as_deref(), || html::render_with_maps(&results, &maps))?;
    args.files.write(
        |out| record::write_json(&results, out),
        |out| record::write_csv(&results, out),
        |width| table::render(&results, width),
    )?;
    Ok(status(&results))
}

fn comparison(args: &Compare) -> Result<SpatialComparison> {
    let data = data::find(args.places.as_deref().unwrap_or("places")).context("--places")?;
    let mut options = parse::options(&args.set);
    if let Some(ops) = args.ops {
        options.set("queries", &ops.to_string());
    }
    let durability = match parse::chosen(&args.durability, &CLASSES)[..] {
        [] => Durability::EveryOperation,
        [class] => *class,
        _ => bail!("--durability: spatial indexes are compared in one class at a time"),
    };
    // The sizes of the entries follow from the coordinates, not from --record.
    let settings =
        Settings { ram_bytes: args.ram, durability, options, ..Settings::new(RecordFormat::new(8, 8)) };
    Ok(SpatialComparison {
        part: args.chip.clone(),
        data,
        queries: Queries {
            window: args.window.unwrap_or(QUERIES.window),
            nearest: args.nearest.unwrap_or(QUERIES.nearest),
        },
        indexes: parse::chosen(&args.spatial, SPATIAL),
        settings,
        seeds: (0..args.seeds).map(|i| args.seed.wrapping_add(i)).collect(),
        run: RunOptions { sync_every: args.sync_every, sync_at_end: true, ..RunOptions::default() },
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}
