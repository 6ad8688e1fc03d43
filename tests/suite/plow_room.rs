//! plow with values in pieces on small chips beneath FTLs, cut and mounted again and again: what a chip held
//! once it holds again, whatever became of it meanwhile.

#![allow(clippy::unwrap_used)]

use crate::inputs::sized;
use nandex::ftl::dftl::{DftlConfig, DftlFtl};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::variable::Variable;
use nandex::rng::Rng;
use nandex::store::store_nand::StoreNand;
use nandex::{Durability, IndexError, Nand, PageStore, Plow, PlowConfig, RecordFormat, Shared, StoreError};
use std::collections::BTreeMap;

type Chip = Shared<SimChip>;
type Index = Variable<Plow<Box<dyn Nand>>>;

/// Formats or mounts what lies below the index on a chip.
type Opening = fn(Chip, u32, bool) -> Result<Box<dyn Nand>, StoreError>;

/// Pages of an FTL as a chip.
struct Kind {
    name: &'static str,
    open: Opening,
}

fn shown(store: impl PageStore + 'static, pages_per_block: u32) -> Result<Box<dyn Nand>, StoreError> {
    Ok(Box::new(StoreNand::new(store, pages_per_block, 63)?))
}

const KINDS: [Kind; 3] = [
    Kind { name: "raw", open: |chip, _, _| Ok(Box::new(chip)) },
    Kind {
        name: "page-map",
        open: |chip, pages, is_new| {
            let open = if is_new { PageMapFtl::format } else { PageMapFtl::mount };
            shown(open(chip, &FtlConfig::default())?, pages)
        },
    },
    Kind {
        name: "dftl",
        open: |chip, pages, is_new| {
            let open = if is_new { DftlFtl::format } else { DftlFtl::mount };
            shown(open(chip, &DftlConfig::default())?, pages)
        },
    },
];

/// Fewer records than a part of those held before are a leak.
const PART: usize = 3;
/// Lives drawn of each kind, fewer in the gate; some others were full with a fifth of what they had held.
const SEEDS: u64 = 8;
const FOUND: [u64; 2] = [31, 44];
const SLOTS: u64 = 3_000;
const ROUNDS: u64 = 8;

struct Life<'a> {
    kind: &'a Kind,
    chip: Chip,
    pages_per_block: u32,
    config: PlowConfig,
    most: usize,
    rng: Rng,
    index: Index,
    model: BTreeMap<[u8; 8], Vec<u8>>,
    what: String,
}

impl Life<'_> {
    fn begin(kind: &Kind, seed: u64) -> Option<Life<'_>> {
        let mut rng = Rng::new(seed);
        let pages_per_block = [4, 8, 8][rng.below(3) as usize];
        let blocks = if kind.name == "raw" { 8 + rng.below(4) } else { 16 + rng.below(10) } as u32;
        let value = [20, 44, 60][rng.below(3) as usize];
        let pieces = 1 + rng.below(4) as usize;
        let record = RecordFormat::variable([8, 16, 24][rng.below(3) as usize], value);
        let part = mlc_with(512, pages_per_block, blocks);
        let config = PlowConfig { durability: Durability::EveryOperation, ..PlowConfig::new(record) };
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let opened = Plow::format((kind.open)(chip.clone(), pages_per_block, true).ok()?, &config).ok()?;
        let most = pieces * usize::from(value) - 2;
        let index = Variable::new(opened, most).ok()?;
        let what = format!("{} seed {seed}: {pages_per_block} x {blocks}, {record:?}, {most}", kind.name);
        Some(Life { kind, chip, pages_per_block, config, most, rng, index, model: BTreeMap::new(), what })
    }

    /// A mount of the chip, whatever happened to it.
    fn mount(&mut self) {
        self.chip.lock().power_on();
        let chip = (self.kind.open)(self.chip.clone(), self.pages_per_block, false).unwrap();
        let opened = Plow::mount(chip, &self.config).unwrap_or_else(|error| panic!("{}: {error}", self.what));
        self.index = Variable::new(opened, self.most).unwrap();
        for (key, value) in &self.model {
            let found = self.index.get(key).unwrap();
            assert_eq!(found.as_ref(), Some(value), "{}: a record is lost", self.what);
        }
    }

    /// A change, the power being cut in it now and then; whether it was taken.
    fn change(&mut self, key: [u8; 8], value: Option<Vec<u8>>) -> bool {
        if self.rng.chance(1, 60) {
            let at_operation = self.chip.lock().operations() + self.rng.below(12);
            let when = [CutWhen::Before, CutWhen::Inside, CutWhen::After][self.rng.below(3) as usize];
            let torn = TornModel::ALL[self.rng.below(TornModel::ALL.len() as u64) as usize];
            let seed = self.rng.next_u64();
            self.chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed });
        }
        let done = match &value {
            Some(value) => self.index.put(&key, value),
            None => self.index.remove(&key).map(drop),
        };
        if self.chip.lock().is_powered() {
            return match done {
                Ok(()) => {
                    match value {
                        Some(value) => self.model.insert(key, value),
                        None => self.model.remove(&key),
                    };
                    true
                }
                Err(IndexError::Full(_)) => false,
                Err(error) => panic!("{}: {error}", self.what),
            };
        }
        // What was cut may have been done.
        let before = self.model.remove(&key);
        self.mount();
        let found = self.index.get(&key).unwrap();
        assert!(found == before || found == value, "{}: torn", self.what);
        if let Some(found) = found {
            self.model.insert(key, found);
        }
        true
    }

    fn value(&mut self) -> Vec<u8> {
        vec![self.rng.below(256) as u8; 1 + self.rng.below(self.most as u64) as usize]
    }

    /// Fills, and takes most away, again and again; what is wrong.
    fn live(&mut self) -> Option<String> {
        let mut held = 0;
        for round in 0..ROUNDS {
            let mut vain = 0;
            while vain < 3 {
                let key = self.rng.below(SLOTS).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                let value = self.value();
                vain = if self.change(key, Some(value)) { 0 } else { vain + 1 };
                if vain > 0 && (self.model.len() + 2) * PART < held {
                    let now = self.model.len();
                    return Some(format!("{}: full with {now} in round {round}, {held} before", self.what));
                }
            }
            held = held.max(self.model.len());
            let left = self.rng.below(6) as usize;
            while self.model.len() > left {
                let at = self.rng.below(self.model.len() as u64) as usize;
                let key = *self.model.keys().nth(at).unwrap();
                assert!(self.change(key, None), "{}: a removal is refused", self.what);
                if self.rng.chance(1, 30) {
                    self.mount();
                }
            }
        }
        None
    }
}

#[test]
fn a_chip_holds_again_what_it_held() {
    let (mut wrong, seeds) = (Vec::new(), sized(3, SEEDS));
    for kind in &KINDS {
        let mut lived = 0;
        for seed in (0..seeds).chain(FOUND) {
            let Some(mut life) = Life::begin(kind, seed) else { continue };
            lived += 1;
            wrong.extend(life.live());
        }
        assert!(lived > seeds / 3, "{}: {lived} lived", kind.name);
    }
    assert!(wrong.is_empty(), "{}\n{} are wrong", wrong.join("\n"), wrong.len());
}
