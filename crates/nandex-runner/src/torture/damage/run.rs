//! A run over many lives, images and damages.

use super::allowed::{Hit, allowed};
use super::image::{End, Image, Life};
use super::kinds::{self, Damage, Kind};
use super::trial::{self, Outcome};
use super::{Blow, Finding, every_victim, subject};
use crate::crash::history::fingerprint;
use crate::parallel;
use crate::runner::Control;
use crate::torture::Victim;
use crate::{ASSERTIONS, LabError};
use nandex::nand::sim::SimChip;
use nandex::rng::{Rng, split_mix};
use nandex::{Geometry, Pbn, Ppn};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The amount of work of a run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The first seed; each round takes the next one.
    pub seed: u64,
    /// Most rounds over the subjects.
    pub rounds: u64,
    /// Time after which no further work begins.
    pub until: Option<Instant>,
    /// Number of images of each life that are cut at a random place.
    pub cuts: u32,
    /// Number of damages of each image; 0 means every page and kind in turn.
    pub damages: u32,
    /// Number of threads.
    pub threads: usize,
}

/// The totals of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of lives lived.
    pub lives: u64,
    /// Number of images damaged.
    pub images: u64,
    /// Number of damages by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Number of damages by the exception that allows their outcome.
    pub excepted: BTreeMap<usize, u64>,
    /// Number of damages whose outcome no exception allows.
    pub found: u64,
    /// The findings: the first of each kind of each image.
    pub findings: Vec<Finding>,
    /// The lives that stopped before any damage, with the reasons.
    pub stopped: Vec<String>,
    /// Number of subjects that refuse the format because they do not fit on the chip or the FTL.
    pub unfit: u64,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.lives += other.lives;
        self.images += other.images;
        other.outcomes.into_iter().for_each(|(name, count)| *self.outcomes.entry(name).or_default() += count);
        other.excepted.into_iter().for_each(|(at, count)| *self.excepted.entry(at).or_default() += count);
        self.found += other.found;
        self.findings.extend(other.findings);
        self.stopped.extend(other.stopped);
        self.unfit += other.unfit;
    }

    fn note(&mut self, finding: Finding, told: &mut Vec<(Option<Kind>, &'static str)>, tell: Tell<'_>) {
        let outcome = &finding.outcome;
        if outcome.is_sound() {
            *self.outcomes.entry(outcome.name()).or_default() += 1;
        } else if let Some(number) = allowed(&Hit::of(&finding), outcome) {
            *self.excepted.entry(number).or_default() += 1;
        } else {
            self.found += 1;
            let kind = (finding.blow.0.first().map(|damage| damage.kind), outcome.name());
            *self.outcomes.entry(outcome.name()).or_default() += 1;
            if !told.contains(&kind) {
                told.push(kind);
                tell(&finding);
                self.findings.push(finding);
            }
        }
    }

    /// Number of damages tried.
    pub fn damages(&self) -> u64 {
        self.outcomes.values().chain(self.excepted.values()).sum()
    }

    /// Whether no damage was found at fault and no life stopped.
    pub fn is_clean(&self) -> bool {
        self.found == 0 && self.stopped.is_empty()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lives, {} images, {} damages", self.lives, self.images, self.damages())?;
        self.outcomes.iter().try_for_each(|(name, count)| write!(f, ", {count} {name}"))?;
        if self.unfit > 0 {
            write!(f, ", {} unfit", self.unfit)?;
        }
        let excepted: u64 = self.excepted.values().sum();
        let found = self.found + self.stopped.len() as u64;
        write!(f, ", {excepted} excepted, {found} findings; {ASSERTIONS}")
    }
}

/// Called with each finding as soon as it is there.
pub type Tell<'a> = &'a (dyn Fn(&Finding) + Sync);

