//! What is damaged: an index on what it stands on, a spatial index, or a store, with settings that follow from the seed.

use crate::LabError;
use crate::crash::{CrashPlan, Target};
use crate::fuzz;
use crate::registry::{Hosting, INDEXES, STORES, Stack, StoreEntry};
use crate::spatial::SPATIAL;
use nandex::IndexError;
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat, Settings};
use std::fmt;

/// A subject.
#[derive(Clone, Copy, Debug)]
pub struct SubjectSpec {
    /// What is tested.
    pub target: Target,
    /// The FTL below; none for a store, and for an index on raw NAND.
    pub ftl: Option<&'static StoreEntry>,
}

impl fmt::Display for SubjectSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target.name())?;
        self.ftl.map_or(Ok(()), |ftl| write!(f, " on {}", ftl.name))
    }
}

/// Slots of every subject.
const SLOTS: u32 = 320;

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
const RECORDS: [(u8, u8); 3] = [(8, 8), (4, 4), (16, 8)];

impl SubjectSpec {
    /// Every index and spatial index over page mapping and over another FTL, which goes round with the seed, and every store.
    pub fn all(seed: u64) -> Vec<SubjectSpec> {
        let mut specs: Vec<SubjectSpec> = STORES.iter().map(SubjectSpec::store).collect();
        let other = |number: usize| &STORES[1 + (seed as usize + number) % (STORES.len() - 1)];
        for (number, entry) in INDEXES.iter().enumerate() {
            let target = Target::Index(entry);
            let ftls = match entry.hosting {
                Hosting::Raw => vec![None],
                Hosting::Store => vec![Some(&STORES[0]), Some(other(number))],
            };
            specs.extend(ftls.into_iter().map(|ftl| SubjectSpec { target, ftl }));
        }
        for (number, entry) in SPATIAL.iter().enumerate() {
            let target = Target::Spatial(entry);
            specs.extend([&STORES[0], other(number)].map(|ftl| SubjectSpec { target, ftl: Some(ftl) }));
        }
        specs
    }

    /// A store by itself.
    pub fn store(entry: &'static StoreEntry) -> SubjectSpec {
        SubjectSpec { target: Target::Store(entry), ftl: None }
    }

    /// The options of a command that name it.
    pub fn flags(&self) -> String {
        let flag = match self.target {
            Target::Index(_) => "index",
            Target::Spatial(_) => "spatial",
            Target::Store(_) => "ftl",
        };
        let on = self.ftl.map_or_else(String::new, |ftl| format!(" --on {}", ftl.name));
        format!("--{flag} {}{on}", self.target.name())
    }

    fn part(&self) -> Part {
        self.target.suited(fuzz::part(512, 16, 32))
    }

    /// Chip and settings: record sizes and the wanted class go round with the seed, and the class is the highest one from there
    /// that the subject takes.
    pub(super) fn plan(&self, seed: u64) -> Result<CrashPlan, LabError> {
        let (key_bytes, value_bytes) = RECORDS[(seed / 2 % 3) as usize];
        let base = Settings::new(RecordFormat::new(key_bytes, value_bytes));
        let wanted = if seed % 4 == 3 { &CLASSES[1..] } else { &CLASSES[..] };
        let mut last = None;
        for &durability in wanted {
            let settings = self.settings(Settings { durability, ..base.clone() });
            let plan = CrashPlan {
                part: self.part(),
                operations: u64::from(SLOTS) * 2,
                slots: SLOTS,
                ..CrashPlan::new(self.target, settings)
            };
            match self.takes(&plan) {
                Ok(()) => return Ok(plan),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| unreachable!("there is a class"), LabError::from))
    }

    fn settings(&self, settings: Settings) -> Settings {
        match (self.target, self.ftl) {
            (Target::Index(index), ftl) => Stack { index, ftl }.settings(settings),
            (_, Some(ftl)) => settings.with("ftl", ftl.name),
            _ => settings,
        }
    }

    fn takes(&self, plan: &CrashPlan) -> Result<(), IndexError> {
        let chip = SimChip::new(&plan.part).unwrap_or_else(|error| panic!("the part of the test: {error}"));
        let chip = std::rc::Rc::new(std::cell::RefCell::new(chip));
        crate::crash::subject::Subject::format(plan, &chip).map(drop)
    }
}
