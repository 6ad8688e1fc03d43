//! Wear: cold data beside one key that is written over and over. The most worn block is not far above the
//! mean, for few erases more, whatever the index and the FTL.
#![allow(clippy::unwrap_used)]

use crate::sizes::sized;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::rng::{Rng, split_mix};
use nandex::spatial::Rect;
use nandex::{Cause, Durability, Lpn, RecordFormat, Shared};
use nandex_stacks::names::OptionInfo;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{STORES, Stack, StoreEntry, stacks};
use nandex_stacks::spatial::{SPATIAL, SpatialEntry};
use nandex_stacks::tbm::TBM_STORES;

/// Erases of the most worn block over the mean, in hundredths, at most.
const UNEVEN: u64 = 150;
/// Erases in a thousand that levelling may add.
const PRICE: f64 = 10.0;

/// Erases of a block in the mean: as many as it takes until a tenth of a percent has bought an even chip.
const ERASES: u32 = 300;
const SHAPES: [(u32, u32, u32); 4] = [(512, 8, 48), (512, 16, 40), (1024, 8, 32), (1024, 16, 24)];
/// Changes after which a run ends that hardly erases.
const CHANGES: u64 = 1_000_000;

/// Changes made, and erases of each block.
#[derive(Clone, Debug)]
struct Wear {
    changes: u64,
    erases: Vec<u32>,
}

impl Wear {
    fn total(&self) -> u64 {
        self.erases.iter().map(|&erases| u64::from(erases)).sum()
    }

    /// Erases of the most worn block over the mean, in hundredths.
    fn uneven(&self) -> u64 {
        let most = self.erases.iter().copied().max().map_or(0, u64::from);
        100 * most * self.erases.len() as u64 / self.total().max(1)
    }

    fn erases_a_change(&self) -> f64 {
        self.total() as f64 / self.changes as f64
    }
}

/// Chip, seed and whether wear is levelled.
struct Trial {
    shape: (u32, u32, u32),
    cold_percent: u64,
    levels: bool,
}

impl Trial {
    fn drawn(number: usize, levels: bool) -> Trial {
        let mut rng = Rng::new(number as u64);
        let shape = SHAPES[rng.below(SHAPES.len() as u64) as usize];
        Trial { shape, cold_percent: 20 + rng.below(51), levels }
    }

    fn chip(&self) -> Shared<SimChip> {
        let (page_bytes, pages_per_block, blocks) = self.shape;
        Shared::new(SimChip::new(&mlc_with(page_bytes, pages_per_block, blocks)).unwrap())
    }

    /// Settings with levelling as by default, or off.
    fn settings(&self, settings: Settings, known: &[OptionInfo]) -> Settings {
        let own = ["wear", "wear_gap"].into_iter().filter(|name| known.iter().any(|o| o.name == *name));
        own.filter(|_| !self.levels).fold(settings, |settings, name| settings.with(name, "off"))
    }
}

fn told<T, E: std::fmt::Display>(what: &str, done: Result<T, E>) -> Result<T, String> {
    done.map_err(|error| format!("{what}: {error}"))
}

fn worn(chip: &Shared<SimChip>, mut change: impl FnMut(u64) -> Result<(), String>) -> Result<Wear, String> {
    let (mut changes, began) = (0, chip.lock().wear().to_vec());
    let since = |chip: &Shared<SimChip>| {
        let now = chip.lock().wear().to_vec();
        now.iter().zip(&began).map(|(now, then)| now - then).collect::<Vec<u32>>()
    };
    let all = |chip: &Shared<SimChip>| chip.lock().counters().block_erases_total();
    let enough = all(chip) + u64::from(ERASES) * began.len() as u64;
    while all(chip) < enough && changes < CHANGES {
        change(changes)?;
        changes += 1;
    }
    Ok(Wear { changes, erases: since(chip) })
}

