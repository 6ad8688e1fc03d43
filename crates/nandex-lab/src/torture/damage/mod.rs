//! Damaged chips: on images that were closed and on images cut anywhere, pages and whole blocks are flipped, zeroed, erased,
//! made unreadable, exchanged and replaced by older versions, and every answer after that is compared with the truth.
//!
//! 1. A subject lives a short life on a small chip, recorded from its format on (`image.rs`).
//! 2. An image is the chip at one end of it: after the first close, after the second, or cut at any physical operation.
//! 3. Each damage strikes a copy of an image. The copy is mounted, checked, read whole, changed, read, closed, mounted and read
//!    (`trial.rs`), and what was read is compared with the states of the history (`history.rs`).
//!
//! All of it follows from subject, seed, image and damage, so that four words repeat a finding.

mod history;
mod image;
mod kinds;
mod read;
mod subject;
mod trial;
mod watched;

pub use image::End;
pub use kinds::{Damage, Kind};
pub use subject::every_victim;
pub use trial::Outcome;

use crate::LabError;
use crate::crash::history::fingerprint;
use crate::parallel;
use crate::torture::Victim;
use image::Life;
use nandex::rng::{Rng, split_mix};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The word for no damage at all.
const NO_BLOW: &str = "none";

/// One damage, or several at once: `flip:3+zero:40`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow(pub Vec<Damage>);

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "{NO_BLOW}");
        }
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "{}", texts.join("+"))
    }
}

impl std::str::FromStr for Blow {
    type Err = LabError;

    /// "none" is a blow that damages nothing.
    fn from_str(text: &str) -> Result<Blow, LabError> {
        if text == NO_BLOW {
            return Ok(Blow(Vec::new()));
        }
        text.split('+').map(str::parse).collect::<Result<Vec<Damage>, _>>().map(Blow)
    }
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was damaged.
    pub subject: Victim,
    /// The seed of its life.
    pub seed: u64,
    /// The end of its life.
    pub end: End,
    /// The damage.
    pub blow: Blow,
    /// What came of it.
    pub outcome: Outcome,
}

impl Finding {
    /// The command that repeats it.
    pub fn replay(&self) -> String {
        let (victim, seed, end, blow) = (self.subject, self.seed, self.end, &self.blow);
        format!("nandex torture --damage --replay {victim}:{seed} --image {end} --blow {blow}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}: {}\n    {}", self.subject, self.end, self.blow, self.outcome, self.replay())
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The first seed; each round takes the next.
    pub seed: u64,
    /// Rounds over the subjects at most.
    pub rounds: u64,
    /// When no more is begun.
    pub until: Option<Instant>,
    /// Images cut anywhere, of each life.
    pub cuts: u32,
    /// Damages of each image; 0 for every page and kind in turn.
    pub damages: u32,
    /// Threads.
    pub threads: usize,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Lives lived.
    pub lives: u64,
    /// Images damaged.
    pub images: u64,
    /// Damages by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// What must not be, the first of each kind of each subject.
    pub findings: Vec<Finding>,
    /// Lives that ended before any damage, and why.
    pub stopped: Vec<String>,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.lives += other.lives;
        self.images += other.images;
        other.outcomes.into_iter().for_each(|(name, count)| *self.outcomes.entry(name).or_default() += count);
        self.findings.extend(other.findings);
        self.stopped.extend(other.stopped);
    }

    /// Damages tried.
    pub fn damages(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.stopped.is_empty()
            && self.outcomes.keys().all(|name| ["right", "corrupted", "refused"].contains(name))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lives, {} images, {} damages", self.lives, self.images, self.damages())?;
        self.outcomes.iter().try_for_each(|(name, count)| write!(f, ", {count} {name}"))
    }
}

