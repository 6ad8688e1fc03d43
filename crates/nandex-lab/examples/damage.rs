//! Damages chips: `damage [--index NAMES|all] [--ftl NAMES|all] [--spatial NAMES|all] [--on FTL] [--seed S] [--rounds N]
//! [--minutes N] [--cuts N] [--damages N, 0 for every page] [--threads N]`, or a replay with `--image` and `--damage`.

#![allow(clippy::print_stdout)]

use nandex_lab::crash::Target;
use nandex_lab::registry::{self, Hosting, INDEXES, STORES};
use nandex_lab::runner::Control;
use nandex_lab::spatial::{SPATIAL, spatial};
use nandex_lab::torture::damage::{Blow, Effort, End, replay, run};
use nandex_lab::torture::{Victim, catch_panics};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let number = |flag: &str, default: u64| value(flag).map_or(Ok(default), str::parse);
    let subjects = subjects(&value)?;
    catch_panics();
    let seed = number("--seed", 1)?;
    if let (Some(image), Some(blow)) = (value("--image"), value("--damage")) {
        let (end, blow): (End, Blow) = (image.parse()?, blow.parse()?);
        let subject = subjects.first().ok_or("a replay names its subject")?;
        match replay(*subject, seed, end, &blow)? {
            None => println!("{subject}: nothing was changed"),
            Some(finding) => {
                println!("{finding}");
                std::process::exit(i32::from(!finding.outcome.is_sound()));
            }
        }
        return Ok(());
    }
    let minutes = number("--minutes", 0)?;
    let effort = Effort {
        seed,
        rounds: number("--rounds", if minutes == 0 { 1 } else { u64::MAX })?,
        until: (minutes > 0).then(|| Instant::now() + Duration::from_secs(minutes * 60)),
        cuts: number("--cuts", 3)? as u32,
        damages: number("--damages", 70)? as u32,
        threads: number("--threads", 1)? as usize,
    };
    let totals = run(&subjects, &effort, &Control::default(), &|finding| println!("{finding}"));
    totals.stopped.iter().for_each(|why| println!("stopped: {why}"));
    println!("{totals}");
    std::process::exit(i32::from(!totals.is_clean()));
}

fn subjects<'a>(value: &impl Fn(&str) -> Option<&'a str>) -> Result<Vec<Victim>, Box<dyn std::error::Error>> {
    let on = value("--on").map(registry::store).transpose()?;
    let list = |flag: &str, all: Vec<&'static str>| -> Vec<String> {
        match value(flag) {
            None => Vec::new(),
            Some("all") => all.into_iter().map(String::from).collect(),
            Some(names) => names.split(',').map(String::from).collect(),
        }
    };
    let mut subjects = Vec::new();
    for name in list("--index", INDEXES.iter().map(|entry| entry.name).collect()) {
        let entry = registry::index(&name)?;
        let default = if entry.hosting == Hosting::Raw { None } else { Some(&STORES[0]) };
        subjects.push(Victim { target: Target::Index(entry), ftl: on.or(default) });
    }
    for name in list("--spatial", SPATIAL.iter().map(|entry| entry.name).collect()) {
        let target = Target::Spatial(spatial(&name)?);
        subjects.push(Victim { target, ftl: on.or(Some(&STORES[0])) });
    }
    for name in list("--ftl", STORES.iter().map(|entry| entry.name).collect()) {
        subjects.push(Victim { target: Target::Store(registry::store(&name)?), ftl: None });
    }
    Ok(subjects)
}