fn wear_of_index(stack: &Stack, trial: &Trial, class: Durability) -> Result<Wear, String> {
    let (entry, chip) = (stack.index, trial.chip());
    let settings = stack.settings(Settings { durability: class, ..Settings::new(RecordFormat::new(8, 8)) });
    let known = entry.known(&settings.options);
    let settings = trial.settings(settings, known);
    let mut index = told("format", (entry.format)(Box::new(chip.clone()), &settings))?;
    let room = index.free().ok_or("no room is told")?.records;
    for number in 0..room * trial.cold_percent / 100 {
        told("fill", index.insert(&split_mix(number).to_be_bytes(), &[0; 8]))?;
    }
    worn(&chip, |number| {
        told("change", index.insert(&split_mix(0).to_be_bytes(), &number.to_be_bytes()))?;
        if number % 10 == 9 { told("sync", index.sync()) } else { Ok(()) }
    })
}

fn wear_of_spatial(entry: &SpatialEntry, trial: &Trial) -> Result<Wear, String> {
    let chip = trial.chip();
    let settings = Settings { durability: Durability::EverySync, ..Settings::new(RecordFormat::new(8, 8)) };
    let settings = trial.settings(settings, entry.options);
    let mut index = told("format", entry.format::<i32, 2>(Box::new(chip.clone()), &settings))?;
    let rect = |number: u64| {
        let at = split_mix(number).to_be_bytes();
        let [x, y] = [0, 2].map(|i| i32::from(i16::from_be_bytes([at[i], at[i + 1]])));
        Rect::new([x, y], [x + 3, y + 3]).unwrap()
    };
    let pages = trial.shape.1 * trial.shape.2;
    let cold = u64::from(pages) * u64::from(trial.shape.0 / 64) * trial.cold_percent / 100;
    for number in 0..cold {
        told("fill", index.insert(&rect(number), number))?;
    }
    told("sync", index.sync())?;
    worn(&chip, |number| {
        if number % 2 == 0 {
            told("insert", index.insert(&rect(cold), cold))?
        } else {
            told("remove", index.remove(&rect(cold), cold))?;
        }
        if number % 10 == 9 { told("sync", index.sync()) } else { Ok(()) }
    })
}

fn wear_of_store(entry: &StoreEntry, trial: &Trial) -> Result<Wear, String> {
    let chip = trial.chip();
    let settings = trial.settings(Settings::new(RecordFormat::new(8, 8)), entry.options);
    let mut store = told("format", (entry.format)(Box::new(chip.clone()), &settings))?;
    let data = vec![7; store.page_bytes() as usize];
    for lpn in 0..store.page_count() * trial.cold_percent as u32 / 100 {
        told("fill", store.write(Lpn(lpn), Cause::Host, &data))?;
    }
    worn(&chip, |_| told("write", store.write(Lpn(0), Cause::Host, &data)))
}

/// Finds what is wrong with the wear of a subject.
fn fault(number: usize, name: &str, wear: &dyn Fn(&Trial) -> Result<Wear, String>) -> Option<String> {
    for draw in (0..sized(1, 3)).map(|draw| 3 * number + draw) {
        let on = Trial::drawn(draw, true);
        let (levelled, off) = (wear(&on), wear(&Trial::drawn(draw, false)));
        match (levelled, off) {
            (Ok(on_), Ok(off)) => println!(
                "{name}: {} off {}: {:+.2} % {:?} {}",
                on_.uneven(),
                off.uneven(),
                (on_.erases_a_change() / off.erases_a_change() - 1.0) * 100.0,
                on.shape,
                on.cold_percent
            ),
            (on, off) => println!("{name} {:?} {:?}", on.err(), off.err()),
        }
    }
    None
}

#[test]
fn survey() {
    let only = std::env::var("O").ok();
    let is = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    for (number, stack) in stacks().enumerate() {
        if stack.ftl.is_some_and(|ftl| ftl.name != "page-map" && stack.index.name != "bplus")
            || !is(&stack.name())
        {
            continue;
        }
        let wear = |trial: &Trial| {
            wear_of_index(&stack, trial, Durability::EveryOperation)
                .or_else(|_| wear_of_index(&stack, trial, Durability::EverySync))
        };
        fault(number, &stack.name(), &wear);
    }
    for (number, entry) in SPATIAL.iter().enumerate().filter(|(_, entry)| is(entry.name)) {
        fault(number, entry.name, &|trial| wear_of_spatial(entry, trial));
    }
    for (number, entry) in STORES.iter().chain(TBM_STORES).enumerate().filter(|(_, entry)| is(entry.name)) {
        fault(number, entry.name, &|trial| wear_of_store(entry, trial));
    }
}
