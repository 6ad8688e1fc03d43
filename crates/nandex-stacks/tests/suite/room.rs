//! Room that is told: by every index, never more than what then goes in, and never more than the index can
//! hold at all, on drawn chips, with records of several sizes. A nearly empty index tells much of what goes
//! in. A refusal names the limit that was met.
#![allow(clippy::unwrap_used)]

use crate::sizes::{sized, stride};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{Geometry, IndexError, Limit, OrderedIndex};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry, index};
use std::panic::catch_unwind;

const PAGES: [u32; 4] = [512, 1024, 2048, 4096];
const RECORDS: [[u8; 2]; 6] = [[4, 8], [8, 8], [16, 16], [8, 40], [30, 4], [4, 100]];
const SEEDS: [u64; 2] = [11, 12];
/// Per mille of the records that are removed before each filling but the first.
const REMOVED: [u64; 3] = [100, 500, 900];
/// Most bytes of a chip, if that is more than the fewest blocks.
const CHIP_BYTES: u32 = 128 << 10;
const BLOCKS_LEAST: u32 = 24;
/// Records by which each figure may be wrong: that of a few leaves where there are only few.
const FEW: u64 = 8;
/// Random keys reach this part of `records_max` at least: nodes are two thirds full, on each level where the
/// height ends, and collection of garbage, journals and buffers take their share of the pages.
const PART: u64 = 8;
/// Part of what then goes in that is told at least while few records are there, and so few are this part of
/// the first filling.
const TOLD_PART: u64 = 12;
const FIRST_PART: u64 = 8;

/// Records that were there when so many more were told to fit.
type Told = (u64, u64);

struct Life {
    index: Box<dyn OrderedIndex>,
    keys: Vec<Vec<u8>>,
    rng: Rng,
    /// Number of the last key, if keys ascend.
    last: Option<u64>,
}

impl Life {
    fn format(
        entry: &IndexEntry,
        geometry: Geometry,
        record: [u8; 2],
        seed: u64,
    ) -> Result<Life, IndexError> {
        let part = entry.suited(Part { geometry, ..catalogue::mlc_64m() });
        let record = RecordFormat::new(record[0], record[1]);
        let settings = Settings { durability: Durability::EveryOperation, ..Settings::new(record) };
        let index = (entry.format)(Box::new(SimChip::new(&part).unwrap()), &settings)?;
        let last = (!entry.takes_any_key()).then_some(0);
        Ok(Life { index, keys: Vec::new(), rng: Rng::new(seed), last })
    }

    fn bytes(&mut self, bytes: u8) -> Vec<u8> {
        (0..bytes).map(|_| self.rng.below(256) as u8).collect()
    }

    fn key(&mut self) -> Vec<u8> {
        let mut key = self.bytes(self.index.record().key_bytes);
        if let Some(last) = &mut self.last {
            *last += 1;
            let number = last.to_le_bytes();
            key.iter_mut().rev().enumerate().for_each(|(at, byte)| *byte = *number.get(at).unwrap_or(&0));
        }
        key
    }

    fn told(&self) -> Result<Told, String> {
        let room = self.index.free().ok_or("free is not told")?;
        Ok((self.keys.len() as u64, room.records))
    }

    /// Inserts until a key is refused. Returns the limit, and what was told on the way.
    fn fill(&mut self) -> Result<(Limit, Vec<Told>), String> {
        let (mut told, mut next) = (Vec::new(), 0);
        loop {
            if self.keys.len() >= next {
                next = self.keys.len() * 9 / 8 + 1;
                told.push(self.told()?);
            }
            let (key, value) = (self.key(), self.bytes(self.index.record().value_bytes));
            match self.index.insert(&key, &value) {
                Ok(false) => self.keys.push(key),
                Ok(true) => {}
                Err(IndexError::Full(limit)) => {
                    told.push(self.told()?);
                    return Ok((limit, told));
                }
                Err(error) => return Err(format!("insert: {error}")),
            }
        }
    }

    fn remove(&mut self, per_mille: u64) -> Result<(), String> {
        for at in (0..self.keys.len()).rev() {
            if self.rng.below(1000) < per_mille {
                let key = self.keys.swap_remove(at);
                self.index.remove(&key).map_err(|error| format!("remove: {error}"))?;
            }
        }
        Ok(())
    }

