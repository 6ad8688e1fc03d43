//! IPL, dIPL, SBITS and VMTree-OW on chips that are full, dying or damaged: nothing acknowledged is lost, and
//! nothing wrong is returned in silence. Small chips, fixed seeds.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod damages;
mod deaths;
mod harmed;
mod lives;
mod small;

use harmed::Harmed;
use nandex::IndexError;
use nandex::nand::catalogue::nor_2m;
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Part, Timing};
use nandex::ordered::ipl::{IplConfig, IplTree, LogArea};
use nandex::ordered::sbits::{Sbits, SbitsConfig};
use nandex::ordered::vm::overwrite::{OverwriteConfig, OverwriteTree};
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::{NandError, StoreError};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

type Model = BTreeMap<u32, u32>;
type Chip = Harmed;
type Index = Box<dyn OrderedIndex>;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ipl,
    Sbits,
    Overwrite,
}

#[derive(Clone, Copy, Debug)]
enum Setup {
    Ipl(IplConfig),
    Sbits(SbitsConfig),
    Overwrite(OverwriteConfig),
}

/// An index on a small chip.
#[derive(Clone, Debug)]
struct Kind {
    name: &'static str,
    form: Form,
    setup: Setup,
    part: Part,
}

impl Kind {
    fn chip(&self) -> Chip {
        Harmed::new(SimChip::new(&self.part).unwrap())
    }

    fn format(&self, chip: &Chip) -> Result<Index, IndexError> {
        let chip = chip.chip.clone();
        Ok(match &self.setup {
            Setup::Ipl(config) => Box::new(IplTree::format(chip, config)?),
            Setup::Sbits(config) => Box::new(Sbits::format(chip, config)?),
            Setup::Overwrite(config) => Box::new(OverwriteTree::format(chip, config)?),
        })
    }

    fn mount(&self, chip: &Chip) -> Result<Index, IndexError> {
        let chip = chip.chip.clone();
        Ok(match &self.setup {
            Setup::Ipl(config) => Box::new(IplTree::mount(chip, config)?),
            Setup::Sbits(config) => Box::new(Sbits::mount(chip, config)?),
            Setup::Overwrite(config) => Box::new(OverwriteTree::mount(chip, config)?),
        })
    }

    fn class(&self) -> Durability {
        match &self.setup {
            Setup::Ipl(config) => config.durability,
            Setup::Sbits(config) => config.durability,
            Setup::Overwrite(config) => config.durability,
        }
    }
}

fn kinds() -> Vec<Kind> {
    let part = |geometry| Part::new("test", geometry, TIMING);
    let record = RecordFormat::new(4, 4);
    let sbits = |durability| Setup::Sbits(SbitsConfig { durability, ..SbitsConfig::new(record) });
    let (each, sync) = (Durability::EveryOperation, Durability::EverySync);
    let ipl = |name, area, class, geometry| {
        let mut config = IplConfig { durability: class, ..IplConfig::new(record, area) };
        (config.order, config.checkpoint_blocks) = (Some(8), Some(6));
        Kind { name, form: Form::Ipl, setup: Setup::Ipl(config), part: part(geometry) }
    };
    let small = Geometry::new(256, 64, 16, 16);
    let sectors = Geometry { programs_per_page_max: 4, ..Geometry::new(1024, 64, 8, 20) };
    let any_order = Geometry { programs_per_page_max: 4, random_order: true, ..small };
    let nor = |blocks| {
        let mut nor = nor_2m().with_blocks(blocks);
        nor.geometry.page_bytes = 128;
        nor
    };
    Vec::from([
        ipl("dipl", LogArea::Dynamic, each, small),
        ipl("dipl-sync", LogArea::Dynamic, sync, small),
        ipl("ipl", LogArea::Fixed, each, any_order),
        ipl("ipl-sync", LogArea::Fixed, sync, small),
        ipl("ipl-sectors", LogArea::Fixed, each, sectors),
        Kind {
            name: "sbits",
            form: Form::Sbits,
            setup: sbits(each),
            part: part(Geometry::new(256, 16, 8, 14)),
        },
        Kind {
            name: "sbits-sync",
            form: Form::Sbits,
            setup: sbits(sync),
            part: part(Geometry::new(256, 16, 4, 14)),
        },
        Kind {
            name: "vmtree-ow",
            form: Form::Overwrite,
            setup: Setup::Overwrite(OverwriteConfig::new(record)),
            part: nor(20),
        },
        Kind {
            name: "vmtree-ow-log",
            form: Form::Overwrite,
            setup: Setup::Overwrite(OverwriteConfig {
                durability: sync,
                log_pages: 1,
                ..OverwriteConfig::new(record)
            }),
            part: nor(60),
        },
    ])
}