/// Tries damages on these subjects, all of them where none is given; `found` hears of each finding at once.
pub fn run(subjects: &[Victim], effort: &Effort, found: &(dyn Fn(&Finding) + Sync)) -> Totals {
    let all = Mutex::new(Totals::default());
    let late = AtomicBool::new(false);
    for round in 0..effort.rounds {
        let seed = effort.seed.wrapping_add(round);
        let subjects = if subjects.is_empty() { every_victim(seed) } else { subjects.to_vec() };
        parallel::map(&subjects, effort.threads, |subject| {
            if late.load(Ordering::Relaxed) {
                return;
            }
            let totals = of_one_life(subject::on_page_mapping(*subject), seed, effort, found);
            late.fetch_or(effort.until.is_some_and(|until| Instant::now() >= until), Ordering::Relaxed);
            all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(totals);
        });
        if late.load(Ordering::Relaxed) {
            break;
        }
    }
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Repeats one.
pub fn replay(subject: &Victim, seed: u64, end: End, blow: &Blow) -> Result<Option<Outcome>, LabError> {
    let life = Life::new(subject::on_page_mapping(*subject), seed)?;
    let image = life.image(end, seed);
    Ok(trial::try_damages(&life, &image, &blow.0, seed_of(seed, end, blow)))
}

fn seed_of(seed: u64, end: End, blow: &Blow) -> u64 {
    split_mix(seed ^ fingerprint(format!("{end} {blow}").as_bytes()))
}

fn of_one_life(subject: Victim, seed: u64, effort: &Effort, found: &(dyn Fn(&Finding) + Sync)) -> Totals {
    let mut totals = Totals { lives: 1, ..Totals::default() };
    let life = match watched::guarded(|| Life::new(subject, seed)) {
        Ok(Ok(life)) => life,
        Ok(Err(error)) => return stopped(totals, &subject, seed, &error.to_string()),
        Err(panic) => return stopped(totals, &subject, seed, &panic),
    };
    if let Some(why) = &life.stopped {
        return stopped(totals, &subject, seed, why);
    }
    let mut rng = Rng::new(split_mix(seed) ^ fingerprint(subject.to_string().as_bytes()));
    let mut ends = vec![End::Closed, End::Remounted];
    ends.extend((0..effort.cuts).map(|_| life.draw_cut(&mut rng)));
    for end in ends {
        totals.images += 1;
        let image = life.image(end, seed);
        let mut told: Vec<(Option<Kind>, &'static str)> = Vec::new();
        // Without any damage everything has to be right.
        let none = Blow(Vec::new());
        for blow in std::iter::once(none).chain(blows(&image.chip, effort.damages, &mut rng)) {
            let Some(outcome) = trial::try_damages(&life, &image, &blow.0, seed_of(seed, end, &blow)) else {
                continue;
            };
            *totals.outcomes.entry(outcome.name()).or_default() += 1;
            let kind = (blow.0.first().map(|damage| damage.kind), outcome.name());
            if !outcome.is_sound() && !told.contains(&kind) {
                told.push(kind);
                let finding = Finding { subject, seed, end, blow, outcome };
                found(&finding);
                totals.findings.push(finding);
            }
        }
    }
    totals
}

fn stopped(mut totals: Totals, subject: &Victim, seed: u64, why: &str) -> Totals {
    totals.stopped.push(format!("{subject}, seed {seed}: {why}"));
    totals
}

/// One of so many blows is two at once.
const TWO_EVERY: u64 = 12;

fn blows(chip: &nandex::nand::sim::SimChip, wanted: u32, rng: &mut Rng) -> Vec<Blow> {
    let pages = kinds::programmed(chip);
    if pages.is_empty() {
        return Vec::new();
    }
    if wanted == 0 {
        return every_blow(chip, &pages, rng);
    }
    let mut draw = |number: u32| {
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        kinds::draw(kind, chip, &pages, rng).map(|damage| (damage, rng.chance(1, TWO_EVERY)))
    };
    let mut blows = Vec::new();
    for number in 0..wanted {
        let Some((damage, two)) = draw(number) else { continue };
        let second = if two { draw(number / 3 + 1) } else { None };
        blows.push(Blow([damage].into_iter().chain(second.map(|(damage, _)| damage)).collect()));
    }
    blows
}

fn every_blow(chip: &nandex::nand::sim::SimChip, pages: &[nandex::Ppn], rng: &mut Rng) -> Vec<Blow> {
    let mut blows: Vec<Blow> = Vec::new();
    for page in pages {
        for kind in Kind::ALL {
            let Some(drawn) = kinds::draw(kind, chip, pages, rng) else { continue };
            let at = if kind >= Kind::BlockFlip { chip.part().geometry.block_of(*page).0 } else { page.0 };
            let blow = Blow(vec![Damage { at, ..drawn }]);
            if drawn.other != at && !blows.contains(&blow) {
                blows.push(blow);
            }
        }
    }
    blows
}
