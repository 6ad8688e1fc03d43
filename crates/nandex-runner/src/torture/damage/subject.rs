//! The subject of damage, with chip and settings that follow from the seed.

use crate::LabError;
use crate::crash::subject::Subject;
use crate::crash::{CrashPlan, Target};
use crate::registry::{Holds, Hosting, INDEXES, STORES, StoreEntry, WRAPPERS};
use crate::spatial::SPATIAL;
use crate::torture::Victim;
use nandex::IndexError;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::Settings;

/// Number of slots of every subject.
pub(super) const SLOTS: u32 = 320;

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
const RECORDS: [(u8, u8); 3] = [(8, 8), (4, 4), (16, 8)];

/// All victims of one round: every store, index, spatial index and store of long values. Those that need an
/// FTL are tried on page mapping and on another FTL, which changes with the seed.
pub fn every_victim(seed: u64) -> Vec<Victim> {
    let mut victims: Vec<Victim> =
        STORES.iter().map(|entry| Victim { target: Target::Store(entry), ftl: None }).collect();
    let targets = INDEXES.iter().map(Target::Index).chain(SPATIAL.iter().map(Target::Spatial));
    let targets = targets.chain(WRAPPERS.iter().map(Target::Index));
    for (number, target) in targets.enumerate() {
        // Values in pieces need batches.
        let needs_batches = target.holds() != Some(Holds::Records);
        let others: Vec<&'static StoreEntry> =
            STORES[1..].iter().filter(|store| store.is_atomic || !needs_batches).collect();
        let other = others[(seed as usize + number) % others.len()];
        victims.push(on_page_mapping(Victim { target, ftl: None }));
        if !is_raw(target) {
            victims.push(Victim { target, ftl: Some(other) });
        }
    }
    victims
}

fn is_raw(target: Target) -> bool {
    matches!(target, Target::Index(entry) if entry.hosting == Hosting::Raw)
}

/// Puts the victim on page mapping if it needs an FTL and names none.
pub(super) fn on_page_mapping(victim: Victim) -> Victim {
    let needs = !is_raw(victim.target) && !matches!(victim.target, Target::Store(_));
    let page_map: &'static StoreEntry = &STORES[0];
    Victim { ftl: victim.ftl.or(needs.then_some(page_map)), ..victim }
}

/// The chip and the settings of a victim. Record sizes and the wanted class change with the seed. The class
/// is the strongest that the victim takes, from the wanted one downwards; without any, this is an error.
pub(super) fn plan(victim: Victim, seed: u64) -> Result<CrashPlan, LabError> {
    let (key_bytes, value_bytes) = RECORDS[(seed / 2 % 3) as usize];
    let base = Settings::new(RecordFormat::new(key_bytes, value_bytes));
    let wanted = if seed % 4 == 3 { &CLASSES[1..] } else { &CLASSES[..] };
    // So small that a short log has many pages, and so many blocks that it gives none up.
    let part = match victim.target.holds() {
        Some(Holds::Readings) => mlc_with(128, 8, 64),
        _ => mlc_with(512, 16, 32),
    };
    let mut last = None;
    for &durability in wanted {
        let settings = victim.on(victim.ftl, Settings { durability, ..base.clone() });
        let plan = CrashPlan {
            part: victim.target.suited(part.clone()),
            slots: SLOTS,
            ..CrashPlan::new(victim.target, settings)
        };
        match takes(&plan) {
            Ok(()) => return Ok(plan),
            Err(error) if error.is_unsupported() => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.map_or_else(|| unreachable!("there is a class"), LabError::from))
}

fn takes(plan: &CrashPlan) -> Result<(), IndexError> {
    let chip = SimChip::new(&plan.part).unwrap_or_else(|error| panic!("the part of the test: {error}"));
    Subject::format(plan.target, &plan.settings, Box::new(chip)).map(drop)
}