fn contents(index: &mut Index) -> Result<Model, IndexError> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let mut all = Model::new();
    index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
        all.insert(number(key), number(value));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Reads everything twice and checks the invariants.
fn assert_holds(index: &mut Index, model: &Model, what: &str) {
    let report = index.check().unwrap_or_else(|error| panic!("{what}: check: {error}"));
    assert!(report.is_sound(), "{what}: {:?}", report.violations);
    assert_eq!(report.records, model.len() as u64, "{what}");
    assert!(contents(index).unwrap() == *model, "{what}: other contents");
    for (key, expected) in model {
        let mut value = [0; 4];
        assert_eq!(index.get(&key.to_be_bytes(), &mut value), Ok(true), "{what}: {key}");
        assert_eq!(u32::from_be_bytes(value), *expected, "{what}: {key}");
    }
}

fn is_power_loss(error: &IndexError) -> bool {
    *error == IndexError::Store(StoreError::Nand(NandError::PowerLost))
}

/// Whether the operation was refused for want of room.
fn is_refusal(error: &IndexError) -> bool {
    matches!(error, IndexError::Full | IndexError::WornOut)
}

/// The contents that an index should have: now, and after a power cut.
struct Expected {
    class: Durability,
    now: Model,
    /// The states that may be found after a cut.
    states: Vec<Model>,
    /// The next key of an index that takes ascending keys only.
    next: u32,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u32, u32),
    Remove(u32),
    Sync,
    Close,
}

impl Expected {
    fn new(kind: &Kind) -> Expected {
        Expected { class: kind.class(), now: Model::new(), states: Vec::from([Model::new()]), next: 1 }
    }

    /// A random operation; `grow` of 100 are insertions.
    fn draw(&mut self, kind: &Kind, rng: &mut Rng, grow: u64, keys: u64) -> Op {
        let value = rng.next_u64() as u32;
        match rng.below(100) {
            99 => Op::Close,
            90..99 => Op::Sync,
            n if kind.form == Form::Sbits || n < grow * 9 / 10 => {
                Op::Insert(if kind.form == Form::Sbits { self.next } else { rng.below(keys) as u32 }, value)
            }
            _ => {
                let at = rng.below(self.now.len().max(1) as u64) as usize;
                Op::Remove(self.now.keys().nth(at).copied().unwrap_or(0))
            }
        }
    }

    /// Does an operation; what was refused was not done, what a cut struck may have been.
    fn run(&mut self, index: &mut Index, op: Op) -> Result<(), IndexError> {
        let mut next = self.now.clone();
        let result = match op {
            Op::Insert(key, value) => {
                let old = next.insert(key, value);
                let done = index.insert(&key.to_be_bytes(), &value.to_be_bytes());
                done.map(|existed| assert_eq!(existed, old.is_some(), "{op:?}"))
            }
            Op::Remove(key) => {
                let old = next.remove(&key);
                let done = index.remove(&key.to_be_bytes());
                done.map(|existed| assert_eq!(existed, old.is_some(), "{op:?}"))
            }
            Op::Sync => index.sync(),
            Op::Close => index.close(),
        };
        match &result {
            Ok(()) => {
                if self.class == Durability::EveryOperation || matches!(op, Op::Sync | Op::Close) {
                    self.states.clear();
                }
                if let Op::Insert(key, _) = op {
                    self.next = self.next.max(key + 1);
                }
                self.states.push(next.clone());
                self.now = next;
            }
            Err(error) if is_power_loss(error) => self.states.push(next),
            Err(_) => {}
        }
        result
    }

    /// Takes over what a mount found; it must be one of the states that may be found.
    fn settle(&mut self, found: Model, what: &str) {
        if !self.states.contains(&found) {
            let last = self.states.last().unwrap();
            let missing: Vec<_> = last.iter().filter(|(key, value)| found.get(key) != Some(value)).collect();
            let more: Vec<_> = found.iter().filter(|(key, value)| last.get(key) != Some(value)).collect();
            panic!("{what}: none of {} states; missing {missing:?}, other {more:?}", self.states.len());
        }
        self.next = found.keys().next_back().map_or(1, |last| last + 1);
        self.states = Vec::from([found.clone()]);
        self.now = found;
    }
}
