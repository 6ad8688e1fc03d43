//! The field: `field/CLASS/RAM/INDEX`, what an index costs in so much RAM, its tables included, or why it
//! does not start.
//!
//! Classes are `always`, `by-100` and `pool` (a sync after 100 changes; with `pool` a change need not say
//! whether the key was there). An index with `+dftl` stands on that FTL, which needs the least RAM for its
//! table.

use crate::LabError;
use crate::experiment::RunPlan;
use crate::experiment::results::CellResult;
use crate::registry;
use crate::results::{Costs, Run};
use crate::runner::{self, Control, Job, Prepared, RunOptions};
use crate::stats::Summary;
use crate::workload::workload;
use nandex::nand::catalogue::mlc_64m;
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::{Options, Settings};
use std::collections::BTreeMap;

/// The cell of this name; `rest` is the part after `field/`.
pub(super) fn cell(name: &str, rest: &str, plan: &RunPlan) -> Result<CellResult, LabError> {
    let mut parts = rest.split('/');
    let mut next = || parts.next().unwrap_or_default();
    let (class, ram, index) = (next(), next(), next());
    let settings = settings(class, ram)?;
    let run = measure(settings, class != "always", index, plan.smoke)?;
    Ok(CellResult {
        name: name.to_string(),
        missing: run.error.clone(),
        figures: figures(&run),
        ..CellResult::default()
    })
}

fn settings(class: &str, ram: &str) -> Result<Settings, LabError> {
    let kib = ram.strip_suffix('K').and_then(|kib| kib.parse::<usize>().ok());
    let kib = kib.ok_or_else(|| LabError::bad_option("RAM", ram, "is no number of KiB, such as 16K"))?;
    let (durability, answers) = match class {
        "always" => (Durability::EveryOperation, "exact"),
        "by-100" => (Durability::EverySync, "exact"),
        "pool" => (Durability::EverySync, "pool"),
        _ => return Err(LabError::unknown("class", class, ["always", "by-100", "pool"])),
    };
    let settings = Settings::new(RecordFormat::new(4, 4));
    Ok(Settings { durability, ram_bytes: Some(kib * 1024), ..settings }.with("answers", answers))
}

/// Measures insertions of 200,000 random keys and 20,000 look-ups.
fn measure(mut settings: Settings, syncs: bool, index: &str, smoke: bool) -> Result<Run, LabError> {
    let (index, ftl) = index.split_once('+').map_or((index, None), |(index, ftl)| (index, Some(ftl)));
    let entry = registry::index(index)?;
    settings = ftl.map_or(settings.clone(), |ftl| settings.with("ftl", ftl));
    if !entry.known(&settings.options).iter().any(|option| option.name == "answers") {
        settings.options = options(ftl.map(|ftl| ("ftl", ftl)));
    }
    let (records, operations) = if smoke { ("4000", "400") } else { ("200000", "20000") };
    let generator = options([("records", records), ("operations", operations), ("rs", "0")]);
    let workload = workload("rs")?.build(1, &generator)?;
    let prepared = Prepared::new(&workload, settings.record.key_bytes)?;
    let part = mlc_64m();
    let options = RunOptions { cpu_time: false, sync_every: syncs.then_some(100), ..RunOptions::default() };
    let job = Job { index: entry, part: &part, prepared: &prepared, settings, options };
    Ok(runner::run(&job, &Control::default()))
}

fn options<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> Options {
    let mut options = Options::default();
    all.into_iter().for_each(|(name, value)| options.set(name, value));
    options
}

fn figures(run: &Run) -> BTreeMap<String, Summary> {
    if run.error.is_some() {
        return BTreeMap::new();
    }
    let kinds = |kind: &str| {
        let all = run.phases.iter().filter_map(|phase| phase.kinds.get(kind));
        all.fold(Costs::default(), |sum, costs| sum.plus(costs))
    };
    let (inserts, syncs, gets) = (kinds("insert"), kinds("sync"), kinds("get"));
    let both = inserts.plus(&syncs);
    let each = |what: u64, costs: &Costs| what as f64 / costs.operations.max(1) as f64;
    let slowest = [inserts, syncs, gets].iter().map(|costs| costs.flash_time_max_ns).max().unwrap_or(0);
    let figures = [
        ("us_per_insert", each(both.flash_time_ns, &inserts) / 1000.0),
        ("programs_per_insert", each(both.page_programs, &inserts)),
        ("reads_per_get", each(gets.page_reads, &gets)),
        ("slowest_ms", slowest as f64 / 1e6),
        ("space_over_records", run.space_amplification),
        ("ram_bytes", run.ram_bytes as f64),
    ];
    figures.map(|(name, value)| (name.to_string(), Summary::exact(value))).into_iter().collect()
}