/// Tries damages on these victims, or on all victims if none is given.
pub fn run(victims: &[Victim], effort: &Effort, control: &Control, tell: Tell<'_>) -> Totals {
    let all = Mutex::new(Totals::default());
    let late = AtomicBool::new(false);
    let is_late = || late.load(Ordering::Relaxed) || control.is_cancelled();
    for round in 0..effort.rounds {
        let seed = effort.seed.wrapping_add(round);
        let victims = if victims.is_empty() { every_victim(seed) } else { victims.to_vec() };
        parallel::map(&victims, effort.threads, |victim| {
            if is_late() {
                return;
            }
            let totals = of_one_life(subject::on_page_mapping(*victim), seed, effort, tell);
            control.add_done(1);
            late.fetch_or(effort.until.is_some_and(|until| Instant::now() >= until), Ordering::Relaxed);
            all.lock().unwrap_or_else(PoisonError::into_inner).add(totals);
        });
        if is_late() {
            break;
        }
    }
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats one damage; `None` if it changes nothing.
pub fn replay(victim: Victim, seed: u64, end: End, blow: &Blow) -> Result<Option<Finding>, LabError> {
    let victim = subject::on_page_mapping(victim);
    let life = Life::new(victim, seed)?;
    let image = life.image(end, seed);
    let outcome = trial::try_damages(&life, &image, &blow.0, seed_of(seed, end, blow));
    let finding = |outcome| finding(victim, (seed, &image), end, blow, outcome);
    Ok(outcome.map(finding))
}

fn seed_of(seed: u64, end: End, blow: &Blow) -> u64 {
    split_mix(seed ^ fingerprint(format!("{end} {blow}").as_bytes()))
}

fn of_one_life(victim: Victim, seed: u64, effort: &Effort, tell: Tell<'_>) -> Totals {
    let mut totals = Totals { lives: 1, ..Totals::default() };
    let life = match trial::guarded(|| Life::new(victim, seed)) {
        Ok(Ok(life)) => life,
        Ok(Err(LabError::Index(error))) if error.is_unsupported() => {
            return Totals { unfit: 1, ..Totals::default() };
        }
        Ok(Err(error)) => return stopped(totals, &victim, seed, &error.to_string()),
        Err(panic) => return stopped(totals, &victim, seed, &panic),
    };
    if let Some(why) = &life.stopped {
        return stopped(totals, &victim, seed, why);
    }
    let mut rng = Rng::new(split_mix(seed) ^ fingerprint(victim.to_string().as_bytes()));
    let mut ends = vec![End::Closed, End::Remounted];
    ends.extend((0..effort.cuts).map(|_| life.draw_cut(&mut rng)));
    for end in ends {
        totals.images += 1;
        let image = life.image(end, seed);
        let needed = trial::pages_read(&life, &image);
        let mut told: Vec<(Option<Kind>, &'static str)> = Vec::new();
        // Without any damage everything has to be right.
        let none = Blow(Vec::new());
        for blow in std::iter::once(none).chain(blows(&image.chip, &needed, effort.damages, &mut rng)) {
            let seed_of_blow = seed_of(seed, end, &blow);
            let Some(outcome) = trial::try_damages(&life, &image, &blow.0, seed_of_blow) else { continue };
            let finding = finding(victim, (seed, &image), end, &blow, outcome);
            totals.note(finding, &mut told, tell);
        }
    }
    totals
}

fn finding(victim: Victim, (seed, image): (u64, &Image), end: End, blow: &Blow, outcome: Outcome) -> Finding {
    let (age, records, ends_a_block) =
        (age_of(image, blow), records_of(image, blow), ends_a_block(image, blow));
    Finding { victim, seed, end, age, records, ends_a_block, blow: blow.clone(), outcome }
}

/// The pages that a damage strikes.
fn places(damage: &Damage, geometry: Geometry) -> Vec<Ppn> {
    let places = [damage.at, damage.other];
    let places = places.into_iter().take(if damage.kind.names_another() { 2 } else { 1 });
    let pages = places.flat_map(|place| match damage.kind.is_of_block() {
        true => (0..geometry.pages_per_block).map(|page| geometry.page_at(Pbn(place), page)).collect(),
        false => vec![Ppn(place)],
    });
    pages.collect()
}

/// Number of operations that programmed pages after the youngest page that a blow strikes was programmed.
fn age_of(image: &Image, blow: &Blow) -> Option<u64> {
    let pages = blow.0.iter().flat_map(|damage| places(damage, image.chip.part().geometry));
    let programmed = pages.filter_map(|page| Some((image.programmed_at.get(&page)?, page)));
    let (youngest, page) = programmed.max()?;
    // A log of values and its keys have a part of the chip each, and neither tells when the other programs.
    let part = |page: Ppn| image.chip.part().geometry.block_of(page).0 < image.log_blocks;
    let beside = image.programmed_at.iter().filter(|(other, _)| part(**other) == part(page));
    let later: BTreeSet<u64> = beside.map(|(_, at)| *at).filter(|at| at > youngest).collect();
    Some(later.len() as u64)
}

/// Whether a blow strikes the last page programmed in its block.
fn ends_a_block(image: &Image, blow: &Blow) -> bool {
    let geometry = image.chip.part().geometry;
    let is_last = |ppn: &Ppn| {
        let Some(at) = image.programmed_at.get(ppn) else { return false };
        let others =
            (0..geometry.pages_per_block).map(|page| geometry.page_at(geometry.block_of(*ppn), page));
        let later =
            others.filter(|other| other > ppn).any(|other| image.programmed_at.get(&other) >= Some(at));
        !later
    };
    blow.0.iter().flat_map(|damage| places(damage, geometry)).any(|ppn| is_last(&ppn))
}

/// Number of damages that strike an anchor, or a page of a checkpoint or note.
fn records_of(image: &Image, blow: &Blow) -> usize {
    let geometry = image.chip.part().geometry;
    let is_record = |ppn: &Ppn| {
        let stored = image.chip.stored_page(*ppn);
        stored.is_some_and(|bytes| matches!(bytes.get(geometry.page_bytes as usize + 1), Some(b'A' | b'P')))
    };
    blow.0.iter().filter(|damage| places(damage, geometry).iter().any(is_record)).count()
}

fn stopped(mut totals: Totals, subject: &Victim, seed: u64, why: &str) -> Totals {
    totals.stopped.push(format!("{subject}, seed {seed}: {why}"));
    totals
}

/// One of this many blows has two damages at once.
const TWO_EVERY: u64 = 12;

/// Draws blows to the pages of a chip. Three of four go to needed pages.
fn blows(chip: &SimChip, needed: &[Ppn], wanted: u32, rng: &mut Rng) -> Vec<Blow> {
    let pages = kinds::programmed(chip);
    if pages.is_empty() {
        return Vec::new();
    }
    if wanted == 0 {
        return every_blow(chip, &pages, rng);
    }
    let mut draw = |number: u32| {
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        let from = if needed.is_empty() || rng.chance(1, 4) { &pages } else { needed };
        kinds::draw(kind, chip, from, rng).map(|damage| (damage, rng.chance(1, TWO_EVERY)))
    };
    let mut blows = Vec::new();
    for number in 0..wanted {
        let Some((damage, two)) = draw(number) else { continue };
        let second = if two { draw(number / 3 + 1) } else { None };
        blows.push(Blow([damage].into_iter().chain(second.map(|(damage, _)| damage)).collect()));
    }
    blows
}

fn every_blow(chip: &SimChip, pages: &[Ppn], rng: &mut Rng) -> Vec<Blow> {
    let mut blows: Vec<Blow> = Vec::new();
    for page in pages {
        for kind in Kind::ALL {
            let Some(drawn) = kinds::draw(kind, chip, pages, rng) else { continue };
            let at = if kind.is_of_block() { chip.part().geometry.block_of(*page).0 } else { page.0 };
            let blow = Blow(vec![Damage { at, ..drawn }]);
            if drawn.other != at && !blows.contains(&blow) {
                blows.push(blow);
            }
        }
    }
    blows
}
