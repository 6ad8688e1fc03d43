//! `nandex compare --spatial`: spatial indexes over data and queries, as table, files and report.

use super::compare::carry_out;
use crate::Status;
use crate::args::Compare;
use crate::output;
use crate::parse::{self, CLASSES};
use anyhow::{Context, Result, bail};
use nandex::ordered::Durability;
use nandex_lab::compare::{Class, Comparison};
use nandex_lab::options::Settings;
use nandex_lab::parallel;
use nandex_lab::runner::RunOptions;
use nandex_lab::spatial::SPATIAL;
use nandex_lab::spatial::compare::Spatial;
use nandex_lab::spatial::data;
use nandex_lab::spatial::map::TreeMap;
use nandex_lab::spatial::workload::Queries;
use nandex_report::html;

/// The defaults of `--window` and `--nearest`.
const QUERIES: Queries = Queries { window: 0.0001, nearest: 10 };

pub(crate) fn run(args: &Compare) -> Result<Status> {
    carry_out(
        args,
        || comparison(args),
        |results, maps| {
            let maps: Vec<TreeMap> = maps.into_iter().flatten().collect();
            html::render_with_maps(results, &maps)
        },
    )
}

fn comparison(args: &Compare) -> Result<Comparison<Spatial>> {
    let data = data::find(args.places.as_deref().unwrap_or("places")).context("--places")?;
    if data.passed_over > 0 {
        output::tell(&format!(
            "{}: {} features that are nowhere were passed over",
            data.name, data.passed_over
        ));
    }
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
    let settings = Settings { ram_bytes: one_ram(args)?, options, ..Settings::new(args.record) };
    let queries = Queries {
        window: args.window.unwrap_or(QUERIES.window),
        nearest: args.nearest.unwrap_or(QUERIES.nearest),
    };
    Ok(Comparison {
        part: args.chip.clone(),
        contest: Spatial { data, queries, indexes: parse::chosen(&args.spatial, SPATIAL) },
        classes: vec![Class { durability, sync_every: args.sync_every }],
        settings,
        seeds: (0..args.seeds).map(|i| args.seed.wrapping_add(i)).collect(),
        run: RunOptions { sync_at_end: true, ..RunOptions::default() },
        threads: args.threads.map_or_else(parallel::cores, usize::from),
        command: output::command(),
    })
}

/// The RAM of each index; several amounts are refused.
fn one_ram(args: &Compare) -> Result<Option<usize>> {
    match args.ram.as_ref().map(|rams| &rams.0[..]) {
        None => Ok(None),
        Some([bytes]) => Ok(Some(*bytes)),
        Some(_) => bail!("--ram: spatial indexes are compared with one amount at a time"),
    }
}
