//! `nandex torture`: whole lives of indexes and FTLs on small chips that are full, cut and dying.

mod damage;
#[cfg(unix)]
mod sqlite;

use crate::Status;
use crate::output;
use crate::parse::{Replay, chosen};
use crate::progress::{Progress, stop_on_interrupt};
use crate::torture_args::Torture;
use anyhow::{Context, Result};
use nandex_lab::crash::Target;
use nandex_lab::input;
use nandex_lab::registry::{Hosting, STORES, subjects};
use nandex_lab::runner::Control;
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::{self, Case, Fate, Finding, Order, Plan, Report, Victim};
use nandex_lab::{LabError, parallel};
use nandex_report::torture as report;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn run(args: &Torture) -> Result<Status> {
    if args.sqlite {
        return run_sqlite(args);
    }
    if let Some(folder) = &args.save {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    if args.damage {
        return damage::run(args);
    }
    args.files.prepare()?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    torture::catch_panics();
    if let Some(Replay::File(file)) = &args.replay {
        return run_file(file);
    }
    let plan = plan(args);
    let progress = Progress::new(Arc::clone(&control));
    match plan.order {
        Order::Lives(lives) => progress.count(lives.saturating_mul(plan.victims.len() as u64), "lives"),
        Order::Time(time) => progress.count(time.as_secs().max(1), "seconds"),
    }
    let found =
        progress.follow(|| torture::run(&plan, &control, &|finding| output::tell(&report::finding(finding))));
    show_least(args, &found)?;
    args.files.write(
        |out| write_json(&found, out),
        |out| write_csv(&found, out),
        |_| report::render(&found),
    )?;
    Ok(if found.findings.is_empty() { Status::Done } else { Status::Bad })
}

#[cfg(unix)]
fn run_sqlite(args: &Torture) -> Result<Status> {
    sqlite::run(args)
}

#[cfg(not(unix))]
fn run_sqlite(_: &Torture) -> Result<Status> {
    Err(LabError::bad_option("--sqlite", "true", "volumes of databases are for Unix").into())
}

/// Shrinks the shortest of the failed lives, or every failed life if they are to be saved.
fn show_least(args: &Torture, found: &Report) -> Result<()> {
    let mut cases: Vec<(&Finding, &Case)> =
        found.findings.iter().filter_map(|finding| Some((finding, finding.case.as_ref()?))).collect();
    cases.sort_by_key(|(_, case)| case.steps());
    for (finding, case) in &cases {
        let is_first = std::ptr::eq(*finding, cases[0].0);
        if !is_first && args.save.is_none() {
            break;
        }
        let text = report::case(finding, &case.shrunk());
        if is_first {
            output::tell(&report::shortened(&text));
        }
        if let Some(folder) = &args.save {
            let file = folder.join(format!("{}-{}.life", finding.victim, finding.seed));
            std::fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}

fn write_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

/// Writes a row for each victim.
fn write_csv(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for (place, row) in report.rows.iter().enumerate() {
        let cells = super::crash::cells(&serde_json::to_value(row)?);
        if place == 0 {
            csv.write_record(cells.iter().map(|(name, _)| name))?;
        }
        csv.write_record(cells.iter().map(|(_, value)| value))?;
    }
    csv.flush()
}

/// Largest file of a life that is read, in bytes. Real ones have some hundred lines.
const CASE_BYTES_MAX: u64 = 64 << 20;

/// Runs the life in a file.
fn run_file(file: &Path) -> Result<Status> {
    let name = file.display().to_string();
    let text = input::text(&input::read(file, CASE_BYTES_MAX)?).map_err(|(line, reason)| {
        LabError::Trace { file: name.clone(), place: Some(format!("line {line}")), reason }
    })?;
    let case = Case::read(&text, &name)?;
    let (words, status) = match case.run() {
        Ok(counts) => (report::counts(&counts, 0), Status::Done),
        Err(why) => (format!("! {name}: {why}\n"), Status::Bad),
    };
    output::print(&words)?;
    Ok(status)
}

fn plan(args: &Torture) -> Plan {
    let fate =
        Fate { until_death: args.until_death, reads_well: args.reads_well, any_geometry: args.geometry };
    let threads = args.threads.map_or_else(parallel::cores, usize::from);
    if let Some(Replay::Life(victim, seed)) = args.replay {
        return Plan { victims: vec![victim], order: Order::Lives(1), fate, seed, threads: 1 };
    }
    Plan { victims: victims(args), order: order(args), fate, seed: args.seed, threads }
}

fn order(args: &Torture) -> Order {
    match (args.minutes, args.lives) {
        (Some(minutes), _) => Order::Time(Duration::from_secs_f64(minutes * 60.0)),
        (None, Some(lives)) => Order::Lives(lives),
        (None, None) => Order::Lives(100),
    }
}

fn names_none(args: &Torture) -> bool {
    args.index.is_empty() && args.spatial.is_empty() && args.ftl.is_empty()
}

/// The victims: every chosen FTL alone, and every chosen index on these FTLs or on one that the seed draws.
fn victims(args: &Torture) -> Vec<Victim> {
    let ftls = chosen(&args.ftl, STORES);
    let alone = |target: Target| Victim { target, ftl: None };
    let (indexes, spatial) = match names_none(args) {
        true => (subjects().collect(), Vec::new()),
        false => (chosen(&args.index, subjects()), chosen(&args.spatial, SPATIAL)),
    };
    let mut victims: Vec<Victim> = Vec::new();
    let on_ftls = |target: Target| ftls.iter().map(move |ftl| Victim { target, ftl: Some(ftl) });
    for entry in indexes {
        let target = Target::Index(entry);
        if ftls.is_empty() || entry.hosting == Hosting::Raw {
            victims.push(alone(target));
        }
        let takes_ftl = entry.options.iter().any(|option| matches!(option.name, "ftl" | "beneath"));
        victims.extend(on_ftls(target).filter(|_| takes_ftl));
    }
    for entry in spatial {
        let target = Target::Spatial(entry);
        let takes_ftl = entry.knows("ftl");
        if ftls.is_empty() || !takes_ftl {
            victims.push(alone(target));
        }
        victims.extend(on_ftls(target).filter(|_| takes_ftl));
    }
    victims.extend(ftls.iter().map(|ftl| alone(Target::Store(ftl))));
    victims
}
