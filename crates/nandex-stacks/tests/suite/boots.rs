//! Boots of every ordered index, counted in page reads: a mount after a close reads no more than one after a
//! cut, and the first change after it walks over no tree. On two chips, nearly empty, half full, nearly full
//! and churned; in the gate each index on each chip in one of these ways, in turn, trees on the log in all on
//! one of them.
#![allow(clippy::unwrap_used)]

use crate::sizes::stride;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::rng::split_mix;
use nandex::{Durability, OrderedIndex, RecordFormat, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, IndexEntry};

/// Bytes of a page, pages of a block, and blocks.
const SHAPES: [(u32, u32, u32); 2] = [(512, 16, 32), (1024, 16, 24)];
const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
const RECORD: RecordFormat = RecordFormat::new(8, 8);
/// Most records of a first filling.
const RECORDS_MAX: u64 = 20_000;

/// Trees on the log, which keep both bounds in every case, after a cut too.
const ON_LOG: [&str; 4] = ["mu", "mu-star", "wandering", "vmtree"];
/// Trees that find their nodes again by a pass over the blocks in use.
const LOGGED_IN_PAGES: [&str; 2] = ["ipl", "dipl"];
/// Reads of each block by which they guess what was committed, before they read each page once.
const GUESS_READS: u32 = 8;
/// Reads by which a mount after a close may exceed one after a cut: pages of the checkpoint.
const MORE_READS: u64 = 16;
/// Most reads of the first change after a mount.
const FIRST_READS: u64 = 200;

/// How an index was used before the boot.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// Filled to this share of the first filling, in percent.
    Filled(u64),
    /// Half filled, and then every record changed or replaced twice.
    Churned,
}

const USES: [Use; 4] = [Use::Filled(5), Use::Filled(50), Use::Filled(95), Use::Churned];

type Chip = Shared<SimChip>;

/// An index on one of the chips.
struct Case {
    entry: &'static IndexEntry,
    settings: Settings,
    shape: (u32, u32, u32),
}

/// Page reads of a boot.
#[derive(Debug)]
struct Boot {
    cut: Option<u64>,
    closed: u64,
    first_cut: Option<u64>,
    first: u64,
}

impl Case {
    /// The case with the strongest class that the index keeps on this chip; `None` if it refuses the chip.
    fn new(entry: &'static IndexEntry, shape: (u32, u32, u32)) -> Option<Case> {
        let cases = CLASSES.map(|durability| Case {
            entry,
            settings: Settings { durability, ..Settings::new(RECORD) },
            shape,
        });
        cases.into_iter().find(|case| case.format().is_some())
    }

    fn format(&self) -> Option<(Chip, Box<dyn OrderedIndex>)> {
        let (page_bytes, pages, blocks) = self.shape;
        let chip = Shared::new(SimChip::new(&self.entry.suited(mlc_with(page_bytes, pages, blocks))).ok()?);
        let index = (self.entry.format)(Box::new(chip.clone()), &self.settings).ok()?;
        Some((chip, index))
    }

    /// Key of a number: all over the keys, or ascending where an index takes no others.
    fn key(&self, number: u64) -> [u8; 8] {
        if self.entry.name == "sbits" { number.to_be_bytes() } else { split_mix(number).to_be_bytes() }
    }

    fn put(&self, index: &mut dyn OrderedIndex, number: u64) -> bool {
        index.insert(&self.key(number), &number.to_be_bytes()).is_ok()
    }

    /// Number of records of a first filling.
    fn first_filling(&self) -> u64 {
        let (_, mut index) = self.format().unwrap();
        (0..RECORDS_MAX).find(|&number| !self.put(&mut *index, number)).unwrap_or(RECORDS_MAX)
    }

    /// A chip with an index that was used, and the index.
    fn used(&self, how: Use, full: u64) -> (Chip, Box<dyn OrderedIndex>, u64) {
        let (chip, mut index) = self.format().unwrap();
        let percent = if let Use::Filled(percent) = how { percent } else { 50 };
        let mut end = (full * percent / 100).max(1);
        for number in 0..end {
            assert!(self.put(&mut *index, number), "{} at {number} of {full}", self.entry.name);
        }
        if matches!(how, Use::Churned) && self.entry.name != "sbits" {
            let records = end;
            for at in 0..2 * records {
                if at % 2 == 0 {
                    self.put(&mut *index, split_mix(at) % records);
                } else if index.remove(&self.key(end - records)).is_ok() {
                    self.put(&mut *index, end);
                    end += 1;
                }
            }
        }
        (chip, index, end)
    }

    /// Reads of a mount, and of the first change after it, which a full index may refuse. `None` if the mount
    /// is refused.
    fn boot(&self, chip: &Chip, newest: u64) -> Option<(u64, u64)> {
        let reads = |chip: &Chip| chip.lock().counters().page_reads_total();
        let before = reads(chip);
        let mut index = (self.entry.mount)(Box::new(chip.clone()), &self.settings).ok()?;
        let mounted = reads(chip);
        let number = if self.entry.name == "sbits" { newest } else { newest - 1 };
        self.put(&mut *index, number);
        Some((mounted - before, reads(chip) - mounted))
    }

    fn boots(&self, how: Use, full: u64) -> Boot {
        let (chip, mut index, newest) = self.used(how, full);
        let left = Shared::new(chip.lock().clone());
        index.close().unwrap();
        drop(index);
        let cut = self.boot(&left, newest);
        let (closed, first) = self.boot(&chip, newest).unwrap();
        Boot { cut: cut.map(|boot| boot.0), closed, first_cut: cut.map(|boot| boot.1), first }
    }
}

/// The fault of a boot of an index on a chip of this shape.
fn fault(entry: &IndexEntry, (_, pages, blocks): (u32, u32, u32), boot: &Boot) -> Option<&'static str> {
    let most = u64::from(2 * blocks + pages) + MORE_READS;
    let is_on_log = ON_LOG.contains(&entry.name);
    if boot.cut.is_some_and(|cut| boot.closed > cut + MORE_READS) {
        Some("a close costs the next mount reads")
    } else if boot.first > FIRST_READS || is_on_log && boot.first_cut.is_none_or(|reads| reads > FIRST_READS)
    {
        Some("the first change reads much")
    } else if is_on_log && boot.closed > most {
        Some("a mount reads more than two pages a block")
    } else if LOGGED_IN_PAGES.contains(&entry.name)
        && boot.cut.is_none_or(|cut| cut > u64::from((pages + GUESS_READS) * blocks))
    {
        Some("a mount after a cut reads pages twice")
    } else {
        None
    }
}

#[test]
fn a_close_makes_no_boot_dearer_and_the_first_change_is_cheap() {
    let (mut faults, step) = (Vec::new(), stride(USES.len()));
    for (number, entry) in INDEXES.iter().enumerate() {
        for (turn, shape) in SHAPES.into_iter().enumerate() {
            let Some(case) = Case::new(entry, shape) else { continue };
            let step = if turn == 0 && ON_LOG.contains(&entry.name) { 1 } else { step };
            let full = case.first_filling();
            for how in USES.into_iter().skip((number + 2 * turn) % step).step_by(step) {
                let boot = case.boots(how, full);
                let what = format!("{} on {shape:?}, {how:?} of {full}: {boot:?}", entry.name);
                println!("{what}");
                faults.extend(fault(entry, shape, &boot).map(|fault| format!("{fault}: {what}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
