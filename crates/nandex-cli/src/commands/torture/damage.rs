//! `nandex torture --damage`: pages and blocks are damaged, and every answer compared with the truth.

use super::{names_none, victims};
use crate::Status;
use crate::output;
use crate::parse::Replay;
use crate::progress::{Progress, stop_on_interrupt};
use crate::torture_args::Torture;
use anyhow::{Context, Result, anyhow};
use nandex_lab::runner::Control;
use nandex_lab::torture::damage::{self, Blow, Effort, End, every_victim};
use nandex_lab::torture::{self, Victim};
use nandex_lab::{LabError, parallel};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn run(args: &Torture) -> Result<Status> {
    torture::catch_panics();
    let life = match &args.replay {
        Some(Replay::File(_)) => return Err(anyhow!("--replay: a file holds no damage, only a life")),
        Some(Replay::Life(victim, seed)) => Some((*victim, *seed)),
        None => None,
    };
    if let (Some((victim, seed)), Some(end), Some(blow)) = (life, args.image, &args.blow) {
        return repeat(victim, seed, end, blow);
    }
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let effort = effort(args, life);
    let victims = chosen(args, life);
    let progress = Progress::new(Arc::clone(&control));
    if effort.until.is_none() {
        let number = if victims.is_empty() { every_victim(effort.seed).len() } else { victims.len() };
        progress.count(effort.rounds * number as u64, "lives");
    }
    let totals = progress
        .follow(|| damage::run(&victims, &effort, &control, &|finding| output::tell(&finding.to_string())));
    for why in &totals.stopped {
        output::tell(&format!("! without any damage: {why}"));
    }
    output::print(&format!("{totals}\n"))?;
    if let Some(page) = &args.guarantees {
        write_table(page)?;
    }
    Ok(if totals.is_clean() { Status::Done } else { Status::Bad })
}

fn repeat(victim: Victim, seed: u64, end: End, blow: &Blow) -> Result<Status> {
    let Some(finding) = damage::replay(victim, seed, end, blow)? else {
        output::print("nothing is changed by this damage\n")?;
        return Ok(Status::Done);
    };
    let allowed = finding.exception().filter(|_| !finding.outcome.is_sound());
    let because = allowed.map_or_else(String::new, |number| {
        format!("  allowed by exception {number} of docs/guarantees.md\n")
    });
    output::print(&format!("{finding}\n{because}"))?;
    Ok(if finding.outcome.is_sound() || allowed.is_some() { Status::Done } else { Status::Bad })
}

fn effort(args: &Torture, life: Option<(Victim, u64)>) -> Effort {
    let minutes = args.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    let (seed, rounds) = match life {
        Some((_, seed)) => (seed, 1),
        None => (args.seed, args.lives.unwrap_or(if minutes.is_some() { u64::MAX } else { 1 })),
    };
    let threads = args.threads.map_or_else(parallel::cores, usize::from);
    Effort { seed, rounds, until: minutes, cuts: args.cuts, damages: args.each, threads }
}

/// The chosen victims; empty means all.
fn chosen(args: &Torture, life: Option<(Victim, u64)>) -> Vec<Victim> {
    match life {
        Some((victim, _)) => vec![victim],
        None if names_none(args) => Vec::new(),
        None => victims(args),
    }
}

fn write_table(page: &Path) -> Result<()> {
    let shown = page.display().to_string();
    let text = fs::read_to_string(page).map_err(|error| LabError::io(&shown, error))?;
    let written = damage::rewrite(&text).ok_or_else(|| anyhow!("it has no place for the table"));
    let written = written.with_context(|| shown.clone())?;
    fs::write(page, written).map_err(|error| LabError::io(&shown, error))?;
    Ok(())
}