    /// Fills the index and checks what was told on the way.
    fn fill_and_check(&mut self) -> Result<Limit, String> {
        let is_first = self.keys.is_empty();
        let (limit, told) = self.fill()?;
        let total = self.keys.len() as u64;
        for (at, records) in told {
            let went_in = total - at;
            let least = if is_first && at * FIRST_PART <= total { went_in / TOLD_PART } else { 0 };
            if records > went_in * 11 / 10 + FEW || records + FEW < least {
                return Err(format!("{records} told at {at}, {went_in} went in"));
            }
        }
        Ok(limit)
    }

    fn run(&mut self) -> Result<(), String> {
        let most = self.index.records_max().ok_or("records_max is not told")?;
        let limit = self.fill_and_check()?;
        let total = self.keys.len() as u64;
        if !((most / PART).saturating_sub(FEW)..=most).contains(&total) {
            return Err(format!("{total} records by {limit:?}, records_max tells {most}"));
        }
        let removed = if self.last.is_none() { &REMOVED[..] } else { &[] };
        for &per_mille in removed {
            self.remove(per_mille)?;
            self.fill_and_check().map_err(|fault| format!("{per_mille} per mille removed: {fault}"))?;
        }
        if self.index.records_max() == Some(most) { Ok(()) } else { Err("records_max changed".into()) }
    }
}

/// Draws a chip with pages of this size. In larger pages a block has few.
fn drawn(page_bytes: u32, seed: u64) -> Geometry {
    let mut rng = Rng::new(seed);
    let pages_per_block = if page_bytes > 1024 { 8 } else { 8 << rng.below(2) };
    let blocks = (CHIP_BYTES / page_bytes / pages_per_block).max(BLOCKS_LEAST) + rng.below(16) as u32;
    Geometry::new(page_bytes, 64, pages_per_block, blocks)
}

fn run(entry: &IndexEntry, page_bytes: u32, record: [u8; 2], seed: u64) -> Result<(), String> {
    let seed = seed * 1000 + u64::from(page_bytes) + u64::from(record[1]);
    match Life::format(entry, drawn(page_bytes, seed), record, seed) {
        Ok(mut life) => life.run(),
        Err(error) if error.is_unsupported() => Ok(()),
        Err(error) => Err(format!("format: {error}")),
    }
}

#[test]
fn room_that_is_told_is_there() {
    let pairs = PAGES.into_iter().flat_map(|page| RECORDS.map(|record| (page, record)));
    // In the gate two pairs for each index, in turn, of those with few records in a page.
    let few = |&(page, [key, value]): &(u32, [u8; 2])| page / u32::from(key + value) <= sized(64, u32::MAX);
    let pairs: Vec<_> = pairs.filter(few).collect();
    let mut faults = Vec::new();
    for (number, entry) in INDEXES.iter().enumerate() {
        for (page, record) in pairs.iter().copied().skip(number % stride(9)).step_by(stride(9)) {
            for seed in SEEDS.into_iter().take(sized(1, SEEDS.len())) {
                let place = format!("{} on pages of {page}, {record:?}, seed {seed}", entry.name);
                println!("{place}");
                let done = catch_unwind(|| run(entry, page, record, seed)).unwrap_or(Err("a panic".into()));
                faults.extend(done.err().map(|fault| format!("{place}: {fault}")));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_tree_that_cannot_get_higher_tells_it() {
    // Without spare bytes, part of the page is lent. More blocks change nothing.
    for (spare_bytes, blocks) in [(16, 1024), (1, 1024), (1, 64)] {
        let geometry = Geometry::new(512, spare_bytes, 32, blocks);
        let mut life = Life::format(index("mu").unwrap(), geometry, [8, 8], SEEDS[0]).unwrap();
        let most = life.index.records_max().unwrap();
        assert!((1000..5000).contains(&most), "{most} records on {geometry:?}");
        for per_mille in [0, 500, 900] {
            life.remove(per_mille).unwrap();
            assert_eq!(life.fill_and_check(), Ok(Limit::Height), "{geometry:?}");
            assert!(life.keys.len() as u64 <= most);
        }
    }
}
